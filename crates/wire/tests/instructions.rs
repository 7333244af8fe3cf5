//! Instructions of one message: written, sent, received and read.

use bytes::Bytes;
use std::ops::RangeInclusive;
use std::time::Duration;
use types::{EntityName, Epoch, OsdId, PgId, PoolId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OsdOp};
use wire::msgr::{Config, ConnId, Messenger, Output, Policy, SessionId};
use wire::{EntityAddrVec, Envelope, Message, Rope, Target};

// Bounds are of the profile of tests, on x86-64.
const WRITE: RangeInclusive<u64> = 23_000..=29_600;

const BLOCK: usize = 4096;
const NOW: Duration = Duration::from_secs(1);

fn addrs(number: u8) -> EntityAddrVec {
    EntityAddrVec::msgr2(([10, 0, 0, number], 6800).into(), 7)
}

/// Two OSDs that are joined by one stream. Each is known by its connection and, once it stands, by its session.
struct Pair {
    ends: [Messenger; 2],
    conns: [Option<ConnId>; 2],
    sessions: [Option<SessionId>; 2],
    received: Vec<Envelope>,
}

impl Pair {
    fn new() -> Pair {
        let end = |number: u8| Messenger::new(Config::osd(OsdId(i32::from(number)), addrs(number), 1 << number));
        let mut pair = Pair { ends: [end(0), end(1)], conns: [None; 2], sessions: [None; 2], received: Vec::new() };
        pair.ends[0].connect(EntityName::osd(OsdId(1)), &addrs(1), Policy::LOSSLESS_PEER, NOW);
        while pair.pass_on(0) | pair.pass_on(1) {}
        pair
    }

    /// Does what one messenger asks for. Returns false if that was nothing.
    fn pass_on(&mut self, from: usize) -> bool {
        let to = 1 - from;
        let (mut any, mut stream) = (false, Vec::with_capacity(2 * BLOCK));
        while let Some(output) = self.ends[from].poll() {
            any = true;
            match output {
                Output::Connect { conn, .. } => {
                    self.conns = [Some(conn), Some(ConnId(2))];
                    self.ends[to].accepted(ConnId(2), ([10, 0, 0, 0], 30_000).into(), NOW);
                    self.ends[from].connected(conn, NOW);
                }
                Output::Transmit { data, .. } => data.pieces().for_each(|piece| stream.extend_from_slice(piece)),
                Output::Opened { session, .. } => self.sessions[from] = Some(session),
                Output::Message { envelope, .. } => self.received.push(envelope),
                other => panic!("{other:?}"),
            }
        }
        let mut rest = &stream[..];
        while !rest.is_empty() {
            let taken = self.ends[to].received(self.conns[to].expect("a stream"), rest, NOW);
            assert!(taken > 0, "small messages are taken whole");
            rest = &rest[taken..];
            self.ends[to].answer_unproven(NOW);
        }
        any
    }
}

fn write_of_a_block(tid: u64, data: &Bytes) -> Envelope {
    let pgid = SPgId { pg: PgId::new(1, 7), shard: NO_SHARD };
    let name = Bytes::from_static(b"rbd_data.10226b8b4567.0000000000000010");
    let ops = vec![Op::write(tid % 1024 * BLOCK as u64, Rope::from(data.clone()))];
    OsdOp::new(pgid, 7, Epoch(9), Locator::pool(PoolId(1)), name, ops).seal(tid, Target::default())
}

#[test]
fn a_write_of_a_block_as_a_message() {
    counted::per_operation("a_write_of_a_block_as_a_message", WRITE, |operations| {
        let mut pair = Pair::new();
        let session = pair.sessions[0].expect("it stands");
        let data = Bytes::from(vec![7; BLOCK]);
        for tid in 0..operations {
            pair.ends[0].send(session, write_of_a_block(tid, &data));
            while pair.pass_on(0) | pair.pass_on(1) {}
            let envelope = pair.received.pop().expect("the message came");
            let op = OsdOp::open(&envelope).expect("well-formed");
            assert_eq!((envelope.header.tid, op.input_bytes(), pair.received.len()), (tid, BLOCK, 0));
        }
    });
}

//! Room that objects of erasure-coded pools take on drives.

use super::cluster::{Cluster, POOL};
use super::healing;
use crate::ops::Limits;
use bytes::Bytes;
use std::time::Duration;
use store::Step;
use types::{Epoch, ObjectId, OsdId};
use wire::messages::Op;
use wire::msgr::SessionId;

const A: OsdId = OsdId(0);
const OSDS: i32 = 6;
const BLOCK: u64 = 4096;

/// Returns the bytes of blocks that all stores have given to objects.
fn taken(cluster: &mut Cluster) -> u64 {
    cluster.put_on_devices();
    (0..OSDS).map(|osd| cluster.store(OsdId(osd)).usage().data_bytes).sum()
}

fn write(cluster: &mut Cluster, session: SessionId, tid: u64, op: Op) {
    cluster.ask_of(A, session, tid, Epoch(1), 0, (7 + tid as u32, b"object"), op);
    cluster.settle();
    assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())]);
    // Members are told meanwhile that the update will stay.
    cluster.pass(Duration::from_secs(2));
}

fn bytes(len: u64) -> Bytes {
    (0..len as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 | 1).collect::<Vec<u8>>().into()
}

/// Prints the table of docs/erasure-coding.md.
#[test]
fn an_object_takes_the_blocks_that_its_bytes_are_in_and_those_of_their_parity() {
    let mut cluster = Cluster::coded_large(5, Limits::default());
    let session = cluster.connect(A);
    let sizes = [1, 512, 1536, 2048, 4096, 5000, 8192, 16_384, 20_480, 65_536, 262_144, 1 << 20, 4 << 20];
    for (tid, size) in (0..).zip(sizes) {
        let before = taken(&mut cluster);
        write(&mut cluster, session, tid, Op::write_full(bytes(size)));
        let took = taken(&mut cluster) - before;
        let longest = size / 16_384 * BLOCK + (size % 16_384).min(BLOCK);
        let in_blocks = |bytes: u64| if bytes <= 1536 { 0 } else { bytes.div_ceil(BLOCK) };
        let (whole, rest) = (size / 16_384 * BLOCK, size % 16_384);
        let of_data: u64 = (0..4).map(|shard| in_blocks(whole + rest.saturating_sub(shard * BLOCK).min(BLOCK))).sum();
        assert_eq!(took, (of_data + 2 * in_blocks(longest)) * BLOCK, "an object of {size} bytes");
        println!("| {size} | {took} | {:.2} |", took as f64 / size as f64);
        assert!(size > BLOCK || took <= 3 * BLOCK);
    }
}

#[test]
fn a_shard_that_is_computed_anew_takes_no_more() {
    let mut cluster = Cluster::coded_large(5, Limits::default());
    let session = cluster.connect(A);
    write(&mut cluster, session, 0, Op::write_full(bytes(4096)));
    write(&mut cluster, session, 1, Op::write_full(bytes(700)));
    let before = taken(&mut cluster);
    assert_eq!(before, 3 * BLOCK);
    // All shards are lost one after the other.
    for osd in (0..OSDS).map(OsdId) {
        for hash in [7, 8] {
            let object = ObjectId::head(POOL.of_shard(osd.0 as u8), hash, b"", b"object");
            let pg = types::PgId { pool: object.pool, ..super::cluster::PG };
            let steps = vec![Step::Remove { object }];
            cluster.store(osd).submit(store::Transaction { pg, steps }).expect("it can be stored");
        }
        cluster.turn(osd);
        cluster.settle();
        super::digests::scrub(&mut cluster, true, true);
        healing::heal(&mut cluster);
        cluster.pass(Duration::from_secs(2));
        assert_eq!(taken(&mut cluster), before, "{osd}");
    }
}

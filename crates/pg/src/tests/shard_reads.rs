//! Requests to shards by a read of several, and its ways where one is late or bad.

use super::cluster::{Cluster, POOL};
use crate::Tuning;
use crate::messages::PeerKind;
use crate::messages::coded::ShardRead;
use crate::ops::Limits;
use bytes::Bytes;
use std::time::Duration;
use types::{Epoch, ObjectId, OsdId};
use wire::Message;
use wire::messages::Op;
use wire::msgr::SessionId;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const OBJECT: (u32, &[u8]) = (9, b"object");
const UNIT: usize = 4096;

/// Bytes of which no two blocks are alike.
fn content(bytes: usize) -> String {
    (0..bytes).map(|at| char::from(b'!' + ((at / UNIT * 31 + at % 89) % 90) as u8)).collect()
}

/// Makes the object in a cluster whose primary, A, holds leases for some time.
fn written(mut cluster: Cluster, bytes: usize) -> (Cluster, SessionId) {
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 0, Epoch(1), 0, OBJECT, Op::write_full(Bytes::from(content(bytes))));
    cluster.settle();
    assert_eq!(cluster.answers_to(0), [(session, 0, String::new())]);
    cluster.pass(Duration::from_secs(2));
    cluster.put_on_devices();
    cluster.ask_of(A, session, 1, Epoch(1), 0, (1, b"absent"), Op::read(0, 0));
    cluster.settle();
    (cluster, session)
}

/// Asks for some units of the object, from the `from`th on.
fn ask(cluster: &mut Cluster, session: SessionId, tid: u64, (from, units): (usize, usize)) {
    let (offset, len) = ((from * UNIT) as u64, (units * UNIT) as u64);
    cluster.ask_of(A, session, tid, Epoch(1), 0, OBJECT, Op::read(offset, len));
    // As far as it takes no time.
    cluster.settle_now();
}

fn answer(cluster: &mut Cluster, tid: u64) -> Option<String> {
    cluster.answers_to(tid).pop().map(|(_, result, data)| {
        assert_eq!(result, 0);
        data
    })
}

fn units(bytes: usize, (from, units): (usize, usize)) -> Option<String> {
    Some(content(bytes)[from * UNIT..(from + units) * UNIT].to_owned())
}

/// Returns the ranges that OSDs are asked for whose messages are in transit.
fn asked(cluster: &Cluster, of: &[OsdId]) -> Vec<(OsdId, u64, u64)> {
    let reads = of.iter().flat_map(|osd| {
        let sent = cluster.in_transit_of(A, *osd, PeerKind::ShardRead.number());
        sent.into_iter().map(|envelope| {
            let read = ShardRead::open(&envelope).expect("well-formed");
            (*osd, read.offset / UNIT as u64, read.len / UNIT as u64)
        })
    });
    reads.collect()
}

#[test]
fn each_shard_is_asked_once_and_only_for_what_is_wanted_of_it() {
    const BYTES: usize = 12 * UNIT;
    let (mut cluster, session) = written(Cluster::coded_large(3, Limits::default()), BYTES);
    let others = [B, C, D];
    cluster.cut.extend(others.map(|osd| (A, osd)));
    // Units 2 to 8: the third and fourth of the first stripe, all of the second, the first of the third.
    ask(&mut cluster, session, 10, (2, 7));
    assert_eq!(asked(&cluster, &others), [(B, 1, 1), (C, 0, 2), (D, 0, 2)]);
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(answer(&mut cluster, 10), units(BYTES, (2, 7)));
}

#[test]
fn shards_that_came_in_part_are_read_anew_where_another_is_computed_of_them() {
    const BYTES: usize = 6 * UNIT;
    // The second and third unit: one of B's first stripe, one of A's second.
    for wanted in [(1, 2), (1, 4), (3, 1), (0, 6)] {
        let (mut cluster, session) = written(Cluster::coded_wide(3, Limits::default()), BYTES);
        cluster.cut.insert((B, A));
        ask(&mut cluster, session, 10, wanted);
        assert_eq!(answer(&mut cluster, 10), None, "B's shard is late");
        cluster.pass(Duration::from_millis(200));
        assert_eq!(answer(&mut cluster, 10), units(BYTES, wanted), "{wanted:?}");
        // The answer that comes after all changes nothing.
        cluster.cut.clear();
        cluster.settle();
        ask(&mut cluster, session, 11, wanted);
        assert_eq!(answer(&mut cluster, 11), units(BYTES, wanted));

        // A block that cannot be read is made up for likewise.
        let first_of_b = (wanted.0 | 1) / 2 * UNIT;
        cluster.spoil(B, &ObjectId::head(POOL.of_shard(1), OBJECT.0, b"", OBJECT.1), first_of_b as u64);
        ask(&mut cluster, session, 12, wanted);
        assert_eq!(answer(&mut cluster, 12), units(BYTES, wanted), "{wanted:?}");
    }
}

#[test]
fn a_late_shard_that_comes_before_others_is_taken() {
    const BYTES: usize = 6 * UNIT;
    let (mut cluster, session) = written(Cluster::coded_wide(3, Limits::default()), BYTES);
    cluster.cut.extend([(B, A), (C, A), (D, A)]);
    ask(&mut cluster, session, 10, (1, 2));
    cluster.pass(Duration::from_millis(200));
    assert_eq!(answer(&mut cluster, 10), None, "others are asked and have not answered either");
    cluster.cut.remove(&(B, A));
    cluster.settle();
    assert_eq!(answer(&mut cluster, 10), units(BYTES, (1, 2)));
}

#[test]
fn operators_may_have_reads_wait_for_late_shards() {
    const BYTES: usize = 6 * UNIT;
    let (mut cluster, session) = written(Cluster::coded_wide(3, Limits::default()), BYTES);
    cluster.shard(A).set_tuning(Tuning { hedged_reads: false, ..Tuning::default() });
    cluster.cut.insert((B, A));
    ask(&mut cluster, session, 10, (1, 2));
    cluster.pass(Duration::from_millis(200));
    assert_eq!(answer(&mut cluster, 10), None, "it waits for B");
    // It is switched on again: the next read brings the one that waits with it.
    cluster.shard(A).set_tuning(Tuning::default());
    ask(&mut cluster, session, 11, (1, 2));
    cluster.pass(Duration::from_millis(200));
    assert_eq!([10, 11].map(|tid| answer(&mut cluster, tid)), [units(BYTES, (1, 2)), units(BYTES, (1, 2))]);
}

//! Updates that skip shards of an erasure-coded group: who is waited for, and what becomes of them with their primary.

use super::cluster::Cluster;
use crate::group::pg::Pg;
use crate::messages::PeerKind;
use crate::ops::Limits;
use bytes::Bytes;
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::messages::Op;
use wire::msgr::SessionId;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const E: OsdId = OsdId(4);
const F: OsdId = OsdId(5);
const UNIT: usize = 4096;
const BYTES: usize = 16 * UNIT;
/// The unit that is overwritten: B has it, E and F have parity, C and D are skipped.
const CHANGED: usize = 5;

fn old() -> String {
    (0..BYTES).map(|at| char::from(b'!' + ((at / UNIT * 31 + at % 89) % 90) as u8)).collect()
}

fn new() -> String {
    let (old, changed) = (old(), CHANGED * UNIT);
    [&old[..changed], &"~".repeat(UNIT), &old[changed + UNIT..]].concat()
}

fn pg(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().next().expect("a member")
}

fn head(cluster: &mut Cluster, osd: OsdId) -> u64 {
    pg(cluster, osd).core.log.head().version
}

/// Makes the object in a cluster of four data shards and two parity shards.
fn written(seed: u64) -> (Cluster, SessionId) {
    let mut cluster = Cluster::coded_large(seed, Limits::default());
    let session = cluster.connect(A);
    cluster.ask(A, session, 0, Epoch(1), 0, Op::write_full(Bytes::from(old())));
    cluster.settle();
    assert_eq!(cluster.answers_to(0), [(session, 0, String::new())]);
    cluster.pass(Duration::from_secs(2));
    (cluster, session)
}

fn overwrite(cluster: &mut Cluster, session: SessionId) {
    let op = Op::write((CHANGED * UNIT) as u64, Bytes::from("~".repeat(UNIT)));
    cluster.ask(A, session, 1, cluster.map.epoch, 0, op);
    // As far as it takes no time: nobody is told yet whom it skips.
    cluster.settle_now();
}

#[test]
fn who_is_skipped_is_told_later_and_not_waited_for() {
    let (mut cluster, session) = written(3);
    let before = head(&mut cluster, C);
    cluster.cut.extend([(A, C), (A, D)]);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    for (osd, has) in [(A, 1), (B, 1), (C, 0), (D, 0), (E, 1), (F, 1)] {
        assert_eq!(head(&mut cluster, osd), before + has, "{osd}");
    }
    assert_eq!(cluster.in_transit_of(A, C, PeerKind::RepOp.number()).len(), 0, "it is not even sent");
    cluster.pass(Duration::from_millis(30));
    assert_eq!(cluster.in_transit_of(A, C, PeerKind::RepOp.number()).len(), 1);
    cluster.cut.clear();
    cluster.settle();
    assert_eq!([C, D].map(|osd| head(&mut cluster, osd)), [before + 1; 2]);
    assert_eq!(cluster.content(A), new());
}

#[test]
fn what_is_read_of_a_skipped_shard_is_as_new_as_the_others() {
    let (mut cluster, session) = written(4);
    overwrite(&mut cluster, session);
    assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
    let gathered = cluster.shard(A).coded_reads_made();
    cluster.ask(A, session, 2, cluster.map.epoch, 0, Op::read((6 * UNIT) as u64, UNIT as u64));
    cluster.settle();
    assert_eq!(cluster.answers_to(2), [(session, 0, old()[6 * UNIT..7 * UNIT].to_owned())]);
    assert_eq!(cluster.shard(A).coded_reads_made(), gathered + 1);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
}

#[test]
fn an_answered_update_outlives_its_primary_though_some_were_not_told() {
    for seed in 0..4 {
        let (mut cluster, session) = written(seed);
        cluster.cut.extend([(A, C), (A, D)]);
        overwrite(&mut cluster, session);
        assert_eq!(cluster.answers_to(1), [(session, 0, String::new())]);
        cluster.lose(A, C);
        cluster.lose(A, D);
        cluster.down(&[A]);
        cluster.heal(2);
        assert!(cluster.is_active(B));
        assert_eq!(cluster.content(B), new(), "seed {seed}");
        assert_eq!(pg(&mut cluster, B).members.missing_count(), 0, "nobody's bytes are older for it");
        for osd in [C, D] {
            assert!(pg(&mut cluster, osd).core.missing.is_empty(), "{osd}");
        }
    }
}

#[test]
fn an_update_that_a_touched_shard_lacks_is_taken_back() {
    for (seed, lacks) in [(0, B), (1, E), (2, F)] {
        for others_told in [false, true] {
            let (mut cluster, session) = written(seed);
            let before = head(&mut cluster, C);
            cluster.cut.insert((A, lacks));
            // The old bytes, which are read of B first.
            if lacks == B {
                cluster.cut.clear();
                let op = Op::write((CHANGED * UNIT) as u64, Bytes::from("~".repeat(UNIT)));
                cluster.ask(A, session, 1, cluster.map.epoch, 0, op);
                while cluster.in_transit_of(A, B, PeerKind::RepOp.number()).is_empty() {
                    cluster.step(0);
                    (0..6).for_each(|osd| cluster.step(1 + osd));
                }
                cluster.cut.insert((A, B));
                cluster.settle_now();
            } else {
                overwrite(&mut cluster, session);
            }
            assert_eq!(cluster.answers_to(1), [], "it is waited for");
            if others_told {
                cluster.pass(Duration::from_millis(30));
                assert_eq!(head(&mut cluster, C), before + 1);
            }
            cluster.lose(A, lacks);
            cluster.down(&[A]);
            cluster.heal(2);
            let leads = if cluster.is_active(B) { B } else { C };
            assert_eq!(cluster.content(leads), old(), "{lacks} {others_told}");
        }
    }
}

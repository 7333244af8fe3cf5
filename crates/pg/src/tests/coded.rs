//! Shards that turn out to be bad while others are computed anew.

use super::cluster::{Cluster, PG, POOL};
use crate::group::pg::Pg;
use crate::ops::Limits;
use bytes::Bytes;
use crush::{CrushMap, Location, WEIGHT_ONE};
use osdmap::OsdMapFlags;
use std::time::Duration;
use types::{Epoch, Errno, ObjectId, OsdId};
use wire::basic::PgShard;
use wire::messages::Op;
use wire::msgr::SessionId;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
/// In [`Cluster::step`]: the oldest message is delivered, or the oldest request of B's device done.
const A_MESSAGE: u64 = 0;
const A_READ_ON_B: u64 = 2;
const OBJECTS: [(u32, &[u8]); 2] = [(7, b"one"), (9, b"two")];
/// Two stripes: two stripe units of each shard.
const BYTES: usize = 16_384;

fn content(tid: u64) -> String {
    char::from(b'a' + tid as u8).to_string().repeat(BYTES)
}

fn pg(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().next().expect("a member")
}

fn is_recovering(cluster: &mut Cluster) -> bool {
    pg(cluster, A).state_bits(A) & pg_state::RECOVERING != 0
}

/// Makes the objects in a cluster, and has all of it on the devices.
fn stored(cluster: &mut Cluster) -> SessionId {
    let session = cluster.connect(A);
    for (tid, object) in (0..).zip(OBJECTS) {
        let op = Op::write_full(Bytes::from(content(tid)));
        cluster.ask_of(A, session, tid, Epoch(1), 0, object, op);
        cluster.settle();
        assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())]);
    }
    // Members are told meanwhile that the updates will stay.
    cluster.pass(Duration::from_secs(2));
    cluster.put_on_devices();
    session
}

/// Has A get leases for some time.
fn get_leases(cluster: &mut Cluster, session: SessionId) {
    cluster.ask_of(A, session, 5, Epoch(1), 0, (1, b"absent"), Op::read(0, 0));
    cluster.settle();
    assert_eq!(cluster.answers_to(5), [(session, Errno::ENOENT.as_result(), String::new())]);
}

/// Makes a cluster in which both objects are there, and B's shards of them are bad.
fn spoiled(seed: u64) -> (Cluster, SessionId) {
    let mut cluster = Cluster::coded(seed);
    let session = stored(&mut cluster);
    for (hash, name) in OBJECTS {
        cluster.spoil(B, &ObjectId::head(POOL.of_shard(1), hash, b"", name), 0);
    }
    get_leases(&mut cluster, session);
    (cluster, session)
}

fn read(cluster: &mut Cluster, session: SessionId, tid: u64, object: usize) {
    cluster.ask_of(A, session, tid, Epoch(1), 0, OBJECTS[object], Op::read(0, 0));
}

/// Returns true if everybody has all shards, and knows it.
fn is_whole(cluster: &mut Cluster) -> bool {
    [A, B, C].into_iter().all(|osd| pg(cluster, osd).core.missing.is_empty())
        && pg(cluster, A).members.missing_count() == 0
        && !is_recovering(cluster)
}

/// Makes the objects in a cluster whose primary holds leases for some time.
fn written(mut cluster: Cluster) -> (Cluster, SessionId) {
    let session = stored(&mut cluster);
    get_leases(&mut cluster, session);
    (cluster, session)
}

fn read_part(cluster: &mut Cluster, session: SessionId, tid: u64, offset: u64, len: u64) -> Option<String> {
    cluster.ask_of(A, session, tid, Epoch(1), 0, OBJECTS[1], Op::read(offset, len));
    cluster.settle();
    cluster.answers_to(tid).pop().map(|(_, result, data)| {
        assert_eq!(result, 0);
        data
    })
}

#[test]
fn what_lies_on_the_primary_is_read_there() {
    let (mut cluster, session) = written(Cluster::coded(3));
    let wanted = |len: usize| Some("b".repeat(len));
    cluster.cut.extend([(A, B), (A, C)]);
    // The first and the third unit are on the primary, which gathers nothing for them.
    let gathered = cluster.shard(A).coded_reads_made();
    assert_eq!(read_part(&mut cluster, session, 10, 100, 3000), wanted(3000));
    assert_eq!(read_part(&mut cluster, session, 11, 8192, 4096), wanted(4096));
    assert_eq!(cluster.shard(A).coded_reads_made(), gathered);
    assert_eq!(read_part(&mut cluster, session, 12, 4000, 97), None, "a byte is on another");
    assert_eq!(read_part(&mut cluster, session, 13, 4096, 1), None);
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(12), [(session, 0, "b".repeat(97))]);
    // Where it cannot be read others make up for it.
    cluster.spoil(A, &ObjectId::head(POOL.of_shard(0), OBJECTS[1].0, b"", OBJECTS[1].1), 0);
    assert_eq!(read_part(&mut cluster, session, 14, 100, 3000), wanted(3000));
    cluster.settle();
    assert!(is_whole(&mut cluster));
}

#[test]
fn a_late_shard_is_made_up_for_by_others() {
    let (mut cluster, session) = written(Cluster::coded_wide(3, Limits::default()));
    cluster.cut.insert((B, A));
    read(&mut cluster, session, 10, 1);
    cluster.settle();
    cluster.pass(Duration::from_millis(200));
    assert_eq!(cluster.answers_to(10), [(session, 0, content(1))]);
    // The answer that comes late after all changes nothing.
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(read_part(&mut cluster, session, 11, 4096, 5), Some("bbbbb".to_owned()));
    assert!(is_whole(&mut cluster));
}

#[test]
fn a_shard_that_is_found_bad_while_another_is_brought_is_brought_too() {
    for seed in 0..6 {
        let (mut cluster, session) = spoiled(seed);
        // Both reads have met a bad shard and wait for C's.
        cluster.cut.insert((C, A));
        read(&mut cluster, session, 10, 0);
        read(&mut cluster, session, 11, 1);
        cluster.settle();
        cluster.cut.clear();
        cluster.step(A_MESSAGE);
        // The first one ends. Its object cannot be brought before the other read has ended.
        cluster.cut.insert((C, A));
        cluster.settle();
        assert!(is_recovering(&mut cluster), "seed {seed}");
        assert_eq!(pg(&mut cluster, A).members.missing_count(), 1, "seed {seed}");
        cluster.cut.clear();
        cluster.settle();
        assert_eq!(cluster.answers_to(10), [(session, 0, content(0))], "seed {seed}");
        assert_eq!(cluster.answers_to(11), [(session, 0, content(1))], "seed {seed}");
        assert!(is_whole(&mut cluster), "seed {seed}");
    }
}

#[test]
fn a_shard_that_was_replaced_is_not_found_bad_by_a_read_from_before() {
    for seed in 0..6 {
        let (mut cluster, session) = spoiled(seed);
        // Two reads of one object wait for B's device.
        cluster.stuck_disks.insert(B);
        read(&mut cluster, session, 10, 0);
        read(&mut cluster, session, 11, 0);
        cluster.settle();
        // One read has ended, and what replaces the shard is on B, though not durably.
        cluster.stuck_disks.clear();
        for steps in 0.. {
            assert!(steps < 100, "it is found bad");
            cluster.step(A_READ_ON_B);
            cluster.stuck_disks.insert(B);
            cluster.settle();
            cluster.stuck_disks.clear();
            if !cluster.answers_to(10).is_empty() {
                break;
            }
        }
        cluster.settle();
        assert_eq!(cluster.answers_to(10), [(session, 0, content(0))], "seed {seed}");
        assert_eq!(cluster.answers_to(11), [(session, 0, content(0))], "seed {seed}");
        assert!(is_whole(&mut cluster), "seed {seed}");
    }
}

#[test]
fn shards_of_who_served_before_are_taken_once_who_served_last_is_given_up() {
    let mut cluster = Cluster::coded(1);
    let session = cluster.connect(A);
    let write = |cluster: &mut Cluster, osd, session, tid, object| {
        let op = Op::write_full(Bytes::from(content(tid)));
        cluster.ask_of(osd, session, tid, cluster.map.epoch, 0, OBJECTS[object], op);
        cluster.settle();
        assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())]);
    };
    write(&mut cluster, A, session, 0, 0);
    write(&mut cluster, A, session, 1, 1);
    // Members are told meanwhile that the update will stay.
    cluster.pass(Duration::from_secs(2));
    cluster.down(&[A]);
    let other = cluster.connect(B);
    write(&mut cluster, B, other, 2, 1);
    cluster.pass(Duration::from_secs(2));
    cluster.down(&[B, C]);
    cluster.up(A);
    cluster.give_up(C);
    cluster.update_all();
    cluster.settle();
    cluster.heal(20);
    assert!(!cluster.is_active(A), "B knows what was changed, and may come");
    cluster.up(B);
    cluster.heal(20);
    assert!(cluster.is_active(A));
    let ask = |cluster: &mut Cluster, tid, object: usize| {
        let session = cluster.connect(A);
        cluster.ask_of(A, session, tid, cluster.map.epoch, 0, OBJECTS[object], Op::read(0, 0));
        cluster.settle();
        cluster.heal(5);
        cluster.answers_to(tid).into_iter().map(|(_, result, data)| (result, data)).collect::<Vec<_>>()
    };
    assert_eq!(ask(&mut cluster, 10, 0), [(0, content(0))]);
    // A single shard is left of the newer state of the other object.
    assert_eq!(ask(&mut cluster, 11, 1), []);
    let view = cluster.shard(A).pg_view(super::cluster::PG).expect("A leads");
    assert_eq!(view.unfound.len(), 1, "{view:?}");
    cluster.shard(A).give_up_unfound(super::cluster::PG).expect("it is unfound");
    cluster.heal(20);
    assert_eq!(ask(&mut cluster, 12, 1), [(Errno::ENOENT.as_result(), String::new())]);
}

/// Makes a cluster in which C has, with A alone, the newer state of the second object, and is not in the acting set any
/// more: another OSD has come for its shard. Nothing is recovered for the moment.
fn left_by_who_had_it() -> Cluster {
    let mut cluster = Cluster::coded_of(4, 1, Limits::default());
    let session = cluster.connect(A);
    for (tid, object) in [(0, 0), (1, 1), (2, 1)] {
        if tid == 2 {
            cluster.change(|next| next.new_flags = Some(OsdMapFlags::NORECOVER));
            cluster.down(&[B]);
        }
        let op = Op::write_full(Bytes::from(content(tid)));
        cluster.ask_of(A, session, tid, cluster.map.epoch, 0, OBJECTS[object], op);
        cluster.settle();
        assert_eq!(cluster.answers_to(tid), [(session, 0, String::new())]);
        cluster.pass(Duration::from_secs(2));
    }
    cluster.up(B);
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A));
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 1, "B lacks the newer state");
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.is_active(A));
    cluster
}

fn recover(cluster: &mut Cluster) {
    cluster.change(|next| next.new_flags = Some(OsdMapFlags(0)));
    cluster.update_all();
    cluster.settle();
    cluster.heal(20);
}

fn read_second(cluster: &mut Cluster, tid: u64) {
    let session = cluster.connect(A);
    cluster.ask_of(A, session, tid, cluster.map.epoch, 0, OBJECTS[1], Op::read(0, 0));
    cluster.settle();
}

#[test]
fn what_members_cannot_make_up_for_is_read_from_who_served_before() {
    let mut cluster = left_by_who_had_it();
    read_second(&mut cluster, 10);
    let answers = cluster.answers_to(10).into_iter().map(|(_, result, data)| (result, data)).collect::<Vec<_>>();
    assert_eq!(answers, [(0, content(2))], "a client need not wait for recovery");
    recover(&mut cluster);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
    assert!(pg(&mut cluster, A).healing.unreadable_count() == 0);
    assert!(pg(&mut cluster, A).peering.history().is_some_and(|history| history.past.is_empty()), "C is not needed");
}

#[test]
fn who_served_before_may_come_late() {
    let mut cluster = left_by_who_had_it();
    cluster.down(&[C]);
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    recover(&mut cluster);
    read_second(&mut cluster, 10);
    cluster.pass(Duration::from_secs(60));
    assert_eq!(cluster.answers_to(10), [], "a read waits for it");
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 2, "B lacks it, and D, who has all else");
    cluster.up(C);
    cluster.update_all();
    cluster.settle();
    cluster.heal(20);
    let answers = cluster.answers_to(10).into_iter().map(|(_, result, data)| (result, data)).collect::<Vec<_>>();
    assert_eq!(answers, [(0, content(2))]);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
}

#[test]
fn who_served_before_and_does_not_answer_is_asked_again() {
    let mut cluster = left_by_who_had_it();
    cluster.cut.insert((A, C));
    recover(&mut cluster);
    read_second(&mut cluster, 10);
    cluster.pass(Duration::from_secs(25));
    assert_eq!(cluster.answers_to(10), [], "a read waits for it");
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster.pass(Duration::from_secs(60));
    cluster.heal(20);
    let answers = cluster.answers_to(10).into_iter().map(|(_, result, data)| (result, data)).collect::<Vec<_>>();
    assert_eq!(answers, [(0, content(2))]);
    assert_eq!(pg(&mut cluster, A).members.missing_count(), 0);
}

/// A drive that lied about a flush, or a last record of the log that rotted.
#[test]
fn a_shard_that_has_lost_the_end_of_its_log_has_nobody_take_anything_back() {
    // A primary that lives on knows at once that the update will stay; the others hear of it within seconds. Without
    // these the others have no interval without the OSD, either, in which they would learn it.
    for (loses, waits) in [(A, true), (B, true), (C, true), (B, false), (C, false)] {
        let mut cluster = Cluster::coded(7);
        let session = cluster.connect(A);
        cluster.ask(A, session, 1, cluster.map.epoch, 0, Op::write_full(Bytes::from(content(1))));
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        let mut before = cluster.device_of(loses).after_crash(&mut || 0);
        for tid in [2, 3] {
            // The last update tells all members that the one before it will stay.
            if !waits {
                before = cluster.device_of(loses).after_crash(&mut || 0);
            }
            cluster.ask(A, session, tid, cluster.map.epoch, 0, Op::write_full(Bytes::from(content(tid))));
            cluster.settle_now();
        }
        if waits {
            cluster.pass(Duration::from_secs(4));
        }
        assert_eq!(cluster.answers_to(3), [(session, 0, String::new())]);
        *cluster.device_of(loses) = before;
        cluster.lose_power(loses);
        let maps = cluster.message(Epoch(1), cluster.map.epoch);
        cluster.maps(loses, &maps).expect("the maps are good");
        cluster.mark_down(loses.0);
        if waits {
            cluster.update_all();
        }
        cluster.mark_up(loses.0);
        cluster.update_all();
        cluster.heal(4);
        let view = cluster.shard(A).pg_view(PG).expect("A leads");
        assert_eq!(view.unfound.len(), 0, "{loses}");
        assert!(cluster.content(A) == content(3), "{loses}");
    }
}

/// Two of the three that have shards are replaced while the primary has not seen that yet. They are no members any more
/// by their map, which is not to say that they have nothing: they are to act until those that come have their shards.
#[test]
fn who_is_no_member_any_more_is_not_taken_for_one_that_has_nothing() {
    let mut cluster = Cluster::coded_of(5, 7, Limits::default());
    let session = cluster.connect(A);
    cluster.append(A, session, 1, cluster.map.epoch);
    cluster.settle();
    cluster.mark_down(1);
    cluster.mark_up(1);
    cluster.update(A);
    cluster.move_group(&[0, 3, 4]);
    for osd in [1, 2, 3, 4] {
        cluster.update(OsdId(osd));
    }
    cluster.settle();
    cluster.update(A);
    cluster.heal(3);
    assert_eq!(cluster.temps.last(), Some(&vec![A, B, C]));
}

#[test]
fn members_that_lack_nothing_are_told_with_their_shards() {
    let (mut cluster, _) = written(Cluster::coded(3));
    cluster.down(&[B]);
    cluster.settle();
    cluster.shard(A).monitor_connected();
    let report = cluster.shard(A).beacon(0, 0).pgs.into_iter().next().expect("A leads");
    assert_eq!(report.complete, Some([(A, 0), (C, 2)].map(|(osd, shard)| PgShard { osd, shard }).to_vec()));
}

#[test]
fn a_group_with_its_shards_in_another_order_is_clean_and_remapped() {
    let (mut cluster, _) = written(Cluster::coded(3));
    let state = |cluster: &mut Cluster| cluster.shard(A).pg_view(PG).expect("A leads").state;
    assert_eq!(state(&mut cluster), pg_state::ACTIVE | pg_state::CLEAN);
    // Where groups are to be is known by a rule alone. Where they are stays as it was, by `pg_temp`.
    let mut crush = CrushMap::new();
    for osd in [A, B, C] {
        let host = format!("host{}", osd.0);
        let location = Location::from([("root", "default"), ("host", &host)]);
        crush.insert_item(osd.0, WEIGHT_ONE, &format!("osd.{}", osd.0), &location).expect("a place");
    }
    assert_eq!(crush.create_erasure_rule("rule", "default", "host", None, 3).expect("a rule"), 0, "the pool's rule");
    cluster.change(|next| {
        next.set_crush(&crush);
        next.new_weight.extend([A, B, C].map(|osd| (osd, WEIGHT_ONE)));
        next.new_pg_upmap.insert(PG, vec![B, A, C]);
    });
    let sets = cluster.map.pg_to_up_acting(PG).expect("the group is somewhere");
    assert_eq!((sets.up, sets.acting), (vec![B, A, C], vec![A, B, C]));
    cluster.update_all();
    cluster.settle();
    (0..3).for_each(|_| cluster.pass(Duration::from_secs(1)));
    assert_eq!(state(&mut cluster), pg_state::ACTIVE | pg_state::CLEAN | pg_state::REMAPPED);
}

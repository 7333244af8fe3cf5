//! Groups that are split while clients use them and members come and go.

use super::cluster::{Cluster, PG, appending};
use crate::messages::peering::PgNotify;
use crate::ops::Limits;
use osdmap::OsdMapFlags;
use std::time::Duration;
use types::{Epoch, OsdId, PgId};
use wire::Message;
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);

const OBJECTS: u32 = 16;

pub(super) fn name(hash: u32) -> Vec<u8> {
    format!("o{hash}").into_bytes()
}

/// Appends the request's number to an object. The client has the newest map unless told otherwise.
pub(super) fn append(
    cluster: &mut Cluster,
    osd: OsdId,
    tid: u64,
    epoch: impl Into<Option<Epoch>>,
    attempt: i32,
    hash: u32,
) {
    let epoch = epoch.into().unwrap_or(cluster.map.epoch);
    let session = cluster.connect(osd);
    cluster.ask_of(osd, session, tid, epoch, attempt, (hash, &name(hash)), appending(tid));
}

/// Appends one number to every object, and has all of them answered.
pub(super) fn append_all(cluster: &mut Cluster, osd: OsdId, first_tid: u64) {
    for hash in 0..OBJECTS {
        let tid = first_tid + u64::from(hash);
        append(cluster, osd, tid, None, 0, hash);
        cluster.settle();
        assert_eq!(cluster.answers_to(tid).len(), 1, "{tid}");
    }
}

/// Returns the content that a reader who comes now sees.
pub(super) fn content(cluster: &mut Cluster, osd: OsdId, hash: u32) -> String {
    const TID: u64 = 2_000_000;
    cluster.answers.retain(|answer| answer.tid != TID);
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    cluster.ask_of(osd, session, TID, epoch, 0, (hash, &name(hash)), Op::read(0, 0));
    cluster.settle();
    match &cluster.answers_to(TID)[..] {
        [(_, 0, content)] => content.clone(),
        other => panic!("object {hash}: {other:?}"),
    }
}

pub(super) fn contents(cluster: &mut Cluster, osd: OsdId) -> Vec<String> {
    (0..OBJECTS).map(|hash| content(cluster, osd, hash)).collect()
}

pub(super) fn expected(rounds: &[u64]) -> Vec<String> {
    let of = |hash: u32| rounds.iter().map(|first| format!("{},", first + u64::from(hash))).collect();
    (0..OBJECTS).map(of).collect()
}

pub(super) fn split(cluster: &mut Cluster, pg_num: u32) {
    cluster.split(pg_num);
    cluster.update_all();
    cluster.settle();
}

#[test]
fn objects_stay_where_they_are_and_are_found() {
    for steps in [&[4][..], &[2, 4, 8], &[3, 5, 12, 16], &[16]] {
        let mut cluster = Cluster::new(3);
        append_all(&mut cluster, A, 1000);
        for pg_num in steps {
            split(&mut cluster, *pg_num);
            assert!(cluster.all_active(A), "{pg_num}");
        }
        assert_eq!(contents(&mut cluster, A), expected(&[1000]));
        append_all(&mut cluster, A, 2000);
        assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
        assert!(cluster.pushed.is_empty() && cluster.temps.is_empty());
        let objects: u64 = cluster.shard(A).beacon(0, 0).pgs.iter().map(|report| report.objects).sum();
        assert_eq!(objects, u64::from(OBJECTS));
    }
}

#[test]
fn groups_whose_objects_stay_the_same_go_on() {
    let mut cluster = Cluster::new(3);
    split(&mut cluster, 4);
    append_all(&mut cluster, A, 1000);
    // Group 2 has the same objects with 4 groups and with 5.
    cluster.cut = [(A, C)].into();
    append(&mut cluster, A, 1, None, 0, 2);
    cluster.settle();
    cluster.split(5);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.answers_to(1).is_empty());
    cluster.cut.clear();
    cluster.settle();
    assert_eq!(cluster.answers_to(1).len(), 1, "the client has no reason to send it again");
}

#[test]
fn members_that_have_split_a_group_do_not_tell_a_primary_that_has_not() {
    let mut cluster = Cluster::new(3);
    append_all(&mut cluster, A, 1000);
    cluster.move_group(&[1, 2]);
    cluster.update_all();
    cluster.settle();
    append_all(&mut cluster, B, 2000);
    // A lacks what was added. The OSDs that it asks are members of the same set when they are asked, of which a part is
    // left.
    cluster.move_group(&[0, 1, 2]);
    cluster.update(A);
    cluster.split(2);
    cluster.update(B);
    cluster.update(C);
    cluster.settle();
    cluster.update(A);
    cluster.settle();
    assert!(cluster.all_active(A));
    assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
}

#[test]
fn an_update_in_flight_is_sent_again_and_carried_out_once() {
    // An object that stays in the group, and one that does not; the members that the update does not reach before, and
    // those whose acknowledgement does not reach the primary.
    for hash in [0, 7] {
        for (unreached, unheard) in [(vec![C], vec![]), (vec![B, C], vec![]), (vec![], vec![B]), (vec![C], vec![B])] {
            let mut cluster = Cluster::new(3);
            append_all(&mut cluster, A, 1000);
            let before = cluster.map.epoch;
            cluster.cut = unreached.iter().map(|osd| (A, *osd)).chain(unheard.iter().map(|osd| (*osd, A))).collect();
            append(&mut cluster, A, 1, before, 0, hash);
            cluster.settle();
            assert!(cluster.answers_to(1).is_empty());
            unreached.iter().for_each(|osd| cluster.lose(A, *osd));
            unheard.iter().for_each(|osd| cluster.lose(*osd, A));
            cluster.cut.clear();
            split(&mut cluster, 4);
            cluster.pass(Duration::from_secs(4));
            assert!(cluster.answers_to(1).is_empty(), "the client sends it again");
            assert_eq!(cluster.client_bytes(A), 0);
            // Sent with the old map, it is for nobody.
            append(&mut cluster, A, 1, before, 1, hash);
            cluster.settle();
            assert!(cluster.answers_to(1).is_empty());
            append(&mut cluster, A, 1, None, 2, hash);
            cluster.settle();
            assert_eq!(cluster.answers_to(1).len(), 1);
            assert_eq!(content(&mut cluster, A, hash), format!("{},1,", 1000 + hash), "{unreached:?} {unheard:?}");
            append(&mut cluster, A, 1, None, 3, hash);
            cluster.settle();
            assert_eq!(content(&mut cluster, A, hash), format!("{},1,", 1000 + hash), "still known");
        }
    }
}

#[test]
fn members_that_were_down_while_it_was_split_come_back() {
    for steps in [&[4][..], &[2, 4], &[16]] {
        let mut cluster = Cluster::new(3);
        append_all(&mut cluster, A, 1000);
        cluster.mark_down(2);
        cluster.update(A);
        cluster.update(B);
        cluster.settle();
        append_all(&mut cluster, A, 2000);
        for pg_num in steps {
            cluster.split(*pg_num);
            cluster.update(A);
            cluster.update(B);
            cluster.settle();
        }
        append_all(&mut cluster, A, 3000);
        cluster.up(C);
        let pgs: Vec<PgId> = (0..*steps.last().expect("some")).map(|seed| PgId { seed, ..PG }).collect();
        for pg in pgs {
            cluster.move_group_of(pg, &[2, 1, 0]);
        }
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert_eq!(contents(&mut cluster, C), expected(&[1000, 2000, 3000]));
        assert!(cluster.temps.is_empty(), "no member was behind: {:?}", cluster.temps);
    }
}

#[test]
fn a_copy_that_was_left_is_split_from_the_store() {
    for skip in [false, true] {
        let mut cluster = Cluster::new(4);
        append_all(&mut cluster, A, 1000);
        // C's copy stays where it is, and D has everything.
        cluster.move_group(&[0, 1, 3]);
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        append_all(&mut cluster, A, 2000);
        let epoch = cluster.split(4);
        if skip {
            cluster.split(8);
            let whole = cluster.whole(epoch.next());
            cluster.maps(C, &whole).expect("the map is good");
        }
        cluster.update_all();
        cluster.settle();
        assert!(cluster.all_active(A));
        let pgs = cluster.shard(C).store().pgs();
        assert_eq!(pgs.len(), if skip { 8 } else { 4 }, "{pgs:?}");
        let pg_num = if skip { 8 } else { 4 };
        for seed in 0..pg_num {
            cluster.move_group_of(PgId { seed, ..PG }, &[2, 0, 1]);
        }
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        // The record does not name C, so it does not lead yet; but its log meets the others'.
        let asked = std::mem::take(&mut cluster.temps);
        assert!(asked.iter().all(|osds| osds.first() != Some(&C)), "{asked:?}");
        for seed in 0..pg_num {
            cluster.move_group_of(PgId { seed, ..PG }, &[0, 1, 2]);
        }
        cluster.update_all();
        cluster.settle();
        cluster.pass(Duration::from_secs(4));
        assert!(cluster.all_active(A));
        let pushed: Vec<_> = cluster.pushed.iter().filter(|(to, _)| *to == C).collect();
        assert_eq!(pushed.len(), OBJECTS as usize, "what it missed, and nothing else");
        assert_eq!(contents(&mut cluster, A), expected(&[1000, 2000]));
    }
}

#[test]
fn an_operation_on_an_object_of_another_group_is_for_nobody() {
    let mut cluster = Cluster::new(3);
    append_all(&mut cluster, A, 1000);
    cluster.split(2);
    let between = cluster.split(4);
    let after = cluster.change(|next| next.new_flags = None);
    // The primary sees the last map only, and takes what was sent since the one that it had.
    for osd in [A, B, C] {
        let whole = cluster.whole(after);
        cluster.maps(osd, &whole).expect("the map is good");
    }
    cluster.settle();
    // Object 7 belongs to group 3 now; a client whose map has two groups asks group 1.
    append(&mut cluster, A, 1, Epoch(between.0 - 1), 0, 7);
    append(&mut cluster, A, 2, Epoch(between.0 - 1), 0, 1);
    cluster.settle();
    assert!(cluster.answers_to(1).is_empty());
    assert_eq!(cluster.answers_to(2).len(), 1, "if it comes again it is known");
    append(&mut cluster, A, 1, None, 1, 7);
    cluster.settle();
    assert_eq!(content(&mut cluster, A, 7), "1007,1,");
}

#[test]
fn a_primary_that_has_not_heard_of_it_serves_no_more() {
    let mut cluster = Cluster::new(3);
    append_all(&mut cluster, A, 1000);
    let before = cluster.map.epoch;
    cluster.split(4);
    cluster.update(B);
    cluster.update(C);
    cluster.settle();
    // Members of the split group take nothing of what the primary of the whole one sends.
    append(&mut cluster, A, 1, before, 0, 7);
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.answers_to(1).is_empty());
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 2, before, 0, (7, &name(7)), Op::read(0, 0));
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    assert!(cluster.answers_to(2).is_empty(), "nor may it read: {:?}", cluster.answers_to(2));
    cluster.update(A);
    cluster.settle();
    append(&mut cluster, A, 1, None, 1, 7);
    cluster.settle();
    assert_eq!(content(&mut cluster, A, 7), "1007,1,");
}

#[test]
fn what_was_shared_out_in_proportion_is_counted() {
    let mut cluster = Cluster::new(3);
    // All objects lie in one half.
    for hash in (0..OBJECTS).filter(|hash| hash % 2 == 1) {
        append(&mut cluster, A, 1000 + u64::from(hash), None, 0, hash);
        cluster.settle();
    }
    let counts = |cluster: &mut Cluster| -> Vec<(u64, u64)> {
        let reports = (0..2).filter_map(|seed| cluster.shard(A).pg_view(PgId { seed, ..PG }));
        reports.map(|view| (view.objects, view.bytes)).collect()
    };
    split(&mut cluster, 2);
    assert_eq!(counts(&mut cluster), [(4, 20), (4, 20)]);
    for osd in [A, B, C] {
        cluster.shard(osd).set_wall_clock(Duration::from_secs(2_000_000_000));
        cluster.shard(osd).set_scrub_periods(Duration::from_secs(1000), Duration::from_secs(1000));
    }
    for second in 0..1010 {
        cluster.pass(Duration::from_secs(1));
        if second == 1 {
            append(&mut cluster, A, 1, None, 0, 1);
            append(&mut cluster, A, 20, None, 0, 17);
            append(&mut cluster, A, 30, None, 0, 2);
            cluster.settle();
        }
    }
    assert_eq!(counts(&mut cluster), [(1, 3), (9, 45)]);
}

/// Returns the messages by which C tells, in a new interval of four groups, that it lacks four objects of each.
fn lacks_told(message_bytes: usize) -> Vec<PgNotify> {
    let mut cluster = Cluster::limited(3, 7, Limits { message_bytes, ..Limits::default() });
    cluster.split(4);
    cluster.update_all();
    cluster.settle();
    cluster.pass(Duration::from_secs(4));
    append_all(&mut cluster, A, 100);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NORECOVER));
    cluster.down(&[C]);
    append_all(&mut cluster, A, 200);
    cluster.up(C);
    cluster.mark_down(B.0);
    cluster.update_all();
    for step in 0.. {
        let told = cluster.in_transit_of(C, A, PgNotify::TYPE);
        if !told.is_empty() {
            return told.iter().map(|message| PgNotify::open(message).expect("well-formed")).collect();
        }
        cluster.step(step);
        assert!(step < 100_000, "it is asked");
    }
    unreachable!()
}

#[test]
fn what_members_lack_is_told_in_messages_that_are_not_long() {
    let bytes = |told: &PgNotify| told.groups.iter().map(|(_, state)| state.size_bytes()).sum::<usize>();
    let one = lacks_told(usize::MAX);
    let [all] = &one[..] else { panic!("{one:?}") };
    assert!(all.groups.len() == 4 && all.groups.iter().all(|(_, state)| state.missing.len() == 4), "{all:?}");
    let half = bytes(all) / 2 + 100;
    let two = lacks_told(half);
    assert_eq!(two.iter().map(|told| told.groups.len()).collect::<Vec<_>>(), [2, 2]);
    assert!(two.iter().all(|told| bytes(told) <= half && told.promises == all.promises));
    // A group that is longer by itself goes alone.
    let four = lacks_told(1);
    let groups = four.iter().flat_map(|told| told.groups.clone()).collect::<Vec<_>>();
    assert_eq!((four.len(), groups), (4, all.groups.clone()));
}

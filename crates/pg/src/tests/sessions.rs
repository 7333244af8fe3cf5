//! Sessions between OSDs that end while both live, and members that stop while an object is on its way to them.

use super::cluster::{Cluster, HASH, OBJECT, PG, POOL};
use crate::group::log::{LogEntry, PgLog};
use crate::group::pg::Pg;
use crate::messages::healing::{PgPush, PgPushAck};
use crate::messages::replication::{RepOp, RepOpReply};
use crate::ops::Limits;
use bytes::Bytes;
use std::time::Duration;
use types::{EVersion, Epoch, ObjectId, OsdId};
use wire::Message;
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

/// Numbers that look random.
struct Picks(u64);

impl Picks {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }
}

/// Returns the limits by which objects of more than a few kilobytes go in several pieces.
fn small_pieces() -> Limits {
    Limits { piece_bytes: 8192, backfill_objects: 3, log_entries_min: 40, ..Limits::default() }
}

fn text(tid: u64) -> String {
    format!("{tid},").repeat(9000)
}

fn append(cluster: &mut Cluster, osd: OsdId, tid: u64) {
    let (session, epoch) = (cluster.connect(osd), cluster.map.epoch);
    cluster.ask(osd, session, tid, epoch, 0, Op::append(Bytes::from(text(tid))));
    cluster.settle();
}

fn object() -> ObjectId {
    ObjectId::head(POOL, HASH, b"", OBJECT)
}

/// Makes a cluster in which the second of two updates is only in A's log and store; nobody was answered for it.
fn with_an_update_that_one_alone_has() -> Cluster {
    let mut cluster = Cluster::limited(3, 7, small_pieces());
    append(&mut cluster, A, 1);
    assert_eq!(cluster.answers_to(1).len(), 1);
    cluster.cut.extend([(A, B), (A, C)]);
    append(&mut cluster, A, 2);
    assert!(cluster.answers_to(2).is_empty());
    cluster.lose(A, B);
    cluster.lose(A, C);
    cluster.cut.clear();
    cluster
}

/// Makes a cluster in which C comes back, and lacks the second of two updates.
fn with_one_that_comes_back() -> Cluster {
    let mut cluster = Cluster::limited(3, 7, small_pieces());
    append(&mut cluster, A, 1);
    cluster.mark_down(2);
    cluster.update_all();
    cluster.settle();
    append(&mut cluster, A, 2);
    cluster.mark_up(2);
    cluster.update_all();
    cluster
}

fn is_unharmed(cluster: &mut Cluster, primary: OsdId) {
    let view = cluster.shard(primary).pg_view(PG).expect("it leads");
    assert_eq!(view.unfound.len(), 0, "{:?}", view.unfound);
    assert!(cluster.content(primary).starts_with(&text(1)));
}

#[test]
fn what_rots_before_all_of_it_is_elsewhere_goes_back_to_what_others_have() {
    let mut cluster = with_an_update_that_one_alone_has();
    cluster.put_on_device(A);
    let size_bytes = cluster.ready(A, |store| store.stat(&object())).expect("it is there").size_bytes;
    cluster.spoil(A, &object(), size_bytes - 1);
    cluster.move_group(&[0, 2, 1]);
    cluster.update_all();
    cluster.heal(2);
    is_unharmed(&mut cluster, A);
}

#[test]
fn who_stops_while_it_sends_an_object_takes_nothing_with_it_that_others_had() {
    let mut cluster = with_an_update_that_one_alone_has();
    cluster.move_group(&[0, 2, 1]);
    cluster.update_all();
    let mut picks = Picks(1);
    while ![B, C].iter().all(|osd| cluster.pushed.iter().any(|(to, _)| to == osd)) {
        cluster.step(picks.next());
    }
    for other in [B, C] {
        cluster.cut.extend([(A, other), (other, A)]);
        cluster.lose(A, other);
        cluster.lose(other, A);
    }
    cluster.stuck_disks.insert(A);
    cluster.settle();
    cluster.mark_down(0);
    cluster.update(B);
    cluster.update(C);
    cluster.heal(2);
    is_unharmed(&mut cluster, C);
}

#[test]
fn what_had_come_in_part_is_dropped_by_who_starts_again() {
    let mut cluster = with_one_that_comes_back();
    let in_part = ObjectId { pool: POOL.in_part(), ..object() };
    let mut picks = Picks(1);
    while !cluster.pushed.iter().any(|(to, _)| *to == C) {
        cluster.step(picks.next());
    }
    cluster.cut.extend([(A, C), (C, A)]);
    cluster.settle();
    assert!(cluster.ready(C, |store| store.stat(&in_part)).is_some());
    cluster.mark_down(2);
    cluster.update_all();
    cluster.lose_power(C);
    cluster.cut.clear();
    let maps = cluster.message(Epoch(1), cluster.map.epoch);
    cluster.maps(C, &maps).expect("the maps are good");
    cluster.mark_up(2);
    cluster.update_all();
    cluster.settle();
    assert!(cluster.ready(C, |store| store.stat(&in_part)).is_none());
    cluster.heal(2);
    assert_eq!(cluster.content_by(&[C, A, B]), text(1) + &text(2));
}

/// The first piece of an object is lost with a session, and the rest goes on in the next one.
#[test]
fn a_part_is_never_taken_for_the_whole() {
    let mut cluster = with_one_that_comes_back();
    let mut picks = Picks(1);
    while !cluster.in_transit_kinds(A, C).contains(&PgPush::TYPE) {
        cluster.step(picks.next());
    }
    cluster.end_session(C, A);
    cluster.heal(4);
    assert!(cluster.is_active(A));
    assert_eq!(cluster.content_by(&[C, A, B]), text(1) + &text(2));
}

/// An update on its way, and acknowledgements of one that has come.
#[test]
fn updates_and_acknowledgements_that_are_lost_come_again() {
    for (from, to) in [(A, B), (B, A)] {
        let mut cluster = Cluster::new(3);
        let session = cluster.connect(A);
        cluster.append(A, session, 1, cluster.map.epoch);
        let wanted = if from == A { RepOp::TYPE } else { RepOpReply::TYPE };
        let mut picks = Picks(1);
        while !cluster.in_transit_kinds(from, to).contains(&wanted) {
            cluster.step(picks.next());
        }
        cluster.end_session(from, to);
        cluster.settle();
        assert_eq!(cluster.answers_to(1).len(), 1, "{from} to {to}");
        cluster.append(A, session, 2, cluster.map.epoch);
        cluster.settle();
        assert_eq!(cluster.answers_to(2).len(), 1);
        assert_eq!(cluster.content_by(&[B, A, C]), "1,2,");
    }
}

/// Only one of the two learns that the session has ended before it goes on.
#[test]
fn a_member_that_meets_a_gap_says_so_and_goes_on() {
    let mut cluster = Cluster::new(3);
    let session = cluster.connect(A);
    cluster.append(A, session, 1, cluster.map.epoch);
    let mut picks = Picks(1);
    while !cluster.in_transit_kinds(A, B).contains(&RepOp::TYPE) {
        cluster.step(picks.next());
    }
    cluster.lose(A, B);
    cluster.append(A, session, 2, cluster.map.epoch);
    cluster.settle();
    assert_eq!((cluster.answers_to(1).len(), cluster.answers_to(2).len()), (1, 1));
    assert_eq!(cluster.content_by(&[B, A, C]), "1,2,");
}

fn group(cluster: &mut Cluster, osd: OsdId) -> &Pg {
    cluster.shard(osd).groups().next().expect("a member")
}

/// Tells how many messages are in transit by which D is told that it has been brought everything.
fn ends_of_all(cluster: &Cluster) -> usize {
    let pushes = cluster.in_transit_of(A, D, PgPush::TYPE);
    pushes.iter().filter(|push| PgPush::open(push).expect("well-formed").end_of_all).count()
}

#[track_caller]
fn step_until(cluster: &mut Cluster, picks: &mut Picks, is_so: impl Fn(&Cluster) -> bool) {
    for _ in 0..100_000 {
        if is_so(cluster) {
            return;
        }
        cluster.step(picks.next());
    }
    panic!("it does not come to that");
}

/// An object that the last update makes.
const LAST: (u32, &[u8]) = (9, b"last");

/// Has D come in C's place and be backfilled. The last update, of which A and B have everything, is lost on its way to
/// D with neither A nor D being told; what A sends behind it arrives.
fn is_not_complete_without_the_last_update(mut cluster: Cluster, change: impl Fn(u64) -> Op, content: &str) {
    const OBJECTS: u64 = 8;
    let session = cluster.connect(A);
    for tid in 1..=OBJECTS {
        let name = format!("o{tid}");
        cluster.ask_of(A, session, tid, cluster.map.epoch, 0, ((tid as u32) << 8, name.as_bytes()), change(tid));
        cluster.settle();
    }
    cluster.pass(Duration::from_secs(4));
    cluster.move_group(&[0, 1, 3]);
    cluster.update_all();
    let mut picks = Picks(1);
    step_until(&mut cluster, &mut picks, |cluster| cluster.in_transit_kinds(D, A).contains(&PgPushAck::TYPE));
    cluster.ask_of(A, session, 20, cluster.map.epoch, 0, LAST, change(20));
    step_until(&mut cluster, &mut picks, |cluster| cluster.in_transit_kinds(A, D).contains(&RepOp::TYPE));
    cluster.lose_of(A, D, RepOp::TYPE);
    let (served, head) = (cluster.history().last_epoch_started, group(&mut cluster, A).core.log.head());
    assert!(group(&mut cluster, D).core.log.head() < head && ends_of_all(&cluster) == 0);
    step_until(&mut cluster, &mut picks, |cluster| ends_of_all(cluster) > 0);
    step_until(&mut cluster, &mut picks, |cluster| ends_of_all(cluster) == 0);
    assert!(!group(&mut cluster, D).core.info.complete, "its log ends before the head");
    cluster.heal(4);
    assert!(cluster.history().last_epoch_started > served, "another interval has begun");
    assert!(cluster.is_active(A));
    assert_eq!(cluster.answers_to(20).len(), 1);
    let member = group(&mut cluster, D);
    assert!(member.core.info.complete && member.core.log.head() >= head);
    let view = cluster.shard(A).pg_view(PG).expect("A leads");
    assert_eq!(view.unfound.len(), 0, "{:?}", view.unfound);
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 30, cluster.map.epoch, 0, LAST, Op::read(0, 0));
    cluster.settle();
    assert_eq!(cluster.answers_to(30).into_iter().map(|(.., read)| read).collect::<Vec<_>>(), [content]);
}

#[test]
fn who_lacks_the_last_update_is_not_complete_when_all_has_been_sent() {
    let cluster = Cluster::new(4);
    is_not_complete_without_the_last_update(cluster, super::cluster::appending, "20,");
}

/// The shortest log of those that are recorded says what a group of shards takes back.
#[test]
fn what_a_shard_that_is_backfilled_lacks_is_not_taken_back_by_others() {
    let cluster = Cluster::coded_of(4, 7, Limits::default());
    let change = |tid| Op::write_full(Bytes::from(text(tid)));
    is_not_complete_without_the_last_update(cluster, change, &text(20));
}

/// How clients change objects, and what these hold afterwards.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Append,
    Replace,
}

/// Changes objects while OSDs go and come and sessions end; `osds` of them, of which the first three are members.
fn random_ends(mut cluster: Cluster, seed: u64, osds: u64, change: Change) {
    const COUNT: u64 = 40;
    let mut picks = Picks(seed);
    let objects: Vec<(u32, Vec<u8>)> = (0..6u8).map(|n| (u32::from(n) << 8, vec![b'a' + n])).collect();
    let mut expected: Vec<String> = vec![String::new(); objects.len()];
    let session = cluster.connect(A);
    for tid in 1..=COUNT {
        let n = picks.next() as usize % objects.len();
        let text = format!("{tid},").repeat(if picks.next().is_multiple_of(3) { 9000 } else { 1 });
        let op = match change {
            Change::Append => Op::append(Bytes::from(text.clone())),
            Change::Replace => Op::write_full(Bytes::from(text.clone())),
        };
        if change == Change::Replace {
            expected[n].clear();
        }
        expected[n].push_str(&text);
        let (hash, name) = &objects[n];
        cluster.ask_of(A, session, tid, Epoch(1), 0, (*hash, name), op);
        for _ in 0..picks.next() % 60 {
            cluster.step(picks.next());
        }
        let down = cluster.map.osds().find(|(_, osd)| !osd.is_up()).map(|(id, _)| id.0);
        match (picks.next() % 6, down) {
            (0..=2, _) => {
                let (first, second) = ((picks.next() % osds) as i32, (picks.next() % osds) as i32);
                if first != second {
                    cluster.end_session(OsdId(first), OsdId(second));
                }
            }
            (3, Some(osd)) => cluster.up(OsdId(osd)),
            (3, None) => cluster.down(&[OsdId(1 + (picks.next() % (osds - 1)) as i32)]),
            _ => {}
        }
    }
    let down = cluster.map.osds().find(|(_, osd)| !osd.is_up()).map(|(id, _)| id);
    if let Some(osd) = down {
        cluster.up(osd);
    }
    cluster.heal(12);
    assert!(cluster.is_active(A), "seed {seed}");
    let unanswered: Vec<u64> = (1..=COUNT).filter(|tid| cluster.answers_to(*tid).len() != 1).collect();
    assert_eq!(unanswered, [0; 0], "seed {seed}");
    let view = cluster.shard(A).pg_view(PG).expect("it leads");
    assert_eq!(view.unfound.len(), 0, "seed {seed}");
    for primary in [A, B, C] {
        // Each in turn leads, so that what each has is read.
        let mut acting = vec![A.0, B.0, C.0];
        if change == Change::Append {
            acting.rotate_left(primary.0 as usize);
            cluster.move_group(&acting);
            cluster.update_all();
            cluster.heal(2);
        }
        let leads = OsdId(acting[0]);
        let session = cluster.connect(leads);
        for (n, (hash, name)) in objects.iter().enumerate().filter(|(n, _)| !expected[*n].is_empty()) {
            let tid = 1000 + 100 * primary.0 as u64 + n as u64;
            cluster.ask_of(leads, session, tid, cluster.map.epoch, 0, (*hash, name), Op::read(0, 0));
            cluster.settle();
            let answers = cluster.answers_to(tid);
            let [(_, result, content)] = &answers[..] else { panic!("seed {seed}: {answers:?}") };
            assert!(*result >= 0 && *content == expected[n], "seed {seed}: object {n} by {leads}");
        }
    }
}

#[test]
fn sessions_may_end_at_any_time() {
    for seed in 0..60 {
        random_ends(Cluster::limited(3, seed, small_pieces()), seed, 3, Change::Append);
    }
}

#[test]
fn sessions_of_erasure_coded_groups_may_end_at_any_time() {
    for seed in 0..60 {
        random_ends(Cluster::coded_limited(seed, small_pieces()), seed, 3, Change::Replace);
    }
}

fn log(cluster: &mut Cluster, osd: OsdId) -> &PgLog {
    &cluster.shard(osd).groups().next().expect("a member").core.log
}

/// Tells a member of an update by its primary, after `forge` has changed what the primary would say. Returns whether
/// the message can be read, and how many updates the log has more.
fn forged(forge: impl FnOnce(&mut RepOp)) -> (bool, u64) {
    let mut cluster = Cluster::limited(3, 7, Limits::default());
    append(&mut cluster, A, 1);
    let head = log(&mut cluster, B).head();
    let member = cluster.shard(B).groups().next().expect("a member");
    let (pg, info) = (member.core.pg_interval(), member.core.info.clone());
    let entry = member.core.log.entries().next_back().expect("an update").clone();
    let entry = LogEntry { version: EVersion { version: head.version + 1, ..head }, ..entry };
    let (others, steps) = (Vec::new(), Vec::new());
    let mut update = RepOp { pg, entry, others, info, committed: EVersion::ZERO, steps, hops_wanted: false };
    forge(&mut update);
    let envelope = update.seal(3, wire::Target::default());
    let is_read = cluster.shard(B).peer_message(A, &envelope, Duration::ZERO).is_ok();
    (is_read, log(&mut cluster, B).head().version - head.version)
}

fn later(entry: &LogEntry, by: u64) -> LogEntry {
    let version = EVersion { version: entry.version.version + by, ..entry.version };
    LogEntry { version, ..entry.clone() }
}

#[test]
fn updates_that_do_not_follow_the_log_are_not_taken_and_harm_nobody() {
    let others = |update: &mut RepOp, gap: u64| {
        update.others = vec![update.entry.clone(), later(&update.entry, 1)];
        update.entry = later(&update.entry, 2 + gap);
    };
    assert_eq!(forged(|update| others(update, 0)), (true, 3));
    assert_eq!(forged(|update| others(update, 1)), (false, 0));
    assert_eq!(forged(|update| update.entry.version.version = u64::MAX), (false, 0));
    assert_eq!(forged(|update| update.entry = later(&update.entry, 5)), (true, 0));
    // Nothing is missing, but its epoch is one of long ago.
    assert_eq!(forged(|update| update.entry.version.epoch = Epoch(0)), (true, 0));
}

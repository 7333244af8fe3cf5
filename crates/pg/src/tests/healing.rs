//! Damaged objects are fetched from where they are sound, and copies that are not needed any more are removed.

use super::cluster::{Cluster, PG, POOL};
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::{OsdMapFlags, PgPool};
use std::time::Duration;
use types::{ObjectId, OsdId};
use wire::basic::NO_SHARD;
use wire::messages::Op;
use wire::nacre::mon::{PgForce, PgReport, pg_state};
use wire::{Message, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
/// Three blocks, the last one not full.
const BYTES: usize = 10_000;

pub(super) fn name(n: u32) -> Vec<u8> {
    format!("o{n}").into_bytes()
}

pub(super) fn object(n: u32) -> ObjectId {
    ObjectId::head(POOL, n, b"", &name(n))
}

pub(super) fn text(n: u32) -> String {
    char::from(b'a' + n as u8 % 26).to_string().repeat(BYTES)
}

pub(super) fn filled(osds: i32, objects: u32) -> Cluster {
    let mut cluster = Cluster::limited(osds, 7, Limits { backfill_objects: 3, ..Limits::default() });
    let session = cluster.connect(A);
    for n in 0..objects {
        let op = Op::append(Bytes::from(text(n)));
        cluster.ask_of(A, session, u64::from(n) + 1, cluster.map.epoch, 0, (n, &name(n)), op);
        cluster.settle();
    }
    cluster.put_on_devices();
    cluster
}

/// Spoils a block of an object.
pub(super) fn spoil(cluster: &mut Cluster, osd: OsdId, n: u32) {
    cluster.spoil(osd, &object(n), 4096);
}

pub(super) fn heal(cluster: &mut Cluster) {
    cluster.heal(3);
}

/// Returns the answer to a read on `primary`, if there is one yet.
fn read(cluster: &mut Cluster, primary: OsdId, n: u32) -> Option<(i32, String)> {
    let tid = 1_000_000 + cluster.answers.len() as u64;
    let session = cluster.connect(primary);
    let epoch = cluster.map.epoch;
    cluster.ask_of(primary, session, tid, epoch, 0, (n, &name(n)), Op::read(0, 0));
    cluster.settle();
    let answers = cluster.answers_to(tid);
    answers.into_iter().next().map(|(_, result, content)| (result, content))
}

fn report(cluster: &mut Cluster) -> PgReport {
    cluster.shard(A).monitor_connected();
    let reports = cluster.shard(A).beacon(0, 0).pgs;
    reports.into_iter().find(|report| report.pgid == PG).expect("the primary reports")
}

pub(super) fn move_group(cluster: &mut Cluster, acting: &[i32]) {
    cluster.move_group(acting);
    cluster.update_all();
}

#[test]
fn what_is_damaged_on_the_primary_is_read_from_another_member_and_made_good() {
    let mut cluster = filled(3, 3);
    spoil(&mut cluster, A, 1);
    // The first one asked is no better.
    spoil(&mut cluster, B, 1);
    let (first, second) = (read(&mut cluster, A, 1), read(&mut cluster, A, 1));
    assert_eq!((first.as_ref().map(|(_, content)| content.len()), first.clone()), (Some(BYTES), second));
    assert_eq!(first.unwrap().1, text(1));
    heal(&mut cluster);
    cluster.shard(A).drop_block_cache();
    cluster.pushed.clear();
    assert_eq!(read(&mut cluster, A, 1).unwrap().1, text(1));
    assert!(cluster.pushed.is_empty(), "it is sound here now");
    assert_eq!([A, C].map(|osd| cluster.shard(osd).beacon(0, 0).stats.bad_copies), [1, 0]);
    assert_eq!(report(&mut cluster).state, pg_state::ACTIVE | pg_state::CLEAN);
}

/// Makes a cluster in which the primary's copy is damaged, the OSD that acts beside it has none yet, and one that has a
/// copy is asked for but does not act.
fn with_sound_copies_that_do_not_act() -> Cluster {
    let mut cluster = filled(4, 3);
    let pool = cluster.map.pools[&POOL].clone();
    cluster.change(|next| {
        next.new_pools.insert(POOL, PgPool { min_size: 1, ..pool });
        next.new_flags = Some(OsdMapFlags::NOBACKFILL);
    });
    move_group(&mut cluster, &[0, 3]);
    cluster.settle();
    spoil(&mut cluster, A, 1);
    // Maps of tests want groups nowhere, so that no primary asks by itself.
    cluster.shard(A).want_temp(PG, vec![A, D, B, C]);
    cluster
}

#[test]
fn a_read_of_what_is_damaged_waits_for_who_has_it_and_is_about_to_act() {
    let mut cluster = with_sound_copies_that_do_not_act();
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 70, cluster.map.epoch, 0, (1, &name(1)), Op::read(0, 0));
    cluster.settle();
    assert!(cluster.answers_to(70).is_empty());
    move_group(&mut cluster, &[0, 3, 1, 2]);
    heal(&mut cluster);
    assert!(cluster.answers_to(70) == [(session, 0, text(1))], "the bytes that were written");
}

#[test]
fn a_read_of_what_is_damaged_does_not_wait_for_ever() {
    let mut cluster = with_sound_copies_that_do_not_act();
    let session = cluster.connect(A);
    cluster.ask_of(A, session, 70, cluster.map.epoch, 0, (1, &name(1)), Op::read(0, 0));
    (0..14).for_each(|_| cluster.pass(Duration::from_secs(2)));
    assert!(cluster.answers_to(70).is_empty());
    (0..3).for_each(|_| cluster.pass(Duration::from_secs(2)));
    assert_eq!(cluster.answers_to(70).first().map(|(_, result, _)| *result), Some(types::Errno::EIO.as_result()));
}

#[test]
fn members_that_lack_nothing_are_told() {
    let complete = |cluster: &mut Cluster| {
        let complete = report(cluster).complete.expect("this software tells it");
        complete.iter().map(|member| (member.osd, member.shard)).collect::<Vec<_>>()
    };
    let mut cluster = filled(4, 3);
    assert_eq!(complete(&mut cluster), [], "all members of a clean group lack nothing");
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NOBACKFILL));
    move_group(&mut cluster, &[0, 1, 3]);
    cluster.settle();
    assert_eq!(complete(&mut cluster), [A, B].map(|osd| (osd, NO_SHARD)), "D is not filled");
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::default()));
    cluster.update_all();
    heal(&mut cluster);
    assert_eq!(complete(&mut cluster), []);
    spoil(&mut cluster, A, 1);
    spoil(&mut cluster, B, 1);
    spoil(&mut cluster, D, 1);
    assert_eq!(read(&mut cluster, A, 1), None);
    heal(&mut cluster);
    assert_eq!(report(&mut cluster).state & pg_state::CLEAN, 0);
    assert!(!complete(&mut cluster).contains(&(A, NO_SHARD)), "its copy is bad");
}

#[test]
fn what_nobody_has_is_told_to_be_unfound() {
    let mut cluster = filled(3, 3);
    [A, B, C].into_iter().for_each(|osd| spoil(&mut cluster, osd, 1));
    assert_eq!(read(&mut cluster, A, 1), None, "waits, as somebody may still bring it");
    heal(&mut cluster);
    let told = report(&mut cluster);
    assert_eq!((told.unfound, told.missing_on_primary), (1, 1));
    assert_eq!(told.state & pg_state::RECOVERY_UNFOUND, pg_state::RECOVERY_UNFOUND);
    assert_eq!(told.state & (pg_state::CLEAN | pg_state::RECOVERING), 0);
    assert_eq!(read(&mut cluster, A, 2).unwrap().1, text(2), "the others are served");
    let view = cluster.shard(A).pg_view(PG).unwrap();
    assert_eq!(view.unfound.iter().map(|(object, _)| object.clone()).collect::<Vec<_>>(), [object(1)]);
    assert_eq!(cluster.shard(B).give_up_unfound(PG), Err(crate::GiveUpError::NotPrimary));

    let answered = cluster.answers.len();
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    heal(&mut cluster);
    let waited = cluster.answers.iter().skip(answered).find(|answer| answer.tid != 0).expect("the read is answered");
    assert_eq!(waited.reply.result, types::Errno::ENOENT.as_result());
    assert_eq!(report(&mut cluster).state, pg_state::ACTIVE | pg_state::CLEAN);
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Err(crate::GiveUpError::NothingUnfound));
    move_group(&mut cluster, &[2, 0, 1]);
    heal(&mut cluster);
    assert_eq!(read(&mut cluster, C, 1).unwrap().0, types::Errno::ENOENT.as_result());
    assert_eq!(read(&mut cluster, C, 2).unwrap().1, text(2));
}

#[test]
fn a_member_is_backfilled_though_the_primary_has_damaged_objects() {
    let mut cluster = filled(4, 12);
    [2, 3, 9].into_iter().for_each(|n| spoil(&mut cluster, A, n));
    move_group(&mut cluster, &[0, 1, 3]);
    heal(&mut cluster);
    assert_eq!(report(&mut cluster).state, pg_state::ACTIVE | pg_state::CLEAN);
    move_group(&mut cluster, &[3, 0, 1]);
    heal(&mut cluster);
    for n in 0..12 {
        assert_eq!(read(&mut cluster, D, n).unwrap().1, text(n), "{n}");
    }
}

#[test]
fn degraded_and_misplaced_copies_are_counted_down() {
    let mut cluster = filled(4, 30);
    move_group(&mut cluster, &[0, 1, 3]);
    let mut seen = Vec::new();
    for _ in 0..2000 {
        (0..4).for_each(|pick| cluster.step(pick));
        let told = report(&mut cluster);
        if told.state & pg_state::BACKFILLING != 0 {
            seen.push(told.degraded_copies);
        }
    }
    heal(&mut cluster);
    assert!(seen.first().is_some_and(|first| *first >= 25), "{seen:?}");
    assert!(seen.iter().any(|count| (5..25).contains(count)), "{seen:?}");
    let told = report(&mut cluster);
    assert_eq!((told.degraded_copies, told.misplaced_copies, told.recovered_objects), (0, 0, 30));
    assert_eq!(told.recovered_bytes, 30 * BYTES as u64);
}

#[test]
fn a_copy_that_is_not_needed_goes_and_one_that_may_be_stays() {
    let mut cluster = filled(4, 100);
    let objects =
        |cluster: &mut Cluster| cluster.ready(C, |store| store.list(&ObjectId::min(), &ObjectId::max(), 1000)).len();
    cluster.stuck_disks = [D].into();
    move_group(&mut cluster, &[0, 1, 3]);
    heal(&mut cluster);
    heal(&mut cluster);
    assert_eq!(objects(&mut cluster), 100, "the new member does not have everything yet");
    cluster.stuck_disks.clear();
    let mut some = 100;
    for _ in 0..100 {
        cluster.pass(Duration::from_millis(500));
        some = objects(&mut cluster);
        if some < 100 {
            break;
        }
    }
    assert!((1..100).contains(&some), "in slices: {some}");
    // The OSD is a member again before it has removed its copy.
    move_group(&mut cluster, &[0, 1, 2]);
    heal(&mut cluster);
    heal(&mut cluster);
    move_group(&mut cluster, &[2, 0, 1]);
    heal(&mut cluster);
    for n in 0..100 {
        assert_eq!(read(&mut cluster, C, n).unwrap().1, text(n), "{n}");
    }
    move_group(&mut cluster, &[0, 1, 3]);
    (0..60).for_each(|_| cluster.pass(Duration::from_millis(500)));
    assert_eq!(objects(&mut cluster), 0);
    assert!(cluster.store(C).pgs().is_empty());
}

#[test]
fn what_an_operator_wants_first_comes_first_until_all_is_done() {
    let mut cluster = filled(3, 3);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags::NORECOVER));
    cluster.update_all();
    cluster.down(&[C]);
    let session = cluster.connect(A);
    let op = Op::append(Bytes::from(text(1)));
    cluster.ask_of(A, session, 50, cluster.map.epoch, 0, (1, &name(1)), op);
    cluster.settle();
    cluster.up(C);
    let force = |cluster: &mut Cluster, backfill, cancel| {
        let order = PgForce { pgs: vec![PG], backfill, cancel }.seal(0, Target::default());
        cluster.shard(A).monitor_message(&order).expect("well-formed");
        cluster.turn(A);
        cluster.settle();
    };
    let forced =
        |cluster: &mut Cluster| report(cluster).state & (pg_state::FORCED_RECOVERY | pg_state::FORCED_BACKFILL);
    assert_eq!(forced(&mut cluster), 0);
    force(&mut cluster, false, false);
    assert_eq!(forced(&mut cluster), pg_state::FORCED_RECOVERY);
    force(&mut cluster, true, false);
    assert_eq!(forced(&mut cluster), pg_state::FORCED_RECOVERY | pg_state::FORCED_BACKFILL);
    force(&mut cluster, true, true);
    assert_eq!(forced(&mut cluster), pg_state::FORCED_RECOVERY);
    cluster.change(|next| next.new_flags = Some(OsdMapFlags(0)));
    cluster.update_all();
    heal(&mut cluster);
    let state = report(&mut cluster).state;
    assert_eq!((forced(&mut cluster), state & pg_state::DEGRADED), (0, 0), "nothing is left to do");
}

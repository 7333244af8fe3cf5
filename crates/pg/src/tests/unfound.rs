//! Objects that nobody can bring any more: they are shown, clients hold back operations on them, an operator can give
//! them up, and nothing else waits for them.

use super::cluster::{Cluster, PG, POOL, appending};
use super::healing::{filled, heal, move_group, name, object, spoil, text};
use crate::group::operators::{GiveUpError, PgView};
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::PgPool;
use std::time::Duration;
use types::{EVersion, Errno, ObjectId, OsdId};
use wire::messages::{BackoffOp, Op};
use wire::msgr::SessionId;
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
const WELL: u64 = pg_state::ACTIVE | pg_state::CLEAN;
const WORKS: u64 = pg_state::RECOVERING | pg_state::BACKFILLING | pg_state::RECOVERY_WAIT | pg_state::BACKFILL_WAIT;
const ABSENT: i32 = Errno::ENOENT.as_result();
/// The object that is lost.
const LOST: u32 = 4;

fn view(cluster: &mut Cluster, primary: OsdId) -> PgView {
    cluster.shard(primary).pg_view(PG).expect("it leads")
}

fn unfound(cluster: &mut Cluster, primary: OsdId) -> Vec<ObjectId> {
    view(cluster, primary).unfound.into_iter().map(|(object, _)| object).collect()
}

/// Returns true if nothing is left to be done but for unfound objects.
fn only_unfound_is_left(cluster: &mut Cluster, primary: OsdId) -> bool {
    let state = view(cluster, primary).state;
    state & pg_state::RECOVERY_UNFOUND != 0 && state & (WORKS | pg_state::CLEAN) == 0
}

fn ask(cluster: &mut Cluster, to: OsdId, session: SessionId, tid: u64, n: u32, op: Op) {
    cluster.ask_of(to, session, tid, cluster.map.epoch, 0, (n, &name(n)), op);
    cluster.settle();
}

fn answer(cluster: &Cluster, tid: u64) -> Option<(i32, String)> {
    cluster.answers_to(tid).into_iter().next().map(|(_, result, content)| (result, content))
}

fn read(cluster: &mut Cluster, primary: OsdId, n: u32) -> Option<(i32, String)> {
    let tid = 2_000_000 + cluster.answers.len() as u64;
    let session = cluster.connect(primary);
    ask(cluster, primary, session, tid, n, Op::read(0, 0));
    heal(cluster);
    answer(cluster, tid)
}

/// Checks that a read, an update, an overwrite and a removal of the object wait with their client, and that the OSD
/// keeps nothing of them.
fn all_is_held_back(cluster: &mut Cluster, primary: OsdId, n: u32) {
    let ops = [Op::read(0, 0), appending(1), Op::write_full(Bytes::from_static(b"new")), Op::delete()];
    for (tid, op) in (3_000_000..).zip(ops) {
        let session = cluster.connect_patient(primary);
        ask(cluster, primary, session, tid, n, op);
        heal(cluster);
        assert_eq!(answer(cluster, tid), None, "{tid}");
        let said: Vec<_> =
            cluster.backoffs_said(session).iter().map(|said| (said.op, said.begin.name.to_vec())).collect();
        assert_eq!(said, [(BackoffOp::Block, name(n))], "{tid}");
        cluster.disconnect(primary, session);
    }
    assert_eq!(cluster.client_bytes(primary), 0);
}

fn give_up(cluster: &mut Cluster, primary: OsdId) {
    assert_eq!(cluster.shard(primary).give_up_unfound(PG), Ok(1));
    cluster.turn(primary);
    heal(cluster);
    assert_eq!(cluster.shard(primary).give_up_unfound(PG), Err(GiveUpError::NothingUnfound));
}

fn stored(cluster: &mut Cluster, osd: OsdId) -> Vec<ObjectId> {
    cluster.ready(osd, |store| store.list(&ObjectId::min(), &ObjectId::max(), 1000))
}

/// Makes a pool of two copies, of which A has the only one; a block of one object is bad there, and D has come.
fn with_a_bad_block_on_the_only_copy() -> Cluster {
    let mut cluster = filled(4, 12);
    let pool = PgPool { size: 2, min_size: 1, ..cluster.map.pools[&POOL].clone() };
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    move_group(&mut cluster, &[0]);
    heal(&mut cluster);
    cluster.down(&[B, C]);
    cluster.put_on_device(A);
    spoil(&mut cluster, A, LOST);
    move_group(&mut cluster, &[0, 3]);
    (0..4).for_each(|_| heal(&mut cluster));
    cluster
}

#[test]
fn a_bad_block_on_the_only_copy_keeps_no_other_object_from_a_new_member() {
    let mut cluster = with_a_bad_block_on_the_only_copy();
    let others: Vec<ObjectId> = (0..12).filter(|n| *n != LOST).map(object).collect();
    let mut there = stored(&mut cluster, D);
    there.sort_unstable();
    let mut wanted = others.clone();
    wanted.sort_unstable();
    assert_eq!(there, wanted);
    assert_eq!(unfound(&mut cluster, A), [object(LOST)]);
    assert!(view(&mut cluster, A).members.iter().all(|member| member.serves && member.missing == 1));
    assert!(only_unfound_is_left(&mut cluster, A), "{:?}", view(&mut cluster, A));
    all_is_held_back(&mut cluster, A, LOST);

    // The member that was brought all else knows durably that it lacks this object.
    cluster.down(&[A]);
    cluster.lose_power(D);
    let maps = cluster.message(types::Epoch(1), cluster.map.epoch);
    cluster.maps(D, &maps).expect("the maps are good");
    cluster.up(A);
    move_group(&mut cluster, &[3, 0]);
    heal(&mut cluster);
    assert_eq!(unfound(&mut cluster, D), [object(LOST)]);
    for n in (0..12).filter(|n| *n != LOST) {
        assert!(read(&mut cluster, D, n) == Some((0, text(n))), "{n}");
    }
    assert_eq!(read(&mut cluster, D, LOST), None, "nothing is answered from what is not there");
    give_up(&mut cluster, D);
    assert_eq!(view(&mut cluster, D).state, WELL);
    assert_eq!(read(&mut cluster, D, LOST), Some((ABSENT, String::new())));
}

#[test]
fn what_only_the_primary_had_is_given_up_by_it() {
    let mut cluster = with_a_bad_block_on_the_only_copy();
    let session = cluster.connect(A);
    ask(&mut cluster, A, session, 70, LOST, Op::append(Bytes::from_static(b"new")));
    assert_eq!(answer(&cluster, 70), None, "what it was may come back");
    give_up(&mut cluster, A);
    assert_eq!(answer(&cluster, 70).map(|(result, _)| result), Some(0));
    assert_eq!(view(&mut cluster, A).state, WELL);
    move_group(&mut cluster, &[3, 0]);
    heal(&mut cluster);
    assert_eq!(read(&mut cluster, D, LOST), Some((0, "new".to_owned())));
}

#[test]
fn what_can_be_read_again_is_found() {
    let mut cluster = with_a_bad_block_on_the_only_copy();
    let session = cluster.connect_patient(A);
    ask(&mut cluster, A, session, 70, LOST, Op::read(0, 0));
    let said = cluster.backoffs_said(session);
    assert_eq!(said.len(), 1);
    cluster.acknowledge(A, session, &said[0]);
    (0..30).for_each(|_| cluster.pass(Duration::from_secs(4)));
    assert_eq!(unfound(&mut cluster, A), [object(LOST)]);
    assert!(cluster.backoffs_said(session).is_empty(), "it stays unfound while it is looked at");
    // A bit is flipped back.
    spoil(&mut cluster, A, LOST);
    (0..30).for_each(|_| cluster.pass(Duration::from_secs(4)));
    assert_eq!(view(&mut cluster, A).state, WELL);
    assert_eq!(cluster.backoffs_said(session).iter().map(|said| said.op).collect::<Vec<_>>(), [BackoffOp::Unblock]);
    move_group(&mut cluster, &[3, 0]);
    heal(&mut cluster);
    assert!(read(&mut cluster, D, LOST) == Some((0, text(LOST))), "the bytes that were written");
}

#[test]
fn what_nobody_could_read_is_found_once_the_primary_can() {
    let mut cluster = filled(3, 6);
    [A, B, C].into_iter().for_each(|osd| spoil(&mut cluster, osd, LOST));
    let session = cluster.connect(A);
    ask(&mut cluster, A, session, 70, LOST, Op::read(0, 0));
    (0..30).for_each(|_| cluster.pass(Duration::from_secs(4)));
    assert_eq!((unfound(&mut cluster, A), answer(&cluster, 70)), (vec![object(LOST)], None));
    spoil(&mut cluster, A, LOST);
    (0..30).for_each(|_| cluster.pass(Duration::from_secs(4)));
    assert!(answer(&cluster, 70) == Some((0, text(LOST))), "the bytes that were written");
    assert_eq!(view(&mut cluster, A).state, WELL);
}

#[test]
fn a_client_holds_back_alone_what_turns_out_to_be_unfound_while_it_waits() {
    let mut cluster = filled(3, 6);
    [A, B, C].into_iter().for_each(|osd| spoil(&mut cluster, osd, LOST));
    let session = cluster.connect_patient(A);
    ask(&mut cluster, A, session, 70, LOST, Op::read(0, 0));
    heal(&mut cluster);
    assert_eq!(cluster.backoffs_said(session).len(), 1);
    assert_eq!(cluster.client_bytes(A), 0);
}

#[test]
fn what_the_primary_lacks_keeps_no_other_object_from_a_new_member() {
    let mut cluster = filled(4, 12);
    [A, B, C].into_iter().for_each(|osd| spoil(&mut cluster, osd, LOST));
    let session = cluster.connect(A);
    ask(&mut cluster, A, session, 70, LOST, Op::read(0, 0));
    heal(&mut cluster);
    cluster.down(&[C]);
    move_group(&mut cluster, &[0, 1, 3]);
    (0..2).for_each(|_| heal(&mut cluster));
    assert_eq!(stored(&mut cluster, D).len(), 11);
    assert!(only_unfound_is_left(&mut cluster, A), "{:?}", view(&mut cluster, A));
    move_group(&mut cluster, &[3, 0, 1]);
    heal(&mut cluster);
    assert_eq!(unfound(&mut cluster, D), [object(LOST)]);
    assert!(read(&mut cluster, D, 5) == Some((0, text(5))));
    give_up(&mut cluster, D);
    assert_eq!(view(&mut cluster, D).state, WELL);
    assert_eq!(read(&mut cluster, D, LOST), Some((ABSENT, String::new())));
}

#[test]
fn a_backfill_goes_on_once_what_is_not_lost_is_durable_on_the_primary() {
    for others in [vec![], vec![1, 5, 7, 11]] {
        let mut cluster = filled(4, 12);
        [A, B, C].into_iter().for_each(|osd| spoil(&mut cluster, osd, LOST));
        others.iter().for_each(|n| spoil(&mut cluster, A, *n));
        cluster.down(&[C]);
        move_group(&mut cluster, &[0, 1, 3]);
        (0..2).for_each(|_| heal(&mut cluster));
        assert_eq!(stored(&mut cluster, D).len(), 11, "{others:?}");
        assert!(only_unfound_is_left(&mut cluster, A), "{:?}", view(&mut cluster, A));
        give_up(&mut cluster, A);
        assert_eq!(view(&mut cluster, A).state, WELL);
    }
}

#[test]
fn a_member_that_is_backfilled_and_has_what_is_unfound_brings_it() {
    let mut cluster = filled(3, 12);
    let pool = PgPool { min_size: 1, ..cluster.map.pools[&POOL].clone() };
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    heal(&mut cluster);
    cluster.down(&[B, C]);
    // The others' log does not meet A's any more after so many updates.
    let session = cluster.connect(A);
    for tid in 100..2500 {
        ask(&mut cluster, A, session, tid, 1, appending(tid));
    }
    cluster.put_on_device(A);
    spoil(&mut cluster, A, LOST);
    cluster.up(C);
    (0..4).for_each(|_| heal(&mut cluster));
    assert_eq!(unfound(&mut cluster, A), []);
    assert!(read(&mut cluster, A, LOST) == Some((0, text(LOST))));
    assert_eq!(view(&mut cluster, A).state & (WORKS | pg_state::RECOVERY_UNFOUND), 0);
}

/// Makes a pool of two copies, of which A has the only one. The record of one object, which the log does not name any
/// more, is damaged there; and D has come.
fn with_a_bad_record_on_the_only_copy() -> Cluster {
    let limits = Limits { backfill_objects: 3, log_entries_min: 40, ..Limits::default() };
    let mut cluster = Cluster::limited(4, 7, limits);
    let session = cluster.connect(A);
    for n in 0..12 {
        ask(&mut cluster, A, session, u64::from(n) + 1, n, Op::append(Bytes::from(text(n))));
    }
    ask(&mut cluster, A, session, 20, LOST, Op::set_xattr(b"long", "unlucky ".repeat(1000).as_bytes()));
    for tid in 100..300 {
        ask(&mut cluster, A, session, tid, 1, appending(tid));
    }
    let pool = PgPool { size: 2, min_size: 1, ..cluster.map.pools[&POOL].clone() };
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    move_group(&mut cluster, &[0]);
    heal(&mut cluster);
    cluster.down(&[B, C]);
    cluster.damage_record_with(A, b"unlucky unlucky");
    move_group(&mut cluster, &[0, 3]);
    (0..4).for_each(|_| heal(&mut cluster));
    cluster
}

#[test]
fn an_object_whose_version_nothing_tells_keeps_no_other_from_a_new_member() {
    let mut cluster = with_a_bad_record_on_the_only_copy();
    assert_eq!(view(&mut cluster, A).unfound, [(object(LOST), EVersion::ZERO)], "it is named, without a version");
    assert!(view(&mut cluster, A).members.iter().all(|member| member.serves), "{:?}", view(&mut cluster, A));
    assert!(only_unfound_is_left(&mut cluster, A), "{:?}", view(&mut cluster, A));
    assert_eq!(stored(&mut cluster, D).len(), 11);
    all_is_held_back(&mut cluster, A, LOST);
    // The new member knows what it lacks, goes on alone, and gives it up.
    cluster.down(&[A]);
    move_group(&mut cluster, &[3]);
    heal(&mut cluster);
    assert_eq!(unfound(&mut cluster, D), [object(LOST)]);
    assert!(read(&mut cluster, D, 5) == Some((0, text(5))));
    give_up(&mut cluster, D);
    assert_eq!(read(&mut cluster, D, LOST), Some((ABSENT, String::new())));
    let session = cluster.connect(D);
    ask(&mut cluster, D, session, 70, LOST, Op::append(Bytes::from_static(b"new")));
    assert_eq!(read(&mut cluster, D, LOST), Some((0, "new".to_owned())));
}

fn coded_object(shard: u8, n: u32) -> ObjectId {
    ObjectId { pool: POOL.of_shard(shard), ..object(n) }
}

fn write_coded(cluster: &mut Cluster, tid: u64, n: u32, letter: &str) {
    let session = cluster.connect(A);
    ask(cluster, A, session, tid, n, Op::write_full(Bytes::from(letter.repeat(16_384))));
    assert_eq!(answer(cluster, tid), Some((0, String::new())));
    // Members are told meanwhile that the update will stay.
    cluster.pass(Duration::from_secs(2));
}

/// Checks that an erasure-coded group is whole but for the object, and that D gets its shard of all else.
fn only_one_is_lost(cluster: &mut Cluster, acting: &[i32]) {
    assert_eq!(unfound(cluster, A).iter().map(|object| object.name.to_vec()).collect::<Vec<_>>(), [name(LOST)]);
    all_is_held_back(cluster, A, LOST);
    move_group(cluster, acting);
    (0..4).for_each(|_| heal(cluster));
    assert_eq!(unfound(cluster, A).len(), 1);
    assert!(only_unfound_is_left(cluster, A), "{:?}", view(cluster, A));
    assert!(view(cluster, A).members.iter().all(|member| member.serves && member.missing <= 1));
    assert_eq!(read(cluster, A, 5), Some((0, "e".repeat(16_384))));
    assert_eq!(read(cluster, A, LOST), None);
    give_up(cluster, A);
    assert_eq!(view(cluster, A).state, WELL);
    assert_eq!(read(cluster, A, LOST), Some((ABSENT, String::new())));
}

#[test]
fn an_object_of_which_the_primary_has_the_only_shard_is_unfound() {
    let mut cluster = Cluster::coded_of(4, 1, Limits::default());
    write_coded(&mut cluster, 1, LOST, "a");
    write_coded(&mut cluster, 2, 5, "e");
    cluster.down(&[C]);
    write_coded(&mut cluster, 3, LOST, "b");
    cluster.down(&[A, B]);
    cluster.give_up(B);
    cluster.mark_up(0);
    cluster.up(C);
    cluster.heal(20);
    assert!(cluster.is_active(A));
    only_one_is_lost(&mut cluster, &[0, 3, 2]);
}

#[test]
fn an_object_of_which_more_shards_are_bad_than_may_be_is_unfound() {
    let mut cluster = Cluster::coded_of(4, 1, Limits::default());
    write_coded(&mut cluster, 1, LOST, "a");
    write_coded(&mut cluster, 2, 5, "e");
    cluster.put_on_devices();
    cluster.spoil(B, &coded_object(1, LOST), 0);
    cluster.down(&[C]);
    move_group(&mut cluster, &[0, 1, 3]);
    (0..4).for_each(|_| heal(&mut cluster));
    only_one_is_lost(&mut cluster, &[0, 1, 3]);
}

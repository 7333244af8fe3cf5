//! States of objects that nobody has any more are given up on an operator's word. States that snapshots preserve
//! stay, and go with their snapshots.

use super::cluster::{Cluster, PG, POOL};
use crate::group::object_info::ObjectInfo;
use bytes::Bytes;
use osdmap::{PoolFlags, pg_range};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::Step;
use types::{Errno, ObjectId, OsdId, SnapId};
use wire::basic::SnapContext;
use wire::messages::Op;
use wire::nacre::mon::{PgScrub, pg_state};
use wire::{Message, Target};

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const ALL: [OsdId; 3] = [A, B, C];
const WELL: u64 = pg_state::ACTIVE | pg_state::CLEAN;
const NAME: &[u8] = b"o";
const HASH: u32 = 9;
const ABSENT: i32 = Errno::ENOENT.as_result();

fn text(letter: char) -> String {
    letter.to_string().repeat(10_000)
}

fn state(snap: SnapId) -> ObjectId {
    ObjectId { snap, ..ObjectId::head(POOL, HASH, b"", NAME) }
}

/// Returns a request's number, which no two of any test share.
fn next_tid() -> u64 {
    static TID: AtomicU64 = AtomicU64::new(1000);
    TID.fetch_add(1, Ordering::Relaxed)
}

fn write(cluster: &mut Cluster, letter: char) -> u64 {
    let tid = next_tid();
    let session = cluster.connect(A);
    let epoch = cluster.map.epoch;
    cluster.ask_of(A, session, tid, epoch, 0, (HASH, NAME), Op::write_full(Bytes::from(text(letter))));
    cluster.settle();
    tid
}

/// Makes an object that was `a` at snapshot 1, `b` at snapshot 2, and is `c`.
fn written(seed: u64) -> Cluster {
    written_in(Cluster::seeded(3, seed))
}

fn written_in(mut cluster: Cluster) -> Cluster {
    let mut pool = cluster.map.pools[&POOL].clone();
    pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
    cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
    cluster.update_all();
    cluster.settle();
    for (snap, letter) in [(0, 'a'), (1, 'b'), (2, 'c')] {
        let snaps = (1..=snap).rev().map(SnapId).collect();
        cluster.snaps = SnapContext { seq: SnapId(snap), snaps };
        write(&mut cluster, letter);
    }
    // Members are told meanwhile that the updates will stay.
    cluster.pass(Duration::from_secs(2));
    cluster.put_on_devices();
    ALL.into_iter().for_each(|osd| cluster.remember(osd));
    cluster
}

fn spoil(cluster: &mut Cluster, osd: OsdId, snap: SnapId) {
    cluster.spoil(osd, &state(snap), 4096);
}

/// Has a read on the primary find the object to be bad.
fn find_bad(cluster: &mut Cluster, object: &ObjectId) {
    let stat = cluster.ready(A, |store| store.stat(object)).expect("it is there");
    let version = ObjectInfo::of(&stat).expect("it is whole").version;
    cluster.shard(A).object_damaged(PG, object, version);
    cluster.turn(A);
}

/// Asks for a state, and gives the request's number.
fn ask(cluster: &mut Cluster, primary: OsdId, snap: SnapId) -> u64 {
    let tid = next_tid();
    let session = cluster.connect(primary);
    let epoch = cluster.map.epoch;
    cluster.snap = snap;
    cluster.ask_of(primary, session, tid, epoch, 0, (HASH, NAME), Op::read(0, 0));
    cluster.snap = SnapId::HEAD;
    cluster.settle();
    tid
}

fn answer(cluster: &Cluster, tid: u64) -> Option<(i32, String)> {
    cluster.answers_to(tid).into_iter().next().map(|(_, result, content)| (result, content))
}

fn read(cluster: &mut Cluster, primary: OsdId, snap: SnapId) -> Option<(i32, String)> {
    let tid = ask(cluster, primary, snap);
    answer(cluster, tid)
}

fn heal(cluster: &mut Cluster) {
    cluster.heal(4);
}

fn bits(cluster: &mut Cluster, primary: OsdId) -> u64 {
    cluster.shard(primary).pg_view(PG).expect("it leads").state
}

fn unfound(cluster: &mut Cluster) -> usize {
    cluster.shard(A).pg_view(PG).expect("it leads").unfound.len()
}

/// Errors that a deep scrub finds.
fn scrub_errors(cluster: &mut Cluster) -> u64 {
    let order = PgScrub { pgs: vec![PG], deep: true, repair: false }.seal(0, Target::default());
    cluster.shard(A).monitor_message(&order).unwrap();
    cluster.turn(A);
    heal(cluster);
    let group = cluster.shard(A).groups().next().expect("a member");
    let mark = group.scrub.mark();
    assert!(mark.deep_at == mark.light_at && !mark.deep_at.is_zero(), "it was scrubbed");
    mark.errors() + mark.repaired
}

fn remove_snapshots(cluster: &mut Cluster) {
    cluster.snaps = SnapContext { seq: SnapId(2), snaps: Vec::new() };
    cluster.change(|next| next.new_removed_snaps.entry(POOL).or_default().insert(1, 2));
    cluster.update_all();
    heal(cluster);
}

fn stored(cluster: &mut Cluster, osd: OsdId) -> Vec<ObjectId> {
    let (from, until) = pg_range(PG, 1);
    cluster.ready(osd, |store| store.list(&from, &until, 100))
}

/// Checks the states that are left on all members, once the group is clean: the primary counts them, and they are read
/// at each snapshot as told.
fn check(cluster: &mut Cluster, states: &[SnapId], contents: [Option<char>; 3]) {
    assert_eq!(bits(cluster, A), WELL);
    let wanted: Vec<ObjectId> = states.iter().map(|snap| state(*snap)).collect();
    ALL.into_iter().for_each(|osd| assert_eq!(stored(cluster, osd), wanted, "{osd}"));
    assert_eq!(cluster.shard(A).pg_view(PG).unwrap().objects, states.len() as u64);
    assert_eq!(scrub_errors(cluster), 0);
    for primary in [A, B] {
        let others = if primary == A { [1, 2] } else { [0, 2] };
        cluster.move_group(&[primary.0, others[0], others[1]]);
        cluster.update_all();
        heal(cluster);
        for (snap, content) in [SnapId(1), SnapId(2), SnapId::HEAD].into_iter().zip(contents) {
            let wanted = content.map_or((ABSENT, String::new()), |letter| (0, text(letter)));
            assert!(read(cluster, primary, snap) == Some(wanted), "{snap:?} by {primary}");
        }
    }
    cluster.move_group(&[0, 1, 2]);
    cluster.update_all();
    heal(cluster);
}

#[test]
fn a_lost_head_leaves_what_snapshots_preserve() {
    for (seed, is_gone) in [(1, false), (2, true), (3, false), (4, true)] {
        let mut cluster = written(seed);
        ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, SnapId::HEAD));
        let waits = ask(&mut cluster, A, SnapId::HEAD);
        heal(&mut cluster);
        assert_eq!((answer(&cluster, waits), unfound(&mut cluster)), (None, 1));
        if is_gone {
            // The object's knowledge of its snapshots is not left, either.
            for osd in ALL {
                cluster.change_store(osd, vec![Step::Remove { object: state(SnapId::HEAD) }]);
            }
        }
        assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
        cluster.turn(A);
        heal(&mut cluster);
        assert_eq!(answer(&cluster, waits), Some((ABSENT, String::new())));
        check(&mut cluster, &[SnapId(1), SnapId(2), SnapId::HEAD], [Some('a'), Some('b'), None]);
        remove_snapshots(&mut cluster);
        check(&mut cluster, &[], [None, None, None]);
    }
}

#[test]
fn an_update_that_waited_makes_the_object_anew() {
    let mut cluster = written(5);
    ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, SnapId::HEAD));
    ask(&mut cluster, A, SnapId::HEAD);
    heal(&mut cluster);
    let waits = write(&mut cluster, 'd');
    assert_eq!(answer(&cluster, waits), None);
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    heal(&mut cluster);
    assert_eq!(answer(&cluster, waits).map(|(result, _)| result), Some(0));
    check(&mut cluster, &[SnapId(1), SnapId(2), SnapId::HEAD], [Some('a'), Some('b'), Some('d')]);
    remove_snapshots(&mut cluster);
    check(&mut cluster, &[SnapId::HEAD], [None, None, Some('d')]);
}

#[test]
fn a_lost_state_of_a_snapshot_leaves_the_others() {
    for lost in [1, 2] {
        let mut cluster = written(6);
        ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, SnapId(lost)));
        let waits = ask(&mut cluster, A, SnapId(lost));
        heal(&mut cluster);
        assert_eq!((answer(&cluster, waits), unfound(&mut cluster)), (None, 1));
        assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
        cluster.turn(A);
        heal(&mut cluster);
        assert_eq!(answer(&cluster, waits), Some((ABSENT, String::new())));
        let left = SnapId(3 - lost);
        let contents = [Some('a').filter(|_| lost != 1), Some('b').filter(|_| lost != 2), Some('c')];
        check(&mut cluster, &[left, SnapId::HEAD], contents);
        remove_snapshots(&mut cluster);
        check(&mut cluster, &[SnapId::HEAD], [None, None, Some('c')]);
    }
}

#[test]
fn all_that_is_lost_of_an_object_goes_at_once() {
    let mut cluster = written(7);
    for snap in [SnapId(1), SnapId(2), SnapId::HEAD] {
        ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, snap));
        ask(&mut cluster, A, snap);
        heal(&mut cluster);
    }
    // Reads at a snapshot wait for the head, too.
    let found = unfound(&mut cluster);
    assert!(found >= 1);
    for _ in 0..3 {
        if cluster.shard(A).give_up_unfound(PG).is_ok() {
            cluster.turn(A);
            heal(&mut cluster);
        }
    }
    check(&mut cluster, &[], [None, None, None]);
}

#[test]
fn what_is_elsewhere_is_waited_for() {
    let mut cluster = written(8);
    ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, SnapId::HEAD));
    ask(&mut cluster, A, SnapId::HEAD);
    heal(&mut cluster);
    let waits = ask(&mut cluster, A, SnapId(2));
    assert_eq!((answer(&cluster, waits), unfound(&mut cluster)), (None, 1), "which state it is the head says");
    // The state of snapshot 2 turns out to be bad on the primary, and comes from another member only later.
    cluster.cut = [(B, A), (C, A)].into();
    spoil(&mut cluster, A, SnapId(2));
    find_bad(&mut cluster, &state(SnapId(2)));
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    cluster.settle();
    assert_eq!((answer(&cluster, waits), unfound(&mut cluster)), (None, 1), "nothing is given up without it");
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1), "who asks again changes nothing");
    cluster.cut.clear();
    heal(&mut cluster);
    assert_eq!((unfound(&mut cluster), answer(&cluster, waits)), (0, Some((0, text('b')))));
    check(&mut cluster, &[SnapId(1), SnapId(2), SnapId::HEAD], [Some('a'), Some('b'), None]);
}

#[test]
fn an_interval_that_ends_before_gives_nothing_up() {
    let mut cluster = written(9);
    ALL.into_iter().for_each(|osd| spoil(&mut cluster, osd, SnapId::HEAD));
    ask(&mut cluster, A, SnapId::HEAD);
    heal(&mut cluster);
    cluster.cut = [(B, A), (C, A)].into();
    find_bad(&mut cluster, &state(SnapId(2)));
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    cluster.move_group(&[0, 2, 1]);
    cluster.update_all();
    cluster.cut.clear();
    heal(&mut cluster);
    assert_eq!(unfound(&mut cluster), 1, "it is asked for again");
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    heal(&mut cluster);
    check(&mut cluster, &[SnapId(1), SnapId(2), SnapId::HEAD], [Some('a'), Some('b'), None]);
}

#[test]
fn shards_of_which_too_few_are_left_are_given_up_like_copies() {
    let mut cluster = written_in(Cluster::coded(10));
    let shard = |shard: u8, snap: SnapId| ObjectId { pool: POOL.of_shard(shard), ..state(snap) };
    for (osd, number) in [(B, 1), (C, 2)] {
        cluster.spoil(osd, &shard(number, SnapId::HEAD), 0);
    }
    find_bad(&mut cluster, &shard(0, SnapId::HEAD));
    let waits = ask(&mut cluster, A, SnapId(2));
    heal(&mut cluster);
    assert_eq!((answer(&cluster, waits), unfound(&mut cluster)), (None, 1));
    assert_eq!(cluster.shard(A).give_up_unfound(PG), Ok(1));
    cluster.turn(A);
    heal(&mut cluster);
    assert_eq!((answer(&cluster, waits), bits(&mut cluster, A)), (Some((0, text('b'))), WELL));
    for (snap, wanted) in [(SnapId(1), Some('a')), (SnapId(2), Some('b')), (SnapId::HEAD, None)] {
        let wanted = wanted.map_or((ABSENT, String::new()), |letter| (0, text(letter)));
        assert!(read(&mut cluster, A, snap) == Some(wanted), "{snap:?}");
    }
    assert_eq!(scrub_errors(&mut cluster), 0);
    let stored = |cluster: &mut Cluster, osd: OsdId| {
        let all = cluster.ready(osd, |store| store.list(&ObjectId::min(), &ObjectId::max(), 100));
        all.into_iter().filter(|object| !object.pool.is_kept_back()).map(|object| object.snap).collect::<Vec<_>>()
    };
    ALL.into_iter().for_each(|osd| {
        assert_eq!(stored(&mut cluster, osd), [SnapId(1), SnapId(2), SnapId::HEAD], "{osd}");
    });
    remove_snapshots(&mut cluster);
    ALL.into_iter().for_each(|osd| assert_eq!(stored(&mut cluster, osd), [], "{osd}"));
}

//! Snapshots of objects against a naive model, with all that can come between.

use super::cluster::{Cluster, POOL};
use super::steps::Client;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::ops::Limits;
use bytes::Bytes;
use osdmap::{PoolFlags, pg_range};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::UNKNOWN_SNAP;
use types::{Errno, ObjectId, OsdId, SnapId};
use wire::basic::{IntervalSet, SnapContext};
use wire::messages::Op;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);

/// An object: what it is, and what it was at each snapshot of which that is known.
#[derive(Clone, Default, Debug)]
struct Model {
    head: Option<String>,
    /// The newest snapshot that a change knew.
    seq: u64,
    at: BTreeMap<u64, Option<String>>,
}

impl Model {
    /// Keeps the state before a change that is about to happen.
    fn preserve(&mut self, snaps: &SnapContext) {
        for snap in snaps.snaps.iter().filter(|snap| snap.0 > self.seq) {
            self.at.insert(snap.0, self.head.clone());
        }
        self.seq = self.seq.max(snaps.seq.0);
    }

    fn at(&self, snap: u64) -> Option<String> {
        if snap > self.seq { self.head.clone() } else { self.at.get(&snap).cloned().flatten() }
    }
}

/// A cluster whose group's primary is `A`, and what its objects should hold.
struct Written {
    cluster: Cluster,
    objects: BTreeMap<u32, Model>,
    live: BTreeSet<u64>,
    tid: u64,
}

fn name(n: u32) -> Vec<u8> {
    format!("o{n}").into_bytes()
}

impl Written {
    fn new(seed: u64) -> Written {
        let limits = Limits { backfill_objects: 3, log_entries_min: 40, ..Limits::default() };
        let mut cluster = Cluster::limited(4, seed, limits);
        let mut pool = cluster.map.pools[&POOL].clone();
        pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
        cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
        cluster.update_all();
        cluster.settle();
        Written { cluster, objects: BTreeMap::new(), live: BTreeSet::new(), tid: 0 }
    }

    fn ask(&mut self, n: u32, op: Op) {
        self.tid += 1;
        let session = self.cluster.connect(A);
        let epoch = self.cluster.map.epoch;
        self.cluster.ask_of(A, session, self.tid, epoch, 0, (n, &name(n)), op);
    }

    fn model(&mut self, n: u32) -> &mut Model {
        self.objects.entry(n).or_default()
    }

    fn append(&mut self, n: u32) {
        let text = format!("{},", self.tid + 1);
        let snaps = self.cluster.snaps.clone();
        let model = self.model(n);
        model.preserve(&snaps);
        model.head.get_or_insert_default().push_str(&text);
        self.ask(n, Op::append(Bytes::from(text)));
    }

    fn write_full(&mut self, n: u32) {
        let text = format!("{}!", self.tid + 1);
        let snaps = self.cluster.snaps.clone();
        let model = self.model(n);
        model.preserve(&snaps);
        model.head = Some(text.clone());
        self.ask(n, Op::write_full(Bytes::from(text)));
    }

    fn remove(&mut self, n: u32) {
        let snaps = self.cluster.snaps.clone();
        let model = self.model(n);
        if model.head.is_some() {
            model.preserve(&snaps);
            model.head = None;
        }
        self.ask(n, Op::delete());
    }

    fn roll_back(&mut self, n: u32, snap: u64) {
        let snaps = self.cluster.snaps.clone();
        let model = self.model(n);
        let then = model.at(snap);
        if then.is_some() || model.head.is_some() {
            model.preserve(&snaps);
            model.head = then;
        }
        self.ask(n, Op::rollback(SnapId(snap)));
    }

    fn take_snapshot(&mut self) {
        let seq = self.cluster.snaps.seq.0 + 1;
        self.live.insert(seq);
        self.know_snapshots(seq);
    }

    fn know_snapshots(&mut self, seq: u64) {
        let snaps = self.live.iter().rev().copied().map(SnapId).collect();
        self.cluster.snaps = SnapContext { seq: SnapId(seq), snaps };
    }

    fn remove_snapshot(&mut self, snap: u64) {
        self.live.remove(&snap);
        self.know_snapshots(self.cluster.snaps.seq.0);
        self.cluster.change(|next| next.new_removed_snaps.entry(POOL).or_default().insert(snap, 1));
        self.cluster.update_all();
    }

    fn heal(&mut self) {
        self.cluster.heal(4);
    }

    fn move_group(&mut self, acting: &[i32]) {
        self.cluster.move_group(acting);
        self.cluster.update_all();
    }

    /// Checks what clients read of every object at every snapshot if `primary` leads, `others` being the other members.
    fn check(&mut self, primary: OsdId, others: [OsdId; 2]) {
        self.move_group(&[primary.0, others[0].0, others[1].0]);
        self.heal();
        assert!(self.cluster.is_active(primary), "{primary} leads");
        let snaps = self.live.iter().copied().map(Some).chain([None]);
        for snap in snaps.collect::<Vec<_>>() {
            for n in self.objects.keys().copied().collect::<Vec<_>>() {
                let model = self.objects[&n].clone();
                let wanted = snap.map_or_else(|| model.head.clone(), |snap| model.at(snap));
                self.cluster.snap = snap.map_or(SnapId::HEAD, SnapId);
                assert_eq!(self.read(primary, n), wanted, "object {n} at {snap:?} by {primary}: {model:?}");
            }
        }
        self.cluster.snap = SnapId::HEAD;
    }

    fn read(&mut self, primary: OsdId, n: u32) -> Option<String> {
        let session = self.cluster.connect(primary);
        let tid = 1_000_000 + self.cluster.answers.len() as u64;
        let epoch = self.cluster.map.epoch;
        self.cluster.ask_of(primary, session, tid, epoch, 0, (n, &name(n)), Op::read(0, 0));
        self.cluster.settle();
        match &self.cluster.answers_to(tid)[..] {
            [(_, 0, content)] => Some(content.clone()),
            [(_, result, _)] if *result == Errno::ENOENT.as_result() => None,
            other => panic!("object {n}: {other:?}"),
        }
    }

    /// Returns the objects that a store has, with their information.
    fn stored(&mut self, osd: OsdId) -> BTreeMap<ObjectId, ObjectInfo> {
        let (from, until) = pg_range(super::cluster::PG, 1);
        self.cluster.remember(osd);
        let objects = self.cluster.ready(osd, |store| store.list(&from, &until, 10_000));
        let mut info = |object: &ObjectId| {
            let stat = self.cluster.ready(osd, |store| store.stat(object)).expect("it is listed");
            ObjectInfo::of(&stat).expect("it is whole")
        };
        let infos: Vec<ObjectInfo> = objects.iter().map(&mut info).collect();
        objects.into_iter().zip(infos).collect()
    }

    /// Checks that all members have the same, every clone belongs to a snapshot that is there, and the primary has
    /// counted right.
    fn check_stores(&mut self, members: [OsdId; 3]) {
        self.heal();
        let stored = self.stored(members[0]);
        for osd in &members[1..] {
            assert_eq!(self.stored(*osd), stored, "{osd}");
        }
        let mut known = BTreeSet::new();
        for (object, info) in stored.iter().filter(|(object, _)| !object.is_clone()) {
            for clone in &info.snap_set.clones {
                assert!(!clone.snaps.is_empty() && clone.snaps.iter().all(|snap| self.live.contains(&snap.0)));
                known.insert(ObjectId { snap: clone.id, ..object.clone() });
            }
            assert!(!info.snap_set.is_whiteout || !info.snap_set.clones.is_empty(), "{object} is there for nothing");
        }
        members.into_iter().for_each(|osd| self.check_lists(osd, &stored));
        let clones: BTreeSet<ObjectId> = stored.keys().filter(|object| object.is_clone()).cloned().collect();
        assert_eq!(clones, known, "clones that are there, and those that are known");
        let view = self.cluster.shard(members[0]).pg_view(super::cluster::PG).expect("it leads");
        assert_eq!(view.objects, stored.len() as u64, "objects");
    }
}

impl Written {
    /// Checks that a store has clones listed under all snapshots that they are there for.
    fn check_lists(&mut self, osd: OsdId, stored: &BTreeMap<ObjectId, ObjectInfo>) {
        if !self.cluster.store(osd).lists_clones() {
            return;
        }
        let (from, until) = pg_range(super::cluster::PG, 1);
        for snap in self.live.clone().into_iter().map(SnapId).chain([UNKNOWN_SNAP]) {
            let listed = self.cluster.ready(osd, |store| store.clones_of(snap, &from, &until, 10_000));
            let listed: BTreeSet<ObjectId> = listed.into_iter().collect();
            let mut expected = BTreeSet::new();
            for (object, info) in stored {
                let clones = info.snap_set.clones.iter().filter(|clone| clone.snaps.contains(&snap));
                expected.extend(clones.map(|clone| ObjectId { snap: clone.id, ..object.clone() }));
            }
            assert_eq!(listed, expected, "{osd}: clones of {snap:?}");
        }
    }
}

#[test]
fn a_snapshot_stays_what_the_object_was() {
    let mut written = Written::new(7);
    written.append(1);
    written.take_snapshot();
    written.append(2);
    written.write_full(1);
    written.take_snapshot();
    written.remove(1);
    written.remove(1);
    written.take_snapshot();
    written.append(1);
    written.check(A, [B, C]);
    written.roll_back(1, 1);
    written.roll_back(2, 1);
    written.check(B, [A, C]);
    written.check_stores([B, A, C]);
}

/// Writes that change nothing count as in Ceph 16.2.15, which was asked the same: the object gets a version, and the
/// snapshot a state of its own. Linux's client marks an object as written since the snapshot before it truncates it to
/// the size that it has, and librbd then calls its map of objects invalid where no snapshot says so.
#[test]
fn a_write_that_changes_nothing_is_a_write() {
    let writes: [(&str, Op, bool); 12] = [
        ("truncation to the same size", Op::truncate(2), true),
        ("creation of what is there", Op::create(false), true),
        ("no bytes", Op::write(1, Bytes::new()), true),
        ("no bytes at the end", Op::append(Bytes::new()), true),
        ("the same bytes", Op::write(0, "1,"), true),
        ("a hint", Op::set_alloc_hint(4096, 4096, 0), true),
        ("removal of an attribute that is not there", Op::rm_xattr(b"a"), true),
        ("removal of a key that is not there", Op::omap_rm_keys(&BTreeSet::from([Bytes::from_static(b"a")])), true),
        ("removal of an omap that is not there", Op::omap_clear(), false),
        ("zeros behind the end", Op::zero(2, 10), false),
        ("the same attribute once more", Op::set_xattr(b"b", b"x"), true),
        ("a question", Op::stat(), false),
    ];
    let mut written = Written::new(7);
    let numbers: Vec<u32> = (1..).take(writes.len()).collect();
    for n in &numbers {
        let session = written.cluster.connect(A);
        let epoch = written.cluster.map.epoch;
        written.cluster.ask_of(A, session, 100 + u64::from(*n), epoch, 0, (*n, &name(*n)), Op::append("1,"));
    }
    written.cluster.settle();
    written.tid = 1000;
    written.ask(numbers[10], Op::set_xattr(b"b", b"x"));
    written.cluster.settle();
    let versions = |written: &mut Written| -> BTreeMap<Vec<u8>, (u64, usize)> {
        let stored = written.stored(A);
        let heads = stored.into_iter().filter(|(object, _)| !object.is_clone());
        heads.map(|(object, info)| (object.name.to_vec(), (info.user_version, info.snap_set.clones.len()))).collect()
    };
    let before = versions(&mut written);
    written.take_snapshot();
    for (n, (_, op, _)) in numbers.iter().zip(&writes) {
        written.ask(*n, op.clone());
    }
    written.cluster.settle();
    let after = versions(&mut written);
    for (n, (what, _, counts)) in numbers.iter().zip(&writes) {
        let ((old, _), (new, clones)) = (before[&name(*n)], after[&name(*n)]);
        assert_eq!((new > old, clones == 1), (*counts, *counts), "{what}: version {old}, then {new}; {clones} clones");
    }
    [A, B, C].into_iter().for_each(|osd| assert_eq!(written.stored(osd), written.stored(A)));
}

#[test]
fn removed_snapshots_are_trimmed() {
    let mut written = Written::new(7);
    for round in 0..4 {
        (0..6).for_each(|n| written.append(n));
        written.take_snapshot();
        if round == 2 {
            written.remove(5);
        }
    }
    written.remove(4);
    written.cluster.settle();
    written.check_stores([A, B, C]);
    let before = written.stored(A).len();
    written.remove_snapshot(2);
    written.check_stores([A, B, C]);
    assert!(written.stored(A).len() < before);
    [1, 3, 4].into_iter().for_each(|snap| written.remove_snapshot(snap));
    written.check_stores([A, B, C]);
    let left = written.stored(A);
    assert_eq!(left.len(), 5, "those that are there: {left:?}");
    written.check(A, [B, C]);
    let removed: IntervalSet = (1..=4).collect();
    let primary = written.cluster.shard(A);
    let report = primary.beacon(0, 0).pgs.pop();
    assert!(report.is_none_or(|report| report.trimmed_snaps == removed));
}

#[test]
fn what_trimming_costs_depends_on_the_snapshot_alone() {
    let listed = |lists: bool| {
        let mut written = Written::new(7);
        if !lists {
            (0..4).for_each(|osd| written.cluster.store(OsdId(osd)).pass_over_clone_lists());
        }
        for n in 0..1000 {
            written.append(n);
            if n % 100 == 99 {
                written.cluster.settle();
            }
        }
        written.take_snapshot();
        [7, 603].into_iter().for_each(|n| written.append(n));
        written.take_snapshot();
        (0..30).for_each(|n| written.append(n));
        written.cluster.settle();
        written.remove_snapshot(1);
        written.heal();
        let group = written.cluster.shard(A).groups().next().expect("there is one");
        assert!(group.snap_trim.done().contains(1));
        group.snap_trim.listed()
    };
    assert_eq!((listed(true), listed(false)), (2 + 29, 1000 + 2 + 30), "clones of the snapshot; all that there is");
}

#[test]
fn a_snapshot_of_which_something_cannot_be_trimmed_is_not_done_with() {
    let mut written = Written::new(7);
    (1..=2).for_each(|n| written.append(n));
    written.take_snapshot();
    (1..=2).for_each(|n| written.append(n));
    written.cluster.settle();
    let head = written.stored(A).into_keys().find(|object| object.name == name(1) && !object.is_clone());
    let head = head.expect("it is there");
    written.cluster.remember(A);
    let whole = written.cluster.ready(A, |store| store.stat(&head)).expect("it is there");
    let info = |value: &Bytes| {
        vec![store::Step::SetAttr { object: head.clone(), name: OBJECT_INFO_ATTR.to_vec(), value: value.clone() }]
    };
    written.cluster.change_store(A, info(&Bytes::from_static(b"damaged")));
    written.remove_snapshot(1);
    written.heal();
    let is_done = |written: &mut Written| {
        let group = written.cluster.shard(A).groups().next().expect("there is one");
        group.snap_trim.done().contains(1)
    };
    assert!(!is_done(&mut written));
    // The other object's clone is gone; and others may have their turn.
    written.cluster.change_store(A, info(whole.attrs.get(OBJECT_INFO_ATTR).expect("it has one")));
    assert_eq!(written.stored(A).len(), 3);
    assert!(!written.cluster.shard(A).groups().next().expect("there is one").snap_trim.wants_turn());
    for _ in 0..8 {
        written.cluster.pass(Duration::from_secs(10));
    }
    assert!(is_done(&mut written));
    assert_eq!(written.stored(A).len(), 2);
    written.check_stores([A, B, C]);
}

#[test]
fn stale_and_wrong_contexts_are_told() {
    use wire::messages::OpFlags;
    let mut written = Written::new(7);
    written.take_snapshot();
    written.take_snapshot();
    written.append(1);
    written.cluster.settle();
    let (session, epoch) = (written.cluster.connect(A), written.cluster.map.epoch);
    let object = (1, &name(1)[..]);
    for (tid, seq, snaps, flag, result) in [
        (501, 1, vec![1], OpFlags::ORDERSNAP, Errno::EOLDSNAPC.as_result()),
        (502, 1, vec![1], OpFlags::default(), 0),
        (503, 2, vec![3], OpFlags::default(), Errno::EINVAL.as_result()),
        (504, 5, vec![3, 4], OpFlags::default(), Errno::EINVAL.as_result()),
        (505, 5, vec![4, 0], OpFlags::default(), Errno::EINVAL.as_result()),
        // Snapshots never have these numbers.
        (506, SnapId::HEAD.0, vec![4], OpFlags::default(), Errno::EINVAL.as_result()),
        (507, SnapId::DIR.0, vec![4], OpFlags::default(), Errno::EINVAL.as_result()),
        (508, SnapId::HEAD.0, vec![], OpFlags::default(), Errno::EINVAL.as_result()),
    ] {
        written.cluster.snaps = SnapContext { seq: SnapId(seq), snaps: snaps.into_iter().map(SnapId).collect() };
        written.cluster.ask_flagged(A, session, tid, epoch, flag, object, Op::append(Bytes::from_static(b"x")));
        written.cluster.settle();
        assert_eq!(written.cluster.answers_to(tid)[0].1, result, "{tid}");
    }
}

#[test]
fn whatever_comes_between_snapshots_are_kept() {
    // In some of them one store, or all, have no lists of clones.
    for seed in 0..32u64 {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = |below: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % below
        };
        let mut written = Written::new(seed);
        let without_lists = [0, 0, 1, 4][seed as usize % 4];
        (0..without_lists).for_each(|osd| written.cluster.store(OsdId(osd)).pass_over_clone_lists());
        (0..8).for_each(|n| written.append(n));
        let mut up = true;
        for _ in 0..60 {
            let n = next(10) as u32;
            match next(20) {
                0..4 => written.append(n),
                4 => written.write_full(n),
                5 => written.remove(n),
                6..9 => written.take_snapshot(),
                what @ 9..12 => {
                    // A rollback that comes after the removal of its snapshot would remove the object.
                    let usable = |snap: &&u64| snap.is_multiple_of(2) == (what < 11);
                    let snaps: Vec<u64> = written.live.iter().filter(usable).copied().collect();
                    let snap = snaps.get(next(1 + snaps.len() as u64) as usize).copied();
                    match snap {
                        Some(snap) if what < 11 => written.roll_back(n, snap),
                        Some(snap) => written.remove_snapshot(snap),
                        None => {}
                    }
                }
                12 => {
                    up = !up;
                    match up {
                        true => written.cluster.mark_up(D.0),
                        false => written.cluster.mark_down(D.0),
                    };
                    written.cluster.update_all();
                }
                13 => (0..next(60)).for_each(|_| written.append(n % 3)),
                14 => {
                    let others = [[1, 3], [1, 2], [2, 3], [3, 2]][next(4) as usize];
                    written.move_group(&[0, others[0], others[1]]);
                }
                15 => written.cluster.pass(Duration::from_millis(next(6000))),
                _ => {
                    for _ in 0..next(60) {
                        let pick = next(1000);
                        written.cluster.step(pick);
                    }
                }
            }
        }
        if !up {
            written.cluster.mark_up(D.0);
            written.cluster.update_all();
        }
        written.move_group(&[0, 1, 3]);
        written.heal();
        written.check(D, [A, B]);
        written.check_stores([D, A, B]);
        written.check(B, [D, A]);
    }
}

/// Each step wants another state of the object, and all of them have to be at hand together.
#[test]
fn one_operation_may_go_back_to_several_snapshots() {
    for cluster in [Cluster::new(3), Cluster::coded(3)] {
        let mut client = Client::of(cluster);
        let mut pool = client.cluster.map.pools[&POOL].clone();
        pool.flags.insert(PoolFlags::SELFMANAGED_SNAPS);
        client.cluster.change(|next| drop(next.new_pools.insert(POOL, pool)));
        client.cluster.update_all();
        client.cluster.settle();
        for seq in 1..4 {
            assert_eq!(client.result(vec![Op::write_full(format!("before {seq}"))]), 0);
            let snaps = (1..=seq).rev().map(SnapId).collect();
            client.cluster.snaps = SnapContext { seq: SnapId(seq), snaps };
        }
        assert_eq!(client.result(vec![Op::write_full("now")]), 0);
        let back = [1, 3, 2].map(|snap| Op::rollback(SnapId(snap)));
        assert_eq!(client.result(back.to_vec()), 0);
        let read = client.ask(vec![Op::read(0, 100)]);
        assert_eq!(read.ops[0].outdata.to_vec(), b"before 2");
    }
}

//! OSDs that become full: writes are refused, deletes are not, nobody stops, and what was answered is there.

use super::cluster::Cluster;
use bytes::Bytes;
use osdmap::{OsdState, PoolFlags};
use std::collections::BTreeMap;
use std::time::Duration;
use store::{Step, Transaction};
use types::{Errno, ObjectId, OsdId, PgId, PoolId};
use wire::messages::{Op, OpFlags};
use wire::nacre::mon::pg_state;

const A: OsdId = OsdId(0);
const B: OsdId = OsdId(1);
const C: OsdId = OsdId(2);
const D: OsdId = OsdId(3);
/// The group that stores are filled with belongs to another pool.
const FILLER: PgId = PgId::new(9, 0);

fn name(n: u64) -> Vec<u8> {
    format!("full-{n}").into_bytes()
}

fn content(n: u64, round: u64, len: usize) -> Bytes {
    (0..len as u64).map(|i| (n * 31 + round * 7 + i / 512) as u8).collect::<Vec<_>>().into()
}

fn filler(n: u64) -> ObjectId {
    ObjectId::head(PoolId(9), n as u32, b"", format!("filler-{n}").as_bytes())
}

/// Fills an OSD's store with what no group knows of, but for so much. Returns how many objects that took.
fn fill(cluster: &mut Cluster, osd: OsdId, leave_bytes: u64) -> u64 {
    let mut n = 0;
    loop {
        cluster.settle();
        let room = cluster.store(osd).room_bytes();
        if room < leave_bytes + (200 << 10) {
            return n;
        }
        let len = (room - leave_bytes).min(256 << 10) as usize / 2;
        let data = wire::Rope::from(vec![7; len]);
        let steps = vec![Step::Write { object: filler(n), offset: 0, data }];
        cluster.store(osd).submit(Transaction { pg: FILLER, steps }).expect("there is room");
        cluster.turn(osd);
        n += 1;
    }
}

fn empty(cluster: &mut Cluster, osd: OsdId, fillers: u64) {
    let steps = (0..fillers).map(|n| Step::Remove { object: filler(n) }).collect();
    cluster.store(osd).submit(Transaction { pg: FILLER, steps }).expect("deletes are taken");
    cluster.turn(osd);
    cluster.settle();
}

struct Writer {
    cluster: Cluster,
    tid: u64,
    acknowledged: BTreeMap<u64, Bytes>,
}

impl Writer {
    fn new(osds: i32, seed: u64) -> Writer {
        Writer { cluster: Cluster::seeded(osds, seed), tid: 0, acknowledged: BTreeMap::new() }
    }

    fn ask(&mut self, n: u64, op: Op) -> u64 {
        self.tid += 1;
        let session = self.cluster.connect(A);
        let epoch = self.cluster.map.epoch;
        self.cluster.ask_of(A, session, self.tid, epoch, 0, (n as u32, &name(n)), op);
        self.tid
    }

    fn result(&self, tid: u64) -> Option<i32> {
        self.cluster.answers_to(tid).first().map(|(_, result, _)| *result)
    }

    fn write(&mut self, n: u64, len: usize) -> u64 {
        let data = content(n, self.tid, len);
        self.ask(n, Op::write_full(data))
    }

    /// Lets things happen until all of these are answered; those that succeeded are remembered.
    fn answered(&mut self, writes: &[(u64, u64, Bytes)]) -> Vec<i32> {
        for _ in 0..20 {
            self.cluster.settle();
            if writes.iter().all(|(tid, ..)| self.result(*tid).is_some()) {
                break;
            }
            self.cluster.pass(Duration::from_secs(1));
        }
        let results: Vec<i32> = writes.iter().map(|(tid, ..)| self.result(*tid).expect("an answer")).collect();
        for ((_, n, data), result) in writes.iter().zip(&results) {
            if *result == 0 {
                self.acknowledged.insert(*n, data.clone());
            }
        }
        results
    }

    /// Checks that the primary of the newest map gives for every object what was acknowledged.
    fn check(&mut self, primary: OsdId) {
        let epoch = self.cluster.map.epoch;
        for (n, data) in self.acknowledged.clone() {
            let session = self.cluster.connect(primary);
            self.tid += 1;
            let tid = self.tid;
            self.cluster.ask_of(primary, session, tid, epoch, 0, (n as u32, &name(n)), Op::read(0, 0));
            self.cluster.settle();
            let answer = self.cluster.answers.iter().find(|answer| answer.tid == tid).expect("an answer");
            assert_eq!(answer.reply.ops[0].outdata.to_vec(), data, "object {n}");
        }
    }
}

/// Writes many objects at a time until nothing fits; then deletes, and writes again. Which OSD has the least room
/// varies.
fn fill_and_go_on(seed: u64) {
    let mut writer = Writer::new(3, seed);
    let tight = OsdId((seed % 4) as i32);
    let fillers = if tight.0 < 3 { fill(&mut writer.cluster, tight, 2 << 20) } else { 0 };
    for round in 0..2 {
        let mut next = 1000 * round;
        let mut refused = 0;
        while refused < 20 {
            let mut writes = Vec::new();
            for _ in 0..12 {
                let len = [700, 5000, 30_000, 120_000][(next % 4) as usize];
                let data = content(next, writer.tid, len);
                let tid = writer.ask(next, Op::write_full(data.clone()));
                writes.push((tid, next, data));
                next += 1;
                (0..next % 7).for_each(|pick| writer.cluster.step(pick));
            }
            for result in writer.answered(&writes) {
                match result {
                    0 => {}
                    refusal if refusal == Errno::ENOSPC.as_result() => refused += 1,
                    other => panic!("seed {seed}: {other}"),
                }
            }
            assert!(next < 1000 * round + 900, "seed {seed}: never full");
        }
        assert!(writer.acknowledged.len() > 8, "seed {seed}: {}", writer.acknowledged.len());
        writer.check(A);
        let all: Vec<u64> = writer.acknowledged.keys().copied().collect();
        for n in all.into_iter().filter(|n| n % 9 != 0) {
            let tid = writer.ask(n, Op::delete());
            writer.cluster.settle();
            assert_eq!(writer.result(tid), Some(0), "seed {seed}: deletes are never refused");
            writer.acknowledged.remove(&n);
        }
        writer.cluster.pass(Duration::from_secs(1));
    }
    empty(&mut writer.cluster, tight.min(C), fillers);
    for member in [B, C] {
        let others: Vec<i32> = (0..3).filter(|osd| *osd != member.0).collect();
        writer.cluster.move_group(&[member.0, others[0], others[1]]);
        writer.cluster.update_all();
        writer.cluster.settle();
        writer.cluster.pass(Duration::from_secs(4));
        writer.check(member);
    }
}

#[test]
fn full_osds_refuse_writes_take_deletes_and_do_not_stop() {
    (0..8).for_each(fill_and_go_on);
}

#[test]
fn what_is_backfilled_waits_for_room() {
    let mut writer = Writer::new(4, 7);
    let writes: Vec<_> = (0..12).map(|n| (writer.write(n, 100_000), n, content(n, n, 100_000))).collect();
    assert!(writer.answered(&writes).iter().all(|result| *result == 0));
    let fillers = fill(&mut writer.cluster, D, 600 << 10);
    writer.cluster.move_group(&[0, 1, 3]);
    writer.cluster.update_all();
    writer.cluster.settle();
    let state = |writer: &mut Writer| writer.cluster.shard(A).pg_view(super::cluster::PG).expect("A leads").state;
    assert!(state(&mut writer) & pg_state::BACKFILL_TOOFULL != 0, "{:#x}", state(&mut writer));
    writer.cluster.pass(Duration::from_secs(6));
    assert!(state(&mut writer) & pg_state::BACKFILL_TOOFULL != 0, "there is still no room");
    // Objects that could not be copied can be changed all the same.
    let writes =
        vec![(writer.write(3, 50_000), 3, content(3, 12, 50_000)), (writer.write(11, 10), 11, content(11, 13, 10))];
    assert_eq!(writer.answered(&writes), [0, 0]);
    empty(&mut writer.cluster, D, fillers);
    for _ in 0..4 {
        writer.cluster.pass(Duration::from_secs(6));
    }
    assert!(state(&mut writer) & pg_state::CLEAN != 0, "{:#x}", state(&mut writer));
    writer.cluster.move_group(&[3, 0, 1]);
    writer.cluster.update_all();
    writer.cluster.settle();
    writer.cluster.pass(Duration::from_secs(4));
    writer.check(D);
}

#[test]
fn nothing_is_backfilled_to_an_osd_that_the_map_shows_full() {
    let mut writer = Writer::new(4, 3);
    let writes: Vec<_> = (0..6).map(|n| (writer.write(n, 5000), n, content(n, n, 5000))).collect();
    assert!(writer.answered(&writes).iter().all(|result| *result == 0));
    writer.cluster.change(|next| next.flip_state(D, OsdState::BACKFILLFULL));
    writer.cluster.move_group(&[0, 1, 3]);
    writer.cluster.update_all();
    writer.cluster.settle();
    writer.cluster.pass(Duration::from_secs(3));
    let state = |writer: &mut Writer| writer.cluster.shard(A).pg_view(super::cluster::PG).expect("A leads").state;
    assert!(state(&mut writer) & pg_state::BACKFILL_TOOFULL != 0);
    assert_eq!(writer.cluster.pushed, []);
    writer.cluster.change(|next| next.flip_state(D, OsdState::BACKFILLFULL));
    writer.cluster.update_all();
    for _ in 0..3 {
        writer.cluster.pass(Duration::from_secs(2));
    }
    assert!(state(&mut writer) & pg_state::CLEAN != 0, "{:#x}", state(&mut writer));
    assert_eq!(writer.cluster.pushed.iter().filter(|(to, object)| *to == D && !object.max).count(), 6);
}

#[test]
fn a_full_pool_takes_deletes_and_what_insists() {
    let mut writer = Writer::new(3, 5);
    let first = vec![(writer.write(1, 100), 1, content(1, 0, 100))];
    assert_eq!(writer.answered(&first), [0]);
    set_flags(&mut writer.cluster, PoolFlags::FULL, true);
    // The client learns from the map that it is to wait.
    let dropped = writer.write(2, 100);
    writer.cluster.pass(Duration::from_secs(3));
    assert_eq!(writer.result(dropped), None);
    assert_eq!(writer.cluster.client_bytes(A), 0);
    let insisting = |writer: &mut Writer, n: u64, flag: OpFlags| {
        writer.tid += 1;
        let session = writer.cluster.connect(A);
        let (tid, epoch) = (writer.tid, writer.cluster.map.epoch);
        let op = Op::write_full(content(n, 2, 100));
        writer.cluster.ask_flagged(A, session, tid, epoch, flag, (n as u32, &name(n)), op);
        writer.cluster.settle();
        writer.result(tid)
    };
    assert_eq!(insisting(&mut writer, 2, OpFlags::FULL_TRY), Some(Errno::ENOSPC.as_result()));
    assert_eq!(insisting(&mut writer, 2, OpFlags::FULL_FORCE), Some(0));
    let gone = writer.ask(1, Op::delete());
    writer.cluster.settle();
    assert_eq!(writer.result(gone), Some(0));
    set_flags(&mut writer.cluster, PoolFlags::FULL_QUOTA, true);
    assert_eq!(insisting(&mut writer, 5, OpFlags::FULL_TRY), Some(Errno::EDQUOT.as_result()));
}

/// Sets flags of the pool, or takes them back.
fn set_flags(cluster: &mut Cluster, flags: PoolFlags, on: bool) {
    let mut pool = cluster.map.pools[&super::cluster::POOL].clone();
    pool.flags = if on { pool.flags | flags } else { pool.flags.without(flags) };
    cluster.change(|next| drop(next.new_pools.insert(super::cluster::POOL, pool)));
    cluster.update_all();
    cluster.settle();
}

/// A client that does not know yet that the pool is full, or that it no longer is, sends on: what follows an update
/// that was dropped is dropped as well, since the client sends all of it again, in order.
#[test]
fn nothing_overtakes_what_a_full_pool_turned_away() {
    let mut writer = Writer::new(3, 6);
    let first = vec![(writer.write(1, 100), 1, content(1, 0, 100)), (writer.write(2, 100), 2, content(2, 1, 100))];
    assert_eq!(writer.answered(&first), [0, 0]);
    let before = writer.cluster.map.epoch;
    let session = writer.cluster.connect(A);
    let ask = |writer: &mut Writer, epoch, n: u64, op: Op| {
        writer.tid += 1;
        let tid = writer.tid;
        writer.cluster.ask_of(A, session, tid, epoch, 0, (n as u32, &name(n)), op);
        writer.cluster.settle();
        writer.result(tid)
    };
    let larger = || Op::write_full(content(1, 3, 9000));
    set_flags(&mut writer.cluster, PoolFlags::FULL, true);
    assert_eq!(ask(&mut writer, before, 1, larger()), None);
    assert_eq!(ask(&mut writer, before, 1, Op::delete()), None, "it was sent behind that one");
    assert_eq!(ask(&mut writer, before, 2, Op::delete()), Some(0), "nothing of this object was dropped");
    set_flags(&mut writer.cluster, PoolFlags::FULL, false);
    assert_eq!(ask(&mut writer, before, 1, Op::delete()), None, "its client has not heard yet");
    let now = writer.cluster.map.epoch;
    assert_eq!(ask(&mut writer, now, 1, larger()), Some(0));
    assert_eq!(ask(&mut writer, now, 1, Op::delete()), Some(0));
    assert_eq!(writer.cluster.client_bytes(A), 0);
}

/// A client whose session broke while the pool was full sends an update twice in a row: by the map that it had, from a
/// queue of the network, and by the newest one. Found by a simulated seed (18958538405).
#[test]
fn an_update_that_waits_is_as_new_as_its_last_attempt() {
    let mut writer = Writer::new(3, 6);
    let first = vec![(writer.write(1, 100), 1, content(1, 0, 100))];
    assert_eq!(writer.answered(&first), [0]);
    let before = writer.cluster.map.epoch;
    let session = writer.cluster.connect(A);
    set_flags(&mut writer.cluster, PoolFlags::FULL, true);
    let ask = |writer: &mut Writer, tid, epoch, op: Op| {
        writer.cluster.ask_of(A, session, tid, epoch, 0, (1, &name(1)), op);
    };
    let larger = || Op::write_full(content(1, 3, 9000));
    ask(&mut writer, 100, before, larger());
    writer.cluster.settle();
    assert_eq!(writer.result(100), None);
    set_flags(&mut writer.cluster, PoolFlags::FULL, false);
    let now = writer.cluster.map.epoch;
    // A read that waits for the device holds both attempts up.
    ask(&mut writer, 101, now, Op::read(0, 100));
    ask(&mut writer, 100, before, larger());
    ask(&mut writer, 100, now, larger());
    writer.cluster.settle();
    assert_eq!((writer.result(101), writer.result(100)), (Some(0), Some(0)));
    assert_eq!(writer.cluster.client_bytes(A), 0);
}

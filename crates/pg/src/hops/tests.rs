//! Operations that are kept, and sums of their hops.

use super::recorder::Recorder;
use super::sample::{Hop, OpSample};
use super::times::{OpTimes, Stamp};
use crate::intake::operations::ClientOp;
use bytes::Bytes;
use proptest::prelude::*;
use std::time::Duration;
use store::CommitTimes;
use types::{EntityName, Epoch, PgId, PoolId, ReqId};
use wire::basic::{Locator, NO_SHARD, SPgId};
use wire::messages::{Op, OsdOp, OsdOpReply};
use wire::msgr::SessionId;

const PG: PgId = PgId::new(1, 0);

fn reqid(tid: u64) -> ReqId {
    ReqId { name: EntityName::client(4100), tid, inc: 0 }
}

/// Answers the operation `tid`, which came at `began` and took `us`.
fn answer(recorder: &mut Recorder, tid: u64, began: Duration, us: u64) {
    let pgid = SPgId { pg: PG, shard: NO_SHARD };
    let op = OsdOp::new(pgid, 7, Epoch(1), Locator::pool(PoolId(1)), Bytes::from_static(b"o"), vec![Op::read(0, 0)]);
    let reply = OsdOpReply::to(&op, 0, Epoch(1));
    let mut times = OpTimes::new(began, began);
    times.sampled = recorder.chooses(&reqid(tid));
    let op = ClientOp::new(SessionId(1), tid, reqid(tid), op, times);
    let at = began + Duration::from_micros(us);
    recorder.answered(at, PG, &op, &reply, None);
    recorder.sent(at);
}

#[test]
fn what_is_kept_is_bounded_and_follows_the_rate() {
    let mut recorder = Recorder::new(32);
    let mut now = Duration::ZERO;
    let mut tid = 0;
    for second in 0..100 {
        let before = recorder.recent().map(|op| op.reqid.tid).max().unwrap_or(0);
        for _ in 0..20_000 {
            tid += 1;
            answer(&mut recorder, tid, now, 100);
        }
        let kept = recorder.recent().filter(|op| op.reqid.tid > before).count();
        let (low, high) = if second == 0 { (128, 128) } else { (8, 64) };
        assert!((low..=high).contains(&kept), "second {second}: {kept} of 20000");
        now += Duration::from_secs(1);
        recorder.tick(now);
    }
    assert_eq!(recorder.recent().count(), 1024);
    assert!(recorder.one_in() >= 512, "{}", recorder.one_in());
    assert!(recorder.recent().is_sorted_by_key(|op| op.reqid.tid), "oldest first");
    assert!(recorder.slowest().count() <= 80);
    // Few operations: soon every one is kept again.
    for _ in 0..20 {
        now += Duration::from_secs(1);
        recorder.tick(now);
    }
    assert_eq!(recorder.one_in(), 1);
}

#[test]
fn the_slowest_of_each_minute_are_kept_for_ten_minutes() {
    let mut recorder = Recorder::new(1);
    let mut tid = 0;
    for minute in 0..15_u64 {
        let now = Duration::from_secs(60 * minute);
        recorder.tick(now);
        for n in 0..1000 {
            tid += 1;
            // The slowest is somewhere among the others.
            let us = if n == 345 { 5_000_000 + minute } else { 100 + (n * 7919) % 1000 };
            answer(&mut recorder, tid, now, us);
        }
    }
    let slowest: Vec<u64> = recorder.slowest().map(|op| u64::from(op.total_us())).collect();
    assert_eq!(slowest.len(), 80);
    let expected: Vec<u64> = (5..15).map(|minute| 5_000_000 + minute).collect();
    assert_eq!(slowest.iter().copied().filter(|us| *us > 5000).collect::<Vec<_>>(), expected);
    // The slowest seven of the others are kept beside it.
    assert!(slowest.iter().all(|us| *us >= 1092), "{slowest:?}");
    recorder.tick(Duration::from_secs(60 * 100));
    assert_eq!(recorder.slowest().count(), 0, "all of it is old");
}

#[test]
fn nothing_is_kept_where_nothing_is_wanted() {
    let mut recorder = Recorder::new(0);
    for tid in 0..1000 {
        answer(&mut recorder, tid, Duration::from_millis(tid), 1 << 20);
        recorder.tick(Duration::from_secs(tid));
    }
    assert_eq!((recorder.recent().count(), recorder.slowest().count()), (0, 0));
}

proptest! {
    /// Whatever the stamps: the stretches follow each other and add up to the whole.
    #[test]
    fn hops_add_up(
        whole in 0..5000_u64,
        runs in proptest::collection::vec((0..5000_u64, any::<bool>()), 0..4),
        commit in proptest::option::of(proptest::array::uniform3(0..20_000_u64)),
        replicated in 0..30_000_u64,
        answered in 0..100_u64,
    ) {
        let began = Duration::from_secs(7);
        let at = |us: u64| began + Duration::from_micros(us);
        let mut times = OpTimes::new(began, at(whole));
        let mut now = whole;
        times.run(at(now));
        for (us, is_data) in runs {
            times.blocked(at(now));
            now += us;
            times.unblocked(at(now), is_data);
            times.run(at(now));
        }
        times.executed(at(now));
        if let Some([a, b, c]) = commit {
            times.committed(&CommitTimes { handed_over: at(a), written: at(b), durable: at(c) });
        }
        let mut sample = OpSample::bare(PG, times, commit.is_some());
        if commit.is_some() {
            sample.replicated = Stamp(replicated as u32);
        }
        let end = [now, replicated, commit.map_or(0, |stamps| stamps.into_iter().max().unwrap_or(0))];
        sample.answered = Stamp((end.into_iter().max().unwrap_or(0) + answered) as u32);
        let hops = sample.hops();
        prop_assert_eq!(hops.iter().map(|(_, us)| u64::from(*us)).sum::<u64>(), u64::from(sample.total_us()));
        prop_assert!(hops.is_sorted_by_key(|(hop, _)| *hop));
        let of = |wanted: Hop| hops.iter().find(|(hop, _)| *hop == wanted).map_or(0, |(_, us)| u64::from(*us));
        prop_assert_eq!(of(Hop::Receive), whole);
        prop_assert_eq!(of(Hop::Wait) + of(Hop::Lookup) + of(Hop::Read), now - whole);
    }
}

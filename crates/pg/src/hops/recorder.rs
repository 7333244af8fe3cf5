//! Choice of the operations that are kept, and for how long.

use super::counts::OpCounts;
use super::member::MemberAck;
use super::sample::OpSample;
use super::times::OpTimes;
use crate::intake::operations::ClientOp;
use std::collections::VecDeque;
use std::time::Duration;
use types::{OsdId, PgId, ReqId};
use wire::messages::OsdOpReply;

/// Operations chosen per second of an OSD, about, unless it is told otherwise. Each costs some microseconds on every
/// member: a ten-thousandth of their time.
pub const DEFAULT_PER_SECOND: u32 = 32;
/// Chosen operations that are kept: half a minute's, at least.
const RECENT_MAX: usize = 1024;
/// The slowest of each of the last minutes are kept as well.
const SLOWEST_PER_MINUTE: usize = 8;
const MINUTES: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// The slowest operations of one minute.
#[derive(Debug, Default)]
struct Slowest {
    /// Number of the minute.
    minute: u64,
    ops: Vec<OpSample>,
}

/// Chooses operations and keeps them, within a bound.
///
/// Which are chosen follows from their ids alone, so that a client that knows the rule can keep its own side of the
/// same operations. How many depends on how many there are.
#[derive(Debug)]
pub(crate) struct Recorder {
    per_second: u32,
    counts: OpCounts,
    /// One operation in two to the power of this is chosen.
    shift: u32,
    /// Operations since the last tick, and those chosen of them.
    seen: u32,
    chosen: u32,
    /// Answered in this turn, and not yet given to the network.
    fresh: Vec<OpSample>,
    recent: VecDeque<OpSample>,
    slowest: VecDeque<Slowest>,
    /// Operations that take longer than this are among the slowest of this minute.
    floor_us: u32,
}

/// An update's way to the other members, as far as it is known.
pub(crate) struct Replicated<'a> {
    /// The OSD that acknowledged last, if it was not this one.
    pub last_member: Option<OsdId>,
    pub acks: &'a [MemberAck],
}

impl Recorder {
    pub fn new(per_second: u32) -> Recorder {
        Recorder {
            per_second,
            counts: OpCounts::default(),
            shift: 0,
            seen: 0,
            chosen: 0,
            fresh: Vec::new(),
            recent: VecDeque::new(),
            slowest: VecDeque::new(),
            floor_us: if per_second == 0 { u32::MAX } else { 0 },
        }
    }

    /// Returns true if an operation that has come is to be kept.
    pub fn chooses(&mut self, reqid: &ReqId) -> bool {
        self.seen = self.seen.saturating_add(1);
        // Fibonacci hashing: the upper bits of the product are well mixed.
        let mixed = (reqid.tid ^ (reqid.name.num as u64).rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // A burst after a quiet second is not followed beyond four seconds' worth.
        let chosen = mixed.leading_zeros() >= self.shift && self.chosen < self.per_second.saturating_mul(4);
        self.chosen += u32::from(chosen);
        chosen
    }

    /// Adapts how many operations are chosen, by the last second, and drops old minutes. To be called once a second.
    pub fn tick(&mut self, now: Duration) {
        let mut shift = 0;
        while self.per_second > 0 && self.seen >> shift > self.per_second {
            shift += 1;
        }
        // Down at once, up step by step: what comes next is more like the last second than like the one before.
        self.shift = shift.max(self.shift.saturating_sub(1));
        (self.seen, self.chosen) = (0, 0);
        self.turn_minute(now);
    }

    fn turn_minute(&mut self, now: Duration) {
        let minute = now.as_secs() / MINUTE.as_secs();
        if self.per_second > 0 && self.slowest.back().is_none_or(|last| last.minute < minute) {
            self.slowest.push_back(Slowest { minute, ops: Vec::new() });
            while self.slowest.front().is_some_and(|first| first.minute + MINUTES as u64 <= minute) {
                self.slowest.pop_front();
            }
            self.floor_us = 0;
        }
    }

    /// Records an operation that is being answered. Costs nearly nothing unless it was chosen or is slow.
    pub fn answered(
        &mut self,
        now: Duration,
        pg: PgId,
        op: &ClientOp,
        reply: &OsdOpReply,
        way: Option<Replicated<'_>>,
    ) {
        let (took_us, in_bytes) = (op.times.stamp(now).0, op.op.input_bytes() as u64);
        let out_bytes = reply.ops.iter().map(|part| part.outdata.len() as u64).sum::<u64>();
        let count = if op.may_write { &mut self.counts.updates } else { &mut self.counts.reads };
        count.add(in_bytes, out_bytes, Duration::from_micros(u64::from(took_us)));
        if !op.times.sampled && took_us <= self.floor_us {
            return;
        }
        let mut sample = OpSample::of(pg, op);
        sample.result = reply.result;
        sample.bytes += out_bytes;
        if let Some(way) = way {
            sample.replicated = op.times.stamp(now);
            sample.add_members(&op.times, way.acks);
            sample.last_member = way.last_member;
        }
        self.fresh.push(sample);
    }

    /// Notes that answers so far have been given to the network.
    pub fn sent(&mut self, at: Duration) {
        if self.fresh.is_empty() {
            return;
        }
        for mut sample in std::mem::take(&mut self.fresh) {
            let times = OpTimes::new(sample.began, sample.began);
            sample.answered = times.stamp(at);
            self.keep_if_slow(at, &sample);
            if sample.sampled {
                if self.recent.len() == RECENT_MAX {
                    self.recent.pop_front();
                }
                self.recent.push_back(sample);
            }
        }
    }

    fn keep_if_slow(&mut self, now: Duration, sample: &OpSample) {
        self.turn_minute(now);
        let total_us = sample.total_us();
        let Some(minute) = self.slowest.back_mut().filter(|_| total_us > self.floor_us) else { return };
        let place = minute.ops.partition_point(|op| op.total_us() >= total_us);
        minute.ops.insert(place, sample.clone());
        minute.ops.truncate(SLOWEST_PER_MINUTE);
        if minute.ops.len() == SLOWEST_PER_MINUTE {
            self.floor_us = minute.ops.last().expect("not empty").total_us();
        }
    }

    /// Returns the counts of all operations that were answered so far.
    pub fn counts(&self) -> OpCounts {
        self.counts
    }

    /// Returns one in how many operations is chosen at present.
    pub fn one_in(&self) -> u64 {
        1 << self.shift.min(63)
    }

    /// Returns the operations that were chosen, oldest first.
    pub fn recent(&self) -> impl DoubleEndedIterator<Item = &OpSample> {
        self.recent.iter()
    }

    /// Returns the slowest of the last minutes, minute by minute, in each the slowest first. Chosen ones may be among
    /// them.
    pub fn slowest(&self) -> impl Iterator<Item = &OpSample> {
        self.slowest.iter().flat_map(|minute| &minute.ops)
    }
}

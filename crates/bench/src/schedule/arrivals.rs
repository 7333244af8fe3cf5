//! Open loops: intended start times of operations, and the operations that start now.

use std::collections::VecDeque;
use std::time::Duration;

use crate::plan::Spacing;
use crate::random::Random;

/// Intended start times of operations, since the start of the load. Endless.
#[derive(Clone, Debug)]
pub struct Arrivals {
    rate: f64,
    spacing: Spacing,
    random: Random,
    /// Number of arrivals so far.
    count: u64,
    /// Time of the last arrival (Poisson), or of the first one (constant).
    time: Duration,
}

impl Arrivals {
    /// The share of instance `instance` in the `arrivals_per_s` of group `group_index`, which has `instances`. Constant
    /// arrivals of the instances interleave evenly, so the group's are evenly spaced too; Poisson ones add up to a
    /// Poisson process.
    ///
    /// Panics if the rate is not positive or `instance` is not below `instances`.
    pub fn new(
        seed: u64,
        group_index: u32,
        arrivals_per_s: f64,
        spacing: Spacing,
        instance: u32,
        instances: u32,
    ) -> Arrivals {
        assert!(arrivals_per_s > 0.0 && arrivals_per_s.is_finite(), "{arrivals_per_s} arrivals per second");
        assert!(instance < instances, "instance {instance} of {instances}");
        let time = match spacing {
            Spacing::Constant => Duration::from_secs_f64(f64::from(instance) / arrivals_per_s),
            Spacing::Poisson => Duration::ZERO,
        };
        // Bit 63 separates these random streams from the workers'.
        let random = Random::new(seed, (1 << 63) | (u64::from(group_index) << 32) | u64::from(instance));
        Arrivals { rate: arrivals_per_s / f64::from(instances), spacing, random, count: 0, time }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let arrival = match self.spacing {
            // The time is computed from the count and not from the last time, so that rounding errors do not add up.
            Spacing::Constant => {
                let since = Duration::try_from_secs_f64(self.count as f64 / self.rate).unwrap_or(Duration::MAX);
                self.time.saturating_add(since)
            }
            Spacing::Poisson => {
                self.time = self.time.saturating_add(self.random.exponential(self.rate));
                self.time
            }
        };
        self.count += 1;
        Some(arrival)
    }
}

/// An operation that starts now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The slot (worker of this instance) that carries it out.
    pub slot: u32,
    /// Intended start, from which the operation's latency counts.
    pub intended: Duration,
}

/// Hands an instance's arrivals to its free slots, in order.
#[derive(Clone, Debug)]
pub struct OpenLoop {
    arrivals: Arrivals,
    next: Duration,
    free: VecDeque<u32>,
    /// Intended start of the operation in each slot.
    busy: Vec<Option<Duration>>,
}

impl OpenLoop {
    /// `slots`: largest number of operations in flight.
    pub fn new(mut arrivals: Arrivals, slots: u32) -> OpenLoop {
        let next = arrivals.next().expect("arrivals do not end");
        OpenLoop { arrivals, next, free: (0..slots).collect(), busy: vec![None; slots as usize] }
    }

    /// The next operation to start at `now`. Callers repeat this until it returns `None`.
    pub fn poll(&mut self, now: Duration) -> Option<Start> {
        if self.next > now {
            return None;
        }
        let slot = self.free.pop_front()?;
        let intended = std::mem::replace(&mut self.next, self.arrivals.next().expect("arrivals do not end"));
        self.busy[slot as usize] = Some(intended);
        Some(Start { slot, intended })
    }

    /// Time of the next poll; `None` while all slots are busy: then an operation must end first.
    pub fn wake_at(&self) -> Option<Duration> {
        (!self.free.is_empty()).then_some(self.next)
    }

    /// Notes that the operation of `slot` ended at `now`. Returns its latency, which includes its wait for a slot.
    ///
    /// Panics if the slot was free.
    pub fn ended(&mut self, slot: u32, now: Duration) -> Duration {
        let intended = self.busy[slot as usize].take().expect("an operation that ended was begun");
        self.free.push_back(slot);
        now.saturating_sub(intended)
    }

    /// Delay of the oldest arrival that has not started: the best sign that a cluster cannot keep up.
    pub fn lag(&self, now: Duration) -> Duration {
        now.saturating_sub(self.next)
    }

    /// Number of operations in flight.
    pub fn in_flight(&self) -> usize {
        self.busy.len() - self.free.len()
    }
}

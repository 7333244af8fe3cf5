//! Results of clients: latencies, bytes and failures, by the part of the run in which operations ended.
//!
//! A run is a warm-up and then rounds of equal length. A plan that stops after a duration has one round; one that waits
//! for a steady state has many, of which only the last few are kept, since only they can become the steady window.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{Digits, Histogram};
use crate::plan::Stop;
use crate::series::Series;

/// Initial length of the series' intervals, and the largest number of them.
const SERIES_INTERVAL: Duration = Duration::from_secs(1);
const SERIES_INTERVALS_MAX: usize = 240;

/// Division of a run into rounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounds {
    /// Duration of the load before the first round.
    pub warm_up: Duration,
    pub length: Duration,
    /// Number of rounds; operations that end later do not count.
    pub count_max: u32,
    /// Number of rounds that are judged together; no more are kept.
    pub window: u32,
}

/// Results of operations that ended within a stretch of time.
#[derive(Clone, Debug)]
pub struct Tally {
    pub latencies: Histogram,
    /// Bytes of operations that succeeded.
    pub bytes: u64,
    pub errors: u64,
}

/// Records the operations of one group.
#[derive(Clone, Debug)]
pub struct Recorder {
    rounds: Rounds,
    /// Number of the first round that is kept.
    first: u32,
    kept: VecDeque<Tally>,
    series: Series,
    /// Sums from the start of the load, warm-up included, by which progress is shown.
    total: Total,
}

/// Sums since the start of the load.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Total {
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
}

impl Total {
    /// Adds other sums.
    pub fn add(&mut self, other: Total) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

impl Rounds {
    /// The rounds of a plan's workload.
    pub fn new(warm_up: Duration, stop: &Stop) -> Rounds {
        match *stop {
            Stop::DurationS(duration_s) => {
                Rounds { warm_up, length: Duration::from_secs_f64(duration_s), count_max: 1, window: 1 }
            }
            Stop::Steady { round_s, rules } => Rounds {
                warm_up,
                length: Duration::from_secs_f64(round_s),
                count_max: rules.rounds_max,
                window: rules.window,
            },
        }
    }

    /// The time when round `round`, counted from 0, begins: a round ends where the next begins.
    pub fn begin(&self, round: u32) -> Duration {
        self.warm_up.saturating_add(self.length.saturating_mul(round))
    }

    /// The round that `time` falls into; `None` in the warm-up and after the last round.
    fn of(&self, time: Duration) -> Option<u32> {
        let since = time.checked_sub(self.warm_up)?;
        let round = u32::try_from(since.as_nanos() / self.length.as_nanos().max(1)).ok()?;
        (round < self.count_max).then_some(round)
    }
}

impl Tally {
    fn new() -> Tally {
        Tally { latencies: Histogram::new(Digits::Three), bytes: 0, errors: 0 }
    }

    /// Adds the results of `other`.
    pub fn merge(&mut self, other: &Tally) {
        self.latencies.merge(&other.latencies);
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

impl Recorder {
    pub fn new(rounds: Rounds) -> Recorder {
        let series = Series::new(SERIES_INTERVAL, SERIES_INTERVALS_MAX);
        Recorder { rounds, first: 0, kept: VecDeque::new(), series, total: Total::default() }
    }

    /// Records an operation on `bytes` that succeeded at `ended` since the start of the load, `latency` after its
    /// intended start.
    pub fn done(&mut self, ended: Duration, latency: Duration, bytes: u64) {
        self.total.operations += 1;
        self.total.bytes += bytes;
        if ended < self.end() {
            self.series.record(ended, latency, bytes);
        }
        if let Some(tally) = self.tally(ended) {
            tally.latencies.record(latency);
            tally.bytes += bytes;
        }
    }

    /// Records an operation that failed at `ended`.
    pub fn failed(&mut self, ended: Duration) {
        self.total.errors += 1;
        if ended < self.end() {
            self.series.record_error(ended);
        }
        if let Some(tally) = self.tally(ended) {
            tally.errors += 1;
        }
    }

    fn end(&self) -> Duration {
        self.rounds.begin(self.rounds.count_max)
    }

    /// The tally of the round that `time` falls into, if it counts and is still kept.
    fn tally(&mut self, time: Duration) -> Option<&mut Tally> {
        let index = self.rounds.of(time)?.checked_sub(self.first)? as usize;
        while self.kept.len() <= index {
            self.kept.push_back(Tally::new());
        }
        // One round more than the window is kept: the round that has just begun must not push out the window that is
        // being judged.
        while self.kept.len() > self.rounds.window as usize + 1 {
            self.kept.pop_front();
            self.first += 1;
        }
        let index = (self.rounds.of(time)? - self.first) as usize;
        self.kept.get_mut(index)
    }

    /// Sums since the start of the load.
    pub fn total(&self) -> Total {
        self.total
    }

    /// Number of operations that succeeded in round `round`; 0 if it has not begun or is no longer kept.
    pub fn operations_of(&self, round: u32) -> u64 {
        let index = round.checked_sub(self.first).map(|index| index as usize);
        index.and_then(|index| self.kept.get(index)).map_or(0, |tally| tally.latencies.count())
    }

    /// Results of `count` rounds from `first` on, as far as they are kept.
    pub fn window(&self, first: u32, count: u32) -> Tally {
        let mut all = Tally::new();
        for (index, tally) in self.kept.iter().enumerate() {
            let round = self.first.saturating_add(u32::try_from(index).unwrap_or(u32::MAX));
            if (first..first.saturating_add(count)).contains(&round) {
                all.merge(tally);
            }
        }
        all
    }

    pub fn series(&self) -> &Series {
        &self.series
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steady::SteadyRules;

    const MS: Duration = Duration::from_millis(1);

    fn at(s: f64) -> Duration {
        Duration::from_secs_f64(s)
    }

    #[test]
    fn a_duration_is_one_round_behind_the_warm_up() {
        let mut recorder = Recorder::new(Rounds::new(at(2.0), &Stop::DurationS(10.0)));
        for tenth in 0..200 {
            recorder.done(at(f64::from(tenth) / 10.0), MS, 4096);
        }
        recorder.failed(at(1.0));
        recorder.failed(at(5.0));
        let tally = recorder.window(0, 1);
        assert_eq!((tally.latencies.count(), tally.bytes, tally.errors), (100, 409_600, 1));
        assert_eq!(recorder.total(), Total { operations: 200, bytes: 819_200, errors: 2 });
        assert_eq!(recorder.series().points(at(12.0)).len(), 12, "nothing beyond the end");
    }

    #[test]
    fn only_rounds_that_can_still_be_the_window_are_kept() {
        let rules = SteadyRules { window: 3, rounds_max: 20, ..SteadyRules::default() };
        let rounds = Rounds::new(at(1.0), &Stop::Steady { round_s: 0.5, rules });
        let mut recorder = Recorder::new(rounds);
        for round in 0..12 {
            for _ in 0..=round {
                recorder.done(rounds.begin(round) + MS, MS, 1);
            }
            assert!(recorder.kept.len() <= 4);
            assert_eq!(recorder.operations_of(round), u64::from(round) + 1);
            if let Some(before) = round.checked_sub(3) {
                assert_eq!(recorder.window(before, 3).bytes, u64::from(before * 3 + 6), "the window before {round}");
            }
        }
        assert_eq!(recorder.operations_of(2), 0, "no longer kept");
        recorder.done(rounds.begin(2), MS, 1);
        assert_eq!(recorder.window(0, 12).bytes, 9 + 10 + 11 + 12, "what ends in a forgotten round is left out");
    }

    #[test]
    fn a_round_without_operations_counts_as_such() {
        let rules = SteadyRules { window: 2, rounds_max: 5, ..SteadyRules::default() };
        let rounds = Rounds::new(Duration::ZERO, &Stop::Steady { round_s: 1.0, rules });
        let mut recorder = Recorder::new(rounds);
        recorder.done(at(0.5), MS, 1);
        recorder.done(at(4.5), MS, 1);
        assert_eq!((0..5).map(|round| recorder.operations_of(round)).collect::<Vec<_>>(), [0, 0, 0, 0, 1]);
        recorder.done(at(9.0), MS, 1);
        assert_eq!(recorder.window(0, 5).bytes, 1);
    }
}

//! Results over time, in bounded memory: operations, bytes, errors and latencies per interval.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::histogram::{Digits, Histogram, HistogramData, HistogramError};

/// Operations of one interval.
#[derive(Clone, Debug)]
struct Interval {
    latencies: Histogram,
    bytes: u64,
    errors: u64,
}

/// A series of equal intervals from the run's start. When it would exceed its largest number of intervals, they are
/// joined in pairs and their length doubles: a run of unknown length fits, and no record is lost.
#[derive(Clone, Debug)]
pub struct Series {
    interval: Duration,
    intervals_max: usize,
    intervals: Vec<Interval>,
}

/// One interval for tables and plots.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesPoint {
    /// Begin of the interval in seconds since the start.
    pub start_s: f64,
    /// Successful operations that ended in this interval, per second.
    pub operations_per_s: f64,
    pub bytes_per_s: f64,
    pub errors: u64,
    /// Latencies in microseconds; absent if no operation ended in this interval.
    pub p50_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub max_us: Option<f64>,
}

/// A series as it is sent between hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesData {
    /// The intervals' length in nanoseconds, and the largest number of them.
    pub interval_ns: u64,
    pub intervals_max: usize,
    pub intervals: Vec<IntervalData>,
}

/// One interval of a [`SeriesData`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IntervalData {
    pub latencies: HistogramData,
    pub bytes: u64,
    pub errors: u64,
}

/// The reason why a [`SeriesData`] describes no series.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    #[error(
        "{intervals} intervals of {interval_ns} ns cannot have grown from at most {intervals_max} of {first_ns} ns"
    )]
    Shape { intervals: usize, intervals_max: usize, interval_ns: u64, first_ns: u128 },
    #[error("interval {index}: {source}")]
    Interval { index: usize, source: HistogramError },
}

impl Interval {
    fn new() -> Interval {
        Interval { latencies: Histogram::new(Digits::Two), bytes: 0, errors: 0 }
    }

    fn merge(&mut self, other: &Interval) {
        self.latencies.merge(&other.latencies);
        self.bytes += other.bytes;
        self.errors += other.errors;
    }
}

impl Series {
    /// A series of intervals of `interval` at first, of which at most `intervals_max` are kept.
    ///
    /// Panics if `interval` is zero or `intervals_max` below 2.
    pub fn new(interval: Duration, intervals_max: usize) -> Series {
        assert!(!interval.is_zero() && intervals_max >= 2, "no series of {intervals_max} intervals of {interval:?}");
        Series { interval, intervals_max, intervals: Vec::new() }
    }

    /// The intervals' present length.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Records an operation on `bytes` that succeeded at `ended` since the start, `latency` after its intended start.
    pub fn record(&mut self, ended: Duration, latency: Duration, bytes: u64) {
        let interval = self.at(ended);
        interval.latencies.record(latency);
        interval.bytes += bytes;
    }

    /// Records an operation that failed at `ended`.
    pub fn record_error(&mut self, ended: Duration) {
        self.at(ended).errors += 1;
    }

    fn at(&mut self, time: Duration) -> &mut Interval {
        while time.as_nanos() / self.interval.as_nanos() >= self.intervals_max as u128 {
            self.coarsen();
        }
        let index = (time.as_nanos() / self.interval.as_nanos()) as usize;
        if self.intervals.len() <= index {
            self.intervals.resize_with(index + 1, Interval::new);
        }
        &mut self.intervals[index]
    }

    fn coarsen(&mut self) {
        let mut joined = Vec::with_capacity(self.intervals.len().div_ceil(2));
        let mut intervals = std::mem::take(&mut self.intervals).into_iter();
        while let Some(mut first) = intervals.next() {
            if let Some(second) = intervals.next() {
                first.merge(&second);
            }
            joined.push(first);
        }
        self.intervals = joined;
        self.interval = self.interval.saturating_mul(2);
    }

    /// Adds another instance's series of the same time.
    ///
    /// Panics if the two began with different interval lengths, which those of one run do not.
    pub fn merge(&mut self, other: &Series) {
        let mut other = other.clone();
        while self.interval < other.interval {
            self.coarsen();
        }
        while other.interval < self.interval {
            other.coarsen();
        }
        assert_eq!(self.interval, other.interval, "series of different intervals cannot be merged");
        if self.intervals.len() < other.intervals.len() {
            self.intervals.resize_with(other.intervals.len(), Interval::new);
        }
        self.intervals.iter_mut().zip(&other.intervals).for_each(|(mine, theirs)| mine.merge(theirs));
        while self.intervals.len() > self.intervals_max {
            self.coarsen();
        }
    }

    /// The series as data.
    pub fn to_data(&self) -> SeriesData {
        let interval =
            |one: &Interval| IntervalData { latencies: one.latencies.to_data(), bytes: one.bytes, errors: one.errors };
        SeriesData {
            interval_ns: u64::try_from(self.interval.as_nanos()).unwrap_or(u64::MAX),
            intervals_max: self.intervals_max,
            intervals: self.intervals.iter().map(interval).collect(),
        }
    }

    /// Builds the series that `data` describes, which can be merged with `like`, a series that began in the same way.
    ///
    /// Errors: [`SeriesError`] if `data` describes no such series.
    pub fn from_data(like: &Series, data: &SeriesData) -> Result<Series, SeriesError> {
        let SeriesData { interval_ns, intervals_max, intervals } = data;
        let first_ns = like.interval.as_nanos();
        // Lengths double, so any two differ by a power of two.
        let apart = (u128::from(*interval_ns) / first_ns.max(1)).max(first_ns / u128::from(*interval_ns).max(1));
        let powers = u128::from(*interval_ns).max(first_ns) == apart * u128::from(*interval_ns).min(first_ns);
        if !apart.is_power_of_two()
            || !powers
            || *intervals_max != like.intervals_max
            || intervals.len() > *intervals_max
        {
            return Err(SeriesError::Shape {
                intervals: intervals.len(),
                intervals_max: *intervals_max,
                interval_ns: *interval_ns,
                first_ns,
            });
        }
        let interval = |(index, one): (usize, &IntervalData)| {
            let latencies = Histogram::from_data(Digits::Two, &one.latencies);
            let latencies = latencies.map_err(|source| SeriesError::Interval { index, source })?;
            Ok(Interval { latencies, bytes: one.bytes, errors: one.errors })
        };
        let intervals = intervals.iter().enumerate().map(interval).collect::<Result<_, _>>()?;
        Ok(Series { interval: Duration::from_nanos(*interval_ns), intervals_max: *intervals_max, intervals })
    }

    /// The intervals up to `end`, the time at which recording stopped; the last one's rates count only its part before
    /// `end`. Intervals without operations are included, with rates of zero: a stall is a result.
    pub fn points(&self, end: Duration) -> Vec<SeriesPoint> {
        let seconds = self.interval.as_secs_f64();
        let count = end.as_nanos().div_ceil(self.interval.as_nanos()).min(self.intervals_max as u128) as usize;
        let empty = Interval::new();
        (0..count.max(self.intervals.len()))
            .map(|index| {
                let interval = self.intervals.get(index).unwrap_or(&empty);
                let start_s = index as f64 * seconds;
                let left = end.as_secs_f64() - start_s;
                let length = if left > 0.0 { left.min(seconds) } else { seconds };
                let summary = interval.latencies.summary();
                SeriesPoint {
                    start_s,
                    operations_per_s: summary.count as f64 / length,
                    bytes_per_s: interval.bytes as f64 / length,
                    errors: interval.errors,
                    p50_us: summary.p50_us,
                    p99_us: summary.p99_us,
                    max_us: summary.max_us,
                }
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn filled(seconds: u64, per_second: u64, max: usize) -> Series {
        let mut series = Series::new(SECOND, max);
        for number in 0..seconds * per_second {
            let ended = SECOND * u32::try_from(number / per_second).unwrap() + SECOND / 2;
            series.record(ended, Duration::from_micros(100 + number / per_second), 4096);
        }
        series
    }

    #[test]
    fn rates_and_stalls() {
        let mut series = filled(2, 10, 100);
        series.record(Duration::from_millis(4_100), SECOND * 2, 4096);
        series.record_error(Duration::from_millis(3_000));
        let points = series.points(Duration::from_millis(4_500));
        let rates: Vec<f64> = points.iter().map(|point| point.operations_per_s).collect();
        assert_eq!(rates, [10.0, 10.0, 0.0, 0.0, 2.0]);
        assert_eq!(points[0].bytes_per_s, 40_960.0);
        assert_eq!((points[2].p50_us, points[3].errors), (None, 1));
        assert_eq!(points[4].max_us, Some(2_000_000.0));
        assert_eq!(points[1].start_s, 1.0);
    }

    #[test]
    fn stall_at_the_end_is_shown() {
        assert_eq!(filled(1, 5, 100).points(SECOND * 3).len(), 3);
    }

    #[test]
    fn memory_is_bounded_and_nothing_lost() {
        let series = filled(1000, 3, 60);
        assert!(series.intervals.len() <= 60);
        assert_eq!(series.interval(), SECOND * 32);
        let points = series.points(SECOND * 1000);
        let total: f64 = points.iter().take(31).map(|point| point.operations_per_s * 32.0).sum();
        assert_eq!(total.round(), 31.0 * 32.0 * 3.0);
        assert_eq!(points[0].max_us, Some(131.0));
    }

    #[test]
    fn series_of_different_coarseness_merge() {
        let (mut short, long) = (filled(10, 1, 60), filled(100, 2, 60));
        short.merge(&long);
        assert_eq!(short.interval(), SECOND * 2);
        let points = short.points(SECOND * 100);
        assert_eq!(points.len(), 50);
        assert_eq!((points[0].operations_per_s, points[10].operations_per_s), (3.0, 2.0));
    }

    #[test]
    fn a_series_travels_and_wrong_ones_are_refused() {
        let (fresh, series) = (Series::new(SECOND, 60), filled(100, 2, 60));
        let data = series.to_data();
        let back = Series::from_data(&fresh, &data).unwrap();
        assert_eq!(back.points(SECOND * 100), series.points(SECOND * 100));
        let (mut here, mut there) = (filled(10, 1, 60), filled(10, 1, 60));
        here.merge(&series);
        there.merge(&back);
        assert_eq!(here.to_data(), there.to_data());
        let check = |change: fn(&mut SeriesData)| {
            let mut wrong = data.clone();
            change(&mut wrong);
            Series::from_data(&fresh, &wrong).unwrap_err()
        };
        for shape in [
            check(|d| d.interval_ns = 0),
            check(|d| d.interval_ns = 3_000_000_000),
            check(|d| d.interval_ns += 1),
            check(|d| d.intervals_max = 61),
            check(|d| d.intervals.resize(61, d.intervals[0].clone())),
        ] {
            assert!(matches!(shape, SeriesError::Shape { .. }), "{shape}");
        }
        let wrong = check(|d| d.intervals[1].latencies.max_ns = 0);
        assert!(matches!(wrong, SeriesError::Interval { index: 1, .. }), "{wrong}");
    }
}

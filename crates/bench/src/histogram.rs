//! Latencies as a distribution: an HDR histogram with its sum, which can be merged over workers, instances and hosts.

use std::time::Duration;

use hdrhistogram::Histogram as Hdr;
use serde::{Deserialize, Serialize};

/// Largest recorded value. Larger ones are recorded as this, and counted in [`Histogram::clamped`].
pub const LATENCY_MAX: Duration = Duration::from_secs(3600);

/// Latencies below this share one bucket.
const RESOLUTION_NS: u64 = 100;

/// Precision of a histogram's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Digits {
    /// Values within 1 %, at most some 30 KiB: for one of many intervals.
    Two,
    /// Values within 0.1 %, at most some 300 KiB: for a whole run.
    Three,
}

/// Latencies from 100 ns to one hour.
#[derive(Clone, Debug)]
pub struct Histogram {
    counts: Hdr<u64>,
    sum_ns: u128,
    min: Duration,
    max: Duration,
    clamped: u64,
}

/// Figures of a distribution for tables. Times are in microseconds, and all absent if nothing was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencySummary {
    /// Number of operations.
    pub count: u64,
    pub mean_us: Option<f64>,
    pub min_us: Option<f64>,
    pub p50_us: Option<f64>,
    pub p90_us: Option<f64>,
    pub p95_us: Option<f64>,
    pub p99_us: Option<f64>,
    pub p99_9_us: Option<f64>,
    /// Absent below 10,000 operations, where it would only repeat the maximum.
    pub p99_99_us: Option<f64>,
    pub max_us: Option<f64>,
}

/// A histogram as it is sent between hosts and stored in results: sparse buckets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HistogramData {
    /// Sum of all values in nanoseconds, as a decimal string: it may exceed what JSON's numbers hold.
    pub sum_ns: String,
    pub min_ns: u64,
    pub max_ns: u64,
    pub clamped: u64,
    /// `[highest latency of the bucket in nanoseconds, count]`, ascending.
    pub buckets: Vec<(u64, u64)>,
}

/// The reason why a [`HistogramData`] describes no histogram.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    #[error("sum_ns {0:?} is not a number")]
    Sum(String),
    #[error("bucket {index} ({value_ns} ns, {count} operations) is out of order, out of range or empty")]
    Bucket { index: usize, value_ns: u64, count: u64 },
    #[error("the smallest ({min_ns} ns) and largest ({max_ns} ns) value do not fit the buckets")]
    Bounds { min_ns: u64, max_ns: u64 },
}

fn nanoseconds(latency: Duration) -> u64 {
    u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX)
}

impl Histogram {
    /// An empty histogram.
    pub fn new(digits: Digits) -> Histogram {
        let digits = match digits {
            Digits::Two => 2,
            Digits::Three => 3,
        };
        let counts = Hdr::new_with_bounds(RESOLUTION_NS, nanoseconds(LATENCY_MAX), digits)
            .expect("the bounds are constants that fit together");
        Histogram { counts, sum_ns: 0, min: Duration::MAX, max: Duration::ZERO, clamped: 0 }
    }

    /// Records one operation.
    pub fn record(&mut self, latency: Duration) {
        if latency > LATENCY_MAX {
            self.clamped += 1;
        }
        let latency = latency.min(LATENCY_MAX);
        self.counts.saturating_record(nanoseconds(latency));
        self.sum_ns += latency.as_nanos();
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// Records `count` operations of one latency.
    pub fn record_n(&mut self, latency: Duration, count: u64) {
        if count == 0 {
            return;
        }
        if latency > LATENCY_MAX {
            self.clamped = self.clamped.saturating_add(count);
        }
        let latency = latency.min(LATENCY_MAX);
        self.counts.saturating_record_n(nanoseconds(latency), count);
        self.sum_ns += latency.as_nanos() * u128::from(count);
        self.min = self.min.min(latency);
        self.max = self.max.max(latency);
    }

    /// Adds all operations of `other`.
    pub fn merge(&mut self, other: &Histogram) {
        self.counts.add(&other.counts).expect("all histograms have the same bounds");
        self.sum_ns += other.sum_ns;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.clamped += other.clamped;
    }

    /// Number of operations.
    pub fn count(&self) -> u64 {
        self.counts.len()
    }

    /// Number of operations that took longer than [`LATENCY_MAX`].
    pub fn clamped(&self) -> u64 {
        self.clamped
    }

    /// The mean, exact up to the nanosecond. `None` if empty.
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum_ns.checked_div(u128::from(self.count()))?;
        Some(Duration::from_nanos(u64::try_from(mean).expect("a mean is at most the largest value")))
    }

    /// The smallest and largest value, exact. `None` if empty.
    pub fn bounds(&self) -> Option<(Duration, Duration)> {
        (self.count() > 0).then_some((self.min, self.max))
    }

    /// The latency that `quantile` (0 to 1) of the operations did not exceed, rounded up within the histogram's
    /// precision but never beyond the largest value. `None` if empty.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let (min, max) = self.bounds()?;
        Some(Duration::from_nanos(self.counts.value_at_quantile(quantile)).clamp(min, max))
    }

    /// The figures for tables.
    pub fn summary(&self) -> LatencySummary {
        let us = |latency: Duration| latency.as_nanos() as f64 / 1000.0;
        let at = |quantile| self.quantile(quantile).map(us);
        LatencySummary {
            count: self.count(),
            mean_us: self.mean().map(us),
            min_us: self.bounds().map(|(min, _)| us(min)),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p95_us: at(0.95),
            p99_us: at(0.99),
            p99_9_us: at(0.999),
            p99_99_us: at(0.9999).filter(|_| self.count() >= 10_000),
            max_us: self.bounds().map(|(_, max)| us(max)),
        }
    }

    /// The histogram as data.
    pub fn to_data(&self) -> HistogramData {
        let (min, max) = self.bounds().unwrap_or_default();
        HistogramData {
            sum_ns: self.sum_ns.to_string(),
            min_ns: nanoseconds(min),
            max_ns: nanoseconds(max),
            clamped: self.clamped,
            buckets: self.counts.iter_recorded().map(|b| (b.value_iterated_to(), b.count_at_value())).collect(),
        }
    }

    /// Builds the histogram that `data` describes.
    ///
    /// Errors: [`HistogramError`] if `data` describes no histogram.
    pub fn from_data(digits: Digits, data: &HistogramData) -> Result<Histogram, HistogramError> {
        let mut histogram = Histogram::new(digits);
        let bounds = HistogramError::Bounds { min_ns: data.min_ns, max_ns: data.max_ns };
        let mut last = None;
        let mut total = 0u64;
        for (index, &(value_ns, count)) in data.buckets.iter().enumerate() {
            let wrong = HistogramError::Bucket { index, value_ns, count };
            total = total.checked_add(count).ok_or(wrong.clone())?;
            // A bucket's highest value may lie a little beyond the largest recorded value.
            if count == 0 || last >= Some(value_ns) || value_ns > nanoseconds(LATENCY_MAX) / 64 * 65 {
                return Err(wrong);
            }
            last = Some(value_ns);
            histogram.counts.saturating_record_n(value_ns, count);
        }
        let (min, max) = (Duration::from_nanos(data.min_ns), Duration::from_nanos(data.max_ns));
        if total == 0 {
            return if data.max_ns == 0 { Ok(histogram) } else { Err(bounds) };
        }
        if min > max || max > LATENCY_MAX || last < Some(data.max_ns) || data.buckets[0].0 < data.min_ns {
            return Err(bounds);
        }
        histogram.sum_ns = data.sum_ns.parse().map_err(|_| HistogramError::Sum(data.sum_ns.clone()))?;
        if histogram.sum_ns > u128::from(data.max_ns) * u128::from(total) {
            return Err(HistogramError::Sum(data.sum_ns.clone()));
        }
        (histogram.min, histogram.max, histogram.clamped) = (min, max, data.clamped);
        Ok(histogram)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new(Digits::Three);
        values.into_iter().for_each(|ns| histogram.record(Duration::from_nanos(ns)));
        histogram
    }

    #[test]
    fn one_to_hundred_thousand_microseconds() {
        let summary = of((1..=100_000).map(|us| us * 1000)).summary();
        let close = |got: Option<f64>, want: f64| {
            let got = got.unwrap();
            assert!((got - want).abs() <= want * 0.001, "{got} is not {want}");
        };
        assert_eq!(summary.count, 100_000);
        assert_eq!(summary.mean_us, Some(50_000.5));
        assert_eq!((summary.min_us, summary.max_us), (Some(1.0), Some(100_000.0)));
        close(summary.p50_us, 50_000.0);
        close(summary.p99_us, 99_000.0);
        close(summary.p99_9_us, 99_900.0);
        close(summary.p99_99_us, 99_990.0);
    }

    #[test]
    fn empty_says_nothing_instead_of_zero() {
        assert_eq!(of([]).summary(), LatencySummary::default());
        assert_eq!(of([]).quantile(0.5), None);
    }

    #[test]
    fn hours_are_clamped_and_counted() {
        let mut histogram = of([5]);
        histogram.record(Duration::from_secs(7200));
        assert_eq!(histogram.clamped(), 1);
        assert_eq!(histogram.bounds(), Some((Duration::from_nanos(5), LATENCY_MAX)));
        let back = Histogram::from_data(Digits::Three, &histogram.to_data()).unwrap();
        assert_eq!(back.to_data(), histogram.to_data());
    }

    #[test]
    fn wrong_data_is_refused() {
        let good = of([1_000, 2_000_000]).to_data();
        let check = |change: fn(&mut HistogramData)| {
            let mut data = good.clone();
            change(&mut data);
            Histogram::from_data(Digits::Three, &data).unwrap_err()
        };
        assert!(matches!(check(|d| d.sum_ns = "x".into()), HistogramError::Sum(_)));
        assert!(matches!(check(|d| d.sum_ns = u128::MAX.to_string()), HistogramError::Sum(_)));
        assert!(matches!(check(|d| d.buckets[0].1 = 0), HistogramError::Bucket { index: 0, .. }));
        assert!(matches!(check(|d| d.buckets[1].1 = u64::MAX), HistogramError::Bucket { index: 1, .. }));
        assert!(matches!(check(|d| d.buckets.reverse()), HistogramError::Bucket { index: 1, .. }));
        assert!(matches!(check(|d| d.buckets[1].0 = u64::MAX), HistogramError::Bucket { index: 1, .. }));
        assert!(matches!(check(|d| d.max_ns = 0), HistogramError::Bounds { .. }));
        assert!(matches!(check(|d| d.buckets.clear()), HistogramError::Bounds { .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The naive model: the sorted values themselves.
        #[test]
        fn quantiles_are_within_a_thousandth(mut values in prop::collection::vec(0u64..1 << 40, 1..300),
                                             quantile in 0.0..1.0f64) {
            let histogram = of(values.iter().copied());
            values.sort_unstable();
            let rank = ((quantile * values.len() as f64).ceil() as usize).max(1);
            let want = values[rank - 1] as f64;
            let got = histogram.quantile(quantile).unwrap().as_nanos() as f64;
            prop_assert!(got >= want.min(3.6e12) - 64.0 && got <= want * 1.001 + 64.0, "{} for {}", got, want);
        }

        #[test]
        fn merging_and_travelling_equal_recording_at_once(a in prop::collection::vec(0u64..1 << 40, 0..50),
                                                          b in prop::collection::vec(0u64..1 << 40, 0..50)) {
            let mut merged = of(a.iter().copied());
            merged.merge(&Histogram::from_data(Digits::Three, &of(b.iter().copied()).to_data()).unwrap());
            prop_assert_eq!(merged.to_data(), of(a.into_iter().chain(b)).to_data());
        }
    }
}

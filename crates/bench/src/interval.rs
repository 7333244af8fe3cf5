//! Medians with confidence intervals from order statistics.
//!
//! For `n` independent values, the interval from the `k`-th smallest to the `k`-th largest holds the true median with
//! probability `1 - 2 P(B < k)`, where `B` is binomial with `n` trials of one half. This is true for every continuous
//! distribution, which suits throughput figures with their outliers. Its price is coarse steps: five values reach 93.75
//! % at most, six 96.9 %. The reached confidence is always given, and never rounded up to the requested one.

use serde::{Deserialize, Serialize};

/// A median with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MedianInterval {
    pub median: f64,
    /// Ends of the interval; the whole range if too few values reach the wanted confidence.
    pub low: f64,
    pub high: f64,
    /// Probability with which such an interval holds the true median, 0 to 1.
    pub confidence: f64,
    /// Number of values.
    pub count: u32,
}

impl MedianInterval {
    /// The narrowest interval of `values` with at least `confidence` (0 to 1), or the whole range if there is none.
    /// `None` if there are no values or one is not a number.
    pub fn of(values: &[f64], confidence: f64) -> Option<MedianInterval> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        // `k` counts from 1. The interval exists for k <= n / 2; for n = 1 it is the value itself, with confidence 0.
        let mut rank = 1;
        let mut reached = coverage(count, 1);
        while (rank + 1) * 2 <= count && coverage(count, rank + 1) >= confidence {
            rank += 1;
            reached = coverage(count, rank);
        }
        Some(MedianInterval {
            median: median_of_sorted(&sorted),
            low: sorted[rank - 1],
            high: sorted[count - rank],
            confidence: reached,
            count: u32::try_from(count).unwrap_or(u32::MAX),
        })
    }

    /// Half the interval's width in percent of the median: the figure after the plus-minus sign. `None` for a median of
    /// 0.
    pub fn spread_percent(&self) -> Option<f64> {
        (self.median != 0.0).then(|| (self.high - self.low) / 2.0 / self.median.abs() * 100.0)
    }
}

/// The median of values in ascending order; of an even number, the mean of the middle two.
fn median_of_sorted(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// Probability that the `rank`-th smallest and `rank`-th largest of `count` values enclose the median.
pub fn coverage(count: usize, rank: usize) -> f64 {
    // Terms C(n, i) / 2^n by their logarithms: 2^-n itself underflows from n = 1075 on.
    let count = count as f64;
    let mut term = -count * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for below in 0..rank {
        tail += term.exp();
        let below = below as f64;
        term += ((count - below) / (below + 1.0)).ln();
    }
    (1.0 - 2.0 * tail).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn textbook_coverages() {
        // Tables of the sign test: n, rank, confidence.
        for (count, rank, want) in [(5, 1, 0.9375), (6, 1, 0.96875), (10, 2, 0.97852), (20, 6, 0.95861), (1, 1, 0.0)] {
            let got = coverage(count, rank);
            assert!((got - want).abs() < 1e-5, "n {count}, k {rank}: {got}");
        }
        assert!(coverage(5000, 2430) > 0.95 && coverage(5000, 2432) < 0.953, "large n does not underflow");
    }

    #[test]
    fn known_intervals() {
        let ten: Vec<f64> = (1..=10).rev().map(f64::from).collect();
        let got = MedianInterval::of(&ten, 0.95).unwrap();
        assert_eq!((got.low, got.median, got.high, got.count), (2.0, 5.5, 9.0, 10));
        let five = MedianInterval::of(&[3.0, 1.0, 2.0, 5.0, 4.0], 0.95).unwrap();
        assert_eq!((five.low, five.median, five.high), (1.0, 3.0, 5.0));
        assert!(five.confidence < 0.95, "five values cannot reach 95 % and must not say so");
        let one = MedianInterval::of(&[7.0], 0.9).unwrap();
        assert_eq!((one.low, one.high), (7.0, 7.0));
        assert!(one.confidence < 1e-9, "{one:?}");
        assert_eq!(MedianInterval::of(&[], 0.9), None);
        assert_eq!(MedianInterval::of(&[1.0, f64::NAN], 0.9), None);
        assert_eq!(five.spread_percent().map(|percent| percent.round()), Some(67.0));
    }

    /// Intervals of skewed values (exponential, median ln 2) hold the true median as often as they claim.
    #[test]
    fn coverage_by_simulation() {
        let mut random = Random::new(20_261_121, 0);
        for count in [5usize, 6, 10, 25] {
            let trials = 20_000;
            let mut hits = 0;
            let mut said = 0.0;
            for _ in 0..trials {
                let values: Vec<f64> = (0..count).map(|_| random.exponential(1.0).as_secs_f64()).collect();
                let interval = MedianInterval::of(&values, 0.9).unwrap();
                said = interval.confidence;
                hits += i32::from((interval.low..=interval.high).contains(&std::f64::consts::LN_2));
            }
            let got = f64::from(hits) / f64::from(trials);
            assert!((got - said).abs() < 0.008, "n {count}: said {said}, held {got}");
        }
    }
}

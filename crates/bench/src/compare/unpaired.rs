//! Comparison of two series that were measured at different times.
//!
//! Iterations of two runs are no pairs, so each of one is divided by each of the other. The median of all these ratios
//! is the estimate of Hodges and Lehmann; its interval comes from the distribution of Mann and Whitney's count, which
//! holds for any noise that both runs share. A machine that was slower during one run cannot be told from a slower
//! cluster.

use super::{Better, CompareError, Comparison, verdict_of};
use crate::interval::MedianInterval;

/// Compares `first` with `second`, whose values belong to no common iterations.
///
/// Errors: [`CompareError`] if one is empty, or holds anything but positive numbers.
pub fn compare_unpaired(
    first: &[f64],
    second: &[f64],
    better: Better,
    confidence: f64,
) -> Result<Comparison, CompareError> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if first.is_empty() || second.is_empty() {
        return Err(CompareError::Empty);
    }
    for iteration in 0..first.len().max(second.len()) {
        let value = |series: &[f64]| series.get(iteration).copied().unwrap_or(1.0);
        if !positive(value(first)) || !positive(value(second)) {
            return Err(CompareError::NotPositive { iteration, first: value(first), second: value(second) });
        }
    }
    let mut ratios: Vec<f64> = first.iter().flat_map(|a| second.iter().map(move |b| a.ln() - b.ln())).collect();
    ratios.sort_by(f64::total_cmp);
    let below = chances(first.len(), second.len());
    let count = ratios.len();
    // The interval leaves out `rank` ratios at each end.
    let mut rank = 0;
    let mut reached = 1.0 - 2.0 * below[0];
    while (rank + 1) * 2 < count && 1.0 - 2.0 * below[rank + 1] >= confidence {
        rank += 1;
        reached = 1.0 - 2.0 * below[rank];
    }
    let median = if count % 2 == 1 { ratios[count / 2] } else { (ratios[count / 2 - 1] + ratios[count / 2]) / 2.0 };
    let ratio = MedianInterval {
        median: median.exp(),
        low: ratios[rank].exp(),
        high: ratios[count - 1 - rank].exp(),
        confidence: reached.max(0.0),
        count: u32::try_from(count).unwrap_or(u32::MAX),
    };
    Ok(Comparison { ratio, better, verdict: verdict_of(&ratio, better, confidence) })
}

/// The probability that Mann and Whitney's count of `n` and `m` values of one distribution is at most its index.
fn chances(n: usize, m: usize) -> Vec<f64> {
    // arrangements[i][count]: arrangements of i values of the first and of all values of the second added so far.
    let largest = n * m;
    let mut arrangements = vec![vec![0.0; largest + 1]; n + 1];
    arrangements.iter_mut().for_each(|counts| counts[0] = 1.0);
    for added in 1..=m {
        let mut next = vec![vec![0.0; largest + 1]; n + 1];
        next[0][0] = 1.0;
        for i in 1..=n {
            for count in 0..=largest {
                // The largest value is one of the first, above all `added` of the second; or one of the second.
                let of_first = if count >= added { next[i - 1][count - added] } else { 0.0 };
                next[i][count] = of_first + arrangements[i][count];
            }
        }
        arrangements = next;
    }
    let counts = &arrangements[n];
    let total: f64 = counts.iter().sum();
    counts
        .iter()
        .scan(0.0, |sum, count| {
            *sum += count / total;
            Some(*sum)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::Verdict;
    use crate::random::Random;

    #[test]
    fn chances_are_those_of_tables() {
        // Mann and Whitney: of 3 and 3 values, one arrangement of twenty has count 0; of 5 and 5, seven of 252 have at
        // most 3.
        assert!((chances(3, 3)[0] - 1.0 / 20.0).abs() < 1e-12);
        assert!((chances(5, 5)[2] - 4.0 / 252.0).abs() < 1e-12, "{}", chances(5, 5)[2] * 252.0);
        assert!((chances(5, 5)[3] - 7.0 / 252.0).abs() < 1e-12);
        assert!((chances(4, 7)[28] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn known_answers() {
        let (slow, fast) = ([100.0, 102.0, 98.0, 101.0, 99.0], [200.0, 210.0, 190.0, 205.0]);
        let check =
            |first: &[f64], second: &[f64], better| compare_unpaired(first, second, better, 0.9).unwrap().verdict;
        assert_eq!(check(&fast, &slow, Better::Higher), Verdict::Faster);
        assert_eq!(check(&slow, &fast, Better::Higher), Verdict::Slower);
        assert_eq!(check(&fast, &slow, Better::Lower), Verdict::Slower);
        assert_eq!(check(&slow, &slow, Better::Higher), Verdict::NoDifferenceShown);
        assert_eq!(check(&slow[..1], &fast, Better::Higher), Verdict::TooFewIterations);
        assert_eq!(compare_unpaired(&[], &slow, Better::Higher, 0.9), Err(CompareError::Empty));
        assert!(compare_unpaired(&[0.0], &slow, Better::Higher, 0.9).is_err());
    }

    /// The interval holds the true ratio as often as it says, and equal series are rarely told apart.
    #[test]
    fn coverage_by_simulation() {
        let mut random = Random::new(11, 0);
        let trials = 10_000;
        for (n, m, ratio) in [(5, 5, 1.0), (5, 5, 1.4), (3, 8, 1.0)] {
            let (mut held, mut told, mut said) = (0, 0, 0.0);
            for _ in 0..trials {
                let mut series = |count: usize, factor: f64| -> Vec<f64> {
                    (0..count).map(|_| factor * (0.8 + 0.4 * random.unit())).collect()
                };
                let (first, second) = (series(n, ratio), series(m, 1.0));
                let got = compare_unpaired(&first, &second, Better::Higher, 0.9).unwrap();
                held += u32::from((got.ratio.low..=got.ratio.high).contains(&ratio));
                told += u32::from(ratio == 1.0 && matches!(got.verdict, Verdict::Faster | Verdict::Slower));
                said = got.ratio.confidence;
            }
            let share = |count: u32| f64::from(count) / f64::from(trials);
            assert!((share(held) - said).abs() < 0.012, "{n} and {m}: said {said}, held {}", share(held));
            assert!(share(told) < 0.11, "{n} and {m}: {}", share(told));
        }
    }
}

//! Comparison of two series of iterations that were run in turns.
//!
//! Iteration `i` of one is divided by iteration `i` of the other, which ran right beside it, so a drift of the machine
//! during the run moves both and cancels. The verdict rests on the interval of the median of these ratios, and assumes
//! no distribution of the noise.

mod unpaired;

pub use unpaired::compare_unpaired;

use serde::{Deserialize, Serialize};

use crate::interval::MedianInterval;

/// Direction in which values are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency, CPU per operation.
    Lower,
}

/// Verdict on the first series against the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Faster,
    Slower,
    /// The interval holds 1: a difference may exist, these iterations do not show it.
    NoDifferenceShown,
    /// Even the whole range of these few ratios does not reach the wanted confidence.
    TooFewIterations,
}

/// The first series divided by the second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The median ratio, first / second, with its interval.
    pub ratio: MedianInterval,
    pub better: Better,
    pub verdict: Verdict,
}

/// The reason why two series cannot be compared.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    #[error("{first} iterations of the first stand against {second} of the second")]
    Unpaired { first: usize, second: usize },
    #[error("there are no iterations")]
    Empty,
    #[error("iteration {iteration} gave {first} and {second}: a ratio needs two positive numbers")]
    NotPositive { iteration: usize, first: f64, second: f64 },
}

/// Compares `first` with `second`, value by value in the order of their iterations.
///
/// Errors: [`CompareError`] if the two are not pairs of positive numbers. An iteration that failed must be left out of
/// both.
pub fn compare(first: &[f64], second: &[f64], better: Better, confidence: f64) -> Result<Comparison, CompareError> {
    if first.len() != second.len() {
        return Err(CompareError::Unpaired { first: first.len(), second: second.len() });
    }
    let mut logarithms = Vec::with_capacity(first.len());
    for (iteration, (&first, &second)) in first.iter().zip(second).enumerate() {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        if !positive(first) || !positive(second) {
            return Err(CompareError::NotPositive { iteration, first, second });
        }
        // On logarithms the median of an even number of ratios is symmetric: a/b and b/a give inverse answers.
        logarithms.push(first.ln() - second.ln());
    }
    let interval = MedianInterval::of(&logarithms, confidence).ok_or(CompareError::Empty)?;
    let ratio = MedianInterval {
        median: interval.median.exp(),
        low: interval.low.exp(),
        high: interval.high.exp(),
        ..interval
    };
    let verdict = verdict_of(&ratio, better, confidence);
    Ok(Comparison { ratio, better, verdict })
}

/// The verdict of a ratio's interval.
fn verdict_of(ratio: &MedianInterval, better: Better, confidence: f64) -> Verdict {
    if ratio.confidence < confidence {
        Verdict::TooFewIterations
    } else if ratio.low > 1.0 {
        if better == Better::Higher { Verdict::Faster } else { Verdict::Slower }
    } else if ratio.high < 1.0 {
        if better == Better::Higher { Verdict::Slower } else { Verdict::Faster }
    } else {
        Verdict::NoDifferenceShown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn verdict(first: &[f64], second: &[f64], better: Better) -> Verdict {
        compare(first, second, better, 0.9).unwrap().verdict
    }

    #[test]
    fn known_answers() {
        let (slow, fast) = ([100.0, 102.0, 98.0, 101.0, 99.0], [200.0, 210.0, 190.0, 205.0, 195.0]);
        assert_eq!(verdict(&fast, &slow, Better::Higher), Verdict::Faster);
        assert_eq!(verdict(&slow, &fast, Better::Higher), Verdict::Slower);
        assert_eq!(verdict(&fast, &slow, Better::Lower), Verdict::Slower);
        assert_eq!(verdict(&slow, &fast, Better::Lower), Verdict::Faster);
        assert_eq!(verdict(&slow, &slow, Better::Higher), Verdict::NoDifferenceShown);
        assert_eq!(verdict(&fast[..4], &slow[..4], Better::Higher), Verdict::TooFewIterations);
        let ratio = compare(&fast, &slow, Better::Higher, 0.9).unwrap().ratio;
        assert!((ratio.median - 2.0).abs() < 1e-12, "{ratio:?}");
    }

    #[test]
    fn drift_of_the_machine_cancels() {
        // The machine halves its speed during the run; one side is always 5 % faster.
        let second: Vec<f64> = (0..6).map(|i| 1000.0 * 0.87f64.powi(i)).collect();
        let first: Vec<f64> = second.iter().map(|value| value * 1.05).collect();
        assert_eq!(verdict(&first, &second, Better::Higher), Verdict::Faster);
    }

    #[test]
    fn what_cannot_be_compared() {
        assert_eq!(compare(&[], &[], Better::Higher, 0.9), Err(CompareError::Empty));
        assert_eq!(compare(&[1.0], &[], Better::Higher, 0.9), Err(CompareError::Unpaired { first: 1, second: 0 }));
        for wrong in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let got = compare(&[1.0, wrong], &[1.0, 1.0], Better::Higher, 0.9);
            assert!(matches!(got, Err(CompareError::NotPositive { iteration: 1, .. })), "{got:?}");
        }
    }

    /// Runs `trials` comparisons of two series that differ by `ratio`, with common drift and separate noise. Returns
    /// the shares of verdicts (faster, slower) and of intervals that hold the true ratio.
    fn simulate(ratio: f64, iterations: usize, trials: u32) -> (f64, f64, f64) {
        let mut random = Random::new(4, iterations as u64);
        let (mut faster, mut slower, mut held) = (0, 0, 0);
        for _ in 0..trials {
            let mut speed = 1000.0;
            let (mut first, mut second) = (Vec::new(), Vec::new());
            for _ in 0..iterations {
                speed *= 0.8 + 0.4 * random.unit();
                first.push(speed * ratio * (0.9 + 0.2 * random.unit()));
                second.push(speed * (0.9 + 0.2 * random.unit()));
            }
            let got = compare(&first, &second, Better::Higher, 0.9).unwrap();
            faster += u32::from(got.verdict == Verdict::Faster);
            slower += u32::from(got.verdict == Verdict::Slower);
            held += u32::from((got.ratio.low..=got.ratio.high).contains(&ratio));
        }
        let share = |count: u32| f64::from(count) / f64::from(trials);
        (share(faster), share(slower), share(held))
    }

    #[test]
    fn equal_ones_are_rarely_told_apart() {
        for iterations in [5, 9, 20] {
            let (faster, slower, held) = simulate(1.0, iterations, 10_000);
            assert!(faster < 0.06 && slower < 0.06, "{iterations} iterations: {faster} and {slower}");
            assert!(held > 0.89, "{iterations} iterations: {held}");
        }
    }

    #[test]
    fn clear_differences_are_found() {
        let (faster, slower, held) = simulate(1.3, 5, 10_000);
        assert!(faster > 0.99 && slower == 0.0 && held > 0.92, "{faster} {slower} {held}");
        let (faster, ..) = simulate(1.05, 30, 10_000);
        assert!(faster > 0.7, "{faster}");
    }
}

//! Detection of the steady state of SNIA's Solid State Storage Performance Test Specification.
//!
//! A run is measured in rounds. It is steady once, over the last `window` rounds, the values lie within `range_percent`
//! of their average and the line fitted to them by least squares moves by at most `slope_percent` of the average from
//! the window's first to its last round. The defaults are the specification's numbers (5 rounds, 20 %, 10 %, at most 25
//! rounds).

use serde::{Deserialize, Serialize};

/// Rules by which a series of rounds is steady.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyRules {
    /// Number of rounds that are judged together.
    pub window: u32,
    /// Largest allowed difference between two rounds of the window, in percent of their average.
    pub range_percent: f64,
    /// Largest allowed movement of the fitted line over the window, in percent of the average.
    pub slope_percent: f64,
    /// Number of rounds after which to give up.
    pub rounds_max: u32,
}

impl Default for SteadyRules {
    fn default() -> SteadyRules {
        SteadyRules { window: 5, range_percent: 20.0, slope_percent: 10.0, rounds_max: 25 }
    }
}

/// Figures of the last window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Window {
    /// The window's first round, counted from 0.
    pub first_round: u32,
    pub average: f64,
    /// Largest minus smallest value, in percent of the average.
    pub range_percent: f64,
    /// Movement of the fitted line over the window, in percent of the average; negative if falling.
    pub slope_percent: f64,
}

/// Verdict after a round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SteadyVerdict {
    /// The run has had fewer rounds than a window has.
    TooEarly,
    /// The last window moves too much.
    Moving(Window),
    /// The last window is steady: measure it and stop.
    Steady(Window),
    /// The largest number of rounds is reached, and the last window still moves.
    GaveUp(Window),
}

/// Judges rounds as they end.
#[derive(Clone, Debug)]
pub struct SteadyState {
    rules: SteadyRules,
    values: Vec<f64>,
}

impl SteadyState {
    /// Panics for rules that no checked plan holds: a window of less than 2 or more than `rounds_max`.
    pub fn new(rules: SteadyRules) -> SteadyState {
        assert!(rules.window >= 2 && rules.rounds_max >= rules.window, "no steady state by {rules:?}");
        SteadyState { rules, values: Vec::new() }
    }

    /// Adds a round's value (throughput, or a latency) and judges. A window whose average is not positive is moving.
    pub fn push(&mut self, value: f64) -> SteadyVerdict {
        self.values.push(value);
        let Some(first) = self.values.len().checked_sub(self.rules.window as usize) else {
            return SteadyVerdict::TooEarly;
        };
        let window = judge(first, &self.values[first..]);
        let steady = window.average > 0.0
            && window.range_percent <= self.rules.range_percent
            && window.slope_percent.abs() <= self.rules.slope_percent;
        if steady {
            SteadyVerdict::Steady(window)
        } else if self.values.len() >= self.rules.rounds_max as usize {
            SteadyVerdict::GaveUp(window)
        } else {
            SteadyVerdict::Moving(window)
        }
    }

    /// The values so far.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

fn judge(first: usize, values: &[f64]) -> Window {
    let count = values.len() as f64;
    let average = values.iter().sum::<f64>() / count;
    let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = values.iter().copied().fold(f64::INFINITY, f64::min);
    let middle = (count - 1.0) / 2.0;
    let (mut covariance, mut variance) = (0.0, 0.0);
    for (round, value) in values.iter().enumerate() {
        let distance = round as f64 - middle;
        covariance += distance * (value - average);
        variance += distance * distance;
    }
    let movement = covariance / variance * (count - 1.0);
    Window {
        first_round: first as u32,
        average,
        range_percent: (largest - smallest) / average * 100.0,
        slope_percent: movement / average * 100.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn push_all(rules: SteadyRules, values: &[f64]) -> SteadyVerdict {
        let mut state = SteadyState::new(rules);
        values.iter().map(|value| state.push(*value)).last().unwrap()
    }

    #[test]
    fn flat_line_is_steady_as_soon_as_a_window_is_full() {
        assert_eq!(push_all(SteadyRules::default(), &[100.0; 4]), SteadyVerdict::TooEarly);
        let window = Window { first_round: 0, average: 100.0, range_percent: 0.0, slope_percent: 0.0 };
        assert_eq!(push_all(SteadyRules::default(), &[100.0; 5]), SteadyVerdict::Steady(window));
    }

    #[test]
    fn known_window() {
        // Average 100, range 18; fitted slope (-2*-9 + -1*1 + 1*-1 + 2*9) / 10 = 3.4 a round, 13.6 over the window.
        let SteadyVerdict::Moving(window) = push_all(SteadyRules::default(), &[91.0, 101.0, 100.0, 99.0, 109.0]) else {
            panic!("slope above 10 % was called steady")
        };
        assert!((window.range_percent - 18.0).abs() < 1e-9, "{window:?}");
        assert!((window.slope_percent - 13.6).abs() < 1e-9, "{window:?}");
    }

    #[test]
    fn limits_themselves_are_steady() {
        // Alternating: no slope, range exactly 20 %.
        let values = [90.0, 110.0, 100.0, 110.0, 90.0];
        assert!(matches!(push_all(SteadyRules::default(), &values), SteadyVerdict::Steady(_)));
        let wider = [89.0, 111.0, 100.0, 111.0, 89.0];
        assert!(matches!(push_all(SteadyRules::default(), &wider), SteadyVerdict::Moving(_)));
    }

    #[test]
    fn drive_that_fills_its_cache_first() {
        // A fast first phase, a fall, then the steady rate: found where the window has left the fall.
        let mut state = SteadyState::new(SteadyRules::default());
        let rates = [900.0, 900.0, 890.0, 600.0, 400.0, 310.0, 302.0, 300.0, 298.0, 301.0, 300.0];
        let verdicts: Vec<SteadyVerdict> = rates.iter().map(|rate| state.push(*rate)).collect();
        let found = verdicts.iter().position(|verdict| matches!(verdict, SteadyVerdict::Steady(_)));
        assert_eq!(found, Some(9));
        assert!(matches!(verdicts[9], SteadyVerdict::Steady(Window { first_round: 5, .. })));
    }

    #[test]
    fn gives_up_on_a_ramp_and_on_nothing() {
        let ramp: Vec<f64> = (0..25).map(|round| 1.2f64.powi(round)).collect();
        assert!(matches!(push_all(SteadyRules::default(), &ramp), SteadyVerdict::GaveUp(_)));
        assert!(matches!(push_all(SteadyRules::default(), &[0.0; 25]), SteadyVerdict::GaveUp(_)));
    }

    #[test]
    fn noise_of_two_percent_is_steady_at_once() {
        let mut random = Random::new(5, 0);
        for _ in 0..1000 {
            let values: Vec<f64> = (0..5).map(|_| 100.0 + (random.unit() - 0.5) * 4.0).collect();
            assert!(matches!(push_all(SteadyRules::default(), &values), SteadyVerdict::Steady(_)), "{values:?}");
        }
    }
}

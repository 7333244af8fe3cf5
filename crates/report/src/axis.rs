//! Ticks of axes, and the place of a value on them.

/// The way from values to places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    #[default]
    Linear,
    /// Values must be positive; others have no place.
    Log,
}

/// A range of values that is shown, with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct Range {
    scale: Scale,
    low: f64,
    high: f64,
    /// Values with a tick, ascending.
    pub ticks: Vec<f64>,
}

/// Number of ticks that a linear axis has at most.
const TICKS_MAX: f64 = 7.0;

impl Range {
    /// A range of round ends around `values`. A linear one begins at 0 unless a value is below. Values that cannot be
    /// shown are passed over; with none left the range is 0 to 1, or 1 to 10.
    pub fn around(scale: Scale, values: impl Iterator<Item = f64>) -> Range {
        let shown = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let bounds = values.filter(shown).fold(None, |bounds: Option<(f64, f64)>, value| {
            Some(bounds.map_or((value, value), |(low, high)| (low.min(value), high.max(value))))
        });
        match scale {
            Scale::Linear => {
                let (low, high) = bounds.unwrap_or((0.0, 1.0));
                Range::linear(low.min(0.0), high.max(0.0))
            }
            Scale::Log => {
                let (low, high) = bounds.unwrap_or((1.0, 10.0));
                Range::log(low, high)
            }
        }
    }

    fn linear(low: f64, high: f64) -> Range {
        let high = if high > low { high } else { low + 1.0 };
        let rough = (high - low) / TICKS_MAX;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * power).find(|step| *step >= rough);
        let step = step.unwrap_or(10.0 * power);
        let (first, last) = ((low / step).floor() as i64, (high / step).ceil() as i64);
        let ticks: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
        Range { scale: Scale::Linear, low: first as f64 * step, high: last as f64 * step, ticks }
    }

    fn log(low: f64, high: f64) -> Range {
        let decades = (high / low).log10();
        // A few decades have room for ticks between the powers of ten.
        let parts: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32 + 1);
        let all: Vec<f64> = (first..=last).flat_map(|n| parts.iter().map(move |part| part * 10f64.powi(n))).collect();
        let near = 1.0 + 1e-9;
        let from = all.iter().rposition(|tick| *tick <= low * near).unwrap_or(0);
        let to = all.iter().position(|tick| *tick * near >= high).unwrap_or(all.len() - 1).max(from + 1);
        let ticks = all[from..=to.min(all.len() - 1)].to_vec();
        Range { scale: Scale::Log, low: ticks[0], high: ticks[ticks.len() - 1], ticks }
    }

    /// The place of `value`, from 0 at the low end to 1 at the high end. `None` for what an axis cannot show.
    pub fn place(&self, value: f64) -> Option<f64> {
        if !value.is_finite() || (self.scale == Scale::Log && value <= 0.0) {
            return None;
        }
        Some(match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_hold_all_values() {
        let range = Range::around(Scale::Linear, [3.0, 97.0, f64::NAN].into_iter());
        assert_eq!(range.ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!((range.place(50.0), range.place(f64::NAN)), (Some(0.5), None));
        let below = Range::around(Scale::Linear, [-5.0, 10.0].into_iter());
        assert_eq!((below.ticks[0], below.place(-5.0)), (-5.0, Some(0.0)));
        assert_eq!(Range::around(Scale::Linear, std::iter::empty()).ticks.last(), Some(&1.0));
        assert_eq!(Range::around(Scale::Linear, [0.0, 0.0].into_iter()).place(0.0), Some(0.0));
    }

    #[test]
    fn logarithmic_ticks_enclose_all_values() {
        let check = |values: &[f64], want: &[f64]| {
            let range = Range::around(Scale::Log, values.iter().copied());
            let close = range.ticks.len() == want.len()
                && range.ticks.iter().zip(want).all(|(got, want)| (got / want - 1.0).abs() < 1e-9);
            assert!(close, "{values:?}: {:?}", range.ticks);
            for value in values.iter().filter(|value| **value > 0.0) {
                let place = range.place(*value).unwrap();
                assert!((-1e-9..=1.0 + 1e-9).contains(&place), "{value} at {place}");
            }
        };
        check(&[3.0, 40.0], &[2.0, 5.0, 10.0, 20.0, 50.0]);
        check(&[1.0, 10_000.0], &[1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        check(&[7.0], &[5.0, 10.0]);
        check(&[10.0], &[10.0, 20.0]);
        check(&[-1.0, 0.0], &[1.0, 2.0, 5.0, 10.0]);
        assert_eq!(Range::around(Scale::Log, [1.0, 5.0].into_iter()).place(0.0), None);
    }
}

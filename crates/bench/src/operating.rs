//! Operating points: the load at which a cluster should be used, found on a curve of measured points.
//!
//! A curve is a list of [`LoadPoint`]s that differ in load only. By Little's law throughput times mean latency is the
//! number of operations in flight, so of each percent of more load a part becomes throughput and the rest becomes
//! latency. The part that becomes latency is near 0 on an idle cluster and near 1 on a saturated one. Three rules, each
//! with a limit that can be set:
//!
//! * [`operating_point`]: mean latency below 50 ms, and less than four fifths of more load become latency. This is the
//!   rule of the reference architectures ("no large increase of latency for a marginal gain") with numbers.
//! * [`most_load_within`]: the most load at which a figure stays at or below a limit, for p99 or for CPU (80 or 85 %).
//! * [`high_water`]: the load after which throughput hardly grows, as the Ceph Benchmarking Tool is used to find it.
//!
//! Between measured points curves are interpolated as straight lines of logarithms. An answer tells which measured
//! point is nearest, and whether the sweep ended before a limit was met.

#[cfg(test)]
mod tests;

/// One load and its results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadPoint {
    /// Operations or bytes per second.
    pub throughput: f64,
    pub mean_us: f64,
    pub p99_us: Option<f64>,
    /// Busy share of the processors, 0 to 100.
    pub cpu_percent: Option<f64>,
}

/// Limits of [`operating_point`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatingRules {
    /// Largest mean latency.
    pub mean_us_max: f64,
    /// Largest part of more load that becomes latency, 0 to 1.
    pub latency_part_max: f64,
}

/// Limits of all rules.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    pub rules: OperatingRules,
    /// Largest p99; if absent, three times the smallest of the curve.
    pub p99_us_max: Option<f64>,
    /// Busy shares of the processors, each of which is looked for.
    pub cpu_percent_max: Vec<f64>,
    /// Growth of throughput that makes a step of more load worth it.
    pub high_water_percent: f64,
}

/// The reason why an answer is not more load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A figure would exceed its limit.
    Limit,
    /// More load would become latency.
    Knee,
    /// No more load was measured. The true answer is this or more.
    EndOfSweep,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatingPoint {
    /// Interpolated throughput, mean latency and operations in flight.
    pub throughput: f64,
    pub mean_us: f64,
    pub in_flight: f64,
    /// Index of the nearest measured point that keeps the limits.
    pub nearest: usize,
    pub bound: Bound,
}

impl Default for OperatingRules {
    fn default() -> OperatingRules {
        OperatingRules { mean_us_max: 50_000.0, latency_part_max: 0.8 }
    }
}

impl Default for Limits {
    /// The reference architectures' rules: the block documents let a cluster be used up to 80 or 85 % of its
    /// processors.
    fn default() -> Limits {
        let rules = OperatingRules::default();
        Limits { rules, p99_us_max: None, cpu_percent_max: vec![80.0, 85.0], high_water_percent: 5.0 }
    }
}

impl Bound {
    /// The bound in words, for tables.
    pub fn words(self) -> &'static str {
        match self {
            Bound::Limit => "limit reached",
            Bound::Knee => "more load becomes latency",
            Bound::EndOfSweep => "no more load was measured",
        }
    }
}

/// Growth of load, as its logarithm, below which two points say nothing about the slope: noise would decide.
const STEP_MIN: f64 = 0.1;

/// A measured point by its logarithms.
#[derive(Clone, Copy)]
struct Measured {
    index: usize,
    throughput: f64,
    mean: f64,
}

impl Measured {
    fn in_flight(&self) -> f64 {
        self.throughput + self.mean
    }
}

/// Points that can be used, by rising load.
fn by_load(points: &[LoadPoint]) -> Vec<Measured> {
    let usable =
        |point: &LoadPoint| [point.throughput, point.mean_us].iter().all(|value| value.is_finite() && *value > 0.0);
    let mut measured: Vec<Measured> = points
        .iter()
        .enumerate()
        .filter(|(_, point)| usable(point))
        .map(|(index, point)| Measured { index, throughput: point.throughput.ln(), mean: point.mean_us.ln() })
        .collect();
    measured.sort_by(|a, b| a.in_flight().total_cmp(&b.in_flight()));
    measured
}

/// The point of the curve at `in_flight`, a logarithm.
fn at(curve: &[Measured], in_flight: f64, bound: Bound, may_be_nearest: impl Fn(&Measured) -> bool) -> OperatingPoint {
    let last = curve.len() - 1;
    let above = curve.iter().position(|point| point.in_flight() >= in_flight).unwrap_or(last).max(1).min(last);
    let (a, b) = (curve[above.saturating_sub(1)], curve[above]);
    let width = b.in_flight() - a.in_flight();
    let share = if width > 0.0 { ((in_flight - a.in_flight()) / width).clamp(0.0, 1.0) } else { 1.0 };
    let between = |a: f64, b: f64| (a + (b - a) * share).exp();
    let distance = |point: &&Measured| (point.in_flight() - in_flight).abs();
    let nearest = curve.iter().filter(|point| may_be_nearest(point)).min_by(|a, b| distance(a).total_cmp(&distance(b)));
    OperatingPoint {
        throughput: between(a.throughput, b.throughput),
        mean_us: between(a.mean, b.mean),
        in_flight: in_flight.exp() / 1e6,
        nearest: nearest.unwrap_or(&curve[0]).index,
        bound,
    }
}

/// The operating point of a curve by `rules`. `None` if no point can be used, or if even the lightest load exceeds the
/// limit of latency.
///
/// The curve is cut into steps over which load grows by a tenth at least. Each step has a part of load that became
/// latency, which counts for the middle of the step. The knee lies where the line through these reaches
/// `latency_part_max`. A step in which throughput fell lies beyond it.
pub fn operating_point(points: &[LoadPoint], rules: &OperatingRules) -> Option<OperatingPoint> {
    let curve = by_load(points);
    let limit = rules.mean_us_max.ln();
    let first = curve.first().filter(|point| point.mean <= limit)?;
    let mut knee = None;
    let mut before: Option<(f64, f64)> = None;
    let mut anchor = first;
    for point in &curve[1..] {
        let grown = point.in_flight() - anchor.in_flight();
        if grown < STEP_MIN {
            continue;
        }
        let part = (point.mean - anchor.mean) / grown;
        let middle = anchor.in_flight() + grown / 2.0;
        if part >= rules.latency_part_max {
            let crossed = match before {
                Some((place, lower)) => place + (middle - place) * (rules.latency_part_max - lower) / (part - lower),
                None => anchor.in_flight(),
            };
            knee = Some(crossed);
            break;
        }
        before = Some((middle, part));
        anchor = point;
    }
    let over = curve.windows(2).find(|pair| pair[1].mean > limit).map(|pair| {
        let share = (limit - pair[0].mean) / (pair[1].mean - pair[0].mean);
        pair[0].in_flight() + share * (pair[1].in_flight() - pair[0].in_flight())
    });
    let end = curve[curve.len() - 1].in_flight();
    let (place, bound) = match (knee, over) {
        (Some(knee), Some(over)) if over < knee => (over, Bound::Limit),
        (Some(knee), _) => (knee, Bound::Knee),
        (None, Some(over)) => (over, Bound::Limit),
        (None, None) => (end, Bound::EndOfSweep),
    };
    Some(at(&curve, place, bound, |point| point.mean <= limit))
}

/// The most load at which `figure` is at or below `limit`. `None` if no point has the figure, or if even the lightest
/// load exceeds the limit. A figure that falls below its limit again under more load does not count.
pub fn most_load_within(
    points: &[LoadPoint],
    figure: impl Fn(&LoadPoint) -> Option<f64>,
    limit: f64,
) -> Option<OperatingPoint> {
    let value = |point: &Measured| figure(&points[point.index]).filter(|value| value.is_finite() && *value > 0.0);
    let curve: Vec<Measured> = by_load(points).into_iter().filter(|point| value(point).is_some()).collect();
    let logarithm = |point: &Measured| value(point).map_or(f64::INFINITY, f64::ln);
    let limit = limit.ln();
    curve.first().filter(|point| logarithm(point) <= limit)?;
    let over = curve.windows(2).find(|pair| logarithm(&pair[1]) > limit).map(|pair| {
        let share = (limit - logarithm(&pair[0])) / (logarithm(&pair[1]) - logarithm(&pair[0]));
        pair[0].in_flight() + share * (pair[1].in_flight() - pair[0].in_flight())
    });
    let (place, bound) = match over {
        Some(over) => (over, Bound::Limit),
        None => (curve[curve.len() - 1].in_flight(), Bound::EndOfSweep),
    };
    Some(at(&curve, place, bound, |point| logarithm(point) <= limit && point.in_flight() <= place))
}

/// The high-water mark: the load after which the next one adds less than `gain_percent` to throughput. `None` if no
/// point can be used.
pub fn high_water(points: &[LoadPoint], gain_percent: f64) -> Option<OperatingPoint> {
    let curve = by_load(points);
    let gain = (1.0 + gain_percent / 100.0).ln();
    let end = curve.windows(2).find(|pair| pair[1].throughput - pair[0].throughput < gain).map(|pair| pair[0]);
    let (place, bound) = match end {
        Some(point) => (point.in_flight(), Bound::Knee),
        None => (curve.last()?.in_flight(), Bound::EndOfSweep),
    };
    Some(at(&curve, place, bound, |_| true))
}

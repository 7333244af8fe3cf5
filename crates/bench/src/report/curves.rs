//! Sweeps of load in a result, and the operating points on them.

use ::report::{Axis, Block, Cell, Column, Figure as Plotted, Mark, Plot, Scale, Series, Table};

use super::{Figure, RunResult, Summary};
use crate::operating::{
    Limits, LoadPoint, OperatingPoint, OperatingRules, high_water, most_load_within, operating_point,
};
use crate::plan::{Group, Load, Workload};
use crate::search::hardly_grows;

/// Loads that make a curve.
const POINTS_MIN: usize = 3;
/// Size of operations from which throughput is given in bytes.
pub(super) const LARGE_BYTES: u64 = 64 << 10;
/// Largest p99 that is still good, in multiples of the smallest of the curve, where no other limit is asked for.
const P99_OF_LIGHTEST: f64 = 3.0;

/// Workloads of one cluster that differ in load only.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    /// Words that the workloads share.
    pub(super) family: String,
    pub(super) cluster: String,
    /// Throughput is in MB/s instead of operations per second.
    pub(super) large: bool,
    /// Names of workloads, by the order of `points`.
    pub(super) workloads: Vec<String>,
    pub(super) points: Vec<LoadPoint>,
}

/// Describes everything about a group but its load, and but the number of objects that goes with the load.
fn family(workload: &Workload, group: &Group) -> String {
    let kib = |bytes: u64| {
        if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) }
    };
    let parts: Vec<String> = (group.operations.by_name().iter())
        .filter(|(_, percent)| *percent > 0)
        .map(|(name, percent)| if *percent == 100 { (*name).to_owned() } else { format!("{percent} % {name}") })
        .collect();
    let mut words = format!("{} {}", kib(group.io_bytes()), parts.join(" + "));
    if group.io_bytes() != group.object_bytes {
        words += &format!(" in {}", kib(group.object_bytes));
    }
    words += &format!(", pool {}", workload.pool);
    if !workload.tool.is_nacre() {
        words += &format!(", by {}", workload.tool.name());
    }
    if workload.groups.len() > 1 && !are_alike(workload) {
        words += &format!(", {} beside {} more", group.name, workload.groups.len() - 1);
    }
    if matches!(group.load, Load::Open { .. }) {
        words += ", open loop";
    }
    words
}

/// True if all groups do the same, such as clients of an image each: then they are one load.
fn are_alike(workload: &Workload) -> bool {
    let first = workload.groups.first();
    workload
        .groups
        .iter()
        .all(|group| first.is_some_and(|first| Group { name: first.name.clone(), ..group.clone() } == *first))
}

impl RunResult {
    /// Sweeps of at least three loads.
    pub(super) fn curves(&self) -> Vec<Curve> {
        let mut curves: Vec<Curve> = Vec::new();
        for summary in self.summaries() {
            let Some(workload) = self.plan.workloads.iter().find(|one| one.name == summary.workload) else { continue };
            let Some(group) = workload.groups.iter().find(|one| one.name == summary.group) else { continue };
            let large = group.io_bytes() >= LARGE_BYTES;
            let Some(point) = self.load_point(&summary, large) else { continue };
            let family = family(workload, group);
            let same = |curve: &&mut Curve| curve.family == family && curve.cluster == summary.cluster;
            let joined = curves.iter_mut().find(same).filter(|_| are_alike(workload)).and_then(|curve| {
                let index = curve.workloads.iter().position(|name| *name == summary.workload)?;
                Some(&mut curve.points[index])
            });
            if let Some(joined) = joined {
                *joined = together(*joined, point);
                continue;
            }
            let curve = match curves.iter_mut().find(same) {
                Some(curve) => curve,
                None => {
                    let (cluster, workloads, points) = (summary.cluster.clone(), Vec::new(), Vec::new());
                    curves.push(Curve { family, cluster, large, workloads, points });
                    curves.last_mut().expect("just pushed")
                }
            };
            curve.workloads.push(summary.workload.clone());
            curve.points.push(point);
        }
        curves.retain(|curve| curve.points.len() >= POINTS_MIN);
        curves
    }

    /// The workload of `workload`'s sweep on `cluster` after which more load added less than `gain_percent` to
    /// throughput, if `workload` has more load than those and was not measured yet. Rows that were cut short do not
    /// count.
    pub fn past_high_water(&self, cluster: &str, workload: &Workload, gain_percent: f64) -> Option<&str> {
        // Clients of an image each are one load, whose groups grow in number.
        let families = |one: &Workload| {
            let told = if are_alike(one) { 1 } else { one.groups.len() };
            one.groups.iter().take(told).map(|group| family(one, group)).collect::<Vec<_>>()
        };
        let load = |one: &Workload| one.groups.iter().map(Group::workers).sum::<u64>();
        let of_workload = families(workload);
        let rate = |one: &Workload| {
            let rows =
                || self.rows.iter().filter(|row| row.cluster == cluster && row.workload == one.name && !row.partial);
            let first = rows().map(|row| row.iteration).min()?;
            let rates = rows().filter(|row| row.iteration == first).map(|row| Figure::OperationsPerS.of(row));
            rates.sum::<Option<f64>>()
        };
        if rate(workload).is_some() {
            return None;
        }
        let lighter = |one: &&Workload| load(one) < load(workload) && families(one) == of_workload;
        let lighter = self.plan.workloads.iter().filter(lighter);
        let mut measured: Vec<(u64, f64, &str)> =
            lighter.filter_map(|one| Some((load(one), rate(one)?, one.name.as_str()))).collect();
        measured.sort_by_key(|(load, ..)| *load);
        let rates: Vec<f64> = measured.iter().map(|(_, rate, _)| *rate).collect();
        let end = (2..=rates.len()).find(|count| hardly_grows(&rates[..*count], gain_percent))?;
        Some(measured[end - 2].2)
    }

    fn load_point(&self, summary: &Summary, large: bool) -> Option<LoadPoint> {
        let median = |figure: Figure| {
            let index = Figure::ALL.iter().position(|one| *one == figure)?;
            summary.figures.get(index).copied().flatten().map(|interval| interval.median)
        };
        let throughput = match large {
            true => median(Figure::BytesPerS)? / 1e6,
            false => median(Figure::OperationsPerS)?,
        };
        let busy = ["machine_user_cores", "machine_system_cores", "machine_softirq_cores", "machine_steal_cores"];
        let busy: Option<f64> = busy
            .into_iter()
            .map(|name| self.median_figure(&summary.cluster, &summary.workload, &summary.group, name))
            .sum();
        let processors = self.processors(&summary.workload).map(|(processors, _)| f64::from(processors));
        Some(LoadPoint {
            throughput,
            mean_us: median(Figure::MeanUs)?,
            p99_us: median(Figure::P99Us),
            cpu_percent: busy.zip(processors).map(|(busy, processors)| busy / processors * 100.0),
        })
    }

    /// Curves of latency over throughput, and operating points as a table. Empty if the run has no sweep.
    pub(super) fn operating_blocks(&self, limits: &Limits) -> Vec<Block> {
        let curves = self.curves();
        if curves.is_empty() {
            return Vec::new();
        }
        let rules = &limits.rules;
        let p99 = match limits.p99_us_max {
            Some(us) => format!("at or below {} ms", ::report::number::significant(us / 1000.0)),
            None => format!("within {P99_OF_LIGHTEST:.0} times the smallest of the sweep"),
        };
        let cpu: Vec<String> = limits.cpu_percent_max.iter().map(|percent| format!("{percent:.0}")).collect();
        let words = format!(
            "Recommended: mean latency up to {:.0} ms, and less than {:.0} % of more load become latency. The other \
             rules look for the most load at which p99 stays {p99}, and at which the machine's processors are at most \
             {} % busy. Between measured loads the curve is interpolated.",
            rules.mean_us_max / 1000.0,
            rules.latency_part_max * 100.0,
            cpu.join(" or ")
        );
        let mut blocks = vec![Block::Prose(words)];
        let mut families: Vec<&str> = Vec::new();
        for curve in &curves {
            if !families.contains(&curve.family.as_str()) {
                families.push(&curve.family);
            }
        }
        for family in families {
            let members: Vec<&Curve> = curves.iter().filter(|curve| curve.family == family).collect();
            blocks.push(latency_figure(family, &members, Some(rules)).into());
            if members.iter().any(|curve| curve.points.iter().any(|point| point.p99_us.is_some())) {
                blocks.push(latency_figure(family, &members, None).into());
            }
        }
        blocks.push(operating_table(&curves, limits).into());
        blocks
    }
}

/// Two groups as one load. Their p99 together is unknown, and at most the larger one.
fn together(a: LoadPoint, b: LoadPoint) -> LoadPoint {
    let throughput = a.throughput + b.throughput;
    LoadPoint {
        throughput,
        mean_us: (a.mean_us * a.throughput + b.mean_us * b.throughput) / throughput,
        p99_us: a.p99_us.zip(b.p99_us).map(|(a, b)| a.max(b)),
        // Processors are those of the machine, for all groups.
        cpu_percent: a.cpu_percent,
    }
}

/// All rules on all curves.
fn operating_table(curves: &[Curve], limits: &Limits) -> Table {
    let columns = vec![
        Column::text("sweep"),
        Column::text("cluster"),
        Column::text("rule"),
        Column::number("throughput", ""),
        Column::text("unit"),
        Column::number("mean", "ms"),
        Column::text("nearest workload"),
        Column::text("bound by"),
    ];
    let mut table = Table::new("operating-points", "Operating points.", columns);
    for curve in curves {
        let points = &curve.points;
        let lightest = points.iter().filter_map(|point| point.p99_us).fold(f64::INFINITY, f64::min);
        let mut found = vec![("recommended".to_owned(), operating_point(points, &limits.rules))];
        if lightest.is_finite() {
            let limit = limits.p99_us_max.unwrap_or(lightest * P99_OF_LIGHTEST);
            let point = most_load_within(points, |point| point.p99_us, limit);
            found.push((format!("p99 up to {} ms", ::report::number::significant(limit / 1000.0)), point));
        }
        if points.iter().any(|point| point.cpu_percent.is_some()) {
            for percent in limits.cpu_percent_max.iter().copied() {
                let point = most_load_within(points, |point| point.cpu_percent, percent);
                found.push((format!("CPU up to {percent:.0} %"), point));
            }
        }
        let gain = limits.high_water_percent;
        found.push((format!("high-water mark ({gain:.0} %)"), high_water(points, gain)));
        for (rule, point) in found {
            let mut cells: Vec<Cell> = vec![Cell::text(&curve.family), Cell::text(&curve.cluster), Cell::Text(rule)];
            match point {
                Some(OperatingPoint { throughput, mean_us, nearest, bound, .. }) => cells.extend([
                    Cell::Number(throughput),
                    Cell::text(unit(curve.large)),
                    Cell::Number(mean_us / 1000.0),
                    Cell::text(&curve.workloads[nearest]),
                    Cell::text(bound.words()),
                ]),
                None => {
                    cells.extend([Cell::Absent, Cell::text(unit(curve.large)), Cell::Absent]);
                    cells.extend([Cell::text("-"), Cell::text("the lightest load exceeds it")]);
                }
            }
            table.push(cells);
        }
    }
    table
}

fn unit(large: bool) -> &'static str {
    if large { "MB/s" } else { "operations/s" }
}

/// Mean latency with operating points, or p99 without `rules`, over throughput.
fn latency_figure(family: &str, curves: &[&Curve], rules: Option<&OperatingRules>) -> Plotted {
    let large = curves.iter().all(|curve| curve.large);
    let series = curves.iter().map(|curve| {
        let latency = |point: &LoadPoint| if rules.is_some() { Some(point.mean_us) } else { point.p99_us };
        let mut points: Vec<&LoadPoint> = curve.points.iter().collect();
        points.sort_by(|a, b| (a.throughput * a.mean_us).total_cmp(&(b.throughput * b.mean_us)));
        let points = points.into_iter().filter_map(|point| Some((point.throughput, latency(point)? / 1000.0)));
        let mut series = Series::new(&curve.cluster, points.collect());
        if let Some(found) = rules.and_then(|rules| operating_point(&curve.points, rules)) {
            let (throughput, ms) = (found.throughput, found.mean_us / 1000.0);
            let number = ::report::number::significant;
            let words = format!(
                "operating point {} {} at {} ms ({}; nearest is {})",
                number(throughput),
                unit(curve.large),
                number(ms),
                found.bound.words(),
                curve.workloads[found.nearest]
            );
            series.marks.push(Mark { x: throughput, y: ms, words });
        }
        series
    });
    let name = if rules.is_some() { "mean" } else { "p99" };
    Plotted {
        name: format!("{name}-latency"),
        title: format!("{family}: {name} latency over throughput"),
        caption: "Each point is a workload; along a line the load rises.".into(),
        plot: Plot::Lines {
            x: Axis::new("throughput", unit(large), Scale::Linear),
            y: Axis::new(format!("{name} latency"), "ms", Scale::Log),
            series: series.collect(),
        },
    }
}

//! Figures of a result: distributions of latency, the machine's work, and everything over time.

use ::report::{Axis, Bars, Block, Figure as Plotted, Plot, Scale, Series};

use super::telemetry::{Rates, Telemetry};
use super::{Figure, Row, RunResult};
use crate::histogram::HistogramData;

/// Groups whose distributions, and workloads whose course over time, are drawn. More would make a page that nobody
/// reads.
const DISTRIBUTIONS_MAX: usize = 24;
const COURSES_MAX: usize = 12;
/// Points that make a course over time.
const COURSE_POINTS_MIN: usize = 5;
/// Bins of a distribution for each factor of ten in latency.
const BINS_PER_DECADE: f64 = 20.0;

/// Share of operations, in percent, in bins of latency: (middle of the bin in ms, percent).
fn distribution(data: &HistogramData) -> Vec<(f64, f64)> {
    let total: u64 = data.buckets.iter().map(|(_, count)| count).sum();
    let bin = |ns: u64| ((ns.max(1) as f64 / 1e6).log10() * BINS_PER_DECADE).floor() as i64;
    let mut bins: Vec<(i64, u64)> = Vec::new();
    for (ns, count) in &data.buckets {
        match bins.last_mut() {
            Some((last, sum)) if *last == bin(*ns) => *sum += count,
            _ => bins.push((bin(*ns), *count)),
        }
    }
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else { return Vec::new() };
    // Empty bins are drawn, too: a line over a gap would claim operations in it.
    (first.0 - 1..=last.0 + 1)
        .map(|number| {
            let count = bins.binary_search_by_key(&number, |bin| bin.0).map_or(0, |found| bins[found].1);
            let middle_ms = 10f64.powf((number as f64 + 0.5) / BINS_PER_DECADE);
            (middle_ms, count as f64 / total.max(1) as f64 * 100.0)
        })
        .collect()
}

impl RunResult {
    /// The row of the middle iteration, by operations per second: what is drawn belongs to one run.
    fn middle_row(&self, cluster: &str, workload: &str, group: &str) -> Option<&Row> {
        let mut rows: Vec<&Row> = self.rows_of(cluster, workload, group).into_values().collect();
        if rows.iter().any(|row| !row.partial) {
            rows.retain(|row| !row.partial);
        }
        let rate = |row: &Row| Figure::OperationsPerS.of(row).unwrap_or(0.0);
        rows.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        rows.get(rows.len() / 2).copied()
    }

    /// Distributions of latency, a figure for each group, a line for each cluster.
    pub(super) fn distribution_blocks(&self) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut left_out = 0;
        for (workload, group) in self.groups() {
            let series: Vec<Series> = self
                .plan
                .clusters
                .iter()
                .filter_map(|cluster| {
                    let row = self.middle_row(&cluster.name, workload, group)?;
                    Some(Series::new(&cluster.name, distribution(row.histogram.as_ref()?)))
                })
                .collect();
            if series.is_empty() {
                continue;
            }
            if blocks.len() >= DISTRIBUTIONS_MAX {
                left_out += 1;
                continue;
            }
            blocks.push(Block::Figure(Plotted {
                name: "latencies".into(),
                title: format!("{workload}, {group}: latencies"),
                caption: format!(
                    "Share of operations by latency, {BINS_PER_DECADE:.0} bins for each factor of ten, of \
                                  the iteration in the middle."
                ),
                plot: Plot::Lines {
                    x: Axis::new("latency", "ms", Scale::Log),
                    y: Axis::new("operations", "%", Scale::Linear),
                    series,
                },
            }));
        }
        blocks.extend(left_out_note(left_out));
        blocks
    }

    /// Processors at work, for each workload and cluster.
    pub(super) fn processor_figure(&self) -> Option<Plotted> {
        const PARTS: [(&str, &str); 5] = [
            ("user", "machine_user_cores"),
            ("system", "machine_system_cores"),
            ("soft interrupts", "machine_softirq_cores"),
            ("stolen by the host", "machine_steal_cores"),
            ("waiting for drives", "machine_iowait_cores"),
        ];
        let mut categories = Vec::new();
        let mut parts: Vec<Vec<Option<f64>>> = vec![Vec::new(); PARTS.len()];
        for workload in &self.plan.workloads {
            // All groups of a workload share the machine, so one of them tells.
            let Some(group) = workload.groups.first() else { continue };
            for cluster in &self.plan.clusters {
                let values =
                    PARTS.map(|(_, name)| self.median_figure(&cluster.name, &workload.name, &group.name, name));
                if values.iter().all(Option::is_none) {
                    continue;
                }
                categories.push(format!("{}, {}", workload.name, cluster.name));
                parts.iter_mut().zip(values).for_each(|(part, value)| part.push(value));
            }
        }
        if categories.is_empty() {
            return None;
        }
        let series = PARTS.iter().map(|(words, _)| (*words).to_owned()).zip(parts).collect();
        let axis = Axis::new("processors", "", Scale::Linear);
        Some(Plotted {
            name: "processors".into(),
            title: "Processors of the machine".into(),
            caption: "Clients, daemons, the kernel and everything else that ran. Waiting for drives is idle time."
                .into(),
            plot: Plot::Bars(Bars { axis, categories, series, stacked: true }),
        })
    }

    /// Throughput, latency, processors, network and drives over time, for each workload.
    pub(super) fn course_blocks(&self, telemetry: &[Telemetry]) -> Vec<Block> {
        let mut blocks = Vec::new();
        let mut left_out = 0;
        for (number, workload) in self.plan.workloads.iter().enumerate() {
            if number >= COURSES_MAX {
                left_out += 1;
                continue;
            }
            blocks.extend(self.client_courses(&workload.name).into_iter().map(Block::Figure));
            for cluster in &self.plan.clusters {
                let middle = workload
                    .groups
                    .first()
                    .and_then(|group| self.middle_row(&cluster.name, &workload.name, &group.name))
                    .map(|row| row.iteration);
                let of = telemetry.iter().find(|one| {
                    (&one.cluster, &one.workload, Some(one.iteration)) == (&cluster.name, &workload.name, middle)
                });
                let Some(of) = of.filter(|of| of.rates.len() >= COURSE_POINTS_MIN) else { continue };
                blocks.extend(machine_courses(of).into_iter().map(Block::Figure));
            }
        }
        blocks.extend(left_out_note(left_out));
        blocks
    }

    /// Throughput and p99 of the clients of a workload.
    fn client_courses(&self, workload: &str) -> Vec<Plotted> {
        let groups: Vec<&str> = self.groups().filter(|(one, _)| *one == workload).map(|(_, group)| group).collect();
        let mut rates = Vec::new();
        let mut latencies = Vec::new();
        for cluster in &self.plan.clusters {
            for group in &groups {
                let Some(row) = self.middle_row(&cluster.name, workload, group) else { continue };
                if row.series.len() < COURSE_POINTS_MIN {
                    continue;
                }
                let name = match groups.len() {
                    1 => cluster.name.clone(),
                    _ => format!("{}, {group}", cluster.name),
                };
                let p99 = row.series.iter().map(|point| (point.start_s, point.p99_us.unwrap_or(f64::NAN) / 1000.0));
                latencies.push(Series::new(&name, p99.collect()));
                let rate = row.series.iter().map(|point| (point.start_s, point.operations_per_s));
                rates.push(Series::new(name, rate.collect()));
            }
        }
        let figure = |name: &str, what: &str, unit: &str, scale, series: Vec<Series>| Plotted {
            name: name.into(),
            title: format!("{workload}: {what} over time"),
            caption: "The iteration in the middle.".into(),
            plot: Plot::Lines { x: Axis::new("time", "s", Scale::Linear), y: Axis::new(what, unit, scale), series },
        };
        if rates.is_empty() {
            return Vec::new();
        }
        vec![
            figure("rate", "operations", "per s", Scale::Linear, rates),
            figure("p99", "p99 latency", "ms", Scale::Log, latencies),
        ]
    }
}

fn left_out_note(left_out: usize) -> Option<Block> {
    (left_out > 0).then(|| Block::Note(format!("{left_out} more are not drawn here; result.json has them.")))
}

/// Processors, and bytes of drives and network, of one iteration.
pub(super) fn machine_courses(of: &Telemetry) -> Vec<Plotted> {
    let start_s = of.rates.first().map_or(0.0, |rates| rates.at_s);
    let series = |name: &str, value: fn(&Rates) -> Option<f64>, factor: f64| {
        let points: Vec<(f64, f64)> = of
            .rates
            .iter()
            .map(|rates| (rates.at_s - start_s, value(rates).map_or(f64::NAN, |value| value * factor)))
            .collect();
        points.iter().any(|point| point.1.is_finite()).then(|| Series::new(name, points))
    };
    let cores = [
        series("user", |r| r.user_cores, 1.0),
        series("system", |r| r.system_cores, 1.0),
        series("waiting for drives", |r| r.iowait_cores, 1.0),
        series("stolen by the host", |r| r.steal_cores, 1.0),
    ];
    let bytes = [
        series("drives, read", |r| r.drive_read, 1e-6),
        series("drives, written", |r| r.drive_written, 1e-6),
        series("network, sent", |r| r.network_out, 1e-6),
    ];
    let figure = |name: &str, what: &str, label: &str, unit: &str, series: Vec<Series>| Plotted {
        name: name.into(),
        title: format!("{}, {}: {what} over time", of.workload, of.cluster),
        caption: "Warm-up included. The network counts all interfaces, loopback among them.".into(),
        plot: Plot::Lines {
            x: Axis::new("time", "s", Scale::Linear),
            y: Axis::new(label, unit, Scale::Linear),
            series,
        },
    };
    [
        figure("cores", "processors", "processors", "", cores.into_iter().flatten().collect()),
        figure("bytes", "drives and network", "throughput", "MB/s", bytes.into_iter().flatten().collect()),
    ]
    .into_iter()
    .filter(|figure| matches!(&figure.plot, Plot::Lines { series, .. } if !series.is_empty()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_add_up_and_show_gaps() {
        let buckets = vec![(900_000, 30), (1_000_000, 20), (1_010_000, 30), (100_000_000, 20)];
        let data = HistogramData { sum_ns: "0".into(), min_ns: 900_000, max_ns: 100_000_000, clamped: 0, buckets };
        let bins = distribution(&data);
        assert!((bins.iter().map(|bin| bin.1).sum::<f64>() - 100.0).abs() < 1e-9);
        let at =
            |ms: f64| bins.iter().min_by(|a, b| (a.0 / ms).ln().abs().total_cmp(&(b.0 / ms).ln().abs())).unwrap().1;
        assert_eq!((at(0.95), at(1.06), at(106.0), at(10.0)), (30.0, 50.0, 20.0, 0.0));
        assert_eq!((bins[0].1, bins[bins.len() - 1].1), (0.0, 0.0), "the line comes down at both ends");
    }
}

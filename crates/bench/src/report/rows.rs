//! One table with a line per workload: two clusters side by side.

use ::report::number::significant as number;
use ::report::{Cell, Column, Table};

use super::table::verdict;
use super::{End, Figure, Row, RunResult};
use crate::interval::MedianInterval;
use std::fmt::Write;

/// Text in place of a value that was not measured.
const ABSENT: &str = "-";
/// Smallest size of operations whose throughput is given in bytes.
const LARGE_BYTES: u64 = 64 << 10;
const MIB: f64 = 1.0 / 1048576.0;

impl RunResult {
    /// The plan's first two clusters, a line for each group of each workload, including groups that failed and those
    /// that the first cluster loses. With one cluster, its figures alone.
    pub fn to_rows_markdown(&self) -> String {
        let clusters: Vec<&str> = self.plan.clusters.iter().take(2).map(|cluster| cluster.name.as_str()).collect();
        let mut out = String::new();
        let mut line = |text: &str| writeln!(out, "{text}\n").expect("writing to a string");
        for (name, what) in
            [("machine.processor", "processor"), ("machine.processors", "processors"), ("machine.kernel", "kernel")]
        {
            if let Some(value) = self.environment.get(name) {
                line(&format!("* {what}: {value}"));
            }
        }
        let iterations = self.plan.iterations;
        line(&format!(
            "* {iterations} iterations in turns; medians, and from where to where they lie with a confidence of \
             {:.0} % where so many iterations reach it",
            self.plan.confidence * 100.0
        ));
        match &self.end {
            End::Complete => {}
            End::Interrupted => line("**Interrupted**: what follows was measured before."),
            End::Failed(why) => line(&format!("**Failed**: {why}. The other rows were measured.")),
        }
        let both = clusters.join(", ");
        let heads = [
            "row".to_owned(),
            "unit".into(),
            both.clone(),
            clusters.join(" / "),
            "verdict".into(),
            format!("mean latency, ms: {both}"),
            format!("p99, ms: {both}"),
            format!("CPU of daemons, us/op: {both}"),
            format!("CPU of the machine, us/op: {both}"),
            format!("daemons' memory, MiB: {both}"),
            format!("cache hits, %: {both}"),
            format!("drive's ceiling, %: {both}"),
            format!("short: {both}"),
        ];
        let mut table = Table::new("rows", "", heads.map(Column::text).into());
        let compared = self.comparisons();
        for (workload, group) in self.groups() {
            let of_plan = self.plan.workloads.iter().find(|one| one.name == workload);
            let io_bytes =
                of_plan.and_then(|one| one.groups.iter().find(|one| one.name == group)).map(|one| one.io_bytes());
            let large = io_bytes.is_some_and(|bytes| bytes >= LARGE_BYTES);
            let (figure, unit, factor) = match large {
                true => (Figure::BytesPerS, "MB/s", 1e-6),
                false => (Figure::OperationsPerS, "IOPS", 1.0),
            };
            let name = if of_plan.is_some_and(|one| one.groups.len() > 1) {
                format!("{workload} {group}")
            } else {
                workload.to_owned()
            };
            let side = |value: &dyn Fn(&Side<'_>) -> String| {
                let sides = clusters.iter().map(|cluster| value(&Side::new(self, cluster, workload, group)));
                sides.collect::<Vec<_>>().join(", ")
            };
            let ratio = compared.iter().find(|one| {
                one.workload == workload
                    && one.group == group
                    && one.figure == figure
                    && clusters.get(1) == Some(&one.second.as_str())
            });
            let (ratio, said) = match ratio.map(|one| &one.comparison) {
                Some(Ok(comparison)) => {
                    let ratio = comparison.ratio;
                    (
                        format!("**{:.2}** ({:.2}-{:.2})", ratio.median, ratio.low, ratio.high),
                        verdict(comparison.verdict).to_owned(),
                    )
                }
                Some(Err(why)) => (ABSENT.into(), why.to_string()),
                None => (ABSENT.into(), ABSENT.into()),
            };
            table.push(
                [
                    name,
                    unit.into(),
                    side(&|one| one.range(&|row| figure.of(row), factor)),
                    ratio,
                    said,
                    side(&|one| one.median(&|row| Figure::MeanUs.of(row), 1e-3)),
                    side(&|one| one.median(&|row| Figure::P99Us.of(row), 1e-3)),
                    side(&|one| one.figure("server_cpu_us_per_operation", 1.0)),
                    side(&|one| one.figure("machine_cpu_us_per_operation", 1.0)),
                    side(&|one| one.figure("server_memory_peak_bytes", MIB)),
                    side(&|one| one.figure("cache_hit_percent", 1.0)),
                    side(&|one| one.drive_share()),
                    side(&|one| one.short()),
                ]
                .map(Cell::Text)
                .into(),
            );
        }
        out + &table.to_markdown()
    }

    /// Number of the machine's processors, and of the load generator's threads, for [`crate::ceiling`].
    pub(super) fn processors(&self, workload: &str) -> Option<(u32, u32)> {
        // With agents, the processors of all machines that carry load or watch count.
        let text = ["agents.processors", "machine.processors"].iter().find_map(|name| self.environment.get(*name));
        let processors = text.and_then(|text| text.parse::<u32>().ok())?;
        let of_plan = self.plan.workloads.iter().find(|one| one.name == workload);
        let instances: u32 = of_plan.map_or(1, |one| one.groups.iter().map(|group| group.instances).sum());
        Some((processors, instances.min(processors)))
    }
}

/// One group on one cluster.
struct Side<'a> {
    result: &'a RunResult,
    workload: &'a str,
    /// The group's rows, without those that were cut short if there are others.
    rows: Vec<&'a Row>,
}

impl<'a> Side<'a> {
    fn new(result: &'a RunResult, cluster: &'a str, workload: &'a str, group: &'a str) -> Side<'a> {
        let mut rows: Vec<&Row> = result.rows_of(cluster, workload, group).into_values().collect();
        if rows.iter().any(|row| !row.partial) {
            rows.retain(|row| !row.partial);
        }
        Side { result, workload, rows }
    }

    fn interval(&self, value: &dyn Fn(&Row) -> Option<f64>, factor: f64) -> Option<MedianInterval> {
        let values: Option<Vec<f64>> = self.rows.iter().map(|row| value(row).map(|value| value * factor)).collect();
        MedianInterval::of(&values?, self.result.plan.confidence)
    }

    fn median(&self, value: &dyn Fn(&Row) -> Option<f64>, factor: f64) -> String {
        self.interval(value, factor).map_or(ABSENT.into(), |interval| number(interval.median))
    }

    fn range(&self, value: &dyn Fn(&Row) -> Option<f64>, factor: f64) -> String {
        let wrong: u64 = self.rows.iter().map(|row| row.mismatches + row.errors).sum();
        let wrong = if wrong > 0 { format!(" **{wrong} failed or wrong**") } else { String::new() };
        match self.interval(value, factor) {
            None => format!("{ABSENT}{wrong}"),
            Some(i) => format!("{} ({}-{}){wrong}", number(i.median), number(i.low), number(i.high)),
        }
    }

    fn figure(&self, name: &str, factor: f64) -> String {
        self.median(&|row| row.figures.get(name).copied().flatten(), factor)
    }

    /// The bottleneck of the middle iteration: shares of medians would belong to no run.
    fn bottleneck(&self) -> Option<crate::ceiling::Bottleneck> {
        let row = self.rows.get(self.rows.len() / 2)?;
        let (processors, threads) = self.result.processors(self.workload)?;
        self.result.ceilings.unwrap_or_default().bottleneck(&row.figures, processors, threads)
    }

    fn drive_share(&self) -> String {
        let share = self.bottleneck().and_then(|found| {
            found.shares.into_iter().find(|(limit, _)| *limit == crate::ceiling::Limit::Drive).map(|(_, share)| share)
        });
        share.map_or(ABSENT.into(), |share| format!("{:.0}", share * 100.0))
    }

    fn short(&self) -> String {
        self.bottleneck().map_or(ABSENT.into(), |found| found.limit.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::result;
    use super::*;

    #[test]
    fn a_line_per_workload() {
        let mut result = result();
        result.environment.insert("machine.processors".into(), "2".into());
        for row in &mut result.rows {
            for (name, value) in [
                ("machine_user_cores", 1.9),
                ("machine_system_cores", 0.0),
                ("machine_softirq_cores", 0.0),
                ("machine_steal_cores", 0.0),
                ("drive_writes_per_s", 30.0),
            ] {
                row.figures.insert(name.into(), Some(value));
            }
        }
        result.ceilings = Some(crate::ceiling::Ceilings { drive_writes_per_s: Some(100.0), ..Default::default() });
        let text = result.to_rows_markdown();
        let line = text.lines().last().unwrap();
        assert!(
            line.starts_with("| w | IOPS | 2002 (2000-2004), 1000 (1000-1000) | **2.00** (2.00-2.00) | faster |"),
            "{line}"
        );
        assert!(line.ends_with("| -, - | 30, 30 | CPU, CPU |"), "{line}");
        assert_eq!(line.matches(" | ").count(), text.lines().rev().nth(2).unwrap().matches(" | ").count());
    }

    #[test]
    fn what_failed_has_its_line() {
        let mut result = result();
        result.rows.retain(|row| row.cluster == "n");
        result.rows[0].errors = 3;
        result.end = End::Failed("c: no".into());
        let text = result.to_rows_markdown();
        assert!(text.contains("**Failed**: c: no. The other rows were measured."), "{text}");
        let line = text.lines().last().unwrap();
        assert!(line.contains("2002 (2000-2004) **3 failed or wrong**, - |"), "{line}");
    }
}

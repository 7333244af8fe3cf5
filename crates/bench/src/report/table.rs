//! Tables of a result.

use std::collections::BTreeMap;
use std::fmt::Write;

use ::report::table::csv_field;
use ::report::{Block, Cell, Column, Page, Table, Tone};

use super::{End, Figure, RunResult, SEARCH};
use crate::compare::Verdict;
use crate::interval::MedianInterval;

const MIB: f64 = 1.0 / 1048576.0;

/// Cost of a workload for the machine: heading, unit, name of the figure, factor.
const COSTS: [(&str, &str, &str, f64); 16] = [
    ("server cores", "", "server_cores", 1.0),
    ("server memory", "MiB", "server_memory_peak_bytes", MIB),
    ("server switches/op", "", "server_context_switches_per_operation", 1.0),
    ("client CPU", "us/op", "client_cpu_us_per_operation", 1.0),
    ("client net in", "MB/s", "client_network_in_bytes_per_s", 1e-6),
    ("client net out", "MB/s", "client_network_out_bytes_per_s", 1e-6),
    ("storage net in", "MB/s", "storage_network_in_bytes_per_s", 1e-6),
    ("drive read", "MB/s", "drive_read_bytes_per_s", 1e-6),
    ("drive write", "MB/s", "drive_written_bytes_per_s", 1e-6),
    ("drive writes/s", "", "drive_writes_per_s", 1.0),
    ("flushes/s", "", "drive_flushes_per_s", 1.0),
    ("write amplification", "", "write_amplification", 1.0),
    ("cache hits", "%", "cache_hit_percent", 1.0),
    ("cache", "MiB", "cache_bytes", MIB),
    ("onode hits", "%", "onode_cache_hit_percent", 1.0),
    ("power", "W", "power_w", 1.0),
];

/// A median, with its interval if there were several values.
pub(super) fn median(interval: Option<MedianInterval>, factor: f64) -> Cell {
    match interval {
        None => Cell::Absent,
        Some(i) if i.count > 1 => {
            Cell::Spread { median: i.median * factor, low: i.low * factor, high: i.high * factor }
        }
        Some(i) => Cell::number(Some(i.median * factor)),
    }
}

pub(super) fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "no difference shown",
        Verdict::TooFewIterations => "too few iterations",
    }
}

/// The kind of news that a verdict is for the first of the two.
pub(super) fn tone(given: Verdict) -> Tone {
    match given {
        Verdict::Faster => Tone::Good,
        Verdict::Slower => Tone::Bad,
        Verdict::NoDifferenceShown | Verdict::TooFewIterations => Tone::Neutral,
    }
}

/// The verdict with its kind of news.
pub(super) fn verdict_cell(given: Verdict) -> Cell {
    Cell::Verdict { tone: tone(given), words: verdict(given).into() }
}

/// Columns that name a row.
pub(super) fn names() -> Vec<Column> {
    ["workload", "group", "cluster"].map(Column::text).into()
}

impl RunResult {
    /// Medians over the iterations, costs, bottlenecks and the first cluster against the others, losing rows included.
    pub fn to_markdown(&self) -> String {
        self.tables_page().to_markdown()
    }

    /// Findings of searches, a sentence for each cluster.
    pub(super) fn search_notes(&self) -> Vec<String> {
        let of_search = |(name, text): (&String, &String)| {
            let cluster = name.strip_prefix(SEARCH)?;
            Some(format!("{cluster}: {text}"))
        };
        self.environment.iter().filter_map(of_search).collect()
    }

    /// Loads that the plan's stop rule left out, a sentence for each sweep of a cluster.
    pub(super) fn left_out_notes(&self) -> Vec<String> {
        let Some(gain) = self.plan.stop_gain_percent else { return Vec::new() };
        let mut left_out: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
        for cluster in &self.plan.clusters {
            for workload in &self.plan.workloads {
                if let Some(mark) = self.past_high_water(&cluster.name, workload, gain) {
                    left_out.entry((&cluster.name, mark)).or_default().push(&workload.name);
                }
            }
        }
        let sentence = |((cluster, mark), names): (&(&str, &str), &Vec<&str>)| {
            let names = names.join(", ");
            format!(
                "{cluster}: left out as more load than that of {mark} adds less than {gain} % to throughput: {names}"
            )
        };
        left_out.iter().map(sentence).collect()
    }

    /// The tables without figures and configuration.
    pub fn tables_page(&self) -> Page {
        let mut page = Page::new(&self.plan.name);
        page.opening.extend(self.end_warning());
        page.opening
            .push(Block::Prose("Medians over the iterations; ± is half the confidence interval's width.".into()));
        let mut summary = self.summary_table();
        // The paragraph above says it.
        summary.caption.clear();
        page.opening.push(summary.into());
        page.opening.extend(self.tool_notes().into_iter().map(Block::Prose));
        page.opening.extend(self.search_notes().into_iter().map(Block::Prose));
        page.opening.extend(self.left_out_notes().into_iter().map(Block::Prose));
        page.opening.extend(self.rebuild_tables().into_iter().map(Block::Table));
        page.opening.extend([self.costs_table(), self.limits_table()].into_iter().flatten().map(Block::Table));
        page.opening.extend(self.hops_blocks());
        page.opening.extend(
            self.examples().into_iter().map(|(cluster, example)| Block::Prose(format!("{cluster}: {example}"))),
        );
        page.opening.extend(self.comparison_table().map(Block::Table));
        page
    }

    /// Warns of a run that is not complete.
    pub(super) fn end_warning(&self) -> Option<Block> {
        match &self.end {
            End::Complete => None,
            End::Interrupted => Some(Block::warning("Interrupted", "what follows was measured before.")),
            End::Failed(why) => Some(Block::warning("Failed", format!("{why}. What follows was measured before."))),
        }
    }

    /// Medians over the iterations.
    pub(super) fn summary_table(&self) -> Table {
        let mut columns = names();
        columns.push(Column::number("iterations", ""));
        columns.extend(
            [
                ("operations/s", ""),
                ("", "MB/s"),
                ("mean", "us"),
                ("p50", "us"),
                ("p99", "us"),
                ("p99.9", "us"),
                ("server CPU", "us/op"),
                ("machine CPU", "us/op"),
                ("errors", ""),
                ("wrong reads", ""),
            ]
            .map(|(heading, unit)| Column::number(heading, unit)),
        );
        let caption = "Medians over the iterations; ± is half the confidence interval's width.";
        let mut table = Table::new("results", caption, columns);
        for summary in self.summaries() {
            let mut cells: Vec<Cell> = [summary.workload, summary.group, summary.cluster].map(Cell::Text).into();
            cells.push(Cell::Count(u64::from(summary.iterations)));
            cells.extend(Figure::ALL.into_iter().zip(&summary.figures).map(|(figure, interval)| {
                let factor = if figure == Figure::BytesPerS { 1e-6 } else { 1.0 };
                median(*interval, factor)
            }));
            cells.extend([summary.errors, summary.mismatches].map(Cell::Count));
            table.push(cells);
        }
        table
    }

    /// A sentence for each workload whose load is not that of our client.
    pub(super) fn tool_notes(&self) -> Vec<String> {
        let others = self.plan.workloads.iter().filter(|workload| !workload.tool.is_own());
        let sentence = |name: &str, tool: &str| {
            format!("{name}: the load is that of {tool}; what it read was not compared with what was written.")
        };
        others.map(|workload| sentence(&workload.name, workload.tool.name())).collect()
    }

    /// Ratios of the first cluster and the others. `None` if there is no other.
    pub(super) fn comparison_table(&self) -> Option<Table> {
        let comparisons = self.comparisons();
        if comparisons.is_empty() {
            return None;
        }
        let columns = vec![
            Column::text("workload"),
            Column::text("group"),
            Column::text("figure"),
            Column::text("first"),
            Column::text("second"),
            Column::number("ratio", ""),
            Column::number("interval", ""),
            Column::number("confidence", ""),
            Column::text("first is"),
        ];
        let mut table = Table::new("comparison", "Ratios of paired iterations, first / second.", columns);
        for row in comparisons {
            let mut cells: Vec<Cell> =
                [row.workload, row.group, row.figure.name().into(), row.first, row.second].map(Cell::Text).into();
            match row.comparison {
                Ok(comparison) => {
                    let ratio = comparison.ratio;
                    cells.extend([
                        Cell::Number(ratio.median),
                        Cell::Range { low: ratio.low, high: ratio.high },
                        Cell::Percent(ratio.confidence * 100.0),
                        verdict_cell(comparison.verdict),
                    ]);
                }
                Err(why) => cells.extend([Cell::Absent, Cell::Absent, Cell::Absent, Cell::Text(why.to_string())]),
            }
            table.push(cells);
        }
        Some(table)
    }

    /// Bottlenecks of the rows, if the machine's processors are known.
    pub(super) fn limits_table(&self) -> Option<Table> {
        let columns = [names(), vec![Column::text("bottleneck")]].concat();
        let mut table = Table::new("bottlenecks", "What was short, with the share of each that was in use.", columns);
        for (workload, group) in self.groups() {
            let Some((processors, threads)) = self.processors(workload) else { continue };
            for cluster in &self.plan.clusters {
                // The middle iteration is taken: shares of medians would belong to no run.
                let rows: Vec<_> = self.rows_of(&cluster.name, workload, group).into_values().collect();
                let Some(row) = rows.get(rows.len() / 2) else { continue };
                let ceilings = self.ceilings.unwrap_or_default();
                let bottleneck = ceilings.bottleneck(&row.figures, processors, threads);
                let Some(bottleneck) = bottleneck else { continue };
                table.push([workload, group, &cluster.name, &bottleneck.to_string()].map(Cell::text).into());
            }
        }
        (!table.is_empty()).then_some(table)
    }

    /// Cost for the machine: medians of further figures. `None` if no row has any.
    pub(super) fn costs_table(&self) -> Option<Table> {
        let columns = [names(), COSTS.map(|(heading, unit, ..)| Column::number(heading, unit)).into()].concat();
        let caption = "What it cost, all groups of a workload together. Peaks of memory are summed over daemons.";
        let mut table = Table::new("costs", caption, columns);
        for summary in self.summaries() {
            let has_figures = self
                .rows_of(&summary.cluster, &summary.workload, &summary.group)
                .values()
                .any(|row| !row.figures.is_empty());
            if !has_figures {
                continue;
            }
            let (workload, group, cluster) = (&summary.workload, &summary.group, &summary.cluster);
            let mut cells: Vec<Cell> = [workload, group, cluster].map(Cell::text).into();
            cells.extend(COSTS.map(|(_, _, name, factor)| {
                Cell::number(self.median_figure(cluster, workload, group, name).map(|value| value * factor))
            }));
            table.push(cells);
        }
        (!table.is_empty()).then_some(table)
    }

    /// Median over the iterations of one of [`super::Row::figures`]. `None` if an iteration that has figures lacks it.
    pub(super) fn median_figure(&self, cluster: &str, workload: &str, group: &str, name: &str) -> Option<f64> {
        let rows = self.rows_of(cluster, workload, group);
        let known = rows.values().filter(|row| !row.figures.is_empty());
        let values: Option<Vec<f64>> = known.map(|row| row.figures.get(name).copied().flatten()).collect();
        MedianInterval::of(&values?, self.plan.confidence).map(|interval| interval.median)
    }

    /// One sentence per cluster on its first error and one on its first wrong read.
    pub(super) fn examples(&self) -> Vec<(&str, String)> {
        let mut found = Vec::new();
        for cluster in &self.plan.clusters {
            let rows = || self.rows.iter().filter(|row| row.cluster == cluster.name);
            let error = rows().find_map(|row| row.error_examples.first()).map(|text| format!("an error: {text}"));
            let wrong =
                rows().find_map(|row| row.mismatch_examples.first()).map(|text| format!("a wrong read: {text}"));
            let missing = rows().find(|row| !row.missing.is_empty()).map(|row| {
                let (times, names) = (row.iteration + 1, row.missing.join(", "));
                format!("in iteration {times} of {} the share of agent {names} is missing", row.workload)
            });
            found.extend([error, wrong, missing].into_iter().flatten().map(|text| (cluster.name.as_str(), text)));
        }
        found
    }

    /// A line per row, unrounded; fields that were not measured are empty.
    pub fn to_csv(&self) -> String {
        let mut out = String::from(
            "cluster,workload,group,iteration,measured_s,operations,bytes,errors,mismatches,operations_per_s,\
             bytes_per_s,mean_us,min_us,p50_us,p90_us,p95_us,p99_us,p99_9_us,p99_99_us,max_us,\
             server_cpu_us_per_operation,machine_cpu_us_per_operation,partial\n",
        );
        let value = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
        for row in &self.rows {
            let latency = &row.latency;
            let mut fields: Vec<String> = [&row.cluster, &row.workload, &row.group].map(|text| csv_field(text)).into();
            fields.push(row.iteration.to_string());
            fields.push(row.measured_s.to_string());
            fields.extend([row.operations, row.bytes, row.errors, row.mismatches].map(|count| count.to_string()));
            fields.extend([Figure::OperationsPerS, Figure::BytesPerS].map(|figure| value(figure.of(row))));
            let latencies = [
                latency.mean_us,
                latency.min_us,
                latency.p50_us,
                latency.p90_us,
                latency.p95_us,
                latency.p99_us,
                latency.p99_9_us,
                latency.p99_99_us,
                latency.max_us,
            ];
            fields.extend(latencies.map(value));
            fields.extend([Figure::ServerCpuUs, Figure::MachineCpuUs].map(|figure| value(figure.of(row))));
            fields.push(u8::from(row.partial).to_string());
            writeln!(out, "{}", fields.join(",")).expect("writing to a string");
        }
        out
    }
}

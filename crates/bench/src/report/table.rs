//! Tables of a result.

use std::fmt::Write;

use super::{End, Figure, RunResult};
use crate::compare::Verdict;
use crate::interval::MedianInterval;

/// Text in place of a value that was not measured.
const ABSENT: &str = "not available";

/// A number with four significant digits.
pub(super) fn number(value: f64) -> String {
    let digits = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    let decimals = usize::try_from(3 - digits).unwrap_or(0).min(6);
    format!("{value:.decimals$}")
}

fn median(interval: &Option<MedianInterval>) -> String {
    match interval {
        None => ABSENT.into(),
        Some(i) => match i.spread_percent() {
            Some(spread) if i.count > 1 => format!("{} ±{spread:.1} %", number(i.median)),
            _ => number(i.median),
        },
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

pub(super) fn markdown_row(out: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
    writeln!(out, "| {} |", cells.join(" | ")).expect("writing to a string");
}

pub(super) fn markdown_head(out: &mut String, cells: &[&str]) {
    markdown_row(out, &cells.iter().map(ToString::to_string).collect::<Vec<_>>());
    writeln!(out, "|{}", "---|".repeat(cells.len())).expect("writing to a string");
}

/// Quotes a field of CSV (RFC 4180). Only the names in a plan could look like a formula to a spreadsheet, and these
/// begin with no such character except a minus sign.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

impl RunResult {
    /// Two tables: medians over the iterations, and the first cluster against the others, losing rows included.
    pub fn to_markdown(&self) -> String {
        let mut out = format!("# {}\n\n", self.plan.name);
        match &self.end {
            End::Complete => {}
            End::Interrupted => out.push_str("**Interrupted**: what follows was measured before.\n\n"),
            End::Failed(why) => {
                writeln!(out, "**Failed**: {why}. What follows was measured before.\n").expect("writing to a string");
            }
        }
        out.push_str("Medians over the iterations; ± is half the confidence interval's width.\n\n");
        markdown_head(
            &mut out,
            &[
                "workload",
                "group",
                "cluster",
                "iterations",
                "operations/s",
                "MB/s",
                "mean us",
                "p50 us",
                "p99 us",
                "p99.9 us",
                "server CPU us/op",
                "machine CPU us/op",
                "errors",
                "wrong reads",
            ],
        );
        for summary in self.summaries() {
            let mut cells = vec![summary.workload, summary.group, summary.cluster, summary.iterations.to_string()];
            for (figure, interval) in Figure::ALL.into_iter().zip(&summary.figures) {
                let scale = if figure == Figure::BytesPerS { 1e-6 } else { 1.0 };
                let scaled = interval.map(|i| MedianInterval {
                    median: i.median * scale,
                    low: i.low * scale,
                    high: i.high * scale,
                    ..i
                });
                cells.push(median(&scaled));
            }
            cells.extend([summary.errors.to_string(), summary.mismatches.to_string()]);
            markdown_row(&mut out, &cells);
        }
        for workload in self.plan.workloads.iter().filter(|workload| !workload.tool.is_own()) {
            let (name, tool) = (&workload.name, workload.tool.name());
            writeln!(out, "\n{name}: the load is that of {tool}; what it read was not compared with what was written.")
                .expect("writing to a string");
        }
        out.push_str(&self.costs());
        out.push_str(&self.limits());
        out.push_str(&self.hops_section());
        for (cluster, example) in self.examples() {
            writeln!(out, "\n{cluster}: {example}").expect("writing to a string");
        }
        let comparisons = self.comparisons();
        if comparisons.is_empty() {
            return out;
        }
        out.push_str("\nRatios of paired iterations, first / second.\n\n");
        markdown_head(
            &mut out,
            &["workload", "group", "figure", "first", "second", "ratio", "interval", "confidence", "first is"],
        );
        for row in comparisons {
            let mut cells = vec![row.workload, row.group, row.figure.name().into(), row.first, row.second];
            match row.comparison {
                Ok(comparison) => {
                    let ratio = comparison.ratio;
                    cells.extend([
                        number(ratio.median),
                        format!("{} to {}", number(ratio.low), number(ratio.high)),
                        format!("{:.1} %", ratio.confidence * 100.0),
                        verdict(comparison.verdict).into(),
                    ]);
                }
                Err(why) => cells.extend([ABSENT.into(), ABSENT.into(), ABSENT.into(), why.to_string()]),
            }
            markdown_row(&mut out, &cells);
        }
        out
    }

    /// Bottlenecks of the rows, if the machine's processors are known.
    fn limits(&self) -> String {
        let mut out = String::new();
        for (workload, group) in self.groups() {
            let Some((processors, threads)) = self.processors(workload) else { continue };
            for cluster in &self.plan.clusters {
                // The middle iteration is taken: shares of medians would belong to no run.
                let rows: Vec<_> = self.rows_of(&cluster.name, workload, group).into_values().collect();
                let Some(row) = rows.get(rows.len() / 2) else { continue };
                let ceilings = self.ceilings.unwrap_or_default();
                let bottleneck = ceilings.bottleneck(&row.figures, processors, threads);
                let Some(bottleneck) = bottleneck else { continue };
                if out.is_empty() {
                    out.push_str("\nWhat was short, with the share of each that was in use.\n\n");
                    markdown_head(&mut out, &["workload", "group", "cluster", "bottleneck"]);
                }
                markdown_row(&mut out, &[workload, group, &cluster.name, &bottleneck.to_string()].map(str::to_owned));
            }
        }
        out
    }

    /// Cost for the machine: medians of further figures. Empty if no row has any.
    fn costs(&self) -> String {
        const MIB: f64 = 1.0 / 1048576.0;
        // Columns: heading, name of the figure, factor.
        let columns = [
            ("server cores", "server_cores", 1.0),
            ("server memory MiB", "server_memory_peak_bytes", MIB),
            ("server switches/op", "server_context_switches_per_operation", 1.0),
            ("client CPU us/op", "client_cpu_us_per_operation", 1.0),
            ("client net in MB/s", "client_network_in_bytes_per_s", 1e-6),
            ("client net out MB/s", "client_network_out_bytes_per_s", 1e-6),
            ("storage net in MB/s", "storage_network_in_bytes_per_s", 1e-6),
            ("drive read MB/s", "drive_read_bytes_per_s", 1e-6),
            ("drive write MB/s", "drive_written_bytes_per_s", 1e-6),
            ("drive writes/s", "drive_writes_per_s", 1.0),
            ("flushes/s", "drive_flushes_per_s", 1.0),
            ("write amplification", "write_amplification", 1.0),
            ("cache hits %", "cache_hit_percent", 1.0),
            ("cache MiB", "cache_bytes", MIB),
            ("onode hits %", "onode_cache_hit_percent", 1.0),
            ("power W", "power_w", 1.0),
        ];
        let mut out = String::new();
        for summary in self.summaries() {
            let rows = self.rows_of(&summary.cluster, &summary.workload, &summary.group);
            let known = || rows.values().filter(|row| !row.figures.is_empty());
            if known().next().is_none() {
                continue;
            }
            if out.is_empty() {
                out.push_str(
                    "\nWhat it cost, all groups of a workload together. Peaks of memory are summed over daemons.\n\n",
                );
                let heads: Vec<&str> =
                    ["workload", "group", "cluster"].into_iter().chain(columns.map(|c| c.0)).collect();
                markdown_head(&mut out, &heads);
            }
            let mut cells = vec![summary.workload.clone(), summary.group.clone(), summary.cluster.clone()];
            for (_, name, factor) in columns {
                let values: Option<Vec<f64>> =
                    known().map(|row| row.figures.get(name).copied().flatten().map(|value| value * factor)).collect();
                let interval = values.and_then(|values| MedianInterval::of(&values, self.plan.confidence));
                cells.push(interval.map_or(ABSENT.into(), |interval| number(interval.median)));
            }
            markdown_row(&mut out, &cells);
        }
        out
    }

    /// One sentence per cluster on its first error and one on its first wrong read.
    fn examples(&self) -> Vec<(&str, String)> {
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

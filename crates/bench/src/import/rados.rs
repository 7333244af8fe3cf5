//! Output of `rados bench`.

use super::{Imported, group};
use crate::plan::Operations;
use crate::series::SeriesPoint;
use crate::tool::{RadosBench, Tool, ToolError, ToolOutcome, json, rados_bench, rados_number};

/// A line of the table over time: second, operations in flight, finished since the begin, MiB/s in that second.
struct Second {
    at: f64,
    in_flight: f64,
    finished: f64,
    mib_per_s: f64,
}

/// Reads `--format json`.
pub(super) fn read_json(text: &str) -> Result<Imported, ToolError> {
    let text = without_cleanup(text);
    let value = json(&text)?;
    let outcome = rados_bench(&value)?;
    let seconds = value["datas"].as_array().into_iter().flatten().filter_map(|second| {
        Some(Second {
            at: rados_number(second, "sec")?,
            in_flight: rados_number(second, "cur_ops")?,
            finished: rados_number(second, "finished")?,
            mib_per_s: rados_number(second, "cur_bw")?,
        })
    });
    let seconds: Vec<Second> = seconds.collect();
    let writes = rados_number(&value, "total_writes_made").is_some();
    let depth = rados_number(&value, "concurrent_ios");
    let object_bytes = rados_number(&value, "object_size");
    Ok(imported(outcome, &seconds, writes, depth, object_bytes, None))
}

/// The document without what the tool says of its cleaning up, which it prints in the middle of it.
fn without_cleanup(text: &str) -> String {
    const WORDS: &str = "Cleaning up (deleting benchmark objects)";
    let own = |line: &&str| !line.starts_with("Removed ") && !line.starts_with("Clean up completed");
    text.replace(WORDS, "").lines().filter(own).collect::<Vec<_>>().join("\n")
}

/// Reads what it prints for people.
pub(super) fn read_text(text: &str) -> Result<Imported, ToolError> {
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
    let of = |name: &str| field(name).ok_or_else(|| ToolError::Missing(name.trim_end_matches(':').to_owned()));
    let writes = field("Total writes made:");
    let operations = writes.map_or_else(|| of("Total reads made:"), Ok)?;
    let io_bytes = field("Write size:").map_or_else(|| of("Read size:"), Ok)?;
    let (mean_s, min_s, max_s) = (of("Average Latency(s):"), field("Min latency(s):"), field("Max latency(s):"));
    let measured_s = of("Total time run:")?;
    let outcome = RadosBench { operations, io_bytes, measured_s, mean_s, min_s, max_s }.outcome()?;
    let seconds: Vec<Second> = text.lines().filter_map(second).collect();
    // "Maintaining 16 concurrent writes of 4096 bytes to objects of size 4096 for up to 5 seconds or 0 objects"
    let told = text.lines().find_map(|line| line.strip_prefix("Maintaining ")?.split(' ').next()?.parse().ok());
    let host = text.lines().find_map(|line| line.strip_prefix("Object prefix: ")).map(str::to_owned);
    Ok(imported(outcome, &seconds, writes.is_some(), told, field("Object size:"), host))
}

/// A line of the table: second, in flight, started, finished, mean MB/s, MB/s, last latency, mean latency.
fn second(line: &str) -> Option<Second> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<f64>().ok();
    if words.len() != 8 {
        return None;
    }
    Some(Second { at: number(0)?, in_flight: number(1)?, finished: number(3)?, mib_per_s: number(5)? })
}

fn imported(
    outcome: ToolOutcome,
    seconds: &[Second],
    writes: bool,
    depth: Option<f64>,
    object_bytes: Option<f64>,
    prefix: Option<String>,
) -> Imported {
    let io_bytes = outcome.bytes / outcome.operations.max(1);
    // Reads do not tell their depth; it is that which was in flight.
    let seen = seconds.iter().map(|second| second.in_flight).fold(1.0, f64::max);
    let depth = depth.filter(|depth| *depth >= 1.0).unwrap_or(seen) as u32;
    let operations = match writes {
        true => Operations { sequential_write: 100, ..Operations::default() },
        false => Operations { sequential_read: 100, ..Operations::default() },
    };
    let object_bytes = object_bytes.map_or(io_bytes, |bytes| bytes as u64);
    let series = seconds.windows(2).map(|pair| {
        let (before, second) = (&pair[0], &pair[1]);
        let length = (second.at - before.at).max(1.0);
        SeriesPoint {
            start_s: before.at,
            operations_per_s: (second.finished - before.finished).max(0.0) / length,
            bytes_per_s: second.mib_per_s * f64::from(1 << 20),
            errors: 0,
            p50_us: None,
            p99_us: None,
            max_us: None,
        }
    });
    let mut facts = vec![("imported_from".to_owned(), "rados bench".to_owned())];
    facts.extend(prefix.map(|prefix| ("object_prefix".to_owned(), prefix)));
    Imported {
        tool: Tool::RadosBench,
        group: group(if writes { "writes" } else { "reads" }, operations, io_bytes, object_bytes, (1, depth)),
        series: series.collect(),
        outcome,
        facts,
    }
}

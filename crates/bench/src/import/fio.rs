//! Output of fio in JSON.

use std::time::Duration;

use serde_json::Value;

use super::{ImportError, Imported, OBJECT_BYTES, group};
use crate::histogram::{Digits, Histogram, HistogramData, LatencySummary};
use crate::plan::{Operations, plain_name};
use crate::tool::{Tool, ToolError, ToolOutcome, json};

/// Reads all jobs: a group for the reads and one for the writes of each.
pub(super) fn read(text: &str) -> Result<Vec<Imported>, ImportError> {
    let value = json(text).map_err(ImportError::Fio)?;
    let jobs = value["jobs"].as_array().ok_or_else(|| ImportError::Fio(ToolError::Missing("jobs".into())))?;
    let mut all: Vec<Imported> = Vec::new();
    for job in jobs {
        let name = job["jobname"].as_str().unwrap_or("job");
        if job["trim"]["total_ios"].as_u64().unwrap_or(0) > 0 {
            return Err(ImportError::Trims { job: name.into() });
        }
        let mut errors = job["total_err"].as_u64().unwrap_or(0);
        for (side, is_read) in [("read", true), ("write", false)] {
            if job[side]["total_ios"].as_u64().unwrap_or(0) == 0 {
                continue;
            }
            let mut outcome = outcome(&job[side]).map_err(ImportError::Fio)?;
            // Errors are those of the job; its first side has them.
            outcome.errors = std::mem::take(&mut errors);
            // Groups need names of their own.
            let same = all.iter().filter(|one| one.group.name.starts_with(&plain(name, side))).count();
            let name = if same == 0 { plain(name, side) } else { format!("{}-{}", plain(name, side), same + 1) };
            all.push(imported(&value, job, &name, is_read, outcome));
        }
    }
    if all.is_empty() { Err(ImportError::Fio(ToolError::Nothing)) } else { Ok(all) }
}

fn plain(job: &str, side: &str) -> String {
    format!("{}-{side}s", plain_name(job))
}

/// An option of the job, or of all jobs.
fn option<'a>(all: &'a Value, job: &'a Value, name: &str) -> Option<&'a str> {
    job["job options"][name].as_str().or_else(|| all["global options"][name].as_str())
}

fn imported(all: &Value, job: &Value, name: &str, is_read: bool, outcome: ToolOutcome) -> Imported {
    let engine = option(all, job, "ioengine").unwrap_or("unknown");
    let mode = option(all, job, "rw").or_else(|| option(all, job, "readwrite")).unwrap_or_default();
    let operations = match (mode.contains("rand"), is_read) {
        (false, true) => Operations { sequential_read: 100, ..Operations::default() },
        (true, true) => Operations { random_read: 100, ..Operations::default() },
        (false, false) => Operations { sequential_write: 100, ..Operations::default() },
        (true, false) => Operations { random_write: 100, ..Operations::default() },
    };
    let number = |name: &str| option(all, job, name).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1).max(1);
    let io_bytes = outcome.bytes / outcome.operations.max(1);
    // Jobs that were reported as one are several clients.
    let alike = all["jobs"].as_array().into_iter().flatten().filter(|one| one["jobname"] == job["jobname"]).count();
    let instances = (number("numjobs") / u32::try_from(alike).unwrap_or(u32::MAX).max(1)).max(1);
    let version = all["fio version"].as_str().unwrap_or("fio");
    Imported {
        // Whatever is no object of RADOS is an image, or a drive that stands for one.
        tool: if engine == "rados" { Tool::FioRados } else { Tool::FioRbd },
        group: group(name, operations, io_bytes, OBJECT_BYTES.max(io_bytes), (instances, number("iodepth"))),
        outcome,
        series: Vec::new(),
        facts: vec![("imported_from".into(), format!("{version}, engine {engine}"))],
    }
}

fn outcome(side: &Value) -> Result<ToolOutcome, ToolError> {
    let missing = |name: &str| ToolError::Missing(name.to_owned());
    let count = |name: &str| side[name].as_u64().ok_or_else(|| missing(name));
    let measured_s = side["runtime"].as_f64().ok_or_else(|| missing("runtime"))? / 1000.0;
    let operations = count("total_ios")?;
    if measured_s <= 0.0 {
        return Err(ToolError::Nothing);
    }
    let mean = side["lat_ns"]["mean"].as_f64().ok_or_else(|| missing("lat_ns.mean"))?;
    let exact = |name: &str| side["lat_ns"][name].as_f64().map(|ns| ns / 1000.0);
    let (mut latency, histogram) = distribution(side)?;
    latency.count = operations;
    (latency.mean_us, latency.min_us, latency.max_us) = (Some(mean / 1000.0), exact("min"), exact("max"));
    Ok(ToolOutcome { measured_s, operations, bytes: count("io_bytes")?, errors: 0, latency, histogram })
}

/// The distribution: of bins if there are any, else the percentiles that were printed. The whole latency goes before
/// that of completion.
fn distribution(side: &Value) -> Result<(LatencySummary, Option<HistogramData>), ToolError> {
    let kinds = ["lat_ns", "clat_ns"].map(|kind| &side[kind]);
    if let Some(bins) = kinds.iter().find_map(|kind| kind["bins"].as_object()) {
        let mut histogram = Histogram::new(Digits::Three);
        for (ns, count) in bins {
            let wrong = || ToolError::Missing(format!("bins.{ns}"));
            let ns: u64 = ns.parse().map_err(|_| wrong())?;
            histogram.record_n(Duration::from_nanos(ns), count.as_u64().ok_or_else(wrong)?);
        }
        return Ok((histogram.summary(), Some(histogram.to_data())));
    }
    let percentiles = kinds.iter().find_map(|kind| kind["percentile"].as_object());
    let at = |wanted: f64| {
        let entries = percentiles.into_iter().flatten();
        let mut found = entries.filter(|(name, _)| name.parse::<f64>().is_ok_and(|one| (one - wanted).abs() < 1e-6));
        found.next().and_then(|(_, ns)| ns.as_f64()).map(|ns| ns / 1000.0)
    };
    let summary = LatencySummary {
        p50_us: at(50.0),
        p90_us: at(90.0),
        p95_us: at(95.0),
        p99_us: at(99.0),
        p99_9_us: at(99.9),
        p99_99_us: at(99.99),
        ..LatencySummary::default()
    };
    Ok((summary, None))
}

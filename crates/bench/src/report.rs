//! The result of a run: JSON for programs; tables and a page with figures for people.
//!
//! The JSON document is [`RunResult`]. The names of its fields carry their units; a value that was not measured is
//! `null` or absent, never zero. Its `format` and `version` come first; a reader refuses versions that it does not
//! know.

mod against;
mod beside;
mod curves;
mod documents;
mod hops;
mod page;
mod plots;
mod rebuilds;
mod rows;
mod table;
mod telemetry;
#[cfg(test)]
mod tests;

pub use hops::WorkloadHops;
pub use rebuilds::BEFORE;
pub use telemetry::{Telemetry, TelemetryError};

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ceiling::Ceilings;
use crate::compare::{Better, CompareError, Comparison, compare};
use crate::histogram::{HistogramData, LatencySummary};
use crate::interval::MedianInterval;
use crate::plan::Plan;
use crate::rebuild::Rebuild;
use crate::series::SeriesPoint;
use crate::steady::Window;
use crate::tool::ToolOutcome;

/// Value of the field `format`.
pub const RESULT_FORMAT: &str = "nacre-bench-result";
/// Version of results that this release writes and reads.
pub const RESULT_VERSION: u32 = 1;

/// The results of a run, and its plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// [`RESULT_FORMAT`].
    pub format: String,
    /// [`RESULT_VERSION`].
    pub version: u32,
    pub plan: Plan,
    /// Conditions that must be equal to repeat the run: machine, kernel, versions, configuration, durability; by name.
    pub environment: BTreeMap<String, String>,
    pub end: End,
    /// Capabilities of the machine without a cluster, if they were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ceilings: Option<Ceilings>,
    /// Rows in the order in which they were measured.
    pub rows: Vec<Row>,
    /// Breakdown of operations' time, as far as OSDs tell it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hops: Vec<WorkloadHops>,
    /// Rebuilds after losses of OSDs, in the order in which they were done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rebuilds: Vec<Rebuild>,
}

/// The way in which the run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum End {
    /// All planned measurements were done.
    Complete,
    /// The user ended it; the rows are those that were complete.
    Interrupted,
    /// A failure ended it, which the sentence describes.
    Failed(String),
}

/// One group of one workload on one cluster in one iteration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub cluster: String,
    pub workload: String,
    pub group: String,
    /// Number of the iteration, from 0.
    pub iteration: u32,
    /// The row was cut short by the user or a failure: it is shown but takes part in no comparison.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub partial: bool,
    /// Names of agents whose share of the load, or of the machines' figures, is missing.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Seconds that were measured, without warm-up.
    pub measured_s: f64,
    /// Successful operations, and their bytes.
    pub operations: u64,
    pub bytes: u64,
    pub errors: u64,
    /// The first errors, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub error_examples: Vec<String>,
    /// Reads whose bytes differ from the written ones. Any is a fault of the cluster, which makes the row no
    /// measurement.
    pub mismatches: u64,
    /// The first wrong reads, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mismatch_examples: Vec<String>,
    pub latency: LatencySummary,
    /// The whole distribution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<HistogramData>,
    /// Results over time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<SeriesPoint>,
    /// The steady window, if the plan waits for one and one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steady: Option<Window>,
    /// Further figures by name with unit (`server_cpu_us_per_operation`); `null` where the machine cannot tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Option<f64>>,
}

impl Row {
    /// The row of a whole iteration that a tool other than our client made, without series and figures.
    pub fn of_tool(cluster: &str, workload: &str, group: &str, iteration: u32, outcome: ToolOutcome) -> Row {
        let ToolOutcome { measured_s, operations, bytes, errors, latency, histogram } = outcome;
        Row {
            cluster: cluster.to_owned(),
            workload: workload.to_owned(),
            group: group.to_owned(),
            iteration,
            partial: false,
            missing: Vec::new(),
            measured_s,
            operations,
            bytes,
            errors,
            error_examples: Vec::new(),
            mismatches: 0,
            mismatch_examples: Vec::new(),
            latency,
            histogram,
            series: Vec::new(),
            steady: None,
            figures: BTreeMap::new(),
        }
    }
}

/// The reason why a result cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    #[error("{field}: {reason}")]
    Form { field: String, reason: String },
    #[error("format {format:?} version {version} is not {RESULT_FORMAT:?} version {RESULT_VERSION}")]
    Version { format: String, version: u64 },
}

/// A figure by which rows are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Figure {
    OperationsPerS,
    BytesPerS,
    MeanUs,
    P50Us,
    P99Us,
    P999Us,
    /// CPU time of the cluster's daemons per operation of the workload.
    ServerCpuUs,
    /// CPU time of the whole machine per operation, if clients and cluster share one.
    MachineCpuUs,
}

/// Names in [`Row::figures`] that comparisons use. They refer to the operations of all groups of the workload.
pub const SERVER_CPU: &str = "server_cpu_us_per_operation";
pub const MACHINE_CPU: &str = "machine_cpu_us_per_operation";

/// One workload's group on one cluster over all iterations.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    pub cluster: String,
    pub workload: String,
    pub group: String,
    pub iterations: u32,
    pub errors: u64,
    pub mismatches: u64,
    /// Figures in the order of [`Figure::ALL`]; `None` if an iteration lacks the figure.
    pub figures: Vec<Option<MedianInterval>>,
}

/// One figure of one group: the first cluster against another.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedFigure {
    pub workload: String,
    pub group: String,
    pub first: String,
    pub second: String,
    pub figure: Figure,
    /// The comparison, or the reason why there is none.
    pub comparison: Result<Comparison, CompareError>,
}

impl Figure {
    pub const ALL: [Figure; 8] = [
        Figure::OperationsPerS,
        Figure::BytesPerS,
        Figure::MeanUs,
        Figure::P50Us,
        Figure::P99Us,
        Figure::P999Us,
        Figure::ServerCpuUs,
        Figure::MachineCpuUs,
    ];

    /// The figure's name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Figure::OperationsPerS => "operations_per_s",
            Figure::BytesPerS => "bytes_per_s",
            Figure::MeanUs => "mean_us",
            Figure::P50Us => "p50_us",
            Figure::P99Us => "p99_us",
            Figure::P999Us => "p99_9_us",
            Figure::ServerCpuUs => SERVER_CPU,
            Figure::MachineCpuUs => MACHINE_CPU,
        }
    }

    fn better(self) -> Better {
        match self {
            Figure::OperationsPerS | Figure::BytesPerS => Better::Higher,
            Figure::MeanUs | Figure::P50Us | Figure::P99Us | Figure::P999Us => Better::Lower,
            Figure::ServerCpuUs | Figure::MachineCpuUs => Better::Lower,
        }
    }

    /// The figure's value in `row`.
    pub fn of(self, row: &Row) -> Option<f64> {
        let per_s = |count: u64| (row.measured_s > 0.0).then(|| count as f64 / row.measured_s);
        match self {
            Figure::OperationsPerS => per_s(row.operations),
            Figure::BytesPerS => per_s(row.bytes),
            Figure::MeanUs => row.latency.mean_us,
            Figure::P50Us => row.latency.p50_us,
            Figure::P99Us => row.latency.p99_us,
            Figure::P999Us => row.latency.p99_9_us,
            Figure::ServerCpuUs | Figure::MachineCpuUs => row.figures.get(self.name()).copied().flatten(),
        }
    }
}

/// Begin of names in [`RunResult::environment`], before a cluster's, of what a search has found.
pub const SEARCH: &str = "search.";

impl RunResult {
    /// A result without rows, to be filled.
    pub fn new(plan: Plan, environment: BTreeMap<String, String>) -> RunResult {
        let (format, version) = (RESULT_FORMAT.to_string(), RESULT_VERSION);
        let (rows, hops, rebuilds) = (Vec::new(), Vec::new(), Vec::new());
        RunResult { format, version, plan, environment, end: End::Complete, ceilings: None, rows, hops, rebuilds }
    }

    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a result has only strings as keys")
    }

    /// Reads a result.
    ///
    /// Errors: [`ResultError`], which names the field at fault or the version that this release does not read.
    pub fn from_json(text: &str) -> Result<RunResult, ResultError> {
        #[derive(Deserialize)]
        struct ResultHead {
            format: String,
            version: u64,
        }
        let form = |field: String, reason: String| ResultError::Form { field, reason };
        let ResultHead { format, version } =
            serde_json::from_str(text).map_err(|e| form("result".into(), e.to_string()))?;
        if format != RESULT_FORMAT || version != u64::from(RESULT_VERSION) {
            return Err(ResultError::Version { format, version });
        }
        let mut json = serde_json::Deserializer::from_str(text);
        serde_path_to_error::deserialize(&mut json).map_err(|e| form(e.path().to_string(), e.inner().to_string()))
    }

    /// The rows of one group on one cluster, by iteration.
    fn rows_of(&self, cluster: &str, workload: &str, group: &str) -> BTreeMap<u32, &Row> {
        let matching = |row: &&Row| row.cluster == cluster && row.workload == workload && row.group == group;
        self.rows.iter().filter(matching).map(|row| (row.iteration, row)).collect()
    }

    /// All groups of all workloads, as (workload, group), in the plan's order.
    fn groups(&self) -> impl Iterator<Item = (&str, &str)> {
        self.plan
            .workloads
            .iter()
            .flat_map(|workload| workload.groups.iter().map(|group| (workload.name.as_str(), group.name.as_str())))
    }

    /// Medians and intervals over iterations. Iterations that were cut short count only if there are no others. Groups
    /// without a row are left out.
    pub fn summaries(&self) -> Vec<Summary> {
        let mut summaries = Vec::new();
        for (workload, group) in self.groups() {
            for cluster in &self.plan.clusters {
                let mut rows = self.rows_of(&cluster.name, workload, group);
                if rows.values().any(|row| !row.partial) {
                    rows.retain(|_, row| !row.partial);
                }
                if rows.is_empty() {
                    continue;
                }
                let interval = |figure: Figure| {
                    let values: Option<Vec<f64>> = rows.values().map(|row| figure.of(row)).collect();
                    MedianInterval::of(&values?, self.plan.confidence)
                };
                summaries.push(Summary {
                    cluster: cluster.name.clone(),
                    workload: workload.into(),
                    group: group.into(),
                    iterations: u32::try_from(rows.len()).unwrap_or(u32::MAX),
                    errors: rows.values().map(|row| row.errors).sum(),
                    mismatches: rows.values().map(|row| row.mismatches).sum(),
                    figures: Figure::ALL.into_iter().map(interval).collect(),
                });
            }
        }
        summaries
    }

    /// Compares the first cluster with each other one. Only iterations that both have count; an iteration with wrong
    /// reads, or one that was cut short, on either side counts for neither. Figures that no iteration has are left out.
    pub fn comparisons(&self) -> Vec<ComparedFigure> {
        let mut compared = Vec::new();
        let Some((first, others)) = self.plan.clusters.split_first() else { return compared };
        for (workload, group) in self.groups() {
            let ours = self.rows_of(&first.name, workload, group);
            for second in others {
                let theirs = self.rows_of(&second.name, workload, group);
                let pairs: Vec<(&Row, &Row)> = ours
                    .iter()
                    .filter_map(|(iteration, row)| Some((*row, *theirs.get(iteration)?)))
                    .filter(|(a, b)| a.mismatches == 0 && b.mismatches == 0 && !a.partial && !b.partial)
                    .collect();
                for figure in Figure::ALL {
                    let further = matches!(figure, Figure::ServerCpuUs | Figure::MachineCpuUs);
                    if further && pairs.iter().all(|(a, b)| figure.of(a).is_none() && figure.of(b).is_none()) {
                        continue;
                    }
                    // A figure that a row lacks makes that pair incomparable; NaN tells that to `compare`.
                    let value = |row: &Row| figure.of(row).unwrap_or(f64::NAN);
                    let (a, b): (Vec<f64>, Vec<f64>) = pairs.iter().map(|(a, b)| (value(a), value(b))).unzip();
                    compared.push(ComparedFigure {
                        workload: workload.into(),
                        group: group.into(),
                        first: first.name.clone(),
                        second: second.name.clone(),
                        figure,
                        comparison: compare(&a, &b, figure.better(), self.plan.confidence),
                    });
                }
            }
        }
        compared
    }
}

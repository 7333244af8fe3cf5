//! Runs of `rados bench` and fio that somebody made by hand, read from their output as runs of our own.
//!
//! [`read`] reads one output, [`run`] makes a result of several. What an output does not tell stays unknown: the pool's
//! redundancy, CPU time, drives. fio gives whole distributions with `--output-format=json+` only; otherwise percentiles
//! are those that it printed, which are of completion (`clat`) unless it was told `--lat_percentiles=1`.

mod fio;
mod rados;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::plan::{Cluster, Engine, Group, Load, Operations, PLAN_VERSION, Plan, Pool, Stop, Workload};
use crate::report::{Row, RunResult};
use crate::series::SeriesPoint;
use crate::tool::{Tool, ToolError, ToolOutcome};

/// Name of the pool of imported runs, of which nothing is known.
pub const POOL: &str = "imported";
/// Objects of images where the output tells of none.
const OBJECT_BYTES: u64 = 4 << 20;

/// One kind of operations of an output.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    pub tool: Tool,
    pub group: Group,
    pub outcome: ToolOutcome,
    pub series: Vec<SeriesPoint>,
    /// Facts that results keep, by name.
    pub facts: Vec<(String, String)>,
}

/// An output, and the workload that it is a run of.
#[derive(Clone, Debug)]
pub struct Source {
    pub workload: String,
    pub text: String,
}

/// The reason why an output is no run.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    #[error("it is neither the output of rados bench (text or JSON) nor of fio in JSON")]
    Unknown,
    #[error("rados bench: {0}")]
    Rados(ToolError),
    #[error("fio: {0}")]
    Fio(ToolError),
    #[error("fio: job {job} trims, which no run of ours does")]
    Trims { job: String },
    #[error("workload {workload}: its outputs are not of the same load: {what} differ")]
    Differs { workload: String, what: &'static str },
}

/// Reads the output of one run.
pub fn read(text: &str) -> Result<Vec<Imported>, ImportError> {
    if text.contains("\"fio version\"") {
        return fio::read(text);
    }
    if text.contains("\"total_time_run\"") {
        return Ok(vec![rados::read_json(text).map_err(ImportError::Rados)?]);
    }
    if text.lines().any(|line| line.starts_with("Total time run:")) {
        return Ok(vec![rados::read_text(text).map_err(ImportError::Rados)?]);
    }
    Err(ImportError::Unknown)
}

/// Makes a result of outputs, all of one cluster. Outputs of the same workload are its iterations, in their order.
///
/// Errors: the index of the source at fault, with the reason.
pub fn run(name: &str, cluster: &str, engine: Engine, sources: &[Source]) -> Result<RunResult, (usize, ImportError)> {
    let mut workloads: Vec<Workload> = Vec::new();
    let mut iterations: BTreeMap<String, u32> = BTreeMap::new();
    let mut facts: BTreeMap<String, String> = BTreeMap::new();
    let mut rows: Vec<Row> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let runs = read(&source.text).map_err(|error| (index, error))?;
        let workload = workload(&source.workload, &runs);
        let iteration = iterations.entry(source.workload.clone()).or_default();
        match workloads.iter().find(|one| one.name == workload.name) {
            Some(first) => same_load(first, &workload).map_err(|error| (index, error))?,
            None => workloads.push(workload),
        }
        for one in runs {
            let row = Row::of_tool(cluster, &source.workload, &one.group.name, *iteration, one.outcome);
            rows.push(Row { series: one.series, ..row });
            facts.extend(one.facts.into_iter().map(|(name, value)| (format!("{}.{name}", source.workload), value)));
        }
        *iteration += 1;
    }
    let plan = Plan {
        version: PLAN_VERSION,
        name: name.into(),
        seed: 0,
        clusters: vec![Cluster::new(cluster, engine, "unknown")],
        pools: vec![Pool { name: POOL.into(), redundancy: None, pg_count: None }],
        workloads,
        iterations: iterations.values().copied().max().unwrap_or(1),
        confidence: 0.9,
        stop_gain_percent: None,
    };
    let mut result = RunResult::new(plan, facts);
    result.rows = rows;
    Ok(result)
}

fn workload(name: &str, runs: &[Imported]) -> Workload {
    let measured = runs.iter().map(|one| one.outcome.measured_s).fold(0.0, f64::max);
    Workload {
        name: name.into(),
        pool: POOL.into(),
        tool: runs.first().map_or(Tool::RadosBench, |one| one.tool),
        groups: runs.iter().map(|one| one.group.clone()).collect(),
        warm_up_s: 0.0,
        stop: Stop::DurationS(measured.round()),
    }
}

/// Iterations must be of one load. Times and numbers of objects differ a little by themselves.
fn same_load(first: &Workload, other: &Workload) -> Result<(), ImportError> {
    let kinds = |workload: &Workload| workload.groups.iter().map(|group| group.operations).collect::<Vec<_>>();
    let sizes = |workload: &Workload| {
        workload.groups.iter().map(|group| (group.io_bytes(), group.object_bytes)).collect::<Vec<_>>()
    };
    let loads =
        |workload: &Workload| workload.groups.iter().map(|group| (group.instances, group.load)).collect::<Vec<_>>();
    let what = if first.tool != other.tool {
        "tools"
    } else if kinds(first) != kinds(other) {
        "operations"
    } else if sizes(first) != sizes(other) {
        "sizes"
    } else if loads(first) != loads(other) {
        "queue depths or clients"
    } else {
        return Ok(());
    };
    Err(ImportError::Differs { workload: first.name.clone(), what })
}

/// A group of one kind of operations.
fn group(name: &str, operations: Operations, io_bytes: u64, object_bytes: u64, load: (u32, u32)) -> Group {
    let (instances, queue_depth) = load;
    // Outputs do not tell the number of objects: each operation in flight has a place of its own.
    let places = (object_bytes / io_bytes.max(1)).max(1);
    let objects = (u64::from(instances) * u64::from(queue_depth)).div_ceil(places).max(1);
    Group {
        name: name.into(),
        object_bytes,
        io_bytes: Some(io_bytes),
        objects,
        operations,
        instances,
        load: Load::Closed { queue_depth },
        prefill: None,
        list_keys: None,
    }
}

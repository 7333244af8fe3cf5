//! A short load in a pool of its own, for a report on a cluster that runs.

use std::path::Path;

use anyhow::{Context, Result, bail};
use bench::plan::{Group, Load, Operations, PLAN_VERSION, Plan, Pool, Redundancy, Stop, Workload};
use bench::report::{End, Figure, RunResult};
use load::Options;
use survey::Measured;
use tokio::sync::watch;

use super::watcher::Watcher;
use super::{PROGRAM, interrupts, plan_maker};

const POOL: &str = "nacre-report";
const PGS: u32 = 32;
const OBJECT_BYTES: u64 = 4 << 20;
const SMALL_BYTES: u64 = 4 << 10;
const OBJECTS: u64 = 32;
const WARM_UP_SECONDS: f64 = 1.0;

const NOTHING: Operations = Operations {
    sequential_write: 0,
    random_write: 0,
    sequential_read: 0,
    random_read: 0,
    head: 0,
    delete: 0,
    list: 0,
};

/// Loads of the report: name, operations, bytes of one, operations in flight.
const LOADS: [(&str, Operations, u64, u32); 3] = [
    ("write-4m", Operations { sequential_write: 100, ..NOTHING }, OBJECT_BYTES, 8),
    ("write-4k", Operations { random_write: 100, ..NOTHING }, SMALL_BYTES, 32),
    ("read-4k", Operations { random_read: 100, ..NOTHING }, SMALL_BYTES, 32),
];

/// Measures each load for `seconds` on the cluster of `configuration`, in a pool of `copies` that is made and removed.
///
/// Loads that failed are told on standard error and left out.
///
/// Errors: the pool is there already, the cluster cannot be reached, somebody interrupted, or a read was wrong.
pub async fn run(configuration: &Path, copies: u32, seconds: f64) -> Result<Vec<Measured>> {
    let cluster = plan_maker::cluster("cluster", configuration).await?;
    let plan = plan(cluster, copies, seconds);
    plan.check().context("this load cannot be run")?;
    let (asked, interrupt) = watch::channel(false);
    let interrupts = tokio::spawn(interrupts(asked)?);
    let folder = std::env::temp_dir().join(format!("nacre-report-{}", std::process::id()));
    let options = Options {
        folder: folder.clone(),
        keep: false,
        ceilings: false,
        search: None,
        agents: Vec::new(),
        agent_token: None,
        command: std::env::args().collect(),
        version: PROGRAM.to_owned(),
    };
    let mut watcher = Watcher::new();
    let result = load::run(plan, &options, &mut watcher, interrupt).await;
    watcher.end();
    interrupts.abort();
    // The folder has nothing that the report does not.
    let _ = std::fs::remove_dir_all(&folder);
    measured(&result?, f64::from(copies))
}

fn plan(cluster: bench::plan::Cluster, copies: u32, seconds: f64) -> Plan {
    let workload = |(name, operations, io_bytes, queue_depth): (&str, Operations, u64, u32)| Workload {
        name: name.into(),
        pool: POOL.into(),
        tool: Default::default(),
        groups: vec![Group {
            name: "clients".into(),
            object_bytes: OBJECT_BYTES,
            io_bytes: Some(io_bytes),
            objects: OBJECTS,
            operations,
            instances: 1,
            load: Load::Closed { queue_depth },
            prefill: Some(io_bytes < OBJECT_BYTES),
            list_keys: None,
        }],
        warm_up_s: WARM_UP_SECONDS,
        stop: Stop::DurationS(seconds),
    };
    Plan {
        version: PLAN_VERSION,
        name: POOL.into(),
        seed: 1,
        clusters: vec![cluster],
        pools: vec![Pool {
            name: POOL.into(),
            redundancy: Some(Redundancy::Replicated { size: copies }),
            pg_count: Some(PGS),
        }],
        workloads: LOADS.map(workload).into(),
        iterations: 1,
        confidence: 0.9,
        stop_gain_percent: None,
    }
}

fn measured(result: &RunResult, copies: f64) -> Result<Vec<Measured>> {
    match &result.end {
        End::Complete => {}
        End::Interrupted => bail!("the load was interrupted; its pool is gone"),
        // A cluster too slow for one load may do the others; the report says what is known.
        End::Failed(why) => eprintln!("not measured: {why}"),
    }
    let wrong: u64 = result.rows.iter().map(|row| row.mismatches).sum();
    if wrong > 0 {
        bail!("{wrong} reads of the load returned wrong bytes");
    }
    let one = |row: &bench::report::Row| {
        let is_write = LOADS.iter().any(|(name, operations, ..)| *name == row.workload && operations.reads() == 0);
        Measured {
            workload: row.workload.clone(),
            operations_per_s: Figure::OperationsPerS.of(row).unwrap_or(0.0),
            bytes_per_s: Figure::BytesPerS.of(row).unwrap_or(0.0),
            mean_us: Figure::MeanUs.of(row),
            p99_us: Figure::P99Us.of(row),
            writes: is_write,
            copies,
        }
    };
    Ok(result.rows.iter().filter(|row| !row.partial && row.operations > 0).map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench::plan::{Cluster, Engine};

    fn made() -> Plan {
        let cluster = Cluster::new("cluster", Engine::Ceph, "c");
        plan(cluster, 3, 4.0)
    }

    #[test]
    fn the_load_can_be_run() {
        let plan = made();
        plan.check().unwrap();
        assert_eq!(plan.workloads.len(), 3);
        assert!(plan.workloads.iter().all(|workload| workload.stop == Stop::DurationS(4.0)));
    }

    #[test]
    fn a_load_that_was_interrupted_or_read_wrong_bytes_is_no_measurement() {
        let mut result = RunResult::new(made(), Default::default());
        let row = r#"{"cluster": "cluster", "workload": "write-4m", "group": "clients", "iteration": 0,
            "measured_s": 2.0, "operations": 10, "bytes": 41943040, "errors": 0, "mismatches": 0,
            "latency": {"count": 0}}"#;
        result.rows.push(serde_json::from_str(row).unwrap());
        let good = measured(&result, 3.0).unwrap();
        assert_eq!((good[0].operations_per_s, good[0].writes, good[0].copies), (5.0, true, 3.0));
        result.rows[0].mismatches = 1;
        assert!(measured(&result, 3.0).unwrap_err().to_string().contains("wrong bytes"));
        result.rows[0].mismatches = 0;
        result.end = End::Failed("no".into());
        assert_eq!(measured(&result, 3.0).unwrap(), good, "others are known");
        result.rows[0].partial = true;
        assert_eq!(measured(&result, 3.0).unwrap(), []);
        result.end = End::Interrupted;
        assert!(measured(&result, 3.0).is_err());
    }
}

//! Plans of the Ceph Benchmarking Tool: files in YAML with the sections `cluster` and `benchmarks`.
//!
//! Its benchmarks `radosbench` and `librbdfio` become workloads, one for every combination of values that stand in
//! lists. Options that say how that tool installs clusters and calls programs have no effect here;
//! [`Translated::without_effect`] names them. Options that change the load in a way that we do not know are refused,
//! all in one message.

mod benchmarks;
#[cfg(test)]
mod tests;
mod yaml;

use serde_json::{Map, Value};

use crate::plan::{Cluster, Engine, PLAN_VERSION, Plan, PlanError, Pool, Redundancy};

pub use yaml::YamlError;

/// Copies of a pool whose profile does not say how many.
const COPIES: u32 = 3;
const PGS: u64 = 64;
/// Name of a pool where a benchmark names no profile.
const DEFAULT_PROFILE: &str = "default";

/// Options of the section `cluster` that say how the tool reaches and installs a cluster.
const INSTALLATION: [&str; 24] = [
    "archive_dir",
    "ceph.conf",
    "clusterid",
    "conf_file",
    "fs",
    "head",
    "is_teuthology",
    "mdss",
    "mgrs",
    "mkfs_opts",
    "mons",
    "mount_opts",
    "osds",
    "osds_per_node",
    "osd_ra",
    "pdsh_ssh_args",
    "pid_dir",
    "rebuild_every_test",
    "rgws",
    "tmp_dir",
    "use_existing",
    "user",
    "valgrind",
    "idle_duration",
];

/// Options that name the cluster's configuration; the first one goes before.
const CONFIGURATION: [&str; 2] = ["conf_file", "ceph.conf"];

/// A file that was understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Translated {
    pub plan: Plan,
    /// The file's own `ceph.conf`, if it names one.
    pub configuration: Option<String>,
    /// Options that have no effect here, as paths.
    pub without_effect: Vec<String>,
}

/// The reason why a file cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum CbtError {
    #[error(transparent)]
    Yaml(#[from] YamlError),
    #[error("{0} is missing")]
    Missing(&'static str),
    #[error("{path}: {value} is not {wanted}")]
    Value { path: String, value: String, wanted: &'static str },
    #[error("not supported here: {}", .0.join(", "))]
    Unsupported(Vec<String>),
    #[error(transparent)]
    Plan(#[from] PlanError),
}

/// An option's name as a path, and its value.
#[derive(Clone, Copy)]
struct At<'a> {
    path: &'a str,
    value: &'a Value,
}

/// Options that were noticed on the way.
#[derive(Default)]
struct Notes {
    without_effect: Vec<String>,
    unsupported: Vec<String>,
}

/// Reads a file. `clusters` are those to measure; if there are none, the file's own configuration is that of the one
/// cluster, a Ceph.
pub fn translate(name: &str, text: &str, clusters: Vec<Cluster>) -> Result<Translated, CbtError> {
    let file = yaml::parse(text)?;
    let cluster = &file["cluster"];
    let cluster_map = cluster.as_object().ok_or(CbtError::Missing("cluster"))?;
    let listed = file["benchmarks"].as_object().filter(|all| !all.is_empty()).ok_or(CbtError::Missing("benchmarks"))?;
    let mut notes = Notes::default();
    let top = file.as_object().into_iter().flatten().map(|(key, _)| key);
    for key in top.filter(|key| !["cluster", "benchmarks"].contains(&key.as_str())) {
        match key.as_str() {
            "monitoring_profiles" => notes.without_effect.push(key.clone()),
            _ => notes.unsupported.push(key.clone()),
        }
    }
    cluster_options(cluster_map, &mut notes);
    if clusters.is_empty() {
        // The file's own cluster is measured.
        notes
            .without_effect
            .retain(|path| path.strip_prefix("cluster.").is_none_or(|key| !CONFIGURATION.contains(&key)));
    }
    let clients = match &cluster["clients"] {
        Value::Array(clients) if !clients.is_empty() => clients.len() as u32,
        _ => 1,
    };
    let mut plan = Plan {
        version: PLAN_VERSION,
        name: name.into(),
        seed: 1,
        clusters,
        pools: Vec::new(),
        workloads: Vec::new(),
        iterations: whole(At { path: "cluster.iterations", value: &cluster["iterations"] }, 1)? as u32,
        confidence: 0.9,
        stop_gain_percent: None,
    };
    for (kind, options) in listed {
        let path = format!("benchmarks.{kind}");
        let Some(options) = options.as_object() else {
            return Err(CbtError::Value { path, value: options.to_string(), wanted: "a list of options" });
        };
        match kind.as_str() {
            "radosbench" => benchmarks::radosbench(&path, options, clients, &mut plan, &mut notes)?,
            "librbdfio" => benchmarks::librbdfio(&path, options, clients, &mut plan, &mut notes)?,
            _ => notes.unsupported.push(path),
        }
    }
    if !notes.unsupported.is_empty() {
        return Err(CbtError::Unsupported(notes.unsupported));
    }
    plan.pools = pools(cluster, &plan)?;
    let configuration = CONFIGURATION.into_iter().find_map(|key| cluster[key].as_str().map(str::to_owned));
    if let (true, Some(path)) = (plan.clusters.is_empty(), &configuration) {
        let cluster = Cluster::new("ceph", Engine::Ceph, path.clone());
        plan.clusters.push(cluster);
    }
    plan.check()?;
    Ok(Translated { plan, configuration, without_effect: notes.without_effect })
}

fn cluster_options(cluster: &Map<String, Value>, notes: &mut Notes) {
    for (key, value) in cluster {
        let path = format!("cluster.{key}");
        match key.as_str() {
            "iterations" | "clients" | "pool_profiles" | "erasure_profiles" => {}
            // A list would multiply runs.
            "osd_ra" if value.as_array().is_some_and(|list| list.len() > 1) => notes.unsupported.push(path),
            key if INSTALLATION.contains(&key) || key.ends_with("_cmd") => notes.without_effect.push(path),
            _ => notes.unsupported.push(path),
        }
    }
}

/// Pools of the profiles that workloads name.
fn pools(cluster: &Value, plan: &Plan) -> Result<Vec<Pool>, CbtError> {
    let mut pools: Vec<Pool> = Vec::new();
    for workload in &plan.workloads {
        if pools.iter().any(|pool| pool.name == workload.pool) {
            continue;
        }
        let name = &workload.pool;
        let path = format!("cluster.pool_profiles.{name}");
        let profile = &cluster["pool_profiles"][name];
        if profile.is_null() && name != DEFAULT_PROFILE {
            return Err(CbtError::Value {
                path,
                value: "null".into(),
                wanted: "a profile, though a benchmark names it",
            });
        }
        let at = |key: &str| format!("{path}.{key}");
        let pg_count = whole(At { path: &at("pg_size"), value: &profile["pg_size"] }, PGS)?;
        let redundancy = match &profile["replication"] {
            Value::Null => Redundancy::Replicated { size: COPIES },
            Value::String(word) if word == "erasure" => {
                let named = profile["erasure_profile"].as_str().unwrap_or_default();
                let code = &cluster["erasure_profiles"][named];
                let part = |key: &str, usual: u64| {
                    let path = format!("cluster.erasure_profiles.{named}.{key}");
                    whole(At { path: &path, value: &code[key] }, usual)
                };
                if code.is_null() {
                    let path = format!("cluster.erasure_profiles.{named}");
                    return Err(CbtError::Value {
                        path,
                        value: "null".into(),
                        wanted: "a profile with erasure_k and erasure_m",
                    });
                }
                Redundancy::Erasure { k: part("erasure_k", 6)? as u32, m: part("erasure_m", 2)? as u32 }
            }
            value => {
                Redundancy::Replicated { size: whole(At { path: &at("replication"), value }, COPIES.into())? as u32 }
            }
        };
        let pg_count = u32::try_from(pg_count).unwrap_or(u32::MAX);
        pools.push(Pool { name: name.clone(), redundancy: Some(redundancy), pg_count: Some(pg_count) });
    }
    Ok(pools)
}

/// A whole number, `usual` where there is none; numbers may be written as text.
fn whole(at: At<'_>, usual: u64) -> Result<u64, CbtError> {
    let number = match at.value {
        Value::Null => Some(usual),
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    };
    let small = number.filter(|number| *number <= u64::from(u32::MAX));
    small.ok_or_else(|| CbtError::Value { path: at.path.into(), value: at.value.to_string(), wanted: "a whole number" })
}

fn truth(at: At<'_>, usual: bool) -> Result<bool, CbtError> {
    match at.value {
        Value::Null => Ok(usual),
        Value::Bool(value) => Ok(*value),
        value => Err(CbtError::Value { path: at.path.into(), value: value.to_string(), wanted: "True or False" }),
    }
}

/// The values of an option that may be a list.
fn each(at: At<'_>, usual: Value) -> Vec<Value> {
    match at.value {
        Value::Null => vec![usual],
        Value::Array(values) => values.clone(),
        value => vec![value.clone()],
    }
}

//! The description of a run.
//!
//! A plan is JSON: one document is kept in the run's folder, sent to agents and included in the result, which is JSON
//! too. The requested and the executed plan can thus be compared byte by byte. People may write TOML instead, of the
//! same fields, or as a [`Template`] of sweeps; it becomes JSON before anything runs.
//!
//! Unknown fields are refused, because a misspelt limit would otherwise silently be the default. Sizes are bytes and
//! times seconds, as the fields' names say.
//!
//! ```
//! let plan = bench::plan::Plan::from_json(r#"{
//!   "version": 1,
//!   "name": "small writes",
//!   "seed": 1,
//!   "clusters": [{"name": "nacre", "engine": "nacre", "configuration": "nacre/ceph.conf"},
//!                {"name": "ceph", "engine": "ceph", "configuration": "ceph/ceph.conf"}],
//!   "pools": [{"name": "r3", "redundancy": {"replicated": {"size": 3}}, "pg_count": 64}],
//!   "workloads": [{
//!     "name": "4k-write", "pool": "r3", "warm_up_s": 5, "stop": {"duration_s": 30},
//!     "groups": [{"name": "writers", "object_bytes": 4194304, "io_bytes": 4096, "objects": 256,
//!                 "operations": {"random_write": 100}, "instances": 1, "load": {"closed": {"queue_depth": 32}}}]
//!   }]
//! }"#)?;
//! assert_eq!(plan.iterations, 5);
//! # Ok::<(), bench::plan::PlanError>(())
//! ```

mod check;
mod template;
#[cfg(test)]
mod tests;

pub use check::{is_plain, plain_name};
pub use template::{Scale, Template};

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::steady::SteadyRules;
use crate::tool::Tool;

/// Version of plans that this release writes and reads.
pub const PLAN_VERSION: u32 = 1;

/// A run: every workload on every cluster, `iterations` times, clusters in turns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// [`PLAN_VERSION`].
    pub version: u32,
    pub name: String,
    /// Seed of every byte written, every object chosen and every arrival.
    pub seed: u64,
    /// Clusters to measure; with two or more, each other one is compared with the first.
    pub clusters: Vec<Cluster>,
    /// Pools that are made on every cluster for each iteration and removed afterwards, or that exist already.
    pub pools: Vec<Pool>,
    pub workloads: Vec<Workload>,
    /// Iterations of every workload on every cluster.
    #[serde(default = "default_iterations")]
    pub iterations: u32,
    /// Confidence of intervals and verdicts, 0.5 to 0.999. Five iterations reach 0.9375, six 0.968, eight 0.992.
    #[serde(default = "default_confidence")]
    pub confidence: f64,
    /// Growth of throughput in percent, above 0 and at most 1000: once a step of a sweep adds less, heavier loads are
    /// left out (the high-water mark). If absent, every load is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_gain_percent: Option<f64>,
}

/// A cluster and its configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// Name of the cluster in results.
    pub name: String,
    pub engine: Engine,
    /// Path of the cluster's `ceph.conf`.
    pub configuration: String,
    /// The gateway that workloads of S3 use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Gateway>,
}

impl Cluster {
    /// A cluster without a gateway.
    pub fn new(name: impl Into<String>, engine: Engine, configuration: impl Into<String>) -> Cluster {
        Cluster { name: name.into(), engine, configuration: configuration.into(), s3: None }
    }
}

/// An S3 gateway in front of a cluster: Nacre's, `radosgw`, or any other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Gateway {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: String,
    /// Path of a file in PEM with the authorities whose certificates count for `https`. If absent, the system's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// Path of a file with the keys, in the form of AWS's `credentials`. If absent, the environment has them. A plan
    /// never has the keys themselves, because results have the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<String>,
    #[serde(default = "default_region")]
    pub region: String,
    /// Requests sign the bytes of their bodies, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed_payload: bool,
}

impl S3Gateway {
    const SECURE: &str = "https://";

    /// `HOST:PORT`; `None` for an endpoint that is no address.
    pub fn authority(&self) -> Option<&str> {
        self.endpoint.strip_prefix("http://").or_else(|| self.endpoint.strip_prefix(Self::SECURE))
    }

    /// True if clients are to speak TLS.
    pub fn is_secure(&self) -> bool {
        self.endpoint.starts_with(Self::SECURE)
    }
}

/// The region that requests name where a plan names none.
pub fn default_region() -> String {
    "us-east-1".into()
}

/// The software of a cluster's daemons.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Engine {
    Nacre,
    Ceph,
}

/// A pool to make; or, without redundancy and number of placement groups, one that every cluster has already. To
/// workloads of S3 it is a bucket, which is made where it is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redundancy: Option<Redundancy>,
    /// Number of placement groups, a power of two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pg_count: Option<u32>,
}

/// Redundancy of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Redundancy {
    /// `size` copies.
    Replicated { size: u32 },
    /// `k` data and `m` parity shards.
    Erasure { k: u32, m: u32 },
}

/// Groups of workers that run at the same time on one pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    pub name: String,
    /// Name of one of the plan's pools.
    pub pool: String,
    /// The load generator.
    #[serde(default, skip_serializing_if = "Tool::is_nacre")]
    pub tool: Tool,
    /// Groups, each with its own objects. Separate readers and writers are two groups.
    pub groups: Vec<Group>,
    /// Seconds of load before measuring begins.
    #[serde(default)]
    pub warm_up_s: f64,
    pub stop: Stop,
}

/// Workers with one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    pub name: String,
    /// Size of an object, 4 KiB to 64 MiB.
    pub object_bytes: u64,
    /// Size of one operation; divides `object_bytes`. If absent, the size of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_bytes: Option<u64>,
    /// Number of objects of the group.
    pub objects: u64,
    /// Kinds of operations of the workers.
    pub operations: Operations,
    /// Number of clients, each with its own connections.
    pub instances: u32,
    pub load: Load,
    /// True if all objects are written before the load begins. If absent, they are unless the group only writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefill: Option<bool>,
    /// Keys of a page of a list, 1 to 1000. If absent, [`LIST_KEYS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub list_keys: Option<u32>,
}

/// Keys of a page of a list where a plan tells none, which is the most that S3 gives.
pub const LIST_KEYS: u32 = 1000;

/// Percentages that add up to 100.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Operations {
    pub sequential_write: u32,
    pub random_write: u32,
    pub sequential_read: u32,
    pub random_read: u32,
    /// Questions for the length of an object at random; of S3 alone, as the next two.
    #[serde(skip_serializing_if = "is_none_of_them")]
    pub head: u32,
    /// Removals of objects one after the other.
    #[serde(skip_serializing_if = "is_none_of_them")]
    pub delete: u32,
    /// Pages of the list of the group's objects, behind one at random.
    #[serde(skip_serializing_if = "is_none_of_them")]
    pub list: u32,
}

fn is_none_of_them(percent: &u32) -> bool {
    *percent == 0
}

/// The rule by which operations start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Load {
    /// Each instance has `queue_depth` operations in flight: the next one starts when one ends.
    Closed { queue_depth: u32 },
    /// Operations start at given times, even if earlier ones have not ended.
    Open {
        /// Arrivals of the whole group.
        arrivals_per_s: f64,
        spacing: Spacing,
        /// Operations in flight per instance beyond which arrivals wait. Latency counts from the arrival.
        in_flight_max: u32,
    },
}

/// Distances between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    Constant,
    Poisson,
}

/// The end of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Stop {
    /// Ends after so many seconds of measuring.
    DurationS(f64),
    /// Ends once rounds of `round_s` seconds no longer drift; only the steady window counts.
    Steady {
        round_s: f64,
        #[serde(default)]
        rules: SteadyRules,
    },
}

fn default_iterations() -> u32 {
    5
}

fn default_confidence() -> f64 {
    0.9
}

/// The reason why a plan cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The text is not JSON, or lacks a plan's fields.
    #[error("{field}: {reason}")]
    Form { field: String, reason: String },
    /// The plan was written for another release.
    #[error("version: this plan has version {0}, this release reads version {PLAN_VERSION}")]
    Version(u64),
    /// A value cannot be run.
    #[error("{field}: {reason}")]
    Value { field: String, reason: String },
}

impl PlanError {
    /// The field at fault, as a path: `workloads[0].groups[1].io_bytes`.
    pub fn field(&self) -> &str {
        match self {
            PlanError::Form { field, .. } | PlanError::Value { field, .. } => field,
            PlanError::Version(_) => "version",
        }
    }
}

impl Plan {
    /// Reads and checks a plan.
    ///
    /// Errors: [`PlanError`], which names the first field at fault.
    pub fn from_json(text: &str) -> Result<Plan, PlanError> {
        // The version is checked first: unknown fields of a later version are not mistakes of the plan's author.
        #[derive(Deserialize)]
        struct PlanHead {
            version: u64,
        }
        if let Ok(PlanHead { version }) = serde_json::from_str(text)
            && version != u64::from(PLAN_VERSION)
        {
            return Err(PlanError::Version(version));
        }
        let mut json = serde_json::Deserializer::from_str(text);
        let form = |field: String, reason: serde_json::Error| {
            let field = if field == "." { "plan".to_string() } else { field };
            PlanError::Form { field, reason: reason.to_string() }
        };
        let plan: Plan =
            serde_path_to_error::deserialize(&mut json).map_err(|e| form(e.path().to_string(), e.into_inner()))?;
        json.end().map_err(|e| form(".".into(), e))?;
        plan.check()?;
        Ok(plan)
    }

    /// The plan as JSON, for people to read.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan has only strings as keys")
    }
}

impl Group {
    /// Bytes of one operation.
    pub fn io_bytes(&self) -> u64 {
        self.io_bytes.unwrap_or(self.object_bytes)
    }

    /// Number of operations that cover all objects once.
    pub fn blocks(&self) -> u64 {
        self.objects * (self.object_bytes / self.io_bytes())
    }

    /// Workers per instance: its largest number of operations in flight.
    pub fn workers_per_instance(&self) -> u32 {
        match self.load {
            Load::Closed { queue_depth } => queue_depth,
            Load::Open { in_flight_max, .. } => in_flight_max,
        }
    }

    /// Workers of the whole group.
    pub fn workers(&self) -> u64 {
        u64::from(self.instances) * u64::from(self.workers_per_instance())
    }

    /// True if the objects are written before the load.
    pub fn prefill(&self) -> bool {
        self.prefill.unwrap_or(self.operations.needs_objects())
    }

    /// Most keys of a page of a list.
    pub fn list_keys(&self) -> u32 {
        self.list_keys.unwrap_or(LIST_KEYS)
    }
}

impl Operations {
    /// Percentages by the names of the kinds, for people.
    pub fn by_name(&self) -> [(&'static str, u32); 7] {
        [
            ("sequential write", self.sequential_write),
            ("random write", self.random_write),
            ("sequential read", self.sequential_read),
            ("random read", self.random_read),
            ("head", self.head),
            ("delete", self.delete),
            ("list", self.list),
        ]
    }

    /// Percentage of reads.
    pub fn reads(&self) -> u32 {
        self.sequential_read + self.random_read
    }

    /// Percentage of operations that change objects.
    pub fn changes(&self) -> u32 {
        self.sequential_write + self.random_write + self.delete
    }

    /// Percentage of operations that only S3 has.
    pub fn of_s3(&self) -> u32 {
        self.head + self.delete + self.list
    }

    /// True if the operations want objects that are there.
    pub fn needs_objects(&self) -> bool {
        self.reads() + self.of_s3() > 0
    }
}

impl Pool {
    /// Redundancy and number of placement groups of a pool to make; `None` for one that exists already.
    pub fn to_make(&self) -> Option<(Redundancy, u32)> {
        self.redundancy.zip(self.pg_count)
    }
}

impl Plan {
    /// The pool called `name`, which a checked plan has for each of its workloads.
    pub fn pool(&self, name: &str) -> Option<&Pool> {
        self.pools.iter().find(|pool| pool.name == name)
    }

    /// True if the pool called `name` is a bucket.
    pub fn is_bucket(&self, name: &str) -> bool {
        self.workloads.iter().any(|workload| workload.pool == name && workload.tool == Tool::NacreS3)
    }
}

impl Workload {
    /// Duration of the load before measuring.
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs_f64(self.warm_up_s)
    }
}

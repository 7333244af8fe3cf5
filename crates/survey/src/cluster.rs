//! OSDs, hosts and pools.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::answers::{Answers, list, number, text};

/// A cluster by its monitors.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Cluster {
    pub fsid: String,
    /// `HEALTH_OK`, `HEALTH_WARN`, `HEALTH_ERR`; empty if unknown.
    pub health: String,
    /// Code and sentence of each problem.
    pub problems: Vec<(String, String)>,
    pub monitors: usize,
    pub monitors_in_quorum: usize,
    /// Versions of daemons, each with the number of daemons.
    pub versions: BTreeMap<String, u64>,
    pub osds: Vec<Osd>,
    pub pools: Vec<Pool>,
    pub total_bytes: f64,
    pub used_bytes: f64,
    /// Fill at which monitors warn, and at which writes end, 0 to 1.
    pub near_full: f64,
    pub full: f64,
    /// Flags of the OSD map that people set (`noout`, `noscrub` ...).
    pub flags: BTreeSet<String>,
    /// Present load: bytes and operations per second of clients.
    pub read_bytes_per_s: f64,
    pub written_bytes_per_s: f64,
    pub operations_per_s: f64,
    pub recovered_bytes_per_s: f64,
    /// Copies that are missing, of all there should be.
    pub degraded_copies: f64,
    pub copies: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Osd {
    pub id: i64,
    pub host: String,
    pub up: bool,
    pub is_in: bool,
    pub bytes: f64,
    pub used_bytes: f64,
    pub pgs: u64,
    /// Time until a write is durable there, by its own account; absent if it told none.
    pub commit_ms: Option<f64>,
    pub rotates: Option<bool>,
    pub devices: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Pool {
    pub name: String,
    /// Copies, or data and parity shards.
    pub protection: Protection,
    pub min_size: u64,
    pub pg_num: u64,
    /// Kind of bucket that each copy has of its own: `osd`, `host`, `rack`; empty if unknown.
    pub failure_domain: String,
    pub objects: f64,
    pub stored_bytes: f64,
    /// Bytes that users can still write.
    pub available_bytes: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Protection {
    Copies(u64),
    Erasure { k: u64, m: u64 },
}

impl Default for Protection {
    fn default() -> Protection {
        Protection::Copies(0)
    }
}

impl Protection {
    /// Failure domains that may be lost with no byte lost.
    pub fn failures(self) -> u64 {
        match self {
            Protection::Copies(size) => size.saturating_sub(1),
            Protection::Erasure { m, .. } => m,
        }
    }

    /// Copies or shards.
    pub fn size(self) -> u64 {
        match self {
            Protection::Copies(size) => size,
            Protection::Erasure { k, m } => k + m,
        }
    }

    /// Fewest copies or shards that have all bytes.
    pub fn needed(self) -> u64 {
        match self {
            Protection::Copies(_) => 1,
            Protection::Erasure { k, .. } => k,
        }
    }

    pub fn words(self) -> String {
        match self {
            Protection::Copies(size) => format!("{size}x"),
            Protection::Erasure { k, m } => format!("{k}+{m}"),
        }
    }
}

impl Osd {
    /// Share of its bytes that are used, 0 to 1; absent if it told no size.
    pub fn fill(&self) -> Option<f64> {
        (self.bytes > 0.0).then(|| self.used_bytes / self.bytes)
    }
}

impl Cluster {
    pub fn of(answers: &Answers) -> Cluster {
        let status = &answers.status;
        let pgmap = |name: &str| number(&status["pgmap"][name]).unwrap_or(0.0);
        let checks = status["health"]["checks"].as_object();
        let problem = |(code, check): (&String, &Value)| (code.clone(), text(&check["summary"]["message"]));
        let dump = &answers.osd_dump;
        let flags = text(&dump["flags"]);
        // Flags that say how the map is written and what daemons know are of no interest here.
        let usual = ["sortbitwise", "recovery_deletes", "purged_snapdirs", "pglog_hardlimit"];
        let flags = flags.split(',').filter(|flag| !flag.is_empty() && !usual.contains(flag)).map(str::to_owned);
        let total = number(&answers.df["stats"]["total_bytes"]).unwrap_or_else(|| pgmap("bytes_total"));
        let used = number(&answers.df["stats"]["total_used_raw_bytes"]).unwrap_or_else(|| pgmap("bytes_used"));
        let overall = answers.versions["overall"].as_object().into_iter().flatten();
        Cluster {
            fsid: text(&status["fsid"]),
            health: text(&status["health"]["status"]),
            problems: checks.into_iter().flatten().map(problem).collect(),
            monitors: number(&status["monmap"]["num_mons"]).map_or(0, |count| count as usize),
            monitors_in_quorum: list(&status["quorum"]).count(),
            versions: overall.map(|(version, count)| (version.clone(), count.as_u64().unwrap_or(0))).collect(),
            osds: osds(answers),
            pools: pools(answers),
            total_bytes: total,
            used_bytes: used,
            near_full: number(&dump["nearfull_ratio"]).unwrap_or(0.85),
            full: number(&dump["full_ratio"]).unwrap_or(0.95),
            flags: flags.collect(),
            read_bytes_per_s: pgmap("read_bytes_sec"),
            written_bytes_per_s: pgmap("write_bytes_sec"),
            operations_per_s: pgmap("read_op_per_sec") + pgmap("write_op_per_sec"),
            recovered_bytes_per_s: pgmap("recovering_bytes_per_sec"),
            degraded_copies: pgmap("degraded_objects"),
            copies: pgmap("degraded_total"),
        }
    }

    /// Names of hosts, each with the bytes and the used bytes of its OSDs that are in.
    pub fn hosts(&self) -> BTreeMap<&str, (f64, f64)> {
        let mut hosts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for osd in self.osds.iter().filter(|osd| osd.is_in) {
            let host = hosts.entry(osd.host.as_str()).or_default();
            host.0 += osd.bytes;
            host.1 += osd.used_bytes;
        }
        hosts
    }

    pub fn fill(&self) -> Option<f64> {
        (self.total_bytes > 0.0).then(|| self.used_bytes / self.total_bytes)
    }
}

fn by_id(table: &Value) -> BTreeMap<i64, &Value> {
    list(table).filter_map(|one| Some((one["id"].as_i64()?, one))).collect()
}

fn osds(answers: &Answers) -> Vec<Osd> {
    let usage = by_id(&answers.osd_df["nodes"]);
    let metadata = by_id(&answers.osd_metadata);
    // Monitors of some versions put the table into one more object.
    let perf = [&answers.osd_perf["osdstats"]["osd_perf_infos"], &answers.osd_perf["osd_perf_infos"]];
    let perf: BTreeMap<i64, &Value> = perf.into_iter().flat_map(by_id).collect();
    let hosts = hosts_of(&answers.osd_tree);
    list(&answers.osd_dump["osds"])
        .filter_map(|osd| {
            let id = osd["osd"].as_i64()?;
            let kib = |name: &str| usage.get(&id).and_then(|row| number(&row[name])).unwrap_or(0.0) * 1024.0;
            let told = metadata.get(&id);
            let commit = perf.get(&id).and_then(|row| {
                let stats = &row["perf_stats"];
                number(&stats["commit_latency_ns"]).map(|ns| ns / 1e6).or_else(|| number(&stats["commit_latency_ms"]))
            });
            Some(Osd {
                id,
                host: hosts.get(&id).cloned().unwrap_or_default(),
                up: osd["up"].as_i64() == Some(1),
                is_in: osd["in"].as_i64() == Some(1),
                bytes: kib("kb"),
                used_bytes: kib("kb_used"),
                pgs: usage.get(&id).and_then(|row| row["pgs"].as_u64()).unwrap_or(0),
                commit_ms: commit.filter(|ms| *ms > 0.0),
                rotates: told.and_then(|told| match told["rotational"].as_str()? {
                    "1" => Some(true),
                    "0" => Some(false),
                    _ => None,
                }),
                devices: told.map(|told| text(&told["devices"])).unwrap_or_default(),
            })
        })
        .collect()
}

/// The name of each OSD's host in the CRUSH tree.
fn hosts_of(tree: &Value) -> BTreeMap<i64, String> {
    let hosts = list(&tree["nodes"]).filter(|node| node["type"].as_str() == Some("host"));
    hosts
        .flat_map(|host| list(&host["children"]).filter_map(Value::as_i64).map(|child| (child, text(&host["name"]))))
        .collect()
}

/// The kind of place that a CRUSH rule spreads copies over; `None` if it chooses none.
pub fn failure_domain(rule: &Value) -> Option<String> {
    let choose = list(&rule["steps"]).filter(|step| text(&step["op"]).starts_with("choose"));
    Some(text(&choose.last()?["type"]))
}

fn pools(answers: &Answers) -> Vec<Pool> {
    let usage: BTreeMap<String, &Value> =
        list(&answers.df["pools"]).map(|pool| (text(&pool["name"]), &pool["stats"])).collect();
    let domains: BTreeMap<i64, String> = list(&answers.crush_rules)
        .filter_map(|rule| Some((rule["rule_id"].as_i64()?, failure_domain(rule)?)))
        .collect();
    let profiles = &answers.osd_dump["erasure_code_profiles"];
    list(&answers.osd_dump["pools"])
        .map(|pool| {
            let name = text(&pool["pool_name"]);
            let figure = |name: &str, of: &str| usage.get(name).and_then(|stats| number(&stats[of])).unwrap_or(0.0);
            let size = pool["size"].as_u64().unwrap_or(0);
            let profile = &profiles[text(&pool["erasure_code_profile"])];
            let shards = number(&profile["k"]).zip(number(&profile["m"]));
            // Type 3 is an erasure-coded pool.
            let protection = match (pool["type"].as_u64(), shards) {
                (Some(3), Some((k, m))) => Protection::Erasure { k: k as u64, m: m as u64 },
                _ => Protection::Copies(size),
            };
            Pool {
                protection,
                min_size: pool["min_size"].as_u64().unwrap_or(0),
                pg_num: pool["pg_num"].as_u64().unwrap_or(0),
                failure_domain: pool["crush_rule"]
                    .as_i64()
                    .and_then(|id| domains.get(&id))
                    .cloned()
                    .unwrap_or_default(),
                objects: figure(&name, "objects"),
                stored_bytes: figure(&name, "stored"),
                available_bytes: figure(&name, "max_avail"),
                name,
            }
        })
        .collect()
}

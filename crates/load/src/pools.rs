//! Pools: making them, waiting until they serve, removing them and waiting until their space is free again.

use std::time::Duration;

use bench::plan::{Engine, Redundancy};
use client::Cluster;
use serde_json::{Value, json};
use tokio::time::Instant;

/// Time limit for new placement groups to become active and clean.
const CLEAN_WITHIN: Duration = Duration::from_secs(90);
/// Time limit for a deleted pool's space to become free.
const FREED_WITHIN: Duration = Duration::from_secs(120);
/// Space that has not shrunk for so long will not: the rest is not the pool's.
const SETTLED_AFTER: Duration = Duration::from_secs(12);
const POLL: Duration = Duration::from_millis(250);
/// Time after a start in which OSDs must tell their space, and time without a further one after which all have.
const TOLD_WITHIN: Duration = Duration::from_secs(60);
const TOLD_BY_ALL: Duration = Duration::from_millis(1500);

/// The reason why a pool cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    #[error(
        "pool '{name}' is there already; a run makes its own pools and removes them: \
         rename it in the plan, or remove it"
    )]
    Exists { name: String },
    #[error("there is no pool '{name}' ({there})")]
    Missing { name: String, there: String },
    #[error("'{command}' was refused: {reason}")]
    Refused { command: String, reason: String },
    #[error("'{command}' got no answer: {source}")]
    NoAnswer { command: String, source: client::Error },
    #[error("no OSD has said within {seconds} s what space it has")]
    NoSpaceKnown { seconds: u64 },
    #[error("placement groups were not all active+clean within {seconds} s: {states}")]
    NotClean { seconds: u64, states: String },
}

/// Runs a monitor command. Returns its output.
pub async fn command(cluster: &Cluster, command: Value) -> Result<bytes::Bytes, PoolError> {
    let prefix = command["prefix"].as_str().unwrap_or_default().to_owned();
    let reply = cluster.mon_command(&command.to_string(), bytes::Bytes::new()).await;
    let reply = reply.map_err(|source| PoolError::NoAnswer { command: prefix.clone(), source })?;
    match types::Errno::from_result(reply.result) {
        Some(errno) => {
            let said = reply.status.trim();
            let reason = if said.is_empty() { errno.to_string() } else { format!("{said} ({errno})") };
            Err(PoolError::Refused { command: prefix, reason })
        }
        None => Ok(reply.output),
    }
}

/// Runs a monitor command that answers in JSON.
pub async fn json_command(cluster: &Cluster, mut wanted: Value) -> Result<Value, PoolError> {
    wanted["format"] = json!("json");
    let prefix = wanted["prefix"].as_str().unwrap_or_default().to_owned();
    let output = command(cluster, wanted).await?;
    serde_json::from_slice(&output)
        .map_err(|e| PoolError::Refused { command: prefix, reason: format!("its answer is not JSON: {e}") })
}

/// Makes a pool and waits until it serves.
pub async fn create(
    cluster: &Cluster,
    engine: Engine,
    name: &str,
    redundancy: Redundancy,
    pg_count: u32,
) -> Result<(), PoolError> {
    let mut create = json!({"prefix": "osd pool create", "pool": name, "pg_num": pg_count, "pgp_num": pg_count});
    match redundancy {
        Redundancy::Replicated { size } => {
            create["pool_type"] = json!("replicated");
            create["size"] = json!(size);
        }
        Redundancy::Erasure { k, m } => {
            let profile = format!("nacre-bench-{k}-{m}");
            let values = [format!("k={k}"), format!("m={m}"), "crush-failure-domain=host".into()];
            let set = json!({"prefix": "osd erasure-code-profile set", "name": profile, "profile": values});
            command(cluster, set).await?;
            create["pool_type"] = json!("erasure");
            create["erasure_code_profile"] = json!(profile);
        }
    }
    command(cluster, create).await?;
    let set = |var: &str, value: &str| json!({"prefix": "osd pool set", "pool": name, "var": var, "val": value});
    if matches!(redundancy, Redundancy::Erasure { .. }) {
        // A cluster that refuses can still take whole-object writes; other operations fail as unsupported.
        let _ = command(cluster, set("allow_ec_overwrites", "true")).await;
    }
    if engine == Engine::Ceph {
        // With the autoscaler on, groups might be split while they are measured.
        command(cluster, set("pg_autoscale_mode", "off")).await?;
    }
    let app = json!({"prefix": "osd pool application enable", "pool": name, "app": "nacre-bench"});
    command(cluster, app).await?;
    wait_until_clean(cluster).await
}

/// Waits until every placement group of the cluster is active and clean.
async fn wait_until_clean(cluster: &Cluster) -> Result<(), PoolError> {
    let end = Instant::now() + CLEAN_WITHIN;
    // Once the newest map has come, the groups' statistics include the new pool.
    cluster
        .wait_for_latest_map()
        .await
        .map_err(|source| PoolError::NoAnswer { command: "the newest map".into(), source })?;
    let mut clean_before = false;
    loop {
        let status = json_command(cluster, json!({"prefix": "status"})).await?;
        let (clean, states) = groups(&status);
        // Two clean readings in a row are needed: the first may be older than the pool.
        if clean && clean_before {
            return Ok(());
        }
        clean_before = clean;
        if Instant::now() >= end {
            return Err(PoolError::NotClean { seconds: CLEAN_WITHIN.as_secs(), states });
        }
        tokio::time::sleep(POLL).await;
    }
}

/// True if all groups are active and clean, with the list of states, from the output of `status`.
pub(crate) fn groups(status: &Value) -> (bool, String) {
    let total = status.pointer("/pgmap/num_pgs").and_then(Value::as_u64).unwrap_or(0);
    let states = status.pointer("/pgmap/pgs_by_state").and_then(Value::as_array);
    let mut clean = 0;
    let mut words = Vec::new();
    for entry in states.into_iter().flatten() {
        let (state, count) = (entry["state_name"].as_str().unwrap_or("?"), entry["count"].as_u64().unwrap_or(0));
        // A group that is scrubbing counts as clean.
        if state.starts_with("active+clean") {
            clean += count;
        }
        words.push(format!("{count} {state}"));
    }
    (total > 0 && clean == total, if words.is_empty() { "no groups".into() } else { words.join(", ") })
}

/// Deletes a pool, and a profile that was made for it.
pub async fn delete(cluster: &Cluster, name: &str, redundancy: Redundancy) -> Result<(), PoolError> {
    let delete = json!({"prefix": "osd pool delete", "pool": name, "pool2": name, "yes_i_really_really_mean_it": true});
    command(cluster, delete).await?;
    if let Redundancy::Erasure { k, m } = redundancy {
        // A profile that another pool of this run still uses is removed with that pool.
        let rm = json!({"prefix": "osd erasure-code-profile rm", "name": format!("nacre-bench-{k}-{m}")});
        let _ = command(cluster, rm).await;
    }
    Ok(())
}

/// Space in use on the whole cluster, in bytes.
pub async fn used_bytes(cluster: &Cluster) -> Result<u64, PoolError> {
    Ok(space(cluster).await?.used)
}

/// Free space of the whole cluster, in bytes. Waits for OSDs that have not told their space yet, shortly after a start.
pub async fn free_bytes(cluster: &Cluster) -> Result<u64, PoolError> {
    let end = Instant::now() + TOLD_WITHIN;
    let mut known = space(cluster).await?;
    if known.total > 0 {
        return Ok(known.free);
    }
    // Some space is known; the loop waits until no OSD has joined for a while.
    let mut since = Instant::now();
    while Instant::now() < end && (known.total == 0 || since.elapsed() < TOLD_BY_ALL) {
        tokio::time::sleep(POLL).await;
        let now = space(cluster).await?;
        if now.total != known.total {
            since = Instant::now();
        }
        known = now;
    }
    if known.total == 0 { Err(PoolError::NoSpaceKnown { seconds: TOLD_WITHIN.as_secs() }) } else { Ok(known.free) }
}

/// Space of the cluster, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Space {
    pub total: u64,
    pub used: u64,
    pub free: u64,
}

pub(crate) async fn space(cluster: &Cluster) -> Result<Space, PoolError> {
    let stat = cluster.statfs(None).await;
    let stat = stat.map_err(|source| PoolError::NoAnswer { command: "statfs".into(), source })?;
    let bytes = |kib: u64| kib.saturating_mul(1024);
    Ok(Space { total: bytes(stat.kib), used: bytes(stat.kib_used), free: bytes(stat.kib_avail) })
}

/// Result of waiting for free space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    pub took: Duration,
    /// Space still in use beyond the space used before, in bytes.
    pub left_bytes: u64,
    /// True if the space is free, within the tolerance; false if that took too long.
    pub done: bool,
}

impl Freed {
    /// A sentence on the space that a removed pool left in use. `None` if all of it is free.
    pub(crate) fn left_in_words(&self, pool: &str) -> Option<String> {
        let (left, took) = (self.left_bytes >> 20, self.took.as_secs());
        (!self.done)
            .then(|| format!("{left} MiB more than before are still in use {took} s after pool {pool} was removed"))
    }
}

/// Waits until a cluster that used `before` bytes does so again, within `tolerance` and the growth of its own metadata.
pub async fn wait_until_freed(cluster: &Cluster, before: u64, tolerance: u64) -> Result<Freed, PoolError> {
    let start = Instant::now();
    let mut lowest = (u64::MAX, start);
    loop {
        let used = used_bytes(cluster).await?;
        let now = Instant::now();
        let (took, left_bytes) = (now - start, used.saturating_sub(before));
        if left_bytes <= tolerance {
            return Ok(Freed { took, left_bytes, done: true });
        }
        // Small movements are noise of the statistics.
        if used < lowest.0.saturating_sub(tolerance / 16) {
            lowest = (used, now);
        }
        if now - lowest.1 >= SETTLED_AFTER || took >= FREED_WITHIN {
            return Ok(Freed { took, left_bytes, done: false });
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_clean_or_not() {
        let status = |total: u64, states: &[(&str, u64)]| {
            let states: Vec<Value> =
                states.iter().map(|(state, count)| json!({"state_name": state, "count": count})).collect();
            json!({"pgmap": {"num_pgs": total, "pgs_by_state": states}})
        };
        let check = |status: Value, clean: bool, words: &str| assert_eq!(groups(&status), (clean, words.to_owned()));
        check(
            status(3, &[("active+clean", 2), ("active+clean+scrubbing", 1)]),
            true,
            "2 active+clean, 1 active+clean+scrubbing",
        );
        check(status(3, &[("active+clean", 2), ("peering", 1)]), false, "2 active+clean, 1 peering");
        check(status(3, &[("active+clean", 2)]), false, "2 active+clean");
        check(status(0, &[]), false, "no groups");
        check(json!({}), false, "no groups");
    }
}

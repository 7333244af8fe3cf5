//! A pool gets more placement groups, or fewer, while other things happen.

use crate::client_process::POOL;
use crate::cluster::Cluster;
use crate::faults::{Away, Fault};
use crate::setup::Setup;
use reactor::sim::Rng;
use std::time::Duration;

/// The most groups that a pool gets.
pub const GROUPS_MAX: u32 = 48;

/// Number of groups with which erasure-coded pools begin that get fewer: one or two could rarely become fewer.
pub const CODED_GROUPS_MIN: u32 = 8;

/// Name in reports of merged groups.
pub const MERGED: &str = "groups merged";
/// Name in reports of shards that were put in order before a merge.
pub const ORDERED: &str = "shards put in order";

/// A command. `on`: numbers of groups change only while everything is clean, and placement changes in small steps.
pub fn careful(on: bool) -> String {
    format!(r#"{{"prefix": "config set", "who": "mgr", "name": "mgr/pg_numbers/careful", "value": "{on}"}}"#)
}

/// Adds changes of the number of groups to a plan for a pool of `groups` groups. If `setup` says so, the groups become
/// fewer, too, but not fewer than the shards of an OSD, which would be refused.
pub fn add(plan: &mut Vec<(Duration, Fault)>, rng: &mut Rng, groups: u32, setup: &Setup) {
    let (merges, shards) = (setup.merges, setup.shards);
    let command = |command: String| Fault::Change { command, undo: None, lasts: Away(Duration::ZERO) };
    let set =
        |groups: u64| format!(r#"{{"prefix": "osd pool set", "pool": "{POOL}", "var": "pg_num", "val": "{groups}"}}"#);
    if !rng.one_in(4) {
        plan.push((Duration::ZERO, command(careful(false))));
    }
    let lasts_ms = plan.iter().map(|(at, _)| at.as_millis() as u64).max().unwrap_or(0).max(5_000);
    // Half of the changes come soon after another event of the plan; the rest come at any time.
    let changes = if merges { 2 + rng.below(6) } else { 1 + rng.below(4) };
    let mut times: Vec<Duration> = (0..changes)
        .map(|_| match !plan.is_empty() && rng.one_in(2) {
            true => plan[rng.below(plan.len() as u64) as usize].0 + Duration::from_micros(rng.below(400_000)),
            false => Duration::from_millis(100 + rng.below(lasts_ms)),
        })
        .collect();
    times.sort();
    let mut groups = u64::from(groups);
    // Erasure-coded groups take longer to merge, so most runs want no further change for some time.
    if merges && setup.coding.is_some() && !rng.one_in(3) {
        let last = Duration::from_millis(lasts_ms / 2 + rng.below(lasts_ms / 2));
        times.retain(|at| *at < last);
        let fewest = (1 + rng.below(2)).max(shards as u64);
        plan.push((last, command(set(fewest))));
    }
    for at in times {
        if merges && rng.one_in(2) {
            let least = groups.min(shards as u64);
            let fewer = if rng.one_in(3) { 1 + rng.below(groups) } else { groups.div_ceil(2 + rng.below(3)) };
            groups = fewer.max(least);
            plan.push((at, command(set(groups))));
            continue;
        }
        let factor = 2 + rng.below(3);
        groups =
            if rng.one_in(3) { groups + 1 + rng.below(groups) } else { groups * factor }.min(u64::from(GROUPS_MAX));
        plan.push((at, command(set(groups))));
    }
    plan.sort_by_key(|(at, _)| *at);
}

/// `Ok` if every pool has the number of groups that it should have, and all are placed as such. The error names the
/// numbers.
pub fn are_done(cluster: &Cluster) -> Result<(), String> {
    let Some(monitor) = cluster.monitor() else { return Err("the monitor does not run".to_owned()) };
    for pool in monitor.state().osdmap().pools.values() {
        let (now, wanted) = ((pool.pg_num, pool.pgp_num), (pool.pg_num_target, pool.pgp_num_target));
        if now != wanted {
            return Err(format!("pg_num and pgp_num are {now:?} and should be {wanted:?}"));
        }
    }
    Ok(())
}

//! Alarms about pools.

use super::{HealthReport, Severity, warns};
use crate::shard_orders::without_room;
use crate::{MonState, Volatile};
use osdmap::PoolFlags;

pub(super) fn check(state: &MonState, volatile: &Volatile, report: &mut HealthReport) {
    let map = state.osdmap();
    let name = |id| map.pool_name(id).unwrap_or_default();
    let mut no_app = Vec::new();
    let mut no_redundancy = Vec::new();
    let mut smaller_pgp_num = Vec::new();
    let mut uneven = Vec::new();
    let mut no_room = Vec::new();
    let (mut full, mut backfillfull, mut nearfull) = (Vec::new(), Vec::new(), Vec::new());
    for (id, pool) in &map.pools {
        let name = name(*id);
        if pool.application_metadata.is_empty() && volatile.totals(Some(*id)).objects > 0 {
            no_app.push(format!("application not enabled on pool '{name}'"));
        }
        if pool.size == 1 {
            no_redundancy.push(format!("pool '{name}' has no replicas configured"));
        }
        if !pool.pg_num.is_power_of_two() {
            uneven.push(format!("pool '{name}' pg_num {} is not a power of two", pool.pg_num));
        }
        // On its way to targets that agree, a pool has a smaller `pgp_num` for a while.
        let (pg_num, pgp_num) = (pool.pg_num_target, pool.pgp_num_target);
        if pg_num > pgp_num {
            smaller_pgp_num.push(format!("pool {name} pg_num {pg_num} > pgp_num {pgp_num}"));
        }
        if let Some((source, target)) = without_room(state, volatile, *id, pool) {
            no_room.push(format!(
                "pool '{name}' should have {} placement groups and has {}: {source} and {target} have their shards on \
                 the same OSDs in different orders, and no other OSD is up, in, not too full and in a failure domain \
                 of its own to take one for a while; add such an OSD, or set pg_num to {} again",
                pool.pg_num_target, pool.pg_num, pool.pg_num
            ));
        }
        if pool.flags.contains(PoolFlags::FULL) {
            let why = if pool.flags.contains(PoolFlags::FULL_QUOTA) { "running out of quota" } else { "no space" };
            full.push(format!("pool '{name}' is full ({why})"));
        } else if pool.flags.contains(PoolFlags::BACKFILLFULL) {
            backfillfull.push(format!("pool '{name}' is backfillfull"));
        } else if pool.flags.contains(PoolFlags::NEARFULL) {
            nearfull.push(format!("pool '{name}' is nearfull"));
        }
    }
    scrub_flags(state, report);
    if !no_app.is_empty() && warns(state, "mon_warn_on_pool_no_app") {
        let summary = format!("{} pool(s) do not have an application enabled", no_app.len());
        let count = no_app.len();
        no_app.push(
            "use 'ceph osd pool application enable <pool-name> <app-name>', where <app-name> is 'cephfs', 'rbd', \
             'rgw', or freeform for custom applications."
                .to_owned(),
        );
        report.raise_counted("POOL_APP_NOT_ENABLED", Severity::Warn, summary, count, no_app);
    }
    let mut raise = |code, option, detail: Vec<String>, words: &str| {
        if !detail.is_empty() && warns(state, option) {
            report.raise(code, Severity::Warn, format!("{} {words}", detail.len()), detail);
        }
    };
    raise("POOL_NO_REDUNDANCY", "mon_warn_on_pool_no_redundancy", no_redundancy, "pool(s) have no replicas configured");
    let not_power_of_two = "mon_warn_on_pool_pg_num_not_power_of_two";
    raise("POOL_PG_NUM_NOT_POWER_OF_TWO", not_power_of_two, uneven, "pool(s) have non-power-of-two pg_num");
    raise("SMALLER_PGP_NUM", "", smaller_pgp_num, "pools have pg_num > pgp_num");
    raise("POOL_PG_MERGE_NO_ROOM", "", no_room, "pool(s) cannot merge placement groups for want of a spare OSD");
    raise("POOL_FULL", "", full, "pool(s) full");
    raise("POOL_BACKFILLFULL", "", backfillfull, "pool(s) backfillfull");
    raise("POOL_NEARFULL", "", nearfull, "pool(s) nearfull");
}

/// Tells of pools that are not scrubbed because somebody wants it so. That is no alarm, as on a Ceph.
fn scrub_flags(state: &MonState, report: &mut HealthReport) {
    let map = state.osdmap();
    let flags = [(PoolFlags::NOSCRUB, "noscrub"), (PoolFlags::NODEEP_SCRUB, "nodeep-scrub")];
    let mut detail = Vec::new();
    for (id, pool) in &map.pools {
        let set = flags.iter().filter(|(flag, _)| pool.flags.contains(*flag));
        let name = map.pool_name(*id).unwrap_or_default();
        detail.extend(set.map(|(_, flag)| format!("Pool {name} has {flag} flag")));
    }
    let on_some = |flag| map.pools.values().any(|pool| pool.flags.contains(flag));
    let named: Vec<&str> = flags.iter().filter(|(flag, _)| on_some(*flag)).map(|(_, name)| *name).collect();
    if !named.is_empty() {
        let summary = format!("Some pool(s) have the {} flag(s) set", named.join(", "));
        report.raise_counted("POOL_SCRUB_FLAGS", Severity::Ok, summary, 0, detail);
    }
}

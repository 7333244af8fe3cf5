//! Brings pools' numbers of placement groups to their targets, step by step.

use super::osd_changes::Draft;
use super::{Monitor, Now};
use crate::autoscaler;
use crate::balancer::{BalancerSettings, obstacle};
use crate::pg_numbers::{next_pg_num, next_pgp_num, split};
use crate::shard_orders::has_room;
use crate::state::LogPriority;
use osdmap::{AutoscaleMode, PgPool};
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Epoch, PgId, PoolId};
use wire::nacre::mon::pg_state;

/// Period at which the autoscaler looks at pools.
const AUTOSCALE_EVERY: Duration = Duration::from_secs(60);

/// `false`: steps are made at once, whatever state groups are in, and as far as they go.
pub const OPTION_CAREFUL: &str = "mgr/pg_numbers/careful";

/// State that lasts from step to step.
#[derive(Default)]
pub(super) struct PgNumbers {
    /// Epoch that the last step led to: reports of earlier ones do not count.
    changed_in: Epoch,
    autoscale_at: Option<Duration>,
}

impl PgNumbers {
    /// Begins to decide: reports of maps before `epoch` may be from before another monitor's steps.
    pub fn begin(&mut self, epoch: Epoch) {
        (self.changed_in, self.autoscale_at) = (epoch, None);
    }
}

impl Monitor {
    /// Adds one step of one pool to an increment in which nothing else changes. Records of the pools `recorded` change
    /// in the same batch.
    pub(super) fn change_pg_numbers(&mut self, now: Now, recorded: &BTreeSet<PoolId>, draft: &mut Draft) {
        if !draft.is_empty() {
            return;
        }
        self.settle_merges(now, recorded, draft);
        if !draft.is_empty() {
            self.pg_numbers.changed_in = draft.incremental().epoch;
            return;
        }
        self.autoscale(now, draft);
        let map = self.state.osdmaps.current().clone();
        let is_due = |pool: &PgPool| {
            let is_prepared = pool.pg_num_pending != pool.pg_num;
            !is_prepared && (pool.pg_num != pool.pg_num_target || pool.pgp_num != pool.pgp_num_target)
        };
        if !draft.is_empty() || !map.pools.values().any(is_due) {
            return;
        }
        let careful = self.state.manager_option(&self.volatile.name, OPTION_CAREFUL);
        let is_careful = !matches!(careful, Some("false" | "0" | "no" | "off"));
        let since = self.pg_numbers.changed_in;
        let told = |osd| self.volatile.osds.get(&osd).is_some_and(|stat| stat.epoch >= since);
        if is_careful && !map.up_osds().all(|(osd, _)| told(osd)) {
            return;
        }
        let name = |id: &PoolId| map.pool_name(*id).unwrap_or_default().to_owned();
        for (id, pool) in map.pools.iter().filter(|(_, pool)| is_due(pool)) {
            if let Some(pg_num) = next_pg_num(pool) {
                // A merged group is split only once it has served: members that were absent by then do not count any
                // more.
                let is_merged = pool.last_pg_merge_meta.ready_epoch > Epoch(0) && self.has_unsettled(*id);
                if is_careful && !self.is_clean(*id, pool) || is_merged {
                    continue;
                }
                split(&map, *id, pg_num, draft.incremental());
                draft.note(LogPriority::INFO, format!("pool '{}' gets {pg_num} placement groups", name(id)));
            } else if pool.pgp_num != pool.pgp_num_target {
                let Some(room) = (if is_careful { self.room(*id) } else { Some(f64::INFINITY) }) else { continue };
                let Some(pgp_num) = next_pgp_num(pool, room) else { continue };
                let epoch = draft.incremental().epoch;
                let changed = PgPool { pgp_num, last_change: epoch, ..pool.clone() };
                draft.incremental().new_pools.insert(*id, changed);
                let of = pool.pgp_num_target;
                draft.note(LogPriority::DEBUG, format!("pool '{}': pgp_num becomes {pgp_num} of {of}", name(id)));
            } else if !self.merge_step(now, (*id, pool), is_careful, draft) {
                continue;
            }
            self.pg_numbers.changed_in = draft.incremental().epoch;
            return;
        }
    }

    /// Returns the share of a pool's groups that may be placed elsewhere now. `None`: no group may.
    pub(super) fn room(&self, id: PoolId) -> Option<f64> {
        let settings = BalancerSettings::of(&self.state, &self.volatile.name);
        if obstacle(&self.volatile, settings.misplaced_max).is_some() {
            return None;
        }
        let (totals, of_pool) = (self.volatile.totals(None), self.volatile.totals(Some(id)));
        if of_pool.copies == 0 {
            return Some(f64::INFINITY);
        }
        let misplaced = totals.misplaced_copies as f64 / totals.copies as f64;
        // As in Ceph, one step takes at most half of the share that may be misplaced.
        let room = (settings.misplaced_max - misplaced).min(settings.misplaced_max / 2.0);
        Some(room * totals.copies as f64 / of_pool.copies as f64)
    }

    /// Returns true if every group of the pool serves with everything in its place.
    fn is_clean(&self, id: PoolId, pool: &PgPool) -> bool {
        let groups = self.volatile.pgs.range(PgId { pool: id, seed: 0 }..=PgId { pool: id, seed: u32::MAX });
        let is_clean = |state: u64| state & pg_state::CLEAN != 0 && state & pg_state::STALE == 0;
        groups.filter(|(_, pg)| is_clean(pg.report.state)).count() as u64 == u64::from(pool.pg_num)
    }

    /// Sets other targets for pools that have far too few or too many groups and leave that to the cluster.
    fn autoscale(&mut self, now: Now, draft: &mut Draft) {
        let due = *self.pg_numbers.autoscale_at.get_or_insert(now.since_start + AUTOSCALE_EVERY);
        if due > now.since_start {
            return;
        }
        self.pg_numbers.autoscale_at = Some(now.since_start + AUTOSCALE_EVERY);
        let map = self.state.osdmaps.current().clone();
        for (id, plan) in autoscaler::plans(&self.state, &self.volatile) {
            let pool = &map.pools[&id];
            let is_left_to_us = pool.autoscale_mode == AutoscaleMode::ON
                && !pool.flags.contains(osdmap::PoolFlags::NOPGCHANGE)
                && pool.pg_num == pool.pg_num_target;
            let target = plan.pg_num_final;
            // Groups of erasure-coded pools may have to exchange shards first, which needs a spare OSD.
            let may_shrink = || !pool.is_erasure() || has_room(&map, id, pool);
            let is_possible = || target > pool.pg_num || target < pool.pg_num && may_shrink();
            if !plan.would_adjust || !is_left_to_us || !is_possible() {
                continue;
            }
            let how = if target > pool.pg_num { "more" } else { "fewer" };
            let follows = pool.pgp_num_target == pool.pg_num_target;
            let pgp_num_target = if follows { target } else { pool.pgp_num_target.min(target) };
            let epoch = draft.incremental().epoch;
            let changed = PgPool { pg_num_target: target, pgp_num_target, last_change: epoch, ..pool.clone() };
            draft.incremental().new_pools.insert(id, changed);
            let name = map.pool_name(id).unwrap_or_default();
            draft.note(
                LogPriority::INFO,
                format!(
                    "pool '{name}' has {} placement groups and should have {target}: they become {how}",
                    pool.pg_num
                ),
            );
        }
    }
}

//! Suitable numbers of placement groups for pools, by the share of space that they use: computed as Ceph's
//! `pg_autoscaler` does.
//!
//! Under each root of the hierarchy OSDs should have about a hundred copies of groups each. A pool's share of these
//! copies is its share of the space, by the bytes that it holds or by the operator's forecast; pools that are marked as
//! *bulk* share evenly the remainder. The number is a power of two, and is changed only if it is wrong by a factor of
//! three.

use crate::osd_shards;
use crate::pools::PG_NUM_MAX;
use crate::{MonState, Volatile};
use osdmap::{AutoscaleMode, PgPool, PoolFlags, PoolOptKey};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PoolId};

/// Options, with Ceph's names and defaults.
pub const OPTION_THRESHOLD: &str = "mgr/pg_autoscaler/threshold";
pub const OPTION_PGS_PER_OSD: &str = "mon_target_pg_per_osd";
const THRESHOLD: f64 = 3.0;
const PGS_PER_OSD: f64 = 100.0;
/// Least groups of a pool, unless its `pg_num_min` says otherwise.
const PG_NUM_LEAST: i64 = 32;

/// The autoscaler's view of a pool. Ratios are shares of the space under the pool's root.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct PoolPlan {
    /// The root's item in the CRUSH hierarchy.
    pub root: Option<i32>,
    pub capacity_bytes: u64,
    pub used_bytes: u64,
    /// The operator's forecast; 0 if there is none.
    pub target_bytes: u64,
    pub target_ratio: f64,
    /// The share of the space that `target_ratio` gives, beside the ratios of other pools.
    pub effective_target_ratio: f64,
    /// Bytes on drives for each byte.
    pub raw_rate: f64,
    pub bias: f64,
    pub actual_ratio: f64,
    pub ratio: f64,
    pub pg_num_ideal: u32,
    pub pg_num_final: u32,
    pub would_adjust: bool,
}

impl PoolPlan {
    /// Returns the present bytes on drives.
    pub fn actual_raw_bytes(&self) -> f64 {
        self.used_bytes as f64 * self.raw_rate
    }

    pub fn raw_bytes(&self) -> f64 {
        self.used_bytes.max(self.target_bytes) as f64 * self.raw_rate
    }
}

/// Sums over the pools below one root.
#[derive(Default)]
struct Root {
    capacity_bytes: u64,
    osds: BTreeSet<i32>,
    target_ratios: f64,
    target_raw_bytes: f64,
}

/// Returns the plan for every pool.
pub fn plans(state: &MonState, volatile: &Volatile) -> BTreeMap<PoolId, PoolPlan> {
    let number = |option: &str| state.manager_option(&volatile.name, option).and_then(|s| s.parse::<f64>().ok());
    let threshold = number(OPTION_THRESHOLD).filter(|threshold| *threshold >= 1.0).unwrap_or(THRESHOLD);
    let per_osd =
        state.mon_option(&volatile.name, OPTION_PGS_PER_OSD).and_then(|s| s.parse().ok()).unwrap_or(PGS_PER_OSD);
    let map = state.osdmap();
    let mut roots: BTreeMap<Option<i32>, Root> = BTreeMap::new();
    let mut plans = BTreeMap::new();
    for (id, pool) in &map.pools {
        let rule = u32::from(pool.crush_rule);
        let at = map.crush.rule_takes(rule).into_iter().next();
        let plan = shape(state, volatile, *id, pool, at);
        let root = roots.entry(at).or_default();
        for osd in map.crush.rule_weights(rule).into_keys() {
            let bytes = volatile.osds.get(&OsdId(osd)).map_or(0, |stat| stat.stats.total_bytes);
            if map.is_in(OsdId(osd)) && root.osds.insert(osd) {
                root.capacity_bytes = root.capacity_bytes.saturating_add(bytes);
            }
        }
        root.target_ratios += plan.target_ratio;
        root.target_raw_bytes += plan.target_bytes as f64 * plan.raw_rate;
        plans.insert(*id, plan);
    }
    for (at, root) in &roots {
        let of_root: Vec<PoolId> = plans.iter().filter(|(_, plan)| plan.root == *at).map(|(id, _)| *id).collect();
        for id in &of_root {
            plans.get_mut(id).expect("just listed").reckon_ratios(root);
        }
        let groups = root.osds.len() as f64 * per_osd;
        share_out(&of_root, &mut plans, groups, |id| map.pools[&id].flags.contains(PoolFlags::BULK));
    }
    for (id, plan) in &mut plans {
        let pool = &map.pools[id];
        let bound = |key, default| pool.opts.int(key).filter(|bound| *bound > 0).unwrap_or(default);
        let most = bound(PoolOptKey::PG_NUM_MAX, PG_NUM_MAX.into()).min(PG_NUM_MAX.into());
        let least = bound(PoolOptKey::PG_NUM_MIN, PG_NUM_LEAST).max(osd_shards::groups_min(state).into()).min(most);
        plan.pg_num_final = i64::from(nearest_power_of_two(plan.pg_num_ideal)).clamp(least, most) as u32;
        let (now, wanted) = (f64::from(pool.pg_num_target), f64::from(plan.pg_num_final));
        let is_far_off = wanted > now * threshold || wanted < now / threshold;
        let may = pool.autoscale_mode == AutoscaleMode::ON;
        plan.would_adjust = may && is_far_off && (0.0..=1.0).contains(&plan.ratio) && plan.capacity_bytes > 0;
    }
    plans
}

/// Returns a pool's own figures.
fn shape(state: &MonState, volatile: &Volatile, id: PoolId, pool: &PgPool, root: Option<i32>) -> PoolPlan {
    let target_ratio = pool.opts.double(PoolOptKey::TARGET_SIZE_RATIO).unwrap_or(0.0).max(0.0);
    let target_bytes = pool.opts.int(PoolOptKey::TARGET_SIZE_BYTES).unwrap_or(0).max(0) as u64;
    let data_shards = crate::erasure_pools::data_shards(state.osdmap(), pool);
    PoolPlan {
        root,
        used_bytes: volatile.totals(Some(id)).bytes,
        // The ratio counts where both are given.
        target_bytes: if target_ratio > 0.0 { 0 } else { target_bytes },
        target_ratio,
        raw_rate: f64::from(pool.size) / data_shards as f64,
        bias: pool.opts.double(PoolOptKey::PG_AUTOSCALE_BIAS).unwrap_or(1.0),
        ..PoolPlan::default()
    }
}

impl PoolPlan {
    fn reckon_ratios(&mut self, root: &Root) {
        self.capacity_bytes = root.capacity_bytes;
        let capacity = root.capacity_bytes as f64;
        if capacity == 0.0 {
            return;
        }
        if self.target_ratio > 0.0 {
            let left = 1.0 - (root.target_raw_bytes / capacity).min(1.0);
            self.effective_target_ratio = self.target_ratio / root.target_ratios * left;
        }
        self.actual_ratio = self.actual_raw_bytes() / capacity;
        self.ratio = (self.raw_bytes() / capacity).max(self.effective_target_ratio);
    }
}

/// Shares out copies of groups to the pools below a root.
fn share_out(pools: &[PoolId], plans: &mut BTreeMap<PoolId, PoolPlan>, groups: f64, is_bulk: impl Fn(PoolId) -> bool) {
    let (mut left, mut rest) = (groups, Vec::new());
    let even = pools.len() as f64;
    for id in pools {
        let plan = plans.get_mut(id).expect("a pool of the map");
        // A bulk pool that uses more than an even part is treated like the others.
        if is_bulk(*id) && plan.ratio <= 1.0 / even {
            rest.push(*id);
            continue;
        }
        let wanted = plan.ratio * groups / plan.raw_rate * plan.bias;
        plan.pg_num_ideal = wanted as u32;
        left -= wanted * plan.raw_rate;
    }
    let each = left.max(0.0) / rest.len().max(1) as f64;
    for id in rest {
        let plan = plans.get_mut(&id).expect("a pool of the map");
        plan.pg_num_ideal = (each / plan.raw_rate * plan.bias) as u32;
    }
}

/// Returns the power of two next to `n`; the upper one in the middle. 0 for 0.
fn nearest_power_of_two(n: u32) -> u32 {
    if n == 0 {
        return 0;
    }
    let upper = n.checked_next_power_of_two().unwrap_or(1 << 31);
    let lower = (upper / 2).max(1);
    if upper.abs_diff(n) > n.saturating_sub(lower) { lower } else { upper }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two() {
        let near = |n: u32| nearest_power_of_two(n);
        assert_eq!([1 << 31, u32::MAX].map(near), [1 << 31, 1 << 31]);
        assert_eq!([0, 1, 2, 3, 5, 6, 7, 95, 96, 97].map(near), [0, 1, 2, 4, 4, 8, 8, 64, 128, 128]);
    }

    #[test]
    fn groups_go_where_the_data_is() {
        let plan = |used_bytes: u64, raw_rate: f64| PoolPlan { used_bytes, raw_rate, bias: 1.0, ..PoolPlan::default() };
        let ids = [PoolId(1), PoolId(2), PoolId(3), PoolId(4)];
        let shares = |bulk: &[PoolId]| {
            let mut plans = BTreeMap::from([
                (ids[0], plan(100, 3.0)),
                (ids[1], plan(100, 1.5)),
                (ids[2], plan(0, 2.0)),
                (ids[3], PoolPlan { target_ratio: 0.2, ..plan(0, 3.0) }),
            ]);
            let root = Root { capacity_bytes: 1000, target_ratios: 0.4, target_raw_bytes: 500.0, ..Root::default() };
            plans.values_mut().for_each(|plan| plan.reckon_ratios(&root));
            share_out(&ids, &mut plans, 600.0, |id| bulk.contains(&id));
            plans.into_values().map(|plan| plan.pg_num_ideal).collect::<Vec<_>>()
        };
        // The first pool uses a third of all, with three copies; the second 0.15, with one and a half; the third
        // nothing. The fourth is to get half of the remainder.
        assert_eq!(shares(&[]), [60, 60, 0, 50]);
        assert_eq!(shares(&[ids[2]]), [60, 60, 90, 50], "what is left");
        assert_eq!(shares(&[ids[0], ids[2]])[0], 60, "as it uses more than a fourth");
    }
}

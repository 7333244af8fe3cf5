//! Settings of the balancer, its obstacles, and its last outcome. [`osdmap::balance`] decides on the changes.

use crate::{MonState, Volatile};
use osdmap::OsdMap;
use osdmap::{BalanceLimits, Incremental, PgMapping, PgPool};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{PoolId, Utime};
use wire::nacre::mon::pg_state;

/// Options of the balancer, with Ceph's names and, but for the mode's deviation, defaults.
pub const OPTION_ACTIVE: &str = "mgr/balancer/active";
pub const OPTION_MODE: &str = "mgr/balancer/mode";
pub const OPTION_INTERVAL: &str = "mgr/balancer/sleep_interval";
pub const OPTION_MOVES_MAX: &str = "mgr/balancer/upmap_max_optimizations";
pub const OPTION_POOLS: &str = "mgr/balancer/pool_ids";
pub const OPTION_MISPLACED_MAX: &str = "target_max_misplaced_ratio";

/// Most groups in the map with which new pools are still placed evenly at once, which takes some 0.2 s.
const EXISTING_GROUPS_MAX: usize = 20_000;
/// Most copies of a new pool with which it is placed evenly at once: those of 8192 groups on 1000 OSDs took half a
/// second.
const NEW_COPIES_MAX: usize = 12_288;

/// The longest time between rounds.
const INTERVAL_MAX_S: u64 = (u32::MAX / 2) as u64;

/// The mode that works; the other one is `none`.
pub const MODE_UPMAP: &str = "upmap";

/// Settings of the balancer.
#[derive(Clone, PartialEq, Debug)]
pub struct BalancerSettings {
    pub active: bool,
    pub mode: String,
    /// Time between rounds.
    pub interval: Duration,
    /// Most copies moved by one round.
    pub moves_max: usize,
    /// Share of all copies that may be on their way at a time.
    pub misplaced_max: f64,
    /// Pools that are balanced; `None` for all. Some may be gone.
    pub pools: Option<BTreeSet<PoolId>>,
}

impl BalancerSettings {
    /// Returns the settings that apply on the monitor called `name`.
    pub fn of(state: &MonState, name: &str) -> BalancerSettings {
        let option = |option| state.manager_option(name, option);
        // Earlier software took any number of seconds, and stored it in the state.
        let seconds: u64 = option(OPTION_INTERVAL).and_then(|s| s.parse().ok()).unwrap_or(60);
        BalancerSettings {
            active: !matches!(option(OPTION_ACTIVE), Some("false" | "0" | "no" | "off")),
            mode: option(OPTION_MODE).unwrap_or(MODE_UPMAP).to_owned(),
            interval: Duration::from_secs(match mutant::is(mutant::Mutant::IntervalUnbounded) {
                true => seconds.max(1),
                false => seconds.clamp(1, INTERVAL_MAX_S),
            }),
            moves_max: option(OPTION_MOVES_MAX).and_then(|s| s.parse().ok()).unwrap_or(10),
            misplaced_max: option(OPTION_MISPLACED_MAX).and_then(|s| s.parse().ok()).unwrap_or(0.05),
            pools: option(OPTION_POOLS).filter(|ids| !ids.is_empty()).map(pools_of),
        }
    }

    /// Returns the pools that a round may change; `None` for all. Groups that are to be merged are to stay together.
    pub fn balanced(&self, map: &OsdMap) -> Option<BTreeSet<PoolId>> {
        let is_shrinking = |pool: &PgPool| pool.pg_num_target < pool.pg_num;
        if self.pools.is_none() && !map.pools.values().any(is_shrinking) {
            return None;
        }
        let is_wanted = |id: &PoolId| self.pools.as_ref().is_none_or(|pools| pools.contains(id));
        let wanted = map.pools.iter().filter(|(id, pool)| is_wanted(id) && !is_shrinking(pool));
        Some(wanted.map(|(id, _)| *id).collect())
    }

    /// Returns true if anything is balanced.
    pub fn is_on(&self) -> bool {
        self.active && self.mode == MODE_UPMAP
    }
}

/// Reads numbers of pools, as `1,5`. What is none is left out.
fn pools_of(ids: &str) -> BTreeSet<PoolId> {
    ids.split(',').filter_map(|id| id.trim().parse().ok()).map(PoolId).collect()
}

/// Reason why copies are not moved now. Texts are Ceph's.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum Obstacle {
    #[error("Some PGs ({0:.6}) are unknown; try again later")]
    Unknown(f64),
    #[error("Some objects ({0:.6}) are degraded; try again later")]
    Degraded(f64),
    #[error("Some PGs ({0:.6}) are inactive; try again later")]
    Inactive(f64),
    #[error("Too many objects ({0:.6} > {1:.6}) are misplaced; try again later")]
    Misplaced(f64, f64),
}

/// Returns the reason that holds the balancer up, if there is one.
pub fn obstacle(volatile: &Volatile, misplaced_max: f64) -> Option<Obstacle> {
    let share = |is: fn(u64) -> bool| {
        let count = volatile.pgs.values().filter(|pg| is(pg.report.state)).count();
        count as f64 / volatile.pgs.len().max(1) as f64
    };
    let totals = volatile.totals(None);
    let unknown = share(|state| state == 0);
    let inactive = share(|state| state & pg_state::ACTIVE == 0);
    let degraded = totals.degraded_copies as f64 / totals.copies.max(1) as f64;
    let short = share(|state| state & (pg_state::DEGRADED | pg_state::UNDERSIZED | pg_state::STALE) != 0);
    let misplaced = totals.misplaced_copies as f64 / totals.copies.max(1) as f64;
    if unknown > 0.0 {
        Some(Obstacle::Unknown(unknown))
    } else if degraded > 0.0 || short > 0.0 {
        Some(Obstacle::Degraded(degraded.max(short)))
    } else if inactive > 0.0 {
        Some(Obstacle::Inactive(inactive))
    } else if misplaced >= misplaced_max {
        Some(Obstacle::Misplaced(misplaced, misplaced_max))
    } else {
        None
    }
}

/// Returns how uneven the spread of placement groups' copies over OSDs is: standard deviation by mean, over all pools
/// or one.
pub(crate) fn score_of(map: &OsdMap, mapping: &PgMapping, pool: Option<PoolId>) -> f64 {
    let mut counts: BTreeMap<types::OsdId, f64> =
        map.osds().filter(|(osd, _)| map.is_in(*osd)).map(|(osd, _)| (osd, 0.0)).collect();
    for (_, place) in mapping.iter().filter(|(pg, _)| pool.is_none_or(|pool| pg.pool == pool)) {
        for osd in &place.up {
            if let Some(count) = counts.get_mut(osd) {
                *count += 1.0;
            }
        }
    }
    let n = counts.len().max(1) as f64;
    let mean = counts.values().sum::<f64>() / n;
    let deviation = (counts.values().map(|count| (count - mean).powi(2)).sum::<f64>() / n).sqrt();
    if mean == 0.0 { 0.0 } else { deviation / mean }
}

/// Said where nothing is to be moved.
pub const EVEN: &str =
    "Unable to find further optimization, or pool(s) pg_num is decreasing, or distribution is already perfect";

/// Outcome of the balancer's last look.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct BalancerOutcome {
    /// Time of the look; zero before the first one.
    pub at: Utime,
    pub result: String,
    /// True if everything was as even as it gets.
    pub is_even: bool,
}

impl BalancerOutcome {
    pub(crate) fn looked(&mut self, now: Utime, obstacle: Option<String>, moved: usize) {
        let is_even = obstacle.is_none() && moved == 0;
        let result = match (obstacle, moved) {
            (Some(why), _) => why,
            (None, 0) => EVEN.to_owned(),
            (None, _) => "Optimization plan created successfully".to_owned(),
        };
        *self = BalancerOutcome { at: now, result, is_even };
    }
}

/// Places the groups of a pool that `incremental` makes evenly from the first: while they are empty, it costs nothing.
pub fn place_new_pool(state: &MonState, pool: PoolId, incremental: &mut Incremental) {
    let mut map: OsdMap = state.osdmap().clone();
    let settings = BalancerSettings::of(state, "");
    let is_on = settings.is_on() && settings.pools.is_none();
    let copies = |pool: &PgPool| pool.pg_num as usize * usize::from(pool.size);
    let new_copies = incremental.new_pools.get(&pool).map_or(0, copies);
    // Placing a new pool at once would take too long in large clusters; rounds do it.
    if map.pgs().count() > EXISTING_GROUPS_MAX || new_copies > NEW_COPIES_MAX {
        return;
    }
    // An increment that does not apply is refused, or panics, where it is used.
    if !is_on || map.apply(incremental).is_err() {
        return;
    }
    let mapping = PgMapping::compute(&map);
    let limits = BalanceLimits { moves_max: new_copies, pools: Some(BTreeSet::from([pool])) };
    osdmap::balance(&map, &mapping, &limits).add_to(incremental);
}

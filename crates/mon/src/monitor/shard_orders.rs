//! Brings the shards of erasure-coded groups that are to be merged into the same order ([`osdmap::next_order`]).
//!
//! Each group takes one step at a time, from a clean state to a clean state: it is given another up set, that of the
//! next order, and in the same epoch goes on with its present acting set (`pg_temp`). The OSDs do the rest, as whenever
//! one is to be replaced. The last step places a group as the one that it is to be merged into, so that no exception of
//! the way remains.

use super::Monitor;
use super::osd_changes::Draft;
use crate::pg_numbers::{forget_exceptions, place_as};
use crate::shard_orders::{Spares, clean_report, goal, is_of};
use osdmap::{OsdMap, PgPool, RulePlaces, TempSet};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PoolId};

/// Most groups whose placement is computed at a time.
const LOOKED_AT_MAX: usize = 256;

/// State that lasts from step to step.
#[derive(Default)]
pub(super) struct ShardOrders {
    /// The epoch in which a group was last given another place here.
    stepped: BTreeMap<PgId, Epoch>,
}

impl ShardOrders {
    /// Returns true if a primary that has this map knows the last step of the group. A primary that does not know it
    /// asks for something that was meant for the step before, and that would end this step before any OSD has the shard
    /// that moves.
    pub fn knows_step(&self, pg: PgId, epoch: Epoch) -> bool {
        self.stepped.get(&pg).is_none_or(|since| epoch >= *since)
    }

    /// Follows the newest map.
    pub fn follow(&mut self, map: &OsdMap) {
        self.stepped.retain(|pg, _| map.pools.get(&pg.pool).is_some_and(|pool| pg.seed < pool.pg_num));
    }
}

impl Monitor {
    /// Looks for erasure-coded groups that are on the right OSDs, but keep their shards in another order than the map
    /// wants. Makes the map want the order that is there ([`OsdMap::put_in_order`]), in an increment that otherwise
    /// changes acting sets only.
    pub(super) fn show_orders(&self, draft: &mut Draft) {
        if !draft.only_sets_acting() {
            return;
        }
        let map = self.state.osdmaps.current().clone();
        let asked = draft.incremental().new_pg_temp.clone();
        // Groups that are clean ask for nothing: older software left their acting sets.
        let is_left = |pg: &PgId| {
            let is_coded = map.pools.get(&pg.pool).is_some_and(PgPool::is_erasure);
            is_coded && !asked.contains_key(pg) && clean_report(&self.volatile, *pg).is_some()
        };
        let left = map.pg_temp.iter().filter(|(pg, _)| is_left(pg)).take(LOOKED_AT_MAX);
        let mut rules: BTreeMap<PoolId, Option<RulePlaces>> = BTreeMap::new();
        for (pg, set) in asked.iter().chain(left) {
            let Some(pool) = map.pools.get(&pg.pool).filter(|pool| pool.is_erasure()) else { continue };
            let places = rules.entry(pg.pool).or_insert_with(|| RulePlaces::of_pool(&map, pool)).as_ref();
            map.put_in_order(*pg, set, places, draft.incremental());
        }
    }

    /// Adds the next step of each group of the pool that is to be merged and can take one, until about `shards_max`
    /// shards move. Groups that are to be merged first come first.
    pub(super) fn order_shards(&mut self, id: PoolId, pool: &PgPool, shards_max: f64, draft: &mut Draft) {
        let map = self.state.osdmaps.current().clone();
        let (mut spares, mut moving, mut looked_at) = (None, 0, 0);
        for seed in (goal(pool)..pool.pg_num).rev() {
            let [source, target] = [seed, osdmap::split_parent(seed, goal(pool))].map(|seed| PgId { pool: id, seed });
            let [told, told_of_target] = [source, target].map(|pg| clean_report(&self.volatile, pg));
            let (Some(told), Some(told_of_target)) = (told, told_of_target) else { continue };
            if (&told.up, &told.acting) == (&told_of_target.up, &told_of_target.acting) {
                continue;
            }
            looked_at += 1;
            if looked_at > LOOKED_AT_MAX || moving > 0 && f64::from(moving) >= shards_max {
                break;
            }
            let (Ok(is), Ok(wanted)) = (map.pg_to_up_acting(source), map.pg_to_up_acting(target)) else { continue };
            let is_full = is.acting.len() == usize::from(pool.size) && is.acting.iter().all(|osd| osd.is_some());
            if !is_full || !is_of(told, &is) || !is_of(told_of_target, &wanted) {
                continue;
            }
            let strangers = is.acting.iter().filter(|osd| !wanted.acting.contains(osd)).count() as u32;
            let next = match strangers {
                0 | 1 => spares
                    .get_or_insert_with(|| Spares::of(&map, pool))
                    .as_ref()
                    .and_then(|spares| spares.next_order(seed, &is.acting, &wanted.acting)),
                // The group is placed by exceptions of its own, which end.
                _ => Some(wanted.acting.clone()),
            };
            let incremental = draft.incremental();
            let keep = |order: &[OsdId]| match map.pg_temp.get(&source).map_or(&[][..], |osds| osds) == order {
                true => None,
                false => Some((source, TempSet::from(order.to_vec()))),
            };
            match next {
                // The order is right, but the map expresses it in other terms than that of the target group.
                Some(next) if next == is.acting => {
                    place_as(&map, source, target, incremental);
                    incremental.new_pg_temp.extend(keep(map.pg_temp.get(&target).map_or(&[][..], |osds| osds)));
                }
                Some(next) if next != wanted.acting => {
                    forget_exceptions(&map, source, incremental);
                    incremental.old_pg_upmap.remove(&source);
                    incremental.new_pg_upmap.insert(source, next);
                    incremental.new_pg_temp.extend(keep(&is.acting));
                }
                // This is the last step; or no order is possible on the way, and the group at least comes to the same
                // OSDs.
                Some(_) => {
                    place_as(&map, source, target, incremental);
                    incremental.new_pg_temp.extend(keep(&is.acting));
                }
                None if strangers > 0 => {
                    place_as(&map, source, target, incremental);
                    incremental.new_pg_temp.extend(keep(&is.acting));
                }
                None => continue,
            }
            moving += strangers.max(1);
            let epoch = draft.incremental().epoch;
            self.shard_orders.stepped.insert(source, epoch);
        }
    }
}

//! Orders of the shards of erasure-coded groups, as clients and tools see them.
//!
//! An OSD that stays in a group keeps its shard, whatever its place in CRUSH's result ([`crate::shards_to_be`]). So a
//! group that has everything may have its shards in another order. The up set then gets that order by an exception of
//! placement (`pg_upmap`), instead of the acting set by `pg_temp`: both are the same, place by place. Such an exception
//! ends where CRUSH gives other OSDs than it names, since it would keep the group from following.

use crate::{Incremental, OsdMap, OsdState, PgPool, PlacementError, RulePlaces, TempSet};
use std::collections::BTreeSet;
use types::{OsdId, PgId};
use wire::Release;

/// Returns true if both name the same OSDs, in any order, and no place is empty.
fn same_osds(a: &[OsdId], b: &[OsdId]) -> bool {
    a.len() == b.len() && a.iter().all(|osd| osd.is_some() && b.contains(osd))
}

/// Returns true if the pool is to have fewer groups: shards are then put in order by exceptions that end by themselves.
fn is_shrinking(pool: &PgPool) -> bool {
    pool.pg_num_target < pool.pg_num || pool.pg_num_pending < pool.pg_num
}

impl OsdMap {
    /// Returns the OSDs of a group by CRUSH and exchanges (`pg_upmap_items`), whichever of them are up.
    fn placed_without_order(&self, pg: PgId) -> Result<Vec<OsdId>, PlacementError> {
        let mut osds = self.pg_to_osds_raw(pg)?;
        self.exchange(self.pg_upmap_items.get(&pg).map_or(&[], |items| items), &mut osds);
        Ok(osds)
    }

    /// Returns true if `pg_upmap` places the group of an erasure-coded pool on the OSDs that it would be on without, in
    /// another order.
    pub fn has_order(&self, pg: PgId) -> bool {
        let is_coded = self.pool(pg.pool).is_some_and(PgPool::is_erasure);
        if !is_coded || !self.pg_upmap.contains_key(&pg) {
            return false;
        }
        let (Ok(plain), Ok(placed)) = (self.placed_without_order(pg), self.pg_to_osds_upmapped(pg)) else {
            return false;
        };
        plain != placed && same_osds(&plain, &placed)
    }

    /// Makes `order` the up set of a group, and ends its exceptional acting set, if `order` is the present up set in
    /// another order and all clients understand such exceptions. `places`: of the pool's rule, if it is understood.
    ///
    /// Returns true if that is the case. `incremental` must change nothing else of placements.
    pub fn put_in_order(
        &self,
        pg: PgId,
        order: &[OsdId],
        places: Option<&RulePlaces>,
        incremental: &mut Incremental,
    ) -> bool {
        let is_possible = self.pool(pg.pool).is_some_and(|pool| pool.is_erasure() && !is_shrinking(pool))
            && self.require_min_compat_client >= Release::LUMINOUS
            && !self.pg_upmap_primaries.contains_key(&pg)
            && order.iter().all(|osd| self.exists(*osd) && self.is_up(*osd) && self.weight(*osd) > 0)
            && places.is_none_or(|places| places.may_hold(order));
        let (Ok(plain), Ok(placed)) = (self.placed_without_order(pg), self.pg_to_osds_upmapped(pg)) else {
            return false;
        };
        let mut exchanged = order.to_vec();
        self.exchange(self.pg_upmap_items.get(&pg).map_or(&[], |items| items), &mut exchanged);
        let is_stable = exchanged == order || plain == order;
        if !is_possible || !is_stable || placed == order || !same_osds(order, &placed) {
            return false;
        }
        if plain == order {
            incremental.old_pg_upmap.insert(pg);
        } else {
            incremental.new_pg_upmap.insert(pg, order.to_vec());
        }
        incremental.new_pg_temp.remove(&pg);
        if self.pg_temp.contains_key(&pg) {
            incremental.new_pg_temp.insert(pg, TempSet::default());
        }
        true
    }

    /// Ends the orders that do not hold in `after`, the map to which `incremental` leads from this one: CRUSH gives
    /// other OSDs, or the pool is to have fewer groups. Groups go on with the OSDs that have their shards (`pg_temp`)
    /// until others have everything. Returns true if there is such an order.
    pub fn end_orders(&self, after: &OsdMap, incremental: &mut Incremental) -> bool {
        let all_are_touched = !incremental.crush.is_empty()
            || !incremental.new_weight.is_empty()
            || incremental.new_max_osd.is_some()
            || incremental.new_state.values().any(|flipped| flipped.contains(OsdState::EXISTS));
        let exchanged: BTreeSet<PgId> =
            incremental.new_pg_upmap_items.keys().chain(&incremental.old_pg_upmap_items).copied().collect();
        let mut any = false;
        for (pg, osds) in &self.pg_upmap {
            let is_touched = all_are_touched || incremental.new_pools.contains_key(&pg.pool) || exchanged.contains(pg);
            let (Some(pool), Some(pool_after)) = (self.pool(pg.pool), after.pool(pg.pool)) else { continue };
            let is_kept = after.pg_upmap.get(pg) == Some(osds);
            if !is_touched || !is_kept || is_shrinking(pool) || !self.has_order(*pg) {
                continue;
            }
            if after.has_order(*pg) && !is_shrinking(pool_after) {
                continue;
            }
            let order = self.pg_to_osds_upmapped(*pg).unwrap_or_default();
            incremental.old_pg_upmap.insert(*pg);
            let acts_already = self.pg_temp.contains_key(pg) || incremental.new_pg_temp.contains_key(pg);
            if !acts_already && after.placed_without_order(*pg).is_ok_and(|plain| plain != order) {
                incremental.new_pg_temp.insert(*pg, order.into());
            }
            any = true;
        }
        any
    }
}

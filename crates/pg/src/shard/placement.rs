//! Maps that come into force, and the groups that they place on this shard.

use super::Shard;
use crate::coded::shard_sources::instance;
use crate::context::{OnCommit, Output};
use crate::group::dups::DupsLimit;
use crate::group::interval::{Interval, PoolShape};
use crate::group::pg::Pg;
use crate::shard::maps::{Advance, MapError};
use mutant::Mutant;
use osdmap::{MappingUpdate, OsdMap, PgMapping, PoolFlags, UpActing};
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, PgId};
use wire::messages;

impl Shard {
    /// Takes maps from a monitor. They come into force at once, or with [`Shard::follow_maps`] where it takes long to
    /// find out where groups are.
    pub fn osd_maps(&mut self, message: &messages::OsdMap) -> Result<(), MapError> {
        let taken = self.host.maps.take(message);
        if self.placing.is_none() {
            self.follow_maps();
        }
        if taken? {
            self.host.outbox.outputs.push(Output::NeedMaps { from: self.host.maps.newest_epoch().next() });
        }
        Ok(())
    }

    /// Computes placements for the next map, a bounded amount in each call, and puts the map into force once all are
    /// known. To be called once in a turn.
    pub fn follow_maps(&mut self) {
        let mut left = self.host.limits.placing_work;
        let mut is_new = false;
        while let Some(map) = self.host.maps.next() {
            let before = self.host.maps.current().clone();
            let mut placing = match self.placing.take() {
                Some(placing) => placing,
                None => MappingUpdate::begin(std::mem::take(&mut self.mapping), &before, &map),
            };
            if !placing.step(&before, &map, &mut left) {
                self.placing = Some(placing);
                break;
            }
            let (mapping, computed) = placing.finish();
            let advance = self.host.maps.enter().expect("just seen");
            self.advance(&advance, mapping, computed);
            self.settle();
            if before.blocklist != map.blocklist || before.range_blocklist != map.range_blocklist {
                self.pgs.values_mut().for_each(|pg| pg.watches.follow_blocklist(&mut self.host.context()));
                self.settle();
            }
            is_new = true;
        }
        if !is_new {
            return;
        }
        for session in std::mem::take(&mut self.host.outbox.interrupted) {
            self.share_map(session);
        }
        self.forget_questions();
        self.host.shared.leases.follow_map(self.host.maps.epoch());
        self.lease_came();
        self.run_deferred();
    }

    /// Acts on a map that has come into force. `mapping`: the map's placements of groups, of which CRUSH has computed
    /// `computed` anew.
    fn advance(&mut self, advance: &Advance, mapping: PgMapping, computed: usize) {
        let map = &advance.map;
        self.homes.follow(map);
        let gone = self.pgs.keys().filter(|id| !map.pools.contains_key(&id.pool.base())).copied().collect::<Vec<_>>();
        for id in gone {
            let mut pg = self.pgs.remove(&id).expect("just seen");
            match was_deleted(map, id) {
                true => pg.destroy(&mut self.host.context()),
                // The map has never known of it: that of a monitor that had not heard of everything. Its data stays.
                false => pg.leave(&mut self.host.context()),
            }
            self.host.outbox.reports.remove(&id);
        }
        self.destroy_strays_of_gone_pools(map);
        let is_shown = self.is_shown_by(map);
        self.gather_merges(map, is_shown);
        self.split_groups(advance);
        let is_full =
            |map: &OsdMap, pool| map.pools.get(&pool).is_some_and(|pool| pool.flags.contains(PoolFlags::FULL));
        for (id, pg) in &mut self.pgs {
            let pool = id.pool.base();
            if is_full(&advance.before, pool) && !is_full(map, pool) {
                pg.requests.full_ended(map.epoch);
            }
        }
        if computed > 0 {
            for (pool, error) in mapping.errors() {
                tracing::warn!(%pool, "pool cannot be placed: {error}");
            }
        }
        let mut shapes = BTreeMap::new();
        for (id, pool) in &map.pools {
            match PoolShape::of(map, pool) {
                Ok(shape) => drop(shapes.insert(*id, shape)),
                Err(error) if self.unserved.insert(*id) => tracing::warn!(pool = %id, "pool is not served: {error}"),
                Err(_) => {}
            }
        }
        self.unserved.retain(|id| map.pools.contains_key(id) && !shapes.contains_key(id));
        // Every group that this OSD takes part in, as what.
        let mut members: BTreeMap<PgId, PgId> = BTreeMap::new();
        self.sharing.clear();
        for (id, placed) in mapping.involving(self.host.whoami).filter(|_| is_shown) {
            let Some(shape) = shapes.get(&id.pool) else { continue };
            let (acting, up) = (&placed.acting, &placed.up);
            let instance = instance(id, acting, up, self.host.whoami, shape.protection);
            let Some(instance) = instance else { continue };
            let others =
                placed.up.iter().chain(&placed.acting).filter(|osd| osd.is_some() && **osd != self.host.whoami);
            self.sharing.extend(others);
            if self.is_home_of(id) {
                members.insert(id, instance);
            }
        }
        let left: Vec<_> = self.pgs.keys().filter(|id| members.get(&id.base()) != Some(*id)).copied().collect();
        for id in left {
            // The group's data stays, should this OSD be chosen as a member again.
            let mut pg = self.pgs.remove(&id).expect("just seen");
            pg.leave(&mut self.host.context());
            self.host.outbox.reports.remove(&id);
            if mutant::is(Mutant::OtherShardDropped) && members.contains_key(&id.base()) {
                pg.destroy(&mut self.host.context());
            }
        }
        let mut new = Vec::new();
        for (id, instance) in &members {
            let placed = mapping.get(*id).expect("just seen");
            new.extend(self.place(*instance, placed, shapes[&id.pool], advance));
        }
        self.shards = members.into_iter().filter(|(id, instance)| id != instance).collect();
        self.mapping = mapping;
        self.host.dups_limit = DupsLimit::shared(&self.host.limits, self.pgs.len());
        new.into_iter().for_each(|id| self.load_group(id));
        let (pgs, splits) = (&self.pgs, &self.splits);
        let exists = |id: &PgId| map.pools.get(&id.pool.base()).is_some_and(|pool| id.seed < pool.pg_num);
        let is_stray = |id: &PgId| !pgs.contains_key(id) && exists(id);
        self.strays.keep_only(|id| is_stray(id) && !splits.is_unexamined(*id));
        self.read_merges();
        self.examine_strays();
        self.host.shared.rooms.follow_map(map, self.sharing.clone());
        tracing::debug!(epoch = map.epoch.0, groups = self.pgs.len(), computed, "map in force");
    }

    /// Removes groups in the store whose pool no longer exists, also groups that were not in use here.
    fn destroy_strays_of_gone_pools(&mut self, map: &OsdMap) {
        let gone = |id: &PgId| was_deleted(map, *id);
        let strays: BTreeSet<PgId> = self.host.store.pgs().into_iter().filter(gone).collect();
        // The number of groups that the pool had is not known any more. As the only group of its pool, number 0 spans
        // every object; the others are left with their tables.
        let whole_pools: BTreeSet<PgId> = strays
            .iter()
            .flat_map(|id| [id.pool].into_iter().chain(id.pool.shard().map(|_| id.pool.kept_back())))
            .map(|pool| PgId { pool, seed: 0 })
            .collect();
        for pg in whole_pools.into_iter().chain(strays) {
            let steps = vec![store::Step::PgDestroy { pg_num: 1 }];
            self.host.context().submit_or_stop(store::Transaction { pg, steps }, OnCommit::Nothing);
        }
    }

    /// Makes this OSD take part in a group. Returns the group if it is new here: its table must be loaded then.
    fn place(&mut self, id: PgId, placed: &UpActing, shape: PoolShape, advance: &Advance) -> Option<PgId> {
        let interval = || Interval {
            since: advance.map.epoch,
            up: placed.up.clone(),
            acting: placed.acting.clone(),
            shown: placed.shown,
            primary: placed.acting_primary,
            shape,
        };
        // An interval that began unseen needs to know not when it began, but when it may have begun at the
        // earliest.
        let began = advance.skipped_since.map_or(advance.map.epoch, Epoch::next);
        match self.pgs.get_mut(&id) {
            Some(pg) if advance.skipped_since.is_none() && pg.core.interval.continues(id, placed, shape) => {
                match pg.peering.awaits_map() {
                    true => pg.start_interval_among_members(&mut self.host.context(), interval()),
                    false => pg.continue_interval(&mut self.host.context(), shape),
                }
            }
            Some(pg) if advance.skipped_since.is_none() && pg.core.interval.looks_the_same(id, placed, shape) => {
                pg.core.not_before = began;
                pg.start_interval_among_members(&mut self.host.context(), interval());
            }
            Some(pg) => {
                // An interval that is as it was before the maps that were not seen may be the same one.
                if !pg.core.interval.continues(id, placed, shape) {
                    pg.core.not_before = began;
                }
                pg.start_interval(&mut self.host.context(), interval(), began);
            }
            None => {
                let mut pg = match self.host.store.pgs_contain(id) {
                    _ if self.merges.awaits(id) => Pg::waiting_for_others(id, interval()),
                    true => Pg::stored(id, interval()),
                    false if self.splits.holds_back(id) => Pg::waiting_for_others(id, interval()),
                    false => Pg::absent(id, interval()),
                };
                (pg.core.primary_since, pg.core.not_before) = (began, began);
                pg.start_interval(&mut self.host.context(), interval(), began);
                self.pgs.insert(id, pg);
                return Some(id);
            }
        }
        None
    }
}

/// Tells whether the group's pool has been deleted. A pool with a higher number than any that the map has had is one
/// that the map does not know yet.
fn was_deleted(map: &OsdMap, id: PgId) -> bool {
    let pool = id.pool.base();
    !map.pools.contains_key(&pool) && pool.0 <= map.pool_max.into()
}

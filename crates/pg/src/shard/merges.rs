//! Tables that are to become one, as their pool has fewer groups than when they were written.
//!
//! They are read, whether the groups were in memory or not: so it is the same whether an OSD was there when groups were
//! merged or has just started. The group that comes of them waits.

use super::Shard;
use crate::context::Fatal;
use crate::context::Output;
use crate::group::interval::{Interval, PoolShape};
use crate::group::load_progress::LoadError;
use crate::group::merging::merge_tables;
use crate::group::pg::Pg;
use osdmap::OsdMap;
use std::collections::{BTreeMap, BTreeSet};
use store::LookupId;
use types::PgId;

/// Merges by the group that is to come of them.
#[derive(Default)]
pub(super) struct Merges(BTreeMap<PgId, Merge>);

/// Tables that are to become that of one group.
struct Merge {
    /// Number of groups that the pool has now.
    pg_num: u32,
    /// Tables to be merged, that of the group itself first, if it has one.
    tables: Vec<Pg>,
    /// True if one of the tables cannot be read: they stay as they are.
    has_failed: bool,
}

impl Merges {
    /// Tells whether tables that are to become this group's are not merged yet.
    pub fn awaits(&self, id: PgId) -> bool {
        self.0.contains_key(&id)
    }

    /// Tells whether the reading of a table waited for this lookup.
    pub fn load_waited_for(&mut self, id: PgId, lookup: LookupId) -> bool {
        let mut tables = self.0.values_mut().flat_map(|merge| &mut merge.tables);
        tables.find(|pg| pg.id() == id).is_some_and(|pg| pg.load_waited_for(lookup))
    }
}

impl Merge {
    fn ids(&self) -> impl Iterator<Item = PgId> {
        self.tables.iter().map(Pg::id)
    }
}

impl Shard {
    /// Finds the tables that are to be merged now that this map is in force. Before the OSD `is_shown` the map may be
    /// one from before those that it had when it wrote them.
    pub(super) fn gather_merges(&mut self, map: &OsdMap, is_shown: bool) {
        let mut wanted: BTreeMap<PgId, BTreeSet<PgId>> = BTreeMap::new();
        for id in self.host.store.pgs().into_iter().filter(|_| is_shown) {
            let Some(pool) = map.pools.get(&id.pool.base()).filter(|pool| id.seed >= pool.pg_num) else { continue };
            let target = PgId { seed: osdmap::split_parent(id.seed, pool.pg_num), ..id };
            if !self.is_home_of(target) {
                let (pg_num, shards) = (pool.pg_num, self.homes.shards());
                self.host.outbox.outputs.push(Output::Fatal(Fatal::MergedOverShards {
                    from: id,
                    into: target,
                    pg_num,
                    shards,
                }));
                continue;
            }
            wanted.entry(target).or_insert_with(|| BTreeSet::from([target])).insert(id);
        }
        self.merges.0.retain(|target, _| wanted.contains_key(target));
        for (target, tables) in wanted {
            let pool = &map.pools[&target.pool.base()];
            let tables: Vec<PgId> = tables.into_iter().filter(|id| self.host.store.pgs_contain(*id)).collect();
            // Tables that could not be read are tried again: this OSD may have become a member.
            let known = self.merges.0.get(&target).filter(|merge| !merge.has_failed);
            if known.is_some_and(|merge| merge.pg_num == pool.pg_num && merge.ids().eq(tables.iter().copied())) {
                continue;
            }
            // Tables of a pool that cannot be served stay as they are.
            let Ok(shape) = PoolShape::of(map, pool) else { continue };
            let interval = Interval::of_nobody(map.epoch, shape);
            for id in tables.iter().chain([&target]) {
                self.put_away(*id);
                self.splits.forget(*id);
            }
            self.splits.await_merge(target);
            let tables = tables.into_iter().map(|id| Pg::to_be_merged(id, interval.clone())).collect();
            self.merges.0.insert(target, Merge { pg_num: pool.pg_num, tables, has_failed: false });
        }
    }

    /// Takes a group out of memory; what it has is durable, or on its way to be.
    pub(super) fn put_away(&mut self, id: PgId) {
        if let Some(mut pg) = self.pgs.remove(&id) {
            pg.leave(&mut self.host.context());
            self.host.outbox.reports.remove(&id);
        }
        self.check.forget(id);
    }

    /// Reads on in tables that are to be merged, and merges those that are read. One group's after the other's: tables
    /// of many would take much memory.
    pub(super) fn read_merges(&mut self) {
        let mut merges = std::mem::take(&mut self.merges.0);
        let mut done = Vec::new();
        for (target, merge) in merges.iter_mut().filter(|(_, merge)| !merge.has_failed) {
            for pg in merge.tables.iter_mut().filter(|pg| pg.is_loading() && !pg.waits_for_lookup()) {
                if let Err(error) = pg.load(&mut self.host.context()) {
                    merge.has_failed = true;
                    self.merge_failed(*target, error);
                    break;
                }
            }
            if merge.has_failed {
                continue;
            }
            if merge.tables.iter().any(Pg::is_loading) {
                break;
            }
            merge_tables(&mut self.host.context(), *target, merge.pg_num, &merge.tables);
            merge.tables.clear();
            done.push(*target);
        }
        merges.retain(|target, _| !done.contains(target));
        self.merges.0 = merges;
        for target in done {
            self.merged(target);
        }
    }

    fn merge_failed(&mut self, target: PgId, error: LoadError) {
        match self.pgs.contains_key(&target) {
            true => self.host.outbox.outputs.push(Output::Fatal(Fatal::Table(error))),
            // No other OSD counts on the group here. If this OSD becomes a member, it reports the error again.
            false => tracing::error!("{error}"),
        }
    }

    /// Goes on with a group whose tables have become one.
    fn merged(&mut self, target: PgId) {
        let is_stored = self.host.store.pgs_contain(target);
        match self.pgs.get_mut(&target) {
            Some(pg) => {
                pg.others_done(is_stored);
                self.load_group(target);
            }
            // The group may be of fewer groups than the pool has now.
            None => self.examine_strays(),
        }
    }
}

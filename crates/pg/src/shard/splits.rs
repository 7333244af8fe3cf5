//! Groups of this OSD that are to be split or merged, and when.
//!
//! Groups in memory are split as the map comes into force that says so, before their new intervals begin. Tables that
//! are not in memory, or not yet, are read first; groups that come of them wait for that. Tables that are to be merged
//! ([`super::merges`]) are always read first.

use super::Shard;
use crate::context::Fatal;
use crate::context::Output;
use crate::group::interval::{Interval, PoolShape};
use crate::group::pg::Pg;
use crate::group::split::ancestors;
use crate::shard::maps::Advance;
use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, PgId};

#[derive(Default)]
pub(super) struct Splits {
    /// Groups with a table of which it is not known whether it is of the map's number of groups.
    unexamined: BTreeSet<PgId>,
    /// Groups among them that this OSD is no member of, while they are read.
    reading: BTreeMap<PgId, Pg>,
}

impl Splits {
    /// Tells whether something of this group, which has no table, may still be in another one's table.
    pub fn holds_back(&self, id: PgId) -> bool {
        !self.unexamined.is_empty() && ancestors(id.seed).any(|seed| self.unexamined.contains(&PgId { seed, ..id }))
    }

    /// Returns a group that is read.
    pub fn reading(&mut self, id: PgId) -> Option<&mut Pg> {
        self.reading.get_mut(&id)
    }

    /// Tells whether the group's table may be of another number of groups.
    pub fn is_unexamined(&self, id: PgId) -> bool {
        self.unexamined.contains(&id)
    }

    /// Notes that the group's table is to be merged with others first.
    pub(super) fn await_merge(&mut self, id: PgId) {
        self.unexamined.insert(id);
        self.reading.remove(&id);
    }

    /// Forgets the group, whose table is to become part of another one.
    pub(super) fn forget(&mut self, id: PgId) {
        self.unexamined.remove(&id);
        self.reading.remove(&id);
    }
}

impl Shard {
    /// Splits what is to be split in the map that comes into force, as far as it is in memory.
    pub(super) fn split_groups(&mut self, advance: &Advance) {
        let (before, map) = (&advance.before, &advance.map);
        let nothing_known = before.epoch == Epoch(0) || advance.skipped_since.is_some();
        let pools = map
            .pools
            .iter()
            .filter(|(id, pool)| nothing_known || before.pools.get(id).is_none_or(|known| known.pg_num != pool.pg_num));
        let pg_nums: BTreeMap<_, _> = pools.map(|(id, pool)| (*id, pool.pg_num)).collect();
        self.splits.unexamined.retain(|id| map.pools.contains_key(&id.pool.base()));
        if pg_nums.is_empty() {
            return;
        }
        let changed = |id: &PgId| {
            let Some(pg_num) = pg_nums.get(&id.pool.base()).filter(|pg_num| id.seed < **pg_num) else { return false };
            let known = before.pools.get(&id.pool.base()).filter(|_| !nothing_known);
            known.is_none_or(|known| !osdmap::same_range(id.seed, known.pg_num, *pg_num))
        };
        let stored = self.host.store.pgs();
        let all: BTreeSet<PgId> = stored.into_iter().chain(self.pgs.keys().copied()).filter(changed).collect();
        for id in all {
            let pg_num = pg_nums[&id.pool.base()];
            match self.pgs.get_mut(&id) {
                Some(pg) if !pg.is_loading() && pg.core.info.pg_num <= pg_num => {
                    if !pg.split(&mut self.host.context(), pg_num).is_empty() {
                        self.check.forget(id);
                    }
                }
                in_memory => {
                    if in_memory.is_some_and(|pg| !pg.is_loading()) {
                        // The group has more objects now. It is unknown which until tables are read.
                        self.put_away(id);
                    }
                    self.splits.unexamined.insert(id);
                    self.splits.reading.remove(&id);
                }
            }
        }
    }

    /// Reads tables of groups that this OSD is no member of and that may have to be split.
    pub(super) fn examine_strays(&mut self) {
        let map = self.host.maps.current().clone();
        let pgs = &self.pgs;
        self.splits.reading.retain(|id, _| !pgs.contains_key(id));
        // The OSD cannot tell which groups it is a member of until the map shows it.
        if self.splits.unexamined.is_empty() || !self.is_shown_by(&map) {
            return;
        }
        let pgs = &self.pgs;
        let merges = &self.merges;
        let is_free = |id: &&PgId| !pgs.contains_key(id) && !merges.awaits(**id);
        let strays: Vec<PgId> = self.splits.unexamined.iter().filter(is_free).copied().collect();
        for id in strays {
            if self.splits.reading.contains_key(&id) {
                continue;
            }
            let shape = map.pools.get(&id.pool.base()).and_then(|pool| PoolShape::of(&map, pool).ok());
            match shape.filter(|_| self.host.store.pgs_contain(id)) {
                Some(shape) => {
                    let interval = Interval::of_nobody(map.epoch, shape);
                    self.splits.reading.insert(id, Pg::stored(id, interval));
                    self.read_stray(id);
                }
                None => self.table_examined(id),
            }
        }
    }

    /// Reads on in a group that this OSD is no member of.
    pub(super) fn read_stray(&mut self, id: PgId) {
        let Some(pg) = self.splits.reading.get_mut(&id) else { return };
        if let Err(error) = pg.load(&mut self.host.context()) {
            // No other OSD counts on the group here. If this OSD becomes a member, it reports the error again.
            tracing::error!("{error}");
        } else if pg.is_loading() {
            return;
        }
        self.splits.reading.remove(&id);
        self.table_examined(id);
    }

    /// Goes on with groups that have waited for a group's table, which is of the map's number of groups now.
    pub(super) fn table_examined(&mut self, id: PgId) {
        if !self.splits.unexamined.remove(&id) {
            return;
        }
        let (pgs, splits) = (&self.pgs, &self.splits);
        let merges = &self.merges;
        let is_free = |id: PgId| !splits.holds_back(id) && !merges.awaits(id);
        let waits = |(id, pg): (&PgId, &Pg)| (pg.waits_for_others() && is_free(*id)).then_some(*id);
        let free: Vec<PgId> = pgs.iter().filter_map(waits).collect();
        for id in free {
            let is_stored = self.host.store.pgs_contain(id);
            if let Some(pg) = self.pgs.get_mut(&id).filter(|pg| pg.waits_for_others()) {
                pg.others_done(is_stored);
                self.load_group(id);
            }
        }
    }

    /// Reads on in a group's table.
    pub(super) fn load_group(&mut self, id: PgId) {
        let Some(pg) = self.pgs.get_mut(&id) else { return };
        let loaded = pg.load(&mut self.host.context());
        let is_loading = pg.is_loading();
        self.settle();
        if let Err(error) = loaded {
            return self.host.outbox.outputs.push(Output::Fatal(Fatal::Table(error)));
        }
        if !is_loading {
            self.table_examined(id);
        }
    }
}

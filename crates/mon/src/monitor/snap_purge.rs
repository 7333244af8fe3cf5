//! Removed snapshots are forgotten once nothing of them is left.

use super::Monitor;
use osdmap::Incremental;
use std::collections::BTreeMap;
use types::{PgId, PoolId};
use wire::basic::IntervalSet;

impl Monitor {
    /// Takes snapshots out of the map's queues once every placement group of their pool is done with them.
    pub(super) fn purge_snaps(&self, incremental: &mut Incremental) {
        let map = self.state.osdmap();
        let purged: BTreeMap<PoolId, IntervalSet> =
            map.removed_snaps_queue.iter().map(|(pool, queue)| (*pool, self.trimmed_snaps(*pool, queue))).collect();
        for (pool, snaps) in purged.into_iter().filter(|(_, snaps)| !snaps.is_empty()) {
            incremental.new_purged_snaps.entry(pool).or_default().union(&snaps);
        }
    }

    /// Returns the snapshots of `queue` that all groups of the pool have reported to be done with.
    fn trimmed_snaps(&self, pool: PoolId, queue: &IntervalSet) -> IntervalSet {
        let Some(known) = self.state.osdmap().pools.get(&pool) else { return IntervalSet::new() };
        let mut trimmed = queue.clone();
        let mut groups = 0;
        for (_, pg) in self.volatile.pgs.range(PgId { pool, seed: 0 }..=PgId { pool, seed: u32::MAX }) {
            trimmed.intersect(&pg.report.trimmed_snaps);
            groups += 1;
        }
        if groups == known.pg_num { trimmed } else { IntervalSet::new() }
    }
}

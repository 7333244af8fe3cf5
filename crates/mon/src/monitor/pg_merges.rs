//! Merges placement groups where a pool should have fewer.
//!
//! A merge is prepared in one epoch: from then on the groups concerned serve no client. It is made once all of them are
//! recorded in the interval that began with that epoch, with the same members, each of which has everything: then no
//! update is on its way, and members know by that interval that they have all of both. If that takes too long, or the
//! interval ends, the groups serve again.
//!
//! Before that, groups are placed alike: replicated ones by the same exceptions, erasure-coded ones also with their
//! shards in the same order (`shard_orders.rs`).

use super::osd_changes::Draft;
use super::{Monitor, Now};
use crate::osd_shards;
use crate::pg_numbers::{fewest_next, follow_exceptions, merge, merge_pairs};
use crate::shard_orders::{clean_report, same_osds};
use crate::state::{LogPriority, PgRecord};
use mutant::Mutant;
use osdmap::{OsdMap, PgPool, UpActing};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId, PgId, PoolId};

/// Longest time for which groups serve no client while a merge is prepared.
const PREPARED_MAX: Duration = Duration::from_secs(6);
/// Pause after which a pool whose groups could not be merged is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Groups merged at a time: they serve no client for a moment.
const AT_ONCE: u32 = 16;

/// State that lasts from step to step. A monitor that has just started knows of no merge that is prepared, and takes it
/// back.
#[derive(Default)]
pub(super) struct PgMerges {
    prepared: BTreeMap<PoolId, Prepared>,
    /// Time from which on the next merge of a pool may be prepared, if the last one could not be made.
    retry_at: BTreeMap<PoolId, Duration>,
}

struct Prepared {
    /// The epoch in which the groups stopped serving.
    since: Epoch,
    at: Duration,
    /// Placement of the groups in that epoch; and the pool's `size` and `min_size`.
    placed: BTreeMap<PgId, UpActing>,
    sizes: (u8, u8),
    /// True once the interval has ended.
    is_over: bool,
}

fn placed(map: &OsdMap, id: PoolId, pool: &PgPool) -> BTreeMap<PgId, UpActing> {
    let groups = merge_pairs(id, pool.pg_num, pool.pg_num_pending).flat_map(|(source, target)| [source, target]);
    groups.filter_map(|pg| Some((pg, map.pg_to_up_acting(pg).ok()?))).collect()
}

fn sizes(pool: &PgPool) -> (u8, u8) {
    (pool.size, pool.min_size)
}

fn is_prepared(pool: &PgPool) -> bool {
    pool.pg_num_pending < pool.pg_num
}

impl Monitor {
    /// Follows a changed map: the interval of groups that are to be merged may have ended by that.
    pub(super) fn follow_merges(&mut self, now: Now) {
        let map = self.state.osdmaps.current();
        let prepared = &mut self.pg_merges.prepared;
        prepared.retain(|id, _| map.pools.get(id).is_some_and(is_prepared));
        self.pg_merges.retry_at.retain(|id, _| map.pools.contains_key(id));
        for (id, pool) in map.pools.iter().filter(|(_, pool)| is_prepared(pool)) {
            // The field holds the epoch of the last change that has operations sent again: none comes after the
            // preparation.
            let since = pool.last_force_op_resend_prenautilus;
            let now_placed = placed(map, *id, pool);
            match prepared.get_mut(id).filter(|known| known.since == since) {
                Some(known) => known.is_over |= known.placed != now_placed || known.sizes != sizes(pool),
                None => {
                    let is_over = since != map.epoch;
                    let at = now.since_start;
                    let new = Prepared { since, at, placed: now_placed, sizes: sizes(pool), is_over };
                    prepared.insert(*id, new);
                }
            }
        }
    }

    /// Returns true if a merge waits for records.
    pub(super) fn awaits_merges(&self) -> bool {
        !self.pg_merges.prepared.is_empty()
    }

    /// Makes or takes back one merge that is prepared. Records of the pools `recorded` change in the same batch.
    pub(super) fn settle_merges(&mut self, now: Now, recorded: &BTreeSet<PoolId>, draft: &mut Draft) {
        let map = self.state.osdmaps.current().clone();
        for (id, pool) in map.pools.iter().filter(|(_, pool)| is_prepared(pool)) {
            let name = map.pool_name(*id).unwrap_or_default();
            let pending = pool.pg_num_pending;
            let known = self.pg_merges.prepared.get(id);
            let waits = known.is_some_and(|known| !known.is_over && now.since_start < known.at + PREPARED_MAX);
            let is_wanted = pool.pg_num_target <= pending && pool.pgp_num <= pending;
            if waits && is_wanted && !recorded.contains(id) && self.may_merge(*id, pool) {
                let (source, target) = (PgId { pool: *id, seed: pending }, osdmap::split_parent(pending, pending));
                let stat =
                    |pg: &PgId| self.volatile.pgs.get(pg).map(|stat| stat.report.last_update).unwrap_or_default();
                let versions = (stat(&source), stat(&PgId { pool: *id, seed: target }));
                merge(&map, *id, versions, draft.incremental());
                draft.note(LogPriority::INFO, format!("pool '{name}' has {pending} placement groups now"));
            } else if !waits || !is_wanted {
                let epoch = draft.incremental().epoch;
                let changed = PgPool {
                    pg_num_pending: pool.pg_num,
                    last_change: epoch,
                    last_force_op_resend_prenautilus: epoch,
                    ..pool.clone()
                };
                draft.incremental().new_pools.insert(*id, changed);
                self.pg_merges.retry_at.insert(*id, now.since_start + RETRY_AFTER);
                draft.note(LogPriority::INFO, format!("placement groups of pool '{name}' are not merged yet"));
            } else {
                continue;
            }
            return;
        }
    }

    /// Returns true if all groups that are to be merged have stopped serving and lack nothing.
    fn may_merge(&self, id: PoolId, pool: &PgPool) -> bool {
        let Some(known) = self.pg_merges.prepared.get(&id) else { return false };
        mutant::is(Mutant::MergeUnrecorded)
            || merge_pairs(id, pool.pg_num, pool.pg_num_pending).all(|(source, target)| {
                let record = |pg| self.state.pgs.get(&pg).filter(|record| record.last_epoch_started == known.since);
                let (Some(a), Some(b)) = (record(source), record(target)) else { return false };
                let members = |record: &PgRecord| record.members.iter().copied().collect::<BTreeSet<OsdId>>();
                // In erasure-coded pools each member must also have the same shard of both groups: a merge joins the
                // tables of one shard.
                let acting = known.placed.get(&target).map(|placed| placed.acting.iter().copied().collect());
                let are_whole = a.past.is_empty() && b.past.is_empty() && a.members.len() == usize::from(pool.size);
                let holders = |record: &PgRecord| record.holders().collect::<BTreeSet<_>>();
                let are_alike = match mutant::is(Mutant::MergesOtherShards) {
                    false => holders(a) == holders(b),
                    true => members(a) == members(b),
                };
                are_whole && are_alike && Some(members(a)) == acting
            })
    }

    /// Brings a pool that should have fewer groups a step further: prepares the next merge, or places groups such that
    /// it can be made. Returns true if there is a change.
    pub(super) fn merge_step(
        &mut self,
        now: Now,
        (id, pool): (PoolId, &PgPool),
        is_careful: bool,
        draft: &mut Draft,
    ) -> bool {
        let map = self.state.osdmaps.current().clone();
        let name = map.pool_name(id).unwrap_or_default();
        if !pool.is_erasure() && follow_exceptions(&map, id, draft.incremental()) {
            draft.note(LogPriority::DEBUG, format!("pool '{name}': groups that are to be merged are placed alike"));
            return true;
        }
        if self.prepare_merge(now, (id, pool), is_careful, draft) {
            return true;
        }
        let room = if is_careful { self.room(id) } else { Some(f64::INFINITY) };
        if let Some(room) = room.filter(|_| pool.is_erasure()) {
            self.order_shards(id, pool, room * f64::from(pool.pg_num) * f64::from(pool.size), draft);
        }
        let is_any = !draft.is_empty();
        if is_any {
            draft.note(
                LogPriority::DEBUG,
                format!("pool '{name}': shards of groups that are to be merged are put in order"),
            );
        }
        is_any
    }

    /// Prepares the next merge, if the groups concerned are ready for it. Returns true if they are.
    fn prepare_merge(&mut self, now: Now, (id, pool): (PoolId, &PgPool), is_careful: bool, draft: &mut Draft) -> bool {
        let map = self.state.osdmaps.current().clone();
        let name = map.pool_name(id).unwrap_or_default();
        if self.pg_merges.retry_at.get(&id).is_some_and(|at| now.since_start < *at) || self.has_unsettled(id) {
            return false;
        }
        let is_clean = |pg: PgId| clean_report(&self.volatile, pg).is_some();
        // The places of the acting set are an erasure-coded group's shards, whatever order the up set has.
        let is_there = |placed: &UpActing| match pool.is_erasure() {
            false => placed.up == placed.acting || !is_careful,
            true => same_osds(&placed.up, &placed.acting),
        };
        let are_alike = |x: &UpActing, y: &UpActing| match mutant::is(Mutant::MergesOtherShards) {
            false => x == y,
            true => same_osds(&x.acting, &y.acting),
        };
        let is_ready = |source: u32| {
            let [a, b] = [source, osdmap::split_parent(source, source)].map(|seed| PgId { pool: id, seed });
            let (Ok(x), Ok(y)) = (map.pg_to_up_acting(a), map.pg_to_up_acting(b)) else { return false };
            let is_full = x.acting.len() == usize::from(pool.size) && x.acting.iter().all(|osd| osd.is_some());
            are_alike(&x, &y) && is_full && is_there(&x) && (!is_careful || is_clean(a) && is_clean(b))
        };
        // An OSD with more shards may have come since fewer groups were asked for.
        let kept = osd_shards::groups_min(&self.state).min(pool.pg_num);
        let least = fewest_next(pool).max(pool.pg_num.saturating_sub(AT_ONCE)).max(kept);
        let pending = (least..pool.pg_num).rev().take_while(|source| is_ready(*source)).last();
        let Some(pending) = pending else { return false };
        let epoch = draft.incremental().epoch;
        let changed = PgPool {
            pg_num_pending: pending,
            last_change: epoch,
            // The epoch also tells since when groups have stopped.
            last_force_op_resend_prenautilus: epoch,
            last_force_op_resend_preluminous: epoch,
            ..pool.clone()
        };
        draft.incremental().new_pools.insert(id, changed);
        draft.note(LogPriority::DEBUG, format!("pool '{name}' is to have {pending} placement groups"));
        true
    }

    /// Returns true if groups of the pool have not served since they got the objects that they have.
    pub(super) fn has_unsettled(&self, id: PoolId) -> bool {
        let groups = self.state.pgs.range(PgId { pool: id, seed: 0 }..=PgId { pool: id, seed: u32::MAX });
        groups.map(|(_, record)| record).any(|record| record.last_epoch_started < record.range_since)
    }
}

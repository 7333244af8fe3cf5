//! Numbers of pools' placement groups: the consequences of a change, and the size of a step.
//!
//! An operator sets the target. `pg_num` follows in steps of at most twice as many, each once the groups of the step
//! before are clean; that moves nothing. Then `pgp_num`, by which groups are placed, follows in steps that keep few
//! copies on their way at a time. When there should be fewer groups, `pgp_num` goes first, so that groups come to the
//! OSDs of those that they are merged with; then `pg_num` follows, in steps that merge pairs of groups. Ceph's manager
//! does the same.

use crate::{MonState, pools};
use osdmap::{Incremental, OsdMap, PgMergeMeta, PgPool, TempSet};
use types::{EVersion, PgId, PoolId};

/// Gives a pool more groups in `incremental`. They begin where their parents are: a parent's stand-in acting set and
/// exceptions of placement hold for its children as well.
///
/// Panics if the pool would not have more groups than in the map.
pub(crate) fn split(map: &OsdMap, id: PoolId, pg_num: u32, incremental: &mut Incremental) {
    let pool = &map.pools[&id];
    let before = pool.pg_num;
    assert!(before < pg_num, "pool {id} has {before} groups, and should get {pg_num}");
    for child in before..pg_num {
        let (pg, parent) =
            (PgId { pool: id, seed: child }, PgId { pool: id, seed: osdmap::split_parent(child, before) });
        if let Some(osds) = map.pg_temp.get(&parent) {
            incremental.new_pg_temp.insert(pg, osds.clone());
        }
        if let Some(osd) = map.primary_temp.get(&parent) {
            incremental.new_primary_temp.insert(pg, Some(*osd));
        }
        if let Some(osds) = map.pg_upmap.get(&parent) {
            incremental.new_pg_upmap.insert(pg, osds.to_vec());
        }
        if let Some(items) = map.pg_upmap_items.get(&parent) {
            incremental.new_pg_upmap_items.insert(pg, items.to_vec());
        }
        if let Some(osd) = map.pg_upmap_primaries.get(&parent) {
            incremental.new_pg_upmap_primary.insert(pg, *osd);
        }
    }
    let epoch = incremental.epoch;
    incremental.new_pools.insert(
        id,
        PgPool {
            pg_num,
            pg_num_pending: pg_num,
            last_change: epoch,
            // Clients from before Nautilus do not know that a change of the number begins an interval.
            last_force_op_resend_prenautilus: epoch,
            ..pool.clone()
        },
    );
}

/// Returns the groups that cease to be when a pool gets fewer, each with the one that it is merged into.
pub(crate) fn merge_pairs(pool: PoolId, pg_num: u32, pending: u32) -> impl Iterator<Item = (PgId, PgId)> {
    let of_seed = move |seed| PgId { pool, seed };
    (pending..pg_num).map(move |source| (of_seed(source), of_seed(osdmap::split_parent(source, pending))))
}

/// Returns the fewest groups that the pool may have next: each that ceases to be has another one to be merged into,
/// beside which it is placed. Returns `pg_num` if the pool should not have fewer.
pub(crate) fn fewest_next(pool: &PgPool) -> u32 {
    let half = pool.pg_num.checked_sub(1).and_then(u32::checked_ilog2).map_or(1, |bits| 1 << bits);
    pool.pg_num_target.max(pool.pgp_num).max(half).min(pool.pg_num)
}

/// Gives a pool the fewer groups that are pending. `versions`: as far as known, the ends of the logs of the first pair.
pub(crate) fn merge(map: &OsdMap, id: PoolId, versions: (EVersion, EVersion), incremental: &mut Incremental) {
    let pool = &map.pools[&id];
    for (source, _) in merge_pairs(id, pool.pg_num, pool.pg_num_pending) {
        forget_exceptions(map, source, incremental);
        if map.pg_temp.contains_key(&source) {
            incremental.new_pg_temp.insert(source, TempSet::default());
        }
        if map.primary_temp.contains_key(&source) {
            incremental.new_primary_temp.insert(source, None);
        }
    }
    let (epoch, stopped) = (incremental.epoch, pool.last_force_op_resend_prenautilus);
    let last_pg_merge_meta = PgMergeMeta {
        source: PgId { pool: id, seed: pool.pg_num_pending },
        ready_epoch: epoch,
        last_epoch_started: stopped,
        last_epoch_clean: stopped,
        source_version: versions.0,
        target_version: versions.1,
    };
    let changed = PgPool {
        pg_num: pool.pg_num_pending,
        last_change: epoch,
        last_force_op_resend_prenautilus: epoch,
        last_pg_merge_meta,
        ..pool.clone()
    };
    incremental.new_pools.insert(id, changed);
}

/// Removes a group's exceptions of placement, so that CRUSH alone places it.
pub(crate) fn forget_exceptions(map: &OsdMap, pg: PgId, incremental: &mut Incremental) {
    if map.pg_upmap.contains_key(&pg) {
        incremental.old_pg_upmap.insert(pg);
    }
    if map.pg_upmap_items.contains_key(&pg) {
        incremental.old_pg_upmap_items.insert(pg);
    }
    if map.pg_upmap_primaries.contains_key(&pg) {
        incremental.old_pg_upmap_primary.insert(pg);
    }
}

/// Gives the group `source` the exceptions of placement that `target` has.
pub(crate) fn place_as(map: &OsdMap, source: PgId, target: PgId, incremental: &mut Incremental) {
    forget_exceptions(map, source, incremental);
    if let Some(osds) = map.pg_upmap.get(&target) {
        incremental.old_pg_upmap.remove(&source);
        incremental.new_pg_upmap.insert(source, osds.to_vec());
    }
    if let Some(items) = map.pg_upmap_items.get(&target) {
        incremental.old_pg_upmap_items.remove(&source);
        incremental.new_pg_upmap_items.insert(source, items.to_vec());
    }
    if let Some(osd) = map.pg_upmap_primaries.get(&target) {
        incremental.old_pg_upmap_primary.remove(&source);
        incremental.new_pg_upmap_primary.insert(source, *osd);
    }
}

/// Gives groups that are to be merged into others the exceptions of placement of those. Returns true if that changes
/// anything.
pub(crate) fn follow_exceptions(map: &OsdMap, id: PoolId, incremental: &mut Incremental) -> bool {
    let pool = &map.pools[&id];
    let mut any = false;
    for (source, target) in merge_pairs(id, pool.pg_num, pool.pg_num_target) {
        let same = map.pg_upmap.get(&source) == map.pg_upmap.get(&target)
            && map.pg_upmap_items.get(&source) == map.pg_upmap_items.get(&target)
            && map.pg_upmap_primaries.get(&source) == map.pg_upmap_primaries.get(&target);
        if same {
            continue;
        }
        any = true;
        place_as(map, source, target, incremental);
    }
    any
}

/// Prepares an erasure-coded pool for `pg_num` groups: groups that are not to be merged any more are placed by CRUSH
/// again, because their exceptions may be a part of the way to the merge. The present acting sets go on until the new
/// ones have everything.
pub(crate) fn end_orders(map: &OsdMap, id: PoolId, pg_num: u32, incremental: &mut Incremental) {
    let pool = &map.pools[&id];
    for seed in pool.pg_num_target.min(pg_num)..pool.pg_num.min(pg_num) {
        let pg = PgId { pool: id, seed };
        if !map.pg_upmap.contains_key(&pg) {
            continue;
        }
        forget_exceptions(map, pg, incremental);
        let acting = map.pg_to_up_acting(pg).map(|placed| placed.acting).unwrap_or_default();
        let is_full = acting.len() == usize::from(pool.size) && acting.iter().all(|osd| osd.is_some());
        if is_full && map.pg_temp.get(&pg).map_or(&[][..], |osds| osds) != acting {
            incremental.new_pg_temp.insert(pg, acting.into());
        }
    }
}

/// Returns the number of groups that the pool gets next; `None` if it has as many as it should have.
pub(crate) fn next_pg_num(pool: &PgPool) -> Option<u32> {
    let next = pool.pg_num_target.min(pool.pg_num.saturating_mul(2));
    (next > pool.pg_num).then_some(next)
}

/// Returns the next `pgp_num` of a pool, such that at most `room` of its groups are placed anew, but at least one step;
/// `None` if it is as it should be.
///
/// `room`: a share, may be infinite.
pub(crate) fn next_pgp_num(pool: &PgPool, room: f64) -> Option<u32> {
    let target = pool.pgp_num_target.min(pool.pg_num);
    let groups_max = room * f64::from(pool.pg_num);
    let (mut next, mut moved) = (pool.pgp_num, 0.0);
    while next != target {
        // The step is between `step` and `next`; it changes the placement of groups whose low bits are `low`.
        let (step, low) = if next < target { (next + 1, next) } else { (next - 1, next - 1) };
        if low > 0 {
            let every = 1u32.checked_shl(low.ilog2() + 1).unwrap_or(u32::MAX);
            moved += f64::from((pool.pg_num - low).div_ceil(every));
        }
        if moved > groups_max && next != pool.pgp_num {
            break;
        }
        next = step;
    }
    (next != pool.pgp_num).then_some(next)
}

/// Refuses more groups than OSDs should carry.
pub(crate) fn check_growth(state: &MonState, pool: &PgPool, pg_num: u32) -> Result<(), pools::PoolError> {
    pools::check_pg_count_instead(state, u64::from(pool.pg_num) * u64::from(pool.size), pg_num, pool.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn steps_of_placement_come_to_their_end(
            pg_num in 1u32..300, from: u32, to: u32, room in prop_oneof![Just(0.0), Just(f64::INFINITY), 0.0f64..0.5]
        ) {
            let mut pool = PgPool::replicated(3, pg_num, 0);
            (pool.pgp_num, pool.pgp_num_target) = (from % pg_num + 1, to % pg_num + 1);
            let mut steps = 0;
            while let Some(next) = next_pgp_num(&pool, room) {
                prop_assert!(next.abs_diff(pool.pgp_num_target) < pool.pgp_num.abs_diff(pool.pgp_num_target));
                let placed = |pgp_num: u32| {
                    (0..pg_num).map(move |seed| osdmap::split_parent(seed, pgp_num)).collect::<Vec<u32>>()
                };
                let moved = placed(pool.pgp_num).iter().zip(placed(next)).filter(|(a, b)| **a != *b).count();
                let is_least = next.abs_diff(pool.pgp_num) == 1;
                prop_assert!(is_least || moved as f64 <= room * f64::from(pg_num), "{moved} of {pg_num}");
                pool.pgp_num = next;
                steps += 1;
                prop_assert!(steps <= pg_num);
            }
            prop_assert_eq!(pool.pgp_num, pool.pgp_num_target);
        }
    }

    #[test]
    fn each_that_ceases_to_be_has_one_to_be_merged_into() {
        let mut pool = PgPool::replicated(3, 64, 0);
        assert_eq!(fewest_next(&pool), 64);
        (pool.pg_num_target, pool.pgp_num) = (6, 64);
        assert_eq!(fewest_next(&pool), 64, "not as long as they are placed apart");
        pool.pgp_num = 6;
        let mut seen = Vec::new();
        while fewest_next(&pool) < pool.pg_num {
            let next = fewest_next(&pool);
            let pairs: Vec<_> = merge_pairs(PoolId(1), pool.pg_num, next).collect();
            let targets: std::collections::BTreeSet<_> = pairs.iter().map(|(_, target)| target.seed).collect();
            assert_eq!(targets.len(), pairs.len());
            assert!(targets.iter().all(|seed| *seed < next));
            pool.pg_num = next;
            seen.push(next);
        }
        assert_eq!(seen, [32, 16, 8, 6]);
        (pool.pg_num_target, pool.pgp_num) = (1, 1);
        let to = |pg_num| fewest_next(&PgPool { pg_num, ..pool.clone() });
        assert_eq!([6, 4, 3, 2, 1].map(to), [4, 2, 2, 1, 1]);
    }

    #[test]
    fn groups_double_at_most() {
        let mut pool = PgPool::replicated(3, 8, 0);
        assert_eq!(next_pg_num(&pool), None);
        pool.pg_num_target = 50;
        let mut seen = Vec::new();
        while let Some(next) = next_pg_num(&pool) {
            pool.pg_num = next;
            seen.push(next);
        }
        assert_eq!(seen, [16, 32, 50]);
    }
}

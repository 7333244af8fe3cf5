//! How many placement groups pools have: what goes with a change, and how far a step goes.
//!
//! What is asked for is the target. `pg_num` follows in steps of at most twice as many, each once the groups of the step before
//! are clean; that moves nothing. Then `pgp_num`, by which groups are placed, follows so that few copies are on their way at a
//! time. Ceph's manager does the same.

use crate::{MonState, pools};
use osdmap::{Incremental, OsdMap, PgPool};
use types::{PgId, PoolId};

/// Gives a pool more groups in `incremental`. They begin where those are that they come of: what stands for the old
/// ones apart from the pool, stand-in acting sets and exceptions of placement, is so for the new ones.
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
            incremental.new_pg_temp.insert(pg, osds.to_vec());
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

/// How many groups the pool gets next; `None` if it has as many as it should have.
pub(crate) fn next_pg_num(pool: &PgPool) -> Option<u32> {
    let next = pool.pg_num_target.min(pool.pg_num.saturating_mul(2));
    (next > pool.pg_num).then_some(next)
}

/// The next `pgp_num` of a pool, such that at most `room` of its groups are placed anew, but at least one step; `None` if it
/// is as it should be.
///
/// `room`: a share, may be infinite.
pub(crate) fn next_pgp_num(pool: &PgPool, room: f64) -> Option<u32> {
    let target = pool.pgp_num_target.min(pool.pg_num);
    let groups_max = room * f64::from(pool.pg_num);
    let (mut next, mut moved) = (pool.pgp_num, 0.0);
    while next != target {
        // The numbers between which the step is; groups with these low bits are placed by another number then.
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

//! The objects of a placement group, in listing order.

use crate::object_hash::{stable_mask, stable_mod};
use types::{ObjectId, PgId, PoolId, SnapId};

/// Returns the number of low bits of the hash that all objects of a placement group share.
///
/// `pg_num`: the pool's count of placement groups. Groups have different answers where it is no power of two.
pub const fn split_bits(seed: u32, pg_num: u32) -> u32 {
    if pg_num <= 1 {
        return 0;
    }
    let bits = 32 - pg_num.leading_zeros();
    let low = (1 << (bits - 1)) - 1;
    if seed & low < pg_num & low { bits } else { bits - 1 }
}

/// Returns true if a group has the same objects with both of these counts of groups in its pool; it exists with both.
pub const fn same_range(seed: u32, pg_num: u32, other_pg_num: u32) -> bool {
    split_bits(seed, pg_num) == split_bits(seed, other_pg_num)
}

/// Returns true if group `seed` is to be merged with another one once its pool has only `pending` instead of `pg_num`
/// groups: into its split parent, or with its split children.
pub const fn is_merging(seed: u32, pg_num: u32, pending: u32) -> bool {
    pending < pg_num && (seed >= pending || !same_range(seed, pg_num, pending))
}

/// Returns the group that had the objects of group `seed` when its pool had only `pg_num` groups.
pub fn split_parent(seed: u32, pg_num: u32) -> u32 {
    stable_mod(seed, pg_num, stable_mask(pg_num))
}

/// Returns the groups that a group's objects are shared out to, beside itself, when its pool's groups become more.
pub fn split_children(seed: u32, pg_num: u32, more: u32) -> impl Iterator<Item = u32> {
    (pg_num..more).filter(move |child| split_parent(*child, pg_num) == seed)
}

/// Returns the first hash, bit-reversed, behind the placement group; 2^32 behind the last.
const fn reversed_end(seed: u32, pg_num: u32) -> u64 {
    let bits = split_bits(seed, pg_num);
    let free = ((1u64 << (32 - bits)) - 1) as u32;
    (seed.reverse_bits() | free) as u64 + 1
}

fn first_at(pool: PoolId, hash: u32) -> ObjectId {
    ObjectId { pool, hash, ..ObjectId::min() }
}

/// Returns the objects of `pg` as a range: from the first `ObjectId`, included, to the second, excluded.
///
/// Ranges of a pool's placement groups do not overlap and leave no gap.
pub fn pg_range(pg: PgId, pg_num: u32) -> (ObjectId, ObjectId) {
    let end = reversed_end(pg.seed, pg_num);
    let end = match u32::try_from(end) {
        Ok(end) => first_at(pg.pool, end.reverse_bits()),
        Err(_) => first_at(PoolId(pg.pool.0.saturating_add(1)), 0),
    };
    (first_at(pg.pool, pg.seed), end)
}

/// Returns the cursor of a listing of `pg` that has come to the end: the beginning of the next placement group, in the
/// order of hashes; [`ObjectId::max`] behind the last.
pub fn pg_cursor_end(pg: PgId, pg_num: u32) -> ObjectId {
    match u32::try_from(reversed_end(pg.seed, pg_num)) {
        Ok(end) => ObjectId { snap: SnapId::HEAD, ..first_at(pg.pool, end.reverse_bits()) },
        Err(_) => ObjectId::max(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_hash_is_in_the_range_of_its_group_only(pg_num in 1u32..300, hash: u32) {
            let object = ObjectId::head(PoolId(3), hash, b"", b"name");
            let home = stable_mod(hash, pg_num, stable_mask(pg_num));
            for seed in 0..pg_num {
                let (start, end) = pg_range(PgId::new(3, seed), pg_num);
                prop_assert_eq!(start <= object && object < end, seed == home, "{} in {:?}..{:?}", hash, start, end);
            }
        }
    }

    proptest! {
        #[test]
        fn a_split_group_shares_its_range_with_its_children(pg_num in 1u32..70, more in 0u32..90, seed_of: u32) {
            let (more, seed) = (pg_num + more, seed_of % pg_num);
            let children: Vec<u32> = split_children(seed, pg_num, more).collect();
            prop_assert_eq!(children.is_empty(), same_range(seed, pg_num, more));
            let mut parts: Vec<_> =
                children.iter().chain([&seed]).map(|seed| pg_range(PgId::new(3, *seed), more)).collect();
            parts.sort();
            let whole = (parts[0].0.clone(), parts[parts.len() - 1].1.clone());
            prop_assert_eq!(pg_range(PgId::new(3, seed), pg_num), whole);
            prop_assert!(parts.windows(2).all(|pair| pair[0].1 == pair[1].0));
        }
    }

    #[test]
    fn the_merging_are_those_whose_objects_change_groups() {
        let merging =
            |pg_num, pending| (0..pg_num).filter(|seed| is_merging(*seed, pg_num, pending)).collect::<Vec<_>>();
        assert_eq!(merging(8, 8), []);
        assert_eq!(merging(8, 7), [3, 7]);
        assert_eq!(merging(6, 4), [0, 1, 4, 5]);
        assert_eq!(merging(4, 1), [0, 1, 2, 3]);
        assert_eq!(merging(4, 9), [], "they become more");
    }

    #[test]
    fn following_cursors_visits_every_group_once() {
        for pg_num in [1, 2, 3, 5, 8, 12, 100, 128] {
            let (mut cursor, mut seen) = (first_at(PoolId(3), 0), Vec::new());
            while cursor != ObjectId::max() {
                let seed = stable_mod(cursor.hash, pg_num, stable_mask(pg_num));
                seen.push(seed);
                cursor = pg_cursor_end(PgId::new(3, seed), pg_num);
            }
            seen.sort_unstable();
            assert_eq!(seen, (0..pg_num).collect::<Vec<_>>());
        }
    }
}

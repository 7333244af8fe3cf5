//! Homes of placement groups: which of an OSD's shards has which group.
//!
//! The number of shards `n` is a power of two. Groups of a pool whose numbers agree in their low bits, so many that
//! they tell `n` numbers apart, have one home: as long as a pool has `n` groups and more, splits and merges stay within
//! a shard. The home is where such groups have data already. A pool that grows from fewer than `n` groups takes new
//! ones where those are that they are split from. What has no data here is spread evenly.
//!
//! Every shard follows all maps from the same beginning, and so finds the same homes.

use crate::group::split::ancestors;
use osdmap::OsdMap;
use std::collections::BTreeMap;
use types::{PgId, PoolId};

/// Groups with the same low bits lie on two shards. That must not be: each has a part of what the other misses.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("shards {} and {} of this OSD both have data of groups like pg {pg}", shards.0, shards.1)]
pub struct TwoHomes {
    pub pg: PgId,
    pub shards: (usize, usize),
}

/// Homes of groups on an OSD's shards.
#[derive(Clone, Debug)]
pub struct Homes {
    shards: usize,
    /// Shards that had data at the start, by pool and low bits.
    found: BTreeMap<(PoolId, u32), usize>,
    /// Shards of groups with data from which others may have to be split that have homes of their own.
    undivided: BTreeMap<(PoolId, u32), usize>,
    /// Homes in the pools of the map in force, by low bits, of as many groups as the pool has had.
    pools: BTreeMap<PoolId, Vec<usize>>,
}

impl Homes {
    /// Returns homes on one shard.
    pub fn one() -> Homes {
        Homes { shards: 1, found: BTreeMap::new(), undivided: BTreeMap::new(), pools: BTreeMap::new() }
    }

    /// Returns homes on as many shards as there are lists of groups with data. Panics unless that is a power of two.
    pub fn found(groups: &[Vec<PgId>]) -> Result<Homes, TwoHomes> {
        let shards = groups.len();
        assert!(shards.is_power_of_two(), "{shards} shards");
        let mut homes = Homes { shards, ..Homes::one() };
        for (shard, groups) in groups.iter().enumerate() {
            for pg in groups {
                if pg.seed < shards as u32 {
                    homes.undivided.insert((pg.pool.base(), pg.seed), shard);
                }
                let known = homes.found.insert(homes.key(*pg), shard);
                if let Some(other) = known.filter(|known| *known != shard) {
                    return Err(TwoHomes { pg: *pg, shards: (other, shard) });
                }
            }
        }
        Ok(homes)
    }

    pub fn shards(&self) -> usize {
        self.shards
    }

    fn key(&self, pg: PgId) -> (PoolId, u32) {
        (pg.pool.base(), pg.seed & (self.shards as u32 - 1))
    }

    /// Returns the shard that has the group; `None` as long as no map has been followed that shows it.
    pub fn of(&self, pg: PgId) -> Option<usize> {
        if self.shards == 1 {
            return Some(0);
        }
        let (pool, low) = self.key(pg);
        self.pools.get(&pool)?.get(low as usize).copied()
    }

    /// Follows a map that comes into force.
    pub fn follow(&mut self, map: &OsdMap) {
        if self.shards == 1 {
            return;
        }
        self.pools.retain(|id, _| map.pools.contains_key(id));
        for (id, pool) in &map.pools {
            let lows = pool.pg_num.min(self.shards as u32);
            let is_new = !self.pools.contains_key(id);
            let mut known = self.pools.remove(id).unwrap_or_default();
            for low in known.len() as u32..lows {
                // Groups of a new pool that came at the same time have nothing from each other.
                let parent = match is_new {
                    true => self.may_be_in(*id, low),
                    false => ancestors(low).find_map(|low| known.get(low as usize).copied()),
                };
                let found = self.found.get(&(*id, low)).copied();
                let home = found.or(parent).unwrap_or_else(|| self.even(*id, low));
                known.push(home);
            }
            self.pools.insert(*id, known);
        }
    }

    /// Returns the shard with the table from which a group may not have been split yet.
    fn may_be_in(&self, pool: PoolId, low: u32) -> Option<usize> {
        ancestors(low).find_map(|seed| self.undivided.get(&(pool, seed)).copied())
    }

    fn even(&self, pool: PoolId, low: u32) -> usize {
        (pool.0.unsigned_abs() as usize).wrapping_add(low as usize) % self.shards
    }

    /// Returns the shard for a group that a tool brings, when no map is known.
    pub fn for_import(&self, pg: PgId) -> usize {
        let (pool, low) = self.key(pg);
        let found = self.found.get(&(pool, low)).copied();
        found.or_else(|| self.may_be_in(pool, low)).unwrap_or_else(|| self.even(pool, low))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use osdmap::PgPool;
    use types::Fsid;

    fn pg(pool: i64, seed: u32) -> PgId {
        PgId::new(pool, seed)
    }

    fn map_with_pool(pool: i64, pg_num: u32) -> OsdMap {
        let mut map = OsdMap::new(Fsid([1; 16]));
        map.pools.insert(PoolId(pool), PgPool::replicated(3, pg_num, 0));
        map
    }

    fn homes(homes: &Homes, pool: i64, pg_num: u32) -> Vec<Option<usize>> {
        (0..pg_num).map(|seed| homes.of(pg(pool, seed))).collect()
    }

    #[test]
    fn one_shard_has_everything() {
        assert_eq!(Homes::one().of(pg(7, 99)), Some(0));
    }

    #[test]
    fn new_pools_are_spread_and_their_splits_stay() {
        let mut homes = Homes::found(&[vec![], vec![], vec![], vec![]]).unwrap();
        assert_eq!(homes.of(pg(1, 0)), None, "no map shows it");
        homes.follow(&map_with_pool(1, 8));
        let of_8: Vec<_> = (0..8).map(|seed| homes.of(pg(1, seed)).unwrap()).collect();
        assert_eq!(of_8, [1, 2, 3, 0, 1, 2, 3, 0]);
        homes.follow(&map_with_pool(1, 64));
        for seed in 8..64 {
            let parent = osdmap::split_parent(seed, 8);
            assert_eq!(homes.of(pg(1, seed)), Some(of_8[parent as usize]), "{seed} stays with {parent}");
        }
        homes.follow(&map_with_pool(2, 8));
        assert_eq!(homes.of(pg(1, 0)), None, "the pool is gone");
    }

    #[test]
    fn a_pool_that_grows_from_one_group_stays_where_it_is() {
        let mut grown = Homes::found(&[vec![], vec![]]).unwrap();
        grown.follow(&map_with_pool(1, 1));
        assert_eq!(grown.of(pg(1, 1)), None);
        grown.follow(&map_with_pool(1, 4));
        assert_eq!(homes(&grown, 1, 4), [Some(1); 4]);
        // Groups stay there also after a restart with a table that was not split yet.
        let mut restarted = Homes::found(&[vec![], vec![pg(1, 0)]]).unwrap();
        restarted.follow(&map_with_pool(1, 4));
        assert_eq!(homes(&restarted, 1, 4), [Some(1); 4]);
    }

    #[test]
    fn groups_go_where_data_is() {
        let mut found = Homes::found(&[vec![pg(1, 2).of_shard(3)], vec![pg(1, 5)]]).unwrap();
        found.follow(&map_with_pool(1, 8));
        assert_eq!(homes(&found, 1, 4), [Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!((found.for_import(pg(1, 6)), found.for_import(pg(1, 7))), (0, 1));
        // Objects of group 4 belong to no group with another low bit.
        let mut some = Homes::found(&[vec![], vec![pg(1, 4)]]).unwrap();
        some.follow(&map_with_pool(1, 8));
        assert_eq!((homes(&some, 1, 2), some.for_import(pg(1, 1))), (vec![Some(1), Some(0)], 0));
        let found = Homes::found(&[vec![pg(1, 1)], vec![pg(1, 5)]]);
        assert_eq!(found.unwrap_err().shards, (0, 1));
    }
}

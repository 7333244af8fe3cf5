//! The placement of every placement group at one epoch.

use crate::{OsdMap, PlacementError, PlacementScratch, UpActing};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PoolId};

/// Where every placement group of a map is, computed once.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct PgMapping {
    epoch: Epoch,
    /// By pool, then by number.
    pools: BTreeMap<PoolId, Vec<UpActing>>,
    errors: BTreeMap<PoolId, PlacementError>,
}

impl PgMapping {
    /// Maps all placement groups of `map`. Pools that cannot be placed have their reason in [`PgMapping::errors`].
    pub fn compute(map: &OsdMap) -> PgMapping {
        let mut scratch = PlacementScratch::default();
        let mut mapping = PgMapping { epoch: map.epoch, ..PgMapping::default() };
        for (id, pool) in &map.pools {
            let placed: Result<Vec<UpActing>, PlacementError> =
                pool.pgs(*id).map(|pg| map.pg_to_up_acting_with(pg, &mut scratch)).collect();
            match placed {
                Ok(placed) => drop(mapping.pools.insert(*id, placed)),
                Err(error) => drop(mapping.errors.insert(*id, error)),
            }
        }
        mapping
    }

    /// The epoch of the map it was computed from.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn get(&self, pg: PgId) -> Option<&UpActing> {
        self.pools.get(&pg.pool)?.get(pg.seed as usize)
    }

    /// All placement groups that could be placed.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.pools.iter().flat_map(|(pool, placed)| {
            placed.iter().enumerate().map(|(seed, at)| (PgId { pool: *pool, seed: seed as u32 }, at))
        })
    }

    /// Placement groups in whose acting set the OSD is.
    pub fn acting_on(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, at)| at.acting.contains(&osd))
    }

    /// Pools that could not be placed, and why.
    pub fn errors(&self) -> &BTreeMap<PoolId, PlacementError> {
        &self.errors
    }
}

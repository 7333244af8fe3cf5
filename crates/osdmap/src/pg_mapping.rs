//! The placement of every placement group at one epoch.

use crate::mapping_update::MappingUpdate;
use crate::{OsdMap, PlacementError, UpActing};
use std::collections::BTreeMap;
use types::{Epoch, OsdId, PgId, PoolId};

/// The place of every placement group of a map, computed once.
///
/// CRUSH's results are kept beside it: most new epochs change nothing of them, and CRUSH is the expensive part.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct PgMapping {
    pub(crate) epoch: Epoch,
    pub(crate) pools: BTreeMap<PoolId, PoolMapping>,
    pub(crate) errors: BTreeMap<PoolId, PlacementError>,
}

/// The groups of one pool, by number.
#[derive(Clone, Default, PartialEq, Debug)]
pub(crate) struct PoolMapping {
    /// OSDs that CRUSH gives; neither exceptions nor OSDs' states play a part.
    pub(crate) crush: Vec<Vec<OsdId>>,
    pub(crate) placed: Vec<UpActing>,
}

impl PgMapping {
    /// Maps all placement groups of `map`. Pools that cannot be placed have their reason in [`PgMapping::errors`].
    pub fn compute(map: &OsdMap) -> PgMapping {
        let mut update = MappingUpdate::anew(map);
        update.step(map, map, &mut { usize::MAX });
        update.finish().0
    }

    /// Becomes the mapping of `map`, a later map than `before`, from which this one was made; only groups that may
    /// differ are computed anew. Returns the number of placement groups that CRUSH had to place. [`MappingUpdate`] does
    /// it piece by piece.
    ///
    /// Panics if `before` has another epoch than this mapping.
    pub fn follow(&mut self, before: &OsdMap, map: &OsdMap) -> usize {
        let mut update = MappingUpdate::begin(std::mem::take(self), before, map);
        update.step(before, map, &mut { usize::MAX });
        let (mapping, computed) = update.finish();
        *self = mapping;
        computed
    }

    /// Returns the epoch of the map it was computed from.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn get(&self, pg: PgId) -> Option<&UpActing> {
        self.pools.get(&pg.pool)?.placed.get(pg.seed as usize)
    }

    /// Returns the OSDs that CRUSH alone gives a group.
    pub(crate) fn crush(&self, pg: PgId) -> Option<&[OsdId]> {
        self.pools.get(&pg.pool)?.crush.get(pg.seed as usize).map(Vec::as_slice)
    }

    /// Returns all placement groups that could be placed.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.pools.iter().flat_map(|(pool, mapping)| {
            let placed = mapping.placed.iter().enumerate();
            placed.map(|(seed, at)| (PgId { pool: *pool, seed: seed as u32 }, at))
        })
    }

    /// Returns the placement groups in whose acting set the OSD is.
    pub fn acting_on(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, at)| at.acting.contains(&osd))
    }

    /// Returns the placement groups in whose acting or up set the OSD is.
    pub fn involving(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, at)| at.acting.contains(&osd) || at.up.contains(&osd))
    }

    /// Returns the pools that could not be placed, with the reasons.
    pub fn errors(&self) -> &BTreeMap<PoolId, PlacementError> {
        &self.errors
    }
}

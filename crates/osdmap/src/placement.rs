//! The way from objects to placement groups to OSDs.

use crate::{OsdMap, PRIMARY_AFFINITY_MAX, PgPool, PlacementError};
use crush::{RuleKind, Scratch, hash::hash2};
use types::{OsdId, PgId};
use wire::basic::Locator;

/// Memory that placements reuse.
#[derive(Clone, Default, Debug)]
pub struct PlacementScratch(Scratch);

/// The OSDs that hold a placement group.
///
/// In erasure-coded pools the position is the shard, and [`OsdId::NONE`] a shard that is missing.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct UpActing {
    /// OSDs that should hold it, of those that are up.
    pub up: Vec<OsdId>,
    pub up_primary: Option<OsdId>,
    /// OSDs that hold it; differs from `up` while data moves.
    pub acting: Vec<OsdId>,
    pub acting_primary: Option<OsdId>,
    /// The first so many of `acting` are what clients and tools see.
    pub shown: usize,
}

impl UpActing {
    /// The OSDs that hold it, as far as clients and tools see.
    pub fn acting_shown(&self) -> &[OsdId] {
        &self.acting[..self.shown]
    }
}

impl OsdMap {
    /// Returns the placement group of an object, and the raw hash that its messages carry.
    pub fn object_to_pg(&self, name: &[u8], locator: &Locator) -> Result<(PgId, u32), PlacementError> {
        let id = locator.pool;
        let pool = self.pool(id).ok_or(PlacementError::NoPool(id))?;
        let hash = if locator.hash >= 0 {
            locator.hash as u32
        } else {
            pool.hash_name(&locator.nspace, name, &locator.key)
                .ok_or(PlacementError::ObjectHash { pool: id, object_hash: pool.object_hash })?
        };
        Ok((PgId { pool: id, seed: pool.seed_of_hash(hash) }, hash))
    }

    /// Returns the OSDs of a placement group. A group that the pool does not have, or whose pool no rule fits, has
    /// none.
    pub fn pg_to_up_acting(&self, pg: PgId) -> Result<UpActing, PlacementError> {
        self.pg_to_up_acting_with(pg, &mut PlacementScratch::default())
    }

    /// Does as [`OsdMap::pg_to_up_acting`], with reused memory.
    pub fn pg_to_up_acting_with(&self, pg: PgId, scratch: &mut PlacementScratch) -> Result<UpActing, PlacementError> {
        let pool = self.pool(pg.pool).ok_or(PlacementError::NoPool(pg.pool))?;
        if pg.seed >= pool.pg_num {
            return Ok(UpActing::default());
        }
        let osds = self.crush_osds(pool, pg, scratch)?;
        Ok(self.place(pool, pg, osds))
    }

    /// Computes the sets of a group from CRUSH's result ([`OsdMap::crush_osds`]).
    pub(crate) fn place(&self, pool: &PgPool, pg: PgId, mut up: Vec<OsdId>) -> UpActing {
        self.keep(pool, &mut up, |osd| self.exists(osd));
        self.apply_upmap(pg, &mut up);
        self.keep(pool, &mut up, |osd| self.is_up(osd));
        let mut up_primary = first(&up);
        self.apply_primary_affinity(pool, pg, &mut up, &mut up_primary);

        let temp = self.pg_temp.get(&pg);
        let mut acting = temp.map(|temp| temp.shown().to_vec()).unwrap_or_default();
        self.keep(pool, &mut acting, |osd| self.is_up(osd));
        let mut acting_primary = self.primary_temp.get(&pg).copied().or_else(|| first(&acting));
        let shown = match acting.is_empty() {
            // Clients then take the up set for the acting one, so that OSDs must, too.
            true => {
                acting.clone_from(&up);
                acting_primary = acting_primary.or(up_primary);
                acting.len()
            }
            false => {
                let shown = acting.len();
                let further = temp.map(|temp| temp.further()).unwrap_or_default();
                acting.extend(further.iter().copied().filter(|osd| self.is_up(*osd)));
                shown
            }
        };
        UpActing { up, up_primary, acting, acting_primary, shown }
    }

    /// Returns CRUSH's result for a group, less the OSDs that do not exist; neither exceptions nor OSDs' being up play
    /// a part.
    pub fn pg_to_osds_raw(&self, pg: PgId) -> Result<Vec<OsdId>, PlacementError> {
        let pool = self.pool(pg.pool).ok_or(PlacementError::NoPool(pg.pool))?;
        let mut osds = self.crush_osds(pool, pg, &mut PlacementScratch::default())?;
        self.keep(pool, &mut osds, |osd| self.exists(osd));
        Ok(osds)
    }

    /// Returns [`OsdMap::pg_to_osds_raw`] with the exceptions that `pg_upmap` and `pg_upmap_items` make.
    pub fn pg_to_osds_upmapped(&self, pg: PgId) -> Result<Vec<OsdId>, PlacementError> {
        let mut osds = self.pg_to_osds_raw(pg)?;
        self.apply_upmap(pg, &mut osds);
        Ok(osds)
    }

    /// Returns CRUSH's result; nothing but the hierarchy, the weights and the pool plays a part.
    pub(crate) fn crush_osds(
        &self,
        pool: &PgPool,
        pg: PgId,
        scratch: &mut PlacementScratch,
    ) -> Result<Vec<OsdId>, PlacementError> {
        let Some(rule) = self.crush.find_rule(pool.crush_rule, RuleKind(pool.kind.0), pool.size.into()) else {
            return Ok(Vec::new());
        };
        let choose_args = self.crush.choose_args_for(pg.pool.0);
        let items = self
            .crush
            .do_rule(
                rule,
                pool.placement_input(pg.pool, pg.seed),
                pool.size.into(),
                &self.weights,
                choose_args,
                &mut scratch.0,
            )
            .map_err(|source| PlacementError::Crush { pool: pg.pool, source })?;
        Ok(items.iter().map(|item| OsdId(*item)).collect())
    }

    /// Drops the OSDs that do not pass; where positions matter a hole remains.
    fn keep(&self, pool: &PgPool, osds: &mut Vec<OsdId>, pass: impl Fn(OsdId) -> bool) {
        if pool.can_shift_osds() {
            osds.retain(|osd| pass(*osd));
        } else {
            osds.iter_mut().filter(|osd| !pass(**osd)).for_each(|osd| *osd = OsdId::NONE);
        }
    }

    /// Returns CRUSH's result for a group of `pool`, less the OSDs that do not exist.
    pub(crate) fn existing(&self, pool: &PgPool, crush: &[OsdId]) -> Vec<OsdId> {
        let mut osds = crush.to_vec();
        self.keep(pool, &mut osds, |osd| self.exists(osd));
        osds
    }

    /// Returns true if exceptions that name the OSD are ignored. Unknown ids pass here and are dropped later, as Ceph
    /// has it.
    fn is_marked_out(&self, osd: OsdId) -> bool {
        (0..self.max_osd()).contains(&osd.0) && self.weight(osd) == 0
    }

    /// Applies exchanges (from, to) one after the other.
    pub(crate) fn exchange(&self, items: &[(OsdId, OsdId)], osds: &mut [OsdId]) {
        for (from, to) in items {
            if osds.contains(to) || self.is_marked_out(*to) {
                continue;
            }
            if let Some(osd) = osds.iter_mut().find(|osd| *osd == from) {
                *osd = *to;
            }
        }
    }

    pub(crate) fn apply_upmap(&self, pg: PgId, osds: &mut Vec<OsdId>) {
        if let Some(explicit) = self.pg_upmap.get(&pg) {
            if explicit.iter().any(|osd| self.is_marked_out(*osd)) {
                return;
            }
            osds.clone_from(explicit);
        }
        if let Some(items) = self.pg_upmap_items.get(&pg) {
            self.exchange(items, osds);
        }
        if let Some(primary) = self.pg_upmap_primaries.get(&pg)
            && self.weight(*primary) > 0
            && let Some(at) = osds.iter().skip(1).position(|osd| osd == primary)
        {
            osds.swap(0, at + 1);
        }
    }

    fn apply_primary_affinity(&self, pool: &PgPool, pg: PgId, osds: &mut [OsdId], primary: &mut Option<OsdId>) {
        if self.primary_affinity.is_none() {
            return;
        }
        let real = |osd: &OsdId| *osd != OsdId::NONE;
        if osds.iter().filter(|osd| real(osd)).all(|osd| self.primary_affinity(*osd) == PRIMARY_AFFINITY_MAX) {
            return;
        }
        let input = pool.placement_input(pg.pool, pg.seed);
        // Each OSD declines its proportional share of placement groups; the first one serves if all decline.
        let accepts = |osd: OsdId| {
            let affinity = self.primary_affinity(osd);
            affinity >= PRIMARY_AFFINITY_MAX || hash2(input, osd.0 as u32) >> 16 < affinity
        };
        let chosen = osds.iter().position(|osd| real(osd) && accepts(*osd)).or_else(|| osds.iter().position(real));
        let Some(at) = chosen else { return };
        *primary = Some(osds[at]);
        if pool.can_shift_osds() {
            osds[..=at].rotate_right(1);
        }
    }
}

fn first(osds: &[OsdId]) -> Option<OsdId> {
    osds.iter().copied().find(|osd| *osd != OsdId::NONE)
}

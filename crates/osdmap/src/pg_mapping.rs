//! The placement of every placement group at one epoch.

use crate::{OsdMap, OsdState, PgPool, PlacementError, PlacementScratch, UpActing};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use types::{Epoch, OsdId, PgId, PoolId};

/// Where every placement group of a map is, computed once.
///
/// What CRUSH says is kept beside it: most new epochs change nothing of that, and CRUSH is the expensive part.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct PgMapping {
    epoch: Epoch,
    pools: BTreeMap<PoolId, PoolMapping>,
    errors: BTreeMap<PoolId, PlacementError>,
}

/// The groups of one pool, by number.
#[derive(Clone, PartialEq, Debug)]
struct PoolMapping {
    /// What CRUSH says; neither exceptions nor who exists or is up play a part.
    crush: Vec<Vec<OsdId>>,
    placed: Vec<UpActing>,
}

impl PgMapping {
    /// Maps all placement groups of `map`. Pools that cannot be placed have their reason in [`PgMapping::errors`].
    pub fn compute(map: &OsdMap) -> PgMapping {
        let mut mapping = PgMapping { epoch: map.epoch, ..PgMapping::default() };
        let mut scratch = PlacementScratch::default();
        for (id, pool) in &map.pools {
            mapping.compute_pool(map, *id, pool, &mut scratch);
        }
        mapping
    }

    /// Becomes the mapping of `map`, a later map than `before`, from which this one was made; only what may differ is
    /// computed anew. Returns how many placement groups CRUSH had to place.
    ///
    /// Panics if `before` has another epoch than this mapping.
    pub fn follow(&mut self, before: &OsdMap, map: &OsdMap) -> usize {
        assert_eq!(self.epoch, before.epoch, "the mapping of another map");
        self.epoch = map.epoch;
        self.pools.retain(|id, _| map.pools.contains_key(id));
        self.errors.retain(|id, _| map.pools.contains_key(id));
        let lowered = if same_hierarchy(before, map) { lowered_weights(before, map) } else { None };
        let changed = changed_osds(before, map);
        let mut scratch = PlacementScratch::default();
        let mut computed = 0;
        for (id, pool) in &map.pools {
            let same_pool = before.pools.get(id).is_some_and(|known| same_placement(known, pool));
            let Some(lowered) = lowered.as_ref().filter(|_| same_pool) else {
                self.compute_pool(map, *id, pool, &mut scratch);
                computed += pool.pg_num as usize;
                continue;
            };
            let same_exceptions = same_exceptions(before, map, *id);
            let Some(known) = self.pools.get_mut(id) else { continue };
            if changed.is_empty() && same_exceptions {
                continue;
            }
            let exceptions = excepted(before, map, *id);
            for (pg, (crush, placed)) in pool.pgs(*id).zip(known.crush.iter_mut().zip(&mut known.placed)) {
                if !changed.has_any(crush) && !exceptions.contains(&pg.seed) {
                    continue;
                }
                if lowered.has_any(crush) {
                    // An error would have shown when the pool was placed first: it lies in the rule.
                    *crush = map.crush_osds(pool, pg, &mut scratch).expect("the pool's rule has placed groups before");
                    computed += 1;
                }
                *placed = map.place(pool, pg, crush.clone());
            }
        }
        computed
    }

    fn compute_pool(&mut self, map: &OsdMap, id: PoolId, pool: &PgPool, scratch: &mut PlacementScratch) {
        self.pools.remove(&id);
        self.errors.remove(&id);
        let crush: Result<Vec<_>, _> = pool.pgs(id).map(|pg| map.crush_osds(pool, pg, scratch)).collect();
        match crush {
            Ok(crush) => drop(self.pools.insert(id, PoolMapping::place(map, id, pool, crush))),
            Err(error) => drop(self.errors.insert(id, error)),
        }
    }

    /// The epoch of the map it was computed from.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn get(&self, pg: PgId) -> Option<&UpActing> {
        self.pools.get(&pg.pool)?.placed.get(pg.seed as usize)
    }

    /// What CRUSH alone says of a group.
    pub(crate) fn crush(&self, pg: PgId) -> Option<&[OsdId]> {
        self.pools.get(&pg.pool)?.crush.get(pg.seed as usize).map(Vec::as_slice)
    }

    /// All placement groups that could be placed.
    pub fn iter(&self) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.pools.iter().flat_map(|(pool, mapping)| {
            let placed = mapping.placed.iter().enumerate();
            placed.map(|(seed, at)| (PgId { pool: *pool, seed: seed as u32 }, at))
        })
    }

    /// Placement groups in whose acting set the OSD is.
    pub fn acting_on(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, at)| at.acting.contains(&osd))
    }

    /// Placement groups in whose acting or up set the OSD is.
    pub fn involving(&self, osd: OsdId) -> impl Iterator<Item = (PgId, &UpActing)> {
        self.iter().filter(move |(_, at)| at.acting.contains(&osd) || at.up.contains(&osd))
    }

    /// Pools that could not be placed, and why.
    pub fn errors(&self) -> &BTreeMap<PoolId, PlacementError> {
        &self.errors
    }
}

impl PoolMapping {
    fn place(map: &OsdMap, id: PoolId, pool: &PgPool, crush: Vec<Vec<OsdId>>) -> PoolMapping {
        let placed = pool.pgs(id).zip(&crush).map(|(pg, osds)| map.place(pool, pg, osds.clone())).collect();
        PoolMapping { crush, placed }
    }
}

fn same_hierarchy(a: &OsdMap, b: &OsdMap) -> bool {
    Arc::ptr_eq(&a.crush, &b.crush) || a.crush == b.crush
}

/// Some OSDs, by number.
struct Osds(Vec<bool>);

impl Osds {
    fn of(before: &OsdMap, map: &OsdMap, is_one: impl Fn(usize) -> bool) -> Osds {
        let count = before.osds.len().max(map.osds.len()).max(before.weights.len()).max(map.weights.len());
        Osds((0..count).map(is_one).collect())
    }

    fn is_empty(&self) -> bool {
        !self.0.contains(&true)
    }

    fn has_any(&self, osds: &[OsdId]) -> bool {
        osds.iter().any(|osd| usize::try_from(osd.0).is_ok_and(|n| self.0.get(n) == Some(&true)))
    }
}

fn weight_of(map: &OsdMap, n: usize) -> u32 {
    map.weights.get(n).copied().unwrap_or(0)
}

/// OSDs that CRUSH is to give less to than before; `None` if it is to give more to any. An OSD number that does not exist yet
/// is as good as one that is out.
///
/// CRUSH asks only whether an OSD that it has come to is out for a group, and it is the more likely so the less it weighs: with
/// less, no OSD is taken that was not before, so groups that do not have one of these stay where they are.
fn lowered_weights(before: &OsdMap, map: &OsdMap) -> Option<Osds> {
    let more = Osds::of(before, map, |n| weight_of(map, n) > weight_of(before, n));
    more.is_empty().then(|| Osds::of(before, map, |n| weight_of(map, n) < weight_of(before, n)))
}

/// OSDs of which anything is different that decides where groups are.
fn changed_osds(before: &OsdMap, map: &OsdMap) -> Osds {
    let state = |map: &OsdMap, n: usize| {
        map.osds.get(n).map_or(OsdState::default(), |osd| osd.state & (OsdState::EXISTS | OsdState::UP))
    };
    let affinity = |map: &OsdMap, n: usize| map.primary_affinity(OsdId(n as i32));
    Osds::of(before, map, |n| {
        state(before, n) != state(map, n)
            || weight_of(before, n) != weight_of(map, n)
            || affinity(before, n) != affinity(map, n)
    })
}

/// Groups of a pool that are or were placed by hand or for the time being.
fn excepted(before: &OsdMap, map: &OsdMap, pool: PoolId) -> BTreeSet<u32> {
    fn of<T>(exceptions: &BTreeMap<PgId, T>, pool: PoolId) -> impl Iterator<Item = u32> {
        exceptions.range(all_of(pool)).map(|(pg, _)| pg.seed)
    }
    let both = [before, map].into_iter();
    both.flat_map(|map| {
        let temporary = of(&map.pg_temp, pool).chain(of(&map.primary_temp, pool));
        let by_hand = of(&map.pg_upmap, pool).chain(of(&map.pg_upmap_items, pool));
        temporary.chain(by_hand).chain(of(&map.pg_upmap_primaries, pool))
    })
    .collect()
}

fn all_of(pool: PoolId) -> std::ops::RangeInclusive<PgId> {
    PgId { pool, seed: 0 }..=PgId { pool, seed: u32::MAX }
}

/// Whether CRUSH is asked the same questions for two states of a pool.
fn same_placement(a: &PgPool, b: &PgPool) -> bool {
    let question = |pool: &PgPool| {
        let PgPool { kind, size, crush_rule, pg_num, pgp_num, flags, .. } = pool;
        (*kind, *size, *crush_rule, *pg_num, *pgp_num, flags.contains(crate::PoolFlags::HASHPSPOOL))
    };
    question(a) == question(b)
}

/// Whether the same groups of a pool are placed by hand or for the time being, and in the same way.
fn same_exceptions(a: &OsdMap, b: &OsdMap, pool: PoolId) -> bool {
    fn same<T: PartialEq>(a: &BTreeMap<PgId, T>, b: &BTreeMap<PgId, T>, pool: PoolId) -> bool {
        a.range(all_of(pool)).eq(b.range(all_of(pool)))
    }
    same(&a.pg_temp, &b.pg_temp, pool)
        && same(&a.primary_temp, &b.primary_temp, pool)
        && same(&a.pg_upmap, &b.pg_upmap, pool)
        && same(&a.pg_upmap_items, &b.pg_upmap_items, pool)
        && same(&a.pg_upmap_primaries, &b.pg_upmap_primaries, pool)
}

//! The way from the placements of one map to those of a later one, in pieces of bounded work.

use crate::pg_mapping::{PgMapping, PoolMapping};
use crate::{OsdMap, OsdState, PgPool, PlacementScratch};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{OsdId, PgId, PoolId};

/// Costs of work on a group, in units of some 20 ns as measured: to look for a difference, to apply exceptions and
/// states of OSDs, to ask CRUSH.
const LOOK: usize = 1;
const PLACE: usize = 10;
const CRUSH: usize = 300;

/// Placements on their way from one map to a later one.
///
/// Where weights have grown or the hierarchy has changed, CRUSH has to place every group, which takes seconds in large
/// clusters: a caller that has other work takes steps.
#[derive(Debug)]
pub struct MappingUpdate {
    mapping: PgMapping,
    /// OSDs whose weights are lowered; `None` if CRUSH has to be asked for all groups.
    lowered: Option<Osds>,
    changed: Osds,
    scratch: PlacementScratch,
    /// Pools that are not done, the first of which may have begun.
    pools: VecDeque<PoolId>,
    begun: Option<Begun>,
    /// Work that was done beyond a step's allowance: the next steps have less.
    owed: usize,
    /// Number of groups that CRUSH has placed.
    computed: usize,
}

/// A pool that is not done.
#[derive(Debug)]
struct Begun {
    next: u32,
    /// Progress of the pool.
    kind: BegunKind,
}

#[derive(Debug)]
enum BegunKind {
    Anew(PoolMapping),
    Changes(BTreeSet<u32>),
}

impl MappingUpdate {
    /// Work of some 10 ms.
    pub const TEN_MS: usize = 500_000;
    /// Work for a group that CRUSH has to place.
    pub const ANEW: usize = CRUSH + PLACE;

    /// Begins from nothing, towards the placements of `map`, which its steps are to be given as both maps.
    pub fn anew(map: &OsdMap) -> MappingUpdate {
        MappingUpdate {
            mapping: PgMapping { epoch: map.epoch, ..PgMapping::default() },
            lowered: None,
            changed: Osds(Vec::new()),
            scratch: PlacementScratch::default(),
            pools: map.pools.keys().copied().collect(),
            begun: None,
            owed: 0,
            computed: 0,
        }
    }

    /// Begins from `mapping`, that of `before`, towards that of `map`.
    ///
    /// Panics if `before` has another epoch than `mapping`.
    pub fn begin(mut mapping: PgMapping, before: &OsdMap, map: &OsdMap) -> MappingUpdate {
        assert_eq!(mapping.epoch, before.epoch, "the mapping of another map");
        mapping.epoch = map.epoch;
        mapping.pools.retain(|id, _| map.pools.contains_key(id));
        mapping.errors.retain(|id, _| map.pools.contains_key(id));
        MappingUpdate {
            mapping,
            lowered: if same_hierarchy(before, map) { lowered_weights(before, map) } else { None },
            changed: changed_osds(before, map),
            scratch: PlacementScratch::default(),
            pools: map.pools.keys().copied().collect(),
            begun: None,
            owed: 0,
            computed: 0,
        }
    }

    /// Goes on, with the maps it began with, for about `left` times 20 ns, from which it subtracts the work that it
    /// does. Returns true if everything is done.
    pub fn step(&mut self, before: &OsdMap, map: &OsdMap, left: &mut usize) -> bool {
        spend(0, left, &mut self.owed);
        while let Some(id) = self.pools.front().copied() {
            let pool = &map.pools[&id];
            if self.begun.is_none() {
                self.begun = self.begin_pool(before, map, id, pool);
            }
            let is_done = match &mut self.begun {
                None => true,
                Some(begun) if *left > 0 => {
                    let seeds = begun.next..pool.pg_num;
                    let done = match &mut begun.kind {
                        BegunKind::Anew(_) => self.place_anew(map, id, pool, seeds, left),
                        BegunKind::Changes(_) => self.place_changed(map, id, pool, seeds, left),
                    };
                    match done {
                        Some(next) => self.begun.as_mut().expect("it began").next = next,
                        None => self.begun = None,
                    }
                    done.is_none()
                }
                Some(_) => false,
            };
            if !is_done {
                return false;
            }
            self.pools.pop_front();
        }
        self.owed == 0
    }

    /// Returns the new placements, and the number of groups that CRUSH has placed.
    ///
    /// Panics if the last step has not returned that everything is done.
    pub fn finish(self) -> (PgMapping, usize) {
        assert!(self.pools.is_empty(), "pools are not placed yet");
        (self.mapping, self.computed)
    }

    /// Begins a pool. `None`: there is nothing to do for it.
    fn begin_pool(&mut self, before: &OsdMap, map: &OsdMap, id: PoolId, pool: &PgPool) -> Option<Begun> {
        let same_pool = before.pools.get(&id).is_some_and(|known| same_placement(known, pool));
        if self.lowered.is_none() || !same_pool {
            self.mapping.pools.remove(&id);
            self.mapping.errors.remove(&id);
            return Some(Begun { next: 0, kind: BegunKind::Anew(PoolMapping::default()) });
        }
        let is_same = self.changed.is_empty() && same_exceptions(before, map, id);
        if is_same || !self.mapping.pools.contains_key(&id) {
            return None;
        }
        Some(Begun { next: 0, kind: BegunKind::Changes(excepted(before, map, id)) })
    }

    /// Has CRUSH place groups of a pool. Returns the group with which it goes on, `None` at the end.
    fn place_anew(
        &mut self,
        map: &OsdMap,
        id: PoolId,
        pool: &PgPool,
        seeds: std::ops::Range<u32>,
        left: &mut usize,
    ) -> Option<u32> {
        let Some(Begun { kind: BegunKind::Anew(new), .. }) = &mut self.begun else { return None };
        for seed in seeds {
            if *left == 0 {
                return Some(seed);
            }
            spend(MappingUpdate::ANEW, left, &mut self.owed);
            let pg = PgId { pool: id, seed };
            match map.crush_osds(pool, pg, &mut self.scratch) {
                Ok(osds) => {
                    new.placed.push(map.place(pool, pg, osds.clone()));
                    new.crush.push(osds);
                    self.computed += 1;
                }
                Err(error) => {
                    self.mapping.errors.insert(id, error);
                    return None;
                }
            }
        }
        self.mapping.pools.insert(id, std::mem::take(new));
        None
    }

    /// Places groups for which something has changed. Returns the group with which it goes on, `None` at the end.
    fn place_changed(
        &mut self,
        map: &OsdMap,
        id: PoolId,
        pool: &PgPool,
        seeds: std::ops::Range<u32>,
        left: &mut usize,
    ) -> Option<u32> {
        let Some(Begun { kind: BegunKind::Changes(exceptions), .. }) = &self.begun else { return None };
        let (Some(known), Some(lowered)) = (self.mapping.pools.get_mut(&id), &self.lowered) else { return None };
        for seed in seeds {
            if *left == 0 {
                return Some(seed);
            }
            spend(LOOK, left, &mut self.owed);
            let (crush, placed) = (&mut known.crush[seed as usize], &mut known.placed[seed as usize]);
            if !self.changed.has_any(crush) && !exceptions.contains(&seed) {
                continue;
            }
            let pg = PgId { pool: id, seed };
            if lowered.has_any(crush) {
                spend(CRUSH, left, &mut self.owed);
                // An error would have shown when the pool was placed first: it lies in the rule.
                *crush = map.crush_osds(pool, pg, &mut self.scratch).expect("the pool's rule has placed groups before");
                self.computed += 1;
            }
            spend(PLACE, left, &mut self.owed);
            *placed = map.place(pool, pg, crush.clone());
        }
        None
    }
}

/// Takes work, and work owed from before, from `left`; the part that `left` does not cover is owed.
fn spend(work: usize, left: &mut usize, owed: &mut usize) {
    let paid = (*owed + work).min(*left);
    *owed = *owed + work - paid;
    *left -= paid;
}

fn same_hierarchy(a: &OsdMap, b: &OsdMap) -> bool {
    Arc::ptr_eq(&a.crush, &b.crush) || a.crush == b.crush
}

/// A set of OSDs, by number.
#[derive(Debug)]
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

/// Returns the OSDs whose weights are lowered; `None` if any weight has grown. An OSD number that does not exist yet is
/// as good as one that is out.
///
/// CRUSH asks only whether an OSD that it has come to is out for a group, and it is the more likely so the less it
/// weighs: with less, no OSD is taken that was not before, so groups that do not have one of these stay in their place.
fn lowered_weights(before: &OsdMap, map: &OsdMap) -> Option<Osds> {
    let more = Osds::of(before, map, |n| weight_of(map, n) > weight_of(before, n));
    more.is_empty().then(|| Osds::of(before, map, |n| weight_of(map, n) < weight_of(before, n)))
}

/// Returns the OSDs with a changed attribute that decides on placements.
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

/// Returns the groups of a pool that are or were placed by hand or for the time being.
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

/// Returns true if CRUSH is asked equal questions for two states of a pool.
fn same_placement(a: &PgPool, b: &PgPool) -> bool {
    let question = |pool: &PgPool| {
        let PgPool { kind, size, crush_rule, pg_num, pgp_num, flags, .. } = pool;
        (*kind, *size, *crush_rule, *pg_num, *pgp_num, flags.contains(crate::PoolFlags::HASHPSPOOL))
    };
    question(a) == question(b)
}

/// Returns true if both maps place equal groups of a pool by hand or for the time being, and in equal ways.
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

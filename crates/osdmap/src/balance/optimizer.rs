//! Exchanges that make the spread of copies even.

use super::{RulePlaces, UpmapChanges};
use crate::{OsdMap, PgMapping, WEIGHT_IN};
use std::collections::{BTreeMap, BTreeSet};
use types::{OsdId, PgId, PoolId};

/// Copies by which an OSD may differ from its share and still count as even.
const TOLERANCE: f64 = 0.99;
/// Remainder that floating point may leave of a difference of zero.
const EPSILON: f64 = 1e-6;
/// OSDs from either end that are looked at for one exchange; it bounds the time in large clusters.
const CANDIDATES_MAX: usize = 64;
/// OSDs from either end that are looked at for an exchange by way of a third OSD.
const DETOUR_CANDIDATES_MAX: usize = 8;

/// Limits of one call of [`balance`].
#[derive(Clone, Default, PartialEq, Debug)]
pub struct BalanceLimits {
    /// Most copies to be moved.
    pub moves_max: usize,
    /// Pools to be balanced; `None` for all.
    pub pools: Option<BTreeSet<PoolId>>,
}

/// Evenness of the spread, in numbers of placement groups' copies.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Spread {
    /// The largest difference of any OSD from its share of any one pool.
    pub pool_deviation_max: f64,
    /// The largest difference of any OSD from its share of all pools together.
    pub deviation_max: f64,
    /// The largest difference of any OSD from its share of all pools together, in relation to that share.
    pub relative_max: f64,
}

/// Finds exchanges that bring each OSD closer to its share of each pool's copies, and, as long as no pool becomes
/// uneven by it, to its share of all pools' copies. Shares are by weight in the hierarchy times the OSD's own weight.
///
/// An OSD that is less than one copy from its share is left alone, so that an even spread stays as it is. Failure
/// domains of the rules hold for every exchange. Groups placed as a whole by hand are counted and not touched, and so
/// are pools whose rule is not understood. Equal maps give equal exchanges.
///
/// `mapping`: of this map. Panics if it is of another epoch.
pub fn balance(map: &OsdMap, mapping: &PgMapping, limits: &BalanceLimits) -> UpmapChanges {
    let mut cluster = Cluster::new(map, mapping);
    let mut changes = UpmapChanges::default();
    let wanted = |pool: &Pool| limits.pools.as_ref().is_none_or(|pools| pools.contains(&pool.id));
    // Pools take turns, so that none waits for another one that needs many rounds.
    let mut unfinished: Vec<usize> = (0..cluster.pools.len()).filter(|n| wanted(&cluster.pools[*n])).collect();
    while changes.moved_copies < limits.moves_max && !unfinished.is_empty() {
        unfinished.retain(|n| {
            if changes.moved_copies >= limits.moves_max {
                return true;
            }
            let steps = cluster.even_out_pool(*n).or_else(|| cluster.even_out_total(*n));
            for step in steps.iter().flatten() {
                cluster.make(*n, step, &mut changes);
            }
            steps.is_some()
        });
    }
    changes
}

/// Returns the evenness of the copies of `pools`; of all pools with `None`.
pub fn spread(map: &OsdMap, mapping: &PgMapping, pools: Option<&BTreeSet<PoolId>>) -> Spread {
    let cluster = Cluster::new(map, mapping);
    let mut spread = Spread::default();
    let mut shares: BTreeMap<OsdId, (f64, f64)> = BTreeMap::new();
    for pool in cluster.pools.iter().filter(|pool| pools.is_none_or(|pools| pools.contains(&pool.id))) {
        for (osd, surplus) in &pool.surplus {
            spread.pool_deviation_max = spread.pool_deviation_max.max(surplus.abs());
            let known = shares.entry(*osd).or_default();
            known.0 += surplus;
            known.1 += pool.on.get(osd).map_or(0, BTreeSet::len) as f64 - surplus;
        }
    }
    for (surplus, share) in shares.values() {
        spread.deviation_max = spread.deviation_max.max(surplus.abs());
        if *share > EPSILON {
            spread.relative_max = spread.relative_max.max(surplus.abs() / share);
        }
    }
    spread
}

/// One copy of one group goes from one OSD to another.
struct Move {
    seed: u32,
    from: OsdId,
    to: OsdId,
    /// The exchanges of the group afterwards.
    items: Vec<(OsdId, OsdId)>,
}

struct Pool {
    id: PoolId,
    places: RulePlaces,
    /// OSDs that CRUSH gives each group, and its OSDs after its exchanges.
    raw: Vec<Vec<OsdId>>,
    placed: Vec<Vec<OsdId>>,
    items: BTreeMap<u32, Vec<(OsdId, OsdId)>>,
    /// Groups placed by hand.
    fixed: BTreeSet<u32>,
    on: BTreeMap<OsdId, BTreeSet<u32>>,
    /// Copies that each OSD has above its share.
    surplus: BTreeMap<OsdId, f64>,
}

struct Cluster<'a> {
    map: &'a OsdMap,
    pools: Vec<Pool>,
    /// Copies that each OSD has above its share of all pools together.
    surplus: BTreeMap<OsdId, f64>,
}

/// Returns the penalty of a difference from the share.
fn badness(surplus: f64) -> f64 {
    (surplus.abs() - TOLERANCE).max(0.0).powi(2)
}

/// Returns the gain if one copy goes from one OSD to another; 0 or less if there is none.
fn gain(from: f64, to: f64) -> f64 {
    if from - to <= 1.0 + EPSILON {
        return 0.0;
    }
    badness(from) + badness(to) - badness(from - 1.0) - badness(to + 1.0)
}

/// Returns the OSDs from the fullest to the emptiest.
fn by_surplus(surplus: &BTreeMap<OsdId, f64>) -> Vec<(OsdId, f64)> {
    let mut osds: Vec<(OsdId, f64)> = surplus.iter().map(|(osd, surplus)| (*osd, *surplus)).collect();
    osds.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    osds
}

impl<'a> Cluster<'a> {
    fn new(map: &'a OsdMap, mapping: &PgMapping) -> Cluster<'a> {
        assert_eq!(mapping.epoch(), map.epoch, "the mapping of another map");
        let pools: Vec<Pool> = map.pools.keys().filter_map(|id| Pool::new(map, mapping, *id)).collect();
        let mut surplus = BTreeMap::new();
        for (osd, of_pool) in pools.iter().flat_map(|pool| &pool.surplus) {
            *surplus.entry(*osd).or_insert(0.0) += of_pool;
        }
        Cluster { map, pools, surplus }
    }

    /// Returns the best exchange within one pool; two at once where the copy has to take a detour.
    fn even_out_pool(&self, pool: usize) -> Option<Vec<Move>> {
        let pool = &self.pools[pool];
        let osds = by_surplus(&pool.surplus);
        for (from, high) in osds.iter().take(CANDIDATES_MAX) {
            for (to, low) in osds.iter().rev().take(CANDIDATES_MAX) {
                if gain(*high, *low) <= EPSILON {
                    break;
                }
                if let Some(step) = pool.find(self.map, *from, *to, None) {
                    return Some(vec![step]);
                }
            }
        }
        // A detour goes by way of a third OSD, which keeps its number of copies.
        for (from, high) in osds.iter().take(DETOUR_CANDIDATES_MAX) {
            for (to, low) in osds.iter().rev().take(DETOUR_CANDIDATES_MAX) {
                if gain(*high, *low) <= EPSILON {
                    break;
                }
                for (over, _) in osds.iter().take(CANDIDATES_MAX).filter(|(over, _)| over != from && over != to) {
                    let Some(first) = pool.find(self.map, *from, *over, None) else { continue };
                    if let Some(second) = pool.find(self.map, *over, *to, Some(first.seed)) {
                        return Some(vec![first, second]);
                    }
                }
            }
        }
        None
    }

    /// Returns an exchange in one pool that brings the OSDs closer to their shares of all pools together, and no
    /// farther from those of this pool.
    fn even_out_total(&self, pool: usize) -> Option<Vec<Move>> {
        let pool = &self.pools[pool];
        let here = self.surplus.iter().filter(|(osd, _)| pool.surplus.contains_key(osd));
        let osds = by_surplus(&here.map(|(osd, surplus)| (*osd, *surplus)).collect());
        for (from, high) in osds.iter().take(CANDIDATES_MAX) {
            for (to, low) in osds.iter().rev().take(CANDIDATES_MAX) {
                if gain(*high, *low) <= EPSILON {
                    break;
                }
                let (a, b) = (pool.surplus[from], pool.surplus[to]);
                if badness(a - 1.0) + badness(b + 1.0) > badness(a) + badness(b) + EPSILON {
                    continue;
                }
                if let Some(step) = pool.find(self.map, *from, *to, None) {
                    return Some(vec![step]);
                }
            }
        }
        None
    }

    fn make(&mut self, pool: usize, step: &Move, changes: &mut UpmapChanges) {
        let pool = &mut self.pools[pool];
        let Move { seed, from, to, items } = step;
        let member = pool.placed[*seed as usize].iter_mut().find(|osd| *osd == from);
        *member.expect("it was found there") = *to;
        pool.on.entry(*from).or_default().remove(seed);
        pool.on.entry(*to).or_default().insert(*seed);
        pool.items.insert(*seed, items.clone());
        for surplus in [&mut pool.surplus, &mut self.surplus] {
            *surplus.get_mut(from).expect("it has a share") -= 1.0;
            *surplus.get_mut(to).expect("it has a share") += 1.0;
        }
        changes.moved_copies += 1;
        let pg = PgId { pool: pool.id, seed: *seed };
        // A group that is as before this round needs no change.
        let present = self.map.pg_upmap_items.get(&pg).map_or(&[][..], Vec::as_slice);
        if present == items.as_slice() {
            changes.items.remove(&pg);
            changes.removed_items.remove(&pg);
        } else {
            changes.set(pg, items.clone());
        }
    }
}

impl Pool {
    /// Returns `None` if the pool cannot be placed, or its rule is not understood.
    fn new(map: &OsdMap, mapping: &PgMapping, id: PoolId) -> Option<Pool> {
        let pool = map.pool(id)?;
        let mut of = Pool {
            id,
            places: RulePlaces::of_pool(map, pool)?,
            raw: Vec::new(),
            placed: Vec::new(),
            items: BTreeMap::new(),
            fixed: BTreeSet::new(),
            on: BTreeMap::new(),
            surplus: BTreeMap::new(),
        };
        for pg in pool.pgs(id) {
            let raw = map.existing(pool, mapping.crush(pg)?);
            let mut placed = raw.clone();
            // Exchanges follow CRUSH's OSDs, whichever order of shards the group has.
            let has_order = map.has_order(pg);
            if has_order {
                map.exchange(map.pg_upmap_items.get(&pg).map_or(&[], |items| items), &mut placed);
            } else {
                map.apply_upmap(pg, &mut placed);
            }
            for osd in placed.iter().filter(|osd| osd.is_some()) {
                of.on.entry(*osd).or_default().insert(pg.seed);
            }
            if map.pg_upmap.contains_key(&pg) && !has_order {
                of.fixed.insert(pg.seed);
            }
            if let Some(items) = map.pg_upmap_items.get(&pg) {
                of.items.insert(pg.seed, items.clone());
            }
            of.raw.push(raw);
            of.placed.push(placed);
        }
        of.find_shares(map);
        Some(of)
    }

    /// Computes the shares: each part of the rule shares the copies that it reaches among its devices, by weight.
    fn find_shares(&mut self, map: &OsdMap) {
        let weighted: Vec<(OsdId, usize, f64)> = self
            .places
            .devices()
            .filter(|(osd, ..)| map.exists(*osd))
            .map(|(osd, take, weight)| (osd, take, weight * f64::from(map.weight(osd)) / f64::from(WEIGHT_IN)))
            .filter(|(.., weight)| *weight > 0.0)
            .collect();
        let mut sums: BTreeMap<usize, (f64, f64)> = BTreeMap::new();
        for (_, take, weight) in &weighted {
            sums.entry(*take).or_default().0 += weight;
        }
        for (osd, seeds) in &self.on {
            if let Some(take) = self.places.take_of(*osd) {
                sums.entry(take).or_default().1 += seeds.len() as f64;
            }
        }
        for (osd, take, weight) in weighted {
            let (weights, copies) = sums[&take];
            let has = self.on.get(&osd).map_or(0, BTreeSet::len) as f64;
            self.surplus.insert(osd, has - copies * weight / weights);
        }
    }

    /// Returns a group of which a copy can go from one OSD to another; the one that needs the fewest exchanges for it.
    fn find(&self, map: &OsdMap, from: OsdId, to: OsdId, except: Option<u32>) -> Option<Move> {
        if !map.is_up(to) {
            return None;
        }
        let mut best: Option<(usize, Move)> = None;
        for seed in self.on.get(&from)?.iter().copied() {
            if Some(seed) == except || self.fixed.contains(&seed) {
                continue;
            }
            let members = &self.placed[seed as usize];
            if !self.places.may_replace(members, from, to) {
                continue;
            }
            let Some(items) = self.items_for(map, seed, from, to) else { continue };
            // One exchange fewer is the lowest cost there is.
            let before = self.items.get(&seed).map_or(0, Vec::len);
            let cost = items.len() + 1 - before.min(items.len() + 1);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, Move { seed, from, to, items }));
            }
            if cost == 0 {
                break;
            }
        }
        best.map(|(_, step)| step)
    }

    /// Returns the exchanges after which the group has `to` in place of `from` and else its present OSDs; `None` if
    /// there are none.
    fn items_for(&self, map: &OsdMap, seed: u32, from: OsdId, to: OsdId) -> Option<Vec<(OsdId, OsdId)>> {
        let mut items = self.items.get(&seed).cloned().unwrap_or_default();
        match items.iter().position(|(_, target)| *target == from) {
            Some(at) if items[at].0 == to => drop(items.remove(at)),
            Some(at) => items[at].1 = to,
            None => items.push((from, to)),
        }
        let mut wanted = self.placed[seed as usize].clone();
        *wanted.iter_mut().find(|osd| **osd == from)? = to;
        let mut got = self.raw[seed as usize].clone();
        map.exchange(&items, &mut got);
        (got == wanted).then_some(items)
    }
}

//! The order of the shards of erasure-coded groups that are to be merged: an OSD must have the same shard of both.

use crate::volatile::PgStat;
use crate::{MonState, Volatile};
use osdmap::{OsdMap, OsdState, PgPool, RulePlaces, UpActing};
use types::{OsdId, PgId, PoolId};
use wire::nacre::mon::{PgReport, pg_state};

/// Number of groups that are looked at to tell whether a pool has spare OSDs: nearly all groups have as many as one of
/// them.
const SAMPLE: u32 = 16;

/// Returns the fewest groups that a pool can come to while it is placed as it is.
pub(crate) fn goal(pool: &PgPool) -> u32 {
    pool.pg_num_target.max(pool.pgp_num)
}

/// Returns true if both sets have the same OSDs, in any order.
pub(crate) fn same_osds(a: &[OsdId], b: &[OsdId]) -> bool {
    a.len() == b.len() && a.iter().all(|osd| b.contains(osd))
}

/// Returns the group's last report, if by it the group has everything in its place. A group for which the map has too
/// few OSDs may be clean, too, but some of its members have no place.
pub(crate) fn clean_report(volatile: &Volatile, pg: PgId) -> Option<&PgReport> {
    let is_clean = |stat: &&PgStat| {
        let PgReport { state, up, acting, .. } = &stat.report;
        let has_places = up.is_empty() || same_osds(up, acting);
        state & pg_state::CLEAN != 0 && state & pg_state::STALE == 0 && has_places
    };
    volatile.pgs.get(&pg).filter(is_clean).map(|stat| &stat.report)
}

/// Returns true if the report is of the sets that the map gives.
pub(crate) fn is_of(report: &PgReport, placed: &UpActing) -> bool {
    report.up == placed.up && report.acting == placed.acting
}

/// The OSDs that a pool may use, and the places that its rule allows.
pub(crate) struct Spares {
    places: RulePlaces,
    /// OSDs with room, ordered by number.
    usable: Vec<OsdId>,
}

impl Spares {
    /// Returns `None` if the pool's rule is not understood.
    pub fn of(map: &OsdMap, pool: &PgPool) -> Option<Spares> {
        let places = RulePlaces::of_pool(map, pool)?;
        let full = OsdState::FULL | OsdState::BACKFILLFULL;
        let has_room = |osd: OsdId| map.osd(osd).is_some_and(|known| known.is_up() && !known.state.intersects(full));
        let usable = places.devices().map(|(osd, ..)| osd).filter(|osd| map.is_in(*osd) && has_room(*osd)).collect();
        Some(Spares { places, usable })
    }

    /// Calls [`osdmap::next_order`] for group `seed`. Each group begins with another spare OSD.
    pub fn next_order(&self, seed: u32, present: &[OsdId], wanted: &[OsdId]) -> Option<Vec<OsdId>> {
        let mut spares = self.usable.clone();
        let first = seed as usize % spares.len().max(1);
        spares.rotate_left(first);
        let is_usable = |osd| self.usable.binary_search(&osd).is_ok();
        osdmap::next_order(present, wanted, &spares, |members, from, to| {
            is_usable(to) && self.places.may_replace(members, from, to)
        })
    }

    /// Returns true if any OSD of a group on these OSDs may make room for a while.
    fn any_may_leave(&self, members: &[OsdId]) -> bool {
        let apart: Vec<OsdId> = self.usable.iter().copied().filter(|osd| self.places.is_apart(members, *osd)).collect();
        members.iter().all(|member| apart.iter().any(|osd| self.places.may_replace(members, *member, *osd)))
    }
}

/// Returns true if the pool's groups can be merged whichever orders their shards are in: there is a spare OSD for them,
/// in a failure domain of its own.
pub(crate) fn has_room(map: &OsdMap, id: PoolId, pool: &PgPool) -> bool {
    let Some(spares) = Spares::of(map, pool) else { return false };
    (0..pool.pg_num.min(SAMPLE))
        .all(|seed| map.pg_to_up_acting(PgId { pool: id, seed }).is_ok_and(|placed| spares.any_may_leave(&placed.up)))
}

/// Returns a group that cannot be merged, though the pool should have fewer, because no OSD is spare while shards
/// change their places; and the group that it should become a part of.
pub(crate) fn without_room(state: &MonState, volatile: &Volatile, id: PoolId, pool: &PgPool) -> Option<(PgId, PgId)> {
    let goal = goal(pool);
    if !pool.is_erasure() || goal >= pool.pg_num || pool.pgp_num != pool.pgp_num_target {
        return None;
    }
    let orders = (goal..pool.pg_num).rev().filter_map(|seed| {
        let [source, target] = [seed, osdmap::split_parent(seed, goal)].map(|seed| PgId { pool: id, seed });
        let [present, wanted] = [source, target].map(|pg| clean_report(volatile, pg).map(|report| &report.acting));
        present.zip(wanted).filter(|(a, b)| a != b && same_osds(a, b)).map(|orders| ((source, target), orders))
    });
    let mut orders = orders.take(SAMPLE as usize).peekable();
    orders.peek()?;
    let spares = Spares::of(state.osdmap(), pool);
    let is_stuck = |(present, wanted): (&Vec<OsdId>, &Vec<OsdId>)| {
        spares.as_ref().is_none_or(|spares| spares.next_order(0, present, wanted).is_none())
    };
    orders.find(|(_, orders)| is_stuck(*orders)).map(|(pair, _)| pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clean_group_whose_members_have_no_place_has_not_everything_in_its_place() {
        let pgid = PgId::new(1, 0);
        let is_in_place = |up: &[OsdId], state: u64| {
            let acting = [1, 0, 2].map(OsdId).to_vec();
            let report = PgReport { pgid, state, up: up.to_vec(), acting, ..PgReport::default() };
            let mut volatile = Volatile::default();
            volatile.pgs.insert(pgid, PgStat { report, ..PgStat::default() });
            clean_report(&volatile, pgid).is_some()
        };
        let clean = pg_state::ACTIVE | pg_state::CLEAN;
        assert!(is_in_place(&[0, 1, 2].map(OsdId), clean) && is_in_place(&[], clean));
        assert!(!is_in_place(&[0, 1, 2].map(OsdId), clean | pg_state::STALE));
        assert!(!is_in_place(&[OsdId(0), OsdId(1), OsdId::NONE], clean | pg_state::REMAPPED));
        assert!(!is_in_place(&[0, 1].map(OsdId), clean | pg_state::REMAPPED));
    }
}

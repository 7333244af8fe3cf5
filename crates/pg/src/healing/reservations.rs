//! Turns to heal: an OSD lets a few groups at a time bring objects from it as their primary, and a few to it, the ones
//! that need it most first.

use crate::messages::PgInterval;
use crate::tuning::Tuning;
use std::collections::BTreeMap;
use types::{OsdId, PgId};

/// Slots, and who has or wants one.
#[derive(Debug)]
struct Slots<K> {
    count: usize,
    held: BTreeMap<K, u64>,
    /// Requests that wait, with their priority and the order in which they came.
    waiting: BTreeMap<K, (u64, u64)>,
    came: u64,
}

/// A slot that was given or taken away, which its holder is to know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Change {
    /// This OSD has granted one of its own groups a slot to heal, or has taken it back.
    Local { pgid: PgId, granted: bool },
    /// The primary may bring objects here; or no longer.
    Remote { primary: OsdId, pg: PgInterval, granted: bool },
}

/// Slots of one side, for operators. Each group comes with its priority.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ReservationsView {
    /// Groups that may heal at a time.
    pub slots: usize,
    pub held: Vec<(PgId, u64)>,
    pub waiting: Vec<(PgId, u64)>,
}

/// One OSD's reservations.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Slots for groups whose primary this OSD is.
    local: Slots<PgId>,
    /// Slots for groups of other primaries.
    remote: Slots<(PgInterval, OsdId)>,
}

impl<K> Default for Slots<K> {
    fn default() -> Slots<K> {
        Slots { count: Tuning::default().healing_groups, held: BTreeMap::new(), waiting: BTreeMap::new(), came: 0 }
    }
}

impl<K: Ord + Copy> Slots<K> {
    fn ask(&mut self, key: K, priority: u64) {
        match self.held.get_mut(&key) {
            Some(held) => *held = priority,
            None => {
                self.came += 1;
                self.waiting.entry(key).or_insert((priority, self.came)).0 = priority;
            }
        }
    }

    fn forget(&mut self, is_gone: impl Fn(&K) -> bool) {
        self.held.retain(|key, _| !is_gone(key));
        self.waiting.retain(|key, _| !is_gone(key));
    }

    fn view(&self, pgid: impl Fn(&K) -> PgId) -> ReservationsView {
        ReservationsView {
            slots: self.count,
            held: self.held.iter().map(|(key, priority)| (pgid(key), *priority)).collect(),
            waiting: self.waiting.iter().map(|(key, (priority, _))| (pgid(key), *priority)).collect(),
        }
    }

    /// Gives free slots to those that need them most, and those of lower priority to higher ones; whom it took one from
    /// must ask again.
    fn settle(&mut self) -> Vec<(K, bool)> {
        let mut changes = Vec::new();
        loop {
            let best = self.waiting.iter().max_by_key(|(_, (priority, came))| (*priority, std::cmp::Reverse(*came)));
            let Some((&key, &(priority, _))) = best else { return changes };
            if self.held.len() >= self.count {
                let least = self.held.iter().min_by_key(|(_, priority)| **priority);
                let Some((&loser, _)) = least.filter(|(_, least)| **least < priority) else { return changes };
                self.held.remove(&loser);
                changes.push((loser, false));
            }
            self.waiting.remove(&key);
            self.held.insert(key, priority);
            changes.push((key, true));
        }
    }
}

impl Reservations {
    /// Returns the reservations of one of so many shards of an OSD, with its part of the slots.
    pub fn of_shards(shards: usize) -> Reservations {
        let mut reservations = Reservations::default();
        reservations.set_slots(Tuning::default().healing_groups.div_ceil(shards));
        reservations
    }

    /// Sets how many groups may heal at a time on each side. Groups that heal beyond that go on.
    pub fn set_slots(&mut self, count: usize) {
        (self.local.count, self.remote.count) = (count, count);
    }

    /// Shows who has slots and who waits: as primary, and for other primaries.
    pub fn view(&self) -> (ReservationsView, ReservationsView) {
        let remote = |(pg, _): &(PgInterval, OsdId)| pg.pgid;
        (self.local.view(|pgid| *pgid), self.remote.view(remote))
    }

    /// Asks for a slot for this OSD's group, which wants to heal.
    pub fn ask(&mut self, pgid: PgId, priority: u64) {
        self.local.ask(pgid, priority);
    }

    pub fn release(&mut self, pgid: PgId) {
        self.local.forget(|key| *key == pgid);
    }

    /// Asks for a slot for another primary, which wants to bring objects here.
    pub fn ask_for(&mut self, primary: OsdId, pg: PgInterval, priority: u64) {
        // A group has one primary at a time. Primaries of an erasure-coded one name their own shards.
        let group = pg.pgid.base();
        self.remote.forget(|(other, by)| other.pgid.base() == group && (*other, *by) != (pg, primary));
        self.remote.ask((pg, primary), priority);
    }

    pub fn release_for(&mut self, primary: OsdId, pg: PgInterval) {
        self.remote.forget(|key| *key == (pg, primary));
    }

    /// Forgets the group, whose interval has ended.
    pub fn forget(&mut self, pgid: PgId) {
        self.local.forget(|key| *key == pgid);
        self.remote.forget(|(pg, _)| pg.pgid.base() == pgid.base());
    }

    /// Gives slots out anew, and returns the changes that must be told.
    pub fn settle(&mut self) -> Vec<Change> {
        if self.local.waiting.is_empty() && self.remote.waiting.is_empty() {
            return Vec::new();
        }
        let local = self.local.settle().into_iter().map(|(pgid, granted)| Change::Local { pgid, granted });
        let remote = self.remote.settle().into_iter();
        let remote = remote.map(|((pg, primary), granted)| Change::Remote { primary, pg, granted });
        local.chain(remote).collect()
    }

    /// Returns true if objects are brought from here or to here.
    pub fn anyone_heals(&self) -> bool {
        !self.local.held.is_empty() || !self.remote.held.is_empty()
    }

    /// Returns how many groups hold a slot as primary, and for which other primaries groups do.
    #[cfg(test)]
    pub fn held(&self) -> (usize, std::collections::BTreeSet<OsdId>) {
        (self.local.held.len(), self.remote.held.keys().map(|(_, primary)| *primary).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 3;

    fn local(seed: u32, granted: bool) -> Change {
        Change::Local { pgid: PgId::new(1, seed), granted }
    }

    #[test]
    fn those_that_need_it_most_come_first_and_in_their_order() {
        let mut reservations = Reservations::default();
        (0..5).for_each(|seed| reservations.ask(PgId::new(1, seed), 100));
        assert_eq!(reservations.settle(), [local(0, true), local(1, true), local(2, true)]);
        assert_eq!(reservations.settle(), []);
        reservations.ask(PgId::new(1, 4), 180);
        assert_eq!(reservations.settle(), [local(0, false), local(4, true)]);
        reservations.ask(PgId::new(1, 0), 100);
        reservations.release(PgId::new(1, 4));
        assert_eq!(reservations.settle(), [local(3, true)], "the other one has to wait again");
        reservations.forget(PgId::new(1, 1));
        assert_eq!(reservations.settle(), [local(0, true)]);
        assert_eq!(reservations.held().0, SLOTS);
    }

    #[test]
    fn what_a_primary_with_another_shard_holds_ends_with_the_interval() {
        let mut reservations = Reservations::default();
        let pg = |shard| PgInterval { pgid: PgId::new(1, 5).of_shard(shard), since: types::Epoch(3) };
        reservations.ask_for(OsdId(1), pg(0), 100);
        assert_eq!(reservations.settle().len(), 1);
        reservations.ask_for(OsdId(2), pg(1), 100);
        assert_eq!(reservations.settle().len(), 1);
        assert_eq!(reservations.held().1, [OsdId(2)].into(), "there is one primary at a time");
        reservations.forget(PgId::new(1, 6).of_shard(1));
        reservations.forget(PgId::new(1, 5).of_shard(2));
        assert_eq!(reservations.held().1, [].into());
    }

    #[test]
    fn a_group_of_equal_priority_takes_nothing_away() {
        let mut reservations = Reservations::default();
        let pg = |seed| PgInterval { pgid: PgId::new(1, seed), since: types::Epoch(3) };
        (0..4).for_each(|seed| reservations.ask_for(OsdId(seed as i32), pg(seed), 180));
        assert_eq!(reservations.settle().len(), SLOTS);
        reservations.release_for(OsdId(1), pg(1));
        assert_eq!(reservations.settle(), [Change::Remote { primary: OsdId(3), pg: pg(3), granted: true }]);
        assert_eq!(reservations.held().1, [0, 2, 3].map(OsdId).into());
    }

    #[test]
    fn fewer_slots_count_from_the_next_group_on() {
        let mut reservations = Reservations::default();
        (0..4).for_each(|seed| reservations.ask(PgId::new(1, seed), 100));
        assert_eq!(reservations.settle().len(), SLOTS);
        reservations.set_slots(1);
        reservations.release(PgId::new(1, 0));
        assert_eq!(reservations.settle(), [], "two go on, where one may heal");
        let (own, others) = reservations.view();
        assert_eq!((own.slots, own.held.len(), own.waiting), (1, 2, vec![(PgId::new(1, 3), 100)]));
        assert_eq!((others.slots, others.held.len()), (1, 0));
        reservations.set_slots(4);
        assert_eq!(reservations.settle(), [local(3, true)]);
    }
}

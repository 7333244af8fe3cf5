//! Windows for updates that all shards of an OSD give together, or share.

use crate::messages::room::{RoomSeen, RoomTold};
use std::collections::BTreeMap;
use types::{Epoch, OsdId};

/// Instead of an epoch: the shards that give a window follow different maps.
const DIFFERENT_MAPS: Epoch = Epoch(u32::MAX);

/// The window that a primary was told.
#[derive(Debug)]
struct Given {
    /// Epoch in which the primary came up that was told.
    up_from: Epoch,
    /// The window that each shard wants told.
    by: Vec<Option<RoomTold>>,
    /// Number of what was told last, and each shard's number in it.
    number: u64,
    told: Vec<u64>,
}

/// Windows that this OSD gives to primaries.
#[derive(Debug)]
pub(super) struct GivenWindows {
    shards: usize,
    to: BTreeMap<OsdId, Given>,
}

impl GivenWindows {
    pub fn new(shards: usize) -> GivenWindows {
        GivenWindows { shards, to: BTreeMap::new() }
    }

    /// Takes the window that a shard tells a primary; `up_from`: the epoch in which that OSD came up, if it is. Returns
    /// what the OSD tells, once every shard has said something.
    pub fn told(&mut self, shard: usize, primary: OsdId, told: RoomTold, up_from: Option<Epoch>) -> Option<RoomTold> {
        let Some(up_from) = up_from else {
            self.to.remove(&primary);
            return None;
        };
        // Meant for an earlier start of the primary: the shard takes it back with the map that it does not have yet.
        if told.epoch < up_from {
            return None;
        }
        let new = || Given { up_from, by: vec![None; self.shards], number: 0, told: Vec::new() };
        let given = self.to.entry(primary).or_insert_with(new);
        if given.up_from != up_from {
            *given = Given { number: given.number, ..new() };
        }
        given.by[shard] = Some(told);
        let by: Vec<&RoomTold> = given.by.iter().flatten().collect();
        if by.len() < self.shards {
            return None;
        }
        let bytes = by.iter().map(|told| told.bytes).min().expect("an OSD has a shard");
        // A shard with another map may have closed its window because it shares no group with the primary yet, or any
        // more. That is no lack of room, which a primary does not take it for if the map is newer than its own.
        let epoch = by.iter().map(|told| told.epoch).reduce(|a, b| if a == b { a } else { DIFFERENT_MAPS });
        let epoch = epoch.expect("an OSD has a shard");
        given.told = by.iter().map(|told| told.number).collect();
        given.number += 1;
        Some(RoomTold { bytes, number: given.number, epoch })
    }

    /// Takes a primary's word that it has seen what it was told. Returns what each shard is to know of that.
    pub fn seen(&mut self, primary: OsdId, seen: &RoomSeen) -> Vec<(usize, RoomSeen)> {
        let given = self.to.get(&primary).filter(|given| given.number == seen.number);
        let told = given.map(|given| given.told.as_slice()).unwrap_or_default();
        told.iter().enumerate().map(|(shard, number)| (shard, RoomSeen { number: *number })).collect()
    }
}

/// The window that a member has told this OSD last.
#[derive(Debug)]
struct Taken {
    number: u64,
    seen_by: Vec<bool>,
}

/// Windows that members give to this OSD.
#[derive(Debug)]
pub(super) struct TakenWindows {
    shards: usize,
    from: BTreeMap<OsdId, Taken>,
}

impl TakenWindows {
    pub fn new(shards: usize) -> TakenWindows {
        TakenWindows { shards, from: BTreeMap::new() }
    }

    /// Takes the window that a member has told. Returns what each shard is told.
    pub fn told(&mut self, member: OsdId, told: &RoomTold) -> RoomTold {
        self.from.insert(member, Taken { number: told.number, seen_by: vec![false; self.shards] });
        RoomTold { bytes: told.bytes / self.shards as u64, ..told.clone() }
    }

    /// Notes that a shard has seen its part. Returns what the member is to know, if it was the last one.
    pub fn seen(&mut self, shard: usize, member: OsdId, seen: &RoomSeen) -> Option<RoomSeen> {
        let taken = self.from.get_mut(&member).filter(|taken| taken.number == seen.number)?;
        taken.seen_by[shard] = true;
        taken.seen_by.iter().all(|seen| *seen).then(|| seen.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER: OsdId = OsdId(4);

    fn told(bytes: u64, number: u64, epoch: u32) -> RoomTold {
        RoomTold { bytes, number, epoch: Epoch(epoch) }
    }

    #[test]
    fn the_smallest_window_is_given_and_every_shard_learns_that_it_was_seen() {
        let mut given = GivenWindows::new(2);
        let up = Some(Epoch(3));
        assert_eq!(given.told(0, OTHER, told(100, 1, 5), up), None, "nothing is known of the other shard");
        assert_eq!(given.told(1, OTHER, told(80, 1, 4), up), Some(told(80, 1, u32::MAX)), "by different maps");
        assert_eq!(given.told(1, OTHER, told(80, 1, 5), up), Some(told(80, 2, 5)));
        assert_eq!(given.told(0, OTHER, told(30, 2, 5), up), Some(told(30, 3, 5)));
        for old in [1, 2] {
            assert_eq!(given.seen(OTHER, &RoomSeen { number: old }), [], "a newer one is on its way");
        }
        let seen = [(0, RoomSeen { number: 2 }), (1, RoomSeen { number: 1 })];
        assert_eq!(given.seen(OTHER, &RoomSeen { number: 3 }), seen);
        assert_eq!(given.seen(OsdId(9), &RoomSeen { number: 3 }), [], "who was told nothing");
    }

    #[test]
    fn a_primary_that_starts_anew_is_told_nothing_old() {
        let mut given = GivenWindows::new(2);
        given.told(0, OTHER, told(100, 1, 5), Some(Epoch(3)));
        given.told(1, OTHER, told(80, 1, 5), Some(Epoch(3)));
        let again = Some(Epoch(7));
        assert_eq!(given.told(0, OTHER, told(100, 2, 6), again), None, "from before it came up");
        assert_eq!(given.told(0, OTHER, told(100, 1, 7), again), None, "the other shard has said nothing to it");
        assert_eq!(given.told(1, OTHER, told(90, 1, 7), again), Some(told(90, 2, 7)), "numbers go on");
        assert_eq!(given.told(1, OTHER, told(90, 1, 8), None), None, "it is down");
    }

    #[test]
    fn a_window_is_divided_and_seen_once_every_shard_has_seen_it() {
        let mut taken = TakenWindows::new(2);
        assert_eq!(taken.told(OTHER, &told(101, 6, 5)), told(50, 6, 5));
        assert_eq!(taken.seen(0, OTHER, &RoomSeen { number: 6 }), None);
        taken.told(OTHER, &told(60, 7, 5));
        assert_eq!(taken.seen(1, OTHER, &RoomSeen { number: 6 }), None, "of the one before");
        assert_eq!(taken.seen(1, OTHER, &RoomSeen { number: 7 }), None);
        assert_eq!(taken.seen(0, OTHER, &RoomSeen { number: 7 }), Some(RoomSeen { number: 7 }));
    }
}

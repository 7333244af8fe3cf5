//! The monitors.

use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, Fsid, Utime};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Reader, Release, Writer};

/// Abilities that monitors agree that all of them have, one bit per release.
pub mod mon_features {
    pub const KRAKEN: u64 = 1;
    pub const LUMINOUS: u64 = 1 << 1;
    pub const MIMIC: u64 = 1 << 2;
    pub const OSDMAP_PRUNE: u64 = 1 << 3;
    pub const NAUTILUS: u64 = 1 << 4;
    pub const OCTOPUS: u64 = 1 << 5;
    pub const PACIFIC: u64 = 1 << 6;
    pub const PINGING: u64 = 1 << 7;
    /// All releases up to Pacific.
    pub const THROUGH_PACIFIC: u64 = 0x7f;

    const NAMES: [&str; 8] =
        ["kraken", "luminous", "mimic", "osdmap-prune", "nautilus", "octopus", "pacific", "elector-pinging"];

    /// Returns the names of the bits that are set, as `ceph mon feature ls` prints them.
    pub fn names(bits: u64) -> Vec<&'static str> {
        NAMES.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect()
    }
}

/// One monitor. Ceph's `mon_info_t`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MonInfo {
    pub name: String,
    pub addrs: EntityAddrVec,
    /// Clients prefer monitors with a low priority, and among them those with a high weight.
    pub priority: u16,
    pub weight: u16,
    pub crush_location: BTreeMap<String, String>,
}

impl Encode for MonInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(5, 1, |w| {
            w.str(&self.name);
            w.put(&self.addrs);
            w.u16(self.priority);
            w.u16(self.weight);
            w.put(&self.crush_location);
        });
    }
}

impl Decode for MonInfo {
    const MIN_BYTES: usize = 15;

    fn decode(r: &mut Reader<'_>) -> Result<MonInfo, DecodeError> {
        // Version 6 appends a stamp, of no use here.
        let (head, mut r) = r.versioned("monitor info", 6)?;
        if head.version < 4 {
            return Err(DecodeError::TooOld { what: "monitor info", version: head.version, oldest: 4 });
        }
        let mut info = MonInfo {
            name: r.get()?,
            addrs: r.get()?,
            priority: r.u16()?,
            weight: r.u16()?,
            crush_location: BTreeMap::new(),
        };
        if head.version >= 5 {
            info.crush_location = r.get()?;
        }
        Ok(info)
    }
}

/// The monitors of a cluster. Ceph's `MonMap`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonMap {
    pub fsid: Fsid,
    pub epoch: Epoch,
    pub last_changed: Utime,
    pub created: Utime,
    /// Bits of [`mon_features`].
    pub persistent_features: u64,
    pub optional_features: u64,
    pub mons: BTreeMap<String, MonInfo>,
    /// Names by rank.
    pub ranks: Vec<String>,
    pub min_mon_release: Release,
    pub removed_ranks: BTreeSet<u32>,
    /// Election strategy: 1 classic, 2 disallow, 3 connectivity.
    pub strategy: u8,
    pub disallowed_leaders: BTreeSet<String>,
    pub stretch_mode: bool,
    pub tiebreaker: String,
    pub stretch_marked_down: BTreeSet<String>,
}

impl MonMap {
    const NEWEST: u8 = 9;
    const OLDEST: u8 = 6;

    /// Returns a map without monitors.
    pub fn new(fsid: Fsid, created: Utime) -> MonMap {
        MonMap {
            fsid,
            epoch: Epoch(0),
            last_changed: created,
            created,
            persistent_features: mon_features::THROUGH_PACIFIC,
            optional_features: 0,
            mons: BTreeMap::new(),
            ranks: Vec::new(),
            min_mon_release: Release::PACIFIC,
            removed_ranks: BTreeSet::new(),
            strategy: 1,
            disallowed_leaders: BTreeSet::new(),
            stretch_mode: false,
            tiebreaker: String::new(),
            stretch_marked_down: BTreeSet::new(),
        }
    }

    /// Adds a monitor, or replaces the one of that name, and ranks it last if it is new.
    pub fn add(&mut self, name: &str, addrs: EntityAddrVec) {
        let info = MonInfo { name: name.to_owned(), addrs, ..MonInfo::default() };
        if self.mons.insert(name.to_owned(), info).is_none() {
            self.ranks.push(name.to_owned());
        }
    }

    pub fn rank(&self, name: &str) -> Option<usize> {
        self.ranks.iter().position(|n| n == name)
    }

    /// Returns the monitors by rank.
    pub fn by_rank(&self) -> impl Iterator<Item = &MonInfo> {
        self.ranks.iter().filter_map(|name| self.mons.get(name))
    }

    /// Returns the number of monitors that make a majority.
    pub fn majority(&self) -> usize {
        self.mons.len() / 2 + 1
    }
}

impl Encode for MonMap {
    fn encode(&self, w: &mut Writer) {
        w.versioned(Self::NEWEST, 6, |w| {
            w.put(&self.fsid);
            w.put(&self.epoch);
            w.put(&self.last_changed);
            w.put(&self.created);
            w.versioned(1, 1, |w| w.u64(self.persistent_features));
            w.versioned(1, 1, |w| w.u64(self.optional_features));
            w.put(&self.mons);
            w.put(&self.ranks);
            w.u8(self.min_mon_release.0);
            w.put(&self.removed_ranks);
            w.u8(self.strategy);
            w.put(&self.disallowed_leaders);
            w.bool(self.stretch_mode);
            w.str(&self.tiebreaker);
            w.put(&self.stretch_marked_down);
        });
    }
}

impl Decode for MonMap {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<MonMap, DecodeError> {
        let (head, mut r) = r.versioned("monitor map", Self::NEWEST)?;
        if head.version < Self::OLDEST {
            return Err(DecodeError::TooOld { what: "monitor map", version: head.version, oldest: Self::OLDEST });
        }
        let r = &mut r;
        let mut map = MonMap::new(r.get()?, Utime::ZERO);
        map.epoch = r.get()?;
        map.last_changed = r.get()?;
        map.created = r.get()?;
        map.persistent_features = r.versioned("monitor features", 1)?.1.u64()?;
        map.optional_features = r.versioned("monitor features", 1)?.1.u64()?;
        map.mons = r.get()?;
        map.ranks = r.get()?;
        map.min_mon_release = match head.version {
            7.. => Release(r.u8()?),
            _ => Release::UNKNOWN,
        };
        if head.version >= 8 {
            map.removed_ranks = r.get()?;
        }
        if head.version >= 9 {
            map.strategy = r.u8()?;
            map.disallowed_leaders = r.get()?;
            map.stretch_mode = r.bool()?;
            map.tiebreaker = r.get()?;
            map.stretch_marked_down = r.get()?;
        }
        Ok(map)
    }
}

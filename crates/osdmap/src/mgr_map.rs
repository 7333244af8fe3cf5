//! The managers as clients see them.

use std::collections::{BTreeMap, BTreeSet};
use types::{Epoch, Utime};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Reader, Release, Writer};

/// An option of a module. Ceph's `MgrMap::ModuleOption`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrModuleOption {
    pub name: String,
    pub kind: u8,
    pub level: u8,
    pub flags: u32,
    pub default_value: String,
    pub min: String,
    pub max: String,
    pub allowed: BTreeSet<String>,
    pub desc: String,
    pub long_desc: String,
    pub tags: BTreeSet<String>,
    pub see_also: BTreeSet<String>,
}

impl Encode for MgrModuleOption {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.str(&self.name);
            w.u8(self.kind);
            w.u8(self.level);
            w.u32(self.flags);
            w.str(&self.default_value);
            w.str(&self.min);
            w.str(&self.max);
            w.put(&self.allowed);
            w.str(&self.desc);
            w.str(&self.long_desc);
            w.put(&self.tags);
            w.put(&self.see_also);
        });
    }
}

impl Decode for MgrModuleOption {
    const MIN_BYTES: usize = 48;

    fn decode(r: &mut Reader<'_>) -> Result<MgrModuleOption, DecodeError> {
        let (_, mut r) = r.versioned("manager module option", 1)?;
        Ok(MgrModuleOption {
            name: r.get()?,
            kind: r.u8()?,
            level: r.u8()?,
            flags: r.u32()?,
            default_value: r.get()?,
            min: r.get()?,
            max: r.get()?,
            allowed: r.get()?,
            desc: r.get()?,
            long_desc: r.get()?,
            tags: r.get()?,
            see_also: r.get()?,
        })
    }
}

/// A module that a manager can run. Ceph's `MgrMap::ModuleInfo`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrModule {
    pub name: String,
    pub can_run: bool,
    /// Reason why it cannot run.
    pub error: String,
    pub options: BTreeMap<String, MgrModuleOption>,
}

impl Encode for MgrModule {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.str(&self.name);
            w.bool(self.can_run);
            w.str(&self.error);
            w.put(&self.options);
        });
    }
}

impl Decode for MgrModule {
    const MIN_BYTES: usize = 15;

    fn decode(r: &mut Reader<'_>) -> Result<MgrModule, DecodeError> {
        let (head, mut r) = r.versioned("manager module", 2)?;
        let mut module = MgrModule { name: r.get()?, can_run: r.bool()?, error: r.get()?, options: BTreeMap::new() };
        if head.version >= 2 {
            module.options = r.get()?;
        }
        Ok(module)
    }
}

/// A manager that stands by. Ceph's `MgrMap::StandbyInfo`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrStandby {
    pub gid: u64,
    pub name: String,
    /// Names alone, for old readers.
    pub old_available_modules: BTreeSet<String>,
    pub available_modules: Vec<MgrModule>,
    pub features: u64,
}

impl Encode for MgrStandby {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 1, |w| {
            w.u64(self.gid);
            w.str(&self.name);
            w.put(&self.old_available_modules);
            w.put(&self.available_modules);
            w.u64(self.features);
        });
    }
}

impl Decode for MgrStandby {
    const MIN_BYTES: usize = 34;

    fn decode(r: &mut Reader<'_>) -> Result<MgrStandby, DecodeError> {
        let (head, mut r) = r.versioned("standby manager", 4)?;
        if head.version < 4 {
            return Err(DecodeError::TooOld { what: "standby manager", version: head.version, oldest: 4 });
        }
        Ok(MgrStandby {
            gid: r.u64()?,
            name: r.get()?,
            old_available_modules: r.get()?,
            available_modules: r.get()?,
            features: r.u64()?,
        })
    }
}

/// The active manager and those that stand by. Ceph's `MgrMap`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MgrMap {
    pub epoch: Epoch,
    pub active_addrs: EntityAddrVec,
    pub active_gid: u64,
    pub available: bool,
    pub active_name: String,
    pub standbys: BTreeMap<u64, MgrStandby>,
    pub modules: BTreeSet<String>,
    pub services: BTreeMap<String, String>,
    pub available_modules: Vec<MgrModule>,
    pub active_change: Utime,
    pub always_on_modules: BTreeMap<u32, BTreeSet<String>>,
    pub active_mgr_features: u64,
    pub last_failure_osd_epoch: Epoch,
    /// Addresses of the active manager's own clients; their names are known from Reef on.
    pub clients: Vec<EntityAddrVec>,
    pub client_names: Vec<String>,
    /// Encoded from Squid on.
    pub flags: u64,
    /// Encoded from Tentacle on.
    pub force_disabled_modules: BTreeSet<String>,
}

impl MgrMap {
    const NEWEST: u8 = 14;
    const OLDEST: u8 = 11;
}

impl Encode for MgrMap {
    fn encode(&self, w: &mut Writer) {
        let release = w.target().release;
        let version = match () {
            () if release >= Release::TENTACLE => 14,
            () if release >= Release::SQUID => 13,
            () if release >= Release::REEF => 12,
            () => 11,
        };
        w.versioned(version, 6, |w| {
            w.put(&self.epoch);
            w.put(&self.active_addrs);
            w.u64(self.active_gid);
            w.bool(self.available);
            w.str(&self.active_name);
            w.put(&self.standbys);
            w.put(&self.modules);
            w.put(&self.services);
            w.put(&self.available_modules);
            w.put(&self.active_change);
            w.put(&self.always_on_modules);
            w.u64(self.active_mgr_features);
            w.put(&self.last_failure_osd_epoch);
            w.put(&self.clients);
            if version >= 12 {
                w.put(&self.client_names);
            }
            if version >= 13 {
                w.u64(self.flags);
            }
            if version >= 14 {
                w.put(&self.force_disabled_modules);
            }
        });
    }
}

impl Decode for MgrMap {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<MgrMap, DecodeError> {
        let (head, mut r) = r.versioned("manager map", Self::NEWEST)?;
        if head.version < Self::OLDEST {
            return Err(DecodeError::TooOld { what: "manager map", version: head.version, oldest: Self::OLDEST });
        }
        let mut map = MgrMap {
            epoch: r.get()?,
            active_addrs: r.get()?,
            active_gid: r.u64()?,
            available: r.bool()?,
            active_name: r.get()?,
            standbys: r.get()?,
            modules: r.get()?,
            services: r.get()?,
            available_modules: r.get()?,
            active_change: r.get()?,
            always_on_modules: r.get()?,
            active_mgr_features: r.u64()?,
            last_failure_osd_epoch: r.get()?,
            clients: r.get()?,
            ..MgrMap::default()
        };
        if head.version >= 12 {
            map.client_names = r.get()?;
        }
        if head.version >= 13 {
            map.flags = r.u64()?;
        }
        if head.version >= 14 {
            map.force_disabled_modules = r.get()?;
        }
        Ok(map)
    }
}

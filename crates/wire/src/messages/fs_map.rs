//! Maps of file systems, as far as a cluster without file systems has them.

use crate::envelope::{Header, Message};
use crate::{Decode, DecodeError, Encode, Reader, Release, Rope, Writer};
use std::collections::BTreeMap;
use types::{Epoch, Utime};

/// Named on-disk features: those that all parties may ignore, those that writers must know, and those that all parties
/// must know. Ceph's `CompatSet`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CompatSet {
    pub compat: FeatureSet,
    pub ro_compat: FeatureSet,
    pub incompat: FeatureSet,
}

/// A bit mask and the names of its bits.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct FeatureSet {
    pub mask: u64,
    pub names: BTreeMap<u64, String>,
}

impl Encode for FeatureSet {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.mask);
        w.put(&self.names);
    }
}

impl Decode for FeatureSet {
    const MIN_BYTES: usize = 12;

    fn decode(r: &mut Reader<'_>) -> Result<FeatureSet, DecodeError> {
        Ok(FeatureSet { mask: r.u64()?, names: r.get()? })
    }
}

impl Encode for CompatSet {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.compat);
        w.put(&self.ro_compat);
        w.put(&self.incompat);
    }
}

impl Decode for CompatSet {
    const MIN_BYTES: usize = 36;

    fn decode(r: &mut Reader<'_>) -> Result<CompatSet, DecodeError> {
        Ok(CompatSet { compat: r.get()?, ro_compat: r.get()?, incompat: r.get()? })
    }
}

/// The map of a cluster that has no file system and no metadata server. Ceph's `FSMap`, in `MFSMap`.
///
/// Decoding refuses maps that have either: no code here could handle them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsMap {
    pub epoch: Epoch,
    pub next_filesystem_id: u64,
    pub legacy_client_fscid: i32,
    pub default_compat: CompatSet,
    pub enable_multiple: bool,
    pub ever_enabled_multiple: bool,
    /// Time when the map was made (Reef and later).
    pub created: Utime,
}

impl Default for FsMap {
    fn default() -> FsMap {
        FsMap {
            epoch: Epoch(1),
            next_filesystem_id: 1,
            legacy_client_fscid: -1,
            default_compat: CompatSet::default(),
            enable_multiple: true,
            ever_enabled_multiple: true,
            created: Utime::ZERO,
        }
    }
}

impl Encode for FsMap {
    fn encode(&self, w: &mut Writer) {
        let with_created = w.target().release >= Release::SQUID;
        w.versioned(if with_created { 8 } else { 7 }, 6, |w| {
            w.put(&self.epoch);
            w.u64(self.next_filesystem_id);
            w.i32(self.legacy_client_fscid);
            w.put(&self.default_compat);
            w.bool(self.enable_multiple);
            // These counts are of file systems, roles, standby daemons and their epochs.
            (0..4).for_each(|_| w.count(0));
            w.bool(self.ever_enabled_multiple);
            if with_created {
                w.put(&self.created);
            }
        });
    }
}

impl Decode for FsMap {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<FsMap, DecodeError> {
        let (head, mut r) = r.versioned("file system map", 8)?;
        if head.version < 7 {
            return Err(DecodeError::TooOld { what: "file system map", version: head.version, oldest: 7 });
        }
        let mut map = FsMap {
            epoch: r.get()?,
            next_filesystem_id: r.u64()?,
            legacy_client_fscid: r.i32()?,
            default_compat: r.get()?,
            enable_multiple: r.bool()?,
            ..FsMap::default()
        };
        for what in ["file systems", "metadata server roles", "standby metadata servers", "standby epochs"] {
            match r.u32()? {
                0 => {}
                count => return Err(DecodeError::Value { what, value: count.into() }),
            }
        }
        map.ever_enabled_multiple = r.bool()?;
        if head.version >= 8 {
            map.created = r.get()?;
        }
        Ok(map)
    }
}

impl Message for FsMap {
    const TYPE: u16 = 45;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.epoch);
        w.put(self);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<FsMap, DecodeError> {
        r.skip(4)?;
        r.get()
    }
}

/// A file system's id and name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsName {
    pub id: i32,
    pub name: String,
}

impl Encode for FsName {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.i32(self.id);
            w.str(&self.name);
        });
    }
}

impl Decode for FsName {
    const MIN_BYTES: usize = 14;

    fn decode(r: &mut Reader<'_>) -> Result<FsName, DecodeError> {
        let (_, mut r) = r.versioned("file system name", 1)?;
        Ok(FsName { id: r.i32()?, name: r.get()? })
    }
}

/// List of file systems, which is all that a client needs. Ceph's `FSMapUser`, in `MFSMapUser`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FsMapUser {
    pub epoch: Epoch,
    pub legacy_client_fscid: i32,
    pub filesystems: Vec<FsName>,
}

impl Default for FsMapUser {
    fn default() -> FsMapUser {
        FsMapUser { epoch: Epoch(1), legacy_client_fscid: -1, filesystems: Vec::new() }
    }
}

impl Message for FsMapUser {
    const TYPE: u16 = 103;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.epoch);
        w.versioned(1, 1, |w| {
            w.put(&self.epoch);
            w.i32(self.legacy_client_fscid);
            w.put(&self.filesystems);
        });
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<FsMapUser, DecodeError> {
        r.skip(4)?;
        let (_, mut r) = r.versioned("user's file system map", 1)?;
        Ok(FsMapUser { epoch: r.get()?, legacy_client_fscid: r.i32()?, filesystems: r.get()? })
    }
}

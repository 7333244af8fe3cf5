//! A placement group's record of an object, beside the object's bytes.

use crate::group::digests::Digests;
use crate::group::snap_set::{Overlaps, SnapSet};
use crate::watch::WatchInfo;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::ObjectStat;
use types::{EVersion, EntityName, ReqId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// Name of the store attribute that holds an [`ObjectInfo`]. Clients' attributes carry [`USER_ATTR_PREFIX`], so the
/// two never meet.
pub const OBJECT_INFO_ATTR: &[u8] = b"oi";

/// First byte of the store names of clients' attributes.
pub const USER_ATTR_PREFIX: u8 = b'_';

/// Returns the store's name for a client's attribute.
pub fn user_attr(name: &[u8]) -> Vec<u8> {
    let mut stored = Vec::with_capacity(name.len() + 1);
    stored.push(USER_ATTR_PREFIX);
    stored.extend_from_slice(name);
    stored
}

/// An object's version and times, kept as one of its attributes so that it moves with the object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectInfo {
    /// Version of the update that made the object what it is.
    pub version: EVersion,
    pub prior_version: EVersion,
    /// The version clients see and compare: grows with every change they make.
    pub user_version: u64,
    /// The request of that update.
    pub last_reqid: ReqId,
    /// The client's time of the last change.
    pub mtime: Utime,
    /// File-system clients order truncations by this counter.
    pub truncate_seq: u32,
    pub truncate_size: u64,
    /// Hints of the client about the object's future.
    pub expected_object_bytes: u64,
    pub expected_write_bytes: u64,
    pub alloc_hint_flags: u32,
    /// Size of an object of an erasure-coded pool, of which each store has a shard only.
    pub size_bytes: Option<u64>,
    /// Watchers of the object, by the cookie of the watch and the client.
    pub watchers: BTreeMap<(u64, EntityName), WatchInfo>,
    /// States of the object that snapshots preserve. These states themselves have none.
    pub snap_set: SnapSet,
    /// Digests of the object's content, as far as they are known.
    pub digests: Digests,
}

impl ObjectInfo {
    /// Returns the object information among `stat`'s attributes.
    ///
    /// Errors: what is stored is not one; the object is then damaged.
    pub fn of(stat: &ObjectStat) -> Result<ObjectInfo, DecodeError> {
        match stat.attrs.get(OBJECT_INFO_ATTR) {
            Some(bytes) => ObjectInfo::from_slice(bytes),
            None => Err(DecodeError::Short { needed: 6, left: 0 }),
        }
    }

    pub fn to_bytes(&self) -> Bytes {
        self.to_vec(Target::default()).into()
    }
}

/// Versions of the encoding. Each has all fields of those before it. An object's information is written in the first
/// one that has room for what it says.
mod form {
    /// Has no size, watchers or snapshots: the information of most objects of replicated pools.
    pub const PLAIN: u8 = 1;
    /// Adds the size of an object of an erasure-coded pool.
    pub const SIZED: u8 = 2;
    /// Adds the watchers. The size becomes an option, behind a flag.
    pub const WATCHED: u8 = 3;
    /// Adds the snapshots. This version is read, but no longer written.
    pub const SNAPSHOTS: u8 = 4;
    /// Has the snapshots in less space. Software must know this version to read it.
    pub const COMPACT_SNAPSHOTS: u8 = 5;
}

impl Encode for ObjectInfo {
    fn encode(&self, w: &mut Writer) {
        let (version, oldest) = match (self.snap_set.is_empty(), self.watchers.is_empty(), self.size_bytes) {
            (true, true, None) => (form::PLAIN, form::PLAIN),
            (true, true, Some(_)) => (form::SIZED, form::PLAIN),
            (true, false, _) => (form::WATCHED, form::PLAIN),
            (false, ..) => (form::COMPACT_SNAPSHOTS, form::COMPACT_SNAPSHOTS),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.version);
            w.put(&self.prior_version);
            w.u64(self.user_version);
            w.put(&self.last_reqid);
            w.put(&self.mtime);
            w.u32(self.truncate_seq);
            w.u64(self.truncate_size);
            w.u64(self.expected_object_bytes);
            w.u64(self.expected_write_bytes);
            w.u32(self.alloc_hint_flags);
            if version >= form::WATCHED {
                w.bool(self.size_bytes.is_some());
            }
            if let Some(size) = self.size_bytes {
                w.u64(size);
            }
            if version >= form::WATCHED {
                w.put(&self.watchers);
            }
            if version >= form::COMPACT_SNAPSHOTS {
                w.put(&self.snap_set);
            }
            self.digests.encode(w);
        });
    }
}

impl Decode for ObjectInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectInfo, DecodeError> {
        let (version, mut r) = r.versioned("object information", form::COMPACT_SNAPSHOTS)?;
        Ok(ObjectInfo {
            version: r.get()?,
            prior_version: r.get()?,
            user_version: r.u64()?,
            last_reqid: r.get()?,
            mtime: r.get()?,
            truncate_seq: r.u32()?,
            truncate_size: r.u64()?,
            expected_object_bytes: r.u64()?,
            expected_write_bytes: r.u64()?,
            alloc_hint_flags: r.u32()?,
            size_bytes: match version.version {
                form::PLAIN => None,
                form::SIZED => Some(r.u64()?),
                _ if r.bool()? => Some(r.u64()?),
                _ => None,
            },
            watchers: if version.version >= form::WATCHED { r.get()? } else { BTreeMap::new() },
            snap_set: match version.version {
                ..form::SNAPSHOTS => SnapSet::default(),
                form::SNAPSHOTS => SnapSet::decode(&mut r, Overlaps::Plain)?,
                _ => SnapSet::decode(&mut r, Overlaps::Compact)?,
            },
            digests: Digests::decode(&mut r)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::SnapId;
    use wire::EntityAddr;

    #[test]
    fn what_clones_share_is_read_as_it_was_written_before() {
        let mut snap_set = SnapSet { seq: SnapId(4), ..SnapSet::default() };
        snap_set.add_clone(SnapId(4), vec![SnapId(4), SnapId(2)], 0x3000);
        snap_set.head_changed(&[0x1001].into_iter().collect());
        let info = ObjectInfo { user_version: 3, snap_set, ..ObjectInfo::default() };
        // Version 4: what version 1 has, no size, no watchers, and what is known of snapshots.
        let mut w = wire::Writer::new(Target::default());
        w.versioned(4, 1, |w| {
            let plain = ObjectInfo { snap_set: SnapSet::default(), ..info.clone() }.to_bytes();
            w.raw(&plain[6..]);
            w.raw(&[0; 5]);
            w.u64(4);
            w.u32(1);
            w.put(&SnapId(4));
            w.put(&vec![SnapId(4), SnapId(2)]);
            w.u64(0x3000);
            w.put(&info.snap_set.clones[0].overlap);
            w.bool(false);
        });
        assert_eq!(ObjectInfo::from_slice(w.as_slice()), Ok(info));
    }

    #[test]
    fn object_information_reads_back_in_each_of_its_versions() {
        let watcher = WatchInfo { timeout_s: 30, addr: EntityAddr::default() };
        let none = SnapSet::default;
        let seen = SnapSet { seq: SnapId(4), ..SnapSet::default() };
        for (size_bytes, watchers, snap_set, version) in [
            (None, BTreeMap::new(), none(), 1),
            (Some(7), BTreeMap::new(), none(), 2),
            (None, BTreeMap::from([((94_000_000, EntityName::client(4)), watcher)]), none(), 3),
            (Some(7), BTreeMap::from([((1, EntityName::client(4)), watcher)]), none(), 3),
            (None, BTreeMap::new(), seen.clone(), 5),
            (Some(7), BTreeMap::from([((1, EntityName::client(4)), watcher)]), seen, 5),
        ] {
            let info = ObjectInfo { user_version: 3, size_bytes, watchers, snap_set, ..ObjectInfo::default() };
            let bytes = info.to_bytes();
            assert_eq!(bytes[0], version);
            assert_eq!(ObjectInfo::from_slice(&bytes), Ok(info));
            for end in 0..bytes.len() {
                assert!(ObjectInfo::from_slice(&bytes[..end]).is_err());
            }
        }
    }
}

//! State of an advisory lock on an object: what class `lock` stores, and what it tells clients.

use crate::{Decode, DecodeError, Encode, EntityAddr, Reader, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityName, Utime};

/// Kinds of a lock: how many lockers it may have, and the fate of the object afterwards.
pub mod kind {
    pub const EXCLUSIVE: u8 = 1;
    pub const SHARED: u8 = 2;
    /// Exclusive; the object is removed when the lock is given up.
    pub const EXCLUSIVE_EPHEMERAL: u8 = 3;
}

/// Identity of a locker: one client may hold a lock several times under different cookies. Ceph's `locker_id_t`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LockerId {
    pub name: EntityName,
    pub cookie: Bytes,
}

/// Ceph's `locker_info_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LockerInfo {
    /// Time at which the hold expires; zero for never.
    pub expiration: Utime,
    pub addr: EntityAddr,
    pub description: Bytes,
}

/// A lock's state. Ceph's `lock_info_t`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LockInfo {
    pub lockers: BTreeMap<LockerId, LockerInfo>,
    /// [`kind::EXCLUSIVE`] or another kind; 0 if nobody has ever held the lock.
    pub kind: u8,
    pub tag: Bytes,
}

impl Encode for LockerId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.name);
            w.put(&self.cookie);
        });
    }
}

impl Decode for LockerId {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LockerId, DecodeError> {
        let (_, mut r) = r.versioned("holder of a lock", 1)?;
        Ok(LockerId { name: r.get()?, cookie: r.get()? })
    }
}

impl Encode for LockerInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.expiration);
            w.put(&self.addr);
            w.put(&self.description);
        });
    }
}

impl Decode for LockerInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LockerInfo, DecodeError> {
        let (_, mut r) = r.versioned("information on the holder of a lock", 1)?;
        Ok(LockerInfo { expiration: r.get()?, addr: r.get()?, description: r.get()? })
    }
}

impl Encode for LockInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.lockers);
            w.u8(self.kind);
            w.put(&self.tag);
        });
    }
}

impl Decode for LockInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LockInfo, DecodeError> {
        let (_, mut r) = r.versioned("lock", 1)?;
        Ok(LockInfo { lockers: r.get()?, kind: r.u8()?, tag: r.get()? })
    }
}

//! Inputs and outputs of class `rbd` and class `lock`, as far as images need them.

use bytes::Bytes;
use types::{EntityName, Utime};
use wire::rbd::SnapshotNamespace;
use wire::{Decode, DecodeError, EntityAddr, Reader, Target, Writer};

/// Encodes the input of a method.
pub(super) fn input(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    fill(&mut w);
    w.into_vec()
}

/// Kind of a snapshot: Ceph's `SnapshotNamespace`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapshotKind {
    /// Taken by a user.
    User,
    /// Removed, but still shown by clones.
    Trash,
    /// Taken for a group of images or for mirroring; the protocol's number.
    Other(u32),
}

impl SnapshotKind {
    pub(super) fn of(namespace: &SnapshotNamespace) -> SnapshotKind {
        match namespace {
            SnapshotNamespace::User => SnapshotKind::User,
            SnapshotNamespace::Trash { .. } => SnapshotKind::Trash,
            SnapshotNamespace::Other { kind, .. } => SnapshotKind::Other(*kind),
        }
    }
}

/// An owner of a lock.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Locker {
    pub name: EntityName,
    pub cookie: Bytes,
    pub addr: EntityAddr,
}

/// A lock's state: Ceph's reply to `lock.get_info`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct LockInfo {
    pub lockers: Vec<Locker>,
    /// 0 if the lock has never been held.
    pub kind: u8,
    pub tag: Bytes,
}

impl Decode for LockInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LockInfo, DecodeError> {
        let (_, mut r) = r.versioned("lock", 1)?;
        let count = r.count("holders of a lock", 12)?;
        let mut lockers = Vec::new();
        for _ in 0..count {
            let (name, cookie) = {
                let (_, mut r) = r.versioned("holder of a lock", 1)?;
                (r.get()?, r.get()?)
            };
            let (_, mut r) = r.versioned("information on the holder of a lock", 1)?;
            let _expiration: Utime = r.get()?;
            lockers.push(Locker { name, cookie, addr: r.get()? });
        }
        Ok(LockInfo { lockers, kind: r.u8()?, tag: r.get()? })
    }
}

/// Inputs of class `lock`.
pub(super) mod lock_input {
    use super::*;

    const EXCLUSIVE: u8 = 1;
    /// Name of all locks of images.
    pub const NAME: &str = "rbd_lock";

    pub fn lock(cookie: &[u8], tag: &str) -> Vec<u8> {
        input(|w| {
            w.versioned(1, 1, |w| {
                w.str(NAME);
                w.u8(EXCLUSIVE);
                w.blob(cookie);
                w.str(tag);
                w.str(""); // description
                w.put(&Utime::ZERO); // it does not expire
                w.u8(0); // flags
            })
        })
    }

    pub fn unlock(cookie: &[u8]) -> Vec<u8> {
        input(|w| {
            w.versioned(1, 1, |w| {
                w.str(NAME);
                w.blob(cookie);
            })
        })
    }

    pub fn break_lock(locker: &Locker) -> Vec<u8> {
        input(|w| {
            w.versioned(1, 1, |w| {
                w.str(NAME);
                w.put(&locker.name);
                w.blob(&locker.cookie);
            })
        })
    }

    pub fn get_info() -> Vec<u8> {
        input(|w| w.versioned(1, 1, |w| w.str(NAME)))
    }

    pub fn assert_locked(cookie: &[u8], tag: &str) -> Vec<u8> {
        input(|w| {
            w.versioned(1, 1, |w| {
                w.str(NAME);
                w.u8(EXCLUSIVE);
                w.blob(cookie);
                w.str(tag);
            })
        })
    }

    pub fn set_cookie(cookie: &[u8], tag: &str, new_cookie: &[u8]) -> Vec<u8> {
        input(|w| {
            w.versioned(1, 1, |w| {
                w.str(NAME);
                w.u8(EXCLUSIVE);
                w.blob(cookie);
                w.str(tag);
                w.blob(new_cookie);
            })
        })
    }
}

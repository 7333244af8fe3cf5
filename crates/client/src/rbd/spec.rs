//! Inputs and outputs of class `rbd` and class `lock`, as far as images need them.

use types::Utime;
use wire::rbd::SnapshotNamespace;
use wire::{Target, Writer};

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

/// Inputs of class `lock`.
pub(super) mod lock_input {
    use super::*;
    use wire::lock::LockerId;
    use wire::lock::kind::EXCLUSIVE;

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

    pub fn break_lock(locker: &LockerId) -> Vec<u8> {
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

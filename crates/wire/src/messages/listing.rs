//! Answers that list objects, snapshots and watchers.

use crate::addr::EntityAddr;
use crate::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use types::{EntityName, ObjectId, SnapId};

/// An object in a listing.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct ListedObject {
    pub nspace: Bytes,
    pub name: Bytes,
    /// Locator key, empty if the object is placed by its name.
    pub key: Bytes,
}

impl Encode for ListedObject {
    fn encode(&self, w: &mut Writer) {
        w.blob(&self.nspace);
        w.blob(&self.name);
        w.blob(&self.key);
    }
}

impl Decode for ListedObject {
    const MIN_BYTES: usize = 12;

    fn decode(r: &mut Reader<'_>) -> Result<ListedObject, DecodeError> {
        Ok(ListedObject { nspace: r.blob_bytes()?, name: r.blob_bytes()?, key: r.blob_bytes()? })
    }
}

/// One batch of a listing: the answer to `PGNLS`. Ceph's `pg_nls_response_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectListing {
    /// First position of the next batch.
    pub next: ObjectId,
    pub objects: Vec<ListedObject>,
}

impl Encode for ObjectListing {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.next);
            w.put(&self.objects);
        });
    }
}

impl Decode for ObjectListing {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectListing, DecodeError> {
        let (_, mut r) = r.versioned("object listing", 1)?;
        Ok(ObjectListing { next: r.get()?, objects: r.get()? })
    }
}

/// One batch of a listing within one namespace: the answer to `PGLS`. Ceph's `pg_ls_response_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OldObjectListing {
    pub next: ObjectId,
    /// Names and locator keys.
    pub objects: Vec<(Bytes, Bytes)>,
}

impl Encode for OldObjectListing {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.next);
        w.put(&self.objects);
    }
}

impl Decode for OldObjectListing {
    const MIN_BYTES: usize = 44;

    fn decode(r: &mut Reader<'_>) -> Result<OldObjectListing, DecodeError> {
        let version = r.u8()?;
        if version != 1 {
            return Err(DecodeError::Value { what: "version of an object listing", value: version.into() });
        }
        Ok(OldObjectListing { next: r.get()?, objects: r.get()? })
    }
}

/// A client that watches an object. Ceph's `watch_item_t`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Watcher {
    pub name: EntityName,
    pub cookie: u64,
    pub timeout_s: u32,
    pub addr: EntityAddr,
}

impl Encode for Watcher {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.name);
            w.u64(self.cookie);
            w.u32(self.timeout_s);
            w.put(&self.addr);
        });
    }
}

impl Decode for Watcher {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Watcher, DecodeError> {
        let (head, mut r) = r.versioned("watcher", 2)?;
        let (name, cookie, timeout_s) = (r.get()?, r.u64()?, r.u32()?);
        let addr = if head.version >= 2 { r.get()? } else { EntityAddr::default() };
        Ok(Watcher { name, cookie, timeout_s, addr })
    }
}

/// The answer to `LIST_WATCHERS`. Ceph's `obj_list_watch_response_t`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Watchers(pub Vec<Watcher>);

impl Encode for Watchers {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| w.put(&self.0));
    }
}

impl Decode for Watchers {
    const MIN_BYTES: usize = 10;

    fn decode(r: &mut Reader<'_>) -> Result<Watchers, DecodeError> {
        let (_, mut r) = r.versioned("watchers", 1)?;
        r.get().map(Watchers)
    }
}

/// An earlier state or the present state of an object. Ceph's `clone_info`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CloneInfo {
    /// [`SnapId::HEAD`] for the present state.
    pub id: SnapId,
    /// Snapshots that see this state, oldest first.
    pub snaps: Vec<SnapId>,
    /// Ranges (offset, length) that have the same bytes in the next newer state.
    pub overlap: Vec<(u64, u64)>,
    pub size_bytes: u64,
}

impl Encode for CloneInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.id);
            w.put(&self.snaps);
            w.put(&self.overlap);
            w.u64(self.size_bytes);
        });
    }
}

impl Decode for CloneInfo {
    const MIN_BYTES: usize = 30;

    fn decode(r: &mut Reader<'_>) -> Result<CloneInfo, DecodeError> {
        let (_, mut r) = r.versioned("clone", 1)?;
        Ok(CloneInfo { id: r.get()?, snaps: r.get()?, overlap: r.get()?, size_bytes: r.u64()? })
    }
}

/// All states of an object, oldest first, the present one last: the answer to `LIST_SNAPS`. Ceph's
/// `obj_list_snap_response_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapListing {
    pub clones: Vec<CloneInfo>,
    /// The newest snapshot that the object has seen.
    pub seq: SnapId,
}

impl Encode for SnapListing {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.clones);
            w.put(&self.seq);
        });
    }
}

impl Decode for SnapListing {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<SnapListing, DecodeError> {
        let (head, mut r) = r.versioned("snapshot listing", 2)?;
        let clones = r.get()?;
        Ok(SnapListing { clones, seq: if head.version >= 2 { r.get()? } else { SnapId::DIR } })
    }
}

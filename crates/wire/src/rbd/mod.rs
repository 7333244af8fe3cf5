//! Encodings of block images: values of an image's keys, and what methods of class `rbd` take and give.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use types::Utime;

pub mod object_map;

/// Number that stands for the image itself where a snapshot may stand: Ceph's `CEPH_NOSNAP`.
pub const NO_SNAP: u64 = u64::MAX - 1;

/// The snapshot that a clone was made of: Ceph's `ParentImageSpec`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParentSpec {
    /// Pool id; -1 if the image has no parent.
    pub pool: i64,
    pub namespace: Bytes,
    pub image: Bytes,
    pub snap: u64,
}

impl Default for ParentSpec {
    fn default() -> ParentSpec {
        ParentSpec { pool: -1, namespace: Bytes::new(), image: Bytes::new(), snap: NO_SNAP }
    }
}

impl ParentSpec {
    pub fn exists(&self) -> bool {
        self.pool >= 0 && !self.image.is_empty() && self.snap != NO_SNAP
    }
}

impl Encode for ParentSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.pool);
            w.put(&self.namespace);
            w.put(&self.image);
            w.u64(self.snap);
        });
    }
}

impl Decode for ParentSpec {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ParentSpec, DecodeError> {
        let (_, mut r) = r.versioned("parent of an image", 1)?;
        Ok(ParentSpec { pool: r.get()?, namespace: r.get()?, image: r.get()?, snap: r.u64()? })
    }
}

/// The parent, and the part of it that the image still shows: Ceph's `cls_rbd_parent`, the value of key `parent`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Parent {
    pub spec: ParentSpec,
    /// Bytes that the image shows; `None` if only its snapshots still show the parent.
    pub head_overlap: Option<u64>,
}

impl Encode for Parent {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.spec.pool);
            w.put(&self.spec.namespace);
            w.put(&self.spec.image);
            w.u64(self.spec.snap);
            w.put(&self.head_overlap);
        });
    }
}

impl Decode for Parent {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Parent, DecodeError> {
        let (head, mut r) = r.versioned("parent of an image", 2)?;
        let pool = r.get()?;
        let namespace = if head.version >= 2 { r.get()? } else { Bytes::new() };
        let spec = ParentSpec { pool, namespace, image: r.get()?, snap: r.u64()? };
        let head_overlap = if head.version >= 2 { r.get()? } else { Some(r.u64()?) };
        Ok(Parent { spec, head_overlap })
    }
}

/// A clone of a snapshot: Ceph's `ChildImageSpec`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ChildSpec {
    pub pool: i64,
    pub image: Bytes,
    pub namespace: Bytes,
}

impl Encode for ChildSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.pool);
            w.put(&self.image);
            w.put(&self.namespace);
        });
    }
}

impl Decode for ChildSpec {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ChildSpec, DecodeError> {
        let (head, mut r) = r.versioned("clone of an image", 2)?;
        let (pool, image) = (r.get()?, r.get()?);
        Ok(ChildSpec { pool, image, namespace: if head.version >= 2 { r.get()? } else { Bytes::new() } })
    }
}

/// Kind of a snapshot: Ceph's `SnapshotNamespace`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum SnapshotNamespace {
    #[default]
    User,
    /// In the trash, with its former name and kind.
    Trash { original_name: Bytes, original_kind: u32 },
    /// Taken for a group or for mirroring: its kind, and the rest of the encoding.
    Other { kind: u32, body: Bytes },
}

impl SnapshotNamespace {
    pub const USER: u32 = 0;
    pub const TRASH: u32 = 2;

    pub fn kind(&self) -> u32 {
        match self {
            SnapshotNamespace::User => Self::USER,
            SnapshotNamespace::Trash { .. } => Self::TRASH,
            SnapshotNamespace::Other { kind, .. } => *kind,
        }
    }

    pub fn is_trash(&self) -> bool {
        self.kind() == Self::TRASH
    }
}

impl Encode for SnapshotNamespace {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u32(self.kind());
            match self {
                SnapshotNamespace::User => {}
                SnapshotNamespace::Trash { original_name, original_kind } => {
                    w.put(original_name);
                    w.u32(*original_kind);
                }
                SnapshotNamespace::Other { body, .. } => w.raw(body),
            }
        });
    }
}

impl Decode for SnapshotNamespace {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<SnapshotNamespace, DecodeError> {
        let (_, mut r) = r.versioned("namespace of a snapshot", 1)?;
        Ok(match r.u32()? {
            Self::USER => SnapshotNamespace::User,
            Self::TRASH => SnapshotNamespace::Trash { original_name: r.get()?, original_kind: r.u32()? },
            kind => SnapshotNamespace::Other { kind, body: r.bytes(r.left())? },
        })
    }
}

/// Protection of a snapshot: a protected one may be cloned (format v1) and must stay.
pub mod protection {
    pub const UNPROTECTED: u8 = 0;
    pub const END: u8 = 3;
}

/// Ceph's `cls_rbd_snap`, the value of key `snapshot_<id>`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Snapshot {
    pub id: u64,
    pub name: Bytes,
    pub image_size: u64,
    pub protection: u8,
    pub flags: u64,
    pub namespace: SnapshotNamespace,
    pub timestamp: Utime,
    pub child_count: u32,
    /// Bytes of the image's parent that the snapshot shows.
    pub parent_overlap: Option<u64>,
}

impl Encode for Snapshot {
    fn encode(&self, w: &mut Writer) {
        w.versioned(8, 8, |w| {
            w.u64(self.id);
            w.put(&self.name);
            w.u64(self.image_size);
            w.u8(self.protection);
            w.u64(self.flags);
            w.put(&self.namespace);
            w.put(&self.timestamp);
            w.u32(self.child_count);
            w.put(&self.parent_overlap);
        });
    }
}

impl Decode for Snapshot {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Snapshot, DecodeError> {
        let (head, mut r) = r.versioned("snapshot of an image", 8)?;
        // Nacre has never written an older version.
        if head.version < 8 {
            return Err(DecodeError::Value { what: "version of a snapshot of an image", value: head.version.into() });
        }
        Ok(Snapshot {
            id: r.u64()?,
            name: r.get()?,
            image_size: r.u64()?,
            protection: r.u8()?,
            flags: r.u64()?,
            namespace: r.get()?,
            timestamp: r.get()?,
            child_count: r.u32()?,
            parent_overlap: r.get()?,
        })
    }
}

/// Description of a snapshot for clients: Ceph's `SnapshotInfo`, which method `snapshot_get` gives.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotInfo {
    pub id: u64,
    pub namespace: SnapshotNamespace,
    pub name: Bytes,
    pub image_size: u64,
    pub timestamp: Utime,
    pub child_count: u32,
}

impl From<Snapshot> for SnapshotInfo {
    fn from(snapshot: Snapshot) -> SnapshotInfo {
        let Snapshot { id, namespace, name, image_size, timestamp, child_count, .. } = snapshot;
        SnapshotInfo { id, namespace, name, image_size, timestamp, child_count }
    }
}

impl Encode for SnapshotInfo {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.id);
            w.put(&self.namespace);
            w.put(&self.name);
            w.u64(self.image_size);
            w.put(&self.timestamp);
            w.u32(self.child_count);
        });
    }
}

impl Decode for SnapshotInfo {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<SnapshotInfo, DecodeError> {
        let (_, mut r) = r.versioned("description of a snapshot", 1)?;
        Ok(SnapshotInfo {
            id: r.u64()?,
            namespace: r.get()?,
            name: r.get()?,
            image_size: r.u64()?,
            timestamp: r.get()?,
            child_count: r.u32()?,
        })
    }
}

/// An image in the trash: Ceph's `TrashImageSpec`, the value of key `id_<image>`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TrashSpec {
    pub source: u8,
    pub name: Bytes,
    pub deletion_time: Utime,
    pub deferment_end: Utime,
    pub state: u8,
}

impl Encode for TrashSpec {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.u8(self.source);
            w.put(&self.name);
            w.put(&self.deletion_time);
            w.put(&self.deferment_end);
            w.u8(self.state);
        });
    }
}

impl Decode for TrashSpec {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<TrashSpec, DecodeError> {
        let (head, mut r) = r.versioned("image in the trash", 2)?;
        Ok(TrashSpec {
            source: r.u8()?,
            name: r.get()?,
            deletion_time: r.get()?,
            deferment_end: r.get()?,
            state: if head.version >= 2 { r.u8()? } else { 0 },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    fn reads_back<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: &T) {
        let bytes = value.to_vec(Target::default());
        assert_eq!(&T::from_slice(&bytes).unwrap(), value);
        for end in 0..bytes.len() {
            assert!(T::from_slice(&bytes[..end]).is_err(), "{end} of {} bytes are no {value:?}", bytes.len());
        }
    }

    #[test]
    fn values_of_images_read_back() {
        let spec = ParentSpec { pool: 3, namespace: "n".into(), image: "abc".into(), snap: 7 };
        reads_back(&spec);
        reads_back(&Parent { spec: spec.clone(), head_overlap: Some(4096) });
        reads_back(&Parent { spec, head_overlap: None });
        reads_back(&ChildSpec { pool: 2, image: "def".into(), namespace: "".into() });
        let trash = SnapshotNamespace::Trash { original_name: "s".into(), original_kind: SnapshotNamespace::USER };
        for namespace in [SnapshotNamespace::User, trash, SnapshotNamespace::Other { kind: 1, body: "x".into() }] {
            let snapshot = Snapshot { id: 9, name: "s".into(), image_size: 1 << 40, namespace, ..Snapshot::default() };
            reads_back(&snapshot);
            reads_back(&SnapshotInfo::from(snapshot));
        }
        let (deletion_time, deferment_end) = (Utime::ZERO, Utime::ZERO);
        reads_back(&TrashSpec { source: 1, name: "gone".into(), deletion_time, deferment_end, state: 2 });
    }

    #[test]
    fn a_parent_exists_if_pool_image_and_snapshot_are_named() {
        let spec = ParentSpec { pool: 3, namespace: Bytes::new(), image: "abc".into(), snap: 7 };
        assert!(spec.exists() && !ParentSpec::default().exists());
        assert!(!ParentSpec { pool: -1, ..spec.clone() }.exists());
        assert!(!ParentSpec { image: Bytes::new(), ..spec.clone() }.exists());
        assert!(!ParentSpec { snap: NO_SNAP, ..spec }.exists());
    }
}

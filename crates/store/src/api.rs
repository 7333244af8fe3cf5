//! Types that the layers above see of the store.

use crate::btree::Damage;
use crate::{Attrs, StopReason};
use bytes::Bytes;
use types::{AlignedBuf, ObjectId, PgId};
use wire::Rope;

/// Sorts behind every key of a group's table.
pub const PG_KEYS_END: Bytes = Bytes::from_static(&[0xff; 2]);

/// Names one submitted transaction. Tickets grow, and commit in order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// Names one lookup that could not be answered from memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LookupId(pub u64);

/// The answer to a lookup: a value now, or a promise of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Lookup<T> {
    Ready(T),
    /// Not known yet: ask again once [`StoreEvent::LookupDone`] names this id (data reads get their bytes with
    /// [`StoreEvent::ReadDone`] instead). Each such answer has an id of its own. A lookup that is asked again may have
    /// to wait again.
    Pending(LookupId),
    /// The metadata that holds the answer is damaged on the device, so there is no answer.
    Damaged(Damage),
}

/// The store's knowledge of an object besides its bytes; an absent object has none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectStat {
    pub size_bytes: u64,
    /// Attributes by name. The layer above keeps its object information in one of them.
    pub attrs: Attrs,
    /// True if there may be omap entries or an omap header.
    pub has_omap: bool,
}

/// One step of a transaction. Steps on absent objects create them, except where noted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Creates the object if absent.
    Touch {
        object: ObjectId,
    },
    /// Writes `data` at `offset`; a gap before it reads as zeros.
    Write {
        object: ObjectId,
        offset: u64,
        data: Rope,
    },
    /// Adds `data` to the bytes at `offset`, by exclusive or; the object has zeros where it has no bytes. The object
    /// grows as by a write. Bytes that cannot be read stay so.
    Xor {
        object: ObjectId,
        offset: u64,
        data: Rope,
    },
    /// Makes a range read as zeros, freeing whole blocks; never changes the size.
    Zero {
        object: ObjectId,
        offset: u64,
        len: u64,
    },
    /// Cuts or extends (with zeros) to `size` bytes.
    Truncate {
        object: ObjectId,
        size: u64,
    },
    /// Removes the object with attributes and omap. No-op if absent.
    Remove {
        object: ObjectId,
    },
    SetAttr {
        object: ObjectId,
        name: Vec<u8>,
        value: Bytes,
    },
    RemoveAttr {
        object: ObjectId,
        name: Vec<u8>,
    },
    OmapSet {
        object: ObjectId,
        entries: Vec<(Bytes, Bytes)>,
    },
    OmapRemove {
        object: ObjectId,
        keys: Vec<Bytes>,
    },
    /// Removes keys in `begin .. end` (end excluded).
    OmapRemoveRange {
        object: ObjectId,
        begin: Bytes,
        end: Bytes,
    },
    /// Removes all entries and the header.
    OmapClear {
        object: ObjectId,
    },
    OmapSetHeader {
        object: ObjectId,
        header: Bytes,
    },
    /// Makes `to` a copy of `from` (bytes, attributes, omap) that shares its blocks; replaces `to`. The caller must
    /// have seen that `from` exists: the store refuses the transaction if it knows that `from` does not exist, and
    /// stops if it learns so later.
    Clone {
        from: ObjectId,
        to: ObjectId,
    },
    /// Makes `length` bytes of `target` equal to those of `source`, as [`Step::Clone`] does: zeros where the source has
    /// no bytes. The target grows as needed. Whole blocks are shared, bytes at the edges are copied. Both offsets must
    /// be equal modulo 4096 bytes, and one step clones at most 128 MiB. `source` may be `target` if the ranges do not
    /// overlap.
    CloneRange {
        source: ObjectId,
        target: ObjectId,
        source_offset: u64,
        length: u64,
        target_offset: u64,
    },
    /// Sets a value in the placement group's own table (its information, its log).
    PgSet {
        key: Bytes,
        value: Bytes,
    },
    PgRemove {
        key: Bytes,
    },
    /// Removes keys in `begin .. end` (end excluded) from the placement group's table. The range from the empty key to
    /// [`PG_KEYS_END`] removes the table: the store then no longer counts the group as its own, and the group's objects
    /// stay.
    PgRemoveRange {
        begin: Bytes,
        end: Bytes,
    },
    /// Removes the placement group's table and all its objects in the key range of [`Transaction::pg`], which splits
    /// the pool's hash space into `pg_num` groups.
    PgDestroy {
        pg_num: u32,
    },
}

impl Step {
    /// Returns the object that changes; `None` for steps on a group.
    pub fn object(&self) -> Option<&ObjectId> {
        match self {
            Step::Touch { object }
            | Step::Write { object, .. }
            | Step::Xor { object, .. }
            | Step::Zero { object, .. }
            | Step::Truncate { object, .. }
            | Step::Remove { object }
            | Step::SetAttr { object, .. }
            | Step::RemoveAttr { object, .. }
            | Step::OmapSet { object, .. }
            | Step::OmapRemove { object, .. }
            | Step::OmapRemoveRange { object, .. }
            | Step::OmapClear { object }
            | Step::OmapSetHeader { object, .. }
            | Step::Clone { to: object, .. }
            | Step::CloneRange { target: object, .. } => Some(object),
            Step::PgSet { .. } | Step::PgRemove { .. } | Step::PgRemoveRange { .. } | Step::PgDestroy { .. } => None,
        }
    }
}

impl Step {
    /// Returns the object that is copied, which must exist.
    pub(crate) fn source(&self) -> Option<&ObjectId> {
        match self {
            Step::Clone { from: source, .. } | Step::CloneRange { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Steps that become durable together or not at all. Transactions take effect in the order of submission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Transaction {
    pub pg: PgId,
    pub steps: Vec<Step>,
}

/// Reasons why a read cannot give its bytes.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("block at {device_offset:#x} fails its checksum ({object} at {object_offset})")]
    Checksum { object: ObjectId, object_offset: u64, device_offset: u64 },
    #[error("device error {errno} at {device_offset:#x} ({object} at {object_offset})")]
    Device { object: ObjectId, object_offset: u64, device_offset: u64, errno: i32 },
    /// The block map of the object is damaged, so the place of the bytes is unknown.
    #[error("metadata of {object} is damaged: {damage}")]
    Metadata { object: ObjectId, damage: Box<Damage> },
}

/// The largest size of an object, in bytes.
pub const OBJECT_BYTES_MAX: u64 = 1 << 43;

/// Reasons why a transaction was not accepted. Nothing of it has happened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SubmitError {
    #[error("no space on the {device}: {needed_bytes} bytes needed, {free_bytes} free")]
    NoSpace { device: Device, needed_bytes: u64, free_bytes: u64 },
    #[error("clone of {0}, which does not exist")]
    CloneSource(ObjectId),
    /// A range that cannot be cloned.
    #[error("clone of a range of {object} {why}")]
    CloneRange { object: ObjectId, why: CloneRangeError },
    /// A write, truncation or clone that reaches beyond [`OBJECT_BYTES_MAX`].
    #[error("{what} of {object} up to byte {end}, beyond the largest object ({OBJECT_BYTES_MAX} bytes)")]
    ObjectTooLarge { what: &'static str, object: ObjectId, end: u64 },
    /// A name, or a key of an omap or of a group's table, is too long. Bytes are counted as stored: names with their
    /// namespace, locator and hash.
    #[error("key of {bytes} bytes, at most {bytes_max} are possible")]
    KeyTooLong { bytes: usize, bytes_max: usize },
    /// A step on one of the cursors before or behind all objects.
    #[error("{0} is a cursor, not an object")]
    Cursor(ObjectId),
    #[error("store has stopped: {0}")]
    Stopped(Box<StopReason>),
}

/// Reasons why a range cannot be cloned.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CloneRangeError {
    #[error("from and to other places within blocks of 4096 bytes")]
    Alignment,
    #[error("of more than 128 MiB at a time")]
    Length,
    #[error("onto a part of itself")]
    Overlap,
}

/// Events for the caller.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoreEvent {
    /// All transactions up to and including this one are durable.
    Committed(Ticket),
    LookupDone(LookupId),
    ReadDone {
        id: LookupId,
        result: Result<Rope, ReadError>,
    },
    /// The store can no longer promise durability (a failed flush or write): the OSD must stop.
    Failed {
        reason: Box<StopReason>,
    },
}

/// Names one request to the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IoId(pub u64);

/// One of a store's devices. The log and the metadata tree are on the main one unless they have a device of their own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Device {
    /// Holds data, and the superblock that names the other devices.
    Main,
    /// Holds the log.
    Wal,
    /// Holds the metadata tree and the checkpoint roots.
    Metadata,
}

impl Device {
    pub const ALL: [Device; 3] = [Device::Main, Device::Wal, Device::Metadata];
}

impl std::fmt::Display for Device {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Device::Main => "main device",
            Device::Wal => "WAL device",
            Device::Metadata => "metadata device",
        })
    }
}

/// A request to one of the devices. Offsets and lengths are multiples of 4 KiB, and so are memory addresses.
#[derive(Debug)]
pub enum IoRequest {
    /// Reads `buf.len()` bytes; the filled buffer comes back in [`IoDone`].
    Read { id: IoId, device: Device, offset: u64, buf: AlignedBuf },
    /// Writes the pieces one after another from `offset`.
    Write { id: IoId, device: Device, offset: u64, data: Rope },
    /// Makes every write to this device that has completed durable.
    Flush { id: IoId, device: Device },
    /// Gives the range back to the device; its content is undefined afterwards.
    Discard { id: IoId, device: Device, offset: u64, len: u64 },
}

impl IoRequest {
    pub fn id(&self) -> IoId {
        match self {
            IoRequest::Read { id, .. }
            | IoRequest::Write { id, .. }
            | IoRequest::Flush { id, .. }
            | IoRequest::Discard { id, .. } => *id,
        }
    }

    pub fn device(&self) -> Device {
        match self {
            IoRequest::Read { device, .. }
            | IoRequest::Write { device, .. }
            | IoRequest::Flush { device, .. }
            | IoRequest::Discard { device, .. } => *device,
        }
    }
}

/// The outcome of one [`IoRequest`]. The driver reports a short read or write as an error (`EIO`).
#[derive(Debug)]
pub struct IoDone {
    pub id: IoId,
    /// The errno on failure; the buffer for reads.
    pub result: Result<Option<AlignedBuf>, i32>,
}

/// How full one device is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DeviceUsage {
    pub total_bytes: u64,
    pub free_bytes: u64,
}

/// How full the store is: exact, except for omaps. Sizes are those of the main device unless a field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpaceUsage {
    /// Bytes of the device that can ever hold data and metadata.
    pub total_bytes: u64,
    pub free_bytes: u64,
    /// Blocks held by objects' data.
    pub data_bytes: u64,
    /// Logical bytes of objects.
    pub stored_bytes: u64,
    /// Bytes of keys and values of omap entries. Entries replaced or removed since the last checkpoint still count.
    pub omap_bytes: u64,
    /// Bytes of the WAL, the metadata tree and everything else that is not data.
    pub metadata_bytes: u64,
    /// The metadata tree's own device, if it has one. Its free bytes are those beyond the needs of checkpoints and
    /// deletes.
    pub metadata_device: Option<DeviceUsage>,
    pub objects: u64,
}

impl SpaceUsage {
    /// Returns the free bytes to report to a cluster that knows of one device per OSD. The share of free bytes is at
    /// most that of the metadata device, so that the cluster's warnings and limits come in time.
    pub fn free_bytes_for_cluster(&self) -> u64 {
        let of_metadata = self.metadata_device.map_or(u64::MAX, |own| {
            let share = u128::from(own.free_bytes) * u128::from(self.total_bytes) / u128::from(own.total_bytes.max(1));
            u64::try_from(share).unwrap_or(u64::MAX)
        });
        self.free_bytes.min(of_metadata)
    }
}

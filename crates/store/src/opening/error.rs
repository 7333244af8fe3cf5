//! Why a store does not open.

use crate::btree::Damage;
use crate::config::BLOCK;
use crate::disk::numbers::{FEATURES_KNOWN, FORMAT_VERSION, RECORD_VERSION};
use crate::{Device, FormatError, Slice};
use types::{Errno, Fsid, OsdId};
use wire::DecodeError;

/// Reasons why a device does not open as this OSD's store. Nothing was written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("indirection unit of {unit_bytes} bytes; a power of two from 16 KiB to 256 KiB is possible")]
    IndirectionUnit { unit_bytes: u32 },
    #[error("not a store: no superblock where one should be")]
    NotAStore,
    #[error(
        "store of format {version} with blocks of {block_bytes} bytes and features {features:#x}; this software \
            knows format {FORMAT_VERSION} with {BLOCK} and features {FEATURES_KNOWN:#x}"
    )]
    UnknownFormat { version: u32, block_bytes: u32, features: u64 },
    #[error(
        "log record at {offset:#x} has layout {version} and flags {flags:#x}; this software knows {RECORD_VERSION} \
            and no flags"
    )]
    UnknownRecord { version: u8, flags: u8, offset: u64 },
    #[error("store of {found}, not of {expected}")]
    ForeignOsd { found: OsdId, expected: OsdId },
    #[error("the store is part {} of {} of its devices, not part {} of {}", found.index + 1, found.count, expected.index + 1, expected.count)]
    OtherSlice { found: Slice, expected: Slice },
    #[error("store of cluster {found}, not of {expected}")]
    ForeignCluster { found: Fsid, expected: Fsid },
    #[error("{device} has {device_bytes} bytes, but the store on it {store_bytes}: it was cut short")]
    Truncated { device: Device, device_bytes: u64, store_bytes: u64 },
    #[error("the store has a {device} of its own, and none is given")]
    MissingDevice { device: Device },
    #[error("a {device} is given, and the store has none")]
    UnexpectedDevice { device: Device },
    #[error("what is given as the {device} is no part of a store: no superblock where one should be")]
    NotAPart { device: Device },
    #[error("what is given as the {device} is the {found} of a store")]
    WrongRole { device: Device, found: Device },
    /// The device belongs to another store, or to an earlier life of this one.
    #[error("the {device} belongs to store {found}, the main device to {expected}")]
    ForeignDevice { device: Device, found: Fsid, expected: Fsid },
    #[error(
        "the {device} is of this store, but not the one that it has now: another took its place, or it was cut off \
            while the store was made"
    )]
    StaleDevice { device: Device },
    #[error("superblock with impossible sizes: {0}")]
    Sizes(FormatError),
    #[error("neither checkpoint root is readable")]
    NoCheckpoint,
    #[error("checkpoint damaged at {offset:#x}: {what}")]
    DamagedCheckpoint { offset: u64, what: &'static str },
    #[error("the topmost page of the metadata tree is damaged: {0}; see `nacre store check` and `nacre store repair`")]
    DamagedTree(Damage),
    #[error("checkpoint damaged: {0}")]
    CheckpointEntry(DecodeError),
    #[error(
        "log record {lsn} is damaged, although records up to {vouched_lsn} were durable; see `nacre store check` \
            and `nacre store repair`"
    )]
    DamagedLog { lsn: u64, vouched_lsn: u64 },
    /// The existence of such a record is unknown.
    #[error(
        "log record {lsn}, if there is one, lies where the device cannot be read, at {offset:#x}: {}; see `nacre \
            store check` and `nacre store repair`", Errno(*errno)
    )]
    UnreadableLog { lsn: u64, offset: u64, errno: i32 },
    #[error(
        "log record {lsn} lies at {offset:#x}, where the records around it leave no room: it was written to a wrong \
            place; see `nacre store check` and `nacre store repair`"
    )]
    MisplacedRecord { lsn: u64, offset: u64 },
    #[error("log record {lsn}: {source}")]
    RecordBody { lsn: u64, source: DecodeError },
    #[error("blocks {start} to {end} belong to an object, but not to the device's data area or not to it alone")]
    DamagedSpace { start: u32, end: u32 },
    #[error("{device}: error at {offset:#x}: {}", Errno(*errno))]
    Device { device: Device, offset: u64, errno: i32 },
}

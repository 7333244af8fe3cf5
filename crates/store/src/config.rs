//! The settings that a store is made with and opened with.

use crate::disk::numbers::WAL_OFFSET;
use crate::{Device, Slice};
use types::{BLOCK_BYTES, Fsid, OsdId};

/// Bytes of one block, as a device offset.
pub(crate) const BLOCK: u64 = BLOCK_BYTES as u64;

/// The settings that [`Store::format`](crate::Store::format) writes and [`Store::open`](crate::Store::open) expects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreConfig {
    /// Size of the device or file, in bytes. At least [`StoreConfig::DEVICE_BYTES_MIN`], at most
    /// [`StoreConfig::DEVICE_BYTES_MAX`]. A partial block at the end is not used.
    pub device_bytes: u64,
    /// Size of the log, a multiple of 4 KiB. Only `format` uses it; an open store has the size it was made with.
    pub wal_bytes: u64,
    /// Size of the log's own device, if it has one: the log and 128 KiB more.
    pub wal_device_bytes: Option<u64>,
    /// Size of the metadata tree's own device, if it has one. At least [`StoreConfig::METADATA_DEVICE_BYTES_MIN`].
    pub metadata_device_bytes: Option<u64>,
    /// The unit that the drive writes in: small writes fill a unit together, large writes begin at one. A power of two,
    /// 16 to 256 KiB. It is not kept on the device and may change from one opening to the next.
    pub indirection_unit_bytes: u32,
    /// The part of the devices that the store is on. All sizes in this struct are those of the part.
    pub slice: Slice,
    pub fsid: Fsid,
    pub osd: OsdId,
    /// The store's own identity, fresh random bytes at each `format`: records that an earlier store left on the device
    /// carry another one. Only `format` uses it.
    pub uuid: Fsid,
    /// Used by `open` only.
    pub tuning: Tuning,
}

/// Choices of an opening that change no answer of the store, only the way to it. Tests set them to reach rare ways.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Objects that lose more segments than this at a time lose them bit by bit.
    pub segments_at_once: usize,
    /// True if the opening counts objects and omap entries although the checkpoint root has their sums, and compares.
    pub counts_anew: bool,
}

impl Tuning {
    /// The segments of 128 MiB and some.
    pub const SEGMENTS_AT_ONCE: usize = 1056;
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { segments_at_once: Tuning::SEGMENTS_AT_ONCE, counts_anew: false }
    }
}

impl StoreConfig {
    /// Returns the settings of a store on one device.
    pub fn one_device(device_bytes: u64, wal_bytes: u64, fsid: Fsid, osd: OsdId, uuid: Fsid) -> StoreConfig {
        StoreConfig {
            device_bytes,
            wal_bytes,
            wal_device_bytes: None,
            metadata_device_bytes: None,
            indirection_unit_bytes: Self::INDIRECTION_UNIT_BYTES,
            slice: Slice::WHOLE,
            fsid,
            osd,
            uuid,
            tuning: Tuning::default(),
        }
    }

    /// 64 KiB, the unit of large drives with four bits per cell. A drive with a smaller unit loses nothing.
    pub const INDIRECTION_UNIT_BYTES: u32 = 64 << 10;

    pub const DEVICE_BYTES_MIN: u64 = 4 << 20;
    /// Block numbers take 32 bits in memory (64 bits on disk).
    pub const DEVICE_BYTES_MAX: u64 = u32::MAX as u64 * BLOCK;
    pub const WAL_BYTES_MIN: u64 = 64 << 10;
    pub const METADATA_DEVICE_BYTES_MIN: u64 = 1 << 20;
    /// Bytes at the begin of each device for labels. A device of its own needs them besides its content.
    pub const LABEL_BYTES: u64 = WAL_OFFSET;

    /// Returns the size of one of the devices; `None` if the store has no such device.
    pub fn bytes_of(&self, device: Device) -> Option<u64> {
        match device {
            Device::Main => Some(self.device_bytes),
            Device::Wal => self.wal_device_bytes,
            Device::Metadata => self.metadata_device_bytes,
        }
    }

    /// Returns a log size that suits a device: 1/128 of it, between 8 MiB and 1 GiB, but at most a quarter. The longer
    /// the log is, the more changes share the pages that a checkpoint writes.
    pub fn default_wal_bytes(device_bytes: u64) -> u64 {
        let wanted = (device_bytes / 128).clamp(8 << 20, 1 << 30).min(device_bytes / 4);
        (wanted / BLOCK * BLOCK).max(Self::WAL_BYTES_MIN)
    }
}

// The smallest devices have room for labels, log and a first tree.
const _: () = assert!(StoreConfig::LABEL_BYTES + StoreConfig::WAL_BYTES_MIN < StoreConfig::DEVICE_BYTES_MIN / 2);
const _: () = assert!(StoreConfig::LABEL_BYTES < StoreConfig::METADATA_DEVICE_BYTES_MIN / 2);

//! The fixed places of a device, looked at one by one: for tools that report more about a damaged store than that it
//! does not open.

use crate::config::BLOCK;
use crate::disk::numbers::{ROOT_OFFSETS, SUPERBLOCK_MAGIC, SUPERBLOCK_OFFSETS};
use crate::disk::superblock::{CheckpointRoot, Superblock, UnknownFormat};
use crate::{Device, Slice};
use types::{Fsid, OsdId};

/// Byte offsets of the blocks that [`Labels::of`] takes: the copies of the superblock, then the two roots.
pub const LABEL_OFFSETS: [u64; 4] = [SUPERBLOCK_OFFSETS[0], SUPERBLOCK_OFFSETS[1], ROOT_OFFSETS[0], ROOT_OFFSETS[1]];

/// A store's owner and sizes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StoreLabel {
    /// The store's own identity.
    pub uuid: Fsid,
    /// The cluster's identity.
    pub fsid: Fsid,
    pub osd: OsdId,
    /// Bytes of the main device in use.
    pub device_bytes: u64,
    pub wal_bytes: u64,
    /// The use of the device that carries this label.
    pub role: Device,
    /// Sizes of the devices for log and metadata, if there are any.
    pub wal_device_bytes: Option<u64>,
    pub metadata_device_bytes: Option<u64>,
    /// The part of the devices that the store is on; sizes are those of the part.
    pub slice: Slice,
}

impl StoreLabel {
    /// Returns the bytes of one of the store's devices; `None` if it has no such device.
    pub fn bytes_of(&self, device: Device) -> Option<u64> {
        match device {
            Device::Main => Some(self.device_bytes),
            Device::Wal => self.wal_device_bytes,
            Device::Metadata => self.metadata_device_bytes,
        }
    }

    /// Returns the device that holds the roots.
    pub fn tree_device(&self) -> Device {
        if self.metadata_device_bytes.is_some() { Device::Metadata } else { Device::Main }
    }
}

impl From<&Superblock> for StoreLabel {
    fn from(superblock: &Superblock) -> StoreLabel {
        let Superblock { uuid, fsid, osd, role, device_bytes, wal_bytes, slice, .. } = *superblock;
        let [wal_device_bytes, metadata_device_bytes] =
            [Device::Wal, Device::Metadata].map(|device| superblock.bytes_of(device));
        StoreLabel { uuid, fsid, osd, device_bytes, wal_bytes, role, wal_device_bytes, metadata_device_bytes, slice }
    }
}

/// The content of one of the fixed places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LabelBlock<T> {
    Sound(T),
    /// A block of a format that this software does not know.
    UnknownFormat {
        version: u32,
        block_bytes: u32,
        features: u64,
    },
    /// All zeros: the block was never written.
    Blank,
    /// Other bytes, or a block that once was sound.
    Damaged,
    /// The device gave this errno.
    Unreadable(i32),
}

impl<T> LabelBlock<T> {
    pub fn sound(&self) -> Option<&T> {
        if let LabelBlock::Sound(label) = self { Some(label) } else { None }
    }
}

/// The copies of the superblock and the two checkpoint roots.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Labels {
    pub superblocks: [LabelBlock<StoreLabel>; 2],
    /// The number of the checkpoint at each place.
    pub roots: [LabelBlock<u64>; 2],
    /// True if any superblock, sound or not, begins like one.
    looks_like_store: bool,
}

impl Labels {
    /// Looks at the blocks of [`LABEL_OFFSETS`], or at the errnos of those that could not be read.
    ///
    /// Panics unless each is one whole block.
    pub fn of(blocks: [Result<&[u8], i32>; 4]) -> Labels {
        blocks.iter().flatten().for_each(|block| assert_eq!(block.len() as u64, BLOCK, "one block each"));
        let superblocks = [Labels::superblock(blocks[0]), Labels::superblock(blocks[1])];
        let uuid = superblocks.iter().find_map(LabelBlock::sound).map(|label| label.uuid);
        let root = |block: Result<&[u8], i32>| match block {
            Err(errno) => LabelBlock::Unreadable(errno),
            Ok(block) => match uuid.and_then(|uuid| CheckpointRoot::decode(block, uuid)) {
                Some(root) => LabelBlock::Sound(root.sequence),
                None => blank_or_damaged(block),
            },
        };
        let looks_like_store = blocks[..2].iter().flatten().any(|block| block.starts_with(&SUPERBLOCK_MAGIC));
        Labels { superblocks, roots: [root(blocks[2]), root(blocks[3])], looks_like_store }
    }

    /// Looks at one copy of a superblock, of any of a store's devices.
    pub fn superblock(block: Result<&[u8], i32>) -> LabelBlock<StoreLabel> {
        match block {
            Err(errno) => LabelBlock::Unreadable(errno),
            Ok(block) => match Superblock::decode(block) {
                Some(Ok(superblock)) => LabelBlock::Sound(StoreLabel::from(&superblock)),
                Some(Err(UnknownFormat { version, block_bytes, features })) => {
                    LabelBlock::UnknownFormat { version, block_bytes, features }
                }
                None => blank_or_damaged(block),
            },
        }
    }

    /// Returns the first sound copy of the superblock.
    pub fn label(&self) -> Option<&StoreLabel> {
        self.superblocks.iter().find_map(LabelBlock::sound)
    }

    /// Returns true if there is, or once was, a superblock.
    pub fn looks_like_store(&self) -> bool {
        self.looks_like_store
    }
}

fn blank_or_damaged<T>(block: &[u8]) -> LabelBlock<T> {
    if block.iter().all(|byte| *byte == 0) { LabelBlock::Blank } else { LabelBlock::Damaged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::harness::{config, formatted};

    #[test]
    fn each_place_is_judged_by_itself() {
        let mut device = formatted(&config());
        let labels = |device: &crate::SimDevice| {
            let blocks = LABEL_OFFSETS.map(|at| device.read(at, BLOCK));
            Labels::of([0, 1, 2, 3].map(|i| Ok(blocks[i].as_slice())))
        };
        let good = labels(&device);
        let label = *good.label().unwrap();
        assert_eq!((label.osd, label.device_bytes, label.uuid), (config().osd, 4 << 20, config().uuid));
        assert_eq!(good.superblocks, [LabelBlock::Sound(label); 2]);
        assert_eq!(good.roots, [LabelBlock::Sound(0), LabelBlock::Blank]);
        device.corrupt(LABEL_OFFSETS[0] + 60, 1);
        device.corrupt(LABEL_OFFSETS[2] + 60, 1);
        let bad = labels(&device);
        assert_eq!(bad.superblocks, [LabelBlock::Damaged, LabelBlock::Sound(label)]);
        assert_eq!(bad.roots, [LabelBlock::Damaged, LabelBlock::Blank]);
        device.corrupt(LABEL_OFFSETS[1] + 60, 1);
        assert!(labels(&device).label().is_none() && labels(&device).looks_like_store());
        let zeros = [0; BLOCK as usize];
        let none = Labels::of([Ok(&zeros), Err(5), Ok(&zeros), Ok(&zeros)]);
        assert_eq!(none.superblocks, [LabelBlock::Blank, LabelBlock::Unreadable(5)]);
        assert!(!none.looks_like_store());
    }
}

//! The label at the begin of each device, written once, and the checkpoint roots, written in turn.

use crate::btree;
use crate::config::BLOCK;
use crate::disk::numbers::{
    CHECKED_BYTES, FEATURES_KNOWN, FORMAT_VERSION, ROOT_MAGIC, ROOT_OFFSETS, SUPERBLOCK_MAGIC, WAL_OFFSET, feature,
    role_number,
};
use crate::disk::totals::TreeTotals;
use crate::space::run::Run;
use crate::{Device, Slice, StoreConfig};
use bytes::Bytes;
use types::{AlignedBuf, Fsid, OsdId, crc32c};
use wire::{DecodeError, Reader, Target, Writer};

/// A device besides the main one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OwnDevice {
    /// The device's own identity: a replacement has another one.
    pub uuid: Fsid,
    /// Bytes of it in use, a multiple of the block size.
    pub bytes: u64,
}

/// The label of a store's devices. It is the same on all of them, except for `role`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub uuid: Fsid,
    pub fsid: Fsid,
    pub osd: OsdId,
    /// The use of the device that carries this label.
    pub role: Device,
    /// Bytes of the main device in use, a multiple of the block size.
    pub device_bytes: u64,
    pub wal_bytes: u64,
    /// Bits of `feature`, as of when the store was made.
    pub features: u64,
    pub wal_device: Option<OwnDevice>,
    pub metadata_device: Option<OwnDevice>,
    pub slice: Slice,
}

/// Returns one block: `fields` padded to [`CHECKED_BYTES`], their crc32c, zeros.
fn seal(fields: Writer) -> Bytes {
    let mut bytes = fields.into_vec();
    assert!(bytes.len() <= CHECKED_BYTES, "{} bytes of fields", bytes.len());
    bytes.resize(CHECKED_BYTES, 0);
    let crc = crc32c::checksum(&bytes);
    bytes.extend(crc.to_le_bytes());
    let mut block = AlignedBuf::zeroed(BLOCK as usize);
    block.as_mut_slice()[..bytes.len()].copy_from_slice(&bytes);
    block.freeze()
}

/// Returns the fields of a sealed block behind its magic; `None` if magic or checksum are wrong.
fn unseal(block: &[u8], magic: [u8; 8]) -> Option<Reader<'_>> {
    let mut r = Reader::new(block);
    let fields = r.raw(CHECKED_BYTES).ok()?;
    let sealed = r.u32().ok()? == crc32c::checksum(fields);
    (sealed && fields.starts_with(&magic)).then(|| Reader::new(&fields[magic.len()..]))
}

impl Superblock {
    pub fn new(config: &StoreConfig) -> Superblock {
        let StoreConfig { uuid, fsid, osd, device_bytes, wal_bytes, slice, .. } = *config;
        let part = |device: Device| {
            let bytes = config.bytes_of(device)? / BLOCK * BLOCK;
            // The store's identity is fresh, and so are the identities made from it.
            let mut own = uuid;
            own.0[15] ^= device as u8;
            Some(OwnDevice { uuid: own, bytes })
        };
        Superblock {
            uuid,
            fsid,
            osd,
            role: Device::Main,
            device_bytes: device_bytes / BLOCK * BLOCK,
            wal_bytes,
            features: feature::CLONES_LISTED | if slice.is_whole() { 0 } else { feature::SLICED },
            wal_device: part(Device::Wal),
            metadata_device: part(Device::Metadata),
            slice,
        }
    }

    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(Target::default());
        w.raw(&SUPERBLOCK_MAGIC);
        w.u32(FORMAT_VERSION);
        w.u32(BLOCK as u32);
        w.raw(&self.uuid.0);
        w.raw(&self.fsid.0);
        w.i32(self.osd.0);
        w.u32(role_number(self.role));
        w.u64(self.device_bytes);
        w.u64(self.wal_bytes);
        w.u64(self.features);
        for part in [self.wal_device, self.metadata_device] {
            let OwnDevice { uuid, bytes } = part.unwrap_or(OwnDevice { uuid: Fsid([0; 16]), bytes: 0 });
            w.raw(&uuid.0);
            w.u64(bytes);
        }
        if self.features & feature::SLICED != 0 {
            w.u32(self.slice.index);
            w.u32(self.slice.count);
        }
        seal(w)
    }

    /// Returns `None` if the block is no superblock, and an error if it is one of another format, or with features or a
    /// role that are not known here.
    pub fn decode(block: &[u8]) -> Option<Result<Superblock, UnknownFormat>> {
        let mut r = unseal(block, SUPERBLOCK_MAGIC)?;
        Some(Superblock::fields(&mut r).expect("the sealed part is longer than the fields"))
    }

    fn fields(r: &mut Reader<'_>) -> Result<Result<Superblock, UnknownFormat>, DecodeError> {
        let (version, block_bytes) = (r.u32()?, r.u32()?);
        if version != FORMAT_VERSION || u64::from(block_bytes) != BLOCK {
            return Ok(Err(UnknownFormat { version, block_bytes, features: 0 }));
        }
        let (uuid, fsid, osd, role) = (Fsid(r.array()?), Fsid(r.array()?), OsdId(r.i32()?), r.u32()?);
        let (device_bytes, wal_bytes, features) = (r.u64()?, r.u64()?, r.u64()?);
        let role = Device::ALL.into_iter().find(|device| role_number(*device) == role);
        let Some(role) = role.filter(|_| features & !FEATURES_KNOWN == 0) else {
            return Ok(Err(UnknownFormat { version, block_bytes, features }));
        };
        let mut part = || {
            let part = OwnDevice { uuid: Fsid(r.array()?), bytes: r.u64()? };
            Ok((part.bytes > 0).then_some(part))
        };
        let (wal_device, metadata_device) = (part()?, part()?);
        let slice = match features & feature::SLICED != 0 {
            true => Slice { index: r.u32()?, count: r.u32()? },
            false => Slice::WHOLE,
        };
        if !slice.is_possible() {
            return Ok(Err(UnknownFormat { version, block_bytes, features }));
        }
        Ok(Ok(Superblock {
            uuid,
            fsid,
            osd,
            role,
            device_bytes,
            wal_bytes,
            features,
            wal_device,
            metadata_device,
            slice,
        }))
    }

    /// Returns true if clones are listed by their snapshots.
    pub fn lists_clones(&self) -> bool {
        self.features & feature::CLONES_LISTED != 0
    }

    /// Returns the device that holds the log.
    pub fn log_device(&self) -> Device {
        if self.wal_device.is_some() { Device::Wal } else { Device::Main }
    }

    /// Returns the device that holds tree and roots.
    pub fn tree_device(&self) -> Device {
        if self.metadata_device.is_some() { Device::Metadata } else { Device::Main }
    }

    /// Returns the bytes of one of the devices; `None` if the store has no such device.
    pub fn bytes_of(&self, device: Device) -> Option<u64> {
        match device {
            Device::Main => Some(self.device_bytes),
            Device::Wal => self.wal_device.map(|part| part.bytes),
            Device::Metadata => self.metadata_device.map(|part| part.bytes),
        }
    }

    /// Returns the devices that the store has.
    pub fn devices(&self) -> impl Iterator<Item = Device> {
        Device::ALL.into_iter().filter(|device| self.bytes_of(*device).is_some())
    }

    /// Returns the tag that every page of this store's tree carries.
    pub fn tag(&self) -> u64 {
        u64::from_le_bytes(*self.uuid.0.first_chunk().expect("16 bytes"))
    }

    /// Returns the main device's first block behind labels and log, from which on it holds data, and the tree if that
    /// has no device of its own.
    pub fn data_begin(&self) -> u32 {
        let log_bytes = if self.wal_device.is_some() { 0 } else { self.wal_bytes };
        ((WAL_OFFSET + log_bytes) / BLOCK) as u32
    }

    /// Returns the number of blocks of the main device.
    pub fn device_blocks(&self) -> u32 {
        (self.device_bytes / BLOCK) as u32
    }

    /// Returns the blocks of the tree's device that the tree may use.
    pub fn tree_space(&self) -> Run {
        let (begin, end) = match self.metadata_device {
            Some(part) => ((WAL_OFFSET / BLOCK) as u32, (part.bytes / BLOCK) as u32),
            None => (self.data_begin(), self.device_blocks()),
        };
        Run { start: begin, count: end - begin }
    }
}

/// The format of a superblock that this software does not know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UnknownFormat {
    pub version: u32,
    pub block_bytes: u32,
    /// Features that the superblock names, known or not; 0 if the format is another.
    pub features: u64,
}

/// A checkpoint: the place of its tree, and the log records that it covers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CheckpointRoot {
    pub uuid: Fsid,
    /// Number of the checkpoint, counted from 0 (the empty one of a new store).
    pub sequence: u64,
    /// The session (see `wal`) that wrote the checkpoint.
    pub session: u64,
    /// The checkpoint holds the effects of all records up to this one, and of no other.
    pub covered_lsn: u64,
    /// Offset in the log where the next record goes if there is none behind `covered_lsn`.
    pub wal_head: u64,
    pub next_omap_id: u64,
    /// The tree; `None` if it has no entries.
    pub tree: Option<btree::Root>,
    /// Sums over the tree's entries. `None`: not known, they have to be counted.
    pub totals: Option<TreeTotals>,
}

impl CheckpointRoot {
    pub fn encode(&self) -> Bytes {
        let mut w = Writer::new(Target::default());
        w.raw(&ROOT_MAGIC);
        w.raw(&self.uuid.0);
        w.u64(self.sequence);
        w.u64(self.session);
        w.u64(self.covered_lsn);
        w.u64(self.wal_head);
        w.u64(self.next_omap_id);
        w.raw(&btree::Root::encode(self.tree));
        TreeTotals::encode(self.totals, &mut w);
        seal(w)
    }

    /// Returns `None` if the block is no root of the store `uuid`.
    pub fn decode(block: &[u8], uuid: Fsid) -> Option<CheckpointRoot> {
        let mut r = unseal(block, ROOT_MAGIC)?;
        let root = CheckpointRoot::fields(&mut r).ok()?;
        (root.uuid == uuid).then_some(root)
    }

    fn fields(r: &mut Reader<'_>) -> Result<CheckpointRoot, DecodeError> {
        Ok(CheckpointRoot {
            uuid: Fsid(r.array()?),
            sequence: r.u64()?,
            session: r.u64()?,
            covered_lsn: r.u64()?,
            wal_head: r.u64()?,
            next_omap_id: r.u64()?,
            tree: btree::Root::decode(&r.array()?)
                .map_err(|_| DecodeError::Value { what: "root of the tree", value: 0 })?,
            totals: TreeTotals::decode(r)?,
        })
    }

    pub fn offset(&self) -> u64 {
        ROOT_OFFSETS[(self.sequence % 2) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn superblock() -> Superblock {
        Superblock {
            uuid: Fsid([1; 16]),
            fsid: Fsid([2; 16]),
            osd: OsdId(3),
            role: Device::Metadata,
            device_bytes: 8 << 20,
            wal_bytes: 1 << 20,
            features: feature::CLONES_LISTED,
            wal_device: None,
            metadata_device: Some(OwnDevice { uuid: Fsid([5; 16]), bytes: 2 << 20 }),
            slice: Slice::WHOLE,
        }
    }

    #[test]
    fn superblock_bytes_do_not_move() {
        let block = superblock().encode();
        let head =
            [&b"NACRESTO"[..], &[2, 0, 0, 0, 0, 0x10, 0, 0], &[1; 16], &[2; 16], &[3, 0, 0, 0, 2, 0, 0, 0]].concat();
        assert_eq!(block[..56], head);
        assert_eq!(block[56..72], [0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0]);
        assert_eq!(block[72..80], [1, 0, 0, 0, 0, 0, 0, 0], "clones are listed");
        assert_eq!(block[80..104], [0; 24], "no WAL device");
        assert_eq!(block[104..128], [&[5; 16][..], &[0, 0, 0x20, 0, 0, 0, 0, 0]].concat());
        assert_eq!(block.len(), 4096);
        assert_eq!(Superblock::decode(&block), Some(Ok(superblock())));
    }

    #[test]
    fn a_part_is_told_behind_the_rest() {
        let whole = superblock();
        let features = whole.features | feature::SLICED;
        let part = Superblock { features, slice: Slice { index: 1, count: 4 }, ..whole };
        let block = part.encode();
        assert_eq!(block[72], 3);
        assert_eq!(block[128..136], [1, 0, 0, 0, 4, 0, 0, 0]);
        assert_eq!(superblock().encode()[128..136], [0; 8]);
        assert_eq!(Superblock::decode(&block), Some(Ok(part)));
    }

    #[test]
    fn what_is_newer_is_told_from_no_store() {
        let check = |at: usize, value: u8, version, features| {
            let mut block = superblock().encode().to_vec();
            block[at] = value;
            assert_eq!(Superblock::decode(&block), None, "the checksum covers it");
            let crc = crc32c::checksum(&block[..CHECKED_BYTES]);
            block[CHECKED_BYTES..][..4].copy_from_slice(&crc.to_le_bytes());
            let unknown = UnknownFormat { version, block_bytes: 4096, features };
            assert_eq!(Superblock::decode(&block), Some(Err(unknown)));
        };
        check(8, 3, 3, 0);
        check(72, 5, 2, 5);
        // Part 0 of 0.
        check(72, 3, 2, 3);
        check(79, 0x80, 2, 1 << 63 | 1);
        check(52, 3, 2, 1);
    }

    proptest! {
        #[test]
        fn roots_read_back_and_any_flipped_bit_shows(
            (sequence, session, covered_lsn, wal_head) in any::<(u64, u64, u64, u64)>(), block in 1u8..200, bit in 0usize..4096,
        ) {
            let uuid = Fsid([7; 16]);
            let mut tree = [0; btree::layout::ROOT_BYTES];
            (tree[0], tree[8]) = (block, 3);
            let tree = btree::Root::decode(&tree).unwrap();
            let totals = TreeTotals { objects: sequence, stored_bytes: 2, omap_entries: 3, omap_bytes: session, data_blocks: 5 };
            let totals = (block % 2 == 0).then_some(totals);
            let root = CheckpointRoot { uuid, sequence, session, covered_lsn, wal_head, next_omap_id: 5, tree, totals };
            let mut block = root.encode().to_vec();
            prop_assert_eq!(CheckpointRoot::decode(&block, uuid), Some(root));
            prop_assert_eq!(CheckpointRoot::decode(&block, Fsid([8; 16])), None);
            block[bit / 8 % (CHECKED_BYTES + 4)] ^= 1 << (bit % 8);
            prop_assert_eq!(CheckpointRoot::decode(&block, uuid), None);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            Superblock::decode(&bytes);
            CheckpointRoot::decode(&bytes, Fsid::default());
        }
    }
}

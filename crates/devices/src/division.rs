//! Divides an OSD's devices into parts, one for each shard.

use crate::StorePaths;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use store::{Device, LABEL_OFFSETS, LabelBlock, Labels, Slice, StoreLabel};
use types::{BLOCK_BYTES, Fsid};

/// Shards of an OSD at most.
pub const SHARDS_MAX: usize = 16;

/// Returns true if an OSD can have so many shards: a power of two, [`SHARDS_MAX`] at most.
pub(crate) fn can_be_shards(count: usize) -> bool {
    count.is_power_of_two() && count <= SHARDS_MAX
}

/// Parses a number of shards that a user gives.
///
/// Errors: no OSD can have that number; the error is a sentence.
pub fn parse_shards(text: &str) -> Result<usize, String> {
    let shards = text.parse().ok().filter(|count| can_be_shards(*count));
    shards.ok_or_else(|| format!("an OSD has a power of two of shards, {SHARDS_MAX} at most"))
}

/// The division of a store's devices. All are divided into the same number of equal parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Division {
    shards: u32,
    /// Bytes of a part, in the order of [`Device::ALL`]; `None` for a device that is not divided.
    part_bytes: [Option<u64>; 3],
}

impl Division {
    /// Parts begin at multiples of this, so that no unit in which drives write belongs to two parts.
    pub const PART_UNIT_BYTES: u64 = 1 << 20;
    /// A division into one part, which is the whole store.
    pub const WHOLE: Division = Division { shards: 1, part_bytes: [None; 3] };

    /// Divides devices of these sizes, in the order of [`Device::ALL`].
    ///
    /// Panics unless `shards` is a power of two and at most [`SHARDS_MAX`].
    pub fn of(shards: usize, bytes: [Option<u64>; 3]) -> Division {
        assert!(can_be_shards(shards), "{shards} shards");
        if shards == 1 {
            return Division::WHOLE;
        }
        let part = |bytes: u64| bytes / shards as u64 / Division::PART_UNIT_BYTES * Division::PART_UNIT_BYTES;
        Division { shards: shards as u32, part_bytes: bytes.map(|bytes| bytes.map(part)) }
    }

    /// Identity of a shard's store. `whole`: identity of the OSD's store.
    pub fn uuid(whole: Fsid, shard: usize) -> Fsid {
        let mut uuid = whole;
        uuid.0[14] ^= shard as u8;
        uuid
    }

    /// The division that the label of a store's first part records.
    pub fn told_by(label: &StoreLabel) -> Division {
        if label.slice.is_whole() {
            return Division::WHOLE;
        }
        Division { shards: label.slice.count, part_bytes: Device::ALL.map(|device| label.bytes_of(device)) }
    }

    /// Reads the division of the store at these paths. If there is no store, returns [`Division::WHOLE`]: opening the
    /// store then tells the error.
    ///
    /// Errors: the main device cannot be read; it is divided into a number of parts that no OSD of this version has.
    pub fn read(paths: &StorePaths) -> io::Result<Division> {
        let file = File::open(&paths.main)?;
        let mut block = [0; BLOCK_BYTES];
        for offset in &LABEL_OFFSETS[..2] {
            let read = file.read_exact_at(&mut block, *offset);
            let block = read.as_ref().map(|()| &block[..]).map_err(|e| e.raw_os_error().unwrap_or(0));
            let LabelBlock::Sound(label) = Labels::superblock(block) else { continue };
            let shards = label.slice.count as usize;
            if !can_be_shards(shards) {
                let why = format!("it is divided into {shards} parts: only powers of two up to {SHARDS_MAX} are known");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            }
            return Ok(Division::told_by(&label));
        }
        Ok(Division::WHOLE)
    }

    pub fn shards(&self) -> usize {
        self.shards as usize
    }

    pub fn slice(&self, shard: usize) -> Slice {
        Slice { index: shard as u32, count: self.shards }
    }

    /// Offset at which a shard's part of a device begins.
    pub fn offset(&self, shard: usize, device: Device) -> u64 {
        self.part_bytes[device as usize].unwrap_or(0) * shard as u64
    }

    /// Offset and length of a shard's part of a device, if the device is divided.
    pub fn bounds(&self, shard: usize, device: Device) -> Option<(u64, u64)> {
        self.part_bytes[device as usize].map(|bytes| (self.offset(shard, device), bytes))
    }

    /// Length of a shard's part of a device of `device_bytes` bytes; less if the device ends within the part.
    pub fn bytes(&self, shard: usize, device: Device, device_bytes: u64) -> u64 {
        let left = device_bytes.saturating_sub(self.offset(shard, device));
        self.part_bytes[device as usize].map_or(left, |part| part.min(left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_divided_is_used_whole() {
        let whole = Division::of(1, [Some(12345), None, None]);
        assert_eq!(whole, Division::WHOLE);
        assert_eq!((whole.offset(0, Device::Main), whole.bytes(0, Device::Main, 12345)), (0, 12345));
    }

    #[test]
    fn parts_are_equal_aligned_and_next_to_each_other() {
        let mib = |mib: u64| mib << 20;
        let division = Division::of(4, [Some(mib(103) + 5), Some(mib(8)), None]);
        let parts = |device, bytes| -> Vec<(u64, u64)> {
            (0..4).map(|shard| (division.offset(shard, device), division.bytes(shard, device, bytes))).collect()
        };
        let expected: Vec<_> = (0..4).map(|i| (mib(25) * i, mib(25))).collect();
        assert_eq!(parts(Device::Main, mib(103)), expected);
        assert_eq!(parts(Device::Wal, mib(8))[3], (mib(6), mib(2)));
        assert_eq!(parts(Device::Main, mib(60))[2..], [(mib(50), mib(10)), (mib(75), 0)], "the file was cut");
    }
}

//! Numbers of the disk format. Each has one name here, for the writer and for the reader; `docs/disk-format.md` is the
//! prose to them. No number in this file may change its meaning: stores that have it must still open.
//!
//! Numbers of the metadata tree's pages are in `btree::layout`, since the tree knows nothing of its content.

use crate::Device;
use crate::config::BLOCK;
use std::ops::Range;

// Places on each device.

/// Byte offsets of the two copies of the superblock.
pub(crate) const SUPERBLOCK_OFFSETS: [u64; 2] = [0, 16 * BLOCK];
/// Byte offsets of the two checkpoint roots; checkpoint `n` is rooted in number `n % 2`.
pub(crate) const ROOT_OFFSETS: [u64; 2] = [BLOCK, 17 * BLOCK];
/// Offset of the first byte behind the labels, on every device. On the main device the log begins here, unless it has a
/// device of its own.
pub(crate) const WAL_OFFSET: u64 = 32 * BLOCK;

// A write of one label must not touch another one, and none of them may reach into the log.
const _: () = assert!(SUPERBLOCK_OFFSETS[0] + BLOCK <= ROOT_OFFSETS[0]);
const _: () = assert!(ROOT_OFFSETS[0] + BLOCK <= SUPERBLOCK_OFFSETS[1]);
const _: () = assert!(SUPERBLOCK_OFFSETS[1] + BLOCK <= ROOT_OFFSETS[1]);
const _: () = assert!(ROOT_OFFSETS[1] + BLOCK <= WAL_OFFSET);

// Superblocks and roots.

pub(crate) const SUPERBLOCK_MAGIC: [u8; 8] = *b"NACRESTO";
pub(crate) const ROOT_MAGIC: [u8; 8] = *b"NACREROT";
/// Version of the whole format. A store of a newer version is refused.
pub(crate) const FORMAT_VERSION: u32 = 2;
/// Bytes for all fields of a superblock or root, padded with zeros; a checksum and zeros fill the rest of the block.
pub(crate) const CHECKED_BYTES: usize = 512;
const _: () = assert!(CHECKED_BYTES + size_of::<u32>() <= BLOCK as usize, "fields and checksum fill one block");

/// Features of a store, one bit each. Software must know all of a store's features to read it.
pub(crate) mod feature {
    /// Clones are listed by their snapshots ([`crate::metadata::snap_index`]).
    pub const CLONES_LISTED: u64 = 1;
    /// The store is on a part of its devices, which the superblock names behind its other fields.
    pub const SLICED: u64 = 2;
}

/// All features that this software knows.
pub(crate) const FEATURES_KNOWN: u64 = feature::CLONES_LISTED | feature::SLICED;

/// Returns the number of a device's role in a superblock.
pub(crate) const fn role_number(device: Device) -> u32 {
    match device {
        Device::Main => 0,
        Device::Wal => 1,
        Device::Metadata => 2,
    }
}

/// Flag of the encoded totals: they are known.
pub(crate) const TOTALS_KNOWN: u8 = 1;
/// Bytes of the flags of encoded totals and the zeros behind them.
pub(crate) const TOTALS_FLAGS_BYTES: usize = 8;
/// Bytes of zeros behind the encoded totals, for more of them.
pub(crate) const TOTALS_RESERVED_BYTES: usize = 24;

// Log records.

/// The first bytes of a log record.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"NCWL";
pub(crate) const RECORD_VERSION: u8 = 1;
/// Flags of a record that software must know to read it, such as a compressed or encrypted body: none so far.
pub(crate) const RECORD_FLAGS_KNOWN: u8 = 0;
/// Bytes of a record's header.
pub(crate) const RECORD_HEADER_BYTES: usize = 64;
/// Range of the store's uuid in a record's header.
pub(crate) const RECORD_UUID: Range<usize> = 8..24;
/// Bytes of the header's checksum, which is its last field and covers the bytes before it.
pub(crate) const RECORD_CRC_BYTES: usize = 4;
const _: () = assert!(RECORD_HEADER_BYTES < BLOCK as usize, "a record's first block has all of its header");

/// Bits of a number in each of its bytes, the lowest first.
pub(crate) const NUMBER_BITS: usize = 7;
/// Flag in every byte of a number but the last.
pub(crate) const MORE: u8 = 1 << NUMBER_BITS;
/// Flag in the number of a redo step: the step is on the object, or the group, named last in its transaction.
pub(crate) const SAME_SUBJECT: u8 = 0x80;

macro_rules! redo_codes {
    ($($code:ident = $number:literal,)*) => {
        /// Numbers of redo steps.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub(crate) enum RedoCode {
            $($code = $number,)*
        }

        impl RedoCode {
            /// Returns the step with a number; `None` if no step has it.
            pub fn of(number: u8) -> Option<RedoCode> {
                match number {
                    $($number => Some(RedoCode::$code),)*
                    _ => None,
                }
            }

            #[cfg(test)]
            pub const ALL: &[RedoCode] = &[$(RedoCode::$code),*];
        }
    };
}

redo_codes! {
    Touch = 1,
    Map = 2,
    Unmap = 3,
    Resize = 4,
    Remove = 5,
    SetAttr = 6,
    RemoveAttr = 7,
    OmapSet = 8,
    OmapRemove = 9,
    OmapRemoveRange = 10,
    OmapClear = 11,
    OmapSetHeader = 12,
    Clone = 13,
    PgSet = 14,
    PgRemove = 15,
    PgRemoveRange = 16,
    PgDestroy = 17,
    Inline = 18,
    CloneRange = 19,
    CloneCopied = 20,
    DropCopy = 21,
    OmapIds = 22,
}

// Keys.

/// The first byte of a key in the tree: the number of its table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum TableId {
    Pgs = 1,
    Objects = 2,
    Omap = 3,
    Segments = 4,
    Copies = 5,
    Snaps = 6,
}

/// Bytes of a table's number in a key of the tree, before the table's own key.
pub(crate) const TABLE_BYTES: usize = 1;
/// Bytes of a pool's number at the begin of a key.
pub(crate) const POOL_BYTES: usize = 8;
/// Bytes of an object's hash, behind its pool.
pub(crate) const HASH_BYTES: usize = 4;
/// Bytes of a placement group's seed, behind its pool.
pub(crate) const SEED_BYTES: usize = 4;
/// Bytes of a snapshot's number.
pub(crate) const SNAP_BYTES: usize = 8;
/// Bytes of an omap id, before the entry's own key.
pub(crate) const OMAP_ID_BYTES: usize = 8;
/// Bytes of a segment's number, behind the object's key.
pub(crate) const SEGMENT_NUMBER_BYTES: usize = 4;
/// The bit of a pool's number that is flipped in keys, so that negative pools sort before others.
pub(crate) const POOL_SIGN: u64 = 1 << 63;

/// A zero byte in a text of a key is followed by one of these two.
pub(crate) const ESCAPED_ZERO: u8 = 0xff;
pub(crate) const END_OF_TEXT: u8 = 1;
// The end must sort before every text that goes on, be it with a zero.
const _: () = assert!(END_OF_TEXT < ESCAPED_ZERO);

/// The comparison of an object's name with its effective key.
pub(crate) mod name_order {
    pub const BELOW: u8 = 1;
    pub const EQUAL: u8 = 2;
    pub const ABOVE: u8 = 3;
}

// Values.

/// Bytes of a run in a segment's record, without the checksums: first block (1), count (1), device block (4).
pub(crate) const SEGMENT_RUN_BYTES: usize = 6;

/// The state in an entry of the table of copies.
pub(crate) mod copy_state {
    pub const UNFINISHED: u8 = 1;
    pub const WHOLE: u8 = 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_steps_and_roles_do_not_move() {
        let numbers: Vec<u8> = RedoCode::ALL.iter().map(|code| *code as u8).collect();
        assert_eq!(numbers, Vec::from_iter(1..=22));
        assert!(RedoCode::ALL.iter().all(|code| RedoCode::of(*code as u8) == Some(*code)));
        assert_eq!([RedoCode::of(0), RedoCode::of(23), RedoCode::of(RedoCode::Touch as u8 | SAME_SUBJECT)], [None; 3]);
        assert_eq!(Device::ALL.map(role_number), [0, 1, 2]);
    }
}

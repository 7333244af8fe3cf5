//! Numbers of the tree's pages on the device, each under one name for the writer and the reader. The crate's page on
//! the format ([`super`], "Format") is the prose to them. No number may change its meaning: trees that have it must be
//! read.

use super::{KEY_BYTES_MAX, PAGE_BYTES};
use types::BLOCK_BYTES;

/// Bytes of a page's header, whose fields begin at these offsets. `crc` covers everything behind itself.
pub(crate) const HEADER_BYTES: usize = 64;
pub(crate) mod header {
    use std::ops::Range;

    pub const CRC: usize = 0;
    pub const MAGIC: Range<usize> = 4..8;
    pub const VERSION: usize = 8;
    pub const KIND: usize = 9;
    pub const LEVEL: usize = 10;
    pub const FLAGS: usize = 11;
    pub const COUNT: usize = 12;
    pub const PREFIX_BYTES: usize = 14;
    pub const TAG: usize = 16;
    pub const GENERATION: usize = 24;
    pub const BLOCK: usize = 32;
    pub const USED_BYTES: usize = 40;
    /// Zeros, up to the end of the header.
    pub const RESERVED: Range<usize> = 42..super::HEADER_BYTES;
}

pub(crate) const PAGE_MAGIC: &[u8; 4] = b"NCBT";
pub(crate) const PAGE_VERSION: u8 = 1;
pub(crate) const KIND_LEAF: u8 = 1;
pub(crate) const KIND_INTERIOR: u8 = 2;
/// Flag of pages and children: the page, or one below it, has overflow values.
pub(crate) const FLAG_OVERFLOW: u8 = 1;

/// Bytes of a slot: an entry's place (2) and the first bytes of its key behind the prefix, padded with zeros. These
/// bytes decide most searches, in the few cache lines that hold all slots.
pub(crate) const SLOT_BYTES: usize = SLOT_HEAD + HEAD_BYTES;
/// Offset of the key's first bytes in a slot.
pub(crate) const SLOT_HEAD: usize = 2;
pub(crate) const HEAD_BYTES: usize = 4;

/// Bytes of a leaf entry before its key: length of the key (2), length of the value (2).
pub(crate) const LEAF_HEAD_BYTES: usize = 4;
/// Offset of a value's length in a leaf entry, and of the child in an interior entry: behind the length of the key.
pub(crate) const ENTRY_PAYLOAD: usize = 2;
/// Bytes of an interior entry before its key: length of the key (2), child.
pub(crate) const CHILD_HEAD_BYTES: usize = ENTRY_PAYLOAD + CHILD_BYTES;
/// Flag in a leaf entry's value length: the value lies in overflow runs.
pub(crate) const OVERFLOW_BIT: u16 = 1 << 15;
const _: () = assert!(PAGE_BYTES <= OVERFLOW_BIT as usize, "no length of a value in a page has the bit");

/// Bytes of a child, whose fields begin at these offsets.
pub(crate) const CHILD_BYTES: usize = 21;
pub(crate) mod child {
    pub const BLOCK: usize = 0;
    pub const GENERATION: usize = 8;
    pub const CRC: usize = 16;
    pub const FLAGS: usize = 20;
}

/// Bytes of an encoded root: child, level, zeros.
pub(crate) const ROOT_BYTES: usize = 24;
/// Offset of the level in an encoded root; zeros follow it.
pub(crate) const ROOT_LEVEL: usize = CHILD_BYTES;

/// Bytes of an encoded overflow before its runs, which begin with the length of the value.
pub(crate) const OVERFLOW_HEAD_BYTES: usize = 6;
pub(crate) mod overflow {
    pub const VALUE_BYTES: usize = 0;
    pub const DEPTH: usize = 4;
    pub const RUNS: usize = 5;
}

/// Bytes of a run of an overflow, whose fields begin at these offsets.
pub(crate) const OVERFLOW_RUN_BYTES: usize = 16;
pub(crate) mod overflow_run {
    pub const BLOCK: usize = 0;
    pub const BLOCKS: usize = 8;
    pub const CRC: usize = 12;
}

/// Number of runs that a leaf entry names by itself; more of them go into a list.
pub(crate) const OVERFLOW_RUNS_MAX: usize = 8;
/// Bytes of a list of runs before the runs: their number.
pub(crate) const LIST_HEAD_BYTES: usize = 4;
/// Maximum depth of lists of lists: one block lists 255 runs.
pub(crate) const OVERFLOW_DEPTH_MAX: u8 = 4;
const _: () = assert!((BLOCK_BYTES - LIST_HEAD_BYTES) / OVERFLOW_RUN_BYTES == 255);

// A leaf has room for any one entry: the longest key, and an overflow with as many runs as an entry can name.
const _: () = assert!(
    HEADER_BYTES
        + SLOT_BYTES
        + LEAF_HEAD_BYTES
        + KEY_BYTES_MAX
        + OVERFLOW_HEAD_BYTES
        + OVERFLOW_RUNS_MAX * OVERFLOW_RUN_BYTES
        <= PAGE_BYTES
);
// An interior page has room for any two children, of which the first one's key is not stored.
const _: () = assert!(HEADER_BYTES + 2 * (SLOT_BYTES + CHILD_HEAD_BYTES) + KEY_BYTES_MAX <= PAGE_BYTES);
// The deepest lists have room for the longest value, even if each run is a single block and each list has one block.
const _: () = assert!(
    OVERFLOW_RUNS_MAX as u64 * 255u64.pow(OVERFLOW_DEPTH_MAX as u32)
        >= super::VALUE_BYTES_MAX as u64 / BLOCK_BYTES as u64
);

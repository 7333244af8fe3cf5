//! Keys of the metadata tree: a table's number, then the table's own key.
//!
//! * Table 1: placement groups' tables (`pg_key`).
//! * Table 2: objects (`object_key`).
//! * Table 3: omap entries (`omap_key`).
//! * Table 4: segments of objects' block maps: the object's key and the segment's number (4, big-endian).
//! * Table 5: copies that no object has yet, by their omap id (8, big-endian) (`copying`).
//! * Table 6: clones by the snapshots that they were made for (`snap_key`), without values.

use crate::btree::KEY_BYTES_MAX;
use crate::disk::key::OMAP_PREFIX_BYTES;
use crate::disk::numbers::SNAP_BYTES;
pub(crate) use crate::disk::numbers::{SEGMENT_NUMBER_BYTES, TABLE_BYTES, TableId};

/// The longest key of any table, in bytes. With it a clone still fits under its snapshots, and so do the keys of an
/// object's segments.
pub(crate) const TABLE_KEY_BYTES_MAX: usize = KEY_BYTES_MAX - TABLE_BYTES - SNAP_BYTES;
/// The longest key of an omap entry, in bytes.
pub const OMAP_KEY_BYTES_MAX: usize = TABLE_KEY_BYTES_MAX - OMAP_PREFIX_BYTES;
const _: () = assert!(SEGMENT_NUMBER_BYTES <= SNAP_BYTES, "a segment's key is no longer than that of a listed clone");

/// Sets `out` to a table's key in the tree.
pub(crate) fn tree_key<'a>(table: TableId, key: &[u8], out: &'a mut Vec<u8>) -> &'a [u8] {
    out.clear();
    out.push(table as u8);
    out.extend_from_slice(key);
    out
}

/// Sets `out` to the key of an object's segment in the tree.
#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
pub(crate) fn segment_key<'a>(object: &[u8], segment: u32, out: &'a mut Vec<u8>) -> &'a [u8] {
    tree_key(TableId::Segments, object, out);
    out.extend_from_slice(&segment.to_be_bytes());
    out
}

/// Returns object and number of a segment's key, without the table; `None` if the key is too short.
#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
pub(crate) fn parse_segment_key(key: &[u8]) -> Option<(&[u8], u32)> {
    let (object, number) = key.split_last_chunk::<SEGMENT_NUMBER_BYTES>()?;
    Some((object, u32::from_be_bytes(*number)))
}

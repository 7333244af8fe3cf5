//! A copy-on-write B+tree of byte strings, for metadata that does not fit in memory: a core without I/O.
//!
//! Keys and values are byte strings; several key spaces share one tree under a first byte. Nothing on the device is
//! ever changed in place: changes gather in an [`Overlay`] in memory, and a [`Merge`] now and then writes them, in
//! sorted order, into new pages beside the old ones. The old tree stays whole until the caller has made the new
//! [`Root`] durable.
//!
//! * Reading: [`View::get`] and [`Cursor`] look through overlay and tree. They never wait: they answer
//!   [`Fetch::Ready`], or [`Fetch::Pending`] with the read to wait for. The caller takes reads from
//!   [`PageCache::poll_read`], hands results to [`PageCache::read_done`], and asks again.
//! * Writing: [`Overlay::put`], [`Overlay::delete`], [`Overlay::delete_range`]; then [`Overlay::freeze`], a [`Merge`]
//!   in slices, its writes, a flush, the root, a flush, [`Overlay::retire`].
//! * Checking: [`Walk`] visits every page, or only what is needed to tell used blocks from free ones.
//!
//! The tree verifies itself: whoever refers to a page says its checksum and generation, so a write that was lost or
//! went astray is found at the first read. Such a page is [`Damage`], reported with its place and never interpreted.
//!
//! # Format
//!
//! A page is 8 KiB (two blocks). All numbers are little-endian; the checksum is CRC-32C, raw form, seed `ffffffff`.
//!
//! ```text
//! 0    4      8          9     10     11     12     14           16   24          32     40    42       64
//! │crc │"NCBT"│version 1 │kind │level │flags │count │prefix bytes│tag │generation │block │used │zeros   │
//! 64
//! │prefix ...│slots, 6 × count │entries ... up to `used` │zeros to the page's end│
//!
//! slot             0            2            6
//!                  │entry at 2  │head of key 4│
//!
//! leaf entry       0            2             4
//!                  │key bytes 2 │value bytes 2│key behind the prefix ...│value or overflow ...│
//! interior entry   0            2       10           18    22       23
//!                  │key bytes 2 │block 8│generation 8│crc 4│flags 1 │key behind the prefix ...│
//! overflow         0              4       5        6
//!                  │value bytes 4 │depth 1│runs 1 │runs × (block 8, blocks 4, crc 4)│
//! ```
//!
//! * The checksum covers everything behind it. `kind` is 1 for a leaf (`level` 0), 2 for an interior page (`level`
//!   above 0). `tag` is the store's own, `generation` counts merges, `block` is the page's own place.
//! * Flag 1 of a page, and of the entry that refers to it: there are overflow values in it or below it. The zeros are
//!   reserved for compression and encryption; flags that are not known are refused.
//! * A slot's `head` is the first four bytes of the entry's key behind the prefix, padded with zeros.
//! * `prefix` is what all keys of the page begin with. In an interior page the key of an entry is at most the first key
//!   below it and above the last key below the entry before it; the first entry's key is not stored and counts as
//!   lowest.
//! * Bit 15 of a leaf's `value bytes`: the value lies in *overflow* runs of whole blocks, padded with zeros, each under
//!   its checksum. A value in more than `layout::OVERFLOW_RUNS_MAX` runs has a list of them (count 4, then the runs)
//!   in overflow runs of its own, `depth` times.

mod child;
mod cursor;
mod damage;
mod drops;
mod erased;
pub(crate) mod layout;
mod le;
mod leaf_merge;
mod level_builder;
mod merge;
mod merge_ahead;
mod overflow;
mod overlay;
mod page;
mod page_cache;
mod page_writer;
mod range_size;
mod sorted_chunks;
mod space;
mod table_changes;
#[cfg(test)]
mod tests;
mod view;
mod walk;

pub use crate::space::run::Run;
pub use child::{PageRef, Root};
pub use cursor::{Cursor, CursorPage};
pub use damage::{Damage, DamageKind};
pub use merge::{Merge, MergeError, Merged, Progress};
pub use overlay::{EntryError, Overlay};
pub use page_cache::{CacheStats, Fetch, PageCache, PageRead, ReadId};
pub use page_writer::BlockWrite;
pub(crate) use range_size::leaves_max;
pub use space::Space;
pub use table_changes::{Amount, TableChange, TableChanges};
pub use view::View;
pub use walk::{Depth, Found, Lost, Walk, WalkProgress};

use types::BLOCK_BYTES;

/// Blocks of a page.
pub const PAGE_BLOCKS: u32 = 2;
/// Bytes of a page.
pub const PAGE_BYTES: usize = PAGE_BLOCKS as usize * BLOCK_BYTES;
/// The longest key, in bytes. An interior page has room for any two children, whatever their keys; a leaf for any one
/// entry. Ceph's longest names (2048 bytes for name and locator, 256 for the namespace) make keys well below this.
pub const KEY_BYTES_MAX: usize = 6 << 10;
/// The longest value, in bytes.
pub const VALUE_BYTES_MAX: usize = 256 << 20;
/// The longest value in a leaf, in bytes: a quarter of the leaf.
pub const INLINE_BYTES_MAX: usize = PAGE_BYTES / 4;
/// No tree is as high as this: interior pages have two children or more, and a device at most 2^32 blocks.
pub(crate) const LEVEL_MAX: u8 = 40;

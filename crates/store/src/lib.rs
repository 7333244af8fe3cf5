//! One OSD's object store on one device or file, or on up to three: a core without I/O.
//!
//! The caller submits [`Transaction`]s and lookups to a [`Store`], carries out the [`IoRequest`]s that come out, and
//! hands the results back; commits and finished lookups come out as [`StoreEvent`]s. `docs/disk-format.md` describes
//! what is on the device.
//!
//! * Start here: `store` (the parts), `submit` (a transaction's way in; `clone_range`), `turns` (its way to the
//!   device and back), `opening` (replay after a crash).
//! * Metadata is a tree on the device (`btree`; `tree_key` says what is where in it) and, over it, what has changed since
//!   the last `checkpoint` took changes into it: together `state`, changed only by `redo` steps, which are also what the
//!   log (`wal`) holds. In memory are those changes, some pages, and some objects taken apart (`onode_cache`), each under
//!   its `budget`. What steps need is brought in first (`loading`); transactions wait for it in a `queue`, and answers to
//!   `lookups` come later (`gathering`). `destroying` finds bit by bit what was held by what is gone, `copying` copies bit by
//!   bit what a clone of something large will hold, `counting` finds at opening which blocks are free.
//! * Data: `allocator` (with `free_units` over `bit_tree`) and `freeing` (free blocks and the way to become one),
//!   `block_map` and `shared_blocks` (who holds which), `in_flight` and `merges` (blocks not on the device yet), `reads`,
//!   `block_cache` (data that was read), `preparing` (blocks written ahead of use), `relocation` (scattered data is
//!   brought together).
//! * `losses` and `mending`: a store parts of whose metadata cannot be read, and what is left of it.
//! * `inspect`, `free_space` and `labels`: what tools for an offline store ask.
//! * [`SimDevice`] is a device for tests and simulations, which loses what was not flushed.
//!
//! Nothing here opens a file, reads a clock or starts a thread.

mod allocator;
mod api;
mod attrs;
mod bit_tree;
mod block_cache;
mod block_map;
pub mod btree;
mod budget;
mod cache_counts;
mod checkpoint;
mod clone_range;
mod commit_times;
mod compaction;
mod config;
mod copying;
mod counting;
mod destroying;
mod device_labels;
mod flushing;
mod format;
mod free_space;
mod free_units;
mod freeing;
mod gathering;
mod in_flight;
mod inline;
mod inspect;
mod io_queue;
mod key;
mod labels;
mod loading;
mod lookups;
mod losses;
mod mending;
mod merge_pace;
mod merges;
mod metadata_space;
mod onode;
mod onode_cache;
mod opening;
mod opening_io;
mod preparing;
mod queue;
mod reads;
mod redo;
mod redo_bytes;
mod relocation;
mod room;
mod shared_blocks;
mod sim_device;
mod sim_media;
mod slice;
mod snap_index;
mod state;
mod store;
mod submit;
mod superblock;
#[cfg(test)]
mod tests;
mod totals;
mod tree_key;
mod tree_loading;
mod turns;
mod wal;

pub use api::*;
pub use attrs::Attrs;
pub use block_cache::BlockCacheStats;
pub use budget::Memory;
pub use cache_counts::CacheCounts;
pub use commit_times::CommitTimes;
pub use config::StoreConfig;
pub use format::FormatError;
pub use free_space::{FreeRuns, FreeSpace};
pub use inspect::{LogState, PlacedExtent};
pub use labels::{LABEL_OFFSETS, LabelBlock, Labels, StoreLabel};
pub use losses::Loss;
pub use mending::{LostLog, LostObject, Mended};
pub use opening::{OpenError, Opening};
pub use relocation::RelocationStats;
pub use room::growth_bytes;
pub use sim_device::SimDevice;
pub use sim_media::SimMedia;
pub use slice::Slice;
pub use snap_index::{SNAPS_ATTR, UNKNOWN_SNAP, snaps_attr, snaps_of_clone};
pub use store::Store;
pub use tree_key::OMAP_KEY_BYTES_MAX;

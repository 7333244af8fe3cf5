//! One OSD's object store on one device or file, or on up to three: a core without I/O.
//!
//! The caller submits [`Transaction`]s and lookups to a [`Store`], carries out the [`IoRequest`]s that come out, and
//! hands the results back; commits and finished lookups come out as [`StoreEvent`]s. `docs/disk-format.md` describes
//! what is on the device.
//!
//! * Start here: `store` (the parts and the lookups), `submit` (a transaction's way in), `turns` (its way to the
//!   device and back), `opening` (replay after a crash).
//! * Metadata is in memory, omap entries included: `state` holds the tables, changed only by `redo` steps, which are
//!   also what the log (`wal`) holds. What changes is kept as records too (`btree`'s overlay), which `checkpoint` takes
//!   into the tree on the device now and then, so that the log can be trimmed; `tree_key` says what is where in it.
//! * Data: `allocator` (with `free_units` over `bit_tree`) and `freeing` (free blocks and the way to become one),
//!   `block_map` and `shared_blocks` (who holds which), `in_flight` and `merges` (blocks not on the device yet), `reads`,
//!   `block_cache` (data that was read), `preparing` (blocks written ahead of use), `relocation` (scattered data is
//!   brought together).
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
mod checkpoint;
mod config;
mod device_labels;
mod flushing;
mod format;
mod free_space;
mod free_units;
mod freeing;
mod in_flight;
mod inspect;
mod io_queue;
mod key;
mod labels;
mod late;
mod merges;
mod metadata_space;
mod onode;
mod opening;
mod preparing;
mod reads;
mod redo;
mod relocation;
mod shared_blocks;
mod sim_device;
mod sim_media;
mod state;
mod store;
mod submit;
mod superblock;
mod table;
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
pub use config::StoreConfig;
pub use format::FormatError;
pub use free_space::{FreeRuns, FreeSpace};
pub use inspect::{LogState, PlacedExtent};
pub use labels::{LABEL_OFFSETS, LabelBlock, Labels, StoreLabel};
pub use opening::{OpenError, Opening};
pub use relocation::RelocationStats;
pub use sim_device::SimDevice;
pub use sim_media::SimMedia;
pub use store::Store;

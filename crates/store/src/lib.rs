//! One OSD's object store on one device or file, or on up to three: a core without I/O.
//!
//! The caller submits [`Transaction`]s and lookups to a [`Store`], carries out the [`IoRequest`]s that come out, and
//! hands the results back; commits and finished lookups come out as [`StoreEvent`]s. `docs/disk-format.md` describes
//! the bytes on the device. Nothing here opens a file, reads a clock or starts a thread.
//!
//! # Map
//!
//! Begin with `engine` (`store` has the parts, `submit` and `turns` the way of a transaction), then `opening`. Each
//! folder's `mod.rs` says what is in it. Higher rows use lower ones:
//!
//! ```text
//! tools      questions of tools for a store that no OSD runs          sim    devices in memory, for tests
//! opening    from devices to an open store: labels, replay, counting, mending; also making a store
//! engine     the open store: transactions in, turns out, log, checkpoints
//! data       bytes of objects: reads, cache, partial blocks,    metadata   objects, omaps, tables of placement
//!            small objects, relocation                                     groups: state, caches, lookups
//! disk       superblocks, roots, keys and log records in bytes
//! btree      the tree that keeps metadata on the device; knows nothing of objects
//! space      free blocks, and the way of a block to become free
//! api, config    what callers see
//! ```
//!
//! `data` and `metadata` also hold methods of [`Store`] for their part of its work, so they name `engine::store`.

mod api;
pub mod btree;
mod config;
mod data;
mod disk;
mod engine;
mod metadata;
mod opening;
mod sim;
mod space;
#[cfg(test)]
mod tests;
mod tools;

pub use api::*;
pub use config::{StoreConfig, Tuning};
pub use data::{BlockCacheStats, CLONE_RANGE_BYTES_MAX, RelocationStats};
pub use disk::{OMAP_KEY_BYTES_MAX, Slice};
pub use engine::{CacheCounts, CommitTimes, FailedRequest, Memory, StopReason, Store, growth_bytes};
pub use metadata::{Attrs, SNAPS_ATTR, UNKNOWN_SNAP, snaps_attr, snaps_of_clone};
pub use opening::{FormatError, Loss, LostLog, LostObject, Mended, OpenError, Opening};
pub use sim::{SimDevice, SimMedia};
pub use tools::{FreeRuns, FreeSpace, LABEL_OFFSETS, LabelBlock, Labels, LogState, PlacedExtent, StoreLabel};

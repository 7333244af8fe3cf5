//! The bytes on the devices: labels, keys and log records. `docs/disk-format.md` is the prose to them.
//!
//! * Begin with `numbers`: every number of the format under its name.
//! * `superblock`: the label of each device and the checkpoint roots; `totals`, a part of a root; `slice`, the part of
//!   its devices that a store is on.
//! * `key` and `tree_key`: keys of objects, omap entries and groups' tables, and of all of them in one tree.
//! * `redo` and `redo_bytes`: the steps of a log record, and their bytes; `copies`, entries of the table of copies.
//!
//! Pages of the tree are described in [`crate::btree`], headers of log records in
//! `engine::wal`.

pub(crate) mod copies;
pub(crate) mod key;
pub(crate) mod numbers;
pub(crate) mod redo;
pub(crate) mod redo_bytes;
mod slice;
pub(crate) mod superblock;
pub(crate) mod totals;
pub(crate) mod tree_key;

pub use slice::Slice;
pub use tree_key::OMAP_KEY_BYTES_MAX;

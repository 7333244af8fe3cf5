//! Free blocks: the set of them, the order in which they are taken, and the way of a freed block to its next use.
//!
//! * Begin with `run`, then `allocator`: a bitmap with an open run for each stream of requests. `free_units` sorts
//!   units by how much of them is free, `bit_tree` is a set of numbers for it.
//! * `shared_blocks` counts the holders of blocks that clones share.
//! * `freeing` keeps freed blocks until they may be used again, and returns them to the device. `preparing` writes
//!   blocks ahead of use, for sparse files.
//! * `metadata_space` sets blocks aside for the metadata tree.

pub(crate) mod allocator;
mod bit_tree;
mod free_units;
pub(crate) mod freeing;
pub(crate) mod metadata_space;
pub(crate) mod preparing;
pub(crate) mod run;
pub(crate) mod shared_blocks;

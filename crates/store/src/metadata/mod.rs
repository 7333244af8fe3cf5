//! Objects, their omaps, and the tables of placement groups: the tree, the changes over it, and objects in memory.
//!
//! * Begin with `state`: all of it together, changed only by redo steps. `onode` is one object, `block_map` says where
//!   its blocks lie, `attrs` keeps its attributes, `onode_cache` the objects in memory.
//! * `loading` brings into memory what steps need; `lookups` answers questions, `gathering` those that need many pages.
//! * `destroying` finds bit by bit what something destroyed held; `copying` copies bit by bit what a large clone will
//!   hold. `jobs` is what the two keep from one bit to the next.
//! * `snap_index` lists clones by their snapshots.

pub(crate) mod attrs;
pub(crate) mod block_map;
pub(crate) mod copying;
pub(crate) mod destroying;
mod gathering;
pub(crate) mod jobs;
pub(crate) mod loading;
pub(crate) mod lookups;
pub(crate) mod onode;
mod onode_cache;
pub(crate) mod snap_index;
pub(crate) mod state;

pub use attrs::{Attrs, SNAPS_ATTR};
pub use snap_index::{UNKNOWN_SNAP, snaps_attr, snaps_of_clone};

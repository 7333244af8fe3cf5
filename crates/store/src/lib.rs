//! One OSD's object store on one device or file: a core without I/O.
//!
//! The caller submits [`Transaction`]s and lookups, carries out the [`IoRequest`]s that come out, and hands the
//! results back; commits and finished lookups come out as [`StoreEvent`]s.

mod allocator;
mod api;
mod attrs;
mod block_map;
mod config;
mod key;
mod shared_blocks;
mod store;
mod table;

pub use api::*;
pub use attrs::Attrs;
pub use config::StoreConfig;
pub use store::{FormatError, OpenError, Opening, Store};

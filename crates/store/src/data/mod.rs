//! Bytes of objects: how they are read, put together, and moved.
//!
//! * Begin with `reads`. `block_cache` keeps what was read, `in_flight` what is not durable yet.
//! * `merges` makes blocks of which only a part is written; `adding` adds to what is there.
//! * `clone_range` clones ranges; `inline` keeps small objects in their records.
//! * `relocation` brings scattered data together, `compaction` does so for the whole store while clients stay away.

pub(crate) mod adding;
pub(crate) mod block_cache;
pub(crate) mod clone_range;
pub(crate) mod compaction;
pub(crate) mod in_flight;
pub(crate) mod inline;
pub(crate) mod merges;
pub(crate) mod reads;
pub(crate) mod relocation;

pub use block_cache::BlockCacheStats;
pub use clone_range::CLONE_RANGE_BYTES_MAX;
pub use relocation::RelocationStats;

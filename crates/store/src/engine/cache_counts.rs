//! Counts of the caches: data, objects, pages of the tree.

use crate::data::block_cache::BlockCacheStats;
use crate::engine::store::Store;

/// Counts since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounts {
    pub blocks: BlockCacheStats,
    /// Number of times that a needed object was in memory, and that it had to be looked up in the tree.
    pub onode_hits: u64,
    pub onode_misses: u64,
    /// Memory in use, in bytes.
    pub onode_bytes: u64,
    /// Number of times that a needed page was in memory, and that it had to be read.
    pub page_hits: u64,
    pub page_misses: u64,
    pub page_bytes: u64,
}

impl Store {
    pub fn cache_counts(&self) -> CacheCounts {
        let (onode_hits, onode_misses) = self.state.onodes.counts();
        let pages = self.state.cache.stats();
        CacheCounts {
            blocks: self.block_cache_stats(),
            onode_hits,
            onode_misses,
            onode_bytes: self.state.onodes.bytes() as u64,
            page_hits: pages.hits,
            page_misses: pages.misses,
            page_bytes: pages.bytes as u64,
        }
    }

    /// Forgets all data that was read. Metadata stays in memory.
    pub fn drop_block_cache(&mut self) {
        self.block_cache.forget_all();
    }
}

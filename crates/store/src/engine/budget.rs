//! Limits of the memory that a store uses.

use crate::Store;

/// Bytes of memory by use. Blocks of data on their way are not included: the callers that submit and read bound them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Pages of the metadata tree.
    pub page_bytes: usize,
    /// Objects in memory.
    pub onode_bytes: usize,
    /// Changes since the last checkpoint. The changes that are on their way into the tree may take as much again.
    pub overlay_bytes: usize,
}

impl Memory {
    /// Divides `total_bytes` of memory for metadata. At least [`Memory::BYTES_MIN`] are taken.
    pub fn of(total_bytes: usize) -> Memory {
        let total = total_bytes.max(Memory::BYTES_MIN);
        // The more changes one checkpoint takes, the more of them share a page that it writes.
        Memory { page_bytes: total / 8, onode_bytes: total / 8, overlay_bytes: total / 8 * 3 }
    }

    pub const BYTES_MIN: usize = 8 << 20;
    /// The default of a store, in bytes.
    pub const BYTES_DEFAULT: usize = 64 << 20;

    /// Returns the sum of all uses.
    pub fn total_bytes(&self) -> usize {
        self.page_bytes + self.onode_bytes + 2 * self.overlay_bytes
    }
}

const _: () = assert!(Memory::BYTES_MIN <= Memory::BYTES_DEFAULT);

impl Default for Memory {
    fn default() -> Memory {
        Memory::of(Memory::BYTES_DEFAULT)
    }
}

impl Store {
    /// Sets the memory that metadata may take, from now on.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
        self.state.cache.set_budget(memory.page_bytes);
        self.state.onodes.set_budget(memory.onode_bytes);
    }

    /// Returns the memory that metadata may take, and the memory that it takes.
    pub fn memory(&self) -> (Memory, Memory) {
        let taken = Memory {
            page_bytes: self.state.cache.stats().bytes,
            onode_bytes: self.state.onodes.bytes(),
            overlay_bytes: self.state.overlay.bytes().1,
        };
        (self.memory, taken)
    }
}

//! What a store may keep in memory.

use crate::Store;

/// Bytes of memory by what they are for. Blocks of data on their way are not among them: they are bounded by whoever submits
/// and reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Memory {
    /// Pages of the metadata tree.
    pub page_bytes: usize,
    /// Objects, taken apart.
    pub onode_bytes: usize,
    /// Changes since the last checkpoint. As many again may be on their way into the tree.
    pub overlay_bytes: usize,
}

impl Memory {
    /// A store that has to make do with `total_bytes` for its metadata. At least [`Memory::BYTES_MIN`] are taken.
    pub fn of(total_bytes: usize) -> Memory {
        let total = total_bytes.max(Memory::BYTES_MIN);
        // The more changes one checkpoint takes, the more of them share a page that it writes.
        Memory { page_bytes: total / 8, onode_bytes: total / 8, overlay_bytes: total / 8 * 3 }
    }

    pub const BYTES_MIN: usize = 8 << 20;
    /// What a store takes unless it is told otherwise.
    pub const BYTES_DEFAULT: usize = 64 << 20;

    /// All of it.
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
    /// Sets what metadata may take of memory, from now on.
    pub fn set_memory(&mut self, memory: Memory) {
        self.memory = memory;
        self.state.cache.set_budget(memory.page_bytes);
        self.state.onodes.set_budget(memory.onode_bytes);
    }

    /// What metadata may take of memory, and what it takes.
    pub fn memory(&self) -> (Memory, Memory) {
        let taken = Memory {
            page_bytes: self.state.cache.stats().bytes,
            onode_bytes: self.state.onodes.bytes(),
            overlay_bytes: self.state.overlay.bytes().1,
        };
        (self.memory, taken)
    }
}

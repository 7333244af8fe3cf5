//! Memory that a shard holds for clients.

use std::ops::AddAssign;

/// Bytes that a shard holds, or the shards of an OSD together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MemoryUse {
    /// Clients' operations that are not answered, with what they have taken, as it is counted.
    pub counted: usize,
    /// Clients' operations that are not answered, by a look at each of them.
    pub found: usize,
    /// Bytes that copies have fetched, as they are counted.
    pub copied: usize,
    /// Bytes that copies have fetched, by a look at each of them.
    pub copied_found: usize,
    /// Operations that have come and wait for room, as it is counted.
    pub waiting: usize,
    /// Operations that have come and wait for room, by a look at each of them.
    pub waiting_found: usize,
    /// Data on its way to the device.
    pub uncommitted: u64,
}

impl AddAssign for MemoryUse {
    fn add_assign(&mut self, other: MemoryUse) {
        self.counted += other.counted;
        self.found += other.found;
        self.copied += other.copied;
        self.copied_found += other.copied_found;
        self.waiting += other.waiting;
        self.waiting_found += other.waiting_found;
        self.uncommitted += other.uncommitted;
    }
}

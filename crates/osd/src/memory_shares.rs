//! Memory that an OSD may take, and its parts.

/// Least memory of an OSD, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// The most memory that an OSD takes by default, in bytes. More brings little.
const MEMORY_BYTES_DEFAULT_MAX: u64 = 4 << 30;
const MEMORY_BYTES_DEFAULT_MIN: u64 = 256 << 20;
const _: () = assert!(
    MEMORY_BYTES_MIN <= MEMORY_BYTES_DEFAULT_MIN && MEMORY_BYTES_DEFAULT_MIN < MEMORY_BYTES_DEFAULT_MAX,
    "the default is enough for an OSD, and is clamped to this range"
);

/// The store's metadata may take one part in so many of the memory.
const METADATA_PART: u64 = 5;
const _: () = assert!(
    MEMORY_BYTES_MIN / METADATA_PART >= store::Memory::BYTES_MIN as u64,
    "a store takes no more memory for metadata than the share that it is given"
);

/// The parts of an OSD's memory, in bytes. The rest is for small things: groups, logs, connections, code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryShares {
    /// Bytes that clients' requests, complete or still being received, and their answers may hold at once. Beyond it
    /// the OSD reads nothing more from clients.
    pub client_bytes: usize,
    /// Bytes that notifications and their watchers' answers may hold until they are complete.
    pub notify_bytes: usize,
    /// Bytes of buffers kept for their next use.
    pub spare_bytes: usize,
    /// Bytes on their way to the device beyond which the OSD reads nothing more from other OSDs.
    pub uncommitted_bytes: u64,
    /// Bytes of the store's cache of data that was read.
    pub block_cache_bytes: usize,
    /// Bytes of the store's metadata.
    pub metadata_bytes: usize,
    /// Bytes for requests that groups remember beyond their trimmed logs.
    pub dups_bytes: usize,
}

impl MemoryShares {
    /// The shares of an OSD that may use `memory_bytes` in all.
    pub fn of(memory_bytes: u64) -> MemoryShares {
        MemoryShares {
            client_bytes: (memory_bytes / 6) as usize,
            notify_bytes: (memory_bytes / 64) as usize,
            spare_bytes: (memory_bytes / 7).min(32 << 20) as usize,
            uncommitted_bytes: memory_bytes / 8,
            block_cache_bytes: (memory_bytes / 9) as usize,
            metadata_bytes: (memory_bytes / METADATA_PART) as usize,
            dups_bytes: (memory_bytes / 32) as usize,
        }
    }
}

/// Memory that an OSD takes by default: a sixteenth of the machine's, from 256 MiB to 4 GiB. With ten drives, room
/// remains for other things.
pub fn default_memory_bytes(machine_bytes: u64) -> u64 {
    (machine_bytes / 16).clamp(MEMORY_BYTES_DEFAULT_MIN, MEMORY_BYTES_DEFAULT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_a_fifth_for_what_is_small() {
        for memory in [MEMORY_BYTES_MIN, 112 << 20, 1 << 30, 64 << 30] {
            let shares = MemoryShares::of(memory);
            let caches = (shares.block_cache_bytes + shares.metadata_bytes + shares.dups_bytes) as u64;
            let buffers =
                (shares.client_bytes + shares.notify_bytes + shares.spare_bytes) as u64 + shares.uncommitted_bytes;
            assert!(caches + buffers <= memory - memory / 5, "{memory}: {shares:?}");
        }
    }

    #[test]
    fn the_default_follows_the_machine() {
        assert_eq!(default_memory_bytes(2 << 30), 256 << 20);
        assert_eq!(default_memory_bytes(24 << 30), 1536 << 20);
        assert_eq!(default_memory_bytes(512 << 30), 4 << 30);
    }
}

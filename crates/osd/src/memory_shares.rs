//! What an OSD may take of memory, and for what.

/// Least memory of an OSD, in bytes.
pub const MEMORY_BYTES_MIN: u64 = 64 << 20;
/// What an OSD takes where it is not told, at most: with more, little is gained.
const MEMORY_BYTES_DEFAULT_MAX: u64 = 4 << 30;
const MEMORY_BYTES_DEFAULT_MIN: u64 = 256 << 20;

/// The parts of an OSD's memory, in bytes. What they leave is for everything that is small: groups, logs, connections,
/// code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryShares {
    /// What clients' requests and their answers may hold at once, those included that are being received; beyond it
    /// nothing more is read from clients.
    pub client_bytes: usize,
    /// What notifications and their watchers' answers may hold until they are complete.
    pub notify_bytes: usize,
    /// Buffers that are kept for the next use.
    pub spare_bytes: usize,
    /// Data on its way to the device beyond which nothing more is read from other OSDs.
    pub uncommitted_bytes: u64,
    /// What the store may keep of data that was read.
    pub block_cache_bytes: usize,
    /// What the store's metadata may take.
    pub metadata_bytes: usize,
    /// What groups may remember of requests that their logs have trimmed.
    pub dups_bytes: usize,
}

impl MemoryShares {
    /// The shares of an OSD that is given so much.
    pub fn of(memory_bytes: u64) -> MemoryShares {
        MemoryShares {
            client_bytes: (memory_bytes / 6) as usize,
            notify_bytes: (memory_bytes / 64) as usize,
            spare_bytes: (memory_bytes / 7).min(32 << 20) as usize,
            uncommitted_bytes: memory_bytes / 8,
            block_cache_bytes: (memory_bytes / 9) as usize,
            metadata_bytes: (memory_bytes / 5) as usize,
            dups_bytes: (memory_bytes / 32) as usize,
        }
    }
}

/// What an OSD takes where it is not told: a sixteenth of the machine's memory, from 256 MiB to 4 GiB. So ten drives
/// leave room for other things.
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

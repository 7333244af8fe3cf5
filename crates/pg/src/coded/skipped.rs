//! Shards that an update leaves as they were.
//!
//! An update of parts of stripes changes bytes on some shards only. The others have it in their logs, and nothing of
//! theirs is older for it. They follow in one matter: attributes are the same on all shards, so the entry itself holds
//! the object information that they take.

use bytes::Bytes;
use ec::ShardSet;

/// Shards that an update skips. None, of most updates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Shards whose bytes the update leaves as they were.
    pub shards: ShardSet,
    /// The object information after the update, as it is stored. These shards take it instead of the update. Empty: the
    /// information is no longer at hand, and a shard that has not taken it is sent the object.
    pub info: Bytes,
}

impl Skipped {
    /// Returns the object information that a shard takes that the update skips. `None`: the update is to be carried out
    /// there.
    pub(crate) fn info_for(&self, shard: Option<u8>) -> Option<&Bytes> {
        let skips = shard.is_some_and(|shard| self.shards.contains(shard.into()));
        Some(&self.info).filter(|info| skips && !info.is_empty())
    }
}

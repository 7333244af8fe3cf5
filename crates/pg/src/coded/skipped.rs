//! Shards that an update leaves as they were.
//!
//! An update of parts of stripes changes bytes on some shards only. The others are told of it later, and nothing of
//! theirs is older for it. They follow in one matter: attributes are the same on all shards, so the entry itself holds
//! the object information that they take, and what it takes to take the entry back there.

use super::undo::Undo;
use crate::group::object_info::OBJECT_INFO_ATTR;
use bytes::Bytes;
use ec::ShardSet;
use mutant::Mutant;

/// Shards that an update skips. None, of most updates.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Skipped {
    /// Shards whose bytes the update leaves as they were.
    pub shards: ShardSet,
    /// The object information after the update, as it is stored. These shards take it instead of the update. Empty: the
    /// information is no longer at hand, and a shard that has not taken it is sent the object.
    pub info: Bytes,
    /// The object information before the update, and the length of each shard, which stays. Empty: not at hand.
    pub info_before: Bytes,
    pub shard_bytes: u64,
}

impl Skipped {
    /// Returns true if the update leaves the shard as it was.
    pub(crate) fn skips(&self, shard: u8) -> bool {
        self.shards.contains(shard.into())
    }

    /// Returns the object information that a shard takes that the update skips. `None`: the update is to be carried out
    /// there.
    pub(crate) fn info_for(&self, shard: Option<u8>) -> Option<&Bytes> {
        let skips = shard.is_some_and(|shard| self.skips(shard));
        let hides = shard.is_some() && mutant::is(Mutant::SkippedHidesMissing);
        Some(&self.info).filter(|info| (skips || hides) && !info.is_empty())
    }

    /// Returns what takes the update back on a shard that it skips, once that has taken [`info`](Self::info).
    pub(crate) fn undo_for(&self, shard: Option<u8>) -> Option<Undo> {
        let is_known = !self.info_before.is_empty() && !mutant::is(Mutant::SkippedUndoLost);
        self.info_for(shard).filter(|_| is_known)?;
        let attrs = vec![(Bytes::from_static(OBJECT_INFO_ATTR), Some(self.info_before.clone()))];
        Some(Undo::Restore { shard_bytes: self.shard_bytes, attrs })
    }

    /// Forgets what shards take, as the update will stay.
    pub(crate) fn will_stay(&mut self) {
        *self = Skipped { shards: self.shards, ..Skipped::default() };
    }
}

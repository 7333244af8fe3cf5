//! The end of an erasure-coded group's log, by the logs of the OSDs that have its shards.

use crate::group::log::LogEntry;
use mutant::Mutant;
use std::collections::BTreeSet;
use types::{EVersion, OsdId};

/// A shard whose OSD has all updates up to `head` that clients were answered for, but for such as skip the shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogHolder {
    pub osd: OsdId,
    pub shard: u8,
    pub head: EVersion,
}

impl LogHolder {
    /// Returns true if the holder has the update, or is skipped by it and so lacks nothing of it. Objects are read of
    /// `needed` shards: an update that is said to skip so many would be on none of those.
    fn counts_for(&self, entry: &LogEntry, needed: usize) -> bool {
        let is_possible = entry.skipped.shards.len() < needed;
        let skips = is_possible && entry.skipped.skips(self.shard) && !mutant::is(Mutant::SkippedIsStale);
        entry.version <= self.head || skips || mutant::is(Mutant::LongestShardLogLeads)
    }
}

/// All holders that are here. Their logs are beginnings of the longest one. None, in a replicated group.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogHolders {
    pub all: Vec<LogHolder>,
    /// Clients were answered for updates up to here, as one of the holders knows.
    pub answered: EVersion,
    /// Number of shards that it takes to read an object.
    pub needed: usize,
}

impl LogHolders {
    /// Returns the end of the log that ends first.
    pub fn shortest(&self) -> EVersion {
        self.all.iter().map(|holder| holder.head).min().unwrap_or_default()
    }

    /// Returns where the group's log ends: before the first of `entries`, which follow `after` and are the end of the
    /// longest log, that a holder neither has nor is skipped by. A holder for which clients cannot have been answered
    /// as they were has lost the end of its log, and does not count where the others are enough. `None`: the entries do
    /// not reach back to where all agree.
    pub fn log_end(&self, after: EVersion, entries: &[LogEntry]) -> Option<EVersion> {
        if self.all.iter().any(|holder| holder.head < after) {
            return None;
        }
        let answered = || entries.iter().take_while(|entry| entry.version <= self.answered);
        let is_whole = |holder: &&LogHolder| answered().all(|entry| holder.counts_for(entry, self.needed));
        let (whole, cut): (Vec<&LogHolder>, Vec<&LogHolder>) = self.all.iter().partition(is_whole);
        let shards: BTreeSet<u8> = whole.iter().map(|holder| holder.shard).collect();
        let counting = match shards.len() >= self.needed && !mutant::is(Mutant::ShortLogTakesBack) {
            true => whole,
            false => self.all.iter().collect(),
        };
        if counting.len() < self.all.len() {
            tracing::error!(answered = %self.answered, ?cut, "have lost the end of their logs");
        }
        let counts = |entry: &LogEntry| counting.iter().all(|holder| holder.counts_for(entry, self.needed));
        let ours = entries.iter().take_while(|entry| counts(entry));
        Some(ours.last().map_or(after, |entry| entry.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::skipped::Skipped;
    use crate::group::log::LogKind;
    use types::{EntityName, ObjectId, PoolId, ReqId, Utime};

    fn at(version: u64) -> EVersion {
        EVersion::new(3, version)
    }

    fn holder(shard: u8, head: u64) -> LogHolder {
        LogHolder { osd: OsdId(shard.into()), shard, head: at(head) }
    }

    fn holders(heads: &[(u8, u64)], answered: u64, needed: usize) -> LogHolders {
        let all = heads.iter().map(|(shard, head)| holder(*shard, *head)).collect();
        LogHolders { all, answered: at(answered), needed }
    }

    fn entry(version: u64, skips: &[usize]) -> LogEntry {
        LogEntry {
            version: at(version),
            kind: LogKind::Modify,
            object: ObjectId::head(PoolId(1), 7, b"", b"name"),
            prior_version: EVersion::ZERO,
            reqid: ReqId { name: EntityName::client(4), tid: version, inc: 1 },
            user_version: version,
            mtime: Utime::ZERO,
            result: 0,
            op_results: Vec::new(),
            undo: Default::default(),
            skipped: Skipped { shards: skips.iter().copied().collect(), ..Skipped::default() },
            voids: EVersion::ZERO,
        }
    }

    #[test]
    fn the_log_ends_before_what_a_holder_lacks_that_is_not_skipped() {
        let entries = [entry(6, &[1, 2]), entry(7, &[]), entry(8, &[1]), entry(9, &[0, 1])];
        let end = |heads: &[(u8, u64)]| holders(heads, 0, 3).log_end(at(5), &entries).map(|end| end.version);
        assert_eq!(end(&[(0, 9), (4, 9)]), Some(9), "all have all");
        assert_eq!(end(&[(0, 9), (1, 7)]), Some(9), "what it lacks skips it");
        assert_eq!(end(&[(0, 8), (1, 7), (4, 9)]), Some(9));
        assert_eq!(end(&[(1, 6), (4, 9)]), Some(6), "it lacks one that touches it");
        assert_eq!(end(&[(1, 5), (2, 5), (4, 9)]), Some(6));
        assert_eq!(end(&[(1, 5), (2, 9), (4, 5)]), Some(5), "a parity is touched by all");
        assert_eq!(end(&[(1, 7), (2, 8), (4, 9)]), Some(8), "one has been told, and another lacks the next");
        assert_eq!(end(&[(1, 4), (4, 9)]), None, "the log does not reach back so far");
    }

    #[test]
    fn no_update_skips_as_many_shards_as_it_takes_to_read_an_object() {
        let entries = [entry(6, &[1]), entry(7, &[1, 2]), entry(8, &[1])];
        let end = |needed, answered| {
            let end = holders(&[(0, 8), (1, 5), (3, 8)], answered, needed).log_end(at(5), &entries);
            end.map(|end| end.version)
        };
        assert_eq!([end(3, 0), end(2, 0), end(1, 0)], [Some(8), Some(6), Some(5)]);
        assert_eq!(end(2, 8), Some(8), "it has lost the end of its log");
    }

    #[test]
    fn who_lacks_what_was_answered_and_touches_it_has_lost_it() {
        let entries = [entry(6, &[1, 2]), entry(7, &[1]), entry(8, &[1])];
        let end = |heads: &[(u8, u64)], answered, needed| {
            holders(heads, answered, needed).log_end(at(5), &entries).map(|end| end.version)
        };
        let heads = [(0, 8), (1, 5), (2, 6), (4, 8)];
        assert_eq!(end(&heads, 6, 3), Some(6), "nobody knows that what the third lacks was answered");
        assert_eq!(end(&heads, 7, 3), Some(8), "the third has lost it, and the others are enough");
        assert_eq!(end(&heads, 7, 4), Some(6), "the others are too few");
        assert_eq!(end(&[(0, 8), (1, 5), (2, 6), (3, 7)], 7, 3), Some(7), "what was not answered counts as ever");
        assert_eq!(end(&[(0, 8), (0, 8), (2, 6)], 7, 2), Some(6), "two that have the same shard are one");
    }
}

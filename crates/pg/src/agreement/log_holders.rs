//! The end of an erasure-coded group's log, by the logs of the OSDs that have its shards.

use crate::group::log::LogEntry;
use mutant::Mutant;
use types::{EVersion, OsdId};

/// A shard whose OSD has all updates up to `head` that clients were answered for, but for such as skip the shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LogHolder {
    pub osd: OsdId,
    pub shard: u8,
    pub head: EVersion,
}

/// Returns where the group's log ends: before the first of `entries`, which follow `after` and are the end of the
/// longest log, that a holder neither has nor is skipped by. `None`: they do not reach back to where all agree.
pub(super) fn log_end(after: EVersion, entries: &[LogEntry], holders: &[LogHolder]) -> Option<EVersion> {
    if holders.iter().any(|holder| holder.head < after) {
        return None;
    }
    let counts = |entry: &LogEntry, holder: &LogHolder| {
        let skips = entry.skipped.skips(holder.shard) && !mutant::is(Mutant::SkippedIsStale);
        entry.version <= holder.head || skips || mutant::is(Mutant::LongestShardLogLeads)
    };
    let ours = entries.iter().take_while(|entry| holders.iter().all(|holder| counts(entry, holder)));
    Some(ours.last().map_or(after, |entry| entry.version))
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
        let end = |heads: &[(u8, u64)]| {
            let holders: Vec<LogHolder> = heads.iter().map(|(shard, head)| holder(*shard, *head)).collect();
            log_end(at(5), &entries, &holders).map(|end| end.version)
        };
        assert_eq!(end(&[(0, 9), (4, 9)]), Some(9), "all have all");
        assert_eq!(end(&[(0, 9), (1, 7)]), Some(9), "what it lacks skips it");
        assert_eq!(end(&[(0, 8), (1, 7), (4, 9)]), Some(9));
        assert_eq!(end(&[(1, 6), (4, 9)]), Some(6), "it lacks one that touches it");
        assert_eq!(end(&[(1, 5), (2, 5), (4, 9)]), Some(6));
        assert_eq!(end(&[(1, 5), (2, 9), (4, 5)]), Some(5), "a parity is touched by all");
        assert_eq!(end(&[(1, 7), (2, 8), (4, 9)]), Some(8), "one has been told, and another lacks the next");
        assert_eq!(end(&[(1, 4), (4, 9)]), None, "the log does not reach back so far");
    }
}

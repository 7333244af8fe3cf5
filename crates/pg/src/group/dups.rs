//! Requests of updates that the log has trimmed: whose they were and what was answered, so that one that is sent again
//! very late is recognised still. Ceph calls them dups.
//!
//! In the group's table they are the log entries up to the log's tail, which stay for this when the log is trimmed; so
//! they are durable with what made them, and nothing is written twice. A member that starts over gets them with the
//! log, as entries without what only the log needs.

use crate::group::log::{LogEntry, LogKind, PgLog};
use crate::ops::Limits;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::VecDeque;
use types::{EVersion, FastMap, ObjectId, PoolId, ReqId};

/// Dups that a group keeps at most: Ceph's default of `osd_pg_log_dups_tracked`.
pub const DUPS_MAX: usize = 3000;

/// Memory that a dup takes, in bytes, with its place in the index, without outputs.
const DUP_BYTES: usize = 160;

/// Limit on the dups of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DupsLimit {
    /// Updates before the log's tail that dups may be of.
    pub updates: usize,
    /// Memory that dups may take.
    pub bytes: usize,
}

impl DupsLimit {
    /// Returns the limit of each of so many groups.
    pub(crate) fn shared(limits: &Limits, groups: usize) -> DupsLimit {
        DupsLimit { updates: limits.dups_max, bytes: limits.dups_bytes / groups.max(1) }
    }
}

/// A request that was carried out.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Dup {
    version: EVersion,
    reqid: ReqId,
    /// Pool and hash of the object: groups that split share dups out by them.
    pool: PoolId,
    hash: u32,
    user_version: u64,
    result: i32,
    op_results: Box<[(i32, Bytes)]>,
}

impl Dup {
    /// Returns the dup of a log entry; `None` if no client asked for the update.
    fn of(entry: &LogEntry) -> Option<Dup> {
        (entry.reqid.tid != 0).then(|| Dup {
            version: entry.version,
            reqid: entry.reqid,
            pool: entry.object.pool,
            hash: entry.object.hash,
            user_version: entry.user_version,
            result: entry.result,
            op_results: entry.op_results.clone().into(),
        })
    }

    fn object(&self) -> ObjectId {
        ObjectId::head(self.pool, self.hash, b"", b"")
    }

    fn entry(&self) -> LogEntry {
        LogEntry {
            reqid: self.reqid,
            user_version: self.user_version,
            result: self.result,
            op_results: self.op_results.to_vec(),
            ..LogEntry::new(self.version, LogKind::Unchanged, self.object())
        }
    }
}

/// Returns the bytes of memory that the request of `entry` takes once it is a dup.
pub(crate) fn dup_bytes(op_results: &[(i32, Bytes)]) -> usize {
    DUP_BYTES + op_results.iter().map(|(_, output)| size_of::<(i32, Bytes)>() + output.len()).sum::<usize>()
}

/// The dups of a group, in the order of their versions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dups {
    dups: VecDeque<Dup>,
    /// Counter of the newest dup of each request.
    by_request: FastMap<ReqId, u64>,
}

impl Dups {
    /// Keeps the request of an entry. One that is not newer than all others is left out.
    pub(crate) fn push(&mut self, entry: &LogEntry) {
        let Some(dup) = Dup::of(entry) else { return };
        if self.dups.back().is_some_and(|last| last.version.version >= dup.version.version) {
            return;
        }
        self.by_request.insert(dup.reqid, dup.version.version);
        self.dups.push_back(dup);
    }

    /// Returns the newest dup of a request, as a log entry with what answers it.
    pub(crate) fn find(&self, reqid: &ReqId) -> Option<LogEntry> {
        let counter = *self.by_request.get(reqid)?;
        let index = self.dups.binary_search_by_key(&counter, |dup| dup.version.version).ok()?;
        Some(self.dups[index].entry())
    }

    /// Forgets dups up to and including the one with this counter.
    pub(crate) fn forget_through(&mut self, counter: u64) {
        while let Some(dup) = self.dups.pop_front_if(|dup| dup.version.version <= counter) {
            if self.by_request.get(&dup.reqid) == Some(&dup.version.version) {
                self.by_request.remove(&dup.reqid);
            }
        }
    }

    /// Forgets dups of objects outside `begin .. end`.
    pub(crate) fn narrow(&mut self, (begin, end): &(ObjectId, ObjectId)) {
        self.dups.retain(|dup| {
            let object = dup.object();
            *begin <= object && object < *end
        });
        self.by_request = self.dups.iter().map(|dup| (dup.reqid, dup.version.version)).collect();
    }

    /// Forgets what an update makes void.
    pub(crate) fn make_void(&mut self, by: &LogEntry) {
        let newest = self.dups.back().map_or(0, |dup| dup.version.version);
        if by.voids == EVersion::ZERO || by.voids.version > newest {
            return;
        }
        let is_void = |dup: &Dup| by.voids <= dup.version && dup.version < by.version;
        self.dups.retain(|dup| !(is_void(dup) && dup.hash == by.object.hash));
        self.by_request = self.dups.iter().map(|dup| (dup.reqid, dup.version.version)).collect();
    }

    /// Counters and bytes, newest first.
    pub(crate) fn newest_first(&self) -> impl Iterator<Item = (u64, usize)> {
        self.dups.iter().rev().map(|dup| (dup.version.version, dup_bytes(&dup.op_results)))
    }

    /// Returns all dups, oldest first, as log entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = LogEntry> {
        self.dups.iter().map(Dup::entry)
    }
}

/// Requests that a merged group keeps of those that its parts remember. They are written in one transaction.
const MERGED_MAX: usize = 4 * DUPS_MAX;

/// Returns the requests that two logs remember, as entries, oldest first, for a log that begins at the counter `start`:
/// they get the counters before it. Requests that are in the logs still are all kept; of older ones the newest of each
/// log, until there are [`MERGED_MAX`] that take `bytes_max`.
///
/// How many a group may keep otherwise is looked at when it trims its log next: dups of groups that are merged again
/// and again can be of updates that were made just before.
pub(crate) fn merged(logs: [&PgLog; 2], start: u64, bytes_max: usize) -> Vec<LogEntry> {
    let (mut all, mut older) = (Vec::new(), Vec::new());
    for log in logs {
        all.extend(log.requests().filter_map(Dup::of));
        older.extend(log.dups().dups.iter().rev().cloned().enumerate());
    }
    let mut bytes: usize = all.iter().map(|dup| dup_bytes(&dup.op_results)).sum();
    // Counters of one group and of the other have nothing to do with each other.
    older.sort_by_key(|(rank, _)| *rank);
    let older = older.into_iter().map(|(_, dup)| dup).take(MERGED_MAX.saturating_sub(all.len()));
    all.extend(older.take_while(|dup| {
        bytes += dup_bytes(&dup.op_results);
        bytes <= bytes_max
    }));
    all.sort_by_key(|dup| Reverse(dup.version));
    let first = start.saturating_sub(all.len() as u64).max(1);
    let entries = all.into_iter().rev().zip(first..start).map(|(dup, counter)| {
        let version = EVersion { version: counter, ..dup.version };
        Dup { version, ..dup }.entry()
    });
    entries.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::log::PgLog;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use types::{EntityName, Epoch};

    fn entry(version: u64, tid: u64) -> LogEntry {
        let output = Bytes::from(vec![7; (version % 3) as usize]);
        let object = ObjectId::head(PoolId(1), (version as u32) << 28, b"", b"o");
        LogEntry {
            reqid: ReqId { name: EntityName::client(4), tid, inc: 0 },
            result: -(version as i32),
            op_results: vec![(1, output)],
            ..LogEntry::new(EVersion { epoch: Epoch(2), version }, LogKind::Modify, object)
        }
    }

    proptest! {
        /// Beside a list of all updates: the newest ones of log and dups are found, with their answers, and none that
        /// is forgotten.
        #[test]
        fn what_is_kept_is_found(
            tids in proptest::collection::vec(0u64..30, 1..80),
            updates in 0usize..40,
            kib in 0usize..5,
        ) {
            let limit = DupsLimit { updates, bytes: kib << 10 };
            let (mut log, mut all) = (PgLog::default(), Vec::<LogEntry>::new());
            for (n, tid) in tids.iter().enumerate() {
                let entry = entry(n as u64 + 1, *tid);
                let tail = log.trim_target(entry.version, 8);
                let forgotten = log.forgotten_by(tail, limit);
                log.append(entry.clone());
                log.trim_to(tail, forgotten);
                all.push(entry);
                let newest_first = log.dups().newest_first();
                let (kept, bytes) = newest_first.fold((0, 0), |sum, (_, bytes)| (sum.0 + 1, sum.1 + bytes));
                prop_assert!(kept == log.dups().entries().count() && kept <= updates && bytes <= kib << 10);
                let oldest = log.dups().newest_first().last().map_or(log.tail().version + 1, |(counter, _)| counter);
                let mut expected = BTreeMap::new();
                for entry in all.iter().filter(|e| e.version.version >= oldest && e.reqid.tid != 0) {
                    expected.insert(entry.reqid.tid, entry);
                }
                for tid in 0..30 {
                    let found = log.find_request(&ReqId { name: EntityName::client(4), tid, inc: 0 });
                    let answer = |e: &LogEntry| (e.version, e.user_version, e.result, e.op_results.clone());
                    prop_assert_eq!(found.as_ref().map(answer), expected.get(&tid).map(|e| answer(e)));
                }
            }
        }
    }

    #[test]
    fn a_merged_group_knows_the_requests_of_both() {
        let log = |tids: std::ops::Range<u64>, trimmed: usize| {
            let mut log = PgLog::default();
            for (n, tid) in tids.enumerate() {
                log.append(entry(n as u64 + 1, tid));
            }
            let tail = log.entries().nth(trimmed).expect("there are more").version;
            log.trim_to(tail, 0);
            log
        };
        let (a, b) = (log(100..120, 9), log(200..205, 2));
        let answer = |e: &LogEntry| (e.reqid.tid, e.object.hash, e.user_version, e.result, e.op_results.clone());
        for (bytes_max, kept) in [(1 << 20, 25), (14 * 202, 14), (0, 12)] {
            let merged = merged([&a, &b], 26, bytes_max);
            assert_eq!(merged.len(), kept, "those in the logs, 12 in all, are kept anyhow");
            assert_eq!(merged.last().map(|e| e.version.version), Some(25));
            assert!(merged.windows(2).all(|pair| pair[0].version.version + 1 == pair[1].version.version));
            let mut log = PgLog::starting_at(EVersion { epoch: Epoch(7), version: 26 });
            merged.iter().for_each(|dup| log.add_dup(dup));
            for entry in a.entries().chain(b.entries()) {
                assert_eq!(log.find_request(&entry.reqid).as_ref().map(answer), Some(answer(entry)));
            }
        }
    }

    #[test]
    fn groups_that_are_merged_again_and_again_forget_nobody_who_was_answered_just_now() {
        let log = |tids: std::ops::Range<u64>| {
            let mut log = PgLog::default();
            tids.enumerate().for_each(|(n, tid)| log.append(entry(n as u64 + 1, tid)));
            log
        };
        let together = |logs: [&PgLog; 2]| {
            let start = logs.iter().map(|log| log.head().version).sum::<u64>() + 1;
            let mut log = PgLog::starting_at(EVersion { epoch: Epoch(7), version: start });
            merged(logs, start, usize::MAX).iter().for_each(|dup| log.add_dup(dup));
            log
        };
        let (quiet, busy) = (log(100..103), log(1000..1000 + 2 * MERGED_MAX as u64));
        let mut all = together([&quiet, &log(200..205)]);
        for n in 3..6 {
            all = together([&all, &log(100 * n..100 * n + 50)]);
        }
        all = together([&all, &together([&busy, &log(900..901)])]);
        assert!(all.dups().entries().count() <= MERGED_MAX);
        for entry in quiet.entries() {
            assert!(all.find_request(&entry.reqid).is_some(), "{}", entry.reqid.tid);
        }
        assert!(all.find_request(&busy.entries().last().unwrap().reqid).is_some());
    }

    #[test]
    fn a_part_of_the_group_keeps_its_own() {
        let mut dups = Dups::default();
        (1..=8).for_each(|n| dups.push(&entry(n, n)));
        let copy = dups.clone();
        let half = |seed| osdmap::pg_range(types::PgId { pool: PoolId(1), seed }, 2);
        let hashes = |dups: &Dups| dups.entries().map(|e| e.object.hash).collect::<Vec<_>>();
        let all = hashes(&dups);
        dups.narrow(&half(0));
        let mut other = copy;
        other.narrow(&half(1));
        let parts = [hashes(&dups), hashes(&other)];
        let mut both = parts.concat();
        both.sort_unstable();
        assert_eq!(both, all);
        assert!(dups.entries().all(|e| dups.find(&e.reqid) == Some(e)));
        assert!(other.entries().all(|e| dups.find(&e.reqid).is_none()));
    }
}

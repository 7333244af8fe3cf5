//! The log of a placement group: its last updates, by which members compare and catch up, and by which repeated
//! requests are recognised.

use crate::coded::skipped::Skipped;
use crate::coded::undo::Undo;
use crate::group::dups::{Dups, DupsLimit, dup_bytes};
use crate::ops::WRITE_REPLY_BYTES_MAX;
use bytes::Bytes;
use ec::ShardSet;
use mutant::Mutant;
use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use types::{EVersion, Epoch, FastMap, ObjectId, ReqId, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Entries kept at least, unless told otherwise.
pub const LOG_ENTRIES_MIN: usize = 1000;

/// Returns the number of entries that are trimmed at a time, so that trimming costs one range removal now and then.
const fn trim_batch(entries_min: usize) -> usize {
    entries_min / 4
}

/// Kind of change that an update made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogKind {
    /// The object was created or changed.
    Modify,
    /// The object was removed.
    Delete,
    /// The object stayed as it was: the request failed, or had nothing to do. It is logged so that a resend gets the
    /// same answer.
    Unchanged,
}

/// Numbers of the kinds of change, in stored logs and in messages.
mod kind_code {
    pub const MODIFY: u8 = 1;
    pub const DELETE: u8 = 2;
    pub const UNCHANGED: u8 = 3;
}

impl LogKind {
    const fn code(self) -> u8 {
        match self {
            LogKind::Modify => kind_code::MODIFY,
            LogKind::Delete => kind_code::DELETE,
            LogKind::Unchanged => kind_code::UNCHANGED,
        }
    }

    fn from_code(code: u8) -> Result<LogKind, DecodeError> {
        match code {
            kind_code::MODIFY => Ok(LogKind::Modify),
            kind_code::DELETE => Ok(LogKind::Delete),
            kind_code::UNCHANGED => Ok(LogKind::Unchanged),
            _ => Err(DecodeError::Value { what: "log entry kind", value: code.into() }),
        }
    }
}

/// One update.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogEntry {
    pub version: EVersion,
    pub kind: LogKind,
    pub object: ObjectId,
    /// Version of the object before; zero if it was absent.
    pub prior_version: EVersion,
    pub reqid: ReqId,
    /// The object's client-visible version after.
    pub user_version: u64,
    pub mtime: Utime,
    /// The answer that the client got or will get: overall, and per operation where those are returned.
    pub result: i32,
    pub op_results: Vec<(i32, Bytes)>,
    /// In erasure-coded pools: how this shard takes the update back.
    pub undo: Undo,
    /// Shards that the update left as they were. Always none as long as objects are written in whole stripes only.
    pub skipped: Skipped,
    /// Set for an update by which the object goes back to what it was: the object's updates from this one on are void,
    /// and nobody was answered for them ([`crate::agreement::going_back`]). Zero: none are.
    pub voids: EVersion,
}

impl LogEntry {
    /// Returns the entry of an update that nobody asked for, of an object that was absent: its other fields are empty.
    pub fn new(version: EVersion, kind: LogKind, object: ObjectId) -> LogEntry {
        LogEntry {
            version,
            kind,
            object,
            prior_version: EVersion::ZERO,
            reqid: ReqId::default(),
            user_version: version.version,
            mtime: Utime::ZERO,
            result: 0,
            op_results: Vec::new(),
            undo: Undo::Nothing,
            skipped: Skipped::default(),
            voids: EVersion::ZERO,
        }
    }

    /// Returns a copy of the entry without `undo`, which may be large.
    pub(crate) fn without_undo(&self) -> LogEntry {
        LogEntry {
            version: self.version,
            kind: self.kind,
            object: self.object.clone(),
            prior_version: self.prior_version,
            reqid: self.reqid,
            user_version: self.user_version,
            mtime: self.mtime,
            result: self.result,
            op_results: self.op_results.clone(),
            undo: Undo::Nothing,
            skipped: self.skipped.clone(),
            voids: self.voids,
        }
    }

    /// Notes that the update was not carried out here by its own steps.
    pub(crate) fn lose_undo(&mut self) {
        self.undo = Undo::Lost;
    }
}

impl LogEntry {
    /// Returns the entry that stays of an update whose object belongs to another group from now on. It says only that
    /// there was an update, as versions' counters have no gaps.
    pub(crate) fn placeholder(&self) -> LogEntry {
        let object = ObjectId::head(self.object.pool, self.object.hash, b"", b"");
        LogEntry {
            reqid: ReqId { tid: 0, ..self.reqid },
            user_version: self.user_version,
            mtime: self.mtime,
            // Of the updates of all objects some may not have been told to shards that they skip.
            skipped: match mutant::is(Mutant::SplitForgetsSkips) {
                true => Skipped::default(),
                false => Skipped { shards: self.skipped.shards, ..Skipped::default() },
            },
            ..LogEntry::new(self.version, LogKind::Unchanged, object)
        }
    }

    /// Returns true if the update makes `other` void.
    pub(crate) fn voids(&self, other: &LogEntry) -> bool {
        let is_void = self.voids != EVersion::ZERO && self.voids <= other.version && other.version < self.version;
        is_void && self.object == other.object
    }

    pub(crate) fn is_placeholder(&self) -> bool {
        self.reqid.tid == 0 && self.kind == LogKind::Unchanged && self.object.name.is_empty()
    }
}

/// Versions of an entry's encoding. Each has all fields of those before it. An entry is written in the first one that
/// has room for what it says, so that most entries can be read by software that knows only [`PLAIN`](form::PLAIN).
mod form {
    /// Has no fields of erasure-coded pools.
    pub const PLAIN: u8 = 1;
    /// Adds the undo data and the skipped shards of erasure-coded pools.
    pub const CODED: u8 = 2;
    /// Adds the version from which on the object's updates are void.
    pub const GOES_BACK: u8 = 3;
    /// Adds the object information that skipped shards take. Nothing was written in it.
    pub const SKIPPED_INFO: u8 = 4;
    /// Adds what takes the entry back on skipped shards. Software must know this version to read such an entry: it
    /// would take the skipped shards for stale otherwise.
    pub const SKIPPED_UNDO: u8 = 5;
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        let has_info = !self.skipped.info.is_empty();
        let goes_back = self.voids != EVersion::ZERO || has_info;
        let coded = self.undo != Undo::Nothing || !self.skipped.shards.is_empty() || goes_back;
        let (version, oldest) = match () {
            () if has_info => (form::SKIPPED_UNDO, form::SKIPPED_UNDO),
            () if goes_back => (form::GOES_BACK, form::PLAIN),
            () if coded => (form::CODED, form::PLAIN),
            () => (form::PLAIN, form::PLAIN),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.version);
            w.u8(self.kind.code());
            w.put(&self.object);
            w.put(&self.prior_version);
            w.put(&self.reqid);
            w.u64(self.user_version);
            w.put(&self.mtime);
            w.i32(self.result);
            w.put(&self.op_results);
            if coded {
                w.put(&self.undo);
                w.u64(self.skipped.shards.bits());
            }
            if goes_back {
                w.put(&self.voids);
            }
            if has_info {
                w.put(&self.skipped.info);
                w.put(&self.skipped.info_before);
                w.u64(self.skipped.shard_bytes);
            }
        });
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
        let (version, mut r) = r.versioned("log entry", form::SKIPPED_UNDO)?;
        let coded = version.version >= form::CODED;
        let mut entry = LogEntry {
            version: r.get()?,
            kind: LogKind::from_code(r.u8()?)?,
            object: r.get()?,
            prior_version: r.get()?,
            reqid: r.get()?,
            user_version: r.u64()?,
            mtime: r.get()?,
            result: r.i32()?,
            op_results: {
                let count = r.count("operation results", 8)?;
                // Entries that were made before there was that bound can have outputs of any size.
                let kept =
                    |output: &[u8]| if output.len() > WRITE_REPLY_BYTES_MAX { Bytes::new() } else { own(output) };
                (0..count).map(|_| Ok((r.i32()?, kept(r.blob()?)))).collect::<Result<_, _>>()?
            },
            undo: if coded { r.get()? } else { Undo::Nothing },
            skipped: match coded {
                true => Skipped { shards: ShardSet::from_bits(r.u64()?), ..Skipped::default() },
                false => Skipped::default(),
            },
            voids: if version.version >= form::GOES_BACK { r.get()? } else { EVersion::ZERO },
        };
        if version.version >= form::SKIPPED_INFO {
            entry.skipped.info = own(r.blob()?);
        }
        if version.version >= form::SKIPPED_UNDO {
            (entry.skipped.info_before, entry.skipped.shard_bytes) = (own(r.blob()?), r.u64()?);
        }
        Ok(entry)
    }
}

fn own(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

/// The log in memory. Versions' counters follow each other without gaps.
#[derive(Clone, Debug, Default)]
pub struct PgLog {
    /// Version of the last entry trimmed; entries follow it.
    tail: EVersion,
    entries: VecDeque<LogEntry>,
    /// Counter of the newest entry of each request, of those that are not void.
    by_request: FastMap<ReqId, u64>,
    /// Counters of entries that are void.
    void: BTreeSet<u64>,
    /// Requests of updates up to the tail.
    dups: Dups,
}

/// First byte of the keys of log entries in the group's table.
const KEY_PREFIX: u8 = b'l';

/// Returns the key of one entry in the group's table; keys sort like versions.
#[allow(clippy::big_endian_bytes, reason = "keys sort bytewise, so the most significant byte comes first")]
pub fn log_key(version: EVersion) -> Bytes {
    let mut key = Vec::with_capacity(13);
    key.push(KEY_PREFIX);
    key.extend_from_slice(&version.version.to_be_bytes());
    key.extend_from_slice(&version.epoch.0.to_be_bytes());
    key.into()
}

/// Returns the range of keys that all entries lie in.
pub fn log_key_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[KEY_PREFIX]), Bytes::from_static(&[KEY_PREFIX + 1]))
}

/// Returns the range of keys (end excluded) of entries up to and including the one with this counter.
pub fn log_keys_through(counter: u64) -> (Bytes, Bytes) {
    (log_key_range().0, log_key(EVersion { epoch: Epoch(0), version: counter.saturating_add(1) }))
}

impl PgLog {
    /// Makes a log without entries whose last update was `tail`.
    pub fn starting_at(tail: EVersion) -> PgLog {
        PgLog { tail, ..PgLog::default() }
    }

    /// Returns the version of the newest update.
    pub fn head(&self) -> EVersion {
        self.entries.back().map_or(self.tail, |e| e.version)
    }

    pub fn tail(&self) -> EVersion {
        self.tail
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.iter()
    }

    /// Returns the newest update of the object.
    pub(crate) fn newest_of(&self, object: &ObjectId) -> Option<&LogEntry> {
        self.entries.iter().rev().find(|entry| entry.object == *object && entry.kind != LogKind::Unchanged)
    }

    /// Returns the version that the next update in `epoch` gets.
    pub fn next_version(&self, epoch: Epoch) -> EVersion {
        EVersion { epoch, version: self.head().version + 1 }
    }

    /// Returns true if the entry follows the head: its counter is the next one, and its epoch does not go back.
    pub fn may_append(&self, entry: &LogEntry) -> bool {
        let head = self.head();
        Some(entry.version.version) == head.version.checked_add(1) && entry.version.epoch >= head.epoch
    }

    /// Adds the next entry. Panics if it does not follow the head: a broken belief.
    pub fn append(&mut self, entry: LogEntry) {
        assert!(self.may_append(&entry), "log entry {} cannot follow {}", entry.version, self.head());
        if entry.reqid.tid != 0 {
            self.by_request.insert(entry.reqid, entry.version.version);
        }
        self.make_void(&entry);
        self.entries.push_back(entry);
    }

    /// Forgets requests that `by` makes void.
    fn make_void(&mut self, by: &LogEntry) {
        if by.voids == EVersion::ZERO || mutant::is(Mutant::VoidRequestsAnswered) {
            return;
        }
        for entry in self.entries.iter().filter(|entry| by.voids(entry)) {
            self.void.insert(entry.version.version);
            if self.by_request.get(&entry.reqid) == Some(&entry.version.version) {
                self.by_request.remove(&entry.reqid);
            }
        }
        self.dups.make_void(by);
    }

    /// Counts requests again that `by` had made void, because `by` was taken back.
    fn unvoid(&mut self, by: &LogEntry) {
        let counts = |entry: &&LogEntry| by.voids(entry) && !self.entries.iter().any(|other| other.voids(entry));
        for entry in self.entries.iter().filter(counts) {
            self.void.remove(&entry.version.version);
            if entry.reqid.tid != 0 {
                let counter = self.by_request.entry(entry.reqid).or_default();
                *counter = entry.version.version.max(*counter);
            }
        }
    }

    /// Returns the entries whose requests are remembered.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter().filter(|entry| !self.void.contains(&entry.version.version))
    }

    /// Returns the newest entry of a request.
    pub fn find(&self, reqid: &ReqId) -> Option<&LogEntry> {
        self.get(*self.by_request.get(reqid)?)
    }

    /// Returns the newest update of a request, even if it was trimmed: then the entry tells only the answer.
    pub(crate) fn find_request(&self, reqid: &ReqId) -> Option<LogEntry> {
        self.find(reqid).cloned().or_else(|| self.dups.find(reqid))
    }

    pub(crate) fn dups(&self) -> &Dups {
        &self.dups
    }

    /// Takes the request of an update at or before the tail. To be called in the order of versions.
    pub(crate) fn add_dup(&mut self, entry: &LogEntry) {
        if entry.version.version <= self.tail.version {
            self.dups.make_void(entry);
            self.dups.push(entry);
        }
    }

    /// Returns the entry of an update.
    pub fn entry(&self, version: EVersion) -> Option<&LogEntry> {
        self.get(version.version).filter(|entry| entry.version == version)
    }

    fn get(&self, counter: u64) -> Option<&LogEntry> {
        let index = counter.checked_sub(self.entries.front()?.version.version)?;
        self.entries.get(usize::try_from(index).ok()?)
    }

    /// Returns where the entries after `from` up to `until` are.
    fn part(&self, from: EVersion, until: EVersion) -> Range<usize> {
        let through = |version: EVersion| self.entries.partition_point(|entry| entry.version <= version);
        let start = through(from);
        start..through(until).max(start)
    }

    /// Returns the entries after `from` up to `until`.
    pub(crate) fn between(&self, from: EVersion, until: EVersion) -> impl DoubleEndedIterator<Item = &LogEntry> {
        self.entries.range(self.part(from, until))
    }

    /// Returns `until`, or, if more than `count` entries lie between `from` and that, the version of the last one of
    /// the first `count`.
    pub(crate) fn end_of_first(&self, count: usize, from: EVersion, until: EVersion) -> EVersion {
        let part = self.part(from, until);
        if part.len() <= count { until } else { self.entries[part.start + count - 1].version }
    }

    /// Notes that updates after `from` up to `until` will stay: what it takes to take them back is of no use any more.
    /// Nor is what skipped shards take, but for members that were away meanwhile.
    pub(crate) fn will_stay(&mut self, from: EVersion, until: EVersion) {
        if until <= from {
            return;
        }
        let part = self.part(from, until);
        for entry in self.entries.range_mut(part).filter(|entry| entry.kind != LogKind::Unchanged) {
            entry.lose_undo();
            entry.skipped.will_stay();
        }
    }

    /// Returns true if `version` is an update of this log's history, as far as the log reaches back.
    pub fn contains(&self, version: EVersion) -> bool {
        version == self.tail || self.get(version.version).is_some_and(|e| e.version == version)
    }

    /// Returns the entries after `version`, or `None` if the log does not reach back to it or never had it.
    pub fn after(&self, version: EVersion) -> Option<impl Iterator<Item = &LogEntry>> {
        let skip = version.version.checked_sub(self.tail.version)?;
        self.contains(version).then(|| self.entries.iter().skip(usize::try_from(skip).unwrap_or(usize::MAX)))
    }

    /// Returns where the log should begin: once there are a batch more entries than `entries_min`, behind all but
    /// those, but never behind an entry after `keep_after`. It is the present tail if nothing should go.
    pub fn trim_target(&self, keep_after: EVersion, entries_min: usize) -> EVersion {
        let is_hasty = mutant::is(Mutant::LogTrimmedEarly);
        let entries_min = if is_hasty { 4 } else { entries_min };
        if self.entries.len() < entries_min + trim_batch(entries_min) {
            return self.tail;
        }
        let old = self.entries.iter().take(self.entries.len() - entries_min);
        old.take_while(|e| e.version <= keep_after).last().map_or(self.tail, |e| e.version)
    }

    /// Returns the counter of the update up to which dups are forgotten once the log begins behind `tail`.
    pub(crate) fn forgotten_by(&self, tail: EVersion, limit: DupsLimit) -> u64 {
        let updates = if mutant::is(Mutant::LogTrimmedEarly) { 0 } else { limit.updates };
        let too_old = tail.version.saturating_sub(updates as u64);
        let trimmed = self.entries.iter().rev().filter(|entry| entry.version <= tail && entry.reqid.tid != 0);
        let trimmed = trimmed.map(|entry| (entry.version.version, dup_bytes(&entry.op_results)));
        let mut bytes = 0;
        let too_much =
            trimmed.chain(self.dups.newest_first()).take_while(|(counter, _)| *counter > too_old).find(|dup| {
                bytes += dup.1;
                bytes > limit.bytes
            });
        too_much.map_or(too_old, |(counter, _)| counter)
    }

    /// Forgets what updates of objects outside `begin .. end` did, and who asked for them. Returns the versions of the
    /// ones in the log.
    pub fn narrow(&mut self, range: &(ObjectId, ObjectId)) -> Vec<EVersion> {
        let (begin, end) = range;
        self.dups.narrow(range);
        let mut narrowed = Vec::new();
        for entry in &mut self.entries {
            if (*begin <= entry.object && entry.object < *end) || entry.is_placeholder() {
                continue;
            }
            if self.by_request.get(&entry.reqid) == Some(&entry.version.version) {
                self.by_request.remove(&entry.reqid);
            }
            *entry = entry.placeholder();
            narrowed.push(entry.version);
        }
        narrowed
    }

    /// Takes back the entries after `version`, which the log must contain; oldest first.
    pub fn rewind(&mut self, version: EVersion) -> Vec<LogEntry> {
        assert!(self.contains(version), "the log cannot be rewound to {version}, which it never had");
        let keep = usize::try_from(version.version - self.tail.version).expect("no longer than the log");
        let taken: Vec<LogEntry> = self.entries.split_off(keep).into();
        for entry in taken.iter().filter(|_| !mutant::is(Mutant::RequestsOutliveRewind)) {
            if self.by_request.get(&entry.reqid) == Some(&entry.version.version) {
                self.by_request.remove(&entry.reqid);
                let before = self.entries.iter().rev().filter(|older| !self.void.contains(&older.version.version));
                let before = before.into_iter().find(|older| older.reqid == entry.reqid);
                if let Some(before) = before.map(|older| older.version.version).filter(|_| entry.reqid.tid != 0) {
                    self.by_request.insert(entry.reqid, before);
                }
            }
        }
        self.void.split_off(&(version.version + 1));
        taken.iter().rev().filter(|entry| entry.voids != EVersion::ZERO).for_each(|entry| self.unvoid(entry));
        taken
    }

    /// Forgets entries up to and including `tail`, and dups up to and including the one with the counter `forgotten`.
    pub fn trim_to(&mut self, tail: EVersion, forgotten: u64) {
        while let Some(entry) = self.entries.pop_front_if(|e| e.version <= tail) {
            self.tail = entry.version;
            if self.by_request.get(&entry.reqid) == Some(&entry.version.version) {
                self.by_request.remove(&entry.reqid);
            }
            if !self.void.remove(&entry.version.version) {
                self.dups.push(&entry);
            }
        }
        self.dups.forget_through(forgotten);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EntityName, PoolId};
    use wire::Target;

    fn entry(epoch: u32, version: u64) -> LogEntry {
        LogEntry {
            version: EVersion::new(epoch, version),
            kind: LogKind::Modify,
            object: ObjectId::head(PoolId(1), 7, b"", b"x"),
            prior_version: EVersion::ZERO,
            reqid: ReqId { name: EntityName::client(4), tid: version, inc: 0 },
            user_version: version,
            mtime: Utime::ZERO,
            result: 0,
            op_results: vec![(3, Bytes::from_static(b"out"))],
            undo: Undo::Nothing,
            skipped: Skipped::default(),
            voids: EVersion::ZERO,
        }
    }

    #[test]
    fn long_outputs_of_entries_of_old_are_left_out() {
        let long = Bytes::from(vec![1; WRITE_REPLY_BYTES_MAX + 1]);
        let op_results = vec![(3, long), (-5, Bytes::from_static(b"out"))];
        let read = LogEntry::from_slice(&LogEntry { op_results, ..entry(1, 1) }.to_vec(Target::default())).unwrap();
        assert_eq!(read.op_results, [(3, Bytes::new()), (-5, Bytes::from_static(b"out"))]);
    }

    #[test]
    fn entries_read_back_and_requests_are_found() {
        let mut log = PgLog::default();
        for v in 1..=5 {
            log.append(entry(3, v));
        }
        let e = log.find(&entry(3, 4).reqid).unwrap();
        assert_eq!(LogEntry::from_slice(&e.to_vec(Target::default())).unwrap(), *e);
        assert_eq!(log.after(EVersion::new(3, 3)).unwrap().count(), 2);
        assert!(log.after(EVersion::new(2, 3)).is_none(), "another history's version 3");
        assert_eq!(log.after(EVersion::ZERO).unwrap().count(), 5);
    }

    #[test]
    fn what_skipped_shards_take_reads_back_and_goes_once_the_update_will_stay() {
        let shards: ShardSet = [0, 2].into_iter().collect();
        let info = Bytes::from_static(b"info");
        let skips = |info: &Bytes| {
            let skipped = match info.is_empty() {
                true => Skipped { shards, ..Skipped::default() },
                false => {
                    Skipped { shards, info: info.clone(), info_before: Bytes::from_static(b"old"), shard_bytes: 9 }
                }
            };
            LogEntry { skipped, ..entry(3, 1) }
        };
        for (version, entry) in [(5, skips(&info)), (2, skips(&Bytes::new()))] {
            let bytes = entry.to_vec(Target::default());
            assert_eq!((LogEntry::from_slice(&bytes).unwrap(), bytes[0]), (entry, version));
        }
        assert_eq!(skips(&info).skipped.info_for(Some(2)), Some(&info));
        assert_eq!(skips(&info).skipped.info_for(Some(1)), None, "it is not skipped");
        assert_eq!(skips(&info).skipped.info_for(None), None, "there are no shards");
        assert_eq!(skips(&Bytes::new()).skipped.info_for(Some(2)), None, "there is nothing to take");
        let mut log = PgLog::default();
        log.append(skips(&info));
        log.will_stay(EVersion::ZERO, EVersion::new(3, 1));
        assert_eq!(log.entries().next().unwrap().skipped, Skipped { shards, ..Skipped::default() });
    }

    #[test]
    fn entries_between_two_versions_are_found_in_parts() {
        let mut log = PgLog::default();
        (1..=9).for_each(|v| log.append(LogEntry { undo: Undo::Created, ..entry(1 + v as u32 / 5, v) }));
        log.trim_to(EVersion::new(1, 2), 0);
        let at = |v: u64| EVersion::new(1 + v as u32 / 5, v);
        let between = |from, until| log.between(from, until).map(|entry| entry.version.version).collect::<Vec<_>>();
        assert_eq!(between(at(4), at(7)), [5, 6, 7]);
        assert_eq!(between(EVersion::ZERO, at(3)), [3], "the log begins there");
        assert_eq!(between(at(8), EVersion::new(9, 99)), [9]);
        assert_eq!((between(at(7), at(7)), between(at(7), at(4))), (vec![], vec![]));
        assert_eq!(log.end_of_first(3, at(4), at(7)), at(7));
        assert_eq!(log.end_of_first(2, at(4), at(7)), at(6));
        assert_eq!(log.end_of_first(2, EVersion::ZERO, at(7)), at(4));
        assert_eq!(log.end_of_first(2, at(8), EVersion::new(9, 99)), EVersion::new(9, 99));
        log.will_stay(at(7), at(4));
        log.will_stay(at(4), at(7));
        let lost = log.entries().filter(|entry| entry.undo == Undo::Lost).map(|entry| entry.version.version);
        assert_eq!(lost.collect::<Vec<_>>(), [5, 6, 7]);
    }

    #[test]
    fn trimming_keeps_the_minimum_and_names_the_keys() {
        let mut log = PgLog::default();
        const MIN: usize = 40;
        const BATCH: usize = trim_batch(MIN);
        let all = (MIN + BATCH) as u64;
        for v in 1..=all {
            log.append(entry(1, v));
        }
        assert_eq!(log.trim_target(EVersion::ZERO, MIN), EVersion::ZERO, "what is not committed everywhere stays");
        let tail = log.trim_target(log.head(), MIN);
        let none = DupsLimit { updates: 0, bytes: 0 };
        let (begin, end) = log_keys_through(log.forgotten_by(tail, none));
        log.trim_to(tail, log.forgotten_by(tail, none));
        assert_eq!((log.len(), log.tail()), (MIN, EVersion::new(1, BATCH as u64)));
        let in_range = |v| (begin.clone()..end.clone()).contains(&log_key(EVersion::new(1, v)));
        assert!(in_range(1) && in_range(BATCH as u64) && !in_range(BATCH as u64 + 1));
        assert!(log.find_request(&entry(1, 1).reqid).is_none());
        assert_eq!(log.next_version(Epoch(2)), EVersion::new(2, all + 1));
    }

    #[test]
    fn void_requests_are_not_known_until_that_is_taken_back() {
        let mut log = PgLog::default();
        for v in 1..=4 {
            let other = ObjectId::head(PoolId(1), 7, b"", b"y");
            log.append(if v == 3 { LogEntry { object: other, ..entry(1, v) } } else { entry(1, v) });
        }
        let reqid = ReqId::default();
        let goes_back = LogEntry { reqid, op_results: Vec::new(), voids: EVersion::new(1, 2), ..entry(2, 5) };
        assert_eq!(LogEntry::from_slice(&goes_back.to_vec(Target::default())).unwrap(), goes_back);
        log.append(goes_back.clone());
        let known =
            |log: &PgLog| (1..=4).filter(|v| log.find_request(&entry(1, *v).reqid).is_some()).collect::<Vec<_>>();
        assert_eq!(known(&log), [1, 3], "those of other objects, and before");
        assert_eq!(log.rewind(EVersion::new(1, 4)), std::slice::from_ref(&goes_back));
        assert_eq!(known(&log), [1, 2, 3, 4]);
        log.append(goes_back.clone());
        // Void requests stay unknown once they are trimmed, and once they are read again from the table.
        log.trim_to(EVersion::new(2, 5), 0);
        assert_eq!(known(&log), [1, 3]);
        let mut read = PgLog::starting_at(EVersion::new(2, 5));
        (1..=4).for_each(|v| read.add_dup(&entry(1, v)));
        assert_eq!(known(&read), [1, 2, 3, 4]);
        read.add_dup(&goes_back);
        assert_eq!(known(&read), [1], "of dups only the hash of the object is known");
    }
}

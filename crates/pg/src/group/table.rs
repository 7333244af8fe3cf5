//! A placement group's table as the store keeps it, read without the group: for tools.

use crate::group::info::{INFO_KEY, PgInfo};
use crate::group::log::{LogEntry, LogKind, log_key};
use crate::group::missing::MISSING_PREFIX;
use crate::scrub::background_check::{CHECK_KEY, CheckMark};
use crate::scrub::{SCRUB_KEY, ScrubMark};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId};
use wire::{Decode, DecodeError};

/// Content of a group's table, checked as a whole.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PgTable {
    pub info: PgInfo,
    /// The log, oldest entry first.
    pub log: Vec<LogEntry>,
    /// Entries up to the log's tail, which tell of requests that were carried out, oldest first.
    pub dups: Vec<LogEntry>,
    /// Objects that this member lacks, with the versions it should have.
    pub missing: BTreeMap<ObjectId, EVersion>,
    /// Progress of the background check.
    pub check: CheckMark,
    /// Times of scrubs, and what came of them.
    pub scrub: ScrubMark,
}

/// Why a table is none that an OSD would take.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PgTableError {
    #[error("no information of the group")]
    NoInfo,
    #[error("{what} is damaged: {source}")]
    Damaged { what: &'static str, source: DecodeError },
    #[error("log entry {version} is kept as {}", key.escape_ascii())]
    LogKey { version: EVersion, key: Bytes },
    #[error("log entry {version} cannot follow {before}")]
    LogGap { version: EVersion, before: EVersion },
    #[error("the log ends at {log} and the information at {info}")]
    LogEnd { log: EVersion, info: EVersion },
    #[error("an entry of unknown kind, {}", key.escape_ascii())]
    UnknownKey { key: Bytes },
}

impl PgTable {
    /// Reads all entries of a group's table, in the order of keys.
    pub fn decode(entries: impl IntoIterator<Item = (Bytes, Bytes)>) -> Result<PgTable, PgTableError> {
        let damaged = |what, source| PgTableError::Damaged { what, source };
        let (mut info, mut log, mut missing) = (None::<PgInfo>, Vec::<LogEntry>::new(), BTreeMap::new());
        let (mut check, mut scrub) = (CheckMark::default(), ScrubMark::default());
        for (key, value) in entries {
            match key.first() {
                _ if key == INFO_KEY => info = Some(PgInfo::from_slice(&value).map_err(|e| damaged("information", e))?),
                _ if key == CHECK_KEY => {
                    check = CheckMark::from_slice(&value).map_err(|e| damaged("the background check's mark", e))?;
                }
                _ if key == SCRUB_KEY => {
                    scrub = ScrubMark::from_slice(&value).map_err(|e| damaged("the scrub mark", e))?;
                }
                Some(b'l') => {
                    let entry = LogEntry::from_slice(&value).map_err(|e| damaged("a log entry", e))?;
                    if log_key(entry.version) != key {
                        return Err(PgTableError::LogKey { version: entry.version, key });
                    }
                    log.push(entry);
                }
                Some(&MISSING_PREFIX) => {
                    let object =
                        ObjectId::from_slice(&key[1..]).map_err(|e| damaged("the name of a missing object", e))?;
                    let version =
                        EVersion::from_slice(&value).map_err(|e| damaged("the version of a missing object", e))?;
                    missing.insert(object, version);
                }
                _ => return Err(PgTableError::UnknownKey { key }),
            }
        }
        let info = info.ok_or(PgTableError::NoInfo)?;
        let is_dup = |entry: &LogEntry| entry.version.version <= info.log_tail.version;
        let (dups, log): (Vec<_>, Vec<_>) = log.into_iter().partition(is_dup);
        let mut before = info.log_tail;
        for LogEntry { version, .. } in &log {
            if version.version != before.version.wrapping_add(1) || version.epoch < before.epoch {
                return Err(PgTableError::LogGap { version: *version, before });
            }
            before = *version;
        }
        if before != info.last_update {
            return Err(PgTableError::LogEnd { log: before, info: info.last_update });
        }
        Ok(PgTable { info, log, dups, missing, check, scrub })
    }

    /// Returns the version that the object should have: the one missing, or that of its last change in the log. `None`
    /// if neither says.
    pub fn version_of(&self, object: &ObjectId) -> Option<EVersion> {
        let changed = |entry: &&LogEntry| entry.object == *object && entry.kind == LogKind::Modify;
        let logged = || self.log.iter().rev().find(changed).map(|entry| entry.version);
        self.missing.get(object).copied().or_else(logged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{Epoch, PoolId};
    use wire::{Encode, Target};

    fn object(n: u32) -> ObjectId {
        ObjectId::head(PoolId(1), n, b"", format!("o{n}").as_bytes())
    }

    fn version(version: u64) -> EVersion {
        EVersion { epoch: Epoch(3), version }
    }

    fn entry(n: u64, kind: LogKind) -> LogEntry {
        LogEntry::new(version(n), kind, object(n as u32 % 3))
    }

    fn kept(entry: &LogEntry) -> (Bytes, Bytes) {
        (log_key(entry.version), entry.to_vec(Target::default()).into())
    }

    /// Makes a table whose log holds updates 5 to 9.
    fn table() -> BTreeMap<Bytes, Bytes> {
        let info = PgInfo { last_update: version(9), log_tail: version(4), pg_num: 8, ..PgInfo::default() };
        let mut table: BTreeMap<Bytes, Bytes> =
            (5..10).map(|n| kept(&entry(n, if n == 9 { LogKind::Unchanged } else { LogKind::Modify }))).collect();
        table.insert(INFO_KEY, info.to_vec(Target::default()).into());
        let store::Step::PgSet { key, value } = crate::group::missing::missing_step(&object(7), version(2)) else {
            panic!()
        };
        table.insert(key, value);
        table
    }

    #[test]
    fn a_sound_table_is_read_whole() {
        let read = PgTable::decode(table()).unwrap();
        assert_eq!((read.log.len(), read.missing.len(), read.info.pg_num), (5, 1, 8));
        assert_eq!(read.version_of(&object(0)), Some(version(6)), "update 9 changed nothing");
        assert_eq!(read.version_of(&object(7)), Some(version(2)));
        assert_eq!(read.version_of(&object(50)), None);
    }

    #[test]
    fn what_an_osd_would_not_take_is_told() {
        let check = |change: &dyn Fn(&mut BTreeMap<Bytes, Bytes>), expected: &str| {
            let mut changed = table();
            change(&mut changed);
            assert_eq!(PgTable::decode(changed).unwrap_err().to_string(), expected);
        };
        let remove = |key: Bytes| move |table: &mut BTreeMap<Bytes, Bytes>| drop(table.remove(&key));
        check(&remove(INFO_KEY), "no information of the group");
        check(&remove(log_key(version(7))), "log entry 3'8 cannot follow 3'6");
        check(&remove(log_key(version(9))), "the log ends at 3'8 and the information at 3'9");
        let put =
            |key: &'static [u8]| move |table: &mut BTreeMap<Bytes, Bytes>| drop(table.insert(key.into(), "".into()));
        check(&put(b"zzz"), "an entry of unknown kind, zzz");
        let swap = |table: &mut BTreeMap<Bytes, Bytes>| {
            table.insert(log_key(version(7)), kept(&entry(8, LogKind::Modify)).1);
        };
        let error = {
            let mut changed = table();
            swap(&mut changed);
            PgTable::decode(changed).unwrap_err()
        };
        assert!(matches!(error, PgTableError::LogKey { .. }), "{error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(kind in 0usize..5, key: Vec<u8>, value: Vec<u8>) {
            let key = [[&b"info"[..], b"l", b"m", b"", b"check"][kind], &key[..]].concat();
            let _ = PgTable::decode([(key.into(), value.into())]);
        }
    }
}

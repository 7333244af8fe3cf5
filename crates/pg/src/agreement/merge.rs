//! A member's log is brought to the authoritative one.
//!
//! Both logs are histories of one group. They agree up to some update; behind it, this member may have *divergent*
//! updates, which no client was answered for, and lacks those that the authoritative log has instead. Divergent updates
//! are taken back: their objects go back to what they were at the common update, which others have. Of what is lacking,
//! only the log entries are at hand: their objects become *missing* until somebody sends them.

use crate::group::log::{LogEntry, LogKind, PgLog};
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, ObjectId};

/// What a merge changes beside the log.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Merged {
    /// The newest update that both logs had.
    pub common: EVersion,
    /// Entries that are gone from the log, oldest first.
    pub taken_back: Vec<LogEntry>,
    /// Objects of which another version, or another state, is wanted than is here.
    pub missing: BTreeMap<ObjectId, EVersion>,
    /// Objects that must not exist, and are not missing any more.
    pub absent: BTreeSet<ObjectId>,
}

/// The logs have no update in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoOverlap;

/// Makes `log` end as `entries`, the authoritative log's updates after `after`, do.
///
/// Errors: the logs do not meet, or `entries` do not follow each other; nothing has changed then.
pub(crate) fn merge(log: &mut PgLog, after: EVersion, entries: &[LogEntry]) -> Result<Merged, NoOverlap> {
    let mut before = after;
    for entry in entries {
        if entry.version.version != before.version.wrapping_add(1) || entry.version.epoch < before.epoch {
            return Err(NoOverlap);
        }
        before = entry.version;
    }
    // The newest update that both have. Versions are never given twice, so equal ones are the same update.
    let theirs = entries.iter().rev().map(|entry| entry.version).chain([after]);
    let common = theirs.into_iter().find(|version| log.contains(*version)).ok_or(NoOverlap)?;
    let mut merged = Merged { common, ..Merged::default() };
    for entry in log.rewind(common) {
        let known = merged.missing.contains_key(&entry.object) || merged.absent.contains(&entry.object);
        if entry.kind != LogKind::Unchanged && !known {
            // The first divergent update of the object tells what it was before all of them.
            match entry.prior_version {
                EVersion::ZERO if mutant::is(Mutant::DivergentCreateKept) => {}
                EVersion::ZERO => drop(merged.absent.insert(entry.object.clone())),
                _ if mutant::is(Mutant::DivergentKept) => {}
                prior => drop(merged.missing.insert(entry.object.clone(), prior)),
            }
        }
        merged.taken_back.push(entry);
    }
    for entry in entries.iter().filter(|entry| entry.version > common) {
        match entry.kind {
            LogKind::Unchanged => {}
            LogKind::Modify => {
                merged.absent.remove(&entry.object);
                merged.missing.insert(entry.object.clone(), entry.version);
            }
            LogKind::Delete if mutant::is(Mutant::DeleteForgotten) => {}
            LogKind::Delete => {
                merged.missing.remove(&entry.object);
                merged.absent.insert(entry.object.clone());
            }
        }
        log.append(entry.clone());
    }
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use types::{EntityName, PoolId, ReqId, Utime};

    fn object(n: u8) -> ObjectId {
        ObjectId::head(PoolId(1), u32::from(n), b"", &[b'a' + n])
    }

    /// Objects with their versions, and the log that made them so.
    #[derive(Clone, Default)]
    struct Copy {
        log: PgLog,
        objects: BTreeMap<ObjectId, EVersion>,
    }

    impl Copy {
        fn change(&mut self, epoch: u32, n: u8, kind: LogKind) {
            let object = object(n);
            let version = self.log.next_version(types::Epoch(epoch));
            let prior_version = self.objects.get(&object).copied().unwrap_or_default();
            let kind =
                if kind == LogKind::Delete && prior_version == EVersion::ZERO { LogKind::Unchanged } else { kind };
            match kind {
                LogKind::Modify => drop(self.objects.insert(object.clone(), version)),
                LogKind::Delete => drop(self.objects.remove(&object)),
                LogKind::Unchanged => {}
            }
            let reqid = ReqId { name: EntityName::client(4), tid: version.version, inc: epoch as i32 };
            self.log.append(LogEntry {
                version,
                kind,
                object,
                prior_version,
                reqid,
                user_version: version.version,
                mtime: Utime::ZERO,
                result: 0,
                op_results: Vec::new(),
                undo: Default::default(),
                skipped: Default::default(),
                voids: EVersion::ZERO,
            });
        }
    }

    fn kind() -> impl Strategy<Value = LogKind> {
        prop_oneof![4 => Just(LogKind::Modify), 2 => Just(LogKind::Delete), 1 => Just(LogKind::Unchanged)]
    }

    fn changes() -> impl Strategy<Value = Vec<(u8, LogKind)>> {
        proptest::collection::vec((0u8..4, kind()), 0..8)
    }

    proptest! {
        /// With what is missing fetched and what is absent removed, the member is equal to the authority.
        #[test]
        fn a_merged_copy_is_the_authority(
            common in changes(), divergent in changes(), newer in changes(), trimmed in 0usize..8, all: bool,
        ) {
            let mut authority = Copy::default();
            common.iter().for_each(|(n, kind)| authority.change(1, *n, *kind));
            let mut member = authority.clone();
            let split = authority.log.head();
            divergent.iter().for_each(|(n, kind)| member.change(2, *n, *kind));
            newer.iter().for_each(|(n, kind)| authority.change(3, *n, *kind));
            let tail = authority.log.entries().nth(trimmed).map(|e| e.version);
            if let Some(tail) = tail {
                authority.log.trim_to(tail, 0);
            }
            let after = if all || authority.log.tail() > split { authority.log.tail() } else { split };
            let entries: Vec<LogEntry> = authority.log.after(after).unwrap().cloned().collect();
            let unmerged = member.log.head();
            match merge(&mut member.log, after, &entries) {
                Err(NoOverlap) => {
                    prop_assert!(after > split);
                    prop_assert_eq!(member.log.head(), unmerged);
                }
                Ok(merged) => {
                    prop_assert_eq!(member.log.head(), authority.log.head());
                    prop_assert_eq!(merged.taken_back.len(), divergent.len());
                    for object in &merged.absent {
                        member.objects.remove(object);
                    }
                    for (object, version) in &merged.missing {
                        prop_assert_eq!(authority.objects.get(object), Some(version));
                        member.objects.insert(object.clone(), *version);
                    }
                    prop_assert_eq!(&member.objects, &authority.objects);
                    for entry in member.log.entries() {
                        prop_assert_eq!(member.log.find(&entry.reqid).map(|e| e.version), Some(entry.version));
                    }
                }
            }
        }
    }
}

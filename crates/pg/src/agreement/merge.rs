//! A member's log is brought to the authoritative one.
//!
//! Both logs are histories of one group. They agree up to some update; behind it, this member may have *divergent*
//! updates, which no client was answered for, and lacks those that the authoritative log has instead. Divergent updates
//! are taken back: their objects go back to what they were at the common update, which others have. Of what is lacking,
//! only the log entries are at hand: their objects become *missing* until somebody sends them. Updates that skip this
//! member's shard are the exception: their entries have all that it takes.

use crate::group::log::{LogEntry, LogKind, PgLog};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, ObjectId};

/// Changes that a merge makes beside those of the log.
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
    /// Objects that are what they should be here but for their information, with their versions and that.
    pub renewed: BTreeMap<ObjectId, (EVersion, Bytes)>,
}

/// The logs have no update in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoOverlap;

/// Makes `log` end as `entries`, the authoritative log's updates after `after`, do. `shard`: that of this member, in an
/// erasure-coded group.
///
/// Errors: the logs do not meet, or `entries` do not follow each other; nothing has changed then.
pub(crate) fn merge(
    log: &mut PgLog,
    after: EVersion,
    entries: &[LogEntry],
    shard: Option<u8>,
) -> Result<Merged, NoOverlap> {
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
                let is_here = !merged.missing.contains_key(&entry.object) && !merged.absent.contains(&entry.object);
                match entry.skipped.info_for(shard).filter(|_| is_here) {
                    Some(info) => drop(merged.renewed.insert(entry.object.clone(), (entry.version, info.clone()))),
                    None => {
                        merged.renewed.remove(&entry.object);
                        merged.absent.remove(&entry.object);
                        merged.missing.insert(entry.object.clone(), entry.version);
                    }
                }
            }
            LogKind::Delete if mutant::is(Mutant::DeleteForgotten) => {}
            LogKind::Delete => {
                merged.renewed.remove(&entry.object);
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
    use crate::coded::skipped::Skipped;
    use proptest::prelude::*;
    use types::{EntityName, PoolId, ReqId};

    fn object(n: u8) -> ObjectId {
        ObjectId::head(PoolId(1), u32::from(n), b"", &[b'a' + n])
    }

    /// The shard that a copy is, where it is one.
    const SHARD: u8 = 1;

    /// Objects with their versions and those of the updates that changed their bytes here, and the log that made them
    /// so.
    #[derive(Clone, Default)]
    struct Copy {
        log: PgLog,
        objects: BTreeMap<ObjectId, (EVersion, EVersion)>,
    }

    impl Copy {
        /// `skips`: the update leaves the bytes here as they are.
        fn change(&mut self, epoch: u32, (n, kind, skips): Change) {
            let object = object(n);
            let version = self.log.next_version(types::Epoch(epoch));
            let before = self.objects.get(&object).copied();
            let prior_version = before.unwrap_or_default().0;
            let kind =
                if kind == LogKind::Delete && prior_version == EVersion::ZERO { LogKind::Unchanged } else { kind };
            let skipped = match before {
                Some(_) if skips && kind == LogKind::Modify => {
                    let info = Bytes::copy_from_slice(&version.version.to_le_bytes());
                    Skipped { shards: [usize::from(SHARD), 4].into_iter().collect(), info, ..Skipped::default() }
                }
                _ => Skipped::default(),
            };
            match kind {
                LogKind::Modify => {
                    let changed = if skipped.shards.is_empty() { version } else { before.expect("skipped").1 };
                    self.objects.insert(object.clone(), (version, changed));
                }
                LogKind::Delete => drop(self.objects.remove(&object)),
                LogKind::Unchanged => {}
            }
            let reqid = ReqId { name: EntityName::client(4), tid: version.version, inc: epoch as i32 };
            let entry = LogEntry::new(version, kind, object);
            self.log.append(LogEntry { prior_version, reqid, skipped, ..entry });
        }
    }

    fn kind() -> impl Strategy<Value = LogKind> {
        prop_oneof![4 => Just(LogKind::Modify), 2 => Just(LogKind::Delete), 1 => Just(LogKind::Unchanged)]
    }

    type Change = (u8, LogKind, bool);

    fn changes() -> impl Strategy<Value = Vec<Change>> {
        proptest::collection::vec((0u8..4, kind(), any::<bool>()), 0..8)
    }

    proptest! {
        /// With what is missing fetched and what is absent removed, the member is equal to the authority.
        #[test]
        fn a_merged_copy_is_the_authority(
            common in changes(), divergent in changes(), newer in changes(), trimmed in 0usize..8, all: bool,
            shard in proptest::option::of(Just(SHARD)),
        ) {
            let mut authority = Copy::default();
            common.iter().for_each(|change| authority.change(1, *change));
            let mut member = authority.clone();
            let split = authority.log.head();
            let agreed = authority.objects.clone();
            divergent.iter().for_each(|change| member.change(2, *change));
            newer.iter().for_each(|change| authority.change(3, *change));
            let tail = authority.log.entries().nth(trimmed).map(|e| e.version);
            if let Some(tail) = tail {
                authority.log.trim_to(tail, 0);
            }
            let after = if all || authority.log.tail() > split { authority.log.tail() } else { split };
            let entries: Vec<LogEntry> = authority.log.after(after).unwrap().cloned().collect();
            let unmerged = member.log.head();
            match merge(&mut member.log, after, &entries, shard) {
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
                        let wanted = authority.objects[object];
                        prop_assert_eq!(wanted.0, *version);
                        prop_assert!(!merged.renewed.contains_key(object));
                        member.objects.insert(object.clone(), wanted);
                    }
                    prop_assert!(shard.is_some() || merged.renewed.is_empty());
                    // A shard that is skipped is not stale.
                    for (object, (_, changed)) in authority.objects.iter().filter(|_| shard.is_some()) {
                        let is_as_it_was = agreed.get(object).is_some_and(|before| before.1 == *changed);
                        let was_changed_here = divergent.iter().any(|(n, ..)| self::object(*n) == *object);
                        prop_assert!(!is_as_it_was || was_changed_here || !merged.missing.contains_key(object));
                    }
                    for (object, (version, info)) in &merged.renewed {
                        prop_assert_eq!(&info[..], version.version.to_le_bytes());
                        member.objects.get_mut(object).expect("it is here").0 = *version;
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

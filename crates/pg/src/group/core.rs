//! The facts of a group that all its parts read: which group it is, its interval, its log, and what is missing here.

use super::info::PgInfo;
use super::interval::Interval;
use super::log::PgLog;
use crate::coded::protection::Protection;
use crate::messages::PgInterval;
use crate::messages::peering::{MemberState, PgLogEntries};
use std::collections::BTreeMap;
use types::{EVersion, Epoch, ObjectId, OsdId, PgId};

/// The core of a group.
pub(crate) struct Core {
    pub id: PgId,
    /// The store has a table for the group.
    pub stored: bool,
    pub info: PgInfo,
    pub log: PgLog,
    /// Objects whose newest version, which the log tells, is not in this store.
    pub missing: BTreeMap<ObjectId, EVersion>,
    pub interval: Interval,
    /// The first epoch from which on clients have sent their operations to the primary that the group has now; an
    /// earlier one if that is not known. What was sent before is sent again.
    pub primary_since: Epoch,
    /// The map has had the group on the same OSDs since this epoch, or for longer.
    pub up_since: Epoch,
    /// The interval did not begin before this epoch.
    pub not_before: Epoch,
}

impl Core {
    /// Makes the core of a group of which this OSD has nothing yet.
    pub fn new(id: PgId, interval: Interval) -> Core {
        Core {
            id,
            stored: false,
            info: PgInfo { complete: true, ..PgInfo::default() },
            log: PgLog::default(),
            missing: BTreeMap::new(),
            primary_since: interval.since,
            up_since: interval.since,
            not_before: Epoch(0),
            interval,
        }
    }

    /// Returns the group in its present interval, as messages name it.
    pub fn pg_interval(&self) -> PgInterval {
        PgInterval { pgid: self.id, since: self.interval.since }
    }

    /// Returns the kind of the group's pool.
    pub fn protection(&self) -> Protection {
        self.interval.shape.protection
    }

    pub fn is_primary(&self, whoami: OsdId) -> bool {
        self.interval.primary == Some(whoami)
    }

    /// Returns the other members: those of the acting set, and in erasure-coded pools, where that has no room for more,
    /// also those that are to be in it.
    pub fn others(&self, whoami: OsdId) -> Vec<OsdId> {
        let to_be = self.protection().also_members(&self.interval.up);
        let mut others: Vec<OsdId> = Vec::with_capacity(self.interval.acting.len());
        for osd in self.interval.acting.iter().chain(to_be).filter(|osd| **osd != whoami && osd.is_some()) {
            if !others.contains(osd) {
                others.push(*osd);
            }
        }
        others
    }

    pub fn member_state(&self) -> MemberState {
        MemberState { info: self.stored.then(|| self.info.clone()), missing: self.missing.clone() }
    }

    /// Returns the part of this log that a member whose log ends at `since` needs: the entries after that, or, if this
    /// log does not have that update, all.
    pub fn entries_for(&self, since: EVersion) -> PgLogEntries {
        let (pg, info) = (self.pg_interval(), self.info.clone());
        let after = if self.log.contains(since) { since } else { self.log.tail() };
        let entries = self.log.after(after).expect("the log contains it").map(|entry| self.as_told(entry)).collect();
        PgLogEntries { pg, after, entries, info, start_over: false, dups: Vec::new() }
    }

    /// Returns the update up to which the log's objects are all in this store.
    pub fn last_complete(&self) -> EVersion {
        let Some(lacking) = self.missing.values().min() else { return self.log.head() };
        let before = self.log.entries().rev().find(|entry| entry.version < *lacking);
        before.map_or(self.log.tail(), |entry| entry.version)
    }

    /// Returns the range of the group's objects.
    pub fn range(&self) -> (ObjectId, ObjectId) {
        osdmap::pg_range(self.id, self.interval.shape.pg_num)
    }
}

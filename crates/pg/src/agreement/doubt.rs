//! Groups whose record may be behind: a monitor that had not heard of everything was made the only one. Who served
//! last, and has what clients were answered for, only the OSDs know then.
//!
//! The primary asks every OSD that is up what it has of the group, and goes by those that took part in the newest
//! interval, as if the record named them. It waits for those that are down, unless the operator has given them up: any
//! of them may have what nobody else has. The same is done anew in each interval, until one has been recorded in which
//! nobody lacked anything. Copies that nobody needs stay even then, until the operator has confirmed that all is there.

use crate::agreement::found_copies::FoundCopies;
use crate::agreement::lost_osds::is_missed;
use crate::agreement::machine::Agreement;
use crate::agreement::progress::Progress;
use crate::coded::protection::Protection;
use crate::context::Context;
use crate::messages::peering::{FoundCopy, PgSought};
use osdmap::OsdMap;
use std::collections::BTreeSet;
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::nacre::mon::{PgHistory, doubt};

/// Time after which the record is asked for again, to see if the operator has confirmed it.
const LOOK_EVERY: Duration = Duration::from_secs(30);

impl Progress<'_> {
    /// Returns true if the record may be behind.
    fn is_behind(self) -> bool {
        self.state.history.as_ref().is_some_and(|history| history.doubt == doubt::BEHIND)
    }

    /// Returns the OSDs that are down and may have what others do not.
    pub(super) fn waits_in_doubt(self, map: &OsdMap) -> Vec<OsdId> {
        if !self.is_behind() || self.state.doubt.settled {
            return Vec::new();
        }
        let since = self.state.history.as_ref().map_or(Epoch(0), |history| history.last_epoch_started);
        let is_waited_for = |osd: &OsdId| is_missed(map, *osd, since) && !map.is_destroyed(*osd);
        map.osds().map(|(osd, _)| osd).filter(is_waited_for).collect()
    }

    /// Returns true if copies may be needed though the record says otherwise.
    pub(crate) fn is_in_doubt(self) -> bool {
        self.state.history.as_ref().is_some_and(|history| history.doubt != doubt::NONE)
    }
}

impl Agreement<'_> {
    /// Returns true if it is known which OSDs have the group: by the record, or, where that may be behind, by all OSDs
    /// that are up. In that case the record becomes what they say. OSDs that have not said yet are asked, at most every
    /// `again`.
    pub(super) fn knows_who_has_it(&mut self, cx: &mut Context<'_>, again: Duration) -> bool {
        if !self.progress().is_behind() || self.state.doubt.settled {
            return true;
        }
        let up = cx.map.up_osds().map(|(osd, _)| osd).filter(|osd| *osd != cx.whoami);
        let silent: Vec<OsdId> = up.filter(|osd| !self.state.doubt.found.contains_key(osd)).collect();
        let is_due = self.state.doubt.asked_at.is_none_or(|at| cx.now >= at + again);
        if is_due && !silent.is_empty() {
            self.state.doubt.asked_at = Some(cx.now);
            for osd in &silent {
                cx.send_osd(*osd, PgSought { epoch: cx.map.epoch, groups: vec![self.core.id.base()] });
            }
        }
        if !self.progress().waits_in_doubt(cx.map).is_empty() {
            if is_due {
                self.state.doubt.asked_at = Some(cx.now);
                self.queue_report(cx);
                self.hold_clients_back(cx);
            }
            return false;
        }
        if !silent.is_empty() {
            return false;
        }
        let own = self.core.member_state().info.map(|info| FoundCopy {
            shard: self.core.id.pool.shard(),
            complete: info.complete,
            last_epoch_started: info.last_epoch_started,
            last_update: info.last_update,
        });
        let found = &self.state.doubt.found;
        let others = found
            .iter()
            .filter(|(osd, _)| cx.map.is_up(**osd))
            .flat_map(|(osd, copies)| copies.iter().map(|copy| (*osd, copy.clone())));
        let copies: FoundCopies = own.into_iter().map(|copy| (cx.whoami, copy)).chain(others).collect();
        let record = self.state.history.take().expect("it is behind");
        let k = match self.core.protection() {
            Protection::Copies => None,
            Protection::Shards(coding) => Some(coding.k()),
        };
        let history = by_copies(&record, &copies, k);
        tracing::warn!(
            pg = %self.core.id, recorded = %record.last_epoch_started, found = %history.last_epoch_started,
            members = ?history.members, past = ?history.past,
            "the monitors' record may be behind; goes by what OSDs have"
        );
        self.state.history = Some(history);
        self.state.doubt.settled = true;
        true
    }

    /// Takes what an OSD has told that it has of the group.
    pub(crate) fn found_at(&mut self, cx: &mut Context<'_>, osd: OsdId, epoch: Epoch, copies: Vec<FoundCopy>) {
        // An older answer is dropped: the OSD may have changed its copy since.
        if epoch >= self.core.interval.since && self.core.is_primary(cx.whoami) {
            self.state.doubt.found.insert(osd, copies);
            self.gathered(cx);
        }
    }

    /// Asks again what waits for the operator, or for others.
    pub(crate) fn doubt_tick(&mut self, cx: &mut Context<'_>) {
        if self.state.is_active() && self.progress().is_in_doubt() && cx.now >= self.state.doubt.look_at {
            self.state.doubt.look_at = cx.now + LOOK_EVERY;
            cx.outbox.to_monitor.history.push(self.core.id.base());
        }
        self.gathered(cx);
    }

    /// Takes the record that was told anew while the group serves: the operator may have confirmed it.
    pub(super) fn doubt_told(&mut self, told: &PgHistory) {
        if let Some(history) = &mut self.state.history
            && history.last_epoch_started == told.last_epoch_started
        {
            history.doubt = told.doubt;
        }
    }
}

/// Returns the record as it should be, by all copies that there are.
///
/// `k`: shards that an erasure-coded group takes.
fn by_copies(record: &PgHistory, copies: &FoundCopies, k: Option<usize>) -> PgHistory {
    let whole = || copies.iter().filter(|(_, copy)| copy.complete && copy.last_epoch_started > Epoch(0));
    let started: BTreeSet<Epoch> = whole().map(|(_, copy)| copy.last_epoch_started).collect();
    // An epoch that fewer shards name as started than it takes was not recorded: no client was answered in it.
    let is_enough = |since: &Epoch| {
        let shards =
            || whole().filter(|(_, copy)| copy.last_epoch_started >= *since).filter_map(|(_, copy)| copy.shard);
        k.is_none_or(|k| shards().collect::<BTreeSet<u8>>().len() >= k)
    };
    let mut newest = started.into_iter().rev().find(is_enough).unwrap_or_default();
    if newest < record.last_epoch_started {
        // OSDs that the record names are gone, or lack what they should have. The record holds, as it does without
        // doubt.
        return record.clone();
    }
    let mut history =
        PgHistory { pgid: record.pgid, created: record.created, doubt: record.doubt, ..PgHistory::default() };
    if newest == Epoch(0) {
        // Parts of copies show that it has served; nobody has what it takes to go on.
        newest = copies.iter().map(|(_, copy)| copy.last_epoch_started).max().unwrap_or_default();
        history.last_epoch_started = newest;
        return history;
    }
    history.last_epoch_started = newest;
    for (osd, copy) in whole() {
        let serves = copy.last_epoch_started >= newest;
        let (osds, shards) = match serves {
            true => (&mut history.members, &mut history.member_shards),
            false => (&mut history.past, &mut history.past_shards),
        };
        osds.push(*osd);
        shards.extend(copy.shard);
    }
    history
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EVersion, PgId};

    fn copy(shard: Option<u8>, complete: bool, started: u32) -> FoundCopy {
        let last_update = EVersion { epoch: Epoch(started), version: 7 };
        FoundCopy { shard, complete, last_epoch_started: Epoch(started), last_update }
    }

    fn record(members: &[i32], started: u32) -> PgHistory {
        let members = members.iter().copied().map(OsdId).collect();
        let (pgid, last_epoch_started) = (PgId::new(1, 0), Epoch(started));
        PgHistory { pgid, last_epoch_started, members, doubt: doubt::BEHIND, ..PgHistory::default() }
    }

    fn check(record: &PgHistory, copies: &[(i32, FoundCopy)], k: Option<usize>) -> (u32, Vec<i32>, Vec<i32>) {
        let copies: FoundCopies = copies.iter().map(|(osd, copy)| (OsdId(*osd), copy.clone())).collect();
        let history = by_copies(record, &copies, k);
        assert_eq!(history.doubt, doubt::BEHIND);
        let ids = |osds: &[OsdId]| osds.iter().map(|osd| osd.0).collect();
        (history.last_epoch_started.0, ids(&history.members), ids(&history.past))
    }

    #[test]
    fn who_took_part_in_the_newest_interval_served_last() {
        let old = record(&[0, 1], 10);
        let whole = |started| copy(None, true, started);
        assert_eq!(
            check(&old, &[(0, whole(10)), (1, whole(20)), (2, whole(30)), (3, whole(30))], None),
            (30, vec![2, 3], vec![0, 1])
        );
        // An OSD that is being filled does not have what it takes.
        assert_eq!(check(&old, &[(0, whole(10)), (1, copy(None, false, 40))], None), (10, vec![0], vec![]));
        // No copy has as much as the copies of the record had.
        assert_eq!(check(&old, &[(2, whole(5))], None), (10, vec![0, 1], vec![]));
        assert_eq!(check(&old, &[], None), (10, vec![0, 1], vec![]));
        // The record names no member, and there is nothing; or there is a copy.
        assert_eq!(check(&record(&[], 0), &[(2, whole(0))], None), (0, vec![], vec![]));
        assert_eq!(check(&record(&[], 0), &[(2, whole(9))], None), (9, vec![2], vec![]));
        // The group has served, and a part of it is left: it is not begun anew.
        assert_eq!(check(&record(&[], 0), &[(2, copy(None, false, 9))], None), (9, vec![], vec![]));
    }

    #[test]
    fn of_shards_there_are_as_many_as_it_takes() {
        let shard = |shard, started| copy(Some(shard), true, started);
        let copies = [(0, shard(0, 20)), (1, shard(1, 20)), (2, shard(2, 30)), (3, shard(2, 10))];
        assert_eq!(check(&record(&[0, 1, 2], 10), &copies, Some(2)), (20, vec![0, 1, 2], vec![3]));
        assert_eq!(check(&record(&[0, 1, 2], 10), &copies, Some(1)), (30, vec![2], vec![0, 1, 3]));
        assert_eq!(check(&record(&[], 0), &copies, Some(5)), (30, vec![], vec![]));
    }
}

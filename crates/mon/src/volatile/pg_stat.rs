//! The monitor's view of one placement group.

use osdmap::OsdMap;
use types::{Epoch, OsdId, Utime};
use wire::basic::{NO_SHARD, PgShard};
use wire::nacre::mon::{PgReport, pg_state};

/// The last report of a group's primary, and the times of the group's states.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PgStat {
    /// The last report; all zero but the id until the primary reports.
    pub report: PgReport,
    /// Time at which this monitor first heard of the group.
    pub first_known: Utime,
    /// Time at which the report came.
    pub last_fresh: Utime,
    /// Time at which the state last changed.
    pub last_change: Utime,
    /// Times at which the group was last active, peered (or active), clean, as far as is known: while it still is, the
    /// last report's time.
    pub last_active: Utime,
    pub last_peered: Utime,
    pub last_clean: Utime,
    pub last_became_active: Utime,
    pub last_became_peered: Utime,
    pub last_unstale: Utime,
    pub last_undegraded: Utime,
    pub last_fullsized: Utime,
    /// Map epoch in which it was last seen clean.
    pub last_epoch_clean: Epoch,
}

impl PgStat {
    /// Returns the acting set as a Ceph would tell it: never longer than the pool's size. Members that a group keeps
    /// beside that while it moves are no concern of who places data.
    pub fn acting_shown(&self, map: &OsdMap) -> &[OsdId] {
        let acting = &self.report.acting[..];
        let size = map.pool(self.report.pgid.pool).map_or(acting.len(), |pool| pool.size.into());
        &acting[..acting.len().min(size)]
    }

    /// Returns the members that lack nothing, as far as is known. A member of a group that is clean lacks nothing; of
    /// other groups the primary tells it, unless its OSD runs earlier software: then nobody is known to.
    pub fn complete(&self, map: &OsdMap) -> Vec<PgShard> {
        if self.report.state & pg_state::CLEAN == 0 {
            return self.report.complete.clone().unwrap_or_default();
        }
        let is_coded = map.pool(self.report.pgid.pool).is_some_and(|pool| pool.is_erasure());
        let shard_at = |place: usize| i8::try_from(place).ok().filter(|_| is_coded).unwrap_or(NO_SHARD);
        let members = self.report.acting.iter().enumerate().filter(|(_, osd)| osd.is_some());
        members.map(|(place, osd)| PgShard { osd: *osd, shard: shard_at(place) }).collect()
    }

    /// Returns the OSD that leads it by its last report.
    pub fn primary(&self) -> Option<OsdId> {
        self.report.acting.iter().copied().find(|osd| osd.is_some())
    }

    /// Takes a new report in, unless it is older than the known one. Returns true if it was taken.
    pub fn update(&mut self, report: PgReport, now: Utime) -> bool {
        if (report.epoch, report.sequence) < (self.report.epoch, self.report.sequence) {
            return false;
        }
        let (old, new) = (self.report.state, report.state);
        let serving = |state: u64| state & (pg_state::ACTIVE | pg_state::PEERED) != 0;
        if old != new {
            self.last_change = now;
        }
        if new & pg_state::ACTIVE != 0 && old & pg_state::ACTIVE == 0 {
            self.last_became_active = now;
        }
        if serving(new) && !serving(old) {
            self.last_became_peered = now;
        }
        if new & pg_state::CLEAN != 0 {
            self.last_epoch_clean = report.epoch;
        }
        self.was_fine_until(now);
        self.note_fine(new, now);
        self.last_fresh = now;
        self.report = report;
        true
    }

    /// Marks a group that has no reporter any more: its primary is gone.
    pub fn mark_stale(&mut self, now: Utime) {
        if self.report.state & pg_state::STALE == 0 {
            self.was_fine_until(now);
            self.report.state |= pg_state::STALE;
            self.last_change = now;
        }
    }

    /// Extends fine states to `now`: a primary reports when something changes, so a state of its last report lasted
    /// until now.
    fn was_fine_until(&mut self, now: Utime) {
        if !self.last_fresh.is_zero() && self.report.state & pg_state::STALE == 0 {
            self.note_fine(self.report.state, now);
        }
    }

    fn note_fine(&mut self, state: u64, now: Utime) {
        let has = |bits: u64| state & bits != 0;
        for (is_fine, last) in [
            (has(pg_state::ACTIVE), &mut self.last_active),
            (has(pg_state::ACTIVE | pg_state::PEERED), &mut self.last_peered),
            (has(pg_state::CLEAN), &mut self.last_clean),
            (!has(pg_state::DEGRADED), &mut self.last_undegraded),
            (!has(pg_state::UNDERSIZED), &mut self.last_fullsized),
            (!has(pg_state::STALE), &mut self.last_unstale),
        ] {
            if is_fine {
                *last = now;
            }
        }
    }
}

//! The monitor's view of one placement group.

use osdmap::OsdMap;
use types::{OsdId, Utime};
use wire::basic::{NO_SHARD, PgShard};
use wire::nacre::PgTimes;
use wire::nacre::mon::{PgReport, pg_state};

/// The last report of a group's primary, and the times of the group's states.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PgStat {
    /// The last report; all zero but the id until the primary reports.
    pub report: PgReport,
    /// Time at which this monitor first heard of the group.
    pub first_known: Utime,
    pub times: PgTimes,
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
        self.times.reported(self.report.state, report.state, report.epoch, now);
        self.report = report;
        true
    }

    /// Marks a group that has no reporter any more: its primary is gone.
    pub fn mark_stale(&mut self, now: Utime) {
        if self.report.state & pg_state::STALE == 0 {
            self.times.went_stale(self.report.state, now);
            self.report.state |= pg_state::STALE;
        }
    }
}

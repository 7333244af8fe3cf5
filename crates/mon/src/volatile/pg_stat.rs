//! What is known of one placement group.

use types::{Epoch, Utime};
use wire::nacre::mon::{PgReport, pg_state};

/// The last report of a group's primary, and since when and until when the group was in which state.
#[derive(Clone, PartialEq, Default, Debug)]
pub struct PgStat {
    /// All zero but the id until the primary reports.
    pub report: PgReport,
    /// When this monitor first heard of the group.
    pub first_known: Utime,
    /// When the report came.
    pub last_fresh: Utime,
    /// When the state last changed.
    pub last_change: Utime,
    /// When the group was last seen active, peered (or active), clean.
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
    /// Takes a new report in, unless it is older than the one known. Says whether it was taken.
    pub fn update(&mut self, report: PgReport, now: Utime) -> bool {
        if (report.epoch, report.sequence) < (self.report.epoch, self.report.sequence) {
            return false;
        }
        let (old, new) = (self.report.state, report.state);
        let serving = |state: u64| state & (pg_state::ACTIVE | pg_state::PEERED) != 0;
        if old != new {
            self.last_change = now;
        }
        if new & pg_state::ACTIVE != 0 {
            self.last_active = now;
            if old & pg_state::ACTIVE == 0 {
                self.last_became_active = now;
            }
        }
        if serving(new) {
            self.last_peered = now;
            if !serving(old) {
                self.last_became_peered = now;
            }
        }
        if new & pg_state::CLEAN != 0 {
            self.last_clean = now;
            self.last_epoch_clean = report.epoch;
        }
        if new & pg_state::DEGRADED == 0 {
            self.last_undegraded = now;
        }
        if new & pg_state::UNDERSIZED == 0 {
            self.last_fullsized = now;
        }
        self.last_unstale = now;
        self.last_fresh = now;
        self.report = report;
        true
    }
}

//! Times of a placement group's states, as whoever hears its reports notes them.

use super::mon::pg_state;
use types::{Epoch, Utime};

/// When a group was last in some states, as far as is known: while it still is, the last report's time.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct PgTimes {
    /// Time of the last report.
    pub fresh: Utime,
    /// Time at which the state last changed.
    pub change: Utime,
    pub active: Utime,
    /// Active, or only peered.
    pub peered: Utime,
    pub clean: Utime,
    pub became_active: Utime,
    pub became_peered: Utime,
    pub unstale: Utime,
    pub undegraded: Utime,
    pub fullsized: Utime,
    /// Map epoch in which it was last seen clean.
    pub epoch_clean: Epoch,
}

impl PgTimes {
    /// Notes a report: the state is `new` at the map of `epoch`, and was `old` by the report before.
    pub fn reported(&mut self, old: u64, new: u64, epoch: Epoch, now: Utime) {
        let serves = |state: u64| state & (pg_state::ACTIVE | pg_state::PEERED) != 0;
        if old != new {
            self.change = now;
        }
        if new & pg_state::ACTIVE != 0 && old & pg_state::ACTIVE == 0 {
            self.became_active = now;
        }
        if serves(new) && !serves(old) {
            self.became_peered = now;
        }
        if new & pg_state::CLEAN != 0 {
            self.epoch_clean = epoch;
        }
        self.was_fine_until(old, now);
        self.note_fine(new, now);
        self.fresh = now;
    }

    /// Notes that nobody reports any more; the last report told the state `old`.
    pub fn went_stale(&mut self, old: u64, now: Utime) {
        self.was_fine_until(old, now);
        self.change = now;
    }

    /// Extends fine states to `now`: a primary reports when something changes, so a state of its last report lasted
    /// until now.
    fn was_fine_until(&mut self, state: u64, now: Utime) {
        if !self.fresh.is_zero() && state & pg_state::STALE == 0 {
            self.note_fine(state, now);
        }
    }

    fn note_fine(&mut self, state: u64, now: Utime) {
        let has = |bits: u64| state & bits != 0;
        for (is_fine, last) in [
            (has(pg_state::ACTIVE), &mut self.active),
            (has(pg_state::ACTIVE | pg_state::PEERED), &mut self.peered),
            (has(pg_state::CLEAN), &mut self.clean),
            (!has(pg_state::DEGRADED), &mut self.undegraded),
            (!has(pg_state::UNDERSIZED), &mut self.fullsized),
            (!has(pg_state::STALE), &mut self.unstale),
        ] {
            if is_fine {
                *last = now;
            }
        }
    }
}

//! Turns of a group to heal: what it has to do, and when it may.
//!
//! A group first needs a slot of its own OSD, then one of each member that it brings objects to, asked for one after
//! the other in the order of their numbers, so that no two groups wait for each other. What a client waits for needs
//! none.

use crate::agreement::members::Standing;
use crate::context::Context;
use crate::healing::healer::Healer;
use crate::healing::whereabouts::Whereabouts;
use crate::healing::work::{Blocked, Forced, Turn, Work};
use crate::messages::healing::{PgReleased, PgReserve, PgReserved};
use osdmap::OsdMapFlags;
use types::OsdId;
use wire::nacre::mon::pg_state;

/// Priorities, in Ceph's order: what an operator wants first, who cannot serve, who lacks what the log tells, who has
/// too few copies, who is only to be elsewhere.
const FORCED_RECOVERY: u64 = 255;
const FORCED_BACKFILL: u64 = 254;
const INACTIVE: u64 = 220;
const RECOVERY: u64 = 180;
const BACKFILL_DEGRADED: u64 = 140;
const BACKFILL: u64 = 100;

impl Healer<'_> {
    /// Returns the most urgent work that there is, with the OSDs that objects then go to; and the work that is not done
    /// for want of room.
    fn wanted_work(&self, cx: &Context<'_>) -> (Option<(Work, Vec<OsdId>)>, Blocked) {
        let mut blocked = Blocked::default();
        if !self.peering.may_recover() {
            return (None, blocked);
        }
        let lacks = |osd: &OsdId| self.members.missing(*osd).any(|object| self.whereabouts().is_readable(object));
        let lacking = self.members.iter().map(|(osd, _)| osd).filter(lacks);
        let (too_full, lacking): (Vec<_>, Vec<_>) = lacking.partition(|osd| self.is_too_full(cx, *osd, Work::Recovery));
        let pulls = self.whereabouts().can_pull_any();
        let may_pull = pulls && !self.is_too_full(cx, cx.whoami, Work::Recovery);
        blocked.recovery = !too_full.is_empty() || pulls && !may_pull;
        if !lacking.is_empty() || may_pull {
            return (Some((Work::Recovery, lacking)), blocked);
        }
        let is_behind = |standing| matches!(standing, Standing::Behind | Standing::Backfilling);
        let behind = self.members.iter().filter(|(_, s)| is_behind(*s)).map(|(osd, _)| osd);
        let (unlisted, behind): (Vec<_>, Vec<_>) = behind.partition(|osd| self.state.unlisted_until.contains_key(osd));
        blocked.unlisted = !unlisted.is_empty();
        let behind = behind.into_iter();
        let (too_full, behind): (Vec<_>, Vec<_>) = behind.partition(|osd| self.is_too_full(cx, *osd, Work::Backfill));
        blocked.backfill = !too_full.is_empty();
        // An object that comes here soon can be neither compared nor sent yet, and a member that is behind answers for
        // nothing once its backfill has begun. An object that nobody has is passed.
        let waits = pulls || self.whereabouts().waits_for_unreadable();
        let can_compare = !waits && self.state.pulls.are_durable();
        ((!behind.is_empty() && can_compare).then_some((Work::Backfill, behind)), blocked)
    }

    /// Returns [`wanted_work`](Healer::wanted_work) without the work that the operator holds back.
    fn admitted_work(&self, cx: &Context<'_>) -> (Option<(Work, Vec<OsdId>)>, Blocked) {
        let (wanted, mut blocked) = self.wanted_work(cx);
        blocked.held = wanted.as_ref().map(|(work, _)| *work).filter(|work| self.is_held_back(cx, *work));
        (wanted.filter(|_| blocked.held.is_none()), blocked)
    }

    /// Returns true if the operator wants this work not to be done. An object that a client waits for is sent all the
    /// same.
    fn is_held_back(&self, cx: &Context<'_>, work: Work) -> bool {
        let has = |flag| cx.map.flags.contains(flag);
        let has_all = self.whereabouts().serving_copies() >= usize::from(self.core.interval.shape.size);
        has(OsdMapFlags::NORECOVER)
            || work == Work::Backfill && (has(OsdMapFlags::NOBACKFILL) || has_all && has(OsdMapFlags::NOREBALANCE))
    }

    fn priority(&self, work: Work) -> u64 {
        let serving = self.whereabouts().serving_copies() as u64;
        let (size, min_size) = (u64::from(self.core.interval.shape.size), u64::from(self.core.interval.shape.min_size));
        match work {
            Work::Recovery if self.state.forced.recovery => FORCED_RECOVERY,
            Work::Backfill if self.state.forced.backfill => FORCED_BACKFILL,
            _ if serving < min_size => INACTIVE + (min_size - serving),
            Work::Recovery => RECOVERY + size.saturating_sub(serving),
            Work::Backfill if serving < size => BACKFILL_DEGRADED + (size - serving),
            Work::Backfill => BACKFILL,
        }
    }

    /// Asks for what the present work needs, if that is not what was asked for.
    pub(crate) fn plan_healing(&mut self, cx: &mut Context<'_>) {
        let (wanted, blocked) = self.admitted_work(cx);
        if std::mem::replace(&mut self.state.blocked, blocked) != blocked {
            self.queue_report(cx);
        }
        if wanted.is_none() && blocked == Blocked::default() && self.peering.is_active() {
            // All work is done.
            self.state.forced = Forced::default();
        }
        let (work, targets) = wanted.map_or((None, Vec::new()), |(work, targets)| (Some(work), targets));
        let priority = work.map_or(0, |work| self.priority(work));
        // Members that need nothing any more keep their slots until all is done.
        let covered = targets.iter().all(|osd| self.state.turn.targets.contains(osd));
        if work == self.state.turn.work && covered && priority <= self.state.turn.priority {
            return;
        }
        self.stop_healing(cx);
        if work.is_some() {
            self.state.turn = Turn { work, priority, targets, local: false, granted: 0 };
            cx.shared.reservations.ask(self.core.id, priority);
        }
        self.queue_report(cx);
    }

    /// Has recovery, or backfill, of this group go before others', as an operator wants, or not any more.
    pub(crate) fn force(&mut self, cx: &mut Context<'_>, backfill: bool, cancel: bool) {
        match backfill {
            true => self.state.forced.backfill = !cancel,
            false => self.state.forced.recovery = !cancel,
        }
        // Slots are asked for again, by what it is worth now.
        self.stop_healing(cx);
        self.recover(cx);
        self.queue_report(cx);
    }

    /// Gives back what is held.
    fn stop_healing(&mut self, cx: &mut Context<'_>) {
        let healing = std::mem::take(&mut self.state.turn);
        if healing.work.is_none() {
            return;
        }
        cx.shared.reservations.release(self.core.id);
        let pg = self.core.pg_interval();
        // The next one has been asked already.
        let asked = if healing.local { healing.granted + 1 } else { 0 };
        for osd in healing.targets.into_iter().take(asked) {
            cx.send_osd(osd, PgReleased { pg });
        }
    }

    /// Acts on this OSD's own slot, which has come or is gone.
    pub(crate) fn local_slot(&mut self, cx: &mut Context<'_>, granted: bool) {
        if self.state.turn.work.is_none() {
            return;
        }
        match granted {
            true => {
                self.state.turn.local = true;
                self.ask_next_target(cx);
            }
            false => {
                self.stop_healing(cx);
                self.recover(cx);
            }
        }
    }

    fn ask_next_target(&mut self, cx: &mut Context<'_>) {
        match self.state.turn.targets.get(self.state.turn.granted) {
            Some(osd) => {
                let (pg, priority) = (self.core.pg_interval(), self.state.turn.priority);
                cx.send_osd(*osd, PgReserve { pg, priority });
            }
            None => {
                let Turn { work, targets, .. } = &self.state.turn;
                tracing::debug!(pg = %self.core.id, ?work, ?targets, "heals");
                self.queue_missing();
                self.recover(cx);
                self.queue_report(cx);
            }
        }
    }

    /// Takes a slot that a member has given, or takes back.
    pub(crate) fn slot_told(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgReserved) {
        if message.pg.since != self.core.interval.since || !self.state.turn.local {
            return;
        }
        let next = self.state.turn.targets.get(self.state.turn.granted) == Some(&from);
        if message.granted && next {
            self.state.turn.granted += 1;
            self.ask_next_target(cx);
        } else if !message.granted && self.state.turn.targets.contains(&from) {
            self.stop_healing(cx);
            self.recover(cx);
        }
    }

    /// As member: asks for a slot for the primary, which wants to bring objects here.
    pub(crate) fn slot_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgReserve) {
        if self.peering.follows(from, message.pg.since) {
            cx.shared.reservations.ask_for(from, message.pg, message.priority);
        }
    }
}

impl Whereabouts<'_> {
    /// Returns the bits by which `ceph -s` shows the group's healing.
    pub(crate) fn healing_bits(self) -> u64 {
        let unfound = self.unfound_count() > 0;
        let is_behind = |(_, standing)| matches!(standing, Standing::Behind | Standing::Backfilling);
        let lacks_backfill = self.members.iter().any(is_behind);
        let blocked = [
            (self.state.blocked.recovery, pg_state::RECOVERY_TOOFULL),
            (self.state.blocked.backfill, pg_state::BACKFILL_TOOFULL),
        ];
        let forced = [
            (self.state.forced.recovery, pg_state::FORCED_RECOVERY),
            (self.state.forced.backfill, pg_state::FORCED_BACKFILL),
        ];
        let blocked = blocked.into_iter().chain(forced);
        let others = blocked.filter(|(is, _)| *is).fold(0, |bits, (_, bit)| bits | bit);
        others
            | match (self.state.turn.work.or(self.state.blocked.held), self.state.turn.may_work()) {
                (Some(Work::Recovery), true) => pg_state::RECOVERING,
                (Some(Work::Recovery), false) => pg_state::RECOVERY_WAIT,
                (Some(Work::Backfill), true) => pg_state::BACKFILLING,
                (Some(Work::Backfill), false) => pg_state::BACKFILL_WAIT,
                (None, _) if unfound && lacks_backfill => pg_state::BACKFILL_UNFOUND,
                (None, _) if unfound => pg_state::RECOVERY_UNFOUND,
                (None, _) => 0,
            }
    }
}

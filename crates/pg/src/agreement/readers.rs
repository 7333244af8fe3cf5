//! Readers beside the primary: members that it lets read, too; and readers of earlier intervals. A new primary serves
//! once nobody may answer reads any more whom it does not know.

use crate::agreement::leases::{SPAN_MAX, by_another_clock};
use crate::agreement::machine::Agreement;
use crate::agreement::phase::{Phase, Spans};
use crate::context::Context;
use crate::messages::lease::{Share, ShareWish};
use crate::messages::peering::MemberState;
use mutant::Mutant;
use std::time::Duration;
use types::{Epoch, OsdId};

impl Agreement<'_> {
    /// Gives `member`, as primary, a share of the leases by which it wants to read, too. It gets one as long as all
    /// serving members let this OSD read, if it has been recorded as one of them and no more can be added in this
    /// interval: a member that is added later has promised nothing.
    pub(crate) fn share_wanted(&mut self, cx: &mut Context<'_>, member: OsdId, wish: ShareWish) -> Option<Share> {
        let may_share = wish.pg.since == self.core.interval.since
            && self.core.is_primary(cx.whoami)
            && self.state.is_active()
            && self.core.protection().is_whole_on_each()
            && self.members.all_serve()
            && self.members.standing(member).is_some()
            && self.progress().is_recorded(member);
        if !may_share {
            return None;
        }
        let span = cx.shared.leases.left(self.members.iter().map(|(osd, _)| osd), cx.now)?;
        cx.shared.leases.share(member, span, cx.now);
        Some(Share { wish, span: span.as_micros() as u64, committed: self.durability.committed() })
    }

    /// Takes what a member has told. `state`: what it has (`None`: it is no member, by a map that this OSD is to have,
    /// too). `promises`, `shares`: OSDs that it may have promised that nobody else serves, and OSDs that it may have
    /// let read, each with microseconds.
    pub(crate) fn member_told(
        &mut self,
        cx: &mut Context<'_>,
        osd: OsdId,
        since: Epoch,
        state: Option<MemberState>,
        promises: &[(Option<OsdId>, u64)],
        shares: &[(Option<OsdId>, u64)],
    ) {
        if since != self.core.interval.since || !self.core.is_primary(cx.whoami) {
            return;
        }
        if self.state.readers.remove(&osd).is_some() {
            // The OSD has seen that it does not lead any more, or follows another primary.
            if self.progress().lease_holder() == Some(osd) {
                self.wait_out_shares(cx, &spans_until(shares, cx.now));
            }
            self.members_changed(cx);
        }
        // An OSD that says it is no member has told nothing of what it has: it is waited for until this OSD has that
        // map, too.
        let (Phase::Gathering { waiting, .. }, Some(state)) = (&mut self.state.phase, state) else { return };
        if waiting.remove(&osd) {
            self.state.told.insert(osd, state);
            for (holder, promised) in spans_until(promises, cx.now) {
                let until = self.state.promised.entry(holder).or_default();
                *until = promised.max(*until);
            }
            self.state.shares.insert(osd, spans_until(shares, cx.now));
            self.gathered(cx);
        }
    }

    /// Finds out until when those that served last may answer reads: the primary not any more if it has joined this
    /// interval; but it may have let others.
    pub(super) fn wait_out_lease(&mut self, cx: &mut Context<'_>) {
        self.state.readers.clear();
        let Some(holder) = self.progress().lease_holder().filter(|_| !mutant::is(Mutant::NoLeaseWait)) else { return };
        if holder == cx.whoami {
            let shares = cx.shared.leases.shares(cx.now).into_iter().map(|(osd, span)| (Some(osd), cx.now + span));
            // Reads that it let others answer before this start matter only if it has not led since.
            let came_up = cx.map.osd(holder).map_or(Epoch(0), |osd| osd.info.up_from);
            let led_before = self.state.history.as_ref().is_some_and(|history| history.last_epoch_started < came_up);
            let unknown = led_before.then(|| (None, cx.now + cx.shared.leases.promises(cx.now).0));
            return self.wait_out_shares(cx, &shares.chain(unknown).collect());
        }
        if self.state.told.contains_key(&holder) {
            let shares = self.state.shares.remove(&holder).unwrap_or_default();
            return self.wait_out_shares(cx, &shares);
        }
        // Members to which the holder lent its leases read no longer than the holder itself may.
        let (unknown, promises) = cx.shared.leases.promises(cx.now);
        let own = promises.iter().filter(|(osd, _)| *osd == holder).map(|(_, span)| *span).max();
        let own = cx.now + own.unwrap_or_default().max(unknown);
        let told = [None, Some(holder)].into_iter().filter_map(|holder| self.state.promised.get(&holder).copied());
        let until = told.chain([own]).max().unwrap_or_default();
        self.wait_for_reader(cx, holder, until);
    }

    /// Waits for members that the last primary may have let read, by what it has said, and that have not joined this
    /// interval.
    fn wait_out_shares(&mut self, cx: &mut Context<'_>, shares: &Spans) {
        if mutant::is(Mutant::SharesNotWaitedFor) {
            return;
        }
        let served = self.state.history.as_ref().map(|history| history.members.clone()).unwrap_or_default();
        let may_read = |osd: &OsdId| *osd != cx.whoami && !self.state.told.contains_key(osd);
        // The first of them was the primary.
        for osd in served.into_iter().skip(1).filter(may_read).collect::<Vec<_>>() {
            let spans = [None, Some(osd)].into_iter().filter_map(|osd| shares.get(&osd).copied());
            self.wait_for_reader(cx, osd, spans.max().unwrap_or_default());
        }
    }

    fn wait_for_reader(&mut self, cx: &mut Context<'_>, osd: OsdId, until: Duration) {
        if until > cx.now {
            self.state.readers.insert(osd, until);
            cx.agenda.wakes.insert((until, self.core.id));
            if cx.map.is_up(osd) {
                // The OSD may know already that it does not lead, or is no member, any more.
                let pg = self.core.pg_interval();
                cx.outbox.queries.entry(osd).or_default().push((pg, self.core.interval.agreed()));
            }
        }
    }
}

/// Microseconds of another clock as points in time of this one.
fn spans_until(spans: &[(Option<OsdId>, u64)], now: Duration) -> Spans {
    let until = |span| now + by_another_clock(Duration::from_micros(span).min(SPAN_MAX));
    spans.iter().map(|(osd, span)| (*osd, until(*span))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_waited_for_longer_than_promises_last() {
        let (now, osd) = (Duration::from_secs(1000), Some(OsdId(3)));
        let until = |span: u64| spans_until(&[(osd, span)], now)[&osd];
        assert_eq!(until(1_650_000), now + by_another_clock(Duration::from_micros(1_650_000)));
        assert_eq!(until(u64::MAX), now + by_another_clock(SPAN_MAX));
    }
}

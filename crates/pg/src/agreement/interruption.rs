//! The end of a session between two OSDs, in an interval in which both are members of a group.
//!
//! A session delivers everything, in order, once. When it ends while both OSDs live (one of them was sent something
//! that it cannot take, or has lost what it knew of the session), updates, objects on their way and acknowledgements
//! are lost, and no message of the interval says so. So the interval is not gone on with: what it had in memory is
//! forgotten, as it is when the acting set changes, and the group peers anew. The new interval has the same sets as the
//! one before, and begins with an epoch that the primary had not seen when the session ended, so that no version is
//! given out twice and no message of the one before is taken for one of it. Clients see nothing of that: their map says
//! what it said.

use crate::context::Context;
use crate::group::pg::Pg;
use crate::messages::peering::PgInterrupted;
use mutant::Mutant;
use types::OsdId;

impl Pg {
    /// Acts on the end of the session with another OSD, by which what was on its way between the two is lost.
    pub(crate) fn session_ended(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if self.core.is_primary(cx.whoami) {
            if self.core.others(cx.whoami).contains(&osd) {
                self.begin_with_newer_map(cx, &format!("the session with {osd} has ended"));
            }
        } else if self.core.interval.primary == Some(osd) {
            self.follow_no_longer(cx, osd);
        }
    }

    /// As member: stops following the primary, because a message of its interval was lost.
    pub(crate) fn follow_no_longer(&mut self, cx: &mut Context<'_>, primary: OsdId) {
        let Some(since) = self.peering.joined_since(primary) else { return };
        tracing::info!(pg = %self.core.id, %primary, %since, "does not follow any more: not all of the interval has come");
        let pg = self.core.pg_interval();
        self.end_interval_among_members(cx);
        self.core.not_before = self.core.not_before.max(since.next());
        cx.send_osd(primary, PgInterrupted { pg });
    }

    /// Begins anew, as a member does not follow in this interval any more.
    pub(crate) fn interrupted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgInterrupted) {
        if message.pg.since == self.core.interval.since && self.core.is_primary(cx.whoami) {
            self.session_ended(cx, from);
        }
    }

    /// As primary: ends the interval, and begins another one once there is a map that this OSD has not seen.
    pub(crate) fn begin_with_newer_map(&mut self, cx: &mut Context<'_>, why: &str) {
        // An interval that has not begun yet has lost nothing.
        if self.is_loading() || self.peering.awaits_map() {
            return;
        }
        tracing::info!(pg = %self.core.id, since = %self.core.interval.since, "peers anew: {why}");
        if mutant::is(Mutant::SameEpochAnew) {
            return self.start_interval_among_members(cx, self.core.interval.clone());
        }
        self.end_interval_among_members(cx);
        self.agreement().await_map(cx);
    }
}

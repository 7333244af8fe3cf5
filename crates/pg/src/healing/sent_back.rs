//! Objects that are not brought to where they are missing, since there is no room for them.
//!
//! The map tells which OSDs are so full that objects are not even sent. Where one that is sent meets no room all the
//! same, the receiver drops it and says so; it is sent again later.

use crate::context::Context;
use crate::healing::healer::Healer;
use crate::healing::work::{Blocked, Work};
use crate::messages::healing::PgPushAck;
use osdmap::OsdState;
use std::time::Duration;
use types::{ObjectId, OsdId};

/// Time for which nothing is sent to an OSD that had no room.
const RETRY_AFTER: Duration = Duration::from_secs(5);

impl Healer<'_> {
    /// Returns true if objects are not to be brought to an OSD, as far as it is known how full it is.
    pub(crate) fn is_too_full(&self, cx: &Context<'_>, osd: OsdId, work: Work) -> bool {
        let has = |state| cx.map.osd(osd).is_some_and(|osd| osd.state.contains(state));
        let by_map = match work {
            Work::Recovery => has(OsdState::FULL),
            Work::Backfill => has(OsdState::FULL) || has(OsdState::BACKFILLFULL),
        };
        by_map || self.state.sent_back.holds(osd, cx.now)
    }

    /// Goes on, about once a second, with what waited for room, or for metadata that can be read.
    pub(crate) fn try_full_again(&mut self, cx: &mut Context<'_>) {
        let now = cx.now;
        self.state.sent_back.until.retain(|_, until| now < *until);
        self.state.unlisted_until.retain(|_, until| now < *until);
        self.give_up_silent_scans(cx);
        // Work that is under way stops where an OSD has become full.
        if self.state.blocked != Blocked::default() || self.state.turn.work().is_some() {
            self.recover(cx);
        }
    }

    /// As receiver: sends back a piece of an object for which there is no room. `last`: it is the object's last piece.
    pub(crate) fn send_back(&mut self, cx: &mut Context<'_>, from: OsdId, object: ObjectId, last: bool) {
        tracing::debug!(pg = %self.core.id, %from, %object, "is not taken: there is no room");
        cx.store.want_room();
        self.drop_part(cx, &object);
        match last {
            true => self.state.sent_back.taken(&object),
            false => drop(self.state.sent_back.refused.insert(object.clone())),
        }
        if from != cx.whoami {
            let pg = self.core.pg_interval();
            cx.send_osd(from, PgPushAck { pg, object: Some(object.clone()), stored: false });
        }
        if self.core.is_primary(cx.whoami) {
            self.state.pulls.forget(&object);
            self.coded.forget_rebuild(&object);
            self.state.sent_back.until.insert(cx.whoami, cx.now + RETRY_AFTER);
            self.recover(cx);
        }
    }

    /// As sender: notes that the receiver had no room for the object.
    pub(crate) fn was_sent_back(&mut self, cx: &mut Context<'_>, from: OsdId, object: ObjectId) {
        let is_primary = self.core.is_primary(cx.whoami);
        let queue = self.state.pushes.get_mut(&from).expect("the caller has seen it");
        queue.unacked.remove(&object);
        if queue.reading.as_ref().is_some_and(|reading| reading.object == object) {
            (queue.reading, queue.waits_for) = (None, None);
        }
        if !is_primary {
            // The primary asks for it again.
            if queue.is_done() {
                self.state.pushes.remove(&from);
            }
            return self.send_soon(cx, from);
        }
        queue.want(object.clone());
        self.state.sent_back.until.insert(from, cx.now + RETRY_AFTER);
        if self.peering.is_active() {
            // Updates of it need not wait for it to arrive.
            self.object_is_here(cx, &object);
        }
        self.recover(cx);
    }
}

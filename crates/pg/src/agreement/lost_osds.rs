//! OSDs that the operator has given up (`ceph osd lost`, or removed them from the map): a group that waits for what
//! only they have goes on with what there is. Nothing else makes it do so.

use crate::agreement::machine::Agreement;
use crate::agreement::progress::Progress;
use crate::context::Context;
use crate::group::info::PgInfo;
use osdmap::OsdMap;
use types::{EVersion, Epoch, OsdId};
use wire::nacre::mon::PgHistory;

/// Returns true if the operator has given up what an OSD had when it served in the interval that began at `since`.
pub(crate) fn is_given_up(map: &OsdMap, osd: OsdId, since: Epoch) -> bool {
    map.osd(osd).is_none_or(|known| !known.is_up() && known.info.lost_at > since)
}

/// Returns true if a group waits for an OSD that served in the interval that began at `since`.
pub(crate) fn is_missed(map: &OsdMap, osd: OsdId, since: Epoch) -> bool {
    !map.is_up(osd) && !is_given_up(map, osd, since)
}

impl Progress<'_> {
    /// Returns the OSDs that the group waits for: they are down, and served last, or may have what the record does not
    /// say.
    pub(crate) fn blocked_by(self, map: &OsdMap) -> Vec<OsdId> {
        if !self.state.is_down() {
            return self.waits_in_doubt(map);
        }
        let history = self.state.history.iter();
        let waited_for = history.flat_map(|history| {
            let since = history.last_epoch_started;
            history.members.iter().filter(move |osd| is_missed(map, **osd, since))
        });
        waited_for.copied().collect()
    }
}

impl Agreement<'_> {
    /// Lets the OSD with the newest log lead, of those that served before, if all that served last are given up.
    /// Updates that it does not have are lost, whoever was answered for them. Returns true if the group goes on so.
    pub(super) fn goes_on_with_what_is_left(&mut self, cx: &mut Context<'_>, history: &PgHistory) -> bool {
        let since = history.last_epoch_started;
        if history.members.is_empty() || !history.members.iter().all(|osd| is_given_up(cx.map, *osd, since)) {
            return false;
        }
        // First all that may have something are asked.
        let all = self.with_past_members(cx, cx.whoami);
        if all.iter().any(|osd| !self.core.interval.acting.contains(osd)) {
            self.let_lead(cx, cx.whoami);
            return true;
        }
        let own = self.core.member_state();
        let of = |osd: OsdId, info: Option<&PgInfo>| {
            info.filter(|info| info.complete).map(|info| (osd, (info.last_epoch_started, info.last_update)))
        };
        let others = self.state.told.iter().filter_map(|(osd, state)| of(*osd, state.info.as_ref()));
        // The first of several equal logs wins, which is this member's own.
        let best = of(cx.whoami, own.info.as_ref()).into_iter().chain(others);
        let Some((osd, at)) = best.reduce(|a, b| if b.1 > a.1 { b } else { a }) else { return false };
        self.say_what_is_left(cx, history, osd, at);
        self.go_by_log_of(cx, osd);
        true
    }

    pub(super) fn say_what_is_left(
        &self,
        cx: &Context<'_>,
        history: &PgHistory,
        leads: OsdId,
        (served, version): (Epoch, EVersion),
    ) {
        let (members, last) = (&history.members, history.last_epoch_started);
        tracing::warn!(pg = %self.core.id, epoch = %cx.map.epoch, ?members, %last, %leads, %served, %version,
            "those that served last are given up; goes on with what others have");
    }
}

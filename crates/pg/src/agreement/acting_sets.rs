//! Acting sets that a primary has the monitors let stand in.

use crate::agreement::machine::Agreement;
use crate::agreement::phase::Phase;
use crate::coded::protection::Protection;
use crate::context::Context;
use crate::group::interval::Interval;
use mutant::Mutant;
use types::OsdId;
use wire::nacre::mon::PgHistory;

impl Agreement<'_> {
    /// Asks the monitors for an acting set in which `osd` leads. The group waits for it.
    pub(super) fn let_lead(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.state.phase = Phase::Remapping;
        let wanted = self.with_past_members(cx, osd);
        self.want_temp(cx, wanted);
        self.queue_report(cx);
    }

    /// Returns `first`, and all others that are in the acting or up set or may have something that is needed. OSDs that
    /// the record names come before the rest, as clients and tools see no more OSDs than the pool has copies.
    pub(super) fn with_past_members<'a>(&'a self, cx: &Context<'_>, first: OsdId) -> Vec<OsdId> {
        let past = |history: &'a PgHistory| history.past.iter().filter(|_| !mutant::is(Mutant::PastIgnored));
        let history = self.state.history.iter();
        let all = history.clone().flat_map(|history| &history.members);
        let all = all.chain(&self.core.interval.acting).chain(&self.core.interval.up).chain(history.flat_map(past));
        let mut osds = vec![first];
        for osd in all.filter(|osd| cx.map.is_up(**osd)) {
            if !osds.contains(osd) {
                osds.push(*osd);
            }
        }
        osds
    }

    pub(crate) fn want_temp(&mut self, cx: &mut Context<'_>, osds: Vec<OsdId>) {
        if self.state.temp_asked.as_ref() != Some(&osds) {
            tracing::debug!(pg = %self.core.id, ?osds, "wants another acting set");
            self.state.temp_asked = Some(osds.clone());
            cx.outbox.to_monitor.temps.push((self.core.id.base(), osds));
        }
    }

    /// Asks for the acting set that suits what members have, if that is another one than the present.
    pub(super) fn consider_temp(&mut self, cx: &mut Context<'_>) {
        if let Some(wanted) = self.suitable_acting_set(cx) {
            self.want_temp(cx, wanted);
        }
    }

    /// Asks for the acting set that suits what members have, before the group serves. Returns true if the group is to
    /// wait for that set: OSDs that served before are up and do not act, and fewer members serve than there are to be
    /// copies. Without them updates would be on fewer copies, though nobody has failed.
    pub(super) fn awaits_former_members(&mut self, cx: &mut Context<'_>) -> bool {
        if self.has_full_service() {
            return false;
        }
        let Some(wanted) = self.suitable_acting_set(cx) else { return false };
        let served = self.state.history.iter().flat_map(|history| history.members.iter().chain(&history.past));
        let may_come = |osd: &OsdId| wanted.contains(osd) && !self.core.interval.acting.contains(osd);
        let awaits = served.copied().any(|osd| may_come(&osd)) && !mutant::is(Mutant::FormerMembersNotAwaited);
        self.want_temp(cx, wanted);
        awaits
    }

    /// Returns true if as many members serve as there are to be copies.
    pub(super) fn has_full_service(&self) -> bool {
        self.whereabouts().serving_copies() >= usize::from(self.core.interval.shape.size)
    }

    /// Returns the acting set that suits what members have, if it is not the present one: the up set, in Ceph's way
    /// empty, once that has everything; until then also those that may have what others lack.
    fn suitable_acting_set(&self, cx: &Context<'_>) -> Option<Vec<OsdId>> {
        match self.core.protection() {
            Protection::Copies => self.suitable_copies(cx),
            Protection::Shards(_) => self.suitable_shards(cx),
        }
    }

    fn suitable_copies(&self, cx: &Context<'_>) -> Option<Vec<OsdId>> {
        let Interval { up, acting, .. } = &self.core.interval;
        let has_all = |osd: &OsdId| self.progress().is_recorded(*osd) && self.progress().lacks_nothing(*osd, cx.whoami);
        if up.is_empty() {
            return None;
        }
        if up.iter().all(has_all) {
            // An up set is too short where the map has no more OSDs for the group. Other members that serve then stay
            // in the acting set as further copies.
            let has_more = acting.iter().any(|osd| !up.contains(osd));
            let is_short =
                up.len() < usize::from(self.core.interval.shape.size) && !mutant::is(Mutant::ShortUpSetWanted);
            return (acting != up && !(is_short && has_more)).then(Vec::new);
        }
        let wanted = self.with_past_members(cx, cx.whoami);
        wanted.iter().any(|osd| !acting.contains(osd)).then_some(wanted)
    }
}

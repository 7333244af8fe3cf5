//! A shard's groups as operators see them.

use super::Shard;
use crate::healing::reservations::ReservationsView;
use crate::scrub::schedule::ScrubView;
use crate::tuning::{ScrubTuning, Tuning};
use crate::watch::WatchView;
use types::PgId;

/// One group of this OSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupView {
    pub pgid: PgId,
    pub is_primary: bool,
    /// False for a copy that the cluster does not count on any more.
    pub is_member: bool,
    /// Bits of [`wire::nacre::mon::pg_state`]; those that a primary knows.
    pub state: u64,
}

impl Shard {
    /// Sets the figures that operators may change, of the OSD with all its shards.
    pub fn set_tuning(&mut self, tuning: Tuning) {
        let shards = self.homes.shards();
        self.host.shared.reservations.set_slots(tuning.healing_groups.div_ceil(shards));
        if tuning.healing_pause != self.host.shared.tuning.healing_pause {
            self.host.shared.pacing.set_pause(tuning.healing_pause);
            // Groups that wait for the end of a pause look again.
            let (now, later) = (self.host.now, std::mem::take(&mut self.host.agenda.sends_later));
            self.host.agenda.sends_later = later.into_iter().map(|(at, id)| (at.min(now), id)).collect();
        }
        if tuning.scrubs.pause < self.host.shared.tuning.scrubs.pause {
            self.scrubs.end_pauses(self.host.now);
        }
        let scrubs = ScrubTuning { at_a_time: tuning.scrubs.at_a_time.div_ceil(shards), ..tuning.scrubs };
        self.host.shared.tuning = Tuning { scrubs, ..tuning };
    }

    /// Returns the figures in force.
    pub fn tuning(&self) -> Tuning {
        self.host.shared.tuning
    }

    /// Returns all groups, ordered.
    pub fn group_views(&self) -> Vec<GroupView> {
        let whoami = self.host.whoami;
        let view = |pg: &crate::group::pg::Pg| GroupView {
            pgid: pg.core.id,
            is_primary: pg.core.is_primary(whoami),
            is_member: pg.core.interval.acting.contains(&whoami) || pg.core.interval.up.contains(&whoami),
            state: if pg.core.is_primary(whoami) { pg.state_bits(whoami) } else { 0 },
        };
        self.groups().map(view).collect()
    }

    /// Shows who may heal, and who waits for that: as primary, and for other primaries.
    pub fn reservations(&self) -> (ReservationsView, ReservationsView) {
        self.host.shared.reservations.view()
    }

    /// Scrubs that lie ahead, in their order; empty while nothing is scrubbed unless somebody orders it.
    pub fn scrub_views(&self) -> Vec<ScrubView> {
        let whoami = self.host.whoami;
        let primaries = self.groups().filter(|pg| pg.core.is_primary(whoami));
        let now = self.host.unix_zero + self.host.now;
        let mut views: Vec<_> = primaries.filter_map(|pg| self.scrubs.view(pg.core.id, pg.scrub.mark(), now)).collect();
        views.sort_by_key(|view| (!view.ordered, view.at, view.pgid));
        views
    }

    /// Returns the groups that are being scrubbed.
    pub fn scrubs_now(&self) -> impl Iterator<Item = PgId> {
        self.scrubs.running()
    }

    /// Orders a scrub of a group that this OSD leads. Returns false if it does not lead the group.
    pub fn order_scrub(&mut self, pgid: PgId, deep: bool) -> bool {
        let id = self.instance(pgid);
        let leads = self.pgs.get(&id).is_some_and(|pg| pg.core.is_primary(self.host.whoami));
        if leads {
            self.scrubs.order(id, deep, false, self.host.now);
        }
        leads
    }

    /// Returns the clients that watch objects of groups that this OSD leads.
    pub fn watch_views(&self) -> Vec<WatchView> {
        self.groups().flat_map(|pg| pg.watches.views()).collect()
    }
}

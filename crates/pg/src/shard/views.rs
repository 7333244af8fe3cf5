//! A shard's groups as operators see them.

use super::Shard;
use crate::healing::reservations::ReservationsView;
use crate::scrub::schedule::ScrubView;
use crate::tuning::Tuning;
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
        self.host.shared.reservations.set_slots(tuning.healing_groups.div_ceil(self.homes.shards()));
        self.host.shared.tuning = tuning;
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

    /// Returns the group that is being scrubbed, if there is one.
    pub fn scrubs_now(&self) -> Option<PgId> {
        self.scrubs.current()
    }

    /// Has a group that this OSD leads scrubbed. False: it does not lead that group.
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

//! Agreement as a part of its group: what it is lent, and the steps that end an interval, or in which other parts act
//! between two of its own.

use crate::agreement::joining::Join;
use crate::agreement::machine::Agreement;
use crate::agreement::progress::Progress;
use crate::context::Context;
use crate::group::effects::Effect;
use crate::group::pg::Pg;
use crate::messages::PgInterval;
use crate::messages::peering::{Agreed, MemberState};
use types::OsdId;

impl Pg {
    /// Returns the group's agreement, with what it is lent.
    pub(crate) fn agreement(&mut self) -> Agreement<'_> {
        Agreement {
            state: &mut self.peering,
            core: &mut self.core,
            members: &mut self.members,
            durability: self.replication.durability_mut(),
            healing: &self.healing,
            old_shards: self.coded.old_shards(),
        }
    }

    /// Returns whom to ask how far the group is on its way to serving.
    pub(crate) fn progress(&self) -> Progress<'_> {
        Progress::new(self.whereabouts())
    }

    /// Goes on as time has passed.
    pub(crate) fn peering_tick(&mut self, cx: &mut Context<'_>) {
        self.agreement().look_again(cx);
        self.healer().try_full_again(cx);
        self.look_for_old_shards(cx);
        self.gatherer().gathers_wait_no_longer(cx);
        self.agreement().doubt_tick(cx);
        self.healer().reread(cx);
        if self.is_active() {
            self.updates().roll_forward_idle(cx);
            self.whereabouts().release_found(cx);
        }
        self.agreement().retry(cx);
    }

    /// Repeats what is waited for, if anything is.
    pub(crate) fn ask_again(&mut self, cx: &mut Context<'_>) {
        if !self.is_loading() {
            self.agreement().ask_again(cx);
        }
    }

    /// Joins the interval of a primary that asks what this member has. Returns that, or `None` if the map says
    /// something else about the group.
    pub(crate) fn join(
        &mut self,
        cx: &mut Context<'_>,
        from: OsdId,
        pg: PgInterval,
        agreed: &Agreed,
    ) -> Option<MemberState> {
        let join = self.agreement().may_join(from, pg, agreed)?;
        if join == Join::Anew {
            self.end_interval_among_members(cx);
        }
        if join != Join::Already {
            self.agreement().join(from, pg);
            self.requests.forget_share();
        }
        Some(self.core.member_state())
    }

    /// Notes that members have got further. The group acts on it once this input is handled.
    pub(crate) fn members_changed(&self, cx: &mut Context<'_>) {
        cx.cause(self.core.id, Effect::MembersChanged);
    }

    /// Acts on members that have got further.
    pub(crate) fn follow_members(&mut self, cx: &mut Context<'_>) {
        if self.agreement().may_follow_members(cx.now) {
            self.look_for_old_shards(cx);
            self.agreement().follow_members(cx);
        }
    }

    /// Tells the other parts of the group that it has become active.
    pub(crate) fn becomes_active(&mut self, cx: &mut Context<'_>) {
        assert!(self.replication.is_idle(), "an update was submitted before the group was active");
        self.updates().ask_members_for_room(cx);
        self.look_for_old_shards(cx);
        self.watches.look_again(cx, self.core.id);
        cx.shared.backoffs.release(self.core.id.base(), cx.map.epoch);
    }

    /// Returns the bits of the group's state, as Ceph names it.
    pub(crate) fn state_bits(&self, whoami: OsdId) -> u64 {
        self.progress().state_bits(whoami) | self.scrub.state_bits() | self.snap_trim.state_bits()
    }
}

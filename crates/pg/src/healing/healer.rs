//! Healing while it handles an input: its state, and the parts of its group that it is lent.

use super::state::Healing;
use super::whereabouts::Whereabouts;
use crate::agreement::members::Members;
use crate::agreement::phase::Peering;
use crate::coded::state::Coded;
use crate::context::Context;
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::updates::durability::Durability;
use types::{ObjectId, OsdId};

/// Healing at work.
///
/// * Inputs: what members say, lookups and commits that are done, slots, time, and what other parts have found out.
/// * Outputs: messages and transactions, by the context; all else that it causes is effects
///   ([`crate::group::effects`]).
pub(crate) struct Healer<'a> {
    pub(super) state: &'a mut Healing,
    pub(super) core: &'a mut Core,
    pub(super) members: &'a mut Members,
    pub(super) durability: &'a mut Durability,
    pub(super) coded: &'a mut Coded,
    pub(super) peering: &'a Peering,
}

impl<'a> Healer<'a> {
    pub fn new(
        state: &'a mut Healing,
        core: &'a mut Core,
        members: &'a mut Members,
        durability: &'a mut Durability,
        coded: &'a mut Coded,
        peering: &'a Peering,
    ) -> Healer<'a> {
        Healer { state, core, members, durability, coded, peering }
    }

    /// Returns whom to ask where objects are.
    pub fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(self.state, self.core, self.members, self.coded.old_shards(), self.peering)
    }

    fn cause(&self, cx: &mut Context<'_>, effect: Effect) {
        cx.cause(self.core.id, effect);
    }

    /// Orders that objects are brought to where they are missing.
    pub(super) fn recover(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::Recover);
    }

    /// Orders that sending to a member goes on.
    pub(super) fn send_soon(&self, cx: &mut Context<'_>, to: OsdId) {
        self.cause(cx, Effect::Send(to));
    }

    pub(super) fn members_changed(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::MembersChanged);
    }

    pub(super) fn queue_report(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::Report);
    }

    /// Orders that operations on an object are tried.
    pub(super) fn object_is_here(&self, cx: &mut Context<'_>, object: &ObjectId) {
        self.cause(cx, Effect::RunObject(object.head_of()));
    }

    /// Orders that all operations on the group's objects are tried.
    pub(super) fn run_objects(&self, cx: &mut Context<'_>) {
        let (from, until) = self.core.range();
        self.cause(cx, Effect::RunObjects { from, until });
    }
}

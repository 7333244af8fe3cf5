//! Agreement while it handles an input: its state, and the parts of its group that it is lent.

use super::phase::Peering;
use super::progress::Progress;
use crate::agreement::members::Members;
use crate::coded::old_shards::OldShards;
use crate::context::Context;
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::healing::state::Healing;
use crate::healing::whereabouts::Whereabouts;
use crate::updates::durability::Durability;

/// Agreement at work.
///
/// * Inputs: what members and monitors say, commits that are done, members that have got further, and time.
/// * Outputs: messages and transactions, by the context; all else that it causes is effects
///   ([`crate::group::effects`]).
///
/// It asks healing, and what is known of former members' shards, where objects are, and changes neither.
pub(crate) struct Agreement<'a> {
    pub(super) state: &'a mut Peering,
    pub(super) core: &'a mut Core,
    pub(super) members: &'a mut Members,
    pub(super) durability: &'a mut Durability,
    pub(super) healing: &'a Healing,
    pub(super) old_shards: &'a OldShards,
}

impl Agreement<'_> {
    /// Returns whom to ask where objects are.
    pub(super) fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(self.healing, self.core, self.members, self.old_shards, self.state)
    }

    /// Returns whom to ask how far the group is.
    pub(super) fn progress(&self) -> Progress<'_> {
        Progress::new(self.whereabouts())
    }

    pub(super) fn cause(&self, cx: &mut Context<'_>, effect: Effect) {
        cx.cause(self.core.id, effect);
    }

    /// Notes that members have got further. The group acts on it once this input is handled.
    pub(super) fn members_changed(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::MembersChanged);
    }

    pub(super) fn queue_report(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::Report);
    }

    /// Asks clients to keep the operations that wait here, if the group will not serve soon.
    pub(super) fn hold_clients_back(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::HoldClientsBack);
    }
}

//! Updates while they handle an input: their state, and the parts of their group that they are lent.

use super::replication::Replication;
use crate::agreement::members::Members;
use crate::agreement::phase::Peering;
use crate::coded::old_shards::OldShards;
use crate::context::Context;
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::healing::state::Healing;
use crate::healing::whereabouts::Whereabouts;
use crate::scrub::counts::ScrubCounts;

/// Updates at work.
///
/// * Inputs: executed operations that are prepared, commits here, acknowledgements, and what the primary sends.
/// * Outputs: messages and transactions, by the context. The caller needs some of what they come to at once, which is
///   what methods return; all else that they cause is effects ([`crate::group::effects`]).
///
/// They ask members, healing, and what is known of former members' shards who has an object, and change none of them.
pub(crate) struct Updates<'a> {
    pub(super) state: &'a mut Replication,
    pub(super) core: &'a mut Core,
    pub(super) counts: ScrubCounts<'a>,
    pub(super) members: &'a Members,
    pub(super) peering: &'a Peering,
    pub(super) healing: &'a Healing,
    pub(super) old_shards: &'a OldShards,
}

impl<'a> Updates<'a> {
    pub fn new(
        state: &'a mut Replication,
        core: &'a mut Core,
        counts: ScrubCounts<'a>,
        members: &'a Members,
        peering: &'a Peering,
        healing: &'a Healing,
        old_shards: &'a OldShards,
    ) -> Updates<'a> {
        Updates { state, core, counts, members, peering, healing, old_shards }
    }
}

impl Updates<'_> {
    /// Returns whom to ask where objects are.
    pub(super) fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(self.healing, self.core, self.members, self.old_shards, self.peering)
    }

    pub(super) fn cause(&self, cx: &mut Context<'_>, effect: Effect) {
        cx.cause(self.core.id, effect);
    }

    /// Notes that members have got further. The group acts on it once this input is handled.
    pub(super) fn members_changed(&self, cx: &mut Context<'_>) {
        self.cause(cx, Effect::MembersChanged);
    }
}

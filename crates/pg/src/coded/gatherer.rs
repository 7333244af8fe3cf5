//! Reads over shards while they handle an input: their state, and the parts of their group that they ask.

use super::state::Coded;
use crate::agreement::members::Members;
use crate::agreement::phase::Peering;
use crate::context::Context;
use crate::group::core::Core;
use crate::group::effects::Effect;
use crate::healing::state::Healing;
use crate::healing::whereabouts::Whereabouts;
use crate::intake::state::Requests;

/// Reads over shards at work.
///
/// * Inputs: wishes for bytes of an object, shards' bytes and questions for them, lookups that are done, and time.
/// * Outputs: messages, by the context, and ends of reads, which are those of lookups; all else that they cause is
///   effects ([`crate::group::effects`]).
///
/// Their own state is all that they change.
pub(crate) struct Gatherer<'a> {
    pub(super) state: &'a mut Coded,
    pub(super) core: &'a Core,
    pub(super) members: &'a Members,
    pub(super) peering: &'a Peering,
    pub(super) healing: &'a Healing,
    pub(super) requests: &'a Requests,
}

impl<'a> Gatherer<'a> {
    pub fn new(
        state: &'a mut Coded,
        core: &'a Core,
        members: &'a Members,
        peering: &'a Peering,
        healing: &'a Healing,
        requests: &'a Requests,
    ) -> Gatherer<'a> {
        Gatherer { state, core, members, peering, healing, requests }
    }
}

impl Gatherer<'_> {
    /// Returns whom to ask where objects are.
    pub(super) fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(self.healing, self.core, self.members, self.state.old_shards(), self.peering)
    }

    pub(super) fn cause(&self, cx: &mut Context<'_>, effect: Effect) {
        cx.cause(self.core.id, effect);
    }
}

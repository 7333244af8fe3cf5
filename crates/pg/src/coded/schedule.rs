//! Reads over shards as a part of their group: what they are lent, and the steps between two of which healing acts.

use crate::coded::gatherer::Gatherer;
use crate::context::Context;
use crate::group::pg::Pg;
use types::ObjectId;

impl Pg {
    /// Returns the group's reads over shards, with what they are lent.
    pub(crate) fn gatherer(&mut self) -> Gatherer<'_> {
        Gatherer::new(&mut self.coded, &self.core, &self.members, &self.peering, &self.healing, &self.requests)
    }

    /// Finds out who is there that served before. Where somebody has come, or time has passed, healing tries again what
    /// could not be read, before anybody asks what can be had.
    pub(crate) fn look_for_old_shards(&mut self, cx: &mut Context<'_>) {
        if self.gatherer().finds_old_shards(cx) {
            self.healer().try_unreadable_again(cx);
        }
    }

    /// Has healing take a piece of this OSD's own shard that has been computed, and goes on with the next one.
    pub(crate) fn take_own_piece(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let Some(piece) = self.gatherer().take_piece(object) else { return };
        let is_last = piece.last;
        self.healer().pushed(cx, cx.whoami, piece);
        if !is_last {
            self.gatherer().rebuild_on(cx, object);
        }
    }
}

//! Healing as a part of its group: what it is lent, and the steps for which bytes of several shards are gathered. These
//! reads are the group's.

use crate::context::Context;
use crate::group::pg::Pg;
use crate::healing::healer::Healer;
use crate::healing::object_reading::ShardWanted;
use crate::healing::whereabouts::Whereabouts;
use store::LookupId;
use types::OsdId;

impl Pg {
    /// Returns the group's healing, with what it is lent.
    pub(crate) fn healer(&mut self) -> Healer<'_> {
        let durability = self.replication.durability_mut();
        let (core, members, coded) = (&mut self.core, &mut self.members, &mut self.coded);
        Healer::new(&mut self.healing, core, members, durability, coded, &self.peering)
    }

    /// Returns whom to ask where the group's objects are.
    pub(crate) fn whereabouts(&self) -> Whereabouts<'_> {
        Whereabouts::new(&self.healing, &self.core, &self.members, self.coded.old_shards(), &self.peering)
    }

    /// Sends to one member until it has enough to acknowledge, or a lookup must be waited for.
    pub(crate) fn send_to(&mut self, cx: &mut Context<'_>, to: OsdId) {
        if let Some(wanted) = self.healer().push_on(cx, to) {
            let id = self.gather_wanted(cx, wanted);
            self.healer().push_waits(cx, to, id);
        }
    }

    /// Goes on sending, as clients' latency may allow more by now.
    pub(crate) fn send_on(&mut self, cx: &mut Context<'_>) {
        let receivers = self.healer().receivers();
        receivers.into_iter().for_each(|osd| self.send_to(cx, osd));
        self.gatherer().rebuild_held(cx);
    }

    /// Reads objects again to where a lookup must be waited for, or the round ends.
    pub(crate) fn reread_on(&mut self, cx: &mut Context<'_>) {
        if let Some(wanted) = self.healer().reread_on(cx) {
            let id = self.gather_wanted(cx, wanted);
            self.healer().reread_waits(cx, id);
        }
    }

    fn gather_wanted(&mut self, cx: &mut Context<'_>, wanted: ShardWanted) -> LookupId {
        let ShardWanted { object, version, wanted, but } = wanted;
        self.gatherer().gather(cx, &object, version, wanted, but)
    }
}

//! The steps of healing for which bytes of several shards are gathered: these reads are the group's.

use crate::context::Context;
use crate::group::pg::Pg;
use crate::healing::object_reading::ShardWanted;
use store::LookupId;
use types::OsdId;

impl Pg {
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
        self.rebuild_held(cx);
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
        self.gather(cx, &object, version, wanted, but)
    }
}

//! Members of erasure-coded groups learn which updates will stay, and need not be taken back there.

use crate::context::Context;
use crate::messages::coded::RollForward;
use crate::updates::machine::Updates;
use types::OsdId;

impl Updates<'_> {
    /// As primary, now and then: tells members that the last updates will stay. While updates come, each tells so of
    /// those before it.
    pub(crate) fn roll_forward_idle(&mut self, cx: &mut Context<'_>) {
        let committed = self.state.durability().committed();
        if !self.core.protection().keeps_undo() || self.state.told_forward >= committed {
            return;
        }
        self.state.told_forward = committed;
        let pg = self.core.pg_interval();
        let receiving: Vec<OsdId> = self.members.receiving().map(|(osd, _)| osd).collect();
        for osd in receiving {
            cx.send_osd(osd, RollForward { pg, committed });
        }
        self.core.roll_forward(cx, committed);
    }

    /// As member: takes the primary's word that updates will stay.
    pub(crate) fn forward_told(&mut self, cx: &mut Context<'_>, from: OsdId, message: &RollForward) {
        if self.peering.follows(from, message.pg.since) {
            self.core.roll_forward(cx, message.committed);
        }
    }
}

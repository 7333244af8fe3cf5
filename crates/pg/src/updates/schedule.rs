//! Updates as a part of their group: what they are lent, and the steps in which other parts act on what becomes of an
//! update. The walk over removed snapshots goes on from here, too, as the group tells whether it may.

use crate::context::Context;
use crate::group::pg::Pg;
use crate::messages::replication::RepOp;
use crate::scrub::counts::ScrubCounts;
use crate::updates::machine::Updates;
use std::time::Duration;
use store::LookupId;
use types::{ObjectId, OsdId};

impl Pg {
    /// Returns the group's updates, with what they are lent.
    pub(crate) fn updates(&mut self) -> Updates<'_> {
        let counts = ScrubCounts::of(&mut self.scrub);
        Updates::new(
            &mut self.replication,
            &mut self.core,
            counts,
            &self.members,
            &self.peering,
            &self.healing,
            self.coded.old_shards(),
        )
    }

    /// As member: takes the primary's update, whose first byte came at `began`. `encoded`: its log entry, if that is
    /// still as it came.
    pub(crate) fn rep_op(
        &mut self,
        cx: &mut Context<'_>,
        from: OsdId,
        message: RepOp,
        encoded: Option<&[u8]>,
        began: Duration,
    ) {
        if let Some(committed) = self.updates().update_came(cx, from, message, encoded, began) {
            self.requests.all_have(committed);
        }
    }

    /// Takes an object back to what it was, if agreement has found a way.
    pub(crate) fn go_back(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if let Some(way) = self.agreement().take_way_back(object)
            && let Some(went_back) = self.updates().log_way_back(cx, object, way)
        {
            self.healer().went_back(&went_back);
        }
    }

    /// Goes on with what is to be removed, if there is anything.
    pub(crate) fn trim_on(&mut self, cx: &mut Context<'_>) {
        if self.snap_trim.is_concerned(&self.core, cx) {
            let is_clean = self.core.missing.is_empty() && self.may_scrub(cx);
            self.snap_trim.go_on(&self.core, cx, is_clean);
        }
    }

    /// Removes states of an object, unless the interval has ended in which their removal was decided.
    pub(crate) fn trim_object(&mut self, cx: &mut Context<'_>, object: ObjectId) {
        if self.snap_trim.is_wanted(&object) {
            self.with_intake(cx, |intake, cx| intake.queue_trim(cx, object));
        }
    }

    /// Goes on with the walk if it has waited for this lookup.
    pub(crate) fn trim_lookup_done(&mut self, cx: &mut Context<'_>, id: LookupId) {
        if self.snap_trim.lookup_done(id) {
            self.trim_on(cx);
        }
    }
}

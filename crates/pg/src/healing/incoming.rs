//! Parts of objects that have come and are dropped again.

use crate::context::{Context, OnCommit};
use crate::group::digests::Wrong;
use crate::group::pg::Pg;
use crate::healing::receiving::drop_steps;
use crate::messages::healing::PgPushAck;
use store::Transaction;
use types::{ObjectId, OsdId};

impl Pg {
    /// Refuses an object that has come and is not what its digests say. A primary looks for it elsewhere, and so does
    /// the member that has sent it.
    pub(crate) fn refuse_wrong(&mut self, cx: &mut Context<'_>, from: OsdId, object: ObjectId, wrong: Wrong) {
        tracing::error!(pg = %self.core.id, %from, %object, "what came of an object is not taken: {wrong}");
        if self.core.is_primary(cx.whoami) {
            return self.pull_failed(cx, from, object);
        }
        self.drop_part(cx, &object);
        let pg = self.core.pg_interval();
        cx.send_osd(from, PgPushAck { pg, object: Some(object), stored: false });
    }

    /// Drops the part that has come of an object, if any has.
    pub(crate) fn drop_part(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        if self.receiving.forget(object) {
            let steps = drop_steps(object).into();
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
    }

    /// Drops the parts that have come of all objects that are not whole.
    pub(crate) fn drop_parts(&mut self, cx: &mut Context<'_>) {
        let steps = self.receiving.forget_all();
        if !steps.is_empty() {
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
    }
}

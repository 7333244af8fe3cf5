//! Objects that come from other members: pieces that are taken, refused or dropped again.

use crate::agreement::members::Standing;
use crate::context::{Context, OnCommit};
use crate::group::digests::Wrong;
use crate::group::effects::Effect;
use crate::group::missing::found_step;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::healing::healer::Healer;
use crate::healing::receiving::{drop_steps, piece_steps};
use crate::healing::whereabouts::UNKNOWN_VERSION;
use crate::messages::healing::{PgPush, PgPushAck};
use mutant::Mutant;
use store::Transaction;
use types::{Epoch, ObjectId, OsdId};
use wire::Decode;

impl Healer<'_> {
    /// Takes a piece that has come. The acknowledgement follows when it is durable.
    pub(crate) fn pushed(&mut self, cx: &mut Context<'_>, from: OsdId, push: PgPush) {
        let since = push.pg.since;
        let as_primary = self.core.is_primary(cx.whoami) && since == self.core.interval.since;
        if !as_primary && !self.peering.follows(from, since) {
            return;
        }
        if push.end_of_all {
            if self.core.log.head() < push.version && !mutant::is(Mutant::CompleteWithoutLog) {
                let (head, wanted) = (self.core.log.head(), push.version);
                tracing::error!(pg = %self.core.id, %from, %head, %wanted, "updates are missing");
                return cx.cause(self.core.id, Effect::SessionEnded(from));
            }
            // The group does not build on this before the monitors have recorded that this member serves.
            self.core.info.complete = true;
            self.core.info.last_backfill = None;
            self.core.info.last_epoch_started = since;
            let steps = vec![self.core.info.step()];
            let then = OnCommit::Pushed { from, since, object: None };
            return cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
        }
        let former = self.peering.former_version(&push.object).filter(|_| as_primary);
        if as_primary {
            if self.state.pulls.source_in_flight(&push.object) != Some(from) {
                return;
            }
            let is_wanted = || {
                let info = ObjectInfo::from_slice(push.attrs.get(OBJECT_INFO_ATTR)?).ok()?;
                let wanted = former.or(self.core.missing.get(&push.object).copied());
                // Nobody who serves has an older one than is wanted.
                let is_any = wanted == Some(UNKNOWN_VERSION) && self.members.standing(from) == Some(Standing::Serving);
                (wanted == Some(info.version) || is_any || mutant::is(Mutant::PullsAnyVersion)).then_some(())
            };
            if push.absent || push.first && is_wanted().is_none() {
                return self.pull_failed(cx, from, push.object);
            }
        }
        let (object, last, size_bytes) = (push.object.clone(), push.last, push.size_bytes);
        if !push.first && self.state.sent_back.is_refused(&object) {
            return;
        }
        if self.state.receiving.follows(from, &push).is_err() {
            let (version, piece) = (push.version, push.piece);
            tracing::error!(pg = %self.core.id, %from, %object, %version, piece, "pieces of an object are missing");
            return cx.cause(self.core.id, Effect::SessionEnded(from));
        }
        let (version, first) = (push.version, push.first);
        let digested = match self.state.receiving.with_piece(&push, self.core.id.pool.shard()) {
            Ok(digested) => digested,
            Err(wrong) => return self.refuse_wrong(cx, from, object, wrong),
        };
        if first && last {
            self.drop_part(cx, &object);
        }
        let mut steps = piece_steps(push);
        let growth_bytes = store::growth_bytes(&steps);
        if growth_bytes > 0 && !cx.has_own_room(growth_bytes) {
            return self.send_back(cx, from, object, last);
        }
        self.state.sent_back.taken(&object);
        self.state.receiving.taken(from, &object, version, (first, last), digested);
        if !last {
            return cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
        let then = OnCommit::Pushed { from, since, object: Some(object.clone()) };
        if former.is_some() {
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
            self.state.pulls.forget(&object);
            return cx.cause(self.core.id, Effect::FormerCame(object));
        }
        if self.core.missing.remove(&object).is_some() {
            steps.push(found_step(&object));
        }
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
        if as_primary {
            self.pulled(cx, &object, size_bytes);
        }
    }

    /// Acts on a pushed object, or everything, being durable here.
    pub(crate) fn push_durable(&mut self, cx: &mut Context<'_>, from: OsdId, since: Epoch, object: Option<ObjectId>) {
        if since != self.core.interval.since {
            return;
        }
        if let Some(object) = &object {
            self.pull_durable(cx, object);
        }
        // An object that this OSD has computed itself needs no acknowledgement.
        if from != cx.whoami {
            let pg = self.core.pg_interval();
            cx.send_osd(from, PgPushAck { pg, object, stored: true });
        }
    }

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
        if self.state.receiving.forget(object) {
            let steps = drop_steps(object).into();
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
    }

    /// Drops the parts that have come of all objects that are not whole.
    pub(crate) fn drop_parts(&mut self, cx: &mut Context<'_>) {
        let steps = self.state.receiving.forget_all();
        if !steps.is_empty() {
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
    }
}

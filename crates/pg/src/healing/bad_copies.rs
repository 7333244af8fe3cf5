//! Copies that turned out to be bad are noted as missing where they are, durably; recovery then brings them.

use super::work::Work;
use crate::context::{Context, OnCommit};
use crate::group::effects::{BadCopies, Effect};
use crate::group::missing::missing_step;
use crate::healing::healer::Healer;
use crate::messages::scrub::ScrubBad;
use store::{Step, Transaction};
use types::{EVersion, ObjectId, OsdId};

impl Healer<'_> {
    /// Replaces or removes bad copies. A bad shard stays if too few others are good to compute it from.
    pub(crate) fn replace_bad(&mut self, cx: &mut Context<'_>, copies: BadCopies) {
        let BadCopies { object, bad, version, reason } = copies;
        if version.is_some() && !self.core.protection().is_whole_on_each() {
            let good = self.whereabouts().shards_without(&object, |osd| bad.contains(&osd));
            let needed = self.core.protection().needed();
            if good < needed {
                return tracing::error!(pg = %self.core.id, %object, ?bad, good, needed, "too few of its shards are good");
            }
        }
        tracing::warn!(pg = %self.core.id, %object, ?bad, ?version, "bad copies are replaced: {reason}");
        let pg = self.core.pg_interval();
        let whoami = cx.whoami;
        for osd in bad.iter().filter(|osd| **osd != whoami) {
            cx.send_osd(*osd, ScrubBad { pg, object: object.clone(), version });
            if let Some(version) = version {
                self.members.lost(*osd, object.clone(), version);
            }
        }
        if bad.contains(&cx.whoami) {
            self.copy_is_bad(cx, object, version);
        }
        if version.is_some() {
            self.objects_were_lost(cx);
        }
    }

    /// Brings objects that turned out to be missing to where they are missing, even if it is the group's turn already.
    pub(crate) fn objects_were_lost(&mut self, cx: &mut Context<'_>) {
        if self.state.turn.does(Work::Recovery) {
            self.queue_missing();
        }
        self.members_changed(cx);
        self.recover(cx);
    }

    /// As member: acts on a copy of this OSD that the primary has found bad.
    pub(crate) fn scrub_bad(&mut self, cx: &mut Context<'_>, from: OsdId, message: ScrubBad) {
        if self.peering.follows(from, message.pg.since) {
            tracing::warn!(pg = %self.core.id, object = %message.object, "the copy here is bad, or nobody has a sound one");
            self.copy_is_bad(cx, message.object, message.version);
        }
    }

    fn copy_is_bad(&mut self, cx: &mut Context<'_>, object: ObjectId, version: Option<EVersion>) {
        let step = match version {
            Some(version) => {
                cx.cause(self.core.id, Effect::LostHere(object.clone()));
                let step = missing_step(&object, version);
                cx.shared.bad_copies += u64::from(self.core.missing.insert(object, version).is_none());
                step
            }
            None => Step::Remove { object },
        };
        cx.submit_or_stop(Transaction { pg: self.core.id, steps: vec![step] }, OnCommit::Nothing);
    }

    /// As primary: notes that a shard of an object turned out to be bad. It is missing there from now on.
    pub(crate) fn shard_is_bad(&mut self, cx: &mut Context<'_>, osd: OsdId, object: &ObjectId, version: EVersion) {
        // Members must have enough: only of them it is known.
        let good = self.whereabouts().shards_without(object, |of| of == osd);
        let is_spare = good >= self.core.protection().needed();
        if !self.core.is_primary(cx.whoami) || !self.peering.may_recover() || !is_spare {
            return;
        }
        // Another read has reported the bad shard. Its replacement is on its way, and must not be taken for the bad
        // shard.
        if self.members.lacks(osd, object) {
            return;
        }
        if osd == cx.whoami {
            return self.object_damaged(cx, object, version);
        }
        tracing::warn!(pg = %self.core.id, %osd, %object, %version, "its shard is bad and is computed anew");
        let pg = self.core.pg_interval();
        cx.send_osd(osd, ScrubBad { pg, object: object.clone(), version: Some(version) });
        self.members.lost(osd, object.clone(), version);
        self.objects_were_lost(cx);
    }

    /// Acts on this OSD's own shard of an object being wrong as it was computed. If the shards are known that made it
    /// so, it is computed anew, of others.
    pub(crate) fn own_shard_is_wrong(
        &mut self,
        cx: &mut Context<'_>,
        object: ObjectId,
        version: EVersion,
        bad: &[OsdId],
    ) {
        match self.sources_are_bad(cx, &object, version, bad) {
            true => self.pull_anew(cx, &object),
            false => self.pull_failed(cx, cx.whoami, object),
        }
    }

    /// Notes that these shards are bad. Returns true if at least one of them is missing now: others can do without it.
    pub(super) fn sources_are_bad(
        &mut self,
        cx: &mut Context<'_>,
        object: &ObjectId,
        version: EVersion,
        wrong: &[OsdId],
    ) -> bool {
        for osd in wrong {
            tracing::error!(pg = %self.core.id, %osd, %object, %version, "its shard is not what its digest says");
            self.shard_is_bad(cx, *osd, object, version);
        }
        let is_missing = |osd: &OsdId| match *osd == cx.whoami {
            true => self.core.missing.contains_key(object),
            false => self.members.lacks(*osd, object),
        };
        wrong.iter().any(is_missing)
    }
}

//! Copies that turned out to be bad are noted as missing where they are, durably; recovery then brings them.

use super::work::Work;
use crate::context::{Context, OnCommit};
use crate::group::effects::BadCopies;
use crate::group::missing::missing_step;
use crate::group::pg::Pg;
use crate::messages::scrub::ScrubBad;
use std::collections::BTreeSet;
use store::{Step, Transaction};
use types::{EVersion, ObjectId, OsdId};

impl Pg {
    /// Has bad copies replaced, or removed. Shards of which too few others are good stay.
    pub(crate) fn replace_bad(&mut self, cx: &mut Context<'_>, copies: BadCopies) {
        let BadCopies { object, bad, version, reason } = copies;
        if version.is_some() && !self.core.protection().is_whole_on_each() {
            let good = self.shard_sources(&object).into_iter().filter(|source| !bad.contains(&source.osd));
            let (good, needed) =
                (good.map(|source| source.shard).collect::<BTreeSet<usize>>().len(), self.core.protection().needed());
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

    /// Has objects that turned out to be missing brought to where they are missing, also if it is the group's turn
    /// already.
    pub(crate) fn objects_were_lost(&mut self, cx: &mut Context<'_>) {
        if self.healing.does(Work::Recovery) {
            self.queue_missing();
        }
        self.members_changed(cx);
        self.recover(cx);
    }

    /// As member: acts on a copy of this OSD that the primary has found bad.
    pub(crate) fn scrub_bad(&mut self, cx: &mut Context<'_>, from: OsdId, message: ScrubBad) {
        if self.follows(from, message.pg.since) {
            tracing::warn!(pg = %self.core.id, object = %message.object, "the copy here is bad, or nobody has a sound one");
            self.copy_is_bad(cx, message.object, message.version);
        }
    }

    fn copy_is_bad(&mut self, cx: &mut Context<'_>, object: ObjectId, version: Option<EVersion>) {
        let step = match version {
            Some(version) => {
                self.ops.forget_answers(&object);
                self.refuse_replica_reads(cx);
                let step = missing_step(&object, version);
                self.core.missing.insert(object, version);
                step
            }
            None => Step::Remove { object },
        };
        cx.submit_or_stop(Transaction { pg: self.core.id, steps: vec![step] }, OnCommit::Nothing);
    }
}

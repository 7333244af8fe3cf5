//! What is bad is noted as missing where it is, durably; recovery then brings it.

use super::messages::ScrubBad;
use super::verdict::{Finding, Verdict};
use crate::context::{Context, OnCommit};
use crate::healing::Work;
use crate::pg::Pg;
use store::{Step, Transaction};
use types::{EVersion, ObjectId, OsdId};

impl Pg {
    /// Does what a finding's verdict says.
    pub(super) fn repair(&mut self, cx: &mut Context<'_>, finding: &Finding) {
        let (bad, version) = match &finding.verdict {
            Verdict::Replace { bad, version } => (bad, Some(*version)),
            Verdict::Remove { bad } => (bad, None),
            Verdict::Undecided => return,
        };
        let object = &finding.object;
        if version.is_some()
            && let Some(coded) = &self.coded
        {
            let good = self.shard_sources(object).into_iter().filter(|source| !bad.contains(&source.osd));
            let shards: std::collections::BTreeSet<usize> = good.map(|source| source.shard).collect();
            if shards.len() < coded.coding.k() {
                let (good, needed) = (shards.len(), coded.coding.k());
                return tracing::error!(pg = %self.id, %object, ?bad, good, needed, "too few of its shards are good");
            }
        }
        tracing::warn!(pg = %self.id, %object, ?bad, ?version, "bad copies are replaced: {}", finding.reason);
        let pg = self.pg_interval();
        let whoami = cx.whoami;
        for osd in bad.iter().filter(|osd| **osd != whoami) {
            cx.send_osd(*osd, ScrubBad { pg, object: object.clone(), version });
            if let Some(version) = version {
                self.members.lost(*osd, object.clone(), version);
            }
        }
        if bad.contains(&cx.whoami) {
            self.copy_is_bad(cx, object.clone(), version);
        }
        if version.is_some() {
            self.objects_were_lost(cx);
        }
    }

    /// Has what turned out to be missing brought to where it is missing, also if it is the group's turn already.
    pub(crate) fn objects_were_lost(&mut self, cx: &mut Context<'_>) {
        if self.healing.does(Work::Recovery) {
            self.queue_missing();
        }
        self.members_changed(cx);
        self.recover(cx);
    }

    /// As member: the primary has found this copy bad.
    pub(crate) fn scrub_bad(&mut self, cx: &mut Context<'_>, from: OsdId, message: ScrubBad) {
        if self.follows(from, message.pg.since) {
            tracing::warn!(pg = %self.id, object = %message.object, "the copy here is bad, or nobody has a sound one");
            self.copy_is_bad(cx, message.object, message.version);
        }
    }

    fn copy_is_bad(&mut self, cx: &mut Context<'_>, object: ObjectId, version: Option<EVersion>) {
        let step = match version {
            Some(version) => {
                self.ops.forget_answers(&object);
                self.refuse_replica_reads(cx);
                let step = Pg::missing_step(&object, version);
                self.missing.insert(object, version);
                step
            }
            None => Step::Remove { object },
        };
        cx.submit_or_stop(Transaction { pg: self.id, steps: vec![step] }, OnCommit::Nothing);
    }
}

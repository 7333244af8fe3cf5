//! What is bad is noted as missing where it is, durably; recovery then brings it.

use super::record::Record;
use super::verdict::{Choice, Finding, Verdict};
use crate::context::{Context, OnCommit};
use crate::group::pg::Pg;
use crate::healing::turn::Work;
use crate::messages::scrub::ScrubBad;
use store::{Step, Transaction};
use types::{EVersion, ObjectId, OsdId, ReqId};

/// Why no copy is kept.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum KeepCopyError {
    #[error("this OSD is not the primary of the group")]
    NotPrimary,
    #[error("the group does not serve")]
    NotActive,
    #[error(
        "the last scrub has found nothing wrong with an object of that name; 'ceph pg deep-scrub' looks again, and \
         'rados list-inconsistent-obj' lists what it finds"
    )]
    NotFound,
    #[error("several objects have that name; name it whole, as '{0}'")]
    Ambiguous(String),
    #[error("{0}")]
    NoChoice(&'static str),
    #[error("the object has changed since it was scrubbed; scrub it again")]
    Changed,
}

/// What comes of an operator's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// The other copies are replaced.
    Replaces,
    /// No copy was what its digest says. Those of the chosen one are recorded: a deep scrub replaces the others.
    Recorded,
}

impl Pg {
    /// Does what a finding's verdict says.
    pub(super) fn repair(&mut self, cx: &mut Context<'_>, finding: &Finding) {
        let (bad, version) = match &finding.verdict {
            Verdict::Replace { bad, version } => (bad, Some(*version)),
            Verdict::Remove { bad } => (bad, None),
            Verdict::Undecided => return,
        };
        let object = &finding.object;
        if version.is_some() && !self.protection().is_whole_on_each() {
            let good = self.shard_sources(object).into_iter().filter(|source| !bad.contains(&source.osd));
            let shards: std::collections::BTreeSet<usize> = good.map(|source| source.shard).collect();
            let (good, needed) = (shards.len(), self.protection().needed());
            if good < needed {
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

    /// On the operator's word: of an object whose copies differ, as the last scrub found it, that on `osd` is kept.
    /// `name`: the object's name, or the whole of what the scrub has called it, if several have that name.
    pub(crate) fn keep_copy(&mut self, cx: &mut Context<'_>, name: &str, osd: OsdId) -> Result<Kept, KeepCopyError> {
        if !self.is_active() {
            return Err(KeepCopyError::NotActive);
        }
        let found = self.scrub.findings.iter().flatten().map(|(_, finding)| finding);
        let is_named =
            |finding: &&Finding| finding.object.to_string() == name || finding.object.name == name.as_bytes();
        let named: Vec<&Finding> = found.filter(is_named).collect();
        let finding = match named[..] {
            [] => return Err(KeepCopyError::NotFound),
            [finding] => finding,
            [first, ..] => return Err(KeepCopyError::Ambiguous(first.object.to_string())),
        };
        let choice = finding.chosen(osd).map_err(KeepCopyError::NoChoice)?;
        let version = match &choice {
            Choice::Replace(Finding { verdict: Verdict::Replace { version, .. }, .. }) => *version,
            Choice::Replace(_) => unreachable!("a choice replaces"),
            Choice::Record { version, .. } => *version,
        };
        let (object, (shallow, deep)) = (finding.object.clone(), finding.counts());
        let has_changed = self.log.entries().rev().any(|entry| entry.object == object && entry.version > version);
        if has_changed || self.members.iter().any(|(osd, _)| self.members.lacks(osd, &object)) {
            return Err(KeepCopyError::Changed);
        }
        let chosen = match choice {
            Choice::Replace(finding) => finding,
            Choice::Record { version, digests } => {
                tracing::warn!(pg = %self.id, %object, %osd, ?digests, "an operator has chosen: its digests are recorded");
                let op = self.own_op(cx, &object, ReqId::default(), Vec::new());
                self.queue_own(cx, op.recording(Record { version, digests }));
                return Ok(Kept::Recorded);
            }
        };
        self.scrub.findings.iter_mut().for_each(|found| drop(found.remove(&object)));
        let mark = &mut self.scrub.mark;
        mark.shallow_errors = mark.shallow_errors.saturating_sub(shallow);
        mark.deep_errors = mark.deep_errors.saturating_sub(deep);
        mark.repaired += 1;
        mark.undecided = mark.undecided.saturating_sub(1);
        self.keep_scrub_mark(cx);
        self.repair(cx, &chosen);
        self.queue_report(cx);
        Ok(Kept::Replaces)
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

//! An operator's choice among copies of which nothing proves one right.

use super::record::Record;
use super::verdict::{Choice, Finding, Verdict};
use crate::context::Context;
use crate::group::pg::Pg;
use types::OsdId;

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

/// Outcome of an operator's choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kept {
    /// The other copies are replaced.
    Replaces,
    /// No copy was what its digest says. The digests of the chosen one are recorded: a deep scrub replaces the others.
    Recorded,
}

impl Pg {
    /// Keeps, on the operator's word, the copy on `osd` of an object whose copies differ, as the last scrub found it.
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
        let has_changed = self.core.log.entries().rev().any(|entry| entry.object == object && entry.version > version);
        if has_changed || self.members.iter().any(|(osd, _)| self.members.lacks(osd, &object)) {
            return Err(KeepCopyError::Changed);
        }
        let chosen = match choice {
            Choice::Replace(finding) => finding,
            Choice::Record { version, digests } => {
                tracing::warn!(pg = %self.core.id, %object, %osd, ?digests, "an operator has chosen: its digests are recorded");
                self.with_intake(cx, |intake, cx| intake.record(cx, &object, Record { version, digests }));
                return Ok(Kept::Recorded);
            }
        };
        self.scrub.is_decided(&self.core, cx, &object, (shallow, deep));
        self.scrub.repair(&self.core, cx, &chosen);
        self.queue_report(cx);
        Ok(Kept::Replaces)
    }
}

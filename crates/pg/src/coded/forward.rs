//! Updates that will stay, and those that are taken back.

use super::undo::Undo;
use crate::context::{Context, OnCommit};
use crate::group::core::Core;
use crate::group::info::PgInfo;
use crate::group::log::{LogEntry, LogKind};
use mutant::Mutant;
use std::collections::BTreeSet;
use store::{Step, Transaction};
use types::{EVersion, ObjectId};

/// Updates that one transaction makes permanent at the most: of each it may remove an object.
pub(crate) const FORWARD_ENTRIES: usize = 64;

impl Core {
    /// As primary whose interval ends: makes updates permanent that all have, and remembers for which others clients
    /// were answered. Other members may not have been told so yet, and one of them may come back without the end of its
    /// log.
    pub(crate) fn answered_stay(&mut self, cx: &mut Context<'_>, committed: EVersion) {
        if !self.protection().keeps_undo() {
            return;
        }
        self.roll_forward(cx, committed);
        if self.info.answered > self.info.rolled_forward {
            cx.submit_or_stop(Transaction { pg: self.id, steps: vec![self.info.step()] }, OnCommit::Nothing);
        }
    }

    /// As primary: notes that a client was answered for the update `version`.
    pub(crate) fn is_answered(&mut self, version: EVersion) {
        if self.protection().keeps_undo() && !mutant::is(Mutant::AnsweredForgotten) {
            self.info.answered = version;
        }
    }

    /// Returns up to where the next transaction makes updates permanent, of which those up to `committed` will stay.
    /// Later ones do so with the others.
    pub(crate) fn next_forward(&self, committed: EVersion) -> EVersion {
        match self.protection().keeps_undo() {
            true => self.log.end_of_first(FORWARD_ENTRIES, self.info.rolled_forward, committed),
            false => committed,
        }
    }

    /// Returns the steps that remove states kept for taking back updates up to `committed`, which will stay now.
    pub(crate) fn forward_steps(&self, committed: EVersion) -> Vec<Step> {
        let from = self.info.rolled_forward;
        if !self.protection().keeps_undo() || committed <= from {
            return Vec::new();
        }
        let entries = self.log.between(from, committed).rev();
        entries.filter_map(|entry| entry.undo.forget(&entry.object, entry.version)).collect()
    }

    /// Forgets how to take back updates up to `rolled_forward`.
    pub(crate) fn undo_ends(&mut self, rolled_forward: EVersion) {
        if self.protection().keeps_undo() {
            self.log.will_stay(self.info.rolled_forward, rolled_forward);
        }
    }

    /// Makes updates up to `committed` permanent, and removes what would take them back.
    pub(crate) fn roll_forward(&mut self, cx: &mut Context<'_>, committed: EVersion) {
        let committed = committed.min(self.log.head());
        while self.info.rolled_forward < committed {
            let next = self.next_forward(committed);
            let mut steps = self.forward_steps(next);
            self.undo_ends(next);
            self.info.rolled_forward = next;
            steps.push(self.info.step());
            cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
        }
    }

    /// Returns the steps that take back these updates, oldest first, on this OSD, and the objects that are then what
    /// they were before.
    pub(crate) fn undo_steps(&self, taken_back: &[LogEntry]) -> (Vec<Step>, BTreeSet<ObjectId>) {
        let (mut steps, mut undone, mut lost) = (Vec::new(), BTreeSet::new(), BTreeSet::new());
        for entry in taken_back.iter().rev().filter(|entry| entry.kind != LogKind::Unchanged) {
            let object = &entry.object;
            let may = !lost.contains(object)
                && !self.missing.contains_key(object)
                && self.info.covers(object)
                && entry.version > self.info.rolled_forward;
            match entry.undo.steps(object, entry.version).filter(|_| may) {
                Some(undo) => {
                    steps.extend(undo);
                    undone.insert(object.clone());
                }
                None => {
                    steps.extend(entry.undo.forget(object, entry.version));
                    undone.remove(object);
                    lost.insert(object.clone());
                }
            }
        }
        (steps, undone)
    }

    /// Takes what other shards' log entries say of undoing out of them: it does not hold here.
    pub(crate) fn as_lost(&self, entries: &mut [LogEntry]) {
        if self.protection().keeps_undo() && !mutant::is(Mutant::UndoOfOthersKept) {
            entries.iter_mut().filter(|entry| entry.kind != LogKind::Unchanged).for_each(LogEntry::lose_undo);
        }
    }

    /// Removes all that was kept back, as nothing of it is needed any more.
    pub(crate) fn drop_kept_back(&self, cx: &mut Context<'_>) {
        if self.protection().keeps_undo() {
            let pg = types::PgId { pool: self.id.pool.kept_back(), seed: self.id.seed };
            let steps = vec![Step::PgDestroy { pg_num: self.interval.shape.pg_num }];
            cx.submit_or_stop(Transaction { pg, steps }, OnCommit::Nothing);
        }
    }

    /// Returns the information of a transaction in which the log begins at `log_tail`.
    pub(crate) fn info_with(&self, info: &PgInfo, log_tail: EVersion, committed: EVersion) -> PgInfo {
        let rolled_forward = info.rolled_forward.max(committed);
        PgInfo { log_tail, rolled_forward, ..info.clone() }
    }

    /// Returns an entry of the log as other members are told of it: what this one needs to take the update back is its
    /// own affair.
    pub(crate) fn as_told(&self, entry: &LogEntry) -> LogEntry {
        let is_whole = !self.protection().keeps_undo() || entry.kind == LogKind::Unchanged;
        match is_whole || mutant::is(Mutant::UndoOfOthersKept) {
            true => entry.clone(),
            false => LogEntry { undo: Undo::Lost, ..entry.without_undo() },
        }
    }
}

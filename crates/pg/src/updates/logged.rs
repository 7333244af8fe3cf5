//! Entries of updates on their way into the log: in the store, and in memory.

use crate::context::Context;
use crate::group::core::Core;
use crate::group::info::PgInfo;
use crate::group::log::{LogEntry, LogKind, log_key, log_keys_through};
use crate::group::missing::found_step;
use mutant::Mutant;
use store::{Step, Transaction};
use types::EVersion;
use wire::{Encode, Target};

/// A transaction, where the log begins with it, and up to where nothing is kept to take updates back.
pub(crate) struct LoggedTransaction {
    pub transaction: Transaction,
    pub log_tail: EVersion,
    /// Counter of the update up to which dups are forgotten.
    pub forgotten: u64,
    pub rolled_forward: EVersion,
}

impl Core {
    /// Returns the transaction of one update: its steps, its log entry, the information, and the removal of log entries
    /// that have become too old. Changes nothing yet: [`Core::append_logged`] does once the store has accepted.
    pub(crate) fn logged_transaction(
        &self,
        cx: &Context<'_>,
        entries: &[LogEntry],
        info: &PgInfo,
        mut steps: Vec<Step>,
        committed: EVersion,
    ) -> LoggedTransaction {
        let next = self.next_forward(committed);
        // An entry tells what is kept to take its update back.
        let log_tail = self.log.trim_target(next, cx.limits.log_entries_min);
        let stays = if mutant::is(Mutant::UndoDroppedEarly) { self.log.head() } else { next };
        if self.protection().keeps_undo() {
            let mut before = self.forward_steps(stays);
            before.extend(entries.iter().flat_map(|entry| entry.undo.prepare(&entry.object, entry.version)));
            steps.splice(0..0, before);
        }
        for entry in entries {
            if entry.kind == LogKind::Delete && self.missing.contains_key(&entry.object) {
                // Given up: nobody has it.
                steps.push(found_step(&entry.object));
            }
            steps.push(Step::PgSet { key: log_key(entry.version), value: entry.to_vec(Target::default()).into() });
        }
        let mut forgotten = 0;
        if log_tail != self.log.tail() {
            // Entries that are trimmed stay in the table as long as their requests are remembered.
            forgotten = self.log.forgotten_by(log_tail, cx.dups_limit);
            if forgotten > 0 {
                let (begin, end) = log_keys_through(forgotten);
                steps.push(Step::PgRemoveRange { begin, end });
            }
        }
        let info = self.info_with(info, log_tail, stays);
        steps.push(info.step());
        let transaction = Transaction { pg: self.id, steps };
        LoggedTransaction { transaction, log_tail, forgotten, rolled_forward: info.rolled_forward }
    }

    /// Takes the entries of a [`logged_transaction`](Core::logged_transaction) into the log.
    pub(crate) fn append_logged(
        &mut self,
        entries: Vec<LogEntry>,
        (log_tail, forgotten): (EVersion, u64),
        rolled_forward: EVersion,
    ) {
        for entry in entries {
            if entry.kind == LogKind::Delete {
                self.missing.remove(&entry.object);
            }
            self.log.append(entry);
        }
        self.log.trim_to(log_tail, forgotten);
        self.undo_ends(rolled_forward);
        (self.info.log_tail, self.info.rolled_forward) = (log_tail, rolled_forward);
    }
}

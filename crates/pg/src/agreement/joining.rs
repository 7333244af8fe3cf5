//! A member's way into the interval of its primary, and the authoritative log on its way to all.

use crate::agreement::machine::Agreement;
use crate::agreement::merge::{NoOverlap, merge};
use crate::agreement::phase::Phase;
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit};
use crate::group::info::PgInfo;
use crate::group::log::{LogEntry, PgLog, log_key, log_key_range};
use crate::group::missing::{found_step, missing_key_range, missing_step};
use crate::group::object_info::OBJECT_INFO_ATTR;
use crate::messages::PgInterval;
use crate::messages::peering::{Agreed, PgLogEntries, PgLogGet, PgStart, PgStarted};
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{Step, Transaction};
use types::{EVersion, Epoch, OsdId};
use wire::{Encode, Target};

/// A member's way into an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Join {
    /// The member follows nobody yet.
    First,
    /// The member has joined it before.
    Already,
    /// The member follows the same primary in an earlier interval, which ends.
    Anew,
}

impl Agreement<'_> {
    /// Returns how this member joins the interval of a primary that asks what it has; `None`: the map says something
    /// else about the group.
    pub(super) fn may_join(&self, from: OsdId, pg: PgInterval, agreed: &Agreed) -> Option<Join> {
        if self.core.interval.primary != Some(from) || !self.core.interval.agrees(self.core.id, agreed) {
            return None;
        }
        // An OSD that has not seen the maps between: it led in this way before, and others did since.
        if pg.since < self.core.not_before {
            return None;
        }
        match self.state.joined_since(from) {
            Some(since) if pg.since < since => None,
            // The primary has lost what was under way with a member, perhaps another one, and begins anew.
            Some(since) if since < pg.since => Some(Join::Anew),
            Some(_) => Some(Join::Already),
            None => Some(Join::First),
        }
    }

    /// Follows a primary in its interval, as [`may_join`](Self::may_join) has told that it may.
    pub(super) fn join(&mut self, from: OsdId, pg: PgInterval) {
        // The primary names the interval; this member may have seen fewer maps and know it by a later epoch.
        self.core.interval.since = pg.since;
        self.state.joined = Some((from, pg.since));
        self.state.started = None;
    }

    /// Sends the primary this member's log.
    pub(crate) fn log_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgLogGet) {
        if self.state.follows(from, message.pg.since) {
            let entries = self.core.entries_for(message.since);
            cx.send_osd(from, entries);
        }
    }

    /// Takes a log: the authoritative one, if this is the primary; or the one to start over with.
    pub(crate) fn log_came(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgLogEntries) {
        let answered = match &self.state.phase {
            Phase::GettingLog { from: best, holders } if *best == from => Some(holders.answered),
            _ => None,
        };
        if let Some(answered) = answered.filter(|_| message.pg.since == self.core.interval.since) {
            self.joins_interval();
            let merged =
                self.authoritative(message).and_then(|(after, entries, info)| self.merge_log(after, &entries, &info));
            match merged {
                Ok(steps) => {
                    cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
                    self.learns_answered(answered);
                    self.start_members(cx);
                }
                Err(NoOverlap) => match self.core.protection() {
                    Protection::Copies => self.let_lead(cx, from),
                    Protection::Shards(_) => self.coded_log_does_not_meet(cx),
                },
            }
        } else if self.state.follows(from, message.pg.since) && message.start_over {
            tracing::info!(pg = %self.core.id, %from, "starts over: its log does not meet the others'");
            self.start_over(cx, message);
        }
    }

    /// Returns the part of a log that has come which is the group's: in a replicated group all of it.
    fn authoritative(&self, message: PgLogEntries) -> Result<(EVersion, Vec<LogEntry>, PgInfo), NoOverlap> {
        let PgLogEntries { after, mut entries, info, .. } = message;
        let Phase::GettingLog { holders, .. } = &self.state.phase else { return Ok((after, entries, info)) };
        if holders.all.is_empty() {
            return Ok((after, entries, info));
        }
        let head = entries.last().map_or(after, |entry| entry.version);
        let end = holders.log_end(after, &entries).ok_or(NoOverlap)?;
        let info = if end == head { info } else { self.info_at(end, holders, &entries) };
        entries.retain(|entry| entry.version <= end);
        Ok((after, entries, info))
    }

    /// As primary: notes what this OSD has had itself when the interval began.
    pub(super) fn joins_interval(&mut self) {
        if let Some(history) = &self.state.history {
            self.core.info.joins_after(history.last_epoch_started);
        }
    }

    /// Brings log, missing objects and information to the authoritative log; returns the steps that do it in the store.
    pub(super) fn merge_log(
        &mut self,
        after: EVersion,
        entries: &[LogEntry],
        theirs: &PgInfo,
    ) -> Result<Vec<Step>, NoOverlap> {
        let mut entries = entries.to_vec();
        self.core.as_lost(&mut entries);
        // An update that skips this shard can be taken back here once its entry is taken over.
        let shard = self.core.id.pool.shard();
        for entry in &mut entries {
            if let Some(undo) = entry.skipped.undo_for(shard) {
                entry.undo = undo;
            }
        }
        let merged = merge(&mut self.core.log, after, &entries, shard)?;
        let (mut steps, undone) = match self.core.protection().keeps_undo() {
            true => self.core.undo_steps(&merged.taken_back),
            false => Default::default(),
        };
        if !merged.taken_back.is_empty() {
            tracing::info!(pg = %self.core.id, updates = merged.taken_back.len(), "takes back updates that nobody else has");
        }
        for entry in merged.taken_back {
            steps.push(Step::PgRemove { key: log_key(entry.version) });
        }
        for entry in entries.iter().filter(|entry| entry.version > merged.common) {
            steps.push(Step::PgSet { key: log_key(entry.version), value: entry.to_vec(Target::default()).into() });
        }
        for object in merged.absent {
            if self.core.missing.remove(&object).is_some() {
                steps.push(found_step(&object));
            }
            steps.push(Step::Remove { object });
        }
        for (object, version) in merged.missing {
            // An object whose update was taken back here is what it was before.
            if version <= merged.common && undone.contains(&object) {
                continue;
            }
            // An object that is not here yet comes by backfill.
            if self.core.info.covers(&object) {
                if !mutant::is(Mutant::MissingNotDurable) {
                    steps.push(missing_step(&object, version));
                }
                self.core.missing.insert(object, version);
            }
        }
        for (object, (version, info)) in merged.renewed {
            if let Some(wanted) = self.core.missing.get_mut(&object) {
                *wanted = version;
                steps.push(missing_step(&object, version));
            } else if self.core.info.covers(&object) {
                steps.push(Step::SetAttr { object, name: OBJECT_INFO_ATTR.to_vec(), value: info });
            }
        }
        self.core.info.last_update = self.core.log.head();
        if !self.core.protection().keeps_undo() {
            // State that a member of an erasure-coded group keeps to take updates back is its own affair.
            self.core.info.rolled_forward = self.core.info.rolled_forward.max(theirs.rolled_forward);
        }
        self.core.info.rolled_forward = self.core.info.rolled_forward.min(self.core.info.last_update);
        self.core.info.follow(theirs);
        self.core.info.answered = self.core.info.answered.min(self.core.info.last_update);
        steps.push(self.core.info.step());
        self.core.stored = true;
        Ok(steps)
    }

    /// Takes the log as it comes, and answers for no object any more: those that are here are compared by backfill.
    fn start_over(&mut self, cx: &mut Context<'_>, mut message: PgLogEntries) {
        let mut steps = Vec::new();
        self.core.drop_kept_back(cx);
        self.core.as_lost(&mut message.entries);
        for (begin, end) in [log_key_range(), missing_key_range()] {
            steps.push(Step::PgRemoveRange { begin, end });
        }
        self.core.missing.clear();
        self.core.log = PgLog::starting_at(message.after);
        message.dups.iter().for_each(|dup| self.core.log.add_dup(dup));
        for dup in self.core.log.dups().entries() {
            steps.push(Step::PgSet { key: log_key(dup.version), value: dup.to_vec(Target::default()).into() });
        }
        for entry in message.entries {
            steps.push(Step::PgSet { key: log_key(entry.version), value: entry.to_vec(Target::default()).into() });
            self.core.log.append(entry);
        }
        self.core.info = message.info;
        self.core.info.last_update = self.core.log.head();
        self.core.info.log_tail = self.core.log.tail();
        self.core.info.rolled_forward = self.core.log.tail();
        // Whatever this member had is forgotten.
        self.core.info.own_in = Epoch(0);
        self.core.info.last_epoch_started = Epoch(0);
        self.core.info.complete = false;
        self.core.info.last_backfill = None;
        self.core.info.pg_num = self.core.interval.shape.pg_num;
        steps.push(self.core.info.step());
        self.core.stored = true;
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
    }

    pub(super) fn remember_start(&mut self, cx: &mut Context<'_>, mut steps: Vec<Step>, then: OnCommit) {
        if self.core.info.complete {
            self.core.info.last_epoch_started = self.core.interval.since;
        }
        self.core.stored = true;
        steps.push(self.core.info.step());
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
    }

    /// Brings this member's log to the authoritative one, which the primary has sent.
    pub(crate) fn start_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgStart) {
        if !self.state.follows(from, message.pg.since) {
            return;
        }
        let pg = self.core.pg_interval();
        match self.state.started {
            // Asked again. The log must not be merged twice: updates may have followed it.
            Some(true) => return cx.send_osd(from, PgStarted { pg, merged: true, missing: self.core.missing.clone() }),
            Some(false) => return,
            None => {}
        }
        let had = (self.core.info.own_in, self.core.info.own_until);
        self.core.info.joins_after(message.info.own_in);
        match self.merge_log(message.after, &message.entries, &message.info) {
            Ok(steps) => {
                self.state.started = Some(false);
                if mutant::is(Mutant::StartedNotDurable) {
                    cx.send_osd(from, PgStarted { pg, merged: true, missing: self.core.missing.clone() });
                }
                self.remember_start(cx, steps, OnCommit::Started { primary: from, since: message.pg.since });
            }
            Err(NoOverlap) => {
                (self.core.info.own_in, self.core.info.own_until) = had;
                cx.send_osd(from, PgStarted { pg, merged: false, missing: BTreeMap::new() });
            }
        }
    }

    /// Tells the primary that [`Agreement::remember_start`] is durable here.
    pub(crate) fn start_remembered(&mut self, cx: &mut Context<'_>, primary: OsdId, since: Epoch) {
        let (pg, missing) = (PgInterval { pgid: self.core.id, since }, self.core.missing.clone());
        if primary == cx.whoami {
            self.member_started(cx, cx.whoami, PgStarted { pg, merged: true, missing });
        } else if self.state.follows(primary, since) {
            self.state.started = Some(true);
            cx.send_osd(primary, PgStarted { pg, merged: true, missing });
        }
    }
}

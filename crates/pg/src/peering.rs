//! How the members of an acting set become equal before the group serves.
//!
//! In this first form a group serves only while every member of its acting set is up. The primary of a new interval
//! 1. asks the monitors when the group last became active, and every member what it has;
//! 2. takes the longest log among the members that were part of that interval or a later one: it holds every update
//!    that a client was ever answered for, since updates are answered only when all members have them;
//! 3. brings itself up to that log, then every other member (see `recovery`);
//! 4. has every member remember durably that it was part of this interval ([`PgStart`]);
//! 5. has the monitors record that the group becomes active in this interval;
//! 6. serves.
//!
//! A member that was not part of the recorded interval may have an older state, or updates that nobody was answered
//! for; step 2 never builds on it. An OSD that has nothing of a group which was active elsewhere never serves it empty.

use crate::context::{Context, OnCommit};
use crate::log::{LogEntry, LogKind, PgLog, log_key};
use crate::peer::{MemberState, PgInterval, PgLogEntries, PgLogGet, PgStart, PgStarted};
use crate::pg::Pg;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{Step, Transaction};
use types::{EVersion, Epoch, OsdId};
use wire::nacre::mon::{PgActivation, PgHistory, pg_state};
use wire::{Encode, Target};

/// Requests that stay unanswered are repeated after this time.
const RETRY_AFTER: Duration = Duration::from_secs(3);

/// Where the primary is on the way to serving.
#[derive(Debug, Default)]
pub(crate) enum Phase {
    /// Not the primary.
    #[default]
    Follower,
    /// A member of the acting set is missing.
    Undersized,
    /// Waits for the monitors' record and for what members have.
    Gathering {
        history: Option<PgHistory>,
        waiting: BTreeSet<OsdId>,
    },
    /// Waits for the log of the member that has the longest.
    GettingLog {
        from: OsdId,
    },
    /// Waits for objects from another member.
    Pulling,
    /// Other members get what they lack.
    Pushing {
        waiting: BTreeSet<OsdId>,
    },
    /// Members remember the interval.
    Starting {
        waiting: BTreeSet<OsdId>,
    },
    /// The monitors record that the group becomes active.
    Recording,
    Active,
    /// No member has all data; a member that does must come back.
    Incomplete,
}

/// One group's way to serving, on its primary; and whom it follows, on other members.
#[derive(Debug, Default)]
pub(crate) struct Peering {
    phase: Phase,
    /// What the other members have, as far as known; kept up to date while they catch up.
    pub members: BTreeMap<OsdId, MemberState>,
    /// The primary and interval that this member has joined.
    joined: Option<(OsdId, Epoch)>,
    retry_at: Duration,
}

impl Peering {
    pub fn is_active(&self) -> bool {
        matches!(self.phase, Phase::Active)
    }

    pub fn state_bits(&self) -> u64 {
        match self.phase {
            Phase::Follower => 0,
            Phase::Undersized => pg_state::PEERED,
            Phase::Gathering { .. } | Phase::GettingLog { .. } | Phase::Starting { .. } | Phase::Recording => {
                pg_state::PEERING
            }
            Phase::Pulling | Phase::Pushing { .. } => pg_state::PEERED | pg_state::RECOVERING | pg_state::DEGRADED,
            Phase::Active => pg_state::ACTIVE | pg_state::CLEAN,
            Phase::Incomplete => pg_state::INCOMPLETE,
        }
    }
}

impl Pg {
    /// The first step of an interval.
    pub(crate) fn begin_peering(&mut self, cx: &mut Context<'_>) {
        self.peering = Peering::default();
        if !self.is_primary(cx.whoami) {
            return;
        }
        if !self.interval.is_full() {
            self.peering.phase = Phase::Undersized;
            return;
        }
        let waiting = self.others(cx.whoami).into_iter().collect();
        self.peering.phase = Phase::Gathering { history: None, waiting };
        self.ask(cx);
    }

    /// (Re)sends what the present phase waits for.
    fn ask(&mut self, cx: &mut Context<'_>) {
        self.peering.retry_at = cx.now + RETRY_AFTER;
        let pg = self.pg_interval();
        match &self.peering.phase {
            Phase::Gathering { history, waiting } => {
                if history.is_none() {
                    cx.monitor.history.push(self.id);
                }
                for osd in waiting {
                    cx.queries.entry(*osd).or_default().push((pg, self.interval.acting.clone()));
                }
            }
            Phase::Starting { waiting } => {
                let message = PgStart { pg, last_update: self.log.head(), created: self.info.created };
                let whoami = cx.whoami;
                for osd in waiting.iter().filter(|osd| **osd != whoami) {
                    cx.send_osd(*osd, message.clone());
                }
            }
            Phase::Recording => {
                let (interval_since, acting) = (self.interval.since, self.interval.acting.clone());
                cx.monitor.activations.push(PgActivation { pgid: self.id, interval_since, acting });
            }
            _ => {}
        }
    }

    /// Time has passed.
    pub(crate) fn peering_tick(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.peering.retry_at {
            self.ask_again(cx);
        }
    }

    /// Repeats what is waited for, if anything is.
    pub(crate) fn ask_again(&mut self, cx: &mut Context<'_>) {
        if matches!(self.peering.phase, Phase::Gathering { .. } | Phase::Starting { .. } | Phase::Recording) {
            self.ask(cx);
        }
    }

    /// Whether this member takes updates from `osd` in the interval that began at `since`.
    pub(crate) fn follows(&self, osd: OsdId, since: Epoch) -> bool {
        self.peering.joined == Some((osd, since))
    }

    /// The primary of an interval asks what this member has. `None` if the map says something else about the group.
    pub(crate) fn join(&mut self, from: OsdId, pg: PgInterval, acting: &[OsdId]) -> Option<MemberState> {
        if self.interval.primary != Some(from) || self.interval.acting != acting {
            return None;
        }
        // The primary names the interval; this member may have seen fewer maps and know it by a later epoch.
        self.interval.since = pg.since;
        self.peering.joined = Some((from, pg.since));
        Some(self.member_state())
    }

    /// A member has told what it has.
    pub(crate) fn member_told(&mut self, cx: &mut Context<'_>, osd: OsdId, since: Epoch, state: MemberState) {
        let Phase::Gathering { waiting, .. } = &mut self.peering.phase else { return };
        if since == self.interval.since && waiting.remove(&osd) {
            self.peering.members.insert(osd, state);
            self.choose_log(cx);
        }
    }

    /// The monitors have told what they know.
    pub(crate) fn history_told(&mut self, cx: &mut Context<'_>, told: PgHistory) {
        if let Phase::Gathering { history, .. } = &mut self.peering.phase {
            *history = Some(told);
            self.choose_log(cx);
        }
    }

    fn choose_log(&mut self, cx: &mut Context<'_>) {
        let Phase::Gathering { history: Some(history), waiting } = &self.peering.phase else { return };
        if !waiting.is_empty() {
            return;
        }
        let history = history.clone();
        self.info.created = history.created;
        if history.last_epoch_started == Epoch(0) {
            // Never served, so there is nothing: whatever an earlier attempt left is as empty as this.
            return self.start_members(cx);
        }
        let own = self.member_state();
        let may_lead = |state: &MemberState| {
            state.info.as_ref().filter(|i| i.complete && i.last_epoch_started >= history.last_epoch_started).cloned()
        };
        let own_info = may_lead(&own);
        let best = self.peering.members.iter().filter_map(|(osd, state)| Some((*osd, may_lead(state)?)));
        // Of equals the first wins: no log needs to move if this member is as good as any.
        let best = own_info.iter().map(|info| (cx.whoami, info.clone())).chain(best);
        let best = best.reduce(|a, b| if b.1.last_update > a.1.last_update { b } else { a });
        match best {
            None => {
                tracing::warn!(pg = %self.id, since = %history.last_epoch_started, "no member has all data");
                self.peering.phase = Phase::Incomplete;
                self.queue_report(cx);
            }
            Some((osd, _)) if osd == cx.whoami => self.pull_missing(cx),
            Some((osd, _)) => {
                self.peering.phase = Phase::GettingLog { from: osd };
                // A log that cannot be built on is asked past its end: the answer is then to start over.
                let usable = self.stored && self.info.complete;
                let since = if usable { self.log.head() } else { EVersion::new(u32::MAX, u64::MAX) };
                cx.send_osd(osd, PgLogGet { pg: self.pg_interval(), since });
                self.queue_report(cx);
            }
        }
    }

    /// The primary wants this member's log.
    pub(crate) fn log_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgLogGet) {
        if self.follows(from, message.pg.since) {
            let entries = self.entries_for(message.since);
            cx.send_osd(from, entries);
        }
    }

    /// What a member whose log ends at `since` needs of this log.
    pub(crate) fn entries_for(&self, since: EVersion) -> PgLogEntries {
        let (pg, info) = (self.pg_interval(), self.info.clone());
        match self.log.after(since) {
            Some(entries) => {
                let entries = entries.cloned().collect();
                PgLogEntries { pg, after: since, entries, info, start_over: false }
            }
            None => {
                let entries = self.log.entries().cloned().collect();
                PgLogEntries { pg, after: self.log.tail(), entries, info, start_over: true }
            }
        }
    }

    /// The log that this OSD lacks: from the best member, if it is the primary, or from its primary.
    pub(crate) fn log_came(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgLogEntries) {
        let as_primary = matches!(self.peering.phase, Phase::GettingLog { from: best } if best == from)
            && message.pg.since == self.interval.since;
        if !as_primary && !self.follows(from, message.pg.since) {
            return;
        }
        if message.start_over {
            tracing::info!(pg = %self.id, %from, "starts over: its log does not meet the others'");
            self.start_over(cx, message);
        } else if message.after == self.log.head() {
            self.append_entries(cx, message);
        } else {
            tracing::warn!(pg = %self.id, %from, after = %message.after, head = %self.log.head(), "log does not fit");
            return;
        }
        if as_primary {
            self.pull_missing(cx);
        }
    }

    fn append_entries(&mut self, cx: &mut Context<'_>, message: PgLogEntries) {
        let mut steps = Vec::new();
        for entry in &message.entries {
            steps.push(Step::PgSet { key: log_key(entry.version), value: entry.to_vec(Target::default()).into() });
            self.note_missing(entry, &mut steps);
        }
        for entry in message.entries {
            self.log.append(entry);
        }
        let info = message.info;
        self.info.last_update = self.log.head();
        self.info.last_user_version = info.last_user_version;
        self.info.stats = info.stats;
        self.info.created = info.created;
        steps.push(self.info.step());
        self.stored = true;
        cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
    }

    /// What a log entry of others means for this store: the object it changed is now an older one.
    fn note_missing(&mut self, entry: &LogEntry, steps: &mut Vec<Step>) {
        let object = &entry.object;
        match entry.kind {
            LogKind::Unchanged => {}
            LogKind::Modify => {
                steps.push(Pg::missing_step(object, entry.version));
                self.missing.insert(object.clone(), entry.version);
            }
            LogKind::Delete => {
                steps.push(Step::Remove { object: object.clone() });
                if self.missing.remove(object).is_some() {
                    steps.push(Pg::found_step(object));
                }
            }
        }
    }

    fn start_over(&mut self, cx: &mut Context<'_>, message: PgLogEntries) {
        let mut steps = Vec::new();
        if self.stored {
            steps.push(Step::PgDestroy { pg_num: self.interval.shape.pg_num });
        }
        self.missing.clear();
        self.log = PgLog::starting_at(message.after);
        for entry in message.entries {
            steps.push(Step::PgSet { key: log_key(entry.version), value: entry.to_vec(Target::default()).into() });
            self.log.append(entry);
        }
        self.info = message.info;
        self.info.last_update = self.log.head();
        self.info.log_tail = self.log.tail();
        self.info.complete = false;
        self.info.pg_num = self.interval.shape.pg_num;
        steps.push(self.info.step());
        self.stored = true;
        cx.submit_or_stop(Transaction { pg: self.id, steps }, OnCommit::Nothing);
    }

    /// Goes on once this member is complete; else asks for what it lacks.
    pub(crate) fn pull_missing(&mut self, cx: &mut Context<'_>) {
        if self.info.complete && self.missing.is_empty() {
            return self.push_missing(cx);
        }
        match self.request_pulls(cx) {
            true => self.peering.phase = Phase::Pulling,
            false => {
                tracing::warn!(pg = %self.id, "objects are missing that no member has");
                self.peering.phase = Phase::Incomplete;
            }
        }
        self.queue_report(cx);
    }

    /// An object that this primary lacked is here, or everything is.
    pub(crate) fn pulled(&mut self, cx: &mut Context<'_>) {
        if matches!(self.peering.phase, Phase::Pulling) && self.info.complete && self.missing.is_empty() {
            self.push_missing(cx);
        }
    }

    /// Every other member gets the log entries and the objects that it lacks.
    fn push_missing(&mut self, cx: &mut Context<'_>) {
        let mut waiting = BTreeSet::new();
        for osd in self.others(cx.whoami) {
            if self.bring_up(cx, osd) {
                waiting.insert(osd);
            }
        }
        if waiting.is_empty() {
            return self.start_members(cx);
        }
        self.peering.phase = Phase::Pushing { waiting };
        self.queue_report(cx);
    }

    /// A member has everything that this primary has.
    pub(crate) fn member_complete(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        let Phase::Pushing { waiting } = &mut self.peering.phase else { return };
        waiting.remove(&osd);
        if waiting.is_empty() {
            self.start_members(cx);
        }
    }

    fn start_members(&mut self, cx: &mut Context<'_>) {
        let waiting = self.interval.acting.iter().copied().collect();
        self.peering.phase = Phase::Starting { waiting };
        self.ask(cx);
        self.remember_start(
            cx,
            self.interval.since,
            OnCommit::Started { primary: cx.whoami, since: self.interval.since },
        );
        self.queue_report(cx);
    }

    fn remember_start(&mut self, cx: &mut Context<'_>, since: Epoch, then: OnCommit) {
        self.info.last_epoch_started = since;
        self.info.complete = true;
        self.stored = true;
        let steps = vec![self.info.step()];
        cx.submit_or_stop(Transaction { pg: self.id, steps }, then);
    }

    /// The primary says that all members are equal.
    pub(crate) fn start_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgStart) {
        if !self.follows(from, message.pg.since) {
            return;
        }
        let equal = self.log.head() == message.last_update && self.missing.is_empty() && self.info.complete;
        if !equal {
            let (head, missing) = (self.log.head(), self.missing.len());
            tracing::error!(pg = %self.id, %from, %head, missing, "is told to start, but is not up to date");
            return;
        }
        self.info.created = message.created;
        self.remember_start(cx, message.pg.since, OnCommit::Started { primary: from, since: message.pg.since });
    }

    /// [`Pg::remember_start`] is durable here.
    pub(crate) fn start_remembered(&mut self, cx: &mut Context<'_>, primary: OsdId, since: Epoch) {
        if primary == cx.whoami {
            self.member_started(cx, cx.whoami, since);
        } else if self.follows(primary, since) {
            cx.send_osd(primary, PgStarted { pg: self.pg_interval() });
        }
    }

    pub(crate) fn member_started(&mut self, cx: &mut Context<'_>, osd: OsdId, since: Epoch) {
        let Phase::Starting { waiting } = &mut self.peering.phase else { return };
        if since != self.interval.since {
            return;
        }
        waiting.remove(&osd);
        if waiting.is_empty() {
            self.peering.phase = Phase::Recording;
            self.ask(cx);
        }
    }

    /// The monitors have recorded that the group becomes active in the interval that began at `since`.
    pub(crate) fn recorded(&mut self, cx: &mut Context<'_>, since: Epoch) {
        if !matches!(self.peering.phase, Phase::Recording) || since != self.interval.since {
            return;
        }
        self.peering.phase = Phase::Active;
        let members = self.interval.acting.clone();
        self.replication.start(&members, self.log.head());
        tracing::debug!(pg = %self.id, %since, head = %self.log.head(), "active");
        self.queue_report(cx);
        self.start_waiting_ops(cx);
    }
}

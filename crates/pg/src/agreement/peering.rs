//! How a group comes to serve in a new interval. `docs/peering.md` gives the reasons.
//!
//! The primary of a new interval
//! 1. asks the monitors for the group's record (who served last), and every other member what it has;
//! 2. takes the longest log among the members that the record names: it holds every update that a client was answered
//!    for, since updates are answered only when all serving members have them;
//! 3. has every member bring its log to that one, and remember durably that it was part of this interval ([`PgStart`]).
//!    Objects that a member then lacks are *missing* there; a member whose log does not meet is *behind* and is
//!    backfilled, and does not count until it has everything;
//! 4. has the monitors record who serves from now on, if they are at least the pool's `min_size`;
//! 5. serves, while `recovery` brings what is missing to where it is missing.
//!
//! An OSD that is not named by the record never leads: it may have an older state, or updates that nobody was answered
//! for. If those that are named are not in the acting set, or the primary's own log does not meet theirs, the primary
//! has the monitors let another acting set stand in (`pg_temp`).

use crate::agreement::log_holders::LogHolders;
use crate::agreement::lost_osds::is_missed;
use crate::agreement::machine::Agreement;
use crate::agreement::members::Standing;
use crate::agreement::phase::Phase;
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit};
use crate::group::effects::Effect;
use crate::messages::peering::{MemberState, PgLogEntries, PgLogGet, PgStart, PgStarted};
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{Epoch, OsdId};
use wire::nacre::mon::{PgActivation, PgHistory, doubt};

/// Requests that stay unanswered are repeated after this time.
const RETRY_AFTER: Duration = Duration::from_secs(3);

impl Agreement<'_> {
    /// Takes the first step of an interval.
    pub(crate) fn begin(&mut self, cx: &mut Context<'_>) {
        self.state.interval_ended();
        self.members.clear();
        if !self.core.is_primary(cx.whoami) {
            return;
        }
        let waiting = self.core.others(cx.whoami).into_iter().collect();
        self.state.phase = Phase::Gathering { waiting };
        self.ask(cx);
    }

    /// Sends, or sends again, what the present phase waits for.
    fn ask(&mut self, cx: &mut Context<'_>) {
        self.state.retry_at = cx.now + RETRY_AFTER;
        let pg = self.core.pg_interval();
        match &self.state.phase {
            Phase::AwaitingMap { newer_than } => {
                cx.outbox.to_monitor.newer_than = cx.outbox.to_monitor.newer_than.max(Some(*newer_than))
            }
            Phase::Gathering { waiting } => {
                if self.state.history.is_none() {
                    cx.outbox.to_monitor.history.push(self.core.id.base());
                }
                for osd in waiting {
                    cx.outbox.queries.entry(*osd).or_default().push((pg, self.core.interval.agreed()));
                }
            }
            Phase::Starting { waiting } => {
                let others: Vec<OsdId> = waiting.iter().copied().filter(|osd| *osd != cx.whoami).collect();
                for osd in others {
                    let head = self.state.told.get(&osd).and_then(|told| Some(told.info.as_ref()?.last_update));
                    let PgLogEntries { after, entries, info, .. } = self.core.entries_for(head.unwrap_or_default());
                    cx.send_osd(osd, PgStart { pg, after, entries, info });
                }
            }
            _ => {}
        }
        if let Some((members, recovered)) = self.state.record_asked.clone() {
            let (interval_since, acting) = (self.core.interval.since, self.core.interval.acting.clone());
            let (pgid, member_shards) = (self.core.id.base(), self.core.interval.shards_of(&members));
            let basis = self.state.record;
            let activation = PgActivation { pgid, interval_since, acting, members, recovered, member_shards, basis };
            cx.outbox.to_monitor.activations.push(activation);
        }
        if let Some(osds) = self.state.temp_asked.clone() {
            cx.outbox.to_monitor.temps.push((self.core.id.base(), osds));
        }
    }

    /// Acts as time has passed: members that are waited for may have come.
    pub(crate) fn look_again(&mut self, cx: &mut Context<'_>) {
        match self.state.phase {
            // The members of the record may have come up without being in the acting set.
            Phase::Down | Phase::Incomplete => self.choose_log(cx),
            Phase::Peered | Phase::AwaitingActing => self.members_changed(cx),
            Phase::Active | Phase::Premerge if cx.now >= self.state.others_read_until() => self.consider_temp(cx),
            _ => {}
        }
    }

    /// Acts on a newer map in which the interval goes on: an OSD that is waited for may be down by now, or one that is
    /// lacked may be up.
    pub(crate) fn map_changed(&mut self, cx: &mut Context<'_>) {
        let is_asked_down = || self.state.temp_asked.iter().flatten().any(|osd| osd.is_some() && !cx.map.is_up(*osd));
        match self.state.phase {
            Phase::Peered | Phase::AwaitingActing => self.members_changed(cx),
            Phase::Remapping if is_asked_down() => self.choose_log(cx),
            _ => {}
        }
    }

    /// Repeats, as time has passed, what is not answered.
    pub(crate) fn retry(&mut self, cx: &mut Context<'_>) {
        if cx.now < self.state.retry_at {
            return;
        }
        if let Phase::Remapping = self.state.phase {
            // The OSD that was to lead may be gone, too.
            self.choose_log(cx);
        }
        self.ask_again(cx);
    }

    /// Repeats what is waited for, if anything is.
    pub(crate) fn ask_again(&mut self, cx: &mut Context<'_>) {
        if self.core.is_primary(cx.whoami) {
            self.ask(cx);
        }
    }

    /// Waits for a map that this OSD has not seen: with it the next interval begins. The last one has ended.
    pub(crate) fn await_map(&mut self, cx: &mut Context<'_>) {
        self.state.phase = Phase::AwaitingMap { newer_than: cx.map.epoch };
        self.ask_again(cx);
        self.queue_report(cx);
    }

    /// Takes what the monitors knew in `epoch`. What they knew before this interval began is no answer: the group may
    /// have served elsewhere since. It answers a question of an earlier interval, and newer maps have overtaken it.
    pub(crate) fn history_told(&mut self, cx: &mut Context<'_>, epoch: Epoch, told: PgHistory) {
        if epoch < self.core.interval.since && !mutant::is(Mutant::OldRecordTaken) {
            return;
        }
        if let Phase::Gathering { .. } = &self.state.phase {
            self.state.record = Some(told.last_epoch_started);
            self.state.history = Some(told);
            self.gathered(cx);
        } else {
            self.doubt_told(&told);
        }
    }

    pub(super) fn gathered(&mut self, cx: &mut Context<'_>) {
        if let Phase::Gathering { waiting } = &self.state.phase
            && waiting.is_empty()
            && self.state.history.is_some()
            && self.knows_who_has_it(cx, RETRY_AFTER)
        {
            self.choose_log(cx);
        }
    }

    fn choose_log(&mut self, cx: &mut Context<'_>) {
        let history = self.state.history.clone().expect("gathered before");
        self.core.info.created = history.created;
        if history.last_epoch_started == Epoch(0) {
            // The group has never served, so it has no objects and no log. What an earlier attempt to start it left is
            // empty, too.
            return self.start_members(cx);
        }
        match self.core.protection() {
            Protection::Copies => self.choose_copies_log(cx, &history),
            Protection::Shards(_) => self.choose_coded_log(cx, &history),
        }
    }

    fn choose_copies_log(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let own = self.core.member_state();
        let may_lead = |osd: OsdId, state: &MemberState| {
            let info =
                state.info.as_ref().filter(|_| history.members.contains(&osd) || mutant::is(Mutant::StrangerLeads))?;
            let has_all = info.complete && info.last_epoch_started >= history.last_epoch_started;
            has_all.then_some((osd, info.last_update))
        };
        let others = self.state.told.iter().filter_map(|(osd, state)| may_lead(*osd, state));
        // The first of several equal logs wins. The first is this member's own, so that no log is moved without need.
        let best = may_lead(cx.whoami, &own).into_iter().chain(others);
        match best.reduce(|a, b| if b.1 > a.1 && !mutant::is(Mutant::ShortLogLeads) { b } else { a }) {
            None => self.cannot_lead(cx, history),
            Some((osd, _)) => self.go_by_log_of(cx, osd),
        }
    }

    /// Goes by the log of `osd`, which is the authoritative one: a primary that answers for its objects gets it,
    /// another one lets `osd` lead.
    pub(super) fn go_by_log_of(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if osd == cx.whoami || self.core.stored && self.core.info.complete {
            self.start_with_log_of(cx, osd);
        } else {
            self.let_lead(cx, osd);
        }
    }

    /// Starts as the one that leads, with the log of `osd`, which may be this primary itself.
    pub(super) fn start_with_log_of(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if osd == cx.whoami {
            return self.start_members(cx);
        }
        self.state.phase = Phase::GettingLog { from: osd, holders: LogHolders::default() };
        cx.send_osd(osd, PgLogGet { pg: self.core.pg_interval(), since: self.core.log.head() });
        self.queue_report(cx);
    }

    /// Acts where nobody in the acting set has what is needed.
    fn cannot_lead(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let is_elsewhere = |osd: &&OsdId| cx.map.is_up(**osd) && !self.core.interval.acting.contains(osd);
        if let Some(osd) = history.members.iter().find(is_elsewhere).copied() {
            return self.let_lead(cx, osd);
        }
        if !self.goes_on_with_what_is_left(cx, history) {
            self.nobody_can_lead(cx, history);
        }
    }

    /// Handles the case that neither a member of the acting set nor another OSD that is up can lead.
    pub(super) fn nobody_can_lead(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let since = history.last_epoch_started;
        let any_down = history.members.iter().any(|osd| is_missed(cx.map, *osd, since));
        if !matches!(self.state.phase, Phase::Down | Phase::Incomplete) {
            let members = &history.members;
            tracing::warn!(pg = %self.core.id, %since, ?members, "of those that served last none can lead");
            self.state.phase = if any_down { Phase::Down } else { Phase::Incomplete };
            self.queue_report(cx);
            self.hold_clients_back(cx);
        }
    }

    /// Gives the authoritative log, which this primary has, to every other member.
    pub(super) fn start_members(&mut self, cx: &mut Context<'_>) {
        self.joins_interval();
        let is_new = self.state.history.as_ref().is_some_and(|history| history.last_epoch_started == Epoch(0));
        let mut waiting = BTreeSet::from([cx.whoami]);
        for osd in self.core.others(cx.whoami) {
            let told = self.state.told.remove(&osd).unwrap_or_default();
            if is_new || told.info.is_some() {
                waiting.insert(osd);
            } else {
                self.members.insert(osd, Standing::Behind, BTreeMap::new());
            }
            self.state.told.insert(osd, told);
        }
        self.state.phase = Phase::Starting { waiting };
        self.ask(cx);
        let then = OnCommit::Started { primary: cx.whoami, since: self.core.interval.since };
        self.remember_start(cx, Vec::new(), then);
        self.queue_report(cx);
    }

    pub(crate) fn member_started(&mut self, cx: &mut Context<'_>, osd: OsdId, message: PgStarted) {
        let Phase::Starting { waiting } = &mut self.state.phase else { return };
        if message.pg.since != self.core.interval.since || !waiting.remove(&osd) {
            return;
        }
        let all = waiting.is_empty();
        if osd != cx.whoami {
            let told = self.state.told.get(&osd).and_then(|told| told.info.as_ref());
            let standing = match (message.merged, told.is_none_or(|info| info.complete)) {
                (false, _) if !mutant::is(Mutant::BehindServes) => Standing::Behind,
                (false, _) => Standing::Serving,
                (true, true) => Standing::Serving,
                (true, false) => Standing::Backfilling,
            };
            self.members.insert(osd, standing, message.missing);
            if standing == Standing::Backfilling {
                let from = told.and_then(|info| info.last_backfill.clone());
                self.cause(cx, Effect::Backfill { osd, from });
            }
        }
        if all {
            self.all_started(cx);
        }
    }

    fn all_started(&mut self, cx: &mut Context<'_>) {
        self.state.phase = Phase::Peered;
        self.durability.start(&self.progress().serving(cx.whoami), self.core.log.head());
        self.wait_out_lease(cx);
        // The set that the group is to wait for is asked for at once, while leases of others run out.
        if !self.has_full_service() {
            self.consider_temp(cx);
        }
        let (head, missing) = (self.core.log.head(), self.core.missing.len());
        let since = self.core.interval.since;
        tracing::debug!(pg = %self.core.id, %since, %head, missing, members = ?self.members, "peered");
        self.members_changed(cx);
        self.cause(cx, Effect::Recover);
    }

    /// Tells whether members that have got further let the group get further.
    pub(crate) fn may_follow_members(&self, now: Duration) -> bool {
        (self.state.may_recover() || matches!(self.state.phase, Phase::Recording))
            && now >= self.state.others_read_until()
    }

    /// Acts on members that have got further: the group serves if they are enough, and the monitors are told what they
    /// should know. [`may_follow_members`](Self::may_follow_members) has told that they let it.
    pub(crate) fn follow_members(&mut self, cx: &mut Context<'_>) {
        let members = self.progress().serving(cx.whoami);
        let is_enough = self.whereabouts().serving_copies() >= usize::from(self.core.interval.shape.min_size);
        let is_ready = is_enough || mutant::is(Mutant::MinSizeIgnored);
        if self.state.is_peered() && is_ready {
            // An OSD that is to leave the group stays in it until as many others serve as there should be: the record
            // that is asked for here does not name it any more.
            self.state.phase = match self.awaits_former_members(cx) {
                true => Phase::AwaitingActing,
                false if self.adopted_are_kept(cx) => Phase::Recording,
                false => Phase::Peered,
            };
        } else if self.state.is_peered() {
            self.state.phase = Phase::Peered;
        }
        if is_ready && !self.state.is_peered() {
            let recovered = members.iter().all(|osd| self.progress().lacks_nothing(*osd, cx.whoami));
            let is_known = self.state.history.as_ref().is_some_and(|history| {
                history.last_epoch_started == self.core.interval.since
                    && history.members == members
                    && (!recovered || history.past.is_empty() && history.doubt != doubt::BEHIND)
            });
            let wanted = Some((members, recovered));
            if !is_known && self.state.record_asked != wanted {
                self.state.record_asked = wanted;
                self.ask(cx);
            }
        }
        if self.state.may_recover() {
            self.consider_temp(cx);
        }
        self.hold_clients_back(cx);
        self.queue_report(cx);
    }

    /// Takes the monitors' record of who serves.
    pub(crate) fn recorded(&mut self, cx: &mut Context<'_>, history: PgHistory) {
        if !self.core.is_primary(cx.whoami) {
            return;
        }
        let is_ours = history.last_epoch_started == self.core.interval.since;
        let Some((members, recovered)) = &self.state.record_asked else { return };
        let is_newer = self.state.record.is_some_and(|record| history.last_epoch_started > record);
        if is_newer && history.last_epoch_started < self.core.interval.since {
            // The interval was recorded late, after this primary had asked: others may have been answered by its
            // members.
            return self.cause(cx, Effect::PeerAnew("another interval was recorded meanwhile"));
        }
        if !is_ours || history.members != *members {
            return;
        }
        if !recovered || history.past.is_empty() {
            self.state.record_asked = None;
        }
        self.state.record = Some(history.last_epoch_started);
        self.state.history = Some(history);
        let is_merging = self.core.interval.shape.is_merging(self.core.id) && !mutant::is(Mutant::PremergeServes);
        if matches!(self.state.phase, Phase::Recording) && is_merging {
            self.state.phase = Phase::Premerge;
            tracing::debug!(pg = %self.core.id, since = %self.core.interval.since, head = %self.core.log.head(), "ready to be merged");
            self.cause(cx, Effect::Recover);
        } else if matches!(self.state.phase, Phase::Recording) {
            self.state.phase = Phase::Active;
            self.durability.start(&self.progress().serving(cx.whoami), self.core.log.head());
            tracing::debug!(pg = %self.core.id, since = %self.core.interval.since, head = %self.core.log.head(), "active");
            self.cause(cx, Effect::Active);
            self.cause(cx, Effect::Recover);
            self.cause(cx, Effect::StartOps);
        }
        self.members_changed(cx);
    }
}

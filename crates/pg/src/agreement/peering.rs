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

use crate::agreement::leases::by_another_clock;
use crate::agreement::lost_osds::is_missed;
use crate::agreement::members::Standing;
use crate::agreement::merge::{NoOverlap, merge};
use crate::agreement::phase::{Phase, Spans};
use crate::coded::protection::Protection;
use crate::context::{Context, OnCommit};
use crate::group::effects::Effect;
use crate::group::info::PgInfo;
use crate::group::interval::Interval;
use crate::group::log::{LogEntry, PgLog, log_key, log_key_range};
use crate::group::missing::{found_step, missing_key_range, missing_step};
use crate::group::object_info::OBJECT_INFO_ATTR;
use crate::group::pg::Pg;
use crate::messages::PgInterval;
use crate::messages::peering::{Agreed, MemberState, PgLogEntries, PgLogGet, PgStart, PgStarted};
use mutant::Mutant;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use store::{Step, Transaction};
use types::{EVersion, Epoch, OsdId};
use wire::nacre::mon::{PgActivation, PgHistory, doubt, pg_state};
use wire::{Encode, Target};

/// Requests that stay unanswered are repeated after this time.
const RETRY_AFTER: Duration = Duration::from_secs(3);

impl Pg {
    /// Takes the first step of an interval.
    pub(crate) fn begin_peering(&mut self, cx: &mut Context<'_>) {
        self.peering.interval_ended();
        self.members.clear();
        if !self.core.is_primary(cx.whoami) {
            return;
        }
        let waiting = self.core.others(cx.whoami).into_iter().collect();
        self.peering.phase = Phase::Gathering { waiting };
        self.ask(cx);
    }

    /// Sends, or sends again, what the present phase waits for.
    fn ask(&mut self, cx: &mut Context<'_>) {
        self.peering.retry_at = cx.now + RETRY_AFTER;
        let pg = self.core.pg_interval();
        match &self.peering.phase {
            Phase::AwaitingMap { newer_than } => {
                cx.outbox.to_monitor.newer_than = cx.outbox.to_monitor.newer_than.max(Some(*newer_than))
            }
            Phase::Gathering { waiting } => {
                if self.peering.history.is_none() {
                    cx.outbox.to_monitor.history.push(self.core.id.base());
                }
                for osd in waiting {
                    cx.outbox.queries.entry(*osd).or_default().push((pg, self.core.interval.agreed()));
                }
            }
            Phase::Starting { waiting } => {
                let others: Vec<OsdId> = waiting.iter().copied().filter(|osd| *osd != cx.whoami).collect();
                for osd in others {
                    let head = self.peering.told.get(&osd).and_then(|told| Some(told.info.as_ref()?.last_update));
                    let PgLogEntries { after, entries, info, .. } = self.core.entries_for(head.unwrap_or_default());
                    cx.send_osd(osd, PgStart { pg, after, entries, info });
                }
            }
            _ => {}
        }
        if let Some((members, recovered)) = self.peering.record_asked.clone() {
            let (interval_since, acting) = (self.core.interval.since, self.core.interval.acting.clone());
            let (pgid, member_shards) = (self.core.id.base(), self.core.interval.shards_of(&members));
            let basis = self.peering.record;
            let activation = PgActivation { pgid, interval_since, acting, members, recovered, member_shards, basis };
            cx.outbox.to_monitor.activations.push(activation);
        }
        if let Some(osds) = self.peering.temp_asked.clone() {
            cx.outbox.to_monitor.temps.push((self.core.id.base(), osds));
        }
    }

    /// Goes on as time has passed.
    pub(crate) fn peering_tick(&mut self, cx: &mut Context<'_>) {
        match self.peering.phase {
            // The members of the record may have come up without being in the acting set.
            Phase::Down | Phase::Incomplete => self.choose_log(cx),
            Phase::Peered => self.members_changed(cx),
            Phase::Active | Phase::Premerge if cx.now >= self.peering.others_read_until() => self.consider_temp(cx),
            _ => {}
        }
        self.healer().try_full_again(cx);
        self.look_for_old_shards(cx);
        self.gathers_wait_no_longer(cx);
        self.doubt_tick(cx);
        self.healer().reread(cx);
        if self.is_active() {
            self.roll_forward_idle(cx);
            self.whereabouts().release_found(cx);
        }
        if cx.now >= self.peering.retry_at {
            if let Phase::Remapping = self.peering.phase {
                // The OSD that was to lead may be gone, too.
                self.choose_log(cx);
            }
            self.ask_again(cx);
        }
    }

    /// Repeats what is waited for, if anything is.
    pub(crate) fn ask_again(&mut self, cx: &mut Context<'_>) {
        if self.core.is_primary(cx.whoami) && !self.is_loading() {
            self.ask(cx);
        }
    }

    /// Joins the interval of a primary that asks what this member has. Returns that, or `None` if the map says
    /// something else about the group.
    pub(crate) fn join(
        &mut self,
        cx: &mut Context<'_>,
        from: OsdId,
        pg: PgInterval,
        agreed: &Agreed,
    ) -> Option<MemberState> {
        if self.core.interval.primary != Some(from) || !self.core.interval.agrees(self.core.id, agreed) {
            return None;
        }
        // An OSD that has not seen the maps between: it led in this way before, and others did since.
        if pg.since < self.core.not_before {
            return None;
        }
        if self.peering.joined_since(from).is_some_and(|since| pg.since < since) {
            return None;
        }
        if self.peering.joined_since(from).is_some_and(|since| since < pg.since) {
            // The primary has lost what was under way with a member, perhaps another one, and begins anew.
            self.end_interval_among_members(cx);
        }
        if self.peering.joined != Some((from, pg.since)) {
            // The primary names the interval; this member may have seen fewer maps and know it by a later epoch.
            self.core.interval.since = pg.since;
            self.peering.joined = Some((from, pg.since));
            self.peering.started = None;
            self.replica_reads.forget_share();
        }
        Some(self.core.member_state())
    }

    /// Returns true if this member has the authoritative log durably, in the interval that it has joined.
    pub(crate) fn has_started(&self) -> bool {
        let joined = self
            .peering
            .joined
            .is_some_and(|(osd, since)| self.core.interval.primary == Some(osd) && self.core.interval.since == since);
        joined && self.peering.started == Some(true)
    }

    /// Takes what a member has told. `state`: what it has (`None`: it is no member, by a map that this OSD is to have,
    /// too). `promises`, `shares`: OSDs that it may have promised that nobody else serves, and OSDs that it may have
    /// let read, each with microseconds.
    pub(crate) fn member_told(
        &mut self,
        cx: &mut Context<'_>,
        osd: OsdId,
        since: Epoch,
        state: Option<MemberState>,
        promises: &[(Option<OsdId>, u64)],
        shares: &[(Option<OsdId>, u64)],
    ) {
        if since != self.core.interval.since || !self.core.is_primary(cx.whoami) {
            return;
        }
        if self.peering.readers.remove(&osd).is_some() {
            // The OSD has seen that it does not lead any more, or follows another primary.
            if self.lease_holder() == Some(osd) {
                self.wait_out_shares(cx, &spans_until(shares, cx.now));
            }
            self.members_changed(cx);
        }
        // An OSD that says it is no member has told nothing of what it has: it is waited for until this OSD has that
        // map, too.
        let (Phase::Gathering { waiting, .. }, Some(state)) = (&mut self.peering.phase, state) else { return };
        if waiting.remove(&osd) {
            self.peering.told.insert(osd, state);
            for (holder, promised) in spans_until(promises, cx.now) {
                let until = self.peering.promised.entry(holder).or_default();
                *until = promised.max(*until);
            }
            self.peering.shares.insert(osd, spans_until(shares, cx.now));
            self.gathered(cx);
        }
    }

    /// Returns the primary that served last, if it is known.
    pub(crate) fn lease_holder(&self) -> Option<OsdId> {
        self.peering.history.as_ref()?.members.first().copied()
    }

    /// Finds out until when those that served last may answer reads: the primary not any more if it has joined this
    /// interval; but it may have let others.
    fn wait_out_lease(&mut self, cx: &mut Context<'_>) {
        self.peering.readers.clear();
        let Some(holder) = self.lease_holder().filter(|_| !mutant::is(Mutant::NoLeaseWait)) else { return };
        if holder == cx.whoami {
            let shares = cx.shared.leases.shares(cx.now).into_iter().map(|(osd, span)| (Some(osd), cx.now + span));
            // Reads that it let others answer before this start matter only if it has not led since.
            let came_up = cx.map.osd(holder).map_or(Epoch(0), |osd| osd.info.up_from);
            let led_before = self.peering.history.as_ref().is_some_and(|history| history.last_epoch_started < came_up);
            let unknown = led_before.then(|| (None, cx.now + cx.shared.leases.promises(cx.now).0));
            return self.wait_out_shares(cx, &shares.chain(unknown).collect());
        }
        if self.peering.told.contains_key(&holder) {
            let shares = self.peering.shares.remove(&holder).unwrap_or_default();
            return self.wait_out_shares(cx, &shares);
        }
        // Others read by the holder's leave no longer than the holder itself may.
        let (unknown, promises) = cx.shared.leases.promises(cx.now);
        let own = promises.iter().filter(|(osd, _)| *osd == holder).map(|(_, span)| *span).max();
        let own = cx.now + own.unwrap_or_default().max(unknown);
        let told = [None, Some(holder)].into_iter().filter_map(|holder| self.peering.promised.get(&holder).copied());
        let until = told.chain([own]).max().unwrap_or_default();
        self.wait_for_reader(cx, holder, until);
    }

    /// Waits for members that the last primary may have let read, by what it has said, and that have not joined this
    /// interval.
    fn wait_out_shares(&mut self, cx: &mut Context<'_>, shares: &Spans) {
        if mutant::is(Mutant::SharesNotWaitedFor) {
            return;
        }
        let served = self.peering.history.as_ref().map(|history| history.members.clone()).unwrap_or_default();
        let may_read = |osd: &OsdId| *osd != cx.whoami && !self.peering.told.contains_key(osd);
        // The first of them was the primary.
        for osd in served.into_iter().skip(1).filter(may_read).collect::<Vec<_>>() {
            let spans = [None, Some(osd)].into_iter().filter_map(|osd| shares.get(&osd).copied());
            self.wait_for_reader(cx, osd, spans.max().unwrap_or_default());
        }
    }

    fn wait_for_reader(&mut self, cx: &mut Context<'_>, osd: OsdId, until: Duration) {
        if until > cx.now {
            self.peering.readers.insert(osd, until);
            cx.agenda.wakes.insert((until, self.core.id));
            if cx.map.is_up(osd) {
                // The OSD may know already that it does not lead, or is no member, any more.
                let pg = self.core.pg_interval();
                cx.outbox.queries.entry(osd).or_default().push((pg, self.core.interval.agreed()));
            }
        }
    }

    /// Takes what the monitors knew in `epoch`. What they knew before this interval began is no answer: the group may
    /// have served elsewhere since. It answers a question of an earlier interval, and newer maps have overtaken it.
    pub(crate) fn history_told(&mut self, cx: &mut Context<'_>, epoch: Epoch, told: PgHistory) {
        if epoch < self.core.interval.since && !mutant::is(Mutant::OldRecordTaken) {
            return;
        }
        if let Phase::Gathering { .. } = &self.peering.phase {
            self.peering.record = Some(told.last_epoch_started);
            self.peering.history = Some(told);
            self.gathered(cx);
        } else {
            self.doubt_told(&told);
        }
    }

    pub(crate) fn gathered(&mut self, cx: &mut Context<'_>) {
        if let Phase::Gathering { waiting } = &self.peering.phase
            && waiting.is_empty()
            && self.peering.history.is_some()
            && self.knows_who_has_it(cx, RETRY_AFTER)
        {
            self.choose_log(cx);
        }
    }

    fn choose_log(&mut self, cx: &mut Context<'_>) {
        let history = self.peering.history.clone().expect("gathered before");
        self.core.info.created = history.created;
        if history.last_epoch_started == Epoch(0) {
            // Never served, so there is nothing: whatever an earlier attempt left is as empty as this.
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
        let others = self.peering.told.iter().filter_map(|(osd, state)| may_lead(*osd, state));
        // Of equals the first wins: no log needs to move if this member is as good as any.
        let best = may_lead(cx.whoami, &own).into_iter().chain(others);
        match best.reduce(|a, b| if b.1 > a.1 && !mutant::is(Mutant::ShortLogLeads) { b } else { a }) {
            None => self.cannot_lead(cx, history),
            Some((osd, _)) => self.go_by_log_of(cx, osd),
        }
    }

    /// Goes by the log of `osd`, which is the authoritative one: a primary that answers for its objects gets it,
    /// another one lets `osd` lead.
    pub(crate) fn go_by_log_of(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if osd == cx.whoami || self.core.stored && self.core.info.complete {
            self.start_with_log_of(cx, osd);
        } else {
            self.let_lead(cx, osd);
        }
    }

    /// Starts as the one that leads, with the log of `osd`, which may be this primary itself.
    pub(crate) fn start_with_log_of(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        if osd == cx.whoami {
            return self.start_members(cx);
        }
        self.peering.phase = Phase::GettingLog { from: osd };
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

    /// Acts where nobody in the acting set can lead, nor anybody else who is up.
    pub(crate) fn nobody_can_lead(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let since = history.last_epoch_started;
        let any_down = history.members.iter().any(|osd| is_missed(cx.map, *osd, since));
        if !matches!(self.peering.phase, Phase::Down | Phase::Incomplete) {
            let members = &history.members;
            tracing::warn!(pg = %self.core.id, %since, ?members, "of those that served last none can lead");
            self.peering.phase = if any_down { Phase::Down } else { Phase::Incomplete };
            self.queue_report(cx);
            self.hold_clients_back(cx);
        }
    }

    /// Returns true if the group does not serve, and will not before something befalls an OSD or an object comes:
    /// operations wait with their clients. Operations of a group on its way to serving wait here.
    pub(crate) fn turns_clients_away(&self, cx: &Context<'_>) -> bool {
        match self.peering.phase {
            Phase::Down | Phase::Incomplete | Phase::Premerge => true,
            Phase::Peered => cx.now >= self.peering.others_read_until(),
            Phase::Gathering { .. } => !self.waits_in_doubt(cx.map).is_empty(),
            _ => false,
        }
    }

    /// Has an acting set stand in which `osd` leads.
    pub(crate) fn let_lead(&mut self, cx: &mut Context<'_>, osd: OsdId) {
        self.peering.phase = Phase::Remapping;
        let wanted = self.with_past_members(cx, osd);
        self.want_temp(cx, wanted);
        self.queue_report(cx);
    }

    /// Returns `first`, and all others that are in the acting or up set or may have something that is needed. OSDs that
    /// the record names come before the rest, as clients and tools see no more OSDs than the pool has copies.
    pub(crate) fn with_past_members<'a>(&'a self, cx: &Context<'_>, first: OsdId) -> Vec<OsdId> {
        let past = |history: &'a PgHistory| history.past.iter().filter(|_| !mutant::is(Mutant::PastIgnored));
        let history = self.peering.history.iter();
        let all = history.clone().flat_map(|history| &history.members);
        let all = all.chain(&self.core.interval.acting).chain(&self.core.interval.up).chain(history.flat_map(past));
        let mut osds = vec![first];
        for osd in all.filter(|osd| cx.map.is_up(**osd)) {
            if !osds.contains(osd) {
                osds.push(*osd);
            }
        }
        osds
    }

    /// Returns true if the monitors are asked to let an OSD act that does not act now.
    pub(crate) fn asks_for_others(&self) -> bool {
        let asked = self.peering.temp_asked.as_deref().unwrap_or_default();
        asked.iter().any(|osd| osd.is_some() && !self.core.interval.acting.contains(osd))
    }

    pub(crate) fn want_temp(&mut self, cx: &mut Context<'_>, osds: Vec<OsdId>) {
        if self.peering.temp_asked.as_ref() != Some(&osds) {
            tracing::debug!(pg = %self.core.id, ?osds, "wants another acting set");
            self.peering.temp_asked = Some(osds.clone());
            cx.outbox.to_monitor.temps.push((self.core.id.base(), osds));
        }
    }

    /// Asks for the acting set that suits what members have: the up set once that has everything; until then also
    /// those that may have what others lack.
    pub(crate) fn consider_temp(&mut self, cx: &mut Context<'_>) {
        match self.core.protection() {
            Protection::Copies => self.consider_copies_temp(cx),
            Protection::Shards(_) => self.consider_coded_temp(cx),
        }
    }

    fn consider_copies_temp(&mut self, cx: &mut Context<'_>) {
        let Interval { up, acting, .. } = &self.core.interval;
        let has_all = |osd: &OsdId| self.is_recorded(*osd) && self.lacks_nothing(*osd, cx.whoami);
        if up.is_empty() {
            return;
        }
        if up.iter().all(has_all) {
            // Too few are wanted here, as the map has no more: whoever else serves goes on with it, as a further copy.
            let has_more = acting.iter().any(|osd| !up.contains(osd));
            let is_short =
                up.len() < usize::from(self.core.interval.shape.size) && !mutant::is(Mutant::ShortUpSetWanted);
            if acting != up && !(is_short && has_more) {
                self.want_temp(cx, Vec::new());
            }
            return;
        }
        let wanted = self.with_past_members(cx, cx.whoami);
        if wanted.iter().any(|osd| !acting.contains(osd)) {
            self.want_temp(cx, wanted);
        }
    }

    /// Sends the primary this member's log.
    pub(crate) fn log_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgLogGet) {
        if self.peering.follows(from, message.pg.since) {
            let entries = self.core.entries_for(message.since);
            cx.send_osd(from, entries);
        }
    }

    /// Takes a log: the authoritative one, if this is the primary; or the one to start over with.
    pub(crate) fn log_came(&mut self, cx: &mut Context<'_>, from: OsdId, message: PgLogEntries) {
        let as_primary = matches!(self.peering.phase, Phase::GettingLog { from: best } if best == from)
            && message.pg.since == self.core.interval.since;
        if as_primary {
            self.joins_interval();
            match self.merge_log(message.after, &message.entries, &message.info) {
                Ok(steps) => {
                    cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
                    self.start_members(cx);
                }
                Err(NoOverlap) => match self.core.protection() {
                    Protection::Copies => self.let_lead(cx, from),
                    Protection::Shards(_) => self.coded_log_does_not_meet(cx),
                },
            }
        } else if self.peering.follows(from, message.pg.since) && message.start_over {
            tracing::info!(pg = %self.core.id, %from, "starts over: its log does not meet the others'");
            self.start_over(cx, message);
        }
    }

    /// As primary: notes what this OSD has had itself when the interval began.
    fn joins_interval(&mut self) {
        if let Some(history) = &self.peering.history {
            self.core.info.joins_after(history.last_epoch_started);
        }
    }

    /// Brings log, missing objects and information to the authoritative log; returns the steps that do it in the store.
    fn merge_log(&mut self, after: EVersion, entries: &[LogEntry], theirs: &PgInfo) -> Result<Vec<Step>, NoOverlap> {
        let mut entries = entries.to_vec();
        self.as_lost(&mut entries);
        let merged = merge(&mut self.core.log, after, &entries, self.core.id.pool.shard())?;
        let (mut steps, undone) = match self.core.protection().keeps_undo() {
            true => self.undo_steps(&merged.taken_back),
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
        steps.push(self.core.info.step());
        self.core.stored = true;
        Ok(steps)
    }

    /// Takes the log as it comes, and answers for no object any more: those that are here are compared by backfill.
    fn start_over(&mut self, cx: &mut Context<'_>, mut message: PgLogEntries) {
        let mut steps = Vec::new();
        self.drop_kept_back(cx);
        self.as_lost(&mut message.entries);
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

    /// Gives the authoritative log, which this primary has, to every other member.
    pub(crate) fn start_members(&mut self, cx: &mut Context<'_>) {
        self.joins_interval();
        let is_new = self.peering.history.as_ref().is_some_and(|history| history.last_epoch_started == Epoch(0));
        let mut waiting = BTreeSet::from([cx.whoami]);
        for osd in self.core.others(cx.whoami) {
            let told = self.peering.told.remove(&osd).unwrap_or_default();
            if is_new || told.info.is_some() {
                waiting.insert(osd);
            } else {
                self.members.insert(osd, Standing::Behind, BTreeMap::new());
            }
            self.peering.told.insert(osd, told);
        }
        self.peering.phase = Phase::Starting { waiting };
        self.ask(cx);
        let then = OnCommit::Started { primary: cx.whoami, since: self.core.interval.since };
        self.remember_start(cx, Vec::new(), then);
        self.queue_report(cx);
    }

    fn remember_start(&mut self, cx: &mut Context<'_>, mut steps: Vec<Step>, then: OnCommit) {
        if self.core.info.complete {
            self.core.info.last_epoch_started = self.core.interval.since;
        }
        self.core.stored = true;
        steps.push(self.core.info.step());
        cx.submit_or_stop(Transaction { pg: self.core.id, steps }, then);
    }

    /// Brings this member's log to the authoritative one, which the primary has sent.
    pub(crate) fn start_wanted(&mut self, cx: &mut Context<'_>, from: OsdId, message: &PgStart) {
        if !self.peering.follows(from, message.pg.since) {
            return;
        }
        let pg = self.core.pg_interval();
        match self.peering.started {
            // Asked again. The log must not be merged twice: updates may have followed it.
            Some(true) => return cx.send_osd(from, PgStarted { pg, merged: true, missing: self.core.missing.clone() }),
            Some(false) => return,
            None => {}
        }
        let had = (self.core.info.own_in, self.core.info.own_until);
        self.core.info.joins_after(message.info.own_in);
        match self.merge_log(message.after, &message.entries, &message.info) {
            Ok(steps) => {
                self.peering.started = Some(false);
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

    /// Tells the primary that [`Pg::remember_start`] is durable here.
    pub(crate) fn start_remembered(&mut self, cx: &mut Context<'_>, primary: OsdId, since: Epoch) {
        let (pg, missing) = (PgInterval { pgid: self.core.id, since }, self.core.missing.clone());
        if primary == cx.whoami {
            self.member_started(cx, cx.whoami, PgStarted { pg, merged: true, missing });
        } else if self.peering.follows(primary, since) {
            self.peering.started = Some(true);
            cx.send_osd(primary, PgStarted { pg, merged: true, missing });
        }
    }

    pub(crate) fn member_started(&mut self, cx: &mut Context<'_>, osd: OsdId, message: PgStarted) {
        let Phase::Starting { waiting } = &mut self.peering.phase else { return };
        if message.pg.since != self.core.interval.since || !waiting.remove(&osd) {
            return;
        }
        let all = waiting.is_empty();
        if osd != cx.whoami {
            let told = self.peering.told.get(&osd).and_then(|told| told.info.as_ref());
            let standing = match (message.merged, told.is_none_or(|info| info.complete)) {
                (false, _) if !mutant::is(Mutant::BehindServes) => Standing::Behind,
                (false, _) => Standing::Serving,
                (true, true) => Standing::Serving,
                (true, false) => Standing::Backfilling,
            };
            self.members.insert(osd, standing, message.missing);
            if standing == Standing::Backfilling {
                let from = told.and_then(|info| info.last_backfill.clone());
                self.healer().begin_backfill(osd, from);
            }
        }
        if all {
            self.all_started(cx);
        }
    }

    fn all_started(&mut self, cx: &mut Context<'_>) {
        self.peering.phase = Phase::Peered;
        self.replication.start(&self.serving(cx), self.core.log.head());
        self.wait_out_lease(cx);
        let (head, missing) = (self.core.log.head(), self.core.missing.len());
        let since = self.core.interval.since;
        tracing::debug!(pg = %self.core.id, %since, %head, missing, members = ?self.members, "peered");
        self.members_changed(cx);
        cx.cause(self.core.id, Effect::Recover);
    }

    /// Returns the members that have the whole log, this primary first.
    pub(crate) fn serving(&self, cx: &Context<'_>) -> Vec<OsdId> {
        let serves = |osd: &OsdId| self.members.standing(*osd) == Some(Standing::Serving);
        std::iter::once(cx.whoami).chain(self.core.others(cx.whoami).into_iter().filter(serves)).collect()
    }

    /// Returns true if reads may be answered: every serving member has promised that nobody else serves.
    pub(crate) fn may_read(&mut self, cx: &mut Context<'_>) -> bool {
        let mut holds = true;
        if mutant::is(Mutant::ReadsWithoutLease) {
            return true;
        }
        for (osd, standing) in self.members.iter() {
            if standing == Standing::Serving {
                holds &= cx.shared.leases.holds(osd, cx.now);
            }
        }
        if !holds {
            cx.shared.leases.waiting.insert(self.core.id);
        }
        holds
    }

    /// Returns true if the monitors have recorded, in this interval, that the member serves.
    pub(crate) fn is_recorded(&self, osd: OsdId) -> bool {
        let current = |history: &&PgHistory| history.last_epoch_started == self.core.interval.since;
        self.peering.history.iter().filter(current).any(|history| history.members.contains(&osd))
    }

    /// Returns true if the member (this primary too) has the log and all objects durably.
    pub(crate) fn lacks_nothing(&self, osd: OsdId, whoami: OsdId) -> bool {
        match osd == whoami {
            true => self.whereabouts().has_all_durably(),
            false => self.members.lacks_nothing(osd),
        }
    }

    /// Has the group act, once this input is handled, on members that have got further.
    pub(crate) fn members_changed(&self, cx: &mut Context<'_>) {
        cx.cause(self.core.id, Effect::MembersChanged);
    }

    /// Acts on members that have got further: the group serves if they are enough, and the monitors are told what they
    /// should know.
    pub(crate) fn follow_members(&mut self, cx: &mut Context<'_>) {
        if !matches!(self.peering.phase, Phase::Active | Phase::Peered | Phase::Recording | Phase::Premerge) {
            return;
        }
        if cx.now < self.peering.others_read_until() {
            return;
        }
        self.look_for_old_shards(cx);
        let members = self.serving(cx);
        let is_enough = self.whereabouts().serving_copies() >= usize::from(self.core.interval.shape.min_size);
        let is_ready = is_enough || mutant::is(Mutant::MinSizeIgnored);
        if is_ready && (!self.peering.is_peered() || self.adopted_are_kept(cx)) {
            if self.peering.is_peered() {
                // An OSD that is to leave the group stays in it until as many others serve as there should be: the
                // record that is asked for here does not name it any more.
                if self.whereabouts().serving_copies() < usize::from(self.core.interval.shape.size) {
                    self.consider_temp(cx);
                }
                self.peering.phase = Phase::Recording;
            }
            let recovered = members.iter().all(|osd| self.lacks_nothing(*osd, cx.whoami));
            let is_known = self.peering.history.as_ref().is_some_and(|history| {
                history.last_epoch_started == self.core.interval.since
                    && history.members == members
                    && (!recovered || history.past.is_empty() && history.doubt != doubt::BEHIND)
            });
            let wanted = Some((members, recovered));
            if !is_known && self.peering.record_asked != wanted {
                self.peering.record_asked = wanted;
                self.ask(cx);
            }
        }
        if self.peering.may_recover() {
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
        let Some((members, recovered)) = &self.peering.record_asked else { return };
        let is_newer = self.peering.record.is_some_and(|record| history.last_epoch_started > record);
        if is_newer && history.last_epoch_started < self.core.interval.since {
            // The interval was recorded late, after this primary had asked: others may have been answered by its
            // members.
            return self.begin_with_newer_map(cx, "another interval was recorded meanwhile");
        }
        if !is_ours || history.members != *members {
            return;
        }
        if !recovered || history.past.is_empty() {
            self.peering.record_asked = None;
        }
        self.peering.record = Some(history.last_epoch_started);
        self.peering.history = Some(history);
        let is_merging = self.core.interval.shape.is_merging(self.core.id) && !mutant::is(Mutant::PremergeServes);
        if matches!(self.peering.phase, Phase::Recording) && is_merging {
            self.peering.phase = Phase::Premerge;
            tracing::debug!(pg = %self.core.id, since = %self.core.interval.since, head = %self.core.log.head(), "ready to be merged");
            cx.cause(self.core.id, Effect::Recover);
        } else if matches!(self.peering.phase, Phase::Recording) {
            self.peering.phase = Phase::Active;
            self.replication.start(&self.serving(cx), self.core.log.head());
            tracing::debug!(pg = %self.core.id, since = %self.core.interval.since, head = %self.core.log.head(), "active");
            self.ask_members_for_room(cx);
            self.look_for_old_shards(cx);
            cx.cause(self.core.id, Effect::Recover);
            cx.cause(self.core.id, Effect::StartOps);
            self.watches.look_again(cx, self.core.id);
            cx.shared.backoffs.release(self.core.id.base(), cx.map.epoch);
        }
        self.members_changed(cx);
    }

    /// Returns the bits of the group's state, as Ceph names it.
    pub(crate) fn state_bits(&self, whoami: OsdId) -> u64 {
        let undersized = match self.peering.may_recover() {
            true => self.whereabouts().serving_copies() < usize::from(self.core.interval.shape.size),
            false => !self.core.interval.is_full(),
        };
        let mut bits = match self.peering.phase {
            Phase::Follower => 0,
            Phase::AwaitingMap { .. }
            | Phase::Gathering { .. }
            | Phase::GettingLog { .. }
            | Phase::Starting { .. }
            | Phase::Recording => pg_state::PEERING,
            Phase::Remapping => pg_state::PEERING | pg_state::REMAPPED,
            Phase::Peered => pg_state::PEERED,
            Phase::Active => pg_state::ACTIVE,
            Phase::Premerge => pg_state::PEERED | pg_state::PREMERGE,
            Phase::Down => pg_state::DOWN,
            Phase::Incomplete => pg_state::INCOMPLETE,
        };
        let members = self.core.interval.acting.iter();
        let lack_objects = !members.clone().all(|osd| self.lacks_nothing(*osd, whoami));
        let is_recorded = members.clone().all(|osd| self.is_recorded(*osd));
        if self.peering.may_recover() {
            bits |= self.whereabouts().healing_bits();
            if self.whereabouts().degraded_and_misplaced().0 > 0 {
                bits |= pg_state::DEGRADED;
            }
        }
        if !self.core.interval.is_where_wanted() && !self.core.interval.up.is_empty() {
            bits |= pg_state::REMAPPED;
        } else if self.peering.is_active() && !undersized && !lack_objects && is_recorded {
            bits |= pg_state::CLEAN;
        }
        if undersized {
            bits |= pg_state::UNDERSIZED | pg_state::DEGRADED;
        }
        bits | self.scrub.state_bits() | self.trim_bits()
    }
}

/// Microseconds of another clock as points in time of this one.
fn spans_until(spans: &[(Option<OsdId>, u64)], now: Duration) -> Spans {
    let until = |span| now + by_another_clock(Duration::from_micros(span));
    spans.iter().map(|(osd, span)| (*osd, until(*span))).collect()
}

//! Choice of an erasure-coded group's log, and of the OSDs that should act for its shards.
//!
//! Every OSD that the record names has every update that a client was answered for, but for such as skip its shard, of
//! which it is told later. What one of those that are here does not have and is not skipped by was therefore not
//! answered: the group's log is the longest of theirs up to the first such update. So nothing that one of them holds is
//! older for what its log lacks, and each takes back by itself what it has more. There must be as many as it takes to
//! read an object.
//!
//! One whose log ends before what another one has rolled forward has lost the end of it (a drive that lied about a
//! flush, a last record that rotted): all had what is rolled forward. So has one that lacks what clients were answered
//! for, as another one knows, and that does not skip its shard. Its log does not count as long as the others are
//! enough; it is brought to theirs.

use crate::agreement::log_holders::{LogHolder, LogHolders};
use crate::agreement::lost_osds::is_given_up;
use crate::agreement::machine::Agreement;
use crate::agreement::members::Standing;
use crate::agreement::merge::NoOverlap;
use crate::agreement::phase::Phase;
use crate::context::{Context, OnCommit};
use crate::group::info::PgInfo;
use crate::group::log::LogEntry;
use crate::messages::peering::PgLogGet;
use mutant::Mutant;
use std::collections::BTreeSet;
use store::Transaction;
use types::{EVersion, Epoch, OsdId};
use wire::nacre::mon::PgHistory;

/// Returns the OSDs that served last, each with its shard.
fn served(history: &PgHistory) -> impl Iterator<Item = (OsdId, u8)> {
    history.members.iter().copied().zip(history.member_shards.iter().copied())
}

pub(crate) fn served_before(history: &PgHistory) -> impl Iterator<Item = (OsdId, u8)> {
    history.past.iter().copied().zip(history.past_shards.iter().copied())
}

/// Returns the epoch since which an OSD has been up, and that of the group's last service. As long as neither changes,
/// the OSD does not find a shard that it lacked.
fn life_of(cx: &Context<'_>, osd: OsdId, history: &PgHistory) -> (Epoch, Epoch) {
    (cx.map.osd(osd).map_or(Epoch(0), |osd| osd.info.up_from), history.last_epoch_started)
}

impl Agreement<'_> {
    /// Chooses the log of a group that has served before, once what the monitors and the members know is known.
    pub(super) fn choose_coded_log(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let own = (cx.whoami, self.core.member_state());
        let states = std::iter::once((&own.0, &own.1)).chain(&self.state.told);
        let k = self.core.protection().needed();
        let is_left = self.goes_on_with_shards_left(cx, history);
        // Whoever served before counts only where those that served last are given up.
        let may_count = |osd, shard| is_left || served(history).any(|holder| holder == (osd, shard));
        let mut holders = Vec::new();
        let (mut newest, mut rolled_forward, mut answered) = (Epoch(0), EVersion::ZERO, EVersion::ZERO);
        for (osd, state) in states {
            let Some(shard) = self.core.interval.shard_of(*osd).filter(|shard| may_count(*osd, *shard)) else {
                continue;
            };
            let served_last = |info: &PgInfo| info.last_epoch_started >= history.last_epoch_started;
            let has_all = |info: &&PgInfo| info.complete && (is_left || served_last(info));
            match state.info.as_ref().filter(has_all) {
                Some(info) => {
                    newest = newest.max(info.last_epoch_started);
                    rolled_forward = rolled_forward.max(info.rolled_forward);
                    answered = answered.max(info.answered);
                    holders.push((*osd, shard, info.last_update, info.last_epoch_started));
                }
                None => {
                    self.state.without.insert((*osd, shard), life_of(cx, *osd, history));
                }
            }
        }
        let leads = holders.first().is_some_and(|(osd, ..)| *osd == cx.whoami);
        let shards: BTreeSet<u8> = holders.iter().map(|(_, shard, ..)| *shard).collect();
        // Holders that served longer than others have the group's log. Others' shards lack what their logs lack.
        holders.retain(|(.., since)| !is_left || *since == newest);
        let is_whole = |holder: &(OsdId, u8, EVersion, Epoch)| holder.2 >= rolled_forward;
        let whole: BTreeSet<u8> =
            holders.iter().filter(|holder| is_whole(holder)).map(|(_, shard, ..)| *shard).collect();
        if whole.len() >= k && !mutant::is(Mutant::ShortLogTakesBack) {
            for (osd, _, head, _) in holders.iter().filter(|holder| !is_whole(holder)) {
                tracing::error!(pg = %self.core.id, %osd, %head, %rolled_forward, "has lost the end of its log");
            }
            holders.retain(is_whole);
        }
        // The first of several longest logs wins. The first is this member's own, so that no log is moved without need.
        let longest = holders.iter().copied().reduce(|a, b| if b.2 > a.2 { b } else { a });
        let all = holders.into_iter().map(|(osd, shard, head, _)| LogHolder { osd, shard, head }).collect();
        let holders = LogHolders { all, answered, needed: k };
        // An OSD that served before, and has a shard that others lack, may lead with the log of OSDs that served last.
        let may_lead = leads || self.core.stored && self.core.info.complete;
        match longest {
            Some((osd, _, version, since)) if may_lead && shards.len() >= k => {
                if is_left {
                    self.say_what_is_left(cx, history, osd, (since, version));
                }
                self.start_with_end_of(cx, osd, holders);
            }
            _ => self.let_holders_act(cx, history),
        }
    }

    /// Starts with the group's log, which is that of `osd`, the longest, up to where `holders` tell that it ends.
    fn start_with_end_of(&mut self, cx: &mut Context<'_>, osd: OsdId, holders: LogHolders) {
        let least = holders.shortest();
        if osd != cx.whoami {
            let since = self.core.log.head().min(least);
            self.state.phase = Phase::GettingLog { from: osd, holders };
            cx.send_osd(osd, PgLogGet { pg: self.core.pg_interval(), since });
            return self.queue_report(cx);
        }
        let entries: Option<Vec<LogEntry>> = self.core.log.after(least).map(|entries| entries.cloned().collect());
        let Some((end, entries)) = entries.and_then(|entries| Some((holders.log_end(least, &entries)?, entries)))
        else {
            return self.coded_log_does_not_meet(cx);
        };
        if end < self.core.log.head() {
            self.joins_interval();
            let info = self.info_at(end, &holders, &entries);
            match self.merge_log(end, &[], &info) {
                Ok(steps) => cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing),
                Err(NoOverlap) => return self.coded_log_does_not_meet(cx),
            }
        }
        self.learns_answered(holders.answered);
        self.start_members(cx);
    }

    /// As primary that has the group's log: remembers for what clients were answered, as a holder knows, and lets all
    /// members know. That holder may be gone next time.
    pub(super) fn learns_answered(&mut self, answered: EVersion) {
        if !mutant::is(Mutant::AnsweredForgotten) {
            let known = self.core.info.answered.max(answered);
            self.core.info.answered = known.min(self.core.log.head());
        }
    }

    /// Returns the group's information as of about `end`: that of the holder that got furthest and not beyond. What
    /// skipped shards have not been told yet, by `entries`, changes no count but those of writes, which lack it then.
    pub(super) fn info_at(&self, end: EVersion, holders: &LogHolders, entries: &[LogEntry]) -> PgInfo {
        let best = holders.all.iter().filter(|holder| holder.head <= end).max_by_key(|holder| holder.head);
        let told = best.and_then(|holder| self.state.told.get(&holder.osd)?.info.as_ref());
        let mut info = told.unwrap_or(&self.core.info).clone();
        let untold = entries.iter().take_while(|entry| entry.version <= end);
        info.last_user_version = untold.map(|entry| entry.user_version).fold(info.last_user_version, u64::max);
        info
    }

    /// Returns true if so many of the OSDs that served last are given up that the shards of the others are too few, and
    /// those others are here: they know at least what was changed. Shards of OSDs that served before are taken then,
    /// too. Objects that changed since may be lost.
    fn goes_on_with_shards_left(&self, cx: &Context<'_>, history: &PgHistory) -> bool {
        let since = history.last_epoch_started;
        let (gone, there): (Vec<_>, Vec<_>) = served(history).partition(|(osd, _)| is_given_up(cx.map, *osd, since));
        let shards: BTreeSet<u8> = there.iter().map(|(_, shard)| *shard).collect();
        let are_here = there.iter().all(|(osd, _)| cx.map.is_up(*osd));
        !gone.is_empty() && are_here && shards.len() < self.core.protection().needed()
    }

    /// Acts where the log of OSDs that served last does not meet this primary's.
    pub(super) fn coded_log_does_not_meet(&mut self, cx: &mut Context<'_>) {
        let history = self.state.history.clone().expect("gathered before");
        match history.members.contains(&cx.whoami) {
            // Both have served, and their logs begin at the same end.
            true => self.nobody_can_lead(cx, &history),
            false => self.let_holders_act(cx, &history),
        }
    }

    /// Asks the monitors for an acting set of the OSDs that served last, each for its shard, because this primary lacks
    /// what leading takes, or too few members have it. OSDs that are known to have come back without their shard are
    /// left out: such an OSD has taken the place of a lost one, and is empty.
    fn let_holders_act(&mut self, cx: &mut Context<'_>, history: &PgHistory) {
        let mut wanted = vec![OsdId::NONE; usize::from(self.core.interval.shape.size)];
        let is_left = self.goes_on_with_shards_left(cx, history);
        let own_shard = |osd: OsdId| Some((osd, self.core.interval.shard_of(osd)?));
        let here = std::iter::once(cx.whoami).chain(self.state.told.keys().copied()).filter_map(own_shard);
        let before = here.chain(served_before(history)).filter(|_| is_left);
        for (osd, shard) in served(history).chain(before).filter(|(osd, _)| cx.map.is_up(*osd)) {
            if self.state.without.get(&(osd, shard)) == Some(&life_of(cx, osd, history)) {
                continue;
            }
            let free = !wanted.contains(&osd);
            if let Some(place) = wanted.get_mut(usize::from(shard)).filter(|place| free && !place.is_some()) {
                *place = osd;
            }
        }
        let is_any = wanted.iter().any(|osd| osd.is_some());
        if is_any && wanted != self.core.interval.acting {
            self.state.phase = Phase::Remapping;
            self.want_temp(cx, wanted);
            return self.queue_report(cx);
        }
        self.nobody_can_lead(cx, history);
    }

    /// Returns the acting set that suits what members have, if it is not the present one: shards that somebody serves,
    /// or has, instead of those that nobody does; and where all is healed, whom the map wants, each for the shard that
    /// it has. An empty one stands for the up set.
    pub(super) fn suitable_shards(&self, cx: &Context<'_>) -> Option<Vec<OsdId>> {
        if self.state.is_active() && !self.durability.is_brought_to_stay() {
            // The acting set is considered again once the updates are.
            return None;
        }
        let up = &self.core.interval.up;
        // The OSDs of the up set, each for the shard that it has or is brought to have. Who is placed by hand may lack
        // some.
        let [acting, to_be] = [self.core.interval.acting.clone(), self.core.interval.shards_to_be()].map(|mut osds| {
            osds.resize(usize::from(self.core.interval.shape.size), OsdId::NONE);
            osds
        });
        let history = self.state.history.as_ref()?;
        let acts_for =
            |osd: OsdId, shard: usize| osd.is_some() && self.core.interval.shard_of(osd) == Some(shard as u8);
        let serves = |osd: OsdId| osd == cx.whoami || self.members.standing(osd) == Some(Standing::Serving);
        let has_all = |osd: OsdId| self.progress().is_recorded(osd) && self.progress().lacks_nothing(osd, cx.whoami);
        let is_ready = |shard: usize| acts_for(to_be[shard], shard) && has_all(to_be[shard]);
        if up.is_empty() {
            return None;
        }
        if (0..to_be.len()).all(is_ready) {
            return (acting != to_be).then(|| if to_be == *up { Vec::new() } else { to_be });
        }
        // First those that are as they should be, or serve; then others that have the shard; then who has come in their
        // place.
        let mut wanted = vec![OsdId::NONE; to_be.len()];
        for shard in 0..to_be.len() {
            let is = acting[shard];
            if is_ready(shard) && !wanted.contains(&to_be[shard]) {
                wanted[shard] = to_be[shard];
            } else if acts_for(is, shard) && serves(is) && !wanted.contains(&is) {
                wanted[shard] = is;
            }
        }
        let leads = wanted.iter().position(|osd| osd.is_some());
        for (osd, shard) in served(history).chain(served_before(history)) {
            let shard = usize::from(shard);
            // The first place leads, for which it takes more than an old shard.
            let may = leads.is_some_and(|leads| leads < shard) && cx.map.is_up(osd) && !wanted.contains(&osd);
            if let Some(place) = wanted.get_mut(shard).filter(|place| may && !place.is_some()) {
                *place = osd;
            }
        }
        for shard in 0..to_be.len() {
            let is = acting[shard];
            if leads.is_some_and(|leads| leads < shard) && !wanted[shard].is_some() && !wanted.contains(&is) {
                wanted[shard] = is;
            }
        }
        if wanted == acting || leads.is_none() {
            return None;
        }
        let held = |osds: &[OsdId]| {
            let of = |(shard, osd): (usize, &OsdId)| {
                let holds = served(history).chain(served_before(history)).any(|h| h == (*osd, shard as u8));
                osd.is_some() && (holds || acts_for(*osd, shard) && serves(*osd))
            };
            osds.iter().enumerate().filter(|place| of(*place)).count()
        };
        let is_busy = !self.core.missing.is_empty()
            || self
                .members
                .iter()
                .any(|(osd, standing)| standing != Standing::Serving || self.members.missing(osd).next().is_some());
        (held(&wanted) > held(&acting) || !is_busy && held(&wanted) == held(&acting)).then_some(wanted)
    }
}

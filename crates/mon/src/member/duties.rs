//! Periodic work: members come and go, one at a time, and the leader watches the quorum.

use super::{Action, Member};
use crate::monitor::Now;
use crate::volatile::Quorum;
use raft::{Change, ServerId};
use std::collections::BTreeSet;
use std::time::Duration;
use tracing::{debug, info};
use wire::nacre::quorum::QuorumReport;

/// Period of the duties, with other monitors and without any.
const EVERY: Duration = Duration::from_millis(100);
const EVERY_ALONE: Duration = Duration::from_secs(1);
/// Time without a known leader after which a monitor closes all sessions, so that other monitors serve them.
pub(super) const LEADERLESS_MAX: Duration = Duration::from_secs(3);

impl Member {
    pub(super) fn duties(&mut self, now: Now, out: &mut Vec<Action>) {
        self.follow_members(out);
        let alone = self.links.is_empty() && self.raft.membership().voters.len() == 1;
        self.duties_at = now.since_start + if alone { EVERY_ALONE } else { EVERY };
        if self.is_leaderless(now) {
            self.send_all_away(now, out);
        }
        if !self.monitor.leads() {
            return;
        }
        if let Some(data) = self.unproposed.take() {
            self.propose(now, data, out);
        }
        self.monitor.set_voters(now, self.voters(), &mut self.todo);
        self.change_members(now);
        let quorum = self.quorum(now);
        self.monitor.set_quorum(now, quorum);
    }

    pub(super) fn is_leaderless(&self, now: Now) -> bool {
        self.leaderless_since.is_some_and(|since| now.since_start >= since + LEADERLESS_MAX)
    }

    /// Makes the members those that the state names, one step at a time. A step that cannot be done now is tried again.
    fn change_members(&mut self, now: Now) {
        let wanted: BTreeSet<ServerId> =
            self.monitor.state().mon_servers.values().map(|known| ServerId(known.server)).collect();
        let members = self.raft.membership();
        let missing =
            wanted.iter().find(|server| !members.contains(**server)).map(|server| Change::AddLearner(*server));
        let surplus = members.members().find(|server| !wanted.contains(server));
        if missing.is_none() && surplus == Some(self.me()) {
            return self.hand_over(now, &wanted);
        }
        let learner = members.learners.iter().find(|server| wanted.contains(server));
        let step = missing.or(surplus.map(Change::Remove)).or(learner.map(|server| Change::Promote(*server)));
        let Some(step) = step else { return };
        match self.raft.change_membership(now.since_start, step) {
            Ok(_) => info!("members change: {step:?}"),
            Err(reason) => debug!("members do not change yet ({step:?}): {reason}"),
        }
    }

    /// Hands leadership to another member that is alive: this monitor leads and is to be removed.
    fn hand_over(&mut self, now: Now, wanted: &BTreeSet<ServerId>) {
        let voters = &self.raft.membership().voters;
        let fit = |server: &ServerId| wanted.contains(server) && voters.contains(server) && self.is_alive(now, *server);
        let followers = self.raft.followers().filter(|(server, ..)| fit(server));
        if let Some((to, ..)) = followers.max_by_key(|(_, matched, _)| *matched)
            && self.raft.transfer(now.since_start, to).is_ok()
        {
            info!("leadership goes to {to}: this monitor was removed");
        }
    }

    /// Returns the quorum that a new leader begins with: without the old leader, and with all others until they turn
    /// out to be gone.
    pub(super) fn first_quorum(&self, now: Now) -> Quorum {
        let told = &self.monitor.volatile().quorum.report;
        let mut members = told.members.clone();
        members.remove(&told.leader);
        members.insert(self.identity.name.clone());
        Quorum { report: self.report(now, members), clocks: self.clocks.clone() }
    }

    fn report(&self, now: Now, members: BTreeSet<String>) -> QuorumReport {
        QuorumReport { epoch: self.raft.term(), leader: self.identity.name.clone(), members, since: now.wall }
    }

    /// Returns the present quorum: the voters that have answered lately.
    fn quorum(&self, now: Now) -> Quorum {
        let before = &self.monitor.volatile().quorum.report;
        let is_new = now.since_start < self.leads_since + self.config.raft.election_timeout;
        let mut members: BTreeSet<String> = if is_new { before.members.clone() } else { BTreeSet::new() };
        for server in &self.raft.membership().voters {
            if self.is_alive(now, *server) {
                members.extend(self.name_of(*server).map(str::to_owned));
            }
        }
        let same = members == before.members;
        let report = if same { before.clone() } else { self.report(now, members) };
        Quorum { report, clocks: self.clocks.clone() }
    }
}

//! Conditions under which a leader may answer from its state.
//!
//! A read must see everything that was decided before it was asked. Two conditions make sure of that:
//!
//! * The leader has decided an entry of its own term, so that it knows everything that older leaders decided, and its
//!   state machine is as far as it was when the read came.
//! * No other server leads. Either a majority has answered a message that the leader sent after the read came; or one
//!   that is no older than a lease: then none of these voters votes for another server yet
//!   ([`Config::lease`](crate::Config)), and each new leader needs one of them.

use crate::bug::{self, Bug};
use crate::raft::{Action, Leading, Raft, ReadId, Role};
use std::time::Duration;

/// A read that waits.
#[derive(Debug)]
pub(crate) struct PendingRead {
    pub id: ReadId,
    pub arrived: Duration,
    /// Index up to which the state machine must have taken everything.
    pub index: u64,
}

impl Raft {
    /// Asks for [`Action::ReadReady`] when the state machine's state is the newest. Returns false if this server does
    /// not lead, or too many reads wait.
    pub fn read(&mut self, now: Duration, id: ReadId) -> bool {
        let commit = self.commit;
        let Role::Leader(leading) = &mut self.role else { return false };
        if leading.reads.len() >= self.config.reads_max {
            return false;
        }
        let index = if bug::is(Bug::ReadsBeforeTermStart) { commit } else { commit.max(leading.term_start) };
        leading.reads.push_back(PendingRead { id, arrived: now, index });
        true
    }

    /// Returns the time at which the leader sent the newest of its messages that a majority has answered.
    fn confirmed(&self, leading: &Leading, now: Duration) -> Option<Duration> {
        let answered = |server| match leading.peers.get(&server) {
            Some(peer) => peer.answered,
            None => (server == self.id).then_some(now),
        };
        self.log.membership().reached_by_majority(answered).flatten()
    }

    /// Returns the time at which a leader gives up unless a majority answers before.
    pub(crate) fn quorum_lost_at(&self, leading: &Leading) -> Duration {
        // The leader itself is there: the answers of the others count.
        let confirmed = self.confirmed(leading, Duration::MAX).map_or(leading.since, |at| at.max(leading.since));
        confirmed.saturating_add(2 * self.config.election_timeout)
    }

    /// Returns the time until which no other server can lead. `None`: not known.
    pub(crate) fn lease_until(&self, leading: &Leading, now: Duration) -> Option<Duration> {
        let confirmed = self.confirmed(leading, now);
        confirmed.map(|confirmed| confirmed + self.config.lease())
    }

    /// Takes note that this server's machine stood still for a time that its clock did not count: the others' promises
    /// may have ended, so a leader's lease is over. Answers to messages from now on give it another one. Promises of
    /// this server last longer than they have to.
    pub fn clock_stood_still(&mut self, now: Duration) {
        if let Role::Leader(leading) = &mut self.role {
            leading.lease_from = now;
        }
    }

    /// For a leader: returns the time from now on for which no other server can lead, so that it answers reads without
    /// asking one. `None`: not known, or it does not lead.
    pub fn lease_left(&self, now: Duration) -> Option<Duration> {
        let Role::Leader(leading) = &self.role else { return None };
        self.lease_until(leading, now)?.checked_sub(now).filter(|left| !left.is_zero())
    }

    /// Returns the time at which the oldest read came, if only an answer to a new message lets it be answered.
    pub(crate) fn read_that_waits_for_word(&self, now: Duration) -> Option<Duration> {
        let Role::Leader(leading) = &self.role else { return None };
        let read = leading.reads.front()?;
        let has_lease = self.lease_until(leading, now).is_some_and(|until| now < until);
        (!has_lease).then_some(read.arrived)
    }

    pub(crate) fn answer_reads(&mut self, now: Duration, out: &mut Vec<Action>) {
        out.extend(self.failed_reads.drain(..).map(Action::ReadFailed));
        let Role::Leader(leading) = &self.role else { return };
        if leading.reads.is_empty() {
            return;
        }
        let confirmed = self.confirmed(leading, now);
        let has_lease = self.lease_until(leading, now).is_some_and(|until| now < until);
        let (applied, is_sure) = (self.applied, bug::is(Bug::ReadsUnconfirmed));
        let Role::Leader(leading) = &mut self.role else { return };
        leading.reads.retain(|read| {
            let leads = has_lease || confirmed.is_some_and(|at| at >= read.arrived) || is_sure;
            let is_ready = leads && applied >= read.index;
            if is_ready {
                out.push(Action::ReadReady(read.id));
            }
            !is_ready
        });
    }
}

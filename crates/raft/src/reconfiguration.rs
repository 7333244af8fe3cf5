//! Members come and go, one at a time; leadership is handed over.

use crate::bug::{self, Bug};
use crate::progress::Progress;
use crate::raft::{Leading, Raft, Role};
use crate::{Change, Membership, Message, Payload, Position, ServerId};
use std::time::Duration;

/// Most entries that a learner may lack when it becomes a voter.
const LAG_MAX: u64 = 64;

/// Reason why members were not changed. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ChangeError {
    #[error("this server does not lead")]
    NotLeader { leader: Option<ServerId> },
    #[error("leadership is being handed over")]
    HandingOver,
    #[error("the change before is not decided yet")]
    InProgress,
    #[error("the leader has just begun and does not know yet what is decided")]
    TooEarly,
    #[error("the change would change nothing, or leave nobody")]
    Impossible,
    #[error("{0} leads: hand its leadership over first")]
    Leader(ServerId),
    #[error("{0} has not caught up yet")]
    Behind(ServerId),
    #[error("afterwards {answering} of {voters} voters would be there, which is no majority")]
    NoMajority { answering: usize, voters: usize },
}

/// Reason why leadership is not handed over.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    #[error("this server does not lead")]
    NotLeader { leader: Option<ServerId> },
    #[error("leadership is being handed over already")]
    HandingOver,
    #[error("{0} is no other voter")]
    NotVoter(ServerId),
}

impl Raft {
    /// Adds a change of members to the log. It is in force at once, and decided when it is applied; the next one waits
    /// for that.
    pub fn change_membership(&mut self, now: Duration, change: Change) -> Result<Position, ChangeError> {
        let Role::Leader(leading) = &self.role else {
            return Err(ChangeError::NotLeader { leader: self.leader });
        };
        if leading.transfer.is_some() {
            return Err(ChangeError::HandingOver);
        }
        if self.log.membership_index() > self.commit && !bug::is(Bug::TwoChanges) {
            return Err(ChangeError::InProgress);
        }
        // Otherwise two leaders could each have a step that the other does not know, and the majorities of two steps
        // need not meet.
        if self.commit < leading.term_start && !bug::is(Bug::ChangeBeforeTermStart) {
            return Err(ChangeError::TooEarly);
        }
        let next = self.log.membership().after(change).ok_or(ChangeError::Impossible)?;
        match change {
            Change::AddLearner(_) => {}
            Change::Promote(server) => {
                let lag = leading.peers.get(&server).map(|peer| self.log.last().index - peer.matched);
                if lag.is_none_or(|lag| lag > LAG_MAX) || !self.answers(leading, server, now) {
                    return Err(ChangeError::Behind(server));
                }
            }
            Change::Remove(server) if server == self.id => return Err(ChangeError::Leader(server)),
            Change::Remove(_) => {}
        }
        if next.voters != self.log.membership().voters {
            let answering = next.voters.iter().filter(|voter| self.answers(leading, **voter, now)).count();
            if answering < next.majority() {
                return Err(ChangeError::NoMajority { answering, voters: next.voters.len() });
            }
        }
        let position = self.append_own(Payload::Membership(next.clone()));
        self.follow_members(&next, position.index);
        Ok(position)
    }

    fn answers(&self, leading: &Leading, server: ServerId, now: Duration) -> bool {
        let answered = leading.peers.get(&server).and_then(|peer| peer.answered);
        server == self.id || answered.is_some_and(|at| now < at + 2 * self.config.election_timeout)
    }

    fn follow_members(&mut self, members: &Membership, next: u64) {
        let Role::Leader(leading) = &mut self.role else { return };
        leading.peers.retain(|server, _| members.contains(*server));
        for server in members.members().filter(|server| *server != self.id) {
            leading.peers.entry(server).or_insert_with(|| Progress::new(next));
        }
    }

    /// Hands leadership over to `to`, once it has the whole log; until then no proposal is taken. Given up if that
    /// takes longer than an election timeout. [`crate::Action::Leadership`] tells the result.
    pub fn transfer(&mut self, now: Duration, to: ServerId) -> Result<(), TransferError> {
        let Role::Leader(leading) = &mut self.role else {
            return Err(TransferError::NotLeader { leader: self.leader });
        };
        if leading.transfer.is_some() {
            return Err(TransferError::HandingOver);
        }
        if to == self.id || !self.log.membership().voters.contains(&to) {
            return Err(TransferError::NotVoter(to));
        }
        leading.transfer = Some((to, now + self.config.election_timeout));
        Ok(())
    }

    /// Goes on with handing over.
    pub(crate) fn hand_over(&mut self, now: Duration) {
        let last = self.log.last().index;
        let Role::Leader(leading) = &mut self.role else { return };
        let Some((to, until)) = leading.transfer else { return };
        let has_all = leading.peers.get(&to).is_some_and(|peer| peer.matched == last);
        if has_all {
            // No lease of this term may last once `TimeoutNow` releases voters from their promises, however late it
            // comes.
            let message = Message::TimeoutNow { term: self.vote.term };
            if bug::is(Bug::ReleasedStays) {
                leading.transfer = None;
            } else {
                self.step_down(now);
            }
            self.send(to, message);
        } else if now >= until {
            leading.transfer = None;
        }
    }
}

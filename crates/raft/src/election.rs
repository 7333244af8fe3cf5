//! Elections: pre-votes, votes, and the promise not to vote while a leader is alive.
//!
//! A server that hears from a leader promises, for one election timeout, neither to stand nor to vote. A leader's lease
//! rests on these promises (`reads.rs`). They are not on the disk: a server that has just started behaves as if it had
//! promised right then. Only the leader itself can release voters, by handing its leadership over.

use crate::bug::{self, Bug};
use crate::progress::Progress;
use crate::raft::{Leading, Raft, Role};
use crate::{Message, Payload, Persist, Position, ServerId, Vote};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

impl Raft {
    /// Sets the next election to one to two election timeouts from now.
    pub(crate) fn put_off_election(&mut self, now: Duration) {
        let timeout = self.config.election_timeout;
        let more = self.random_below(u64::try_from(timeout.as_nanos()).expect("election timeouts are short"));
        self.election_due = now + timeout + Duration::from_nanos(more);
    }

    /// Becomes a follower without a leader yet, in `term`, which is not older than its own.
    pub(crate) fn become_follower(&mut self, now: Duration, term: u64) {
        assert!(term >= self.vote.term, "{}: back from term {} to {term}", self.id, self.vote.term);
        if term > self.vote.term {
            self.vote = Vote { term, voted_for: None };
            self.persist(Persist::Vote(self.vote));
            self.leader = None;
            self.incoming = None;
            self.ack = None;
            self.forget_held();
        }
        if let Role::Leader(leading) = std::mem::replace(&mut self.role, Role::Follower) {
            self.failed_reads.extend(leading.reads.into_iter().map(|read| read.id));
            self.put_off_election(now);
        }
    }

    /// Stops leading, though it knows of no newer term.
    pub(crate) fn step_down(&mut self, now: Duration) {
        self.become_follower(now, self.vote.term);
        self.leader = None;
    }

    /// Stands for election: no leader has been heard of for long.
    pub(crate) fn stand(&mut self, now: Duration) {
        self.put_off_election(now);
        if matches!(self.role, Role::Candidate { .. }) && !self.vote_is_durable() {
            // The disk is slow: there is no use in asking for another term.
            return;
        }
        self.leader = None;
        if !self.log.membership().voters.contains(&self.id) {
            self.role = Role::Follower;
            return;
        }
        let granted = BTreeSet::from([self.id]);
        if self.log.membership().is_majority(&granted) {
            return self.campaign(now, None);
        }
        self.role = Role::PreCandidate { granted };
        let message = Message::PreVote { term: self.vote.term + 1, last: self.log.last() };
        for to in self.other_voters() {
            self.send(to, message.clone());
        }
    }

    fn other_voters(&self) -> Vec<ServerId> {
        self.log.membership().voters.iter().copied().filter(|voter| *voter != self.id).collect()
    }

    /// Asks for votes in a new term.
    fn campaign(&mut self, now: Duration, released: Option<u64>) {
        self.become_follower(now, self.vote.term + 1);
        self.vote.voted_for = Some(self.id);
        self.persist(Persist::Vote(self.vote));
        self.put_off_election(now);
        self.role = Role::Candidate { granted: BTreeSet::from([self.id]) };
        let message = Message::RequestVote { term: self.vote.term, last: self.log.last(), released };
        for to in self.other_voters() {
            self.send_when_durable(to, message.clone());
        }
    }

    /// Lets a server lead that is a majority by itself, once its vote for itself is durable: otherwise it could lead
    /// the term again after a crash, without the entries that learners have from the first time.
    pub(crate) fn count_own_vote(&mut self, now: Duration) {
        if let Role::Candidate { granted } = &self.role {
            let may_lead = self.vote_is_durable() || bug::is(Bug::SoleVoteNotDurable);
            if self.log.membership().is_majority(granted) && may_lead {
                self.lead(now);
            }
        }
    }

    /// Returns true if a vote now could break a promise.
    fn has_promised(&self, now: Duration) -> bool {
        if bug::is(Bug::PromiseBroken) {
            return false;
        }
        // A leader is the first to have heard from itself. It leads until a majority is silent.
        self.is_leader() || now < self.promised_until
    }

    pub(crate) fn pre_vote(&mut self, now: Duration, from: ServerId, term: u64, last: Position) {
        let is_behind = last < self.log.last() && !bug::is(Bug::LogNotCompared);
        let granted = term > self.vote.term && !is_behind && !self.has_promised(now);
        let term = if granted { term } else { self.vote.term };
        self.send(from, Message::PreVoteReply { term, granted });
    }

    pub(crate) fn pre_vote_granted(&mut self, now: Duration, from: ServerId, term: u64) {
        let is_mine = term == self.vote.term + 1;
        if let Role::PreCandidate { granted } = &mut self.role
            && is_mine
        {
            granted.insert(from);
            if self.log.membership().is_majority(granted) {
                self.campaign(now, None);
            }
        }
    }

    pub(crate) fn request_vote(
        &mut self,
        now: Duration,
        from: ServerId,
        term: u64,
        last: Position,
        released: Option<u64>,
    ) {
        if term < self.vote.term {
            return self.send(from, Message::VoteReply { term: self.vote.term, granted: false });
        }
        // A leader's release is from promises to itself and to those before it, for the next term only.
        let is_released = released.is_some_and(|of| of.checked_add(1) == Some(term) && self.vote.term <= of);
        if term > self.vote.term {
            if !is_released && self.has_promised(now) {
                return;
            }
            self.become_follower(now, term);
        }
        let is_behind = last < self.log.last() && !bug::is(Bug::LogNotCompared);
        let is_free = self.vote.voted_for.is_none_or(|voted| voted == from) || bug::is(Bug::VotesTwice);
        if is_behind || !is_free || self.leader.is_some() {
            return self.send(from, Message::VoteReply { term, granted: false });
        }
        if self.vote.voted_for != Some(from) {
            self.vote.voted_for = Some(from);
            self.persist(Persist::Vote(self.vote));
        }
        self.put_off_election(now);
        self.send_when_durable(from, Message::VoteReply { term, granted: true });
    }

    pub(crate) fn vote_reply(&mut self, now: Duration, from: ServerId, is_granted: bool) {
        if let Role::Candidate { granted } = &mut self.role
            && is_granted
        {
            granted.insert(from);
            if self.log.membership().is_majority(granted) {
                self.lead(now);
            }
        }
    }

    fn lead(&mut self, now: Duration) {
        let next = self.log.last().index + 1;
        let others = self.log.membership().members().filter(|member| *member != self.id);
        let peers: BTreeMap<ServerId, Progress> = others.map(|member| (member, Progress::new(next))).collect();
        let waiting = self.log.range(self.applied + 1, next - 1);
        self.role = Role::Leader(Leading {
            peers,
            since: now,
            term_start: next,
            waiting_bytes: waiting.iter().map(|entry| entry.bytes()).sum(),
            transfer: None,
            reads: VecDeque::new(),
            lease_from: now,
        });
        self.leader = Some(self.id);
        self.append_own(Payload::TermStart);
    }

    /// Campaigns at once: the leader has stepped down and wants this server to lead.
    pub(crate) fn timeout_now(&mut self, now: Duration, from: ServerId) {
        let follows = matches!(self.role, Role::Follower) && self.leader == Some(from);
        if follows && self.log.membership().voters.contains(&self.id) {
            self.campaign(now, Some(self.vote.term));
        }
    }

    /// Follows `from`, which leads this term, and promises not to vote for a while.
    pub(crate) fn hear_leader(&mut self, now: Duration, from: ServerId) {
        assert!(!self.is_leader(), "{} and {from} both lead in term {}", self.id, self.vote.term);
        if let Some(other) = self.leader.filter(|other| *other != from) {
            panic!("{}: {other} and {from} both lead in term {}", self.id, self.vote.term);
        }
        self.role = Role::Follower;
        self.leader = Some(from);
        self.promised_until = now + self.config.election_timeout;
        self.put_off_election(now);
    }
}

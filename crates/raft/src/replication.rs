//! The way of entries from the leader to the others, and their commit.

use crate::bug::{self, Bug};
use crate::progress::Pace;
use crate::raft::{Ack, Raft, Role};
use crate::{Config, Entry, Message, Position, ServerId, Snapshot};
use std::time::Duration;

impl Raft {
    // --- the follower's side ---

    pub(crate) fn append(
        &mut self,
        now: Duration,
        from: ServerId,
        prev: Position,
        entries: Vec<Entry>,
        commit: u64,
        sent: u64,
    ) {
        if !is_in_order(prev, &entries, self.vote.term) {
            return;
        }
        self.hear_leader(now, from);
        // Decided entries are equal on all servers.
        let meets = prev.index <= self.commit || self.log.at(prev.index) == Some(prev) || bug::is(Bug::PrevNotCompared);
        if !meets || prev.index > self.log.last().index {
            let last = self.last_that_could_meet(prev);
            return self.send(from, Message::AppendRefused { term: self.vote.term, prev: prev.index, last, sent });
        }
        let verified = prev.index + entries.len() as u64;
        for entry in entries {
            let Position { index, .. } = entry.position;
            match self.log.at(index) {
                Some(own) if own == entry.position => {}
                Some(own) if index <= self.commit => {
                    panic!("{}: {from} has {} where {own} is decided", self.id, entry.position);
                }
                Some(_) if bug::is(Bug::ConflictKept) => {}
                Some(_) => {
                    self.truncate(index);
                    self.push(entry);
                }
                // The log begins behind the entry: it is decided, and in the snapshot.
                None if index <= self.log.base().index => {}
                None => self.push(entry),
            }
        }
        self.agree(from, verified, sent);
        self.commit = self.commit.max(commit.min(verified));
        self.acknowledge_now();
    }

    /// Returns the last position at which this log could be the leader's, given that it is not at `prev`.
    fn last_that_could_meet(&self, prev: Position) -> Position {
        let mut last = self.log.last().index.min(prev.index.saturating_sub(1));
        // Entries of newer terms than that of `prev` cannot be the leader's there.
        while last > self.commit && self.log.at(last).is_some_and(|own| own.term > prev.term) {
            last -= 1;
        }
        self.log.at(last).unwrap_or(self.log.base())
    }

    /// Notes that this log is that of `leader` up to `verified`.
    pub(crate) fn agree(&mut self, leader: ServerId, verified: u64, sent: u64) {
        let ack = self.ack.get_or_insert(Ack { leader, verified: 0, sent: 0, told: 0 });
        ack.verified = ack.verified.max(verified);
        ack.sent = ack.sent.max(sent);
    }

    /// Tells the leader the index up to which the two logs are equal and this one is durable.
    pub(crate) fn acknowledge_now(&mut self) {
        let durable = if bug::is(Bug::AckNotDurable) { self.log.last().index } else { self.durable };
        let term = self.vote.term;
        if let Some(ack) = &mut self.ack {
            let verified = if bug::is(Bug::AcksWholeLog) { u64::MAX } else { ack.verified };
            ack.told = verified.min(durable);
            let (to, message) = (ack.leader, Message::Appended { term, matched: ack.told, sent: ack.sent });
            self.send(to, message);
        }
    }

    /// Acknowledges to the leader if there is something new to tell.
    pub(crate) fn acknowledge(&mut self) {
        if self.ack.as_ref().is_some_and(|ack| ack.verified.min(self.durable) > ack.told) {
            self.acknowledge_now();
        }
    }

    // --- the leader's side ---

    pub(crate) fn appended(&mut self, now: Duration, from: ServerId, matched: u64, sent: u64) {
        let last = self.log.last().index;
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from).filter(|_| matched <= last) else { return };
        peer.answered(said(sent, now));
        peer.matches(matched);
    }

    pub(crate) fn append_refused(&mut self, now: Duration, from: ServerId, prev: u64, last: Position, sent: u64) {
        let Role::Leader(leading) = &mut self.role else { return };
        let Some(peer) = leading.peers.get_mut(&from) else { return };
        peer.answered(said(sent, now));
        // The logs do not meet in entries of newer terms than the other has there, either: whole terms are skipped on
        // both sides.
        let mut meet = last.index.min(prev.saturating_sub(1));
        while self.log.at(meet).is_some_and(|own| own.term > last.term) {
            meet -= 1;
        }
        peer.refuses(prev, meet);
    }

    /// Decides entries that a majority has.
    pub(crate) fn advance_commit(&mut self) {
        let Role::Leader(leading) = &self.role else { return };
        let own = if bug::is(Bug::LeaderCountsEarly) { self.log.last().index } else { self.durable };
        let reached = |server| match leading.peers.get(&server) {
            Some(peer) => peer.matched,
            None if server == self.id => own,
            None => 0,
        };
        let mut decided = self.log.membership().reached_by_majority(reached).unwrap_or(0);
        if bug::is(Bug::LearnersCount) {
            let members = self.log.membership();
            let mut values: Vec<u64> = members.members().map(reached).collect();
            values.sort_by(|a, b| b.cmp(a));
            decided = values[members.majority() - 1];
        }
        if bug::is(Bug::AppliesUndecided) {
            decided = own;
        }
        if decided <= self.commit {
            return;
        }
        // Older leaders' entries are decided only along with one of this term: another leader could still remove them.
        let is_own = self.log.at(decided).is_some_and(|position| position.term == self.vote.term);
        if !is_own && !bug::is(Bug::OlderTermCounted) {
            return;
        }
        self.commit = decided;
    }

    /// Sends each member the messages that are due.
    pub(crate) fn replicate(&mut self, now: Duration) {
        if !self.is_leader() {
            return;
        }
        let asks_since = self.read_that_waits_for_word(now);
        let Role::Leader(leading) = &mut self.role else { return };
        let mut peers = std::mem::take(&mut leading.peers);
        for (to, peer) in &mut peers {
            let is_due = peer
                .last_sent
                .is_none_or(|at| now >= at + self.config.heartbeat || asks_since.is_some_and(|since| at < since));
            if self.log.at(peer.next - 1).is_none() && !matches!(peer.pace, Pace::Snapshot { .. }) {
                let snapshot = self.snapshot.clone().expect("a log that begins behind something has a snapshot of it");
                peer.pace = Pace::Snapshot { snapshot, received: 0, asked: None };
            }
            let sent = nanos(now);
            match &mut peer.pace {
                Pace::Probe { asked } => {
                    if *asked && !is_due {
                        continue;
                    }
                    *asked = true;
                    let message = self.append_message(peer.next, Vec::new(), peer.matched, sent);
                    self.send(*to, message);
                }
                Pace::Stream { in_flight } => {
                    let mut has_said = false;
                    while in_flight.len() < self.config.messages_in_flight_max {
                        let entries = self.log.from(peer.next, self.config.message_bytes_max);
                        let Some(last) = entries.last() else { break };
                        let next = last.position.index + 1;
                        let message = self.append_message(peer.next, entries, u64::MAX, sent);
                        self.send(*to, message);
                        in_flight.push_back(next - 1);
                        peer.next = next;
                        has_said = true;
                    }
                    let has_news = peer.commit_told < self.commit && peer.matched >= self.commit;
                    if !has_said && (is_due || has_news) {
                        let message = self.append_message(peer.next, Vec::new(), u64::MAX, sent);
                        self.send(*to, message);
                    } else if !has_said {
                        continue;
                    }
                    peer.commit_told = self.commit;
                }
                Pace::Snapshot { snapshot, received, asked } => {
                    let is_question = asked.is_some();
                    if is_question && !is_due {
                        continue;
                    }
                    *asked = Some(sent);
                    let message = chunk_message(self.vote.term, snapshot, *received, is_question, &self.config, sent);
                    self.send(*to, message);
                }
            }
            peer.last_sent = Some(now);
        }
        if let Role::Leader(leading) = &mut self.role {
            leading.peers = peers;
        }
    }

    fn append_message(&self, next: u64, entries: Vec<Entry>, known: u64, sent: u64) -> Message {
        let prev = self.log.at(next - 1).expect("what is before an entry that is sent is in the log");
        Message::Append { term: self.vote.term, prev, entries, commit: self.commit.min(known), sent }
    }
}

fn chunk_message(
    term: u64,
    snapshot: &Snapshot,
    received: u64,
    is_question: bool,
    config: &Config,
    sent: u64,
) -> Message {
    let total = snapshot.data.len();
    let from = usize::try_from(received).unwrap_or(total).min(total);
    let to = if is_question { from } else { total.min(from + config.chunk_bytes) };
    Message::SnapshotChunk {
        term,
        last: snapshot.last,
        membership: snapshot.membership.clone(),
        total: total as u64,
        offset: from as u64,
        data: snapshot.data.slice(from..to),
        sent,
    }
}

pub(crate) fn nanos(at: Duration) -> u64 {
    u64::try_from(at.as_nanos()).expect("clocks count less than centuries")
}

/// Returns the time at which the message was sent that an answer brings back: not later than now, whatever the answer
/// says.
pub(crate) fn said(sent: u64, now: Duration) -> Duration {
    if bug::is(Bug::LeaseFromAnswer) { now } else { Duration::from_nanos(sent).min(now) }
}

fn is_in_order(prev: Position, entries: &[Entry], term: u64) -> bool {
    let mut before = prev;
    entries.iter().all(|entry| {
        let at = entry.position;
        let follows = before.index.checked_add(1) == Some(at.index) && at.term >= before.term && at.term <= term;
        before = at;
        follows
    })
}

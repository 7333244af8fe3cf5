//! One server: its state, inputs and outputs.

use crate::bug::{self, Bug};
use crate::log::Log;
use crate::progress::Progress;
use crate::reads::PendingRead;
use crate::snapshots::Incoming;
use crate::{
    Config, Entry, Membership, Message, Payload, Persist, Position, ServerId, Snapshot, Stored, StoredError, Ticket,
    Vote,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// An event that the caller reports.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    /// A message of a member, or of a former one. Messages may be lost, come twice, late and in any order.
    Message { from: ServerId, message: Message },
    /// This write, and all before it, are on the disk.
    Persisted(Ticket),
    /// Time has passed.
    Tick,
}

/// An order to the caller.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    Send {
        to: ServerId,
        message: Message,
    },
    /// Write this, in the order of tickets, and then report [`Event::Persisted`].
    Persist {
        ticket: Ticket,
        write: Persist,
    },
    /// Replace the state machine's state by this snapshot.
    Install(Snapshot),
    /// Give these entries to the state machine, in order: they are decided, and on this server's disk.
    Apply(Vec<Entry>),
    /// Answer this read: right now, the state machine's state is the newest there is.
    ReadReady(ReadId),
    /// Refuse this read: this server does not lead.
    ReadFailed(ReadId),
    /// The leader of this term from now on, as far as this server knows.
    Leadership {
        term: u64,
        leader: Option<ServerId>,
    },
}

/// Name of a read, which the caller chooses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ReadId(pub u64);

/// Reason why a proposal was not taken. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProposeError {
    #[error("this server does not lead")]
    NotLeader { leader: Option<ServerId> },
    #[error("leadership is being handed over")]
    HandingOver,
    #[error("too much is waiting to be decided")]
    Busy,
    #[error("{bytes} bytes are more than one proposal may have ({max})")]
    TooLarge { bytes: usize, max: usize },
}

/// A server of a cluster that keeps one log.
///
/// Events: [`Raft::handle`]. Requests: [`Raft::propose`], [`Raft::read`], [`Raft::change_membership`],
/// [`Raft::transfer`], [`Raft::snapshot_taken`]. None of these gives anything to do by itself: after one or several of
/// them, [`Raft::poll`] does. Requests that came together then share messages and writes. At [`Raft::next_wake`] the
/// server wants a tick.
///
/// `now` is the time of an arbitrary clock that never goes back, goes on while the machine sleeps, and keeps
/// [`Config::clock_error_ppm`].
///
/// A proposal is decided when [`Action::Apply`] brings an entry at its position; if it brings one with that index and
/// another term, the proposal is lost for good. Until then its fate is unknown: a new leader may still decide it.
#[derive(Debug)]
pub struct Raft {
    pub(crate) id: ServerId,
    pub(crate) config: Config,
    pub(crate) random: u64,
    pub(crate) vote: Vote,
    pub(crate) log: Log,
    pub(crate) snapshot: Option<Snapshot>,
    /// Index up to which everything is decided.
    pub(crate) commit: u64,
    /// Index up to which everything was given to the state machine.
    pub(crate) applied: u64,
    /// Index up to which the log is on the disk.
    pub(crate) durable: u64,
    /// Writes under way: with each ticket, the log up to an index will be on the disk.
    pub(crate) writing: VecDeque<(Ticket, u64)>,
    pub(crate) role: Role,
    pub(crate) leader: Option<ServerId>,
    /// Time before which it votes for no other server.
    pub(crate) promised_until: Duration,
    /// Time at which it stands for election, unless a leader's message comes before.
    pub(crate) election_due: Duration,
    /// The answer that the leader of this term is owed.
    pub(crate) ack: Option<Ack>,
    /// A snapshot whose first bytes have come.
    pub(crate) incoming: Option<Incoming>,
    /// A snapshot that came, and the ticket with which it is durable.
    installing: Option<(Ticket, Snapshot)>,
    /// Index from which on entries are not yet given out to be written.
    dirty_from: Option<u64>,
    writes: Vec<(Persist, Installs)>,
    outbox: Vec<(ServerId, Message)>,
    /// Messages that may be sent with the ticket, or with the last one of the next poll.
    held: Vec<(Option<Ticket>, ServerId, Message)>,
    pub(crate) failed_reads: Vec<ReadId>,
    last_ticket: Ticket,
    persisted: Ticket,
    /// The ticket with which the vote is durable, once it is given out to be written.
    vote_written: Option<Ticket>,
    told: (u64, Option<ServerId>),
}

/// True if a snapshot came from the leader, for the state machine to take.
type Installs = bool;

/// Agreement of this server's log with that of the leader of its term.
#[derive(Debug)]
pub(crate) struct Ack {
    pub leader: ServerId,
    pub verified: u64,
    /// `sent` of the leader's newest message.
    pub sent: u64,
    /// Index that the leader was last told.
    pub told: u64,
}

#[derive(Debug)]
pub(crate) enum Role {
    Follower,
    PreCandidate { granted: BTreeSet<ServerId> },
    Candidate { granted: BTreeSet<ServerId> },
    Leader(Leading),
}

/// State that only a leader has.
#[derive(Debug)]
pub(crate) struct Leading {
    pub peers: BTreeMap<ServerId, Progress>,
    pub since: Duration,
    /// Index of the first entry of its term.
    pub term_start: u64,
    /// Bytes of entries that its state machine has not taken, because they are not decided or not on its disk.
    pub waiting_bytes: usize,
    /// The server to which leadership is being handed over, and the time at which that is given up.
    pub transfer: Option<(ServerId, Duration)>,
    pub reads: VecDeque<PendingRead>,
    /// Messages that were sent before this time give no lease.
    pub lease_from: Duration,
}

impl Raft {
    /// Makes the server `id`, which continues from the content of its disk. `seed` makes its random choices; servers
    /// should differ.
    ///
    /// The state machine begins with the snapshot's data; entries behind it come by [`Action::Apply`] once they are
    /// known to be decided.
    pub fn new(id: ServerId, config: Config, stored: Stored, seed: u64, now: Duration) -> Result<Raft, StoredError> {
        stored.check()?;
        let Stored { vote, snapshot, entries } = stored;
        let base = snapshot.as_ref().map_or(Position::default(), |snapshot| snapshot.last);
        let members = snapshot.as_ref().map_or(Membership::default(), |snapshot| snapshot.membership.clone());
        let mut log = Log::new(base, members);
        entries.into_iter().filter(|entry| entry.position.index > base.index).for_each(|entry| log.push(entry));
        let durable = log.last().index;
        let promised_until = if bug::is(Bug::PromiseForgotten) { now } else { now + config.election_timeout };
        let mut raft = Raft {
            id,
            config,
            random: seed,
            vote,
            log,
            snapshot,
            commit: base.index,
            applied: base.index,
            durable,
            writing: VecDeque::new(),
            role: Role::Follower,
            leader: None,
            promised_until,
            election_due: now,
            ack: None,
            incoming: None,
            installing: None,
            dirty_from: None,
            writes: Vec::new(),
            outbox: Vec::new(),
            held: Vec::new(),
            failed_reads: Vec::new(),
            last_ticket: Ticket(0),
            persisted: Ticket(0),
            vote_written: Some(Ticket(0)),
            told: (0, None),
        };
        raft.put_off_election(now);
        if raft.log.membership().voters.iter().eq([&id]) {
            // No other server can have been promised anything: every majority has this server in it.
            raft.election_due = now;
        }
        Ok(raft)
    }

    pub fn id(&self) -> ServerId {
        self.id
    }

    pub fn term(&self) -> u64 {
        self.vote.term
    }

    /// Returns the leader of this server's term, as far as it knows.
    pub fn leader(&self) -> Option<ServerId> {
        self.leader
    }

    pub fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Returns the members by this server's log; the last change may not be decided yet.
    pub fn membership(&self) -> &Membership {
        self.log.membership()
    }

    /// Returns the index up to which the log is decided.
    pub fn commit(&self) -> u64 {
        self.commit
    }

    /// Returns the position of the last entry of the log.
    pub fn last(&self) -> Position {
        self.log.last()
    }

    /// Returns the memory of the log's entries. A snapshot makes it less.
    pub fn log_bytes(&self) -> usize {
        self.log.bytes()
    }

    /// Returns the bytes of the newest snapshot.
    pub fn snapshot_bytes(&self) -> usize {
        self.snapshot.as_ref().map_or(0, |snapshot| snapshot.data.len())
    }

    /// For a leader: returns the other members, the index up to which each one's log is known to match, and the time at
    /// which the newest message that it answered was sent.
    pub fn followers(&self) -> impl Iterator<Item = (ServerId, u64, Option<Duration>)> + '_ {
        let peers = match &self.role {
            Role::Leader(leading) => Some(&leading.peers),
            _ => None,
        };
        peers.into_iter().flatten().map(|(id, peer)| (*id, peer.matched, peer.answered))
    }

    /// Returns the time at which an [`Event::Tick`] is next needed. `None`: not before another event.
    pub fn next_wake(&self) -> Option<Duration> {
        match &self.role {
            Role::Leader(leading) => {
                let heartbeats =
                    leading.peers.values().map(|peer| peer.last_sent.unwrap_or_default() + self.config.heartbeat);
                let transfer = leading.transfer.map(|(_, until)| until);
                let quorum = (!leading.peers.is_empty()).then(|| self.quorum_lost_at(leading));
                heartbeats.chain(transfer).chain(quorum).min()
            }
            _ => self.log.membership().voters.contains(&self.id).then_some(self.election_due),
        }
    }

    /// Handles an event.
    pub fn handle(&mut self, now: Duration, event: Event) {
        match event {
            Event::Message { from, message } => self.message(now, from, message),
            Event::Persisted(ticket) => self.written(ticket),
            Event::Tick => self.tick(now),
        }
    }

    /// Adds `data` to the log, to be decided.
    pub fn propose(&mut self, data: Bytes) -> Result<Position, ProposeError> {
        let Role::Leader(leading) = &self.role else {
            return Err(ProposeError::NotLeader { leader: self.leader });
        };
        if leading.transfer.is_some() {
            return Err(ProposeError::HandingOver);
        }
        if data.len() > self.config.proposal_bytes_max {
            return Err(ProposeError::TooLarge { bytes: data.len(), max: self.config.proposal_bytes_max });
        }
        if leading.waiting_bytes > self.config.waiting_bytes_max {
            return Err(ProposeError::Busy);
        }
        Ok(self.append_own(Payload::Data(data)))
    }

    /// Gives out the actions that are due.
    pub fn poll(&mut self, now: Duration, out: &mut Vec<Action>) {
        self.count_own_vote(now);
        self.hand_over(now);
        self.advance_commit();
        self.replicate(now);
        out.extend(self.outbox.drain(..).map(|(to, message)| Action::Send { to, message }));
        self.give_out_writes(out);
        self.release(out);
        self.install_and_apply(out);
        self.answer_reads(now, out);
        if self.told != (self.vote.term, self.leader) {
            self.told = (self.vote.term, self.leader);
            out.push(Action::Leadership { term: self.vote.term, leader: self.leader });
        }
    }

    fn message(&mut self, now: Duration, from: ServerId, message: Message) {
        if from == self.id {
            return;
        }
        let term = message.term();
        match message {
            // Pre-votes and requests for votes change no term by themselves.
            Message::PreVote { last, .. } => return self.pre_vote(now, from, term, last),
            Message::RequestVote { last, released, .. } => return self.request_vote(now, from, term, last, released),
            Message::PreVoteReply { granted: true, .. } => return self.pre_vote_granted(now, from, term),
            _ => {}
        }
        if term > self.vote.term {
            self.become_follower(now, term);
        }
        if term < self.vote.term {
            // A leader of an older term is told of the newer one.
            if let Message::Append { sent, prev, .. } = message {
                self.send(
                    from,
                    Message::AppendRefused { term: self.vote.term, prev: prev.index, last: Position::default(), sent },
                );
            } else if let Message::SnapshotChunk { sent, .. } = message {
                self.send(
                    from,
                    Message::AppendRefused { term: self.vote.term, prev: 0, last: Position::default(), sent },
                );
            }
            return;
        }
        match message {
            Message::VoteReply { granted, .. } => self.vote_reply(now, from, granted),
            Message::Append { prev, entries, commit, sent, .. } => self.append(now, from, prev, entries, commit, sent),
            Message::Appended { matched, sent, .. } => self.appended(now, from, matched, sent),
            Message::AppendRefused { prev, last, sent, .. } => self.append_refused(now, from, prev, last, sent),
            Message::SnapshotChunk { last, membership, total, offset, data, sent, .. } => {
                self.snapshot_chunk(now, from, last, membership, total, offset, &data, sent);
            }
            Message::SnapshotReceived { last, received, sent, .. } => {
                self.snapshot_received(now, from, last, received, sent);
            }
            Message::TimeoutNow { .. } => self.timeout_now(now, from),
            Message::PreVoteReply { .. } => {}
            Message::PreVote { .. } | Message::RequestVote { .. } => unreachable!("taken above"),
        }
    }

    fn tick(&mut self, now: Duration) {
        match &self.role {
            Role::Leader(leading) => {
                if now >= self.quorum_lost_at(leading) && !leading.peers.is_empty() {
                    // A majority no longer answers: another server may lead it.
                    self.step_down(now);
                }
            }
            _ => {
                if now >= self.election_due {
                    self.stand(now);
                }
            }
        }
    }

    /// Notes that `ticket` is on the disk, with the log up to some index; entries that were cut off do not count.
    fn written(&mut self, ticket: Ticket) {
        assert!(ticket <= self.last_ticket, "{ticket:?} was never given out, the last was {:?}", self.last_ticket);
        self.persisted = self.persisted.max(ticket);
        while let Some((_, index)) = self.writing.front().filter(|(of, _)| *of <= ticket) {
            self.durable = self.durable.max(*index);
            self.writing.pop_front();
        }
        self.acknowledge();
    }

    /// Removes the entries from `from` on, which contradict the leader's.
    pub(crate) fn truncate(&mut self, from: u64) {
        assert!(from > self.commit, "{}: entry {from} is to go, but all up to {} is decided", self.id, self.commit);
        self.log.truncate(from);
        self.not_durable_from(from);
        self.dirty_from = self.dirty_from.map(|dirty| dirty.min(from));
    }

    /// Notes that the disk's entries from `from` on, present or to come, are not those of the log.
    fn not_durable_from(&mut self, from: u64) {
        self.durable = self.durable.min(from - 1);
        self.writing.iter_mut().for_each(|(_, index)| *index = (*index).min(from - 1));
    }

    /// Adds an entry that is to be written.
    pub(crate) fn push(&mut self, entry: Entry) {
        let index = entry.position.index;
        self.log.push(entry);
        self.dirty_from = Some(self.dirty_from.map_or(index, |dirty| dirty.min(index)));
    }

    /// Adds an entry of this leader's own.
    pub(crate) fn append_own(&mut self, payload: Payload) -> Position {
        let position = Position { term: self.vote.term, index: self.log.last().index + 1 };
        let entry = Entry { position, payload };
        let Role::Leader(leading) = &mut self.role else { panic!("{} adds an entry but does not lead", self.id) };
        leading.waiting_bytes += entry.bytes();
        self.push(entry);
        position
    }

    pub(crate) fn persist(&mut self, write: Persist) {
        self.write_entries();
        if matches!(write, Persist::Vote(_)) {
            self.vote_written = None;
        }
        self.writes.push((write, false));
    }

    /// Writes a snapshot that came in place of the log: of that only entries from `keep_from` on stay.
    pub(crate) fn persist_install(&mut self, snapshot: Snapshot, keep_from: Option<u64>) {
        self.write_entries();
        self.writes.push((Persist::Snapshot { snapshot, keep_from }, true));
    }

    /// Replaces the log by an empty one behind `base`. Everything up to `decided` was equal before.
    pub(crate) fn reset_log(&mut self, base: Position, membership: Membership, decided: u64) {
        self.write_entries();
        self.not_durable_from(decided + 1);
        self.log = Log::new(base, membership);
    }

    pub(crate) fn vote_is_durable(&self) -> bool {
        self.vote_written.is_some_and(|ticket| ticket <= self.persisted)
    }

    fn write_entries(&mut self) {
        if let Some(from) = self.dirty_from.take() {
            let entries = self.log.tail(from);
            if !entries.is_empty() {
                self.writes.push((Persist::Entries(entries), false));
            }
        }
    }

    fn give_out_writes(&mut self, out: &mut Vec<Action>) {
        self.write_entries();
        for (write, installs) in self.writes.drain(..) {
            self.last_ticket.0 += 1;
            let ticket = self.last_ticket;
            match &write {
                Persist::Vote(_) => self.vote_written = Some(ticket),
                Persist::Entries(entries) => {
                    let last = entries.last().expect("entries are written only if there are any").position;
                    // Some of the entries may have been cut off since.
                    let index = if self.log.at(last.index) == Some(last) { last.index } else { 0 };
                    self.writing.push_back((ticket, index));
                }
                Persist::Snapshot { snapshot, .. } => {
                    if installs {
                        self.writing.push_back((ticket, snapshot.last.index));
                        self.installing = Some((ticket, snapshot.clone()));
                    }
                }
            }
            out.push(Action::Persist { ticket, write });
        }
    }

    /// Sends messages that waited for writes.
    fn release(&mut self, out: &mut Vec<Action>) {
        for (ticket, to, message) in std::mem::take(&mut self.held) {
            let ticket = ticket.unwrap_or(self.last_ticket);
            if ticket <= self.persisted || bug::is(Bug::VoteNotDurable) {
                out.push(Action::Send { to, message });
            } else {
                self.held.push((Some(ticket), to, message));
            }
        }
    }

    fn install_and_apply(&mut self, out: &mut Vec<Action>) {
        if let Some((_, snapshot)) = self.installing.take_if(|(ticket, _)| *ticket <= self.persisted)
            && snapshot.last.index > self.applied
        {
            self.applied = snapshot.last.index;
            out.push(Action::Install(snapshot));
        }
        if self.installing.is_some() {
            return;
        }
        // Entries that are not on the own disk could be forgotten again.
        let upto = if bug::is(Bug::LeaderCountsEarly) { self.commit } else { self.commit.min(self.durable) };
        if upto > self.applied {
            let entries = self.log.range(self.applied + 1, upto);
            assert_eq!(
                entries.len() as u64,
                upto - self.applied,
                "{}: {} to {upto} are decided",
                self.id,
                self.applied + 1
            );
            self.applied = upto;
            if let Role::Leader(leading) = &mut self.role {
                leading.waiting_bytes -= entries.iter().map(Entry::bytes).sum::<usize>();
            }
            out.push(Action::Apply(entries));
        }
    }

    pub(crate) fn send(&mut self, to: ServerId, message: Message) {
        self.outbox.push((to, message));
    }

    /// Sends `message` once all writes that are now on their way are durable.
    pub(crate) fn send_when_durable(&mut self, to: ServerId, message: Message) {
        self.held.retain(|(_, other, _)| *other != to);
        self.held.push((None, to, message));
    }

    pub(crate) fn forget_held(&mut self) {
        self.held.clear();
    }

    /// Returns the next random number below `bound` (SplitMix64).
    pub(crate) fn random_below(&mut self, bound: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound.max(1)
    }
}

#[cfg(test)]
impl Raft {
    /// Returns the index before the log's first entry, and that of the last.
    pub(crate) fn log_range(&self) -> (u64, u64) {
        (self.log.base().index, self.log.last().index)
    }

    pub(crate) fn position(&self, index: u64) -> Option<Position> {
        self.log.at(index)
    }

    pub(crate) fn entry(&self, index: u64) -> Option<&Entry> {
        self.log.get(index)
    }
}

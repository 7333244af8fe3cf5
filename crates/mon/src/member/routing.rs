//! Messages of clients and OSDs, and the monitor that answers them.
//!
//! The leader handles requests that need the newest state, once the log has confirmed that it still leads. A peon
//! serves maps from its own state after the leader has told it which index that must have; it forwards everything else.
//! A request that was forwarded and not answered when the leader changed is in doubt: the peon closes its session, and
//! the client asks again, as after a monitor's restart.

use super::letters::{Letter, Letters};
use super::{Action, MANAGER_SESSIONS, Member};
use crate::bounds::{HANDED_ON_BYTES_MAX, bytes_of};
use crate::identity::Party;
use crate::monitor::{self, Now};
use raft::{ReadId, ServerId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;
use tracing::info;
use types::EntityType;
use wire::messages as msg;
use wire::msgr::{Peer, SessionId};
use wire::nacre::mon as nacre;
use wire::nacre::quorum::{self as q, Wrapped};
use wire::{DecodeError, Envelope, Message, Target};

/// First number, at a leader, of sessions that other monitors forward.
const FORWARDED_SESSIONS: u64 = 1 << 61;
/// Time after which ids are asked for again.
const IDS_AGAIN: Duration = Duration::from_secs(1);

/// A request that waits until the log has confirmed that this server leads.
#[derive(Debug)]
enum Read {
    Message(Letter),
    /// A peon asks for the index of the newest state.
    Index {
        link: SessionId,
        id: u64,
    },
}

#[derive(Default, Debug)]
pub(super) struct Routing {
    /// Sessions of clients and OSDs here.
    local: BTreeMap<SessionId, Local>,
    /// Total of all messages that wait. A session that exceeds the bound is closed.
    letters: Letters,
    /// Messages for which no leader is known yet, in order.
    waiting: VecDeque<Letter>,
    reads: BTreeMap<ReadId, Read>,
    next_read: u64,
    /// Questions of peons, by session and number, that had no room among the reads.
    questions: VecDeque<(SessionId, u64)>,
    /// Only on a peon: messages that its own state answers, until it asks the leader how far that state must be.
    fresh: Vec<Letter>,
    /// Number of the question under way, and the messages that wait for its answer.
    asked: Option<(u64, Vec<Letter>)>,
    next_question: u64,
    /// Actions that wait for the log to be applied up to an index, in order.
    held: VecDeque<(u64, Held)>,
    /// Only on a leader: sessions at other monitors, each with the session that brings its messages and its number
    /// there.
    forwarded: BTreeMap<SessionId, (SessionId, u64)>,
    /// The keys of `forwarded` by its values.
    by_link: BTreeMap<(SessionId, u64), SessionId>,
    next_forwarded: u64,
    /// The leader that knows of sessions here, and its term.
    leader: Option<(ServerId, u64)>,
}

#[derive(Debug)]
enum Held {
    /// A message for the monitor here.
    Message(Letter),
    /// An answer for the other end of a session; `None` closes it.
    Answer(SessionId, Option<Envelope>),
}

#[derive(Debug)]
struct Local {
    peer: Peer,
    /// True once the leader knows of the session.
    is_forwarded: bool,
    /// Transaction ids of requests that the leader has not answered.
    owed: BTreeSet<u64>,
}

/// Returns true for messages that a peon answers from its own state.
fn is_for_own_state(kind: u16) -> bool {
    [
        msg::Auth::TYPE,
        msg::MonGetMap::TYPE,
        msg::MonSubscribe::TYPE,
        msg::GetConfig::TYPE,
        msg::MonGetOsdMap::TYPE,
        msg::Command::TYPE,
    ]
    .contains(&kind)
}

/// Returns true for requests whose answer carries their transaction id.
fn is_answered(kind: u16) -> bool {
    [
        msg::MonCommand::TYPE,
        msg::MonGetVersion::TYPE,
        msg::PoolOp::TYPE,
        msg::Statfs::TYPE,
        msg::GetPoolStats::TYPE,
        nacre::PgHistoryGet::TYPE,
    ]
    .contains(&kind)
}

impl Member {
    pub(super) fn opened(&mut self, now: Now, session: SessionId, peer: Peer, out: &mut Vec<Action>) {
        if self.links.is_dialled(session) {
            return self.link_opened(now, session, out);
        }
        if peer.name.kind == EntityType::MON {
            return self.accept_link(now, session, peer, out);
        }
        if self.is_leaderless(now) {
            return out.push(Action::Close { session });
        }
        let local = Local { peer: peer.clone(), is_forwarded: false, owed: BTreeSet::new() };
        self.routing.local.insert(session, local);
        self.monitor.handle(now, monitor::MonitorInput::Opened { session, peer }, &mut self.todo);
        // The leader has to know where OSDs are, so that it can send them orders.
        if self.monitor.is_osd(session) {
            self.announce(session, out);
        }
    }

    fn announce(&mut self, session: SessionId, out: &mut Vec<Action>) {
        if let Some(leader) = self.other_leader().and_then(|leader| self.links.session_to(leader)) {
            self.forward(leader, session, None, out);
        }
    }

    pub(super) fn opened_at_manager(&mut self, now: Now, session: SessionId, peer: Peer, out: &mut Vec<Action>) {
        if !self.monitor.leads() {
            return out.push(Action::Close { session });
        }
        let local = Local { peer: peer.clone(), is_forwarded: false, owed: BTreeSet::new() };
        self.routing.local.insert(session, local);
        self.monitor.handle(now, monitor::MonitorInput::OpenedAtManager { session, peer }, &mut self.todo);
    }

    pub(super) fn received(&mut self, now: Now, session: SessionId, envelope: Envelope, out: &mut Vec<Action>) {
        if self.links.is_dialled(session) || self.links.is_accepted(session) {
            if let Err(e) = self.monitor_says(now, session, &envelope, out) {
                info!("closing a session with a monitor: message of type {}: {e}", envelope.header.kind);
                out.push(Action::Close { session });
                self.link_closed(now, session, out);
            }
            return;
        }
        if !self.routing.local.contains_key(&session) {
            return;
        }
        match envelope.header.kind {
            // Another monitor does not take a larger message from this one, and no client needs one.
            kind if bytes_of(&envelope) > HANDED_ON_BYTES_MAX => {
                info!("closing a session: its message of type {kind} has {} bytes", bytes_of(&envelope));
                self.close(now, session, out);
            }
            nacre::OsdBeacon::TYPE if self.monitor.is_own_beacon(session, &envelope) => {
                let said = q::OsdSaid { message: Wrapped(envelope.clone()) };
                self.broadcast(&said.seal(0, Target::PACIFIC), out);
                self.monitor.handle(now, monitor::MonitorInput::Message { session, envelope }, &mut self.todo);
            }
            nacre::OsdBeacon::TYPE => {}
            msg::Ping::TYPE => {
                self.monitor.handle(now, monitor::MonitorInput::Message { session, envelope }, &mut self.todo);
            }
            _ => self.wait(now, session, envelope, out),
        }
    }

    /// Queues a message. If too much waits already, its session is closed: the other end asks again later.
    fn wait(&mut self, now: Now, session: SessionId, envelope: Envelope, out: &mut Vec<Action>) {
        match self.routing.letters.take(session, envelope) {
            Some(letter) => self.routing.waiting.push_back(letter),
            None => {
                info!("closing a session: messages of {} bytes wait already", self.routing.letters.bytes());
                self.close(now, session, out);
            }
        }
    }

    /// Sends waiting messages on their way, if a leader is known.
    pub(super) fn pump(&mut self, now: Now, out: &mut Vec<Action>) {
        while let Some(letter) = self.routing.waiting.pop_front() {
            if let Some(back) = self.dispatch(now, letter, out) {
                self.routing.waiting.push_front(back);
                break;
            }
        }
        self.ask_index(out);
        while let Some((link, id)) = self.routing.questions.pop_front() {
            let read = ReadId(self.routing.next_read);
            if !self.raft.read(now.since_start, read) {
                self.routing.questions.push_front((link, id));
                break;
            }
            self.routing.next_read += 1;
            self.routing.reads.insert(read, Read::Index { link, id });
        }
    }

    /// Sends a message on its way. Returns it if it cannot go anywhere yet.
    fn dispatch(&mut self, now: Now, letter: Letter, out: &mut Vec<Action>) -> Option<Letter> {
        let session = letter.session;
        if self.raft.is_leader() {
            let id = ReadId(self.routing.next_read);
            if !self.raft.read(now.since_start, id) {
                return Some(letter);
            }
            self.routing.next_read += 1;
            self.routing.reads.insert(id, Read::Message(letter));
            return None;
        }
        let leader = self.other_leader().and_then(|leader| self.links.session_to(leader));
        let Some(leader) = leader else { return Some(letter) };
        if session.0 >= MANAGER_SESSIONS {
            self.close(now, session, out);
        } else if is_for_own_state(letter.kind()) && mutant::is(mutant::Mutant::PeonReadsAtOnce) {
            self.routing.held.push_back((0, Held::Message(letter)));
        } else if is_for_own_state(letter.kind()) {
            self.routing.fresh.push(letter);
        } else {
            self.forward(leader, session, Some(letter.open().1), out);
        }
        None
    }

    fn forward(&mut self, leader: SessionId, session: SessionId, envelope: Option<Envelope>, out: &mut Vec<Action>) {
        let Some(local) = self.routing.local.get_mut(&session) else { return };
        local.is_forwarded = true;
        if let Some(envelope) = envelope.as_ref().filter(|envelope| is_answered(envelope.header.kind)) {
            local.owed.insert(envelope.header.tid);
        }
        let message = q::Forward {
            session: session.0,
            name: local.peer.name,
            auth_name: local.peer.auth_name.clone(),
            addrs: local.peer.addrs.clone(),
            features: local.peer.features,
            global_id: local.peer.global_id,
            global_seq: local.peer.global_seq,
            message: envelope.map(Wrapped),
            proven: self.monitor.proven(session),
        };
        out.push(Action::Send { session: leader, envelope: message.seal(0, Target::PACIFIC) });
    }

    /// Asks the leader for the index of the newest state, for all messages that wait for it; one question at a time.
    fn ask_index(&mut self, out: &mut Vec<Action>) {
        if self.routing.fresh.is_empty() || self.routing.asked.is_some() {
            return;
        }
        let Some(leader) = self.other_leader().and_then(|leader| self.links.session_to(leader)) else { return };
        self.routing.next_question += 1;
        let id = self.routing.next_question;
        self.routing.asked = Some((id, std::mem::take(&mut self.routing.fresh)));
        out.push(Action::Send { session: leader, envelope: q::IndexGet { id }.seal(0, Target::PACIFIC) });
    }

    pub(super) fn read_ready(&mut self, now: Now, id: ReadId, out: &mut Vec<Action>) {
        match self.routing.reads.remove(&id) {
            Some(Read::Message(letter)) => {
                let (session, envelope) = letter.open();
                self.monitor.handle(now, monitor::MonitorInput::Message { session, envelope }, &mut self.todo);
                self.perform_for_monitor(now, out);
            }
            Some(Read::Index { link, id }) => {
                let reply = q::IndexGot { id, index: self.applied };
                out.push(Action::Send { session: link, envelope: reply.seal(0, Target::PACIFIC) });
            }
            None => {}
        }
    }

    pub(super) fn read_failed(&mut self, id: ReadId) {
        // A message of another monitor's session is dropped: that monitor sends its sessions to the next leader.
        if let Some(Read::Message(letter)) = self.routing.reads.remove(&id)
            && self.routing.local.contains_key(&letter.session)
        {
            self.routing.waiting.push_back(letter);
        }
    }

    /// Carries out the actions that waited for the log to be applied.
    pub(super) fn deliver(&mut self, now: Now, out: &mut Vec<Action>) {
        while self.routing.held.front().is_some_and(|(index, _)| *index <= self.applied) {
            let Some((_, held)) = self.routing.held.pop_front() else { return };
            match held {
                Held::Message(letter) => {
                    let (session, envelope) = letter.open();
                    self.monitor.handle(now, monitor::MonitorInput::Message { session, envelope }, &mut self.todo);
                    self.perform_for_monitor(now, out);
                }
                Held::Answer(session, Some(envelope)) => out.push(Action::Send { session, envelope }),
                Held::Answer(session, None) => self.close(now, session, out),
            }
        }
    }

    /// Records the leader of the term. Clients to which another leader owes an answer ask again.
    pub(super) fn leader_is(&mut self, now: Now, term: u64, leader: ServerId, out: &mut Vec<Action>) {
        let before = self.routing.leader.replace((leader, term));
        if before.is_some_and(|before| before != (leader, term)) {
            self.leader_lost(now, out);
        }
        self.duties_at = now.since_start;
        self.announce_all(out);
    }

    /// Returns the last leader that this member has heard of.
    pub(super) fn last_leader(&self) -> Option<ServerId> {
        self.routing.leader.map(|(leader, _)| leader)
    }

    /// Tells the leader of OSDs of which it does not know yet.
    pub(super) fn announce_all(&mut self, out: &mut Vec<Action>) {
        let unknown = self.routing.local.iter().filter(|(_, local)| !local.is_forwarded).map(|(session, _)| *session);
        for session in unknown.collect::<Vec<_>>() {
            if self.monitor.is_osd(session) {
                self.announce(session, out);
            }
        }
    }

    /// Closes sessions whose forwarded requests may be lost, and asks the question under way again.
    pub(super) fn leader_lost(&mut self, now: Now, out: &mut Vec<Action>) {
        if let Some((_, messages)) = self.routing.asked.take() {
            let later = std::mem::replace(&mut self.routing.fresh, messages);
            self.routing.fresh.extend(later);
        }
        let fresh = std::mem::take(&mut self.routing.fresh);
        fresh.into_iter().rev().for_each(|message| self.routing.waiting.push_front(message));
        let in_doubt = self.routing.local.iter().filter(|(session, local)| {
            local.is_forwarded && (!local.owed.is_empty() || self.monitor.is_osd(**session))
        });
        for session in in_doubt.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.close(now, session, out);
        }
        self.routing.local.values_mut().for_each(|local| local.is_forwarded = false);
    }

    /// Closes all sessions: other monitors may have a leader.
    pub(super) fn send_all_away(&mut self, now: Now, out: &mut Vec<Action>) {
        for session in self.routing.local.keys().copied().collect::<Vec<_>>() {
            self.close(now, session, out);
        }
        self.routing.waiting.clear();
    }

    /// Closes a session with a client or an OSD, here or at another monitor.
    pub(super) fn close(&mut self, now: Now, session: SessionId, out: &mut Vec<Action>) {
        if self.routing.forwarded.contains_key(&session) {
            self.send(session, None, out);
            return self.end_one(now, session);
        }
        out.push(Action::Close { session });
        self.closed(now, session, out);
    }

    pub(super) fn closed(&mut self, now: Now, session: SessionId, out: &mut Vec<Action>) {
        if self.links.is_dialled(session) || self.links.is_accepted(session) {
            return self.link_closed(now, session, out);
        }
        let Some(local) = self.routing.local.remove(&session) else { return };
        self.routing.waiting.retain(|letter| letter.session != session);
        let leader = self.other_leader().and_then(|leader| self.links.session_to(leader));
        if let Some(leader) = leader.filter(|_| local.is_forwarded) {
            let end = q::ForwardEnd { session: session.0 };
            out.push(Action::Send { session: leader, envelope: end.seal(0, Target::PACIFIC) });
        }
        self.monitor.handle(now, monitor::MonitorInput::Closed { session }, &mut self.todo);
    }

    /// Sends on a session here or at another monitor. Without a message, closes the one at another monitor.
    pub(super) fn send(&mut self, session: SessionId, envelope: Option<Envelope>, out: &mut Vec<Action>) {
        match (self.routing.forwarded.get(&session), envelope) {
            (Some((link, number)), envelope) => {
                let envelope = envelope.and_then(|envelope| self.fit_to_be_handed_on(envelope));
                let routed = q::Routed { session: *number, index: self.applied, message: envelope.map(Wrapped) };
                out.push(Action::Send { session: *link, envelope: routed.seal(0, Target::PACIFIC) });
            }
            (None, Some(envelope)) => out.push(Action::Send { session, envelope }),
            (None, None) => {}
        }
    }

    /// Checks an answer that another monitor passes on. One that is too long becomes an error, if it answers a command;
    /// else it is dropped.
    pub(super) fn fit_to_be_handed_on(&self, envelope: Envelope) -> Option<Envelope> {
        let bytes = bytes_of(&envelope);
        if bytes <= HANDED_ON_BYTES_MAX {
            return Some(envelope);
        }
        let (kind, name) = (envelope.header.kind, &self.identity.name);
        info!("an answer of type {kind} and {bytes} bytes is too long for another monitor to pass on");
        if kind != msg::MonCommandAck::TYPE {
            return None;
        }
        let mut answer = msg::MonCommandAck::open(&envelope).ok()?;
        answer.result = types::Errno::E2BIG.as_result();
        let why = "too many for another monitor to pass on; ask the leader itself";
        answer.status = format!("the answer has {bytes} bytes, {why} (`ceph -m` with the address of mon.{name})");
        answer.output = Default::default();
        Some(answer.seal(envelope.header.tid, Target::PACIFIC))
    }

    /// Handles a message on a session with a monitor.
    fn monitor_says(
        &mut self,
        now: Now,
        session: SessionId,
        envelope: &Envelope,
        out: &mut Vec<Action>,
    ) -> Result<(), DecodeError> {
        let kind = envelope.header.kind;
        if self.links.is_dialled(session) {
            match kind {
                q::MonHelloReply::TYPE => self.hello_reply(now, session, &Message::open(envelope)?, out),
                q::Routed::TYPE => self.routed(Message::open(envelope)?),
                q::IndexGot::TYPE => self.index_got(Message::open(envelope)?),
                q::GlobalIds::TYPE => {
                    let q::GlobalIds { from, below } = Message::open(envelope)?;
                    self.ids_asked = None;
                    out.push(Action::GlobalIds(from..below));
                }
                _ => {}
            }
            return Ok(());
        }
        if kind == q::MonHello::TYPE {
            self.hello(now, session, Message::open(envelope)?, out);
            return Ok(());
        }
        if self.links.accepted_from(session).is_none() {
            return Ok(());
        }
        match kind {
            q::RaftPacket::TYPE => self.raft_packet(now, session, &q::RaftPacket::open(envelope)?.packet),
            q::OsdSaid::TYPE => {
                let q::OsdSaid { message: Wrapped(inner) } = Message::open(envelope)?;
                if inner.header.kind == nacre::OsdBeacon::TYPE {
                    self.monitor.osd_said(now, Message::open(&inner)?);
                }
            }
            q::Forward::TYPE if self.raft.is_leader() => self.forwarded(now, session, Message::open(envelope)?, out),
            q::ForwardEnd::TYPE => {
                let q::ForwardEnd { session: number } = Message::open(envelope)?;
                let of = self.routing.by_link.get(&(session, number)).copied();
                of.into_iter().for_each(|id| self.end_one(now, id));
            }
            // A question that comes after this monitor stopped leading is dropped: the peon asks the next leader.
            q::IndexGet::TYPE if self.raft.is_leader() => {
                let q::IndexGet { id } = Message::open(envelope)?;
                self.routing.questions.push_back((session, id));
            }
            q::GlobalIdsGet::TYPE if self.monitor.leads() => {
                let envelope = envelope.clone();
                self.monitor.handle(now, monitor::MonitorInput::Message { session, envelope }, &mut self.todo);
            }
            _ => {}
        }
        Ok(())
    }

    fn forwarded(&mut self, now: Now, link: SessionId, forward: q::Forward, out: &mut Vec<Action>) {
        let known = self.routing.by_link.get(&(link, forward.session)).copied();
        let session = match known {
            Some(id) => id,
            None => {
                self.routing.next_forwarded += 1;
                let id = SessionId(FORWARDED_SESSIONS + self.routing.next_forwarded);
                self.routing.forwarded.insert(id, (link, forward.session));
                self.routing.by_link.insert((link, forward.session), id);
                let identity = match forward.proven {
                    Some(q::Proven { caps, from }) => Party::vouched_for(&forward.auth_name, caps, from.parse().ok()),
                    None => Party::claimed(&forward.auth_name),
                };
                let peer = Peer {
                    name: forward.name,
                    auth_name: forward.auth_name,
                    addrs: forward.addrs,
                    features: forward.features,
                    global_id: forward.global_id,
                    rights: identity.rights(),
                    lossy: true,
                    global_seq: forward.global_seq,
                };
                let input = monitor::MonitorInput::Forwarded { session: id, peer, identity };
                self.monitor.handle(now, input, &mut self.todo);
                id
            }
        };
        if let Some(Wrapped(envelope)) = forward.message {
            self.wait(now, session, envelope, out);
        }
    }

    fn end_one(&mut self, now: Now, session: SessionId) {
        if let Some(at) = self.routing.forwarded.remove(&session) {
            self.routing.by_link.remove(&at);
        }
        self.routing.waiting.retain(|letter| letter.session != session);
        self.monitor.handle(now, monitor::MonitorInput::Closed { session }, &mut self.todo);
    }

    /// Ends all sessions that one session of another monitor forwards.
    pub(super) fn end_forwarded_of(&mut self, now: Now, link: SessionId) {
        self.routing.questions.retain(|(by, _)| *by != link);
        let gone = self.routing.forwarded.iter().filter(|(_, (by, _))| *by == link).map(|(id, _)| *id);
        gone.collect::<Vec<_>>().into_iter().for_each(|id| self.end_one(now, id));
    }

    /// Ends all forwarded sessions: this monitor leads no more, and they mean nothing to it.
    pub(super) fn end_forwarded(&mut self, now: Now) {
        self.routing.questions.clear();
        let gone: Vec<SessionId> = self.routing.forwarded.keys().copied().collect();
        gone.into_iter().for_each(|id| self.end_one(now, id));
    }

    fn routed(&mut self, routed: q::Routed) {
        let session = SessionId(routed.session);
        let Some(local) = self.routing.local.get_mut(&session) else { return };
        let envelope = routed.message.map(|Wrapped(envelope)| envelope);
        if let Some(envelope) = &envelope {
            local.owed.remove(&envelope.header.tid);
        }
        self.routing.held.push_back((routed.index, Held::Answer(session, envelope)));
    }

    fn index_got(&mut self, got: q::IndexGot) {
        let Some((_, messages)) = self.routing.asked.take_if(|(id, _)| *id == got.id) else { return };
        let held = messages.into_iter().map(|letter| (got.index, Held::Message(letter)));
        self.routing.held.extend(held);
    }

    pub(super) fn ids_are_few(&mut self, now: Now, left: u64, out: &mut Vec<Action>) {
        if self.monitor.leads() {
            return self.monitor.handle(now, monitor::MonitorInput::GlobalIdsLeft(left), &mut self.todo);
        }
        let is_asked = self.ids_asked.is_some_and(|at| now.since_start < at + IDS_AGAIN);
        let leader = self.other_leader().and_then(|leader| self.links.session_to(leader));
        if let Some(leader) = leader.filter(|_| !is_asked) {
            self.ids_asked = Some(now.since_start);
            out.push(Action::Send { session: leader, envelope: q::GlobalIdsGet { left }.seal(0, Target::PACIFIC) });
        }
    }

    pub(super) fn send_ids(&mut self, session: SessionId, ids: Range<u64>, out: &mut Vec<Action>) {
        let message = q::GlobalIds { from: ids.start, below: ids.end };
        out.push(Action::Send { session, envelope: message.seal(0, Target::PACIFIC) });
    }
}

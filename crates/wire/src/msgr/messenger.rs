//! All sessions of one daemon or client.

use super::ahead::Ahead;
use super::assembler::Assembler;
use super::auth::AuthStep;
use super::config::{Config, Peer, Policy, limits};
use super::connection::{Connection, Fault, Phase};
use super::control::{Ack, Keepalive2};
use super::dirty::DirtyConns;
use super::frame::{COMPLETE, MessageHeader, Tag, Transmission, control_payload};
use super::half_open::HalfOpen;
use super::ids::{ConnId, SessionId};
use super::reason::{Cause, OtherEnd, Reason, TransportLoss};
use super::session::{self, FoundBy, Link, Session};
use super::timer::Timer;
use crate::{AddrKind, Encode, EntityAddr, EntityAddrVec, Envelope, Rope};
use bytes::BytesMut;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::ops::Range;
use std::time::Duration;
use types::{AlignedBuf, BufPool, EntityName, EntityType, Utime};

/// An order to the driver, or news for it.
#[derive(Debug)]
pub enum Output {
    /// Dial `to`, then report [`Messenger::connected`] or [`Messenger::closed`].
    Connect { conn: ConnId, to: SocketAddr },
    /// Send these bytes behind those of earlier outputs.
    Transmit { conn: ConnId, data: Rope },
    /// Close once everything transmitted is sent (within a time of the driver's choice), or while still dialling.
    /// Anything that the connection still reports is ignored.
    Close { conn: ConnId },
    /// The session stands: a first message may follow.
    Opened { session: SessionId, peer: Peer },
    /// `began`: when its first byte came.
    Message { session: SessionId, envelope: Envelope, began: Duration },
    /// The session is over, nothing more will come.
    Reset { session: SessionId, reason: Reason },
    /// A lossless session lost its connection, or failed to get one, and will try again when there is something to
    /// say; for logs and failure detection.
    Faulted { session: SessionId, reason: Reason },
    /// A connection that had no session yet was turned away.
    Refused { conn: ConnId, reason: Reason },
}

/// All sessions of one daemon or client, as a state machine.
///
/// Transport events go in (`accepted`, `connected`, `received`, `bulk_received`, `closed`, `tick`), and commands
/// (`connect`, `send`, `close`); after each, drain [`Messenger::poll`]. After `received`, first drain
/// [`Messenger::poll_auth`]. Draining once per loop turn lets messages of a
/// turn share a `Transmit`. Connections that the messenger does not know (any more) are ignored. The same inputs give
/// the same outputs.
///
/// Times are durations since an arbitrary start; they may not go back.
#[derive(Debug)]
pub struct Messenger {
    pub(super) config: Config,
    /// As in the configuration until a client learns its number.
    pub(super) me: EntityName,
    pub(super) my_addrs: EntityAddrVec,
    pub(super) conns: BTreeMap<ConnId, Connection>,
    /// Connections that others made and that have no session yet.
    half_open: HalfOpen<ConnId>,
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Sessions that a connecting peer may mean.
    pub(super) findable: BTreeMap<FoundBy, SessionId>,
    pub(super) outputs: VecDeque<Output>,
    /// Steps of handshakes to be answered.
    pub(super) steps: VecDeque<(ConnId, AuthStep)>,
    /// Connections that may have something to transmit.
    dirty: DirtyConns,
    ahead: Ahead<ConnId>,
    timers: BTreeSet<(Duration, Timer)>,
    global_ids: VecDeque<Range<u64>>,
    /// Connections of clients for which there was no id, in order; some may be gone.
    pub(super) awaiting_ids: VecDeque<ConnId>,
    pub(super) global_id: u64,
    /// Counts our connection attempts.
    pub(super) global_seq: u64,
    next_conn: u64,
    next_session: u64,
    random_state: u64,
    pub(super) now: Duration,
    is_deaf: bool,
    /// Memory for small parts of transmissions.
    scratch: BytesMut,
    /// For payloads that are not received in bulk, and for those that are encrypted.
    buffers: BufPool,
}

const SCRATCH_BYTES: usize = 16 << 10;
/// Buffers of small payloads that are kept for the next.
const SPARE_BYTES_MAX: usize = 512 << 10;

impl Messenger {
    pub fn new(config: Config) -> Messenger {
        Messenger {
            me: config.me,
            my_addrs: config.my_addrs.clone(),
            conns: BTreeMap::new(),
            half_open: HalfOpen::default(),
            sessions: BTreeMap::new(),
            findable: BTreeMap::new(),
            outputs: VecDeque::new(),
            steps: VecDeque::new(),
            dirty: DirtyConns::default(),
            ahead: Ahead::default(),
            timers: BTreeSet::new(),
            global_ids: VecDeque::new(),
            awaiting_ids: VecDeque::new(),
            global_id: 0,
            global_seq: 0,
            next_conn: 1,
            next_session: 1,
            random_state: config.seed,
            now: Duration::ZERO,
            is_deaf: false,
            scratch: BytesMut::new(),
            buffers: BufPool::new(SPARE_BYTES_MAX),
            config,
        }
    }

    /// Has payloads lie in memory of the driver's stock, where it has one.
    pub fn with_buffers(mut self, buffers: BufPool) -> Messenger {
        self.buffers = buffers;
        self
    }

    /// Somebody connected to us.
    pub fn accepted(&mut self, conn: ConnId, peer: SocketAddr, now: Duration) {
        self.advance(now);
        self.add_conn(conn, peer, None);
        self.dirty.insert(conn);
        self.half_open.add(conn, peer.ip());
        if let Some(surplus) = self.half_open.surplus(self.config.half_open_max) {
            self.fault(surplus, Fault::Lost(Cause::HalfOpen(self.config.half_open_max)));
        }
    }

    /// The dialling that [`Output::Connect`] asked for succeeded.
    pub fn connected(&mut self, conn: ConnId, now: Duration) {
        self.advance(now);
        let Some(connection) = self.conns.get_mut(&conn) else { return };
        assert!(matches!(connection.phase, Phase::Dialling), "{conn:?} connected twice");
        connection.phase = Phase::Banner;
        self.dirty.insert(conn);
    }

    /// The next bytes of the stream. Returns how many were taken: all, unless a bulk segment begins behind those
    /// taken; the rest is then the beginning of what [`Messenger::bulk_wanted`] asks for.
    pub fn received(&mut self, conn: ConnId, bytes: &[u8], now: Duration) -> usize {
        self.progressed(conn, now);
        if !self.half_open.admits(conn, bytes.len()) {
            self.fault(conn, Fault::Lost(Cause::HalfOpenBytes));
            return bytes.len();
        }
        let mut input = bytes;
        loop {
            let Some(connection) = self.conns.get_mut(&conn) else { return bytes.len() };
            if let Phase::Asked(_) = connection.phase {
                self.hold(conn, input);
                return bytes.len();
            }
            if connection.assembler.is_between_frames() {
                connection.frame_began = self.now;
            }
            let before = input;
            let next = connection.assembler.next(&mut input);
            if !connection.transcript.is_complete {
                connection.transcript.received.extend_from_slice(&before[..before.len() - input.len()]);
            }
            let result = match next {
                Ok(Some(incoming)) => self.incoming(conn, incoming),
                Ok(None) => return bytes.len() - input.len(),
                Err(error) => Err(error.into()),
            };
            if let Err(fault) = result {
                self.fault(conn, fault);
            }
        }
    }

    /// `Some(n)`: the next `n` bytes of the stream belong into one aligned buffer, to be handed to
    /// [`Messenger::bulk_received`]. Bytes that [`Messenger::received`] left are the first of them.
    pub fn bulk_wanted(&self, conn: ConnId) -> Option<usize> {
        self.conns.get(&conn)?.assembler.bulk_wanted()
    }

    /// The message that is being received on a connection: a number that tells it from those before, and how many bytes
    /// it will have. `None` as long as none has begun, or its size is not known yet.
    pub fn receiving(&self, conn: ConnId) -> Option<(u64, usize)> {
        self.conns.get(&conn)?.assembler.receiving()
    }

    /// The kind of the peer at the other end of a connection, once its session has been open.
    pub fn peer_kind(&self, conn: ConnId) -> Option<EntityType> {
        Some(self.peer(self.session_on(conn)?)?.name.kind)
    }

    /// The bytes that [`Messenger::bulk_wanted`] asked for, all of them.
    pub fn bulk_received(&mut self, conn: ConnId, buf: AlignedBuf, now: Duration) {
        self.progressed(conn, now);
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.assembler.bulk_received(buf);
        }
    }

    /// The peer shows signs of life: bytes of it came, or a transport that was full takes more. An answer to a
    /// keepalive may have to wait behind a large message, in either direction, for longer than a dead peer is to be
    /// waited for.
    pub fn progressed(&mut self, conn: ConnId, now: Duration) {
        self.advance(now);
        if let Some(connection) = self.conns.get_mut(&conn) {
            connection.heard_at = self.now;
        }
    }

    /// Tells whether the driver reads from no connection for now, so that silence tells nothing of a peer.
    pub fn set_deaf(&mut self, deaf: bool, now: Duration) {
        self.advance(now);
        if std::mem::replace(&mut self.is_deaf, deaf) && !deaf {
            let now = self.now;
            self.conns.values_mut().for_each(|connection| connection.heard_at = now);
        }
    }

    /// The connection is gone, or could not be made.
    pub fn closed(&mut self, conn: ConnId, cause: impl Into<TransportLoss>, now: Duration) {
        self.advance(now);
        if let Some(connection) = self.remove_conn(conn)
            && let Some(session) = connection.session
        {
            self.link_lost(session, Fault::Lost(Cause::Transport(cause.into())));
        }
    }

    /// Does what is due by `now`.
    pub fn tick(&mut self, now: Duration) {
        self.advance(now);
        while let Some(&(at, timer)) = self.timers.first()
            && at <= self.now
        {
            self.timers.pop_first();
            self.timer_fired(timer);
        }
    }

    /// When [`Messenger::tick`] is next needed.
    pub fn next_wake(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A session with the peer at `addrs`, of which the msgr v2 address is dialled. For a lossless policy this may be
    /// a session that exists already. [`Output::Opened`] tells when it stands; messages may be sent before.
    /// Without an address to dial, [`Output::Reset`] follows.
    pub fn connect(&mut self, peer: EntityName, addrs: &EntityAddrVec, policy: Policy, now: Duration) -> SessionId {
        self.advance(now);
        let addr = dialled_addr(addrs);
        let key = FoundBy { kind: peer.kind, addr: addrs.front(), client: None };
        if !policy.lossy
            && let Some(&session) = self.findable.get(&key)
        {
            if !self.sessions[&session].policy.lossy {
                return session;
            }
            self.end_session(session, Cause::ReplacedByLossless);
        }
        let id = self.new_session(Session::new(policy, peer, addr, Link::Standby));
        if addr.sockaddr.is_none() || addr.port() == 0 {
            self.end_session(id, Cause::NotDialable(addrs.clone()));
            return id;
        }
        if !policy.lossy {
            self.make_findable(id, key);
        }
        self.dial(id);
        id
    }

    /// Queues a message; dropped if the session is gone. What a peer of our own does not take for its length ends the
    /// session here already: it is the sender's to know.
    pub fn send(&mut self, session: SessionId, envelope: Envelope) {
        let Some(s) = self.sessions.get_mut(&session) else { return };
        let (front, middle, data) = (envelope.front.len(), envelope.middle.len(), envelope.data.len());
        let is_taken = front.max(middle) <= limits::FRONT_BYTES && data <= limits::DATA_BYTES;
        if !s.policy.lossy && !is_taken {
            let kind = envelope.header.kind;
            debug_assert!(is_taken, "message of type {kind:#x} with a front of {front} and data of {data} bytes");
            return self.end_session(session, Cause::MessageTooLong { kind, front, data });
        }
        s.out.push(envelope);
        match s.link {
            Link::Open(conn) => self.dirty.insert(conn),
            Link::Standby => self.dial(session),
            Link::Connecting(_) | Link::Waiting(_) => {}
        }
    }

    /// Ends the session after what was sent; no [`Output::Reset`] follows.
    pub fn close(&mut self, session: SessionId) {
        let Some(s) = self.sessions.get(&session) else { return };
        if let Some(conn) = s.conn() {
            // A lossy session's other end asks again for what does not leave, which nobody is to encrypt at once.
            let ahead_max = if s.policy.lossy { self.config.sealed_ahead_bytes } else { usize::MAX };
            let last = self.flush(conn, ahead_max);
            self.outputs.extend(last);
            self.drop_conn(conn);
        }
        self.forget_session(session);
    }

    /// The connection that carries the session at present.
    pub fn connection_of(&self, session: SessionId) -> Option<ConnId> {
        self.sessions.get(&session)?.conn()
    }

    /// The connection that carries the session's messages at present, once its handshake is done.
    pub fn open_connection_of(&self, session: SessionId) -> Option<ConnId> {
        let session = self.sessions.get(&session).filter(|session| session.is_open())?;
        session.conn()
    }

    /// The session that a connection carries at present.
    pub fn session_on(&self, conn: ConnId) -> Option<SessionId> {
        self.conns.get(&conn)?.session
    }

    /// The other end, once the session has been open.
    pub fn peer(&self, session: SessionId) -> Option<&Peer> {
        self.sessions.get(&session)?.peer.as_ref()
    }

    /// Since when a lossless session has tried in vain to get a connection. `None`: it has one, has not lost one yet,
    /// or has nothing to send and wants none.
    pub fn lost_since(&self, session: SessionId) -> Option<Duration> {
        self.sessions.get(&session)?.lost_at
    }

    /// Payload bytes of messages that wait to be sent or, on a lossless session, to be acknowledged.
    pub fn queued_bytes(&self, session: SessionId) -> usize {
        self.sessions.get(&session).map_or(0, |s| s.out.bytes())
    }

    /// Ids that a monitor may give to clients, in addition to those left. They must never be given by anybody else.
    pub fn set_global_ids(&mut self, ids: Range<u64>) {
        self.global_ids.push_back(ids);
        self.give_ids();
    }

    pub fn global_ids_left(&self) -> u64 {
        self.global_ids.iter().map(|ids| ids.end.saturating_sub(ids.start)).sum()
    }

    /// A client's own id, 0 until a monitor gave one.
    pub fn global_id(&self) -> u64 {
        self.global_id
    }

    /// Own name; a client's number is learnt.
    pub fn name(&self) -> EntityName {
        self.me
    }

    /// Own addresses; a client's are learnt.
    pub fn addrs(&self) -> &EntityAddrVec {
        &self.my_addrs
    }

    /// The next thing to do, `None` when all is done.
    pub fn poll(&mut self) -> Option<Output> {
        loop {
            if let Some(output) = self.outputs.pop_front() {
                return Some(output);
            }
            let conn = self.dirty.pop_first()?;
            let transmit = self.flush(conn, self.config.sealed_ahead_bytes);
            // Its last bytes go out before it is closed.
            if self.conns.get(&conn).is_some_and(|connection| connection.framing.is_worn()) {
                self.fault(conn, Fault::Lost(Cause::Worn));
            }
            if transmit.is_some() {
                return transmit;
            }
        }
    }

    fn add_conn(&mut self, conn: ConnId, peer: SocketAddr, session: Option<SessionId>) {
        let deadline = self.now + limits::HANDSHAKE_TIME;
        let assembler = Assembler::new(self.config.bulk_min_bytes, self.config.block_crcs, self.buffers.clone());
        let connection = Connection::new(conn, peer, session, deadline, assembler);
        assert!(self.conns.insert(conn, connection).is_none(), "{conn:?} used twice");
        self.timers.insert((deadline, Timer::Handshake(conn)));
    }

    /// The connection must have a session by then, not by when it had to.
    pub(super) fn set_deadline(&mut self, connection: &mut Connection, deadline: Duration) {
        let before = std::mem::replace(&mut connection.deadline, deadline);
        self.timers.remove(&(before, Timer::Handshake(connection.id)));
        self.timers.insert((deadline, Timer::Handshake(connection.id)));
    }

    fn remove_conn(&mut self, conn: ConnId) -> Option<Connection> {
        let connection = self.conns.remove(&conn)?;
        self.timers.remove(&(connection.deadline, Timer::Handshake(conn)));
        self.half_open.remove(conn, connection.peer.ip());
        self.ahead.remove(conn);
        Some(connection)
    }

    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
    }

    /// All that the connection has to transmit at present, but for messages that have to wait because `ahead_max` bytes
    /// were encrypted already.
    fn flush(&mut self, conn: ConnId, ahead_max: usize) -> Option<Output> {
        let connection = self.conns.get_mut(&conn)?;
        if matches!(connection.phase, Phase::Dialling) {
            return None;
        }
        // Takes the memory back if nobody holds what was transmitted from it.
        if self.scratch.capacity() < SCRATCH_BYTES / 4 {
            self.scratch.reserve(SCRATCH_BYTES);
        }
        let mut t = Transmission::new(std::mem::take(&mut self.scratch));
        if !connection.pending.is_empty() {
            t.small().extend_from_slice(&std::mem::take(&mut connection.pending));
        }
        if connection.is_ready()
            && let Some(s) = connection.session.and_then(|id| self.sessions.get_mut(&id))
        {
            let (lossy, ack_seq) = (s.policy.lossy, s.in_seq);
            let framing = &mut connection.framing;
            let copies = framing.copies();
            let mut ahead = self.ahead.of(conn);
            let told = s.out.send_while(lossy, |seq, envelope| {
                if ahead >= ahead_max {
                    return false;
                }
                let header = MessageHeader { seq, ack_seq, flags: COMPLETE, header: envelope.header };
                framing.put_message(&mut t, &header, envelope);
                ahead += if copies { session::size(envelope) } else { 0 };
                true
            });
            self.ahead.set(conn, ahead, s.out.has_unsent());
            if told {
                s.acks.told();
            } else if s.acks.due {
                framing.put_control(t.small(), Tag::ACK, &control_payload(|w| Ack { seq: ack_seq }.encode(w)));
                s.acks.told();
            }
        }
        let (data, scratch) = t.finish();
        self.scratch = scratch;
        (!data.is_empty()).then_some(Output::Transmit { conn, data })
    }

    /// Encrypted bytes that transports may not have taken: of each connection that has any, and true where further
    /// messages wait for that.
    pub fn ahead(&self) -> impl Iterator<Item = (ConnId, usize, bool)> + '_ {
        self.ahead.iter()
    }

    /// Payload bytes of messages of lossy sessions that wait until transports take others.
    pub fn waiting_bytes(&self) -> usize {
        let full = self.ahead.iter().filter(|(_, _, is_full)| *is_full);
        let sessions = full.filter_map(|(conn, ..)| self.sessions.get(&self.conns.get(&conn)?.session?));
        sessions.filter(|s| s.policy.lossy).map(|s| s.out.bytes()).sum()
    }

    /// The transport has `left` bytes of a connection that it has not taken. Messages that wait go on if there is room.
    /// Returns true if there are any that do.
    pub fn taken(&mut self, conn: ConnId, left: usize) -> bool {
        let goes_on = self.ahead.taken(conn, left) && left < self.config.sealed_ahead_bytes;
        if goes_on {
            self.dirty.insert(conn);
        }
        goes_on
    }

    /// Memory for large records that are sealed.
    pub(super) fn sealing_buffers(&self) -> BufPool {
        self.buffers.clone()
    }

    pub(super) fn mark_dirty(&mut self, conn: ConnId) {
        self.dirty.insert(conn);
    }

    /// Ends a connection, and what hangs on it, for a reason of ours.
    pub(super) fn fault(&mut self, conn: ConnId, fault: Fault) {
        let Some(connection) = self.conns.get(&conn) else { return };
        let session = connection.session;
        let name = connection.identity.as_ref().map(|identity| identity.name.clone());
        let peer = OtherEnd::Connection { addr: connection.peer, name };
        self.drop_conn(conn);
        match (session, fault) {
            (Some(session), fault) => self.link_lost(session, fault),
            (None, Fault::Lost(cause) | Fault::Broken(cause)) => {
                self.outputs.push_back(Output::Refused { conn, reason: Reason { peer, cause } });
            }
            (None, Fault::Yielded | Fault::Stale) => {}
        }
    }

    /// Forgets a connection and has it closed behind its last control frames.
    pub(super) fn drop_conn(&mut self, conn: ConnId) {
        let Some(mut connection) = self.remove_conn(conn) else { return };
        if !connection.pending.is_empty() && !matches!(connection.phase, Phase::Dialling) {
            let data = Rope::from(connection.pending.split().freeze());
            self.outputs.push_back(Output::Transmit { conn, data });
        }
        self.outputs.push_back(Output::Close { conn });
    }

    /// The session's connection is gone.
    fn link_lost(&mut self, id: SessionId, fault: Fault) {
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        let cause = match fault {
            Fault::Broken(cause) => return self.end_session(id, cause),
            Fault::Lost(cause) if s.policy.lossy => return self.end_session(id, cause),
            Fault::Yielded if s.policy.lossy => return self.end_session(id, Cause::ToldToWait),
            Fault::Lost(cause) => cause,
            Fault::Stale => unreachable!("a stale connection never had a session"),
            Fault::Yielded => {
                // It will connect to us; only if that fails do we try again.
                (s.backoff, s.link) = (limits::BACKOFF_MAX, Link::Waiting(self.now + limits::BACKOFF_MAX));
                return self.set_timer(limits::BACKOFF_MAX, Timer::Redial(id));
            }
        };
        let was_open = s.is_open();
        s.out.rewind();
        s.acks.told();
        self.outputs.push_back(Output::Faulted { session: id, reason: s.reason(cause) });
        if s.out.is_empty() && s.peer.is_some() {
            (s.link, s.lost_at) = (Link::Standby, None);
            return;
        }
        s.lost_at.get_or_insert(self.now);
        if was_open && self.now >= s.alive_at + limits::BACKOFF_MIN {
            self.dial(id);
        } else {
            s.backoff = (s.backoff * 2).clamp(limits::BACKOFF_MIN, limits::BACKOFF_MAX);
            s.link = Link::Waiting(self.now + s.backoff);
            let wait = s.backoff;
            self.set_timer(wait, Timer::Redial(id));
        }
    }

    /// Begins an attempt to open or resume the session.
    fn dial(&mut self, id: SessionId) {
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        self.global_seq += 1;
        let s = self.sessions.get_mut(&id).expect("dialled sessions exist");
        s.global_seq = self.global_seq;
        if s.server_cookie != 0 {
            s.connect_seq += 1;
        }
        s.link = Link::Connecting(conn);
        let to = s.addr.sockaddr.expect("sessions that dial have an address");
        self.add_conn(conn, to, Some(id));
        self.outputs.push_back(Output::Connect { conn, to });
    }

    pub(super) fn new_session(&mut self, session: Session) -> SessionId {
        let id = SessionId(self.next_session);
        self.next_session += 1;
        self.sessions.insert(id, session);
        id
    }

    /// Lets connecting peers find the session.
    pub(super) fn make_findable(&mut self, id: SessionId, by: FoundBy) {
        self.sessions.get_mut(&id).expect("made findable when made").findable_by = Some(by.clone());
        let before = self.findable.insert(by, id);
        assert_eq!(before, None, "two sessions with {:?}", self.sessions[&id].findable_by);
    }

    /// Ends a session whose connection, if any, is dropped before or here.
    pub(super) fn end_session(&mut self, id: SessionId, cause: Cause) {
        let s = &self.sessions[&id];
        let reason = s.reason(cause);
        if let Some(conn) = s.conn() {
            self.drop_conn(conn);
        }
        self.forget_session(id);
        self.outputs.push_back(Output::Reset { session: id, reason });
    }

    fn forget_session(&mut self, id: SessionId) {
        let s = self.sessions.remove(&id).expect("sessions end once");
        if let Some(by) = s.findable_by {
            self.findable.remove(&by);
        }
    }

    /// The session stands on this connection.
    pub(super) fn open(&mut self, connection: &mut Connection, id: SessionId) {
        let conn = connection.id;
        connection.phase = Phase::Ready;
        connection.session = Some(id);
        connection.assembler.establish();
        self.timers.remove(&(connection.deadline, Timer::Handshake(conn)));
        self.half_open.remove(conn, connection.peer.ip());
        let s = self.sessions.get_mut(&id).expect("opened sessions exist");
        s.link = Link::Open(conn);
        s.backoff = Duration::ZERO;
        s.alive_at = self.now;
        s.lost_at = None;
        if let Some(keepalive) = s.policy.keepalive {
            self.set_timer(keepalive.interval, Timer::Keepalive(id, conn));
        }
        self.dirty.insert(conn);
    }

    pub(super) fn set_timer(&mut self, after: Duration, timer: Timer) {
        self.timers.insert((self.now + after, timer));
    }

    fn timer_fired(&mut self, timer: Timer) {
        match timer {
            Timer::Handshake(conn) => {
                let Some(connection) = self.conns.get(&conn).filter(|c| !c.is_ready()) else { return };
                let cause = match connection.phase {
                    Phase::AwaitingId(_) => Cause::NoIdLeft,
                    _ => Cause::NoSession(limits::HANDSHAKE_TIME),
                };
                self.fault(conn, Fault::Lost(cause));
            }
            Timer::Redial(id) => {
                let due = |s: &Session| matches!(s.link, Link::Waiting(until) if until <= self.now);
                if self.sessions.get(&id).is_some_and(due) {
                    self.dial(id);
                }
            }
            Timer::Ack(id) => {
                let Some(s) = self.sessions.get_mut(&id) else { return };
                s.acks.timer = false;
                s.acks.due = s.acks.messages > 0;
                if let (true, Link::Open(conn)) = (s.acks.due, s.link) {
                    self.dirty.insert(conn);
                }
            }
            Timer::Keepalive(id, conn) => self.keepalive(id, conn),
        }
    }

    fn keepalive(&mut self, id: SessionId, conn: ConnId) {
        let Some(s) = self.sessions.get(&id).filter(|s| s.link == Link::Open(conn)) else { return };
        let keepalive = s.policy.keepalive.expect("only such sessions have this timer");
        let connection = self.conns.get_mut(&conn).expect("open sessions have a connection");
        if !self.is_deaf && self.now >= connection.heard_at.max(s.alive_at) + keepalive.timeout {
            return self.fault(conn, Fault::Lost(Cause::Silent(keepalive.timeout)));
        }
        let stamp = Utime::from_unix(self.now);
        connection.put(&Keepalive2 { stamp });
        self.dirty.insert(conn);
        self.set_timer(keepalive.interval, Timer::Keepalive(id, conn));
    }

    /// The next id for a client, if any is left.
    pub(super) fn take_global_id(&mut self) -> Option<u64> {
        while self.global_ids.front().is_some_and(Range::is_empty) {
            self.global_ids.pop_front();
        }
        self.global_ids.front_mut()?.next()
    }

    /// Any number but 0 (SplitMix64: cookies need to differ, not to be secret).
    pub(super) fn random(&mut self) -> u64 {
        self.random_state = self.random_state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random_state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).max(1)
    }
}

/// The address to dial: the msgr v2 one, or one that leaves the protocol open.
fn dialled_addr(addrs: &EntityAddrVec) -> EntityAddr {
    match addrs.msgr2_addr() {
        EntityAddr::BLANK => addrs
            .iter()
            .find(|addr| addr.kind == AddrKind::ANY)
            .map_or(EntityAddr::BLANK, |addr| EntityAddr { kind: AddrKind::MSGR2, ..*addr }),
        addr => addr,
    }
}

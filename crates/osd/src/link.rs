//! A messenger and its connections in the reactor.

use crate::Credentials;
use crate::proofs::Proofs;
use crate::receiving::Receiving;
use crate::sending::Sending;
use auth::messenger::ended_at_once;
use pg::ClientRights;
use reactor::Io;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;
use types::{AlignedBuf, OsdId};
use wire::messages::AuthReply;
use wire::msgr::{ConnId, Messenger, Output, Peer, SessionId, TransportLoss};
use wire::{Envelope, Message};

/// One of an OSD's two faces: the one towards clients and monitors, or the one towards other OSDs. It translates
/// between the reactor's connections and the messenger's.
pub(crate) struct Link {
    pub messenger: Messenger,
    to_reactor: BTreeMap<ConnId, reactor::ConnId>,
    to_messenger: BTreeMap<reactor::ConnId, ConnId>,
    /// The number of the next accepted connection. Accepted connections have even numbers.
    next_accepted: u64,
    /// Accepted connections. The link does not read from them while too much waits.
    accepted: BTreeMap<reactor::ConnId, SocketAddr>,
    paused: bool,
    paused_at: Duration,
    /// Connections that are not read from, whether or not the others are.
    held: BTreeSet<reactor::ConnId>,
    /// Messages that are being received on accepted connections.
    receiving: Receiving,
    /// Bytes sent that the network may not have taken yet, by connection.
    sending: Sending,
    /// Value that [`Link::unsent_bytes`] returned last.
    unsent_bytes: usize,
    /// Value that [`Link::sealed_bytes`] returned last.
    sealed_bytes: usize,
    /// `None`: nobody proves anything.
    proofs: Option<Proofs>,
}

impl Link {
    pub fn new(messenger: Messenger) -> Link {
        Link {
            messenger,
            to_reactor: BTreeMap::new(),
            to_messenger: BTreeMap::new(),
            next_accepted: 2,
            accepted: BTreeMap::new(),
            paused: false,
            paused_at: Duration::ZERO,
            held: BTreeSet::new(),
            receiving: Receiving::default(),
            sending: Sending::default(),
            unsent_bytes: 0,
            sealed_bytes: 0,
            proofs: None,
        }
    }

    /// A link whose ends prove who they are, if there are credentials. `renews`: it speaks with monitors.
    pub fn proving(messenger: Messenger, credentials: Option<&Credentials>, renews: bool) -> Link {
        let proofs = credentials.map(|credentials| Proofs::new(credentials, renews));
        Link { proofs, ..Link::new(messenger) }
    }

    fn answer_steps(&mut self, io: &mut impl Io) {
        let Some(proofs) = &mut self.proofs else { return self.messenger.answer_unproven(io.now()) };
        while let Some((conn, step)) = self.messenger.poll_auth() {
            let answer = proofs.answer(io, conn, step);
            self.messenger.answer(conn, answer, io.now());
        }
    }

    /// Sets the OSDs that there are, for all links that share this one's credentials.
    pub fn osds_are(&self, osds: BTreeSet<OsdId>) {
        if let Some(proofs) = &self.proofs {
            proofs.osds_are(osds);
        }
    }

    /// Requests for tickets and secrets, which are to be sent to the monitor.
    pub fn requests(&mut self, io: &mut impl Io) -> Vec<Envelope> {
        self.proofs.as_mut().map(|proofs| proofs.requests(io)).unwrap_or_default()
    }

    /// Ends connections whose tickets have ended, a few at a time. Sessions stay, and go on over connections that are
    /// made with other tickets.
    pub fn end_connections(&mut self, io: &mut impl Io) {
        let Some(proofs) = &mut self.proofs else { return };
        for _ in 0..ended_at_once(proofs.replaced()) {
            let Some(conn) = proofs.take_ended() else { return };
            self.to_reactor.get(&conn).into_iter().for_each(|conn| io.abort(*conn));
        }
    }

    /// Sessions of clients whose tickets have ended, a few at a time. Connections that have no session yet are closed
    /// here.
    pub fn with_ended_tickets(&mut self, io: &mut impl Io) -> Vec<SessionId> {
        let mut sessions = Vec::new();
        let Some(proofs) = &mut self.proofs else { return sessions };
        let max = ended_at_once(proofs.replaced());
        while sessions.len() < max
            && let Some(conn) = proofs.take_ended()
        {
            match self.messenger.session_on(conn) {
                Some(session) => sessions.push(session),
                None => self.to_reactor.get(&conn).into_iter().for_each(|conn| io.abort(*conn)),
            }
        }
        sessions
    }

    /// Takes a monitor's message about tickets or secrets. Returns false if it is another message.
    pub fn took_tickets(&mut self, io: &mut impl Io, envelope: &Envelope) -> bool {
        let is_one = envelope.header.kind == AuthReply::TYPE;
        if let Some(proofs) = self.proofs.as_mut().filter(|_| is_one) {
            proofs.answered(io, envelope);
        }
        is_one
    }

    /// The rights of whoever has opened a session, which may be over by now.
    pub fn rights(&self, session: SessionId, peer: &Peer) -> ClientRights {
        let conn = self.messenger.connection_of(session).and_then(|conn| self.to_reactor.get(&conn));
        let from = conn.and_then(|conn| self.accepted.get(conn)).map(SocketAddr::ip);
        ClientRights::of(&peer.rights, from)
    }

    pub fn owns(&self, conn: reactor::ConnId) -> bool {
        self.to_messenger.contains_key(&conn)
    }

    fn join(&mut self, reactor_conn: reactor::ConnId, conn: ConnId) {
        self.to_reactor.insert(conn, reactor_conn);
        self.to_messenger.insert(reactor_conn, conn);
    }

    pub fn accepted(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, peer: SocketAddr) {
        let conn = ConnId(self.next_accepted);
        self.next_accepted += 2;
        self.join(reactor_conn, conn);
        self.accepted.insert(reactor_conn, peer);
        if self.paused {
            io.pause_reading(reactor_conn);
        }
        self.messenger.accepted(conn, peer, io.now());
    }

    pub fn connected(&mut self, io: &mut impl Io, conn: reactor::ConnId) {
        if let Some(&conn) = self.to_messenger.get(&conn) {
            self.messenger.connected(conn, io.now());
        }
    }

    pub fn closed(&mut self, io: &mut impl Io, conn: reactor::ConnId, cause: impl Into<TransportLoss>) {
        self.accepted.remove(&conn);
        self.receiving.closed(conn);
        self.sending.closed(conn);
        if let Some(conn) = self.to_messenger.remove(&conn) {
            self.to_reactor.remove(&conn);
            if let Some(proofs) = &mut self.proofs {
                proofs.closed(conn);
            }
            self.messenger.closed(conn, cause, io.now());
        }
    }

    /// Gives received bytes to the messenger. If a large payload begins, has the reactor receive it.
    pub fn received(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return bytes.len() };
        let taken = self.messenger.received(conn, bytes, io.now());
        self.answer_steps(io);
        self.receive_on(io, reactor_conn, conn);
        taken
    }

    pub fn bulk_received(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, buf: AlignedBuf) {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return };
        self.messenger.bulk_received(conn, buf, io.now());
        self.receive_on(io, reactor_conn, conn);
    }

    /// Has the reactor receive a payload that begins here. If there is no room for the message, stops reading from the
    /// connection for now.
    fn receive_on(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, conn: ConnId) {
        let message = self.messenger.receiving(conn);
        if self.accepted.contains_key(&reactor_conn) && !self.receiving.goes_on(reactor_conn, message, io.now()) {
            return io.pause_reading(reactor_conn);
        }
        if let Some(n) = self.messenger.bulk_wanted(conn) {
            io.receive_bulk(reactor_conn, n);
        }
    }

    /// The messenger's next event. Carries out the messenger's wishes to its transport on the way.
    pub fn poll(&mut self, io: &mut impl Io) -> Option<Output> {
        loop {
            let output = match self.messenger.poll() {
                Some(output) => output,
                None if self.seals_on(io) => continue,
                None => return None,
            };
            match output {
                Output::Connect { conn, to } => {
                    let reactor_conn = io.connect(to);
                    self.join(reactor_conn, conn);
                }
                Output::Transmit { conn, data } => {
                    if let Some(&reactor_conn) = self.to_reactor.get(&conn) {
                        self.sending.queued(reactor_conn, data.len(), io.now());
                        data.into_pieces().for_each(|piece| io.send(reactor_conn, piece));
                    }
                }
                Output::Close { conn } => {
                    if let Some(proofs) = &mut self.proofs {
                        proofs.closed(conn);
                    }
                    if let Some(&reactor_conn) = self.to_reactor.get(&conn) {
                        // The messenger has dropped a message that was half received.
                        self.receiving.closed(reactor_conn);
                        io.close(reactor_conn);
                    }
                }
                event => return Some(event),
            }
        }
    }

    /// Has messages go on that wait until the network has taken others. Returns true if there are such.
    fn seals_on(&mut self, io: &impl Io) -> bool {
        let waiting = self.messenger.ahead().filter(|(_, _, is_full)| *is_full);
        let waiting: Vec<ConnId> = waiting.map(|(conn, ..)| conn).collect();
        let mut any = false;
        for conn in waiting {
            any |= self.messenger.taken(conn, self.queued_bytes(io, conn));
        }
        any
    }

    /// Bytes of a connection that the network has not taken yet.
    fn queued_bytes(&self, io: &impl Io, conn: ConnId) -> usize {
        self.to_reactor.get(&conn).map_or(0, |conn| io.queued_bytes(*conn))
    }

    /// Stops or resumes reading from accepted connections.
    pub fn pause_accepted(&mut self, io: &mut impl Io, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            let (receiving, held) = (&self.receiving, &self.held);
            let goes_on = |conn: &&reactor::ConnId| !receiving.is_waiting(**conn) && !held.contains(*conn);
            pause(io, self.accepted.keys().filter(|conn| paused || goes_on(conn)), paused);
            match paused {
                true => self.paused_at = io.now(),
                false => self.receiving.stood_still(io.now().saturating_sub(self.paused_at)),
            }
        }
    }

    /// Sets the room for messages of accepted connections that are not complete. All complete messages have been
    /// handled. If there is no room, or a shard `is_full`, connections are given up that take nothing of their answers.
    pub fn set_room(&mut self, io: &mut impl Io, bytes: usize, is_full: bool) {
        let now = io.now();
        if bytes == 0 || is_full {
            self.end_stuck(io);
        }
        for conn in self.receiving.set_room(bytes, now) {
            if !self.paused && !self.held.contains(&conn) {
                io.resume_reading(conn);
            }
        }
        let overdue = if self.paused { Vec::new() } else { self.receiving.overdue(now) };
        for conn in overdue.into_iter().filter(|conn| !self.held.contains(conn)) {
            let peer = self.accepted.get(&conn).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(%peer, "a message is still not complete, and others wait for its memory; connection closed");
            self.receiving.closed(conn);
            io.abort(conn);
        }
    }

    /// Stops or resumes reading from all connections.
    pub fn pause_all(&mut self, io: &mut impl Io, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            let held = &self.held;
            pause(io, self.to_messenger.keys().filter(|conn| paused || !held.contains(conn)), paused);
            self.messenger.set_deaf(paused, io.now());
        }
    }

    /// Has nothing be read in these sessions, and read again in others that were held before. Their silence tells
    /// nothing of who is at their other ends.
    pub fn hold(&mut self, io: &mut impl Io, sessions: impl Iterator<Item = SessionId>) {
        let conns = sessions.filter_map(|session| self.messenger.open_connection_of(session));
        let conns: Vec<ConnId> = conns.collect();
        conns.iter().for_each(|conn| self.messenger.progressed(*conn, io.now()));
        let held = conns.iter().filter_map(|conn| self.to_reactor.get(conn).copied()).collect();
        let before = std::mem::replace(&mut self.held, held);
        let goes_on = before.difference(&self.held).filter(|conn| self.to_messenger.contains_key(conn));
        let goes_on: Vec<reactor::ConnId> = goes_on.copied().collect();
        goes_on.iter().for_each(|conn| self.receiving.begins_anew(*conn, io.now()));
        if !self.paused {
            pause(io, goes_on.iter().filter(|conn| !self.receiving.is_waiting(**conn)), false);
            pause(io, self.held.difference(&before), true);
        }
    }

    /// Bytes of messages that are being received on accepted connections: as counted, and as found by a look at each
    /// connection.
    pub fn receiving_bytes(&self) -> (usize, usize) {
        let is_received = |conn: &&reactor::ConnId| !self.receiving.is_waiting(**conn);
        let of = |conn| Some(self.messenger.receiving(*self.to_messenger.get(conn)?)?.1);
        let found = self.accepted.keys().filter(is_received).filter_map(of).sum();
        (self.receiving.reserved_bytes(), found)
    }

    /// True if a client's message waits for room.
    pub fn waits_for_room(&self) -> bool {
        self.receiving.is_waited_for()
    }

    /// Bytes of messages to clients that the network has not taken yet, those included that wait to be encrypted.
    pub fn unsent_bytes(&mut self, io: &impl Io) -> usize {
        self.unsent_bytes = self.sending.look(io.now(), |conn| io.queued_bytes(conn)) + self.messenger.waiting_bytes();
        self.unsent_bytes
    }

    /// Bytes that [`Link::unsent_bytes`] counted last.
    pub fn unsent_bytes_seen(&self) -> usize {
        self.unsent_bytes
    }

    /// Bytes of encrypted messages that the network has not taken yet, where sessions keep the messages beside them.
    pub fn sealed_bytes(&mut self, io: &impl Io) -> usize {
        let conns: Vec<ConnId> = self.messenger.ahead().map(|(conn, ..)| conn).collect();
        for conn in conns {
            self.messenger.taken(conn, self.queued_bytes(io, conn));
        }
        self.sealed_bytes = self.messenger.ahead().map(|(_, bytes, _)| bytes).sum();
        self.sealed_bytes
    }

    /// Bytes that [`Link::sealed_bytes`] counted last.
    pub fn sealed_bytes_seen(&self) -> usize {
        self.sealed_bytes
    }

    /// True if the loop has to tell when the network takes something: memory, or messages that wait, depend on it.
    pub fn heeds_sent(&self) -> bool {
        self.unsent_bytes > 0 || self.sealed_bytes > 0 || self.messenger.ahead().any(|(_, _, is_full)| is_full)
    }

    /// Ends accepted connections that take nothing of what was sent.
    fn end_stuck(&mut self, io: &mut impl Io) {
        for (conn, bytes) in self.sending.stuck(io.now()) {
            let Some(peer) = self.accepted.get(&conn) else { continue };
            tracing::warn!(%peer, bytes, "takes no answers, and others wait for their memory; connection closed");
            io.abort(conn);
        }
    }
}

fn pause<'a>(io: &mut impl Io, conns: impl Iterator<Item = &'a reactor::ConnId>, paused: bool) {
    for conn in conns {
        if paused { io.pause_reading(*conn) } else { io.resume_reading(*conn) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::{Event, Handler, LoopIo, Reactor};
    use types::{EntityName, EntityType};
    use wire::EntityAddrVec;
    use wire::basic::AuthName;
    use wire::msgr::{Config, Policy};

    const MIB: usize = 1 << 20;

    /// An OSD's face to clients, and many clients that all begin to write at the same time.
    struct Crowd {
        osd: Link,
        clients: Link,
        room: usize,
        /// The most bytes that were being received at a time.
        most: usize,
        came: BTreeMap<usize, usize>,
        wanted: usize,
        /// Sessions of clients, in the order in which they began.
        sessions: Vec<SessionId>,
        /// Sessions in which messages came, in their order.
        came_in: Vec<SessionId>,
        /// Number of messages of each client.
        sizes: usize,
        /// The first session is held until all messages of the others have come.
        holds_first: bool,
    }

    impl Crowd {
        fn link_of(&mut self, conn: reactor::ConnId) -> &mut Link {
            if self.clients.owns(conn) { &mut self.clients } else { &mut self.osd }
        }
    }

    impl Handler<LoopIo> for Crowd {
        fn received(&mut self, io: &mut LoopIo, conn: reactor::ConnId, bytes: &[u8]) -> usize {
            self.link_of(conn).received(io, conn, bytes)
        }

        fn event(&mut self, io: &mut LoopIo, event: Event) {
            match event {
                Event::Accepted { conn, peer, .. } => self.osd.accepted(io, conn, peer),
                Event::Connected { conn, result } => {
                    result.expect("loopback");
                    self.clients.connected(io, conn);
                }
                Event::BulkReceived { conn, buf } => self.link_of(conn).bulk_received(io, conn, buf),
                Event::Closed { conn, cause } => panic!("{conn:?}: {cause}"),
                Event::Timer { .. } => panic!("after {:?}", self.came),
                Event::Sent { .. } | Event::Disk { .. } | Event::Woken => {}
            }
        }

        fn turn_end(&mut self, io: &mut LoopIo) {
            self.most = self.most.max(self.osd.receiving.reserved_bytes());
            while self.clients.poll(io).is_some() {}
            while let Some(event) = self.osd.poll(io) {
                match event {
                    Output::Message { session, envelope, .. } => {
                        *self.came.entry(envelope.data.len()).or_default() += 1;
                        self.came_in.push(session);
                    }
                    Output::Opened { session, .. } => self.sessions.push(session),
                    _ => {}
                }
            }
            let is_others = |session: &&SessionId| self.sessions.first() != Some(*session);
            let of_others = self.came_in.iter().filter(is_others).count();
            let holds = self.holds_first && of_others < self.wanted - self.sizes;
            self.osd.hold(io, self.sessions.first().copied().filter(|_| holds).into_iter());
            self.osd.set_room(io, self.room, false);
            // This sends the messages that were just queued.
            while self.clients.poll(io).is_some() {}
            if self.came.values().sum::<usize>() == self.wanted {
                io.stop();
            }
        }
    }

    /// Has `clients` clients send a message of each size. Returns the most bytes that were being received at a time.
    fn most_received(room: usize, clients: usize, sizes: &[usize]) -> usize {
        received(room, clients, sizes, false).most
    }

    /// Has `clients` clients send a message of each size.
    fn received(room: usize, clients: usize, sizes: &[usize], holds_first: bool) -> Crowd {
        let mut reactor = Reactor::new(reactor::Config::default()).unwrap();
        let io = reactor.io();
        let (_, addr) = io.listen("127.0.0.1:0".parse().unwrap()).unwrap();
        let addrs = EntityAddrVec::msgr2(addr, 1);
        let client = Config::client(AuthName::new(EntityType::CLIENT, "admin"), 7);
        let mut crowd = Crowd {
            osd: Link::new(Messenger::new(Config::osd(OsdId(1), addrs.clone(), 8))),
            clients: Link::new(Messenger::new(client)),
            room,
            most: 0,
            came: BTreeMap::new(),
            wanted: clients * sizes.len(),
            sessions: Vec::new(),
            came_in: Vec::new(),
            sizes: sizes.len(),
            holds_first,
        };
        // With fences, a newer session from the same address would end the older one.
        let policy = Policy { fences: false, ..Policy::LOSSY_CLIENT };
        crowd.osd.messenger = Messenger::new(Config {
            accept: [(EntityType::CLIENT, policy)].into(),
            ..Config::osd(OsdId(1), addrs.clone(), 8)
        });
        for _ in 0..clients {
            let session = crowd.clients.messenger.connect(EntityName::osd(OsdId(1)), &addrs, policy, io.now());
            for size in sizes {
                let envelope = Envelope { data: vec![7; *size].into(), ..Envelope::default() };
                crowd.clients.messenger.send(session, envelope);
            }
        }
        while crowd.clients.poll(io).is_some() {}
        io.set_timer(io.clock() + Duration::from_secs(60), 1);
        reactor.run(&mut crowd).unwrap();
        assert_eq!(crowd.came, sizes.iter().map(|size| (*size, clients)).collect());
        crowd
    }

    #[test]
    fn who_is_held_is_not_read_from_until_it_is_let_go() {
        for room in [usize::MAX, MIB] {
            let crowd = received(room, 5, &[100, 2 * MIB], true);
            let first = crowd.sessions[0];
            let (before, behind) = crowd.came_in.split_at(8);
            assert!(!before.contains(&first) && behind == [first; 2], "{first:?} of {:?}", crowd.came_in);
        }
    }

    #[test]
    fn what_is_being_received_stays_within_what_is_left_of_the_memory_for_clients() {
        let sizes = [4 * MIB, 100, 100_000];
        let unbounded = most_received(usize::MAX, 24, &sizes);
        assert!(unbounded > 40 * MIB, "they all come at the same time: {unbounded}");
        let bounded = most_received(10 * MIB, 24, &sizes);
        assert!((4 * MIB..=10 * MIB).contains(&bounded), "{bounded}");
    }

    #[test]
    fn messages_larger_than_all_room_come_one_by_one() {
        let most = most_received(MIB, 6, &[6 * MIB, 3 * MIB]);
        assert!((6 * MIB..7 * MIB).contains(&most), "{most}");
    }
}

//! A messenger and the connections it has in the reactor.

use reactor::Io;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use types::AlignedBuf;
use wire::msgr::{ConnId, Messenger, Output};

/// One of an OSD's two faces: towards clients and monitors, or towards other OSDs. Translates between the reactor's
/// connections and the messenger's.
pub(crate) struct Link {
    pub messenger: Messenger,
    to_reactor: BTreeMap<ConnId, reactor::ConnId>,
    to_messenger: BTreeMap<reactor::ConnId, ConnId>,
    /// Accepted connections have even numbers.
    next_accepted: u64,
    /// Connections accepted from others, which are not read from while too much waits.
    accepted: BTreeMap<reactor::ConnId, SocketAddr>,
    paused: bool,
    /// Connections to which something was sent that the network may not have taken yet.
    sending: BTreeSet<reactor::ConnId>,
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
            sending: BTreeSet::new(),
        }
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

    pub fn closed(&mut self, io: &mut impl Io, conn: reactor::ConnId, cause: &str) {
        self.accepted.remove(&conn);
        if let Some(conn) = self.to_messenger.remove(&conn) {
            self.to_reactor.remove(&conn);
            self.messenger.closed(conn, cause, io.now());
        }
    }

    /// Gives received bytes to the messenger; has the reactor receive a large payload where one begins.
    pub fn received(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return bytes.len() };
        let taken = self.messenger.received(conn, bytes, io.now());
        self.want_bulk(io, reactor_conn, conn);
        taken
    }

    pub fn bulk_received(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, buf: AlignedBuf) {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return };
        self.messenger.bulk_received(conn, buf, io.now());
        self.want_bulk(io, reactor_conn, conn);
    }

    fn want_bulk(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, conn: ConnId) {
        if let Some(n) = self.messenger.bulk_wanted(conn) {
            io.receive_bulk(reactor_conn, n);
        }
    }

    /// The messenger's next event; its transport wishes are carried out on the way.
    pub fn poll(&mut self, io: &mut impl Io) -> Option<Output> {
        loop {
            match self.messenger.poll()? {
                Output::Connect { conn, to } => {
                    let reactor_conn = io.connect(to);
                    self.join(reactor_conn, conn);
                }
                Output::Transmit { conn, data } => {
                    if let Some(&reactor_conn) = self.to_reactor.get(&conn) {
                        data.into_pieces().for_each(|piece| io.send(reactor_conn, piece));
                        self.sending.insert(reactor_conn);
                    }
                }
                Output::Close { conn } => {
                    if let Some(&reactor_conn) = self.to_reactor.get(&conn) {
                        io.close(reactor_conn);
                    }
                }
                event => return Some(event),
            }
        }
    }

    /// Stops or resumes reading from those who connected to us.
    pub fn pause_accepted(&mut self, io: &mut impl Io, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            pause(io, self.accepted.keys(), paused);
        }
    }

    /// Stops or resumes reading from everybody.
    pub fn pause_all(&mut self, io: &mut impl Io, paused: bool) {
        if std::mem::replace(&mut self.paused, paused) != paused {
            pause(io, self.to_messenger.keys(), paused);
            self.messenger.set_deaf(paused, io.now());
        }
    }

    /// Bytes sent that the network has not taken yet.
    pub fn unsent_bytes(&mut self, io: &impl Io) -> usize {
        let mut bytes = 0;
        self.sending.retain(|conn| {
            let queued = io.queued_bytes(*conn);
            bytes += queued;
            queued > 0
        });
        bytes
    }
}

fn pause<'a>(io: &mut impl Io, conns: impl Iterator<Item = &'a reactor::ConnId>, paused: bool) {
    for conn in conns {
        if paused { io.pause_reading(*conn) } else { io.resume_reading(*conn) }
    }
}

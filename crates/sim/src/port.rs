//! A messenger and its connections in the reactor, for processes other than OSDs, which have their own.

use reactor::Io;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use wire::msgr::{ConnId, Messenger, Output};

/// Translates between the reactor's connections and the messenger's. The messenger must not want bulk buffers.
pub(crate) struct Port {
    pub messenger: Messenger,
    to_reactor: BTreeMap<ConnId, reactor::ConnId>,
    to_messenger: BTreeMap<reactor::ConnId, ConnId>,
    /// The number of the next accepted connection. Accepted connections have even numbers.
    next_accepted: u64,
}

impl Port {
    pub fn new(messenger: Messenger) -> Port {
        Port { messenger, to_reactor: BTreeMap::new(), to_messenger: BTreeMap::new(), next_accepted: 2 }
    }

    fn join(&mut self, reactor_conn: reactor::ConnId, conn: ConnId) {
        self.to_reactor.insert(conn, reactor_conn);
        self.to_messenger.insert(reactor_conn, conn);
    }

    pub fn accepted(&mut self, io: &impl Io, reactor_conn: reactor::ConnId, peer: SocketAddr) {
        let conn = ConnId(self.next_accepted);
        self.next_accepted += 2;
        self.join(reactor_conn, conn);
        self.messenger.accepted(conn, peer, io.now());
    }

    /// Takes the outcome of a connect.
    pub fn connected(&mut self, io: &impl Io, reactor_conn: reactor::ConnId, result: std::io::Result<SocketAddr>) {
        match (result, self.to_messenger.get(&reactor_conn)) {
            (Ok(_), Some(&conn)) => self.messenger.connected(conn, io.now()),
            (Err(e), _) if e.kind() == ErrorKind::ConnectionRefused => {
                self.closed(io, reactor_conn, "connection refused");
            }
            (Err(e), _) => self.closed(io, reactor_conn, &e.to_string()),
            (Ok(_), None) => {}
        }
    }

    pub fn closed(&mut self, io: &impl Io, reactor_conn: reactor::ConnId, cause: &str) {
        if let Some(conn) = self.to_messenger.remove(&reactor_conn) {
            self.to_reactor.remove(&conn);
            self.messenger.closed(conn, cause, io.now());
        }
    }

    pub fn received(&mut self, io: &impl Io, reactor_conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return bytes.len() };
        let taken = self.messenger.received(conn, bytes, io.now());
        self.messenger.answer_unproven(io.now());
        taken
    }

    /// The messenger's next event. Carries out the messenger's wishes to its transport on the way.
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
}

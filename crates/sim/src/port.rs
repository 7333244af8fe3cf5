//! A messenger and its connections in the reactor, for processes other than OSDs, which have their own.

use crate::keys::ClientProofs;
use auth::Key;
use reactor::Io;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use wire::msgr::{ConnId, Messenger, Output};

/// How steps of handshakes are answered.
pub enum Answers {
    /// Nobody proves anything.
    Unproven,
    /// By the owner of the port.
    ByOwner,
    /// As a client that has a key.
    Client(Box<ClientProofs>),
}

/// Translates between the reactor's connections and the messenger's. The messenger must not want bulk buffers.
pub(crate) struct Port {
    pub messenger: Messenger,
    to_reactor: BTreeMap<ConnId, reactor::ConnId>,
    to_messenger: BTreeMap<reactor::ConnId, ConnId>,
    /// The number of the next accepted connection. Accepted connections have even numbers.
    next_accepted: u64,
    answers: Answers,
}

impl Port {
    pub fn new(messenger: Messenger, answers: Answers) -> Port {
        Port { messenger, to_reactor: BTreeMap::new(), to_messenger: BTreeMap::new(), next_accepted: 2, answers }
    }

    fn join(&mut self, reactor_conn: reactor::ConnId, conn: ConnId) {
        self.to_reactor.insert(conn, reactor_conn);
        self.to_messenger.insert(reactor_conn, conn);
    }

    /// Proves another key from now on, as a client.
    pub fn set_key(&mut self, key: Key) {
        if let Answers::Client(proofs) = &mut self.answers {
            proofs.set_key(key);
        }
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
            if let Answers::Client(proofs) = &mut self.answers {
                proofs.closed(conn);
            }
            self.messenger.closed(conn, cause, io.now());
        }
    }

    pub fn received(&mut self, io: &mut impl Io, reactor_conn: reactor::ConnId, bytes: &[u8]) -> usize {
        let Some(&conn) = self.to_messenger.get(&reactor_conn) else { return bytes.len() };
        let taken = self.messenger.received(conn, bytes, io.now());
        match &mut self.answers {
            Answers::Unproven => self.messenger.answer_unproven(io.now()),
            Answers::ByOwner => {}
            Answers::Client(proofs) => {
                while let Some((conn, step)) = self.messenger.poll_auth() {
                    proofs.answer(io, &mut self.messenger, conn, step);
                }
            }
        }
        taken
    }

    /// The messenger's next event. Carries out the messenger's wishes to its transport on the way.
    pub fn poll(&mut self, io: &mut impl Io) -> Option<Output> {
        if let Answers::Client(proofs) = &mut self.answers {
            proofs.renew(io, &mut self.messenger);
        }
        loop {
            let output = self.messenger.poll()?;
            if let Answers::Client(proofs) = &mut self.answers
                && !proofs.is_for_others(io, &output)
            {
                continue;
            }
            match output {
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
                    if let Answers::Client(proofs) = &mut self.answers {
                        proofs.closed(conn);
                    }
                    if let Some(&reactor_conn) = self.to_reactor.get(&conn) {
                        io.close(reactor_conn);
                    }
                }
                event => return Some(event),
            }
        }
    }
}

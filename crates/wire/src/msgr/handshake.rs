//! Frames of a connection, up to the idents; and messages.

use super::assembler::Incoming;
use super::auth::{Asked, AuthStep};
use super::config::limits;
use super::connection::{Connection, Fault, Phase, REVISION_1};
use super::control::*;
use super::frame::{MessageHeader, Tag};
use super::ids::{ConnId, SessionId};
use super::messenger::{Messenger, Output};
use super::reason::Cause;
use super::timer::Timer;
use crate::{AddrKind, EntityAddr, Envelope};
use bytes::Bytes;
use std::time::Duration;

fn open<C: Control>(payload: &Bytes) -> Result<C, Fault> {
    Ok(C::decode(&mut crate::Reader::shared(payload))?)
}

fn unexpected(tag: Tag) -> Fault {
    super::frame::FrameError::Tag(tag.0).into()
}

impl Messenger {
    /// Handles a frame of a living connection.
    pub(super) fn incoming(&mut self, conn: ConnId, incoming: Incoming) -> Result<(), Fault> {
        let connection = &self.conns[&conn];
        match (connection.is_ready(), incoming) {
            // Without taking the connection out: of these there are many.
            (true, Incoming::Message { header, envelope }) => {
                let (session, began) = (connection.session(), connection.frame_began);
                self.message(conn, session, began, header, envelope)
            }
            (true, Incoming::Control { tag, payload }) => {
                self.step(conn, |messenger, connection| messenger.control(connection, tag, &payload))
            }
            (_, incoming) => self.step(conn, |messenger, connection| messenger.handshake(connection, incoming)),
        }
    }

    /// Has `step` work on a living connection, which it is given apart from the others.
    pub(super) fn step<T>(&mut self, conn: ConnId, step: impl FnOnce(&mut Messenger, &mut Connection) -> T) -> T {
        let mut connection = self.conns.remove(&conn).expect("a step is of a living connection");
        let result = step(self, &mut connection);
        self.conns.insert(conn, connection);
        result
    }

    fn handshake(&mut self, connection: &mut Connection, incoming: Incoming) -> Result<(), Fault> {
        let outgoing = connection.outgoing;
        match (&mut connection.phase, incoming) {
            (Phase::Banner, Incoming::Banner { supported, required }) => self.banner(connection, supported, required),
            (phase, Incoming::Control { tag, payload }) => match (phase, tag) {
                (Phase::Hello, Tag::HELLO) => self.hello(connection, open(&payload)?),
                (Phase::AuthAccepting { begun: None }, Tag::AUTH_REQUEST) => {
                    let (step, asked) = connection.requested(open(&payload)?);
                    self.ask(connection, step, asked);
                    Ok(())
                }
                (Phase::AuthAccepting { begun: Some(method) }, Tag::AUTH_REQUEST_MORE) => {
                    let (AuthRequestMore { payload }, method) = (open(&payload)?, *method);
                    self.ask(connection, AuthStep::More(payload), Asked::Peer { method });
                    Ok(())
                }
                (Phase::AuthConnecting, Tag::AUTH_REPLY_MORE) => {
                    let AuthReplyMore { payload } = open(&payload)?;
                    self.ask(connection, AuthStep::Challenge(payload), Asked::More);
                    Ok(())
                }
                (Phase::AuthConnecting, Tag::AUTH_BAD_METHOD) => {
                    let AuthBadMethod { method, result, allowed_methods: methods, allowed_modes: modes } =
                        open(&payload)?;
                    self.ask(connection, AuthStep::BadMethod { method, result, methods, modes }, Asked::Request);
                    Ok(())
                }
                (Phase::AuthConnecting, Tag::AUTH_DONE) => {
                    let AuthDone { global_id, mode, payload } = open(&payload)?;
                    self.ask(connection, AuthStep::Done { global_id, mode, payload }, Asked::Verdict);
                    Ok(())
                }
                (Phase::Signature(_), Tag::AUTH_SIGNATURE) => self.signature(connection, &open(&payload)?),
                (Phase::Ident, Tag::CLIENT_IDENT) if !outgoing => self.client_ident(connection, open(&payload)?),
                (Phase::Ident, Tag::SESSION_RECONNECT) if !outgoing => self.reconnect(connection, open(&payload)?),
                (Phase::Ident, tag) if outgoing => self.ident_answer(connection, tag, &payload),
                (_, tag) => Err(unexpected(tag)),
            },
            (_, Incoming::Message { .. }) => Err(unexpected(Tag::MESSAGE)),
            (_, Incoming::Banner { .. }) => unreachable!("only the first thing on a connection is read as a banner"),
        }
    }

    fn ident_answer(&mut self, connection: &mut Connection, tag: Tag, payload: &Bytes) -> Result<(), Fault> {
        match tag {
            Tag::SERVER_IDENT => self.server_ident(connection, open(payload)?),
            Tag::IDENT_MISSING_FEATURES => {
                let IdentMissingFeatures { features } = open(payload)?;
                Err(Fault::Broken(Cause::RefusedForFeatures(features)))
            }
            Tag::SESSION_RECONNECT_OK => self.reconnect_ok(connection, &open(payload)?),
            Tag::SESSION_RESET => self.session_reset(connection, &open(payload)?),
            Tag::SESSION_RETRY => self.session_retry(connection, &open(payload)?),
            Tag::SESSION_RETRY_GLOBAL => {
                self.session_retry_global(connection, &open(payload)?);
                Ok(())
            }
            Tag::WAIT => Err(Fault::Yielded),
            _ => Err(unexpected(tag)),
        }
    }

    fn banner(&mut self, connection: &mut Connection, supported: u64, required: u64) -> Result<(), Fault> {
        if supported & REVISION_1 == 0 {
            return Err(Fault::Broken(Cause::OldRevision));
        }
        if required & !REVISION_1 != 0 {
            return Err(Fault::Broken(Cause::MessengerFeatures(required)));
        }
        let kind = self.me.kind;
        connection.put(&Hello { kind, peer_addr: EntityAddr::msgr2(connection.peer, 0) });
        connection.phase = Phase::Hello;
        self.mark_dirty(connection.id);
        Ok(())
    }

    fn hello(&mut self, connection: &mut Connection, hello: Hello) -> Result<(), Fault> {
        connection.peer_kind = hello.kind;
        let Some(session) = connection.session else {
            if !self.config.accept.contains_key(&hello.kind) {
                return Err(Fault::Broken(Cause::NotServed { peer: hello.kind, own: self.me.kind }));
            }
            connection.phase = Phase::AuthAccepting { begun: None };
            return Ok(());
        };
        let dialled = self.sessions[&session].name.kind;
        if dialled != hello.kind {
            return Err(Fault::Broken(Cause::OtherKind { is: hello.kind, dialled }));
        }
        if self.my_addrs.front().is_blank_ip()
            && let Some(seen) = hello.peer_addr.sockaddr
            && !hello.peer_addr.is_blank_ip()
        {
            self.learn_addr(seen);
        }
        self.ask(connection, AuthStep::Begin { to: dialled }, Asked::Request);
        Ok(())
    }

    /// The peer told as what it sees us: the IP is ours, the port is just this connection's.
    fn learn_addr(&mut self, mut seen: std::net::SocketAddr) {
        seen.set_port(0);
        let nonce = self.random() as u32;
        self.my_addrs = EntityAddr::new(AddrKind::ANY, seen, nonce).into();
    }

    /// A control frame on an open session.
    fn control(&mut self, connection: &mut Connection, tag: Tag, payload: &Bytes) -> Result<(), Fault> {
        let s = self.sessions.get_mut(&connection.session()).expect("a connection's session exists");
        match tag {
            Tag::KEEPALIVE2 => {
                let Keepalive2 { stamp } = open(payload)?;
                connection.put(&Keepalive2Ack { stamp });
                self.mark_dirty(connection.id);
            }
            Tag::KEEPALIVE2_ACK => {
                let Keepalive2Ack { .. } = open(payload)?;
                s.alive_at = self.now;
            }
            // Linux kernels send acknowledgements on lossy sessions, too. Nothing is kept there for them to release.
            Tag::ACK => {
                let Ack { seq } = open(payload)?;
                if !s.policy.lossy {
                    s.out.acknowledged(seq)?;
                }
            }
            _ => return Err(unexpected(tag)),
        }
        Ok(())
    }

    /// A message on an open session. Its first byte came at `began`.
    fn message(
        &mut self,
        conn: ConnId,
        id: SessionId,
        began: Duration,
        header: MessageHeader,
        envelope: Envelope,
    ) -> Result<(), Fault> {
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        let expected = s.in_seq + 1;
        if header.seq > expected {
            return Err(Fault::Broken(Cause::MessageNumber { seq: header.seq, expected }));
        }
        if !s.policy.lossy {
            s.out.acknowledged(header.ack_seq)?;
        }
        if header.seq < expected {
            // Sent again although we have it.
            return Ok(());
        }
        s.in_seq = header.seq;
        if !s.policy.lossy {
            s.acks.messages += 1;
            s.acks.bytes += envelope.front.len() + envelope.data.len();
            if s.acks.messages >= limits::ACK_MESSAGES || s.acks.bytes >= limits::ACK_BYTES {
                s.acks.due = true;
                self.mark_dirty(conn);
            } else if !s.acks.timer {
                s.acks.timer = true;
                self.set_timer(limits::ACK_DELAY, Timer::Ack(id));
            }
        }
        self.outputs.push_back(Output::Message { session: id, envelope, began });
        Ok(())
    }
}

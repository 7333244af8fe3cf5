//! Frames of a connection, up to the idents; and messages.

use super::assembler::Incoming;
use super::auth::{self, ServerStep, SessionKey};
use super::config::limits;
use super::connection::{Connection, Fault, Phase, REVISION_1};
use super::control::*;
use super::frame::{MessageHeader, Tag};
use super::messenger::{ConnId, Messenger, Output, SessionId};
use super::reason::Cause;
use super::timer::Timer;
use crate::{AddrKind, EntityAddr, Envelope};
use bytes::Bytes;
use std::time::Duration;
use types::{EntityType, Errno};

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
                (Phase::AuthAccepting(auth @ None), Tag::AUTH_REQUEST) => {
                    let AuthRequest { method, preferred_modes, payload } = open(&payload)?;
                    let modes_agree = preferred_modes.iter().any(|mode| auth::ALLOWED_MODES.contains(mode));
                    let Some(begun) = auth::server(method).filter(|_| modes_agree) else {
                        self.auth_refused(connection, method, Errno::EOPNOTSUPP);
                        return Ok(());
                    };
                    let step = auth.insert(begun).step(&payload)?;
                    self.auth_stepped(connection, step)
                }
                (Phase::AuthAccepting(Some(auth)), Tag::AUTH_REQUEST_MORE) => {
                    let AuthRequestMore { payload } = open(&payload)?;
                    let step = auth.step(&payload)?;
                    self.auth_stepped(connection, step)
                }
                (Phase::AuthConnecting(auth), Tag::AUTH_REPLY_MORE) => {
                    let AuthReplyMore { payload } = open(&payload)?;
                    let payload = auth.more(&payload)?.into();
                    connection.put(&AuthRequestMore { payload });
                    self.mark_dirty(connection.id);
                    Ok(())
                }
                (Phase::AuthConnecting(_), Tag::AUTH_BAD_METHOD) => Err(refused(open(&payload)?)),
                (Phase::AuthConnecting(auth), Tag::AUTH_DONE) => {
                    let done: AuthDone = open(&payload)?;
                    if !auth.preferred_modes().contains(&done.mode) {
                        return Err(Fault::Broken(Cause::Mode(done.mode)));
                    }
                    let key = auth.done(&done.payload)?;
                    self.auth_done(connection, &key, done.global_id);
                    Ok(())
                }
                (Phase::Signature, Tag::AUTH_SIGNATURE) => self.signature(connection, &open(&payload)?),
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
            connection.phase = Phase::AuthAccepting(None);
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
        let to_monitor = dialled == EntityType::MON && self.me.kind != EntityType::MON;
        let mut auth = auth::client(to_monitor, &self.config.auth_name, self.global_id);
        let (method, preferred_modes, payload) = (auth.method(), auth.preferred_modes(), auth.request().into());
        connection.put(&AuthRequest { method, preferred_modes, payload });
        connection.phase = Phase::AuthConnecting(auth);
        self.mark_dirty(connection.id);
        Ok(())
    }

    /// The peer told as what it sees us: the IP is ours, the port is just this connection's.
    fn learn_addr(&mut self, mut seen: std::net::SocketAddr) {
        seen.set_port(0);
        let nonce = self.random() as u32;
        self.my_addrs = EntityAddr::new(AddrKind::ANY, seen, nonce).into();
    }

    /// Says no; the peer may try another method.
    fn auth_refused(&mut self, connection: &mut Connection, method: u32, errno: Errno) {
        connection.phase = Phase::AuthAccepting(None);
        connection.put(&AuthBadMethod {
            method,
            result: errno.as_result(),
            allowed_methods: auth::ALLOWED_METHODS.to_vec(),
            allowed_modes: auth::ALLOWED_MODES.to_vec(),
        });
        self.mark_dirty(connection.id);
    }

    /// A round of a client's authentication has come to this.
    fn auth_stepped(&mut self, connection: &mut Connection, step: ServerStep) -> Result<(), Fault> {
        let (mut identity, payload) = match step {
            ServerStep::Done { identity, payload } => (identity, payload),
            ServerStep::More(payload) => {
                connection.put(&AuthReplyMore { payload });
                self.mark_dirty(connection.id);
                return Ok(());
            }
            ServerStep::Refused(errno) => {
                self.auth_refused(connection, auth::method::NONE, errno);
                return Ok(());
            }
        };
        if identity.to_monitor && !self.config.assigns_global_ids {
            return Err(Fault::Broken(Cause::TakenForMonitor(identity.name)));
        }
        // Monitors among each other have no use for ids, and could have none to give before they know each other.
        let is_monitor = connection.peer_kind == EntityType::MON;
        if identity.to_monitor && identity.global_id == 0 && !is_monitor {
            match self.take_global_id() {
                Some(id) => identity.global_id = id,
                None => return self.await_id(connection, identity, payload),
            }
        }
        self.authenticated(connection, identity, payload);
        Ok(())
    }

    /// Tells the peer that it is who it says.
    pub(super) fn authenticated(&mut self, connection: &mut Connection, identity: auth::Identity, payload: Bytes) {
        connection.put(&AuthDone { global_id: identity.global_id, mode: auth::mode::CRC, payload });
        connection.put(&AuthSignature(identity.key.signature()));
        connection.identity = Some(identity);
        connection.phase = Phase::Signature;
        self.mark_dirty(connection.id);
    }

    /// The server has let us in.
    fn auth_done(&mut self, connection: &mut Connection, key: &SessionKey, global_id: u64) {
        connection.put(&AuthSignature(key.signature()));
        connection.phase = Phase::Signature;
        // Of several monitors that are asked at once, the first gives the number that stays: requests are known by it.
        if connection.peer_kind == EntityType::MON && self.me.kind != EntityType::MON && self.global_id == 0 {
            self.global_id = global_id;
            if self.me.kind == EntityType::CLIENT {
                self.me.num = global_id as i64;
            }
        }
        self.mark_dirty(connection.id);
    }

    fn signature(&mut self, connection: &mut Connection, signature: &AuthSignature) -> Result<(), Fault> {
        let key = connection.identity.as_ref().map(|identity| identity.key.clone()).unwrap_or_default();
        if signature.0 != key.signature() {
            return Err(Fault::Broken(Cause::Signature));
        }
        connection.phase = Phase::Ident;
        if connection.outgoing {
            self.send_ident(connection);
        }
        Ok(())
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

fn refused(bad: AuthBadMethod) -> Fault {
    let AuthBadMethod { method, result, allowed_methods, allowed_modes } = bad;
    Fault::Broken(Cause::MethodRefused { method, result, methods: allowed_methods, modes: allowed_modes })
}

//! What comes over a connection, up to the idents; and messages.

use super::assembler::Incoming;
use super::auth::{self, ServerStep};
use super::config::limits;
use super::connection::{Fault, Phase, REVISION_1};
use super::control::*;
use super::frame::{MessageHeader, Tag};
use super::messenger::{ConnId, Messenger, Output};
use super::timer::Timer;
use crate::{AddrKind, EntityAddr, Envelope};
use bytes::Bytes;
use types::{EntityType, Errno};

fn open<C: Control>(payload: &Bytes) -> Result<C, Fault> {
    Ok(C::decode(&mut crate::Reader::shared(payload))?)
}

fn unexpected(tag: Tag) -> Fault {
    super::frame::FrameError::Tag(tag.0).into()
}

impl Messenger {
    pub(super) fn incoming(&mut self, conn: ConnId, incoming: Incoming) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("frames come from living connections");
        let outgoing = connection.outgoing;
        match (&mut connection.phase, incoming) {
            (Phase::Ready, Incoming::Message { header, envelope }) => self.message(conn, header, envelope),
            (Phase::Ready, Incoming::Control { tag, payload }) => self.control(conn, tag, &payload),
            (Phase::Banner, Incoming::Banner { supported, required }) => self.banner(conn, supported, required),
            (phase, Incoming::Control { tag, payload }) => match (phase, tag) {
                (Phase::Hello, Tag::HELLO) => self.hello(conn, open(&payload)?),
                (Phase::AuthAccepting(None), Tag::AUTH_REQUEST) => self.auth_request(conn, open(&payload)?),
                (Phase::AuthAccepting(Some(_)), Tag::AUTH_REQUEST_MORE) => {
                    let AuthRequestMore { payload } = open(&payload)?;
                    self.auth_step(conn, &payload)
                }
                (Phase::AuthConnecting(auth), Tag::AUTH_REPLY_MORE) => {
                    let AuthReplyMore { payload } = open(&payload)?;
                    let payload = auth.more(&payload)?.into();
                    connection.put(&AuthRequestMore { payload });
                    self.mark_dirty(conn);
                    Ok(())
                }
                (Phase::AuthConnecting(_), Tag::AUTH_BAD_METHOD) => Err(refused(&open(&payload)?)),
                (Phase::AuthConnecting(_), Tag::AUTH_DONE) => self.auth_done(conn, open(&payload)?),
                (Phase::Signature, Tag::AUTH_SIGNATURE) => self.signature(conn, &open(&payload)?),
                (Phase::Ident, Tag::CLIENT_IDENT) if !outgoing => self.client_ident(conn, open(&payload)?),
                (Phase::Ident, Tag::SESSION_RECONNECT) if !outgoing => self.reconnect(conn, open(&payload)?),
                (Phase::Ident, tag) if outgoing => self.ident_answer(conn, tag, &payload),
                (_, tag) => Err(unexpected(tag)),
            },
            (_, Incoming::Message { .. }) => Err(unexpected(Tag::MESSAGE)),
            (_, Incoming::Banner { .. }) => unreachable!("only the first thing on a connection is read as a banner"),
        }
    }

    fn ident_answer(&mut self, conn: ConnId, tag: Tag, payload: &Bytes) -> Result<(), Fault> {
        match tag {
            Tag::SERVER_IDENT => self.server_ident(conn, open(payload)?),
            Tag::IDENT_MISSING_FEATURES => {
                let IdentMissingFeatures { features } = open(payload)?;
                Err(Fault::broken(format!("peer requires features that we lack: {features:#x}")))
            }
            Tag::SESSION_RECONNECT_OK => self.reconnect_ok(conn, &open(payload)?),
            Tag::SESSION_RESET => self.session_reset(conn, &open(payload)?),
            Tag::SESSION_RETRY => self.session_retry(conn, &open(payload)?),
            Tag::SESSION_RETRY_GLOBAL => self.session_retry_global(conn, &open(payload)?),
            Tag::WAIT => Err(Fault::Yielded),
            _ => Err(unexpected(tag)),
        }
    }

    fn banner(&mut self, conn: ConnId, supported: u64, required: u64) -> Result<(), Fault> {
        if supported & REVISION_1 == 0 {
            return Err(Fault::broken("peer speaks msgr v2.0; only v2.1 is spoken here"));
        }
        if required & !REVISION_1 != 0 {
            return Err(Fault::broken(format!("peer requires messenger features {required:#x}")));
        }
        let kind = self.me.kind;
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.put(&Hello { kind, peer_addr: EntityAddr::msgr2(connection.peer, 0) });
        connection.phase = Phase::Hello;
        self.mark_dirty(conn);
        Ok(())
    }

    fn hello(&mut self, conn: ConnId, hello: Hello) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.peer_kind = hello.kind;
        let Some(session) = connection.session else {
            if !self.config.accept.contains_key(&hello.kind) {
                let (me, kind) = (self.me.kind.word(), hello.kind.word());
                return Err(Fault::broken(format!("{kind} (entity type {}) is not served by a {me}", hello.kind.0)));
            }
            connection.phase = Phase::AuthAccepting(None);
            return Ok(());
        };
        let dialled = self.sessions[&session].name.kind;
        if dialled != hello.kind {
            return Err(Fault::broken(format!("peer is a {}, not a {}", hello.kind.word(), dialled.word())));
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
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.put(&AuthRequest { method, preferred_modes, payload });
        connection.phase = Phase::AuthConnecting(auth);
        self.mark_dirty(conn);
        Ok(())
    }

    /// The peer told as what it sees us: the IP is ours, the port is just this connection's.
    fn learn_addr(&mut self, mut seen: std::net::SocketAddr) {
        seen.set_port(0);
        let nonce = self.random() as u32;
        self.my_addrs = EntityAddr::new(AddrKind::ANY, seen, nonce).into();
    }

    fn auth_request(&mut self, conn: ConnId, request: AuthRequest) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let modes_agree = request.preferred_modes.iter().any(|mode| auth::ALLOWED_MODES.contains(mode));
        match auth::server(request.method) {
            Some(auth) if modes_agree => {
                connection.phase = Phase::AuthAccepting(Some(auth));
                self.auth_step(conn, &request.payload)
            }
            _ => {
                self.auth_refused(conn, request.method, Errno::EOPNOTSUPP);
                Ok(())
            }
        }
    }

    /// Says no; the peer may try another method.
    fn auth_refused(&mut self, conn: ConnId, method: u32, errno: Errno) {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.phase = Phase::AuthAccepting(None);
        connection.put(&AuthBadMethod {
            method,
            result: errno.as_result(),
            allowed_methods: auth::ALLOWED_METHODS.to_vec(),
            allowed_modes: auth::ALLOWED_MODES.to_vec(),
        });
        self.mark_dirty(conn);
    }

    fn auth_step(&mut self, conn: ConnId, payload: &[u8]) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let Phase::AuthAccepting(Some(auth)) = &mut connection.phase else { unreachable!("checked by the caller") };
        let (mut identity, payload) = match auth.step(payload)? {
            ServerStep::Done { identity, payload } => (identity, payload),
            ServerStep::More(payload) => {
                connection.put(&AuthReplyMore { payload });
                self.mark_dirty(conn);
                return Ok(());
            }
            ServerStep::Refused(errno) => {
                self.auth_refused(conn, auth::method::NONE, errno);
                return Ok(());
            }
        };
        if identity.to_monitor && !self.config.assigns_global_ids {
            return Err(Fault::broken(format!("{} takes us for a monitor", identity.name)));
        }
        // Monitors among each other have no use for ids, and could have none to give before they know each other.
        let is_monitor = self.conns[&conn].peer_kind == EntityType::MON;
        if identity.to_monitor && identity.global_id == 0 && !is_monitor {
            match self.take_global_id() {
                Some(id) => identity.global_id = id,
                None => return self.await_id(conn, identity, payload),
            }
        }
        self.authenticated(conn, identity, payload);
        Ok(())
    }

    /// Tells the peer that it is who it says.
    pub(super) fn authenticated(&mut self, conn: ConnId, identity: auth::Identity, payload: Bytes) {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        connection.put(&AuthDone { global_id: identity.global_id, mode: auth::mode::CRC, payload });
        connection.put(&AuthSignature(identity.key.signature()));
        connection.identity = Some(identity);
        connection.phase = Phase::Signature;
        self.mark_dirty(conn);
    }

    fn auth_done(&mut self, conn: ConnId, done: AuthDone) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let Phase::AuthConnecting(auth) = &mut connection.phase else { unreachable!("checked by the caller") };
        if !auth.preferred_modes().contains(&done.mode) {
            return Err(Fault::broken(format!("peer chose connection mode {}, which we did not offer", done.mode)));
        }
        let key = auth.done(&done.payload)?;
        connection.put(&AuthSignature(key.signature()));
        connection.phase = Phase::Signature;
        // Of several monitors that are asked at once, the first gives the number that stays: requests are known by it.
        if connection.peer_kind == EntityType::MON && self.me.kind != EntityType::MON && self.global_id == 0 {
            self.global_id = done.global_id;
            if self.me.kind == EntityType::CLIENT {
                self.me.num = done.global_id as i64;
            }
        }
        self.mark_dirty(conn);
        Ok(())
    }

    fn signature(&mut self, conn: ConnId, signature: &AuthSignature) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let key = connection.identity.as_ref().map(|identity| identity.key.clone()).unwrap_or_default();
        if signature.0 != key.signature() {
            return Err(Fault::broken("signature of the handshake does not match"));
        }
        connection.phase = Phase::Ident;
        if connection.outgoing {
            self.send_ident(conn);
        }
        Ok(())
    }

    /// A control frame on an open session.
    fn control(&mut self, conn: ConnId, tag: Tag, payload: &Bytes) -> Result<(), Fault> {
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        let id = connection.session.expect("open connections have a session");
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        match tag {
            Tag::KEEPALIVE2 => {
                let Keepalive2 { stamp } = open(payload)?;
                connection.put(&Keepalive2Ack { stamp });
                self.mark_dirty(conn);
            }
            Tag::KEEPALIVE2_ACK => {
                let Keepalive2Ack { .. } = open(payload)?;
                s.alive_at = self.now;
            }
            Tag::ACK if !s.policy.lossy => {
                let Ack { seq } = open(payload)?;
                s.out.acknowledged(seq).map_err(|e| Fault::broken(e.to_string()))?;
            }
            _ => return Err(unexpected(tag)),
        }
        Ok(())
    }

    fn message(&mut self, conn: ConnId, header: MessageHeader, envelope: Envelope) -> Result<(), Fault> {
        let connection = &self.conns[&conn];
        let (id, began) = (connection.session.expect("open connections have a session"), connection.frame_began);
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        let expected = s.in_seq + 1;
        if header.seq > expected {
            return Err(Fault::broken(format!("message {} where {expected} was expected", header.seq)));
        }
        if !s.policy.lossy {
            s.out.acknowledged(header.ack_seq).map_err(|e| Fault::broken(e.to_string()))?;
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

fn refused(bad: &AuthBadMethod) -> Fault {
    let why = Errno::from_result(bad.result).map_or_else(|| format!("result {}", bad.result), |e| e.to_string());
    Fault::broken(format!(
        "authentication method {} refused: {why}; allowed are methods {:?} with modes {:?} (1 none, 2 cephx)",
        bad.method, bad.allowed_methods, bad.allowed_modes
    ))
}

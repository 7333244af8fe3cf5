//! Authentication of a connection: steps go out, answers come in, and both sides sign what they heard.

use super::auth::{Asked, AuthAnswer, AuthStep, Identity, Keys};
use super::config::limits;
use super::connection::{Connection, Fault, Phase};
use super::control::*;
use super::frame::FrameError;
use super::framing::Secure;
use super::ids::ConnId;
use super::messenger::Messenger;
use super::reason::Cause;
use bytes::Bytes;
use std::time::Duration;
use types::EntityType;

impl Messenger {
    /// Hands a step out. The connection waits for the answer.
    pub(super) fn ask(&mut self, connection: &mut Connection, step: AuthStep, asked: Asked) {
        connection.phase = Phase::Asked(asked);
        self.steps.push_back((connection.id, step));
    }

    /// The next step of a handshake, whose connection waits for [`Messenger::answer`]. Each is handed out once.
    pub fn poll_auth(&mut self) -> Option<(ConnId, AuthStep)> {
        self.steps.pop_front()
    }

    /// The answer to a step of [`Messenger::poll_auth`]. Nothing happens if the connection is gone meanwhile.
    ///
    /// Panics if the connection waits for no answer, or for none of this kind.
    pub fn answer(&mut self, conn: ConnId, answer: AuthAnswer, now: Duration) {
        self.advance(now);
        if !self.conns.contains_key(&conn) {
            return;
        }
        if let Err(fault) = self.step(conn, |messenger, connection| messenger.answered(connection, answer)) {
            return self.fault(conn, fault);
        }
        let held = self.conns.get_mut(&conn).map(|connection| std::mem::take(&mut connection.held));
        let Some(held) = held.filter(|held| !held.is_empty()) else { return };
        // No payload that is received in bulk may come so early.
        if self.received(conn, &held, now) < held.len() {
            self.fault(conn, FrameError::HandshakeTooLong.into());
        }
    }

    /// Keeps bytes that come while the connection waits for an answer.
    pub(super) fn hold(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(connection) = self.conns.get_mut(&conn) else { return };
        if connection.held.len() + bytes.len() > limits::HANDSHAKE_BYTES {
            return self.fault(conn, FrameError::HandshakeTooLong.into());
        }
        connection.held.extend_from_slice(bytes);
    }

    fn answered(&mut self, connection: &mut Connection, answer: AuthAnswer) -> Result<(), Fault> {
        let Phase::Asked(asked) = connection.phase else {
            panic!("an answer for {:?}, which waits for none", connection.id)
        };
        self.mark_dirty(connection.id);
        match (asked, answer) {
            (Asked::Request, AuthAnswer::Request { method, modes, payload }) => {
                connection.put(&AuthRequest { method, preferred_modes: modes, payload });
                connection.phase = Phase::AuthConnecting;
            }
            (Asked::More, AuthAnswer::More(payload)) => {
                connection.put(&AuthRequestMore { payload });
                connection.phase = Phase::AuthConnecting;
            }
            (Asked::Verdict, AuthAnswer::Connected { global_id, keys }) => {
                self.connected_as(connection.peer_kind, global_id);
                self.sign(connection, keys);
            }
            (Asked::Peer { method }, AuthAnswer::More(payload)) => {
                connection.put(&AuthReplyMore { payload });
                connection.phase = Phase::AuthAccepting { begun: Some(method) };
            }
            (Asked::Peer { method }, AuthAnswer::Refused { errno, methods, modes }) => {
                connection.put(&AuthBadMethod {
                    method,
                    result: errno.as_result(),
                    allowed_methods: methods,
                    allowed_modes: modes,
                });
                connection.phase = Phase::AuthAccepting { begun: None };
            }
            (Asked::Peer { .. }, AuthAnswer::Accepted { mut identity, wants_id, payload, keys }) => {
                // Monitors among each other have no use for ids, and could have none to give before they know each
                // other.
                if wants_id && connection.peer_kind != EntityType::MON {
                    match self.take_global_id() {
                        Some(id) => identity.global_id = id,
                        None => return self.await_id(connection, identity, payload, keys),
                    }
                }
                self.let_in(connection, identity, payload, keys);
            }
            (_, AuthAnswer::Fail { cause, again: true }) => return Err(Fault::Lost(cause)),
            (_, AuthAnswer::Fail { cause, again: false }) => return Err(Fault::Broken(cause)),
            (asked, answer) => panic!("{answer:?} answers {asked:?}"),
        }
        Ok(())
    }

    /// Tells the peer that it is let in.
    pub(super) fn let_in(&mut self, connection: &mut Connection, identity: Identity, payload: Bytes, keys: Keys) {
        connection.put(&AuthDone { global_id: identity.global_id, mode: keys.mode(), payload });
        connection.identity = Some(identity);
        self.sign(connection, keys);
    }

    /// Signs what was heard. From here on frames are those of the mode.
    fn sign(&mut self, connection: &mut Connection, keys: Keys) {
        let Keys { sign, records } = keys;
        let heard = &connection.transcript.received;
        let signature = sign.as_ref().map_or([0; 32], |sign| sign.sign(&[heard]));
        connection.transcript.received = Vec::new();
        connection.transcript.is_complete = true;
        if let Some(records) = records {
            connection.framing = Box::new(Secure::new(records.seal, self.sealing_buffers()));
            connection.assembler.secure(records.open);
        }
        connection.put(&AuthSignature(signature));
        connection.phase = Phase::Signature(sign);
        self.mark_dirty(connection.id);
    }

    /// A client learns its number. Of several monitors that are asked at once, the first gives the number that stays:
    /// requests are known by it.
    fn connected_as(&mut self, peer: EntityType, global_id: u64) {
        if peer == EntityType::MON && self.me.kind != EntityType::MON && self.global_id == 0 {
            self.global_id = global_id;
            if self.me.kind == EntityType::CLIENT {
                self.me.num = global_id as i64;
            }
        }
    }

    pub(super) fn signature(&mut self, connection: &mut Connection, signature: &AuthSignature) -> Result<(), Fault> {
        let Phase::Signature(sign) = &connection.phase else { unreachable!("the caller has looked at the phase") };
        let is_right = match sign {
            Some(sign) => sign.verify(&[&connection.transcript.sent], &signature.0),
            None => signature.0 == [0; 32],
        };
        if !is_right {
            return Err(Fault::Broken(Cause::Signature));
        }
        connection.transcript.sent = Vec::new();
        connection.phase = Phase::Ident;
        if connection.outgoing {
            self.send_ident(connection);
        }
        Ok(())
    }
}

impl Connection {
    /// A frame of the accepting side's handshake, by its method and modes.
    pub(super) fn requested(&self, request: AuthRequest) -> (AuthStep, Asked) {
        let AuthRequest { method, preferred_modes, payload } = request;
        let step = AuthStep::Request { peer: self.peer_kind, addr: self.peer, method, modes: preferred_modes, payload };
        (step, Asked::Peer { method })
    }
}

//! The accepting side of opening or resuming a session.

use super::connection::{Connection, Fault};
use super::control::*;
use super::ids::SessionId;
use super::messenger::{Messenger, Output};
use super::reason::Cause;
use super::session::{FoundBy, Link, Session};
use crate::codec::features;
use crate::msgr::{Peer, Policy};
use crate::{AddrKind, EntityAddr, EntityAddrVec};
use types::{EntityName, EntityType};

impl Messenger {
    pub(super) fn client_ident(&mut self, connection: &mut Connection, ident: ClientIdent) -> Result<(), Fault> {
        check_addrs(&ident.addrs)?;
        check_name(connection, Some(ident.gid))?;
        if !self.my_addrs.contains(&ident.target) {
            let (target, own) = (ident.target, self.my_addrs.clone());
            return Err(Fault::Broken(Cause::OtherTarget { target, own }));
        }
        let policy = self.config.accept[&connection.peer_kind];
        let it_lacks = (policy.features_required | features::MSG_ADDR2) & !ident.features_supported;
        if it_lacks != 0 {
            connection.put(&IdentMissingFeatures { features: it_lacks });
            return Err(Fault::Broken(Cause::PeerLacks(it_lacks)));
        }
        let we_lack = ident.features_required & !self.config.features;
        if we_lack != 0 {
            return Err(Fault::Broken(Cause::WeLack(we_lack)));
        }
        if !policy.lossy && ident.cookie == 0 {
            return Err(Fault::Broken(Cause::NoCookie));
        }
        if policy.lossy && !policy.fences {
            return self.accept_new(connection, policy, ident);
        }
        let existing = self.findable.get(&key(connection, &ident.addrs)).copied();
        let Some(id) = existing else { return self.accept_new(connection, policy, ident) };
        let s = &self.sessions[&id];
        check_owner(connection, s)?;
        if s.peer_global_seq > ident.global_seq {
            return Err(Fault::Stale);
        }
        if policy.lossy || s.policy.lossy {
            self.end_session(id, Cause::ReplacedByNewer);
            return self.accept_new(connection, policy, ident);
        }
        let established = s.client_cookie != 0 && s.server_cookie != 0;
        if established && ![s.client_cookie, s.own_cookie].contains(&ident.cookie) {
            self.end_session(id, Cause::BegunAnew);
            return self.accept_new(connection, policy, ident);
        }
        if s.client_cookie != ident.cookie && self.existing_wins(id) {
            self.tell_to_wait(connection);
            return Ok(());
        }
        self.adopt(connection, id);
        self.establish(connection, id, ident);
        Ok(())
    }

    /// Of two connections that the two sides made at the same time, the one made by the side with the lower address
    /// is kept: ours, if that is us and we are still at it.
    fn existing_wins(&self, id: SessionId) -> bool {
        let s = &self.sessions[&id];
        matches!(s.link, Link::Connecting(_)) && s.addr > self.my_addrs.msgr2_addr()
    }

    /// Such a race is over already and what comes is the loser's attempt.
    fn existing_won(&self, id: SessionId) -> bool {
        let s = &self.sessions[&id];
        s.is_open() && s.addr > self.my_addrs.msgr2_addr()
    }

    fn tell_to_wait(&mut self, connection: &mut Connection) {
        connection.put(&Wait {});
        self.mark_dirty(connection.id);
    }

    fn accept_new(&mut self, connection: &mut Connection, policy: Policy, ident: ClientIdent) -> Result<(), Fault> {
        let (front, dialable) = (ident.addrs.front(), ident.addrs.msgr2_addr());
        let addr = match (policy.lossy, dialable.kind) {
            (false, AddrKind::MSGR2) if dialable.sockaddr.is_some() => dialable,
            (false, _) => return Err(Fault::Broken(Cause::NotDialableBack(ident.addrs))),
            (true, _) => front,
        };
        let id = self.new_session(Session::new(policy, EntityName::default(), addr, Link::Open(connection.id)));
        if !policy.lossy || policy.fences {
            self.make_findable(id, key(connection, &ident.addrs));
        }
        self.establish(connection, id, ident);
        Ok(())
    }

    /// Answers an ident: from here on the session stands, and numbers its messages from 1.
    fn establish(&mut self, connection: &mut Connection, id: SessionId, ident: ClientIdent) {
        let cookie = self.random();
        self.global_seq += 1;
        let identity = connection.identity.as_ref().expect("a peer tells its name after it authenticated");
        let kind = connection.peer_kind;
        let num = if kind == EntityType::CLIENT { identity.global_id as i64 } else { ident.gid };
        let s = self.sessions.get_mut(&id).expect("the caller has found or made it");
        s.name = EntityName { kind, num };
        s.peer_global_seq = ident.global_seq;
        s.connect_seq = 0;
        s.in_seq = 0;
        s.out.renumber();
        if !s.policy.lossy {
            (s.client_cookie, s.server_cookie) = (ident.cookie, cookie);
        }
        let peer = Peer {
            name: s.name,
            auth_name: identity.name.clone(),
            addrs: ident.addrs,
            features: ident.features_supported & self.config.features,
            global_id: identity.global_id,
            rights: identity.rights.clone(),
            lossy: s.policy.lossy,
            global_seq: ident.global_seq,
        };
        let first_time = s.peer.replace(peer.clone()).is_none();
        connection.put(&ServerIdent {
            addrs: self.my_addrs.clone(),
            gid: self.me.num,
            global_seq: self.global_seq,
            features_supported: self.config.features,
            features_required: s.policy.features_required | features::MSG_ADDR2,
            flags: if s.policy.lossy { FLAG_LOSSY } else { 0 },
            cookie: s.server_cookie,
        });
        self.open(connection, id);
        if first_time {
            self.outputs.push_back(Output::Opened { session: id, peer });
        }
    }

    /// The session moves to this connection; the one it had, if any, is closed.
    fn adopt(&mut self, connection: &Connection, id: SessionId) {
        let s = self.sessions.get_mut(&id).expect("the caller has found it");
        let before = s.conn();
        s.out.rewind();
        s.acks.told();
        (s.link, s.lost_at) = (Link::Open(connection.id), None);
        if let Some(before) = before {
            self.drop_conn(before);
        }
    }

    pub(super) fn reconnect(&mut self, connection: &mut Connection, r: SessionReconnect) -> Result<(), Fault> {
        check_addrs(&r.addrs)?;
        check_name(connection, None)?;
        let found = self.findable.get(&key(connection, &r.addrs)).copied();
        let found = found.filter(|id| !self.sessions[id].policy.lossy);
        if let Some(id) = found {
            check_owner(connection, &self.sessions[&id])?;
        }
        let answered = 'answer: {
            let Some(id) = found else {
                connection.put(&SessionReset { full: true });
                break 'answer None;
            };
            let s = &self.sessions[&id];
            let known = s.client_cookie == r.client_cookie;
            if r.client_cookie == 0 || (!known && s.own_cookie != r.client_cookie) {
                connection.put(&SessionReset { full: true });
            } else if !known || s.server_cookie == 0 {
                // The peer saw this session open, we did not.
                connection.put(&SessionReset { full: false });
            } else if s.peer_global_seq > r.global_seq {
                connection.put(&SessionRetryGlobal { global_seq: s.peer_global_seq });
            } else if s.connect_seq > r.connect_seq {
                connection.put(&SessionRetry { connect_seq: s.connect_seq });
            } else if s.connect_seq == r.connect_seq && (self.existing_wins(id) || self.existing_won(id)) {
                self.tell_to_wait(connection);
                return Ok(());
            } else if !s.out.may_resume_after(r.msg_seq) {
                // It has acknowledged more since: an attempt that it has given up.
                return Err(Fault::Stale);
            } else {
                break 'answer Some(id);
            }
            None
        };
        let Some(id) = answered else {
            // The peer goes on from there on the same connection.
            self.mark_dirty(connection.id);
            return Ok(());
        };
        self.adopt(connection, id);
        let s = self.sessions.get_mut(&id).expect("found above");
        s.connect_seq = r.connect_seq;
        s.peer_global_seq = r.global_seq;
        let msg_seq = s.in_seq;
        // The connection is the session's from here on, also if it cannot be resumed.
        connection.session = Some(id);
        s.out.resume(r.msg_seq)?;
        connection.put(&SessionReconnectOk { msg_seq });
        self.open(connection, id);
        Ok(())
    }
}

/// Key of the session that the peer may mean.
fn key(connection: &Connection, addrs: &EntityAddrVec) -> FoundBy {
    let kind = connection.peer_kind;
    let client = connection.proven().filter(|_| kind == EntityType::CLIENT).cloned();
    FoundBy { kind, addr: addrs.front(), client }
}

fn check_addrs(addrs: &EntityAddrVec) -> Result<(), Fault> {
    if addrs.front() == EntityAddr::BLANK {
        return Err(Fault::Broken(Cause::NoAddress));
    }
    Ok(())
}

/// Compares what a peer says of itself to what it has proven. Whoever has a key may come as a client; a daemon must be
/// of the kind that it says, and an OSD of that number.
fn check_name(connection: &Connection, gid: Option<i64>) -> Result<(), Fault> {
    let kind = connection.peer_kind;
    let Some(proven) = connection.proven().filter(|_| kind != EntityType::CLIENT) else { return Ok(()) };
    let is_number = |gid: i64| kind != EntityType::OSD || proven.id.parse() == Ok(gid);
    if proven.kind == kind && gid.is_none_or(is_number) {
        return Ok(());
    }
    let claimed = EntityName { kind, num: gid.unwrap_or(-1) };
    Err(Fault::Broken(Cause::OtherThanProven { claimed, proven: proven.clone() }))
}

/// A peer that has proven its name may end or go on with its own sessions alone.
fn check_owner(connection: &Connection, s: &Session) -> Result<(), Fault> {
    let Some(proven) = connection.proven() else { return Ok(()) };
    let is_owner = match &s.peer {
        _ if s.name.kind == EntityType::OSD => proven.id.parse() == Ok(s.name.num),
        Some(peer) => peer.auth_name == *proven,
        None => true,
    };
    match is_owner {
        true => Ok(()),
        false => Err(Fault::Broken(Cause::OtherThanProven { claimed: s.name, proven: proven.clone() })),
    }
}

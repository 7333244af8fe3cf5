//! The connecting side of opening or resuming a session.

use super::connection::Fault;
use super::control::*;
use super::messenger::{ConnId, Messenger, Output, SessionId};
use crate::codec::features;
use crate::msgr::Peer;
use types::EntityName;

impl Messenger {
    fn session_of(&self, conn: ConnId) -> SessionId {
        self.conns[&conn].session.expect("dialled connections have a session")
    }

    /// Tells who we are: to resume if the session was open before, else to open it.
    pub(super) fn send_ident(&mut self, conn: ConnId) {
        let id = self.session_of(conn);
        let cookie = self.random();
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        let connection = self.conns.get_mut(&conn).expect("checked by the caller");
        if s.server_cookie != 0 {
            connection.put(&SessionReconnect {
                addrs: self.my_addrs.clone(),
                client_cookie: s.client_cookie,
                server_cookie: s.server_cookie,
                global_seq: s.global_seq,
                connect_seq: s.connect_seq,
                msg_seq: s.in_seq,
            });
        } else {
            if !s.policy.lossy && s.client_cookie == 0 {
                s.client_cookie = cookie;
                s.own_cookie = cookie;
            }
            connection.put(&ClientIdent {
                addrs: self.my_addrs.clone(),
                target: s.addr,
                gid: self.me.num,
                global_seq: s.global_seq,
                features_supported: self.config.features,
                features_required: s.policy.features_required | features::MSG_ADDR2,
                flags: if s.policy.lossy { FLAG_LOSSY } else { 0 },
                cookie: s.client_cookie,
            });
        }
        self.mark_dirty(conn);
    }

    pub(super) fn server_ident(&mut self, conn: ConnId, ident: ServerIdent) -> Result<(), Fault> {
        let id = self.session_of(conn);
        let kind = self.conns[&conn].peer_kind;
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        if s.server_cookie != 0 {
            return Err(Fault::broken("peer opened a session where one was to be resumed"));
        }
        if !ident.addrs.contains(&s.addr) {
            return Err(Fault::broken(format!("it is {}, which does not include the address dialled", ident.addrs)));
        }
        let we_lack = ident.features_required & !self.config.features;
        let it_lacks = (s.policy.features_required | features::MSG_ADDR2) & !ident.features_supported;
        if we_lack | it_lacks != 0 {
            return Err(Fault::broken(format!("features {we_lack:#x} missing here, {it_lacks:#x} there")));
        }
        let lossy = ident.flags & FLAG_LOSSY != 0;
        if !lossy && (s.policy.lossy || ident.cookie == 0) {
            return Err(Fault::broken("peer wants a lossless session without agreeing on one"));
        }
        s.policy.lossy = lossy;
        if lossy && let Some(by) = s.findable_by.take() {
            self.by_addr.remove(&by);
        }
        s.server_cookie = ident.cookie;
        s.peer_global_seq = ident.global_seq;
        s.in_seq = 0;
        s.out.renumber();
        s.name = EntityName { kind, num: ident.gid };
        let first_time = s.peer.is_none();
        let peer = Peer {
            name: s.name,
            auth_name: Default::default(),
            addrs: ident.addrs,
            features: ident.features_supported & self.config.features,
            global_id: 0,
            lossy,
            global_seq: 0,
        };
        s.peer = Some(peer.clone());
        self.open(conn, id);
        if first_time {
            self.outputs.push_back(Output::Opened { session: id, peer });
        }
        Ok(())
    }

    pub(super) fn reconnect_ok(&mut self, conn: ConnId, ok: &SessionReconnectOk) -> Result<(), Fault> {
        let id = self.session_of(conn);
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        s.out.rewind();
        s.out.resume(ok.msg_seq).map_err(|e| Fault::broken(e.to_string()))?;
        self.open(conn, id);
        Ok(())
    }

    pub(super) fn session_reset(&mut self, conn: ConnId, reset: &SessionReset) -> Result<(), Fault> {
        let id = self.session_of(conn);
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        if reset.full {
            return Err(Fault::broken("peer does not know the session any more"));
        }
        // It never heard that the session stood, so nothing of it was received.
        (s.server_cookie, s.connect_seq, s.in_seq) = (0, 0, 0);
        self.send_ident(conn);
        Ok(())
    }

    pub(super) fn session_retry(&mut self, conn: ConnId, retry: &SessionRetry) -> Result<(), Fault> {
        let id = self.session_of(conn);
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        if retry.connect_seq < s.connect_seq {
            return Err(Fault::broken("peer asks to retry an attempt that was not late"));
        }
        s.connect_seq = retry.connect_seq.saturating_add(1);
        self.send_ident(conn);
        Ok(())
    }

    pub(super) fn session_retry_global(&mut self, conn: ConnId, retry: &SessionRetryGlobal) -> Result<(), Fault> {
        let id = self.session_of(conn);
        self.global_seq = self.global_seq.max(retry.global_seq).saturating_add(1);
        self.sessions.get_mut(&id).expect("a connection's session exists").global_seq = self.global_seq;
        self.send_ident(conn);
        Ok(())
    }
}

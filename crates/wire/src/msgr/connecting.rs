//! The connecting side of opening or resuming a session.

use super::connection::{Connection, Fault};
use super::control::*;
use super::ids::SessionId;
use super::messenger::{Messenger, Output};
use super::reason::Cause;
use super::rights::Rights;
use super::session::Session;
use crate::codec::features;
use crate::msgr::Peer;
use types::EntityName;

impl Messenger {
    fn session_mut(&mut self, id: SessionId) -> &mut Session {
        self.sessions.get_mut(&id).expect("a connection's session exists")
    }

    /// Sends our identity: to resume the session if it was open before, else to open it.
    pub(super) fn send_ident(&mut self, connection: &mut Connection) {
        let id = connection.session();
        let cookie = self.random();
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
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
        self.mark_dirty(connection.id);
    }

    pub(super) fn server_ident(&mut self, connection: &mut Connection, ident: ServerIdent) -> Result<(), Fault> {
        let id = connection.session();
        let s = self.sessions.get_mut(&id).expect("a connection's session exists");
        if s.server_cookie != 0 {
            return Err(Fault::Broken(Cause::OpenedInsteadOfResumed));
        }
        if !ident.addrs.contains(&s.addr) {
            return Err(Fault::Broken(Cause::OtherPeer(ident.addrs)));
        }
        let here = ident.features_required & !self.config.features;
        let there = (s.policy.features_required | features::MSG_ADDR2) & !ident.features_supported;
        if here | there != 0 {
            return Err(Fault::Broken(Cause::BothLack { here, there }));
        }
        let lossy = ident.flags & FLAG_LOSSY != 0;
        if !lossy && (s.policy.lossy || ident.cookie == 0) {
            return Err(Fault::Broken(Cause::LosslessUnasked));
        }
        s.policy.lossy = lossy;
        if lossy && let Some(by) = s.findable_by.take() {
            self.findable.remove(&by);
        }
        s.server_cookie = ident.cookie;
        s.peer_global_seq = ident.global_seq;
        s.in_seq = 0;
        s.out.renumber();
        s.name = EntityName { kind: connection.peer_kind, num: ident.gid };
        let first_time = s.peer.is_none();
        let peer = Peer {
            name: s.name,
            auth_name: Default::default(),
            addrs: ident.addrs,
            features: ident.features_supported & self.config.features,
            global_id: 0,
            rights: Rights::Everything,
            lossy,
            global_seq: 0,
        };
        s.peer = Some(peer.clone());
        self.open(connection, id);
        if first_time {
            self.outputs.push_back(Output::Opened { session: id, peer });
        }
        Ok(())
    }

    pub(super) fn reconnect_ok(&mut self, connection: &mut Connection, ok: &SessionReconnectOk) -> Result<(), Fault> {
        let id = connection.session();
        let s = self.session_mut(id);
        s.out.rewind();
        s.out.resume(ok.msg_seq)?;
        self.open(connection, id);
        Ok(())
    }

    pub(super) fn session_reset(&mut self, connection: &mut Connection, reset: &SessionReset) -> Result<(), Fault> {
        if reset.full {
            return Err(Fault::Broken(Cause::Forgotten));
        }
        // It never heard that the session stood, so nothing of it was received.
        let s = self.session_mut(connection.session());
        (s.server_cookie, s.connect_seq, s.in_seq) = (0, 0, 0);
        self.send_ident(connection);
        Ok(())
    }

    pub(super) fn session_retry(&mut self, connection: &mut Connection, retry: &SessionRetry) -> Result<(), Fault> {
        let s = self.session_mut(connection.session());
        if retry.connect_seq < s.connect_seq {
            return Err(Fault::Broken(Cause::RetryUnasked));
        }
        s.connect_seq = retry.connect_seq.saturating_add(1);
        self.send_ident(connection);
        Ok(())
    }

    pub(super) fn session_retry_global(&mut self, connection: &mut Connection, retry: &SessionRetryGlobal) {
        self.global_seq = self.global_seq.max(retry.global_seq).saturating_add(1);
        let global_seq = self.global_seq;
        self.session_mut(connection.session()).global_seq = global_seq;
        self.send_ident(connection);
    }
}

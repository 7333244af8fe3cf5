//! Sessions with the other monitors.
//!
//! Each monitor dials each of the others, and sends on the session that it dialled; on sessions that it accepted it
//! only answers. A message that cannot be sent is dropped: raft repeats it, and clients ask again.

use super::{Action, Member};
use crate::monitor::{self, Now};
use bytes::Bytes;
use raft::{Packet, ServerId};
use std::collections::BTreeMap;
use std::time::Duration;
use tracing::{debug, info};
use wire::msgr::{Peer, SessionId};
use wire::nacre::quorum as q;
use wire::{Decode, Encode, EntityAddrVec, Envelope, Message, Target};

/// First and longest wait before a monitor is dialled again.
const REDIAL_MIN: Duration = Duration::from_millis(100);
const REDIAL_MAX: Duration = Duration::from_secs(1);
/// Period at which a member introduces itself, which also compares clocks; and period of a server that wants to become
/// one.
const HELLO_EVERY: Duration = Duration::from_secs(2);
const HELLO_TO_JOIN_EVERY: Duration = Duration::from_millis(200);

/// A monitor that this one dials.
#[derive(Default, Debug)]
struct Link {
    session: Option<SessionId>,
    is_open: bool,
    dial_at: Duration,
    wait: Duration,
    hello_at: Duration,
    /// Server at the other end, once it has introduced itself.
    server: Option<ServerId>,
    /// Reason of the other end's last refusal.
    refusal: String,
}

/// All sessions with monitors.
#[derive(Default, Debug)]
pub(super) struct Links {
    /// Links by the address that is dialled.
    dialled: BTreeMap<EntityAddrVec, Link>,
    /// Sessions of monitors that dialled this one, with their servers once these have introduced themselves.
    accepted: BTreeMap<SessionId, Option<ServerId>>,
    /// Addresses of servers that have introduced themselves.
    heard: BTreeMap<ServerId, EntityAddrVec>,
}

/// Returns the address that is dialled, by which a monitor is known here.
fn key(addrs: &EntityAddrVec) -> EntityAddrVec {
    EntityAddrVec(vec![addrs.msgr2_addr()])
}

impl Links {
    pub fn dialled(&mut self, addrs: EntityAddrVec, session: SessionId) {
        if let Some(link) = self.dialled.get_mut(&addrs) {
            link.session = Some(session);
        }
    }

    pub fn next_wake(&self) -> Option<Duration> {
        let wakes = self.dialled.values().filter_map(|link| match link.session {
            None => Some(link.dial_at),
            Some(_) if link.is_open => Some(link.hello_at),
            Some(_) => None,
        });
        wakes.min()
    }

    pub fn is_empty(&self) -> bool {
        self.dialled.is_empty() && self.accepted.is_empty()
    }

    fn of_session(&mut self, session: SessionId) -> Option<&mut Link> {
        self.dialled.values_mut().find(|link| link.session == Some(session))
    }

    /// Returns the open session to a server.
    pub fn session_to(&self, server: ServerId) -> Option<SessionId> {
        let link = self.dialled.values().find(|link| link.server == Some(server) && link.is_open)?;
        link.session
    }

    /// Returns the server at the other end of a session that was accepted.
    pub fn accepted_from(&self, session: SessionId) -> Option<ServerId> {
        self.accepted.get(&session).copied().flatten()
    }

    pub fn is_accepted(&self, session: SessionId) -> bool {
        self.accepted.contains_key(&session)
    }

    pub fn is_dialled(&self, session: SessionId) -> bool {
        self.dialled.values().any(|link| link.session == Some(session))
    }

    /// Records the introduction of a server on a session that was accepted.
    pub fn introduced(&mut self, session: SessionId, server: ServerId, addrs: &EntityAddrVec) {
        self.accepted.insert(session, Some(server));
        self.heard.insert(server, key(addrs));
    }

    /// Records the introduction of the server at the other end of a dialled session. Returns true if its refusal is a
    /// new one.
    pub fn answered(&mut self, session: SessionId, server: ServerId, refusal: &str) -> bool {
        let Some(link) = self.of_session(session) else { return false };
        link.server = Some(server);
        let is_news = link.refusal != refusal;
        refusal.clone_into(&mut link.refusal);
        is_news
    }

    /// Returns the open sessions to all monitors.
    fn open_sessions(&self) -> Vec<SessionId> {
        self.dialled.values().filter(|link| link.is_open).filter_map(|link| link.session).collect()
    }
}

impl Member {
    /// Dials monitors that are new, and leaves monitors that are gone.
    pub(super) fn follow_members(&mut self, out: &mut Vec<Action>) {
        let own = key(&self.config.addrs);
        let state = self.monitor.state();
        let shown = state.monmap.mons.values().map(|mon| &mon.addrs);
        let known = state.mon_servers.values().map(|known| &known.addrs);
        // After a start the state is that of the last snapshot, and only a leader can tell of monitors that have come
        // since.
        let given = if self.raft.leader().is_none() || self.is_empty() { &self.config.peers[..] } else { &[] };
        let members = self.raft.membership().members().chain(self.raft.leader());
        let heard = members.filter_map(|server| self.links.heard.get(&server));
        let wanted: Vec<EntityAddrVec> = shown.chain(known).chain(given).chain(heard).map(key).collect();
        for addrs in wanted.iter().filter(|addrs| **addrs != own && addrs.msgr2_addr().sockaddr.is_some()) {
            self.links.dialled.entry(addrs.clone()).or_default();
        }
        self.links.dialled.retain(|addrs, link| {
            let is_wanted = wanted.contains(addrs);
            if !is_wanted {
                out.extend(link.session.map(|session| Action::Close { session }));
            }
            is_wanted
        });
    }

    /// Keeps addresses of monitors that another one knows, for as long as this one's state has none.
    pub(super) fn learn_peers(&mut self, addrs: impl Iterator<Item = EntityAddrVec>) {
        for addrs in addrs {
            if !self.config.peers.contains(&addrs) {
                self.config.peers.push(addrs);
            }
        }
    }

    pub(super) fn tick_links(&mut self, now: Now, out: &mut Vec<Action>) {
        let mut hellos = Vec::new();
        let every = if self.is_empty() { HELLO_TO_JOIN_EVERY } else { HELLO_EVERY };
        for (addrs, link) in &mut self.links.dialled {
            match link.session {
                None if link.dial_at <= now.since_start => {
                    link.wait = (link.wait * 2).clamp(REDIAL_MIN, REDIAL_MAX);
                    // The link waits until the driver reports the session's number.
                    link.dial_at = now.since_start + link.wait;
                    out.push(Action::Dial { addrs: addrs.clone() });
                }
                Some(session) if link.is_open && link.hello_at <= now.since_start => {
                    link.hello_at = now.since_start + every;
                    hellos.push(session);
                }
                _ => {}
            }
        }
        self.say_hello(now, &hellos, out);
    }

    /// Greets the monitor at the other end of a dialled session that has opened.
    pub(super) fn link_opened(&mut self, now: Now, session: SessionId, out: &mut Vec<Action>) {
        let every = if self.is_empty() { HELLO_TO_JOIN_EVERY } else { HELLO_EVERY };
        let Some(link) = self.links.of_session(session) else { return };
        (link.is_open, link.wait, link.hello_at) = (true, Duration::ZERO, now.since_start + every);
        self.say_hello(now, &[session], out);
        // The other end may have missed OSDs' reports, without a session or before it ran: it gets the last ones again.
        for beacon in self.monitor.what_osds_said() {
            let message = q::OsdSaid { message: q::Wrapped(beacon.seal(0, Target::PACIFIC)) };
            out.push(Action::Send { session, envelope: message.seal(0, Target::PACIFIC) });
        }
    }

    pub(super) fn accept_link(&mut self, now: Now, session: SessionId, peer: Peer, out: &mut Vec<Action>) {
        self.monitor.handle(now, monitor::MonitorInput::Opened { session, peer }, &mut self.todo);
        if !self.monitor.is_monitor(session) {
            info!("closing a session: its other end says that it is a monitor, and has not proven it");
            self.monitor.handle(now, monitor::MonitorInput::Closed { session }, &mut self.todo);
            return out.push(Action::Close { session });
        }
        self.links.accepted.insert(session, None);
    }

    /// Forgets a session with a monitor that is over.
    pub(super) fn link_closed(&mut self, now: Now, session: SessionId, out: &mut Vec<Action>) {
        if self.links.accepted.remove(&session).is_some() {
            self.end_forwarded_of(now, session);
            self.monitor.handle(now, monitor::MonitorInput::Closed { session }, &mut self.todo);
            return;
        }
        let Some(link) = self.links.of_session(session) else { return };
        link.session = None;
        let (was_open, server) = (std::mem::take(&mut link.is_open), link.server);
        link.dial_at = link.dial_at.max(now.since_start + link.wait.min(REDIAL_MIN));
        // Forwarded requests are in doubt even if this member has heard of no leader for a while: the other end may go
        // on leading in its term.
        if was_open && server.is_some() && server == self.last_leader() {
            self.leader_lost(now, out);
        }
    }

    pub(super) fn send_raft(&mut self, to: ServerId, message: raft::Message, out: &mut Vec<Action>) {
        let Some(session) = self.links.session_to(to) else {
            return;
        };
        let packet = Packet { from: self.me(), to, message }.to_vec(Target::PACIFIC);
        let message = q::RaftPacket { packet: Bytes::from(packet) };
        out.push(Action::Send { session, envelope: message.seal(0, Target::PACIFIC) });
    }

    /// Sends a message to all other monitors that can be reached.
    pub(super) fn broadcast(&self, envelope: &Envelope, out: &mut Vec<Action>) {
        for session in self.links.open_sessions() {
            out.push(Action::Send { session, envelope: envelope.clone() });
        }
    }

    /// Handles a packet on a session whose other end has introduced itself.
    pub(super) fn raft_packet(&mut self, now: Now, session: SessionId, packet: &[u8]) {
        let packet = match Packet::from_slice(packet) {
            Ok(packet) => packet,
            Err(e) => return info!("a packet of raft does not decode: {e}"),
        };
        if packet.to != self.me()
            || self.is_former(packet.from)
            || self.links.accepted_from(session) != Some(packet.from)
        {
            return debug!("a packet from {} to {} is not for this monitor", packet.from, packet.to);
        }
        let event = raft::Event::Message { from: packet.from, message: packet.message };
        self.raft.handle(now.since_start, event);
    }
}

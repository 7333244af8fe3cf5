//! Sessions with other OSDs, and conclusions from their connections about who is alive.

use crate::heartbeat::REPORT_EVERY;
use crate::joins::Joins;
use osdmap::OsdMap;
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EntityName, OsdId};
use wire::msgr::{Messenger, Policy, SessionId};
use wire::nacre::mon::OsdFailure;
use wire::{DecodeError, EntityAddrVec, Envelope};

/// Time without a connection after which a peer is reported to the monitors.
const SILENCE_MAX: Duration = Duration::from_secs(10);

struct Peer {
    session: SessionId,
    /// Addresses that the session was made for. A peer that starts again has other addresses.
    addrs: EntityAddrVec,
    /// True if an attempt to connect was refused since the session was last established.
    refused: bool,
    reported_at: Option<Duration>,
}

/// Sessions by OSD.
#[derive(Default)]
pub(crate) struct Peers {
    peers: BTreeMap<OsdId, Peer>,
    by_session: BTreeMap<SessionId, OsdId>,
    /// Messages of which only some parts have come.
    pub joins: Joins,
}

impl Peers {
    /// The session with an OSD that the map shows up. Makes one if there is none.
    pub fn session(&mut self, messenger: &mut Messenger, map: &OsdMap, osd: OsdId, now: Duration) -> Option<SessionId> {
        if !map.is_up(osd) {
            return None;
        }
        let addrs = &map.osd(osd)?.cluster_addrs;
        if let Some(peer) = self.peers.get(&osd) {
            if peer.addrs == *addrs {
                return Some(peer.session);
            }
            self.forget(messenger, osd);
        }
        let session = messenger.connect(EntityName::osd(osd), addrs, Policy::LOSSLESS_PEER, now);
        self.insert(osd, session, addrs.clone());
        Some(session)
    }

    fn insert(&mut self, osd: OsdId, session: SessionId, addrs: EntityAddrVec) {
        self.peers.insert(osd, Peer { session, addrs, refused: false, reported_at: None });
        self.by_session.insert(session, osd);
    }

    fn forget(&mut self, messenger: &mut Messenger, osd: OsdId) {
        if let Some(peer) = self.peers.remove(&osd) {
            self.by_session.remove(&peer.session);
            self.joins.ended(peer.session);
            messenger.close(peer.session);
        }
    }

    /// A session with an OSD is established; either side may have begun it. Returns true if it ends another session
    /// with this OSD.
    pub fn opened(&mut self, messenger: &mut Messenger, osd: OsdId, session: SessionId, addrs: EntityAddrVec) -> bool {
        match self.peers.get_mut(&osd) {
            Some(peer) if peer.session == session => {
                (peer.refused, peer.reported_at) = (false, None);
                false
            }
            other => {
                let had_one = other.is_some();
                self.forget(messenger, osd);
                self.insert(osd, session, addrs);
                had_one
            }
        }
    }

    /// Takes an envelope of a session. Returns the message that it completes, if it completes one.
    ///
    /// Errors: the envelope is part of a message and does not continue the parts before it.
    pub fn joined(&mut self, session: SessionId, envelope: Envelope) -> Result<Option<Envelope>, DecodeError> {
        match self.by_session.contains_key(&session) {
            true => self.joins.came(session, envelope),
            false => Ok(None),
        }
    }

    pub fn osd_of(&self, session: SessionId) -> Option<OsdId> {
        self.by_session.get(&session).copied()
    }

    pub fn session_of(&self, osd: OsdId) -> Option<SessionId> {
        self.peers.get(&osd).map(|peer| peer.session)
    }

    /// The session has lost its connection, or got none. `refused`: nobody listens at the peer's address.
    pub fn faulted(&mut self, session: SessionId, refused: bool) {
        if let Some(peer) = self.by_session.get(&session).and_then(|osd| self.peers.get_mut(osd)) {
            peer.refused |= refused;
        }
    }

    /// The session has ended, with all messages that were on their way in it. Returns the OSD that it was with.
    pub fn reset(&mut self, session: SessionId) -> Option<OsdId> {
        let osd = self.by_session.remove(&session)?;
        self.joins.ended(session);
        self.peers.remove(&osd);
        Some(osd)
    }

    /// Follows a new map: ends sessions with OSDs that are down, or have started again elsewhere.
    pub fn follow_map(&mut self, messenger: &mut Messenger, map: &OsdMap) {
        let stale =
            |osd: &OsdId, peer: &Peer| !map.is_up(*osd) || map.osd(*osd).is_none_or(|o| o.cluster_addrs != peer.addrs);
        let gone: Vec<_> = self.peers.iter().filter(|(osd, peer)| stale(osd, peer)).map(|(osd, _)| *osd).collect();
        for osd in gone {
            self.forget(messenger, osd);
        }
    }

    pub fn len(&self) -> usize {
        self.peers.len()
    }

    /// Reports that are due now about peers without a connection.
    pub fn failures(&mut self, messenger: &Messenger, map: &OsdMap, now: Duration) -> Vec<OsdFailure> {
        let mut failures = Vec::new();
        for (&osd, peer) in &mut self.peers {
            // No event tells that a resumed session is established again, and a session with nothing to send needs no
            // connection.
            let Some(lost_at) = messenger.lost_since(peer.session) else {
                (peer.refused, peer.reported_at) = (false, None);
                continue;
            };
            let silent = now.saturating_sub(lost_at);
            let due = peer.reported_at.is_none_or(|at| now >= at + REPORT_EVERY);
            if (peer.refused || silent >= SILENCE_MAX) && due && map.is_up(osd) {
                peer.reported_at = Some(now);
                failures.push(OsdFailure {
                    target: osd,
                    target_addrs: peer.addrs.clone(),
                    epoch: map.epoch,
                    immediate: peer.refused,
                    failed_for_ms: silent.as_millis() as u64,
                });
            }
        }
        failures
    }
}

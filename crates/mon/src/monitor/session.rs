//! One connected party.

use super::subscriptions::Subscriptions;
use crate::identity::Party;
use std::collections::BTreeSet;
use types::{EntityType, Fsid, OsdId};
use wire::Target;
use wire::msgr::Peer;

/// The monitor's state of a session.
#[derive(Debug)]
pub(super) struct Session {
    pub peer: Peer,
    /// The party at the other end, as it has proven to be, or is believed without.
    pub identity: Party,
    pub subscriptions: Subscriptions,
    /// True if it came to the manager's address: its messages are for a manager, and are answered as by one.
    pub is_at_manager: bool,
    /// True if the session ends once what it has asked for is answered. What it asks for from now on is not done.
    pub is_ending: bool,
    /// The peer's name for its machine, from its subscriptions.
    pub host: String,
    /// A hash of the configuration that it was last sent, in place of a copy for each session. Two configurations have
    /// equal hashes with a chance of 1 in 2^64.
    pub config_sent: Option<u64>,
    /// For an OSD's session: the store that the map had under the OSD's number when the session began, or with which
    /// the OSD has asked to be marked up since.
    pub store: Option<Fsid>,
    /// True once the peer has asked for the monitor map, and so has been answered, or has subscribed.
    pub has_asked_for_map: bool,
    /// Services for which it is given new tickets once it has asked for the monitor map.
    pub tickets_due: BTreeSet<EntityType>,
}

impl Session {
    pub fn new(peer: Peer) -> Session {
        Session {
            identity: Party::unknown(&peer.auth_name),
            peer,
            subscriptions: Subscriptions::default(),
            is_at_manager: false,
            is_ending: false,
            host: String::new(),
            config_sent: None,
            store: None,
            has_asked_for_map: false,
            tickets_due: BTreeSet::new(),
        }
    }

    /// Returns the OSD at the other end, if it is one. Where parties prove who they are, it has proven its name.
    pub fn osd(&self) -> Option<OsdId> {
        let name = self.peer.name;
        let id = i32::try_from(name.num).ok().filter(|id| *id >= 0)?;
        let is_it = self.identity.is_daemon(EntityType::OSD, &id.to_string());
        (name.kind == EntityType::OSD && is_it).then_some(OsdId(id))
    }

    /// True if this party is at the other end already.
    pub fn is_of(&self, identity: &Party) -> bool {
        identity.global_id() == Some(self.peer.global_id) && self.identity.name == identity.name
    }

    pub fn target(&self) -> Target {
        self.peer.target()
    }
}

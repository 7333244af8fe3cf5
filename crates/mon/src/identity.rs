//! The party at the other end of a session, and what it may do.

use auth::caps::{Access, MonCaps, MonRequest};
use auth::{Accepted, Granted, Method};
use std::collections::BTreeMap;
use std::net::IpAddr;
use types::EntityType;
use wire::basic::AuthName;
use wire::msgr::Rights;

/// The reason for which a party's name is believed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// The monitor asks for no proofs, so the name is only claimed.
    Claimed,
    /// The party has proven its name.
    Proven,
    /// The name is not believed.
    Unknown,
}

/// A party as far as it is known.
#[derive(Clone, Debug)]
pub struct Party {
    pub name: AuthName,
    pub standing: Standing,
    pub granted: Granted,
    caps: MonCaps,
    /// The address at the other end of the connection, if it is known.
    pub from: Option<IpAddr>,
    /// The outcome of the handshake, if it was with this monitor.
    pub accepted: Option<Box<Accepted>>,
}

impl Party {
    fn new(name: &AuthName, standing: Standing, granted: Granted) -> Party {
        let caps = MonCaps::of(&granted);
        Party { name: name.clone(), standing, granted, caps, from: None, accepted: None }
    }

    /// A party where nobody proves anything: it may do everything.
    pub fn claimed(name: &AuthName) -> Party {
        Party::new(name, Standing::Claimed, Granted::Everything)
    }

    /// The administrator of this machine, who may open the admin socket: it may do everything.
    pub fn local_administrator() -> Party {
        let name = AuthName::new(EntityType::CLIENT, "admin");
        Party::new(&name, Standing::Proven, Granted::Everything)
    }

    /// A party that was not accepted: it may do nothing.
    pub fn unknown(name: &AuthName) -> Party {
        Party::new(name, Standing::Unknown, Granted::Text(String::new()))
    }

    /// A party that has proven its name to another monitor.
    pub fn vouched_for(name: &AuthName, caps: String, from: Option<IpAddr>) -> Party {
        Party { from, ..Party::new(name, Standing::Proven, Granted::Text(caps)) }
    }

    /// A party that is accepted, at the address `from`.
    pub fn accepted(accepted: &Accepted, from: Option<IpAddr>) -> Party {
        let standing = if accepted.method == Method::None { Standing::Claimed } else { Standing::Proven };
        let identity = Party::new(&accepted.name, standing, accepted.caps.clone());
        Party { from, accepted: Some(Box::new(accepted.clone())), ..identity }
    }

    /// The id that a handshake with this monitor gave.
    pub fn global_id(&self) -> Option<u64> {
        self.accepted.as_ref().map(|accepted| accepted.global_id)
    }

    /// True if the party is taken for the daemon of this kind that `claims` says it is.
    pub fn is_daemon(&self, kind: EntityType, claims: &str) -> bool {
        match self.standing {
            Standing::Claimed => true,
            Standing::Proven => self.name.kind == kind && self.name.id == claims,
            Standing::Unknown => false,
        }
    }

    /// True if the party may do this.
    pub fn allows(&self, request: &MonRequest<'_>) -> bool {
        self.caps.allows(&self.name, self.from, request)
    }

    /// True if the party has these rights for a service.
    pub fn has(&self, service: &str, needs: Access) -> bool {
        self.allows(&MonRequest { service, command: "", arguments: &BTreeMap::new(), needs })
    }

    /// The party's rights as its session has them.
    pub fn rights(&self) -> Rights {
        match &self.granted {
            Granted::Everything => Rights::Everything,
            Granted::Text(text) => Rights::Caps(text.as_str().into()),
        }
    }

    /// Replaces the party's capabilities, which were changed.
    pub(crate) fn grant(&mut self, granted: Granted) {
        self.caps = MonCaps::of(&granted);
        self.granted = granted;
    }
}

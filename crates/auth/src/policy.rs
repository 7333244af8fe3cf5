//! Methods, modes and kinds of keys that one side allows.
//!
//! Nothing is allowed because the other side asks for it: a choice is made among what both lists have, and the client
//! checks it against the list that it sent.

use crate::key::KeyKind;
use std::net::IpAddr;
use types::EntityType;

/// A way to tell who one is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Method {
    /// Proves nothing and grants everything.
    None,
    Cephx,
}

impl Method {
    /// Number of the method in frames.
    pub const fn number(self) -> u32 {
        match self {
            Method::None => 1,
            Method::Cephx => 2,
        }
    }

    pub const fn from_number(number: u32) -> Option<Method> {
        match number {
            1 => Some(Method::None),
            2 => Some(Method::Cephx),
            _ => None,
        }
    }
}

/// How frames of a connection are protected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Mode {
    /// Checksums, against accidents alone.
    Crc,
    /// AES-128-GCM.
    Secure,
}

impl Mode {
    /// Number of the mode in frames.
    pub const fn number(self) -> u32 {
        match self {
            Mode::Crc => 1,
            Mode::Secure => 2,
        }
    }

    pub const fn from_number(number: u32) -> Option<Mode> {
        match number {
            1 => Some(Mode::Crc),
            2 => Some(Mode::Secure),
            _ => None,
        }
    }
}

/// Peers that may use [`Method::None`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NoneFrom {
    Nobody,
    /// Peers on this machine.
    Loopback,
    /// Everybody who reaches the port.
    Everybody,
}

/// Methods, modes and kinds of keys that a server allows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerPolicy {
    pub cephx: bool,
    pub none: NoneFrom,
    pub modes: Vec<Mode>,
    /// Kinds of keys of principals, session keys and secrets of services.
    pub key_kinds: Vec<KeyKind>,
}

impl ServerPolicy {
    /// `cephx` with every kind of key and both modes; `none` for nobody.
    pub fn cephx() -> ServerPolicy {
        ServerPolicy {
            cephx: true,
            none: NoneFrom::Nobody,
            modes: vec![Mode::Crc, Mode::Secure],
            key_kinds: KeyKind::ALL.to_vec(),
        }
    }

    /// The methods for a peer at `ip`, best first.
    pub fn methods(&self, ip: Option<IpAddr>) -> Vec<Method> {
        let none = match self.none {
            NoneFrom::Nobody => false,
            NoneFrom::Loopback => ip.is_some_and(|ip| ip.to_canonical().is_loopback()),
            NoneFrom::Everybody => true,
        };
        let cephx = self.cephx.then_some(Method::Cephx);
        cephx.into_iter().chain(none.then_some(Method::None)).collect()
    }

    /// The mode for a client that prefers `preferred`, best first: the first that is allowed. `none` has no secret, and
    /// so no secure mode.
    pub fn choose_mode(&self, method: Method, preferred: &[u32]) -> Option<Mode> {
        let mut known = preferred.iter().filter_map(|number| Mode::from_number(*number));
        known.find(|mode| self.modes.contains(mode) && (method == Method::Cephx || *mode == Mode::Crc))
    }
}

/// The policies of a daemon for those who connect to it, by their kinds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ServerPolicies {
    /// For monitors.
    pub monitors: ServerPolicy,
    /// For other daemons.
    pub daemons: ServerPolicy,
    pub clients: ServerPolicy,
}

impl ServerPolicies {
    /// The policy for a peer that says it is of this kind. A kind is not proven by saying so: the name that is proven
    /// later has to be of it.
    pub fn of(&self, peer: EntityType) -> &ServerPolicy {
        match peer {
            EntityType::MON => &self.monitors,
            EntityType::OSD | EntityType::MGR | EntityType::MDS => &self.daemons,
            _ => &self.clients,
        }
    }

    fn all(&self) -> [&ServerPolicy; 3] {
        [&self.monitors, &self.daemons, &self.clients]
    }

    /// True if whoever reaches a daemon at one of these addresses may use it: somebody may come without proofs, and
    /// from other machines. `None`: nobody proves anything.
    pub fn are_open(policies: Option<&ServerPolicies>, mut addrs: impl Iterator<Item = IpAddr>) -> bool {
        let takes_all =
            |policies: &ServerPolicies| policies.all().into_iter().any(|policy| policy.none == NoneFrom::Everybody);
        policies.is_none_or(takes_all) && addrs.any(|ip| !ip.to_canonical().is_loopback())
    }

    /// True if somebody may use `cephx`.
    pub fn have_cephx(&self) -> bool {
        self.all().into_iter().any(|policy| policy.cephx)
    }
}

/// One policy for everybody.
impl From<ServerPolicy> for ServerPolicies {
    fn from(policy: ServerPolicy) -> ServerPolicies {
        ServerPolicies { monitors: policy.clone(), daemons: policy.clone(), clients: policy }
    }
}

/// Methods, modes and kinds of keys that a client accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientPolicy {
    /// Methods, best first.
    pub methods: Vec<Method>,
    /// Modes of connections to monitors, best first.
    pub monitor_modes: Vec<Mode>,
    /// Modes of connections to other daemons, best first.
    pub service_modes: Vec<Mode>,
    /// Kinds of session keys that monitors may give.
    pub key_kinds: Vec<KeyKind>,
}

impl ClientPolicy {
    /// Ceph's defaults for `cephx`: secure towards monitors, crc towards others, each with the other as second choice.
    pub fn cephx() -> ClientPolicy {
        ClientPolicy {
            methods: vec![Method::Cephx],
            monitor_modes: vec![Mode::Secure, Mode::Crc],
            service_modes: vec![Mode::Crc, Mode::Secure],
            key_kinds: KeyKind::ALL.to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_is_for_loopback_alone_where_that_is_said() {
        let policy = ServerPolicy { none: NoneFrom::Loopback, ..ServerPolicy::cephx() };
        let methods = |ip: &str| policy.methods(Some(ip.parse().unwrap()));
        assert_eq!(methods("127.0.0.9"), [Method::Cephx, Method::None]);
        assert_eq!(methods("::1"), [Method::Cephx, Method::None]);
        assert_eq!(methods("::ffff:127.0.0.1"), [Method::Cephx, Method::None]);
        assert_eq!(methods("10.0.0.1"), [Method::Cephx]);
        assert_eq!(policy.methods(None), [Method::Cephx]);
        assert_eq!(ServerPolicy::cephx().methods(Some("127.0.0.1".parse().unwrap())), [Method::Cephx]);
    }

    #[test]
    fn daemons_are_open_that_take_anybody_from_other_machines() {
        let check = |policies: Option<&ServerPolicies>, addrs: &[&str]| {
            ServerPolicies::are_open(policies, addrs.iter().map(|ip| ip.parse().unwrap()))
        };
        let proofs = ServerPolicies::from(ServerPolicy::cephx());
        let none = |from| ServerPolicy { none: from, ..ServerPolicy::cephx() };
        let some = ServerPolicies { clients: none(NoneFrom::Everybody), ..proofs.clone() };
        for policies in [None, Some(&some)] {
            for open in [&["10.0.0.1"][..], &["127.0.0.1", "10.0.0.1"], &["0.0.0.0"], &["::"], &["fd00::1"]] {
                assert!(check(policies, open), "{open:?}");
            }
            assert!(!check(policies, &["127.0.0.1", "127.0.0.9", "::1", "::ffff:127.0.0.1"]));
        }
        let here = ServerPolicies { clients: none(NoneFrom::Loopback), ..proofs.clone() };
        assert!(!check(Some(&proofs), &["10.0.0.1"]) && !check(Some(&here), &["10.0.0.1"]));
    }

    #[test]
    fn the_mode_is_the_clients_best_that_is_allowed() {
        let check = |modes: &[Mode], method, preferred: &[u32], expect| {
            let policy = ServerPolicy { modes: modes.to_vec(), ..ServerPolicy::cephx() };
            assert_eq!(policy.choose_mode(method, preferred), expect);
        };
        let both = [Mode::Crc, Mode::Secure];
        check(&both, Method::Cephx, &[2, 1], Some(Mode::Secure));
        check(&both, Method::Cephx, &[1, 2], Some(Mode::Crc));
        check(&both, Method::Cephx, &[9, 1], Some(Mode::Crc));
        check(&[Mode::Secure], Method::Cephx, &[1, 2], Some(Mode::Secure));
        check(&[Mode::Secure], Method::Cephx, &[1], None);
        check(&both, Method::None, &[2, 1], Some(Mode::Crc));
        check(&both, Method::None, &[2], None);
    }
}

//! Capabilities at monitors.

use super::scan::{Scan, quote};
use super::{CapsError, Ere, Network};
use crate::accepted::Granted;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;
use wire::basic::AuthName;

/// Rights at a monitor: to read, to change, and to do what is neither, such as with keys.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Access {
    pub read: bool,
    pub write: bool,
    pub execute: bool,
    /// `*`: all three, and what no rights of a smaller kind reach.
    pub everything: bool,
}

impl Access {
    const NONE: Access = Access { read: false, write: false, execute: false, everything: false };
    pub const R: Access = Access { read: true, ..Access::NONE };
    pub const W: Access = Access { write: true, ..Access::NONE };
    pub const RW: Access = Access { write: true, ..Access::R };
    pub const RX: Access = Access { execute: true, ..Access::R };
    pub const RWX: Access = Access { execute: true, ..Access::RW };
    pub const EVERYTHING: Access = Access { everything: true, ..Access::RWX };

    /// The rights that letters name, as a command's description has them: `rw`. Other letters name none.
    pub fn of_letters(letters: &str) -> Access {
        let has = |letter| letters.contains(letter);
        Access { read: has('r'), write: has('w'), execute: has('x'), everything: false }
    }

    fn with(self, other: Access) -> Access {
        Access {
            read: self.read || other.read,
            write: self.write || other.write,
            execute: self.execute || other.execute,
            everything: self.everything || other.everything,
        }
    }

    pub(super) fn covers(self, needs: Access) -> bool {
        (self.read || !needs.read) && (self.write || !needs.write) && (self.execute || !needs.execute)
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.everything {
            return f.write_str("*");
        }
        let letters = [(self.read, "r"), (self.write, "w"), (self.execute, "x")];
        letters.iter().filter(|(has, _)| *has).try_for_each(|(_, letter)| f.write_str(letter))
    }
}

/// A condition on an argument of a command. An argument that is not there meets none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArgumentRule {
    Is(String),
    BeginsWith(String),
    /// An extended regular expression for the whole value. One that cannot be read is met by nothing.
    Matches(String),
}

impl ArgumentRule {
    fn is_met(&self, value: &str) -> bool {
        match self {
            ArgumentRule::Is(expected) => value == expected,
            ArgumentRule::BeginsWith(prefix) => value.starts_with(prefix.as_str()),
            ArgumentRule::Matches(ere) => Ere::new(ere).is_some_and(|ere| ere.is_match(value)),
        }
    }
}

/// The subject of a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MonAllows {
    /// All services; with anything less than everything, all but `config-key`.
    Anywhere(Access),
    Service(String, Access),
    /// One command, with all rights.
    Command(String, BTreeMap<String, ArgumentRule>),
    /// A list of grants that has a name.
    Profile(String),
}

/// One grant, and the network from which it may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MonGrant {
    pub allows: MonAllows,
    pub network: Option<Network>,
}

/// Capabilities for monitors.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MonCaps {
    grants: Vec<MonGrant>,
}

/// A request to a monitor.
#[derive(Clone, Copy, Debug)]
pub struct MonRequest<'a> {
    /// The service that the command or message belongs to: `osd`, `auth`, `config-key` ...
    pub service: &'a str,
    /// Words of the command; empty for a message.
    pub command: &'a str,
    /// Arguments as text. Capabilities among them go by the names of [`caps_arguments`].
    pub arguments: &'a BTreeMap<String, String>,
    pub needs: Access,
}

/// The names and values of an argument `caps` (service, capability, service, capability ...) for
/// [`MonRequest::arguments`]: `caps_osd` → `allow r`.
pub fn caps_arguments(caps: &[String]) -> impl Iterator<Item = (String, String)> {
    caps.chunks_exact(2).map(|pair| (format!("caps_{}", pair[0]), pair[1].clone()))
}

impl MonCaps {
    pub fn grants(&self) -> &[MonGrant] {
        &self.grants
    }

    /// `allow *`.
    pub fn everything() -> MonCaps {
        MonCaps { grants: vec![MonGrant { allows: MonAllows::Anywhere(Access::EVERYTHING), network: None }] }
    }

    /// The capabilities that somebody was granted. A text that is not understood grants nothing.
    pub fn of(granted: &Granted) -> MonCaps {
        match granted {
            Granted::Everything => MonCaps::everything(),
            Granted::Text(text) => text.parse().unwrap_or_default(),
        }
    }

    /// True if `who` may do this from `from`, the address at the other end of his connection.
    pub fn allows(&self, who: &AuthName, from: Option<IpAddr>, request: &MonRequest<'_>) -> bool {
        let mut rights = Access::NONE;
        for grant in &self.grants {
            if grant.network.as_ref().is_some_and(|network| !network.contains(from)) {
                continue;
            }
            if matches!(grant.allows, MonAllows::Anywhere(access) if access.everything) {
                return true;
            }
            rights = rights.with(grant.allows.rights(who, request));
            if rights.covers(request.needs) {
                return true;
            }
        }
        false
    }
}

impl MonAllows {
    fn rights(&self, who: &AuthName, request: &MonRequest<'_>) -> Access {
        match self {
            MonAllows::Anywhere(_) if request.service == "config-key" => Access::NONE,
            MonAllows::Anywhere(access) => *access,
            MonAllows::Service(service, access) if service == request.service => *access,
            MonAllows::Command(command, rules) if command == request.command => {
                let met = |(name, rule): (&String, &ArgumentRule)| {
                    request.arguments.get(name).is_some_and(|value| rule.is_met(value))
                };
                if rules.iter().all(met) { Access::RWX } else { Access::NONE }
            }
            MonAllows::Service(..) | MonAllows::Command(..) => Access::NONE,
            MonAllows::Profile(name) => {
                let grants = profile(name, who);
                grants.iter().fold(Access::NONE, |rights, grant| rights.with(grant.rights(who, request)))
            }
        }
    }
}

fn service(name: &str, access: Access) -> MonAllows {
    MonAllows::Service(name.to_owned(), access)
}

fn command(words: &str) -> MonAllows {
    MonAllows::Command(words.to_owned(), BTreeMap::new())
}

fn command_with<const N: usize>(words: &str, rules: [(&str, ArgumentRule); N]) -> MonAllows {
    let rules = rules.into_iter().map(|(name, rule)| (name.to_owned(), rule)).collect();
    MonAllows::Command(words.to_owned(), rules)
}

fn is(value: &str) -> ArgumentRule {
    ArgumentRule::Is(value.to_owned())
}

fn begins_with(value: &str) -> ArgumentRule {
    ArgumentRule::BeginsWith(value.to_owned())
}

fn matches(ere: &str) -> ArgumentRule {
    ArgumentRule::Matches(ere.to_owned())
}

/// An address with its nonce: one incarnation of a client.
const ONE_CLIENT: &str = "^[^/]+/[0-9]+$";
/// Capabilities for OSDs that are `rbd` profiles alone.
const RBD_PROFILES: &str =
    concat!("^([ ,]*profile(=|[ ]+)['\"]?rbd[^ ,'\"]*['\"]?", "([ ]+pool(=|[ ]+)['\"]?[^,'\"]+['\"]?)?)+$");

/// The grants of a profile; none if it is not known.
fn profile(name: &str, who: &AuthName) -> Vec<MonAllows> {
    let mut grants = match name {
        "read-only" => vec![MonAllows::Anywhere(Access::R)],
        "read-write" => vec![MonAllows::Anywhere(Access::RW)],
        "mon" => vec![service("mon", Access::RWX), service("log", Access::RWX)],
        "osd" => vec![
            service("osd", Access::RWX),
            service("mon", Access::R),
            service("pg", Access::RW),
            service("log", Access::W),
        ],
        "mds" => vec![
            service("mds", Access::RWX),
            service("mon", Access::R),
            service("osd", Access::R),
            command("osd pool rmsnap"),
            command("osd blacklist"),
            command("osd blocklist"),
            service("log", Access::W),
        ],
        "mgr" => {
            let read_write = ["log", "mon", "mds", "fs", "osd", "config-key", "config"];
            let mut grants = vec![service("mgr", Access::RWX), service("auth", Access::RWX), command("smart")];
            grants.extend(read_write.iter().map(|name| service(name, Access::RW)));
            grants
        }
        "fs-client" => readers(&["mon", "mds", "osd", "pg"]),
        "cephfs-mirror" => {
            let mut grants = readers(&["mon", "mds", "osd", "pg"]);
            grants.push(command_with("config-key get", [("key", begins_with("cephfs/mirror/peer/"))]));
            grants
        }
        "simple-rados-client" => readers(&["mon", "osd", "pg"]),
        "simple-rados-client-with-blocklist" => {
            let mut grants = readers(&["mon", "osd", "pg"]);
            grants.push(command_with("osd blocklist", [("blocklistop", is("add")), ("addr", matches(ONE_CLIENT))]));
            grants
        }
        "crash" => readers(&["mon"]),
        "role-definer" => vec![service("mon", Access::R), service("auth", Access::RWX)],
        _ if name.starts_with("bootstrap-") => bootstrap(name),
        _ if name.starts_with("rbd") => rbd(name),
        _ => Vec::new(),
    };
    if ["mon", "osd", "mds", "mgr"].contains(&name) {
        let own = begins_with(&format!("daemon-private/{who}/"));
        let words = ["get", "put", "set", "exists", "delete"];
        grants.extend(words.map(|word| command_with(&format!("config-key {word}"), [("key", own.clone())])));
    }
    grants
}

fn readers(services: &[&str]) -> Vec<MonAllows> {
    services.iter().map(|name| service(name, Access::R)).collect()
}

/// Profiles of tools that make new daemons and clients.
fn bootstrap(name: &str) -> Vec<MonAllows> {
    let make = |rules: &[(&str, ArgumentRule)]| {
        let rules = rules.iter().map(|(name, rule)| ((*name).to_owned(), rule.clone())).collect();
        MonAllows::Command("auth get-or-create".to_owned(), rules)
    };
    let mut grants = match name {
        "bootstrap-rbd" | "bootstrap-rbd-mirror" => readers(&["mon"]),
        _ => {
            let mut grants = readers(&["mon", "osd"]);
            grants.push(command("mon getmap"));
            grants
        }
    };
    match name {
        "bootstrap-osd" => grants.extend(["osd new", "osd purge-new"].map(command)),
        "bootstrap-mds" => grants.push(make(&[
            ("entity", begins_with("mds.")),
            ("caps_mon", is("allow profile mds")),
            ("caps_osd", is("allow rwx")),
            ("caps_mds", is("allow")),
        ])),
        "bootstrap-mgr" => {
            grants.push(make(&[("entity", begins_with("mgr.")), ("caps_mon", is("allow profile mgr"))]));
        }
        "bootstrap-rgw" => grants.push(make(&[
            ("entity", begins_with("client.rgw.")),
            ("caps_mon", is("allow rw")),
            ("caps_osd", is("allow rwx")),
        ])),
        "bootstrap-rbd" | "bootstrap-rbd-mirror" => grants.push(make(&[
            ("entity", begins_with("client.")),
            ("caps_mon", is(if name == "bootstrap-rbd" { "profile rbd" } else { "profile rbd-mirror" })),
            ("caps_osd", matches(RBD_PROFILES)),
        ])),
        _ => return Vec::new(),
    }
    grants
}

/// Profiles of clients of block images: all whose names begin so.
fn rbd(name: &str) -> Vec<MonAllows> {
    let mut grants = readers(&["mon", "osd", "pg"]);
    // The owner of an image's lock is shut out once it is taken for dead.
    grants.push(command_with("osd blocklist", [("blocklistop", is("add")), ("addr", matches(ONE_CLIENT))]));
    grants.push(command_with("osd blacklist", [("blacklistop", is("add")), ("addr", matches(ONE_CLIENT))]));
    match name {
        "rbd-mirror" => grants.push(command_with("config-key get", [("key", begins_with("rbd/mirror/"))])),
        "rbd-mirror-peer" => {
            grants.push(command_with("config-key get", [("key", matches("rbd/mirror/[^/]+"))]));
            grants.push(command_with("config-key set", [("key", begins_with("rbd/mirror/peer/"))]));
        }
        _ => {}
    }
    grants
}

fn spaces(s: &mut Scan<'_>) -> Option<()> {
    s.some(|c| [' ', '\n', '\t'].contains(&c)).map(drop)
}

fn equals_or_spaces(s: &mut Scan<'_>) -> Option<()> {
    s.word("=").or_else(|| spaces(s))
}

fn access(s: &mut Scan<'_>) -> Option<Access> {
    if s.word("*").or_else(|| s.word("all")).is_some() {
        return Some(Access::EVERYTHING);
    }
    let mut has = |letter| s.word(letter).is_some();
    let access = Access { read: has("r"), write: has("w"), execute: has("x"), everything: false };
    (access != Access::NONE).then_some(access)
}

fn network(s: &mut Scan<'_>) -> Option<Network> {
    s.attempt(|s| {
        spaces(s)?;
        s.word("network")?;
        spaces(s)?;
        s.network().map(Network::new)
    })
}

fn argument(s: &mut Scan<'_>) -> Option<(String, ArgumentRule)> {
    let name = s.string()?;
    let after = |s: &mut Scan<'_>, word: &str| {
        s.attempt(|s| {
            spaces(s)?;
            s.word(word)?;
            spaces(s)?;
            s.string()
        })
    };
    let equal = s.attempt(|s| {
        s.word("=")?;
        s.string()
    });
    let rule = equal
        .map(ArgumentRule::Is)
        .or_else(|| after(s, "prefix").map(ArgumentRule::BeginsWith))
        .or_else(|| after(s, "regex").map(ArgumentRule::Matches))?;
    Some((name, rule))
}

fn arguments(s: &mut Scan<'_>) -> Option<BTreeMap<String, ArgumentRule>> {
    s.attempt(|s| {
        spaces(s)?;
        s.word("with")?;
        spaces(s)?;
        let (name, rule) = argument(s)?;
        let mut rules = BTreeMap::from([(name, rule)]);
        while let Some((name, rule)) = s.attempt(|s| {
            spaces(s)?;
            argument(s)
        }) {
            // Of two conditions on one argument Ceph keeps the first.
            rules.entry(name).or_insert(rule);
        }
        Some(rules)
    })
}

fn grant(s: &mut Scan<'_>) -> Option<MonGrant> {
    let _ = spaces(s);
    let allow = |s: &mut Scan<'_>| {
        s.word("allow")?;
        spaces(s)
    };
    let anywhere = s.attempt(|s| {
        allow(s)?;
        access(s).map(MonAllows::Anywhere)
    });
    let profile = |s: &mut Scan<'_>| {
        s.attempt(|s| {
            let _ = s.attempt(|s| allow(s));
            s.word("profile")?;
            equals_or_spaces(s)?;
            s.string().map(MonAllows::Profile)
        })
    };
    let service = |s: &mut Scan<'_>| {
        s.attempt(|s| {
            allow(s)?;
            s.word("service")?;
            equals_or_spaces(s)?;
            let service = s.string()?;
            spaces(s)?;
            Some(MonAllows::Service(service, access(s)?))
        })
    };
    let command = |s: &mut Scan<'_>| {
        s.attempt(|s| {
            allow(s)?;
            s.word("command")?;
            equals_or_spaces(s)?;
            Some(MonAllows::Command(s.string()?, arguments(s).unwrap_or_default()))
        })
    };
    let allows = anywhere.or_else(|| profile(s)).or_else(|| service(s)).or_else(|| command(s))?;
    let network = network(s);
    let _ = spaces(s);
    Some(MonGrant { allows, network })
}

impl FromStr for MonCaps {
    type Err = CapsError;

    fn from_str(text: &str) -> Result<MonCaps, CapsError> {
        let mut s = Scan::new(text);
        let mut grants: Vec<MonGrant> = s.attempt(grant).into_iter().collect();
        while !grants.is_empty() {
            let next = s.attempt(|s| {
                s.run(|c| c == ' ');
                s.word(";").or_else(|| s.word(","))?;
                s.run(|c| c == ' ');
                grant(s)
            });
            let Some(next) = next else { break };
            grants.push(next);
        }
        if grants.is_empty() || !s.rest().is_empty() {
            return Err(CapsError { service: "mon", text: text.to_owned(), rest: s.rest().to_owned() });
        }
        Ok(MonCaps { grants })
    }
}

impl fmt::Display for MonGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.allows {
            MonAllows::Anywhere(access) => write!(f, "allow {access}")?,
            MonAllows::Service(service, access) => write!(f, "allow service {} {access}", quote(service))?,
            MonAllows::Profile(name) => write!(f, "profile {}", quote(name))?,
            MonAllows::Command(words, rules) => {
                write!(f, "allow command {}", quote(words))?;
                for (i, (name, rule)) in rules.iter().enumerate() {
                    write!(f, "{}{}", if i == 0 { " with " } else { " " }, quote(name))?;
                    match rule {
                        ArgumentRule::Is(value) => write!(f, "={}", quote(value))?,
                        ArgumentRule::BeginsWith(value) => write!(f, " prefix {}", quote(value))?,
                        ArgumentRule::Matches(ere) => write!(f, " regex {}", quote(ere))?,
                    }
                }
            }
        }
        self.network.as_ref().map_or(Ok(()), |network| write!(f, " network {network}"))
    }
}

/// A text that reads back as the same capabilities.
impl fmt::Display for MonCaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, grant) in self.grants.iter().enumerate() {
            write!(f, "{}{grant}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

//! Capabilities at OSDs.

use super::scan::{Scan, quote};
use super::{CapsError, Network};
use crate::accepted::Granted;
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Rights on objects.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct OsdAccess {
    pub read: bool,
    pub write: bool,
    /// To call methods that read; `x` is this and the next.
    pub class_read: bool,
    /// To call methods that write.
    pub class_write: bool,
    /// `*`: all of them, and methods of classes that are not listed.
    pub everything: bool,
}

impl OsdAccess {
    const NONE: OsdAccess =
        OsdAccess { read: false, write: false, class_read: false, class_write: false, everything: false };
    const R: OsdAccess = OsdAccess { read: true, ..OsdAccess::NONE };
    const RW: OsdAccess = OsdAccess { write: true, ..OsdAccess::R };
    const RWX: OsdAccess = OsdAccess { class_read: true, class_write: true, ..OsdAccess::RW };
    const CLASS_READ: OsdAccess = OsdAccess { class_read: true, ..OsdAccess::NONE };
    const EVERYTHING: OsdAccess = OsdAccess { everything: true, ..OsdAccess::RWX };
}

impl fmt::Display for OsdAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.everything {
            return f.write_str("*");
        }
        let execute = self.class_read && self.class_write;
        let letters: String = [(self.read, 'r'), (self.write, 'w'), (execute, 'x')]
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, c)| c)
            .collect();
        let words = [
            (!letters.is_empty(), letters.as_str()),
            (self.class_read && !execute, "class-read"),
            (self.class_write && !execute, "class-write"),
        ];
        let words: Vec<&str> = words.into_iter().filter(|(has, _)| *has).map(|(_, word)| word).collect();
        f.write_str(&words.join(" "))
    }
}

/// A condition on the namespace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Namespace {
    Is(String),
    BeginsWith(String),
}

/// Metadata of pools: keys and values by application.
pub type Applications = BTreeMap<String, BTreeMap<String, String>>;

/// A condition on the pool's application metadata. `None` stands for any key or value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tag {
    pub application: String,
    pub key: Option<String>,
    pub value: Option<String>,
}

impl Tag {
    fn is_met(&self, applications: &Applications) -> bool {
        let Some(metadata) = applications.get(&self.application) else { return false };
        match (&self.key, &self.value) {
            (None, None) => true,
            (None, Some(value)) => metadata.values().any(|found| found == value),
            (Some(key), None) => metadata.contains_key(key),
            (Some(key), Some(value)) => metadata.get(key) == Some(value),
        }
    }
}

/// Conditions on where an object is.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Place {
    pub pool: Option<String>,
    pub namespace: Option<Namespace>,
    pub object_prefix: Option<String>,
    pub tag: Option<Tag>,
}

impl Place {
    fn contains(&self, request: &OsdRequest<'_>) -> bool {
        let namespace = match &self.namespace {
            None => true,
            Some(Namespace::Is(name)) => name == request.namespace,
            Some(Namespace::BeginsWith(prefix)) => request.namespace.starts_with(prefix.as_str()),
        };
        namespace
            && self.pool.as_ref().is_none_or(|pool| pool == request.pool)
            && self.object_prefix.as_ref().is_none_or(|prefix| request.object.starts_with(prefix.as_str()))
            && self.tag.as_ref().is_none_or(|tag| tag.is_met(request.applications))
    }
}

/// The rights that a grant gives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OsdSpec {
    Access(OsdAccess),
    /// Calls of one class, or of one method of it.
    Class(String, Option<String>),
}

/// The subject of a grant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OsdAllows {
    Place(Place, OsdSpec),
    /// A list of grants that has a name, for a pool and a namespace.
    Profile {
        name: String,
        pool: Option<String>,
        namespace: Option<Namespace>,
    },
}

/// One grant, and the network from which it may be used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdGrant {
    pub allows: OsdAllows,
    pub network: Option<Network>,
}

/// Capabilities for OSDs.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct OsdCaps {
    grants: Vec<OsdGrant>,
    /// The grants in their order with profiles spelled out, and the grant that each is of.
    rules: Vec<(usize, Place, OsdSpec)>,
}

/// A call of a class's method within an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassCall<'a> {
    pub class: &'a str,
    pub method: &'a str,
    /// The method is declared to read, or to write.
    pub reads: bool,
    pub writes: bool,
    /// True for classes that `x` opens (`osd_class_default_list`).
    pub listed: bool,
}

/// A request to an OSD: all steps of one operation on one object.
#[derive(Clone, Copy, Debug)]
pub struct OsdRequest<'a> {
    /// Name of the pool.
    pub pool: &'a str,
    pub applications: &'a Applications,
    pub namespace: &'a str,
    /// Name of the object, or its locator key if it has one.
    pub object: &'a str,
    /// True if a step reads, or writes, without a class.
    pub reads: bool,
    pub writes: bool,
    pub classes: &'a [ClassCall<'a>],
}

impl OsdCaps {
    fn new(grants: Vec<OsdGrant>) -> OsdCaps {
        let mut rules = Vec::new();
        for (i, grant) in grants.iter().enumerate() {
            match &grant.allows {
                OsdAllows::Place(place, spec) => rules.push((i, place.clone(), spec.clone())),
                OsdAllows::Profile { name, pool, namespace } => {
                    rules.extend(profile(name, pool, namespace).into_iter().map(|(place, spec)| (i, place, spec)));
                }
            }
        }
        OsdCaps { grants, rules }
    }

    pub fn grants(&self) -> &[OsdGrant] {
        &self.grants
    }

    /// `allow *`.
    pub fn everything() -> OsdCaps {
        let allows = OsdAllows::Place(Place::default(), OsdSpec::Access(OsdAccess::EVERYTHING));
        OsdCaps::new(vec![OsdGrant { allows, network: None }])
    }

    /// The capabilities that somebody was granted. A text that is not understood grants nothing.
    pub fn of(granted: &Granted) -> OsdCaps {
        match granted {
            Granted::Everything => OsdCaps::everything(),
            Granted::Text(text) => text.parse().unwrap_or_default(),
        }
    }

    /// True if everything is allowed everywhere, so that no request needs to be looked at.
    pub fn allow_everything(&self) -> bool {
        self.rules.iter().any(|(grant, place, spec)| {
            self.grants[*grant].network.is_none()
                && *place == Place::default()
                && matches!(spec, OsdSpec::Access(access) if access.everything)
        })
    }

    /// True if the operation is allowed from `from`, the address at the other end of the connection.
    ///
    /// One grant must allow all reads and writes. Class calls may be allowed by several grants, if each of them allows
    /// the reads and writes.
    pub fn allows(&self, from: Option<IpAddr>, request: &OsdRequest<'_>) -> bool {
        let mut called = vec![false; request.classes.len()];
        self.rules.iter().any(|(grant, place, spec)| {
            let near = self.grants[*grant].network.as_ref().is_none_or(|network| network.contains(from));
            near && place.contains(request) && spec.allows(request, &mut called)
        })
    }
}

impl OsdSpec {
    /// True if the operation is allowed, with what grants before allowed of its calls.
    fn allows(&self, request: &OsdRequest<'_>, called: &mut [bool]) -> bool {
        let access = match self {
            OsdSpec::Access(access) => *access,
            OsdSpec::Class(..) => OsdAccess::NONE,
        };
        if (request.reads && !access.read) || (request.writes && !access.write) {
            return false;
        }
        if access.everything {
            return true;
        }
        for (call, called) in request.classes.iter().zip(called.iter_mut()) {
            let by_name = match self {
                OsdSpec::Class(class, method) => {
                    class == call.class && method.as_ref().is_none_or(|method| method == call.method)
                }
                OsdSpec::Access(_) => false,
            };
            let by_kind = call.listed && (access.class_read || !call.reads) && (access.class_write || !call.writes);
            *called |= by_name || by_kind;
        }
        called.iter().all(|called| *called)
    }
}

/// The grants of a profile; none if it is not known.
fn profile(name: &str, pool: &Option<String>, namespace: &Option<Namespace>) -> Vec<(Place, OsdSpec)> {
    let place = Place { pool: pool.clone(), namespace: namespace.clone(), ..Place::default() };
    let anywhere = |prefix: &str| Place { object_prefix: Some(prefix.to_owned()), ..Place::default() };
    let here = |prefix: &str| Place { object_prefix: Some(prefix.to_owned()), ..place.clone() };
    let info = Place { pool: pool.clone(), namespace: Some(Namespace::Is(String::new())), ..anywhere("rbd_info") };
    let class = |class: &str, method: &str| OsdSpec::Class(class.to_owned(), Some(method.to_owned()));
    match name {
        "read-only" => vec![(place, OsdSpec::Access(OsdAccess::R))],
        "read-write" => vec![(place, OsdSpec::Access(OsdAccess::RW))],
        "rbd" => vec![
            (anywhere("rbd_info"), OsdSpec::Access(OsdAccess::R)),
            (anywhere("rbd_children"), OsdSpec::Access(OsdAccess::CLASS_READ)),
            (anywhere("rbd_mirroring"), OsdSpec::Access(OsdAccess::CLASS_READ)),
            (info, class("rbd", "metadata_list")),
            (place, OsdSpec::Access(OsdAccess::RWX)),
        ],
        "rbd-read-only" => vec![
            (place.clone(), OsdSpec::Access(OsdAccess { class_read: true, ..OsdAccess::R })),
            (here("rbd_header."), class("rbd", "child_attach")),
            (here("rbd_header."), class("rbd", "child_detach")),
            (info, class("rbd", "metadata_list")),
        ],
        _ => Vec::new(),
    }
}

fn spaces(s: &mut Scan<'_>) -> Option<()> {
    s.some(|c| c.is_ascii_whitespace() || c == '\x0b').map(drop)
}

fn after_spaces(s: &mut Scan<'_>, word: &str) -> Option<()> {
    s.attempt(|s| {
        spaces(s)?;
        s.word(word)
    })
}

fn equals_or_spaces(s: &mut Scan<'_>) -> Option<()> {
    s.word("=").or_else(|| spaces(s))
}

fn any(s: &mut Scan<'_>) -> Option<()> {
    s.word("*").or_else(|| s.word("all"))
}

fn access(s: &mut Scan<'_>) -> Option<OsdAccess> {
    let everything = s.attempt(|s| {
        spaces(s)?;
        any(s)
    });
    if everything.is_some() {
        return Some(OsdAccess::EVERYTHING);
    }
    let letters = s.attempt(|s| {
        spaces(s)?;
        let mut has = |letter| s.word(letter).is_some();
        let (read, write, execute) = (has("r"), has("w"), has("x"));
        let access = OsdAccess { read, write, class_read: execute, class_write: execute, everything: false };
        (access != OsdAccess::NONE).then_some(access)
    });
    let class_read = after_spaces(s, "class-read").is_some();
    let class_write = after_spaces(s, "class-write").is_some();
    if letters.is_none() && !class_read && !class_write {
        return None;
    }
    let mut access = letters.unwrap_or_default();
    access.class_read |= class_read;
    access.class_write |= class_write;
    Some(access)
}

fn spec(s: &mut Scan<'_>) -> Option<OsdSpec> {
    if let Some(access) = access(s) {
        return Some(OsdSpec::Access(access));
    }
    s.attempt(|s| {
        after_spaces(s, "class")?;
        let word = |s: &mut Scan<'_>| {
            s.attempt(|s| {
                spaces(s)?;
                s.string()
            })
        };
        let class = word(s)?;
        Some(OsdSpec::Class(class, word(s)))
    })
}

fn pool(s: &mut Scan<'_>) -> Option<String> {
    s.attempt(|s| {
        after_spaces(s, "pool")?;
        equals_or_spaces(s)?;
        s.string()
    })
}

fn namespace(s: &mut Scan<'_>) -> Option<Namespace> {
    s.attempt(|s| {
        after_spaces(s, "namespace")?;
        equals_or_spaces(s)?;
        let name = s.string_or_empty()?;
        if s.word("*").is_some() {
            return Some(Namespace::BeginsWith(name));
        }
        // A star between quotes is one as well.
        Some(match name.strip_suffix('*') {
            Some(prefix) => Namespace::BeginsWith(prefix.to_owned()),
            None => Namespace::Is(name),
        })
    })
}

fn object_prefix(s: &mut Scan<'_>) -> Option<String> {
    s.attempt(|s| {
        after_spaces(s, "object_prefix")?;
        spaces(s)?;
        s.string()
    })
}

fn tag(s: &mut Scan<'_>) -> Option<Tag> {
    s.attempt(|s| {
        // A star is any key or value, also one between quotes.
        let item = |s: &mut Scan<'_>| match any(s) {
            Some(()) => Some(None),
            None => s.string().map(|text| Some(text).filter(|text| text != "*")),
        };
        after_spaces(s, "tag")?;
        spaces(s)?;
        let application = s.string()?;
        spaces(s)?;
        let key = item(s)?;
        let _ = spaces(s);
        s.word("=")?;
        let _ = spaces(s);
        Some(Tag { application, key, value: item(s)? })
    })
}

/// Reads where; nothing is everywhere.
fn place(s: &mut Scan<'_>) -> Place {
    if let Some(tag) = tag(s) {
        return Place { tag: Some(tag), ..Place::default() };
    }
    let in_namespace = s.attempt(|s| {
        let namespace = Some(namespace(s)?);
        Some(Place { namespace, tag: Some(tag(s)?), ..Place::default() })
    });
    in_namespace.unwrap_or_else(|| {
        let (pool, namespace) = (pool(s), namespace(s));
        Place { pool, namespace, object_prefix: object_prefix(s), tag: None }
    })
}

fn grant(s: &mut Scan<'_>) -> Option<OsdGrant> {
    let blank = |c: char| [' ', '\t'].contains(&c);
    s.run(blank);
    let what_then_where = s.attempt(|s| {
        s.word("allow")?;
        let spec = spec(s)?;
        Some(OsdAllows::Place(place(s), spec))
    });
    let where_then_what = |s: &mut Scan<'_>| {
        s.attempt(|s| {
            s.word("allow")?;
            let place = place(s);
            Some(OsdAllows::Place(place, spec(s)?))
        })
    };
    let profile = |s: &mut Scan<'_>| {
        s.attempt(|s| {
            s.word("profile")?;
            equals_or_spaces(s)?;
            let name = s.string()?;
            Some(OsdAllows::Profile { name, pool: pool(s), namespace: namespace(s) })
        })
    };
    let allows = what_then_where.or_else(|| where_then_what(s)).or_else(|| profile(s))?;
    let network = s.attempt(|s| {
        after_spaces(s, "network")?;
        spaces(s)?;
        s.network().map(Network::new)
    });
    s.run(blank);
    Some(OsdGrant { allows, network })
}

impl FromStr for OsdCaps {
    type Err = CapsError;

    fn from_str(text: &str) -> Result<OsdCaps, CapsError> {
        let mut s = Scan::new(text);
        let _ = spaces(&mut s);
        let mut grants: Vec<OsdGrant> = s.attempt(grant).into_iter().collect();
        while !grants.is_empty() {
            let next = s.attempt(|s| {
                s.word(";").or_else(|| s.word(","))?;
                grant(s)
            });
            let Some(next) = next else { break };
            grants.push(next);
        }
        let _ = if grants.is_empty() { None } else { spaces(&mut s) };
        if grants.is_empty() || !s.rest().is_empty() {
            return Err(CapsError { service: "osd", text: text.to_owned(), rest: s.rest().to_owned() });
        }
        Ok(OsdCaps::new(grants))
    }
}

fn write_pool(f: &mut fmt::Formatter<'_>, pool: &Option<String>, namespace: &Option<Namespace>) -> fmt::Result {
    if let Some(pool) = pool {
        write!(f, " pool={}", quote(pool))?;
    }
    match namespace {
        None => Ok(()),
        Some(Namespace::Is(name)) => write!(f, " namespace={}", quote(name)),
        Some(Namespace::BeginsWith(prefix)) => write!(f, " namespace={}*", quote(prefix)),
    }
}

impl fmt::Display for OsdGrant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.allows {
            OsdAllows::Profile { name, pool, namespace } => {
                write!(f, "profile {}", quote(name))?;
                write_pool(f, pool, namespace)?;
            }
            OsdAllows::Place(place, spec) => {
                f.write_str("allow")?;
                if let OsdSpec::Access(access) = spec {
                    write!(f, " {access}")?;
                }
                write_pool(f, &place.pool, &place.namespace)?;
                if let Some(prefix) = &place.object_prefix {
                    write!(f, " object_prefix {}", quote(prefix))?;
                }
                if let Some(tag) = &place.tag {
                    let item = |item: &Option<String>| item.as_ref().map_or("*".to_owned(), |text| quote(text));
                    write!(f, " tag {} {}={}", quote(&tag.application), item(&tag.key), item(&tag.value))?;
                }
                if let OsdSpec::Class(class, method) = spec {
                    // A class comes last, so that what follows is not taken for its method.
                    write!(f, " class {}", quote(class))?;
                    method.as_ref().map_or(Ok(()), |method| write!(f, " {}", quote(method)))?;
                }
            }
        }
        self.network.as_ref().map_or(Ok(()), |network| write!(f, " network {network}"))
    }
}

/// A text that reads back as the same capabilities.
impl fmt::Display for OsdCaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, grant) in self.grants.iter().enumerate() {
            write!(f, "{}{grant}", if i == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

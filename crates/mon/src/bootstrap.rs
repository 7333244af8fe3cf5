//! The first update of a cluster.

use crate::state::{AuthEntry, MONITORS};
use crate::update::{Batch, Update};
use auth::keyring::{Keyring, KeyringError};
use auth::{Entropy, Key, KeyKind};
use crush::CrushMap;
use osdmap::{MonMap, OsdMap};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use types::{Epoch, Fsid, Utime};
use wire::codec::Release;
use wire::{Encode, EntityAddrVec, Target};

/// Name of the CRUSH root that OSDs join.
pub const ROOT: &str = "default";
/// Name of the rule that pools get: every replica on another host.
pub const RULE: &str = "replicated_rule";

/// The beginning of a new cluster.
#[derive(Clone, PartialEq, Debug)]
pub struct BootstrapSpec {
    pub fsid: Fsid,
    /// The monitors: name, and the addresses that clients dial. The first has rank 0.
    pub monitors: Vec<(String, EntityAddrVec)>,
    /// Options to begin with: section, name, value.
    pub config: Vec<(String, String, String)>,
    /// Entities to begin with, such as `client.admin`, with their keys.
    pub auth: BTreeMap<String, AuthEntry>,
    pub now: Utime,
}

/// Entities that every cluster begins with, and their capabilities by service: the monitors, the administrator, and
/// tools that make new daemons and clients.
const ENTITIES: &[(&str, &[(&str, &str)])] = &[
    (MONITORS, &[("mon", "allow *")]),
    ("client.admin", &[("mds", "allow *"), ("mgr", "allow *"), ("mon", "allow *"), ("osd", "allow *")]),
    ("client.bootstrap-mds", &[("mon", "allow profile bootstrap-mds")]),
    ("client.bootstrap-mgr", &[("mon", "allow profile bootstrap-mgr")]),
    ("client.bootstrap-osd", &[("mon", "allow profile bootstrap-osd")]),
    ("client.bootstrap-rbd", &[("mon", "allow profile bootstrap-rbd")]),
    ("client.bootstrap-rbd-mirror", &[("mon", "allow profile bootstrap-rbd-mirror")]),
    ("client.bootstrap-rgw", &[("mon", "allow profile bootstrap-rgw")]),
];

/// Returns the entities of a new cluster: those of a keyring, `file` with `text`, and with fresh keys those that every
/// cluster has.
///
/// Errors: the keyring cannot be read.
pub fn first_entities(
    keyring: Option<(&Path, &[u8])>,
    now: Utime,
    entropy: &mut dyn Entropy,
) -> Result<BTreeMap<String, AuthEntry>, KeyringError> {
    let ring = keyring.map(|(file, text)| Keyring::parse(file, text)).transpose()?.unwrap_or_default();
    let mut entities: BTreeMap<String, AuthEntry> =
        ring.entries.into_iter().map(|(name, entry)| (name.to_string(), entry.into())).collect();
    for (name, caps) in ENTITIES {
        entities.entry((*name).to_owned()).or_insert_with(|| AuthEntry {
            key: Key::generate(KeyKind::Aes, now, entropy),
            pending_key: None,
            caps: caps.iter().map(|(service, caps)| ((*service).to_owned(), (*caps).to_owned())).collect(),
        });
    }
    Ok(entities)
}

/// Returns the first batch of a cluster's log: its maps and its first options.
pub fn bootstrap(spec: &BootstrapSpec) -> Batch {
    let first = Update::Bootstrap {
        fsid: spec.fsid,
        monmap: first_monmap(spec).to_vec(Target::PACIFIC).into(),
        osdmap: first_osdmap(spec).to_vec(Target::PACIFIC).into(),
    };
    let options = spec.config.iter().map(|(who, name, value)| Update::Config {
        who: who.clone(),
        name: name.clone(),
        value: Some(value.clone()),
    });
    let keys =
        spec.auth.iter().map(|(entity, entry)| Update::Auth { entity: entity.clone(), entry: Some(entry.clone()) });
    Batch { stamp: spec.now, updates: std::iter::once(first).chain(options).chain(keys).collect() }
}

fn first_monmap(spec: &BootstrapSpec) -> MonMap {
    let mut map = MonMap::new(spec.fsid, spec.now);
    map.epoch = Epoch(1);
    for (name, addrs) in &spec.monitors {
        map.add(name, addrs.clone());
    }
    map
}

/// Returns the erasure code profile of a new cluster, as in Ceph.
fn default_profile() -> BTreeMap<String, String> {
    let pairs = [("k", "2"), ("m", "2"), ("plugin", "jerasure"), ("technique", "reed_sol_van")];
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn first_osdmap(spec: &BootstrapSpec) -> OsdMap {
    let mut crush = CrushMap::new();
    crush.add_bucket(ROOT, "root").expect("an empty map takes a root");
    crush.create_replicated_rule(RULE, ROOT, "host", None).expect("the root is there");
    let mut map = OsdMap::new(spec.fsid);
    map.epoch = Epoch(1);
    map.created = spec.now;
    map.modified = spec.now;
    map.crush = Arc::new(crush);
    map.require_osd_release = Release::PACIFIC;
    map.erasure_code_profiles.insert("default".to_owned(), default_profile());
    // From Mimic on, block images are cloned without protecting snapshots first.
    map.require_min_compat_client = Release::MIMIC;
    map
}

//! The first update of a cluster.

use crate::state::AuthEntry;
use crate::update::{Batch, Update};
use crush::CrushMap;
use osdmap::{MonMap, OsdMap};
use std::collections::BTreeMap;
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

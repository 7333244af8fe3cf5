//! Content of the log: decided changes.

use crate::state::image_tasks::TaskChange;
use crate::state::{AuthEntry, HealthMute, Hidden, LogEntry, PgRecord};
use auth::cephx::rotating::RotatingSecrets;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EntityType, Fsid, OsdId, PgId, Utime};
use wire::{Decode, DecodeError, Encode, EntityAddrVec, Reader, Writer};

/// One decided change. Applying it never fails and never depends on anything but the state and the update itself:
/// everything that has to be checked is checked before it is appended.
#[derive(Clone, PartialEq, Debug)]
pub enum Update {
    /// The first update of a cluster: its id, its first monitor map and its first full OSD map, encoded.
    Bootstrap { fsid: Fsid, monmap: Bytes, osdmap: Bytes },
    /// A new monitor map, encoded in full.
    MonMap(Bytes),
    /// The next epoch of the OSD map: an encoded `OSDMap::Incremental` with both checksums.
    OsdMap(Bytes),
    /// Sets (`Some`) or removes an option. `who` is a section: `global`, `osd`, `osd.3`, `client.admin`, with an
    /// optional mask as in `osd/host:a` or `osd/class:ssd`.
    Config { who: String, name: String, value: Option<String> },
    /// Sets or removes an entry of the key/value store (`ceph config-key`).
    ConfigKey { key: String, value: Option<Hidden> },
    /// Sets or removes an authentication entity such as `client.admin`.
    Auth { entity: String, entry: Option<AuthEntry> },
    /// An OSD's description of itself (`ceph osd metadata`); `None` forgets it.
    OsdMetadata { osd: OsdId, metadata: Option<BTreeMap<String, String>> },
    /// A monitor's description of itself, by name; `None` forgets it.
    MonMetadata { name: String, metadata: Option<BTreeMap<String, String>> },
    /// Placement groups began to serve: from now on they hold data that only these OSDs may have.
    PgActivated(Vec<(PgId, PgRecord)>),
    /// Global ids below `below` may have been handed out.
    GlobalIds { below: u64 },
    /// Lines for the cluster log. Their `seq` is assigned when applied.
    Log(Vec<LogEntry>),
    /// Mutes (`Some`) or unmutes a health code.
    HealthMute { code: String, mute: Option<HealthMute> },
    /// This server becomes the monitor of that name, reached at these addresses. The server that was the monitor before
    /// never becomes a member again.
    MonServer { name: String, server: u64, addrs: EntityAddrVec },
    /// The monitor of this name is removed. Its server never becomes a member again.
    MonGone { name: String },
    /// The monitor of this name leads since `since`; `addrs` are its addresses as the manager.
    Manager { name: String, addrs: EntityAddrVec, since: Utime },
    /// The operator confirms that a survivor knows all placement groups and pools that there are.
    Confirmed,
    /// Reason for the changes of options that come with it.
    ConfigNote(String),
    /// New secrets of a service.
    ServiceSecrets { service: EntityType, secrets: RotatingSecrets },
    /// A task about a block image is added, changes, or is over.
    ImageTask(TaskChange),
}

/// One record of the log: changes that happen together or not at all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Batch {
    /// Wall clock when it was decided.
    pub stamp: Utime,
    pub updates: Vec<Update>,
}

/// First byte of each kind of update, in stored logs and in messages between monitors. None may change its meaning.
mod tag {
    pub const BOOTSTRAP: u8 = 1;
    pub const MON_MAP: u8 = 2;
    pub const OSD_MAP: u8 = 3;
    pub const CONFIG: u8 = 4;
    pub const CONFIG_KEY: u8 = 5;
    pub const AUTH: u8 = 6;
    pub const OSD_METADATA: u8 = 7;
    pub const MON_METADATA: u8 = 8;
    pub const PG_ACTIVATED: u8 = 9;
    pub const GLOBAL_IDS: u8 = 10;
    pub const LOG: u8 = 11;
    pub const HEALTH_MUTE: u8 = 12;
    pub const MON_SERVER: u8 = 13;
    pub const MON_GONE: u8 = 14;
    pub const MANAGER: u8 = 15;
    pub const CONFIRMED: u8 = 16;
    pub const CONFIG_NOTE: u8 = 17;
    pub const SERVICE_SECRETS: u8 = 18;
    pub const IMAGE_TASK: u8 = 19;
}

impl Encode for Update {
    fn encode(&self, w: &mut Writer) {
        match self {
            Update::Bootstrap { fsid, monmap, osdmap } => tagged(w, tag::BOOTSTRAP, |w| {
                w.put(fsid);
                w.blob(monmap);
                w.blob(osdmap);
            }),
            Update::MonMap(map) => tagged(w, tag::MON_MAP, |w| w.blob(map)),
            Update::OsdMap(incremental) => tagged(w, tag::OSD_MAP, |w| w.blob(incremental)),
            Update::Config { who, name, value } => tagged(w, tag::CONFIG, |w| {
                w.str(who);
                w.str(name);
                w.put(value);
            }),
            Update::ConfigKey { key, value } => tagged(w, tag::CONFIG_KEY, |w| {
                w.str(key);
                w.put(value);
            }),
            Update::Auth { entity, entry } => tagged(w, tag::AUTH, |w| {
                w.str(entity);
                w.put(entry);
            }),
            Update::OsdMetadata { osd, metadata } => tagged(w, tag::OSD_METADATA, |w| {
                w.put(osd);
                w.put(metadata);
            }),
            Update::MonMetadata { name, metadata } => tagged(w, tag::MON_METADATA, |w| {
                w.str(name);
                w.put(metadata);
            }),
            Update::PgActivated(pgs) => tagged(w, tag::PG_ACTIVATED, |w| w.put(pgs)),
            Update::GlobalIds { below } => tagged(w, tag::GLOBAL_IDS, |w| w.u64(*below)),
            Update::Log(entries) => tagged(w, tag::LOG, |w| w.put(entries)),
            Update::HealthMute { code, mute } => tagged(w, tag::HEALTH_MUTE, |w| {
                w.str(code);
                w.put(mute);
            }),
            Update::MonServer { name, server, addrs } => tagged(w, tag::MON_SERVER, |w| {
                w.str(name);
                w.u64(*server);
                w.put(addrs);
            }),
            Update::MonGone { name } => tagged(w, tag::MON_GONE, |w| w.str(name)),
            Update::Manager { name, addrs, since } => tagged(w, tag::MANAGER, |w| {
                w.str(name);
                w.put(addrs);
                w.put(since);
            }),
            Update::Confirmed => tagged(w, tag::CONFIRMED, |_| ()),
            Update::ConfigNote(note) => tagged(w, tag::CONFIG_NOTE, |w| w.str(note)),
            Update::ServiceSecrets { service, secrets } => tagged(w, tag::SERVICE_SECRETS, |w| {
                w.u8(service.0);
                w.put(secrets);
            }),
            Update::ImageTask(change) => tagged(w, tag::IMAGE_TASK, |w| w.put(change)),
        }
    }
}

fn tagged(w: &mut Writer, tag: u8, body: impl FnOnce(&mut Writer)) {
    w.u8(tag);
    w.versioned(1, 1, body);
}

impl Decode for Update {
    const MIN_BYTES: usize = 7;

    fn decode(r: &mut Reader<'_>) -> Result<Update, DecodeError> {
        let found = r.u8()?;
        let (_, mut r) = r.versioned("update", 1)?;
        Ok(match found {
            tag::BOOTSTRAP => Update::Bootstrap { fsid: r.get()?, monmap: r.blob_bytes()?, osdmap: r.blob_bytes()? },
            tag::MON_MAP => Update::MonMap(r.blob_bytes()?),
            tag::OSD_MAP => Update::OsdMap(r.blob_bytes()?),
            tag::CONFIG => Update::Config { who: r.get()?, name: r.get()?, value: r.get()? },
            tag::CONFIG_KEY => Update::ConfigKey { key: r.get()?, value: r.get()? },
            tag::AUTH => Update::Auth { entity: r.get()?, entry: r.get()? },
            tag::OSD_METADATA => Update::OsdMetadata { osd: r.get()?, metadata: r.get()? },
            tag::MON_METADATA => Update::MonMetadata { name: r.get()?, metadata: r.get()? },
            tag::PG_ACTIVATED => Update::PgActivated(r.get()?),
            tag::GLOBAL_IDS => Update::GlobalIds { below: r.u64()? },
            tag::LOG => Update::Log(r.get()?),
            tag::HEALTH_MUTE => Update::HealthMute { code: r.get()?, mute: r.get()? },
            tag::MON_SERVER => Update::MonServer { name: r.get()?, server: r.u64()?, addrs: r.get()? },
            tag::MON_GONE => Update::MonGone { name: r.get()? },
            tag::MANAGER => Update::Manager { name: r.get()?, addrs: r.get()?, since: r.get()? },
            tag::CONFIRMED => Update::Confirmed,
            tag::CONFIG_NOTE => Update::ConfigNote(r.get()?),
            tag::SERVICE_SECRETS => Update::ServiceSecrets { service: EntityType(r.u8()?), secrets: r.get()? },
            tag::IMAGE_TASK => Update::ImageTask(r.get()?),
            other => return Err(DecodeError::Value { what: "update", value: other.into() }),
        })
    }
}

impl Encode for Batch {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.stamp);
            w.put(&self.updates);
        });
    }
}

impl Decode for Batch {
    const MIN_BYTES: usize = 18;

    fn decode(r: &mut Reader<'_>) -> Result<Batch, DecodeError> {
        let (_, mut r) = r.versioned("batch", 1)?;
        Ok(Batch { stamp: r.get()?, updates: r.get()? })
    }
}

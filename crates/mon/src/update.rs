//! Content of the log: decided changes.

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
    /// From now on this server is the monitor of that name, reached at these addresses. The server that was it before
    /// is no member any more, for good.
    MonServer { name: String, server: u64, addrs: EntityAddrVec },
    /// There is no monitor of this name any more; its server stays out, for good.
    MonGone { name: String },
    /// The monitor of this name leads since `since`; `addrs` are its addresses as the manager.
    Manager { name: String, addrs: EntityAddrVec, since: Utime },
    /// The operator confirms that a survivor knows all placement groups and pools that there are.
    Confirmed,
    /// Reason for the changes of options that come with it.
    ConfigNote(String),
    /// New secrets of a service.
    ServiceSecrets { service: EntityType, secrets: RotatingSecrets },
}

/// One record of the log: changes that happen together or not at all.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Batch {
    /// Wall clock when it was decided.
    pub stamp: Utime,
    pub updates: Vec<Update>,
}

impl Encode for Update {
    fn encode(&self, w: &mut Writer) {
        match self {
            Update::Bootstrap { fsid, monmap, osdmap } => tagged(w, 1, |w| {
                w.put(fsid);
                w.blob(monmap);
                w.blob(osdmap);
            }),
            Update::MonMap(map) => tagged(w, 2, |w| w.blob(map)),
            Update::OsdMap(incremental) => tagged(w, 3, |w| w.blob(incremental)),
            Update::Config { who, name, value } => tagged(w, 4, |w| {
                w.str(who);
                w.str(name);
                w.put(value);
            }),
            Update::ConfigKey { key, value } => tagged(w, 5, |w| {
                w.str(key);
                w.put(value);
            }),
            Update::Auth { entity, entry } => tagged(w, 6, |w| {
                w.str(entity);
                w.put(entry);
            }),
            Update::OsdMetadata { osd, metadata } => tagged(w, 7, |w| {
                w.put(osd);
                w.put(metadata);
            }),
            Update::MonMetadata { name, metadata } => tagged(w, 8, |w| {
                w.str(name);
                w.put(metadata);
            }),
            Update::PgActivated(pgs) => tagged(w, 9, |w| w.put(pgs)),
            Update::GlobalIds { below } => tagged(w, 10, |w| w.u64(*below)),
            Update::Log(entries) => tagged(w, 11, |w| w.put(entries)),
            Update::HealthMute { code, mute } => tagged(w, 12, |w| {
                w.str(code);
                w.put(mute);
            }),
            Update::MonServer { name, server, addrs } => tagged(w, 13, |w| {
                w.str(name);
                w.u64(*server);
                w.put(addrs);
            }),
            Update::MonGone { name } => tagged(w, 14, |w| w.str(name)),
            Update::Manager { name, addrs, since } => tagged(w, 15, |w| {
                w.str(name);
                w.put(addrs);
                w.put(since);
            }),
            Update::Confirmed => tagged(w, 16, |_| ()),
            Update::ConfigNote(note) => tagged(w, 17, |w| w.str(note)),
            Update::ServiceSecrets { service, secrets } => tagged(w, 18, |w| {
                w.u8(service.0);
                w.put(secrets);
            }),
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
        let tag = r.u8()?;
        let (_, mut r) = r.versioned("update", 1)?;
        Ok(match tag {
            1 => Update::Bootstrap { fsid: r.get()?, monmap: r.blob_bytes()?, osdmap: r.blob_bytes()? },
            2 => Update::MonMap(r.blob_bytes()?),
            3 => Update::OsdMap(r.blob_bytes()?),
            4 => Update::Config { who: r.get()?, name: r.get()?, value: r.get()? },
            5 => Update::ConfigKey { key: r.get()?, value: r.get()? },
            6 => Update::Auth { entity: r.get()?, entry: r.get()? },
            7 => Update::OsdMetadata { osd: r.get()?, metadata: r.get()? },
            8 => Update::MonMetadata { name: r.get()?, metadata: r.get()? },
            9 => Update::PgActivated(r.get()?),
            10 => Update::GlobalIds { below: r.u64()? },
            11 => Update::Log(r.get()?),
            12 => Update::HealthMute { code: r.get()?, mute: r.get()? },
            13 => Update::MonServer { name: r.get()?, server: r.u64()?, addrs: r.get()? },
            14 => Update::MonGone { name: r.get()? },
            15 => Update::Manager { name: r.get()?, addrs: r.get()?, since: r.get()? },
            16 => Update::Confirmed,
            17 => Update::ConfigNote(r.get()?),
            18 => Update::ServiceSecrets { service: EntityType(r.u8()?), secrets: r.get()? },
            tag => return Err(DecodeError::Value { what: "update", value: tag.into() }),
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

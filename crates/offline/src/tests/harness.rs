//! Stores with placement groups in them, on a simulated device.

use crate::{CheckReport, Device, Finding, OfflineError, OfflineStore, check};
use bytes::Bytes;
use pg::info::PgInfo;
use pg::log::{LogEntry, LogKind, log_key};
use pg::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use std::collections::BTreeMap;
use store::{IoDone, IoRequest, SimDevice, Step, Store, StoreConfig, Transaction};
use types::{EVersion, Epoch, Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::{Encode, Rope, Target};

/// A simulated device. A simple rule chooses which request completes next, so that not all complete in order.
pub struct SimFile {
    pub sim: SimDevice,
    pub writes: u64,
    /// The number of the write before which a crash is tried, and the device that the crash would leave.
    pub crash_before_write: Option<u64>,
    pub crashed: Option<SimDevice>,
    turn: usize,
}

impl SimFile {
    pub fn on(sim: SimDevice) -> SimFile {
        SimFile { sim, writes: 0, crash_before_write: None, crashed: None, turn: 0 }
    }

    /// Another device with the same content.
    pub fn copy(&self) -> SimFile {
        SimFile::on(self.sim.after_kill(&mut || 0))
    }
}

impl Device for SimFile {
    fn bytes_of(&self, device: store::Device) -> Option<u64> {
        self.sim.has(device).then(|| self.sim.part(device).bytes())
    }

    fn submit(&mut self, request: IoRequest) {
        if matches!(request, IoRequest::Write { .. } | IoRequest::Discard { .. }) {
            if self.crash_before_write == Some(self.writes) {
                let mut fate = self.writes;
                self.crashed = Some(self.sim.after_crash(&mut || {
                    fate = fate.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    fate >> 33
                }));
            }
            self.writes += 1;
        }
        self.sim.submit(request);
    }

    fn wait(&mut self) -> IoDone {
        self.turn += 1;
        self.sim.complete(self.turn % self.sim.queued())
    }
}

pub const POOL: PoolId = PoolId(3);
pub const PG_NUM: u32 = 4;

pub fn config() -> StoreConfig {
    let (fsid, uuid) = (Fsid([1; 16]), Fsid([2; 16]));
    StoreConfig::one_device(16 << 20, 256 << 10, fsid, OsdId(5), uuid)
}

pub fn formatted(config: &StoreConfig) -> SimFile {
    let mut sim = SimDevice::of(config);
    for request in Store::format(config).unwrap() {
        sim.submit(request);
        sim.complete(0).result.unwrap();
    }
    SimFile::on(sim)
}

pub fn open(device: SimFile) -> OfflineStore<SimFile> {
    OfflineStore::open(device).unwrap_or_else(|error| panic!("{error}"))
}

pub fn checked(device: SimFile) -> CheckReport {
    check(device, &mut |_, _| ()).unwrap_or_else(|error| panic!("{error}"))
}

/// The findings of a check, as texts.
pub fn findings(device: SimFile) -> Vec<String> {
    checked(device).findings.iter().map(Finding::to_string).collect()
}

/// An object of group `seed`.
pub fn object(seed: u32, number: u32) -> ObjectId {
    ObjectId::head(POOL, seed | number << 8, b"", format!("object-{number}").as_bytes())
}

pub fn bytes(len: usize, salt: u32) -> Vec<u8> {
    (0..len as u32).map(|i| (i.wrapping_mul(i | 1).wrapping_add(salt) >> (i % 7)) as u8).collect()
}

/// One group: log, information and objects that agree. Every update changes one object.
pub struct Group {
    pub pg: PgId,
    log: Vec<LogEntry>,
    pg_num: u32,
}

impl Group {
    pub fn new(seed: u32) -> Group {
        Group { pg: PgId { pool: POOL, seed }, log: Vec::new(), pg_num: PG_NUM }
    }

    /// A group as written by a version that did not record the number of groups.
    pub fn of_old(seed: u32) -> Group {
        Group { pg_num: 0, ..Group::new(seed) }
    }

    /// One update: the steps on the object, the log entry, the group's information.
    pub fn update(&mut self, object: &ObjectId, kind: LogKind, mut steps: Vec<Step>) -> Transaction {
        let version = EVersion { epoch: Epoch(7), version: self.log.len() as u64 + 1 };
        let entry = LogEntry::new(version, kind, object.clone());
        if kind == LogKind::Modify {
            let info = ObjectInfo { version, user_version: version.version, ..ObjectInfo::default() };
            let (name, value) = (OBJECT_INFO_ATTR.to_vec(), info.to_bytes());
            steps.push(Step::SetAttr { object: object.clone(), name, value });
        }
        let value = entry.to_vec(Target::default()).into();
        steps.push(Step::PgSet { key: log_key(version), value });
        self.log.push(entry);
        let info = PgInfo { last_update: version, complete: true, pg_num: self.pg_num, ..PgInfo::default() };
        steps.push(info.step());
        Transaction { pg: self.pg, steps }
    }

    /// Goes on from the state in the store.
    pub fn resume(&mut self, store: &mut OfflineStore<SimFile>) {
        self.log.clear();
        if store.store().pgs_contain(self.pg) {
            self.log = pg::PgTable::decode(store.pg_table(self.pg).unwrap()).unwrap().log;
        }
    }

    pub fn write(&mut self, object: &ObjectId, offset: u64, data: Vec<u8>) -> Transaction {
        let step = Step::Write { object: object.clone(), offset, data: Rope::from(data) };
        self.update(object, LogKind::Modify, vec![step])
    }
}

/// A store with two groups and objects of all kinds: large, small, sparse, with attributes, with omap, removed.
pub fn filled() -> SimFile {
    filled_by(Group::new)
}

pub fn filled_by(group: impl Fn(u32) -> Group) -> SimFile {
    filled_on(&config(), group)
}

pub fn filled_on(config: &StoreConfig, group: impl Fn(u32) -> Group) -> SimFile {
    let mut store = open(formatted(config));
    for seed in [1, 2] {
        let mut group = group(seed);
        let mut submit = |txn: Transaction| store.submit(txn).unwrap();
        submit(group.write(&object(seed, 0), 0, bytes(2_500_000, seed)));
        submit(group.write(&object(seed, 1), 0, bytes(100, seed)));
        let sparse = object(seed, 2);
        submit(group.write(&sparse, 70_000, bytes(9_000, seed)));
        submit(group.write(&sparse, 300_000, bytes(1, seed)));
        let rich = object(seed, 3);
        let entries = |from: u32| (from..from + 700).map(|n| (Bytes::from(format!("k{n:05}")), bytes(40, n).into()));
        let attr = Step::SetAttr { object: rich.clone(), name: b"_user".to_vec(), value: bytes(3000, seed).into() };
        let omap = (0..4).map(|n| Step::OmapSet { object: rich.clone(), entries: entries(n * 700).collect() });
        let header = Step::OmapSetHeader { object: rich.clone(), header: "header".into() };
        submit(group.update(&rich, LogKind::Modify, omap.chain([attr, header]).collect()));
        submit(group.write(&object(seed, 4), 0, bytes(5000, seed)));
        submit(group.update(&object(seed, 4), LogKind::Delete, vec![Step::Remove { object: object(seed, 4) }]));
        submit(group.update(&object(seed, 9), LogKind::Unchanged, Vec::new()));
    }
    store.settle(false).unwrap();
    store.into_device().copy()
}

/// Everything that a store says about an object.
#[derive(Clone, PartialEq, Eq)]
pub struct Content {
    pub bytes: Result<Vec<u8>, String>,
    pub attrs: Vec<(Vec<u8>, Bytes)>,
    pub omap: Vec<(Bytes, Bytes)>,
    pub header: Bytes,
    pub extents: Vec<(u64, u64)>,
}

/// Objects, and tables of groups.
pub type Contents = (BTreeMap<ObjectId, Content>, BTreeMap<PgId, Vec<(Bytes, Bytes)>>);

pub fn contents(device: SimFile) -> Contents {
    let mut store = open(device);
    let mut objects = BTreeMap::new();
    store
        .for_each_object(&ObjectId::min(), &ObjectId::max(), |store, object| {
            let stat = store.ready(|store| store.stat(&object))?.expect("listed");
            let read = store.begin_read(&object, 0, u64::MAX);
            let bytes = store.finish_read(read)?.map(|data| data.to_vec()).map_err(|error| error.to_string());
            let mut omap = Vec::new();
            store.for_each_omap_page(&object, |page| {
                omap.extend_from_slice(page);
                Ok(())
            })?;
            let content = Content {
                bytes,
                attrs: stat.attrs.iter().map(|(name, value)| (name.to_vec(), value.clone())).collect(),
                omap,
                header: store.ready(|store| store.omap_header(&object))?,
                extents: store.ready(|store| store.extents(&object, 0, u64::MAX))?,
            };
            objects.insert(object, content);
            Ok::<(), OfflineError>(())
        })
        .unwrap();
    let pgs = store.store().pgs();
    let tables = pgs.into_iter().map(|pg| (pg, store.pg_table(pg).unwrap())).collect();
    (objects, tables)
}

/// Device offset of a block of an object.
pub fn place(device: SimFile, object: &ObjectId, offset: u64) -> u64 {
    let mut store = open(device);
    let extents = store.ready(|store| store.placement(object, offset, 1)).unwrap();
    extents[0].device_offset
}

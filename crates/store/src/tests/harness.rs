//! A store on a simulated device beside a model, driven by a seed.

use super::model::{Model, ModelObject};
use crate::btree::{self, Damage, Depth, PageCache, Walk, WalkProgress};
use crate::metadata::jobs::CopyRules;
use crate::space::run::Run;
use crate::{
    IoId, IoRequest, Lookup, LookupId, Memory, OpenError, Opening, ReadError, SNAPS_ATTR, SimDevice, Step, StopReason,
    Store, StoreConfig, StoreEvent, SubmitError, Ticket, Transaction, Tuning, UNKNOWN_SNAP,
};
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use types::{AlignedBuf, Fsid, ObjectId, OsdId, PgId, PoolId, SnapId};
use wire::Rope;

/// Xorshift64*: gives the same numbers for the same seed, everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        // The bytes differ between calls and are cheap to make.
        let word = self.next();
        (0..len as u64).map(|i| (word.wrapping_add(i.wrapping_mul(i | 1)) >> (i % 8)) as u8).collect()
    }
}

pub const KIB: u64 = 1024;

pub fn config() -> StoreConfig {
    StoreConfig::one_device(4 << 20, 64 * KIB, Fsid([1; 16]), OsdId(7), Fsid([2; 16]))
}

pub fn object(number: u64) -> ObjectId {
    ObjectId::head(PoolId(1), (number as u32).wrapping_mul(0x9e37_79b9), b"", format!("object-{number}").as_bytes())
}

pub const PG: PgId = PgId::new(1, 0);

pub fn txn(steps: Vec<Step>) -> Transaction {
    Transaction { pg: PG, steps }
}

pub fn write(number: u64, offset: u64, data: impl Into<Vec<u8>>) -> Step {
    Step::Write { object: object(number), offset, data: Rope::from(data.into()) }
}

pub fn formatted(config: &StoreConfig) -> SimDevice {
    let mut device = SimDevice::of(config);
    for request in Store::format(config).unwrap() {
        device.submit(request);
        device.complete(0).result.unwrap();
    }
    device
}

/// Opens the store on a device, which the opening must not write to.
pub fn open(device: &mut SimDevice, config: &StoreConfig) -> Result<Store, OpenError> {
    finish_opening(device, Store::open(StoreConfig { tuning: next_tuning(), ..config.clone() }))
}

/// Returns the tuning of the next opening of this test: each combination in turn.
pub fn next_tuning() -> Tuning {
    thread_local!(static OPENINGS: Cell<u32> = const { Cell::new(0) });
    let number = OPENINGS.replace(OPENINGS.get() + 1);
    let usual = Tuning::default();
    let segments_at_once = if number.is_multiple_of(2) { usual.segments_at_once } else { 0 };
    Tuning { segments_at_once, counts_anew: (number / 2).is_multiple_of(2) }
}

/// Finishes an opening that was begun.
pub fn finish_opening(device: &mut SimDevice, mut opening: Opening) -> Result<Store, OpenError> {
    loop {
        if let Some(result) = opening.poll_result() {
            return result;
        }
        while let Some(request) = opening.poll_io() {
            assert!(matches!(request, IoRequest::Read { .. } | IoRequest::Flush { .. }), "opening writes: {request:?}");
            device.submit(request);
        }
        assert!(device.queued() > 0, "opening waits for nothing");
        opening.io_done(device.complete(0));
    }
}

/// Reads to the end, whatever else the store does meanwhile.
pub fn read(
    store: &mut Store,
    device: &mut SimDevice,
    object: &ObjectId,
    offset: u64,
    len: u64,
) -> Result<Rope, ReadError> {
    finish(store, device, |store| store.read(object, offset, len))
}

/// Finishes a read that `begin` begins.
pub fn finish(
    store: &mut Store,
    device: &mut SimDevice,
    begin: impl FnOnce(&mut Store) -> Lookup<Rope>,
) -> Result<Rope, ReadError> {
    let wanted = match begin(store) {
        Lookup::Ready(data) => return Ok(data),
        Lookup::Pending(id) => id,
        Lookup::Damaged(damage) => panic!("{damage}"),
    };
    loop {
        while let Some(event) = store.poll_event() {
            match event {
                StoreEvent::ReadDone { id, result } if id == wanted => return result,
                StoreEvent::Failed { reason } => panic!("{reason}"),
                _ => {}
            }
        }
        while let Some(request) = store.poll_io() {
            device.submit(request);
        }
        assert!(device.queued() > 0, "the read waits for nothing");
        store.io_done(device.complete(0));
    }
}

pub fn ready<T>(lookup: Lookup<T>) -> T {
    match lookup {
        Lookup::Ready(value) => value,
        Lookup::Pending(id) => panic!("{id:?} is pending"),
        Lookup::Damaged(damage) => panic!("{damage}"),
    }
}

/// Asks until there is an answer, whatever else the store does meanwhile.
pub fn ask<T>(
    store: &mut Store,
    device: &mut SimDevice,
    mut question: impl FnMut(&mut Store) -> Lookup<T>,
) -> Result<T, Damage> {
    loop {
        let wanted = match question(store) {
            Lookup::Ready(value) => return Ok(value),
            Lookup::Damaged(damage) => return Err(damage),
            Lookup::Pending(id) => id,
        };
        loop {
            let mut done = false;
            while let Some(event) = store.poll_event() {
                match event {
                    StoreEvent::LookupDone(id) => done |= id == wanted,
                    StoreEvent::Failed { reason } => panic!("{reason}"),
                    _ => {}
                }
            }
            if done {
                break;
            }
            while let Some(request) = store.poll_io() {
                device.submit(request);
            }
            assert!(device.queued() > 0, "the lookup waits for nothing");
            store.io_done(device.complete(0));
        }
    }
}

/// Returns the store's whole content. Bytes that fail their checksum fail the test.
pub fn contents(store: &mut Store, device: &mut SimDevice) -> Model {
    let mut model = Model::default();
    for id in ask(store, device, |store| store.list(&ObjectId::min(), &ObjectId::max(), usize::MAX)).unwrap() {
        let stat = ask(store, device, |store| store.stat(&id)).unwrap().expect("listed");
        let data = read(store, device, &id, 0, u64::MAX).unwrap().to_vec();
        assert_eq!(data.len() as u64, stat.size_bytes);
        let (omap, more) = ask(store, device, |store| store.omap_list(&id, b"", b"", usize::MAX)).unwrap();
        assert!(!more && (stat.has_omap || omap.is_empty()));
        let attrs = stat.attrs.iter().map(|(name, value)| (name.to_vec(), value.clone())).collect();
        let header = ask(store, device, |store| store.omap_header(&id)).unwrap();
        model.objects.insert(id, ModelObject { data: Arc::new(data), attrs, omap: omap.into_iter().collect(), header });
    }
    clones_are_listed(store, device, &model);
    for pg in store.pgs() {
        assert!(store.pgs_contain(pg));
        for (key, value) in ask(store, device, |store| store.pg_list(pg, b"", &[0xff; 40], usize::MAX)).unwrap() {
            model.pgs.insert((pg, key), value);
        }
    }
    model
}

/// Checks that the list has all clones under their snapshots, and nothing else.
fn clones_are_listed(store: &mut Store, device: &mut SimDevice, model: &Model) {
    if !store.lists_clones() {
        return;
    }
    let mut expected: BTreeSet<(SnapId, ObjectId)> = BTreeSet::new();
    for (id, object) in model.objects.iter().filter(|(id, _)| id.is_clone() && !id.pool.is_beside()) {
        let snaps = object.attrs.get(SNAPS_ATTR).map_or(&[][..], |snaps| snaps).chunks_exact(8);
        let snaps = snaps.map(|snap| SnapId(u64::from_le_bytes(snap.try_into().unwrap())));
        let unknown = (snaps.len() == 0).then_some(UNKNOWN_SNAP);
        expected.extend(snaps.chain(unknown).map(|snap| (snap, id.clone())));
    }
    let pools: BTreeSet<PoolId> =
        [1, 3].map(PoolId).into_iter().chain(expected.iter().map(|(_, id)| id.pool)).collect();
    let snaps: BTreeSet<SnapId> = (0..20).map(SnapId).chain(expected.iter().map(|(snap, _)| *snap)).collect();
    let mut found = BTreeSet::new();
    for (pool, snap) in pools.into_iter().flat_map(|pool| snaps.iter().map(move |snap| (pool, *snap))) {
        let from = ObjectId { pool, ..ObjectId::min() };
        let clones = ask(store, device, |store| store.clones_of(snap, &from, &ObjectId::max(), usize::MAX)).unwrap();
        found.extend(clones.into_iter().map(|clone| (snap, clone)));
    }
    assert!(expected.is_subset(&found), "{expected:?} in {found:?}");
    // Destroyed content is looked at bit by bit, so the list may still have it.
    assert!(found == expected || !store.state.destroying.is_empty(), "{expected:?} are {found:?}");
}

/// One object as a store on a bad drive gives it.
struct FoundObject {
    size: usize,
    /// Content block by block; `None` where there was an error.
    blocks: Vec<Option<Vec<u8>>>,
    attrs: BTreeMap<Vec<u8>, Bytes>,
    /// `None`: an error.
    omap: Option<BTreeMap<Bytes, Bytes>>,
    header: Bytes,
}

/// The content of a store on a bad drive, with all its errors.
#[derive(Default)]
pub struct FoundContent {
    /// `None`: an error. Without a list there are no objects at all.
    objects: BTreeMap<ObjectId, Option<FoundObject>>,
    has_list: bool,
    /// Tables of the groups; `None`: an error.
    pgs: BTreeMap<PgId, Option<BTreeMap<Bytes, Bytes>>>,
    pub errors: Vec<ReadError>,
    pub reads: u64,
    pub damaged: Vec<Damage>,
}

impl FoundContent {
    /// Returns true if the content is the model's, except for errors.
    pub fn is(&self, model: &Model) -> bool {
        let same = |(found, model): (&Option<FoundObject>, &ModelObject)| {
            let Some(found) = found else { return true };
            let blocks = found.blocks.iter().zip(model.data.chunks(4096));
            found.size == model.data.len()
                && (&found.attrs, &found.header) == (&model.attrs, &model.header)
                && found.omap.as_ref().is_none_or(|omap| *omap == model.omap)
                && blocks.into_iter().all(|(found, model)| found.as_ref().is_none_or(|found| found == model))
        };
        let group = |(pg, found): (&PgId, &Option<BTreeMap<Bytes, Bytes>>)| {
            let model = model.pgs.iter().filter(|((of, _), _)| of == pg).map(|((_, key), value)| (key, value));
            found.as_ref().is_none_or(|found| found.iter().eq(model))
        };
        let objects =
            self.objects.keys().eq(model.objects.keys()) && self.objects.values().zip(model.objects.values()).all(same);
        model.pgs.keys().all(|(pg, _)| self.pgs.contains_key(pg))
            && self.pgs.iter().all(group)
            && (objects || !self.has_list)
    }
}

/// Returns the store's whole content; collects errors of reads.
pub fn found(store: &mut Store, device: &mut SimDevice) -> FoundContent {
    // Cached data from before the damage must not hide it.
    store.set_block_cache_bytes(0);
    let mut found = FoundContent::default();
    macro_rules! ask {
        ($question:expr) => {
            ask(store, device, $question).map_err(|damage| found.damaged.push(damage)).ok()
        };
    }
    let list = ask!(|store| store.list(&ObjectId::min(), &ObjectId::max(), usize::MAX));
    found.has_list = list.is_some();
    for id in list.into_iter().flatten() {
        let Some(stat) = ask!(|store| store.stat(&id)) else {
            found.objects.insert(id, None);
            continue;
        };
        let stat = stat.expect("listed");
        let mut blocks = Vec::new();
        for at in (0..stat.size_bytes).step_by(4096) {
            found.reads += 1;
            let result = read(store, device, &id, at, 4096);
            blocks.push(result.map(|data| data.to_vec()).map_err(|error| found.errors.push(error)).ok());
        }
        // One read of everything must also show what is bad in any block.
        let whole = read(store, device, &id, 0, u64::MAX);
        assert_eq!(whole.is_err(), blocks.iter().any(Option::is_none), "{id}");
        let object = FoundObject {
            size: stat.size_bytes as usize,
            blocks,
            attrs: stat.attrs.iter().map(|(name, value)| (name.to_vec(), value.clone())).collect(),
            omap: ask!(|store| store.omap_list(&id, b"", b"", usize::MAX)).map(|(omap, _)| omap.into_iter().collect()),
            header: ask!(|store| store.omap_header(&id)).expect("it comes with the head"),
        };
        found.objects.insert(id, Some(object));
    }
    for pg in store.pgs() {
        let entries = ask!(|store| store.pg_list(pg, b"", &[0xff; 40], usize::MAX));
        found.pgs.insert(pg, entries.map(|entries| entries.into_iter().collect()));
    }
    found
}

/// A store, its device, the model, and all models since the last commit.
pub struct Bench {
    pub config: StoreConfig,
    pub store: Store,
    pub device: SimDevice,
    pub random: Random,
    pub model: Model,
    /// The model after each transaction that is not known to be durable, and after the last one that is.
    pub history: VecDeque<(Ticket, u64, Model)>,
    reads: BTreeMap<LookupId, Vec<u8>>,
    /// Objects whose size is asked for.
    lookups: BTreeMap<LookupId, ObjectId>,
    /// Lookups that [`Bench::ask`] waits for; true if they are done.
    asked: BTreeMap<LookupId, bool>,
    pub damaged_lookups: u64,
    /// True if the store may stop.
    pub may_fail: bool,
    pub failed: Option<StopReason>,
    pub objects: u64,
    pub commits: u64,
    pub refused: u64,
    /// Writes lie within this many bytes of an object.
    pub span_bytes: u64,
    /// True if all offsets and lengths are whole blocks, so that no block is made of an older one.
    pub aligned_only: bool,
    /// True if models of committed transactions stay in the history too.
    pub keep_history: bool,
    /// The last ticket of each turn that was committed while the history is kept.
    pub committed: Vec<Ticket>,
    /// True if some requests take much longer than others.
    pub stragglers: bool,
    /// Number of completions so far, and requests that are not done before their number.
    completions: u64,
    slow: BTreeMap<IoId, u64>,
}

impl Bench {
    pub fn new(seed: u64) -> Bench {
        Bench::with(config(), seed)
    }

    pub fn with(config: StoreConfig, seed: u64) -> Bench {
        let mut device = formatted(&config);
        let mut store = open(&mut device, &config).unwrap();
        // The cache is off, very small (no entry fits), small, or large.
        store.set_block_cache_bytes([0, 2 << 10, 40 << 10, 400 << 10][(seed / 4 % 4) as usize]);
        // Overlapping turns and preparing ahead are on for some seeds and off for others.
        if seed % 2 == 1 {
            store.prepare_ahead_by(256);
        }
        if seed % 4 < 2 {
            store.turns.overlap_bytes_min = 0;
        }
        Bench::on(config, store, device, Model::default(), Random::new(seed))
    }

    pub fn on(config: StoreConfig, mut store: Store, device: SimDevice, model: Model, random: Random) -> Bench {
        // With little memory, much has to be read again; if changes fill their memory, checkpoints are frequent.
        let mut fate = random.clone();
        if fate.chance(2) {
            let page_bytes = fate.below(4) as usize * 8192;
            let overlay_bytes = if fate.chance(3) { 3000 } else { 1 << 20 };
            store.set_memory(Memory { page_bytes, onode_bytes: fate.below(3000) as usize, overlay_bytes });
        }
        // Segments leave their objects all at once, or bit by bit.
        store.state.segments_at_once = [0, 1, 1000][fate.below(3) as usize];
        // Clones of everything with an omap or blocks are copied first, or only those of large objects.
        store.state.copy_rules = match fate.below(4) {
            0 => CopyRules::default(),
            rules => CopyRules {
                at_once_segments: 0,
                slice_entries: [1, 4, 200][fate.below(3) as usize],
                replayed_bytes: if rules == 1 { 0 } else { 200 },
            },
        };
        let history = VecDeque::from([(Ticket(0), model.digest(), model.clone())]);
        // Data is moved in every second history.
        let mut store = store;
        if random.clone().chance(2) {
            store.relocation.be_eager();
        }
        Bench {
            config,
            store,
            device,
            random,
            model,
            history,
            reads: BTreeMap::new(),
            lookups: BTreeMap::new(),
            asked: BTreeMap::new(),
            damaged_lookups: 0,
            may_fail: false,
            failed: None,
            objects: 6,
            commits: 0,
            refused: 0,
            span_bytes: 48 * KIB,
            aligned_only: false,
            keep_history: false,
            committed: Vec::new(),
            stragglers: false,
            completions: 0,
            slow: BTreeMap::new(),
        }
    }

    pub fn submit(&mut self, txn: Transaction) -> Result<Ticket, SubmitError> {
        let ticket = self.store.submit(txn.clone())?;
        self.submitted(ticket, &txn);
        Ok(ticket)
    }

    /// Submits a transaction that must not be refused.
    pub fn submit_owed(&mut self, txn: Transaction) {
        let ticket = self.store.submit_owed(txn.clone()).expect("there is room for it");
        self.submitted(ticket, &txn);
    }

    fn submitted(&mut self, ticket: Ticket, txn: &Transaction) {
        self.model.apply(txn);
        self.history.push_back((ticket, self.model.digest(), self.model.clone()));
    }

    fn some_object(&mut self) -> ObjectId {
        object(self.random.below(self.objects))
    }

    fn some_bytes(&mut self) -> Bytes {
        let len = self.random.below(40) as usize;
        self.random.bytes(len).into()
    }

    fn some_key(&mut self) -> Bytes {
        Bytes::from(format!("key-{}", self.random.below(12)))
    }

    /// Returns offset and length within about the first `span_bytes`, half of the time on block boundaries.
    fn some_range(&mut self) -> (u64, u64) {
        let span = self.span_bytes;
        if self.random.chance(2) || self.aligned_only {
            let (offsets, lengths) = ((span / 6144).max(1), (span / 12_288).max(1));
            return (self.random.below(offsets) * 4096, (1 + self.random.below(lengths)) * 4096);
        }
        if self.random.chance(4) {
            // The sizes are about those of bytes kept in records.
            return (self.random.below(900), self.random.below(1000));
        }
        let len = if self.random.chance(2) { self.random.below(300) } else { self.random.below(span / 3) };
        (self.random.below(span / 3 * 2), len)
    }

    fn some_data(&mut self, len: usize) -> Rope {
        let bytes = self.random.bytes(len);
        match self.random.below(3) {
            0 => AlignedBuf::copy_from(&bytes).freeze().into(),
            1 => Rope::from(bytes),
            _ => {
                let cut = self.random.below(len as u64 + 1) as usize;
                let (a, b) = bytes.split_at(cut);
                [AlignedBuf::copy_from(a).freeze(), Bytes::copy_from_slice(b)].into_iter().collect()
            }
        }
    }

    pub fn some_step(&mut self, exists: &Model) -> Step {
        let object = self.some_object();
        let (offset, len) = self.some_range();
        match self.random.below(24) {
            0..=6 => Step::Write { object, offset, data: self.some_data(len as usize) },
            // Bytes that are added to a bad block make another bad one.
            7 if !self.aligned_only => Step::Xor { object, offset, data: self.some_data(len as usize) },
            7 => Step::Write { object, offset, data: self.some_data(len as usize) },
            8 => Step::Zero { object, offset, len },
            9 => Step::Truncate { object, size: if self.random.chance(2) { offset } else { 0 } },
            10 => Step::Remove { object },
            11 => Step::Touch { object },
            12 | 13 => Step::SetAttr { object, name: self.some_key().to_vec(), value: self.some_bytes() },
            14 => Step::RemoveAttr { object, name: self.some_key().to_vec() },
            15 => {
                let count = self.random.below(4);
                let entries = (0..count).map(|_| (self.some_key(), self.some_bytes())).collect();
                Step::OmapSet { object, entries }
            }
            16 => Step::OmapRemove { object, keys: vec![self.some_key(), self.some_key()] },
            17 => Step::OmapRemoveRange { object, begin: self.some_key(), end: self.some_key() },
            18 if self.random.chance(3) => Step::OmapClear { object },
            18 => Step::OmapSetHeader { object, header: self.some_bytes() },
            19 if exists.objects.contains_key(&object) => {
                let target = self.some_object();
                let shift = self.random.below(5) * 4096;
                if self.random.chance(2) || (target == object && shift < len) {
                    return Step::Clone { from: object, to: target };
                }
                let (source_offset, target_offset) = match self.random.chance(2) {
                    true => (offset, offset + shift),
                    false => (offset + shift, offset),
                };
                Step::CloneRange { source: object, target, source_offset, length: len, target_offset }
            }
            20 if self.random.chance(10) => Step::PgDestroy { pg_num: 1 + self.random.below(5) as u32 },
            21 => Step::PgRemove { key: self.some_key() },
            22 => Step::PgRemoveRange { begin: self.some_key(), end: self.some_key() },
            _ => Step::PgSet { key: self.some_key(), value: self.some_bytes() },
        }
    }

    pub fn some_transaction(&mut self) -> Transaction {
        let pg = PgId::new(1, self.random.below(2) as u32);
        let mut after = self.model.clone();
        let mut txn = Transaction { pg, steps: Vec::new() };
        for _ in 0..1 + self.random.below(3) {
            let step = self.some_step(&after);
            after.apply(&Transaction { pg, steps: vec![step.clone()] });
            txn.steps.push(step);
        }
        txn
    }

    /// Reads a random range, and compares it with the model at once or when the read is done.
    pub fn check_some_read(&mut self) {
        let object = self.some_object();
        let (offset, len) = self.some_range();
        let model = self.model.objects.get(&object);
        let data = model.map_or(&[][..], |object| &object.data[..]);
        let begin = (offset as usize).min(data.len());
        let expected = data[begin..(begin + len as usize).min(data.len())].to_vec();
        match self.store.read(&object, offset, len) {
            Lookup::Ready(found) => assert_eq!(found.to_vec(), expected, "{object} {offset}+{len}"),
            Lookup::Pending(id) => drop(self.reads.insert(id, expected)),
            Lookup::Damaged(damage) => {
                assert!(self.may_fail, "{damage}");
                self.damaged_lookups += 1;
            }
        }
        self.check_size(object);
    }

    /// Compares an object's size with the model, at once or when it is known.
    fn check_size(&mut self, object: ObjectId) {
        match self.store.stat(&object) {
            Lookup::Ready(stat) => {
                let expected = self.model.objects.get(&object).map(|object| object.data.len() as u64);
                assert_eq!(stat.map(|stat| stat.size_bytes), expected, "{object}");
            }
            Lookup::Pending(id) => drop(self.lookups.insert(id, object)),
            Lookup::Damaged(damage) => {
                assert!(self.may_fail, "{damage}");
                self.damaged_lookups += 1;
            }
        }
    }

    /// Asks until there is an answer; handles everything that happens meanwhile.
    pub fn ask<T>(&mut self, mut question: impl FnMut(&mut Store) -> Lookup<T>) -> T {
        loop {
            let id = match question(&mut self.store) {
                Lookup::Pending(id) => id,
                lookup => return ready(lookup),
            };
            self.asked.insert(id, false);
            let mut turns = 0;
            while !self.asked[&id] {
                self.pump();
                if self.device.queued() == 0 {
                    // A clone that the lookup waits for moves on in turns.
                    turns += 1;
                    assert!(turns < 1000, "{id:?} waits for nothing");
                    self.store.end_turn();
                    self.pump();
                }
                self.complete_some();
                self.events();
            }
            self.asked.remove(&id);
        }
    }

    pub fn submit_some(&mut self) {
        let txn = self.some_transaction();
        match self.submit(txn) {
            Ok(_) => {}
            Err(SubmitError::NoSpace { .. }) => self.refused += 1,
            Err(SubmitError::Stopped(_)) if self.may_fail => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Does the first half of a turn of a caller's loop: queues all requests.
    pub fn begin_turn(&mut self) {
        for _ in 0..self.random.below(4) {
            self.submit_some();
        }
        for _ in 0..self.random.below(3) {
            self.check_some_read();
        }
        self.store.end_turn();
        self.pump();
    }

    /// Does one turn of a caller's loop.
    pub fn turn(&mut self) {
        self.begin_turn();
        for _ in 0..self.random.below(6) {
            self.complete_some();
        }
        self.events();
    }

    /// Submits steps and reads something in a turn of their own, of which some requests complete.
    pub fn turn_of(&mut self, steps: Vec<Step>) {
        self.submit(txn(steps)).unwrap();
        self.check_some_read();
        self.store.end_turn();
        self.pump();
        for _ in 0..self.random.below(4) {
            self.complete_some();
        }
        self.events();
    }

    pub fn pump(&mut self) {
        while let Some(request) = self.store.poll_io() {
            self.device.submit(request);
        }
    }

    /// Completes one of the queued requests, chosen at random.
    pub fn complete_some(&mut self) {
        if self.device.queued() > 0 {
            let index = self.some_queued();
            self.store.io_done(self.device.complete(index));
            self.pump();
        }
    }

    fn some_queued(&mut self) -> usize {
        let count = self.device.queued();
        let first = self.random.below(count as u64) as usize;
        if !self.stragglers {
            return first;
        }
        self.completions += 1;
        if self.random.chance(10) {
            self.slow.insert(self.device.queued_id(first), self.completions + 60);
        }
        let due = |index: &usize| {
            self.slow.get(&self.device.queued_id(*index)).is_none_or(|until| *until <= self.completions)
        };
        (0..count).map(|step| (first + step) % count).find(due).unwrap_or(first)
    }

    pub fn events(&mut self) {
        let may_fail = self.may_fail;
        self.events_with_errors(|_, error| assert!(may_fail && matches!(error, ReadError::Metadata { .. }), "{error}"));
    }

    /// Handles events. Reads may fail if `accept` lets their errors pass. Returns the number of reads done and of those
    /// failed.
    pub fn events_with_errors(&mut self, accept: impl Fn(&SimDevice, &ReadError)) -> (u64, u64) {
        let (mut reads, mut errors) = (0, 0);
        while let Some(event) = self.store.poll_event() {
            match event {
                StoreEvent::Committed(ticket) => {
                    self.commits += 1;
                    if self.keep_history {
                        self.committed.push(ticket);
                        continue;
                    }
                    assert!(self.history[0].0 < ticket, "{ticket:?} is committed twice or never was submitted");
                    while self.history[0].0 < ticket {
                        self.history.pop_front();
                    }
                }
                StoreEvent::ReadDone { id, result } => {
                    let expected = self.reads.remove(&id).expect("a read that was begun");
                    reads += 1;
                    match result {
                        Ok(data) => assert_eq!(data.to_vec(), expected),
                        Err(error) => {
                            errors += 1;
                            accept(&self.device, &error);
                        }
                    }
                }
                StoreEvent::LookupDone(id) => {
                    if let Some(object) = self.lookups.remove(&id) {
                        self.check_size(object);
                    } else {
                        *self.asked.get_mut(&id).expect("a lookup that was asked for") = true;
                    }
                }
                StoreEvent::Failed { reason } if self.may_fail => self.failed = Some(*reason),
                StoreEvent::Failed { reason } => panic!("{reason}"),
            }
        }
        (reads, errors)
    }

    /// Makes turns until nothing is under way.
    pub fn settle(&mut self) {
        let mut turns = 0;
        loop {
            self.store.end_turn();
            self.pump();
            while self.device.queued() > 0 {
                self.complete_some();
            }
            self.events();
            if self.store.is_idle() {
                break;
            }
            turns += 1;
            assert!(turns < 10_000, "never idle");
        }
        assert!(self.reads.is_empty() && self.lookups.is_empty() && self.history.len() == 1);
    }

    /// Returns the blocks of the tree as of the last checkpoint.
    pub fn tree_runs(&self) -> Vec<Run> {
        let state = &self.store.state;
        let media = self.device.part(self.store.superblock.tree_device());
        let mut cache = PageCache::new(state.cache.tag(), usize::MAX);
        let mut walk = Walk::new(state.root, Depth::Space);
        let mut runs = Vec::new();
        let mut found = |found: btree::Found| match found {
            btree::Found::Page { run, .. } | btree::Found::Overflow { run } => runs.push(run),
            btree::Found::Damage(lost) => panic!("{}", lost.damage),
        };
        while walk.step(&mut cache, 1000, &mut found) != WalkProgress::Done {
            while let Some(read) = cache.poll_read() {
                cache.read_done(read.id, Ok(media.read(read.run.offset_bytes(), read.run.len_bytes())));
            }
        }
        runs
    }

    /// Checks that one thing holds every block of the device, and that the store has the model's content.
    pub fn check_all(&mut self) {
        assert!(self.store.blocks_add_up(), "blocks are lost or held twice");
        let found = contents(&mut self.store, &mut self.device);
        assert_eq!(found, self.model);
    }

    /// Opens the store on `device`, and finds the transaction, among those not known to be durable, that it ends with.
    pub fn reopen(&self, mut device: SimDevice) -> (Store, SimDevice, usize) {
        let mut store = open(&mut device, &self.config).unwrap_or_else(|error| panic!("{error}"));
        let found = contents(&mut store, &mut device);
        let digest = found.digest();
        let at = self.history.iter().position(|(_, known, _)| *known == digest).unwrap_or_else(|| {
            let (first, last) = (&self.history[0], &self.history[self.history.len() - 1]);
            panic!(
                "found {found:#?}\nneither {:?}, which was committed, {:#?}\nnor any up to {:?}, {:#?}",
                first.0, first.2, last.0, last.2
            )
        });
        assert!(store.blocks_add_up());
        (store, device, at)
    }
}

//! Updates of parts of a shard are taken back on a store.

use crate::coded::undo::{ShardRange, Undo, kept_back};
use bytes::Bytes;
use store::{Lookup, SimDevice, Step, Store, StoreConfig, StoreEvent, Transaction};
use types::{EVersion, Fsid, ObjectId, OsdId, PgId, PoolId};
use wire::Rope;

struct OneStore {
    store: Store,
    device: SimDevice,
    random: u64,
}

/// An object's content: its bytes and the attribute `a`.
type State = Option<(Vec<u8>, Option<Bytes>)>;

impl OneStore {
    fn new(seed: u64) -> OneStore {
        let config = StoreConfig::one_device(8 << 20, 256 << 10, Fsid([1; 16]), OsdId(0), Fsid([2; 16]));
        let mut device = SimDevice::new(config.device_bytes);
        for request in Store::format(&config).expect("the device is large enough") {
            device.submit(request);
            device.complete(0).result.expect("the device works");
        }
        let mut opening = Store::open(config);
        let store = loop {
            if let Some(result) = opening.poll_result() {
                break result.expect("the device has a store");
            }
            while let Some(request) = opening.poll_io() {
                device.submit(request);
            }
            opening.io_done(device.complete(0));
        };
        OneStore { store, device, random: seed }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % end
    }

    fn bytes(&mut self, len: u64) -> Vec<u8> {
        (0..len).map(|_| self.below(256) as u8).collect()
    }

    /// Carries out what the store wants until it is idle. Returns the bytes that were read.
    fn pump(&mut self) -> Option<Vec<u8>> {
        let mut read = None;
        loop {
            self.store.end_turn();
            while let Some(request) = self.store.poll_io() {
                self.device.submit(request);
            }
            if self.device.queued() > 0 {
                let done = self.device.complete(0);
                self.store.io_done(done);
            }
            while let Some(event) = self.store.poll_event() {
                match event {
                    StoreEvent::ReadDone { result, .. } => read = Some(result.expect("sound bytes").to_vec()),
                    StoreEvent::Failed { reason } => panic!("{reason}"),
                    StoreEvent::Committed(_) | StoreEvent::LookupDone(_) => {}
                }
            }
            if self.device.queued() == 0 && self.store.is_idle() {
                return read;
            }
        }
    }

    fn submit(&mut self, steps: Vec<Step>) {
        let pg = PgId { pool: object().pool, seed: 0 };
        self.store.submit(Transaction { pg, steps }).expect("there is room");
        self.pump();
    }

    fn state(&mut self, object: &ObjectId) -> State {
        let stat = loop {
            match self.store.stat(object) {
                Lookup::Ready(stat) => break stat?,
                Lookup::Pending(_) => drop(self.pump()),
                Lookup::Damaged(damage) => panic!("{damage}"),
            }
        };
        let bytes = match self.store.read(object, 0, stat.size_bytes) {
            Lookup::Ready(bytes) => bytes.to_vec(),
            Lookup::Pending(_) => self.pump().expect("they were read"),
            Lookup::Damaged(damage) => panic!("{damage}"),
        };
        Some((bytes, stat.attrs.get(&b"a"[..]).cloned()))
    }
}

fn object() -> ObjectId {
    ObjectId::head(PoolId(3).of_shard(1), 9, b"", b"name")
}

/// Makes an update of parts of the object, with what takes it back.
fn some_update(store: &mut OneStore, number: u64) -> (Vec<Step>, Undo) {
    let (before, attr) = store.state(&object()).expect("it is there");
    let mut steps = Vec::new();
    let mut ranges = Vec::new();
    // Ranges apart from each other, some within blocks and some behind the end.
    let mut offset = 0;
    for _ in 0..1 + store.below(3) {
        offset += store.below(15_000);
        let len = 1 + store.below(9000);
        ranges.push(ShardRange { offset, len });
        let data = Rope::from(store.bytes(len));
        steps.push(match store.below(3) {
            0 => Step::Xor { object: object(), offset, data },
            1 => Step::Zero { object: object(), offset, len },
            _ => Step::Write { object: object(), offset, data },
        });
        offset += len;
    }
    let value = Bytes::from(number.to_string());
    steps.push(Step::SetAttr { object: object(), name: b"a".to_vec(), value });
    let attrs = vec![(Bytes::from_static(b"a"), attr)];
    (steps, Undo::Overwritten { ranges, shard_bytes: before.len() as u64, attrs, omap: Default::default() })
}

/// Carries an update out as a member does.
fn carry_out(store: &mut OneStore, version: EVersion, steps: Vec<Step>, undo: &Undo) {
    let mut all = undo.prepare(&object(), version);
    all.extend(steps);
    store.submit(all);
}

#[test]
fn what_was_overwritten_comes_back() {
    for seed in 0..30 {
        let mut store = OneStore::new(seed);
        let size = 5000 + store.below(40_000);
        let data = Rope::from(store.bytes(size));
        store.submit(vec![Step::Write { object: object(), offset: 0, data }]);
        let blocks_before = store.store.usage().data_bytes;
        // Updates that build on each other are taken back newest first.
        let mut taken = Vec::new();
        for number in 1..=3 {
            let version = EVersion::new(1, number);
            let before = store.state(&object());
            let (steps, undo) = some_update(&mut store, number);
            carry_out(&mut store, version, steps, &undo);
            assert!(store.state(&object()) != before && store.state(&kept_back(&object(), version)).is_some());
            taken.push((version, undo, before));
        }
        for (version, undo, before) in taken.into_iter().rev() {
            store.submit(undo.steps(&object(), version).expect("this shard can"));
            assert!(store.state(&object()) == before, "seed {seed}, {version}");
            assert_eq!(store.state(&kept_back(&object(), version)), None);
        }
        assert_eq!(store.store.usage().data_bytes, blocks_before, "seed {seed}");
    }
}

#[test]
fn nothing_is_kept_of_what_will_stay() {
    let mut store = OneStore::new(77);
    store.submit(vec![Step::Write { object: object(), offset: 0, data: Rope::from(vec![1; 20_000]) }]);
    let version = EVersion::new(1, 1);
    let ranges = vec![ShardRange { offset: 4096, len: 8192 }];
    let undo = Undo::Overwritten { ranges, shard_bytes: 20_000, attrs: Vec::new(), omap: Default::default() };
    let steps = vec![Step::Write { object: object(), offset: 4096, data: Rope::from(vec![2; 8192]) }];
    carry_out(&mut store, version, steps, &undo);
    assert_eq!(store.store.usage().data_bytes, 7 * 4096, "two blocks are kept beside the new ones");
    let after = store.state(&object());
    store.submit(undo.forget(&object(), version).into_iter().collect());
    assert_eq!(store.state(&object()), after);
    assert_eq!((store.state(&kept_back(&object(), version)), store.store.usage().data_bytes), (None, 5 * 4096));
}

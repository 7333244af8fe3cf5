//! Records a real run on a real file through the real loop. Then checks every state that a power cut might have left.

use super::harness::{Group, POOL, SimFile, bytes, checked, config, object};
use crate::{FileDevice, OfflineStore};
use pg::log::LogKind;
use reactor::{RecordedEntry, Recording};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use store::{Device, IoId, IoRequest, SimDevice, Step, Store, StoreConfig, Transaction};
use types::{AlignedBuf, EVersion, PgId};
use wire::Rope;

/// A folder that is removed when this is dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("nacre-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A remainder in the folder for temporary files does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A simple source of numbers.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Formats a store in a file and writes to two groups. Settles now and then, often with a mark. All that is written is
/// recorded.
fn real_run(config: &StoreConfig, file: &std::path::Path, recording: &std::path::Path) {
    File::create(file).unwrap().set_len(config.device_bytes).unwrap();
    let mut device = FileDevice::recorded(file, recording).unwrap();
    for request in Store::format(config).unwrap() {
        use crate::Device;
        device.submit(request);
        device.wait().result.unwrap();
    }
    let mut store = OfflineStore::open(device).unwrap_or_else(|error| panic!("{error}"));
    let mut numbers = Numbers(7);
    let mut groups = [Group::new(0), Group::new(1)];
    for n in 0..160 {
        let seed = (numbers.next() % 2) as u32;
        let target = object(seed, (numbers.next() % 7) as u32);
        let group = &mut groups[seed as usize];
        let txn = match numbers.next() % 9 {
            0 => group.update(&target, LogKind::Delete, vec![Step::Remove { object: target.clone() }]),
            1 => group.write(&target, 0, bytes(300_000, n)),
            _ => group.write(&target, numbers.next() % 50_000, bytes(1 + (numbers.next() % 9000) as usize, n)),
        };
        store.submit(txn).unwrap();
        match numbers.next() % 12 {
            0 => store.settle(true).unwrap(),
            1..=4 => settle_and_mark(&mut store, n),
            _ => {}
        }
    }
    store.settle(false).unwrap();
}

/// Makes everything durable, then writes the number of durable updates into the store. A state with the mark must then
/// have the updates, too.
fn settle_and_mark(store: &mut OfflineStore<FileDevice>, updates: u32) {
    store.settle(false).unwrap();
    let mark = Step::PgSet { key: "mark".into(), value: updates.to_le_bytes().to_vec().into() };
    store.submit(Transaction { pg: MARKS, steps: vec![mark] }).unwrap();
}

/// This is no group; it holds only the mark.
const MARKS: PgId = PgId { pool: POOL, seed: 99 };

/// The number of updates that were durable by the mark, and the number found beside it. Panics if a check finds any
/// damage, except that the marks are no group's table.
fn verdict(device: SimFile) -> (u64, u64) {
    let report = checked(device.copy());
    let damage = report.findings.iter().filter(|finding| finding.is_damage()).map(ToString::to_string);
    let real: Vec<String> = damage.filter(|text| !text.starts_with("pg 3.63:")).collect();
    assert!(real.is_empty(), "{real:?}");
    let mut store = super::harness::open(device);
    let mark = store.pg_table(MARKS).unwrap().pop();
    let marked = mark.map_or(0, |(_, value)| u64::from(u32::from_le_bytes(value[..].try_into().unwrap())) + 1);
    let found = [0, 1].map(|seed| {
        let pg = PgId { pool: POOL, seed };
        let entries = store.pg_table(pg).unwrap();
        if entries.is_empty() {
            return EVersion::default();
        }
        pg::PgTable::decode(entries).unwrap().info.last_update
    });
    (marked, found.iter().map(|version| version.version).sum())
}

#[test]
fn every_state_that_a_power_cut_could_leave_of_a_real_run_is_clean() {
    let scratch = Scratch::new("recording");
    let config = StoreConfig { device_bytes: 32 << 20, ..config() };
    let (file, recording) = (scratch.0.join("block"), scratch.0.join("recording"));
    real_run(&config, &file, &recording);
    let entries = Recording::new(BufReader::new(File::open(&recording).unwrap())).unwrap();
    let mut device = SimDevice::new(config.device_bytes);
    // Requests under way, by the name that the loop gave them.
    let mut names: BTreeMap<u64, IoId> = BTreeMap::new();
    let (mut next, mut states, mut writes, mut flushes) = (0, 0, 0, 0);
    let (mut numbers, mut formatted, mut newest) = (Numbers(99), false, (0, 0));
    for entry in entries {
        let mut submit = |io: u64, make: &dyn Fn(IoId) -> IoRequest| {
            next += 1;
            assert!(names.insert(io, IoId(next)).is_none(), "request {io} is under way twice");
            device.submit(make(IoId(next)));
        };
        match entry.unwrap() {
            RecordedEntry::Write { io, offset, data, .. } => {
                writes += 1;
                let data = AlignedBuf::copy_from(&data).freeze();
                submit(io, &|id| IoRequest::Write { id, device: Device::Main, offset, data: Rope::from(data.clone()) });
            }
            RecordedEntry::Flush { io, .. } => {
                flushes += 1;
                submit(io, &|id| IoRequest::Flush { id, device: Device::Main });
            }
            RecordedEntry::Discard { io, offset, len, .. } => {
                submit(io, &|id| IoRequest::Discard { id, device: Device::Main, offset, len });
            }
            RecordedEntry::Done { io, ok, .. } => {
                assert!(ok, "the file took everything");
                let id = names.remove(&io).expect("a request that was made");
                let index = (0..device.queued()).find(|at| device.queued_id(*at) == id).expect("it is queued");
                device.complete(index).result.unwrap();
            }
        }
        // The store exists from the flush on that ends the format.
        formatted |= flushes == 3 && names.is_empty();
        if !formatted {
            continue;
        }
        for _ in 0..2 {
            let after = SimFile::on(device.after_crash(&mut || numbers.next()));
            let (marked, found) = verdict(after);
            assert!(found >= marked, "{found} updates found, though {marked} were durable");
            newest = newest.max((marked, found));
            states += 1;
        }
    }
    assert!(states > 1000 && writes > 200 && flushes > 100, "{states} states, {writes} writes, {flushes} flushes");
    assert!(newest.0 > 100 && newest.1 == 160, "{newest:?}");
    // After a replay of the whole recording, the device holds exactly the file's bytes.
    let on_disk = std::fs::read(&file).unwrap();
    assert!(device.read(0, config.device_bytes).as_slice() == on_disk, "the recording is not what was written");
}

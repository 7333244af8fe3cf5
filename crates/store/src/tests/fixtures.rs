//! Images of stores as software of some time wrote them: they must open for ever, with their content.
//!
//! `fixtures/NAME.image` at the crate's root is a store's devices with runs of equal bytes shortened (see [`pack`]).
//! New ones are made by
//!
//! ```text
//! cargo test -p store --lib write_fixtures -- --ignored
//! ```
//!
//! which writes those of the present format; older ones stay as they are.

use super::devices::split;
use super::harness::{Bench, Random, config, contents, object, open, txn, write};
use super::model::Model;
use crate::metadata::jobs::CopyRules;
use crate::{Device, OpenError, SNAPS_ATTR, SimDevice, Step, StoreConfig, Transaction, snaps_attr};
use bytes::Bytes;
use std::path::PathBuf;
use types::{AlignedBuf, BLOCK_BYTES, Fsid, ObjectId, OsdId, PgId, PoolId, SnapId, crc32c};

/// Shorter runs of equal bytes are written out.
const RUN_MIN: usize = 12;
const LITERAL: u8 = 1;
const FILL: u8 = 2;

/// Encodes devices. Each device: number (1), bytes (8), then pieces that cover it: kind (1), length (4), and the bytes,
/// or the byte that all of them are.
fn pack(device: &SimDevice, config: &StoreConfig) -> Vec<u8> {
    let mut out = Vec::new();
    for role in Device::ALL {
        let Some(bytes) = config.bytes_of(role) else { continue };
        out.push(role as u8);
        out.extend(bytes.to_le_bytes());
        let content = device.part(role).read(0, bytes);
        let mut literal: Vec<u8> = Vec::new();
        let put = |kind: u8, len: usize, bytes: &[u8], out: &mut Vec<u8>| {
            out.push(kind);
            out.extend((len as u32).to_le_bytes());
            out.extend_from_slice(bytes);
        };
        for run in content.as_slice().chunk_by(|a, b| a == b) {
            if run.len() < RUN_MIN {
                literal.extend_from_slice(run);
                continue;
            }
            if !literal.is_empty() {
                put(LITERAL, literal.len(), &literal, &mut out);
                literal.clear();
            }
            put(FILL, run.len(), &run[..1], &mut out);
        }
        if !literal.is_empty() {
            put(LITERAL, literal.len(), &literal, &mut out);
        }
    }
    out
}

fn unpack(mut image: &[u8], config: &StoreConfig) -> SimDevice {
    let mut device = SimDevice::of(config);
    let mut take = |len: usize| {
        let (head, rest) = image.split_at(len);
        image = rest;
        head
    };
    for role in Device::ALL {
        let Some(bytes) = config.bytes_of(role) else { continue };
        assert_eq!(take(1), [role as u8]);
        assert_eq!(take(8), bytes.to_le_bytes());
        let mut content = Vec::with_capacity(bytes as usize);
        while content.len() < bytes as usize {
            let kind = take(1)[0];
            let len = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
            match kind {
                LITERAL => content.extend_from_slice(take(len)),
                FILL => content.resize(content.len() + len, take(1)[0]),
                other => panic!("piece of kind {other}"),
            }
        }
        put(&mut device, role, 0, &content);
    }
    assert!(image.is_empty());
    device
}

/// Writes the blocks that are not all zeros.
fn put(device: &mut SimDevice, role: Device, offset: u64, content: &[u8]) {
    for (at, block) in (offset..).step_by(BLOCK_BYTES).zip(content.chunks(BLOCK_BYTES)) {
        if block.iter().any(|byte| *byte != 0) {
            let data = AlignedBuf::copy_from(block).freeze().into();
            device.submit(crate::IoRequest::Write { id: crate::IoId(0), device: role, offset: at, data });
            device.complete(0).result.unwrap();
        }
    }
}

fn named(nspace: &[u8], name: &[u8], snap: u64) -> ObjectId {
    ObjectId { snap: SnapId(snap), ..ObjectId::head(PoolId(3), 0x1234_5678, nspace, name) }
}

/// Returns the steps before and behind a checkpoint, with some of everything.
///
/// `clones`: true for clones with their snapshots, too.
fn histories(clones: bool) -> [Vec<Transaction>; 2] {
    let entries = |from: u32, count: u32| -> Vec<(Bytes, Bytes)> {
        (from..from + count).map(|n| (format!("key {n}").into(), vec![n as u8; n as usize].into())).collect()
    };
    let attr = |n: u64, name: &[u8], value: Vec<u8>| Step::SetAttr {
        object: object(n),
        name: name.to_vec(),
        value: value.into(),
    };
    let pg = |seed: u32, steps: Vec<Step>| Transaction { pg: PgId::new(3, seed), steps };
    let set = |key: &str, len: usize| Step::PgSet { key: key.to_owned().into(), value: vec![b'v'; len].into() };
    let of_snaps = |name: &[u8], snap: u64, snaps: &[u64]| Step::SetAttr {
        object: named(b"", name, snap),
        name: SNAPS_ATTR.to_vec(),
        value: snaps_attr(&snaps.iter().copied().map(SnapId).collect::<Vec<_>>()),
    };
    let mut first = vec![
        txn(vec![write(1, 0, "at the begin"), write(1, 5000, vec![5; 300]), write(1, 140_000, "in another segment")]),
        txn(vec![attr(1, b"short", vec![1; 10]), attr(1, b"long", vec![2; 5000])]),
        txn(vec![Step::Clone { from: object(1), to: object(2) }, write(2, 4090, vec![7; 20])]),
        txn(vec![Step::OmapSet { object: object(3), entries: entries(0, 40) }]),
        txn(vec![Step::OmapSetHeader { object: object(3), header: "header".into() }]),
        txn(vec![write(4, 0, vec![4; 40_000]), write(5, 0, "goes")]),
        pg(0, vec![set("log 1", 100), set("log 2", 100), set("info", 30)]),
        pg(1, vec![set("info", 30), Step::Touch { object: named(b"space", b"name \0 with zeros", 17) }]),
        txn(vec![Step::Touch { object: named(b"", &[b'n'; 300], 2) }]),
        txn(vec![write(9, 0, vec![9; 1000]), attr(9, b"_", vec![3; 200])]),
    ];
    let mut second = vec![
        txn(vec![Step::Remove { object: object(5) }, write(1, 100, "changed")]),
        txn(vec![Step::Zero { object: object(4), offset: 5000, len: 20_000 }]),
        txn(vec![Step::Truncate { object: object(2), size: 4100 }]),
        txn(vec![Step::OmapRemove { object: object(3), keys: vec!["key 7".into()] }]),
        txn(vec![Step::OmapRemoveRange { object: object(3), begin: "key 2".into(), end: "key 29".into() }]),
        txn(vec![Step::Clone { from: object(3), to: object(6) }, Step::OmapClear { object: object(3) }]),
        txn(vec![Step::RemoveAttr { object: object(1), name: b"short".to_vec() }]),
        pg(0, vec![Step::PgRemove { key: "log 1".into() }, set("log 3", 100)]),
        pg(1, vec![Step::PgRemoveRange { begin: "a".into(), end: "z".into() }, set("later", 5)]),
        txn(vec![write(9, 900, vec![8; 5000]), write(8, 0, "small")]),
        txn(vec![Step::CloneRange {
            source: object(4),
            target: object(8),
            source_offset: 29_000,
            length: 9000,
            target_offset: 8520,
        }]),
    ];
    if clones {
        first.push(txn(vec![of_snaps(b"a", 4, &[4, 3]), of_snaps(b"b", 4, &[4]), of_snaps(b"c", 5, &[5])]));
        second.push(txn(vec![Step::Remove { object: named(b"", b"b", 4) }, of_snaps(b"c", 5, &[6, 4])]));
    }
    [first, second]
}

/// No checkpoint begins by itself.
fn long_log() -> StoreConfig {
    StoreConfig { wal_bytes: 256 << 10, ..config() }
}

struct Fixture {
    name: &'static str,
    image: &'static [u8],
    config: StoreConfig,
    /// True if the first half of the history is in a checkpoint, rather than in the log.
    checkpoint: bool,
    /// True if there are clones with their snapshots, which are listed.
    clones: bool,
}

fn fixtures() -> Vec<Fixture> {
    macro_rules! fixture {
        ($name:literal, $config:expr, $checkpoint:expr, $clones:expr) => {
            Fixture {
                name: $name,
                image: include_bytes!(concat!("../../fixtures/", $name, ".image")),
                config: $config,
                checkpoint: $checkpoint,
                clones: $clones,
            }
        };
    }
    vec![
        fixture!("format-2-tree-and-log", long_log(), true, false),
        fixture!("format-2-log-only", long_log(), false, false),
        fixture!("format-2-three-devices", split(long_log(), true, true), true, false),
        fixture!("format-2-clones-listed", long_log(), true, true),
    ]
}

/// Returns the content of a fixture.
fn model(clones: bool) -> Model {
    let mut model = Model::default();
    histories(clones).iter().flatten().for_each(|txn| model.apply(txn));
    model
}

/// Makes the store of a fixture with the present software.
fn make(Fixture { config, checkpoint, clones, .. }: &Fixture) -> SimDevice {
    let mut bench = Bench::with(config.clone(), 2);
    // The clone with an omap is copied first, the one with blocks is not.
    bench.store.state.copy_rules = CopyRules::default();
    for (part, history) in histories(*clones).into_iter().enumerate() {
        for txn in history {
            bench.submit(txn).unwrap();
            bench.settle();
        }
        if part == 0 && *checkpoint {
            bench.store.checkpoint();
            bench.settle();
        }
    }
    assert!(bench.model == model(*clones));
    bench.device.after_crash(&mut || 0)
}

#[test]
fn stores_of_every_format_open_and_hold_what_was_put_there() {
    for fixture in fixtures() {
        let mut device = unpack(fixture.image, &fixture.config);
        // `open` refuses every request except reads and flushes.
        let mut store = open(&mut device, &fixture.config).unwrap_or_else(|error| panic!("{}: {error}", fixture.name));
        assert!(contents(&mut store, &mut device) == model(fixture.clones), "{}", fixture.name);
        let name = fixture.name;
        assert_eq!(store.replayed_records() > 20, !fixture.checkpoint, "{name}: {}", store.replayed_records());
        assert!(store.blocks_add_up(), "{name}");
        assert_eq!(store.lists_clones(), fixture.clones, "{name}");
        // The store also goes on from there.
        let mut bench = Bench::on(fixture.config, store, device, model(fixture.clones), Random::new(1));
        (0..60).for_each(|_| bench.turn());
        bench.store.checkpoint();
        bench.settle();
        bench.check_all();
        bench.reopen(bench.device.after_crash(&mut || 0));
    }
}

#[test]
fn the_present_software_makes_stores_of_the_same_content() {
    for fixture in fixtures() {
        let made = make(&fixture);
        let image = pack(&made, &fixture.config);
        assert!(pack(&make(&fixture), &fixture.config) == image, "the same each time");
        assert!(image.len() < 24 << 10, "{}: {} bytes", fixture.name, image.len());
        let mut device = unpack(&image, &fixture.config);
        let mut store = open(&mut device, &fixture.config).unwrap();
        assert!(contents(&mut store, &mut device) == model(fixture.clones), "{}", fixture.name);
    }
}

#[test]
#[ignore = "writes the files that the other tests read"]
fn write_fixtures() {
    // The other fixtures are of software that did not list clones.
    for fixture in fixtures().into_iter().filter(|fixture| fixture.clones) {
        let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "fixtures", fixture.name].iter().collect();
        let image = pack(&make(&fixture), &fixture.config);
        std::fs::write(path.with_extension("image"), image).unwrap();
    }
}

/// Changes a byte of every sound block at one of these places and makes the block's checksum fit.
fn change(device: &mut SimDevice, role: Device, places: &[u64], at: usize, value: u8) {
    for offset in places {
        let mut block = device.part(role).read(*offset, BLOCK_BYTES as u64).as_slice().to_vec();
        block[at] = value;
        let crc = crc32c::checksum(&block[..512]);
        block[512..516].copy_from_slice(&crc.to_le_bytes());
        put(device, role, *offset, &block);
    }
}

#[test]
fn what_cannot_be_opened_is_told_why_and_not_written() {
    let [one, _, three, ..] = &fixtures()[..] else { panic!("three fixtures") };
    let superblocks = crate::disk::numbers::SUPERBLOCK_OFFSETS;
    let check = |fixture: &Fixture, spoil: &dyn Fn(&mut SimDevice, &mut StoreConfig), expected: OpenError| {
        let (mut device, mut config) = (unpack(fixture.image, &fixture.config), fixture.config.clone());
        spoil(&mut device, &mut config);
        assert_eq!(open(&mut device, &config).expect_err("does not open"), expected);
    };
    let unknown = |version, features| OpenError::UnknownFormat { version, block_bytes: 4096, features };
    check(one, &|device, _| *device = SimDevice::new(4 << 20), OpenError::NotAStore);
    check(one, &|device, _| change(device, Device::Main, &superblocks, 8, 3), unknown(3, 0));
    check(one, &|device, _| change(device, Device::Main, &superblocks, 72, 4), unknown(2, 4));
    check(three, &|device, _| change(device, Device::Wal, &superblocks, 8, 3), unknown(3, 0));
    let foreign = OpenError::ForeignOsd { found: OsdId(7), expected: OsdId(1) };
    check(one, &|_, config| config.osd = OsdId(1), foreign);
    let foreign = OpenError::ForeignCluster { found: Fsid([1; 16]), expected: Fsid([6; 16]) };
    check(three, &|_, config| config.fsid = Fsid([6; 16]), foreign);
    let cut = |device, store_bytes: u64| OpenError::Truncated { device, device_bytes: store_bytes - 4096, store_bytes };
    let bytes = |fixture: &Fixture, device| fixture.config.bytes_of(device).unwrap();
    let truncate = |device: &mut SimDevice, config: &mut StoreConfig| {
        config.device_bytes -= 4096;
        device.truncate(config.device_bytes);
    };
    check(one, &truncate, cut(Device::Main, bytes(one, Device::Main)));
    let truncate = |device: &mut SimDevice, config: &mut StoreConfig| {
        let left = config.metadata_device_bytes.unwrap() - 4096;
        config.metadata_device_bytes = Some(left);
        device.part_mut(Device::Metadata).truncate(left);
    };
    check(three, &truncate, cut(Device::Metadata, bytes(three, Device::Metadata)));
}

//! A store that is split over devices: devices that belong together, the order of durability, and space on each.

use super::harness::{Bench, KIB, config, formatted, object, open, txn, write};
use crate::disk::numbers::{ROOT_OFFSETS, SUPERBLOCK_OFFSETS};
use crate::{Device, FormatError, IoRequest, OpenError, SimDevice, Step, Store, StoreConfig, StoreEvent, SubmitError};
use types::{Fsid, OsdId};

/// Returns the settings of a store with devices of their own for log and metadata, as the flags say.
pub(super) fn split(config: StoreConfig, wal: bool, metadata: bool) -> StoreConfig {
    StoreConfig {
        wal_device_bytes: wal.then_some(config.wal_bytes + StoreConfig::LABEL_BYTES),
        metadata_device_bytes: metadata.then_some(config.device_bytes),
        ..config
    }
}

fn all_three() -> StoreConfig {
    split(config(), true, true)
}

/// Makes a store with content, log and tree included.
fn used(config: &StoreConfig) -> SimDevice {
    let mut bench = Bench::with(config.clone(), 3);
    (0..40).for_each(|_| bench.turn());
    bench.settle();
    bench.store.checkpoint();
    bench.settle();
    bench.submit(txn(vec![write(1, 5, "x")])).unwrap();
    bench.settle();
    bench.device.after_crash(&mut || 0)
}

#[test]
fn devices_that_do_not_belong_together_are_refused_with_the_reason() {
    let config = all_three();
    let good = || used(&config);
    let check = |device: &mut SimDevice, config: &StoreConfig, expected: OpenError| {
        // `open` refuses every request except reads and flushes.
        assert_eq!(open(device, config).expect_err("does not open"), expected);
    };
    assert!(open(&mut good(), &config).is_ok());
    for device in [Device::Wal, Device::Metadata] {
        let mut without = config.clone();
        match device {
            Device::Wal => without.wal_device_bytes = None,
            _ => without.metadata_device_bytes = None,
        }
        check(&mut good(), &without, OpenError::MissingDevice { device });
        check(&mut used(&without), &config, OpenError::UnexpectedDevice { device });
        // The device is blank, too short for anything, or cut short.
        let mut blank = good();
        blank.replace_part(device, SimDevice::of(&config).part(device).clone());
        check(&mut blank, &config, OpenError::NotAPart { device });
        let bytes = config.bytes_of(device).unwrap();
        for (left, expected) in [
            (64 * KIB, OpenError::NotAPart { device }),
            (bytes - 4096, OpenError::Truncated { device, device_bytes: bytes - 4096, store_bytes: bytes }),
        ] {
            let mut short = good();
            short.part_mut(device).truncate(left);
            let mut now = config.clone();
            match device {
                Device::Wal => now.wal_device_bytes = Some(left),
                _ => now.metadata_device_bytes = Some(left),
            }
            check(&mut short, &now, expected);
        }
        // The device is of another store, or of an earlier life of the same OSD's.
        let foreign = StoreConfig { uuid: Fsid([9; 16]), ..config.clone() };
        let mut mixed = good();
        mixed.replace_part(device, used(&foreign).part(device).clone());
        check(&mut mixed, &config, OpenError::ForeignDevice { device, found: foreign.uuid, expected: config.uuid });
        let larger = StoreConfig { device_bytes: 5 << 20, ..config.clone() };
        let mut stale = good();
        stale.replace_part(device, used(&larger).part(device).clone());
        check(&mut stale, &config, OpenError::StaleDevice { device });
    }
    // The two devices are swapped.
    let mut swapped = good();
    let wal = swapped.part(Device::Wal).clone();
    let metadata = swapped.replace_part(Device::Metadata, wal).unwrap();
    let now = StoreConfig {
        wal_device_bytes: Some(metadata.bytes()),
        metadata_device_bytes: config.wal_device_bytes,
        ..config.clone()
    };
    swapped.replace_part(Device::Wal, metadata);
    check(&mut swapped, &now, OpenError::WrongRole { device: Device::Wal, found: Device::Metadata });
    let mut swapped = good();
    let main = swapped.part(Device::Main).clone();
    let metadata = swapped.replace_part(Device::Metadata, main).unwrap();
    swapped.replace_part(Device::Main, metadata);
    check(&mut swapped, &config, OpenError::WrongRole { device: Device::Main, found: Device::Metadata });
    // The owner is checked first.
    let other = StoreConfig { osd: OsdId(8), wal_device_bytes: None, ..config.clone() };
    check(&mut good(), &other, OpenError::ForeignOsd { found: OsdId(7), expected: OsdId(8) });
}

#[test]
fn either_superblock_of_each_device_will_do() {
    let config = all_three();
    for device in Device::ALL {
        for offset in SUPERBLOCK_OFFSETS {
            let mut damaged = used(&config);
            damaged.part_mut(device).corrupt(offset + 70, 1);
            assert!(open(&mut damaged, &config).is_ok());
        }
        let mut unreadable = used(&config);
        unreadable.part_mut(device).make_unreadable(SUPERBLOCK_OFFSETS[0]);
        assert!(open(&mut unreadable, &config).is_ok());
        unreadable.part_mut(device).make_unreadable(SUPERBLOCK_OFFSETS[1]);
        let error = open(&mut unreadable, &config).expect_err("does not open");
        assert_eq!(error, OpenError::Device { device, offset: 0, errno: 5 });
    }
    let mut rootless = used(&config);
    ROOT_OFFSETS.into_iter().for_each(|offset| rootless.part_mut(Device::Metadata).corrupt(offset + 30, 1));
    assert_eq!(open(&mut rootless, &config).expect_err("does not open"), OpenError::NoCheckpoint);
}

#[test]
fn sizes_of_other_devices_that_make_no_store_are_refused() {
    let check = |wal, metadata, expected: Option<FormatError>| {
        let config = StoreConfig { wal_device_bytes: wal, metadata_device_bytes: metadata, ..config() };
        assert_eq!(Store::format(&config).err(), expected);
    };
    let needed = config().wal_bytes + StoreConfig::LABEL_BYTES;
    check(Some(needed), None, None);
    let error = FormatError::WalDeviceSize { bytes: config().wal_bytes, device_bytes: needed - 4096 };
    check(Some(needed - 1), None, Some(error));
    check(None, Some(1 << 20), None);
    check(None, Some((1 << 20) - 1), Some(FormatError::MetadataDeviceSize { bytes: (1 << 20) - 4096 }));
    check(
        Some(4096),
        Some(1 << 20),
        Some(FormatError::WalDeviceSize { bytes: config().wal_bytes, device_bytes: 4096 }),
    );
}

/// Each device gets its requests: data goes to the main one, records to the WAL device, pages and roots to the metadata
/// device; each is flushed only if it was written to.
#[test]
fn every_request_goes_to_its_device() {
    for (wal, metadata) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut bench = Bench::with(split(config(), wal, metadata), 2);
        let (log, tree) = (bench.store.superblock.log_device(), bench.store.superblock.tree_device());
        let run = |bench: &mut Bench| {
            let mut seen = Vec::new();
            while !bench.store.is_idle() {
                bench.store.end_turn();
                while let Some(request) = bench.store.poll_io() {
                    match &request {
                        IoRequest::Write { device, .. } => seen.push(("write", *device)),
                        IoRequest::Flush { device, .. } => seen.push(("flush", *device)),
                        _ => {}
                    }
                    bench.device.submit(request);
                }
                // The bench's own loop would pass over the next request unseen.
                if bench.device.queued() > 0 {
                    bench.store.io_done(bench.device.complete(0));
                }
                bench.events();
            }
            seen.sort_unstable();
            seen.dedup();
            seen
        };
        let expected = |of: &[(&'static str, Device)]| {
            let mut expected = of.to_vec();
            expected.sort_unstable();
            expected.dedup();
            expected
        };
        bench.submit(txn(vec![write(1, 0, vec![1; 9000])])).unwrap();
        let main = Device::Main;
        assert_eq!(run(&mut bench), expected(&[("write", main), ("write", log), ("flush", main), ("flush", log)]));
        bench.submit(txn(vec![Step::SetAttr { object: object(1), name: vec![1], value: "v".into() }])).unwrap();
        assert_eq!(run(&mut bench), expected(&[("write", log), ("flush", log)]), "only the log is written");
        bench.store.checkpoint();
        assert_eq!(run(&mut bench), expected(&[("write", tree), ("flush", tree)]));
        bench.check_all();
    }
}

/// A turn is committed when the slowest of its devices has flushed, not before.
#[test]
fn a_commit_waits_for_every_device() {
    let mut bench = Bench::with(all_three(), 2);
    let ticket = bench.submit(txn(vec![write(1, 0, vec![1; 9000])])).unwrap();
    bench.store.end_turn();
    bench.pump();
    let mut flushes = 0;
    while flushes < 2 {
        assert_eq!(bench.store.poll_event(), None);
        let devices: Vec<Device> = (0..bench.device.queued()).map(|at| bench.device.queued_device(at)).collect();
        // The WAL device completes all its requests first.
        let next = devices.iter().position(|device| *device == Device::Wal).unwrap_or(0);
        flushes += u64::from(bench.device.queued_write(next).is_none());
        bench.store.io_done(bench.device.complete(next));
        bench.pump();
    }
    assert_eq!(bench.store.poll_event(), Some(StoreEvent::Committed(ticket)));
}

/// Effects that do not fit the log become durable by a checkpoint alone, whose flushes include the data's device.
#[test]
fn what_only_a_checkpoint_makes_durable_survives_with_its_data() {
    for seed in 0..12 {
        let mut bench = Bench::with(split(config(), seed % 3 > 0, seed % 3 < 2), seed);
        let large = Step::OmapSet { object: object(2), entries: vec![("k".into(), vec![7; 70_000].into())] };
        bench.submit(txn(vec![write(1, 0, vec![seed as u8 + 1; 50_000]), large])).unwrap();
        while bench.history.len() > 1 {
            bench.store.end_turn();
            bench.pump();
            let mut random = bench.random.clone();
            bench.reopen(bench.device.after_crash(&mut || random.next()));
            bench.complete_some();
            bench.events();
        }
        let (.., at) = bench.reopen(bench.device.after_crash(&mut || 0));
        assert_eq!(at, 0, "what is committed needs nothing that is not flushed");
        bench.settle();
        bench.check_all();
    }
}

#[test]
fn a_full_metadata_device_refuses_what_grows_and_takes_deletes() {
    let metadata_device_bytes = Some(StoreConfig::METADATA_DEVICE_BYTES_MIN);
    let mut bench = Bench::with(StoreConfig { metadata_device_bytes, ..config() }, 2);
    let total = bench.store.usage().metadata_device.unwrap();
    assert_eq!(total.total_bytes, 1 << 20);
    let mut objects = 0;
    for round in 0..3 {
        let mut refused = 0;
        for n in 0.. {
            let steps = vec![Step::SetAttr { object: object(n), name: vec![1], value: vec![n as u8; 500].into() }];
            match bench.submit(txn(steps)) {
                Ok(_) => objects = n + 1,
                Err(SubmitError::NoSpace { device: Device::Metadata, needed_bytes, free_bytes }) => {
                    assert!(needed_bytes > free_bytes);
                    refused += 1;
                    if refused == 2 {
                        break;
                    }
                    bench.settle();
                }
                Err(error) => panic!("{error}"),
            }
            if n % 5 == 0 {
                bench.settle();
            }
        }
        // The next checkpoint may show that the tree needs less.
        let usage = bench.store.usage();
        bench.settle();
        assert!(objects > 100, "{objects} objects in round {round}");
        assert!(usage.free_bytes > 2 << 20, "the main device has room");
        assert!(usage.free_bytes_for_cluster() < usage.total_bytes / 40, "{usage:?}");
        bench.check_all();
        bench.reopen(bench.device.after_crash(&mut || 0));
        for n in 0..objects {
            bench.submit(txn(vec![Step::Remove { object: object(n) }])).unwrap();
            if n % 5 == 0 {
                bench.settle();
            }
        }
        bench.store.checkpoint();
        bench.settle();
        bench.store.checkpoint();
        bench.settle();
        let free = bench.store.usage().metadata_device.unwrap().free_bytes;
        assert!(free > total.free_bytes - 64 * KIB, "{free} of {}", total.free_bytes);
    }
}

#[test]
fn formatting_several_devices_is_all_or_nothing() {
    let again = StoreConfig { uuid: Fsid([3; 16]), ..all_three() };
    let before = used(&all_three());
    let requests = Store::format(&again).unwrap().len();
    let mut random = super::harness::Random::new(4);
    for stop in 0..=requests {
        let mut device = before.after_kill(&mut || 0);
        for request in Store::format(&again).unwrap().into_iter().take(stop) {
            device.submit(request);
            device.complete(0).result.unwrap();
        }
        let mut device = device.after_crash(&mut || random.next());
        match open(&mut device, &again) {
            Ok(store) => {
                // The main device's superblocks are the last writes.
                assert!(stop + 2 >= requests || store.superblock.uuid == all_three().uuid);
            }
            Err(error) => {
                assert!(stop < requests, "{error}");
                assert_eq!(error, OpenError::NotAStore);
            }
        }
    }
    assert!(open(&mut formatted(&again), &again).is_ok());
}

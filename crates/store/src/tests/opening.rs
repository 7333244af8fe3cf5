//! Devices that do not open, and the reasons.

use super::harness::{Bench, KIB, config, finish_opening, formatted, open, txn, write};
use crate::disk::numbers::{ROOT_OFFSETS, SUPERBLOCK_OFFSETS};
use crate::disk::superblock::CheckpointRoot;
use crate::{Device, FormatError, IoId, IoRequest, OpenError, SimDevice, Store, StoreConfig, Tuning};
use types::{BLOCK_BYTES, Fsid, OsdId};

fn error(device: &mut SimDevice, config: &StoreConfig) -> OpenError {
    open(device, config).expect_err("does not open")
}

#[test]
fn what_is_no_store_of_this_osd_is_refused_with_the_reason() {
    let good = config();
    let mut device = formatted(&good);
    assert!(open(&mut device, &good).is_ok());
    assert_eq!(error(&mut SimDevice::new(4 << 20), &good), OpenError::NotAStore);
    assert_eq!(
        error(&mut SimDevice::new(4096), &StoreConfig { device_bytes: 4096, ..good.clone() }),
        OpenError::NotAStore
    );
    let other = StoreConfig { osd: OsdId(8), ..good.clone() };
    assert_eq!(error(&mut device, &other), OpenError::ForeignOsd { found: OsdId(7), expected: OsdId(8) });
    let other = StoreConfig { fsid: Fsid([9; 16]), ..good.clone() };
    let expected = OpenError::ForeignCluster { found: good.fsid, expected: other.fsid };
    assert_eq!(error(&mut device, &other), expected);
    for unit_bytes in [0, 4096, 48 << 10, 512 << 10] {
        let odd = StoreConfig { indirection_unit_bytes: unit_bytes, ..good.clone() };
        assert_eq!(error(&mut device, &odd), OpenError::IndirectionUnit { unit_bytes });
    }
    let grown = StoreConfig { device_bytes: 8 << 20, ..good.clone() };
    assert!(open(&mut device, &grown).is_ok(), "a device may grow");
    device.truncate(3 << 20);
    let short = StoreConfig { device_bytes: 3 << 20, ..good };
    let expected = OpenError::Truncated { device: Device::Main, device_bytes: 3 << 20, store_bytes: 4 << 20 };
    assert_eq!(error(&mut device, &short), expected);
    assert_eq!(expected.to_string(), "main device has 3145728 bytes, but the store on it 4194304: it was cut short");
}

#[test]
fn either_superblock_and_either_half_of_the_roots_will_do() {
    let config = config();
    for offset in SUPERBLOCK_OFFSETS {
        let mut device = formatted(&config);
        device.corrupt(offset + 20, 1);
        assert!(open(&mut device, &config).is_ok());
        let mut device = formatted(&config);
        device.make_unreadable(offset);
        assert!(open(&mut device, &config).is_ok());
    }
    let mut device = formatted(&config);
    SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| device.make_unreadable(offset));
    let expected = OpenError::Device { device: Device::Main, offset: SUPERBLOCK_OFFSETS[0], errno: 5 };
    assert_eq!(error(&mut device, &config), expected, "it may well be a store");
    let mut device = formatted(&config);
    SUPERBLOCK_OFFSETS.into_iter().for_each(|offset| device.corrupt(offset + 20, 1));
    assert_eq!(error(&mut device, &config), OpenError::NotAStore);
    let mut device = formatted(&config);
    device.corrupt(ROOT_OFFSETS[0], 1);
    assert_eq!(error(&mut device, &config), OpenError::NoCheckpoint, "a new store has written one root only");
}

#[test]
fn a_device_error_while_opening_is_told() {
    let config = config();
    let mut device = formatted(&config);
    device.make_unreadable(ROOT_OFFSETS[1]);
    assert_eq!(
        error(&mut device, &config),
        OpenError::Device { device: Device::Main, offset: ROOT_OFFSETS[1], errno: 5 }
    );
}

#[test]
fn formatting_forgets_what_was_there_even_if_it_stops_half_way() {
    let mut bench = Bench::new(5);
    (0..50).for_each(|_| bench.turn());
    bench.settle();
    let again = StoreConfig { uuid: Fsid([3; 16]), ..config() };
    let requests = Store::format(&again).unwrap().len();
    for stop in 0..=requests {
        let mut device = bench.device.after_kill(&mut || 0);
        for request in Store::format(&again).unwrap().into_iter().take(stop) {
            device.submit(request);
            device.complete(0).result.unwrap();
        }
        let mut random = bench.random.clone();
        let mut device = device.after_crash(&mut || random.next());
        match open(&mut device, &again) {
            Ok(mut store) => {
                let found = super::harness::contents(&mut store, &mut device);
                // The store has all or nothing; the crash may have dropped the first writes.
                assert!(found == bench.model || found == Default::default());
                assert!(stop < requests || found == Default::default());
            }
            Err(error) => {
                assert_eq!(error, OpenError::NotAStore);
                assert!(stop < requests);
            }
        }
    }
}

#[test]
fn sizes_that_make_no_store_are_refused() {
    let check = |device_bytes, wal_bytes, expected: Option<FormatError>| {
        let result = Store::format(&StoreConfig { device_bytes, wal_bytes, ..config() });
        assert_eq!(result.err(), expected);
    };
    let wal = |bytes, device_bytes| Some(FormatError::WalSize { bytes, device_bytes });
    check(4 << 20, 64 * KIB, None);
    check((4 << 20) + 1234, 2 << 20, None);
    check((4 << 20) - 1, 64 * KIB, Some(FormatError::DeviceSize { bytes: (4 << 20) - 4096 }));
    check(u64::MAX, 64 * KIB, Some(FormatError::DeviceSize { bytes: u64::MAX - 4095 }));
    check(4 << 20, 60 * KIB, wal(60 * KIB, 4 << 20));
    check(4 << 20, (2 << 20) + 4096, wal((2 << 20) + 4096, 4 << 20));
    check(4 << 20, 64 * KIB + 1, wal(64 * KIB + 1, 4 << 20));
    for device_bytes in [4 << 20, 5 << 20, 1 << 30, 16 << 30, StoreConfig::DEVICE_BYTES_MAX] {
        check(device_bytes, StoreConfig::default_wal_bytes(device_bytes), None);
    }
}

#[test]
fn nothing_is_written_before_the_store_is_open() {
    let mut bench = Bench::new(17);
    (0..40).for_each(|_| bench.turn());
    bench.submit(txn(vec![write(1, 5, "x")])).unwrap();
    bench.store.end_turn();
    bench.pump();
    let mut random = bench.random.clone();
    let device = bench.device.after_crash(&mut || random.next());
    // `open` refuses every request except reads and the flush. The same device opens to the same content again.
    let (_, device, first) = bench.reopen(device);
    let (mut store, _, second) = bench.reopen(device);
    assert_eq!(first, second);
    store.end_turn();
    let next = std::iter::from_fn(|| store.poll_io()).find(|request| matches!(request, IoRequest::Write { .. }));
    assert!(next.is_none(), "an open store with nothing to do writes nothing: {next:?}");
}

/// Returns the device of a store whose checkpoint root, under a good checksum, counts one object too many.
fn miscounted(config: &StoreConfig) -> SimDevice {
    let mut device = formatted(config);
    let block = device.read(ROOT_OFFSETS[0], BLOCK_BYTES as u64);
    let mut root = CheckpointRoot::decode(block.as_slice(), config.uuid).expect("a new store has a root");
    root.totals.as_mut().expect("a new store knows its sums").objects = 1;
    device.submit(IoRequest::Write {
        id: IoId(0),
        device: Device::Main,
        offset: root.offset(),
        data: root.encode().into(),
    });
    device.complete(0).result.unwrap();
    device
}

#[test]
fn sums_of_the_root_are_taken_as_they_are_unless_an_opening_counts_anew() {
    let usual = config();
    assert_eq!(usual.tuning, Tuning { segments_at_once: Tuning::SEGMENTS_AT_ONCE, counts_anew: false });
    let tuned = StoreConfig { tuning: Tuning { segments_at_once: 3, counts_anew: false }, ..usual.clone() };
    let store = finish_opening(&mut miscounted(&usual), Store::open(tuned)).unwrap();
    assert_eq!((store.usage().objects, store.state.segments_at_once), (1, 3));
}

#[test]
#[should_panic(expected = "Counted { objects: 0")]
fn an_opening_that_counts_anew_compares_its_sums_with_those_of_the_root() {
    let usual = config();
    let tuned = StoreConfig { tuning: Tuning { counts_anew: true, ..Tuning::default() }, ..usual.clone() };
    let _ = finish_opening(&mut miscounted(&usual), Store::open(tuned));
}

//! Tests of OSDs with several shards, without a cluster.

use crate::common::{Device, config, make};
use devices::{Division, MkfsError};
use offline::FileDevice;
use osd::{OsdConfig, Stop};
use std::fs::OpenOptions;

const DEVICE_BYTES: u64 = 128 << 20;

/// Starts an OSD and stops it at once.
fn run(config: OsdConfig) -> Result<(), String> {
    let stop = Stop::new().unwrap();
    stop.stop();
    osd::run(config, stop).map_err(|e| format!("{e:#}"))
}

#[test]
fn all_shards_start_and_stop_together_and_each_has_a_part_of_the_device() {
    let device = Device::new("four-shards");
    let config = config(&device.0, 256 << 20);
    make(&config, DEVICE_BYTES, 4).unwrap();
    for _ in 0..2 {
        run(config.clone()).unwrap();
    }
    let division = Division::read(&config.devices).unwrap();
    assert_eq!(division.shards(), 4);
    let mut identities = Vec::new();
    for shard in 0..4 {
        let part = FileDevice::open_part(&config.devices, true, division, shard).unwrap();
        let report = offline::check(part, &mut |_, _| ()).unwrap();
        assert!(report.is_clean(), "{:?}", report.findings);
        let label = report.label.unwrap();
        assert_eq!((label.slice, label.device_bytes), (division.slice(shard), DEVICE_BYTES / 4));
        identities.push(label.uuid);
    }
    identities.sort();
    identities.dedup();
    assert_eq!(identities.len(), 4, "no part can be taken for another");

    // Two parts are swapped, so each is opened as if it were the other one.
    let misplaced = std::fs::read(&device.0).unwrap();
    let mut misplaced = misplaced.chunks((DEVICE_BYTES / 4) as usize).collect::<Vec<_>>();
    misplaced.swap(2, 3);
    std::fs::write(&device.0, misplaced.concat()).unwrap();
    let refusal = run(config).unwrap_err();
    // Either shard may be the first to report it.
    let says = |is, taken_for| {
        refusal.contains(&format!("the store is part {is} of 4 of its devices, not part {taken_for} of 4"))
    };
    assert!(says(4, 3) || says(3, 4), "{refusal}");
}

#[test]
fn what_does_not_fit_is_refused() {
    let device = Device::new("odd-shards");
    let config = |memory_bytes| config(&device.0, memory_bytes);
    for shards in [0, 3, 32] {
        let refusal = make(&config(1 << 30), DEVICE_BYTES, shards).unwrap_err();
        assert!(matches!(refusal, MkfsError::Shards { shards: s } if s == shards), "{refusal}");
    }
    assert!(!device.0.exists(), "nothing was made");
    make(&config(1 << 30), DEVICE_BYTES, 2).unwrap();
    let refusal = run(config(127 << 20)).unwrap_err();
    assert!(refusal.contains("it needs 134217728 at least"), "{refusal}");
    OpenOptions::new().write(true).open(&device.0).unwrap().set_len(DEVICE_BYTES - (1 << 20)).unwrap();
    let refusal = run(config(128 << 20)).unwrap_err();
    assert!(refusal.contains("shard 1"), "{refusal}");
}

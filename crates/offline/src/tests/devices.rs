//! Tests of stores on several devices.

use super::harness::{Group, SimFile, checked, config, contents, filled, filled_on, findings, open};
use crate::{FileDevice, OfflineStore, RepairAction, plan_repair, repair, stats};
use devices::{NewStore, StorePaths, mkfs};
use std::path::{Path, PathBuf};
use store::{Device, LABEL_OFFSETS, StoreConfig};
use types::Fsid;

fn split() -> StoreConfig {
    let one = config();
    StoreConfig {
        wal_device_bytes: Some(one.wal_bytes + StoreConfig::LABEL_BYTES),
        metadata_device_bytes: Some(4 << 20),
        ..one
    }
}

#[test]
fn a_store_on_three_devices_holds_the_same_and_is_looked_after_the_same() {
    let device = filled_on(&split(), Group::new);
    assert!(contents(device.copy()) == contents(filled()));
    let clean = checked(device.copy());
    assert!(clean.findings.is_empty() && clean.objects > 0, "{:?}", clean.findings);
    let mut store = open(device.copy());
    let found = stats(&mut store, &mut |_, _| ()).unwrap();
    let own = found.usage.metadata_device.unwrap();
    assert_eq!((found.label.wal_device_bytes, own.total_bytes), (split().wal_device_bytes, 4 << 20));
    assert!(own.free_bytes < own.total_bytes);

    // The roots are on the metadata device.
    store.settle(true).unwrap();
    let newest = store.store().log_state().checkpoint;
    let mut torn = store.into_device();
    torn.sim.part_mut(Device::Metadata).corrupt(LABEL_OFFSETS[2 + (newest + 1) as usize % 2] + 100, 1);
    let found = findings(torn);
    assert!(found.len() == 1 && found[0].starts_with("checkpoint root at"), "{found:?}");

    for (damaged, at) in [(Device::Wal, 0), (Device::Metadata, 1)] {
        let mut bad = device.copy();
        bad.sim.part_mut(damaged).corrupt(LABEL_OFFSETS[at] + 50, 4);
        let found = findings(bad.copy());
        let expected =
            format!("superblock copy at {:#x} of the {damaged}: damaged; the other copy is sound", LABEL_OFFSETS[at]);
        assert_eq!(found, [expected]);
        let mut store = open(bad);
        let plan = plan_repair(&mut store, &[], &mut |_, _| ()).unwrap();
        let (from, to) = (LABEL_OFFSETS[1 - at], LABEL_OFFSETS[at]);
        assert_eq!(plan.actions, [RepairAction::Superblock { device: damaged, from, to }]);
        let (mended, report) = repair(store, &plan, &mut |_, _| ()).unwrap();
        assert!(report.after.findings.is_empty());
        assert!(contents(mended) == contents(device.copy()));
    }
}

#[test]
fn a_device_that_is_missing_or_foreign_is_no_damage_of_the_store() {
    let device = filled_on(&split(), Group::new);
    let other = filled_on(&StoreConfig { uuid: Fsid([8; 16]), ..split() }, Group::new);
    let mut mixed = device.copy();
    mixed.sim.replace_part(Device::Wal, other.sim.part(Device::Wal).clone());
    let writes = mixed.writes;
    let error = OfflineStore::open(SimFile::on(mixed.sim.after_kill(&mut || 0))).err().expect("does not open");
    assert!(!error.is_damage() && error.to_string().contains("the WAL device belongs to store"), "{error}");
    assert_eq!(mixed.writes, writes, "nothing was written");
}

struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("nacre-devices-{}", std::process::id()));
        std::fs::create_dir_all(path.join("osd")).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn mkfs_leaves_links_by_which_the_other_devices_are_found() {
    let folder = Folder::new();
    let at = |name: &str| folder.0.join(name);
    let main = at("osd/block");
    let named =
        |wal: &str, metadata: &str| StorePaths { main: main.clone(), wal: Some(at(wal)), metadata: Some(at(metadata)) };
    let make = |paths: StorePaths| {
        let (osd, fsid, uuid) = (types::OsdId(3), Fsid([1; 16]), Fsid([2; 16]));
        mkfs(&NewStore { osd, fsid, uuid, paths, main_bytes: 32 << 20, shards: 1, forced: None })
    };
    let error = make(named("same", "same")).unwrap_err().to_string();
    assert!(error.ends_with("same is given twice"), "{error}");
    std::fs::write(at("theirs"), "data").unwrap();
    let error = make(named("wal", "theirs")).unwrap_err().to_string();
    assert!(error.contains("theirs exists and is not empty"), "{error}");
    assert!(!main.exists() && !at("wal").exists() && !at("same").exists(), "what was made is gone");
    assert_eq!(std::fs::read(at("theirs")).unwrap(), b"data");
    make(named("wal", "metadata")).unwrap();
    assert_eq!(std::fs::read_link(at("osd/block.metadata")).unwrap(), at("metadata"));

    let open = |main: &Path| {
        let device = FileDevice::open(&StorePaths::beside(main), true).map_err(|error| error.to_string())?;
        OfflineStore::open(device).map(|store| store.label()).map_err(|error| error.to_string())
    };
    let label = open(&main).unwrap();
    assert_eq!((label.osd, label.wal_bytes), (types::OsdId(3), 8 << 20));
    assert_eq!(label.wal_device_bytes, Some((8 << 20) + StoreConfig::LABEL_BYTES));
    assert_eq!(label.metadata_device_bytes, Some(64 << 20));

    std::fs::rename(at("wal"), at("gone")).unwrap();
    assert_eq!(open(&main).unwrap_err(), format!("there is no {}", at("osd/block.wal").display()));
    std::fs::remove_file(at("osd/block.wal")).unwrap();
    assert!(open(&main).unwrap_err().contains("has a WAL device of its own, and none is given"));
    std::os::unix::fs::symlink(at("metadata"), at("osd/block.wal")).unwrap();
    let error = open(&main).unwrap_err();
    assert!(error.contains("is in use"), "one file in two places: {error}");
    std::fs::remove_file(at("osd/block.wal")).unwrap();
    std::os::unix::fs::symlink(at("gone"), at("osd/block.wal")).unwrap();
    assert_eq!(open(&main).unwrap(), label);
}

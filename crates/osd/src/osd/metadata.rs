//! Facts that an OSD tells of itself when it asks to be marked up.

use crate::OsdConfig;
use std::collections::BTreeMap;
use wire::nacre::mon::{OSD_SHARDS, OsdBoot};

/// Metadata that `ceph osd metadata` shows. `total_bytes`: size of the store.
pub(super) fn metadata(
    config: &OsdConfig,
    (shards, total_bytes): (usize, u64),
    boot: &OsdBoot,
) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let rotational = if config.device_class == "hdd" { "1" } else { "0" };
    let own = [
        ("hostname", text(uname.nodename())),
        ("kernel_version", text(uname.release())),
        ("arch", text(uname.machine())),
        ("os", text(uname.sysname())),
        ("osd_data", config.devices.main.display().to_string()),
        ("osd_objectstore", "nacre".to_owned()),
        (OSD_SHARDS, shards.to_string()),
        ("front_addr", boot.public_addrs.to_string()),
        ("back_addr", boot.cluster_addrs.to_string()),
        ("hb_front_addr", boot.hb_front_addrs.to_string()),
        ("hb_back_addr", boot.hb_back_addrs.to_string()),
        ("default_device_class", config.device_class.clone()),
        ("rotational", rotational.to_owned()),
        ("journal_rotational", rotational.to_owned()),
    ];
    let machine = |key: &str| config.machine.get(key).cloned().unwrap_or_default();
    let flag = |is: bool| if is { "1" } else { "0" }.to_owned();
    // Tools read under these names where a Ceph keeps its data. No part of the store is a file system of its own.
    let store = [
        ("bluefs", flag(false)),
        ("bluefs_dedicated_db", flag(config.devices.metadata.is_some())),
        ("bluefs_dedicated_wal", flag(config.devices.wal.is_some())),
        ("bluefs_single_shared_device", flag(config.devices.metadata.is_none() && config.devices.wal.is_none())),
        ("bluestore_bdev_access_mode", String::new()),
        ("bluestore_bdev_block_size", "4096".to_owned()),
        ("bluestore_bdev_devices", machine("devices")),
        ("bluestore_bdev_driver", "nacre".to_owned()),
        ("bluestore_bdev_path", config.devices.main.display().to_string()),
        ("bluestore_bdev_rotational", rotational.to_owned()),
        ("bluestore_bdev_size", total_bytes.to_string()),
        ("bluestore_bdev_support_discard", flag(false)),
        ("bluestore_bdev_type", if rotational == "1" { "hdd" } else { "ssd" }.to_owned()),
        ("bluestore_min_alloc_size", "4096".to_owned()),
        ("front_iface", String::new()),
        ("back_iface", String::new()),
        ("network_numa_unknown_ifaces", "back_iface,front_iface".to_owned()),
        ("objectstore_numa_unknown_devices", machine("devices")),
        ("osdspec_affinity", String::new()),
        // OSDs do not record by which version and when they were made.
        ("ceph_version_when_created", String::new()),
        ("created_at", String::new()),
        ("device_ids", machine("device_ids")),
        ("device_paths", machine("device_paths")),
    ];
    let own =
        control::version::metadata().into_iter().chain(own).chain(store).map(|(key, value)| (key.to_owned(), value));
    // Facts about the machine in the configuration replace those found here.
    own.chain(config.machine.clone()).collect()
}

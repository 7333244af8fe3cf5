//! Facts that an OSD tells of itself when it asks to be marked up.

use super::VERSION;
use crate::OsdConfig;
use std::collections::BTreeMap;
use wire::nacre::mon::{OSD_SHARDS, OsdBoot};

/// Metadata that `ceph osd metadata` shows.
pub(super) fn metadata(config: &OsdConfig, shards: usize, boot: &OsdBoot) -> BTreeMap<String, String> {
    let uname = rustix::system::uname();
    let text = |s: &std::ffi::CStr| s.to_string_lossy().into_owned();
    let rotational = if config.device_class == "hdd" { "1" } else { "0" };
    let own = [
        ("ceph_version", VERSION.to_owned()),
        ("ceph_version_short", env!("CARGO_PKG_VERSION").to_owned()),
        ("ceph_release", "pacific".to_owned()),
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
    let own = own.into_iter().map(|(key, value)| (key.to_owned(), value));
    // Facts about the machine in the configuration replace those found here.
    own.chain(config.machine.clone()).collect()
}

//! An OSD on a file of its own.

use devices::{MkfsError, NewStore, StorePaths, mkfs};
use osd::OsdConfig;
use std::path::{Path, PathBuf};
use types::{Fsid, OsdId};

pub const FSID: Fsid = Fsid([1; 16]);
pub const OSD: OsdId = OsdId(3);

/// A file that is removed when this is dropped.
pub struct Device(pub PathBuf);

impl Device {
    pub fn new(name: &str) -> Device {
        let path = std::env::temp_dir().join(format!("nacre-test-{}-{name}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        Device(path)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An OSD without monitors.
pub fn config(device: &Path, memory_bytes: u64) -> OsdConfig {
    OsdConfig { memory_bytes, ..OsdConfig::new(OSD, FSID, StorePaths::one(device.to_owned())) }
}

/// The store of a configuration's OSD, with `main_bytes` of space.
pub fn new_store(config: &OsdConfig, main_bytes: u64, shards: usize) -> NewStore {
    let (osd, fsid, uuid, paths) = (config.id, config.fsid, Fsid([2; 16]), config.devices.clone());
    NewStore { osd, fsid, uuid, paths, main_bytes, shards, forced: None }
}

/// Makes that store.
pub fn make(config: &OsdConfig, main_bytes: u64, shards: usize) -> Result<(), MkfsError> {
    mkfs(&new_store(config, main_bytes, shards))
}

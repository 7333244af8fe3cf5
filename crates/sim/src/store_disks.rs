//! Chooses the disks on which an OSD's store lies.

use devices::{Division, StorePaths};
use std::path::{Path, PathBuf};
use store::{Device, StoreConfig};
use types::{Fsid, OsdId};

/// The usual size of a disk.
pub(crate) const DISK_BYTES: u64 = 256 << 20;

/// The disks of an OSD, and the settings of its stores.
#[derive(Clone, Debug)]
pub struct StoreDisks {
    pub paths: StorePaths,
    pub division: Division,
    /// Configuration of the first shard's store. The others' differ in their identity and part.
    config: StoreConfig,
}

fn uuid(osd: usize) -> Fsid {
    Fsid([osd as u8 + 1; 16])
}

impl StoreDisks {
    /// Chooses the disks by the seed. Under half of all seeds every store lies on one disk. Under the others log,
    /// metadata or both have disks of their own, in another way on each OSD. The sizes are those of each shard's part
    /// of a disk, and of its log.
    pub fn of(seed: u64, osd: usize, fsid: Fsid, shards: usize, (disk_bytes, wal_bytes): (u64, u64)) -> StoreDisks {
        let one = StoreConfig::one_device(disk_bytes, wal_bytes, fsid, OsdId(osd as i32), uuid(osd));
        let (wal, metadata) = match seed % 4 {
            0 | 1 => (false, false),
            _ => {
                let which = (seed / 4 + osd as u64) % 4;
                (which & 1 == 1, which & 2 == 2)
            }
        };
        let own = |wanted: bool, name: &str| wanted.then(|| PathBuf::from(name));
        let paths = StorePaths { main: "disk".into(), wal: own(wal, "wal"), metadata: own(metadata, "metadata") };
        let mut config = StoreConfig {
            wal_device_bytes: wal.then_some(wal_bytes + StoreConfig::LABEL_BYTES),
            metadata_device_bytes: metadata.then_some(disk_bytes),
            ..one
        };
        let mut division = Division::WHOLE;
        if shards > 1 {
            let unit = Division::PART_UNIT_BYTES;
            config.device_bytes = disk_bytes.next_multiple_of(unit);
            config.wal_device_bytes = config.wal_device_bytes.map(|bytes| bytes.next_multiple_of(unit));
            config.metadata_device_bytes = config.metadata_device_bytes.map(|bytes| bytes.next_multiple_of(unit));
            let all = Device::ALL.map(|device| config.bytes_of(device).map(|bytes| bytes * shards as u64));
            division = Division::of(shards, all);
        }
        StoreDisks { paths, division, config }
    }

    /// Configuration of a shard's store.
    pub fn config_of(&self, shard: usize) -> StoreConfig {
        let uuid = Division::uuid(self.config.uuid, shard);
        StoreConfig { uuid, slice: self.division.slice(shard), ..self.config.clone() }
    }

    /// Gives the disks other stores. `replaced`: number of times that this has happened.
    pub fn made_anew(&mut self, replaced: u8) {
        self.config.uuid.0[0] = 0x80 | replaced;
    }

    pub fn shards(&self) -> usize {
        self.division.shards()
    }

    /// Size of a disk in bytes.
    pub fn bytes_of(&self, device: Device) -> Option<u64> {
        Some(self.config.bytes_of(device)? * self.shards() as u64)
    }

    /// The devices with their paths, the main one first.
    pub fn all(&self) -> impl Iterator<Item = (Device, &Path)> {
        Device::ALL.into_iter().filter_map(|device| Some((device, self.paths.of(device)?)))
    }
}

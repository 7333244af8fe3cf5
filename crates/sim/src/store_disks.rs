//! Which disks an OSD's store lies on.

use osd::StorePaths;
use std::path::{Path, PathBuf};
use store::{Device, StoreConfig};
use types::{Fsid, OsdId};

/// What disks have if nothing else is wished for.
pub(crate) const DISK_BYTES: u64 = 256 << 20;

/// The disks of one store, and what it is made with.
#[derive(Clone, Debug)]
pub struct StoreDisks {
    pub paths: StorePaths,
    pub config: StoreConfig,
}

fn uuid(osd: usize) -> Fsid {
    Fsid([osd as u8 + 1; 16])
}

impl StoreDisks {
    /// Under half of all seeds every store lies on one disk. Under the others log, metadata or both have disks of their own,
    /// on each OSD otherwise. The sizes are those of each disk and of the log.
    pub fn of(seed: u64, osd: usize, fsid: Fsid, (disk_bytes, wal_bytes): (u64, u64)) -> StoreDisks {
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
        let config = StoreConfig {
            wal_device_bytes: wal.then_some(wal_bytes + StoreConfig::LABEL_BYTES),
            metadata_device_bytes: metadata.then_some(disk_bytes),
            ..one
        };
        StoreDisks { paths, config }
    }

    /// Its devices, the main one first, and where they are.
    pub fn all(&self) -> impl Iterator<Item = (Device, &Path)> {
        Device::ALL.into_iter().filter_map(|device| Some((device, self.paths.of(device)?)))
    }
}

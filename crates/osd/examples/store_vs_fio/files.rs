//! Places of a store of the benchmark.

use std::path::{Path, PathBuf};
use store::Device;

/// The files, or devices, of one store.
pub struct StoreFiles {
    pub main: PathBuf,
    /// Bytes of the main file that the store takes.
    pub device_bytes: u64,
    pub wal: Option<PathBuf>,
    pub metadata: Option<PathBuf>,
    pub metadata_bytes: u64,
}

impl StoreFiles {
    /// A store whose data, log and metadata are all in one file.
    pub fn one(path: &Path, device_bytes: u64) -> StoreFiles {
        StoreFiles { main: path.to_owned(), device_bytes, wal: None, metadata: None, metadata_bytes: 0 }
    }

    pub fn of(&self, device: Device) -> Option<&Path> {
        match device {
            Device::Main => Some(&self.main),
            Device::Wal => self.wal.as_deref(),
            Device::Metadata => self.metadata.as_deref(),
        }
    }
}

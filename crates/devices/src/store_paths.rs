//! Paths of the devices of an OSD's store.

use std::path::{Path, PathBuf};
use store::Device;

/// Files, block devices, or links to either.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorePaths {
    pub main: PathBuf,
    /// Separate devices for log and metadata, if the store has them.
    pub wal: Option<PathBuf>,
    pub metadata: Option<PathBuf>,
}

impl StorePaths {
    /// A store on one device.
    pub fn one(main: PathBuf) -> StorePaths {
        StorePaths { main, wal: None, metadata: None }
    }

    /// Finds the devices beside the main one. Their names are the main device's with `.wal` and `.metadata` appended. A
    /// name counts if there is a file or a link, even a link to nothing.
    pub fn beside(main: &Path) -> StorePaths {
        let existing = |device| Some(beside(main, device)).filter(|path| path.symlink_metadata().is_ok());
        StorePaths { main: main.to_owned(), wal: existing(Device::Wal), metadata: existing(Device::Metadata) }
    }

    pub fn of(&self, device: Device) -> Option<&Path> {
        match device {
            Device::Main => Some(&self.main),
            Device::Wal => self.wal.as_deref(),
            Device::Metadata => self.metadata.as_deref(),
        }
    }
}

/// The path at which a device beside the main one is looked for.
pub(crate) fn beside(main: &Path, device: Device) -> PathBuf {
    let mut path = main.as_os_str().to_owned();
    path.push(match device {
        Device::Main => "",
        Device::Wal => ".wal",
        Device::Metadata => ".metadata",
    });
    path.into()
}

//! The store of a new OSD.

use crate::OsdConfig;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use store::{FormatError, IoRequest, Store, StoreConfig};
use types::Fsid;

/// Why there is no new store. Nothing of an existing one has been changed.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    #[error("cannot open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} exists and is not empty; remove it first if nothing in it is needed")]
    NotEmpty { path: PathBuf },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// Makes the file `config.device` (or takes the block device of that name), `size_bytes` large, into an empty store.
/// `uuid` identifies it from then on.
pub fn mkfs(config: &OsdConfig, size_bytes: u64, uuid: Fsid) -> Result<(), MkfsError> {
    let path = &config.device;
    let open = |source| MkfsError::Open { path: path.clone(), source };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(open)?;
    let is_file = file.metadata().map_err(open)?.is_file();
    if is_file {
        if file.metadata().map_err(open)?.len() != 0 {
            return Err(MkfsError::NotEmpty { path: path.clone() });
        }
        file.set_len(size_bytes).map_err(open)?;
    }
    let requests = Store::format(&store_config(config, size_bytes, uuid))?;
    let write = |source| MkfsError::Write { path: path.clone(), source };
    carry_out(&file, requests).map_err(write)
}

/// The store's configuration on a device of `device_bytes`. `uuid` matters only when it is made.
pub(crate) fn store_config(config: &OsdConfig, device_bytes: u64, uuid: Fsid) -> StoreConfig {
    let wal_bytes = StoreConfig::default_wal_bytes(device_bytes);
    StoreConfig { device_bytes, wal_bytes, fsid: config.fsid, osd: config.id, uuid }
}

fn carry_out(file: &File, requests: impl IntoIterator<Item = IoRequest>) -> io::Result<()> {
    for request in requests {
        match request {
            IoRequest::Write { mut offset, data, .. } => {
                for piece in data.pieces() {
                    file.write_all_at(piece, offset)?;
                    offset += piece.len() as u64;
                }
            }
            IoRequest::Flush { .. } => file.sync_data()?,
            IoRequest::Discard { .. } => {}
            IoRequest::Read { .. } => return Err(io::Error::other("a new store has nothing to read")),
        }
    }
    file.sync_all()
}

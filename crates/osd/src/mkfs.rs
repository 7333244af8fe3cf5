//! The store of a new OSD.

use crate::OsdConfig;
use crate::shards::Division;
use crate::store_paths::beside;
use pg::{SHARDS_MAX, can_be_shards};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use store::{Device, FormatError, IoRequest, Slice, Store, StoreConfig};
use types::{BLOCK_BYTES, Fsid};

/// Why there is no new store. Nothing of an existing one has been changed.
#[derive(Debug, thiserror::Error)]
pub enum MkfsError {
    #[error("cannot open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("{path} exists and is not empty; remove it first if nothing in it is needed")]
    NotEmpty { path: PathBuf },
    #[error("{path} is there already; remove it first if it is not needed")]
    LinkExists { path: PathBuf },
    #[error("cannot make the link {path}")]
    Link { path: PathBuf, source: io::Error },
    #[error("{path} is given twice")]
    Twice { path: PathBuf },
    #[error("cannot write {path}")]
    Write { path: PathBuf, source: io::Error },
    #[error("{shards} shards: an OSD has a power of two of them, {SHARDS_MAX} at most")]
    Shards { shards: usize },
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// A file that is new, or a block device.
struct Target {
    device: Device,
    path: PathBuf,
    file: File,
}

impl Target {
    /// Makes the file, still empty, or takes the block device of that name.
    fn new(device: Device, path: &Path) -> Result<Target, MkfsError> {
        let open = |source| MkfsError::Open { path: path.to_owned(), source };
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_file() && metadata.len() != 0 {
            return Err(MkfsError::NotEmpty { path: path.to_owned() });
        }
        Ok(Target { device, path: path.to_owned(), file })
    }

    /// Gives a file this size. Returns the size it has, or that of the block device.
    fn size(&mut self, file_bytes: u64) -> Result<u64, MkfsError> {
        let open = |source| MkfsError::Open { path: self.path.clone(), source };
        if self.file.metadata().map_err(open)?.is_file() {
            self.file.set_len(file_bytes).map_err(open)?;
        }
        self.file.seek(io::SeekFrom::End(0)).map_err(open)
    }

    /// What two targets that are the same have in common.
    fn identity(&self) -> Result<(u64, u64), MkfsError> {
        let metadata = self.file.metadata().map_err(|source| MkfsError::Open { path: self.path.clone(), source })?;
        let is_device = metadata.file_type().is_block_device();
        Ok(if is_device { (u64::MAX, metadata.rdev()) } else { (metadata.dev(), metadata.ino()) })
    }
}

/// Makes the file `config.devices.main` (or takes the block device of that name), `size_bytes` large, into an empty
/// store for so many shards. `uuid` identifies it from then on.
///
/// Where `config.devices` names others for log and metadata, these become parts of it: block devices with all of their
/// size, files as large as suits the store. Links beside the main device, under names that [`StorePaths::beside`](crate::StorePaths::beside) finds,
/// lead to them.
pub fn mkfs(config: &OsdConfig, size_bytes: u64, uuid: Fsid, shards: usize) -> Result<(), MkfsError> {
    if !can_be_shards(shards) {
        return Err(MkfsError::Shards { shards });
    }
    let paths = &config.devices;
    let mut targets: Vec<Target> = Vec::new();
    for device in Device::ALL {
        let Some(path) = paths.of(device) else { continue };
        let link = beside(&paths.main, device);
        if link != path && link.symlink_metadata().is_ok() {
            return Err(MkfsError::LinkExists { path: link });
        }
        let target = Target::new(device, path)?;
        for other in &targets {
            if other.identity()? == target.identity()? {
                return Err(MkfsError::Twice { path: path.to_owned() });
            }
        }
        targets.push(target);
    }
    let parts_of = |bytes: u64| match shards {
        1 => bytes,
        _ => shards as u64 * bytes.next_multiple_of(Division::PART_UNIT_BYTES),
    };
    let part_of_main = Division::of(shards, [Some(size_bytes), None, None]).bytes(0, Device::Main, size_bytes);
    let of_part = store_config(config, Slice::WHOLE, [Some(part_of_main), None, None], uuid);
    let mut bytes = [None; 3];
    for target in &mut targets {
        bytes[target.device as usize] = Some(match target.device {
            Device::Main => {
                target.size(size_bytes)?;
                size_bytes
            }
            Device::Wal => target.size(parts_of(of_part.wal_bytes + StoreConfig::LABEL_BYTES))?,
            Device::Metadata => target.size(parts_of(metadata_file_bytes(part_of_main)))?,
        });
    }
    let division = Division::of(shards, bytes);
    let configs = (0..shards).map(|shard| {
        let of_shard = |device: Device| bytes[device as usize].map(|bytes| division.bytes(shard, device, bytes));
        let sizes = store_config(config, division.slice(shard), Device::ALL.map(of_shard), Division::uuid(uuid, shard));
        let room = sizes.wal_device_bytes.map_or(u64::MAX, |bytes| bytes.saturating_sub(StoreConfig::LABEL_BYTES));
        StoreConfig { wal_bytes: sizes.wal_bytes.min(room - room % BLOCK_BYTES as u64), ..sizes }
    });
    let requests: Vec<Vec<IoRequest>> = configs.map(|sizes| Store::format(&sizes)).collect::<Result<_, _>>()?;
    let write_all = |shard: usize, requests: &[IoRequest]| {
        for request in requests {
            let device = request.device();
            let target = targets.iter().find(|target| target.device == device).expect("one for each device");
            let write = |source| MkfsError::Write { path: target.path.clone(), source };
            carry_out(&target.file, division.offset(shard, device), request).map_err(write)?;
        }
        Ok::<(), MkfsError>(())
    };
    // The first part tells how many there are, so it is the first to be no store and the last to be one.
    let is_no_store = requests[0].iter().position(|request| matches!(request, IoRequest::Flush { .. }));
    write_all(0, &requests[0][..=is_no_store.expect("a store is made with flushes")])?;
    for (shard, requests) in requests.iter().enumerate().rev() {
        write_all(shard, requests)?;
    }
    for target in &targets {
        let write = |source| MkfsError::Write { path: target.path.clone(), source };
        target.file.sync_all().map_err(write)?;
        let link = beside(&paths.main, target.device);
        if link != target.path {
            let cannot = |source| MkfsError::Link { path: link.clone(), source };
            let absolute = std::path::absolute(&target.path).map_err(cannot)?;
            symlink(absolute, &link).map_err(cannot)?;
        }
    }
    Ok(())
}

/// Where all data came in small writes, metadata take some 2 % of it, and a checkpoint may need as much again.
fn metadata_file_bytes(main_bytes: u64) -> u64 {
    (main_bytes / 16).max(64 << 20) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// The store's configuration on a part of devices, of these sizes, in the order of [`Device::ALL`]. `uuid` matters only when it is
/// made. Panics without a main device.
pub(crate) fn store_config(config: &OsdConfig, slice: Slice, bytes: [Option<u64>; 3], uuid: Fsid) -> StoreConfig {
    let [main, wal_device_bytes, metadata_device_bytes] = bytes;
    let main = main.expect("every store has a main device");
    let one = StoreConfig::one_device(main, StoreConfig::default_wal_bytes(main), config.fsid, config.id, uuid);
    StoreConfig { wal_device_bytes, metadata_device_bytes, slice, ..one }
}

/// Carries out a request to the part of a file that begins there.
fn carry_out(file: &File, begin: u64, request: &IoRequest) -> io::Result<()> {
    match request {
        IoRequest::Write { offset, data, .. } => {
            let mut offset = begin + offset;
            for piece in data.pieces() {
                file.write_all_at(piece, offset)?;
                offset += piece.len() as u64;
            }
            Ok(())
        }
        IoRequest::Flush { .. } => file.sync_data(),
        IoRequest::Discard { .. } => Ok(()),
        IoRequest::Read { .. } => Err(io::Error::other("a new store has nothing to read")),
    }
}

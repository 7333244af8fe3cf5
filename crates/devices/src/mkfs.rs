//! Makes the store of a new OSD.

use crate::division::can_be_shards;
use crate::mkfs_error::MkfsError;
use crate::mkfs_target::Target;
use crate::store_paths::beside;
use crate::{Division, StorePaths};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, symlink};
use std::path::PathBuf;
use store::{Device, IoRequest, Slice, Store, StoreConfig};
use types::{BLOCK_BYTES, Fsid, OsdId};

/// The store of a new OSD that is to be made.
#[derive(Clone, Debug)]
pub struct NewStore {
    /// The OSD, and its cluster.
    pub osd: OsdId,
    pub fsid: Fsid,
    /// Identifies the store.
    pub uuid: Fsid,
    /// Files that are new or empty, or block devices.
    pub paths: StorePaths,
    /// Size of the main device if that is a file.
    pub main_bytes: u64,
    /// Shards of the OSD: a power of two, [`crate::SHARDS_MAX`] at most.
    pub shards: usize,
    /// An OSD whose block devices are overwritten though they hold something: the one whose store it is, or the new OSD
    /// if it is no store with a sound label. `None`: nothing that is known is overwritten.
    pub forced: Option<OsdId>,
}

/// Makes the file `paths.main`, or the block device of that name, into an empty store.
///
/// If `paths` has other devices for log and metadata, these become parts of the store: block devices with all of their
/// size, files with a size that suits the store. Links beside the main device lead to them; [`StorePaths::beside`]
/// finds the links by their names.
///
/// A block device that holds a store or anything else that is known stays as it is, unless [`NewStore::forced`] says
/// otherwise. A device in use is never touched. If making the store fails, files that were made are removed.
pub fn mkfs(new: &NewStore) -> Result<(), MkfsError> {
    let NewStore { osd, fsid, uuid, ref paths, main_bytes, shards, forced } = *new;
    if !can_be_shards(shards) {
        return Err(MkfsError::Shards { shards });
    }
    let store_config = |slice, bytes, uuid| store_config(osd, fsid, slice, bytes, uuid);
    let mut targets: Vec<Target> = Vec::new();
    for device in Device::ALL {
        let Some(path) = paths.of(device) else { continue };
        let link = beside(&paths.main, device);
        if link != path && link.symlink_metadata().is_ok() {
            return Err(MkfsError::LinkExists { path: link });
        }
        if targets.iter().any(|other| other.is_at(path)) {
            return Err(MkfsError::Twice { path: path.to_owned() });
        }
        targets.push(Target::new(device, path, osd, forced)?);
    }
    // The links come first: where an unfinished store is found, all of its files are found, too.
    let mut links = Links::default();
    for target in &targets {
        let link = beside(&paths.main, target.device);
        if link != target.path {
            let cannot = |source| MkfsError::Link { path: link.clone(), source };
            let absolute = std::path::absolute(&target.path).map_err(cannot)?;
            symlink(absolute, &link).map_err(cannot)?;
            links.0.push(link);
        }
    }
    let parts_of = |bytes: u64| match shards {
        1 => bytes,
        _ => shards as u64 * bytes.next_multiple_of(Division::PART_UNIT_BYTES),
    };
    let part_of_main = Division::of(shards, [Some(main_bytes), None, None]).bytes(0, Device::Main, main_bytes);
    let of_part = store_config(Slice::WHOLE, [Some(part_of_main), None, None], uuid);
    let mut bytes = [None; 3];
    for target in &mut targets {
        bytes[target.device as usize] = Some(match target.device {
            Device::Main => {
                target.size(main_bytes)?;
                main_bytes
            }
            Device::Wal => target.size(parts_of(of_part.wal_bytes + StoreConfig::LABEL_BYTES))?,
            Device::Metadata => target.size(parts_of(metadata_file_bytes(part_of_main)))?,
        });
    }
    let division = Division::of(shards, bytes);
    let configs = (0..shards).map(|shard| {
        let of_shard = |device: Device| bytes[device as usize].map(|bytes| division.bytes(shard, device, bytes));
        let sizes = store_config(division.slice(shard), Device::ALL.map(of_shard), Division::uuid(uuid, shard));
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
    for target in &targets {
        target.wipe().map_err(|source| MkfsError::Write { path: target.path.clone(), source })?;
    }
    // The first part tells the number of parts. It is therefore the first that stops being a store and the last that
    // becomes one.
    let is_no_store = requests[0].iter().position(|request| matches!(request, IoRequest::Flush { .. }));
    write_all(0, &requests[0][..=is_no_store.expect("a store is made with flushes")])?;
    for (shard, requests) in requests.iter().enumerate().rev() {
        write_all(shard, requests)?;
    }
    for target in &targets {
        target.file.sync_all().map_err(|source| MkfsError::Write { path: target.path.clone(), source })?;
    }
    links.0.clear();
    targets.into_iter().for_each(Target::keep);
    Ok(())
}

/// Links that were made; dropping this removes them if not all could be made.
#[derive(Default)]
struct Links(Vec<PathBuf>);

impl Drop for Links {
    fn drop(&mut self) {
        for link in &self.0 {
            let _ = std::fs::remove_file(link);
        }
    }
}

/// Size of a file for metadata. If all data came in small writes, metadata takes some 2 % of its size, and a checkpoint
/// may need as much again.
fn metadata_file_bytes(main_bytes: u64) -> u64 {
    (main_bytes / 16).max(64 << 20) / BLOCK_BYTES as u64 * BLOCK_BYTES as u64
}

/// Configuration of an OSD's store on one part of the devices. `bytes`: size of the part of each device, in the order
/// of [`Device::ALL`]. `uuid` matters only when the store is made. Panics without a main device.
pub fn store_config(osd: OsdId, fsid: Fsid, slice: Slice, bytes: [Option<u64>; 3], uuid: Fsid) -> StoreConfig {
    let [main, wal_device_bytes, metadata_device_bytes] = bytes;
    let main = main.expect("every store has a main device");
    let one = StoreConfig::one_device(main, StoreConfig::default_wal_bytes(main), fsid, osd, uuid);
    StoreConfig { wal_device_bytes, metadata_device_bytes, slice, ..one }
}

/// Carries out a request on the part of a file that begins at `begin`.
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

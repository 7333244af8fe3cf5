//! A file or block device that becomes a device of a new store.

use crate::mkfs_error::MkfsError;
use crate::occupant::{Occupant, edge_bytes, occupant};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use store::Device;
use types::OsdId;

/// Steps to take if the store is not made.
enum Undo {
    Nothing,
    /// Removes the file, which was made for the store.
    Remove,
    /// Empties the file, which was there and empty.
    Empty,
}

/// A file that is new or empty, or a block device that nobody uses. Nobody else takes it as long as this lives.
/// Dropping this undoes the changes to a file unless [`Target::keep`] was called. A block device is not touched before
/// [`Target::wipe`].
pub(crate) struct Target {
    pub device: Device,
    pub path: PathBuf,
    pub file: File,
    is_block_device: bool,
    undo: Undo,
}

impl Target {
    /// Makes the file, still empty, or takes the block device of that name. `forced`: the OSD that an operator named as
    /// the one whose device may be overwritten. `new`: the OSD that the store is for.
    pub fn new(device: Device, path: &Path, new: OsdId, forced: Option<OsdId>) -> Result<Target, MkfsError> {
        let open = |source| MkfsError::Open { path: path.to_owned(), source };
        let is_block_device = std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_block_device());
        let mut options = OpenOptions::new();
        // Of a file that is made here nobody but the owner may read.
        options.read(true).write(true).mode(0o600);
        if is_block_device {
            // This is the kernel's own claim. Mounts, volumes and other OSDs claim a device in the same way, whichever
            // node they open.
            options.custom_flags(OFlags::EXCL.bits() as i32);
            let file = options.open(path).map_err(|source| match source.kind() {
                io::ErrorKind::ResourceBusy => MkfsError::InUse { path: path.to_owned() },
                _ => open(source),
            })?;
            let target = Target { device, path: path.to_owned(), file, is_block_device, undo: Undo::Nothing };
            target.may_be_overwritten(new, forced)?;
            return Ok(target);
        }
        let (file, undo) = match options.clone().create_new(true).open(path) {
            // A link that leads to no file yet is followed.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                (options.create(true).truncate(false).open(path).map_err(open)?, Undo::Empty)
            }
            made => (made.map_err(open)?, Undo::Remove),
        };
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| MkfsError::InUse { path: path.to_owned() })?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_file() && metadata.len() != 0 && !mutant::is(mutant::Mutant::MkfsOverwrites) {
            return Err(MkfsError::NotEmpty { path: path.to_owned() });
        }
        Ok(Target { device, path: path.to_owned(), file, is_block_device, undo })
    }

    fn may_be_overwritten(&self, new: OsdId, forced: Option<OsdId>) -> Result<(), MkfsError> {
        if mutant::is(mutant::Mutant::MkfsOverwrites) {
            return Ok(());
        }
        let open = |source| MkfsError::Open { path: self.path.clone(), source };
        let bytes = (&self.file).seek(io::SeekFrom::End(0)).map_err(open)?;
        let Some(occupant) = occupant(&self.file, bytes).map_err(open)? else { return Ok(()) };
        // An operator who gives up a store must know whose store it is.
        let to_name = match &occupant {
            Occupant::Store(label) => label.osd,
            Occupant::UnknownStore | Occupant::Foreign(_) => new,
        };
        if forced == Some(to_name) {
            return Ok(());
        }
        Err(MkfsError::Occupied { path: self.path.clone(), occupant, to_name })
    }

    /// Removes the former content's marks from a block device. Our own store does not overwrite all of them, and with
    /// one left others would take the device for theirs.
    pub fn wipe(&self) -> io::Result<()> {
        if !self.is_block_device {
            return Ok(());
        }
        let bytes = (&self.file).seek(io::SeekFrom::End(0))?;
        let edge = vec![0; edge_bytes(bytes)];
        self.file.write_all_at(&edge, 0)?;
        self.file.write_all_at(&edge, bytes - edge.len() as u64)?;
        self.file.sync_data()
    }

    /// Gives a file this size. Returns the resulting size, or the size of the block device.
    pub fn size(&mut self, file_bytes: u64) -> Result<u64, MkfsError> {
        let open = |source| MkfsError::Open { path: self.path.clone(), source };
        if !self.is_block_device && self.file.metadata().map_err(open)?.is_file() {
            self.file.set_len(file_bytes).map_err(open)?;
        }
        self.file.seek(io::SeekFrom::End(0)).map_err(open)
    }

    /// True if a path leads to this file or device.
    pub fn is_at(&self, path: &Path) -> bool {
        let identity = |metadata: Metadata| match metadata.file_type().is_block_device() {
            true => (u64::MAX, metadata.rdev()),
            false => (metadata.dev(), metadata.ino()),
        };
        let there = std::fs::metadata(path).ok().map(identity);
        there.is_some() && there == self.file.metadata().ok().map(identity)
    }

    /// Keeps the file: the store is made.
    pub fn keep(mut self) {
        self.undo = Undo::Nothing;
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // The caller already has the error that led here and needs no second one.
        let _ = match self.undo {
            Undo::Nothing => Ok(()),
            Undo::Remove => std::fs::remove_file(&self.path),
            Undo::Empty => self.file.set_len(0),
        };
    }
}

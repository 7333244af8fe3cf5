//! Files and block devices as places for records.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use types::AlignedBuf;

use super::record::{MAGIC, RECORD_BYTES};
use super::ring::Medium;

/// Bytes at the begin of a device that must be zero, or be ours.
const HEAD_BYTES: usize = 1 << 20;

/// A file or a block device, read and written past the kernel's cache where that is possible.
pub struct FileMedium {
    file: File,
    buffer: AlignedBuf,
    pub path: PathBuf,
    /// False where the file system knows no direct requests, as one in memory.
    pub is_direct: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum MediumError {
    #[error("cannot open {path}{}", hint(source))]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot read or write {path}")]
    Use { path: PathBuf, source: io::Error },
    #[error("{path} holds something else; name a file that is not there yet, or an empty device")]
    Occupied { path: PathBuf },
    #[error("{path} is neither a file nor a block device")]
    Kind { path: PathBuf },
    #[error("{path} has {bytes} bytes, and {wanted} are needed")]
    Small { path: PathBuf, bytes: u64, wanted: u64 },
}

/// Words for a device that is in use.
fn hint(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::ResourceBusy { ": it is mounted or in use" } else { "" }
}

impl FileMedium {
    /// Opens a place for `bytes` bytes to write into: a new file, an empty block device, or what an earlier test left.
    pub fn create(path: &Path, bytes: u64) -> Result<FileMedium, MediumError> {
        match std::fs::metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let medium = FileMedium::open_with(path, OpenOptions::new().create_new(true))?;
                medium.file.set_len(bytes).map_err(|source| MediumError::Use { path: path.into(), source })?;
                // The name must survive, too.
                let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
                let synced = File::open(folder).and_then(|folder| folder.sync_all());
                synced.map_err(|source| MediumError::Use { path: folder.into(), source })?;
                Ok(medium)
            }
            _ => FileMedium::open(path, bytes),
        }
    }

    /// Opens what an earlier test left, or an empty block device.
    pub fn open(path: &Path, bytes: u64) -> Result<FileMedium, MediumError> {
        let metadata =
            std::fs::metadata(path).map_err(|source| MediumError::Open { path: path.into(), source })?.file_type();
        let mut options = OpenOptions::new();
        let medium = match (metadata.is_file(), metadata.is_block_device()) {
            (true, _) => FileMedium::open_with(path, &mut options)?,
            // The kernel refuses a device that is mounted or belongs to something else.
            (_, true) => FileMedium::open_flags(path, &mut options, OFlags::EXCL)?,
            _ => return Err(MediumError::Kind { path: path.into() }),
        };
        let failed = |source| MediumError::Use { path: path.into(), source };
        let size =
            rustix::fs::seek(&medium.file, rustix::fs::SeekFrom::End(0)).map_err(|error| failed(error.into()))?;
        if size < bytes {
            return Err(MediumError::Small { path: path.into(), bytes: size, wanted: bytes });
        }
        let mut head = AlignedBuf::zeroed(HEAD_BYTES.min(usize::try_from(bytes).unwrap_or(HEAD_BYTES)));
        medium.file.read_exact_at(head.as_mut_slice(), 0).map_err(failed)?;
        let head = head.as_slice();
        let is_empty_device = metadata.is_block_device() && head.iter().all(|byte| *byte == 0);
        // A first step that was cut off may have left its first block half written: one of the next ones tells.
        let is_ours = head.chunks(RECORD_BYTES).take(2).any(|block| block.starts_with(MAGIC));
        if is_empty_device || is_ours { Ok(medium) } else { Err(MediumError::Occupied { path: path.into() }) }
    }

    fn open_with(path: &Path, options: &mut OpenOptions) -> Result<FileMedium, MediumError> {
        FileMedium::open_flags(path, options, OFlags::empty())
    }

    fn open_flags(path: &Path, options: &mut OpenOptions, flags: OFlags) -> Result<FileMedium, MediumError> {
        let mut open = |flags: OFlags| {
            let bits = i32::try_from(flags.bits()).expect("flags fit");
            options.read(true).write(true).custom_flags(bits).open(path)
        };
        let made_of = |file, is_direct| FileMedium {
            file,
            buffer: AlignedBuf::zeroed(RECORD_BYTES),
            path: path.into(),
            is_direct,
        };
        match open(flags | OFlags::DIRECT) {
            Ok(file) => Ok(made_of(file, true)),
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INVAL.raw_os_error()) => {
                // The failed call may have made the file.
                let open = OpenOptions::new().read(true).write(true).open(path);
                open.map(|file| made_of(file, false)).map_err(|source| MediumError::Open { path: path.into(), source })
            }
            Err(source) => Err(MediumError::Open { path: path.into(), source }),
        }
    }
}

fn offset(slot: u64) -> u64 {
    slot * RECORD_BYTES as u64
}

impl Medium for FileMedium {
    fn write(&mut self, slot: u64, block: &[u8]) -> io::Result<()> {
        self.buffer.as_mut_slice().copy_from_slice(block);
        self.file.write_all_at(self.buffer.as_slice(), offset(slot))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn read(&mut self, slot: u64, block: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(self.buffer.as_mut_slice(), offset(slot))?;
        block.copy_from_slice(self.buffer.as_slice());
        Ok(())
    }
}

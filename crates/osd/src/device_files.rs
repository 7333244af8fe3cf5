//! The files of a store's devices, open in a reactor.

use crate::StorePaths;
use reactor::{FileId, FileOptions, Io};
use std::io;
use store::{Device, IoRequest};

/// In the order of [`Device::ALL`].
pub(crate) struct DeviceFiles([Option<FileId>; 3]);

impl DeviceFiles {
    /// Opens all of them, locked against other processes. Errors name the file.
    pub fn open(io: &mut impl Io, paths: &StorePaths) -> io::Result<DeviceFiles> {
        let options = FileOptions { direct: true, lock: true, ..FileOptions::default() };
        let mut files = [None; 3];
        for device in Device::ALL {
            let Some(path) = paths.of(device) else { continue };
            let with_path = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
            files[device as usize] = Some(io.open_file(path, options).map_err(with_path)?);
        }
        Ok(DeviceFiles(files))
    }

    /// Panics if there is no such device.
    pub fn of(&self, device: Device) -> FileId {
        self.0[device as usize].unwrap_or_else(|| panic!("the store has no {device}"))
    }

    /// Size of each.
    pub fn bytes(&self, io: &impl Io) -> io::Result<[Option<u64>; 3]> {
        let mut bytes = [None; 3];
        for (file, bytes) in self.0.iter().zip(&mut bytes) {
            *bytes = file.map(|file| io.file_len_bytes(file)).transpose()?;
        }
        Ok(bytes)
    }

    pub fn submit(&self, io: &mut impl Io, request: IoRequest) {
        let file = self.of(request.device());
        match request {
            IoRequest::Read { id, offset, buf, .. } => io.read(file, offset, buf, id.0),
            IoRequest::Write { id, offset, data, .. } => io.write(file, offset, data.into_pieces().collect(), id.0),
            IoRequest::Flush { id, .. } => io.flush(file, id.0),
            IoRequest::Discard { id, offset, len, .. } => io.discard(file, offset, len, id.0),
        }
    }
}

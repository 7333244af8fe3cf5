//! The files of a store's devices, open in a reactor.

use crate::{Division, StorePaths};
use reactor::{FileId, FileOptions, Io};
use std::io;
use store::{Device, IoRequest};

/// The files of all devices, and the part of each that belongs to one shard.
pub struct DeviceFiles {
    /// The open files, in the order of [`Device::ALL`].
    files: [Option<FileId>; 3],
    division: Division,
    shard: usize,
}

impl DeviceFiles {
    /// Opens all files for the first shard and locks them against other processes. Errors name the file.
    pub fn open(io: &mut impl Io, paths: &StorePaths, division: Division) -> io::Result<DeviceFiles> {
        DeviceFiles::open_for(io, paths, division, 0, true)
    }

    /// Opens the files for another shard. The first shard's lock keeps other processes out. This shard locks its own
    /// part, too: a process that was killed may still have writes under way there.
    pub fn open_part(
        io: &mut impl Io,
        paths: &StorePaths,
        division: Division,
        shard: usize,
    ) -> io::Result<DeviceFiles> {
        DeviceFiles::open_for(io, paths, division, shard, false)
    }

    fn open_for(
        io: &mut impl Io,
        paths: &StorePaths,
        division: Division,
        shard: usize,
        lock: bool,
    ) -> io::Result<DeviceFiles> {
        let mut files = [None; 3];
        for device in Device::ALL {
            let Some(path) = paths.of(device) else { continue };
            let lock_part = division.bounds(shard, device);
            let options = FileOptions { direct: true, lock, lock_part, ..FileOptions::default() };
            let with_path = |e: io::Error| {
                let why = match e.kind() {
                    io::ErrorKind::WouldBlock => {
                        "it is in use: an OSD with this store runs already, `nacre store` is at work on it, or it is mounted"
                            .to_owned()
                    }
                    _ => e.to_string(),
                };
                io::Error::new(e.kind(), format!("{}: {why}", path.display()))
            };
            match io.open_file(path, options) {
                Ok(file) => files[device as usize] = Some(file),
                Err(error) => {
                    // Whoever tries again opens all of them.
                    files.into_iter().flatten().for_each(|file| io.close_file(file));
                    return Err(with_path(error));
                }
            }
        }
        Ok(DeviceFiles { files, division, shard })
    }

    /// The file of a device. Panics if the store has no such device.
    pub fn of(&self, device: Device) -> FileId {
        self.files[device as usize].unwrap_or_else(|| panic!("the store has no {device}"))
    }

    /// Bytes of the shard's part of each device.
    pub fn bytes(&self, io: &impl Io) -> io::Result<[Option<u64>; 3]> {
        let mut bytes = [None; 3];
        for device in Device::ALL {
            if let Some(file) = self.files[device as usize] {
                bytes[device as usize] = Some(self.division.bytes(self.shard, device, io.file_len_bytes(file)?));
            }
        }
        Ok(bytes)
    }

    pub fn submit(&self, io: &mut impl Io, request: IoRequest) {
        let file = self.of(request.device());
        let begin = self.division.offset(self.shard, request.device());
        match request {
            IoRequest::Read { id, offset, buf, .. } => io.read(file, begin + offset, buf, id.0),
            IoRequest::Write { id, offset, data, .. } => {
                io.write(file, begin + offset, data.into_pieces().collect(), id.0)
            }
            IoRequest::Flush { id, .. } => io.flush(file, id.0),
            IoRequest::Discard { id, offset, len, .. } => io.discard(file, begin + offset, len, id.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use reactor::Reactor;

    #[test]
    fn a_store_that_another_has_open_is_said_to_be_in_use() {
        let path = std::env::temp_dir().join(format!("nacre-in-use-{}", std::process::id()));
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        let paths = StorePaths { main: path.clone(), wal: None, metadata: None };
        let mut both = [(); 2].map(|()| Reactor::new(reactor::Config::default()).unwrap());
        let mut results = both.iter_mut().map(|one| DeviceFiles::open(one.io(), &paths, Division::WHOLE));
        let _first = results.next().unwrap().unwrap();
        let error = results.next().unwrap().err().unwrap().to_string();
        std::fs::remove_file(&path).unwrap();
        assert!(error.contains("it is in use: an OSD with this store runs already"), "{error}");
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}

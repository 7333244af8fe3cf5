//! Devices of an offline store.

use devices::{Division, StorePaths};
use reactor::{Event, FileId, FileOptions, Handler, Io, LoopIo, Reactor};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use store::{IoDone, IoId, IoRequest};

/// Carries out a store's requests, several at once. The caller waits for the results.
pub trait Device {
    /// Size of one of the store's devices; `None` if the store has no such device.
    fn bytes_of(&self, device: store::Device) -> Option<u64>;

    /// Size of the main device.
    fn bytes(&self) -> u64 {
        self.bytes_of(store::Device::Main).expect("every store has a main device")
    }

    fn submit(&mut self, request: IoRequest);

    /// Waits until a request is done. Requests may end in any order. Panics if none is under way.
    fn wait(&mut self) -> IoDone;
}

/// The reason why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("there is no {path}")]
    Missing { path: PathBuf },
    #[error("{path} is in use: stop the OSD first, or unmount what is mounted from it")]
    InUse { path: PathBuf },
    #[error("cannot open {path}")]
    Open { path: PathBuf, source: io::Error },
    #[error("cannot make an event loop: {0}")]
    Reactor(io::Error),
}

/// Files or block devices, or a shard's part of each. They are locked against a running OSD and other tools as long as
/// this lives.
pub struct FileDevice {
    reactor: Reactor,
    /// The open files with their sizes, in the order of [`store::Device::ALL`].
    files: [Option<(FileId, u64)>; 3],
    division: Division,
    shard: usize,
    read_only: bool,
    under_way: usize,
    done: VecDeque<IoDone>,
}

impl FileDevice {
    /// Opens the devices of an OSD's only shard.
    pub fn open(paths: &StorePaths, read_only: bool) -> Result<FileDevice, DeviceError> {
        FileDevice::open_part(paths, read_only, Division::WHOLE, 0)
    }

    /// Opens one shard's part of the devices of several shards.
    pub fn open_part(
        paths: &StorePaths,
        read_only: bool,
        division: Division,
        shard: usize,
    ) -> Result<FileDevice, DeviceError> {
        FileDevice::open_in(reactor::Config::default(), paths, read_only, division, shard)
    }

    /// Opens a file for writing and records everything that is written.
    #[cfg(test)]
    pub(crate) fn recorded(path: &Path, recording: &Path) -> Result<FileDevice, DeviceError> {
        let config = reactor::Config { record: Some(recording.to_owned()), ..reactor::Config::default() };
        FileDevice::open_in(config, &StorePaths::one(path.to_owned()), false, Division::WHOLE, 0)
    }

    fn open_in(
        config: reactor::Config,
        paths: &StorePaths,
        read_only: bool,
        division: Division,
        shard: usize,
    ) -> Result<FileDevice, DeviceError> {
        // No sockets are needed, so the loop gets the least memory for them.
        let config = reactor::Config { receive_buffer_bytes: 4096, receive_buffers: 1, ..config };
        let mut reactor = Reactor::new(config).map_err(DeviceError::Reactor)?;
        let mut files = [None; 3];
        for device in store::Device::ALL {
            if let Some(path) = paths.of(device) {
                let lock_part = division.bounds(shard, device).filter(|_| !read_only);
                files[device as usize] = Some(open_file(reactor.io(), path, read_only, lock_part)?);
            }
        }
        Ok(FileDevice { reactor, files, division, shard, read_only, under_way: 0, done: VecDeque::new() })
    }
}

/// Opens one file. Also returns its size.
fn open_file(
    io: &mut LoopIo,
    path: &Path,
    read_only: bool,
    lock_part: Option<(u64, u64)>,
) -> Result<(FileId, u64), DeviceError> {
    let options = FileOptions { direct: true, lock: true, lock_part, read_only, ..FileOptions::default() };
    let opened = io.open_file(path, options).and_then(|file| Ok((file, io.file_len_bytes(file)?)));
    let path = path.to_owned();
    opened.map_err(|source| match source.kind() {
        io::ErrorKind::NotFound => DeviceError::Missing { path },
        io::ErrorKind::WouldBlock => DeviceError::InUse { path },
        _ => DeviceError::Open { path, source },
    })
}

impl Device for FileDevice {
    fn bytes_of(&self, device: store::Device) -> Option<u64> {
        self.files[device as usize].map(|(_, bytes)| self.division.bytes(self.shard, device, bytes))
    }

    fn submit(&mut self, request: IoRequest) {
        let device = request.device();
        let (file, _) = self.files[device as usize].unwrap_or_else(|| panic!("the store has no {device}"));
        let begin = self.division.offset(self.shard, device);
        let io = self.reactor.io();
        self.under_way += 1;
        match request {
            IoRequest::Read { id, offset, buf, .. } => io.read(file, begin + offset, buf, id.0),
            // Opening a store ends with a flush. A device that is open for reading only needs none.
            IoRequest::Flush { id, .. } if self.read_only => self.done.push_back(IoDone { id, result: Ok(None) }),
            request if self.read_only => panic!("{request:?} to a device that is open for reading"),
            IoRequest::Write { id, offset, data, .. } => {
                io.write(file, begin + offset, data.into_pieces().collect(), id.0)
            }
            IoRequest::Flush { id, .. } => io.flush(file, id.0),
            IoRequest::Discard { id, offset, len, .. } => io.discard(file, begin + offset, len, id.0),
        }
    }

    fn wait(&mut self) -> IoDone {
        assert!(self.under_way > 0, "nothing to wait for");
        while self.done.is_empty() {
            let run = self.reactor.run(&mut Collector { done: &mut self.done });
            run.unwrap_or_else(|e| panic!("the event loop failed: {e}"));
        }
        self.under_way -= 1;
        self.done.pop_front().expect("just seen")
    }
}

/// Gathers the completions of one turn of the loop.
struct Collector<'a> {
    done: &'a mut VecDeque<IoDone>,
}

impl Handler<LoopIo> for Collector<'_> {
    fn received(&mut self, _: &mut LoopIo, conn: reactor::ConnId, _: &[u8]) -> usize {
        panic!("bytes of {conn:?}, where nothing is connected")
    }

    fn event(&mut self, _: &mut LoopIo, event: Event) {
        if let Event::Disk { io, result } = event {
            self.done.push_back(IoDone { id: IoId(io), result });
        }
    }

    fn turn_end(&mut self, io: &mut LoopIo) {
        if !self.done.is_empty() {
            io.stop();
        }
    }
}

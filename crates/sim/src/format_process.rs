//! Makes the disk of a new OSD, as `mkfs` does for a real one.

use reactor::sim::SimIo;
use reactor::{Event, FileId, FileOptions, Handler, Io};
use std::collections::VecDeque;
use std::path::Path;
use store::{IoRequest, Store, StoreConfig};

/// Writes a new store's first blocks, one request after another, then ends.
pub struct FormatProcess {
    file: FileId,
    requests: VecDeque<IoRequest>,
}

impl FormatProcess {
    pub fn start(io: &mut SimIo, path: &Path, config: &StoreConfig) -> FormatProcess {
        let options =
            FileOptions { create: true, len_bytes: config.device_bytes, direct: true, ..FileOptions::default() };
        let file = io.open_file(path, options).expect("a new disk opens");
        let requests = Store::format(config).expect("the disk has a size that a store takes").into();
        let mut process = FormatProcess { file, requests };
        process.next(io);
        process
    }

    fn next(&mut self, io: &mut SimIo) {
        match self.requests.pop_front() {
            Some(IoRequest::Write { id, offset, data, .. }) => {
                io.write(self.file, offset, data.into_pieces().collect(), id.0);
            }
            Some(IoRequest::Flush { id, .. }) => io.flush(self.file, id.0),
            Some(IoRequest::Discard { id, offset, len, .. }) => io.discard(self.file, offset, len, id.0),
            Some(IoRequest::Read { .. }) => unreachable!("a new store has nothing to read"),
            None => io.stop(),
        }
    }
}

impl Handler<SimIo> for FormatProcess {
    fn received(&mut self, _io: &mut SimIo, _conn: reactor::ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut SimIo, event: Event) {
        if let Event::Disk { result, .. } = event {
            result.expect("a new disk works");
            self.next(io);
        }
    }
}

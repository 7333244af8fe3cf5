//! Makes the disks of a new OSD, as `mkfs` does for a real one.

use crate::store_disks::StoreDisks;
use reactor::sim::SimIo;
use reactor::{Event, FileId, FileOptions, Handler, Io};
use std::collections::VecDeque;
use store::{Device, IoRequest, Store};

/// Writes the first blocks of a new store, one request after another, and then ends.
pub struct FormatProcess {
    files: Vec<(Device, FileId)>,
    /// Requests, each with the offset of the part of the disk that it is for.
    requests: VecDeque<(u64, IoRequest)>,
}

impl FormatProcess {
    pub fn start(io: &mut SimIo, disks: &StoreDisks) -> FormatProcess {
        let mut open = |(device, path)| {
            let len_bytes = disks.bytes_of(device).expect("each device has a size");
            let options = FileOptions { create: true, len_bytes, direct: true, ..FileOptions::default() };
            (device, io.open_file(path, options).expect("a new disk opens"))
        };
        let files = disks.all().map(&mut open).collect();
        let requests_of = |shard| {
            let requests = Store::format(&disks.config_of(shard)).expect("the disks have sizes that a store takes");
            requests.into_iter().map(move |request| (disks.division.offset(shard, request.device()), request))
        };
        let requests = (0..disks.shards()).flat_map(requests_of).collect();
        let mut process = FormatProcess { files, requests };
        process.next(io);
        process
    }

    fn next(&mut self, io: &mut SimIo) {
        let Some((begin, request)) = self.requests.pop_front() else { return io.stop() };
        let device = request.device();
        let file = self.files.iter().find(|(of, _)| *of == device).expect("a device of the store").1;
        match request {
            IoRequest::Write { id, offset, data, .. } => {
                io.write(file, begin + offset, data.into_pieces().collect(), id.0)
            }
            IoRequest::Flush { id, .. } => io.flush(file, id.0),
            IoRequest::Discard { id, offset, len, .. } => io.discard(file, begin + offset, len, id.0),
            IoRequest::Read { .. } => unreachable!("a new store has nothing to read"),
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

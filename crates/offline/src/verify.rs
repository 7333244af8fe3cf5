//! Reads objects' bytes for the sole purpose of comparing their checksums.

use crate::session::PendingRead;
use crate::{Device, OfflineError, OfflineStore};
use std::collections::VecDeque;
use std::sync::Arc;
use store::{PlacedExtent, ReadError};
use types::{BLOCK_BYTES, ObjectId};

/// Bytes of one read: 1 MiB.
pub(crate) const READ_BYTES: u64 = 1 << 20;
/// Number of reads under way at once.
pub(crate) const READS_AHEAD: usize = 8;

struct Piece {
    object: Arc<ObjectId>,
    offset: u64,
    len: u64,
    read: PendingRead,
}

/// Reads of several objects under way.
#[derive(Default)]
pub(crate) struct Verifier {
    queue: VecDeque<Piece>,
    bytes: u64,
}

impl Verifier {
    /// Bytes of blocks that have been read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Begins to read all blocks that an object has on the device. Bad blocks of this object and of earlier ones go to
    /// `bad`.
    pub fn object<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        object: &ObjectId,
        extents: &[PlacedExtent],
        bad: &mut Vec<ReadError>,
    ) -> Result<(), OfflineError> {
        let object = Arc::new(object.clone());
        for (offset, len) in pieces(extents) {
            while self.queue.len() >= READS_AHEAD {
                self.finish_one(store, bad)?;
            }
            let read = store.begin_read(&object, offset, len);
            self.queue.push_back(Piece { object: object.clone(), offset, len, read });
        }
        Ok(())
    }

    /// Waits for all reads that have begun.
    pub fn finish<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        bad: &mut Vec<ReadError>,
    ) -> Result<(), OfflineError> {
        while !self.queue.is_empty() {
            self.finish_one(store, bad)?;
        }
        Ok(())
    }

    fn finish_one<D: Device>(
        &mut self,
        store: &mut OfflineStore<D>,
        bad: &mut Vec<ReadError>,
    ) -> Result<(), OfflineError> {
        let Piece { object, offset, len, read } = self.queue.pop_front().expect("the caller saw one");
        self.bytes += len;
        let Err(error) = store.finish_read(read)? else { return Ok(()) };
        if len <= BLOCK_BYTES as u64 {
            bad.push(error);
            return Ok(());
        }
        // A read of several blocks names one bad block. Reading each block by itself finds all of them.
        let before = bad.len();
        for at in (offset..offset + len).step_by(BLOCK_BYTES) {
            let read = store.begin_read(&object, at, BLOCK_BYTES as u64);
            if let Err(error) = store.finish_read(read)? {
                bad.push(error);
            }
        }
        if bad.len() == before {
            // The block was bad a moment ago. A medium that can be read only now and then is not sound.
            bad.push(error);
        }
        Ok(())
    }
}

/// The ranges to read. Each lies within one stretch of the object without holes.
pub(crate) fn pieces(extents: &[PlacedExtent]) -> Vec<(u64, u64)> {
    let mut stretches: Vec<(u64, u64)> = Vec::new();
    for extent in extents {
        match stretches.last_mut() {
            Some((offset, len)) if *offset + *len == extent.object_offset => *len += extent.len,
            _ => stretches.push((extent.object_offset, extent.len)),
        }
    }
    let cut = |(offset, len): (u64, u64)| {
        (0..len).step_by(READ_BYTES as usize).map(move |at| (offset + at, READ_BYTES.min(len - at)))
    };
    stretches.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_long_and_skip_holes() {
        let extent = |object_offset, len| PlacedExtent { object_offset, device_offset: object_offset * 7, len };
        assert_eq!(pieces(&[]), []);
        let scattered = [extent(0, 4096), extent(4096, 8192), extent(40_960, 4096)];
        assert_eq!(pieces(&scattered), [(0, 12_288), (40_960, 4096)]);
        let long = [extent(0, READ_BYTES * 2), extent(READ_BYTES * 2, 4096)];
        assert_eq!(pieces(&long), [(0, READ_BYTES), (READ_BYTES, READ_BYTES), (READ_BYTES * 2, 4096)]);
    }
}

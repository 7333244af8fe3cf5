//! Checkpoints: all metadata as it was at one moment, written in slices beside the commits; then the log is trimmed.
//!
//! 1. *Begin*: the tables are captured as they are, with all transactions submitted so far (up to the *boundary*).
//! 2. *Cover*: once those transactions have LSNs, the last of these is what the checkpoint covers.
//! 3. *Write*: a slice of entries per turn goes into chunks on free blocks, each naming the place of the next.
//! 4. When chunks are written and the covered records durable: flush, write the root, flush. Now the log up to the
//!    covered LSN and the former checkpoint's chunks are free.

use crate::Store;
use crate::allocator::Run;
use crate::io_queue::Purpose;
use crate::state::Capture;
use crate::superblock::{CHUNK_HEADER_BYTES, ChunkHeader, Root};

/// Bytes of entries encoded in one turn: about 100 us of work.
const SLICE_BYTES: usize = 128 << 10;
/// The same, when the log is so full that commits may soon have to wait.
const HURRIED_SLICE_BYTES: usize = 1 << 20;
/// Chunk writes under way at once.
const CHUNK_WRITES_MAX: usize = 4;

#[derive(Debug)]
enum Phase {
    Idle,
    /// Entries are being written.
    Writing(Writing),
    /// All chunks are written; the covered records are not all durable yet.
    Waiting,
    FlushingChunks,
    WritingRoot,
    FlushingRoot,
}

#[derive(Debug)]
struct Writing {
    capture: Capture,
    /// Encoded entries that are in no chunk yet.
    buffer: Vec<u8>,
    /// Where the next chunk goes.
    place: Option<Run>,
}

/// The last durable checkpoint and the one being written.
#[derive(Debug)]
pub(crate) struct Checkpoint {
    phase: Phase,
    /// Set by [`Store::checkpoint`].
    pub wanted: bool,
    /// Chunks of the last durable checkpoint.
    chunks: Vec<Run>,
    sequence: u64,
    // Of the one being written:
    new_chunks: Vec<Run>,
    boundary: u64,
    covered: Option<u64>,
    writes: usize,
    stream_bytes: u64,
    first_chunk: Option<Run>,
    next_omap_id: u64,
}

impl Checkpoint {
    /// The state after a store was opened: `chunks` are those of the checkpoint `sequence`.
    pub fn new(sequence: u64, chunks: Vec<Run>) -> Checkpoint {
        Checkpoint {
            phase: Phase::Idle,
            wanted: false,
            chunks,
            sequence,
            new_chunks: Vec::new(),
            boundary: 0,
            covered: None,
            writes: 0,
            stream_bytes: 0,
            first_chunk: None,
            next_omap_id: 0,
        }
    }

    pub fn is_idle(&self) -> bool {
        matches!(self.phase, Phase::Idle) && !self.wanted
    }

    pub fn is_running(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// The last ticket of the captured moment, while transactions up to it may lack an LSN.
    pub fn boundary(&self) -> Option<u64> {
        (self.is_running() && self.covered.is_none()).then_some(self.boundary)
    }

    /// All transactions up to the boundary have LSNs, up to this one.
    pub fn cover(&mut self, lsn: u64) {
        self.covered = Some(lsn);
    }

    /// Number of the last durable checkpoint.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Blocks that the last durable checkpoint holds.
    pub fn durable_blocks(&self) -> u64 {
        self.chunks.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Blocks that the checkpoint being written holds.
    pub fn blocks_taken(&self) -> u64 {
        self.new_chunks.iter().map(|run| u64::from(run.count)).sum()
    }

    /// Blocks of both checkpoints.
    #[cfg(test)]
    pub fn runs(&self) -> impl Iterator<Item = Run> + '_ {
        self.chunks.iter().chain(&self.new_chunks).copied()
    }
}

impl Store {
    /// Makes a checkpoint, so that the next opening replays nothing. For an orderly stop: call this, then turn the loop
    /// until [`Store::is_idle`].
    pub fn checkpoint(&mut self) {
        self.checkpoint.wanted = true;
    }

    /// Blocks per chunk: 256 KiB, less on a small device.
    pub(crate) fn chunk_blocks(&self) -> u32 {
        (self.superblock.device_blocks() / 256).clamp(4, 64)
    }

    /// Begins when what is in the log and what is about to go there fill half of it.
    pub(crate) fn begin_checkpoint_if_due(&mut self) {
        let used = self.wal.used_bytes() + self.turns.staged_log_bytes();
        let due = self.checkpoint.wanted || used > self.wal.bytes() / 2;
        if due && !self.checkpoint.is_running() {
            self.begin_checkpoint();
        }
    }

    pub(crate) fn begin_checkpoint(&mut self) {
        assert!(!self.checkpoint.is_running(), "two checkpoints at once");
        let capture = self.state.begin_capture();
        let checkpoint = &mut self.checkpoint;
        checkpoint.phase = Phase::Writing(Writing { capture, buffer: Vec::new(), place: None });
        checkpoint.wanted = false;
        checkpoint.boundary = self.turns.last_ticket();
        (checkpoint.covered, checkpoint.stream_bytes, checkpoint.first_chunk) = (None, 0, None);
        checkpoint.next_omap_id = self.state.next_omap_id;
    }

    /// Does this turn's part of the checkpoint under way, if any.
    pub(crate) fn advance_checkpoint(&mut self) {
        let Some(covered) = self.checkpoint.covered.filter(|_| self.checkpoint.is_running()) else { return };
        if matches!(self.checkpoint.phase, Phase::Writing(_)) {
            self.write_slice();
        }
        let written = matches!(self.checkpoint.phase, Phase::Waiting) && self.checkpoint.writes == 0;
        if written && self.turns.settled_to(covered) {
            self.checkpoint.phase = Phase::FlushingChunks;
            self.io.flush(Purpose::CheckpointFlush);
        }
    }

    fn write_slice(&mut self) {
        let hurried = self.wal.used_bytes() > self.wal.bytes() / 4 * 3;
        let mut budget = if hurried { HURRIED_SLICE_BYTES } else { SLICE_BYTES };
        while budget > 0 && self.checkpoint.writes < CHUNK_WRITES_MAX {
            let Phase::Writing(writing) = &mut self.checkpoint.phase else { return };
            let place = match writing.place {
                Some(place) => place,
                None => match self.allocate_chunk() {
                    Some(place) => place,
                    None => return self.fail("no space for a checkpoint, although it was reserved".into()),
                },
            };
            let Phase::Writing(writing) = &mut self.checkpoint.phase else { return };
            writing.place = Some(place);
            let room = place.len_bytes() as usize - CHUNK_HEADER_BYTES;
            let before = writing.buffer.len();
            self.state.capture_next(&mut writing.capture, &mut writing.buffer, (before + budget).min(room + 1));
            budget = budget.saturating_sub(writing.buffer.len() - before);
            let last = writing.capture == Capture::Done && writing.buffer.len() <= room;
            if !last && writing.buffer.len() <= room {
                return;
            }
            if last && writing.buffer.is_empty() && self.checkpoint.first_chunk.is_none() {
                // Nothing to write at all.
                self.allocator.release(place);
                self.checkpoint.new_chunks.clear();
            } else if !self.write_chunk(place, room, last) {
                return self.fail("no space for a checkpoint, although it was reserved".into());
            }
            if last {
                self.checkpoint.phase = Phase::Waiting;
                return;
            }
        }
    }

    /// Writes the next chunk to `place`. False if there is no place for the one after it.
    fn write_chunk(&mut self, place: Run, room: usize, last: bool) -> bool {
        let next = match last {
            true => None,
            false => match self.allocate_chunk() {
                Some(next) => Some(next),
                None => return false,
            },
        };
        let Phase::Writing(writing) = &mut self.checkpoint.phase else { panic!("a chunk outside of its phase") };
        let payload: Vec<u8> = writing.buffer.drain(..room.min(writing.buffer.len())).collect();
        writing.place = next;
        let sequence = self.checkpoint.sequence + 1;
        let header = ChunkHeader { uuid: self.superblock.uuid, sequence, payload_bytes: payload.len() as u32, next };
        if last {
            // The chunk before names the whole place, but what the chunk does not fill means nothing there.
            let used = header.used_blocks();
            if used < place.count {
                self.allocator.release(Run { start: place.start + used, count: place.count - used });
                self.checkpoint.new_chunks.last_mut().expect("this one").count = used;
            }
        }
        self.checkpoint.first_chunk.get_or_insert(place);
        self.checkpoint.stream_bytes += payload.len() as u64;
        self.checkpoint.writes += 1;
        self.io.write(Purpose::CheckpointChunk, place.offset_bytes(), header.seal(&payload).into());
        true
    }

    /// A place for a chunk; a short one if free space is in small pieces.
    fn allocate_chunk(&mut self) -> Option<Run> {
        let mut count = self.chunk_blocks();
        while count > 0 {
            if let Some(run) = self.allocator.allocate_run(count) {
                self.checkpoint.new_chunks.push(run);
                return Some(run);
            }
            count /= 2;
        }
        None
    }

    pub(crate) fn checkpoint_io_done(&mut self, purpose: Purpose) {
        match (purpose, &self.checkpoint.phase) {
            (Purpose::CheckpointChunk, _) => self.checkpoint.writes -= 1,
            (Purpose::CheckpointFlush, Phase::FlushingChunks) => {
                let root = Root {
                    uuid: self.superblock.uuid,
                    sequence: self.checkpoint.sequence + 1,
                    session: self.wal.session(),
                    covered_lsn: self.covered(),
                    wal_head: self.wal.head_in_ring(),
                    next_omap_id: self.checkpoint.next_omap_id,
                    stream_bytes: self.checkpoint.stream_bytes,
                    first_chunk: self.checkpoint.first_chunk,
                };
                self.io.write(Purpose::CheckpointRoot, root.offset(), root.encode().into());
                self.checkpoint.phase = Phase::WritingRoot;
            }
            (Purpose::CheckpointRoot, Phase::WritingRoot) => {
                self.io.flush(Purpose::CheckpointFlush);
                self.checkpoint.phase = Phase::FlushingRoot;
            }
            (Purpose::CheckpointFlush, Phase::FlushingRoot) => self.checkpoint_durable(),
            (purpose, phase) => panic!("{purpose:?} done while {phase:?}"),
        }
    }

    fn covered(&self) -> u64 {
        self.checkpoint.covered.expect("nothing is written before it is known what is covered")
    }

    fn checkpoint_durable(&mut self) {
        let covered = self.covered();
        self.checkpoint.phase = Phase::Idle;
        self.checkpoint.sequence += 1;
        let old = std::mem::replace(&mut self.checkpoint.chunks, std::mem::take(&mut self.checkpoint.new_chunks));
        for run in old {
            self.allocator.release(run);
            self.discards.freed(run);
        }
        self.wal.trim(covered);
        self.turns.vouched_lsn = self.turns.vouched_lsn.max(covered);
        self.turns_durable(covered);
        self.discards.begin_sweep();
    }

    /// Whether every block of the device is accounted for once.
    #[cfg(test)]
    pub(crate) fn blocks_add_up(&self) -> bool {
        let chunks: u64 = self.checkpoint.runs().map(|run| u64::from(run.count)).sum();
        let fixed = u64::from(self.superblock.data_begin());
        let held = self.data_blocks + chunks + fixed;
        self.free_blocks() + held == u64::from(self.superblock.device_blocks())
    }
}

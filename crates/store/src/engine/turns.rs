//! The commit pipeline: staged transactions, turns on their way to the device, acknowledgement in log order.
//!
//! A turn is a batch of transactions: their data and one log record are written together, then one flush per device
//! (`flushing`) makes them durable. At most two turns are in flight, and the second only if it is large. Transactions
//! submitted meanwhile wait and go together into the next turn.

use crate::config::BLOCK;
use crate::data::merges::CrcSlot;
use crate::disk::redo::Redo;
use crate::disk::redo_bytes::{BODY_HEAD_BYTES_MAX, RedoBytes, body_bytes, write_body};
use crate::engine::checkpoint::LOG_PER_CHECKPOINT;
use crate::engine::flushing::{Flushing, Writes};
use crate::engine::io_queue::Purpose;
use crate::engine::wal::{LOG_PER_RECORD, record_bytes};
use crate::space::run::Run;
use crate::{CommitTimes, Device, Store, StoreEvent, Ticket};
use bytes::Bytes;
use mutant::Mutant;
use std::collections::VecDeque;
use std::time::Duration;
use wire::Rope;

/// Maximum number of turns in flight. More would only delay acknowledgements: the flush of one turn covers the writes
/// of the next.
const TURNS_MAX: usize = 2;
/// A turn with less data than this waits until the one in flight is durable: a flush costs more than writing few bytes,
/// so transactions that arrive meanwhile should share one. 128 KiB.
const OVERLAP_BYTES_MIN: u64 = 128 << 10;
/// Divisor of [`OVERLAP_BYTES_MIN`] once everything in flight is written and only its flush is waited for: data written
/// meanwhile is then flushed at once.
const FLUSHING_PART: u64 = 4;
/// Time that a transaction waits at the most for others to go with, if its submitter does not wait for it.
const PATIENCE: Duration = Duration::from_millis(20);
/// Maximum data of one turn, so that a flood of large writes does not hold up the small ones behind it: 32 MiB.
const TURN_DATA_BYTES_MAX: u64 = 32 << 20;
/// Maximum size of one write request: 4 MiB, in at most as many pieces as one system call takes.
const WRITE_BYTES_MAX: usize = 4 << 20;
const WRITE_PIECES_MAX: usize = 512;
// A lone turn of the largest size goes out at once; only smaller ones wait for the one in flight.
const _: () = assert!(OVERLAP_BYTES_MIN <= TURN_DATA_BYTES_MAX);
// A system call takes at most 1024 pieces (`IOV_MAX`).
const _: () = assert!(WRITE_PIECES_MAX <= 1024 && WRITE_BYTES_MAX as u64 <= TURN_DATA_BYTES_MAX);
// The records of all turns in flight, and one more, fit what is left of the log when a checkpoint begins; else commits
// would wait for every checkpoint.
const _: () = assert!((TURNS_MAX as u64 + 1) * LOG_PER_CHECKPOINT <= LOG_PER_RECORD * (LOG_PER_CHECKPOINT - 1));

/// Number of runs found free from which on a record frees them, rather than keeping them in memory for a later turn.
const FOUND_MAX: usize = 4096;

/// An applied transaction that is not on its way to the device yet.
#[derive(Debug)]
pub(crate) struct Staged {
    pub ticket: u64,
    steps: RedoBytes,
    /// Number of its blocks that are still being merged.
    pub merges: usize,
    /// Device block and content of its data.
    pub data: Vec<(u32, Rope)>,
    pub freed: Vec<Run>,
    /// True for a transaction of the store's own, which no caller waits for.
    pub internal: bool,
}

impl Staged {
    /// Creates an empty transaction.
    pub fn new(ticket: u64) -> Staged {
        let (data, freed) = Default::default();
        Staged { ticket, steps: RedoBytes::new(), merges: 0, data, freed, internal: false }
    }

    pub fn push(&mut self, redo: &Redo) {
        self.steps.push(redo);
    }

    /// Returns the offset of the checksums of the mapping pushed last ([`CrcSlot`]).
    pub fn checksums_at(&self) -> usize {
        self.steps.checksums_at()
    }

    fn data_bytes(&self) -> u64 {
        self.data.iter().map(|(_, data)| data.len() as u64).sum()
    }
}

/// A batch of transactions on its way to the device.
#[derive(Debug)]
struct Turn {
    lsn: u64,
    last_ticket: Option<u64>,
    writes: Writes,
    /// The highest LSN that its record vouches for.
    vouches_for: u64,
    freed: Vec<Run>,
    /// First blocks of its data in the table of blocks in flight.
    in_flight: Vec<u32>,
    /// True if it has no log record: the checkpoint under way makes it durable.
    by_checkpoint: bool,
    /// The time when its requests were handed over; `None` while they are still with the store.
    handed_over: Option<Duration>,
    /// The time when its last write so far was done.
    written: Duration,
}

#[derive(Debug)]
pub(crate) struct Turns {
    last_ticket: u64,
    last_staged: u64,
    /// Ticket of the last transaction that is not to wait for others.
    urgent: u64,
    /// When the first transaction was submitted that waits for others to go with.
    patient_since: Option<Duration>,
    staged: VecDeque<Staged>,
    turns: VecDeque<Turn>,
    flushing: Flushing,
    pub durable_lsn: u64,
    /// The highest LSN that a durable record or checkpoint states to be durable.
    pub vouched_lsn: u64,
    /// True if a record without transactions should be written when only that makes freed blocks usable.
    pub vouch_wanted: bool,
    /// The value of [`OVERLAP_BYTES_MIN`]; tests change it.
    pub overlap_bytes_min: u64,
    /// Blocks found free in destroyed groups and objects: the next record frees them.
    pub found_free: Vec<Run>,
}

impl Turns {
    pub fn new(durable_lsn: u64, vouched_lsn: u64) -> Turns {
        Turns {
            last_ticket: 0,
            last_staged: 0,
            urgent: 0,
            patient_since: None,
            found_free: Vec::new(),
            staged: VecDeque::new(),
            turns: VecDeque::new(),
            flushing: Flushing::new(durable_lsn),
            durable_lsn,
            vouched_lsn,
            vouch_wanted: false,
            overlap_bytes_min: OVERLAP_BYTES_MIN,
        }
    }

    /// Returns the ticket of a new transaction.
    pub fn next_ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        self.urgent = self.last_ticket;
        self.last_ticket
    }

    /// Returns the ticket of a new transaction, which may wait for others to go with.
    pub fn next_patient_ticket(&mut self, now: Duration) -> u64 {
        self.last_ticket += 1;
        self.patient_since.get_or_insert(now);
        self.last_ticket
    }

    /// Returns until when staged transactions wait for others; `None` if one of them is not to wait.
    fn patient_until(&self) -> Option<Duration> {
        let may_wait = self.staged.front().is_some_and(|first| first.ticket > self.urgent);
        self.patient_since.filter(|_| may_wait).map(|since| since + PATIENCE)
    }

    pub fn stage(&mut self, staged: Staged) {
        assert_eq!(staged.ticket, self.last_staged + 1, "transactions are staged in the order of tickets");
        self.last_staged += 1;
        self.staged.push_back(staged);
    }

    /// Takes in a merged block of a staged transaction.
    pub fn merged(&mut self, slot: CrcSlot, crc: u32, device: u32, data: Rope) {
        let front = self.staged.front().expect("a transaction waits for its merges").ticket;
        let staged = &mut self.staged[(slot.ticket - front) as usize];
        staged.steps.set_checksum(slot.checksums_at, slot.index, crc);
        staged.data.push((device, data));
        staged.merges -= 1;
    }

    pub fn is_idle(&self) -> bool {
        self.staged.is_empty() && self.turns.is_empty()
    }

    /// Returns the ticket of the last transaction submitted.
    pub fn last_ticket(&self) -> u64 {
        self.last_ticket
    }

    /// Returns the ticket of the last transaction applied.
    pub fn last_staged(&self) -> u64 {
        self.last_staged
    }

    /// Returns true if all transactions up to `ticket` are on their way.
    pub fn emitted(&self, ticket: u64) -> bool {
        self.staged.front().is_none_or(|staged| staged.ticket > ticket)
    }

    /// Returns a lower bound of the log bytes of the staged transactions.
    pub fn staged_log_bytes(&self) -> u64 {
        self.staged.iter().map(|staged| staged.steps.len() as u64).sum()
    }

    /// Returns true if the turn `lsn` and all before it are durable, or will be once the checkpoint that covers them
    /// is.
    pub fn settled_to(&self, lsn: u64) -> bool {
        self.turns.iter().filter(|turn| turn.lsn <= lsn).all(|turn| turn.by_checkpoint && turn.writes.are_done())
    }

    /// Returns true if a turn is under way that its record makes durable.
    pub fn any_recorded(&self) -> bool {
        self.turns.iter().any(|turn| !turn.by_checkpoint)
    }

    /// Returns true if a turn is under way that a checkpoint makes durable.
    pub fn any_by_checkpoint(&self) -> bool {
        self.turns.iter().any(|turn| turn.by_checkpoint)
    }

    /// Returns the number of blocks freed by transactions that are not durable.
    pub fn freed_blocks(&self) -> u64 {
        let runs = self.staged.iter().flat_map(|s| &s.freed).chain(self.turns.iter().flat_map(|t| &t.freed));
        runs.chain(&self.found_free).map(|run| u64::from(run.count)).sum()
    }

    /// Returns the minimum data of a turn that may be sent now.
    fn data_bytes_min(&self) -> u64 {
        match self.turns.is_empty() {
            true => 0,
            false if self.turns.iter().all(|turn| turn.writes.are_done()) => self.overlap_bytes_min / FLUSHING_PART,
            false => self.overlap_bytes_min,
        }
    }

    /// Returns the number of staged transactions up to the ticket `limit`, from the first, that can go into one turn of
    /// at most `record_max` bytes of log (at least one, if it is ready); an upper bound of their record's body; and the
    /// bytes of their data.
    fn ready(&self, limit: u64, record_max: u64) -> (usize, usize, u64) {
        let (mut count, mut body, mut data_bytes) = (0, BODY_HEAD_BYTES_MAX, 0);
        for staged in self.staged.iter().take_while(|staged| staged.ticket <= limit && staged.merges == 0) {
            let (with_steps, with_data) = (body + staged.steps.len(), data_bytes + staged.data_bytes());
            if count > 0 && (record_bytes(with_steps) > record_max || with_data > TURN_DATA_BYTES_MAX) {
                break;
            }
            (count, body, data_bytes) = (count + 1, with_steps, with_data);
        }
        (count, body, data_bytes)
    }
}

impl Store {
    /// Ends a turn of the caller's loop: lays submitted transactions out and sends them to the device, as far as the
    /// turns in flight allow; moves a checkpoint or discards on.
    pub fn end_turn(&mut self) {
        if self.stopped.is_some() {
            return self.trim_objects();
        }
        self.run_queue();
        self.advance_copies();
        self.read_ahead_for_queue();
        self.look_at_destroyed();
        self.advance_relocation();
        self.begin_checkpoint_if_due();
        while self.turns.turns.len() < TURNS_MAX && self.turns.turns.iter().all(|turn| !turn.by_checkpoint) {
            // A record's transactions are either all in the checkpoint under way or all behind it.
            let limit = self.checkpoint.boundary().unwrap_or(u64::MAX);
            let (count, body_bytes_max, data_bytes) = self.turns.ready(limit, self.wal.record_bytes_max());
            if count == 0 {
                self.vouch_for_freed_blocks();
                break;
            }
            let waits_for_others = self.turns.patient_until().is_some_and(|until| self.now < until);
            if data_bytes < self.turns.data_bytes_min() || waits_for_others && limit == u64::MAX {
                break;
            }
            if self.wal.has_room(record_bytes(body_bytes_max)) {
                self.emit(count, false);
            } else if self.turns.turns.is_empty() {
                // The log is full, or never has room for so large a record. A checkpoint needs no log.
                if !self.checkpoint.is_running() {
                    if self.wal.is_closed() || !self.can_begin_checkpoint() {
                        break;
                    }
                    self.begin_checkpoint();
                }
                self.emit_by_checkpoint();
                break;
            } else {
                break;
            }
            self.settle_boundary();
        }
        self.settle_boundary();
        self.advance_checkpoint();
        if let Some(run) = self.discards.next(&mut self.allocator) {
            self.io.discard(run);
        }
        self.preparing.advance(&mut self.allocator, &self.discards, &mut self.io);
        self.trim_objects();
    }

    /// Drops objects that exceed their memory, except those that something waits for.
    fn trim_objects(&mut self) {
        let (queue, reads, lookups) = (&self.queue, &self.reads, &self.lookups);
        self.state.onodes.trim(|object| queue.keeps(object) || reads.wait_for(object) || lookups.keeps(object));
    }

    /// Sends all transactions of the checkpoint that have no LSN yet, without a record, if all of them are whole and a
    /// checkpoint waits for them.
    fn emit_by_checkpoint(&mut self) {
        let Some(boundary) = self.checkpoint.boundary() else { return };
        let ready = self.turns.staged.iter().take_while(|staged| staged.merges == 0 && staged.ticket <= boundary);
        let count = ready.count();
        let whole = self.turns.staged.get(count).is_none_or(|next| next.ticket > boundary);
        if whole && count > 0 {
            self.emit(count, true);
        }
    }

    /// Tells the checkpoint what it covers, once all transactions that it holds have their LSNs.
    fn settle_boundary(&mut self) {
        if self.checkpoint.boundary().is_some_and(|ticket| self.turns.emitted(ticket)) {
            self.checkpoint.cover(self.wal.next_lsn - 1);
            if mutant::is(Mutant::LogReusedEarly) {
                self.wal.trim(self.wal.next_lsn - 1);
            }
        }
    }

    /// Writes a record without transactions if blocks wait only for that, space is short and no other record is about
    /// to be written.
    fn vouch_for_freed_blocks(&mut self) {
        let unreserved = u64::from(self.allocator.free_blocks()) + self.metadata.blocks();
        let short = unreserved < self.reserved_blocks() + u64::from(self.superblock.device_blocks()) / 16;
        let found = match self.state.destroying.is_empty() {
            true => !self.turns.found_free.is_empty(),
            false => self.turns.found_free.len() >= FOUND_MAX && self.turns.emitted(self.destroyed_ticket),
        };
        let waits = found || self.freeing.waits_for_more_than(self.turns.vouched_lsn);
        let room = self.wal.has_room(record_bytes(BODY_HEAD_BYTES_MAX));
        if (short || found || self.turns.vouch_wanted) && waits && room && self.turns.is_idle() {
            self.emit(0, false);
        }
        if !waits {
            self.turns.vouch_wanted = false;
        }
    }

    /// Sends the first `count` staged transactions to the device as one turn.
    fn emit(&mut self, count: usize, by_checkpoint: bool) {
        let batch: Vec<Staged> = self.turns.staged.drain(..count).collect();
        if self.turns.staged.is_empty() && self.turns.last_staged == self.turns.last_ticket {
            self.turns.patient_since = None;
        }
        let last_ticket = batch.iter().rev().find(|staged| !staged.internal).map(|staged| staged.ticket);
        let of_clients = || batch.iter().filter(|staged| !staged.internal);
        let freed_blocks = of_clients().flat_map(|staged| &staged.freed).map(|run| u64::from(run.count)).sum::<u64>();
        let written_bytes = of_clients().map(Staged::data_bytes).sum();
        self.relocation.earn(written_bytes, freed_blocks * BLOCK, self.superblock.device_bytes);
        let vouches_for = self.turns.durable_lsn;
        let lsn = self.wal.next_lsn;
        let mut writes = Writes::default();
        if by_checkpoint {
            self.wal.skip_lsn();
        } else {
            let steps = || batch.iter().map(|staged| &staged.steps);
            let body = |out: &mut [u8]| write_body(steps(), out);
            let (offset, record) = self.wal.append(body_bytes(steps()), body, vouches_for, &self.buffers);
            let device = self.superblock.log_device();
            self.io.write(Purpose::TurnWrite { lsn, device }, offset, record.freeze().into());
            writes.begin(device);
        }
        let (mut data, mut freed) = (Vec::new(), Vec::new());
        if self.turns.emitted(self.destroyed_ticket) {
            freed.append(&mut self.turns.found_free);
        }
        for staged in batch {
            data.extend(staged.data);
            freed.extend(staged.freed);
        }
        data.sort_unstable_by_key(|(start, _)| *start);
        let in_flight = data.iter().map(|(start, _)| *start).collect();
        let mut write = |offset: u64, pieces: Rope| {
            let device = Device::Main;
            self.io.write(Purpose::TurnWrite { lsn, device }, offset, pieces);
            writes.begin(device);
        };
        let (mut begin, mut joined, mut pieces) = (0, Rope::new(), 0);
        for (start, rope) in data {
            let offset = u64::from(start) * BLOCK;
            for piece in split(rope) {
                let here = begin + joined.len() as u64;
                if joined.is_empty()
                    || offset_of(&piece, offset) != here
                    || joined.len() + piece.1.len() > WRITE_BYTES_MAX
                    || pieces == WRITE_PIECES_MAX
                {
                    if !joined.is_empty() {
                        write(begin, std::mem::take(&mut joined));
                    }
                    (begin, pieces) = (offset_of(&piece, offset), 0);
                }
                joined.push(piece.1);
                pieces += 1;
            }
        }
        if !joined.is_empty() {
            write(begin, joined);
        }
        let (handed_over, written) = (None, self.now);
        let turn =
            Turn { lsn, last_ticket, writes, vouches_for, freed, in_flight, by_checkpoint, handed_over, written };
        self.turns.turns.push_back(turn);
        self.pace_checkpoint();
    }

    /// Returns the time at which the caller should turn its loop for transactions that wait for others to go with.
    pub fn patient_until(&self) -> Option<Duration> {
        self.turns.patient_until().filter(|_| self.turns.turns.is_empty() && self.stopped.is_none())
    }

    /// Notes that the device has all requests that [`Store::poll_io`] has given so far, since `at`.
    pub fn handed_over(&mut self, at: Duration) {
        for turn in self.turns.turns.iter_mut().rev().take_while(|turn| turn.handed_over.is_none()) {
            turn.handed_over = Some(at);
        }
    }

    pub(crate) fn turn_write_done(&mut self, lsn: u64, device: Device) {
        let turn = self.turns.turns.iter_mut().find(|turn| turn.lsn == lsn).expect("a turn waits for its writes");
        turn.writes.end(device);
        turn.written = self.now;
        self.flush_turns();
        if mutant::is(Mutant::CommitBeforeFlush) {
            let written = self.turns.turns.iter().take_while(|turn| !turn.by_checkpoint && turn.writes.are_done());
            if let Some(lsn) = written.last().map(|turn| turn.lsn) {
                self.turns_durable(lsn);
            }
        }
    }

    /// Flushes each device on which turns at the front are written and no flush is under way.
    fn flush_turns(&mut self) {
        let Turns { turns, flushing, .. } = &mut self.turns;
        let log_device = self.superblock.log_device();
        for device in Device::ALL {
            let recorded = turns.iter().take_while(|turn| !turn.by_checkpoint);
            if flushing.begin(device, recorded.map(|turn| (turn.lsn, &turn.writes))) {
                if device != log_device && mutant::is(Mutant::DataNotFlushed) {
                    flushing.end(device);
                    continue;
                }
                self.io.flush(Purpose::TurnFlush { device });
            }
        }
    }

    pub(crate) fn turn_flush_done(&mut self, device: Device) {
        self.turns.flushing.end(device);
        // This call also advances the devices to which the turns wrote nothing.
        self.flush_turns();
        self.turns_durable(self.turns.flushing.durable_lsn());
    }

    /// Completes the turns up to `lsn`, which are durable.
    pub(crate) fn turns_durable(&mut self, lsn: u64) {
        self.turns.flushing.raise(lsn);
        while self.turns.turns.front().is_some_and(|turn| turn.lsn <= lsn) {
            let turn = self.turns.turns.pop_front().expect("just seen");
            self.turns.durable_lsn = turn.lsn;
            self.turns.vouched_lsn = self.turns.vouched_lsn.max(turn.vouches_for);
            self.freeing.push(turn.lsn, turn.freed);
            turn.in_flight.into_iter().for_each(|start| self.in_flight.remove(start));
            if let Some(ticket) = turn.last_ticket {
                let ticket = Ticket(ticket);
                let handed_over = turn.handed_over.unwrap_or(turn.written);
                self.commit_log.push(ticket, CommitTimes { handed_over, written: turn.written, durable: self.now });
                self.events.push_back(StoreEvent::Committed(ticket));
            }
        }
        self.release_freed();
    }
}

/// Returns the pieces of a rope with their offsets in it.
fn split(rope: Rope) -> impl Iterator<Item = (usize, Bytes)> {
    let mut at = 0;
    rope.into_pieces().map(move |piece| {
        let offset = at;
        at += piece.len();
        (offset, piece)
    })
}

fn offset_of(piece: &(usize, Bytes), rope_offset: u64) -> u64 {
    rope_offset + piece.0 as u64
}

//! Relocation: scattered data is rewritten in one piece, and nearly empty units are emptied.
//!
//! * *Scattered data.* A read that finds its range in many small pieces notes it, window by window. If a window lies
//!   unchanged some seconds later, no client is writing there, and it is read, verified and rewritten as one run, or in
//!   whole units. Only data that is read in sequence is worth this, so reads find it: no walk over all objects is
//!   needed, and data that is never read, or read only by single blocks, costs nothing.
//! * *Broken units.* While little free space is in whole units, the emptiest other units are held back from use, and a
//!   walk over all objects ([`crate::data::compaction`]) moves their blocks into holes elsewhere. Emptying a unit of 16
//!   blocks costs about 12 block writes; so does the room for scattered data on a device that is nearly full.
//!
//! A move is an ordinary transaction with the same content: a `Map` step that carries the old checksums over, so that
//! bytes damaged in memory cannot pass for good ones. The move is made only if object and blocks are still those that
//! were read; a number as of a read keeps freed blocks from being reused until that has been compared. Blocks that
//! several objects share stay where they are.
//!
//! Budget: a tenth of the bytes that clients write, and a little per second, saved up to [`BUDGET_BYTES_MAX`]; nothing
//! while the device is busy. While clients stay away, compaction has a far larger budget.

use crate::Store;
use crate::btree::Fetch;
use crate::config::BLOCK;
use crate::data::compaction::{Compaction, MOVING_BLOCKS_MAX};
use crate::disk::key::{Key, known_object};
use crate::disk::redo::Redo;
use crate::engine::checkpoint::LOG_PER_CHECKPOINT;
use crate::engine::submit::aligned;
use crate::metadata::block_map::BlockRef;
use crate::space::run::Run;
use crate::{Lookup, LookupId, StoreEvent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use types::{AlignedBuf, BLOCK_BYTES, crc32c};
use wire::Rope;

/// Number of blocks moved at once: 512 KiB of an object.
pub(crate) const WINDOW_BLOCKS: u32 = 128;
/// A read of fewer blocks does not show sequential reading: 128 KiB.
const READ_BLOCKS_MIN: u64 = 32;
/// Pieces shorter than this on average are scattered: 64 KiB.
const PIECE_BLOCKS: u64 = 16;
/// Maximum number of windows remembered; a window that is read again is noted again.
const NOTED_MAX: usize = 1024;
/// Number of ticks (of a second) that a window must lie unchanged.
const COLD_TICKS: u64 = 2;
/// Bytes that clients write for each byte that may be moved.
const WRITTEN_PER_MOVED: u64 = 10;
/// Bytes that may be moved per tick, whatever clients do.
const IDLE_BYTES: u64 = 16 << 20;
const BUDGET_BYTES_MAX: u64 = 32 << 20;
/// Number of requests under way from which on the device counts as busy.
const BUSY_REQUESTS: usize = 64;
/// Maximum number of blocks that are moved at the same time while clients are active. A single window may exceed it.
const PIECES_MAX: u32 = 32;
/// Number of ticks until the next walk after one that found little to move.
const WALK_TICKS: u64 = 60;
/// Number of ticks until the old places of moved blocks are free.
const SETTLE_TICKS: u64 = 2;
/// Free blocks in whole units that are left to clients: the device's blocks divided by this, or the free blocks divided
/// by the next constant if that is less.
const WHOLE_PER_DEVICE: u64 = 64;
const WHOLE_PER_FREE: u64 = 4;
/// Free blocks in whole units that are left to clients in a lull, by the rule of [`WHOLE_PER_DEVICE`].
const WHOLE_PER_DEVICE_IN_LULL: u64 = 256;
const WHOLE_PER_FREE_IN_LULL: u64 = 8;
/// Nothing more is begun while this much data is on its way to the device: 4 MiB.
const UNCOMMITTED_BYTES_MAX: u64 = 4 << 20;
// A budget that is saved up pays for a window, one tick's income fits it, and a lull moves several windows at once.
const _: () = assert!(WINDOW_BLOCKS as u64 * BLOCK <= IDLE_BYTES && IDLE_BYTES <= BUDGET_BYTES_MAX);
const _: () = assert!(WINDOW_BLOCKS < MOVING_BLOCKS_MAX && PIECES_MAX < WINDOW_BLOCKS);
// All that a lull has under way does not keep the next move waiting for the device.
const _: () = assert!(MOVING_BLOCKS_MAX as u64 * BLOCK <= UNCOMMITTED_BYTES_MAX);
// Relocation leaves the log to clients only after a checkpoint has begun: used bytes above three quarters.
const _: () = assert!(LOG_PER_CHECKPOINT * 3 > 4);

/// A part of an object: the object's key and the number of the window.
type Window = (Key, u32);
/// Block numbers in an object, with their places.
pub(crate) type Blocks = Vec<(u32, BlockRef)>;

/// Counts of relocation since the store was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RelocationStats {
    /// Number of windows that reads found scattered.
    pub noted: u64,
    /// Number of pieces of objects that were rewritten, and their bytes.
    pub moves: u64,
    pub moved_bytes: u64,
    /// Number of moves given up because the data changed meanwhile, could not be read, or found no room.
    pub given_up: u64,
    /// Number of walks over all objects that were begun; in a lull one follows another.
    pub walks: u64,
}

/// A part of an object that is being moved.
#[derive(Debug)]
struct Piece {
    source: MoveSource,
    into: Destination,
    bytes: PieceBytes,
}

#[derive(Debug)]
enum PieceBytes {
    OnTheirWay(LookupId),
    Here(Rope),
}

/// The destination of a move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Destination {
    WholeUnits,
    Holes,
}

/// Blocks being moved, as they were when their read began.
#[derive(Debug)]
struct MoveSource {
    key: Key,
    first: u32,
    end: u32,
    blocks: Blocks,
    /// Number of the read that keeps freed blocks from being reused.
    read: u64,
}

#[derive(Debug)]
pub(crate) struct Relocation {
    /// Windows that reads found scattered, with a sum over their places at that time. Windows that have been noted long
    /// enough are in `ripe`, the others in `young` with the tick when they were noted.
    noted: BTreeMap<Window, u64>,
    ripe: BTreeSet<Window>,
    young: VecDeque<(u64, Window)>,
    pub compaction: Compaction,
    /// Pieces being moved, and the number of their blocks.
    moving: Vec<Piece>,
    moving_blocks: u32,
    /// The lookup of the page of metadata that a walk waits for.
    pub looking: Option<LookupId>,
    /// While clients are active no walk begins before this tick.
    next_walk: u64,
    /// Until this tick the old places of blocks that the last walk moved may not be free.
    settled_at: u64,
    /// The last transaction before a walk that found next to nothing.
    fruitless: Option<u64>,
    ticks: u64,
    budget_bytes: u64,
    paused: bool,
    read_blocks_min: u64,
    /// For tests: everything that can be moved is moved at once.
    eager: bool,
    pub stats: RelocationStats,
}

impl Default for Relocation {
    fn default() -> Relocation {
        Relocation {
            noted: BTreeMap::new(),
            ripe: BTreeSet::new(),
            young: VecDeque::new(),
            compaction: Compaction::default(),
            moving: Vec::new(),
            moving_blocks: 0,
            looking: None,
            next_walk: 0,
            settled_at: 0,
            fruitless: None,
            ticks: 0,
            budget_bytes: 0,
            paused: false,
            read_blocks_min: READ_BLOCKS_MIN,
            eager: false,
            stats: RelocationStats::default(),
        }
    }
}

/// Returns a sum over places that changes if the places change.
fn sum(blocks: &[(u32, BlockRef)]) -> u64 {
    let step = |sum: u64, (at, block): &(u32, BlockRef)| {
        (sum ^ (u64::from(*at) << 32 | u64::from(block.device))).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    };
    blocks.iter().fold(0, step)
}

/// Returns the number of pieces that the blocks lie in.
pub(crate) fn pieces(blocks: &[(u32, BlockRef)]) -> u64 {
    let joins = |pair: &&[(u32, BlockRef)]| pair[0].0 + 1 == pair[1].0 && pair[0].1.device + 1 == pair[1].1.device;
    (blocks.len() - blocks.windows(2).filter(joins).count()) as u64
}

impl Relocation {
    /// Returns true if nothing is under way; noted windows may wait.
    pub fn is_idle(&self) -> bool {
        self.moving.is_empty() && self.looking.is_none()
    }

    /// Returns true if windows wait to be brought together.
    pub fn has_noted(&self) -> bool {
        !self.noted.is_empty()
    }

    /// Stops moves until clients submit something: a checkpoint was asked for, perhaps by an orderly stop, and no
    /// record should follow it.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    pub fn resume(&mut self) {
        self.paused = false;
    }

    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Adds to the budgets: clients have written and freed this many bytes of a device of `device_bytes`.
    pub fn earn(&mut self, written_bytes: u64, freed_bytes: u64, device_bytes: u64) {
        self.add_budget(written_bytes / WRITTEN_PER_MOVED);
        self.compaction.earn(written_bytes.max(freed_bytes), device_bytes);
    }

    fn add_budget(&mut self, bytes: u64) {
        self.budget_bytes = (self.budget_bytes + bytes).min(BUDGET_BYTES_MAX);
    }

    pub fn spend(&mut self, bytes: u64) {
        if !self.compaction.spend(bytes) {
            self.budget_bytes = self.budget_bytes.saturating_sub(bytes);
        }
    }

    fn may_spend(&self) -> bool {
        let window_bytes = u64::from(WINDOW_BLOCKS) * BLOCK;
        self.eager || self.budget_bytes >= window_bytes || self.compaction.can_spend(window_bytes)
    }

    /// Returns true if another move may begin beside those under way. While clients are active, one move follows
    /// another.
    pub fn may_begin(&self) -> bool {
        let in_lull = self.compaction.is_lull() || self.eager;
        let moving_max = if in_lull { MOVING_BLOCKS_MAX } else { PIECES_MAX };
        self.looking.is_none() && self.moving_blocks < moving_max
    }

    pub fn is_eager(&self) -> bool {
        self.eager
    }

    /// Returns true if a walk may begin or go on while clients are active. `last`: the last transaction.
    pub fn walk_may_go_on(&self, last: u64) -> bool {
        self.eager || self.ticks >= self.next_walk.max(self.settled_at) && self.fruitless != Some(last)
    }

    /// Returns true if the last cycle of a walk found next to nothing.
    pub fn was_fruitless(&self) -> bool {
        self.fruitless.is_some()
    }

    /// Ends a walk's cycle.
    pub fn walk_ended(&mut self, was_worth: bool, last: u64) {
        self.settled_at = self.ticks + SETTLE_TICKS;
        self.fruitless = (!was_worth).then_some(last);
        if !was_worth {
            self.next_walk = self.ticks + WALK_TICKS;
        }
    }

    /// For tests: moves everything that can be moved, without waiting.
    #[cfg(test)]
    pub fn be_eager(&mut self) {
        (self.eager, self.read_blocks_min) = (true, 2);
    }

    /// For tests: lets this many ticks pass that earn nothing.
    #[cfg(test)]
    pub fn be_patient(&mut self, ticks: u32) {
        (0..ticks).for_each(|_| self.tick());
        self.budget_bytes = 0;
    }

    /// Returns true if a read of `blocks` blocks in `pieces` pieces shows scattered data.
    pub fn is_scattered(&self, blocks: u64, pieces: u64) -> bool {
        let long = if self.eager { 2 * pieces > blocks } else { pieces * PIECE_BLOCKS > blocks };
        blocks >= self.read_blocks_min && pieces > 1 && long
    }

    /// Counts a tick of about a second.
    pub fn tick(&mut self) {
        self.ticks += 1;
        self.compaction.tick();
        self.add_budget(IDLE_BYTES);
        while self.young.front().is_some_and(|(since, _)| since + COLD_TICKS <= self.ticks) {
            let (_, window) = self.young.pop_front().expect("just seen");
            self.ripe.insert(window);
        }
    }

    /// Takes an event that answers one of relocation's own lookups; gives any other event back.
    pub fn take_event(&mut self, event: StoreEvent) -> Option<StoreEvent> {
        match event {
            StoreEvent::LookupDone(done) if self.looking == Some(done) => self.looking = None,
            StoreEvent::ReadDone { id, result } => {
                let waits = |piece: &&mut Piece| matches!(piece.bytes, PieceBytes::OnTheirWay(wanted) if wanted == id);
                match self.moving.iter_mut().find(waits) {
                    // Data that cannot be read is left to a repair.
                    Some(piece) => piece.bytes = PieceBytes::Here(result.unwrap_or_default()),
                    None => return Some(StoreEvent::ReadDone { id, result }),
                }
            }
            event => return Some(event),
        }
        None
    }

    /// Takes the pieces whose bytes have been read.
    fn take_read(&mut self) -> Vec<Piece> {
        if self.moving.is_empty() {
            return Vec::new();
        }
        let here = |piece: &mut Piece| matches!(piece.bytes, PieceBytes::Here(_));
        let pieces: Vec<Piece> = self.moving.extract_if(.., here).collect();
        self.moving_blocks -= pieces.iter().map(|piece| piece.source.blocks.len() as u32).sum::<u32>();
        pieces
    }
}

impl Store {
    /// Returns the counts of relocation since the store was opened.
    pub fn relocation_stats(&self) -> RelocationStats {
        self.relocation.stats
    }

    /// Notes that a read found the object's blocks `first .. end` scattered.
    pub(crate) fn note_scattered(&mut self, key: &[u8], first: u64, end: u64) {
        for window in first / u64::from(WINDOW_BLOCKS)..end.div_ceil(u64::from(WINDOW_BLOCKS)) {
            let window = (Key::from(key), window as u32);
            if self.relocation.noted.len() >= NOTED_MAX || self.relocation.noted.contains_key(&window) {
                continue;
            }
            let Some(blocks) = self.blocks_between(key, window.1 * WINDOW_BLOCKS, window_end(window.1)) else {
                continue;
            };
            // Another window of the range may be the scattered one.
            if !self.relocation.is_scattered(blocks.len() as u64, pieces(&blocks)) {
                continue;
            }
            let relocation = &mut self.relocation;
            relocation.stats.noted += 1;
            relocation.noted.insert(window.clone(), sum(&blocks));
            match relocation.eager {
                true => drop(relocation.ripe.insert(window)),
                false => relocation.young.push_back((relocation.ticks, window)),
            }
        }
    }

    /// Returns the object's blocks in a range, if they are known without reading.
    pub(crate) fn blocks_between(&self, key: &[u8], first: u32, end: u64) -> Option<Blocks> {
        let mut blocks = Vec::new();
        let onode =
            self.state.onodes.get(key).flatten().filter(|onode| onode.blocks.first_unknown(first, end).is_none())?;
        onode.blocks.for_each(first, end, |at, block| blocks.push((at, block)));
        Some(blocks)
    }

    /// Returns true if the object's blocks in a range are known or cannot be; otherwise a page of metadata is on its
    /// way.
    pub(crate) fn look(&mut self, key: &[u8], first: u32, end: u64) -> bool {
        match self.state.load_blocks(key, first, end) {
            Ok(Fetch::Ready(())) | Err(_) => true,
            Ok(Fetch::Pending(read)) => {
                self.relocation.looking = Some(self.lookups.wait_for_page(read));
                false
            }
        }
    }

    /// Does this turn's part of relocation. Call this before the turn's transactions are sent.
    pub(crate) fn advance_relocation(&mut self) {
        for piece in self.relocation.take_read() {
            self.move_piece(piece);
        }
        let lull = self.compaction_is_wanted();
        if !lull {
            self.end_lull();
        }
        let in_flight = self.in_flight.bytes() >= UNCOMMITTED_BYTES_MAX || self.log_is_nearly_full();
        if self.relocation.paused || in_flight || !self.relocation.may_begin() || !self.relocation.may_spend() {
            return;
        }
        if !lull && (!self.relocation.is_idle() || self.io.under_way() >= BUSY_REQUESTS) {
            return;
        }
        let has_room = self.has_room_for_move(WINDOW_BLOCKS.into(), Destination::WholeUnits);
        if has_room && let Some(window) = self.relocation.ripe.pop_first() {
            self.begin_noted(window);
        } else {
            // A test that has everything moved makes walks of both kinds in turn.
            let walk = self.relocation.stats.walks + u64::from(!self.relocation.compaction.is_walking());
            self.advance_walk(lull && !(self.relocation.eager && walk.is_multiple_of(2)));
        }
    }

    /// Returns true if the rest of the log is left to clients.
    pub(crate) fn log_is_nearly_full(&self) -> bool {
        self.wal.used_bytes() > self.wal.bytes() / 4 * 3
    }

    /// Begins to bring a window together that reads found scattered, if it still lies as it did.
    fn begin_noted(&mut self, window: Window) {
        let (first, end) = (window.1 * WINDOW_BLOCKS, window_end(window.1));
        if !self.look(&window.0, first, end) {
            self.relocation.ripe.insert(window);
            return;
        }
        let noted = self.relocation.noted.remove(&window).expect("what is ripe was noted");
        let blocks = self.blocks_between(&window.0, first, end).unwrap_or_default();
        // A window that lies elsewhere by now is being written, so moving it would not last.
        if sum(&blocks) == noted || self.relocation.eager {
            self.begin_piece(window.0, blocks, Destination::WholeUnits);
        }
    }

    /// Returns true if the blocks may be moved at all: none is shared or being made.
    fn can_move(&self, blocks: &[(u32, BlockRef)]) -> bool {
        !blocks.iter().any(|(_, block)| {
            let run = Run { start: block.device, count: 1 };
            self.state.is_shared(run) || self.merges.contains(block.device)
        })
    }

    /// Reads blocks that are to be moved, if moving them is possible and there is room.
    pub(crate) fn begin_piece(&mut self, key: Key, blocks: Blocks, into: Destination) {
        let (Some((first, _)), Some((last, _))) = (blocks.first().copied(), blocks.last().copied()) else { return };
        if !self.can_move(&blocks) || !self.has_room_for_move(blocks.len() as u64, into) {
            self.relocation.stats.given_up += 1;
            return;
        }
        let source = MoveSource { first, end: last + 1, read: self.freeing.begin_read(), blocks, key };
        let (offset, len) = (u64::from(first) * BLOCK, u64::from(source.end - first) * BLOCK);
        self.relocation.spend(source.blocks.len() as u64 * BLOCK);
        let object = known_object(&source.key);
        let bytes = match self.read_quietly(&object, offset, len) {
            Lookup::Ready(data) => PieceBytes::Here(data),
            Lookup::Pending(id) => PieceBytes::OnTheirWay(id),
            Lookup::Damaged(_) => PieceBytes::Here(Rope::new()),
        };
        self.relocation.moving_blocks += source.blocks.len() as u32;
        self.relocation.moving.push(Piece { source, into, bytes });
    }

    /// Returns true if a move leaves enough space to clients: there must be more than the reserve, and some whole
    /// units.
    pub(crate) fn has_room_for_move(&self, blocks: u64, into: Destination) -> bool {
        let reserved = self.reserved_blocks().saturating_sub(self.metadata.blocks());
        let free = u64::from(self.allocator.free_blocks());
        let whole = u64::from(self.allocator.whole_unit_blocks());
        let (per_device, per_free) = match self.relocation.compaction.is_lull() {
            true => (WHOLE_PER_DEVICE_IN_LULL, WHOLE_PER_FREE_IN_LULL),
            false => (WHOLE_PER_DEVICE, WHOLE_PER_FREE),
        };
        let kept = (u64::from(self.allocator.blocks()) / per_device).min(free / per_free);
        free > reserved + 2 * blocks + u64::from(self.allocator.unit_blocks())
            && (into == Destination::Holes || whole > blocks + kept)
    }

    /// Gives the blocks a new place, if nothing has changed since they were read.
    fn move_piece(&mut self, piece: Piece) {
        let Piece { source, into, bytes: PieceBytes::Here(data) } = piece else { panic!("a piece without its bytes") };
        let moved = if self.relocation.paused { None } else { self.try_move(&source, into, data) };
        let stats = &mut self.relocation.stats;
        match moved {
            Some(()) => {
                stats.moves += 1;
                stats.moved_bytes += source.blocks.len() as u64 * BLOCK;
            }
            None => stats.given_up += 1,
        }
        self.freeing.end_read(source.read);
        self.release_freed();
    }

    fn try_move(&mut self, source: &MoveSource, into: Destination, data: Rope) -> Option<()> {
        // The block map is mostly still in memory. A transaction that waits in the queue has its place in the order
        // already.
        let _ = self.state.load_blocks(&source.key, source.first, source.end.into());
        let now =
            self.blocks_between(&source.key, source.first, source.end.into()).filter(|_| self.queue.is_empty())?;
        let count = source.blocks.len() as u32;
        if now != source.blocks || !self.can_move(&now) || !self.has_room_for_move(count.into(), into) {
            return None;
        }
        let data = self.whole_blocks(source, data)?;
        let mut places = match into {
            Destination::WholeUnits => VecDeque::from(self.allocator.allocate_cold(count)?),
            Destination::Holes => VecDeque::from(self.allocator.allocate_holes(count)?),
        };
        self.data_blocks += u64::from(count);
        let size = self.state.known(&source.key).expect("it has blocks").size();
        let ticket = self.turns.next_ticket();
        let mut staged = self.turns.begin(ticket);
        staged.internal = true;
        for stretch in now.chunk_by(|a, b| a.0 + 1 == b.0) {
            let first = stretch[0].0;
            let crcs = stretch.iter().map(|(_, block)| block.crc).collect();
            let (mut at, mut runs) = (u64::from(first - source.first) * BLOCK, Vec::new());
            let mut left = stretch.len() as u32;
            while left > 0 {
                let place = places.front_mut().expect("as many places as blocks");
                let here = Run { start: place.start, count: place.count.min(left) };
                *place = Run { start: here.end(), count: place.count - here.count };
                if place.count == 0 {
                    places.pop_front();
                }
                let data = data.slice(at as usize, here.len_bytes() as usize);
                self.in_flight.insert(here.start, data.clone(), false);
                staged.data.push((here.start, data));
                runs.push(here);
                (at, left) = (at + here.len_bytes(), left - here.count);
            }
            self.apply(Redo::Map { object: source.key.clone(), size, first, runs, crcs }, &mut staged);
        }
        self.state.settle();
        self.turns.stage(staged);
        self.note_again(source);
        Some(())
    }

    /// Renews the note of a window out of which blocks were moved: that move was no client's write.
    fn note_again(&mut self, source: &MoveSource) {
        let window = (source.key.clone(), source.first / WINDOW_BLOCKS);
        if self.relocation.noted.contains_key(&window) {
            let blocks = self.blocks_between(&source.key, window.1 * WINDOW_BLOCKS, window_end(window.1));
            self.relocation.noted.insert(window, sum(&blocks.unwrap_or_default()));
        }
    }

    /// Returns the bytes that were read as aligned whole blocks, with zeros behind the object's end; `None` if they are
    /// not the blocks asked for.
    fn whole_blocks(&self, source: &MoveSource, mut data: Rope) -> Option<Rope> {
        let len = (source.end - source.first) as usize * BLOCK_BYTES;
        let rest = data.len() % BLOCK_BYTES;
        if rest > 0 {
            let whole = data.len() - rest;
            let tail = data.slice(whole, rest).to_vec();
            let mut block = AlignedBuf::zeroed(BLOCK_BYTES);
            block.as_mut_slice()[..rest].copy_from_slice(&tail);
            let (_, last) = source.blocks.last().expect("moves have blocks");
            if crc32c::checksum(block.as_slice()) != last.crc {
                return None;
            }
            data = data.slice(0, whole);
            data.push(block.freeze());
        }
        (data.len() == len).then(|| aligned(data, &self.buffers))
    }
}

fn window_end(window: u32) -> u64 {
    (u64::from(window) + 1) * u64::from(WINDOW_BLOCKS)
}

//! Compaction: while clients stay away, a walk over all objects brings scattered data together and empties units that
//! have much free space, until reads and writes find the store about as good as new.
//!
//! A walk goes through the objects again and again. In each cycle the emptiest units are held back from use. Blocks in
//! them are moved into holes of other units, and a window that lies in small pieces is rewritten as one run, into
//! emptied units. A cycle that moves and gains next to nothing is the last one: the store then rests until clients have
//! changed a sixty-fourth of the device.
//!
//! *When:* in a lull, which is a whole tick in which clients neither wrote nor read data. The first client that comes
//! ends the lull: nothing more is begun, and at most [`MOVING_BLOCKS_MAX`] blocks are under way. While clients are
//! active, the walk only empties units, within the budget of relocation, and only while whole units are short.
//!
//! *How much:* for every byte that clients write (or free, if that is more), one byte may be moved in lulls. The
//! device's data writes therefore at most double, and only as far as there is something to gain. At most twice the
//! device's size is saved up.

use crate::Lookup;
use crate::Store;
use crate::config::BLOCK;
use crate::data::relocation::{Blocks, Destination, WINDOW_BLOCKS, pieces};
use crate::disk::key::{Key, object_key};
use crate::metadata::block_map::BlockRef;
use std::collections::VecDeque;
use types::ObjectId;

/// Maximum number of blocks read and not yet rewritten in a lull, which is also what a client that comes may have to
/// wait for. 1 MiB, which keeps the device busy even if it is read block by block.
pub(crate) const MOVING_BLOCKS_MAX: u32 = 256;
/// Pieces shorter than this on average are scattered: 32 KiB. Drives reach about three quarters of their sequential
/// rate with such pieces, so that longer ones would gain little and cost as much.
const PIECE_BLOCKS: u64 = 8;
/// Windows with fewer pieces than this are left as they are.
const PIECES_MIN: u64 = 4;
/// A walk is due when clients have changed the device's size divided by this.
const WALK_PER_DEVICE: u64 = 64;
/// A cycle in a lull is the last one if it moves, and gains in whole units, less than the device's size divided by
/// this.
const WORTH_PER_DEVICE: u64 = 1024;
/// Beside clients, a cycle was worth its cost if it made at least one move per this many held units.
const HELD_PER_WORTH: u64 = 2;
/// Number of objects listed at a time.
const LIST_OBJECTS: usize = 64;
/// Number of parts of objects looked at in one turn, and the blocks of a part: 4 MiB.
const PARTS_PER_TURN: usize = 8;
const PART_BLOCKS: u32 = 1024;
/// Number of moves begun in one turn.
const TASKS_PER_TURN: usize = 64;
/// Budget that looking at a part of an object costs while clients are active, in bytes.
const PART_BYTES: u64 = 4096;
/// Eighths of the free space that should be in whole units.
const WHOLE_EIGHTHS: u64 = 6;
/// While clients are active, a walk holds one unit per this many, and at most [`HELD_MAX`].
const UNITS_PER_HELD: u32 = 64;
/// Maximum number of units held while clients are active: 1 GiB.
const HELD_MAX: u32 = 16_384;
/// Stretches of fewer blocks go into holes: they were of no use to sequential readers in their old place either.
const STRETCH_BLOCKS_MIN: usize = 8;
/// Number of units held where a test has everything moved.
const EAGER_UNITS: u32 = 16;

/// A part of an object to be moved.
#[derive(Debug)]
struct Task {
    key: Key,
    first: u32,
    end: u32,
    what: TaskKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum TaskKind {
    /// The part lies in small pieces.
    Together,
    /// The part lies in a unit that is to be emptied.
    OutOfUnit,
}

#[derive(Debug)]
pub(crate) struct CompactionWalk {
    /// Objects that were listed and not begun, in order.
    objects: VecDeque<ObjectId>,
    /// The last object that was listed.
    last: ObjectId,
    listed_all: bool,
    /// The object being looked at: its key, its next block, and the end of its blocks.
    current: Option<(Key, u32, u32)>,
    /// Parts that are to be moved and not begun.
    tasks: VecDeque<Task>,
    /// True or false if units are held for this cycle: true if they were chosen in a lull.
    holds: Option<bool>,
    /// Number of units held when they were last chosen.
    held: u32,
    /// Bytes moved, and number of moves, before this cycle.
    moved_before: u64,
    moves_before: u64,
}

/// Lulls, and the amount that may be moved in them.
#[derive(Debug, Default)]
pub(crate) struct Compaction {
    /// True if clients came since the last tick.
    disturbed: bool,
    /// True if no client came for a whole tick, nor since.
    lull: bool,
    /// Bytes that may be moved in lulls.
    credit_bytes: u64,
    /// Bytes changed by clients since the last walk in a lull.
    changed_bytes: u64,
    walk: Option<CompactionWalk>,
}

impl Compaction {
    pub fn is_lull(&self) -> bool {
        self.lull
    }

    /// Returns true if a walk has begun and not ended.
    pub fn is_walking(&self) -> bool {
        self.walk.is_some()
    }

    /// Notes that a client reads or writes.
    pub fn disturb(&mut self) {
        (self.disturbed, self.lull) = (true, false);
    }

    pub fn tick(&mut self) {
        self.lull = !std::mem::take(&mut self.disturbed);
    }

    /// Adds to the budget: clients have changed this many bytes of a device of `device_bytes`.
    pub fn earn(&mut self, bytes: u64, device_bytes: u64) {
        self.credit_bytes = (self.credit_bytes + bytes).min(2 * device_bytes);
        self.changed_bytes += bytes;
    }

    /// Pays for a move in a lull. Returns true if the budget sufficed.
    pub fn spend(&mut self, bytes: u64) -> bool {
        let can = self.lull && self.credit_bytes >= bytes;
        self.credit_bytes -= if can { bytes } else { 0 };
        can
    }

    pub fn can_spend(&self, bytes: u64) -> bool {
        self.lull && self.credit_bytes >= bytes
    }

    fn is_due(&self, device_bytes: u64) -> bool {
        self.walk.is_some() || self.changed_bytes >= device_bytes / WALK_PER_DEVICE
    }
}

impl Store {
    fn device_bytes(&self) -> u64 {
        u64::from(self.allocator.blocks()) * BLOCK
    }

    /// Returns true if relocation would move nothing more if clients stayed away from now on.
    pub fn is_compact(&self) -> bool {
        let relocation = &self.relocation;
        let window_bytes = u64::from(WINDOW_BLOCKS) * BLOCK;
        let due =
            relocation.compaction.is_due(self.device_bytes()) && relocation.compaction.credit_bytes >= window_bytes;
        relocation.is_idle() && !relocation.has_noted() && (relocation.is_paused() || !due)
    }

    /// Returns true if a walk in a lull should begin or go on.
    pub(crate) fn compaction_is_wanted(&self) -> bool {
        let relocation = &self.relocation;
        let window_bytes = u64::from(WINDOW_BLOCKS) * BLOCK;
        let due = relocation.compaction.is_due(self.device_bytes());
        relocation.is_eager() || due && relocation.compaction.can_spend(window_bytes)
    }

    /// Returns true if compaction goes on without any other event.
    pub(crate) fn compaction_wants_turn(&self) -> bool {
        self.relocation.is_idle()
            && !self.relocation.is_paused()
            && !self.relocation.is_eager()
            && self.compaction_is_wanted()
            && !self.log_is_nearly_full()
    }

    /// Moves on with the walk over all objects, as far as one turn allows. `lull`: false if clients are active.
    pub(crate) fn advance_walk(&mut self, lull: bool) {
        let goes_on = match lull {
            true => self.walk_in_lull(),
            false => self.walk_beside_clients(),
        };
        if !goes_on {
            return;
        }
        let (mut parts, mut tasks) = (0, 0);
        while parts < PARTS_PER_TURN && tasks < TASKS_PER_TURN && self.relocation.may_begin() {
            let Some(walk) = &mut self.relocation.compaction.walk else { return };
            if let Some(task) = walk.tasks.pop_front() {
                tasks += 1;
                if !self.begin_task(task) {
                    return;
                }
                continue;
            }
            parts += 1;
            match self.look_at_next_part(lull) {
                Some(true) => {}
                Some(false) => return self.end_cycle(lull),
                None => return,
            }
        }
    }

    /// Begins a walk in a lull, if one is due, and holds units for its cycle. Returns true if the walk may go on.
    fn walk_in_lull(&mut self) -> bool {
        self.begin_walk();
        let free = u64::from(self.allocator.free_blocks());
        let unit = u64::from(self.allocator.unit_blocks());
        let wanted = free / 8 * WHOLE_EIGHTHS / unit;
        let lacking = wanted.saturating_sub(u64::from(self.allocator.whole_unit_blocks()) / unit);
        let units = if self.relocation.is_eager() { EAGER_UNITS } else { lacking as u32 };
        self.hold_for_cycle(true, units);
        true
    }

    /// Begins a walk beside clients, or goes on with it, if whole units are short. Returns true if the walk may go on.
    fn walk_beside_clients(&mut self) -> bool {
        let lacks = self.allocator.lacks_whole_units() || self.relocation.is_eager();
        if !lacks || !self.relocation.walk_may_go_on(self.turns.last_ticket()) {
            if self.relocation.compaction.walk.as_ref().is_some_and(|walk| walk.holds.is_some()) {
                self.end_holding();
            }
            return false;
        }
        self.begin_walk();
        let units = self.allocator.blocks() / self.allocator.unit_blocks() / UNITS_PER_HELD;
        self.hold_for_cycle(false, units.clamp(16, HELD_MAX));
        true
    }

    fn begin_walk(&mut self) {
        if self.relocation.compaction.walk.is_some() {
            return;
        }
        self.relocation.stats.walks += 1;
        self.relocation.compaction.walk = Some(CompactionWalk {
            objects: VecDeque::new(),
            last: ObjectId::min(),
            listed_all: false,
            current: None,
            tasks: VecDeque::new(),
            holds: None,
            held: 0,
            moved_before: self.relocation.stats.moved_bytes,
            moves_before: self.relocation.stats.moves,
        });
    }

    /// Holds up to this many units, once per cycle, and again when a lull begins or ends.
    fn hold_for_cycle(&mut self, lull: bool, units: u32) {
        let walk = self.relocation.compaction.walk.as_mut().expect("just begun");
        if walk.holds != Some(lull) {
            walk.holds = Some(lull);
            walk.tasks.clear();
            self.allocator.release_held();
            walk.held = self.allocator.hold_emptiest(units);
        }
    }

    /// Gives held units back, and forgets the tasks found in them.
    fn end_holding(&mut self) {
        if let Some(walk) = &mut self.relocation.compaction.walk {
            (walk.holds, _) = (None, walk.tasks.clear());
        }
        self.allocator.release_held();
    }

    /// Ends a lull: gives back the units that were held for it.
    pub(crate) fn end_lull(&mut self) {
        if self.relocation.compaction.walk.as_ref().is_some_and(|walk| walk.holds == Some(true)) {
            self.end_holding();
        }
    }

    /// Looks at the next part of an object, or begins the next object. Returns `None` if metadata is on its way,
    /// `Some(false)` if no object is left.
    fn look_at_next_part(&mut self, lull: bool) -> Option<bool> {
        let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
        let Some((key, at, end)) = walk.current.take() else { return self.next_object() };
        if at >= end {
            return Some(true);
        }
        let behind = at.saturating_add(PART_BLOCKS).min(end);
        if !self.look(&key, at, behind.into()) {
            self.walk_at(key, at, end);
            return None;
        }
        if !lull {
            self.relocation.spend(PART_BYTES);
        }
        let blocks = self.blocks_between(&key, at, behind.into()).unwrap_or_default();
        for window in blocks.chunk_by(|a, b| a.0 / WINDOW_BLOCKS == b.0 / WINDOW_BLOCKS) {
            self.look_at_window(&key, window, lull);
        }
        self.walk_at(key, behind, end);
        Some(true)
    }

    fn walk_at(&mut self, key: Key, at: u32, end: u32) {
        self.relocation.compaction.walk.as_mut().expect("a walk is under way").current = Some((key, at, end));
    }

    fn next_object(&mut self) -> Option<bool> {
        let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
        let Some(object) = walk.objects.front() else {
            if walk.listed_all {
                return Some(false);
            }
            let from = walk.last.clone();
            let objects = match self.list(&from, &ObjectId::max(), LIST_OBJECTS) {
                Lookup::Ready(objects) => objects,
                Lookup::Pending(id) => {
                    self.relocation.looking = Some(id);
                    return None;
                }
                // The other objects are looked at after a repair.
                Lookup::Damaged(_) => Vec::new(),
            };
            let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
            walk.listed_all = objects.len() < LIST_OBJECTS;
            walk.last = objects.last().unwrap_or(&from).clone();
            walk.objects.extend(objects.into_iter().filter(|object| *object != from));
            return Some(true);
        };
        let key = object_key(object);
        if !self.look(&key, 0, 0) {
            return None;
        }
        let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
        walk.objects.pop_front();
        let known = self.state.onodes.get(&key).flatten().filter(|onode| onode.inline.is_empty());
        let end = known.map_or(0, |onode| onode.size().div_ceil(BLOCK)).min(u32::MAX.into()) as u32;
        walk.current = (end > 0).then_some((key, 0, end));
        Some(true)
    }

    /// Notes the parts of a window that are to be moved.
    fn look_at_window(&mut self, key: &Key, blocks: &[(u32, BlockRef)], lull: bool) {
        let count = pieces(blocks);
        let scattered = match self.relocation.is_eager() {
            true => count > 1 && 2 * count > blocks.len() as u64,
            false => count >= PIECES_MIN && count * PIECE_BLOCKS > blocks.len() as u64,
        };
        let held = if lull && scattered { Vec::new() } else { self.held_stretches(blocks) };
        let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
        if lull && scattered {
            let (first, end) = (blocks[0].0, blocks[blocks.len() - 1].0 + 1);
            walk.tasks.push_back(Task { key: key.clone(), first, end, what: TaskKind::Together });
        }
        let leaving = |(first, end)| Task { key: key.clone(), first, end, what: TaskKind::OutOfUnit };
        walk.tasks.extend(held.into_iter().map(leaving));
    }

    /// Returns the stretches of adjoining blocks that lie in units to be emptied, as (first, end).
    fn held_stretches(&self, blocks: &[(u32, BlockRef)]) -> Vec<(u32, u32)> {
        let is_held = |block: &(u32, BlockRef)| self.allocator.is_held(block.1.device);
        let stretches = blocks.chunk_by(|a, b| a.0 + 1 == b.0 && is_held(a) == is_held(b));
        let held = stretches.filter(|stretch| is_held(&stretch[0]));
        held.map(|stretch| (stretch[0].0, stretch[stretch.len() - 1].0 + 1)).collect()
    }

    /// Begins a move. Returns false, and keeps the task, if metadata has to be read first.
    fn begin_task(&mut self, task: Task) -> bool {
        if !self.look(&task.key, task.first, task.end.into()) {
            let walk = self.relocation.compaction.walk.as_mut().expect("a walk is under way");
            walk.tasks.push_front(task);
            return false;
        }
        let blocks = self.blocks_between(&task.key, task.first, task.end.into()).unwrap_or_default();
        if task.what == TaskKind::Together && self.has_room_for_move(blocks.len() as u64, Destination::WholeUnits) {
            self.begin_piece(task.key, blocks, Destination::WholeUnits);
            return true;
        }
        // If there is no room for a whole window now, at least its blocks in units to be emptied leave these.
        for (first, end) in self.held_stretches(&blocks) {
            let part: Blocks = blocks.iter().filter(|(at, _)| (first..end).contains(at)).copied().collect();
            let into = if part.len() < STRETCH_BLOCKS_MIN { Destination::Holes } else { Destination::WholeUnits };
            self.begin_piece(task.key.clone(), part, into);
        }
        true
    }

    /// Ends a cycle: all objects have been looked at.
    fn end_cycle(&mut self, lull: bool) {
        let freeing = self.freeing.waits_for_more_than(self.turns.vouched_lsn) || !self.turns.is_idle();
        self.turns.vouch_wanted |= freeing;
        // A test that has everything moved writes all the time, so freed blocks are no reason to wait.
        if !self.relocation.is_idle() || lull && freeing && !self.relocation.is_eager() {
            return;
        }
        let walk = self.relocation.compaction.walk.take().expect("a walk is under way");
        let moved_bytes = self.relocation.stats.moved_bytes - walk.moved_before;
        let moves = self.relocation.stats.moves - walk.moves_before;
        // A unit that was not emptied holds something that does not move, so it is not tried again.
        let learns = lull && !self.relocation.is_eager();
        let stuck = if learns { self.allocator.release_stuck() } else { self.allocator.release_held() };
        // The fewer blocks lie in a unit, the more is gained by moving them. Bytes moved alone do not measure the gain.
        let emptied_bytes =
            u64::from(walk.held.saturating_sub(stuck)) * u64::from(self.allocator.unit_blocks()) * BLOCK;
        let worth = match lull {
            true => moved_bytes.max(emptied_bytes) >= self.device_bytes() / WORTH_PER_DEVICE,
            // The old places of the moved blocks are not free yet.
            false => moves > 0 && moves >= u64::from(walk.held) / HELD_PER_WORTH,
        };
        if lull && !worth && (stuck == 0 || self.relocation.was_fruitless()) {
            self.relocation.compaction.changed_bytes = 0;
            self.allocator.forget_stuck();
        }
        self.relocation.walk_ended(worth, self.turns.last_ticket());
    }
}

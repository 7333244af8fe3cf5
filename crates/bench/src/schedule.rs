//! The next operation of each worker, and the time from which its latency counts.
//!
//! A group's objects are cut into blocks of `io_bytes`. Every block belongs to one worker: only that worker writes it,
//! so it always knows which version a read must return, without asking another worker. Workers of a group that only
//! reads share all blocks, which hold the prefill's version.
//!
//! * [`Worker`]: one operation at a time, from the plan's seed.
//! * [`following`]: the order in which lists have the objects.
//! * [`Arrivals`]: the intended start times of an open loop's operations.
//! * [`OpenLoop`]: hands arrivals to free workers. The latency of an arrival that waits for a worker counts from its
//!   intended start, so a stall of the cluster shows in every operation that it delays, not in one only (coordinated
//!   omission).

mod arrivals;
mod order;
#[cfg(test)]
mod tests;

pub use arrivals::{Arrivals, OpenLoop, Start};
pub use order::following;

use std::ops::RangeInclusive;

use crate::pattern::Pattern;
use crate::plan::Group;
use crate::random::{Random, scramble};

/// Version that the prefill writes.
pub const PREFILL_VERSION: u32 = 1;

/// Kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes `version`.
    Write { version: u32 },
    /// Reads. The bytes must be of one of these versions, from the first to the second; there are several only after a
    /// write of unknown outcome. Version 0 means that the block was never written.
    Read { versions: (u32, u32) },
    /// Asks for length and ETag of an object, whose versions are as those of a read.
    Head { versions: (u32, u32) },
    /// Removes an object. `version`: a number of its own among those of writes.
    Delete { version: u32 },
    /// Lists the objects that stand behind this one.
    List,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Number of the object within its group.
    pub object: u64,
    pub offset_bytes: u64,
    /// Bytes that the operation moves.
    pub length_bytes: u64,
    pub kind: Kind,
    /// The object may be gone: a removal of it has had no answer.
    pub may_be_absent: bool,
    /// False for a write in the place of an operation whose object was removed: it is no part of the load.
    pub counts: bool,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The operation was refused: nothing was changed.
    Refused,
    /// There was no answer: a write may have happened, and may even happen later.
    Unknown,
    /// There was no answer: a write may have happened, and may even happen after later writes of the same block, which
    /// other connections carry.
    Late,
}

/// The worker's knowledge of an object that it may have removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Absence {
    Not,
    Maybe,
    Surely,
}

/// Versions that a block may hold.
#[derive(Clone, Copy, Debug)]
struct Versions {
    /// The oldest possible version.
    oldest: u32,
    /// The latest version that was attempted.
    newest: u32,
    /// A change without an answer may still happen at any time.
    late: bool,
    absence: Absence,
}

impl Versions {
    /// Notes a change that may have happened, or may be followed by an earlier one.
    fn may_have_changed(&mut self, removes: bool) {
        let same = if removes { Absence::Surely } else { Absence::Not };
        if self.absence != same {
            self.absence = Absence::Maybe;
        }
    }
}

/// Places of kinds among a worker's weights, which are in the order of a plan's percentages.
mod choice {
    pub const SEQUENTIAL_WRITE: usize = 0;
    pub const RANDOM_WRITE: usize = 1;
    pub const SEQUENTIAL_READ: usize = 2;
    pub const HEAD: usize = 4;
    pub const DELETE: usize = 5;
    pub const LIST: usize = 6;
}

/// Number of the run in the patterns of one iteration of one workload. Objects and versions have the same numbers in
/// every iteration, so this number identifies bytes left over from another iteration or workload.
pub fn pattern_run(seed: u64, workload_index: u32, iteration: u32) -> u64 {
    scramble(seed ^ scramble(((u64::from(workload_index) << 32) | u64::from(iteration)).wrapping_add(1)))
}

/// Number in patterns of object `object` of a group. The group's index stands above bit 40, far above the largest
/// number of objects of a plan.
pub fn pattern_object(group_index: u32, object: u64) -> u64 {
    (u64::from(group_index) << 40) | object
}

impl Operation {
    /// The bytes of this operation as `version` wrote them; `run` is from [`pattern_run`].
    pub fn pattern(&self, run: u64, group_index: u32, version: u32) -> Pattern {
        Pattern { run, object: pattern_object(group_index, self.object), version: u64::from(version) }
    }
}

/// A worker of a group: a closed loop's place in the queue, or an open loop's slot.
#[derive(Clone, Debug)]
pub struct Worker {
    random: Random,
    weights: [u32; 7],
    object_bytes: u64,
    io_bytes: u64,
    /// The worker's `i`-th block is the group's block `first + i * stride`.
    first: u64,
    stride: u64,
    blocks: u64,
    next_write: u64,
    next_read: u64,
    next_delete: u64,
    /// Versions by block; empty if the group never writes.
    versions: Vec<Versions>,
    prefilled: bool,
    in_flight: Option<(Operation, u64)>,
}

impl Worker {
    /// Makes worker `number` of `group`, which is the workload's group `group_index`. Equal seed, group and number give
    /// equal operations.
    ///
    /// `group` must be of a checked plan. Panics if `number` is not below [`Group::workers`].
    pub fn new(seed: u64, group_index: u32, group: &Group, number: u64) -> Worker {
        let workers = group.workers();
        assert!(number < workers, "worker {number} of {workers}");
        let operations = group.operations;
        let writes = operations.changes() > 0;
        // Readers begin evenly spread over all blocks, like instances of one long sequential read.
        let (first, stride, blocks, next_read) = if writes {
            (number, workers, (group.blocks() - number).div_ceil(workers), 0)
        } else {
            (0, 1, group.blocks(), (u128::from(group.blocks()) * u128::from(number) / u128::from(workers)) as u64)
        };
        let initial = if group.prefill() { PREFILL_VERSION } else { 0 };
        let versions = Versions { oldest: initial, newest: initial, late: false, absence: Absence::Not };
        Worker {
            random: Random::new(seed, (u64::from(group_index) << 32) | number),
            weights: operations.by_name().map(|(_, percent)| percent),
            object_bytes: group.object_bytes,
            io_bytes: group.io_bytes(),
            first,
            stride,
            blocks,
            next_write: 0,
            next_read,
            next_delete: 0,
            versions: if writes { vec![versions; blocks as usize] } else { Vec::new() },
            prefilled: group.prefill(),
            in_flight: None,
        }
    }

    /// The next operation. Sequential ones begin again when they have covered all of the worker's blocks.
    ///
    /// Panics if the last operation has not ended.
    pub fn next_operation(&mut self) -> Operation {
        assert!(self.in_flight.is_none(), "a worker has one operation at a time: {:?}", self.in_flight);
        let mut draw = self.random.below(100) as u32;
        let choice = self.weights.iter().position(|weight| {
            let hit = draw < *weight;
            draw = draw.wrapping_sub(*weight);
            hit
        });
        let choice = choice.expect("a checked plan's percentages add up to 100");
        let block = match choice {
            choice::SEQUENTIAL_WRITE => step(&mut self.next_write, self.blocks),
            choice::SEQUENTIAL_READ => step(&mut self.next_read, self.blocks),
            choice::DELETE => step(&mut self.next_delete, self.blocks),
            _ => self.random.below(self.blocks),
        };
        let absence = self.versions.get(block as usize).map_or(Absence::Not, |versions| versions.absence);
        let writes = [choice::SEQUENTIAL_WRITE, choice::RANDOM_WRITE].contains(&choice);
        // Whatever wants an object that was removed has it written again.
        let restores = !writes && choice != choice::LIST && absence == Absence::Surely;
        let mut changed = || {
            let versions = &mut self.versions[block as usize];
            versions.newest = versions.newest.checked_add(1).expect("fewer than 2^32 writes of one block");
            versions.newest
        };
        let kind = match choice {
            _ if writes || restores => Kind::Write { version: changed() },
            choice::DELETE => Kind::Delete { version: changed() },
            choice::LIST => Kind::List,
            _ => {
                let prefill = if self.prefilled { PREFILL_VERSION } else { 0 };
                let written = self.versions.get(block as usize).map(|versions| (versions.oldest, versions.newest));
                let versions = written.unwrap_or((prefill, prefill));
                if choice == choice::HEAD { Kind::Head { versions } } else { Kind::Read { versions } }
            }
        };
        let start = (self.first + block * self.stride) * self.io_bytes;
        let moves = matches!(kind, Kind::Write { .. } | Kind::Read { .. });
        let operation = Operation {
            object: start / self.object_bytes,
            offset_bytes: if moves { start % self.object_bytes } else { 0 },
            length_bytes: if moves { self.io_bytes } else { 0 },
            kind,
            may_be_absent: choice != choice::LIST && absence != Absence::Not,
            counts: !restores,
        };
        self.in_flight = Some((operation, block));
        operation
    }

    /// Notes the end of the operation.
    ///
    /// Panics if none was begun.
    pub fn ended(&mut self, outcome: Outcome) {
        let (operation, block) = self.in_flight.take().expect("an operation that ended was begun");
        let (version, removes) = match operation.kind {
            Kind::Write { version } => (version, false),
            Kind::Delete { version } => (version, true),
            Kind::Read { .. } | Kind::Head { .. } | Kind::List => return,
        };
        let versions = &mut self.versions[block as usize];
        match outcome {
            Outcome::Done if versions.late => versions.may_have_changed(removes),
            // An earlier write of unknown outcome cannot come later: the client sends a worker's operations on an
            // object in order.
            Outcome::Done => {
                versions.oldest = version;
                versions.absence = if removes { Absence::Surely } else { Absence::Not };
            }
            Outcome::Unknown => versions.may_have_changed(removes),
            Outcome::Late => {
                versions.late = true;
                versions.may_have_changed(removes);
            }
            // Nothing was written, so this version cannot be read; its number is free again.
            Outcome::Refused => versions.newest = version - 1,
        }
    }
}

impl Kind {
    /// The versions that a read may return, newest first, because the newest is the likeliest. Some may be numbers of
    /// removals, which no bytes have.
    pub fn acceptable(&self) -> impl Iterator<Item = u32> + use<> {
        let range: RangeInclusive<u32> = match *self {
            Kind::Write { version } | Kind::Delete { version } => version..=version,
            Kind::Read { versions: (oldest, newest) } | Kind::Head { versions: (oldest, newest) } => oldest..=newest,
            Kind::List => RangeInclusive::new(1, 0),
        };
        range.rev()
    }
}

fn step(next: &mut u64, blocks: u64) -> u64 {
    let block = *next;
    *next = (block + 1) % blocks;
    block
}

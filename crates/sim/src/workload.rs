//! A client's requests, drawn at random, with several in flight.

use crate::content::WORD_BYTES;
use crate::history::{Ask, LONG_NAMES_FROM, ObjectName, Usage};
use crate::model::{Change, STRIPE_WORDS, State, is_removable};
use crate::request::{OP_BYTES_MAX, STEPS_MAX};
use crate::values::{LONG_FROM, TOO_LONG_NAME};
use reactor::sim::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use wire::messages::OpFlags;

/// Number of snapshots of one run.
pub const SNAPSHOTS_MAX: u64 = 12;
/// The most requests that a client may have in flight.
pub const IN_FLIGHT_MAX: usize = 6;

/// The snapshots of a run, whose numbers count from 1.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// The newest snapshot, which all clients use and know.
    pub newest: AtomicU64,
    /// If true, some snapshots may be removed.
    pub may_go: bool,
    /// A bit for each snapshot that was removed.
    pub removed: AtomicU64,
}

impl Snapshots {
    /// True if a snapshot stays.
    pub fn lasts(&self, snap: u64) -> bool {
        !(self.may_go && is_removable(snap))
    }

    /// A snapshot that stays: this one or the next.
    fn lasting(&self, snap: u64) -> u64 {
        if self.lasts(snap) { snap } else { snap + 1 }
    }

    /// Removes one that may be removed, if there is one. Returns it.
    pub fn remove_some(&self, rng: &mut Rng) -> Option<u64> {
        let removed = self.removed.load(Ordering::Relaxed);
        let there = (1..=self.newest.load(Ordering::Relaxed)).filter(|snap| !self.lasts(*snap));
        let left: Vec<u64> = there.filter(|snap| removed >> snap & 1 == 0).collect();
        let snap = *left.get(rng.below(left.len().max(1) as u64) as usize)?;
        self.removed.store(removed | 1 << snap, Ordering::Relaxed);
        Some(snap)
    }
}

/// The objects of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Objects {
    /// Registers that are changed all the time.
    pub busy: u8,
    /// Registers that are rarely touched. They give recovery something to do.
    pub ballast: u8,
    pub logs: u8,
    /// Copies; each is of the log with its number.
    pub copies: u8,
    /// Registers with the longest names that there may be.
    pub long_names: u8,
}

impl Objects {
    /// Chooses numbers such that about equally many of `operations` concern each object, however many there are. The
    /// search for an order of operations on one object needs that.
    pub fn new(operations: Option<u32>, ballast: u8) -> Objects {
        let times = (operations.unwrap_or(0) / 200).clamp(1, 20) as u8;
        Objects { busy: 5 * times, ballast, logs: 3 * times, copies: 0, long_names: 0 }
    }

    /// Adds copies of some of the logs.
    pub fn with_copies(self) -> Objects {
        Objects { copies: self.logs.div_ceil(2), ..self }
    }

    /// Adds some registers with long names.
    pub fn with_long_names(self) -> Objects {
        Objects { long_names: 3, ..self }
    }

    pub fn all(self) -> impl Iterator<Item = ObjectName> {
        let long = (0..self.long_names).map(|n| ObjectName { usage: Usage::Register, index: LONG_NAMES_FROM + n });
        let all = |usage, count| (0..count).map(move |index| ObjectName { usage, index });
        let registers = all(Usage::Register, self.busy + self.ballast);
        registers.chain(all(Usage::Log, self.logs)).chain(all(Usage::Copy, self.copies)).chain(long)
    }
}

/// Writes every ballast object once. The largest have so many words.
pub fn fill(rng: &mut Rng, objects: Objects, words_max: u64) -> VecDeque<(ObjectName, Ask)> {
    let objects = objects.all().filter(|object| object.usage == Usage::Register && object.index >= objects.busy);
    let change = |object| {
        let words = if rng.one_in(12) { words_max } else { rng.below(1200) + 1 };
        let keys = (0..rng.below(12) as u8).collect();
        (object, Ask::Change(vec![Change::WriteFull { words }, Change::SetAttr { attr: 0 }, Change::OmapSet { keys }]))
    };
    objects.map(change).collect()
}

/// Leaves out everything about omap, which an erasure-coded pool without overwrites does not take.
pub fn without_omap(requests: &mut VecDeque<(ObjectName, Ask)>) {
    for (_, ask) in requests {
        if let Ask::Change(changes) = ask {
            changes.retain(|change| !matches!(change, Change::OmapSet { .. }));
        }
    }
}

/// One client's future requests.
pub struct Workload {
    rng: Rng,
    left: u32,
    pause: RangeInclusive<Duration>,
    objects: Objects,
    /// The pool is erasure-coded: unless `overwrites` is set, objects are written as a whole and appended to in
    /// stripes, and have no omap.
    coded: bool,
    overwrites: bool,
    /// If true, operations are as large as they may be, and larger.
    large: bool,
    /// If true, object classes are called.
    calls: bool,
    /// If true, the class `version` is called, too.
    versions: bool,
    /// Random numbers that tell which reads any member may answer.
    balanced: Option<Rng>,
    /// The newest snapshot, which all clients use and know. `None`: there are no snapshots.
    snaps: Option<Arc<Snapshots>>,
    /// Attributes as this client last saw them, for guards that have a chance to hold.
    seen: BTreeMap<ObjectName, BTreeMap<u8, u64>>,
}

impl Workload {
    pub fn new(seed: u64, requests: u32, pause: RangeInclusive<Duration>, objects: Objects) -> Workload {
        Workload {
            rng: Rng::new(seed),
            left: requests,
            pause,
            objects,
            coded: false,
            overwrites: false,
            large: false,
            calls: false,
            versions: false,
            balanced: None,
            snaps: None,
            seen: BTreeMap::new(),
        }
    }

    /// Adds operations as large as they may be, and larger.
    pub fn with_large_operations(self) -> Workload {
        Workload { large: true, ..self }
    }

    pub fn is_large(&self) -> bool {
        self.large
    }

    /// Adds calls of object classes. A pool that is erasure-coded must take overwrites for that.
    pub fn with_calls(self) -> Workload {
        Workload { calls: true, ..self }
    }

    /// Adds calls of the class `version` to those of other classes, if there are any.
    pub fn with_versions(self) -> Workload {
        Workload { versions: true, ..self }
    }

    /// Adds reads that any member may answer, drawn by `seed`.
    pub fn with_balanced_reads(self, seed: u64) -> Workload {
        Workload { balanced: Some(Rng::new(seed)), ..self }
    }

    /// Makes the workload one for an erasure-coded pool. `overwrites`: parts of objects may be changed.
    pub fn coded(self, overwrites: bool) -> Workload {
        Workload { coded: true, overwrites, ..self }
    }

    /// Adds snapshots.
    pub fn with_snapshots(self, snaps: Arc<Snapshots>) -> Workload {
        Workload { snaps: Some(snaps), ..self }
    }

    /// The snapshot that a request knows: mostly the newest, which may be a new one, and sometimes an older one.
    fn known_snapshot(&mut self) -> Option<u64> {
        let newest = &self.snaps.as_ref()?.newest;
        if self.rng.one_in(10) && newest.load(Ordering::Relaxed) < SNAPSHOTS_MAX {
            newest.fetch_add(1, Ordering::Relaxed);
        }
        let seq = newest.load(Ordering::Relaxed);
        Some(if self.rng.one_in(12) { self.rng.below(seq + 1) } else { seq })
    }

    fn lasting(&self, snap: u64) -> u64 {
        self.snaps.as_ref().map_or(snap, |snaps| snaps.lasting(snap))
    }

    /// All clients know at once which snapshots were removed. Their earlier requests do not.
    fn knows(&self, seq: u64) -> Change {
        let removed = self.snaps.as_ref().map_or(0, |snaps| snaps.removed.load(Ordering::Relaxed));
        Change::Knows { seq, without: removed }
    }

    /// Flags that tell who may answer a request.
    pub fn draw_members(&mut self, ask: &Ask) -> OpFlags {
        let is_read = !matches!(ask, Ask::Change(_));
        match self.balanced.as_mut().is_some_and(|rng| is_read && !rng.one_in(3)) {
            true => OpFlags::BALANCE_READS,
            false => OpFlags::default(),
        }
    }

    /// Average number of requests in one pause of the longest length.
    pub const REQUESTS_PER_PAUSE_MAX: u32 = 6;

    /// The time to wait before the next request. Mostly there is hardly any, so that requests pile up.
    pub fn pause(&mut self) -> Duration {
        match self.rng.one_in(3) {
            true => self.rng.duration(&self.pause.clone()),
            false => Duration::from_micros(self.rng.below(2000)),
        }
    }

    /// The next request; `None` if there are no more.
    pub fn draw(&mut self) -> Option<(ObjectName, Ask)> {
        self.left = self.left.checked_sub(1)?;
        let (rng, Objects { busy, ballast, logs, copies, long_names }) = (&mut self.rng, self.objects);
        if copies > 0 && rng.one_in(8) {
            return Some(self.draw_heavy());
        }
        if self.large && rng.one_in(8) {
            return Some(self.draw_large());
        }
        if rng.one_in(4) {
            let object = ObjectName { usage: Usage::Log, index: rng.below(logs.into()) as u8 };
            let ask = match rng.one_in(4) {
                true => Ask::Read,
                false if self.coded && !self.overwrites => Ask::Change(vec![Change::Append { words: STRIPE_WORDS }]),
                false => Ask::Change(vec![Change::Append { words: 1 + rng.below(3) }]),
            };
            return Some((object, ask));
        }
        let registers = if rng.one_in(6) { busy + ballast } else { busy };
        let index = match long_names > 0 && rng.one_in(12) {
            true => LONG_NAMES_FROM + rng.below(long_names.into()) as u8,
            false => rng.below(registers.into()) as u8,
        };
        let object = ObjectName { usage: Usage::Register, index };
        let reads = rng.one_in(3);
        let known = self.known_snapshot();
        let ask = match (reads, known) {
            (true, Some(seq)) if self.rng.one_in(2) => {
                let drawn = 1 + self.rng.below(seq + 1);
                Ask::ReadAt(self.lasting(drawn))
            }
            (true, _) => Ask::Read,
            (false, Some(seq)) if seq > 0 && self.rng.one_in(8) => {
                let drawn = 1 + self.rng.below(seq);
                let snap = self.lasting(drawn);
                Ask::Change(vec![self.knows(seq), Change::RollBack { snap }])
            }
            (false, known) => {
                let knows = known.map(|seq| self.knows(seq));
                let changes = if self.calls && self.rng.one_in(8) { vec![self.call()] } else { self.changes(object) };
                Ask::Change(knows.into_iter().chain(changes).collect())
            }
        };
        Some((object, ask))
    }

    /// Draws a request that makes much of little data, or that goes on although a part of it fails.
    fn draw_heavy(&mut self) -> (ObjectName, Ask) {
        let Objects { busy, copies, .. } = self.objects;
        let known = self.known_snapshot();
        let knows = known.map(|seq| self.knows(seq));
        let kind = self.rng.below(10);
        if kind < 4 {
            let object = ObjectName { usage: Usage::Copy, index: self.rng.below(copies.into()) as u8 };
            let ask = match kind {
                0 => Ask::Read,
                _ => Ask::Change(knows.into_iter().chain([Change::CopyLog]).collect()),
            };
            return (object, ask);
        }
        let object = ObjectName { usage: Usage::Register, index: self.rng.below(busy.into()) as u8 };
        let changes = match kind {
            4 | 5 if known.is_some_and(|seq| seq > 0) => {
                let drawn = 1 + self.rng.below(known.unwrap_or(0));
                vec![Change::CopyOwn { snap: self.lasting(drawn) }]
            }
            4 if !self.coded || self.overwrites => {
                let rng = &mut self.rng;
                let (at, words, times) = (rng.below(2000), 1 + rng.below(100), 1 + rng.below(30));
                vec![Change::WriteSame { at, words, times }]
            }
            5 | 6 => vec![Change::SetAttr { attr: LONG_FROM + self.rng.below(3) as u8 }],
            7 if !self.coded || self.overwrites => {
                let rng = &mut self.rng;
                let keys = (0..1 + rng.below(4)).map(|_| LONG_FROM + rng.below(5) as u8).collect();
                vec![Change::OmapSet { keys }]
            }
            // Data that was read before a guard that fails is returned all the same.
            4 | 7 | 8 => {
                let peek = Change::Peek { by_class: self.calls && self.rng.one_in(3) };
                [peek].into_iter().chain(self.changes(object)).collect()
            }
            _ => {
                let (attr, left_by) = (self.rng.below(2) as u8, self.rng.below(3));
                [Change::Ask { attr, left_by }].into_iter().chain(self.changes(object)).collect()
            }
        };
        (object, Ask::Change(knows.into_iter().chain(changes).collect()))
    }

    /// Draws a request that is as large as it may be, or a little larger, or that no cluster may carry out.
    fn draw_large(&mut self) -> (ObjectName, Ask) {
        const ALL: u64 = OP_BYTES_MAX as u64 / WORD_BYTES;
        const UNIT: u64 = 1024;
        let may_overwrite = !self.coded || self.overwrites;
        let object = ObjectName { usage: Usage::Register, index: self.rng.below(self.objects.busy.into()) as u8 };
        let rng = &mut self.rng;
        // One word more than fits, or none.
        let more = rng.below(2);
        let words = ALL + more;
        let changes = match rng.below(if may_overwrite { 9 } else { 4 }) {
            0 => vec![Change::WriteFull { words }],
            1 => vec![Change::Touch { times: STEPS_MAX + more as usize }],
            2 => vec![Change::SetAttr { attr: TOO_LONG_NAME - more as u8 }],
            3 => return (object, Ask::Change(vec![Change::NoSnaps, Change::WriteFull { words: 1 + rng.below(700) }])),
            4 => vec![Change::Write { at: rng.below(2000), words }],
            5 => vec![Change::WriteSame { at: rng.below(2000), words: UNIT, times: ALL / UNIT + more }],
            // The bytes of both steps count together.
            6 | 7 => {
                let (part, same) =
                    (1 + rng.below(ALL / UNIT - 1), |times| Change::WriteSame { at: 0, words: UNIT, times });
                vec![Change::WriteFull { words: 1 }, same(part), same(ALL / UNIT - part - 1 + more)]
            }
            _ => vec![Change::OmapSet { keys: (0..20 + rng.below(30) as u8).map(|key| LONG_FROM + key).collect() }],
        };
        let knows = self.known_snapshot().map(|seq| self.knows(seq));
        (object, Ask::Change(knows.into_iter().chain(changes).collect()))
    }

    /// Takes note of a state that a read showed.
    pub fn saw(&mut self, object: ObjectName, state: &State) {
        let attrs = state.as_ref().map(|object| object.attrs.clone()).unwrap_or_default();
        self.seen.insert(object, attrs);
    }

    fn changes(&mut self, object: ObjectName) -> Vec<Change> {
        let mut changes = Vec::new();
        if self.rng.one_in(5) {
            let attr = self.rng.below(2) as u8;
            let left_by = self.seen.get(&object).and_then(|attrs| attrs.get(&attr)).copied().unwrap_or(0);
            changes.push(Change::Guard { attr, left_by });
        }
        for _ in 0..1 + u64::from(self.rng.one_in(3)) {
            changes.push(self.change());
        }
        changes
    }

    /// A call of an object class.
    fn call(&mut self) -> Change {
        match self.rng.below(if self.versions { 6 } else { 4 }) {
            4.. => Change::Version { at_least: 1 + self.rng.below(6) },
            0 | 1 => Change::Count { by: 1 + self.rng.below(1000) },
            2 => Change::Lock,
            _ => Change::Unlock,
        }
    }

    fn change(&mut self) -> Change {
        let rng = &mut self.rng;
        // Most lengths are near the bounds of blocks, and some are so large that they take several messages.
        let words = match rng.below(40) {
            0 => 8192 + rng.below(8192),
            n if n < 8 && self.coded => STRIPE_WORDS * (1 + rng.below(4)),
            n if n < 8 => 512 * (1 + rng.below(4)) + rng.below(3),
            _ => 1 + rng.below(700),
        };
        let at = match rng.below(3) {
            0 => 512 * rng.below(4),
            _ => rng.below(2000),
        };
        if self.coded && !self.overwrites {
            return match rng.below(20) {
                0..=5 => Change::WriteFull { words },
                6..=9 => Change::AppendStripe { words },
                10..=11 => Change::Create { exclusive: rng.one_in(2) },
                12..=14 => Change::Remove,
                15..=17 => Change::SetAttr { attr: rng.below(2) as u8 },
                _ => Change::RemoveAttr { attr: rng.below(2) as u8 },
            };
        }
        match rng.below(20) {
            0..=2 => Change::WriteFull { words },
            3..=6 => Change::Write { at, words },
            7..=8 => Change::Append { words },
            9 => Change::Truncate { words: rng.below(2500) },
            10 => Change::Zero { at, words },
            11 => Change::Create { exclusive: rng.one_in(2) },
            12..=13 => Change::Remove,
            14..=15 => Change::SetAttr { attr: rng.below(2) as u8 },
            16 => Change::RemoveAttr { attr: rng.below(2) as u8 },
            17..=18 => Change::OmapSet { keys: (0..1 + rng.below(4)).map(|_| rng.below(12) as u8).collect() },
            _ if rng.one_in(4) => Change::OmapClear,
            _ => Change::OmapRemove { key: rng.below(12) as u8 },
        }
    }
}

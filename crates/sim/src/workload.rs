//! What a client asks for: drawn by chance, with several requests in flight.

use crate::history::{Ask, ObjectName, Usage};
use crate::model::{Change, STRIPE_WORDS, State};
use reactor::sim::Rng;
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Registers that are changed all the time, and logs, of a run.
pub const BUSY_REGISTERS: u8 = 5;
pub const LOGS: u8 = 3;

/// How many requests a client may have in flight.
pub const IN_FLIGHT_MAX: usize = 6;

/// All objects of a run with `ballast` registers that are rarely touched, so that recovery has something to do.
pub fn objects(ballast: u8) -> impl Iterator<Item = ObjectName> {
    let all = |usage, count| (0..count).map(move |index| ObjectName { usage, index });
    all(Usage::Register, BUSY_REGISTERS + ballast).chain(all(Usage::Log, LOGS))
}

/// Writes every ballast object once.
pub fn fill(rng: &mut Rng, ballast: u8) -> VecDeque<(ObjectName, Ask)> {
    let objects = objects(ballast).filter(|object| object.index >= BUSY_REGISTERS);
    let change = |object| {
        let words = if rng.one_in(12) { 1 << 15 } else { rng.below(1200) + 1 };
        let keys = (0..rng.below(12) as u8).collect();
        (object, Ask::Change(vec![Change::WriteFull { words }, Change::SetAttr { attr: 0 }, Change::OmapSet { keys }]))
    };
    objects.map(change).collect()
}

/// As an erasure-coded pool takes it.
pub fn without_omap(requests: &mut VecDeque<(ObjectName, Ask)>) {
    for (_, ask) in requests {
        if let Ask::Change(changes) = ask {
            changes.retain(|change| !matches!(change, Change::OmapSet { .. }));
        }
    }
}

/// One client's requests to come.
pub struct Workload {
    rng: Rng,
    left: u32,
    pause: RangeInclusive<Duration>,
    ballast: u8,
    /// The pool is erasure-coded: objects are written as a whole and appended to in stripes, and have no omap.
    coded: bool,
    /// Attributes as this client last saw them, for guards that have a chance to hold.
    seen: BTreeMap<ObjectName, BTreeMap<u8, u64>>,
}

impl Workload {
    pub fn new(seed: u64, requests: u32, pause: RangeInclusive<Duration>, ballast: u8) -> Workload {
        Workload { rng: Rng::new(seed), left: requests, pause, ballast, coded: false, seen: BTreeMap::new() }
    }

    /// The same for an erasure-coded pool.
    pub fn coded(self) -> Workload {
        Workload { coded: true, ..self }
    }

    /// So many requests take the longest pause, on average.
    pub const REQUESTS_PER_PAUSE_MAX: u32 = 6;

    /// How long to wait before the next request; mostly not at all, so that requests pile up.
    pub fn pause(&mut self) -> Duration {
        match self.rng.one_in(3) {
            true => self.rng.duration(&self.pause.clone()),
            false => Duration::from_micros(self.rng.below(2000)),
        }
    }

    /// The next request, `None` once all were asked.
    pub fn draw(&mut self) -> Option<(ObjectName, Ask)> {
        self.left = self.left.checked_sub(1)?;
        let rng = &mut self.rng;
        if rng.one_in(4) {
            let object = ObjectName { usage: Usage::Log, index: rng.below(LOGS.into()) as u8 };
            let ask = match rng.one_in(4) {
                true => Ask::Read,
                false if self.coded => Ask::Change(vec![Change::Append { words: STRIPE_WORDS }]),
                false => Ask::Change(vec![Change::Append { words: 1 + rng.below(3) }]),
            };
            return Some((object, ask));
        }
        let registers = if rng.one_in(6) { BUSY_REGISTERS + self.ballast } else { BUSY_REGISTERS };
        let object = ObjectName { usage: Usage::Register, index: rng.below(registers.into()) as u8 };
        let ask = match rng.one_in(3) {
            true => Ask::Read,
            false => Ask::Change(self.changes(object)),
        };
        Some((object, ask))
    }

    /// Takes note of what a read showed.
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

    fn change(&mut self) -> Change {
        let rng = &mut self.rng;
        // Mostly around the sizes at which blocks begin and end, sometimes large enough for several messages.
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
        if self.coded {
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

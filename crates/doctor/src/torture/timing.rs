//! How long a flush takes, and what that tells of such a drive.

use std::io;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::record::{RECORD_BYTES, Record};
use super::ring::{Medium, SLOTS};
use crate::checks::device_has_volatile_cache;
use crate::machine::Machine;

/// Writes with and without a flush, each at most.
const ROUNDS: usize = 500;
/// Longest time for either.
const TIME_MAX: Duration = Duration::from_secs(4);
/// A disk that rotates 15000 times a minute finds a sector after 2 ms on average. A flush that takes less than half of
/// that has not reached it.
const ROTATION_US_MIN: f64 = 1_000.0;
/// Flash takes longer than this to keep a page, unless a cache that survives a loss of power took it.
const FLASH_US_MIN: f64 = 50.0;

/// Times of writes of 4 KiB at random places, in us.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// One write, not flushed.
    pub write_us: f64,
    /// One flush after a write: median and 99th percentile.
    pub flush_us: f64,
    pub flush_p99_us: f64,
    /// One flush with nothing to flush.
    pub idle_flush_us: f64,
    pub rounds: usize,
}

/// Measures. Slots are filled first.
pub fn measure(medium: &mut impl Medium) -> io::Result<Timing> {
    let mut block = vec![0; RECORD_BYTES];
    let mut write = |medium: &mut dyn FnMut(u64, &[u8]) -> io::Result<()>, slot: u64, sequence: u64| {
        Record { slots: SLOTS, run: 0, sequence, slot }.encode(&mut block);
        medium(slot, &block)
    };
    for slot in 0..u64::from(SLOTS) {
        write(&mut |slot, block| medium.write(slot, block), slot, 0)?;
    }
    medium.flush()?;
    let (mut writes, mut flushes, mut idle) = (Vec::new(), Vec::new(), Vec::new());
    let mut state: u64 = 0x2545_f491_4f6c_dd1d;
    let begin = Instant::now();
    while flushes.len() < ROUNDS && begin.elapsed() < TIME_MAX {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let slot = (state >> 33) % u64::from(SLOTS);
        let start = Instant::now();
        write(&mut |slot, block| medium.write(slot, block), slot, flushes.len() as u64 + 1)?;
        let written = Instant::now();
        medium.flush()?;
        let flushed = Instant::now();
        medium.flush()?;
        idle.push(us(flushed.elapsed()));
        writes.push(us(written - start));
        flushes.push(us(flushed - written));
    }
    let rounds = flushes.len();
    let at = |times: &mut Vec<f64>, share: f64| {
        times.sort_by(f64::total_cmp);
        times[((times.len() - 1) as f64 * share).round() as usize]
    };
    Ok(Timing {
        write_us: at(&mut writes, 0.5),
        flush_us: at(&mut flushes, 0.5),
        flush_p99_us: at(&mut flushes, 0.99),
        idle_flush_us: at(&mut idle, 0.5),
        rounds,
    })
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Facts that a machine tells of the drive under a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DriveFacts {
    pub name: String,
    /// A hypervisor stands between, which decides on flushes.
    pub is_virtual: bool,
    pub rotates: Option<bool>,
    /// The kernel sends flushes to it.
    pub kernel_flushes: Option<bool>,
    /// The drive says that its cache is volatile.
    pub volatile: Option<bool>,
}

impl DriveFacts {
    /// Facts of a drive of `/sys/block`.
    pub fn of(machine: &Machine, name: &str) -> DriveFacts {
        let queue = |file: &str| machine.read(&format!("/sys/block/{name}/queue/{file}"));
        let starts = ["vd", "xvd", "loop", "nbd", "rbd", "zram", "ram"];
        DriveFacts {
            name: name.into(),
            is_virtual: starts.iter().any(|start| name.starts_with(start)),
            rotates: queue("rotational").map(|text| text == "1"),
            kernel_flushes: queue("write_cache").map(|text| text == "write back"),
            volatile: device_has_volatile_cache(machine, name),
        }
    }
}

/// Meanings of a timing, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Judgement {
    /// A flush takes as long as one that is honoured.
    Plausible,
    /// The kernel flushes nothing, since the drive has no volatile cache, as it says.
    NothingToFlush,
    /// A hypervisor or another layer answers.
    Another,
    /// Too quick, unless the drive is protected against loss of power.
    Quick,
    /// No drive is known under it.
    NoDrive,
    /// Quicker than the drive can be.
    Impossible,
    /// The kernel keeps flushes back from a drive with a volatile cache.
    KeptBack,
}

impl Judgement {
    pub fn is_bad(self) -> bool {
        self >= Judgement::NoDrive
    }

    pub fn words(self) -> &'static str {
        match self {
            Judgement::Plausible => {
                "a flush takes as long as one that is honoured; only the test in two steps, with a power cut, shows it"
            }
            Judgement::NothingToFlush => {
                "the drive says that it has no volatile cache, so nothing is flushed; only the test in two steps shows \
                 if that is true"
            }
            Judgement::Another => {
                "another layer (a hypervisor, a loop device, a network) answers flushes; only the test in two steps, \
                 with the power of that machine cut, shows what it does"
            }
            Judgement::Quick => {
                "flash cannot keep data so quickly: either the drive is protected against loss of power, as its data \
                 sheet then says, or it ignores flushes; the test in two steps tells"
            }
            Judgement::NoDrive => "no drive is known under it: it lies in memory, or in a network; nothing is shown",
            Judgement::Impossible => {
                "a disk that rotates cannot be so quick: flushes are ignored, or a cache of a controller answers, which \
                 needs a battery"
            }
            Judgement::KeptBack => {
                "the kernel sends no flushes to this drive, although its cache is volatile: a power cut takes \
                 acknowledged writes away"
            }
        }
    }
}

/// Judges a timing on a drive, if there is one.
pub fn judge(timing: &Timing, drive: Option<&DriveFacts>) -> Judgement {
    let Some(drive) = drive else { return Judgement::NoDrive };
    if drive.kernel_flushes == Some(false) && drive.volatile == Some(true) {
        return Judgement::KeptBack;
    }
    if drive.is_virtual {
        return Judgement::Another;
    }
    if drive.kernel_flushes == Some(false) {
        return Judgement::NothingToFlush;
    }
    match drive.rotates {
        Some(true) if timing.flush_us < ROTATION_US_MIN => Judgement::Impossible,
        Some(false) if timing.flush_us < FLASH_US_MIN => Judgement::Quick,
        Some(_) => Judgement::Plausible,
        None => Judgement::NoDrive,
    }
}

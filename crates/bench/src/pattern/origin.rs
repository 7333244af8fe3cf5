//! The origin of wrong bytes.

use std::fmt;

use super::{Pattern, UNIT_BYTES, check_words, unmix};
use crate::random::scramble;

/// Largest number of wrong bits in a unit that counts as the right unit, damaged. Two unrelated units differ in some
/// 256 bits.
const FLIPPED_BITS_MAX: u32 = 32;

/// Origin of a unit of 64 bytes, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Run, object and version.
    pub pattern: Pattern,
    /// Offset of the unit in its object, in bytes.
    pub offset: u64,
}

impl Origin {
    /// Reads a unit. `None` if no pattern makes these bytes.
    pub fn of(unit: &[u8; UNIT_BYTES]) -> Option<Origin> {
        let mut words = [0u64; 8];
        for (word, bytes) in words.iter_mut().zip(unit.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of 8 bytes"));
        }
        let [w0, w1, w2, w3, check @ ..] = words;
        if check != check_words([w0, w1, w2, w3]) {
            return None;
        }
        let run = unmix(w3) ^ w2;
        let index = unmix(w0) ^ scramble(run);
        let offset = index.checked_mul(UNIT_BYTES as u64)?;
        Some(Origin { pattern: Pattern { run, object: unmix(w1) ^ w0, version: unmix(w2) ^ w1 }, offset })
    }
}

/// The likely kind of wrong bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// The bytes were never written, or are lost.
    Zeros,
    /// Bytes of the right place in the right object, but from another write: this one was lost, or the other came too
    /// early.
    OtherVersion { version: u64 },
    /// Bytes of another place in the right object.
    OtherOffset { offset: u64, version: u64 },
    /// Bytes of another object of this run.
    OtherObject { object: u64, offset: u64, version: u64 },
    /// Bytes that an earlier run wrote.
    OtherRun(Origin),
    /// The right bytes with some wrong bits within one unit of 64 bytes.
    FlippedBits { count: u32 },
    /// Bytes that no pattern makes.
    Foreign,
}

/// Bytes that differ from the written ones.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "object {object} version {version}: byte {offset} is {got:#04x}, not {expected:#04x}: {looks}",
    object = .wanted.object,
    version = .wanted.version
)]
pub struct Mismatch {
    /// The expected pattern.
    pub wanted: Pattern,
    /// Offset in the object of the first wrong byte.
    pub offset: u64,
    /// The expected value of that byte.
    pub expected: u8,
    /// The value that was read.
    pub got: u8,
    /// The likely kind of the bytes around it.
    pub looks: Looks,
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Looks::Zeros => write!(f, "zeros"),
            Looks::OtherVersion { version } => write!(f, "this place as version {version} wrote it"),
            Looks::OtherOffset { offset, version } => write!(f, "byte {offset} on of this object, version {version}"),
            Looks::OtherObject { object, offset, version } => {
                write!(f, "byte {offset} on of object {object}, version {version}")
            }
            Looks::OtherRun(Origin { pattern: Pattern { run, object, version }, offset }) => {
                write!(f, "byte {offset} on of object {object}, version {version}, of the run with seed {run}")
            }
            Looks::FlippedBits { count } => write!(f, "the right data with {count} wrong bits in 64 bytes"),
            Looks::Foreign => write!(f, "nothing that this tool wrote"),
        }
    }
}

impl Pattern {
    /// Describes the wrong byte at `position` of `got`, which was read from `offset`.
    pub(super) fn mismatch(&self, offset: u64, got: &[u8], position: usize) -> Mismatch {
        let at = offset + position as u64;
        let expected = self.unit(scramble(self.run), at / UNIT_BYTES as u64)[(at % UNIT_BYTES as u64) as usize];
        Mismatch { wanted: *self, offset: at, expected, got: got[position], looks: self.looks(offset, got, position) }
    }

    /// Judges by the first two units from `position` on that are wholly in `got`. The second counts only if the first
    /// tells nothing: the wrong bytes may begin in the middle of a unit.
    fn looks(&self, offset: u64, got: &[u8], position: usize) -> Looks {
        let into = ((offset + position as u64) % UNIT_BYTES as u64) as usize;
        let start = position.checked_sub(into).unwrap_or(position + UNIT_BYTES - into);
        let units = got.get(start..).unwrap_or_default();
        let mut first = None;
        for (number, unit) in units.chunks_exact(UNIT_BYTES).take(2).enumerate() {
            let unit: &[u8; UNIT_BYTES] = unit.try_into().expect("chunks of a unit");
            let here = offset + (start + number * UNIT_BYTES) as u64;
            match self.unit_looks(here, unit) {
                Some(Looks::Foreign) | None => first = first.or(Some(Looks::Foreign)),
                Some(known) => {
                    // A damaged unit before a mix-up is only the mix-up's ragged edge; the reverse order cannot occur.
                    return known;
                }
            }
        }
        first.unwrap_or_else(|| {
            // `got` holds no whole unit.
            if got[position..].iter().all(|byte| *byte == 0) { Looks::Zeros } else { Looks::Foreign }
        })
    }

    /// The likely kind of one unit at offset `here`; `None` if it is right.
    fn unit_looks(&self, here: u64, unit: &[u8; UNIT_BYTES]) -> Option<Looks> {
        let expected = self.unit(scramble(self.run), here / UNIT_BYTES as u64);
        if *unit == expected {
            return None;
        }
        if unit.iter().all(|byte| *byte == 0) {
            return Some(Looks::Zeros);
        }
        let count: u32 = unit.iter().zip(&expected).map(|(a, b)| (a ^ b).count_ones()).sum();
        if count <= FLIPPED_BITS_MAX {
            return Some(Looks::FlippedBits { count });
        }
        let Some(origin) = Origin::of(unit) else { return Some(Looks::Foreign) };
        let Origin { pattern: Pattern { run, object, version }, offset } = origin;
        Some(if run != self.run {
            Looks::OtherRun(origin)
        } else if object != self.object {
            Looks::OtherObject { object, offset, version }
        } else if offset != here {
            Looks::OtherOffset { offset, version }
        } else {
            Looks::OtherVersion { version }
        })
    }
}

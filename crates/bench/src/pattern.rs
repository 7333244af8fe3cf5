//! The bytes of every object, made and verified from (run, object, version, offset) alone.
//!
//! An object is a row of units of 64 bytes. A unit holds, scrambled, the numbers that it was made from, so a unit in
//! the wrong place tells its right place. Its eight little-endian words are:
//!
//! | word | content |
//! |---|---|
//! | 0 | `mix(unit index ^ scramble(run))` |
//! | 1 | `mix(object ^ word 0)` |
//! | 2 | `mix(version ^ word 1)` |
//! | 3 | `mix(run ^ word 2)` |
//! | 4..8 | sums and rotations of words 0..4: they distinguish a unit of any run from foreign bytes |
//!
//! `mix` is a bijection, so each number can be computed from its word and the word before it. Almost every bit changes
//! from one unit to the next, so the data does not compress. Two versions of one place differ from byte 16 of each unit
//! on. Offsets count from the object's start and need no alignment. A mix-up is recognized if it keeps the alignment to
//! 64 bytes, which every block store does.

mod origin;
#[cfg(test)]
mod tests;

pub use origin::{Looks, Mismatch, Origin};

use crate::random::scramble;

/// Bytes per unit.
pub const UNIT_BYTES: usize = 64;

const ODD_A: u64 = 0x9e37_79b9_7f4a_7c15;
const ODD_B: u64 = 0xd6e8_feb8_6659_fd93;

/// The data that one write put into an object or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The run's seed.
    pub run: u64,
    /// The object's number.
    pub object: u64,
    /// Number of the write among those of these bytes.
    pub version: u64,
}

fn mix(value: u64) -> u64 {
    let value = value.wrapping_mul(ODD_A);
    (value ^ (value >> 32)).wrapping_mul(ODD_B)
}

/// The inverse of [`mix`].
fn unmix(value: u64) -> u64 {
    let value = value.wrapping_mul(inverse(ODD_B));
    (value ^ (value >> 32)).wrapping_mul(inverse(ODD_A))
}

/// The inverse of an odd number modulo 2^64, by Newton's iteration: every step doubles the number of right bits.
const fn inverse(odd: u64) -> u64 {
    let mut guess = odd;
    let mut step = 0;
    while step < 5 {
        guess = guess.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(guess)));
        step += 1;
    }
    guess
}

/// Words 4 to 7 of a unit, from words 0 to 3.
fn check_words(w: [u64; 4]) -> [u64; 4] {
    [
        w[0].rotate_left(23).wrapping_add(w[3]),
        w[1].rotate_left(41).wrapping_add(w[0]),
        w[2].rotate_left(11).wrapping_add(w[1]),
        w[3].rotate_left(53).wrapping_add(w[2]),
    ]
}

impl Pattern {
    /// Unit `index` as words. `key` is `scramble(self.run)`, which callers compute outside of their loops.
    fn words(&self, key: u64, index: u64) -> [u64; 8] {
        let w0 = mix(index ^ key);
        let w1 = mix(self.object ^ w0);
        let w2 = mix(self.version ^ w1);
        let w3 = mix(self.run ^ w2);
        let [w4, w5, w6, w7] = check_words([w0, w1, w2, w3]);
        [w0, w1, w2, w3, w4, w5, w6, w7]
    }

    fn unit(&self, key: u64, index: u64) -> [u8; UNIT_BYTES] {
        let mut bytes = [0; UNIT_BYTES];
        for (slot, word) in bytes.chunks_exact_mut(8).zip(self.words(key, index)) {
            slot.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The `length` bytes that begin at `offset` of the object.
    ///
    /// Panics if `offset + length` exceeds `u64`.
    pub fn bytes(&self, offset: u64, length: usize) -> Vec<u8> {
        let key = scramble(self.run);
        let (mut index, head) = split(offset, length);
        // The bytes are written once: clearing them beforehand would cost as much again.
        let mut out = Vec::with_capacity(length);
        if head > 0 {
            let skip = (offset % UNIT_BYTES as u64) as usize;
            out.extend_from_slice(&self.unit(key, index)[skip..skip + head]);
            index += 1;
        }
        for _ in 0..(length - head) / UNIT_BYTES {
            out.extend_from_slice(&self.unit(key, index));
            index += 1;
        }
        let tail = length - out.len();
        if tail > 0 {
            out.extend_from_slice(&self.unit(key, index)[..tail]);
        }
        out
    }

    /// Compares `got`, read from `offset` of the object, with the expected bytes.
    ///
    /// Errors: [`Mismatch`] with the first wrong byte and the likely kind of the bytes there. The caller checks the
    /// length.
    pub fn verify(&self, offset: u64, got: &[u8]) -> Result<(), Mismatch> {
        match self.first_difference(offset, got) {
            None => Ok(()),
            Some(position) => Err(self.mismatch(offset, got, position)),
        }
    }

    /// Position in `got` of the first wrong byte.
    fn first_difference(&self, offset: u64, got: &[u8]) -> Option<usize> {
        let key = scramble(self.run);
        let (mut index, head) = split(offset, got.len());
        let (first, rest) = got.split_at(head);
        if head > 0 {
            let skip = (offset % UNIT_BYTES as u64) as usize;
            if let Some(at) = differs(first, &self.unit(key, index)[skip..skip + head]) {
                return Some(at);
            }
            index += 1;
        }
        let units = rest.chunks_exact(UNIT_BYTES);
        let tail = units.remainder();
        for (number, chunk) in units.enumerate() {
            let expected = self.unit(key, index);
            if chunk != expected {
                return differs(chunk, &expected).map(|at| head + number * UNIT_BYTES + at);
            }
            index += 1;
        }
        let expected = self.unit(key, index);
        differs(tail, &expected[..tail.len()]).map(|at| got.len() - tail.len() + at)
    }
}

/// The unit that holds `offset`, and the number of the `len` bytes before the first whole unit.
fn split(offset: u64, len: usize) -> (u64, usize) {
    assert!(offset.checked_add(len as u64).is_some(), "bytes {offset}+{len} lie beyond the end of any object");
    let skip = (offset % UNIT_BYTES as u64) as usize;
    let head = if skip == 0 { 0 } else { (UNIT_BYTES - skip).min(len) };
    (offset / UNIT_BYTES as u64, head)
}

fn differs(a: &[u8], b: &[u8]) -> Option<usize> {
    a.iter().zip(b).position(|(a, b)| a != b)
}

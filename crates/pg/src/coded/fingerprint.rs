//! Fingerprints of shards, by which k + m shards prove that they are one code word without being brought together.
//!
//! A fingerprint is linear over the field of the code, GF(2^8): that of a sum is the sum of fingerprints, and that of a
//! multiple the multiple. Parity is a sum of multiples of data. Therefore fingerprints of the shards of a code word
//! are a code word of the same code, and 32 bytes stand for a window of a shard.
//!
//! Made of checksums: bit b of every byte of the window gives a message of as many bits, of which the register of
//! crc32c is taken from zero on. That register is linear in bits. Bit i of the eight registers makes byte i of the
//! fingerprint. A byte's multiple by a constant is a linear map of its eight bits, which is the same for all bytes; so
//! it maps the registers, bit by bit, as it maps the bytes. A wrong window is told as surely as crc32c tells it, and
//! always if what is wrong lies within 32 bytes.
//!
//! Behind its end a shard counts as zeros, whose fingerprint is zeros.

use ec::{Code, ShardSet};
use types::BLOCK_BYTES;
use types::crc32c::{self, SEED};
use wire::{Decode, DecodeError, Encode, Reader, Rope, Writer};

/// Bytes of a shard that one fingerprint stands for.
pub const WINDOW_BYTES: u64 = 64 << 10;

/// Bytes of a fingerprint: a bit of each for every bit of a checksum.
const PRINT_BYTES: usize = 32;

/// The fingerprints of one shard of an object, window by window. Windows of zeros at its end are left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fingerprints(Vec<[u8; PRINT_BYTES]>);

impl Encode for Fingerprints {
    fn encode(&self, w: &mut Writer) {
        w.blob(self.0.as_flattened());
    }
}

impl Decode for Fingerprints {
    const MIN_BYTES: usize = 4;

    fn decode(r: &mut Reader<'_>) -> Result<Fingerprints, DecodeError> {
        let bytes = r.blob()?;
        match bytes.as_chunks() {
            (prints, []) => Ok(Fingerprints(prints.to_vec())),
            (_, rest) => Err(DecodeError::Value { what: "bytes behind whole fingerprints", value: rest.len() as u64 }),
        }
    }
}

/// Fingerprints of bytes of which runs come in their order, with holes between them.
#[derive(Clone, Debug)]
pub struct Fingerprinting {
    /// Registers of the present window, bit by bit of its bytes, up to its last whole block.
    registers: [u32; 8],
    /// The part of the present block that is in.
    block: Box<[u8; BLOCK_BYTES]>,
    /// Bytes up to here are in.
    end: u64,
    whole: Vec<[u8; PRINT_BYTES]>,
}

impl Default for Fingerprinting {
    fn default() -> Fingerprinting {
        Fingerprinting { registers: [0; 8], block: Box::new([0; BLOCK_BYTES]), end: 0, whole: Vec::new() }
    }
}

const BLOCK: u64 = BLOCK_BYTES as u64;
const _: () = assert!(WINDOW_BYTES.is_multiple_of(BLOCK) && BLOCK_BYTES.is_multiple_of(8));

impl Fingerprinting {
    /// Adds the bytes from `offset` on. Bytes that have come before are passed over.
    pub fn add(&mut self, offset: u64, bytes: &Rope) {
        self.zeros_until(offset);
        // It fits: no more than the bytes at hand.
        let mut known = self.end.saturating_sub(offset).min(bytes.len() as u64) as usize;
        for piece in bytes.pieces() {
            let passed = known.min(piece.len());
            known -= passed;
            let mut rest = &piece[passed..];
            while !rest.is_empty() {
                let at = self.in_block();
                let (now, later) = rest.split_at(rest.len().min(BLOCK_BYTES - at));
                match <&[u8; BLOCK_BYTES]>::try_from(now) {
                    Ok(block) => self.add_block(block),
                    Err(_) => {
                        self.block[at..at + now.len()].copy_from_slice(now);
                        self.advance(now.len());
                    }
                }
                rest = later;
            }
        }
    }

    /// Returns how much of the present block is in.
    fn in_block(&self) -> usize {
        // It fits: less than a block.
        (self.end % BLOCK) as usize
    }

    fn zeros_until(&mut self, offset: u64) {
        while self.end < offset {
            let at = self.in_block();
            if at == 0 && offset - self.end >= BLOCK {
                for register in self.registers.iter_mut().filter(|register| **register != 0) {
                    *register = crc32c::combine(*register ^ SEED, 0, BLOCK / 8);
                }
                self.block_is_in();
                continue;
            }
            // It fits: no more than a block.
            let zeros = (offset - self.end).min(BLOCK - at as u64) as usize;
            self.block[at..at + zeros].fill(0);
            self.advance(zeros);
        }
    }

    /// Counts bytes that have been put into the present block.
    fn advance(&mut self, bytes: usize) {
        match self.in_block() + bytes {
            BLOCK_BYTES => {
                self.end -= self.end % BLOCK;
                let block = *self.block;
                self.add_block(&block);
            }
            _ => self.end += bytes as u64,
        }
    }

    /// Adds a block where one begins.
    fn add_block(&mut self, block: &[u8; BLOCK_BYTES]) {
        let mut bits = [[0; BLOCK_BYTES / 8]; 8];
        let (eights, _) = block.as_chunks::<8>();
        for (i, eight) in eights.iter().enumerate() {
            let turned = turned(u64::from_le_bytes(*eight)).to_le_bytes();
            bits.iter_mut().zip(turned).for_each(|(message, byte)| message[i] = byte);
        }
        for (register, message) in self.registers.iter_mut().zip(&bits) {
            *register = crc32c::update(*register, message);
        }
        self.block_is_in();
    }

    fn block_is_in(&mut self) {
        self.end += BLOCK;
        if self.end.is_multiple_of(WINDOW_BYTES) {
            let registers = std::mem::take(&mut self.registers);
            let byte = |i: usize| (0..8).fold(0, |byte, bit| byte | ((registers[bit] >> i & 1) as u8) << bit);
            self.whole.push(std::array::from_fn(byte));
        }
    }

    /// Returns the fingerprints of all that came.
    pub fn finished(mut self) -> Fingerprints {
        self.zeros_until(self.end.next_multiple_of(WINDOW_BYTES));
        while self.whole.last().is_some_and(|last| *last == [0; PRINT_BYTES]) {
            self.whole.pop();
        }
        Fingerprints(self.whole)
    }
}

/// Returns eight bytes as a square of bits, turned: byte b has bit b of all of them.
fn turned(bytes: u64) -> u64 {
    let swap = |bits: u64, by: u32, mask: u64| {
        let differ = (bits ^ (bits >> by)) & mask;
        bits ^ differ ^ (differ << by)
    };
    let bits = swap(bytes, 7, 0x00aa_00aa_00aa_00aa);
    let bits = swap(bits, 14, 0x0000_cccc_0000_cccc);
    swap(bits, 28, 0x0000_0000_f0f0_f0f0)
}

/// Outcome of a comparison of shards of one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CodeWord {
    /// The shards are of one code word, as far as more than k of them can tell.
    Whole,
    /// The shards without these are of one code word, and no other shards can be left out in their place.
    Without(ShardSet),
    /// The shards are of no code word, and the comparison cannot tell which of them are wrong.
    Broken,
}

/// Compares shards of one object: their numbers, ascending, and their fingerprints. Panics on a shard that the code
/// does not have.
///
/// Up to half as many wrong shards as there are more than k can be told, in each window: no others give a code word
/// with so few.
pub fn compare(code: &Code, shards: &[(usize, &Fingerprints)]) -> CodeWord {
    let windows = shards.iter().map(|(_, prints)| prints.0.len()).max().unwrap_or(0);
    let Some(spare) = shards.len().checked_sub(code.k()) else { return CodeWord::Whole };
    let mut wrong = ShardSet::EMPTY;
    for window in 0..windows {
        let print = |prints: &Fingerprints| prints.0.get(window).copied().unwrap_or_default();
        let prints: Vec<(usize, [u8; PRINT_BYTES])> =
            shards.iter().map(|(shard, prints)| (*shard, print(prints))).collect();
        let all: Vec<usize> = prints.iter().map(|(shard, _)| *shard).collect();
        let without =
            (0..=spare / 2).flat_map(|count| subsets(&all, count)).find(|without| agree(code, &prints, *without));
        match without {
            Some(without) => wrong = wrong.union(without),
            None => return CodeWord::Broken,
        }
    }
    match wrong.len() {
        0 => CodeWord::Whole,
        count if count <= spare => CodeWord::Without(wrong),
        _ => CodeWord::Broken,
    }
}

/// Tells whether fingerprints of one window are a code word, those of `without` left out.
fn agree(code: &Code, prints: &[(usize, [u8; PRINT_BYTES])], without: ShardSet) -> bool {
    let prints: Vec<_> = prints.iter().filter(|(shard, _)| !without.contains(*shard)).collect();
    let (sources, others) = prints.split_at(code.k().min(prints.len()));
    let numbers = |of: &[&(usize, [u8; PRINT_BYTES])]| of.iter().map(|(shard, _)| *shard).collect::<ShardSet>();
    let decoder = code.decoder(numbers(others), numbers(sources)).expect("k shards of the code");
    let mut computed = vec![[0; PRINT_BYTES]; others.len()];
    let sources: Vec<&[u8]> = sources.iter().map(|(_, print)| &print[..]).take(decoder.sources().len()).collect();
    let mut targets: Vec<&mut [u8]> = computed.iter_mut().map(|print| &mut print[..]).collect();
    decoder.decode(&sources, &mut targets).expect("as many as the decoder wants, of one length");
    computed.iter().zip(others).all(|(computed, (_, print))| computed == print)
}

/// Returns all sets of `count` of these shards.
fn subsets(of: &[usize], count: usize) -> Vec<ShardSet> {
    let Some(fewer) = count.checked_sub(1) else { return vec![ShardSet::EMPTY] };
    let with = |(at, shard): (usize, &usize)| {
        let rest = subsets(&of[at + 1..], fewer);
        let shard = *shard;
        rest.into_iter().map(move |mut set| {
            set.insert(shard);
            set
        })
    };
    of.iter().enumerate().flat_map(with).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::coding::encode;
    use proptest::prelude::*;
    use wire::Target;

    fn code(k: usize, m: usize) -> Code {
        Code::new(ec::Technique::JerasureVandermonde, k, m).expect("a code")
    }

    fn shards(k: usize, m: usize, bytes: usize) -> Vec<Vec<u8>> {
        let data: Vec<u8> = (0..bytes as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        let layout = ec::StripeLayout::new(k, 4096).expect("a layout");
        encode(&code(k, m), &layout, &Rope::from(data)).shards.into_iter().map(|shard| shard.to_vec()).collect()
    }

    fn prints(shard: &[u8]) -> Fingerprints {
        let mut prints = Fingerprinting::default();
        prints.add(0, &Rope::from(shard.to_vec()));
        prints.finished()
    }

    fn compared(code: &Code, shards: &[Vec<u8>], of: impl Iterator<Item = usize>) -> CodeWord {
        let prints: Vec<(usize, Fingerprints)> = of.map(|shard| (shard, prints(&shards[shard]))).collect();
        let prints: Vec<(usize, &Fingerprints)> = prints.iter().map(|(shard, prints)| (*shard, prints)).collect();
        compare(code, &prints)
    }

    fn set(of: &[usize]) -> ShardSet {
        of.iter().copied().collect()
    }

    #[test]
    fn every_single_shard_that_is_damaged_is_named_where_there_are_two_parities() {
        for (k, m) in [(2, 2), (4, 2), (8, 3), (3, 2)] {
            let (code, whole) = (code(k, m), shards(k, m, k * 200_000));
            assert_eq!(compared(&code, &whole, 0..k + m), CodeWord::Whole);
            for shard in 0..k + m {
                for at in [0, 65_535, 65_536, 200_000] {
                    let mut damaged = whole.clone();
                    damaged[shard][at] ^= 0x10;
                    assert_eq!(
                        compared(&code, &damaged, 0..k + m),
                        CodeWord::Without(set(&[shard])),
                        "{k}+{m} {shard}"
                    );
                }
            }
        }
    }

    #[test]
    fn one_parity_tells_that_something_is_wrong_and_not_what() {
        let (code, whole) = (code(2, 1), shards(2, 1, 9000));
        assert_eq!(compared(&code, &whole, 0..3), CodeWord::Whole);
        for shard in 0..3 {
            let mut damaged = whole.clone();
            damaged[shard][77] ^= 1;
            assert_eq!(compared(&code, &damaged, 0..3), CodeWord::Broken);
            let others = (0..3).filter(|other| *other != shard);
            assert_eq!(compared(&code, &damaged, others), CodeWord::Whole, "k shards tell nothing");
        }
    }

    #[test]
    fn two_damaged_shards_are_named_apart_or_by_four_parities_and_else_not() {
        let mut damaged = shards(4, 2, 4 * 200_000);
        damaged[1][5] ^= 3;
        damaged[5][70_000] ^= 3;
        assert_eq!(compared(&code(4, 2), &damaged, 0..6), CodeWord::Without(set(&[1, 5])), "in two windows");
        damaged[2][140_000] ^= 3;
        assert_eq!(compared(&code(4, 2), &damaged, 0..6), CodeWord::Broken, "too many");
        for (m, outcome) in [(2, CodeWord::Broken), (3, CodeWord::Broken), (4, CodeWord::Without(set(&[0, 4])))] {
            let mut damaged = shards(4, m, 4 * 4096);
            (damaged[0][9], damaged[4][2000]) = (!damaged[0][9], !damaged[4][2000]);
            assert_eq!(compared(&code(4, m), &damaged, 0..4 + m), outcome, "4+{m}");
        }
    }

    #[test]
    fn fingerprints_read_back_and_parts_of_one_do_not() {
        let whole = prints(&[7; 70_000]);
        assert_eq!(whole.0.len(), 2);
        let bytes = whole.to_vec(Target::default());
        assert_eq!(Fingerprints::from_slice(&bytes), Ok(whole));
        let mut w = Writer::new(Target::default());
        w.blob(&[1; 33]);
        assert!(Fingerprints::from_slice(w.as_slice()).is_err());
    }

    #[test]
    fn bits_are_turned() {
        let bytes = [0x01, 0x80, 0xff, 0, 0x10, 3, 0x55, 0xaa_u8];
        let byte = |b: usize| (0..8).fold(0, |byte, i| byte | (bytes[i] >> b & 1) << i);
        assert_eq!(turned(u64::from_le_bytes(bytes)).to_le_bytes(), std::array::from_fn(byte));
    }

    proptest! {
        #[test]
        fn runs_and_holes_and_trailing_zeros_are_printed_as_one(
            cuts in prop::collection::vec((0usize..90_000, 1usize..30_000), 0..5),
            tail in 0usize..200_000,
        ) {
            let (mut bytes, mut printing) = (Vec::new(), Fingerprinting::default());
            for (hole, len) in cuts {
                bytes.resize(bytes.len() + hole, 0);
                let run: Vec<u8> = (0..len).map(|i| (i * 31 + len) as u8).collect();
                printing.add(bytes.len() as u64, &Rope::from(run.clone()));
                // Bytes that came before.
                printing.add(bytes.len() as u64, &Rope::from(run[..len / 2].to_vec()));
                bytes.extend(run);
            }
            bytes.resize(bytes.len() + tail, 0);
            prop_assert_eq!(printing.finished(), prints(&bytes));
        }
    }
}

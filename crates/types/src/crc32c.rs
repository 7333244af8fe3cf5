//! CRC-32C (Castagnoli) in the raw form that the protocol and the store use: the seed is the initial register and the
//! result is the final register, without inversion at either end.
//!
//! Combination lets one pass over the bytes serve both the 4 KiB blocks of the store and the frame on the wire.

use crate::BLOCK_BYTES;
use crc_fast::{CrcAlgorithm, Digest};

/// The seed of frames' segments, of maps and of blocks.
pub const SEED: u32 = 0xffff_ffff;

/// Up to so many bytes the processor's instruction for eight bytes at a time is faster than the library, which prepares
/// for many: headers, and most messages but for their data.
#[cfg(any(test, target_arch = "x86_64"))]
const SHORT_BYTES: usize = 512;

/// The register after `bytes`, starting from `seed`.
pub fn update(seed: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT_BYTES && is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has what the function is compiled for.
        #[allow(unsafe_code)]
        return unsafe { update_short(seed, bytes) };
    }
    update_long(seed, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn update_short(seed: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let (words, rest) = bytes.as_chunks::<8>();
    let register = words.iter().fold(seed.into(), |crc, word| _mm_crc32_u64(crc, u64::from_le_bytes(*word)));
    let register = u32::try_from(register).expect("the instruction leaves the upper half zero");
    rest.iter().fold(register, |crc, byte| _mm_crc32_u8(crc, *byte))
}

fn update_long(seed: u32, bytes: &[u8]) -> u32 {
    // The library computes the standard form, whose register is inverted before and after.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(seed));
    digest.update(bytes);
    !(digest.finalize() as u32)
}

/// The register after `bytes`, starting from [`SEED`].
pub fn checksum(bytes: &[u8]) -> u32 {
    update(SEED, bytes)
}

/// The register after A then B, from the registers after A and after B, both computed from [`SEED`];
/// `b_bytes` is the length of B.
pub fn combine(crc_a: u32, crc_b: u32, b_bytes: u64) -> u32 {
    if b_bytes == 0 {
        return crc_a;
    }
    !(crc_fast::checksum_combine(CrcAlgorithm::Crc32Iscsi, u64::from(!crc_a), u64::from(!crc_b), b_bytes) as u32)
}

/// Effect of one 4 KiB block of zeros on a register: a linear map, as four tables over the register's bytes.
static BLOCK_SHIFT: [[u32; 256]; 4] = block_shift_tables();

const fn block_shift_tables() -> [[u32; 256]; 4] {
    // Columns of the map of one zero bit. Squaring it fifteen times gives the map of 2^15 bits, a block.
    let mut columns = [0u32; 32];
    columns[0] = 0x82f6_3b78;
    let mut i = 1;
    while i < 32 {
        columns[i] = 1 << (i - 1);
        i += 1;
    }
    let mut squared = 0;
    while squared < BLOCK_BITS_LOG2 {
        let before = columns;
        let mut i = 0;
        while i < 32 {
            columns[i] = apply(&before, before[i]);
            i += 1;
        }
        squared += 1;
    }
    let mut tables = [[0; 256]; 4];
    let mut entry = 0;
    while entry < 4 * 256 {
        let (byte, value) = (entry / 256, entry % 256);
        tables[byte][value] = apply(&columns, (value as u32) << (8 * byte));
        entry += 1;
    }
    tables
}

const BLOCK_BITS_LOG2: usize = 15;
const _: () = assert!(1 << BLOCK_BITS_LOG2 == 8 * BLOCK_BYTES);

const fn apply(columns: &[u32; 32], register: u32) -> u32 {
    let (mut sum, mut i) = (0, 0);
    while i < 32 {
        if register >> i & 1 == 1 {
            sum ^= columns[i];
        }
        i += 1;
    }
    sum
}

/// [`combine`] where B is one whole 4 KiB block: a few table look-ups.
pub fn combine_block(crc_a: u32, crc_block: u32) -> u32 {
    let shifted = (crc_a ^ SEED).to_le_bytes();
    let look_up = |i: usize| BLOCK_SHIFT[i][usize::from(shifted[i])];
    look_up(0) ^ look_up(1) ^ look_up(2) ^ look_up(3) ^ crc_block
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_bytes_have_the_checksum_that_the_library_gives() {
        let bytes: Vec<u8> = (0..2 * SHORT_BYTES).map(|i| (i * i / 7 + i) as u8).collect();
        for len in 0..=SHORT_BYTES + 9 {
            for (seed, from) in [(SEED, 0), (0, 1), (0x1234_5678, len / 2)] {
                let bytes = &bytes[from..][..len];
                assert_eq!(update(seed, bytes), update_long(seed, bytes), "{len} bytes from {from}");
            }
        }
    }

    fn bit_by_bit(seed: u32, bytes: &[u8]) -> u32 {
        bytes.iter().fold(seed, |crc, byte| {
            (0..8).fold(crc ^ u32::from(*byte), |c, _| if c & 1 == 1 { c >> 1 ^ 0x82f6_3b78 } else { c >> 1 })
        })
    }

    #[test]
    fn known_answer() {
        assert_eq!(!checksum(b"123456789"), 0xe306_9283);
        assert_eq!(checksum(b""), SEED);
    }

    #[test]
    fn equals_the_definition_for_any_seed_and_length() {
        let bytes: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for len in [0, 1, 7, 28, 32, 63, 64, 255, 256, 1000, 4096, 5000] {
            for seed in [0, SEED, 0x1234_5678] {
                assert_eq!(update(seed, &bytes[..len]), bit_by_bit(seed, &bytes[..len]), "length {len} seed {seed:x}");
            }
        }
    }

    #[test]
    fn combination_equals_one_pass() {
        let bytes = vec![0xa5u8; 9000];
        for cut in [0, 1, 4096, 8192, 9000] {
            let (a, b) = bytes.split_at(cut);
            assert_eq!(combine(checksum(a), checksum(b), b.len() as u64), checksum(&bytes));
        }
    }

    #[test]
    fn combination_by_blocks_equals_one_pass() {
        let bytes: Vec<u8> = (0..5 * BLOCK_BYTES).map(|i| ((i * i) >> 7) as u8).collect();
        let crcs = bytes.chunks(BLOCK_BYTES).map(checksum);
        assert_eq!(crcs.fold(SEED, combine_block), checksum(&bytes));
        assert_eq!(combine_block(checksum(b"x"), 7), combine(checksum(b"x"), 7, BLOCK_BYTES as u64));
    }
}

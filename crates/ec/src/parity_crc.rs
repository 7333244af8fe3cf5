//! Checksums of parity without a pass over its bytes.
//!
//! CRC-32C is linear over exclusive or. The checksum of a parity that is the exclusive or of data
//! ([`crate::Code::parity_is_sum`]) therefore follows from the data's checksums. After a change of one data shard it
//! follows from the parity's old checksum and the data's old and new one, because the new parity is the exclusive or of
//! these three. Other parities allow no such shortcut: the checksum of a product with a field element is not a function
//! of the checksum.

use types::BLOCK_BYTES;
use types::crc32c::{SEED, combine, combine_block};

/// [`types::crc32c::checksum`] of the exclusive or of strings that are each `bytes` long, from their checksums.
pub fn of_sum(checksums: impl IntoIterator<Item = u32>, bytes: usize) -> u32 {
    let (count, sum) = checksums.into_iter().fold((0usize, 0), |(count, sum), checksum| (count + 1, sum ^ checksum));
    // Each checksum is the seed's part plus the string's: an odd number of strings leaves one seed's part.
    if count % 2 == 1 { sum } else { sum ^ of_zeros(bytes) }
}

/// The seed's part of a checksum, which is the checksum of zeros.
fn of_zeros(bytes: usize) -> u32 {
    match bytes {
        0 => SEED,
        BLOCK_BYTES => combine_block(0, 0),
        _ => combine(0, 0, bytes as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::crc32c;

    #[test]
    fn the_checksum_of_a_sum_is_that_of_its_bytes() {
        for bytes in [0, 1, 100, BLOCK_BYTES, 3 * BLOCK_BYTES + 5] {
            let string = |seed: usize| -> Vec<u8> { (0..bytes).map(|i| ((i * seed) >> 3) as u8).collect() };
            for count in 0..6 {
                let strings: Vec<Vec<u8>> = (1..=count).map(string).collect();
                let sum = (0..bytes).map(|i| strings.iter().fold(0, |sum, string| sum ^ string[i])).collect::<Vec<_>>();
                let checksums = strings.iter().map(|string| crc32c::checksum(string));
                assert_eq!(of_sum(checksums, bytes), crc32c::checksum(&sum), "{count} strings of {bytes}");
            }
        }
    }
}

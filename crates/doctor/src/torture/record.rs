//! One record: a block of 4 KiB.
//!
//! | bytes | content, little-endian |
//! |---|---|
//! | 0 to 7 | `NACRETRT` |
//! | 8 to 11 | version, 1 |
//! | 12 to 15 | number of slots |
//! | 16 to 23 | number of the run, drawn once for each first step |
//! | 24 to 31 | sequence number, 0 in a slot that was only prepared |
//! | 32 to 39 | slot |
//! | 40 to 4091 | bytes that follow from run and sequence number |
//! | 4092 to 4095 | crc32c of all before |

use types::crc32c;

pub const RECORD_BYTES: usize = 4096;
pub const MAGIC: &[u8; 8] = b"NACRETRT";
const VERSION: u32 = 1;
const CRC_AT: usize = RECORD_BYTES - 4;

/// The content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub slots: u32,
    pub run: u64,
    pub sequence: u64,
    pub slot: u64,
}

impl Record {
    /// Writes the record into a block of [`RECORD_BYTES`].
    pub fn encode(&self, block: &mut [u8]) {
        block[..8].copy_from_slice(MAGIC);
        block[8..12].copy_from_slice(&VERSION.to_le_bytes());
        block[12..16].copy_from_slice(&self.slots.to_le_bytes());
        block[16..24].copy_from_slice(&self.run.to_le_bytes());
        block[24..32].copy_from_slice(&self.sequence.to_le_bytes());
        block[32..40].copy_from_slice(&self.slot.to_le_bytes());
        let mut state = self.run ^ self.sequence.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15;
        for word in block[40..CRC_AT].chunks_mut(8) {
            // Xorshift, so that no drive finds the same block twice.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            word.copy_from_slice(&state.to_le_bytes()[..word.len()]);
        }
        let crc = crc32c::checksum(&block[..CRC_AT]);
        block[CRC_AT..].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads a record; `None` if the block is not one, whole and of this version.
    pub fn decode(block: &[u8]) -> Option<Record> {
        let four = |at: usize| block.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four")));
        let eight = |at: usize| block.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight")));
        let is_whole = block.starts_with(MAGIC) && four(CRC_AT)? == crc32c::checksum(&block[..CRC_AT]);
        let record = Record { slots: four(12)?, run: eight(16)?, sequence: eight(24)?, slot: eight(32)? };
        (is_whole && four(8)? == VERSION).then_some(record)
    }
}

//! Entries of the table of copies, which name the copies that no object has yet.

use crate::disk::key::{Key, OMAP_PREFIX_BYTES, decode_object};
use crate::disk::numbers::copy_state;
use wire::DecodeError;

/// Names a copy and its target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CopyOf {
    pub to: Key,
    /// The id of the copy, which is also the id of the copied omap.
    pub id: u64,
    /// True if segments are copied.
    pub segments: bool,
}

impl CopyOf {
    /// Returns the entry of the table of copies: state (1: unfinished or whole), segments flag (1), target.
    pub fn entry(&self, is_whole: bool) -> Vec<u8> {
        [&[if is_whole { copy_state::WHOLE } else { copy_state::UNFINISHED }, u8::from(self.segments)][..], &self.to]
            .concat()
    }

    /// Decodes an entry of the table of copies.
    pub fn decode(key: &[u8], entry: &[u8]) -> Result<CopyOf, DecodeError> {
        let malformed = DecodeError::Value { what: "copy of an object", value: entry.len() as u64 };
        let id = key.iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
        match (entry, key.len()) {
            ([copy_state::UNFINISHED | copy_state::WHOLE, segments @ (0 | 1), to @ ..], OMAP_PREFIX_BYTES) => {
                decode_object(to)?;
                Ok(CopyOf { to: to.into(), id, segments: *segments == 1 })
            }
            _ => Err(malformed),
        }
    }
}

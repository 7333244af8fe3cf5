//! Opening the records of secure mode; [`super::framing`] has their layout.

use super::auth::{Open, TAG_BYTES};
use super::frame::FrameError;
use super::framing::{HEAD_BYTES, INLINE_BYTES, padded};

/// Bytes of the first record with its code.
pub(super) const SEALED_HEAD_BYTES: usize = HEAD_BYTES + TAG_BYTES;

/// The receiving direction, and what it opened of a frame so far.
#[derive(Debug)]
pub(super) struct Opening {
    open: Box<dyn Open>,
    /// The first bytes of segment 0.
    pub inline: [u8; INLINE_BYTES],
}

impl Opening {
    pub fn new(open: Box<dyn Open>) -> Opening {
        Opening { open, inline: [0; INLINE_BYTES] }
    }

    /// Opens a record in place, with its code behind it.
    pub fn open(&mut self, what: &'static str, sealed: &mut [u8]) -> Result<(), FrameError> {
        let (record, tag) = sealed.split_at_mut(sealed.len() - TAG_BYTES);
        let tag: &[u8; TAG_BYTES] = (&*tag).try_into().expect("the code was split off by its length");
        self.open.open(record, tag).map_err(|_| FrameError::NotOpened { what })
    }
}

/// Bytes of the second record with its code, for a segment 0 of `length` bytes that has one.
pub(super) fn sealed_rest_bytes(length: usize) -> usize {
    padded(length) - INLINE_BYTES + TAG_BYTES
}

//! Payloads made of several pieces of memory, so that nothing is copied to join or cut them.

use bytes::{Bytes, BytesMut};
use std::fmt;

/// A sequence of shared byte slices that reads as one. Empty pieces are never kept.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Rope {
    first: Bytes,
    rest: Vec<Bytes>,
    len: usize,
}

impl Rope {
    pub const fn new() -> Rope {
        Rope { first: Bytes::new(), rest: Vec::new(), len: 0 }
    }

    /// Total bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn push(&mut self, piece: Bytes) {
        if piece.is_empty() {
            return;
        }
        self.len += piece.len();
        if self.first.is_empty() { self.first = piece } else { self.rest.push(piece) }
    }

    pub fn append(&mut self, other: Rope) {
        other.into_pieces().for_each(|piece| self.push(piece));
    }

    pub fn pieces(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).filter(|piece| !piece.is_empty()).chain(&self.rest)
    }

    pub fn into_pieces(self) -> impl Iterator<Item = Bytes> {
        std::iter::once(self.first).filter(|piece| !piece.is_empty()).chain(self.rest)
    }

    /// The bytes `offset .. offset + len`, sharing memory. Panics if they reach past the end.
    pub fn slice(&self, offset: usize, len: usize) -> Rope {
        assert!(offset + len <= self.len, "slice {offset}+{len} of {} bytes", self.len);
        let (mut skip, mut want, mut out) = (offset, len, Rope::new());
        for piece in self.pieces() {
            if want == 0 {
                break;
            }
            if skip >= piece.len() {
                skip -= piece.len();
                continue;
            }
            let take = want.min(piece.len() - skip);
            out.push(piece.slice(skip..skip + take));
            (skip, want) = (0, want - take);
        }
        out
    }

    /// All bytes in one piece; copies only if there are several.
    pub fn into_bytes(self) -> Bytes {
        if self.rest.is_empty() {
            return self.first;
        }
        let mut joined = BytesMut::with_capacity(self.len);
        self.pieces().for_each(|piece| joined.extend_from_slice(piece));
        joined.freeze()
    }

    pub fn to_vec(&self) -> Vec<u8> {
        let mut joined = Vec::with_capacity(self.len);
        self.pieces().for_each(|piece| joined.extend_from_slice(piece));
        joined
    }

    /// The crc32c register after all bytes, from `seed`.
    pub fn crc32c(&self, seed: u32) -> u32 {
        self.pieces().fold(seed, |crc, piece| types::crc32c::update(crc, piece))
    }
}

impl From<Bytes> for Rope {
    fn from(piece: Bytes) -> Rope {
        Rope { len: piece.len(), first: piece, rest: Vec::new() }
    }
}

impl From<Vec<u8>> for Rope {
    fn from(bytes: Vec<u8>) -> Rope {
        Bytes::from(bytes).into()
    }
}

impl FromIterator<Bytes> for Rope {
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Rope {
        let mut rope = Rope::new();
        pieces.into_iter().for_each(|piece| rope.push(piece));
        rope
    }
}

impl fmt::Debug for Rope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rope({} bytes in {})", self.len, self.pieces().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_slice_of_a_rope_is_the_slice_of_its_bytes(pieces: Vec<Vec<u8>>, a: usize, b: usize) {
            let rope: Rope = pieces.iter().cloned().map(Bytes::from).collect();
            let flat = pieces.concat();
            prop_assert_eq!(rope.to_vec(), flat.clone());
            let (a, b) = (a % (flat.len() + 1), b % (flat.len() + 1));
            let (from, to) = (a.min(b), a.max(b));
            prop_assert_eq!(rope.slice(from, to - from).to_vec(), flat[from..to].to_vec());
            prop_assert_eq!(rope.crc32c(5), types::crc32c::update(5, &flat));
        }
    }
}

//! Payloads made of several pieces of memory, so that joining and cutting copies no bytes.

use bytes::{Bytes, BytesMut};
use std::fmt;
use std::sync::Arc;
use types::BLOCK_BYTES;

/// A sequence of shared byte slices that reads as one. Empty pieces are never kept.
///
/// A rope may have the checksums of its 4 KiB blocks ([`Rope::block_crcs`]), so that bytes received by a session need
/// not be read again for the store's checksums or for the frame that forwards them.
#[derive(Clone, Default)]
pub struct Rope {
    first: Bytes,
    rest: Vec<Bytes>,
    len: usize,
    crcs: Option<BlockCrcs>,
}

/// A part of a shared list of checksums.
#[derive(Clone)]
struct BlockCrcs {
    of: Arc<[u32]>,
    first: u32,
}

/// Ropes are compared by their pieces; checksums follow from these.
impl PartialEq for Rope {
    fn eq(&self, other: &Rope) -> bool {
        (self.len, &self.first, &self.rest) == (other.len, &other.first, &other.rest)
    }
}

impl Eq for Rope {}

impl Rope {
    pub const fn new() -> Rope {
        Rope { first: Bytes::new(), rest: Vec::new(), len: 0, crcs: None }
    }

    /// Adds the crc32c of each 4 KiB block from the beginning (the last may be short), from [`types::crc32c::SEED`].
    /// The caller vouches for them. Panics if they are too few or too many.
    pub fn with_block_crcs(mut self, crcs: Arc<[u32]>) -> Rope {
        assert_eq!(crcs.len(), self.len.div_ceil(BLOCK_BYTES), "checksums of the blocks of {} bytes", self.len);
        self.crcs = Some(BlockCrcs { of: crcs, first: 0 });
        self
    }

    /// The checksums given to [`Rope::with_block_crcs`]. Clones keep them, and so do slices at block boundaries.
    pub fn block_crcs(&self) -> Option<&[u32]> {
        let BlockCrcs { of, first } = self.crcs.as_ref()?;
        Some(&of[*first as usize..][..self.len.div_ceil(BLOCK_BYTES)])
    }

    /// Number of bytes.
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
        self.crcs = None;
        if self.first.is_empty() { self.first = piece } else { self.rest.push(piece) }
    }

    pub fn append(&mut self, other: Rope) {
        if self.is_empty() {
            return *self = other;
        }
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
        if len == self.len {
            return self.clone();
        }
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
        let whole = offset.is_multiple_of(BLOCK_BYTES) && (len.is_multiple_of(BLOCK_BYTES) || offset + len == self.len);
        out.crcs = self.crcs.as_ref().filter(|_| whole).map(|crcs| {
            let first = crcs.first + (offset / BLOCK_BYTES) as u32;
            BlockCrcs { of: crcs.of.clone(), first }
        });
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

    /// [`Rope::crc32c`], without a look at the bytes where the checksums of their blocks are known.
    pub fn digest(&self, seed: u32) -> u32 {
        let Some(crcs) = self.block_crcs() else { return self.crc32c(seed) };
        let (whole, rest) = crcs.split_at(self.len / BLOCK_BYTES);
        let crc = whole.iter().fold(seed, |crc, block| types::crc32c::combine_block(crc, *block));
        let rest_bytes = (self.len % BLOCK_BYTES) as u64;
        rest.iter().fold(crc, |crc, rest| types::crc32c::combine(crc, *rest, rest_bytes))
    }
}

impl From<Bytes> for Rope {
    fn from(piece: Bytes) -> Rope {
        Rope { len: piece.len(), first: piece, rest: Vec::new(), crcs: None }
    }
}

impl From<Vec<u8>> for Rope {
    fn from(bytes: Vec<u8>) -> Rope {
        Bytes::from(bytes).into()
    }
}

impl From<String> for Rope {
    fn from(text: String) -> Rope {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Rope {
    fn from(text: &'static str) -> Rope {
        Bytes::from(text).into()
    }
}

impl From<&'static [u8]> for Rope {
    fn from(bytes: &'static [u8]) -> Rope {
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
        fn checksums_stay_right_or_go(
            cuts in prop::collection::vec(1usize..9000, 1..6),
            steps in prop::collection::vec((0u8..3, 0usize..6, 0usize..6, 0usize..4097), 1..6),
        ) {
            let mut at = 0u8;
            let pieces = cuts.iter().map(|len| {
                at += 1;
                Bytes::from((0..*len).map(|i| (i * 7) as u8 ^ at).collect::<Vec<u8>>())
            });
            let rope: Rope = pieces.collect();
            let crcs = |rope: &Rope| -> Vec<u32> {
                rope.to_vec().chunks(BLOCK_BYTES).map(types::crc32c::checksum).collect()
            };
            let of_all = crcs(&rope).into();
            let mut rope = rope.with_block_crcs(of_all);
            for (kind, first, count, odd) in steps {
                let begin = Some(first * BLOCK_BYTES).filter(|begin| *begin <= rope.len()).unwrap_or(0);
                let len = (count * BLOCK_BYTES).min(rope.len() - begin);
                let (knows, len_before) = (rope.block_crcs().is_some(), rope.len());
                match kind {
                    0 => {
                        rope = rope.slice(begin, len);
                        prop_assert_eq!(rope.block_crcs().is_some(), knows, "blocks stay known");
                    }
                    1 => rope = rope.slice(odd.min(rope.len()), rope.len() - odd.min(rope.len())),
                    _ => {
                        let mut other = Rope::new();
                        other.append(rope);
                        other.append(Bytes::from(vec![9; odd]).into());
                        rope = other;
                        prop_assert!(odd == 0 || len_before == 0 || rope.block_crcs().is_none());
                    }
                }
                if let Some(known) = rope.block_crcs() {
                    prop_assert_eq!(known, &crcs(&rope)[..]);
                }
            }
        }

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

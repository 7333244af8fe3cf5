//! Buffers whose address and length suit direct I/O.

use crate::BLOCK_BYTES;
use crate::buf_pool::BufPool;
use bytemuck::{Pod, Zeroable};
use bytes::Bytes;

#[derive(Clone, Copy)]
#[repr(C, align(4096))]
pub(crate) struct Block([u8; BLOCK_BYTES]);

// A block is plain bytes without padding; `bytemuck` has no derive for arrays this long.
#[allow(unsafe_code)]
// SAFETY: all-zero bytes are a valid `Block`.
unsafe impl Zeroable for Block {}
#[allow(unsafe_code)]
// SAFETY: `Block` is an array of `u8`: any bit pattern is valid and its size equals its alignment, so no padding.
unsafe impl Pod for Block {}

/// A buffer of `len` bytes whose memory starts on a 4 KiB boundary and reaches at least to the next one past its end.
///
/// Freshly made buffers hold zeros. [`AlignedBuf::freeze`] turns one into [`Bytes`] without copying. Memory that came
/// from a [`BufPool`] goes back to it when the buffer, or the last `Bytes` made of it, is dropped.
pub struct AlignedBuf {
    blocks: Vec<Block>,
    len: usize,
    home: Option<BufPool>,
}

impl AlignedBuf {
    /// A zeroed buffer of `len` bytes.
    pub fn zeroed(len: usize) -> AlignedBuf {
        AlignedBuf { blocks: bytemuck::zeroed_vec(len.div_ceil(BLOCK_BYTES)), len, home: None }
    }

    pub(crate) fn of_pool(blocks: Vec<Block>, len: usize, home: BufPool) -> AlignedBuf {
        AlignedBuf { blocks, len, home: Some(home) }
    }

    /// A buffer holding a copy of `bytes`.
    pub fn copy_from(bytes: &[u8]) -> AlignedBuf {
        let mut buf = AlignedBuf::zeroed(bytes.len());
        buf.as_mut_slice().copy_from_slice(bytes);
        buf
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes up to the end of the last block.
    pub fn capacity(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Shortens or, up to the capacity, lengthens the buffer. Panics beyond it.
    pub fn set_len(&mut self, len: usize) {
        assert!(len <= self.capacity(), "length {len} beyond the capacity {}", self.capacity());
        self.len = len;
    }

    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.blocks)[..self.len]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len]
    }

    /// Shares the memory, which is immutable from now on.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl Drop for AlignedBuf {
    fn drop(&mut self) {
        if let Some(home) = self.home.take() {
            home.put_back(std::mem::take(&mut self.blocks));
        }
    }
}

impl AsRef<[u8]> for AlignedBuf {
    fn as_ref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::fmt::Debug for AlignedBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AlignedBuf({} bytes)", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_and_survives_freezing() {
        let mut buf = AlignedBuf::zeroed(10_000);
        assert_eq!(buf.as_slice().as_ptr() as usize % BLOCK_BYTES, 0);
        assert_eq!(buf.capacity(), 12_288);
        buf.as_mut_slice()[9_999] = 7;
        let at = buf.as_slice().as_ptr();
        let bytes = buf.freeze();
        assert_eq!((bytes.as_ptr(), bytes.len(), bytes[9_999]), (at, 10_000, 7));
    }
}

//! Writing.

use super::{Encode, Target};
use std::cell::Cell;

/// Length of the longest value that is copied out of the memory that a thread keeps to write into, in bytes. It keeps
/// twice as much at most.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// Memory that values are written into before their length is known. What grows step by step is allocated and
    /// copied with each step, which costs more than the writing of small values.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns what `write` writes, in memory of its length if it is short. `write` may call this function.
pub(crate) fn encoded(target: Target, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut w = Writer { buf: SCRATCH.take(), begun: 0, len: 0, target };
    write(&mut w);
    // A long one is not copied once more.
    if w.len > SCRATCH_BYTES_MAX {
        return w.into_vec();
    }
    let short = w.as_slice().to_vec();
    if w.buf.capacity() <= 2 * SCRATCH_BYTES_MAX {
        SCRATCH.set(w.buf);
    }
    short
}

/// Least and largest room that a writer has which has grown, in bytes. Room is zeroed, and given up where longer bytes
/// are appended.
const ROOM_BYTES_MIN: usize = 128;
const ROOM_BYTES_MAX: usize = APPENDED_BYTES;
/// Longer bytes are appended without being given room before.
const APPENDED_BYTES: usize = 1 << 10;

/// A growing buffer, and the [`Target`] that it is written for.
#[derive(Debug)]
pub struct Writer {
    /// The bytes written so far, and room behind them, whatever that holds: a small field that has room is stored
    /// without a call.
    buf: Vec<u8>,
    /// Number of bytes that were there at the beginning, and of those written so far, the former included.
    begun: usize,
    len: usize,
    target: Target,
}

macro_rules! fixed {
    ($($name:ident: $ty:ty;)*) => {
        $(#[inline]
        pub fn $name(&mut self, v: $ty) { self.array(v.to_le_bytes()); })*
    };
}

impl Writer {
    pub fn new(target: Target) -> Writer {
        Writer { buf: Vec::new(), begun: 0, len: 0, target }
    }

    /// A writer that appends to `buf`.
    pub fn onto(buf: Vec<u8>, target: Target) -> Writer {
        Writer { begun: buf.len(), len: buf.len(), buf, target }
    }

    pub fn target(&self) -> Target {
        self.target
    }

    fixed! { u8: u8; u16: u16; u32: u32; u64: u64; i8: i8; i16: i16; i32: i32; i64: i64; f32: f32; f64: f64; }

    /// Writes so many bytes without a length.
    #[inline]
    fn array<const N: usize>(&mut self, bytes: [u8; N]) {
        self.room(N).copy_from_slice(&bytes);
    }

    /// Returns the place of the next `n` bytes, which count as written.
    #[inline]
    fn room(&mut self, n: usize) -> &mut [u8] {
        let (from, to) = (self.len, self.len + n);
        if to > self.buf.len() {
            self.grow(to);
        }
        self.len = to;
        &mut self.buf[from..to]
    }

    /// Makes room for `to` bytes in all, and for as many more as were written, up to a bound. What was there before
    /// does not count: many short values may be appended to a long buffer.
    #[cold]
    fn grow(&mut self, to: usize) {
        self.buf.resize(to + (self.len - self.begun).clamp(ROOM_BYTES_MIN, ROOM_BYTES_MAX), 0);
    }

    #[inline]
    pub fn bool(&mut self, v: bool) {
        self.u8(v.into());
    }

    /// Writes bytes without a length.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        match bytes.len() {
            ..=APPENDED_BYTES => self.room(bytes.len()).copy_from_slice(bytes),
            _ => self.append(bytes),
        }
    }

    fn append(&mut self, bytes: &[u8]) {
        self.buf.truncate(self.len);
        self.buf.extend_from_slice(bytes);
        self.len = self.buf.len();
    }

    /// Writes a count or length. Panics beyond `u32`: no value of ours comes near it.
    #[inline]
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("count fits 32 bits"));
    }

    /// Writes bytes after their length: Ceph's strings and buffer lists.
    #[inline]
    pub fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.raw(bytes);
    }

    /// Writes a number of seven bits per byte, lowest first, with the top bit set in all bytes but the last.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.u8(value as u8 | 0x80);
            value >>= 7;
        }
        self.u8(value as u8);
    }

    pub fn str(&mut self, s: &str) {
        self.blob(s.as_bytes());
    }

    #[inline]
    pub fn put(&mut self, value: &(impl Encode + ?Sized)) {
        value.encode(self);
    }

    /// Writes a versioned block: version, oldest decoder that can read it, length of the body, body.
    #[inline]
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Writer)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }

    /// Writes a body after its length in bytes.
    #[inline]
    pub fn sized(&mut self, body: impl FnOnce(&mut Writer)) {
        let at = self.len;
        self.u32(0);
        body(self);
        let body_bytes = u32::try_from(self.len - at - 4).expect("body fits 32 bits");
        self.buf[at..at + 4].copy_from_slice(&body_bytes.to_le_bytes());
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf[..self.len]
    }

    /// The bytes written so far, for fields known only once later ones are written (checksums, versions that depend on
    /// content).
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.buf[..self.len]
    }

    pub fn into_vec(mut self) -> Vec<u8> {
        self.buf.truncate(self.len);
        self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_come_out_as_they_were_written() {
        let lengths = [0, 1, 126, 2, 3, APPENDED_BYTES - 1, 7, APPENDED_BYTES, APPENDED_BYTES + 1, 5, 3000, 0, 9];
        for mut begun in [Vec::new(), b"begun".to_vec(), Vec::with_capacity(300)] {
            let mut w = Writer::onto(begun.clone(), Target::default());
            for (at, len) in lengths.into_iter().enumerate() {
                let bytes = vec![at as u8 + 1; len];
                w.raw(&bytes);
                w.u16(at as u16);
                begun.extend_from_slice(&bytes);
                begun.extend_from_slice(&(at as u16).to_le_bytes());
                assert_eq!((w.len(), w.as_slice()), (begun.len(), &begun[..]));
            }
            assert_eq!(w.into_vec(), begun);
        }
    }

    /// Room costs, as it is zeroed: if it grew with what is written, many long values would take a time that grows with
    /// the square of their number.
    #[test]
    fn room_behind_long_values_is_bounded() {
        let mut w = Writer::new(Target::default());
        for number in 0..2000_u32 {
            w.u32(number);
            assert!(w.buf.len() - w.len <= ROOM_BYTES_MAX, "{} behind {}", w.buf.len() - w.len, w.len);
            w.blob(&[7; 2 * APPENDED_BYTES]);
        }
    }

    #[test]
    fn what_is_written_within_another_value_or_is_long_comes_out_whole() {
        let long = vec![7; SCRATCH_BYTES_MAX + 1];
        let bytes = |value: &[u8]| encoded(Target::default(), |w| w.raw(value));
        let outer = encoded(Target::default(), |w| {
            w.raw(b"before");
            w.blob(&bytes(b"within"));
            w.raw(b"after");
        });
        assert_eq!(outer, b"before\x06\0\0\0withinafter");
        assert_eq!(bytes(&long), long);
        let short = bytes(b"short");
        assert_eq!((short.as_slice(), short.capacity()), (&b"short"[..], 5));
        assert_eq!(bytes(b""), b"");
    }
}

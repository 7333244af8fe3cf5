//! Writing.

use super::{Encode, Target};
use std::cell::Cell;

/// Maximum memory that a thread keeps to write into, in bytes.
const SCRATCH_BYTES_MAX: usize = 16 << 10;

thread_local! {
    /// Memory that values are written into before their length is known. What grows step by step is allocated and
    /// copied with each step, which costs more than the writing of small values.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Returns what `write` writes, in memory of its length if it is short. `write` may call this function.
pub(crate) fn encoded(target: Target, write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut scratch = SCRATCH.take();
    scratch.clear();
    let mut w = Writer::onto(scratch, target);
    write(&mut w);
    // A long one is not copied once more.
    if w.buf.capacity() > SCRATCH_BYTES_MAX {
        return w.buf;
    }
    let short = w.buf.as_slice().to_vec();
    SCRATCH.set(w.buf);
    short
}

/// A growing buffer, and the [`Target`] that it is written for.
#[derive(Debug)]
pub struct Writer {
    buf: Vec<u8>,
    target: Target,
}

macro_rules! fixed {
    ($($name:ident: $ty:ty;)*) => {
        $(pub fn $name(&mut self, v: $ty) { self.buf.extend_from_slice(&v.to_le_bytes()); })*
    };
}

impl Writer {
    pub fn new(target: Target) -> Writer {
        Writer { buf: Vec::new(), target }
    }

    /// A writer that appends to `buf`.
    pub fn onto(buf: Vec<u8>, target: Target) -> Writer {
        Writer { buf, target }
    }

    pub fn target(&self) -> Target {
        self.target
    }

    fixed! { u8: u8; u16: u16; u32: u32; u64: u64; i8: i8; i16: i16; i32: i32; i64: i64; f32: f32; f64: f64; }

    pub fn bool(&mut self, v: bool) {
        self.buf.push(v.into());
    }

    /// Writes bytes without a length.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.buf.extend_from_slice(bytes);
    }

    /// Writes a count or length. Panics beyond `u32`: no value of ours comes near it.
    pub fn count(&mut self, n: usize) {
        self.u32(u32::try_from(n).expect("count fits 32 bits"));
    }

    /// Writes bytes after their length: Ceph's strings and buffer lists.
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

    pub fn put(&mut self, value: &(impl Encode + ?Sized)) {
        value.encode(self);
    }

    /// Writes a versioned block: version, oldest decoder that can read it, length of the body, body.
    pub fn versioned(&mut self, version: u8, compat: u8, body: impl FnOnce(&mut Writer)) {
        self.u8(version);
        self.u8(compat);
        self.sized(body);
    }

    /// Writes a body after its length in bytes.
    pub fn sized(&mut self, body: impl FnOnce(&mut Writer)) {
        let at = self.buf.len();
        self.u32(0);
        body(self);
        let body_bytes = u32::try_from(self.buf.len() - at - 4).expect("body fits 32 bits");
        self.buf[at..at + 4].copy_from_slice(&body_bytes.to_le_bytes());
    }

    pub fn len(&self) -> usize {
        self.buf.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buf.is_empty()
    }

    /// The bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.buf
    }

    /// The bytes written so far, for fields known only once later ones are written (checksums, versions that depend on
    /// content).
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.buf
    }

    pub fn into_vec(self) -> Vec<u8> {
        self.buf
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

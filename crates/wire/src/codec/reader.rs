//! Reading of a peer's encodings.

use super::Decode;
use bytes::Bytes;

/// The reason why bytes are not a value of the expected type.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("input ends early: {needed} bytes needed, {left} left")]
    Short { needed: usize, left: usize },
    #[error("{what}: encoding needs a decoder of version {compat} or later, this one knows {known}")]
    TooNew { what: &'static str, compat: u8, known: u8 },
    #[error("{what}: version {version} is older than {oldest}, the oldest understood here")]
    TooOld { what: &'static str, version: u8, oldest: u8 },
    #[error("{what}: {count} entries cannot fit in {left} bytes")]
    Count { what: &'static str, count: usize, left: usize },
    #[error("{what}: {value:#x} is not allowed here")]
    Value { what: &'static str, value: u64 },
    #[error("{what}: text is not UTF-8")]
    Utf8 { what: &'static str },
    #[error("{what}: checksum {computed:#010x} does not match {stored:#010x}")]
    Checksum { what: &'static str, stored: u32, computed: u32 },
}

/// A position in a peer's bytes. Copying it is cheap and lets a decoder look ahead.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
    owner: Option<&'a Bytes>,
}

/// The head of a versioned block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Versioned {
    pub version: u8,
    pub compat: u8,
}

macro_rules! fixed {
    ($($name:ident: $ty:ty;)*) => {
        $(#[inline]
        pub fn $name(&mut self) -> Result<$ty, DecodeError> { Ok(<$ty>::from_le_bytes(self.array()?)) })*
    };
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes, owner: None }
    }

    /// A reader of shared memory: its [`Reader::bytes`] shares instead of copying.
    pub fn shared(bytes: &'a Bytes) -> Reader<'a> {
        Reader { rest: bytes, owner: Some(bytes) }
    }

    /// Number of bytes not read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not read yet, without reading them.
    pub fn peek(&self) -> &'a [u8] {
        self.rest
    }

    fixed! { u8: u8; u16: u16; u32: u32; u64: u64; i8: i8; i16: i16; i32: i32; i64: i64; f32: f32; f64: f64; }

    /// Reads a boolean; any non-zero byte is true, as in Ceph.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.u8()? != 0)
    }

    /// Reads the next `n` bytes.
    #[inline]
    pub fn raw(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        match self.rest.split_at_checked(n) {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(head)
            }
            None => Err(DecodeError::Short { needed: n, left: self.rest.len() }),
        }
    }

    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        match self.rest.split_first_chunk() {
            Some((head, tail)) => {
                self.rest = tail;
                Ok(*head)
            }
            None => Err(DecodeError::Short { needed: N, left: self.rest.len() }),
        }
    }

    /// Reads a number of seven bits per byte, lowest first, with the top bit set in all bytes but the last.
    pub fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Value { what: "number of variable length", value })
    }

    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.raw(n).map(drop)
    }

    /// Reads bytes after their length.
    #[inline]
    pub fn blob(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.u32()? as usize;
        self.raw(n)
    }

    /// Reads the next `n` bytes; shares them if the reader was made by [`Reader::shared`], else copies them.
    pub fn bytes(&mut self, n: usize) -> Result<Bytes, DecodeError> {
        let slice = self.raw(n)?;
        Ok(match self.owner {
            Some(owner) => owner.slice_ref(slice),
            None => Bytes::copy_from_slice(slice),
        })
    }

    /// Reads bytes after their length, shared like those of [`Reader::bytes`].
    pub fn blob_bytes(&mut self) -> Result<Bytes, DecodeError> {
        let n = self.u32()? as usize;
        self.bytes(n)
    }

    pub fn str(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.blob()?).map_err(|_| DecodeError::Utf8 { what: "string" })
    }

    /// Reads a count of entries that take at least `min_bytes` each.
    ///
    /// Errors: [`DecodeError::Count`] if the rest of the input is too short for so many.
    pub fn count(&mut self, what: &'static str, min_bytes: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count.saturating_mul(min_bytes.max(1)) > self.rest.len() {
            return Err(DecodeError::Count { what, count, left: self.rest.len() });
        }
        Ok(count)
    }

    #[inline]
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }

    /// Reads a versioned block, for a decoder that knows versions up to `known`: the block's head, and a reader
    /// confined to its body, so that fields behind the known ones are skipped.
    pub fn versioned(&mut self, what: &'static str, known: u8) -> Result<(Versioned, Reader<'a>), DecodeError> {
        let (version, compat) = (self.u8()?, self.u8()?);
        if compat > known {
            return Err(DecodeError::TooNew { what, compat, known });
        }
        Ok((Versioned { version, compat }, self.sized()?))
    }

    /// A reader confined to the body that follows its length.
    #[inline]
    pub fn sized(&mut self) -> Result<Reader<'a>, DecodeError> {
        Ok(Reader { rest: self.blob()?, owner: self.owner })
    }
}

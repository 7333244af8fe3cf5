//! Little-endian codec of Ceph's versioned encodings.
//!
//! A type implements [`Encode`] and [`Decode`] by hand: struct versions, feature bits and skipped tails differ from
//! type to type. What the types share is here: [`Writer`] knows for whom it writes ([`Target`]), [`Reader`] never
//! reads past its slice, and neither ever allocates more than the input could hold.

mod containers;
mod reader;
mod target;
mod writer;

pub use reader::{DecodeError, Reader, Versioned};
pub use target::{Release, Target, features};
pub use writer::Writer;

/// A value that can be written for a peer.
pub trait Encode {
    fn encode(&self, w: &mut Writer);

    /// The encoding for `target`, as one buffer.
    fn to_vec(&self, target: Target) -> Vec<u8> {
        let mut w = Writer::new(target);
        self.encode(&mut w);
        w.into_vec()
    }
}

/// A value that can be read from bytes a peer sent.
pub trait Decode: Sized {
    /// The fewest bytes any value of the type takes: bounds what a claimed count may allocate. At least 1.
    const MIN_BYTES: usize = 1;

    /// Errors: [`DecodeError`] for any input that is not a value of the type. Never panics, reads beyond the slice,
    /// or allocates more than a constant times the input's length.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// The value that `bytes` hold. Bytes behind it are ignored, as the protocol's decoders do.
    fn from_slice(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes))
    }
}

//! Little-endian codec of Ceph's versioned encodings.
//!
//! A type implements [`Encode`] and [`Decode`] by hand: struct versions, feature bits and skipped tails differ from
//! type to type. The common part is here. [`Writer`] knows the peer that it writes for ([`Target`]). [`Reader`] never
//! reads past its slice. An allocation never exceeds what the input could hold.

mod containers;
mod reader;
mod target;
mod writer;

pub use reader::{DecodeError, Reader, Versioned};
pub use target::{Release, Target, features};
pub use writer::Writer;
pub(crate) use writer::encoded;

/// A value that can be written for a peer.
pub trait Encode {
    fn encode(&self, w: &mut Writer);

    /// The encoding for `target`, as one buffer.
    fn to_vec(&self, target: Target) -> Vec<u8> {
        writer::encoded(target, |w| self.encode(w))
    }
}

/// A value that can be read from a peer's bytes.
pub trait Decode: Sized {
    /// Smallest number of bytes of any value of the type, at least 1. It bounds the allocation for a claimed count.
    const MIN_BYTES: usize = 1;

    /// Reads a value. Never panics, reads beyond the slice, or allocates more than a constant times the input's length.
    ///
    /// Errors: [`DecodeError`] for any input that is not a value of the type.
    fn decode(r: &mut Reader<'_>) -> Result<Self, DecodeError>;

    /// Reads the value at the begin of `bytes`. Further bytes are ignored, as by the protocol's decoders.
    fn from_slice(bytes: &[u8]) -> Result<Self, DecodeError> {
        Self::decode(&mut Reader::new(bytes))
    }
}

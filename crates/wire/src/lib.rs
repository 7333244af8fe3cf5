//! The protocol as bytes and as state machines: codec, basic types, messages, msgr v2.1 sessions.
//!
//! Nothing in this crate opens a socket, reads a clock or draws random numbers.
//!
//! * [`codec`] — start here: [`codec::Writer`], [`codec::Reader`], [`codec::Encode`], [`codec::Decode`].

pub mod codec;

pub use codec::{Decode, DecodeError, Encode, Reader, Target, Writer};

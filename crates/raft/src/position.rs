//! Identities of servers, and places of entries.

use std::fmt;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// One server, for as long as its disk lives.
///
/// A server's promises are on its disk. A server that lost its disk must come back under an id that was never used
/// before, as a new member.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ServerId(pub u64);

impl fmt::Display for ServerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "server {:x}", self.0)
    }
}

/// The place of an entry: the term of the leader that made it, and its index, counted from 1.
///
/// Ordered by term, then index: of two logs the one with the greater last position is more up to date.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Position {
    pub term: u64,
    pub index: u64,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

impl Encode for ServerId {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.0);
    }
}

impl Decode for ServerId {
    const MIN_BYTES: usize = 8;

    fn decode(r: &mut Reader<'_>) -> Result<ServerId, DecodeError> {
        Ok(ServerId(r.u64()?))
    }
}

impl Encode for Position {
    fn encode(&self, w: &mut Writer) {
        w.u64(self.term);
        w.u64(self.index);
    }
}

impl Decode for Position {
    const MIN_BYTES: usize = 16;

    fn decode(r: &mut Reader<'_>) -> Result<Position, DecodeError> {
        Ok(Position { term: r.u64()?, index: r.u64()? })
    }
}

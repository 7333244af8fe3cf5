//! Names of connections, listeners and files, given out by the reactor.

use std::fmt;

/// One connection. Ids are never reused within a reactor's life: a command for a connection that is gone does nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

impl ConnId {
    pub(crate) fn new(slot: u32, generation: u32) -> ConnId {
        ConnId(u64::from(generation) << 32 | u64::from(slot))
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

impl fmt::Debug for ConnId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conn {}.{}", self.0 & 0xffff_ffff, self.0 >> 32)
    }
}

/// One listening socket.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ListenerId(pub u32);

/// One open file or block device. Using one after [`crate::Io::close_file`] is a programming error and panics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FileId(pub u32);

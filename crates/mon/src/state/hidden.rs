//! Values that are not printed.

use bytes::Bytes;
use std::fmt;
use std::ops::Deref;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// Bytes of people who keep secrets here (`ceph config-key`): keys of encrypted drives, passwords.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Hidden(pub Bytes);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes, not shown", self.0.len())
    }
}

impl Deref for Hidden {
    type Target = Bytes;

    fn deref(&self) -> &Bytes {
        &self.0
    }
}

impl<T: Into<Bytes>> From<T> for Hidden {
    fn from(bytes: T) -> Hidden {
        Hidden(bytes.into())
    }
}

impl Encode for Hidden {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for Hidden {
    const MIN_BYTES: usize = Bytes::MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<Hidden, DecodeError> {
        r.get().map(Hidden)
    }
}

//! A group in one of its intervals, which most messages between OSDs name.

use types::{Epoch, PgId};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// A group in one of its intervals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PgInterval {
    pub pgid: PgId,
    pub since: Epoch,
}

impl Encode for PgInterval {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.pgid);
        w.put(&self.since);
    }
}

impl Decode for PgInterval {
    const MIN_BYTES: usize = 21;

    fn decode(r: &mut Reader<'_>) -> Result<PgInterval, DecodeError> {
        Ok(PgInterval { pgid: r.get()?, since: r.get()? })
    }
}

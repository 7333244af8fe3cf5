//! Snapshots a write must preserve.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use types::SnapId;

/// The snapshots that exist as the writer knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapContext {
    /// The newest snapshot id ever given out.
    pub seq: SnapId,
    /// Those that exist, newest first.
    pub snaps: Vec<SnapId>,
}

impl Default for SnapContext {
    fn default() -> SnapContext {
        SnapContext { seq: SnapId(0), snaps: Vec::new() }
    }
}

impl SnapContext {
    /// Whether the ids are strictly descending and none is above `seq`, as every writer must have them.
    pub fn is_valid(&self) -> bool {
        self.snaps.first().is_none_or(|first| *first <= self.seq) && self.snaps.windows(2).all(|pair| pair[0] > pair[1])
    }
}

impl Encode for SnapContext {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.seq);
        w.put(&self.snaps);
    }
}

impl Decode for SnapContext {
    const MIN_BYTES: usize = 12;

    fn decode(r: &mut Reader<'_>) -> Result<SnapContext, DecodeError> {
        Ok(SnapContext { seq: r.get()?, snaps: r.get()? })
    }
}

//! Snapshots that a write must preserve.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use types::SnapId;

/// The existing snapshots, as the writer knows them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SnapContext {
    /// The newest snapshot id that was ever given out.
    pub seq: SnapId,
    /// Ids of existing snapshots, newest first.
    pub snaps: Vec<SnapId>,
}

impl Default for SnapContext {
    fn default() -> SnapContext {
        SnapContext { seq: SnapId(0), snaps: Vec::new() }
    }
}

impl SnapContext {
    /// True if all ids are those of snapshots and strictly descending, and none is above `seq`; every writer must keep
    /// to that. Ids begin at 1; values above [`SnapId::LAST`] have other meanings, such as the present state.
    pub fn is_valid(&self) -> bool {
        self.seq <= SnapId::LAST
            && self.snaps.first().is_none_or(|first| *first <= self.seq)
            && self.snaps.windows(2).all(|pair| pair[0] > pair[1])
            && self.snaps.last().is_none_or(|last| *last > SnapId(0))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_that_no_snapshot_has_are_not_valid() {
        let is_valid = |seq, snaps: &[u64]| {
            let snaps = snaps.iter().copied().map(SnapId).collect();
            SnapContext { seq: SnapId(seq), snaps }.is_valid()
        };
        let last = SnapId::LAST.0;
        for (seq, snaps) in [(0, &[][..]), (7, &[]), (7, &[7, 3, 1]), (last, &[last, 1])] {
            assert!(is_valid(seq, snaps), "{seq} {snaps:?}");
        }
        let broken = [
            (SnapId::HEAD.0, &[7][..]),
            (SnapId::DIR.0, &[]),
            (7, &[8]),
            (7, &[3, 3]),
            (7, &[1, 3]),
            (7, &[3, 0]),
            (0, &[0]),
        ];
        for (seq, snaps) in broken {
            assert!(!is_valid(seq, snaps), "{seq} {snaps:?}");
        }
    }
}

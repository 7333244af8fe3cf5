//! Sums over the metadata tree, kept in its root.

use crate::disk::numbers::{TOTALS_FLAGS_BYTES, TOTALS_KNOWN, TOTALS_RESERVED_BYTES};
use wire::{DecodeError, Reader, Writer};

/// Sums over the entries of the tree, as of one checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TreeTotals {
    pub objects: u64,
    /// Sizes of all objects.
    pub stored_bytes: u64,
    pub omap_entries: u64,
    /// Bytes of keys and values of all omap entries, as clients gave them.
    pub omap_bytes: u64,
    /// Number of blocks that objects hold; shared blocks count once.
    pub data_blocks: u64,
}

/// Bytes of totals in a root: flags, five numbers, zeros.
const ENCODED_BYTES: usize = TOTALS_FLAGS_BYTES + 5 * size_of::<u64>() + TOTALS_RESERVED_BYTES;

impl TreeTotals {
    /// Writes flags (1), zeros (7), objects (8), stored bytes (8), omap entries (8), omap bytes (8), data blocks (8),
    /// zeros (24). All are zeros if the totals are not known.
    pub fn encode(totals: Option<TreeTotals>, w: &mut Writer) {
        let Some(totals) = totals else { return w.raw(&[0; ENCODED_BYTES]) };
        w.u8(TOTALS_KNOWN);
        w.raw(&[0; TOTALS_FLAGS_BYTES - 1]);
        w.u64(totals.objects);
        w.u64(totals.stored_bytes);
        w.u64(totals.omap_entries);
        w.u64(totals.omap_bytes);
        w.u64(totals.data_blocks);
        w.raw(&[0; TOTALS_RESERVED_BYTES]);
    }

    /// Returns `None` if the totals are not known.
    pub fn decode(r: &mut Reader<'_>) -> Result<Option<TreeTotals>, DecodeError> {
        let [flags, ..]: [u8; TOTALS_FLAGS_BYTES] = r.array()?;
        let totals = TreeTotals {
            objects: r.u64()?,
            stored_bytes: r.u64()?,
            omap_entries: r.u64()?,
            omap_bytes: r.u64()?,
            data_blocks: r.u64()?,
        };
        let _reserved: [u8; TOTALS_RESERVED_BYTES] = r.array()?;
        Ok((flags & TOTALS_KNOWN != 0).then_some(totals))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::Target;

    #[test]
    fn totals_bytes_do_not_move() {
        let totals =
            TreeTotals { objects: 1, stored_bytes: 0x0202, omap_entries: 3, omap_bytes: 4, data_blocks: 1 << 32 };
        let mut w = Writer::new(Target::default());
        TreeTotals::encode(Some(totals), &mut w);
        let bytes = w.into_vec();
        let words = [1u64, 1, 0x0202, 3, 4, 1 << 32, 0, 0, 0];
        assert_eq!(bytes, words.map(u64::to_le_bytes).concat());
        assert_eq!(TreeTotals::decode(&mut Reader::new(&bytes)).unwrap(), Some(totals));
        assert_eq!(TreeTotals::decode(&mut Reader::new(&[0; ENCODED_BYTES])).unwrap(), None);
    }
}

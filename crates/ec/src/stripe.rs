//! Placement of an object's bytes on data shards: round robin, one stripe unit at a time.
//!
//! ```text
//! object   | 0 | 1 | 2 | 3 | 4 | 5 | 6..        stripe unit by stripe unit, here k = 3
//! shard 0  | 0 | 3 | 6 |
//! shard 1  | 1 | 4 | 7 |
//! shard 2  | 2 | 5 | 8 |
//! ```
//!
//! A shard is as long as the object's stripes need: the last stripe is filled up with zeros. Parity shards are as long
//! as data shards. Offsets in an object are *logical*, those in a shard are *shard offsets*.

use std::ops::Range;

/// Objects end below this offset, so that no sum of an offset and a length can overflow.
pub const OBJECT_BYTES_MAX: u64 = 1 << 62;

/// The layout of one pool's objects. All functions panic for offsets beyond [`OBJECT_BYTES_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StripeLayout {
    k: u32,
    unit_bytes: u32,
}

/// A run of bytes that is contiguous both in the object and on a data shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    pub shard: usize,
    pub shard_offset: u64,
    pub logical_offset: u64,
    pub bytes: u64,
}

impl StripeLayout {
    /// `k` data shards and stripe units of `unit_bytes`; `None` if either is zero or a stripe is 4 GiB or more.
    pub fn new(k: usize, unit_bytes: u32) -> Option<StripeLayout> {
        let k = u32::try_from(k).ok().filter(|&k| k > 0)?;
        k.checked_mul(unit_bytes).filter(|&width| width > 0)?;
        Some(StripeLayout { k, unit_bytes })
    }

    /// Number of data shards.
    pub fn k(&self) -> usize {
        self.k as usize
    }

    /// Bytes of one stripe on one shard, which Ceph also calls chunk size.
    pub fn unit_bytes(&self) -> u64 {
        u64::from(self.unit_bytes)
    }

    /// Bytes of an object in one stripe: k stripe units. Clients see this as the pool's alignment.
    pub fn stripe_bytes(&self) -> u64 {
        u64::from(self.k) * self.unit_bytes()
    }

    /// The data shard and the shard offset of a logical offset.
    pub fn locate(&self, logical_offset: u64) -> (usize, u64) {
        check(logical_offset);
        let (unit, within) = (logical_offset / self.unit_bytes(), logical_offset % self.unit_bytes());
        let (stripe, shard) = (unit / u64::from(self.k), unit % u64::from(self.k));
        (shard as usize, stripe * self.unit_bytes() + within)
    }

    /// The logical offset of a place on a data shard. Panics if `shard` is not a data shard.
    pub fn logical(&self, shard: usize, shard_offset: u64) -> u64 {
        assert!(shard < self.k(), "shard {shard} of {} data shards", self.k);
        check(shard_offset);
        let (stripe, within) = (shard_offset / self.unit_bytes(), shard_offset % self.unit_bytes());
        stripe * self.stripe_bytes() + shard as u64 * self.unit_bytes() + within
    }

    /// Number of stripes of an object of `object_bytes`.
    pub fn stripes(&self, object_bytes: u64) -> u64 {
        check(object_bytes);
        object_bytes.div_ceil(self.stripe_bytes())
    }

    /// `object_bytes` with the last stripe filled up.
    pub fn padded_bytes(&self, object_bytes: u64) -> u64 {
        self.stripes(object_bytes) * self.stripe_bytes()
    }

    /// Length of every shard, data or parity, of an object of `object_bytes`.
    pub fn shard_bytes(&self, object_bytes: u64) -> u64 {
        self.stripes(object_bytes) * self.unit_bytes()
    }

    /// Number of bytes of data shard `shard` that belong to the object, before the zeros that fill up the last stripe.
    pub fn used_shard_bytes(&self, object_bytes: u64, shard: usize) -> u64 {
        assert!(shard < self.k(), "shard {shard} of {} data shards", self.k);
        check(object_bytes);
        let (whole, rest) = (object_bytes / self.stripe_bytes(), object_bytes % self.stripe_bytes());
        whole * self.unit_bytes() + rest.saturating_sub(shard as u64 * self.unit_bytes()).min(self.unit_bytes())
    }

    /// True if both ends of a logical range lie between stripes.
    pub fn is_whole_stripes(&self, logical: &Range<u64>) -> bool {
        logical.start.is_multiple_of(self.stripe_bytes()) && logical.end.is_multiple_of(self.stripe_bytes())
    }

    /// The smallest range of whole stripes around a logical range.
    pub fn stripes_around(&self, logical: Range<u64>) -> Range<u64> {
        check(logical.end);
        let start = logical.start - logical.start % self.stripe_bytes();
        start..self.padded_bytes(logical.end)
    }

    /// The range of every shard, data or parity, that belongs to the stripes touched by a logical range.
    pub fn shard_range_around(&self, logical: Range<u64>) -> Range<u64> {
        let stripes = self.stripes_around(logical);
        stripes.start / u64::from(self.k)..stripes.end / u64::from(self.k)
    }

    /// The contiguous range of data shard `shard` that lies in a logical range. Empty if there is none.
    pub fn shard_range(&self, shard: usize, logical: Range<u64>) -> Range<u64> {
        let start = self.used_shard_bytes(logical.start, shard);
        start..self.used_shard_bytes(logical.end, shard).max(start)
    }

    /// The range of every parity shard that depends on a logical range: the union of its data shards' ranges.
    pub fn parity_range(&self, logical: Range<u64>) -> Range<u64> {
        if logical.is_empty() {
            let (_, at) = self.locate(logical.start);
            return at..at;
        }
        let ranges = (0..self.k()).map(|shard| self.shard_range(shard, logical.clone()));
        let ranges = ranges.filter(|range| !range.is_empty());
        ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).expect("a byte lies on some shard")
    }

    /// The pieces of a logical range, in order.
    pub fn pieces(&self, logical: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        check(logical.end);
        let layout = *self;
        let mut at = logical.start;
        std::iter::from_fn(move || {
            let left = logical.end.checked_sub(at).filter(|&left| left > 0)?;
            let (shard, shard_offset) = layout.locate(at);
            let bytes = left.min(layout.unit_bytes() - at % layout.unit_bytes());
            let piece = Piece { shard, shard_offset, logical_offset: at, bytes };
            at += bytes;
            Some(piece)
        })
    }
}

fn check(offset: u64) {
    assert!(offset <= OBJECT_BYTES_MAX, "offset {offset} is beyond any object's end");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_stripe_of_four() {
        let layout = StripeLayout::new(4, 4096).unwrap();
        assert_eq!((layout.stripe_bytes(), layout.unit_bytes()), (16384, 4096));
        assert_eq!(layout.locate(0), (0, 0));
        assert_eq!(layout.locate(4095), (0, 4095));
        assert_eq!(layout.locate(4096), (1, 0));
        assert_eq!(layout.locate(16384 + 8192 + 7), (2, 4096 + 7));
        assert_eq!(layout.logical(2, 4096 + 7), 16384 + 8192 + 7);
        assert_eq!(layout.shard_bytes(0), 0);
        assert_eq!(layout.shard_bytes(1), 4096);
        assert_eq!(layout.shard_bytes(16384), 4096);
        assert_eq!(layout.shard_bytes(16385), 8192);
        assert_eq!(layout.padded_bytes(16385), 32768);
        assert_eq!(
            (0..4).map(|shard| layout.used_shard_bytes(16384 + 5000, shard)).collect::<Vec<_>>(),
            [8192, 5000, 4096, 4096]
        );
        assert_eq!(layout.stripes_around(5000..17000), 0..32768);
        assert_eq!(layout.shard_range_around(17000..17001), 4096..8192);
        assert_eq!(layout.shard_range(1, 5000..17000), 904..4096);
        assert_eq!(layout.parity_range(5000..5010), 904..914);
        assert_eq!(layout.parity_range(5000..8200), 0..4096);
        assert!(layout.is_whole_stripes(&(16384..32768)) && !layout.is_whole_stripes(&(0..4096)));
    }

    #[test]
    fn impossible_layouts_are_refused() {
        for (k, unit) in [(0, 4096), (4, 0), (1 << 20, 4096), (usize::MAX, 1)] {
            assert_eq!(StripeLayout::new(k, unit), None, "{k} units of {unit}");
        }
    }

    #[test]
    #[should_panic(expected = "beyond any object's end")]
    fn an_offset_beyond_any_object_is_a_mistake() {
        StripeLayout::new(2, 4096).unwrap().stripes(u64::MAX);
    }

    proptest! {
        /// Ranges equal those of a byte by byte model.
        #[test]
        fn ranges_are_what_their_bytes_are(k in 1usize..6, unit in 1u32..9, start in 0u64..90, bytes in 0u64..60) {
            let layout = StripeLayout::new(k, unit).unwrap();
            let logical = start..start + bytes;
            let mut places = Vec::new();
            for offset in logical.clone() {
                let (shard, shard_offset) = layout.locate(offset);
                prop_assert_eq!(layout.logical(shard, shard_offset), offset);
                places.push((offset, shard, shard_offset));
            }

            let of_pieces = layout.pieces(logical.clone()).flat_map(|piece| {
                (0..piece.bytes).map(move |i| (piece.logical_offset + i, piece.shard, piece.shard_offset + i))
            });
            prop_assert_eq!(of_pieces.collect::<Vec<_>>(), places.clone());

            for shard in 0..k {
                let on_shard: Vec<u64> = places.iter().filter(|place| place.1 == shard).map(|place| place.2).collect();
                prop_assert_eq!(layout.shard_range(shard, logical.clone()).collect::<Vec<_>>(), on_shard);
                let used = (0..start).filter(|&offset| layout.locate(offset).0 == shard).count() as u64;
                prop_assert_eq!(layout.used_shard_bytes(start, shard), used);
                prop_assert!(used <= layout.shard_bytes(start));
            }
            let parity = layout.parity_range(logical.clone());
            prop_assert_eq!(parity.is_empty(), places.is_empty());
            if let (Some(first), Some(last)) = (places.iter().map(|p| p.2).min(), places.iter().map(|p| p.2).max()) {
                prop_assert_eq!(parity, first..last + 1);
            }

            let around = layout.stripes_around(logical.clone());
            prop_assert!(around.start <= logical.start && around.end >= logical.end);
            prop_assert!(layout.is_whole_stripes(&around));
            prop_assert!(around.end < logical.end + layout.stripe_bytes());
            prop_assert!(around.start + layout.stripe_bytes() > logical.start);
            let on_shards = layout.shard_range_around(logical.clone());
            prop_assert_eq!((on_shards.end - on_shards.start) * k as u64, around.end - around.start);
            prop_assert_eq!(layout.padded_bytes(start), layout.shard_bytes(start) * k as u64);
        }
    }
}

//! The parts of an overwrite: stripes that are encoded whole, and edges that change a part of a stripe.
//!
//! ```text
//! object     |  stripe 0  |  stripe 1  |  stripe 2  |  stripe 3     size before: within stripe 2
//! overwrite         ==================================
//! parts             edge    encoded      encoded    encoded
//! ```
//!
//! An edge's parity depends on bytes that the overwrite does not bring. A stripe that is encoded whole needs none: its
//! bytes are all brought, or are zeros behind the object's end.

use crate::shard_set::ShardSet;
use crate::stripe::StripeLayout;
use std::ops::Range;

/// The parts of an overwrite of one object. Offsets are logical.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Overwrite {
    /// Stripes that are encoded whole. Begins between stripes, perhaps before the written bytes, and ends between
    /// stripes or at the object's new end. Bytes of it that are not written are zeros. May be empty.
    pub encoded: Range<u64>,
    /// Written parts of stripes that had bytes before, in order, each within one stripe. At most two.
    pub edges: Vec<Range<u64>>,
}

impl Overwrite {
    /// The parts of an overwrite of the bytes `written` of an object that is `size_before` bytes long. Panics for
    /// offsets beyond [`crate::OBJECT_BYTES_MAX`].
    pub fn of(layout: &StripeLayout, written: Range<u64>, size_before: u64) -> Overwrite {
        if written.is_empty() {
            return Overwrite::default();
        }
        let Range { start, end } = written;
        let stripe = layout.stripe_bytes();
        let next_stripe = layout.padded_bytes(start);
        let is_new = start >= layout.padded_bytes(size_before);
        let begin = if is_new { start - start % stripe } else { next_stripe };
        // Nothing of the last stripe is left where the written bytes reach the object's end.
        let stop = if end >= size_before { end } else { end - end % stripe };
        if begin < stop {
            let edges = [start..begin, stop..end].into_iter().filter(|edge| !edge.is_empty()).collect();
            return Overwrite { encoded: begin..stop, edges };
        }
        let cut = next_stripe.clamp(start, end);
        let edges = [start..cut, cut..end].into_iter().filter(|edge| !edge.is_empty()).collect();
        Overwrite { encoded: 0..0, edges }
    }

    /// The shards on which bytes change, of a code with `m` parity shards: all of them where a stripe is encoded, else
    /// the data shards of the edges, and all parity shards. None if nothing is written.
    pub fn touched(&self, layout: &StripeLayout, m: usize) -> ShardSet {
        let all = ShardSet::first(layout.k() + m);
        if !self.encoded.is_empty() {
            return all;
        }
        let on_data: ShardSet =
            self.edges.iter().flat_map(|edge| layout.pieces(edge.clone())).map(|p| p.shard).collect();
        if on_data.is_empty() { on_data } else { on_data.union(all.without(ShardSet::first(layout.k()))) }
    }

    /// The shards that the overwrite leaves as they are.
    pub fn skipped(&self, layout: &StripeLayout, m: usize) -> ShardSet {
        ShardSet::first(layout.k() + m).without(self.touched(layout, m))
    }

    /// Number of bytes in the edges, which each parity shard logs until they are folded.
    pub fn edge_bytes(&self) -> u64 {
        self.edges.iter().map(|edge| edge.end - edge.start).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(written: Range<u64>, size_before: u64, encoded: Range<u64>, edges: &[(u64, u64)], skipped: &[usize]) {
        let layout = StripeLayout::new(4, 4096).unwrap();
        let edges = edges.iter().map(|(start, end)| *start..*end).collect();
        let parts = Overwrite::of(&layout, written.clone(), size_before);
        assert_eq!(parts, Overwrite { encoded, edges }, "{written:?} of {size_before}");
        assert_eq!(parts.skipped(&layout, 2).iter().collect::<Vec<_>>(), skipped, "{written:?} of {size_before}");
    }

    #[test]
    fn overwrites_of_four_data_shards() {
        const STRIPE: u64 = 16384;
        let long = 10 * STRIPE;
        // Within one unit, over two, and over two stripes.
        check(4096..8192, long, 0..0, &[(4096, 8192)], &[0, 2, 3]);
        check(5000..5001, long, 0..0, &[(5000, 5001)], &[0, 2, 3]);
        check(8000..8400, long, 0..0, &[(8000, 8400)], &[0, 3]);
        check(STRIPE - 10..STRIPE + 10, long, 0..0, &[(STRIPE - 10, STRIPE), (STRIPE, STRIPE + 10)], &[1, 2]);
        // Whole stripes, and with edges at both ends.
        check(STRIPE..3 * STRIPE, long, STRIPE..3 * STRIPE, &[], &[]);
        check(100..2 * STRIPE + 5, long, STRIPE..2 * STRIPE, &[(100, STRIPE), (2 * STRIPE, 2 * STRIPE + 5)], &[]);
        // New objects, and what is written over a short object's end.
        check(0..100, 0, 0..100, &[], &[]);
        check(0..100, 60, 0..100, &[], &[]);
        check(0..100, 100, 0..100, &[], &[]);
        check(0..100, 101, 0..0, &[(0, 100)], &[1, 2, 3]);
        check(50..100, 60, 0..0, &[(50, 100)], &[1, 2, 3]);
        // Behind the end: in the last stripe, in the next one, and after a hole.
        check(5000..6000, 100, 0..0, &[(5000, 6000)], &[0, 2, 3]);
        check(5000..STRIPE + 9, 100, STRIPE..STRIPE + 9, &[(5000, STRIPE)], &[]);
        check(2 * STRIPE + 77..2 * STRIPE + 99, 100, 2 * STRIPE..2 * STRIPE + 99, &[], &[]);
        check(7..7, long, 0..0, &[], &[0, 1, 2, 3, 4, 5]);
    }

    proptest! {
        /// Parts are what a byte by byte model says.
        #[test]
        fn parts_cover_what_is_written(
            k in 1usize..6, unit in 1u32..9, start in 0u64..200, bytes in 0u64..120, size_before in 0u64..200,
        ) {
            let layout = StripeLayout::new(k, unit).unwrap();
            let written = start..start + bytes;
            let size_after = size_before.max(written.end);
            let parts = Overwrite::of(&layout, written.clone(), size_before);
            prop_assert!(parts.edges.len() <= 2);
            for offset in 0..size_after {
                let in_edges = parts.edges.iter().filter(|edge| edge.contains(&offset)).count();
                let in_encoded = parts.encoded.contains(&offset);
                // Each written byte is in one part.
                let is_written = written.contains(&offset);
                prop_assert_eq!(in_edges + usize::from(in_encoded && is_written), usize::from(is_written));
                // A byte that is encoded, and not written, was none of the object's.
                prop_assert!(!in_encoded || written.contains(&offset) || offset >= size_before);
            }
            let begins_stripe = parts.encoded.start.is_multiple_of(layout.stripe_bytes());
            let end = parts.encoded.end;
            prop_assert!(parts.encoded.is_empty() || begins_stripe);
            prop_assert!(parts.encoded.is_empty() || end.is_multiple_of(layout.stripe_bytes()) || end == size_after);
            for edge in &parts.edges {
                let stripes = layout.stripes_around(edge.clone());
                prop_assert_eq!(stripes.end - stripes.start, layout.stripe_bytes());
                prop_assert!(stripes.start < size_before, "a stripe without bytes is encoded");
                let is_whole = edge.start == stripes.start && edge.end >= stripes.end.min(size_before);
                prop_assert!(!is_whole, "a stripe that is written whole is encoded");
                prop_assert!(parts.encoded.is_empty() || edge.end <= parts.encoded.start || edge.start >= end);
            }
            let touched = parts.touched(&layout, 2);
            let changes = |shard: usize| written.clone().any(|offset| layout.locate(offset).0 == shard);
            for shard in 0..k {
                prop_assert!(touched.contains(shard) || !changes(shard));
                prop_assert!(!parts.encoded.is_empty() || touched.contains(shard) == changes(shard));
            }
            prop_assert_eq!(touched.contains(k) && touched.contains(k + 1), !written.is_empty());
            prop_assert_eq!(parts.skipped(&layout, 2).union(touched), ShardSet::first(k + 2));
        }
    }
}

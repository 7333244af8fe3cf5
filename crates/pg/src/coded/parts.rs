//! Parts of shards that one read takes.
//!
//! ```text
//! read              |      ..|........|........|.       |   here k = 4, one stripe unit after the other
//!                   |...     |        |        |        |
//! taken as they are    second and third: 4 KiB blocks of one stripe, fourth: of one, first: of the next
//! if one is computed   k shards, the same range of each, which covers all of these
//! ```

use super::coding::assemble;
use super::pool_code::PoolCode;
use ec::{Code, ShardSet, StripeLayout};
use std::collections::BTreeMap;
use std::ops::Range;
use types::{AlignedBuf, BLOCK_BYTES};
use wire::Rope;

/// Ranges of shards that one read takes, and the parts of shards that have come.
#[derive(Debug)]
pub(super) struct Parts {
    /// The range that is taken of each shard that has something that is wanted, if it is taken as it is.
    own: BTreeMap<usize, Range<u64>>,
    /// The range in which shards are read if some of them are computed.
    all: Range<u64>,
    /// The logical range that is wanted; `None` if it is the range of one shard.
    logical: Option<Range<u64>>,
    came: BTreeMap<usize, ArrivedPart>,
}

/// A shard's bytes that were asked for in `range`. They are fewer where the shard ends before.
#[derive(Debug)]
struct ArrivedPart {
    range: Range<u64>,
    bytes: Rope,
}

/// Shards of which something is needed that has not come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Needed {
    pub shards: ShardSet,
    /// Some shards are computed.
    pub is_computed: bool,
}

impl Parts {
    /// A range of one shard.
    pub fn of_shard(shard: usize, range: Range<u64>) -> Parts {
        Parts { own: [(shard, range.clone())].into(), all: range, logical: None, came: BTreeMap::new() }
    }

    /// A logical range of an object that reaches so far.
    pub fn of_object(layout: &StripeLayout, logical: Range<u64>) -> Parts {
        let stripes = layout.shard_range_around(logical.clone());
        // Checksums are those of blocks. Shards are read no further than their stripes, which need not end with blocks.
        let in_blocks = |range: Range<u64>| {
            let block = BLOCK_BYTES as u64;
            let (start, end) = (range.start / block * block, range.end.next_multiple_of(block));
            start.max(stripes.start)..end.min(stripes.end)
        };
        let touched = layout.pieces(logical.clone()).take(layout.k()).map(|piece| piece.shard);
        let own = touched.map(|shard| (shard, in_blocks(layout.shard_range(shard, logical.clone())))).collect();
        let all = in_blocks(layout.parity_range(logical.clone()));
        Parts { own, all, logical: Some(logical), came: BTreeMap::new() }
    }

    /// Returns the range that a shard is asked for.
    pub fn range(&self, shard: usize, is_computed: bool) -> Range<u64> {
        self.own.get(&shard).filter(|_| !is_computed).unwrap_or(&self.all).clone()
    }

    /// Takes what has come of a shard that was asked for `range`, if it is of use and not here yet.
    pub fn add(&mut self, shard: usize, range: Range<u64>, bytes: Rope) {
        let had = self.came.get(&shard).map(|part| &part.range);
        let is_new = |wanted: &Range<u64>| covers(&range, wanted) && !had.is_some_and(|had| covers(had, wanted));
        if is_new(&self.all) || self.own.get(&shard).is_some_and(is_new) {
            self.came.insert(shard, ArrivedPart { range, bytes });
        }
    }

    /// Returns the shards that have what is wanted.
    fn wanted(&self) -> ShardSet {
        self.own.keys().copied().collect()
    }

    /// Returns those of them whose part has come.
    fn taken(&self) -> ShardSet {
        let has_come =
            |(shard, own): &(&usize, &Range<u64>)| self.came.get(*shard).is_some_and(|part| covers(&part.range, own));
        self.own.iter().filter(has_come).map(|(shard, _)| *shard).collect()
    }

    /// Returns shards of which all has come that it takes to compute others.
    pub fn whole(&self) -> ShardSet {
        let whole = self.came.iter().filter(|(_, part)| covers(&part.range, &self.all));
        whole.map(|(shard, _)| *shard).collect()
    }

    /// Returns true if everything has come, or can be computed of that.
    pub fn suffice(&self, code: &Code) -> bool {
        self.wanted().is_subset(self.taken()) || code.minimum_to_decode(self.wanted(), self.whole()).is_ok()
    }

    /// Returns what is needed if these shards can be read; `None` if they are too few.
    pub fn needed(&self, code: &Code, readable: ShardSet) -> Option<Needed> {
        let (wanted, taken) = (self.wanted(), self.taken());
        if wanted.is_subset(readable.union(taken)) {
            return Some(Needed { shards: wanted.without(taken), is_computed: false });
        }
        let whole = self.whole();
        let plan = code.minimum_to_decode(wanted, readable.union(whole)).ok()?;
        Some(Needed { shards: plan.without(whole), is_computed: true })
    }

    /// Returns the bytes that were wanted, sharing the memory of what has come but for shards that are computed. `None`
    /// if the shards end too early, or at different places.
    pub fn bytes(&self, pool: &PoolCode) -> Option<Rope> {
        if !self.wanted().is_subset(self.taken()) {
            return self.decoded(pool);
        }
        let part = |shard: usize| self.came.get(&shard).map(|part| (part.range.start, &part.bytes));
        match &self.logical {
            Some(logical) => assemble(&pool.layout, logical.clone(), part),
            None => self.own.keys().next().and_then(|shard| part(*shard)).map(|(_, bytes)| bytes.clone()),
        }
    }

    fn decoded(&self, pool: &PoolCode) -> Option<Rope> {
        let (wanted, whole) = (self.wanted(), self.whole());
        let decoder = pool.code.decoder(wanted, whole).ok()?;
        let here: BTreeMap<usize, Rope> = whole.iter().map(|shard| (shard, self.came[&shard].bytes.clone())).collect();
        let len = here.values().next().map_or(0, Rope::len);
        if here.values().any(|bytes| bytes.len() != len) {
            return None;
        }
        let mut computed: Vec<AlignedBuf> = decoder.targets().iter().map(|_| AlignedBuf::zeroed(len)).collect();
        let sources: Vec<_> = decoder.sources().iter().map(|shard| here[&shard].clone().into_bytes()).collect();
        let sources: Vec<&[u8]> = sources.iter().map(|bytes| &bytes[..]).collect();
        let mut targets: Vec<&mut [u8]> = computed.iter_mut().map(AlignedBuf::as_mut_slice).collect();
        decoder.decode(&sources, &mut targets).expect("as many shards as the decoder wants, of one length");
        let computed = computed.into_iter().map(|shard| Rope::from(shard.freeze()));
        let computed: BTreeMap<usize, Rope> = decoder.targets().iter().zip(computed).collect();
        let shard = |shard: usize| here.get(&shard).or_else(|| computed.get(&shard));
        match &self.logical {
            Some(logical) => assemble(&pool.layout, logical.clone(), |index| Some((self.all.start, shard(index)?))),
            None => self.own.keys().next().and_then(|wanted| shard(*wanted)).cloned(),
        }
    }
}

fn covers(range: &Range<u64>, wanted: &Range<u64>) -> bool {
    range.start <= wanted.start && wanted.end <= range.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::coding::encode;
    use ec::Technique;
    use proptest::prelude::*;

    proptest! {
        /// Whichever shards can be read, and in whatever order they come, k of them give the bytes.
        #[test]
        fn any_k_shards_give_what_is_wanted(
            (k, m) in (2usize..5, 1usize..4),
            unit in prop::sample::select(vec![512u32, 4096, 8192]),
            len in 1usize..90_000,
            (from, want) in (0usize..90_000, 1usize..90_000),
            fail in prop::collection::vec(0usize..7, 0..4),
            order: u64,
        ) {
            let (from, len) = (from.min(len - 1), len);
            let logical = from as u64..(from + want.min(len - from)) as u64;
            let (layout, code) =
                (StripeLayout::new(k, unit).unwrap(), Code::new(Technique::JerasureVandermonde, k, m).unwrap());
            let bytes: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
            let shards = encode(&code, &layout, &Rope::from(bytes.clone())).shards;
            let pool = PoolCode { layout, code };
            let mut parts = Parts::of_object(&layout, logical.clone());
            let (mut readable, mut fails) = (ShardSet::first(k + m), fail.into_iter());
            let (mut asked_bytes, mut failed) = (0, 0);
            let back = loop {
                let Some(needed) = parts.needed(&pool.code, readable) else { break None };
                let count = needed.shards.len();
                let Some(shard) = needed.shards.iter().nth(order as usize % count.max(1)) else {
                    break Some(parts.bytes(&pool).expect("all has come"));
                };
                if let Some(bad) = fails.next().filter(|bad| *bad < k + m && readable.contains(*bad)) {
                    (readable, failed) = (readable.without([bad].into_iter().collect()), failed + 1);
                    if bad == shard {
                        continue;
                    }
                }
                let range = parts.range(shard, needed.is_computed);
                prop_assert!(range.start < range.end && range.end <= shards[shard].len() as u64);
                asked_bytes += range.end - range.start;
                let bytes = shards[shard].slice(range.start as usize, (range.end - range.start) as usize);
                parts.add(shard, range.clone(), bytes);
            };
            match back {
                Some(back) => prop_assert_eq!(back.to_vec(), &bytes[logical.start as usize..logical.end as usize]),
                None => prop_assert!(failed > m),
            }
            // Blocks at both ends of each shard's part, but nothing else is read beside what is wanted.
            if failed == 0 {
                let wanted = logical.end - logical.start;
                prop_assert!(asked_bytes <= wanted + (k * 2 * BLOCK_BYTES) as u64, "{} of {}", asked_bytes, wanted);
            }
        }
    }

    #[test]
    fn ranges_are_blocks_of_the_shards_that_have_them() {
        let layout = StripeLayout::new(4, 16384).unwrap();
        let parts = Parts::of_object(&layout, 20_000..21_000);
        assert_eq!(parts.own, [(1, 0..8192)].into(), "of 3616..4616");
        assert_eq!((parts.range(1, false), parts.range(1, true), parts.range(5, true)), (0..8192, 0..8192, 0..8192));
        let parts = Parts::of_object(&layout, 4 * 16384 - 1..5 * 16384);
        assert_eq!(parts.own, [(3, 12288..16384), (0, 16384..32768)].into());
        assert_eq!(parts.all, 12288..32768);
    }

    #[test]
    fn what_came_for_nothing_is_not_kept() {
        let mut parts = Parts::of_shard(2, 0..8192);
        parts.add(5, 0..0, Rope::new());
        assert!(parts.whole().is_empty(), "it was asked for the omap only");
        parts.add(5, 0..8192, Rope::from(vec![1; 8192]));
        parts.add(5, 0..8192, Rope::from(vec![2; 8192]));
        assert_eq!(parts.came[&5].bytes.to_vec(), [1; 8192], "the first counts");
    }
}

//! One leaf's range of keys: its old entries and the changes to them.

use super::child::PageRef;
use super::layout::{HEADER_BYTES, LEAF_HEAD_BYTES, SLOT_BYTES};
use super::merge::{ENTRY_COST, Merge, MergeError, Records};
use super::overlay::{Generation, Record};
use super::page::{LeafValue, Page};
use super::page_cache::PageCache;
use super::page_writer::{OverflowWriter, PIECE_BLOCKS};
use super::space::Space;
use super::{INLINE_BYTES_MAX, PAGE_BYTES};
use crate::space::run::push_run;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct LeafMerge {
    /// The old leaf; `None` if all of it is gone.
    page: Option<(PageRef, Page)>,
    /// Index of the old leaf's next entry.
    index: usize,
    upper: Option<Vec<u8>>,
}

impl LeafMerge {
    pub fn new(page: Option<(PageRef, Page)>, upper: Option<Vec<u8>>) -> LeafMerge {
        LeafMerge { page, index: 0, upper }
    }
}

/// Returns true if a value goes into the leaf: it is not large, and its entry and the header fit a page.
fn is_inline(key: &[u8], value: &[u8]) -> bool {
    let entry = HEADER_BYTES + SLOT_BYTES + LEAF_HEAD_BYTES + key.len() + value.len();
    value.len() <= INLINE_BYTES_MAX && entry <= PAGE_BYTES
}

/// Estimated cost of a piece of a large value, in ns: copying and checksum.
const PIECE_COST: i64 = PIECE_BLOCKS as i64 * 1000;

impl Merge {
    /// Merges entries of the open leaf until the leaf or the budget is used up.
    pub(super) fn merge_leaf(
        &mut self,
        records: &mut Records<'_>,
        frozen: &Generation,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<(), MergeError> {
        let mut leaf = self.leaf.take().expect("a leaf is open");
        let result = self.merge_entries(&mut leaf, records, frozen, cache, space);
        if !matches!(result, Ok(true)) {
            self.leaf = Some(leaf);
        } else if let Some((place, _)) = leaf.page {
            push_run(&mut self.freed, place.run());
        }
        result.map(drop)
    }

    /// Returns true if the leaf is done.
    fn merge_entries(
        &mut self,
        leaf: &mut LeafMerge,
        records: &mut Records<'_>,
        frozen: &Generation,
        cache: &mut PageCache,
        space: &mut dyn Space,
    ) -> Result<bool, MergeError> {
        let LeafMerge { page, index, upper } = leaf;
        let page = page.as_ref().map(|(_, page)| page);
        while self.budget > 0 {
            let record = records.head.filter(|record| upper.as_deref().is_none_or(|upper| record.key() < upper));
            let old = page.filter(|page| *index < page.len());
            let order = match (old, record) {
                (None, None) => return Ok(true),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(page), Some(record)) => page.cmp_key(*index, record.key()),
            };
            if let Some(page) = old.filter(|_| order != Ordering::Greater) {
                if order == Ordering::Equal || self.is_erased(frozen, page, *index) {
                    self.changes.lost(page.key_parts(*index), page.value_len(*index));
                    if page.is_overflow(*index) {
                        self.drops.value(page.overflow_at(*index));
                    }
                } else {
                    self.keep_entry(page, *index);
                }
                *index += 1;
            }
            if let Some(record) = record.filter(|_| order != Ordering::Less) {
                // An equal old entry has been passed here, so the next piece of a large value does not see it again.
                if !self.put_record(record, space)? {
                    continue;
                }
                records.advance();
            }
            self.cut_ripe(0, cache, space)?;
        }
        Ok(false)
    }

    fn is_erased(&mut self, frozen: &Generation, page: &Page, index: usize) -> bool {
        if frozen.erased.is_empty() {
            return false;
        }
        let mut key = std::mem::take(&mut self.scratch);
        page.key_into(index, &mut key);
        let erased = frozen.erased.end_of(&key).is_some();
        self.scratch = key;
        erased
    }

    fn keep_entry(&mut self, page: &Page, index: usize) {
        let (prefix, suffix) = page.key_parts(index);
        let builder = self.builder(0);
        let bytes = match page.value(index) {
            LeafValue::Inline(value) => {
                builder.push_inline(prefix, suffix, value);
                value.len()
            }
            LeafValue::Overflow(encoded) => {
                builder.push_overflow(prefix, suffix, encoded);
                encoded.len()
            }
        };
        self.budget -= ENTRY_COST + bytes as i64 / 8;
    }

    /// Adds a record's entry, if it has one. Returns false if the value is large and has more pieces to write.
    fn put_record(&mut self, record: &Record, space: &mut dyn Space) -> Result<bool, MergeError> {
        let Some(value) = record.value() else {
            self.budget -= ENTRY_COST;
            return Ok(true);
        };
        if is_inline(record.key(), value) {
            self.changes.gained(record.key(), value.len());
            self.builder(0).push_inline(record.key(), &[], value);
            self.budget -= 2 * ENTRY_COST + value.len() as i64 / 4;
            return Ok(true);
        }
        let large = self.large.get_or_insert_with(|| OverflowWriter::new(record.value_bytes().expect("it has one")));
        self.budget -= PIECE_COST.min(value.len() as i64 / 4 + 1000);
        let Some(overflow) = large.step(&mut self.writer, space)? else { return Ok(false) };
        self.large = None;
        self.changes.gained(record.key(), value.len());
        let mut encoded = Vec::new();
        overflow.encode(&mut encoded);
        self.builder(0).push_overflow(record.key(), &[], &encoded);
        Ok(true)
    }
}

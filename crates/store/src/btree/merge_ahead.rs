//! Reads of pages that a merge will need soon.
//!
//! Where changes are few beside the tree, as when small objects come in random order, nearly every one of them opens a
//! leaf of its own. Reading these one after another would cost a device's latency each, so the merge keeps [`READS`] of
//! them under way. It also reads ahead the neighbours that leaves take in when they overflow or become underfull: those
//! are known once a leaf is in memory, before the merge comes to it.

use super::INLINE_BYTES_MAX;
use super::layout::{LEAF_HEAD_BYTES, SLOT_BYTES};
use super::level_builder::wants_neighbour;
use super::merge::Frame;
use super::overlay::Generation;
use super::page::Page;
use super::page_cache::{PageCache, Use};
use std::collections::VecDeque;

/// Number of leaves read ahead.
const READS: usize = 32;
/// Number of interior pages read ahead: each of them leads to many leaves.
const INTERIOR_READS: usize = 2;
/// Number of children looked at per call, where ranges of keys were erased.
const LOOKS: usize = 256;
/// Number of leaves weighed per call.
const WEIGHED: usize = 4;
/// Number of a leaf's changes that are weighed. A leaf with more changes has neighbours with changes too.
const CHANGES: usize = 64;

// Rough costs of reading ahead, in ns.
const LOOK_COST: i64 = 400;
const WEIGH_COST: i64 = 600;

/// Progress of reading ahead among the children of an open page.
#[derive(Default, Debug)]
pub(super) struct Ahead {
    /// Children before this index were asked for, or need not be read.
    looked: usize,
    /// Indices of children that were asked for and that the merge has not reached, in order.
    wanted: VecDeque<usize>,
    /// Number of entries of `wanted`, from the first, that were weighed.
    weighed: usize,
    /// True if the first children of the next page were asked for, too.
    went_on: bool,
}

impl Frame {
    /// Asks for the next children that changes touch. Returns the estimated cost in ns.
    fn read_ahead(&mut self, frozen: &Generation, cache: &mut PageCache) -> i64 {
        let Frame { next, ahead, .. } = self;
        while ahead.wanted.front().is_some_and(|index| *index < *next) {
            ahead.wanted.pop_front();
            ahead.weighed = ahead.weighed.saturating_sub(1);
        }
        ahead.looked = ahead.looked.max(*next);
        let reads = if self.page.level() == 1 { READS } else { INTERIOR_READS };
        let mut cost = 0;
        if self.ahead.wanted.len() <= reads / 2 {
            let mut looks = LOOKS;
            while self.ahead.wanted.len() < reads && self.ahead.looked < self.page.len() && looks > 0 {
                looks -= 1;
                cost += LOOK_COST;
                self.look(frozen, cache);
            }
        }
        if self.page.level() == 1 {
            cost += self.weigh(frozen, cache);
        }
        cost
    }

    /// Looks for the next child to be read; where ranges were erased, looks at one child only.
    fn look(&mut self, frozen: &Generation, cache: &mut PageCache) {
        let index = self.ahead.looked;
        let (lower, upper) = self.bounds(index);
        let record = frozen.records_from(&lower).next().map(|record| record.key());
        let record = record.filter(|key| self.upper.as_deref().is_none_or(|upper| *key < upper));
        let erased = &frozen.erased;
        let touched = match record {
            _ if !erased.is_empty() => {
                let has_record = record.is_some_and(|key| self.is_below_next(index, key));
                let is_touched = has_record || erased.meets(&lower, upper.as_deref());
                Some(index).filter(|_| is_touched && !erased.covers(&lower, upper.as_deref()))
            }
            Some(key) => Some(self.page.child_index(key).max(index)),
            None => {
                self.ahead.looked = self.page.len();
                return;
            }
        };
        self.ahead.looked = touched.unwrap_or(index) + 1;
        if let Some(index) = touched {
            self.ahead.wanted.push_back(index);
            cache.prefetch(&self.page.child(index).page, self.page.level() - 1, Use::Once);
        }
    }

    /// Asks for the neighbours that leaves will take in. Returns the estimated cost of finding them, in ns.
    fn weigh(&mut self, frozen: &Generation, cache: &mut PageCache) -> i64 {
        let mut cost = 0;
        for _ in 0..WEIGHED {
            let Some(index) = self.ahead.wanted.get(self.ahead.weighed).copied() else { break };
            let Some(leaf) = cache.peek_page(&self.page.child(index).page, 0) else { break };
            cost += WEIGH_COST;
            self.ahead.weighed += 1;
            let Some((bytes, entries)) = self.with_changes(index, leaf, frozen) else { continue };
            // The first neighbour is assumed to be like this leaf; if that does not suffice, a second one is read.
            let more = wants_neighbour(bytes + leaf.used_bytes(), entries + leaf.len());
            let neighbours = if wants_neighbour(bytes, entries) { 1 + usize::from(more) } else { 0 };
            for index in index + 1..(index + 1 + neighbours).min(self.page.len()) {
                cache.prefetch(&self.page.child(index).page, 0, Use::Once);
            }
        }
        cost
    }

    /// Returns the estimated bytes and number of a leaf's entries with all changes applied; `None` if the changes are
    /// many.
    fn with_changes(&self, index: usize, leaf: &Page, frozen: &Generation) -> Option<(usize, usize)> {
        let (lower, _) = self.bounds(index);
        let (mut bytes, mut entries) = (leaf.used_bytes(), leaf.len());
        let changes = frozen.records_from(&lower).take_while(|record| self.is_below_next(index, record.key()));
        for (count, record) in changes.enumerate() {
            if count == CHANGES {
                return None;
            }
            if let Some(at) = leaf.find(record.key()) {
                bytes = bytes.saturating_sub(leaf.entry_bytes(at));
                entries -= 1;
            }
            if let Some(value) = record.value() {
                let key = record.key().len().saturating_sub(leaf.prefix().len());
                bytes += SLOT_BYTES + LEAF_HEAD_BYTES + key + value.len().min(INLINE_BYTES_MAX);
                entries += 1;
            }
        }
        Some((bytes, entries))
    }
}

/// Asks for the next children, of the page opened last, that changes touch; when that page has no more, asks for those
/// of the next page. Returns the estimated cost in ns.
pub(super) fn read_ahead(stack: &mut [Frame], frozen: &Generation, cache: &mut PageCache) -> i64 {
    let Some((frame, above)) = stack.split_last_mut() else { return 0 };
    let mut cost = frame.read_ahead(frozen, cache);
    let Ahead { looked, wanted, went_on, .. } = &mut frame.ahead;
    if frame.page.level() != 1 || *went_on || *looked < frame.page.len() || wanted.len() > READS / 2 {
        return cost;
    }
    let Some(parent) = above.last_mut() else { return cost };
    cost += parent.read_ahead(frozen, cache);
    let Some(index) = parent.ahead.wanted.front().copied() else { return cost };
    let place = parent.page.child(index).page;
    if let Some(page) = cache.peek_page(&place, 1).cloned() {
        *went_on = true;
        let (lower, upper) = parent.bounds(index);
        cost += Frame::new(place, page, lower, upper).read_ahead(frozen, cache);
    }
    cost
}

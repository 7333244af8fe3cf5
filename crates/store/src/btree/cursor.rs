//! Entries in key order, a page of them at a time.

use super::child::{PageRef, Root};
use super::damage::Damage;
use super::overlay::{BEHIND_ALL_KEYS, Overlay, Record};
use super::page;
use super::page_cache::{Fetch, PageCache, Use};
use super::view::View;
use bytes::Bytes;
use std::cmp::Ordering;

/// Bounds of the number of leaves asked for at once when one is missing. Between them, the number is that of the leaves
/// that the cursor has passed, or of those that the wanted entries may take.
const READ_AHEAD_MIN: usize = 4;
const READ_AHEAD_MAX: usize = 64;
/// Assumed entries of a leaf while the cursor has not seen any.
const ENTRIES_GUESSED: usize = 32;

/// Some entries in key order, keys and values.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CursorPage {
    pub entries: Vec<(Bytes, Bytes)>,
    /// True if there are no more entries behind these.
    pub done: bool,
}

#[derive(Debug)]
struct Leaf {
    page: page::Page,
    /// Index of the leaf's next entry.
    index: usize,
    /// Keys of the leaves behind this one are at least this. `None`: this is the last leaf.
    upper: Option<Vec<u8>>,
}

/// A place in a range of keys. The cursor sees changes made behind its place when it gets there.
#[derive(Debug)]
pub struct Cursor {
    /// Entries before this key are done.
    from: Vec<u8>,
    end: Option<Vec<u8>>,
    with_values: bool,
    /// Entries of the tree before this key are done or erased.
    tree_from: Vec<u8>,
    /// Number of leaves visited so far, and of entries taken from them.
    leaves: usize,
    entries: usize,
    /// Number of entries that are asked for and not found yet.
    wanted: usize,
    /// The root that `leaf` and `tree_done` belong to.
    root: Option<PageRef>,
    leaf: Option<Leaf>,
    /// The tree has no further entries in the range.
    tree_done: bool,
    /// Keys of the entries that could not be read when the last error was returned.
    lost: Option<(Vec<u8>, Option<Vec<u8>>)>,
}

enum RecordSource {
    Active,
    Frozen,
}

impl Cursor {
    /// Creates a cursor at the first entry of `begin .. end`; without an end the range goes to the last entry. Without
    /// `with_values`, values are left empty and large ones are not read.
    pub fn new(begin: &[u8], end: Option<&[u8]>, with_values: bool) -> Cursor {
        Cursor {
            from: begin.to_vec(),
            end: end.map(<[u8]>::to_vec),
            with_values,
            tree_from: begin.to_vec(),
            leaves: 0,
            entries: 0,
            wanted: 0,
            root: None,
            leaf: None,
            tree_done: false,
            lost: None,
        }
    }

    /// Returns the place of the cursor: all entries before this key were returned.
    pub fn position(&self) -> &[u8] {
        &self.from
    }

    /// Passes over the entries that could not be read, and returns their range of keys. Entries of that range that are
    /// in the overlay are still returned later. Panics unless the last page asked for was an error.
    pub fn skip_lost(&mut self) -> (Vec<u8>, Option<Vec<u8>>) {
        let (from, until) = self.lost.take().expect("the last page was an error");
        match &mut self.leaf {
            // The error was in a value of this leaf.
            Some(leaf) => leaf.index += 1,
            None => match &until {
                Some(until) if self.end.as_ref().is_none_or(|end| until < end) => self.tree_from.clone_from(until),
                _ => self.tree_done = true,
            },
        }
        (from, until)
    }

    /// Returns the next entries: at least one and at most `entries_max`, unless there are no more. No entry is added
    /// once keys and values exceed `bytes_max`. Errors: a page or value that is needed next cannot be used; the cursor
    /// stays.
    pub fn next_page(
        &mut self,
        view: &mut View<'_>,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<Fetch<CursorPage>, Damage> {
        let mut out = CursorPage::default();
        let pending = match self.fill(view, &mut out, entries_max.max(1), bytes_max) {
            Ok(pending) => pending,
            // Entries found before the error are returned first.
            Err(damage) if out.entries.is_empty() => return Err(damage),
            Err(_) => None,
        };
        Ok(match pending {
            Some(id) if out.entries.is_empty() => Fetch::Pending(id),
            _ => Fetch::Ready(out),
        })
    }

    fn fill(
        &mut self,
        view: &mut View<'_>,
        out: &mut CursorPage,
        entries_max: usize,
        bytes_max: usize,
    ) -> Result<Option<super::ReadId>, Damage> {
        if self.root != view.root.map(|root| root.child.page) {
            // The new tree holds the changes of the former overlay: its erased entries are gone, its put entries are
            // there.
            self.root = view.root.map(|root| root.child.page);
            self.tree_from.clone_from(&self.from);
            (self.leaf, self.tree_done) = (None, false);
        }
        let overlay = view.overlay;
        let mut active = overlay.active.records_from(&self.from).peekable();
        let frozen_from = |from: &[u8]| {
            overlay.frozen.as_ref().map(|frozen| frozen.records_from(from)).into_iter().flatten().peekable()
        };
        let mut frozen = frozen_from(&self.from);
        let mut bytes = 0;
        while out.entries.len() < entries_max && bytes < bytes_max.max(1) {
            self.wanted = entries_max - out.entries.len();
            match self.seek(view.root, overlay, view.cache)? {
                Fetch::Ready(()) => {}
                Fetch::Pending(id) => return Ok(Some(id)),
            }
            let leaf = self.leaf.as_ref().filter(|_| !self.tree_done);
            let (mut source, mut key) = (None, None);
            if let Some(record) = active.peek() {
                (source, key) = (Some(RecordSource::Active), Some(record.key()));
            }
            if let Some(record) = frozen.peek().filter(|record| key.is_none_or(|key| record.key() < key)) {
                (source, key) = (Some(RecordSource::Frozen), Some(record.key()));
            }
            let order = leaf.map(|leaf| key.map_or(Ordering::Less, |key| leaf.page.cmp_key(leaf.index, key)));
            let found: Option<(Bytes, Bytes)> = match (order, source) {
                (Some(Ordering::Less), _) => {
                    let leaf = leaf.expect("it was compared");
                    let mut key = Vec::new();
                    leaf.page.key_into(leaf.index, &mut key);
                    if self.end.as_ref().is_some_and(|end| key >= *end) {
                        self.tree_done = true;
                        continue;
                    }
                    if let Some(end) = overlay.erased_end(&key) {
                        if *end >= *self.end.as_deref().unwrap_or(&BEHIND_ALL_KEYS) {
                            // Pages behind the erased range need not be readable.
                            self.tree_done = true;
                            continue;
                        }
                        self.tree_from = end.to_vec();
                        let inside = leaf.upper.as_deref().is_none_or(|upper| end < upper);
                        let index = leaf.page.lower_bound(end);
                        self.leaf.as_mut().expect("it was compared").index = index;
                        if !inside {
                            self.leaf = None;
                        }
                        continue;
                    }
                    let value = if !self.with_values {
                        Bytes::new()
                    } else if leaf.page.is_overflow(leaf.index) {
                        match leaf.page.overflow_at(leaf.index).fetch(view.cache) {
                            Ok(Fetch::Ready(value)) => value,
                            Ok(Fetch::Pending(id)) => return Ok(Some(id)),
                            Err(damage) => {
                                let behind = [&key[..], &[0]].concat();
                                self.lost = Some((key, Some(behind)));
                                return Err(damage);
                            }
                        }
                    } else {
                        leaf.page.value_bytes(leaf.index)
                    };
                    self.leaf.as_mut().expect("it was compared").index += 1;
                    self.entries += 1;
                    Some((key.into(), value))
                }
                (_, None) => {
                    out.done = true;
                    return Ok(None);
                }
                (order, Some(source)) => {
                    let record: &Record = match source {
                        RecordSource::Active => active.next().expect("it was peeked"),
                        _ => frozen.next().expect("it was peeked"),
                    };
                    if self.end.as_deref().is_some_and(|end| record.key() >= end) {
                        out.done = true;
                        return Ok(None);
                    }
                    let is_frozen = matches!(source, RecordSource::Frozen);
                    if !is_frozen {
                        frozen.next_if(|other| other.key() == record.key());
                    }
                    if order == Some(Ordering::Equal) {
                        self.leaf.as_mut().expect("it was compared").index += 1;
                    }
                    let erased = overlay.active.erased.end_of(record.key()).filter(|_| is_frozen);
                    let value = record.value_bytes().filter(|_| erased.is_none());
                    if let Some(end) = erased {
                        frozen = frozen_from(end);
                    }
                    if value.is_none() {
                        self.pass(record.key());
                    }
                    value.map(|value| (record.key_bytes(), if self.with_values { value } else { Bytes::new() }))
                }
            };
            if let Some((key, value)) = found {
                self.pass(&key);
                bytes += key.len() + value.len();
                out.entries.push((key, value));
            }
        }
        Ok(None)
    }

    /// Moves the cursor right behind `key`.
    fn pass(&mut self, key: &[u8]) {
        self.from.clear();
        self.from.extend_from_slice(key);
        self.from.push(0);
    }

    /// Makes sure that the leaf is loaded and has a next entry, or that the tree is done.
    fn seek(&mut self, root: Option<Root>, overlay: &Overlay, cache: &mut PageCache) -> Result<Fetch<()>, Damage> {
        while !self.tree_done {
            match &mut self.leaf {
                Some(leaf) if leaf.index < leaf.page.len() => break,
                Some(leaf) => match leaf.upper.take() {
                    Some(upper) if self.end.as_ref().is_none_or(|end| upper < *end) => {
                        self.tree_from = upper;
                        self.leaf = None;
                    }
                    _ => self.tree_done = true,
                },
                None => match root {
                    None => self.tree_done = true,
                    Some(root) => match overlay.erased_end(&self.tree_from) {
                        // Erased entries need not be readable.
                        Some(end) if *end < *self.end.as_deref().unwrap_or(&BEHIND_ALL_KEYS) => {
                            self.tree_from = end.to_vec();
                        }
                        Some(_) => self.tree_done = true,
                        None => match self.descend(root, cache)? {
                            Fetch::Ready(leaf) => {
                                self.leaf = Some(leaf);
                                self.leaves += 1;
                            }
                            Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
                        },
                    },
                },
            }
        }
        Ok(Fetch::Ready(()))
    }

    fn descend(&mut self, root: Root, cache: &mut PageCache) -> Result<Fetch<Leaf>, Damage> {
        let (mut lower, mut upper) = (Vec::new(), None);
        let result = self.descend_within(root, cache, &mut lower, &mut upper);
        if result.is_err() {
            self.lost = Some((lower, upper));
        }
        result
    }

    /// Sets `lower` and `upper` to the bounds of the page that was asked for last.
    fn descend_within(
        &self,
        root: Root,
        cache: &mut PageCache,
        lower: &mut Vec<u8>,
        upper: &mut Option<Vec<u8>>,
    ) -> Result<Fetch<Leaf>, Damage> {
        let (mut place, mut level) = (root.child.page, root.level);
        while level > 0 {
            let page = match cache.page(&place, level)? {
                Fetch::Ready(page) => page,
                Fetch::Pending(id) => return Ok(Fetch::Pending(id)),
            };
            let index = page.child_index(&self.tree_from);
            place = page.child(index).page;
            if index > 0 {
                page.key_into(index, lower);
            }
            if index + 1 < page.len() {
                page.key_into(index + 1, upper.get_or_insert_default());
            }
            level -= 1;
            if level == 0 && !cache.contains(&place, 0) {
                self.read_ahead(root, cache, index);
            }
        }
        Ok(match cache.take_page(&place, 0, Use::Keep)? {
            Fetch::Ready(page) => {
                let index = page.lower_bound(&self.tree_from);
                Fetch::Ready(Leaf { page, index, upper: upper.take() })
            }
            Fetch::Pending(id) => Fetch::Pending(id),
        })
    }

    /// Asks for the leaves behind the missing one, within the range and under the same page.
    fn read_ahead(&self, root: Root, cache: &mut PageCache, index: usize) {
        let (mut place, mut level) = (root.child.page, root.level);
        let mut ahead = Vec::new();
        let per_leaf = self.entries.checked_div(self.leaves).unwrap_or(ENTRIES_GUESSED).max(1);
        let count = self.leaves.max(self.wanted.div_ceil(per_leaf)).clamp(READ_AHEAD_MIN, READ_AHEAD_MAX);
        while level > 0 {
            let Ok(Fetch::Ready(page)) = cache.page(&place, level) else { return };
            if level == 1 {
                let last = page.len().min(index + count);
                let inside = |at: &usize| self.end.as_ref().is_none_or(|end| page.cmp_key(*at, end) == Ordering::Less);
                ahead.extend((index..last).take_while(|at| *at == index || inside(at)).map(|at| page.child(at).page));
            }
            place = page.child(page.child_index(&self.tree_from)).page;
            level -= 1;
        }
        ahead.iter().for_each(|leaf| cache.prefetch(leaf, 0, Use::Keep));
    }
}

//! Answers that need many pages of the tree, gathered while the asker waits for one page after another.
//!
//! The entries found so far stay until the question is asked again, so a question needs only one page in memory at a
//! time. Changes made meanwhile are applied to them too: an answer is always true at the time it is given.

use crate::btree::Cursor;
use bytes::Bytes;
use std::collections::VecDeque;

/// Maximum number of gatherings kept. Further questions are answered as well, but not all at the same time.
const GATHERINGS_MAX: usize = 32;
/// A question is given up if it was not asked again while this many other questions were.
const FORGOTTEN: u64 = 4096;

/// Entries of a table: keys in the tree, and values.
pub(crate) type Entries = Vec<(Bytes, Bytes)>;

/// The first entries of a range of keys.
#[derive(Debug)]
pub(crate) struct Listing {
    first: Vec<u8>,
    behind: Vec<u8>,
    pub max: usize,
    with_values: bool,
    pub cursor: Cursor,
    /// All entries before the cursor, in order.
    pub entries: Entries,
}

impl Listing {
    pub fn new(first: Vec<u8>, behind: Vec<u8>, max: usize, with_values: bool) -> Listing {
        let cursor = Cursor::new(&first, Some(&behind), with_values);
        Listing { first, behind, max, with_values, cursor, entries: Vec::new() }
    }

    fn is_same(&self, other: &Listing) -> bool {
        (&self.first, &self.behind, self.max, self.with_values)
            == (&other.first, &other.behind, other.max, other.with_values)
    }

    /// Adds the next entries, in memory of their own: a part of a page would keep the whole page.
    pub fn extend(&mut self, entries: Entries) {
        self.entries.extend(entries.into_iter().map(|(key, value)| (key, Bytes::copy_from_slice(&value))));
    }

    /// Returns the bytes of all entries found.
    pub fn bytes(&self) -> usize {
        self.entries.iter().map(entry_bytes).sum()
    }

    /// Returns the number of entries that are given however large they are: one, besides that of the first key itself.
    pub fn least(&self) -> usize {
        1 + usize::from(self.entries.first().is_some_and(|(key, _)| key[..] == self.first[..]))
    }

    /// Returns the number of entries that fit this many bytes.
    pub fn fitting(&self, bytes_max: usize) -> usize {
        let mut bytes = 0;
        let fits = |entry: &&(Bytes, Bytes)| {
            bytes += entry_bytes(entry);
            bytes <= bytes_max
        };
        self.entries.iter().take_while(fits).count().max(self.least()).min(self.entries.len())
    }

    fn place(&self, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|(found, _)| (**found).cmp(key))
    }

    fn put(&mut self, key: &[u8], value: &[u8]) {
        if key < &self.first[..] || key >= self.cursor.position() {
            return;
        }
        let value = if self.with_values { Bytes::copy_from_slice(value) } else { Bytes::new() };
        match self.place(key) {
            Ok(at) => self.entries[at].1 = value,
            Err(at) => self.entries.insert(at, (Bytes::copy_from_slice(key), value)),
        }
    }

    fn delete(&mut self, begin: &[u8], end: &[u8]) {
        let from = self.place(begin).unwrap_or_else(|at| at);
        let to = self.place(end).unwrap_or_else(|at| at);
        self.entries.drain(from..to.max(from));
    }
}

fn entry_bytes((key, value): &(Bytes, Bytes)) -> usize {
    key.len() + value.len()
}

/// Values of some keys.
#[derive(Debug)]
pub(crate) struct Values {
    /// Keys in the tree, in the order asked.
    keys: Vec<Vec<u8>>,
    /// Value by key: `None` where it is not known yet, `Some(None)` where there is none.
    pub found: Vec<Option<Option<Bytes>>>,
    /// Indices of `keys`, in the order of keys.
    sorted: Vec<usize>,
}

impl Values {
    pub fn new(keys: Vec<Vec<u8>>) -> Values {
        let mut sorted: Vec<usize> = (0..keys.len()).collect();
        sorted.sort_unstable_by(|a, b| keys[*a].cmp(&keys[*b]));
        Values { found: vec![None; keys.len()], keys, sorted }
    }

    pub fn key(&self, at: usize) -> &[u8] {
        &self.keys[at]
    }

    /// Changes the known values of the keys of `begin .. end`.
    fn change(&mut self, begin: &[u8], end: &[u8], value: Option<&[u8]>) {
        let from = self.sorted.partition_point(|at| self.keys[*at][..] < *begin);
        for at in self.sorted[from..].iter().take_while(|at| self.keys[**at][..] < *end) {
            if let Some(known) = &mut self.found[*at] {
                *known = value.map(Bytes::copy_from_slice);
            }
        }
    }
}

#[derive(Debug)]
pub(crate) enum Gathering {
    Listing(Box<Listing>),
    Values(Values),
}

impl Gathering {
    fn is_same(&self, other: &Gathering) -> bool {
        match (self, other) {
            (Gathering::Listing(one), Gathering::Listing(other)) => one.is_same(other),
            (Gathering::Values(one), Gathering::Values(other)) => one.keys == other.keys,
            _ => false,
        }
    }
}

/// Gatherings that wait for pages.
#[derive(Default, Debug)]
pub(crate) struct Gatherings {
    /// Gatherings, each with the number of the question when it was last asked.
    waiting: VecDeque<(u64, Gathering)>,
    questions: u64,
}

impl Gatherings {
    /// Returns the gathering of the same question, or `new`.
    pub fn take(&mut self, new: Gathering) -> Gathering {
        self.questions += 1;
        let found = self.waiting.iter().position(|(_, waiting)| waiting.is_same(&new));
        found.and_then(|at| self.waiting.remove(at)).map_or(new, |(_, gathering)| gathering)
    }

    /// Keeps a gathering until its question is asked again. The first ones are given up last: if questions took each
    /// other's places whenever their pages arrived, none would ever be done.
    pub fn keep(&mut self, gathering: Gathering) {
        if self.waiting.len() >= GATHERINGS_MAX {
            let questions = self.questions;
            self.waiting.retain(|(asked, _)| asked + FORGOTTEN > questions);
        }
        if self.waiting.len() < GATHERINGS_MAX {
            self.waiting.push_back((self.questions, gathering));
        }
    }

    pub fn put(&mut self, key: &[u8], value: &[u8]) {
        for (_, gathering) in &mut self.waiting {
            match gathering {
                Gathering::Listing(listing) => listing.put(key, value),
                Gathering::Values(values) => values.change(key, &[key, &[0]].concat(), Some(value)),
            }
        }
    }

    pub fn delete(&mut self, key: &[u8]) {
        if !self.waiting.is_empty() {
            self.delete_range(key, &[key, &[0]].concat());
        }
    }

    /// Removes the entries of `begin .. end`, which are deleted.
    pub fn delete_range(&mut self, begin: &[u8], end: &[u8]) {
        for (_, gathering) in &mut self.waiting {
            match gathering {
                Gathering::Listing(listing) => listing.delete(begin, end),
                Gathering::Values(values) => values.change(begin, end, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btree::{Fetch, Overlay, PageCache, View};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn what_changes_meanwhile_is_in_the_answer(before in prop::collection::vec(0u8..60, 0..40), changes in prop::collection::vec((0u8..4, 0u8..60, 0u8..9), 0..30), max in 1usize..30) {
            let (mut overlay, mut cache, mut model) = (Overlay::default(), PageCache::new(0, 0), BTreeMap::new());
            for key in before {
                overlay.put(&[key], &[key]).unwrap();
                model.insert(vec![key], vec![key]);
            }
            let keys: Vec<Vec<u8>> = (0..60).step_by(7).rev().map(|key| vec![key]).collect();
            let (listing, values) = (|| Gathering::Listing(Box::new(Listing::new(vec![5], vec![50], max, true))), || Gathering::Values(Values::new(keys.clone())));
            let mut gatherings = Gatherings::default();
            gatherings.keep(listing());
            gatherings.keep(values());
            for (n, (action, key, len)) in changes.into_iter().enumerate() {
                match action {
                    0 | 1 => {
                        overlay.put(&[key], &[n as u8]).unwrap();
                        gatherings.put(&[key], &[n as u8]);
                        model.insert(vec![key], vec![n as u8]);
                    }
                    2 => {
                        overlay.delete(&[key]).unwrap();
                        gatherings.delete(&[key]);
                        model.remove(&vec![key]);
                    }
                    _ => {
                        overlay.delete_range(&[key], &[key + len]).unwrap();
                        gatherings.delete_range(&[key], &[key + len]);
                        model.retain(|k, _| k[0] < key || k[0] >= key + len);
                    }
                }
                // Both questions advance by one entry.
                let Gathering::Listing(mut list) = gatherings.take(listing()) else { panic!("a listing") };
                let page = list.cursor.next_page(&mut View { root: None, overlay: &overlay, cache: &mut cache }, 1, 1).unwrap();
                let Fetch::Ready(page) = page else { panic!("there is no tree") };
                list.entries.extend(page.entries);
                let known: Vec<(Vec<u8>, Vec<u8>)> = list.entries.iter().map(|(k, v)| (k.to_vec(), v.to_vec())).collect();
                let passed = list.cursor.position().to_vec();
                let expected: Vec<(Vec<u8>, Vec<u8>)> = model.iter().filter(|(k, _)| k[0] >= 5 && k[0] < 50 && **k < passed).map(|(k, v)| (k.clone(), v.clone())).collect();
                prop_assert_eq!(known, expected);
                gatherings.keep(Gathering::Listing(list));
                let Gathering::Values(mut some) = gatherings.take(values()) else { panic!("values") };
                let at = n % keys.len();
                some.found[at] = Some(model.get(&keys[at]).map(|v| v.clone().into()));
                for (key, found) in keys.iter().zip(&some.found) {
                    prop_assert!(found.as_ref().is_none_or(|found| found.as_deref() == model.get(key).map(|v| &v[..])));
                }
                gatherings.keep(Gathering::Values(some));
            }
        }
    }

    #[test]
    fn the_first_to_ask_are_kept_and_those_who_never_come_back_are_not() {
        let ask = |n: u64| Gathering::Values(Values::new(vec![n.to_le_bytes().to_vec()]));
        let mut gatherings = Gatherings::default();
        let mut is_kept = |n: u64| {
            let Gathering::Values(mut values) = gatherings.take(ask(n)) else { panic!("values") };
            let kept = values.found[0].is_some();
            values.found[0] = Some(None);
            gatherings.keep(Gathering::Values(values));
            kept
        };
        let max = GATHERINGS_MAX as u64;
        for round in 0..3 {
            assert!((0..2 * max).all(|n| is_kept(n) == (round > 0 && n < max)));
        }
        // The first half of the questions is not asked again.
        assert!((0..FORGOTTEN).filter(|n| is_kept(max + n % max)).count() > 0);
        assert!((max..2 * max).all(&mut is_kept));
    }
}

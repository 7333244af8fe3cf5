//! An ordered table in memory.

use crate::key::Key;
use std::collections::BTreeMap;
use std::ops::Bound;

/// A map from keys to values.
#[derive(Debug)]
pub(crate) struct Table<V> {
    map: BTreeMap<Key, V>,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { map: BTreeMap::new() }
    }
}

impl<V> Table<V> {
    pub fn len(&self) -> usize {
        self.map.len()
    }

    pub fn get(&self, key: &[u8]) -> Option<&V> {
        self.map.get(key)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.map.contains_key(key)
    }

    /// A value to change.
    pub fn get_mut(&mut self, key: &[u8]) -> Option<&mut V> {
        self.map.get_mut(key)
    }

    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        self.map.insert(key, value)
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        self.map.remove(key)
    }

    /// Entries of `begin .. end`, in order; to the last without an end.
    pub fn range<'a>(
        &'a self,
        begin: &[u8],
        end: Option<&[u8]>,
    ) -> impl Iterator<Item = (&'a [u8], &'a V)> + use<'a, V> {
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        // `BTreeMap::range` panics on a range that ends before it begins.
        let empty = matches!(end, Bound::Excluded(end) if end <= begin);
        let range = (!empty).then(|| self.map.range::<[u8], _>((Bound::Included(begin), end)));
        range.into_iter().flatten().map(|(key, value)| (&**key, value))
    }

    /// Removes the entries of `begin .. end` and hands them to `removed`, in order.
    pub fn remove_range(&mut self, begin: &[u8], end: Option<&[u8]>, mut removed: impl FnMut(&[u8], V)) {
        let keys: Vec<Key> = self.range(begin, end).map(|(key, _)| key.into()).collect();
        for key in keys {
            let value = self.remove(&key).expect("just listed");
            removed(&key, value);
        }
    }
}

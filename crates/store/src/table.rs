//! Ordered tables in memory that a checkpoint can capture as they were at one moment, bit by bit, while they change.

use crate::key::Key;
use std::collections::BTreeMap;
use std::ops::Bound;

/// The capture of one moment. Keys before the cursor are done; of the others, those changed since have their former
/// value kept here until the cursor passes.
#[derive(Debug)]
struct Capture<V> {
    /// All keys up to and including this one are captured.
    done_to: Option<Key>,
    /// Former values; `None` for keys that did not exist.
    former: BTreeMap<Key, Option<V>>,
}

/// A map from keys to values.
#[derive(Debug)]
pub(crate) struct Table<V> {
    map: BTreeMap<Key, V>,
    capture: Option<Capture<V>>,
}

impl<V> Default for Table<V> {
    fn default() -> Table<V> {
        Table { map: BTreeMap::new(), capture: None }
    }
}

impl<V: Clone> Table<V> {
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
        let value = self.map.get_mut(key)?;
        if let Some(capture) = &mut self.capture {
            capture.keep(key, || Some(value.clone()));
        }
        Some(value)
    }

    pub fn insert(&mut self, key: Key, value: V) -> Option<V> {
        if let Some(capture) = &mut self.capture {
            capture.keep(&key, || self.map.get(&key).cloned());
        }
        self.map.insert(key, value)
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<V> {
        let value = self.map.remove(key)?;
        if let Some(capture) = &mut self.capture {
            capture.keep(key, || Some(value.clone()));
        }
        Some(value)
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

    /// Begins to capture the present content. Panics if a capture is under way.
    pub fn begin_capture(&mut self) {
        assert!(self.capture.is_none(), "two captures at once");
        self.capture = Some(Capture { done_to: None, former: BTreeMap::new() });
    }

    /// Hands further entries of the captured moment to `visit`, in order, until it returns false (to stop behind the
    /// entry it was given) or all are done. Returns whether all are done: the capture is then over. Panics without a
    /// capture.
    pub fn capture_next(&mut self, mut visit: impl FnMut(&[u8], &V) -> bool) -> bool {
        let capture = self.capture.as_mut().expect("a capture was begun");
        let from = capture.done_to.take();
        let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let mut present = self.map.range::<[u8], _>((bound, Bound::Unbounded)).peekable();
        let mut last: Option<Key> = None;
        loop {
            let former = capture.former.first_entry();
            let from_former = match (&former, present.peek()) {
                (None, None) => {
                    self.capture = None;
                    return true;
                }
                (Some(former), Some((key, _))) if former.key() == *key => {
                    present.next();
                    true
                }
                (Some(former), Some((key, _))) => former.key() < *key,
                (former, None) => former.is_some(),
                (None, Some(_)) => false,
            };
            let proceed = if from_former {
                let (key, value) = former.expect("decided above").remove_entry();
                let proceed = value.is_none_or(|value| visit(&key, &value));
                last = Some(key);
                proceed
            } else {
                let (key, value) = present.next().expect("decided above");
                let proceed = visit(key, value);
                if !proceed {
                    last = Some(key.clone());
                }
                proceed
            };
            if !proceed {
                capture.done_to = last;
                return false;
            }
        }
    }

    #[cfg(test)]
    fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    /// Changes a value in the present content and, where it is kept, in the captured one: for facts about an entry
    /// that became known only later.
    pub fn amend(&mut self, key: &[u8], mut change: impl FnMut(&mut V)) {
        if let Some(Some(former)) = self.capture.as_mut().and_then(|capture| capture.former.get_mut(key)) {
            change(former);
        }
        if let Some(value) = self.map.get_mut(key) {
            change(value);
        }
    }
}

impl<V> Capture<V> {
    fn keep(&mut self, key: &[u8], value: impl FnOnce() -> Option<V>) {
        let done = self.done_to.as_deref().is_some_and(|done| key <= done);
        if !done && !self.former.contains_key(key) {
            self.former.insert(key.into(), value());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_capture_is_the_content_of_its_moment(
            before in prop::collection::btree_map(0u8..50, any::<u8>(), 0..40),
            during in prop::collection::vec((0u8..50, prop::option::of(any::<u8>()), 0usize..5), 0..80),
        ) {
            let mut table = Table::default();
            let mut model = before.clone();
            before.iter().for_each(|(k, v)| { table.insert(Box::new([*k]), *v); });
            table.begin_capture();
            let mut captured = Vec::new();
            let mut over = false;
            for (key, value, take) in during {
                match value {
                    Some(v) if v % 2 == 0 => { table.insert(Box::new([key]), v); model.insert(key, v); }
                    Some(v) => if let Some(slot) = table.get_mut(&[key]) { *slot = v; model.insert(key, v); },
                    None => prop_assert_eq!(table.remove(&[key]), model.remove(&key)),
                }
                if !over && take > 0 {
                    let mut left = take;
                    over = table.capture_next(|k, v| { captured.push((k[0], *v)); left -= 1; left > 0 });
                }
            }
            if !over {
                let rest = table.capture_next(|k, v| {
                    captured.push((k[0], *v));
                    true
                });
                prop_assert!(rest);
            }
            prop_assert!(!table.is_capturing());
            prop_assert_eq!(captured, before.into_iter().collect::<Vec<_>>());
            prop_assert!(table.range(&[], None).map(|(k, v)| (k[0], *v)).eq(model));
        }
    }
}

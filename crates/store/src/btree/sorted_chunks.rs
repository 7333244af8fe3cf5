//! A sorted set in memory from which whole ranges can be removed at little cost.
//!
//! Items are in chunks. Removing a range moves chunks, not items, to a [`Graveyard`], which drops its items a few at a
//! time: a range of a million items costs some ten thousand moves of 64 bytes.

use std::cmp::Ordering;
use std::ops::Range;

/// An item of a set.
pub(super) trait Item {
    fn key(&self) -> &[u8];
    fn memory_bytes(&self) -> usize;

    /// Returns the [`tail`] of the key.
    fn tail(&self) -> u32 {
        tail(self.key())
    }
}

/// Returns the last four bytes of a key as a number: the segments of one object differ in them alone. They say nothing
/// about the order of other keys.
#[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
pub(super) fn tail(key: &[u8]) -> u32 {
    key.last_chunk().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// The first 24 bytes of a key, padded with zeros, as numbers. Keys with different heads sort like their heads. Almost
/// all comparisons are decided here: two entries of a group's log differ within these bytes, and so do objects with
/// different hashes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Head(u64, u64, u64);

const HEAD_BYTES: usize = size_of::<Head>();

impl Head {
    fn of(key: &[u8]) -> Head {
        if let Some(bytes) = key.first_chunk() {
            return Head::of_bytes(bytes);
        }
        let mut bytes = [0; HEAD_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        Head::of_bytes(&bytes)
    }

    #[expect(clippy::big_endian_bytes, reason = "byte order must be number order")]
    fn of_bytes(bytes: &[u8; HEAD_BYTES]) -> Head {
        let (words, _) = bytes.as_chunks();
        Head(u64::from_be_bytes(words[0]), u64::from_be_bytes(words[1]), u64::from_be_bytes(words[2]))
    }

    fn is_below(&self, other: &Head) -> bool {
        if self.0 != other.0 {
            return self.0 < other.0;
        }
        if self.1 != other.1 { self.1 < other.1 } else { self.2 < other.2 }
    }
}

/// Maximum number of items of a chunk.
const CHUNK_ITEMS: usize = 128;
/// A chunk with fewer items than this joins its neighbour if one chunk has ample room for both.
const CHUNK_ITEMS_FEW: usize = CHUNK_ITEMS / 8;

#[derive(Debug)]
struct Chunk<T> {
    /// Head of the first item.
    head: Head,
    /// Heads of all items, side by side, so that a search goes through little memory.
    heads: Vec<Head>,
    /// Sorted and never empty.
    items: Vec<T>,
    bytes: usize,
}

impl<T: Item> Chunk<T> {
    fn of_one(head: Head, item: T) -> Chunk<T> {
        let bytes = item.memory_bytes();
        Chunk { head, heads: vec![head], items: vec![item], bytes }
    }

    /// Takes the items of a range out; returns `None` if the range is empty.
    fn take(&mut self, range: Range<usize>) -> Option<Chunk<T>> {
        let heads: Vec<Head> = self.heads.drain(range.clone()).collect();
        let items: Vec<T> = self.items.drain(range).collect();
        let bytes = items.iter().map(Item::memory_bytes).sum();
        self.bytes -= bytes;
        Some(Chunk { head: *heads.first()?, heads, items, bytes })
    }

    /// Returns true if all keys are above `key`.
    fn is_behind(&self, head: Head, key: &[u8]) -> bool {
        match self.head == head {
            true => self.items[0].key() > key,
            false => head.is_below(&self.head),
        }
    }

    /// Compares the first item's key with `key`.
    fn cmp_first(&self, head: Head, key: &[u8]) -> Ordering {
        self.head.cmp(&head).then_with(|| self.items[0].key().cmp(key))
    }

    /// Returns the index of the key, or the index where it would be inserted.
    fn find(&self, head: Head, key: &[u8]) -> Result<usize, usize> {
        let begin = self.heads.partition_point(|other| other.is_below(&head));
        if self.heads.get(begin) != Some(&head) {
            return Err(begin);
        }
        let same = 1 + self.heads[begin + 1..].partition_point(|other| *other == head);
        let items = &self.items[begin..begin + same];
        let found = Self::guess(items, key).unwrap_or_else(|| items.binary_search_by(|item| item.key().cmp(key)));
        found.map(|at| begin + at).map_err(|at| begin + at)
    }

    /// Returns the place of a key among items if their tails tell it: then two keys at most are looked at, which lie in
    /// memory of their own.
    fn guess(items: &[T], key: &[u8]) -> Option<Result<usize, usize>> {
        let tail = tail(key);
        let at = items.partition_point(|item| item.tail() < tail);
        match items.get(at).map_or(Ordering::Greater, |item| item.key().cmp(key)) {
            Ordering::Equal => Some(Ok(at)),
            Ordering::Greater if at == 0 || items[at - 1].key() < key => Some(Err(at)),
            _ => None,
        }
    }
}

/// A place between items: the chunk and item that it precedes. It is behind the last item of a chunk only in the last
/// chunk.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Position {
    chunk: usize,
    item: usize,
}

#[derive(Debug)]
pub(super) struct SortedChunks<T> {
    chunks: Vec<Chunk<T>>,
    len: usize,
    bytes: usize,
}

impl<T> Default for SortedChunks<T> {
    fn default() -> SortedChunks<T> {
        SortedChunks { chunks: Vec::new(), len: 0, bytes: 0 }
    }
}

impl<T: Item> SortedChunks<T> {
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the memory of all items, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the chunk that holds the key or would hold it (0 if there is no chunk), and the key's place in it.
    fn find(&self, head: Head, key: &[u8]) -> (usize, Result<usize, usize>) {
        let behind = self.chunks.partition_point(|chunk| !chunk.is_behind(head, key));
        let chunk = behind.saturating_sub(1);
        self.chunks.get(chunk).map_or((0, Err(0)), |found| (chunk, found.find(head, key)))
    }

    pub fn get(&self, key: &[u8]) -> Option<&T> {
        let (chunk, item) = self.find(Head::of(key), key);
        item.ok().map(|item| &self.chunks[chunk].items[item])
    }

    /// Returns the place before the first item whose key is not below `key`.
    pub fn lower_bound(&self, key: &[u8]) -> Position {
        let (chunk, item) = self.find(Head::of(key), key);
        self.position(chunk, item.unwrap_or_else(|item| item))
    }

    /// Returns the place before the first item whose key is above `key`.
    pub fn upper_bound(&self, key: &[u8]) -> Position {
        let (chunk, item) = self.find(Head::of(key), key);
        self.position(chunk, item.map_or_else(|item| item, |item| item + 1))
    }

    fn position(&self, chunk: usize, item: usize) -> Position {
        match self.chunks.get(chunk) {
            Some(found) if item == found.items.len() && chunk + 1 < self.chunks.len() => {
                Position { chunk: chunk + 1, item: 0 }
            }
            _ => Position { chunk, item },
        }
    }

    /// Returns the last item before a place.
    pub fn before(&self, at: Position) -> Option<&T> {
        match at.item.checked_sub(1) {
            Some(item) => Some(&self.chunks[at.chunk].items[item]),
            None => self.chunks[..at.chunk].last().and_then(|chunk| chunk.items.last()),
        }
    }

    /// Returns the items from a place on, in order.
    pub fn iter_from(&self, at: Position) -> Iter<'_, T> {
        match self.chunks.get(at.chunk) {
            Some(chunk) => Iter { items: chunk.items[at.item..].iter(), chunks: self.chunks[at.chunk + 1..].iter() },
            None => Iter { items: [].iter(), chunks: [].iter() },
        }
    }

    /// Inserts an item; returns the one it replaces.
    pub fn insert(&mut self, item: T) -> Option<T> {
        let head = Head::of(item.key());
        let (at, place) = self.find(head, item.key());
        match place {
            Ok(place) => Some(self.replace(at, place, item)),
            Err(place) => {
                self.insert_at(at, place, head, item);
                None
            }
        }
    }

    /// Puts an item with this key, with one search. `make` gets the item of this key that is there already, and may
    /// change it, but neither its key nor its memory. It returns an item with this key, which takes that one's place;
    /// it must return one if it got none.
    pub fn put(&mut self, key: &[u8], make: impl FnOnce(Option<&mut T>) -> Option<T>) {
        let head = Head::of(key);
        let (at, place) = self.find(head, key);
        match place {
            Ok(place) => {
                if let Some(item) = make(Some(&mut self.chunks[at].items[place])) {
                    self.replace(at, place, item);
                }
            }
            Err(place) => {
                let item = make(None).expect("there is none that stays");
                self.insert_at(at, place, head, item);
            }
        }
    }

    fn replace(&mut self, at: usize, place: usize, item: T) -> T {
        let chunk = &mut self.chunks[at];
        let bytes = item.memory_bytes();
        let old = std::mem::replace(&mut chunk.items[place], item);
        chunk.bytes = chunk.bytes + bytes - old.memory_bytes();
        self.bytes = self.bytes + bytes - old.memory_bytes();
        old
    }

    /// Inserts an item into the chunk `at`, or as the first of all.
    fn insert_at(&mut self, mut at: usize, mut place: usize, head: Head, item: T) {
        let bytes = item.memory_bytes();
        self.bytes += bytes;
        self.len += 1;
        let Some(chunk) = self.chunks.get_mut(at) else {
            return self.chunks.push(Chunk::of_one(head, item));
        };
        if chunk.items.len() == CHUNK_ITEMS {
            // Items that arrive in order leave full chunks behind.
            let kept = if place == CHUNK_ITEMS { CHUNK_ITEMS } else { CHUNK_ITEMS / 2 };
            let Some(rest) = chunk.take(kept..CHUNK_ITEMS) else {
                return self.chunks.insert(at + 1, Chunk::of_one(head, item));
            };
            self.chunks.insert(at + 1, rest);
            if place > kept {
                (at, place) = (at + 1, place - kept);
            }
        }
        let chunk = &mut self.chunks[at];
        chunk.items.insert(place, item);
        chunk.heads.insert(place, head);
        chunk.bytes += bytes;
        chunk.head = chunk.heads[0];
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<T> {
        let (at, place) = self.find(Head::of(key), key);
        let (chunk, place) = (self.chunks.get_mut(at)?, place.ok()?);
        let item = chunk.items.remove(place);
        chunk.heads.remove(place);
        chunk.bytes -= item.memory_bytes();
        self.bytes -= item.memory_bytes();
        self.len -= 1;
        self.mend(at);
        Some(item)
    }

    /// Repairs chunk `at`, which has lost items: removes it if it is empty, or joins it with the next if it has few.
    fn mend(&mut self, at: usize) {
        let Some(first) = self.chunks[at].heads.first() else {
            self.chunks.remove(at);
            return;
        };
        self.chunks[at].head = *first;
        let (len, next) = (self.chunks[at].items.len(), self.chunks.get(at + 1).map_or(CHUNK_ITEMS, |c| c.items.len()));
        if len < CHUNK_ITEMS_FEW && len + next <= CHUNK_ITEMS / 2 {
            let next = self.chunks.remove(at + 1);
            self.chunks[at].bytes += next.bytes;
            self.chunks[at].heads.extend(next.heads);
            self.chunks[at].items.extend(next.items);
        }
    }

    /// Moves the items between two places to the graveyard.
    pub fn cut(&mut self, from: Position, to: Position, graveyard: &mut Graveyard<T>) {
        if from >= to {
            return;
        }
        let mut take = |chunk: Chunk<T>| {
            self.bytes -= chunk.bytes;
            self.len -= chunk.items.len();
            graveyard.bury(chunk);
        };
        if from.chunk == to.chunk {
            self.chunks[from.chunk].take(from.item..to.item).into_iter().for_each(&mut take);
            return self.mend(from.chunk);
        }
        let end = self.chunks[from.chunk].items.len();
        self.chunks[from.chunk].take(from.item..end).into_iter().for_each(&mut take);
        if let Some(last) = self.chunks.get_mut(to.chunk) {
            last.take(0..to.item).into_iter().for_each(&mut take);
        }
        self.chunks.drain(from.chunk + 1..to.chunk).for_each(take);
        if from.chunk + 1 < self.chunks.len() {
            self.mend(from.chunk + 1);
        }
        self.mend(from.chunk);
    }

    /// Takes the items between two places out, moving chunks, as [`SortedChunks::cut`] does.
    pub fn take(&mut self, from: Position, to: Position) -> SortedChunks<T> {
        let mut taken = Graveyard::default();
        self.cut(from, to, &mut taken);
        let Graveyard { mut chunks, bytes } = taken;
        chunks.sort_unstable_by(|a, b| b.cmp_first(a.head, a.items[0].key()).reverse());
        SortedChunks { len: chunks.iter().map(|chunk| chunk.items.len()).sum(), chunks, bytes }
    }

    /// Adds items that all lie behind those of this set.
    pub fn append(&mut self, behind: SortedChunks<T>) {
        if let (Some(last), Some(first)) = (self.chunks.last(), behind.chunks.first()) {
            let last = last.items.last().expect("chunks are not empty").key();
            assert!(*last < *first.items[0].key(), "{last:x?} is not before what is appended");
        }
        self.chunks.extend(behind.chunks);
        (self.len, self.bytes) = (self.len + behind.len, self.bytes + behind.bytes);
    }

    /// Moves all items to the graveyard.
    pub fn bury(self, graveyard: &mut Graveyard<T>) {
        self.chunks.into_iter().for_each(|chunk| graveyard.bury(chunk));
    }
}

#[derive(Debug)]
pub(super) struct Iter<'a, T> {
    items: std::slice::Iter<'a, T>,
    chunks: std::slice::Iter<'a, Chunk<T>>,
}

impl<'a, T> Iterator for Iter<'a, T> {
    type Item = &'a T;

    fn next(&mut self) -> Option<&'a T> {
        loop {
            if let Some(item) = self.items.next() {
                return Some(item);
            }
            self.items = self.chunks.next()?.items.iter();
        }
    }
}

/// Items that are no longer in a set and wait for their memory to be freed.
#[derive(Debug)]
pub(super) struct Graveyard<T> {
    chunks: Vec<Chunk<T>>,
    bytes: usize,
}

impl<T> Default for Graveyard<T> {
    fn default() -> Graveyard<T> {
        Graveyard { chunks: Vec::new(), bytes: 0 }
    }
}

impl<T: Item> Graveyard<T> {
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn bury(&mut self, chunk: Chunk<T>) {
        self.bytes += chunk.bytes;
        self.chunks.push(chunk);
    }

    /// Frees up to `count` items; returns true if none is left.
    pub fn shed(&mut self, count: usize) -> bool {
        for _ in 0..count {
            let Some(last) = self.chunks.last_mut() else { return true };
            let item = last.items.pop().expect("chunks are not empty");
            self.bytes -= item.memory_bytes();
            if last.items.is_empty() {
                self.chunks.pop();
            }
        }
        self.chunks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, PartialEq, Debug)]
    struct Thing {
        key: Vec<u8>,
        size: usize,
    }

    impl Item for Thing {
        fn key(&self) -> &[u8] {
            &self.key
        }

        fn memory_bytes(&self) -> usize {
            self.size
        }
    }

    /// Keys in number order. Those of a group of 32 have one head, but for the first, which is short. Tails are in the
    /// order of keys in every other group, and in the reverse order in the others.
    fn key(number: u16) -> Vec<u8> {
        let (group, low) = (number / 32, (number % 32) as u8);
        let mut key = vec![(group >> 8) as u8, group as u8];
        if low > 0 {
            key.extend_from_slice(b"the same for all of a group ");
            key.push(low);
            if !group.is_multiple_of(2) {
                key.extend([0, 0, 0xff - low, 0]);
            }
        }
        key
    }

    fn sound(set: &SortedChunks<Thing>) {
        assert!(set.chunks.iter().all(|chunk| (1..=CHUNK_ITEMS).contains(&chunk.items.len())));
        let heads_of = |chunk: &Chunk<Thing>| chunk.items.iter().map(|item| Head::of(&item.key)).collect::<Vec<Head>>();
        assert!(set.chunks.iter().all(|chunk| chunk.heads == heads_of(chunk) && chunk.head == chunk.heads[0]));
        let bytes_of = |chunk: &Chunk<Thing>| chunk.items.iter().map(|item| item.size).sum::<usize>();
        assert!(set.chunks.iter().all(|chunk| chunk.bytes == bytes_of(chunk)));
        assert_eq!(set.bytes, set.chunks.iter().map(|chunk| chunk.bytes).sum::<usize>());
    }

    proptest! {
        #[test]
        fn a_set_is_a_map(steps in prop::collection::vec((0u8..8, 0u16..2000, 0u16..900, 1usize..50), 1..60)) {
            let (mut set, mut graveyard, mut model) = (SortedChunks::default(), Graveyard::default(), BTreeMap::new());
            for (action, number, count, size) in steps {
                let (from, to) = (key(number), key(number + count));
                match action {
                    0..=2 => for number in number..number + count {
                        let thing = Thing { key: key(number), size };
                        let old = model.insert(key(number), thing.clone());
                        prop_assert_eq!(set.insert(thing), old);
                    },
                    3 => for number in (number..number + count).rev().step_by(3) {
                        let thing = Thing { key: key(number), size };
                        let old = model.insert(key(number), thing.clone());
                        let mut found = None;
                        set.put(&key(number), |there| {
                            found = there.as_deref().cloned();
                            there.is_none_or(|there| there.size != size).then_some(thing)
                        });
                        prop_assert_eq!(found, old);
                    },
                    4 => for number in (number..number + count).filter(|number| number % 5 > 0) {
                        prop_assert_eq!(set.remove(&key(number)), model.remove(&key(number)));
                    },
                    5 => {
                        prop_assert!(set.iter_from(set.lower_bound(&from)).eq(model.range(from.clone()..).map(|(_, item)| item)));
                        let upper = set.upper_bound(&from);
                        prop_assert_eq!(set.before(upper), model.range(..=from.clone()).next_back().map(|(_, item)| item));
                        prop_assert_eq!(set.before(set.lower_bound(&from)), model.range(..from.clone()).next_back().map(|(_, item)| item));
                        prop_assert_eq!(set.get(&from), model.get(&from));
                    }
                    6 => {
                        set.cut(set.lower_bound(&from), set.lower_bound(&to), &mut graveyard);
                        model.retain(|key, _| !(from <= *key && *key < to));
                    }
                    7 if number % 2 == 0 => {
                        set.cut(set.lower_bound(&from), set.upper_bound(&to), &mut graveyard);
                        model.retain(|key, _| !(from <= *key && *key <= to));
                    }
                    _ => {
                        let mut taken = set.take(set.lower_bound(&from), set.lower_bound(&to));
                        let (mut expected, rest): (BTreeMap<_, _>, BTreeMap<_, _>) = model.into_iter().partition(|(key, _)| from <= *key && *key < to);
                        model = rest;
                        sound(&taken);
                        prop_assert!(taken.iter_from(taken.lower_bound(&[])).eq(expected.values()));
                        prop_assert_eq!(taken.len(), expected.len());
                        taken.append(set.take(set.lower_bound(&to), set.lower_bound(&[0xff])));
                        let (behind, before) = model.into_iter().partition(|(key, _)| *key >= to);
                        model = before;
                        expected.extend::<BTreeMap<_, _>>(behind);
                        sound(&taken);
                        prop_assert!(taken.iter_from(taken.lower_bound(&[])).eq(expected.values()));
                    }
                }
                sound(&set);
                prop_assert!(set.iter_from(set.lower_bound(&[])).eq(model.values()));
                graveyard.shed(10);
            }
            set.bury(&mut graveyard);
            while !graveyard.shed(100) {}
            prop_assert_eq!(graveyard.bytes(), 0);
        }
    }
}

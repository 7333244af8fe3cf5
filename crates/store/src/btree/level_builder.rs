//! Entries of one level that wait to be put into pages.

use super::PAGE_BYTES;
use super::child::Child;
use super::layout::{CHILD_HEAD_BYTES, ENTRY_PAYLOAD, HEADER_BYTES, LEAF_HEAD_BYTES, OVERFLOW_BIT, SLOT_BYTES};
use super::le;
use super::page::{Header, head_bytes, seal, slot_of};

/// Fill of pages cut while more entries are to come: 90 %. Later entries then mostly find room.
const TARGET_BYTES: usize = PAGE_BYTES / 10 * 9;
/// Pages below this fill are underfull and should join their neighbours: 40 %.
const UNDERFULL_BYTES: usize = PAGE_BYTES / 10 * 4;
/// Maximum fill of pages at the end of a range, where the last entries are balanced over the last pages: 97 %.
const BALANCED_BYTES: usize = PAGE_BYTES / 100 * 97;
/// Pages with an average fill below this should take in a neighbour and share the entries: 80 %.
const SHARED_BYTES: usize = PAGE_BYTES / 10 * 8;
/// Sharing applies only to entries of at most this many bytes on average. A few larger entries fill a page, so nearly
/// every one that is added would have neighbours read and rewritten.
const SHARED_ENTRY_BYTES: usize = PAGE_BYTES / 16;
/// Arena bytes of entries already in pages, before the rest of the arena moves to the front.
const SLACK_BYTES: usize = 64 << 10;
// A page that is cut full, or shares with a neighbour, is not underfull, and balanced pages are the fullest.
const _: () = assert!(2 * UNDERFULL_BYTES <= TARGET_BYTES && UNDERFULL_BYTES < SHARED_BYTES);
const _: () = assert!(SHARED_BYTES < TARGET_BYTES && TARGET_BYTES < BALANCED_BYTES && BALANCED_BYTES < PAGE_BYTES);

#[derive(Clone, Copy, Debug)]
struct PendingEntry {
    /// Offset in the arena where key and payload begin.
    at: u32,
    key: u16,
    /// Bytes of the value, overflow or child behind the key.
    payload: u16,
    overflow: bool,
}

/// A page cut off the front of a builder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cut {
    pub crc: u32,
    pub overflow: bool,
}

/// Collects sorted entries and cuts pages off their front: full ones while more come, balanced ones at the end.
#[derive(Debug)]
pub(crate) struct LevelBuilder {
    level: u8,
    arena: Vec<u8>,
    items: Vec<PendingEntry>,
    /// Items before this index are in pages already.
    first: usize,
    /// Bytes of the pending entries with their whole keys.
    full_bytes: usize,
    /// A lower bound of the first pending key, above all keys before it.
    lower: Vec<u8>,
}

/// Returns the number of pages that the last bytes of a range are shared among.
fn pages_at_end(bytes: usize) -> usize {
    bytes.div_ceil(BALANCED_BYTES).max(2)
}

/// Returns true if entries that exceed one page would fill their pages so poorly that they should take in a neighbour.
fn share_poorly(bytes: usize, entries: usize) -> bool {
    bytes < pages_at_end(bytes) * SHARED_BYTES && bytes <= entries * SHARED_ENTRY_BYTES
}

/// Returns true if the entries of a page, with their changes, should take in a neighbour. `bytes`: of all of them.
pub(crate) fn wants_neighbour(bytes: usize, entries: usize) -> bool {
    bytes < UNDERFULL_BYTES || bytes > PAGE_BYTES && share_poorly(bytes, entries)
}

fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Returns the length of the shortest key above `below` and not above `from`, which is a prefix of `from`.
fn separator_bytes(below: &[u8], from: &[u8]) -> usize {
    assert!(below < from, "keys out of order: {below:x?}, {from:x?}");
    common_prefix(below, from) + 1
}

impl LevelBuilder {
    pub fn new(level: u8) -> LevelBuilder {
        LevelBuilder { level, arena: Vec::new(), items: Vec::new(), first: 0, full_bytes: 0, lower: Vec::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.first == self.items.len()
    }

    pub fn len(&self) -> usize {
        self.items.len() - self.first
    }

    /// Begins a range of entries from `lower` on; all entries before are below it.
    pub fn begin_range(&mut self, lower: &[u8]) {
        if self.is_empty() {
            self.lower.clear();
            self.lower.extend_from_slice(lower);
        }
    }

    /// Adds an entry whose key is `prefix` and `suffix` and whose value is inline.
    pub fn push_inline(&mut self, prefix: &[u8], suffix: &[u8], value: &[u8]) {
        self.push(prefix, suffix, value, false);
    }

    /// Adds an entry with an encoded [`super::overflow::Overflow`].
    pub fn push_overflow(&mut self, prefix: &[u8], suffix: &[u8], encoded: &[u8]) {
        self.push(prefix, suffix, encoded, true);
    }

    /// Adds a child whose keys are all at or above `lower`.
    pub fn push_child(&mut self, lower: (&[u8], &[u8]), child: &Child) {
        if self.is_empty() {
            self.lower.clear();
            self.lower.extend_from_slice(lower.0);
            self.lower.extend_from_slice(lower.1);
        }
        self.push(lower.0, lower.1, &child.encode(), child.overflow);
    }

    fn push(&mut self, prefix: &[u8], suffix: &[u8], payload: &[u8], overflow: bool) {
        let at = self.arena.len() as u32;
        self.arena.extend_from_slice(prefix);
        self.arena.extend_from_slice(suffix);
        self.arena.extend_from_slice(payload);
        let item =
            PendingEntry { at, key: (prefix.len() + suffix.len()) as u16, payload: payload.len() as u16, overflow };
        self.full_bytes += self.bytes_of(&item);
        self.items.push(item);
    }

    /// Returns an item's bytes in a page without prefix.
    fn bytes_of(&self, item: &PendingEntry) -> usize {
        let payload = if self.level == 0 { usize::from(item.payload) } else { 0 };
        SLOT_BYTES + head_bytes(self.level) + usize::from(item.key) + payload
    }

    fn key(&self, item: &PendingEntry) -> &[u8] {
        &self.arena[item.at as usize..item.at as usize + usize::from(item.key)]
    }

    fn payload(&self, item: &PendingEntry) -> &[u8] {
        let at = item.at as usize + usize::from(item.key);
        &self.arena[at..at + usize::from(item.payload)]
    }

    /// Returns the items that are not in pages yet.
    fn pending(&self) -> &[PendingEntry] {
        &self.items[self.first..]
    }

    /// Returns the length of the common prefix that a page of the first `count` pending items would store.
    fn prefix_bytes(&self, count: usize) -> usize {
        let stored = &self.pending()[usize::from(self.level > 0).min(count)..count];
        match (stored.first(), stored.last()) {
            (Some(first), Some(last)) => common_prefix(self.key(first), self.key(last)),
            _ => 0,
        }
    }

    /// Returns the bytes of a page of the first `count` pending items, which take `full_bytes` with their whole keys.
    fn page_bytes(&self, count: usize, full_bytes: usize) -> usize {
        let prefix = self.prefix_bytes(count);
        if self.level == 0 {
            return HEADER_BYTES + prefix + full_bytes - count * prefix;
        }
        // The first child's key is not stored.
        let first = self.pending().first().map_or(0, |first| usize::from(first.key));
        HEADER_BYTES + prefix + full_bytes - first - (count - 1) * prefix
    }

    /// Returns the bytes of one page with all pending items, however large it is.
    fn pending_bytes(&self) -> usize {
        if self.is_empty() { HEADER_BYTES } else { self.page_bytes(self.len(), self.full_bytes) }
    }

    /// Returns true if the pending items would make an underfull page.
    pub fn is_underfull(&self) -> bool {
        self.pending_bytes() < UNDERFULL_BYTES
    }

    /// Returns true if the pending items need more than one page and would leave those half empty.
    pub fn splits_poorly(&self) -> bool {
        if self.full_bytes <= PAGE_BYTES - HEADER_BYTES {
            return false;
        }
        let bytes = self.pending_bytes();
        bytes > PAGE_BYTES && share_poorly(bytes, self.len())
    }

    /// Returns true if a page can be cut while more is to come.
    pub fn is_ripe(&self) -> bool {
        // Whole keys give an upper bound that is cheap to compute.
        self.full_bytes > 2 * TARGET_BYTES && self.pending_bytes() > 2 * TARGET_BYTES
    }

    /// Returns the number of pending items that go into the next page.
    fn cut_count(&self, last: bool) -> usize {
        let all = self.pending_bytes();
        if last && all <= PAGE_BYTES {
            return self.len();
        }
        let limit = if last { all / pages_at_end(all) } else { TARGET_BYTES };
        let (mut count, mut full_bytes, mut page_bytes) = (0, 0, 0);
        for item in self.pending() {
            let full = full_bytes + self.bytes_of(item);
            let bytes = self.page_bytes(count + 1, full);
            // The last pages are cut once they have their share, since the rest might need one more page otherwise.
            // Other pages are cut as near to the target as possible.
            let reached = page_bytes >= limit || !last && bytes > limit && bytes - limit > limit - page_bytes;
            if count > 0 && (bytes > PAGE_BYTES || reached) {
                break;
            }
            (count, full_bytes, page_bytes) = (count + 1, full, bytes);
        }
        if last { count } else { count.min(self.len() - 1) }
    }

    /// Cuts a page off the front into `page`, and puts the lower bound of its keys into `lower`. `last`: no further
    /// item comes before the page that follows in the tree. Panics if nothing is pending.
    pub fn cut(
        &mut self,
        last: bool,
        page: &mut [u8],
        tag: u64,
        generation: u64,
        block: u32,
        lower: &mut Vec<u8>,
    ) -> Cut {
        assert!(!self.is_empty(), "no entries for a page of level {}", self.level);
        let count = self.cut_count(last);
        let prefix_bytes = self.prefix_bytes(count);
        let used_bytes = self.write(count, prefix_bytes, page);
        let overflow = self.pending()[..count].iter().any(|item| item.overflow);
        let header = Header {
            level: self.level,
            overflow,
            count: count as u16,
            prefix_bytes: prefix_bytes as u16,
            tag,
            generation,
            block,
            used_bytes: used_bytes as u16,
        };
        let crc = seal(page, &header);
        lower.clear();
        lower.extend_from_slice(&self.lower);
        self.drop_front(count);
        Cut { crc, overflow }
    }

    /// Writes prefix, slots and entries into a page; returns the end of the entries.
    fn write(&self, count: usize, prefix_bytes: usize, page: &mut [u8]) -> usize {
        let items = &self.pending()[..count];
        let stored = usize::from(self.level > 0);
        if let Some(item) = items.get(stored.min(count - 1)) {
            le::put(page, HEADER_BYTES, &self.key(item)[..prefix_bytes]);
        }
        let slots = HEADER_BYTES + prefix_bytes;
        let mut at = slots + count * SLOT_BYTES;
        for (index, item) in items.iter().enumerate() {
            let key: &[u8] = if index < stored { &[] } else { &self.key(item)[prefix_bytes..] };
            le::put(page, slots + index * SLOT_BYTES, &slot_of(at, key));
            let payload = self.payload(item);
            le::put(page, at, &(key.len() as u16).to_le_bytes());
            if self.level == 0 {
                let flag = if item.overflow { OVERFLOW_BIT } else { 0 };
                le::put(page, at + ENTRY_PAYLOAD, &(item.payload | flag).to_le_bytes());
                le::put(page, at + LEAF_HEAD_BYTES, key);
                at += LEAF_HEAD_BYTES + key.len();
                le::put(page, at, payload);
                at += payload.len();
            } else {
                le::put(page, at + ENTRY_PAYLOAD, payload);
                le::put(page, at + CHILD_HEAD_BYTES, key);
                at += CHILD_HEAD_BYTES + key.len();
            }
        }
        at
    }

    fn drop_front(&mut self, count: usize) {
        let gone: usize = self.pending()[..count].iter().map(|item| self.bytes_of(item)).sum();
        self.full_bytes -= gone;
        let last = self.items[self.first + count - 1];
        self.first += count;
        let Some(next) = self.items.get(self.first).copied() else {
            self.items.clear();
            self.arena.clear();
            self.first = 0;
            return;
        };
        // Children's keys are separators already.
        let bytes = match self.level {
            0 => separator_bytes(self.key(&last), self.key(&next)),
            _ => usize::from(next.key),
        };
        self.lower.clear();
        self.lower.extend_from_slice(&self.arena[next.at as usize..next.at as usize + bytes]);
        if next.at as usize > SLACK_BYTES {
            self.arena.drain(..next.at as usize);
            self.items.drain(..self.first);
            self.first = 0;
            self.items.iter_mut().for_each(|item| item.at -= next.at);
        }
    }

    /// Returns the only pending child, if there is exactly one.
    pub fn only_child(&self) -> Option<Child> {
        match self.pending() {
            [item] if self.level > 0 => Child::decode(self.payload(item)),
            _ => None,
        }
    }
}

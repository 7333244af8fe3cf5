//! One page in its form on the device, checked once, then searched in place.

use super::child::{Child, PageRef};
use super::damage::DamageKind;
use super::layout::{
    CHILD_HEAD_BYTES, ENTRY_PAYLOAD, FLAG_OVERFLOW, HEAD_BYTES, HEADER_BYTES, KIND_INTERIOR, KIND_LEAF,
    LEAF_HEAD_BYTES, OVERFLOW_BIT, PAGE_MAGIC, PAGE_VERSION, SLOT_BYTES, SLOT_HEAD, header,
};
use super::le::{self, u16_at, u32_at, u64_at};
use super::overflow::Overflow;
use super::{INLINE_BYTES_MAX, KEY_BYTES_MAX, PAGE_BYTES};
use bytes::Bytes;
use std::cmp::Ordering;
use types::crc32c;

/// Returns the bytes of an entry besides its key and value.
pub(crate) const fn head_bytes(level: u8) -> usize {
    if level == 0 { LEAF_HEAD_BYTES } else { CHILD_HEAD_BYTES }
}

/// Returns a slot: the offset of an entry and the head of its key's `suffix`.
pub(crate) fn slot_of(at: usize, suffix: &[u8]) -> [u8; SLOT_BYTES] {
    let mut slot = [0; SLOT_BYTES];
    le::put(&mut slot, 0, &(at as u16).to_le_bytes());
    le::put(&mut slot, SLOT_HEAD, &suffix[..suffix.len().min(HEAD_BYTES)]);
    slot
}

/// The fields of a page's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub level: u8,
    /// True if the page, or one below it, has overflow values.
    pub overflow: bool,
    pub count: u16,
    pub prefix_bytes: u16,
    pub tag: u64,
    pub generation: u64,
    pub block: u32,
    /// Offset of the end of the entries.
    pub used_bytes: u16,
}

/// Writes the header before a page's content and the checksum before the header; returns the checksum.
pub(crate) fn seal(page: &mut [u8], header: &Header) -> u32 {
    assert_eq!(page.len(), PAGE_BYTES, "a page's bytes");
    page[..HEADER_BYTES].fill(0);
    page[header::MAGIC].copy_from_slice(PAGE_MAGIC);
    page[header::VERSION] = PAGE_VERSION;
    page[header::KIND] = if header.level == 0 { KIND_LEAF } else { KIND_INTERIOR };
    page[header::LEVEL] = header.level;
    page[header::FLAGS] = if header.overflow { FLAG_OVERFLOW } else { 0 };
    le::put(page, header::COUNT, &header.count.to_le_bytes());
    le::put(page, header::PREFIX_BYTES, &header.prefix_bytes.to_le_bytes());
    le::put(page, header::TAG, &header.tag.to_le_bytes());
    le::put(page, header::GENERATION, &header.generation.to_le_bytes());
    le::put(page, header::BLOCK, &u64::from(header.block).to_le_bytes());
    le::put(page, header::USED_BYTES, &header.used_bytes.to_le_bytes());
    page[usize::from(header.used_bytes)..].fill(0);
    let crc = crc32c::checksum(&page[header::MAGIC.start..]);
    le::put(page, header::CRC, &crc.to_le_bytes());
    crc
}

/// A leaf entry's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LeafValue<'a> {
    Inline(&'a [u8]),
    /// An encoded [`Overflow`].
    Overflow(&'a [u8]),
}

/// A page whose bytes are those that were written, and well-formed. Clones share the bytes.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    bytes: Bytes,
    level: u8,
    overflow: bool,
    count: u16,
    prefix_bytes: u16,
}

impl Page {
    /// Decodes the page in `bytes`. Errors: anything but the page of this level that `expected` names.
    pub fn decode(bytes: Bytes, tag: u64, expected: &PageRef, level: u8) -> Result<Page, DamageKind> {
        if bytes.len() != PAGE_BYTES {
            return Err(DamageKind::Short { wanted_bytes: PAGE_BYTES, found_bytes: bytes.len() });
        }
        let found = crc32c::checksum(&bytes[header::MAGIC.start..]);
        if found != expected.crc || u32_at(&bytes, header::CRC) != expected.crc {
            return Err(DamageKind::Checksum { expected: expected.crc, found });
        }
        if bytes[header::MAGIC] != *PAGE_MAGIC {
            return Err(DamageKind::Magic);
        }
        if bytes[header::VERSION] != PAGE_VERSION {
            return Err(DamageKind::Version(bytes[header::VERSION]));
        }
        if u64_at(&bytes, header::TAG) != tag {
            return Err(DamageKind::Tag);
        }
        let generation = u64_at(&bytes, header::GENERATION);
        if generation != expected.generation {
            return Err(DamageKind::Generation { expected: expected.generation, found: generation });
        }
        let block = u64_at(&bytes, header::BLOCK);
        if block != u64::from(expected.block) {
            return Err(DamageKind::Place(block));
        }
        if bytes[header::LEVEL] != level {
            return Err(DamageKind::Level { expected: level, found: bytes[header::LEVEL] });
        }
        let kind = if level == 0 { KIND_LEAF } else { KIND_INTERIOR };
        if bytes[header::KIND] != kind || bytes[header::FLAGS] & !FLAG_OVERFLOW != 0 {
            return Err(DamageKind::Structure("kind or flags"));
        }
        if bytes[header::RESERVED].iter().any(|byte| *byte != 0) {
            return Err(DamageKind::Structure("reserved fields"));
        }
        let overflow = bytes[header::FLAGS] & FLAG_OVERFLOW != 0;
        let page = Page {
            level,
            overflow,
            count: u16_at(&bytes, header::COUNT),
            prefix_bytes: u16_at(&bytes, header::PREFIX_BYTES),
            bytes,
        };
        let used = usize::from(u16_at(&page.bytes, header::USED_BYTES));
        page.check(used).map_err(DamageKind::Structure)?;
        Ok(page)
    }

    /// Checks that every entry lies within the page and behind the slots, in key order, so that no accessor goes out of
    /// bounds.
    fn check(&self, used: usize) -> Result<(), &'static str> {
        let count = self.len();
        let entries = HEADER_BYTES + usize::from(self.prefix_bytes) + count * SLOT_BYTES;
        if count == 0 {
            return Err("no entries");
        }
        if used > PAGE_BYTES || entries > used {
            return Err("entries beyond the page's end");
        }
        let head = head_bytes(self.level);
        let mut any_overflow = false;
        for index in 0..count {
            let at = self.slot(index);
            if at < entries || at + head > used {
                return Err("entry outside of the page");
            }
            let key_bytes = usize::from(u16_at(&self.bytes, at));
            let payload =
                if self.level == 0 { usize::from(u16_at(&self.bytes, at + ENTRY_PAYLOAD) & !OVERFLOW_BIT) } else { 0 };
            if at + head + key_bytes + payload > used {
                return Err("entry beyond the page's end");
            }
            if usize::from(self.prefix_bytes) + key_bytes > KEY_BYTES_MAX {
                return Err("key too long");
            }
            if self.level > 0 {
                let child = Child::decode(&self.bytes[at + ENTRY_PAYLOAD..]).ok_or("child")?;
                any_overflow |= child.overflow;
                if index == 0 && key_bytes != 0 {
                    return Err("key of the first child");
                }
            } else {
                match self.value(index) {
                    LeafValue::Inline(value) if value.len() > INLINE_BYTES_MAX => return Err("value too long"),
                    LeafValue::Inline(_) => {}
                    LeafValue::Overflow(encoded) => {
                        any_overflow = true;
                        Overflow::decode(encoded).ok_or("overflow")?;
                    }
                }
            }
            if self.slot_bytes(index) != slot_of(at, self.suffix(index)) {
                return Err("head of a key");
            }
            let ordered = index <= self.first_key() || self.suffix(index - 1) < self.suffix(index);
            if !ordered {
                return Err("order of keys");
            }
        }
        if any_overflow != self.overflow { Err("overflow flag") } else { Ok(()) }
    }

    /// Returns the index of the first entry that has a key.
    fn first_key(&self) -> usize {
        usize::from(self.level > 0)
    }

    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn level(&self) -> u8 {
        self.level
    }

    /// Returns the offset of the end of the last entry.
    pub fn used_bytes(&self) -> usize {
        usize::from(u16_at(&self.bytes, header::USED_BYTES))
    }

    /// Returns the bytes that an entry of a leaf takes.
    pub fn entry_bytes(&self, index: usize) -> usize {
        SLOT_BYTES + LEAF_HEAD_BYTES + self.suffix(index).len() + self.value_range(index).1.len()
    }

    fn slot_bytes(&self, index: usize) -> &[u8] {
        let at = HEADER_BYTES + usize::from(self.prefix_bytes) + index * SLOT_BYTES;
        &self.bytes[at..at + SLOT_BYTES]
    }

    fn slot(&self, index: usize) -> usize {
        usize::from(u16_at(self.slot_bytes(index), 0))
    }

    pub fn prefix(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..HEADER_BYTES + usize::from(self.prefix_bytes)]
    }

    /// Returns an entry's key behind the prefix.
    pub fn suffix(&self, index: usize) -> &[u8] {
        let at = self.slot(index);
        let begin = at + head_bytes(self.level);
        &self.bytes[begin..begin + usize::from(u16_at(&self.bytes, at))]
    }

    /// Returns prefix and suffix of an entry's key. The first child of an interior page has neither.
    pub fn key_parts(&self, index: usize) -> (&[u8], &[u8]) {
        if index < self.first_key() { (&[], &[]) } else { (self.prefix(), self.suffix(index)) }
    }

    /// Sets `out` to the entry's key.
    pub fn key_into(&self, index: usize, out: &mut Vec<u8>) {
        let (prefix, suffix) = self.key_parts(index);
        out.clear();
        out.extend_from_slice(prefix);
        out.extend_from_slice(suffix);
    }

    /// Compares the entry's key with `key`.
    pub fn cmp_key(&self, index: usize, key: &[u8]) -> Ordering {
        let (prefix, suffix) = self.key_parts(index);
        match key.strip_prefix(prefix) {
            Some(rest) => suffix.cmp(rest),
            None => prefix.cmp(key),
        }
    }

    /// Returns `from` plus the number of keys, from entry `from` on, that sort before `key` (or, with `or_equal`, equal
    /// it).
    fn partition(&self, from: usize, key: &[u8], or_equal: bool) -> usize {
        let prefix = self.prefix();
        let Some(rest) = key.strip_prefix(prefix) else {
            return if prefix < key { self.len() } else { from };
        };
        let (mut low, mut high) = (from, self.len());
        let head = slot_of(0, rest);
        while low < high {
            let middle = (low + high) / 2;
            let order = self.slot_bytes(middle)[SLOT_HEAD..].cmp(&head[SLOT_HEAD..]);
            let before = match order.then_with(|| self.suffix(middle).cmp(rest)) {
                Ordering::Less => true,
                Ordering::Equal => or_equal,
                Ordering::Greater => false,
            };
            if before { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Returns the index of a leaf's first entry whose key is not below `key`.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.partition(0, key, false)
    }

    /// Returns the index of the leaf's entry with this key.
    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let at = self.lower_bound(key);
        (at < self.len() && self.cmp_key(at, key) == Ordering::Equal).then_some(at)
    }

    /// Returns the index of the child under which `key` belongs.
    pub fn child_index(&self, key: &[u8]) -> usize {
        self.partition(1, key, true) - 1
    }

    pub fn child(&self, index: usize) -> Child {
        Child::decode(&self.bytes[self.slot(index) + ENTRY_PAYLOAD..]).expect("checked when the page came in")
    }

    /// Returns true if an entry of a leaf has its value in overflow runs.
    pub fn is_overflow(&self, index: usize) -> bool {
        u16_at(&self.bytes, self.slot(index) + ENTRY_PAYLOAD) & OVERFLOW_BIT != 0
    }

    fn value_range(&self, index: usize) -> (bool, std::ops::Range<usize>) {
        let at = self.slot(index);
        let value = u16_at(&self.bytes, at + ENTRY_PAYLOAD);
        let begin = at + LEAF_HEAD_BYTES + usize::from(u16_at(&self.bytes, at));
        (value & OVERFLOW_BIT != 0, begin..begin + usize::from(value & !OVERFLOW_BIT))
    }

    pub fn value(&self, index: usize) -> LeafValue<'_> {
        let (overflow, range) = self.value_range(index);
        let bytes = &self.bytes[range];
        if overflow { LeafValue::Overflow(bytes) } else { LeafValue::Inline(bytes) }
    }

    /// Returns the length of a leaf entry's value, wherever the value lies.
    pub fn value_len(&self, index: usize) -> usize {
        match self.value(index) {
            LeafValue::Inline(value) => value.len(),
            LeafValue::Overflow(encoded) => Overflow::value_bytes_of(encoded),
        }
    }

    /// Returns the bytes of a leaf entry's value, or of its encoded [`Overflow`], sharing the page's memory.
    pub fn value_bytes(&self, index: usize) -> Bytes {
        self.bytes.slice(self.value_range(index).1)
    }

    /// Returns an entry's overflow. Panics if its value is inline.
    pub fn overflow_at(&self, index: usize) -> Overflow {
        let LeafValue::Overflow(encoded) = self.value(index) else { panic!("entry {index} has its value inline") };
        Overflow::decode(encoded).expect("checked when the page came in")
    }

    pub fn has_overflow(&self) -> bool {
        self.overflow
    }
}

//! Class `queue`: a ring of entries in an object's data.
//!
//! The data begins with a head, for which some room is kept; entries follow. An entry is a mark, its length and its
//! bytes. Where the ring ends an entry goes on behind the head.

use crate::method::Method;
use crate::object::{Object, Output, Stop, encoded};
use bytes::{Bytes, BytesMut};
use std::fmt;
use types::Errno;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] = &[
    Method::update("queue_init", init),
    Method::read("queue_get_capacity", get_capacity),
    Method::update("queue_enqueue", enqueue),
    Method::read("queue_list_entries", list),
    Method::update("queue_remove_entries", remove),
];

/// Room for the head, without what the application keeps there.
const HEAD_BYTES: u64 = 1024;
/// Marks of a head and of an entry; each is followed by a length in 64 bits.
const HEAD_MARK: u16 = 0xdead;
const ENTRY_MARK: u16 = 0xbeef;
/// Bytes of a mark and a length.
pub(crate) const OVERHEAD: u64 = 10;

/// A position: an offset in the object, and how often the ring had been gone round before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Marker {
    generation: u64,
    offset: u64,
}

impl Encode for Marker {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.generation);
            w.put(&self.offset);
        });
    }
}

impl Decode for Marker {
    const MIN_BYTES: usize = 22;

    fn decode(r: &mut Reader<'_>) -> Result<Marker, DecodeError> {
        let (_, mut r) = r.versioned("position in a queue", 1)?;
        Ok(Marker { generation: r.get()?, offset: r.get()? })
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.generation, self.offset)
    }
}

impl Marker {
    /// Reads `GENERATION/OFFSET`. Of a text that is none the part before the fault counts, as in a Ceph.
    fn from_text(text: &[u8]) -> Marker {
        let number = |text: &[u8]| {
            let blanks = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let digits = text[blanks..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let value = text[blanks..blanks + digits]
                .iter()
                .try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')));
            (value, if digits == 0 { 0 } else { blanks + digits })
        };
        let (generation, digits) = number(text);
        let marker = Marker { generation: generation.unwrap_or(u64::MAX), offset: 0 };
        match text.get(digits) {
            Some(b'/') if digits > 0 && generation.is_some() => {
                Marker { offset: number(&text[digits + 1..]).0.unwrap_or(u64::MAX), ..marker }
            }
            _ => marker,
        }
    }
}

/// Ceph's `cls_queue_head`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    head_bytes_max: u64,
    front: Marker,
    tail: Marker,
    /// Bytes of the object, the room for the head included.
    size: u64,
    pub urgent_bytes_max: u64,
    /// Data of the application.
    pub urgent: Bytes,
}

impl Encode for Head {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.head_bytes_max);
            w.put(&self.front);
            w.put(&self.tail);
            w.put(&self.size);
            w.put(&self.urgent_bytes_max);
            w.put(&self.urgent);
        });
    }
}

impl Decode for Head {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Head, DecodeError> {
        let (_, mut r) = r.versioned("head of a queue", 1)?;
        Ok(Head {
            head_bytes_max: r.get()?,
            front: r.get()?,
            tail: r.get()?,
            size: r.get()?,
            urgent_bytes_max: r.get()?,
            urgent: r.get()?,
        })
    }
}

/// Bytes with a mark and their length before them.
fn marked(mark: u16, bytes: &[u8]) -> Bytes {
    let mut whole = BytesMut::with_capacity(bytes.len() + OVERHEAD as usize);
    whole.extend_from_slice(&mark.to_le_bytes());
    whole.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    whole.extend_from_slice(bytes);
    whole.freeze()
}

impl Head {
    /// Reads the head. EINVAL if the object has none.
    pub fn read(object: &mut dyn Object) -> Result<Head, Stop> {
        let beginning = object.read(0, HEAD_BYTES)?;
        let mut r = Reader::new(&beginning);
        let (mark, bytes): (u16, u64) = (r.get()?, r.get()?);
        if mark != HEAD_MARK {
            return Err(Errno::EINVAL.into());
        }
        let head = match bytes > HEAD_BYTES - OVERHEAD {
            false => Head::decode(&mut r)?,
            true => {
                let rest = object.read(HEAD_BYTES, bytes - (HEAD_BYTES - OVERHEAD))?;
                let whole = [&beginning[OVERHEAD as usize..], &rest].concat();
                Head::decode(&mut Reader::new(&whole))?
            }
        };
        // Positions lie in the ring.
        let ring = head.head_bytes_max..head.size;
        if head.front != head.tail && !(ring.contains(&head.front.offset) && ring.contains(&head.tail.offset)) {
            return Err(Errno::EINVAL.into());
        }
        Ok(head)
    }

    /// Writes the head. EINVAL if it takes more than the room for it.
    pub fn write(&self, object: &mut dyn Object) -> Result<(), Stop> {
        let whole = marked(HEAD_MARK, &encoded(self));
        if whole.len() as u64 > self.head_bytes_max {
            return Err(Errno::EINVAL.into());
        }
        object.write(0, whole)
    }

    fn is_empty(&self) -> bool {
        self.front == self.tail
    }

    fn capacity(&self) -> u64 {
        self.size.wrapping_sub(self.head_bytes_max)
    }

    /// Bytes that more entries can take. A ring that is full has the whole ring here, as in a Ceph.
    pub fn free_bytes(&self) -> u64 {
        let (front, tail) = (self.front.offset, self.tail.offset);
        match tail >= front {
            true => (self.size.wrapping_sub(tail)).wrapping_add(front.wrapping_sub(self.head_bytes_max)),
            false => front - tail,
        }
    }

    fn is_full(&self) -> bool {
        self.front.offset == self.tail.offset && self.tail.generation == self.front.generation.wrapping_add(1)
    }

    /// Puts entries behind the last one. ENOSPC if there is not enough room; the object is as it was then.
    pub fn push(&mut self, object: &mut dyn Object, entries: &[Bytes]) -> Result<(), Stop> {
        if self.is_full() {
            return Err(Errno::ENOSPC.into());
        }
        for entry in entries {
            let mut bytes = marked(ENTRY_MARK, entry);
            if self.is_full() || bytes.len() as u64 > self.free_bytes() {
                return Err(Errno::ENOSPC.into());
            }
            let until_end = self.size.wrapping_sub(self.tail.offset);
            if bytes.len() as u64 > until_end {
                // It fits: it is less than the length of bytes in memory.
                object.write(self.tail.offset, bytes.split_to(until_end as usize))?;
                self.tail = self.next_round(self.tail);
            }
            let length = bytes.len() as u64;
            object.write(self.tail.offset, bytes)?;
            self.tail.offset += length;
            self.tail = self.wrapped(self.tail);
        }
        Ok(())
    }

    /// A position at the ring's end is one at its beginning.
    fn wrapped(&self, marker: Marker) -> Marker {
        match marker.offset == self.size {
            true => self.next_round(marker),
            false => marker,
        }
    }

    /// The ring's beginning, once more round than a position.
    fn next_round(&self, marker: Marker) -> Marker {
        Marker { generation: marker.generation.wrapping_add(1), offset: self.head_bytes_max }
    }

    /// Returns where a listing from `start` reads: up to two ranges, with their first positions. EINVAL: `start` lies
    /// outside the object.
    fn ranges(&self, start: Marker) -> Result<Vec<(Marker, u64)>, Stop> {
        let (front, tail) = (self.front.offset, self.tail.offset);
        let until = |end: u64| end.checked_sub(start.offset).ok_or(Stop::from(Errno::EINVAL));
        if tail > front {
            return Ok(vec![(start, until(tail)?)]);
        }
        if start.offset >= front {
            let again = self.next_round(start);
            return Ok(vec![(start, until(self.size)?), (again, tail.saturating_sub(again.offset))]);
        }
        Ok(if start.offset <= tail { vec![(start, until(tail)?)] } else { Vec::new() })
    }

    /// Returns `max` entries from a position on, or all if `max` is 0.
    pub fn list(&self, object: &mut dyn Object, max: u64, start: &[u8]) -> Result<Listing, Stop> {
        let mut listing = Listing { is_truncated: false, next: self.front.to_string(), entries: Vec::new() };
        if self.is_empty() {
            return Ok(listing);
        }
        let start = match Marker::from_text(start) {
            Marker { offset: 0, .. } => self.front,
            start => start,
        };
        let ranges = self.ranges(start)?.into_iter();
        let mut ring = RingReader { object, ranges, at: (start, 0), bytes: Bytes::new() };
        let mut next = self.tail;
        while let Some((at, data)) = ring.entry()? {
            listing.entries.push(Entry { data, marker: at.to_string() });
            if listing.entries.len() as u64 == max {
                next = self.wrapped(ring.position());
                break;
            }
        }
        listing.is_truncated = next != self.tail;
        listing.next = next.to_string();
        Ok(listing)
    }

    /// Removes the entries before a position. EINVAL if that lies outside the entries.
    pub fn remove(&mut self, object: &mut dyn Object, end: &[u8]) -> Result<(), Stop> {
        if self.is_empty() {
            return Ok(());
        }
        let end = Marker::from_text(end);
        let is_known = end.offset >= self.head_bytes_max && end.offset <= self.size;
        if !is_known || end < self.front || self.wrapped(end) > self.tail {
            return Err(Errno::EINVAL.into());
        }
        let mut zero = |from: u64, until: u64| match until > from {
            true => object.zero(from, until - from),
            false => Ok(()),
        };
        if end.generation == self.front.generation {
            zero(self.front.offset, end.offset)?;
        } else {
            zero(self.front.offset, self.size)?;
            zero(self.head_bytes_max, end.offset)?;
        }
        self.front = self.wrapped(end);
        Ok(())
    }
}

/// Reads entries of a ring one by one.
struct RingReader<'a> {
    object: &'a mut dyn Object,
    /// Ranges that are not read yet.
    ranges: std::vec::IntoIter<(Marker, u64)>,
    /// First position of the range that is read, and the number of its bytes that were taken.
    at: (Marker, u64),
    /// Bytes of that range that were not taken yet.
    bytes: Bytes,
}

impl RingReader<'_> {
    /// Returns the position of the next byte.
    fn position(&self) -> Marker {
        Marker { offset: self.at.0.offset + self.at.1, ..self.at.0 }
    }

    /// Returns the next entry with its position; `None` if there is no whole one. EINVAL: no entry begins there.
    fn entry(&mut self) -> Result<Option<(Marker, Bytes)>, Stop> {
        if !self.fill()? {
            return Ok(None);
        }
        let at = self.position();
        let Some(start) = self.take(OVERHEAD)? else { return Ok(None) };
        let mut r = Reader::new(&start);
        let (mark, bytes): (u16, u64) = (r.get()?, r.get()?);
        if mark != ENTRY_MARK {
            return Err(Errno::EINVAL.into());
        }
        Ok(self.take(bytes)?.map(|data| (at, data)))
    }

    /// Reads the next range where nothing is left of the present one. Returns false if none has a byte.
    fn fill(&mut self) -> Result<bool, Stop> {
        while self.bytes.is_empty() {
            let Some((start, bytes)) = self.ranges.next() else { return Ok(false) };
            // A length of 0 asks for everything.
            self.bytes = if bytes == 0 { Bytes::new() } else { self.object.read(start.offset, bytes)? };
            self.at = (start, 0);
        }
        Ok(true)
    }

    /// Takes so many bytes, which may go on in the next range; `None` if there are fewer.
    fn take(&mut self, count: u64) -> Result<Option<Bytes>, Stop> {
        let mut taken = BytesMut::new();
        while (taken.len() as u64) < count {
            if !self.fill()? {
                return Ok(None);
            }
            let part = (count - taken.len() as u64).min(self.bytes.len() as u64);
            // It fits: it is no more than the length of bytes in memory.
            taken.extend_from_slice(&self.bytes.split_to(part as usize));
            self.at.1 += part;
        }
        Ok(Some(taken.freeze()))
    }
}

/// Ceph's `cls_queue_entry`.
struct Entry {
    data: Bytes,
    marker: String,
}

impl Encode for Entry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.data);
            w.put(&self.marker);
        });
    }
}

/// Ceph's `cls_queue_list_ret`.
pub(crate) struct Listing {
    is_truncated: bool,
    next: String,
    entries: Vec<Entry>,
}

impl Listing {
    fn output(&self) -> Output {
        Output::of(|w| {
            w.versioned(1, 1, |w| {
                w.bool(self.is_truncated);
                w.put(&self.next);
                w.put(&self.entries);
            });
        })
    }
}

/// A new queue.
pub(crate) struct NewQueue {
    pub capacity: u64,
    pub urgent_bytes_max: u64,
    pub urgent: Bytes,
}

impl NewQueue {
    pub fn decode(input: &mut Reader<'_>) -> Result<NewQueue, DecodeError> {
        let (_, mut r) = input.versioned("a new queue", 1)?;
        Ok(NewQueue { capacity: r.get()?, urgent_bytes_max: r.get()?, urgent: r.get()? })
    }

    /// Writes the head of an empty queue. EEXIST if the object has one.
    pub fn make(self, object: &mut dyn Object) -> Result<Output, Stop> {
        match Head::read(object) {
            Ok(_) => return Err(Errno::EEXIST.into()),
            Err(Stop::Failed { errno: Errno::EINVAL, .. }) => {}
            Err(stop) => return Err(stop),
        }
        let head_bytes_max = HEAD_BYTES.wrapping_add(self.urgent_bytes_max);
        let front = Marker { generation: 0, offset: head_bytes_max };
        let head = Head {
            head_bytes_max,
            front,
            tail: front,
            size: self.capacity.wrapping_add(head_bytes_max),
            urgent_bytes_max: self.urgent_bytes_max,
            urgent: self.urgent,
        };
        head.write(object)?;
        Ok(Output::none())
    }
}

fn init(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    NewQueue::decode(input)?.make(object)
}

pub(crate) fn get_capacity(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let capacity = Head::read(object)?.capacity();
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&capacity))))
}

fn enqueue(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("entries for a queue", 1)?;
    let entries: Vec<Bytes> = r.get()?;
    let mut head = Head::read(object)?;
    head.push(object, &entries)?;
    head.write(object)?;
    Ok(Output::none())
}

pub(crate) fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to list a queue", 1)?;
    let (max, start): (u64, Bytes) = (r.get()?, r.get()?);
    let head = Head::read(object)?;
    Ok(head.list(object, max, &start)?.output())
}

pub(crate) fn remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to remove entries of a queue", 1)?;
    let end: Bytes = r.get()?;
    let mut head = Head::read(object)?;
    head.remove(object, &end)?;
    head.write(object)?;
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};

    fn call(object: &mut TestObject, method: &str, body: impl FnOnce(&mut Writer)) -> (i32, Bytes) {
        object.call("queue", method, &encode(|w| w.versioned(1, 1, body)))
    }

    fn new_queue(capacity: u64) -> TestObject {
        let mut object = TestObject::default();
        let init = |w: &mut Writer| {
            w.put(&capacity);
            w.put(&0_u64);
            w.put(&Bytes::new());
        };
        assert_eq!(call(&mut object, "queue_init", init).0, 0);
        object
    }

    fn enqueue(object: &mut TestObject, entries: &[&'static str]) -> i32 {
        let entries: Vec<Bytes> = entries.iter().map(|entry| Bytes::from(*entry)).collect();
        call(object, "queue_enqueue", |w| w.put(&entries)).0
    }

    fn remove(object: &mut TestObject, end: &str) -> i32 {
        call(object, "queue_remove_entries", |w| w.put(end)).0
    }

    /// Entries with their markers, the next marker, and a flag that more follows.
    type Listed = (Vec<(String, String)>, String, bool);

    fn listed(object: &mut TestObject, max: u64, start: &str) -> Result<Listed, i32> {
        let (value, out) = call(object, "queue_list_entries", |w| {
            w.put(&max);
            w.put(start);
        });
        if value < 0 {
            return Err(value);
        }
        let mut input = Reader::new(&out);
        let (_, mut r) = input.versioned("listing", 1).unwrap();
        let (is_truncated, next, count): (bool, String, u32) = (r.get().unwrap(), r.get().unwrap(), r.get().unwrap());
        let mut entries = Vec::new();
        for _ in 0..count {
            let (_, mut entry) = r.versioned("entry", 1).unwrap();
            let (data, marker): (String, String) = (entry.get().unwrap(), entry.get().unwrap());
            entries.push((marker, data));
        }
        Ok((entries, next, is_truncated))
    }

    #[test]
    fn entries_go_round_the_ring() {
        let mut it = new_queue(40);
        assert_eq!(enqueue(&mut it, &["0123456789", "abcdefghij"]), 0);
        assert_eq!(enqueue(&mut it, &["x"]), -28, "it is full to the last byte");
        let both = [("0/1024", "0123456789"), ("0/1044", "abcdefghij")].map(|(at, data)| (at.into(), data.into()));
        assert_eq!(listed(&mut it, 0, ""), Ok((both.to_vec(), "1/1024".to_owned(), false)));
        assert_eq!(listed(&mut it, 1, ""), Ok((both[..1].to_vec(), "0/1044".to_owned(), true)));
        assert_eq!(remove(&mut it, "0/1044"), 0);
        assert_eq!(enqueue(&mut it, &["four"]), 0);
        assert_eq!(enqueue(&mut it, &["fours"]), -28);
        let rest = [("0/1044", "abcdefghij"), ("1/1024", "four")].map(|(at, data)| (at.into(), data.into()));
        assert_eq!(listed(&mut it, 9, ""), Ok((rest.to_vec(), "1/1038".to_owned(), false)));
        assert_eq!(remove(&mut it, "1/1024"), 0);
        assert_eq!(enqueue(&mut it, &["split over end!"]), 0);
        let last = listed(&mut it, 9, "1/1038").unwrap();
        assert_eq!((last.0, last.1.as_str()), (vec![("1/1038".into(), "split over end!".into())], "1/1063"));
        assert_eq!(remove(&mut it, "1/1038"), 0);
        assert_eq!(enqueue(&mut it, &["round"]), 0);
        let (entries, next, _) = listed(&mut it, 9, "").unwrap();
        assert_eq!((entries.len(), next.as_str(), &entries[1].1[..]), (2, "2/1038", "round"));
    }

    #[test]
    fn more_entries_than_there_is_room_for_change_nothing() {
        let mut it = new_queue(40);
        let before = it.clone();
        // A Ceph writes the third one over the first.
        assert_eq!(enqueue(&mut it, &["0123456789", "abcdefghij", "x"]), -28);
        assert_eq!(it.data, before.data);
    }

    #[test]
    fn positions_outside_the_entries_are_refused() {
        let mut it = new_queue(100);
        assert_eq!(enqueue(&mut it, &["a", "b"]), 0);
        // A Ceph's front would then be behind its tail; of the listings it never answers the first.
        for end in ["0/1060", "0/1000", "1/1024", "1/1040", "2/1024", "0/1126", "junk"] {
            assert_eq!(remove(&mut it, end), -22, "{end}");
        }
        assert_eq!(listed(&mut it, 9, "0/1100"), Err(-22));
        assert_eq!(listed(&mut it, 9, "0/1025"), Err(-22));
        assert_eq!(listed(&mut it, 9, "0/18446744073709551616"), Err(-22));
        assert_eq!(listed(&mut it, 9, "junk").unwrap().0.len(), 2);
        assert_eq!(listed(&mut it, 9, " 0/1035x").unwrap().0.len(), 1, "what C's strtoull reads counts");
    }
}

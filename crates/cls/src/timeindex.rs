//! Class `timeindex`: values in the omap under keys of a time and a name.

use crate::method::Method;
use crate::object::{Object, Output, Stop};
use crate::time_key::{self, TrimRange};
use bytes::Bytes;
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] =
    &[Method::update("add", add), Method::read("list", list), Method::update("trim", trim)];

/// Ceph's `cls_timeindex_entry`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct IndexEntry {
    pub time: Utime,
    pub name: Bytes,
    pub value: Bytes,
}

impl Encode for IndexEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.time);
            w.put(&self.name);
            w.put(&self.value);
        });
    }
}

impl Decode for IndexEntry {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<IndexEntry, DecodeError> {
        let (_, mut r) = r.versioned("entry of a time index", 1)?;
        Ok(IndexEntry { time: r.get()?, name: r.get()?, value: r.get()? })
    }
}

impl IndexEntry {
    fn key(&self) -> Bytes {
        [time_key::of(self.time).as_bytes(), &self.name].concat().into()
    }

    /// Decodes a key: seconds, a dot, and a number of microseconds, which Ceph takes for nanoseconds. The name ends at
    /// its first blank.
    fn from_key(key: &[u8], value: Bytes) -> Option<IndexEntry> {
        let rest = key.strip_prefix(time_key::PREFIX.as_bytes())?;
        let dot = rest.iter().position(|&b| b == b'.')?;
        let dash = dot + rest[dot..].iter().position(|&b| b == b'_')?;
        let number = |digits: &[u8]| std::str::from_utf8(digits).ok()?.parse::<u32>().ok();
        let time = Utime { sec: number(&rest[..dot])?, nsec: number(&rest[dot + 1..dash])? };
        let name = rest[dash + 1..].split(|b| b.is_ascii_whitespace()).next().unwrap_or_default();
        Some(IndexEntry { time, name: Bytes::copy_from_slice(&name[..name.len().min(255)]), value })
    }
}

fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("entries for a time index", 1)?;
    let entries: Vec<IndexEntry> = r.get()?;
    object.omap_set(entries.into_iter().map(|entry| (entry.key(), entry.value)).collect())?;
    Ok(Output::none())
}

fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to list a time index", 1)?;
    let (from_time, marker): (Utime, Bytes) = (r.get()?, r.get()?);
    let (to_time, max): (Utime, i32) = (r.get()?, r.get()?);
    let after = if marker.is_empty() { time_key::of(from_time).into() } else { marker };
    let end = (to_time >= from_time).then(|| time_key::of(to_time));
    let max = usize::try_from(max).map_or(time_key::ENTRIES_MAX, |max| max.min(time_key::ENTRIES_MAX));
    let (page, mut truncated) = object.omap_list(&after, time_key::PREFIX.as_bytes(), max)?;
    let (mut entries, mut marker) = (Vec::with_capacity(page.len()), Bytes::new());
    for (key, value) in page {
        if end.as_ref().is_some_and(|end| time_key::is_at_or_behind(&key, end)) {
            truncated = false;
            break;
        }
        marker = key;
        entries.extend(IndexEntry::from_key(&marker, value));
    }
    Ok(Output::of(|w| {
        w.versioned(1, 1, |w| {
            w.put(&entries);
            w.put(&marker);
            w.bool(truncated);
        })
    }))
}

fn trim(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to trim a time index", 1)?;
    let (from_time, to_time) = (r.get()?, r.get()?);
    let (from_marker, to_marker) = (r.get()?, r.get()?);
    TrimRange { from_time, to_time, from_marker, to_marker }.trim(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_back() {
        let entry = IndexEntry { time: Utime { sec: 17, nsec: 0 }, name: "some_name".into(), value: Bytes::new() };
        assert_eq!(entry.key(), "1_0000000017.000000_some_name");
        assert_eq!(IndexEntry::from_key(&entry.key(), Bytes::new()), Some(entry));
        assert_eq!(IndexEntry::from_key(b"2_0000000017.000000_x", Bytes::new()), None);
        assert_eq!(IndexEntry::from_key(b"1_17", Bytes::new()), None);
    }
}

//! Class `log`: entries in the omap, ordered by time.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use crate::time_key::{self, TrimRange};
use bytes::Bytes;
use types::Utime;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] =
    &[Method::update("add", add), Method::read("list", list), Method::update("trim", trim), Method::read("info", info)];

/// Ceph's `cls_log_entry`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogEntry {
    pub section: Bytes,
    pub name: Bytes,
    pub timestamp: Utime,
    pub data: Bytes,
    /// Key of the entry.
    pub id: Bytes,
}

impl Encode for LogEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.section);
            w.put(&self.name);
            w.put(&self.timestamp);
            w.put(&self.data);
            w.put(&self.id);
        });
    }
}

impl Decode for LogEntry {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<LogEntry, DecodeError> {
        let (head, mut r) = r.versioned("log entry", 2)?;
        Ok(LogEntry {
            section: r.get()?,
            name: r.get()?,
            timestamp: r.get()?,
            data: r.get()?,
            id: if head.version >= 2 { r.get()? } else { Bytes::new() },
        })
    }
}

/// The newest entry, kept as the omap's header: Ceph's `cls_log_header`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Newest {
    pub marker: Bytes,
    pub time: Utime,
}

impl Encode for Newest {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.marker);
            w.put(&self.time);
        });
    }
}

impl Decode for Newest {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Newest, DecodeError> {
        let (_, mut r) = r.versioned("newest entry of a log", 1)?;
        Ok(Newest { marker: r.get()?, time: r.get()? })
    }
}

fn newest(object: &mut dyn Object) -> Result<Newest, Stop> {
    let header = object.omap_header()?;
    if header.is_empty() { Ok(Newest::default()) } else { decode_stored(&header) }
}

fn add(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (head, mut r) = input.versioned("entries for a log", 2)?;
    let entries: Vec<LogEntry> = r.get()?;
    let never_back = head.version >= 2 && r.bool()?;
    let mut newest = newest(object)?;
    let mut stored = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let time = if never_back { entry.timestamp.max(newest.time) } else { entry.timestamp };
        newest.time = newest.time.max(time);
        if entry.id.is_empty() {
            entry.id = (time_key::of(time) + &object.update_id()).into();
        }
        newest.marker = newest.marker.max(entry.id.clone());
        stored.push((entry.id.clone(), encoded(&entry)));
    }
    object.omap_set(stored)?;
    object.omap_set_header(encoded(&newest))?;
    Ok(Output::none())
}

fn list(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to list a log", 1)?;
    let (from_time, marker): (Utime, Bytes) = (r.get()?, r.get()?);
    let (to_time, max): (Utime, i32) = (r.get()?, r.get()?);
    let after = if marker.is_empty() { time_key::of(from_time).into() } else { marker };
    let end = (!from_time.is_zero() && to_time >= from_time).then(|| time_key::of(to_time));
    let max = usize::try_from(max).ok().filter(|max| (1..=time_key::ENTRIES_MAX).contains(max));
    let max = max.unwrap_or(time_key::ENTRIES_MAX);
    let (page, mut truncated) = object.omap_list(&after, time_key::PREFIX.as_bytes(), max)?;
    let (mut entries, mut marker) = (Vec::with_capacity(page.len()), Bytes::new());
    for (key, value) in page {
        marker = key;
        if end.as_ref().is_some_and(|end| time_key::is_at_or_behind(&marker, end)) {
            truncated = false;
            break;
        }
        // An entry that cannot be read is left out.
        entries.extend(LogEntry::from_slice(&value));
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
    let (head, mut r) = input.versioned("request to trim a log", 2)?;
    let (from_time, to_time) = (r.get()?, r.get()?);
    let (from_marker, to_marker) = if head.version >= 2 { (r.get()?, r.get()?) } else { Default::default() };
    TrimRange { from_time, to_time, from_marker, to_marker }.trim(object)
}

fn info(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    input.versioned("request for a log's state", 1)?;
    let newest = newest(object)?;
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&newest))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};

    fn entries(seconds: &[u32], never_back: bool) -> Vec<u8> {
        let entry = |sec: &u32| LogEntry { timestamp: Utime { sec: *sec, nsec: 0 }, ..LogEntry::default() };
        let entries: Vec<LogEntry> = seconds.iter().map(entry).collect();
        encode(|w| {
            w.versioned(2, 1, |w| {
                w.put(&entries);
                w.bool(never_back);
            })
        })
    }

    fn listed(object: &mut TestObject, (from, to): (u32, u32), marker: &[u8], max: u32) -> (Vec<u32>, Bytes, bool) {
        let input = encode(|w| {
            w.versioned(1, 1, |w| {
                w.put(&Utime { sec: from, nsec: 0 });
                w.blob(marker);
                w.put(&Utime { sec: to, nsec: 0 });
                w.u32(max);
            })
        });
        let (value, output) = object.call("log", "list", &input);
        assert_eq!(value, 0);
        let mut r = Reader::new(&output);
        let (_, mut r) = r.versioned("list", 1).unwrap();
        let entries: Vec<LogEntry> = r.get().unwrap();
        (entries.iter().map(|e| e.timestamp.sec).collect(), r.get().unwrap(), r.bool().unwrap())
    }

    #[test]
    fn entries_are_listed_by_time_and_trimmed() {
        let mut object = TestObject::default();
        for sec in [30, 10, 20, 40] {
            assert_eq!(object.call("log", "add", &entries(&[sec], false)).0, 0);
        }
        assert_eq!(listed(&mut object, (0, 0), b"", 0).0, [10, 20, 30, 40]);
        assert_eq!(listed(&mut object, (15, 40), b"", 0).0, [20, 30]);
        let (first, marker, truncated) = listed(&mut object, (0, 0), b"", 3);
        assert_eq!((first, truncated), (vec![10, 20, 30], true));
        assert_eq!(listed(&mut object, (0, 0), &marker, 3).0, [40]);
        let range = encode(|w| {
            w.versioned(1, 1, |w| {
                w.put(&Utime { sec: 0, nsec: 0 });
                w.put(&Utime { sec: 20, nsec: 0 });
            })
        });
        assert_eq!(object.call("log", "trim", &range).0, 0);
        assert_eq!(listed(&mut object, (0, 0), b"", 0).0, [30, 40]);
        assert_eq!(object.call("log", "trim", &range).0, -61);
    }

    #[test]
    fn time_does_not_go_back_where_it_must_not() {
        let mut object = TestObject::default();
        assert_eq!(object.call("log", "add", &entries(&[30], true)).0, 0);
        assert_eq!(object.call("log", "add", &entries(&[10], true)).0, 0);
        let keys: Vec<_> = object.omap.keys().map(|key| key[..12].to_vec()).collect();
        assert_eq!(keys, [b"1_0000000030".to_vec(), b"1_0000000030".to_vec()]);
    }
}

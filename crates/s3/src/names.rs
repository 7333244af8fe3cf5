//! Names of objects and of entries in their omaps.
//!
//! The key of an S3 object within an omap is `REGION key' 00 00 SUFFIX`, where `key'` has `00 FF` for each byte `00` of
//! the key. So omaps keep the order of keys, and all entries of a key stand together. Suffixes of entries are empty;
//! those of versions tell their order, the newest first.

use bytes::{BufMut, Bytes, BytesMut};

/// Regions of the omap of a range.
pub(crate) const ENTRIES: u8 = b'e';
/// Keys that are being changed, with the stamps of the changes.
pub(crate) const SLOTS: u8 = b'p';
/// Multipart uploads, by key and upload.
pub(crate) const UPLOADS: u8 = b'u';
/// Versions of keys that have others than a null version alone.
pub(crate) const VERSIONS: u8 = b'v';
pub(crate) const REGIONS: [u8; 4] = [ENTRIES, SLOTS, UPLOADS, VERSIONS];

/// The sum of a range's counts, and the beginning of the names of changes that are not in it yet.
const COUNTS: u8 = b'c';

fn escaped(region: u8, key: &str, spare: usize) -> BytesMut {
    let mut name = BytesMut::with_capacity(1 + key.len() + spare);
    name.put_u8(region);
    for byte in key.bytes() {
        name.put_u8(byte);
        if byte == 0 {
            name.put_u8(0xff);
        }
    }
    name
}

/// The omap key of `key` in a region.
pub(crate) fn entry(region: u8, key: &str) -> Bytes {
    let mut name = escaped(region, key, 2);
    name.put_u16(0);
    name.freeze()
}

/// The omap key of a version of `key`. Greater orders come first.
pub(crate) fn version_entry(key: &str, order: u64) -> Bytes {
    let mut name = escaped(VERSIONS, key, 18);
    name.put_u16(0);
    name.put_slice(order_digits(order).as_bytes());
    name.freeze()
}

/// Sixteen digits, which are less where `order` is greater.
pub(crate) fn order_digits(order: u64) -> String {
    format!("{:016x}", !order)
}

/// The omap key of an upload.
pub(crate) fn upload_entry(key: &str, upload: &str) -> Bytes {
    let mut name = escaped(UPLOADS, key, 2 + upload.len());
    name.put_u16(0);
    name.put_slice(upload.as_bytes());
    name.freeze()
}

/// An omap key behind all entries of `key`, and before those of the next key.
pub(crate) fn behind(region: u8, key: &str) -> Bytes {
    let mut name = escaped(region, key, 3);
    name.put_u16(0);
    name.put_u8(0xff);
    name.freeze()
}

/// The beginning of the omap keys of all keys that begin with `prefix`.
pub(crate) fn prefix(region: u8, prefix: &str) -> Bytes {
    escaped(region, prefix, 0).freeze()
}

/// An omap key behind all keys that begin with `prefix`. No key has a byte `FF` but behind a byte `00`.
pub(crate) fn behind_prefix(region: u8, prefix: &str) -> Bytes {
    let mut name = escaped(region, prefix, 1);
    name.put_u8(0xff);
    name.freeze()
}

/// The end of a region.
pub(crate) fn region_end(region: u8) -> Bytes {
    Bytes::copy_from_slice(&[region + 1])
}

/// The omap key of a range's sum.
pub(crate) fn sum() -> Bytes {
    Bytes::from_static(&[COUNTS])
}

/// The omap key of a change of a range's counts.
pub(crate) fn count(name: &str) -> Bytes {
    Bytes::from([&[COUNTS], name.as_bytes()].concat())
}

/// The key and the suffix of an omap key of a region; `None` if it is not one.
pub(crate) fn parse(name: &[u8]) -> Option<(String, String)> {
    let mut key = Vec::with_capacity(name.len());
    let mut bytes = name.get(1..)?.iter().copied();
    loop {
        match bytes.next()? {
            0 => match bytes.next()? {
                0 => break,
                0xff => key.push(0),
                _ => return None,
            },
            byte => key.push(byte),
        }
    }
    Some((String::from_utf8(key).ok()?, String::from_utf8(bytes.collect()).ok()?))
}

/// The key of an omap key of a region, whatever its suffix is.
pub(crate) fn parse_key(name: &[u8]) -> Option<String> {
    let end = (1..name.len()).find(|at| name[*at] == 0 && name.get(at + 1) == Some(&0))?;
    parse(&name[..end + 2]).map(|(key, _)| key)
}

/// The key of a bucket's root that names the range that ends before `end`; `None` is the last range.
pub(crate) fn range_end(end: Option<&str>) -> Bytes {
    end.map_or_else(|| Bytes::from_static(b"s"), |end| entry(b'r', end))
}

/// The key of a bucket's root that tells in which change of ranges a range takes part.
pub(crate) fn change(range: &str) -> Bytes {
    Bytes::from(format!("x{range}"))
}

pub(crate) fn bucket_object(name: &str) -> String {
    format!("bucket/{name}")
}

pub(crate) fn root_object(bucket: &str) -> String {
    format!("root/{bucket}")
}

pub(crate) fn range_object(bucket: &str, range: &str) -> String {
    format!("range/{bucket}/{range}")
}

pub(crate) fn upload_object(bucket: &str, upload: &str) -> String {
    format!("upload/{bucket}/{upload}")
}

/// Key of a part in the omap of its upload; parts are in the order of their numbers.
pub(crate) fn part(number: u16) -> Bytes {
    Bytes::from(format!("{number:05}"))
}

pub(crate) fn session_object(session: &str) -> String {
    format!("session/{session}")
}

pub(crate) fn user_object(uid: &str) -> String {
    format!("user/{uid}")
}

pub(crate) fn key_object(access_key: &str) -> String {
    format!("key/{access_key}")
}

/// Directory of all sessions, and that of all users: their omaps have the names.
pub(crate) const SESSIONS: &str = "sessions";
pub(crate) const USERS: &str = "users";
/// Users by their addresses of e-mail.
pub(crate) const EMAILS: &str = "emails";

/// Buckets with lifecycle rules, each with the round through it.
pub(crate) const LIFECYCLE: &str = "lifecycle";

/// The object with the head of an S3 object.
pub(crate) fn head_object(bucket: &str, key: &str) -> String {
    format!("h/{bucket}/{key}")
}

/// The object of an older version.
pub(crate) fn older_object(place: &str) -> String {
    format!("v/{place}")
}

/// Stripe `number` of a tail.
pub(crate) fn stripe_object(tail: &str, number: u64) -> String {
    format!("t/{tail}/{number:x}")
}

/// An object of a pool of bytes, by its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum DataObject {
    Head { bucket: String, key: String },
    Older { place: String },
    Stripe { tail: String, number: u64 },
}

/// True for a name that a session may have made: the session, and a number.
fn is_fresh(name: &str) -> bool {
    name.split_once('.').is_some_and(|(session, number)| {
        !session.is_empty()
            && session.bytes().all(|c| c.is_ascii_alphanumeric())
            && u64::from_str_radix(number, 16).is_ok_and(|value| format!("{value:x}") == number)
    })
}

/// Reads the name of an object of a pool of bytes; `None` if no gateway gives such names.
pub(crate) fn parse_data(name: &str) -> Option<DataObject> {
    let (kind, rest) = name.split_once('/')?;
    match kind {
        "h" => {
            let (bucket, key) = rest.split_once('/')?;
            let is_named = is_fresh(bucket) && !key.is_empty();
            is_named.then(|| DataObject::Head { bucket: bucket.to_owned(), key: key.to_owned() })
        }
        "v" => is_fresh(rest).then(|| DataObject::Older { place: rest.to_owned() }),
        "t" => {
            let (tail, digits) = rest.split_once('/')?;
            let number = u64::from_str_radix(digits, 16).ok()?;
            let is_named = is_fresh(tail) && stripe_object(tail, number) == name;
            is_named.then(|| DataObject::Stripe { tail: tail.to_owned(), number })
        }
        _ => None,
    }
}

/// The upload of an object of the pool of records: its bucket's id and its own; `None` for other objects.
pub(crate) fn parse_upload(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("upload/")?.split_once('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_with_bytes_are_read() {
        let (bucket, key) = ("0a1f.3".to_owned(), "a/b/".to_owned());
        assert_eq!(parse_data(&head_object(&bucket, &key)), Some(DataObject::Head { bucket, key }));
        let place = "ff.10".to_owned();
        assert_eq!(parse_data(&older_object(&place)), Some(DataObject::Older { place }));
        let tail = "ff.1a".to_owned();
        assert_eq!(parse_data(&stripe_object(&tail, 31)), Some(DataObject::Stripe { tail, number: 31 }));
        for foreign in [
            "",
            "h",
            "h/ff.1",
            "h/ff.1/",
            "h/ff/k",
            "v/",
            "v/ff",
            "v/ff.",
            "v/ff.G",
            "v/f f.1",
            "v/ff.01",
            "v/ff.1/2",
            "t/ff.1",
            "t/ff.1/",
            "t/ff.1/01",
            "t/ff.1/G",
            "t/ff.1/+1",
            "t/ff.1/2/3",
            "rbd_data.1",
            "x/ff.1",
            "v/ff.A",
        ] {
            assert_eq!(parse_data(foreign), None, "{foreign}");
        }
        assert_eq!(parse_upload(&upload_object("ff.1", "ff.2")), Some(("ff.1", "ff.2")));
        assert_eq!(parse_upload("root/ff.1"), None);
    }

    #[test]
    fn omaps_keep_the_order_of_keys() {
        let mut keys =
            ["", "a", "a\0", "a\0\0", "a\0b", "a\u{1}", "a/", "aa", "ab", "b", "\u{10ffff}", "é", "a\0\u{1}"];
        keys.sort_unstable();
        let names: Vec<Bytes> = keys.iter().map(|key| entry(ENTRIES, key)).collect();
        assert!(names.is_sorted());
        for (key, name) in keys.iter().zip(&names) {
            assert_eq!(parse(name), Some(((*key).to_owned(), String::new())));
            assert!(*name < behind(ENTRIES, key));
            let next = keys.iter().find(|other| *other > key);
            assert!(next.is_none_or(|next| entry(ENTRIES, next) > behind(ENTRIES, key)), "{key:?}");
            for other in keys {
                let is_under = entry(ENTRIES, other).starts_with(&prefix(ENTRIES, key));
                assert_eq!(is_under, other.starts_with(key), "{other:?} under {key:?}");
                if !is_under && other > *key {
                    assert!(entry(ENTRIES, other) > behind_prefix(ENTRIES, key), "{other:?} behind {key:?}");
                }
                if is_under {
                    assert!(entry(ENTRIES, other) < behind_prefix(ENTRIES, key), "{other:?} in {key:?}");
                }
            }
        }
        assert_eq!(parse(&upload_entry("a\0b", "u1")), Some(("a\0b".to_owned(), "u1".to_owned())));
        assert_eq!(parse(b"e\0\x01"), None);
        assert_eq!(parse(b"eabc"), None);
    }
}

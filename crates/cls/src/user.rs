//! Class `user`: a user's buckets and their usage, for object gateways.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use bytes::Bytes;
use types::{Errno, Utime};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] = &[
    Method::update("set_buckets_info", set_buckets),
    Method::update("complete_stats_sync", complete_sync),
    Method::update("remove_bucket", remove_bucket),
    Method::read("list_buckets", list_buckets),
    Method::read("get_header", get_header),
];

const BUCKETS_MAX: usize = 1000;

/// A bucket as gateways describe it (Ceph's `cls_user_bucket`): its bytes, of which this class uses only the name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bucket {
    name: Bytes,
    encoded: Bytes,
}

impl Encode for Bucket {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.encoded);
    }
}

impl Decode for Bucket {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Bucket, DecodeError> {
        const KNOWN: u8 = 10;
        let whole = r.peek();
        let (_, mut body) = r.versioned("bucket", KNOWN)?;
        let encoded = Bytes::copy_from_slice(&whole[..whole.len() - r.left()]);
        Ok(Bucket { name: body.get()?, encoded })
    }
}

/// Usage of a bucket, or of all buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Usage {
    objects: u64,
    bytes: u64,
    bytes_rounded: u64,
}

impl Usage {
    fn combine(self, other: Usage, with: fn(u64, u64) -> u64) -> Usage {
        Usage {
            objects: with(self.objects, other.objects),
            bytes: with(self.bytes, other.bytes),
            bytes_rounded: with(self.bytes_rounded, other.bytes_rounded),
        }
    }
}

/// Ceph's `cls_user_bucket_entry`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct BucketEntry {
    bucket: Bucket,
    usage: Usage,
    created: Utime,
    /// The bucket's usage is included in the user's.
    counted: bool,
}

impl Encode for BucketEntry {
    fn encode(&self, w: &mut Writer) {
        w.versioned(9, 5, |w| {
            // Former place of the name.
            w.put(&Bytes::new());
            w.u64(self.usage.bytes);
            w.u32(self.created.sec);
            w.u64(self.usage.objects);
            w.put(&self.bucket);
            w.u64(self.usage.bytes_rounded);
            w.bool(self.counted);
            w.put(&self.created);
        });
    }
}

impl Decode for BucketEntry {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<BucketEntry, DecodeError> {
        const OLDEST: u8 = 7;
        let (head, mut r) = r.versioned("entry of a bucket", 9)?;
        if head.version < OLDEST {
            return Err(DecodeError::TooOld { what: "entry of a bucket", version: head.version, oldest: OLDEST });
        }
        let _: Bytes = r.get()?;
        let (bytes, _, objects) = (r.u64()?, r.u32()?, r.u64()?);
        let (bucket, bytes_rounded, counted, created) = (r.get()?, r.u64()?, r.bool()?, r.get()?);
        Ok(BucketEntry { bucket, usage: Usage { objects, bytes, bytes_rounded }, created, counted })
    }
}

/// Content of the omap's header: Ceph's `cls_user_header`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Summary {
    usage: Usage,
    last_sync: Utime,
    last_update: Utime,
}

impl Encode for Summary {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.versioned(1, 1, |w| {
                w.u64(self.usage.objects);
                w.u64(self.usage.bytes);
                w.u64(self.usage.bytes_rounded);
            });
            w.put(&self.last_sync);
            w.put(&self.last_update);
        });
    }
}

impl Decode for Summary {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Summary, DecodeError> {
        let (_, mut r) = r.versioned("a user's summary", 1)?;
        let (_, mut usage) = r.versioned("a user's usage", 1)?;
        let usage = Usage { objects: usage.u64()?, bytes: usage.u64()?, bytes_rounded: usage.u64()? };
        Ok(Summary { usage, last_sync: r.get()?, last_update: r.get()? })
    }
}

fn summary(object: &mut dyn Object) -> Result<Summary, Stop> {
    let header = object.omap_header()?;
    if header.is_empty() { Ok(Summary::default()) } else { decode_stored(&header) }
}

/// Loads the entry of a bucket. EINVAL for a bucket without a name.
fn entry(object: &mut dyn Object, name: &Bytes) -> Result<Option<BucketEntry>, Stop> {
    if name.is_empty() { Err(Errno::EINVAL.into()) } else { object.value(name) }
}

fn set_buckets(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to set buckets", 1)?;
    let (given, add, time): (Vec<BucketEntry>, bool, Utime) = (r.get()?, r.bool()?, r.get()?);
    let mut summary = summary(object)?;
    for given in given {
        let name = given.bucket.name.clone();
        let have = match entry(object, &name)? {
            Some(have) => have,
            None if add => given.clone(),
            // The bucket was removed meanwhile.
            None => continue,
        };
        if have.counted {
            summary.usage = summary.usage.combine(have.usage, u64::wrapping_sub);
        }
        summary.usage = summary.usage.combine(given.usage, u64::wrapping_add);
        object.set_value(&name, &BucketEntry { usage: given.usage, counted: true, ..have })?;
    }
    summary.last_update = summary.last_update.max(time);
    object.omap_set_header(encoded(&summary))?;
    Ok(Output::none())
}

fn complete_sync(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("end of a synchronization", 1)?;
    let time: Utime = r.get()?;
    let mut summary = summary(object)?;
    summary.last_sync = summary.last_sync.max(time);
    object.omap_set_header(encoded(&summary))?;
    Ok(Output::none())
}

fn remove_bucket(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to remove a bucket", 1)?;
    let bucket: Bucket = r.get()?;
    let mut summary = summary(object)?;
    let Some(entry) = entry(object, &bucket.name)? else { return Ok(Output::none()) };
    object.omap_remove(vec![bucket.name])?;
    if entry.counted {
        summary.usage = summary.usage.combine(entry.usage, u64::wrapping_sub);
    }
    object.omap_set_header(encoded(&summary))?;
    Ok(Output::none())
}

fn list_buckets(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (head, mut r) = input.versioned("request to list buckets", 2)?;
    let (after, max): (Bytes, i32) = (r.get()?, r.get()?);
    let end: Bytes = if head.version >= 2 { r.get()? } else { Bytes::new() };
    let max = usize::try_from(max).map_or(BUCKETS_MAX, |max| max.min(BUCKETS_MAX));
    let (page, more) = object.omap_list(&after, b"", max)?;
    let inside = page.iter().take_while(|(name, _)| end.is_empty() || *name < end).count();
    let truncated = more || inside < page.len();
    let marker = match truncated {
        true => page.get(inside.min(page.len().saturating_sub(1))).map(|(name, _)| name.clone()).unwrap_or_default(),
        false => Bytes::new(),
    };
    let entries: Vec<BucketEntry> =
        page[..inside].iter().filter_map(|(_, value)| BucketEntry::from_slice(value).ok()).collect();
    Ok(Output::of(|w| {
        w.versioned(1, 1, |w| {
            w.put(&entries);
            w.put(&marker);
            w.bool(truncated);
        })
    }))
}

fn get_header(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    input.versioned("request for a user's summary", 1)?;
    let summary = summary(object)?;
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&summary))))
}

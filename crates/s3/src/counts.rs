//! Bytes and objects of buckets, counted with their index.
//!
//! The omap of a range has a sum under `c`, and beside it, under names that are never used again, the changes that are
//! not added up yet. The operation that writes the entries of a key writes the change of the counts, too: they agree
//! with the entries whatever dies, and two changes of a range do not wait for each other. A gateway adds changes up now
//! and then; the sum, which never comes twice, guards that against others that do the same.
//!
//! A range that was made before there were counts has changes without a sum until somebody has counted its entries.

use crate::error::Error;
use crate::names::{self, ENTRIES, UPLOADS, VERSIONS};
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Entry, Part, Range, RangeState, VersionEntry, attr, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Store, lock};
use crate::usage::{added, negative, size_of, whole};
use crate::window::all;
use bytes::Bytes;
use s3rules::quota::{Usage, UsageChange};
use std::collections::BTreeMap;

/// Ranges or uploads that are read at once.
const READS_AT_ONCE: usize = 32;
/// Looks at the ranges of a bucket while some of them split or merge.
const LOOKS: u32 = 20;
/// Tries to count a range while its keys change.
const COUNTS_MAX: u32 = 5;

/// Contents of a bucket: every version with bytes counts, and delete markers do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BucketUsage {
    pub stored: Usage,
    /// Ranges of the index.
    pub ranges: u64,
    /// Uploads under way, and the bytes of their parts; 0 where they were not asked for.
    pub uploads: u64,
    pub upload_bytes: u64,
}

/// The sum of a range. Each state has another `seq`.
#[derive(serde::Serialize, serde::Deserialize)]
struct Sum {
    seq: u64,
    bytes: i64,
    objects: i64,
}

/// Counts of a range as they are stored.
struct RangeCounts {
    range: Range,
    generation: Bytes,
    /// Empty where the range was never counted.
    sum: Bytes,
    changes: Vec<(Bytes, UsageChange)>,
}

/// The sum of a range.
pub(crate) fn first_sum(usage: Usage) -> Step {
    let UsageChange { bytes, objects } = whole(usage);
    Step::Set(vec![(names::sum(), to_bytes(&Sum { seq: 1, bytes, objects }))])
}

/// A change of a range's counts. `name` is never used again.
pub(crate) fn change_step(name: &str, change: UsageChange) -> Step {
    Step::Set(vec![(names::count(name), to_bytes(&(change.bytes, change.objects)))])
}

/// Entries of an index as they are read, region by region: those of objects come before those of versions.
#[derive(Default)]
pub(crate) struct Tally {
    /// Sizes of the objects of keys whose versions are not met.
    objects: BTreeMap<String, u64>,
    versions: Usage,
}

impl Tally {
    pub fn add(&mut self, region: u8, entries: &[(Bytes, Bytes)]) -> Result<(), Error> {
        for (name, value) in entries.iter().filter(|_| [ENTRIES, VERSIONS].contains(&region)) {
            let key = names::parse_key(name).ok_or_else(|| Error::damaged("an index", format!("{name:?}")))?;
            if region == ENTRIES {
                let entry: Entry = from_bytes("an entry of an index", value)?;
                self.objects.insert(key, entry.size);
                continue;
            }
            // A key with versions has its object among them.
            self.objects.remove(&key);
            let version: VersionEntry = from_bytes("a version of an index", value)?;
            if !version.is_marker {
                self.versions.bytes += version.entry.size;
                self.versions.objects += 1;
            }
        }
        Ok(())
    }

    pub fn usage(&self) -> Usage {
        let objects = size_of(self.objects.values().copied());
        Usage { bytes: self.versions.bytes + objects.bytes, objects: self.versions.objects + objects.objects }
    }
}

impl RangeCounts {
    fn usage(&self) -> Result<UsageChange, Error> {
        let sum = read_sum(&self.sum)?;
        let base = UsageChange { bytes: sum.bytes, objects: sum.objects };
        Ok(self.changes.iter().fold(base, |usage, (_, change)| added(usage, *change)))
    }
}

fn read_sum(bytes: &Bytes) -> Result<Sum, Error> {
    if bytes.is_empty() { Ok(Sum { seq: 0, bytes: 0, objects: 0 }) } else { from_bytes("a sum", bytes) }
}

/// Entries with their values, and whether there are more behind them.
type RegionPage = (Vec<(Bytes, Bytes)>, bool);

/// The name behind which a list of a region begins with the entry of `start`. The key before `start` has no name: this
/// is one that no key of the region can have.
pub(crate) fn region_begin(region: u8, start: &str) -> Bytes {
    let first = names::entry(region, start);
    first.slice(..first.len() - 1)
}

impl<R: Rados> Store<R> {
    /// The counts of a range; `None` if there is no such range.
    async fn range_counts(&self, bucket: &str, id: &str) -> Result<Option<RangeCounts>, Error> {
        let object = names::range_object(bucket, id);
        let mut found: Option<RangeCounts> = None;
        loop {
            let last = found.as_ref().and_then(|found| found.changes.last());
            let after = last.map_or_else(Bytes::new, |(name, _)| name.clone());
            let mut steps = vec![
                Step::GetAttr(attr::RECORD),
                Step::GetAttr(attr::GENERATION),
                Step::List { after, max: self.settings.page_entries, prefix: names::sum() },
            ];
            // The pages of one answer are of one sum.
            steps.extend(found.as_ref().map(|found| Step::ValueIs(names::sum(), found.sum.clone())));
            let mut replies = match self.meta(object.clone(), steps).await {
                Ok(replies) => replies,
                Err(RadosError::NotFound) => return Ok(None),
                Err(RadosError::Guard) => {
                    found = None;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let (mut entries, more) = replies.remove(2).entries();
            let counts = match &mut found {
                Some(counts) => counts,
                None => {
                    let is_counted = entries.first().is_some_and(|(name, _)| *name == names::sum());
                    let sum = if is_counted { entries.remove(0).1 } else { Bytes::new() };
                    let range = from_bytes(&object, &replies[0].bytes())?;
                    found.insert(RangeCounts { range, generation: replies[1].bytes(), sum, changes: Vec::new() })
                }
            };
            let is_end = !more || entries.is_empty();
            for (name, value) in entries {
                let (bytes, objects) = from_bytes("a change of counts", &value)?;
                counts.changes.push((name, UsageChange { bytes, objects }));
            }
            if is_end {
                return Ok(found);
            }
        }
    }

    /// Notes that changes of a range's counts were written, and adds them up if they are many.
    pub(crate) async fn note_count(&self, bucket: &str, range: &str) {
        let is_due = {
            let mut written = lock(&self.written_counts);
            let count = written.entry((bucket.to_owned(), range.to_owned())).or_default();
            *count += 1;
            let is_due = *count >= self.settings.counts_max;
            if is_due {
                written.remove(&(bucket.to_owned(), range.to_owned()));
            }
            is_due
        };
        if is_due {
            // If this fails, the next one who has written as many does it.
            let _ = Box::pin(self.add_up(bucket, range)).await;
        }
    }

    /// Adds up the changes of a range's counts. One that was never counted is counted first.
    pub(crate) async fn add_up(&self, bucket: &str, id: &str) -> Result<(), Error> {
        let Some(counts) = self.range_counts(bucket, id).await? else { return Ok(()) };
        if counts.sum.is_empty() {
            self.count_range((bucket, id), 1, true).await?;
            return Ok(());
        }
        let sum = counts.usage()?;
        self.write_sum((bucket, id), counts, sum).await?;
        Ok(())
    }

    /// Writes the sum of a range, with its changes in it. False if somebody else has written one.
    async fn write_sum(
        &self,
        (bucket, id): (&str, &str),
        counts: RangeCounts,
        UsageChange { bytes, objects }: UsageChange,
    ) -> Result<bool, Error> {
        let seq = read_sum(&counts.sum)?.seq + 1;
        let mut steps = vec![
            Step::AttrIs(attr::GENERATION, counts.generation),
            Step::ValueIs(names::sum(), counts.sum),
            Step::Set(vec![(names::sum(), to_bytes(&Sum { seq, bytes, objects }))]),
        ];
        if !counts.changes.is_empty() {
            steps.push(Step::Drop(counts.changes.into_iter().map(|(name, _)| name).collect()));
        }
        match self.meta(names::range_object(bucket, id), steps).await {
            Ok(_) => Ok(true),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a page of a region of a range whose generation is this one, and tells whether there is more. `None` if it
    /// has another one by now.
    pub(crate) async fn region_page(
        &self,
        (bucket, id): (&str, &str),
        generation: &Bytes,
        region: u8,
        after: Bytes,
    ) -> Result<Option<RegionPage>, Error> {
        let prefix = Bytes::copy_from_slice(&[region]);
        let list = Step::List { after, max: self.settings.page_entries, prefix };
        let steps = vec![Step::AttrIs(attr::GENERATION, generation.clone()), list];
        match self.meta(names::range_object(bucket, id), steps).await {
            Ok(mut replies) => Ok(Some(replies.remove(1).entries())),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Counts the entries of a range whose generation is this one, from a key on. `None` if it has another one by now.
    pub(crate) async fn tally(
        &self,
        (bucket, id): (&str, &str),
        generation: &Bytes,
        start: &str,
    ) -> Result<Option<Usage>, Error> {
        let mut tally = Tally::default();
        for region in [ENTRIES, VERSIONS] {
            let mut after = region_begin(region, start);
            loop {
                let page = self.region_page((bucket, id), generation, region, after.clone()).await?;
                let Some((entries, more)) = page else { return Ok(None) };
                tally.add(region, &entries)?;
                match entries.last() {
                    Some((last, _)) if more => after = last.clone(),
                    _ => break,
                }
            }
        }
        Ok(Some(tally.usage()))
    }

    /// Counts the entries of a range. If `mend`, the sum is written if it is wrong or absent. Gives what the sum was
    /// short of, or `None` if keys change all the time, or if the range is about to split or merge.
    pub(crate) async fn count_range(
        &self,
        (bucket, id): (&str, &str),
        tries: u32,
        mend: bool,
    ) -> Result<Option<UsageChange>, Error> {
        for attempt in 0..tries {
            if attempt > 0 {
                self.rados.pause(PAUSE_MS).await;
            }
            let Some(before) = self.range_counts(bucket, id).await? else { return Ok(None) };
            if before.range.state != RangeState::Live {
                continue;
            }
            let Some(usage) = self.tally((bucket, id), &before.generation, "").await? else { continue };
            // Whoever changes an entry writes a change of the counts: where there is none, no entry has changed.
            let Some(after) = self.range_counts(bucket, id).await? else { return Ok(None) };
            let is_same = before.sum == after.sum && before.generation == after.generation;
            if !is_same || before.changes != after.changes {
                continue;
            }
            let missing = added(whole(usage), negative(before.usage()?));
            let is_right = !before.sum.is_empty() && missing == UsageChange::default();
            if is_right || !mend {
                return Ok(Some(missing));
            }
            if self.write_sum((bucket, id), before, whole(usage)).await? {
                return Ok(Some(missing));
            }
        }
        Ok(None)
    }

    /// Bytes and objects of a bucket, by the counts of its ranges. Changes of keys that were answered some milliseconds
    /// ago may be missing. `uploads`: uploads are counted, too. Errors: `SlowDown` where ranges change all the time.
    pub async fn usage(&self, bucket: &str, uploads: bool) -> Result<BucketUsage, Error> {
        for attempt in 0..LOOKS {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let ranges = self.ranges(bucket).await?;
            let reads: Vec<_> = ranges.iter().map(|(_, id)| self.counted_range(bucket, id)).collect();
            let mut sum = UsageChange::default();
            let mut is_whole = true;
            for read in all(reads, READS_AT_ONCE).await {
                match read? {
                    Some(usage) => sum = added(sum, usage),
                    None => is_whole = false,
                }
            }
            if is_whole && ranges == self.ranges(bucket).await? {
                let stored = Usage::default().after(sum);
                let mut usage = BucketUsage { stored, ranges: ranges.len() as u64, ..BucketUsage::default() };
                if uploads {
                    (usage.uploads, usage.upload_bytes) = self.usage_of_uploads(bucket, &ranges).await?;
                }
                return Ok(usage);
            }
        }
        Err(crate::store::too_many_tries())
    }

    /// The counts of a range. `None` if it takes part in a split or merge, whose steps this call may carry out.
    async fn counted_range(&self, bucket: &str, id: &str) -> Result<Option<UsageChange>, Error> {
        let Some(counts) = self.range_counts(bucket, id).await? else { return Ok(None) };
        match counts.range.state {
            // A range that receives another one counts its own keys until it serves both.
            RangeState::Live | RangeState::Closed | RangeState::Receiving { .. } if !counts.sum.is_empty() => {
                Ok(Some(counts.usage()?))
            }
            RangeState::Live => {
                if Box::pin(self.count_range((bucket, id), COUNTS_MAX, true)).await?.is_none() {
                    // Its keys change all the time: what one pass finds is near enough, until the range splits.
                    return Ok(self.tally((bucket, id), &counts.generation, "").await?.map(whole));
                }
                Ok(None)
            }
            RangeState::Closed => Ok(self.tally((bucket, id), &counts.generation, "").await?.map(whole)),
            RangeState::Splitting { .. } | RangeState::Leaving { .. } => {
                self.help(bucket, id).await?;
                Ok(None)
            }
            RangeState::Filling | RangeState::Receiving { .. } => Ok(None),
        }
    }

    /// Number of uploads under way in some ranges, and the bytes of their parts.
    async fn usage_of_uploads(&self, bucket: &str, ranges: &[(Bytes, String)]) -> Result<(u64, u64), Error> {
        let region = Bytes::copy_from_slice(&[UPLOADS]);
        let objects = ranges.iter().map(|(_, id)| names::range_object(bucket, id)).collect::<Vec<_>>();
        let reads = objects.iter().map(|object| self.whole_omap(object, region.clone())).collect();
        let mut uploads = Vec::new();
        for entries in all(reads, READS_AT_ONCE).await {
            for (name, _) in entries? {
                let (_, upload) = names::parse(&name).ok_or_else(|| Error::damaged("an index", "an upload"))?;
                uploads.push(names::upload_object(bucket, &upload));
            }
        }
        let reads = uploads.iter().map(|object| self.whole_omap(object, Bytes::new())).collect();
        let mut bytes = 0;
        for parts in all(reads, READS_AT_ONCE).await {
            for (_, value) in parts? {
                bytes += from_bytes::<Part>("a part", &value)?.tail.size;
            }
        }
        Ok((uploads.len() as u64, bytes))
    }
}

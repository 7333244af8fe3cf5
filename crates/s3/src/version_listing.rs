//! Lists of versions, in the order of keys and the newest of each key first, page by page.
//!
//! A key that has only a null version stands among the entries alone; one with others has all of them among the
//! versions. The regions of a range are read together, and a page goes as far as all of them are known.

use crate::error::Error;
use crate::listing::{HEADS_AT_ONCE, Place, Query};
use crate::names::{self, ENTRIES, SLOTS, VERSIONS};
use crate::present::NULL_VERSION;
use crate::rados::{Rados, Step};
use crate::records::{Bucket, VersionEntry, from_bytes};
use crate::store::Store;
use crate::window::all;
use bytes::Bytes;
use std::collections::BTreeMap;

/// A version in a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedVersion {
    pub key: String,
    /// The newest of its key.
    pub is_latest: bool,
    pub version: VersionEntry,
}

/// A page of versions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VersionPage {
    pub versions: Vec<ListedVersion>,
    pub common_prefixes: Vec<String>,
    /// The last key and version of the page, if there are more behind it; a common prefix has no version.
    pub next: Option<(String, Option<String>)>,
}

/// A place between versions: behind a name of an omap without its region.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Behind(Vec<u8>);

impl Behind {
    fn of(place: &Place) -> Behind {
        Behind(place.name(VERSIONS)[1..].to_vec())
    }

    /// Behind the name of an entry, or of a version.
    fn name(name: &[u8]) -> Behind {
        Behind(name[1..].to_vec())
    }

    fn in_region(&self, region: u8) -> Bytes {
        [&[region], &self.0[..]].concat().into()
    }
}

/// Versions of a part of the index, by key and by digits of their order.
type Versions = BTreeMap<(String, String), VersionEntry>;

/// A part of the index.
struct VersionStretch {
    found: Versions,
    /// Where the list goes on: the key in whose range that is, and the place.
    next: Option<(String, Behind)>,
}

impl<R: Rados> Store<R> {
    /// Lists versions behind a key, or behind a version of it.
    pub async fn list_versions(
        &self,
        bucket: &Bucket,
        query: &Query,
        after_version: Option<&str>,
    ) -> Result<VersionPage, Error> {
        let mut page = VersionPage::default();
        if query.max == 0 {
            return Ok(page);
        }
        let place = query.first_place();
        let mut from = place.key().map(|key| (key, Behind::of(&place)));
        // The version behind which the list begins is not the newest, and neither are those of its key that follow.
        let mut last_key = None;
        if let Some(version) = after_version.filter(|_| query.after.starts_with(&query.prefix)) {
            from = Some((query.after.clone(), self.behind_version(bucket, &query.after, version).await?));
            let is_first = from.as_ref().is_some_and(|(_, behind)| *behind == at_key(&query.after));
            last_key = Some(query.after.clone()).filter(|_| !is_first);
        }
        let mut last = (String::new(), None);
        while let Some((key, behind)) = from {
            let stretch = self.versions_from(bucket, (&key, &behind), query).await?;
            from = stretch.next;
            for ((key, _), version) in stretch.found {
                let common = query.common_prefix(&key);
                if common.is_some() && common.as_ref() == page.common_prefixes.last() {
                    continue;
                }
                if page.versions.len() + page.common_prefixes.len() == query.max {
                    page.next = Some(last);
                    return Ok(page);
                }
                if let Some(common) = common {
                    last = (common.clone(), None);
                    page.common_prefixes.push(common);
                    continue;
                }
                let name = version.version.clone().unwrap_or_else(|| NULL_VERSION.to_owned());
                last = (key.clone(), Some(name));
                let is_latest = last_key.as_ref() != Some(&key);
                last_key = Some(key.clone());
                page.versions.push(ListedVersion { key, is_latest, version });
            }
            // The rest of a common prefix is not read.
            if let (Some(common), Some((key, _))) = (page.common_prefixes.last(), &from)
                && key.starts_with(common.as_str())
            {
                let place = Place::BehindPrefix(common.clone());
                from = place.key().map(|key| (key, Behind::of(&place)));
            }
        }
        Ok(page)
    }

    /// The place behind a version. One whose order cannot be told is gone: the list begins with its key, and tells some
    /// versions again.
    async fn behind_version(&self, bucket: &Bucket, key: &str, version: &str) -> Result<Behind, Error> {
        let order = if version == NULL_VERSION {
            let present = self.present(bucket, key).await?;
            let versions = present.map(|present| present.versions()).unwrap_or_default();
            let null = versions.into_iter().find(|(_, entry)| entry.version.is_none());
            null.map(|(order, _)| order)
        } else {
            let digits = version.get(..16).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
            digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).map(|inverted| !inverted)
        };
        Ok(match order {
            Some(order) => Behind::name(&names::version_entry(key, order)),
            None => at_key(key),
        })
    }

    async fn versions_from(
        &self,
        bucket: &Bucket,
        (key, from): (&str, &Behind),
        query: &Query,
    ) -> Result<VersionStretch, Error> {
        let max = (query.max as u64 + 1).clamp(2, self.settings.page_entries);
        let list = |region| {
            let prefix = names::prefix(region, &query.prefix);
            Step::List { after: from.in_region(region), max, prefix }
        };
        // The slot of a key stands before its versions.
        let slot = names::entry(SLOTS, key);
        let steps = [list(ENTRIES), list(SLOTS), list(VERSIONS), Step::Get(vec![slot])];
        let (route, replies) = self.on_range(bucket, key, &steps).await?;
        let mut replies = replies.into_iter().map(crate::rados::Reply::entries);
        let mut next = || replies.next().unwrap_or_default();
        let ((entries, more_entries), (slots, more_slots), (versions, more_versions)) = (next(), next(), next());
        let own_slot = next().0;
        // Entries and slots are known up to the end of their last key, versions up to the last of them.
        let mut ends = Vec::new();
        for (list, more) in [(&entries, more_entries), (&slots, more_slots)] {
            if let Some((name, _)) = list.last().filter(|_| more) {
                ends.push(Behind::of(&Place::Behind(key_of(name)?.0)));
            }
        }
        ends.extend(versions.last().filter(|_| more_versions).map(|(name, _)| Behind::name(name)));
        let mut known = ends.into_iter().min();
        let is_known =
            |name: &Bytes, known: &Option<Behind>| known.as_ref().is_none_or(|end| Behind::name(name) <= *end);
        let is_served = |key: &str| route.end.as_deref().is_none_or(|end| key < end);
        let mut changing: Vec<String> = Vec::new();
        for (name, _) in own_slot.iter().chain(&slots) {
            let (key, _) = key_of(name)?;
            if is_known(name, &known) && is_served(&key) && !changing.contains(&key) {
                changing.push(key);
            }
        }
        // Where the page ends within a key that is changing, all of its versions come from its head.
        for key in &changing {
            let end = Behind::of(&Place::Behind(key.clone()));
            if known.as_ref().is_some_and(|known| *known >= at_key(key) && *known < end) {
                known = Some(end);
            }
        }
        let mut found = Versions::new();
        for (name, value) in versions.iter().filter(|(name, _)| is_known(name, &known)) {
            let (key, digits) = key_of(name)?;
            if is_served(&key) && !changing.contains(&key) {
                found.insert((key, digits), from_bytes("a version of an index", value)?);
            }
        }
        for (name, value) in entries.iter().filter(|(name, _)| is_known(name, &known)) {
            let (key, _) = key_of(name)?;
            let has_versions = found.range((key.clone(), String::new())..).next().is_some_and(|((k, _), _)| *k == key);
            if is_served(&key) && !changing.contains(&key) && !has_versions {
                let entry = from_bytes("an entry of an index", value)?;
                found.insert((key, String::new()), VersionEntry { version: None, is_marker: false, entry });
            }
        }
        let reads: Vec<_> = changing.iter().map(|key| self.present(bucket, key)).collect();
        for (key, present) in changing.iter().zip(all(reads, HEADS_AT_ONCE).await) {
            let versions = present?.map(|present| present.versions()).unwrap_or_default();
            for (order, version) in versions {
                if Behind::name(&names::version_entry(key, order)) > *from {
                    found.insert((key.clone(), names::order_digits(order)), version);
                }
            }
        }
        let next = match (known, &route.end) {
            (Some(known), _) if key_behind(&known).is_some_and(|key| is_served(&key)) => {
                key_behind(&known).map(|key| (key, known))
            }
            (_, Some(end)) if end.starts_with(&query.prefix) || *end < query.prefix => Some((end.clone(), at_key(end))),
            _ => None,
        };
        Ok(VersionStretch { found, next })
    }
}

/// The place before all versions of a key.
fn at_key(key: &str) -> Behind {
    Behind::of(&Place::At(key.to_owned()))
}

/// The key whose versions may stand behind a place that was made of one.
fn key_behind(behind: &Behind) -> Option<String> {
    names::parse_key(&behind.in_region(VERSIONS))
}

fn key_of(name: &Bytes) -> Result<(String, String), Error> {
    names::parse(name).ok_or_else(|| Error::damaged("an index", format!("{name:?}")))
}

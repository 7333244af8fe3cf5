//! Lists of keys and of uploads, in the order of keys, page by page.

use crate::error::Error;
use crate::names::{self, ENTRIES, SLOTS, UPLOADS};
use crate::rados::{Rados, Step};
use crate::records::{Bucket, Entry, from_bytes};
use crate::store::Store;
use crate::window::all;
use bytes::Bytes;
use std::collections::BTreeMap;

/// Heads of keys under change that are read at once.
pub(crate) const HEADS_AT_ONCE: usize = 32;

/// The keys wanted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Query {
    pub prefix: String,
    /// Empty for none. Keys with it behind the prefix are summed up by what comes up to and with it.
    pub delimiter: String,
    /// Keys and common prefixes behind this one are listed. Where it is a common prefix, no key with it is.
    pub after: String,
    /// Keys and common prefixes together.
    pub max: usize,
}

/// A page of a list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    pub entries: Vec<(String, Entry)>,
    pub common_prefixes: Vec<String>,
    /// The last key or common prefix of the page, if there are more behind it.
    pub next: Option<String>,
}

/// One upload of a list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedUpload {
    pub key: String,
    pub upload: String,
    pub owner: String,
    pub created_ms: u64,
}

/// A page of uploads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UploadPage {
    pub uploads: Vec<ListedUpload>,
    pub common_prefixes: Vec<String>,
    /// The last key and upload of the page, if there are more behind it; a common prefix has no upload.
    pub next: Option<(String, String)>,
}

/// A place between keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Place {
    /// At this key.
    At(String),
    /// Behind this key.
    Behind(String),
    /// Behind all keys that begin so.
    BehindPrefix(String),
}

impl Place {
    pub(crate) fn name(&self, region: u8) -> Bytes {
        match self {
            // A name that ends before its last byte stands before it, and behind all lesser keys.
            Place::At(key) => {
                let name = names::entry(region, key);
                name.slice(..name.len() - 1)
            }
            Place::Behind(key) => names::behind(region, key),
            Place::BehindPrefix(prefix) => names::behind_prefix(region, prefix),
        }
    }

    /// A key in whose range the place lies. `None`: no key lies behind.
    pub(crate) fn key(&self) -> Option<String> {
        match self {
            Place::At(key) => Some(key.clone()),
            // The least key behind it.
            Place::Behind(key) => Some(format!("{key}\0")),
            Place::BehindPrefix(prefix) => behind_all(prefix),
        }
    }
}

/// The least text that is greater than all texts that begin with `prefix`.
fn behind_all(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Between these two there are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// A part of the index: the entries and slots of a range from a place on.
struct Stretch {
    entries: Vec<(String, Bytes)>,
    slots: Vec<String>,
    /// The place from which the list goes on; `None` at the end of the index.
    next: Option<Place>,
}

impl Query {
    /// The common prefix that sums a key up.
    pub(crate) fn common_prefix(&self, key: &str) -> Option<String> {
        let rest = key.strip_prefix(self.prefix.as_str()).filter(|_| !self.delimiter.is_empty())?;
        let at = rest.find(self.delimiter.as_str())?;
        Some(format!("{}{}", self.prefix, &rest[..at + self.delimiter.len()]))
    }

    pub(crate) fn first_place(&self) -> Place {
        if self.after.is_empty() || self.after < self.prefix {
            return Place::At(self.prefix.clone());
        }
        match self.common_prefix(&self.after) {
            Some(common) if common == self.after => Place::BehindPrefix(common),
            _ => Place::Behind(self.after.clone()),
        }
    }
}

impl<R: Rados> Store<R> {
    /// Lists keys. The list shows each key that was put before it began and not deleted meanwhile, and none that was
    /// deleted before.
    pub async fn list(&self, bucket: &Bucket, query: &Query) -> Result<Page, Error> {
        let mut page = Page::default();
        let mut place = Some(query.first_place());
        if query.max == 0 {
            return Ok(page);
        }
        let mut last = String::new();
        while let Some(from) = place {
            let stretch = self.stretch(bucket, &from, &query.prefix, query.max + 1).await?;
            place = stretch.next.clone();
            let found = self.resolved(bucket, stretch).await?;
            let mut skip: Option<String> = page.common_prefixes.last().cloned();
            for (key, entry) in found {
                if skip.as_ref().is_some_and(|common| key.starts_with(common.as_str())) {
                    continue;
                }
                if page.entries.len() + page.common_prefixes.len() == query.max {
                    page.next = Some(last);
                    return Ok(page);
                }
                match query.common_prefix(&key) {
                    // A marker within a common prefix lists the rest of what it sums up.
                    Some(common) => {
                        last.clone_from(&common);
                        page.common_prefixes.push(common.clone());
                        skip = Some(common);
                    }
                    None => {
                        last.clone_from(&key);
                        page.entries.push((key, entry));
                    }
                }
            }
            // The rest of a common prefix is not read.
            if let (Some(common), Some(next)) = (skip, &place)
                && next.key().is_some_and(|key| key.starts_with(common.as_str()))
            {
                place = Some(Place::BehindPrefix(common));
            }
        }
        Ok(page)
    }

    /// Reads a part of the index. All keys of the part are within one range.
    async fn stretch(&self, bucket: &Bucket, from: &Place, prefix: &str, max: usize) -> Result<Stretch, Error> {
        let Some(key) = from.key() else {
            return Ok(Stretch { entries: Vec::new(), slots: Vec::new(), next: None });
        };
        let max = (max as u64).clamp(2, self.settings.page_entries);
        let list = |region| Step::List { after: from.name(region), max, prefix: names::prefix(region, prefix) };
        let (route, mut replies) = self.on_range(bucket, &key, &[list(ENTRIES), list(SLOTS)]).await?;
        let (slots, more_slots) = replies.remove(1).entries();
        let (entries, more_entries) = replies.remove(0).entries();
        let key_of = |name: &Bytes| {
            names::parse(name).map(|(key, _)| key).ok_or_else(|| Error::damaged("an index", format!("{name:?}")))
        };
        let mut read = Vec::with_capacity(entries.len());
        for (name, value) in entries {
            read.push((key_of(&name)?, value));
        }
        let mut slots: Vec<String> = slots.iter().map(|(name, _)| key_of(name)).collect::<Result<_, _>>()?;
        // Both regions are known up to where the shorter list ends.
        let ends = [
            read.last().map(|(key, _)| key.clone()).filter(|_| more_entries),
            slots.last().cloned().filter(|_| more_slots),
        ];
        let known = ends.into_iter().flatten().min();
        let is_inside = |key: &String| {
            route.end.as_ref().is_none_or(|end| key < end) && known.as_ref().is_none_or(|known| key <= known)
        };
        read.retain(|(key, _)| is_inside(key));
        slots.retain(|key| is_inside(key));
        let next = match (&known, &route.end) {
            (Some(known), _) if is_inside(known) => Some(Place::Behind(known.clone())),
            (_, Some(end)) if end.starts_with(prefix) || end.as_str() < prefix => Some(Place::At(end.clone())),
            _ => None,
        };
        Ok(Stretch { entries: read, slots, next })
    }

    /// The keys of a part, where those under change are as their heads tell.
    async fn resolved(&self, bucket: &Bucket, stretch: Stretch) -> Result<Vec<(String, Entry)>, Error> {
        let mut found: BTreeMap<String, Entry> = BTreeMap::new();
        for (key, value) in stretch.entries {
            if stretch.slots.binary_search(&key).is_err() {
                found.insert(key, from_bytes("an entry of an index", &value)?);
            }
        }
        let reads: Vec<_> = stretch.slots.iter().map(|key| self.head(bucket, key)).collect();
        let heads = all(reads, HEADS_AT_ONCE).await;
        for (key, head) in stretch.slots.into_iter().zip(heads) {
            if let Some(head) = head?.filter(|head| !head.is_marker) {
                found.insert(key, head.entry());
            }
        }
        Ok(found.into_iter().collect())
    }

    /// Lists multipart uploads behind a key, or behind an upload of it.
    pub async fn list_uploads(&self, bucket: &Bucket, query: &Query, after_upload: &str) -> Result<UploadPage, Error> {
        let mut page = UploadPage::default();
        let mut last = (String::new(), String::new());
        let mut after = if query.after.is_empty() || query.after < query.prefix {
            Place::At(query.prefix.clone()).name(UPLOADS)
        } else if after_upload.is_empty() {
            query.first_place().name(UPLOADS)
        } else {
            names::upload_entry(&query.after, after_upload)
        };
        let mut key = if query.after < query.prefix { query.prefix.clone() } else { query.after.clone() };
        if query.max == 0 {
            return Ok(page);
        }
        loop {
            let max = (query.max as u64 + 1).min(self.settings.page_entries);
            let list = Step::List { after: after.clone(), max, prefix: names::prefix(UPLOADS, &query.prefix) };
            let (route, mut replies) = self.on_range(bucket, &key, &[list]).await?;
            let (entries, more) = replies.remove(0).entries();
            let mut passed_end = false;
            for (name, value) in &entries {
                let (key, upload) = names::parse(name).ok_or_else(|| Error::damaged("an index", "an upload"))?;
                if route.end.as_ref().is_some_and(|end| key >= *end) {
                    passed_end = true;
                    break;
                }
                let common = query.common_prefix(&key);
                if common.is_some() && common.as_ref() == page.common_prefixes.last() {
                    continue;
                }
                if page.uploads.len() + page.common_prefixes.len() == query.max {
                    page.next = Some(last);
                    return Ok(page);
                }
                if let Some(common) = common {
                    last = (common.clone(), String::new());
                    page.common_prefixes.push(common);
                    continue;
                }
                last = (key.clone(), upload.clone());
                let (owner, created_ms) = from_bytes("an entry of an upload", value)?;
                page.uploads.push(ListedUpload { key, upload, owner, created_ms });
            }
            match (entries.last(), &route.end) {
                (Some((name, _)), _) if more && !passed_end => {
                    after = name.clone();
                    key = names::parse(name).map(|(key, _)| key).unwrap_or_default();
                }
                (_, Some(end)) if end.starts_with(&query.prefix) || *end < query.prefix => {
                    after = Place::At(end.clone()).name(UPLOADS);
                    key.clone_from(end);
                }
                _ => return Ok(page),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_text_behind_a_prefix() {
        assert_eq!(behind_all("a/").as_deref(), Some("a0"));
        assert_eq!(behind_all("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(behind_all("\u{d7ff}").as_deref(), Some("\u{e000}"));
        assert_eq!(behind_all(""), None);
    }
}

//! Counts a bucket's objects, and compares its index with the heads.

use crate::error::Error;
use crate::listing::Query;
use crate::present::Present;
use crate::rados::Rados;
use crate::records::{Bucket, VersionEntry};
use crate::store::{PAUSE_MS, Store};
use crate::window::all;
use std::sync::Arc;

/// Heads that are read at once.
const HEADS_AT_ONCE: usize = 32;
/// Looks at a key that seems wrong: it may be changing.
const LOOKS: u32 = 5;

/// Findings of a check of a bucket. A check counts every version, a count the newest ones.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    pub objects: u64,
    pub bytes: u64,
    pub ranges: u64,
    /// Keys whose entries differ from their heads, or have none.
    pub wrong: Vec<String>,
}

impl<R: Rados> Store<R> {
    /// Counts the objects of a bucket, their bytes, and the ranges of its index.
    pub async fn count(&self, bucket: &Bucket) -> Result<Checked, Error> {
        let mut found = Checked { ranges: self.ranges(&bucket.id).await?.len() as u64, ..Checked::default() };
        let mut query = Query { max: 1000, ..Query::default() };
        loop {
            let page = self.list(bucket, &query).await?;
            found.objects += page.entries.len() as u64;
            found.bytes += page.entries.iter().map(|(_, entry)| entry.size).sum::<u64>();
            match page.next {
                Some(next) => query.after = next,
                None => return Ok(found),
            }
        }
    }

    /// Compares the entries of a bucket's index with the heads of their keys. If `repair`, those that are wrong are
    /// written anew.
    pub async fn check_bucket(&self, bucket: &Arc<Bucket>, repair: bool) -> Result<Checked, Error> {
        let mut found = Checked { ranges: self.ranges(&bucket.id).await?.len() as u64, ..Checked::default() };
        let (mut query, mut after) = (Query { max: 1000, ..Query::default() }, None);
        // The versions of the last key of a page may go on in the next one.
        let mut open: Option<(String, Vec<VersionEntry>)> = None;
        loop {
            let page = self.list_versions(bucket, &query, after.as_deref()).await?;
            let mut keys: Vec<(String, Vec<VersionEntry>)> = open.take().into_iter().collect();
            for listed in page.versions {
                match keys.last_mut().filter(|(key, _)| *key == listed.key) {
                    Some((_, versions)) => versions.push(listed.version),
                    None => keys.push((listed.key, vec![listed.version])),
                }
            }
            if page.next.is_some() {
                open = keys.pop();
            }
            let presents: Vec<_> = keys.iter().map(|(key, _)| self.present(bucket, key)).collect();
            let presents = all(presents, HEADS_AT_ONCE).await;
            for ((key, versions), present) in keys.into_iter().zip(presents) {
                for version in versions.iter().filter(|version| !version.is_marker) {
                    found.objects += 1;
                    found.bytes += version.entry.size;
                }
                if versions_of(present?) != versions && self.is_wrong(bucket, &key).await? {
                    if repair {
                        let stamp = self.stamp(bucket, &key).await?;
                        self.leave(bucket, &key, |tag| tag == stamp.tag).await?;
                    }
                    found.wrong.push(key);
                }
            }
            match page.next {
                Some((key, version)) => (query.after, after) = (key, version),
                None => return Ok(found),
            }
        }
    }

    /// Looks several times if the entries of a key differ from its head.
    async fn is_wrong(&self, bucket: &Bucket, key: &str) -> Result<bool, Error> {
        for _ in 0..LOOKS {
            let before = self.present(bucket, key).await?;
            let shown = before.as_ref().filter(|present| !present.head.is_marker).map(|present| present.head.entry());
            let expected = versions_of(before);
            let query = Query { prefix: key.to_owned(), max: expected.len() + 1, ..Query::default() };
            let listed = self.list_versions(bucket, &query, None).await?.versions.into_iter();
            let listed: Vec<_> = listed.filter(|found| found.key == key).map(|found| found.version).collect();
            let objects = self.list(bucket, &Query { max: 1, ..query }).await?.entries.into_iter();
            let object = objects.into_iter().find(|(found, _)| found == key).map(|(_, entry)| entry);
            if listed == expected && object == shown {
                return Ok(false);
            }
            self.rados.pause(PAUSE_MS).await;
        }
        Ok(true)
    }
}

fn versions_of(present: Option<Present>) -> Vec<VersionEntry> {
    present.iter().flat_map(Present::versions).map(|(_, version)| version).collect()
}

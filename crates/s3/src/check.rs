//! Compares a bucket's index with the heads of its keys, and its counts with the index.

use crate::error::Error;
use crate::listing::Query;
use crate::present::Present;
use crate::rados::Rados;
use crate::records::{Bucket, VersionEntry};
use crate::store::{PAUSE_MS, Store};
use crate::window::all;
use s3rules::quota::UsageChange;
use std::sync::Arc;

/// Heads that are read at once.
const HEADS_AT_ONCE: usize = 32;
/// Looks at a key that seems wrong: it may be changing.
const LOOKS: u32 = 5;

/// Findings of a check of a bucket. Every version with bytes counts as an object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Checked {
    pub objects: u64,
    pub bytes: u64,
    pub ranges: u64,
    /// Keys whose entries differ from their heads, or have none.
    pub wrong: Vec<String>,
    /// Ranges whose counts of bytes or objects were wrong.
    pub miscounted: u64,
}

impl<R: Rados> Store<R> {
    /// Compares the entries of a bucket's index with the heads of their keys. If `repair`, those that are wrong are
    /// written anew, and so are counts.
    ///
    /// `looked_at` is told again and again how many keys were looked at.
    pub async fn check_bucket(
        &self,
        bucket: &Arc<Bucket>,
        repair: bool,
        mut looked_at: impl FnMut(u64) + Send,
    ) -> Result<Checked, Error> {
        let mut found = Checked { ranges: self.ranges(&bucket.id).await?.len() as u64, ..Checked::default() };
        let (mut query, mut after) = (Query { max: 1000, ..Query::default() }, None);
        // The versions of the last key of a page may go on in the next one.
        let mut open: Option<(String, Vec<VersionEntry>)> = None;
        let mut looks = 0;
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
            looks += keys.len() as u64;
            looked_at(looks);
            let presents: Vec<_> = keys.iter().map(|(key, _)| self.present(bucket, key)).collect();
            let presents = all(presents, HEADS_AT_ONCE).await;
            for ((key, versions), present) in keys.into_iter().zip(presents) {
                for version in versions.iter().filter(|version| !version.is_marker) {
                    found.objects += 1;
                    found.bytes += version.entry.size;
                }
                if versions_of(present?) != versions && self.is_wrong(bucket, &key).await? {
                    if repair {
                        self.list_anew(bucket, &key).await?;
                    }
                    found.wrong.push(key);
                }
            }
            match page.next {
                Some((key, version)) => (query.after, after) = (key, version),
                None => break,
            }
        }
        found.miscounted = self.miscounted(bucket, repair).await?;
        Ok(found)
    }

    /// Writes the entries of a key anew, from its head.
    pub(crate) async fn list_anew(&self, bucket: &Arc<Bucket>, key: &str) -> Result<(), Error> {
        let stamp = self.stamp(bucket, key).await?;
        self.take_back(bucket, key, &stamp.tag).await
    }

    /// The number of ranges with wrong counts. Ranges that change all the time are passed over.
    async fn miscounted(&self, bucket: &Bucket, repair: bool) -> Result<u64, Error> {
        let mut miscounted = 0;
        for (_, id) in self.ranges(&bucket.id).await? {
            let missing = self.count_range((&bucket.id, &id), LOOKS, repair).await?;
            miscounted += u64::from(missing.is_some_and(|missing| missing != UsageChange::default()));
        }
        Ok(miscounted)
    }

    /// Looks several times if the entries of a key differ from its head.
    pub(crate) async fn is_wrong(&self, bucket: &Bucket, key: &str) -> Result<bool, Error> {
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

//! Counts a bucket's objects, and compares its index with the heads.

use crate::error::Error;
use crate::listing::Query;
use crate::rados::Rados;
use crate::records::{Bucket, Entry};
use crate::store::{PAUSE_MS, Store};
use crate::window::all;
use std::sync::Arc;

/// Heads that are read at once.
const HEADS_AT_ONCE: usize = 32;
/// Looks at a key that seems wrong: it may be changing.
const LOOKS: u32 = 5;

/// Findings of a check of a bucket.
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

    /// Compares each entry of a bucket's index with its head. If `repair`, entries that are wrong are written anew.
    pub async fn check_bucket(&self, bucket: &Arc<Bucket>, repair: bool) -> Result<Checked, Error> {
        let mut found = Checked { ranges: self.ranges(&bucket.id).await?.len() as u64, ..Checked::default() };
        let mut query = Query { max: 1000, ..Query::default() };
        loop {
            let page = self.list(bucket, &query).await?;
            let heads: Vec<_> = page.entries.iter().map(|(key, _)| self.head(bucket, key)).collect();
            let heads = all(heads, HEADS_AT_ONCE).await;
            for ((key, entry), head) in page.entries.into_iter().zip(heads) {
                found.objects += 1;
                found.bytes += entry.size;
                if head?.map(|head| head.entry()).as_ref() != Some(&entry) && self.is_wrong(bucket, &key).await? {
                    if repair {
                        let stamp = self.stamp(bucket, &key).await?;
                        self.leave(bucket, &key, |tag| tag == stamp.tag).await?;
                    }
                    found.wrong.push(key);
                }
            }
            match page.next {
                Some(next) => query.after = next,
                None => return Ok(found),
            }
        }
    }

    /// Looks several times if the entry of a key differs from its head.
    async fn is_wrong(&self, bucket: &Bucket, key: &str) -> Result<bool, Error> {
        for _ in 0..LOOKS {
            let before = self.head(bucket, key).await?.map(|head| head.entry());
            let query = Query { prefix: key.to_owned(), max: 1, ..Query::default() };
            let listed = self.list(bucket, &query).await?.entries.into_iter().next();
            let listed: Option<Entry> = listed.filter(|(found, _)| found == key).map(|(_, entry)| entry);
            if listed == before {
                return Ok(false);
            }
            self.rados.pause(PAUSE_MS).await;
        }
        Ok(true)
    }
}

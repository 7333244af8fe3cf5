//! Looks for objects of a pool of bytes that nothing names, and for keys that their bucket's index does not list.
//!
//! A tail or a place goes one way: an intent names it, then a part of an upload or a version of its key, then an intent
//! again, until it is removed. Each step names it anew before the former name goes, nothing names it again once nobody
//! does, and it never goes over to another key. So the walk first notes what lies in the pool, and then reads intents,
//! uploads, heads, and intents once more, in this order: something that is in none of them had no name when it was
//! noted. Heads are found by walking the pool, not by an index that may be wrong.

use crate::error::{Code, Error};
use crate::names::{self, DataObject, ENTRIES, SLOTS, VERSIONS};
use crate::present::Present;
use crate::rados::{ObjectNames, Rados, RadosError, Step};
use crate::records::{Bucket, Intent, Named, Part, Tail, from_bytes};
use crate::store::Store;
use crate::window::all;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Heads that are read at once.
const HEADS_AT_ONCE: usize = 32;

/// A finding, or how far the check has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OrphanFound {
    /// Objects of the pool that were looked at so far.
    LookedAt(u64),
    /// Nothing names this object, and it is old enough to be removed.
    Orphan { object: String, bytes: u64 },
    /// An object is there, and the index of its bucket does not list it.
    Unlisted { bucket: String, key: String },
    /// A head of a bucket that is not there. It is never removed: only people know if the bucket was.
    Stray { object: String },
}

/// Findings of a check of a pool, in numbers. Objects are those of RADOS.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PoolChecked {
    pub objects: u64,
    pub orphans: u64,
    pub orphan_bytes: u64,
    pub unlisted: u64,
    pub stray: u64,
    /// Objects that nothing names and that are too young to be removed.
    pub young: u64,
    /// Objects that an intent names: a request or a removal is under way, or was when its gateway died.
    pub under_way: u64,
    /// Objects whose names no gateway gives.
    pub foreign: u64,
}

/// Objects of a pool that were not found to be named yet.
#[derive(Default)]
struct Unnamed {
    /// Numbers of stripes, by tail.
    tails: BTreeMap<String, Vec<u64>>,
    places: BTreeSet<String>,
}

impl Unnamed {
    fn len(&self) -> usize {
        self.tails.len() + self.places.len()
    }

    fn objects(&self) -> u64 {
        self.tails.values().map(|stripes| stripes.len() as u64).sum::<u64>() + self.places.len() as u64
    }

    /// Takes out the stripes that belong to a tail.
    fn name_tail(&mut self, tail: &Tail) {
        if let Some(stripes) = self.tails.get_mut(&tail.id) {
            stripes.retain(|number| *number >= tail.stripes());
            if stripes.is_empty() {
                self.tails.remove(&tail.id);
            }
        }
    }

    fn name(&mut self, named: &Named) {
        named.tails.iter().for_each(|tail| self.name_tail(tail));
        for place in &named.places {
            self.places.remove(place);
        }
    }

    fn name_by_intent(&mut self, intent: &Intent) {
        match intent {
            Intent::Tails { named, .. } | Intent::Garbage { named, .. } => self.name(named),
            Intent::PartTails { tails, .. } => tails.iter().for_each(|tail| self.name_tail(tail)),
            // These are about what uploads and heads name, or about nothing in a pool of bytes.
            Intent::Abort { .. }
            | Intent::Complete { .. }
            | Intent::CreateBucket(_)
            | Intent::DeleteBucket(_)
            | Intent::Split { .. }
            | Intent::Merge { .. } => {}
        }
    }

    fn names(self) -> impl Iterator<Item = String> {
        let stripes = self
            .tails
            .into_iter()
            .flat_map(|(tail, stripes)| stripes.into_iter().map(move |number| names::stripe_object(&tail, number)));
        stripes.chain(self.places.into_iter().map(|place| names::older_object(&place)))
    }
}

/// A check of one pool.
struct Walk<'a, F> {
    pool: &'a str,
    fix: bool,
    /// Buckets by their ids.
    buckets: BTreeMap<String, Arc<Bucket>>,
    counted: PoolChecked,
    found: F,
}

impl<R: Rados> Store<R> {
    /// Looks through a pool of bytes. If `fix`, orphans are removed, and keys that are not listed are.
    ///
    /// `found` is told all findings. Errors: those of the cluster, and `Damaged` for a head or an upload that cannot be
    /// read, since nobody knows what it names: nothing more is removed then.
    pub async fn check_pool(
        &self,
        pool: &str,
        fix: bool,
        found: impl FnMut(OrphanFound) + Send,
    ) -> Result<PoolChecked, Error> {
        let mut walk = Walk { pool, fix, buckets: self.buckets_by_id().await?, counted: PoolChecked::default(), found };
        let mut objects = self.rados.names(pool).await?;
        let mut is_first = true;
        loop {
            let (mut unnamed, is_end) = self.note_objects(&mut objects, &mut walk).await?;
            let noted = unnamed.objects();
            self.name_by_intents(&mut unnamed).await?;
            walk.counted.under_way += noted - unnamed.objects();
            if unnamed.len() > 0 {
                self.name_by_uploads(&mut unnamed).await?;
            }
            if unnamed.len() > 0 || is_first {
                self.name_by_heads(&mut unnamed, &mut walk, is_first).await?;
            }
            let before = unnamed.objects();
            self.name_by_intents(&mut unnamed).await?;
            walk.counted.under_way += before - unnamed.objects();
            self.drop_orphans(unnamed, &mut walk).await?;
            if is_end {
                return Ok(walk.counted);
            }
            is_first = false;
        }
    }

    async fn buckets_by_id(&self) -> Result<BTreeMap<String, Arc<Bucket>>, Error> {
        let mut found = BTreeMap::new();
        for user in self.users().await? {
            found.extend(self.buckets(&user).await?.into_iter().map(|bucket| (bucket.id.clone(), bucket)));
        }
        Ok(found)
    }

    /// Notes tails and places that lie in the pool, as many as are remembered at once. True at the end of the pool.
    async fn note_objects(
        &self,
        objects: &mut R::Names,
        walk: &mut Walk<'_, impl FnMut(OrphanFound) + Send>,
    ) -> Result<(Unnamed, bool), Error> {
        let mut unnamed = Unnamed::default();
        while unnamed.len() < self.settings.orphans_at_once.max(1) {
            let Some(page) = objects.next_page().await? else { return Ok((unnamed, true)) };
            walk.counted.objects += page.len() as u64;
            (walk.found)(OrphanFound::LookedAt(walk.counted.objects));
            for name in page {
                match names::parse_data(&name) {
                    Some(DataObject::Stripe { tail, number }) => unnamed.tails.entry(tail).or_default().push(number),
                    Some(DataObject::Older { place }) => {
                        unnamed.places.insert(place);
                    }
                    Some(DataObject::Head { .. }) => {}
                    None => walk.counted.foreign += 1,
                }
            }
        }
        Ok((unnamed, false))
    }

    async fn name_by_intents(&self, unnamed: &mut Unnamed) -> Result<(), Error> {
        for (session, _) in self.whole_omap(names::SESSIONS, Bytes::new()).await? {
            let object = names::session_object(&String::from_utf8_lossy(&session));
            for (_, intent) in self.whole_omap(&object, Bytes::from_static(b"i")).await? {
                unnamed.name_by_intent(&from_bytes(&object, &intent)?);
            }
        }
        Ok(())
    }

    async fn name_by_uploads(&self, unnamed: &mut Unnamed) -> Result<(), Error> {
        let mut records = self.rados.names(&self.settings.meta_pool).await?;
        while let Some(page) = records.next_page().await? {
            for object in page.iter().filter(|name| names::parse_upload(name).is_some()) {
                for (_, part) in self.whole_omap(object, Bytes::new()).await? {
                    let part: Part = from_bytes(object, &part)?;
                    unnamed.name_tail(&part.tail);
                }
            }
        }
        Ok(())
    }

    /// `lists`: heads are also compared with the indexes of their buckets.
    async fn name_by_heads(
        &self,
        unnamed: &mut Unnamed,
        walk: &mut Walk<'_, impl FnMut(OrphanFound) + Send>,
        lists: bool,
    ) -> Result<(), Error> {
        let mut objects = self.rados.names(walk.pool).await?;
        while let Some(page) = objects.next_page().await? {
            let heads = page.iter().filter_map(|name| match names::parse_data(name) {
                Some(DataObject::Head { bucket, key }) => Some((walk.bucket(bucket), key)),
                _ => None,
            });
            let heads: Vec<(Arc<Bucket>, String)> = heads.collect();
            let with_parts = !unnamed.tails.is_empty();
            let reads: Vec<_> = heads.iter().map(|(bucket, key)| self.named_by(bucket, key, with_parts)).collect();
            for ((bucket, key), read) in heads.iter().zip(all(reads, HEADS_AT_ONCE).await) {
                let Some((present, named)) = read? else { continue };
                unnamed.name(&named);
                if lists {
                    self.compare_with_index(bucket, key, &present, walk).await?;
                }
            }
        }
        Ok(())
    }

    async fn compare_with_index(
        &self,
        bucket: &Arc<Bucket>,
        key: &str,
        present: &Present,
        walk: &mut Walk<'_, impl FnMut(OrphanFound) + Send>,
    ) -> Result<(), Error> {
        if walk.known(&bucket.id).is_none() {
            // A bucket that is being made or deleted has a root.
            if self.root_state(&bucket.id).await?.is_none() && self.head(bucket, key).await?.is_some() {
                walk.counted.stray += 1;
                (walk.found)(OrphanFound::Stray { object: names::head_object(&bucket.id, key) });
            }
            return Ok(());
        }
        let is_unlisted = match self.is_listed(bucket, key).await {
            // A head that agrees with its entries now was changed meanwhile.
            Ok(false) => self.is_wrong(bucket, key).await,
            Ok(true) => return Ok(()),
            Err(error) => Err(error),
        };
        match is_unlisted {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // The bucket was deleted meanwhile.
            Err(error) if matches!(error.code(), Some(Code::NoSuchBucket | Code::OperationAborted)) => return Ok(()),
            Err(error) => return Err(error),
        }
        walk.counted.unlisted += 1;
        (walk.found)(OrphanFound::Unlisted { bucket: bucket.name.clone(), key: present.head.key.clone() });
        if walk.fix { self.list_anew(bucket, key).await } else { Ok(()) }
    }

    /// True if the index has anything for a key.
    async fn is_listed(&self, bucket: &Bucket, key: &str) -> Result<bool, Error> {
        let get = Step::Get(vec![names::entry(ENTRIES, key), names::entry(SLOTS, key)]);
        let list = Step::List { after: Bytes::new(), max: 1, prefix: names::entry(VERSIONS, key) };
        let (_, replies) = self.on_range(bucket, key, &[get, list]).await?;
        Ok(replies.into_iter().any(|reply| !reply.entries().0.is_empty()))
    }

    async fn drop_orphans(
        &self,
        unnamed: Unnamed,
        walk: &mut Walk<'_, impl FnMut(OrphanFound) + Send>,
    ) -> Result<(), Error> {
        for object in unnamed.names() {
            let (bytes, mtime_ms) = match self.rados.operate(walk.pool, object.clone(), vec![Step::Stat]).await {
                Ok(replies) => replies[0].stat(),
                // It was noted a while ago, and then removed by the one who had named it.
                Err(RadosError::NotFound) => continue,
                Err(error) => return Err(error.into()),
            };
            // A clock that is behind makes it young.
            if self.rados.now_ms().saturating_sub(mtime_ms) < self.settings.orphan_age_ms {
                walk.counted.young += 1;
                continue;
            }
            if walk.fix {
                match self.rados.operate(walk.pool, object.clone(), vec![Step::Remove]).await {
                    Ok(_) | Err(RadosError::NotFound) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            walk.counted.orphans += 1;
            walk.counted.orphan_bytes += bytes;
            (walk.found)(OrphanFound::Orphan { object, bytes });
        }
        Ok(())
    }
}

impl<F> Walk<'_, F> {
    /// The bucket of this id, if it is there and has its bytes in this pool.
    fn known(&self, id: &str) -> Option<&Arc<Bucket>> {
        self.buckets.get(id).filter(|bucket| bucket.data_pool == self.pool)
    }

    /// The bucket of a head; of one that is not known only the id and the pool tell.
    fn bucket(&self, id: String) -> Arc<Bucket> {
        self.known(&id).cloned().unwrap_or_else(|| {
            let data_pool = self.pool.to_owned();
            Arc::new(Bucket { name: String::new(), id, owner: String::new(), created_ms: 0, data_pool })
        })
    }
}

//! Quotas of users and buckets, by usage as this gateway knows it.
//!
//! A gateway remembers the usage of buckets that a quota is about, and adds what it writes itself: first a reservation,
//! then, once the index has it, a move. After a while it asks the counts anew, and learns what others have written. It
//! also does so before it refuses something, unless it has just done so.

use crate::error::Error;
use crate::names;
use crate::rados::Rados;
use crate::records::Bucket;
use crate::store::{KnownOwner, PAUSE_MS, Store, TRIES_MAX, lock, too_many_tries};
use crate::usage::{KnownUsage, KnownUsages, added, negative};
use crate::window::all;
use bytes::Bytes;
use s3rules::quota::{Quota, Usage, UsageChange, check_quotas};
use std::sync::{Arc, MutexGuard};

/// Usage that is not older is good enough to refuse something.
const FRESH_MS: u64 = 1000;
/// Usage is remembered for so many times as long as it takes to be counted.
const PATIENCE: u64 = 20;
/// Buckets of a user that are counted at once.
const COUNTS_AT_ONCE: usize = 16;
/// Buckets and users that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// A change that counts already, though the index does not have it yet. It is taken back where it is dropped.
pub(crate) struct Reserved<R: Rados> {
    store: Arc<Store<R>>,
    bucket: String,
    change: UsageChange,
}

impl<R: Rados> Reserved<R> {
    /// `usages`: those of the store.
    fn new(store: Arc<Store<R>>, usages: &mut KnownUsages, bucket: String, change: UsageChange) -> Reserved<R> {
        let known = usages.entry(bucket.clone()).or_default();
        known.reserved = added(known.reserved, change);
        Reserved { store, bucket, change }
    }

    /// Makes it what has become of the change.
    pub fn set(&mut self, change: UsageChange) {
        let more = added(change, negative(self.change));
        self.change = change;
        self.store.with_usage(&self.bucket, |known| known.reserved = added(known.reserved, more));
    }

    /// Ends it, because the index has the change.
    pub fn keep(mut self) {
        // Nobody sees the change twice or not at all. Nothing of it is left to be taken back.
        let change = std::mem::take(&mut self.change);
        self.store.with_usage(&self.bucket, |known| {
            known.moved = added(known.moved, change);
            known.reserved = added(known.reserved, negative(change));
            known.is_blurred |= known.is_counting;
        });
    }
}

impl<R: Rados> Drop for Reserved<R> {
    fn drop(&mut self) {
        let back = negative(self.change);
        self.store.with_usage(&self.bucket, |known| known.reserved = added(known.reserved, back));
    }
}

/// Next step of a request that wants to know a bucket's usage.
enum Turn {
    Known,
    /// Another one counts.
    Waits,
    Counts {
        moved: UsageChange,
    },
}

/// The part of a change that a quota may refuse.
pub(crate) fn growth(change: UsageChange) -> UsageChange {
    UsageChange { bytes: change.bytes.max(0), objects: change.objects.max(0) }
}

impl<R: Rados> Store<R> {
    /// The known usage of buckets, with room for one more.
    fn usages_with_room(&self) -> MutexGuard<'_, KnownUsages> {
        let mut usages = lock(&self.usages);
        if usages.len() >= REMEMBERED_MAX {
            usages.retain(|_, known| known.is_counting || known.reserved != UsageChange::default());
        }
        usages
    }

    /// Looks at, or changes, what is known of a bucket's usage.
    fn with_usage<T>(&self, bucket: &str, look: impl FnOnce(&mut KnownUsage) -> T) -> T {
        look(self.usages_with_room().entry(bucket.to_owned()).or_default())
    }

    /// The owner of a bucket, perhaps as some seconds ago.
    async fn owner(&self, uid: &str) -> Result<KnownOwner, Error> {
        let now = self.rados.now_ms();
        if let Some(known) = lock(&self.owners).get(uid)
            && now < known.0 + self.settings.bucket_ttl_ms
        {
            return Ok(known.clone());
        }
        let user = self.user_if_any(uid).await?.map(Arc::new);
        let mut buckets = Vec::new();
        if user.as_ref().is_some_and(|user| user.quota.enabled) {
            let found = self.whole_omap(&names::user_object(uid), Bytes::new()).await?;
            buckets.extend(found.into_iter().map(|(_, id)| String::from_utf8_lossy(&id).into_owned()));
        }
        let known = (now, user, Arc::new(buckets));
        let mut owners = lock(&self.owners);
        if owners.len() >= REMEMBERED_MAX {
            owners.clear();
        }
        owners.insert(uid.to_owned(), known.clone());
        Ok(known)
    }

    /// Sees to it that a bucket's usage is known, and not older than `age_ms`.
    async fn learn_usage(&self, bucket: &str, age_ms: Option<u64>) -> Result<(), Error> {
        for _ in 0..TRIES_MAX {
            let now = self.rados.now_ms();
            let turn = self.with_usage(bucket, |known| {
                let is_known = known.counted.is_some_and(|(_, at)| match age_ms {
                    Some(age_ms) => now < at + age_ms && !known.is_blurred,
                    // One request counts, others go on by what is known.
                    None => now < known.asked_until_ms || known.is_counting,
                });
                if is_known {
                    return Turn::Known;
                }
                if known.is_counting {
                    return Turn::Waits;
                }
                known.is_counting = true;
                known.is_blurred = false;
                Turn::Counts { moved: known.moved }
            });
            match turn {
                Turn::Known => return Ok(()),
                Turn::Waits => self.rados.pause(PAUSE_MS).await,
                Turn::Counts { moved } => return self.count_usage(bucket, now, moved).await,
            }
        }
        Err(too_many_tries())
    }

    /// Counts a bucket's usage. `moved`: changes that had reached the index before.
    async fn count_usage(&self, bucket: &str, now: u64, moved: UsageChange) -> Result<(), Error> {
        let usage = self.usage(bucket, true).await;
        let took_ms = self.rados.now_ms().saturating_sub(now);
        self.with_usage(bucket, |known| {
            known.is_counting = false;
            let usage = usage?;
            let bytes = usage.stored.bytes + usage.upload_bytes;
            known.counted = Some((Usage { bytes, ..usage.stored }, now));
            known.asked_until_ms = now + self.settings.usage_ttl_ms.max(took_ms * PATIENCE);
            known.moved = added(known.moved, negative(moved));
            Ok(())
        })
    }

    /// Reserves a change of a bucket, if the quotas of the bucket and of its owner let it pass. `None` where there are
    /// none. Errors: `QuotaExceeded`.
    pub(crate) async fn reserve(
        self: &Arc<Self>,
        bucket: &Bucket,
        change: UsageChange,
    ) -> Result<Option<Reserved<R>>, Error> {
        let (_, settings) = self.bucket_and_settings(&bucket.name).await?;
        let (_, owner, buckets) = self.owner(&bucket.owner).await?;
        let of_bucket = settings.quota;
        let of_owner = owner.map(|owner| owner.quota).unwrap_or_default();
        if !of_bucket.enabled && !of_owner.enabled {
            return Ok(None);
        }
        let mut asked = vec![bucket.id.clone()];
        if of_owner.enabled {
            asked.extend(buckets.iter().filter(|id| **id != bucket.id).cloned());
        }
        // Most changes are bound by no quota, and need no room for this.
        Box::pin(self.reserve_within((of_bucket, of_owner), asked, change)).await.map(Some)
    }

    /// Reserves a change of the first of some buckets, which are those of its owner, by the quotas of both.
    async fn reserve_within(
        self: &Arc<Self>,
        quotas: (Quota, Quota),
        buckets: Vec<String>,
        change: UsageChange,
    ) -> Result<Reserved<R>, Error> {
        let learn = async |age_ms| {
            let learned = buckets.iter().map(|id| self.learn_usage(id, age_ms)).collect();
            all(learned, COUNTS_AT_ONCE).await.into_iter().collect::<Result<(), Error>>()
        };
        learn(None).await?;
        if let Ok(reserved) = self.admit(quotas, &buckets, change) {
            return Ok(reserved);
        }
        learn(Some(FRESH_MS)).await?;
        self.admit(quotas, &buckets, change)
    }

    /// Counts a change that is made, and that no quota could refuse, where somebody remembers the bucket's usage.
    pub(crate) fn reserve_known(self: &Arc<Self>, bucket: &Bucket, change: UsageChange) -> Option<Reserved<R>> {
        let mut usages = lock(&self.usages);
        let is_known = usages.contains_key(&bucket.id) && change != UsageChange::default();
        is_known.then(|| Reserved::new(self.clone(), &mut usages, bucket.id.clone(), change))
    }

    /// Reserves a change of the first of some buckets, which are those of its owner, if it may pass by what is known.
    fn admit(
        self: &Arc<Self>,
        (bucket, owner): (Quota, Quota),
        buckets: &[String],
        change: UsageChange,
    ) -> Result<Reserved<R>, Error> {
        // Requests on other threads look and reserve, too: between the look and the reservation nobody else does.
        let mut usages = self.usages_with_room();
        let known = |id: &String| usages.get(id).map(KnownUsage::change).unwrap_or_default();
        let of_bucket = Usage::default().after(buckets.first().map(known).unwrap_or_default());
        let of_owner = Usage::default().after(buckets.iter().map(known).fold(UsageChange::default(), added));
        check_quotas((bucket, of_bucket), (owner, of_owner), change)?;
        Ok(Reserved::new(self.clone(), &mut usages, buckets[0].clone(), growth(change)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::memory::Memory;
    use crate::store::Settings;
    use std::thread::scope;

    /// Threads at once look if there is room, and reserve it. As many do as there is room for, also while others give
    /// theirs back, or have it counted.
    #[test]
    fn threads_reserve_no_more_than_there_is() {
        const MOST: u64 = 50;
        let (client, mut executor) = (Memory::start(3), Executor::default());
        let opened = Store::open(client.clone(), "aa".into(), Settings::default());
        let store = executor.until(&client, opened).expect("a session opens");
        let quota = Quota { enabled: true, bytes_max: None, objects_max: Some(MOST) };
        let (buckets, one) = (["b".to_owned()], UsageChange { bytes: 1, objects: 1 });
        let admit = || store.admit((quota, Quota::default()), &buckets, one).ok();
        for _ in 0..100 {
            let held: Vec<_> = scope(|threads| {
                let reserve = || (0..40).filter_map(|_| admit()).collect::<Vec<_>>();
                let reserving: Vec<_> = (0..4).map(|_| threads.spawn(reserve)).collect();
                reserving.into_iter().flat_map(|thread| thread.join().expect("no thread panics")).collect()
            });
            assert_eq!(held.len() as u64, MOST);
            assert!(admit().is_none(), "there is room behind the last one");
            // Changes that move into the index count all the time.
            scope(|threads| {
                threads.spawn(|| held.into_iter().for_each(Reserved::keep));
                let counted = || store.with_usage("b", |known| known.change().objects);
                threads.spawn(move || (0..1000).for_each(|_| assert_eq!(counted(), MOST as i64)));
            });
            store.with_usage("b", |known| known.moved = UsageChange::default());
        }
    }
}

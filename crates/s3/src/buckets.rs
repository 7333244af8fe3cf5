//! Buckets: made, found, listed and deleted.

use crate::bucket_settings::BucketSettings;
use crate::counts::first_sum;
use crate::error::{Code, Error};
use crate::index::no_such_bucket;
use crate::moves::ROOT_LIVE;
use crate::names::{self, REGIONS};
use crate::rados::{Rados, RadosError, Step};
use crate::records::{Bucket, Intent, Range, RangeState, User, attr, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, lock, too_many_tries};
use crate::tenants::{bucket_parts, checked};
use bytes::Bytes;
use s3rules::quota::Usage;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Buckets that a gateway remembers.
const REMEMBERED_MAX: usize = 10_000;

/// Checks the name of a new bucket: 3 to 63 lower-case letters, digits, dots and hyphens, as DNS allows them.
fn check_bucket_name(name: &str) -> Result<(), Error> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    let labels_are_right = name.split('.').all(|label| {
        let bytes = label.as_bytes();
        bytes.iter().all(|c| plain(*c) || *c == b'-')
            && bytes.first().is_some_and(|c| plain(*c))
            && bytes.last().is_some_and(|c| plain(*c))
    });
    let is_address = name.parse::<std::net::Ipv4Addr>().is_ok();
    if (3..=63).contains(&name.len()) && labels_are_right && !is_address {
        return Ok(());
    }
    Err(Code::InvalidBucketName.because(format!("'{name}' cannot be the name of a bucket")))
}

impl<R: Rados> Store<R> {
    /// The bucket of this name, perhaps as it was a few seconds ago. Errors: `NoSuchBucket`.
    pub async fn bucket(&self, name: &str) -> Result<Arc<Bucket>, Error> {
        Ok(self.bucket_and_settings(name).await?.0)
    }

    /// The bucket of this name and its settings, both perhaps as they were a few seconds ago.
    pub async fn bucket_and_settings(&self, name: &str) -> Result<(Arc<Bucket>, Arc<BucketSettings>), Error> {
        let now = self.rados.now_ms();
        if let Some((at, bucket, settings)) = lock(&self.buckets).get(name)
            && now < at + self.settings.bucket_ttl_ms
        {
            return Ok((bucket.clone(), settings.clone()));
        }
        self.settings_now(name).await
    }

    /// The bucket of this name as it is now.
    pub async fn bucket_now(&self, name: &str) -> Result<Arc<Bucket>, Error> {
        Ok(self.settings_now(name).await?.0)
    }

    /// The bucket of this name and its settings as they are now.
    pub async fn settings_now(&self, name: &str) -> Result<(Arc<Bucket>, Arc<BucketSettings>), Error> {
        let now = self.rados.now_ms();
        let object = names::bucket_object(name);
        let steps = vec![Step::GetAttr(attr::RECORD), Step::Read { offset: 0, length: 0 }];
        let replies = match self.meta(object.clone(), steps).await {
            Ok(replies) => replies,
            Err(RadosError::NotFound) => {
                lock(&self.buckets).remove(name);
                return Err(no_such_bucket(name));
            }
            Err(error) => return Err(error.into()),
        };
        let bucket: Arc<Bucket> = Arc::new(from_bytes(&object, &replies[0].bytes())?);
        let settings: Arc<BucketSettings> = Arc::new(from_bytes(&object, &replies[1].bytes())?);
        settings.check_format(name)?;
        self.remember(now, &bucket, &settings);
        Ok((bucket, settings))
    }

    /// Remembers a bucket and its settings as they were at a time, unless later settings are remembered.
    pub(crate) fn remember(&self, at: u64, bucket: &Arc<Bucket>, settings: &Arc<BucketSettings>) {
        let mut buckets = lock(&self.buckets);
        let is_later = buckets
            .get(&bucket.name)
            .is_some_and(|(_, known, present)| known.id == bucket.id && present.revision > settings.revision);
        if is_later {
            return;
        }
        if buckets.len() >= REMEMBERED_MAX {
            buckets.clear();
        }
        buckets.insert(bucket.name.clone(), (at, bucket.clone(), settings.clone()));
    }

    fn forget_bucket(&self, bucket: &Bucket) {
        lock(&self.buckets).remove(&bucket.name);
        self.forget_routes(&bucket.id);
    }

    /// Makes a bucket of a user, in the user's tenant. Errors: `BucketAlreadyExists`, `BucketAlreadyOwnedByYou`,
    /// `TooManyBuckets`, `InvalidBucketName`, `AccessDenied` for one of another tenant.
    pub async fn create_bucket(&self, user: &User, name: &str, settings: BucketSettings) -> Result<Arc<Bucket>, Error> {
        let (tenant, bare) = checked(name, bucket_parts(name))?;
        check_bucket_name(bare)?;
        if tenant != user.tenant() {
            return Err(Code::AccessDenied.because(format!("user '{}' is not of the tenant of '{name}'", user.uid)));
        }
        match self.bucket_now(name).await {
            Ok(bucket) => return Err(exists(&bucket, &user.uid)),
            Err(error) if error.code() == Some(Code::NoSuchBucket) => {}
            Err(error) => return Err(error),
        }
        if self.user_buckets(&user.uid).await?.len() >= user.buckets_max as usize {
            return Err(Code::TooManyBuckets.because(format!("a user may have {} buckets", user.buckets_max)));
        }
        let bucket = Bucket {
            name: name.to_owned(),
            id: self.fresh(),
            owner: user.uid.clone(),
            created_ms: self.rados.now_ms(),
            data_pool: self.settings.data_pool.clone(),
        };
        let intent = self.intend(&Intent::CreateBucket(bucket.clone())).await?;
        let made = self.make_bucket(&bucket, &settings).await?;
        if !made {
            self.take_back_bucket(&bucket).await?;
        }
        self.forget_intent(intent).await?;
        let present = self.bucket_now(name).await?;
        if made || present.id == bucket.id { Ok(present) } else { Err(exists(&present, &user.uid)) }
    }

    /// Makes what belongs to a bucket, and then the bucket. False if there is one of this name.
    async fn make_bucket(&self, bucket: &Bucket, settings: &BucketSettings) -> Result<bool, Error> {
        // An entry that is there belongs to a bucket that is being made or deleted, and stays until that is decided.
        let name = Bytes::from(bucket.name.clone());
        let steps =
            vec![Step::ValueIs(name.clone(), Bytes::new()), Step::Set(vec![(name, Bytes::from(bucket.id.clone()))])];
        absent_is_fine(self.meta(names::user_object(&bucket.owner), steps).await)?;
        let id = self.fresh();
        // The root comes first, because it names the range, should this be taken back.
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::STATE, Bytes::from_static(ROOT_LIVE)),
            Step::Set(vec![(names::range_end(None), Bytes::from(id.clone()))]),
        ];
        self.meta(names::root_object(&bucket.id), steps).await?;
        let range = Range { start: String::new(), end: None, state: RangeState::Live };
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::GENERATION, Bytes::from_static(b"1")),
            Step::SetAttr(attr::RECORD, to_bytes(&range)),
            first_sum(Usage::default()),
        ];
        self.meta(names::range_object(&bucket.id, &id), steps).await?;
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::TAG, Bytes::from(bucket.id.clone())),
            Step::SetAttr(attr::RECORD, to_bytes(bucket)),
            Step::SetAttr(attr::REVISION, settings.revision_bytes()),
            Step::WriteFull(to_bytes(settings)),
        ];
        match self.meta(names::bucket_object(&bucket.name), steps).await {
            Ok(_) => {}
            Err(RadosError::Exists) => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        // The entry may be that of somebody who failed to make the same bucket, and takes it back.
        self.add_to_user(bucket).await?;
        Ok(true)
    }

    async fn add_to_user(&self, bucket: &Bucket) -> Result<(), Error> {
        let entry = (Bytes::from(bucket.name.clone()), Bytes::from(bucket.id.clone()));
        self.meta(names::user_object(&bucket.owner), vec![Step::Set(vec![entry])]).await?;
        Ok(())
    }

    /// Removes what was made for a bucket that has not come to be, or was removed.
    async fn take_back_bucket(&self, bucket: &Bucket) -> Result<(), Error> {
        let name = Bytes::from(bucket.name.clone());
        let steps = vec![Step::ValueIs(name.clone(), Bytes::from(bucket.id.clone())), Step::Drop(vec![name])];
        absent_is_fine(self.meta(names::user_object(&bucket.owner), steps).await)?;
        for (_, range) in self.ranges(&bucket.id).await? {
            absent_is_fine(self.meta(names::range_object(&bucket.id, &range), vec![Step::Remove]).await)?;
        }
        absent_is_fine(self.meta(names::root_object(&bucket.id), vec![Step::Remove]).await)?;
        Ok(())
    }

    /// Ends the making of a bucket, or takes it back. The gateway that began it must be fenced.
    pub(crate) async fn resume_create_bucket(&self, bucket: &Bucket) -> Result<(), Error> {
        match self.bucket_now(&bucket.name).await {
            Ok(present) if present.id == bucket.id => self.add_to_user(bucket).await,
            Ok(_) => self.take_back_bucket(bucket).await,
            Err(error) if error.code() == Some(Code::NoSuchBucket) => self.take_back_bucket(bucket).await,
            Err(error) => Err(error),
        }
    }

    /// Names of a user's buckets, in order. A bucket that is just being made may be among them.
    pub(crate) async fn user_buckets(&self, uid: &str) -> Result<Vec<String>, Error> {
        let found = self.whole_omap(&names::user_object(uid), Bytes::new()).await?;
        Ok(found.into_iter().map(|(name, _)| String::from_utf8_lossy(&name).into_owned()).collect())
    }

    /// A user's buckets, in the order of their names.
    pub async fn buckets(&self, uid: &str) -> Result<Vec<Arc<Bucket>>, Error> {
        let mut found = Vec::new();
        for name in self.user_buckets(uid).await? {
            match self.bucket_now(&name).await {
                Ok(bucket) if bucket.owner == uid => found.push(bucket),
                Ok(_) => {}
                Err(error) if error.code() == Some(Code::NoSuchBucket) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Deletes a bucket, with its uploads. Errors: `BucketNotEmpty`, `OperationAborted` while somebody else deletes it.
    pub async fn delete_bucket(&self, bucket: &Bucket) -> Result<(), Error> {
        if !self.is_empty(bucket).await? {
            return Err(not_empty(bucket));
        }
        loop {
            let page = self.list_uploads(bucket, &crate::listing::Query { max: 100, ..Default::default() }, "").await?;
            for listed in &page.uploads {
                match self.abort_upload(bucket, &listed.key, &listed.upload).await {
                    Err(error) if error.code() != Some(Code::NoSuchUpload) => return Err(error),
                    _ => {}
                }
            }
            if page.next.is_none() {
                break;
            }
        }
        let intent = self.intend(&Intent::DeleteBucket(bucket.clone())).await?;
        let begun = self.turn_root(bucket, ROOT_LIVE, &deletion("deleting", &self.session)).await;
        let outcome = match begun {
            Ok(true) => self.close_and_delete(bucket, &self.session).await,
            Ok(false) => Err(Code::OperationAborted.because("the bucket is being deleted already")),
            Err(error) => Err(error),
        };
        if let Err(Error::Rados(_) | Error::Damaged { .. }) = outcome {
            // The intent stays: a sweep ends this.
            return outcome;
        }
        self.forget_intent(intent).await?;
        outcome
    }

    /// Changes the state of a bucket's root. False if it has another one by now, or is gone.
    async fn turn_root(&self, bucket: &Bucket, from: &[u8], to: &[u8]) -> Result<bool, Error> {
        let steps = vec![
            Step::AttrIs(attr::STATE, Bytes::copy_from_slice(from)),
            Step::SetAttr(attr::STATE, Bytes::copy_from_slice(to)),
        ];
        match self.meta(names::root_object(&bucket.id), steps).await {
            Ok(_) => Ok(true),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn root_state(&self, bucket: &str) -> Result<Option<Bytes>, Error> {
        match self.meta(names::root_object(bucket), vec![Step::GetAttr(attr::STATE)]).await {
            Ok(replies) => Ok(Some(replies[0].bytes())),
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn is_empty(&self, bucket: &Bucket) -> Result<bool, Error> {
        let query = crate::listing::Query { max: 1, ..Default::default() };
        Ok(self.list_versions(bucket, &query, None).await?.versions.is_empty())
    }

    /// Closes all ranges and removes the bucket, or opens them again if there is something in one of them. The root is
    /// in the state of deletion by `session`, which is this one or fenced.
    ///
    /// Several gateways may do this for one that has died. The root's state, which goes from `deleting` to either
    /// `gone` or `opening`, decides for all of them.
    async fn close_and_delete(&self, bucket: &Bucket, session: &str) -> Result<(), Error> {
        let deleting = deletion("deleting", session);
        let closed = self.close_ranges(bucket).await;
        if let Ok(true) = closed
            && self.turn_root(bucket, &deleting, &deletion("gone", session)).await?
        {
            return self.remove_bucket(bucket).await;
        }
        self.turn_root(bucket, &deleting, &deletion("opening", session)).await?;
        self.open_ranges(bucket, session).await?;
        match closed {
            Ok(_) => Err(not_empty(bucket)),
            Err(error) => Err(error),
        }
    }

    async fn remove_bucket(&self, bucket: &Bucket) -> Result<(), Error> {
        let steps = vec![Step::AttrIs(attr::TAG, Bytes::from(bucket.id.clone())), Step::Remove];
        absent_is_fine(self.meta(names::bucket_object(&bucket.name), steps).await)?;
        self.forget_bucket(bucket);
        self.take_back_bucket(bucket).await
    }

    /// Closes all ranges. False if one of them has entries, slots or uploads.
    async fn close_ranges(&self, bucket: &Bucket) -> Result<bool, Error> {
        // A range that was closed before is closed anew, so that nobody who saw an older state of it opens it.
        let mut closed = BTreeSet::new();
        for attempt in 0..TRIES_MAX {
            if attempt > 0 {
                self.rados.pause(PAUSE_MS).await;
            }
            let ranges = self.ranges(&bucket.id).await?;
            for (_, id) in ranges.iter().filter(|(_, id)| !closed.contains(id)).collect::<Vec<_>>() {
                let Some((range, generation)) = self.range(&bucket.id, id).await? else { continue };
                let at = (bucket.id.as_str(), id.as_str());
                if matches!(range.state, RangeState::Live | RangeState::Closed) {
                    let shut = Range { state: RangeState::Closed, ..range };
                    if self.turn_range(at, &generation, &shut, Vec::new()).await? {
                        closed.insert(id.clone());
                    }
                } else {
                    self.help(&bucket.id, id).await?;
                }
            }
            // A change of ranges that is not begun yet makes itself known by a note, and finds the range closed.
            let notes = self.whole_omap(&names::root_object(&bucket.id), Bytes::from_static(b"x")).await?;
            let is_same = ranges == self.ranges(&bucket.id).await?;
            if notes.is_empty() && is_same && ranges.iter().all(|(_, id)| closed.contains(id)) {
                for (_, id) in &ranges {
                    if !self.has_nothing((&bucket.id, id)).await? {
                        return Ok(false);
                    }
                }
                return Ok(true);
            }
        }
        Err(too_many_tries())
    }

    async fn has_nothing(&self, (bucket, id): (&str, &str)) -> Result<bool, Error> {
        let list = |region| Step::List { after: Bytes::new(), max: 1, prefix: Bytes::copy_from_slice(&[region]) };
        match self.meta(names::range_object(bucket, id), REGIONS.map(list).to_vec()).await {
            Ok(replies) => Ok(replies.into_iter().all(|reply| reply.entries().0.is_empty())),
            // Somebody else has removed it, after the same look.
            Err(RadosError::NotFound) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the ranges that were closed, and the root, if that is decided.
    async fn open_ranges(&self, bucket: &Bucket, session: &str) -> Result<(), Error> {
        let opening = deletion("opening", session);
        if self.root_state(&bucket.id).await?.is_some_and(|state| state == opening) {
            for (_, id) in self.ranges(&bucket.id).await? {
                self.open_range(&bucket.id, &id).await?;
            }
            self.turn_root(bucket, &opening, ROOT_LIVE).await?;
        }
        Ok(())
    }

    /// Opens a range if it is closed. Nobody may be deleting the bucket when the range's state is read.
    async fn open_range(&self, bucket: &str, id: &str) -> Result<(), Error> {
        if let Some((range, generation)) = self.range(bucket, id).await?
            && range.state == RangeState::Closed
        {
            let live = Range { state: RangeState::Live, ..range };
            self.turn_range((bucket, id), &generation, &live, Vec::new()).await?;
        }
        Ok(())
    }

    /// Opens a range that is closed, though nobody deletes the bucket: by a gateway that learned too late that a
    /// deletion was taken back.
    pub(crate) async fn open_if_live(&self, bucket: &str, id: &str, range: Range, at: &Bytes) -> Result<(), Error> {
        if self.root_state(bucket).await?.is_some_and(|state| state == ROOT_LIVE) {
            let live = Range { state: RangeState::Live, ..range };
            self.turn_range((bucket, id), at, &live, Vec::new()).await?;
        }
        Ok(())
    }

    /// Ends the deletion of a bucket that a fenced gateway has begun, or takes it back.
    pub(crate) async fn resume_delete_bucket(&self, bucket: &Bucket, session: &str) -> Result<(), Error> {
        let Some(state) = self.root_state(&bucket.id).await? else { return self.remove_bucket(bucket).await };
        if state == deletion("gone", session) {
            return self.remove_bucket(bucket).await;
        }
        if state == deletion("opening", session) {
            return self.open_ranges(bucket, session).await;
        }
        if state != deletion("deleting", session) {
            return Ok(());
        }
        match self.close_and_delete(bucket, session).await {
            Err(error) if error.code() == Some(Code::BucketNotEmpty) => Ok(()),
            outcome => outcome,
        }
    }
}

/// A state of the root of a bucket that is being deleted.
fn deletion(step: &str, session: &str) -> Bytes {
    Bytes::from(format!("{step} {session}"))
}

/// Lets guards that do not hold, and objects that are gone, pass.
pub(crate) fn absent_is_fine<T>(outcome: Result<T, RadosError>) -> Result<(), Error> {
    match outcome {
        Ok(_) | Err(RadosError::NotFound | RadosError::Guard) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn exists(bucket: &Bucket, uid: &str) -> Error {
    if bucket.owner == uid {
        Code::BucketAlreadyOwnedByYou.because("you have this bucket already")
    } else {
        Code::BucketAlreadyExists.because("somebody has a bucket of this name")
    }
}

fn not_empty(bucket: &Bucket) -> Error {
    Code::BucketNotEmpty.because(format!("bucket '{}' is not empty", bucket.name))
}

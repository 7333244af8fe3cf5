//! Objects: put, deleted, read and copied.

use crate::body::{Body, ByteRange, Chunks};
use crate::digest::{ChecksumKind, Digests, hex};
use crate::error::{Code, Error};
use crate::index::{Settled, Stamp, no_such_bucket};
use crate::names;
use crate::rados::{Rados, RadosError, Step};
use crate::reading::ReadStream;
use crate::records::{Bucket, Head, Intent, Layout, Part, StoredChecksum, Tail, attr, from_bytes, to_bytes};
use crate::store::{PAUSE_MS, Store, TRIES_MAX, lock, too_many_tries};
use crate::window::{Window, both};
use bytes::Bytes;
use s3rules::acl::Acl;
use s3rules::tagging::TagSet;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 1024;
/// Bytes of an object's metadata, names and values together.
pub const METADATA_MAX_BYTES: usize = 2048;
/// Bytes of an object that is put by one request, and of a part.
pub const PUT_MAX_BYTES: u64 = 5 << 30;

/// Conditions on the present state of a key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    /// `If-None-Match: *`: there is no such object.
    pub is_absent: bool,
    /// `If-Match`: ETags without quotes, one of which the object has; `*` stands for any.
    pub etags: Option<Vec<String>>,
}

impl Conditions {
    /// Errors: `PreconditionFailed`, `NoSuchKey` where an ETag is wanted of nothing.
    fn check(&self, present: Option<&Head>) -> Result<(), Error> {
        if self.is_absent && present.is_some() {
            return Err(Code::PreconditionFailed.because("the object exists"));
        }
        match (&self.etags, present) {
            (None, _) => Ok(()),
            (Some(_), None) => Err(no_such_key()),
            (Some(etags), Some(head)) if etags.iter().any(|etag| etag == "*" || *etag == head.etag) => Ok(()),
            _ => Err(Code::PreconditionFailed.because("the object has another ETag")),
        }
    }
}

/// An object as it is to be put.
#[derive(Clone, Debug, Default)]
pub struct PutRequest {
    pub key: String,
    pub owner: String,
    /// Bytes of the body.
    pub size: u64,
    pub headers: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub content_md5: Option<[u8; 16]>,
    /// An additional checksum, with its value in base64 if it came with the headers.
    pub checksum: Option<(ChecksumKind, Option<String>)>,
    pub acl: Option<Acl>,
    pub tags: TagSet,
    pub conditions: Conditions,
}

/// A new head, and where its bytes are.
#[derive(Clone)]
pub(crate) struct NewHead {
    pub size: u64,
    pub etag: String,
    pub owner: String,
    pub headers: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub checksum: Option<StoredChecksum>,
    pub acl: Option<Acl>,
    pub tags: TagSet,
    pub layout: Layout,
    /// The head's own bytes.
    pub bytes: Bytes,
    /// Tails that the head names.
    pub tails: Vec<Tail>,
}

/// An object that is being read.
pub struct Object<R> {
    pub head: Head,
    /// Offset and length of what is read.
    pub range: (u64, u64),
    pub stream: ReadStream<R>,
}

pub(crate) fn no_such_key() -> Error {
    Code::NoSuchKey.because("there is no such object")
}

/// Checks a key and the metadata of an object.
pub(crate) fn check_key(key: &str, metadata: &BTreeMap<String, String>) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Code::InvalidArgument.because("a key has at least one byte"));
    }
    if key.len() > KEY_MAX_BYTES {
        return Err(Code::KeyTooLongError.because(format!("a key has at most {KEY_MAX_BYTES} bytes")));
    }
    if metadata.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > METADATA_MAX_BYTES {
        return Err(Code::MetadataTooLarge.because(format!("metadata has at most {METADATA_MAX_BYTES} bytes")));
    }
    Ok(())
}

/// Digests of a body that has arrived, as far as they were checked.
pub(crate) struct Digested {
    pub etag: String,
    pub checksum: Option<StoredChecksum>,
}

/// Compares the digests of a body with what the client told. Errors: `BadDigest`, `InvalidRequest`.
pub(crate) fn check_digests(
    digests: Digests,
    content_md5: Option<[u8; 16]>,
    told: Option<String>,
) -> Result<Digested, Error> {
    let (md5, checksum) = digests.finish();
    if content_md5.is_some_and(|expected| expected != md5) {
        return Err(Code::BadDigest.because("the bytes have another MD5 than Content-MD5 tells"));
    }
    if let (Some(told), Some(checksum)) = (told, &checksum)
        && told != checksum.value
    {
        return Err(Code::BadDigest.because(format!("the bytes have another checksum ({:?}) than told", checksum.kind)));
    }
    Ok(Digested { etag: hex(&md5), checksum })
}

impl<R: Rados> Store<R> {
    /// Puts an object. Once this is done, it is read and listed by every gateway. If it fails, nothing has changed,
    /// except where the error is the cluster's own. Gives the new head.
    pub async fn put<B: Body>(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        request: PutRequest,
        body: &mut B,
    ) -> Result<Head, Error> {
        check_key(&request.key, &request.metadata)?;
        if request.size > PUT_MAX_BYTES {
            return Err(Code::EntityTooLarge.because(format!("a body has at most {PUT_MAX_BYTES} bytes")));
        }
        let PutRequest { key, owner, size, headers, metadata, content_md5, checksum, acl, tags, conditions } = request;
        let kind = checksum.as_ref().map(|(kind, _)| *kind);
        let told = checksum.and_then(|(_, told)| told);
        let mut digests = Digests::new(kind);
        if size <= self.settings.whole_max_bytes {
            let bytes = self.whole_body(body, size, &mut digests).await?;
            let Digested { etag, checksum } =
                check_digests(digests, content_md5, told.or_else(|| body.trailing_checksum()))?;
            let layout = Layout::Whole;
            let new =
                NewHead { size, etag, owner, headers, metadata, checksum, acl, tags, layout, bytes, tails: Vec::new() };
            return self.commit_now(bucket, &key, Some(new), &conditions, None).await?.ok_or_else(no_such_key);
        }
        let tail = Tail { id: self.fresh(), size, stripe: self.settings.stripe_bytes };
        let tails = vec![tail.clone()];
        let intent = Intent::Tails { bucket: (**bucket).clone(), key: key.clone(), tails: tails.clone() };
        let intent = self.intend(&intent).await?;
        let written = self.write_tail(&bucket.data_pool, &tail, body, &mut digests).await;
        let checked = match written {
            Ok(()) => check_digests(digests, content_md5, told.or_else(|| body.trailing_checksum())),
            Err(error) => Err(error),
        };
        let Digested { etag, checksum } = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.drop_tails(&bucket.data_pool, &tails, Some(intent)).await?;
                return Err(error);
            }
        };
        let (layout, bytes) = (Layout::Striped(tail), Bytes::new());
        let new =
            NewHead { size, etag, owner, headers, metadata, checksum, acl, tags, layout, bytes, tails: tails.clone() };
        match self.commit_now(bucket, &key, Some(new), &conditions, Some(intent)).await {
            Ok(head) => head.ok_or_else(no_such_key),
            Err(error @ Error::Refused { .. }) => {
                self.drop_tails(&bucket.data_pool, &tails, Some(intent)).await?;
                Err(error)
            }
            // Nobody knows if the head was written: the intent stays, and a sweep looks.
            Err(error) => Err(error),
        }
    }

    async fn whole_body<B: Body>(&self, body: &mut B, size: u64, digests: &mut Digests) -> Result<Bytes, Error> {
        let mut chunks = Chunks::new(body);
        let len = size as usize;
        let bytes = chunks.next(len.max(1)).await?.unwrap_or_default();
        digests.update(&bytes);
        if bytes.len() != len || chunks.next(1).await?.is_some() {
            return Err(wrong_length());
        }
        Ok(bytes)
    }

    /// Writes a body as the stripes of a tail.
    pub(crate) async fn write_tail<B: Body>(
        &self,
        pool: &str,
        tail: &Tail,
        body: &mut B,
        digests: &mut Digests,
    ) -> Result<(), Error> {
        let mut chunks = Chunks::new(body);
        let mut window = Window::new(self.settings.stripes_at_once);
        let (mut written, mut number) = (0, 0);
        let mut outcome = Ok(());
        loop {
            let chunk = match chunks.next(tail.stripe as usize).await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            };
            digests.update(&chunk);
            written += chunk.len() as u64;
            if written > tail.size {
                outcome = Err(wrong_length());
                break;
            }
            let object = names::stripe_object(&tail.id, number);
            number += 1;
            let write = self.rados.operate(pool, object, vec![Step::WriteFull(chunk)]);
            if let Some(Err(error)) = window.add(write).await {
                outcome = Err(error.into());
                break;
            }
        }
        // Every write is waited for, so that none comes after the stripes are removed.
        while let Some(done) = window.next().await {
            if let (Err(error), Ok(())) = (done, &outcome) {
                outcome = Err(error.into());
            }
        }
        outcome?;
        if written == tail.size { Ok(()) } else { Err(wrong_length()) }
    }

    /// Deletes an object. False if there was none.
    pub async fn delete(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        conditions: &Conditions,
    ) -> Result<bool, Error> {
        check_key(key, &BTreeMap::new())?;
        let mut bucket = bucket.clone();
        while self.head(&bucket, key).await?.is_none() {
            match self.fresher(&bucket).await? {
                Some(fresh) => bucket = fresh,
                None => return conditions.check(None).map(|()| false),
            }
        }
        match self.commit_now(&bucket, key, None, conditions, None).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(Code::NoSuchKey) && conditions.etags.is_none() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Like [`Store::commit`], also if the bucket has been deleted and made again lately.
    pub(crate) async fn commit_now(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        new: Option<NewHead>,
        conditions: &Conditions,
        intent: Option<u64>,
    ) -> Result<Option<Head>, Error> {
        match self.commit(bucket, key, new.clone(), conditions, intent).await {
            Err(error) if error.code() == Some(Code::NoSuchBucket) => {
                let fresh = self.fresher(bucket).await?.filter(|fresh| fresh.data_pool == bucket.data_pool);
                let Some(fresh) = fresh else { return Err(error) };
                if let Some(number) = intent {
                    let tails = new.iter().flat_map(|new| new.tails.clone()).collect();
                    let intended = Intent::Tails { bucket: (*fresh).clone(), key: key.to_owned(), tails };
                    self.keep_intent(number, &intended).await?;
                }
                self.commit(&fresh, key, new, conditions, intent).await
            }
            outcome => outcome,
        }
    }

    /// The bucket of the same name and owner that has taken the place of a remembered one; `None` if that one is still
    /// there. Errors: `NoSuchBucket`.
    async fn fresher(&self, bucket: &Bucket) -> Result<Option<Arc<Bucket>>, Error> {
        let present = self.bucket_now(&bucket.name).await?;
        if present.id == bucket.id {
            return Ok(None);
        }
        self.forget_routes(&bucket.id);
        if present.owner == bucket.owner { Ok(Some(present)) } else { Err(no_such_bucket(&bucket.name)) }
    }

    /// Replaces the head of a key by `new`, or removes it. Gives the new head. `intent` names the tails of `new`.
    ///
    /// Errors of the cluster leave open if the head was replaced.
    pub(crate) async fn commit(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        new: Option<NewHead>,
        conditions: &Conditions,
        mut intent: Option<u64>,
    ) -> Result<Option<Head>, Error> {
        let is_own_intent = intent.is_none();
        let (stamp, present) = both(self.stamp(bucket, key), self.head(bucket, key)).await;
        let stamp = stamp?;
        let replaced = match present {
            Ok(present) => self.replace(&stamp, present, new, conditions, &mut intent).await,
            Err(error) => Err((Settled::Unchanged, error)),
        };
        match replaced {
            Ok((head, old_tails)) => {
                let settled = head.as_ref().map_or(Settled::Absent, |head| Settled::Is(head.entry()));
                let (store, pool) = (self.clone(), bucket.data_pool.clone());
                // The answer need not wait for this: until then the key's slot has readers of the index ask the head.
                self.rados.spawn(async move {
                    // A stamp that stays is kept for the next round of `tend`.
                    let _ = store.settle(stamp, settled).await;
                    store.discard(pool, old_tails, intent).await;
                });
                Ok(head)
            }
            Err((settled, error)) => {
                if matches!(error, Error::Refused { .. }) {
                    if let Some(number) = intent.filter(|_| is_own_intent) {
                        self.forget_intent(number).await?;
                    }
                    self.settle(stamp, settled).await?;
                } else {
                    // The head may have been replaced, so it decides.
                    let Stamp { bucket, key, tag, .. } = stamp;
                    if self.leave(&bucket, &key, |other| other == tag).await.is_err() {
                        lock(&self.unsettled).push((bucket, key, tag));
                    }
                }
                Err(error)
            }
        }
    }

    /// Replaces the head, once it is as `conditions` want. Gives the new head, and the tails of the old one.
    async fn replace(
        &self,
        stamp: &Stamp,
        mut present: Option<Head>,
        new: Option<NewHead>,
        conditions: &Conditions,
        intent: &mut Option<u64>,
    ) -> Result<(Option<Head>, Vec<Tail>), (Settled, Error)> {
        let (bucket, key) = (&stamp.bucket, stamp.key.as_str());
        let object = names::head_object(&bucket.id, key);
        let fails = |error| (Settled::Unchanged, error);
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            conditions.check(present.as_ref()).map_err(fails)?;
            if new.is_none() && present.is_none() {
                return Err(fails(no_such_key()));
            }
            let Some(old_tails) = self.tails_to_drop(bucket, present.as_ref()).await.map_err(fails)? else {
                present = self.head(bucket, key).await.map_err(fails)?;
                continue;
            };
            if !old_tails.is_empty() {
                let mut tails = old_tails.clone();
                tails.extend(new.iter().flat_map(|new| new.tails.clone()));
                let intended = Intent::Tails { bucket: (**bucket).clone(), key: key.to_owned(), tails };
                let number = intent.unwrap_or_else(|| self.number());
                self.keep_intent(number, &intended).await.map_err(fails)?;
                *intent = Some(number);
            }
            let head = new.as_ref().map(|new| self.head_of(bucket, key, &stamp.tag, new));
            let mut steps = match &present {
                Some(present) => vec![Step::AttrIs(attr::TAG, Bytes::from(present.tag.clone()))],
                None => vec![Step::CreateNew],
            };
            match (&head, &new) {
                (Some(head), Some(new)) => steps.extend([
                    Step::WriteFull(new.bytes.clone()),
                    Step::SetAttr(attr::TAG, Bytes::from(head.tag.clone())),
                    Step::SetAttr(attr::RECORD, to_bytes(head)),
                ]),
                _ => steps.push(Step::Remove),
            }
            match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
                Ok(_) => return Ok((head, old_tails)),
                Err(RadosError::Guard | RadosError::Exists | RadosError::NotFound) => {
                    present = self.head(bucket, key).await.map_err(fails)?;
                }
                Err(error) => return Err(fails(error.into())),
            }
        }
        Err(fails(too_many_tries()))
    }

    fn head_of(&self, bucket: &Bucket, key: &str, tag: &str, new: &NewHead) -> Head {
        Head {
            bucket: bucket.name.clone(),
            key: key.to_owned(),
            tag: tag.to_owned(),
            size: new.size,
            etag: new.etag.clone(),
            mtime_ms: self.rados.now_ms(),
            owner: new.owner.clone(),
            headers: new.headers.clone(),
            metadata: new.metadata.clone(),
            checksum: new.checksum.clone(),
            acl: new.acl.clone(),
            tags: new.tags.clone(),
            layout: new.layout.clone(),
        }
    }

    /// The tails of a head that is about to go. `None` if the head has changed.
    async fn tails_to_drop(&self, bucket: &Bucket, head: Option<&Head>) -> Result<Option<Vec<Tail>>, Error> {
        match head.map(|head| (head, &head.layout)) {
            None | Some((_, Layout::Whole)) => Ok(Some(Vec::new())),
            Some((_, Layout::Striped(tail))) => Ok(Some(vec![tail.clone()])),
            Some((head, Layout::Parts { upload })) => {
                let Some(parts) = self.parts_of(bucket, head).await? else { return Ok(None) };
                // A sweep takes an upload whose completion no head shows for one that can go on. So the upload has to
                // be gone before its head is.
                self.remove_upload(bucket, &head.key, upload).await?;
                Ok(Some(parts.into_iter().map(|part| part.tail).collect()))
            }
        }
    }

    /// The parts of an object that was uploaded in parts. `None` if the head has changed.
    pub(crate) async fn parts_of(&self, bucket: &Bucket, head: &Head) -> Result<Option<Vec<Part>>, Error> {
        let object = names::head_object(&bucket.id, &head.key);
        let steps = vec![Step::AttrIs(attr::TAG, Bytes::from(head.tag.clone())), Step::Read { offset: 0, length: 0 }];
        match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
            Ok(replies) => Ok(Some(from_bytes(&object, &replies[1].bytes())?)),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an object, or a range of it. Errors: `NoSuchKey`, `InvalidRange`.
    pub async fn get(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        range: Option<ByteRange>,
    ) -> Result<Object<R>, Error> {
        check_key(key, &BTreeMap::new())?;
        match self.get_from(bucket, key, range).await {
            Err(error) if error.code() == Some(Code::NoSuchKey) => match self.fresher(bucket).await? {
                Some(fresh) => self.get_from(&fresh, key, range).await,
                None => Err(error),
            },
            outcome => outcome,
        }
    }

    async fn get_from(
        self: &Arc<Self>,
        bucket: &Bucket,
        key: &str,
        range: Option<ByteRange>,
    ) -> Result<Object<R>, Error> {
        let object = names::head_object(&bucket.id, key);
        let (offset, length) = match range {
            Some(ByteRange::From(from, Some(last))) if last >= from => (from, (last - from).saturating_add(1)),
            Some(ByteRange::From(from, None)) => (from, 0),
            _ => (0, 0),
        };
        for _ in 0..TRIES_MAX {
            let steps = vec![Step::GetAttr(attr::RECORD), Step::Read { offset, length }];
            let replies = match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
                Ok(replies) => replies,
                Err(RadosError::NotFound) => return Err(no_such_key()),
                Err(error) => return Err(error.into()),
            };
            let head: Head = from_bytes(&object, &replies[0].bytes())?;
            let bytes = replies[1].bytes();
            let wanted = match range {
                Some(range) => range.of(head.size)?,
                None => (0, head.size),
            };
            let stream = match &head.layout {
                Layout::Whole => {
                    let skip = (wanted.0 - offset) as usize;
                    let end = skip + wanted.1 as usize;
                    if bytes.len() < end {
                        return Err(Error::damaged(&object, format!("{} bytes of {end} are there", bytes.len())));
                    }
                    ReadStream::of_bytes(self.clone(), bytes.slice(skip..end))
                }
                Layout::Striped(tail) => {
                    ReadStream::of_tails(self.clone(), &bucket.data_pool, std::slice::from_ref(tail), wanted)
                }
                Layout::Parts { .. } => {
                    let parts: Vec<Part> = if (offset, length) == (0, 0) {
                        from_bytes(&object, &bytes)?
                    } else {
                        let Some(parts) = self.parts_of(bucket, &head).await? else { continue };
                        parts
                    };
                    let tails: Vec<Tail> = parts.into_iter().map(|part| part.tail).collect();
                    ReadStream::of_tails(self.clone(), &bucket.data_pool, &tails, wanted)
                }
            };
            return Ok(Object { head, range: wanted, stream });
        }
        Err(too_many_tries())
    }

    /// The head of an object. Errors: `NoSuchKey`.
    pub async fn stat(&self, bucket: &Bucket, key: &str) -> Result<Head, Error> {
        check_key(key, &BTreeMap::new())?;
        if let Some(head) = self.head(bucket, key).await? {
            return Ok(head);
        }
        let fresh = self.fresher(bucket).await?.ok_or_else(no_such_key)?;
        self.head(&fresh, key).await?.ok_or_else(no_such_key)
    }

    /// Changes what an object's head tells of it, but nothing that lists show. Gives the new head.
    /// Errors: `NoSuchKey`, those of `change`, which is called anew where others change the object meanwhile.
    pub async fn change_head(
        &self,
        bucket: &Bucket,
        key: &str,
        change: impl Fn(&mut Head) -> Result<(), Error> + Sync,
    ) -> Result<Head, Error> {
        for attempt in 0..TRIES_MAX {
            if attempt > 3 {
                self.rados.pause(PAUSE_MS).await;
            }
            let old = self.stat(bucket, key).await?;
            let mut new = old.clone();
            change(&mut new)?;
            debug_assert_eq!((new.entry(), &new.layout), (old.entry(), &old.layout));
            new.tag = self.fresh();
            let steps = vec![
                Step::AttrIs(attr::TAG, Bytes::from(old.tag)),
                Step::SetAttr(attr::TAG, Bytes::from(new.tag.clone())),
                Step::SetAttr(attr::RECORD, to_bytes(&new)),
            ];
            match self.rados.operate(&bucket.data_pool, names::head_object(&bucket.id, key), steps).await {
                Ok(_) => return Ok(new),
                Err(RadosError::Guard | RadosError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_tries())
    }
}

fn wrong_length() -> Error {
    Code::IncompleteBody.because("the body has another length than was told")
}

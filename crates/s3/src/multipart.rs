//! Multipart uploads.
//!
//! An upload is an object of the pool of records: its omap has the parts, its state is `open`, `completing SESSION` or
//! `aborting`. A part is recorded only while the upload is open. The entry of an upload in the bucket's index lists it.

use crate::body::Body;
use crate::buckets::absent_is_fine;
use crate::conditions::{Conditions, no_such_key};
use crate::digest::{ChecksumKind, Digests, checksum_of_parts, etag_of_parts};
use crate::error::{Code, Error};
use crate::names;
use crate::objects::{Digested, PUT_MAX_BYTES, check_digests, check_key};
use crate::rados::{Rados, RadosError, Step};
use crate::records::{
    Bucket, Head, Intent, Layout, Part, SealedBy, Sealing, StoredChecksum, StoredUpload, Tail, Upload, Versioning,
    attr, from_bytes, to_bytes,
};
use crate::sealing::{CustomerKey, DataKey, Encryption, NewSealing, SealedName};
use crate::store::{Store, TRIES_MAX, too_many_tries};
use crate::usage::{added, negative, whole};
use crate::versions::{Change, NewHead};
use bytes::Bytes;
use s3rules::quota::Usage;
use std::sync::Arc;

/// Largest number of a part.
pub const PARTS_MAX: u16 = 10_000;
/// Bytes of the largest object.
pub const OBJECT_MAX_BYTES: u64 = 5 << 40;

const OPEN: &[u8] = b"open";
const ABORTING: &[u8] = b"aborting";

fn completing(session: &str) -> Bytes {
    Bytes::from(format!("completing {session}"))
}

/// A part as it is to be uploaded.
#[derive(Clone, Debug, Default)]
pub struct PartRequest {
    pub key: String,
    pub upload: String,
    pub number: u16,
    /// Bytes of the body.
    pub size: u64,
    pub content_md5: Option<[u8; 16]>,
    pub checksum: Option<(ChecksumKind, Option<String>)>,
    /// The key by which all parts of the upload are sealed.
    pub customer: Option<CustomerKey>,
}

/// A part that a client wants in its object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedPart {
    pub number: u16,
    /// Without quotes.
    pub etag: String,
    /// Additional checksums that the client tells, in base64.
    pub checksums: Vec<(ChecksumKind, String)>,
}

/// How an upload is completed, and what the client tells of the object that is to come of it.
#[derive(Clone, Debug)]
pub struct Completion<'a> {
    pub conditions: &'a Conditions,
    pub versioning: Versioning,
    /// The object's checksum, in base64; of the parts' checksums with their number behind a dash.
    pub checksum: Option<(ChecksumKind, String)>,
    /// Bytes of the object.
    pub size: Option<u64>,
}

impl<'a> From<(&'a Conditions, Versioning)> for Completion<'a> {
    fn from((conditions, versioning): (&'a Conditions, Versioning)) -> Completion<'a> {
        Completion { conditions, versioning, checksum: None, size: None }
    }
}

impl Completion<'_> {
    /// Compares an object with what the client tells. A checksum of another kind than the upload's is not looked at.
    fn check(&self, checksum: Option<&StoredChecksum>, size: u64) -> Result<(), Error> {
        if self.size.is_some_and(|told| told != size) {
            return Err(
                Code::InvalidRequest.because(format!("the parts have {size} bytes together, which is not told"))
            );
        }
        // Clients leave out the number of parts.
        let is = |stored: &StoredChecksum, told: &str| {
            told == stored.value
                || stored.is_composite && stored.value.split_once('-').is_some_and(|(sum, _)| sum == told)
        };
        match (&self.checksum, checksum) {
            (Some((kind, told)), Some(stored)) if stored.kind == *kind && !is(stored, told) => {
                Err(Code::BadDigest.because(format!("the object has another checksum ({kind:?}) than told")))
            }
            _ => Ok(()),
        }
    }
}

/// A page of an upload's parts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartPage {
    pub upload: Upload,
    pub parts: Vec<Part>,
    /// There are more parts behind these.
    pub more: bool,
}

fn no_such_upload() -> Error {
    Code::NoSuchUpload.because("there is no such upload: it was completed or aborted, or never begun")
}

impl<R: Rados> Store<R> {
    /// The sealing of a new upload of this key. Errors: `InvalidRequest` without a master key.
    pub fn seal_upload(&self, bucket: &Bucket, key: &str, encryption: &Encryption) -> Result<Option<Sealing>, Error> {
        Ok(self.new_sealing(bucket, key, encryption)?.map(|NewSealing { sealing, .. }| sealing))
    }

    /// The key of an upload; `None` if it is not sealed. Errors: as with [`Store::check_customer_key`].
    fn opened_upload(
        &self,
        bucket: &Bucket,
        upload: &Upload,
        customer: Option<&CustomerKey>,
    ) -> Result<Option<DataKey>, Error> {
        let name = SealedName { bucket: &bucket.name, key: &upload.key };
        match &upload.sealing {
            Some(sealing) => sealing.open(customer, &self.settings.master_keys, name).map(Some),
            None if customer.is_some() => {
                Err(Code::InvalidRequest.because("the upload is not encrypted by a customer's key"))
            }
            None => Ok(None),
        }
    }

    /// Begins an upload. Its id and time are filled in.
    pub async fn create_upload(&self, bucket: &Bucket, upload: Upload) -> Result<Upload, Error> {
        check_key(&upload.key, &upload.metadata)?;
        let upload = Upload { id: self.fresh(), created_ms: self.rados.now_ms(), ..upload };
        let (key, id) = (upload.key.clone(), upload.id.clone());
        let intent = Intent::Abort { bucket: bucket.clone(), key: key.clone(), upload: id.clone() };
        let intent = self.intend(&intent).await?;
        let object = names::upload_object(&bucket.id, &id);
        let steps = vec![
            Step::CreateNew,
            Step::SetAttr(attr::STATE, Bytes::from_static(OPEN)),
            Step::SetAttr(attr::RECORD, to_bytes(&StoredUpload::from(upload.clone()))),
        ];
        self.meta(object.clone(), steps).await?;
        let entry = (names::upload_entry(&key, &id), to_bytes(&(&upload.owner, upload.created_ms)));
        let listed = self.on_range(bucket, &key, &[Step::Set(vec![entry])]).await;
        if let Err(error) = &listed
            && error.is_refusal()
        {
            let error = error.clone();
            absent_is_fine(self.meta(object, vec![Step::Remove]).await)?;
            self.forget_intent(intent).await?;
            return Err(error);
        }
        listed?;
        self.forget_intent(intent).await?;
        Ok(upload)
    }

    /// An upload of a key, and its state. Errors: `NoSuchUpload`.
    pub async fn upload(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<(Upload, Bytes), Error> {
        let found = self.record::<StoredUpload>(&names::upload_object(&bucket.id, upload), attr::STATE).await?;
        match found.map(|(found, state)| (Upload::from(found), state)) {
            Some((found, state)) if found.key == key && state != ABORTING => Ok((found, state)),
            _ => Err(no_such_upload()),
        }
    }

    /// Stores a part; one of the same number is replaced.
    pub async fn put_part<B: Body>(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        request: PartRequest,
        body: &mut B,
    ) -> Result<Part, Error> {
        let PartRequest { key, upload, number, size, content_md5, checksum, customer } = request;
        if !(1..=PARTS_MAX).contains(&number) {
            return Err(Code::InvalidArgument.because(format!("parts have numbers from 1 to {PARTS_MAX}")));
        }
        if size > PUT_MAX_BYTES {
            return Err(Code::EntityTooLarge.because(format!("a body has at most {PUT_MAX_BYTES} bytes")));
        }
        let (record, _) = self.upload(bucket, &key, &upload).await?;
        let opened = self.opened_upload(bucket, &record, customer.as_ref())?;
        // Until the index has the object, its parts count as bytes of the upload.
        let part_usage = |size| whole(Usage { bytes: size, objects: 0 });
        let reserved = self.reserve(bucket, part_usage(size)).await?;
        let (kind, told) = match checksum {
            Some((kind, told)) => (Some(kind), told),
            None => (record.checksum, None),
        };
        let tail = Tail { id: self.fresh(), size, stripe: self.settings.stripe_bytes };
        let intended = |tails| {
            let (bucket, key, upload) = ((**bucket).clone(), key.clone(), upload.clone());
            Intent::PartTails { bucket, key, upload, number, tails }
        };
        let intent = self.intend(&intended(vec![tail.clone()])).await?;
        let mut digests = Digests::new(kind);
        let row = opened.as_ref().map(|opened| opened.row(number, &tail.id));
        let written = self.write_tail(&bucket.data_pool, (&tail, row.as_ref()), body, &mut digests).await;
        let recorded = match written {
            Ok(()) => match check_digests(digests, content_md5, told.or_else(|| body.trailing_checksum())) {
                Ok(Digested { etag, checksum }) => {
                    let (mtime_ms, proof) = (self.rados.now_ms(), String::new());
                    let sealed_by = record.sealing.map(|sealing| sealing.by);
                    let is_customers = sealed_by == Some(SealedBy::Customer);
                    let part = Part { number, etag, mtime_ms, checksum, tail: tail.clone(), proof, sealed_by };
                    let part = match opened.filter(|_| is_customers) {
                        Some(opened) => opened.part_prover().proven(part),
                        None => part,
                    };
                    self.record_part(bucket, &upload, part, (intent, &intended)).await
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        match recorded {
            Ok((part, old)) => {
                if let Some(mut reserved) = reserved {
                    let replaced = old.as_ref().map_or(0, |old| old.tail.size);
                    reserved.set(added(part_usage(size), negative(part_usage(replaced))));
                    reserved.keep();
                }
                let old: Vec<Tail> = old.map(|part| part.tail).into_iter().collect();
                self.drop_tails(&bucket.data_pool, &old, Some(intent)).await?;
                Ok(part)
            }
            Err(error) if error.is_refusal() => {
                self.drop_tails(&bucket.data_pool, &[tail], Some(intent)).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Records a part. Gives the part that it replaces. `intended`: the intent's number, and the intent for some tails.
    async fn record_part(
        &self,
        bucket: &Bucket,
        upload: &str,
        part: Part,
        (number, intended): (u64, &(impl Fn(Vec<Tail>) -> Intent + Sync)),
    ) -> Result<(Part, Option<Part>), Error> {
        let object = names::upload_object(&bucket.id, upload);
        let name = names::part(part.number);
        for _ in 0..TRIES_MAX {
            let Some(old) = self.part(bucket, upload, part.number).await? else { return Err(no_such_upload()) };
            let replaced: Option<Part> = if old.is_empty() { None } else { Some(from_bytes(&object, &old)?) };
            if let Some(replaced) = &replaced {
                self.keep_intent(number, &intended(vec![part.tail.clone(), replaced.tail.clone()])).await?;
            }
            let steps = vec![
                Step::AttrIs(attr::STATE, Bytes::from_static(OPEN)),
                Step::ValueIs(name.clone(), old.clone()),
                Step::Set(vec![(name.clone(), to_bytes(&part))]),
            ];
            match self.meta(object.clone(), steps).await {
                Ok(_) => return Ok((part, replaced)),
                Err(RadosError::NotFound) => return Err(no_such_upload()),
                // Either somebody else replaced the part, or the upload is not open any more.
                Err(RadosError::Guard) => {
                    let state = self.meta(object.clone(), vec![Step::GetAttr(attr::STATE)]).await;
                    if state.is_ok_and(|replies| replies[0].bytes() != OPEN) {
                        return Err(no_such_upload());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(too_many_tries())
    }

    /// A part as it is stored; empty if there is none, `None` if there is no upload.
    async fn part(&self, bucket: &Bucket, upload: &str, number: u16) -> Result<Option<Bytes>, Error> {
        let object = names::upload_object(&bucket.id, upload);
        match self.meta(object, vec![Step::Get(vec![names::part(number)])]).await {
            Ok(mut replies) => {
                let (entries, _) = replies.remove(0).entries();
                Ok(Some(entries.into_iter().next().map(|(_, value)| value).unwrap_or_default()))
            }
            Err(RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Ends what a fenced gateway has begun with a part: tails go that nothing names.
    pub(crate) async fn resume_part(
        &self,
        bucket: &Bucket,
        (key, upload, number): (&str, &str, u16),
        mut tails: Vec<Tail>,
    ) -> Result<(), Error> {
        let named: Vec<Part> = match self.part(bucket, upload, number).await? {
            Some(bytes) if !bytes.is_empty() => vec![from_bytes("a part", &bytes)?],
            Some(_) => Vec::new(),
            None => self.completed_parts(bucket, key, upload).await?.unwrap_or_default(),
        };
        tails.retain(|tail| named.iter().all(|part| part.tail.id != tail.id));
        self.drop_tails(&bucket.data_pool, &tails, None).await
    }

    /// The record and parts of the version that an upload became.
    async fn completed(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<Option<(Head, Vec<Part>)>, Error> {
        let is_it = |layout: &Layout| matches!(layout.bare(), Layout::Parts { upload: other } if other == upload);
        for _ in 0..TRIES_MAX {
            let Some(present) = self.present(bucket, key).await? else { return Ok(None) };
            if is_it(&present.head.layout) {
                if let Some(parts) = self.parts_of(bucket, &present.head).await? {
                    return Ok(Some((present.head, parts)));
                }
                continue;
            }
            let older = present.older.iter().find(|older| is_it(&older.layout));
            let Some(place) = older.and_then(|older| older.place.as_ref()) else { return Ok(None) };
            if let Some((head, bytes)) = self.read_older(bucket, place).await? {
                return Ok(Some((head, from_bytes(&names::older_object(place), &bytes)?)));
            }
        }
        Err(too_many_tries())
    }

    /// The parts of an upload that a version of its key has.
    async fn completed_parts(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<Option<Vec<Part>>, Error> {
        Ok(self.completed(bucket, key, upload).await?.map(|(_, parts)| parts))
    }

    /// Lists up to `max` parts of an upload whose numbers are above `after`.
    pub async fn list_parts(
        &self,
        bucket: &Bucket,
        (key, upload): (&str, &str),
        after: u16,
        max: usize,
    ) -> Result<PartPage, Error> {
        let (record, _) = self.upload(bucket, key, upload).await?;
        let object = names::upload_object(&bucket.id, upload);
        let mut parts: Vec<Part> = Vec::new();
        loop {
            let wanted = (max + 1 - parts.len()) as u64;
            let after = names::part(parts.last().map_or(after, |part| part.number));
            let list = Step::List { after, max: wanted.min(self.settings.page_entries), prefix: Bytes::new() };
            let (entries, more) = match self.meta(object.clone(), vec![list]).await {
                Ok(mut replies) => replies.remove(0).entries(),
                Err(RadosError::NotFound) => return Err(no_such_upload()),
                Err(error) => return Err(error.into()),
            };
            for (_, value) in &entries {
                parts.push(from_bytes(&object, value)?);
            }
            if parts.len() > max {
                parts.truncate(max);
                return Ok(PartPage { upload: record, parts, more: true });
            }
            if !more || entries.is_empty() {
                return Ok(PartPage { upload: record, parts, more: false });
            }
        }
    }

    /// Completes an upload: its parts become the object. An upload that a customer's key seals is completed with that
    /// key, or without any. Errors: `NoSuchUpload`, `InvalidPart`, `InvalidPartOrder`, `EntityTooSmall`,
    /// `PreconditionFailed`, `BadDigest`, `InvalidRequest` for another key or size, or without a key where an older
    /// gateway has stored a part; the upload is then as it was.
    pub async fn complete_upload(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        (key, upload): (&str, &str),
        wanted: &[WantedPart],
        how: impl Into<Completion<'_>>,
        customer: Option<&CustomerKey>,
    ) -> Result<Head, Error> {
        let how = how.into();
        if wanted.is_empty() {
            return Err(Code::InvalidRequest.because("an object has at least one part"));
        }
        if !wanted.is_sorted_by(|a, b| a.number < b.number) {
            return Err(Code::InvalidPartOrder.because("parts must be in the order of their numbers, each once"));
        }
        let object = names::upload_object(&bucket.id, upload);
        let needs_no_key = |sealing: Option<&Sealing>| {
            customer.is_none() && sealing.is_some_and(|sealing| sealing.by == SealedBy::Customer)
        };
        let opened = match self.upload(bucket, key, upload).await {
            Ok((record, _)) if needs_no_key(record.sealing.as_ref()) => None,
            Ok((record, _)) => self.opened_upload(bucket, &record, customer)?,
            Err(error) if error.code() == Some(Code::NoSuchUpload) => {
                // A client that got no answer asks again, by the same key or without one.
                let head = self.completed(bucket, key, upload).await?.map(|(head, _)| head).ok_or(error)?;
                if !needs_no_key(head.sealing()) {
                    self.check_customer_key(&head, customer)?;
                }
                how.check(head.checksum.as_ref(), head.size)?;
                return Ok(head);
            }
            Err(error) => return Err(error),
        };
        let (bucket_record, intended_key) = ((**bucket).clone(), key.to_owned());
        let intent = Intent::Complete { bucket: bucket_record, key: intended_key, upload: upload.to_owned() };
        let intent = self.intend(&intent).await?;
        let begin = vec![
            Step::AttrIs(attr::STATE, Bytes::from_static(OPEN)),
            Step::SetAttr(attr::STATE, completing(&self.session)),
        ];
        match self.meta(object.clone(), begin).await {
            Ok(_) => {}
            Err(RadosError::Guard) => {
                self.forget_intent(intent).await?;
                return Err(Code::OperationAborted.because("the upload is being completed or aborted"));
            }
            Err(RadosError::NotFound) => {
                self.forget_intent(intent).await?;
                return Err(no_such_upload());
            }
            Err(error) => return Err(error.into()),
        }
        match self.complete(bucket, (key, upload), wanted, &how, opened).await {
            Ok(head) => {
                self.end_upload(bucket, (key, upload), &completing(&self.session), wanted).await?;
                self.forget_intent(intent).await?;
                Ok(head)
            }
            Err(error) if error.is_refusal() => {
                self.reopen_upload(bucket, upload, &self.session).await?;
                self.forget_intent(intent).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn complete(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        (key, upload): (&str, &str),
        wanted: &[WantedPart],
        how: &Completion<'_>,
        opened: Option<DataKey>,
    ) -> Result<Head, Error> {
        let page = self.list_parts(bucket, (key, upload), 0, PARTS_MAX.into()).await?;
        let Upload { owner, headers, metadata, checksum, is_composite, acl, tags, lock, sealing, .. } = page.upload;
        let mut parts = Vec::with_capacity(wanted.len());
        for want in wanted {
            let found = page.parts.binary_search_by_key(&want.number, |part| part.number).ok();
            let part = found.map(|at| &page.parts[at]).filter(|part| part.etag == want.etag);
            let is_right = |part: &&Part| {
                let of = |kind| part.checksum.as_ref().filter(|c| c.kind == kind);
                want.checksums.iter().all(|(kind, value)| of(*kind).is_none_or(|c| c.value == *value))
            };
            let part = part.filter(is_right);
            let none = || Code::InvalidPart.because(format!("there is no part {} of this ETag", want.number));
            parts.push(part.ok_or_else(none)?.clone());
        }
        let prover = opened.as_ref().map(DataKey::part_prover);
        if let Some(wrong) = prover.and_then(|prover| parts.iter().find(|part| !prover.fits(part))) {
            let number = wrong.number;
            return Err(Code::InvalidPart.because(format!("the record of part {number} was changed: upload it again")));
        }
        let least = self.settings.part_min_bytes;
        if parts.iter().rev().skip(1).any(|part| part.tail.size < least) {
            return Err(Code::EntityTooSmall.because(format!("parts have at least {least} bytes, but the last")));
        }
        let size: u64 = parts.iter().map(|part| part.tail.size).sum();
        if size > OBJECT_MAX_BYTES {
            return Err(Code::EntityTooLarge.because("an object has at most 5 TiB"));
        }
        let damaged = || Error::damaged(&names::upload_object(&bucket.id, upload), "the ETag of a part is no MD5");
        let etag = etag_of_parts(parts.iter().map(|part| part.etag.as_str())).ok_or_else(damaged)?;
        let of_parts: Vec<_> = parts.iter().map(|part| (part.checksum.clone(), part.tail.size)).collect();
        let checksum = checksum.and_then(|kind| checksum_of_parts(kind, is_composite, &of_parts));
        how.check(checksum.as_ref(), size)?;
        // The parts are the upload's until the head names them, also if this completion is taken back.
        let tails = Vec::new();
        let bare = Layout::Parts { upload: upload.to_owned() };
        let bytes = to_bytes(&parts.iter().map(Part::without_proof).collect::<Vec<_>>());
        let layout = match (sealing, opened) {
            (Some(sealing), Some(key)) => NewSealing { sealing, key }.layout(size, bare, &bytes),
            (Some(sealing), None) => sealing.layout_without_key(size, bare, &parts)?,
            (None, _) => bare,
        };
        let new = NewHead { size, etag, owner, headers, metadata, checksum, acl, tags, lock, layout, bytes, tails };
        let change = Change::Put { new: Box::new(new), versioning: how.versioning };
        self.commit(bucket, key, change, how.conditions, None).await?.head.ok_or_else(no_such_key)
    }

    /// Lets an upload go on whose completion has failed.
    async fn reopen_upload(&self, bucket: &Bucket, upload: &str, session: &str) -> Result<(), Error> {
        let steps =
            vec![Step::AttrIs(attr::STATE, completing(session)), Step::SetAttr(attr::STATE, Bytes::from_static(OPEN))];
        absent_is_fine(self.meta(names::upload_object(&bucket.id, upload), steps).await)
    }

    /// Removes an upload in a state, and the parts that `kept` does not have.
    async fn end_upload(
        &self,
        bucket: &Bucket,
        (key, upload): (&str, &str),
        state: &Bytes,
        kept: &[WantedPart],
    ) -> Result<(), Error> {
        let object = names::upload_object(&bucket.id, upload);
        let stored = self.whole_omap(&object, Bytes::new()).await?;
        let mut unused = Vec::new();
        for (_, value) in stored {
            let part: Part = from_bytes(&object, &value)?;
            if !kept.iter().any(|want| want.number == part.number) {
                unused.push(part.tail);
            }
        }
        self.drop_tails(&bucket.data_pool, &unused, None).await?;
        self.unlist_upload(bucket, key, upload).await?;
        absent_is_fine(self.meta(object, vec![Step::AttrIs(attr::STATE, state.clone()), Step::Remove]).await)
    }

    async fn unlist_upload(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<(), Error> {
        let drop = Step::Drop(vec![names::upload_entry(key, upload)]);
        match self.on_range(bucket, key, &[drop]).await {
            Err(error) if error.code() != Some(Code::NoSuchBucket) => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes the rest of an upload whose object is about to go.
    pub(crate) async fn remove_upload(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<(), Error> {
        let Some(parts) = self.completed_parts(bucket, key, upload).await? else { return Ok(()) };
        let object = names::upload_object(&bucket.id, upload);
        let state = match self.meta(object, vec![Step::GetAttr(attr::STATE)]).await {
            Ok(replies) => replies[0].bytes(),
            Err(RadosError::NotFound) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let kept: Vec<WantedPart> = parts
            .into_iter()
            .map(|part| WantedPart { number: part.number, etag: part.etag, checksums: Vec::new() })
            .collect();
        self.end_upload(bucket, (key, upload), &state, &kept).await
    }

    /// Ends the completion of an upload that a fenced gateway has begun, or takes it back.
    pub(crate) async fn resume_complete(
        &self,
        bucket: &Bucket,
        (key, upload): (&str, &str),
        session: &str,
    ) -> Result<(), Error> {
        match self.completed_parts(bucket, key, upload).await? {
            Some(_) => self.remove_upload(bucket, key, upload).await,
            None => self.reopen_upload(bucket, upload, session).await,
        }
    }

    /// Aborts an upload and removes its parts. Errors: `NoSuchUpload`, `OperationAborted` while it is completed.
    pub async fn abort_upload(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<(), Error> {
        let (record, _) = self.upload(bucket, key, upload).await?;
        let intent = Intent::Abort { bucket: bucket.clone(), key: record.key, upload: upload.to_owned() };
        let intent = self.intend(&intent).await?;
        let steps = vec![
            Step::AttrIs(attr::STATE, Bytes::from_static(OPEN)),
            Step::SetAttr(attr::STATE, Bytes::from_static(ABORTING)),
        ];
        let outcome = match self.meta(names::upload_object(&bucket.id, upload), steps).await {
            Ok(_) => self.end_upload(bucket, (key, upload), &Bytes::from_static(ABORTING), &[]).await,
            Err(RadosError::NotFound) => Err(no_such_upload()),
            Err(RadosError::Guard) => Err(Code::OperationAborted.because("the upload is being completed or aborted")),
            Err(error) => return Err(error.into()),
        };
        if outcome.as_ref().err().is_none_or(Error::is_refusal) {
            self.forget_intent(intent).await?;
        }
        outcome
    }

    /// Ends the abortion of an upload, or the making of one, by a fenced gateway.
    pub(crate) async fn resume_abort(&self, bucket: &Bucket, key: &str, upload: &str) -> Result<(), Error> {
        let object = names::upload_object(&bucket.id, upload);
        let found = match self.meta(object, vec![Step::GetAttr(attr::STATE)]).await {
            Ok(replies) => Some(replies[0].bytes()),
            Err(RadosError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        match found {
            None => self.unlist_upload(bucket, key, upload).await,
            Some(state) if state == ABORTING => self.end_upload(bucket, (key, upload), &state, &[]).await,
            // A part of it may have been stored by then, if its client was told of it.
            Some(state) if state == OPEN && self.has_no_parts(bucket, upload).await? => {
                let steps =
                    vec![Step::AttrIs(attr::STATE, state), Step::SetAttr(attr::STATE, Bytes::from_static(ABORTING))];
                absent_is_fine(self.meta(names::upload_object(&bucket.id, upload), steps).await)?;
                self.end_upload(bucket, (key, upload), &Bytes::from_static(ABORTING), &[]).await
            }
            Some(_) => Ok(()),
        }
    }

    async fn has_no_parts(&self, bucket: &Bucket, upload: &str) -> Result<bool, Error> {
        let object = names::upload_object(&bucket.id, upload);
        let list = Step::List { after: Bytes::new(), max: 1, prefix: Bytes::new() };
        match self.meta(object, vec![list]).await {
            Ok(mut replies) => Ok(replies.remove(0).entries().0.is_empty()),
            Err(RadosError::NotFound) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

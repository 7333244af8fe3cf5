//! Objects: put, deleted, read and copied.

use crate::body::{Body, ByteRange, Chunks};
use crate::conditions::{Conditions, no_such_key};
use crate::digest::{ChecksumKind, Digests};
use crate::error::{Code, Error};
use crate::names;
use crate::present::{FoundVersion, Present};
use crate::rados::{Rados, RadosError, Step};
use crate::reading::{ReadStream, Row};
use crate::records::{Bucket, Head, Intent, Layout, Named, Part, StoredChecksum, Tail, Versioning, attr, from_bytes};
use crate::sealing::{CustomerKey, DataKey, Encryption, NewSealing, RowKey, SealedName};
use crate::store::{Settings, Store, TRIES_MAX, too_many_tries};
use crate::usage::{added, negative, usage_of, whole};
use crate::versions::{Change, NewHead};
use crate::window::Window;
use bytes::Bytes;
use s3rules::acl::Acl;
use s3rules::object_lock::ObjectLock;
use s3rules::quota::{Usage, UsageChange};
use s3rules::tagging::TagSet;
use std::collections::BTreeMap;
use std::sync::Arc;
use stdx::hex;

/// Longest key, in bytes.
pub const KEY_MAX_BYTES: usize = 1024;
/// Bytes of an object's metadata, names and values together.
pub const METADATA_MAX_BYTES: usize = 2048;
/// Bytes of an object that is put by one request, and of a part.
pub const PUT_MAX_BYTES: u64 = 5 << 30;

/// A deletion of an object or a version.
#[derive(Clone, Debug, Default)]
pub struct Deletion {
    /// `None` for the object: a version is named by its id, or `null`.
    pub version: Option<String>,
    pub versioning: Versioning,
    /// Owner of the delete marker.
    pub owner: String,
    /// Retention in governance mode does not count.
    pub bypass: bool,
    pub conditions: Conditions,
}

/// A version that a deletion made or removed. Without versioning it is the null version, and no marker.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Deleted {
    pub version: Option<String>,
    pub is_marker: bool,
}

/// An object as it is to be put.
#[derive(Clone, Debug, Default)]
pub struct PutRequest {
    pub key: String,
    pub owner: String,
    /// Bytes of the body.
    pub size: u64,
    /// The body may have less bytes: its size is known at its end.
    pub may_be_shorter: bool,
    pub headers: BTreeMap<String, String>,
    pub metadata: BTreeMap<String, String>,
    pub content_md5: Option<[u8; 16]>,
    /// An additional checksum, with its value in base64 if it came with the headers.
    pub checksum: Option<(ChecksumKind, Option<String>)>,
    pub acl: Option<Acl>,
    pub tags: TagSet,
    pub lock: ObjectLock,
    pub versioning: Versioning,
    pub conditions: Conditions,
    pub encryption: Encryption,
}

impl PutRequest {
    fn stored(self, digested: Digested, layout: Layout, bytes: Bytes, tails: Vec<Tail>) -> NewHead {
        let PutRequest { owner, size, headers, metadata, acl, tags, lock, .. } = self;
        let Digested { etag, checksum } = digested;
        NewHead { size, etag, owner, headers, metadata, checksum, acl, tags, lock, layout, bytes, tails }
    }
}

/// An object that is being read.
pub struct Object<R> {
    pub head: Head,
    /// Offset and length of what is read.
    pub range: (u64, u64),
    pub stream: ReadStream<R>,
}

/// The object and range that are to be read, and the key that the request brings.
#[derive(Clone, Copy)]
struct Wish<'a> {
    key: &'a str,
    range: Option<ByteRange>,
    customer: Option<&'a CustomerKey>,
}

/// The outcome of a look at the object of a version.
enum FoundObject<R> {
    Present(Box<Object<R>>),
    /// It was replaced or removed while it was read, or has another tag.
    Changed,
    Absent,
}

/// The layout of an object that is not of parts.
fn layout_of_new(sealing: Option<NewSealing>, size: u64, bare: Layout) -> Layout {
    match sealing {
        Some(new) => new.layout(size, bare, &[]),
        None => bare,
    }
}

/// Compares a sealed object with what was written. `list`: the parts as they are stored, and read, or nothing.
fn check_proof(head: &Head, key: &DataKey, list: (&[u8], &[Part])) -> Result<(), Error> {
    head.sealing().map_or(Ok(()), |sealing| sealing.check(key, head, list))
}

/// A part of bytes that were read. Errors: `Damaged` if they are not there.
fn cut(object: &str, bytes: &Bytes, (from, len): (u64, u64)) -> Result<Bytes, Error> {
    let end = from + len;
    if (bytes.len() as u64) < end {
        return Err(Error::damaged(object, format!("{} bytes of {end} are there", bytes.len())));
    }
    Ok(bytes.slice(from as usize..end as usize))
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
        let (size, key, pool) = (request.size, request.key.clone(), &bucket.data_pool);
        let may_be_shorter = request.may_be_shorter;
        let kind = request.checksum.as_ref().map(|(kind, _)| *kind);
        let told = request.checksum.as_ref().and_then(|(_, told)| told.clone());
        let (conditions, versioning) = (request.conditions.clone(), request.versioning);
        let sealing = self.new_sealing(bucket, &key, &request.encryption)?;
        let mut digests = Digests::new(kind);
        if size <= self.settings.whole_max_bytes {
            let bytes = self.whole_body(body, (size, may_be_shorter), &mut digests).await?;
            let request = PutRequest { size: bytes.len() as u64, ..request };
            let told = told.or_else(|| body.trailing_checksum());
            let digested = check_digests(digests, request.content_md5, told)?;
            let bytes = sealing.as_ref().map_or(bytes.clone(), |new| new.key.row(0, "").seal(0, &bytes));
            let layout = layout_of_new(sealing, request.size, Layout::Whole);
            let new = Box::new(request.stored(digested, layout, bytes, Vec::new()));
            let change = Change::Put { new, versioning };
            return self.commit_now(bucket, &key, change, &conditions, None).await?.head.ok_or_else(no_such_key);
        }
        if !may_be_shorter {
            self.check_room(bucket, &request).await?;
        }
        let tail = Tail { id: self.fresh(), size, stripe: self.settings.stripe_bytes };
        let tails = vec![tail.clone()];
        let named = Named::of_tails(&tails);
        let intent = Intent::Tails { bucket: (**bucket).clone(), key: key.clone(), named };
        let intent = self.intend(&intent).await?;
        let row = sealing.as_ref().map(|new| new.key.row(0, &tail.id));
        let written = self.write_stripes(pool, (&tail, row.as_ref()), body, &mut digests).await;
        let checked = match written {
            Ok(written) if written < size && !may_be_shorter => Err(wrong_length()),
            Ok(written) => check_digests(digests, request.content_md5, told.or_else(|| body.trailing_checksum()))
                .map(|digested| (digested, written)),
            Err(error) => Err(error),
        };
        let (digested, size) = match checked {
            Ok(checked) => checked,
            Err(error) => {
                self.drop_tails(pool, &tails, Some(intent)).await?;
                return Err(error);
            }
        };
        let (request, tail) = (PutRequest { size, ..request }, Tail { size, ..tail });
        let tails = vec![tail.clone()];
        let layout = layout_of_new(sealing, size, Layout::Striped(tail));
        let new = Box::new(request.stored(digested, layout, Bytes::new(), tails.clone()));
        match self.commit_now(bucket, &key, Change::Put { new, versioning }, &conditions, Some(intent)).await {
            Ok(committed) => committed.head.ok_or_else(no_such_key),
            Err(error) if error.is_refusal() => {
                self.drop_tails(pool, &tails, Some(intent)).await?;
                Err(error)
            }
            // Nobody knows if the head was written: the intent stays, and a sweep looks.
            Err(error) => Err(error),
        }
    }

    /// Refuses a large object before its bytes come. Errors: `QuotaExceeded`.
    async fn check_room(self: &Arc<Self>, bucket: &Bucket, request: &PutRequest) -> Result<(), Error> {
        if self.reserve(bucket, UsageChange::default()).await?.is_none() {
            return Ok(());
        }
        let PutRequest { key, size, versioning, .. } = request;
        let present = self.present(bucket, key).await?;
        let replaced = present.as_ref().filter(|present| *versioning == Versioning::Off && present.is_plain());
        let change = added(whole(Usage { bytes: *size, objects: 1 }), negative(whole(usage_of(replaced))));
        self.reserve(bucket, change).await.map(drop)
    }

    async fn whole_body<B: Body>(
        &self,
        body: &mut B,
        (size, may_be_shorter): (u64, bool),
        digests: &mut Digests,
    ) -> Result<Bytes, Error> {
        let mut chunks = Chunks::new(body);
        let len = size as usize;
        let bytes = chunks.next(len.max(1)).await?.unwrap_or_default();
        digests.update(&bytes);
        let is_short = bytes.len() < len && !may_be_shorter;
        if is_short || bytes.len() > len || chunks.next(1).await?.is_some() {
            return Err(wrong_length());
        }
        Ok(bytes)
    }

    /// The sealing of a new object, or upload, of this key. Errors: `InvalidRequest` without a master key.
    pub(crate) fn new_sealing(
        &self,
        bucket: &Bucket,
        key: &str,
        encryption: &Encryption,
    ) -> Result<Option<NewSealing>, Error> {
        let Settings { master_keys, sealed_chunk_bytes, .. } = &self.settings;
        NewSealing::new(encryption, master_keys, SealedName { bucket: &bucket.name, key }, *sealed_chunk_bytes)
    }

    /// Checks that a request may have the bytes of an object, as far as its encryption tells. Errors: `InvalidRequest`
    /// for a customer's key that is missing, wrong or too much, [`Error::NoMasterKey`].
    pub fn check_customer_key(&self, head: &Head, customer: Option<&CustomerKey>) -> Result<(), Error> {
        let name = SealedName { bucket: &head.bucket, key: &head.key };
        self.opened(name, head, customer).map(drop)
    }

    /// The key of an object; `None` if it is not sealed. `name`: where it was found.
    fn opened(
        &self,
        name: SealedName<'_>,
        head: &Head,
        customer: Option<&CustomerKey>,
    ) -> Result<Option<DataKey>, Error> {
        match head.sealing() {
            Some(sealing) => sealing.open(customer, &self.settings.master_keys, name).map(Some),
            None if customer.is_some() => {
                Err(Code::InvalidRequest.because("the object is not encrypted by a customer's key"))
            }
            None => Ok(None),
        }
    }

    /// Writes a body as the stripes of a tail, sealed by `row`.
    pub(crate) async fn write_tail<B: Body>(
        &self,
        pool: &str,
        (tail, row): (&Tail, Option<&RowKey>),
        body: &mut B,
        digests: &mut Digests,
    ) -> Result<(), Error> {
        let written = self.write_stripes(pool, (tail, row), body, digests).await?;
        if written == tail.size { Ok(()) } else { Err(wrong_length()) }
    }

    /// Writes a body as the stripes of a tail, whose size it may not exceed, sealed by `row`. Gives the number of bytes
    /// before that.
    async fn write_stripes<B: Body>(
        &self,
        pool: &str,
        (tail, row): (&Tail, Option<&RowKey>),
        body: &mut B,
        digests: &mut Digests,
    ) -> Result<u64, Error> {
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
            let chunk = row.map_or(chunk.clone(), |row| row.seal(number, &chunk));
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
        outcome.map(|()| written)
    }

    /// Deletes an object or a version. `None` if there was nothing, whatever the conditions are.
    pub async fn delete(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        deletion: Deletion,
    ) -> Result<Option<Deleted>, Error> {
        check_key(key, &BTreeMap::new())?;
        let Deletion { version, versioning, owner, bypass, conditions } = deletion;
        let mut bucket = bucket.clone();
        // Nothing is stamped for a key that is not there.
        while versioning == Versioning::Off || version.is_some() {
            let present = self.present(&bucket, key).await?;
            let is_there = match &version {
                Some(version) => present.is_some_and(|present| present.find(version).is_some()),
                None => present.is_some(),
            };
            if is_there {
                break;
            }
            match self.fresher(&bucket).await? {
                Some(fresh) => bucket = fresh,
                None => return Ok(None),
            }
        }
        let change = match version {
            Some(version) => Change::Remove { version, bypass },
            None => Change::Delete { owner, versioning },
        };
        let committed = self.commit_now(&bucket, key, change, &conditions, None).await?;
        let (version, is_marker) = committed.version.unwrap_or((None, false));
        Ok(Some(Deleted { version, is_marker }).filter(|_| committed.changed))
    }

    /// The parts of a newest version that was uploaded in parts. `None` if the head has changed.
    pub(crate) async fn parts_of(&self, bucket: &Bucket, head: &Head) -> Result<Option<Vec<Part>>, Error> {
        self.parts_at(bucket, names::head_object(&bucket.id, &head.key), Some(&head.tag)).await
    }

    async fn parts_at(
        &self,
        bucket: &Bucket,
        object: String,
        tag: Option<&String>,
    ) -> Result<Option<Vec<Part>>, Error> {
        match self.bytes_at(bucket, &object, tag, (0, 0)).await? {
            Some(bytes) => Ok(Some(from_bytes(&object, &bytes)?)),
            None => Ok(None),
        }
    }

    /// Bytes of the object of a version. `range`: offset and length, 0 for everything. `None` if the object is gone, or
    /// has another tag.
    async fn bytes_at(
        &self,
        bucket: &Bucket,
        object: &str,
        tag: Option<&String>,
        (offset, length): (u64, u64),
    ) -> Result<Option<Bytes>, Error> {
        let mut steps = vec![Step::Read { offset, length }];
        steps.extend(tag.map(|tag| Step::AttrIs(attr::TAG, Bytes::from(tag.clone()))));
        match self.rados.operate(&bucket.data_pool, object.to_owned(), steps).await {
            Ok(replies) => Ok(Some(replies[0].bytes())),
            Err(RadosError::Guard | RadosError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads an object or a version, or a range of it. `version`: `None` is the newest. Errors: `NoSuchKey`,
    /// `NoSuchVersion`, `InvalidRange`, [`Error::DeleteMarker`].
    pub async fn get(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        key: &str,
        version: Option<&str>,
        range: Option<ByteRange>,
    ) -> Result<Object<R>, Error> {
        self.get_with(bucket, (key, version), range, None).await
    }

    /// Reads as [`Store::get`] does, also what is sealed by a customer's key. Errors: `InvalidRequest` where the key
    /// is missing, wrong or too much, and those of [`Store::get`].
    pub async fn get_with(
        self: &Arc<Self>,
        bucket: &Arc<Bucket>,
        (key, version): (&str, Option<&str>),
        range: Option<ByteRange>,
        customer: Option<&CustomerKey>,
    ) -> Result<Object<R>, Error> {
        check_key(key, &BTreeMap::new())?;
        let wish = Wish { key, range, customer };
        if let Some(version) = version {
            return self.get_version(bucket, key, version, wish).await;
        }
        let mut bucket = bucket.clone();
        for _ in 0..TRIES_MAX {
            let object = names::head_object(&bucket.id, key);
            match self.get_from(&bucket, object, None, wish).await? {
                FoundObject::Present(object) => return Ok(*object),
                FoundObject::Changed => {}
                FoundObject::Absent => match self.fresher(&bucket).await? {
                    Some(fresh) => bucket = fresh,
                    None => return Err(no_such_key()),
                },
            }
        }
        Err(too_many_tries())
    }

    async fn get_version(
        self: &Arc<Self>,
        bucket: &Bucket,
        key: &str,
        version: &str,
        wish: Wish<'_>,
    ) -> Result<Object<R>, Error> {
        for _ in 0..TRIES_MAX {
            let (bucket, present, place) = self.version(bucket, key, Some(version)).await?;
            let (object, tag) = match place {
                None => (names::head_object(&bucket.id, key), Some(present.head.tag)),
                Some(place) => (names::older_object(&place), None),
            };
            if let FoundObject::Present(object) = self.get_from(&bucket, object, tag, wish).await? {
                return Ok(*object);
            }
        }
        Err(too_many_tries())
    }

    /// Reads from the object of a version. `tag`: the one that it has to have.
    async fn get_from(
        self: &Arc<Self>,
        bucket: &Bucket,
        object: String,
        tag: Option<String>,
        wish: Wish<'_>,
    ) -> Result<FoundObject<R>, Error> {
        let (offset, length) = match wish.range {
            Some(ByteRange::From(from, Some(last))) if last >= from => (from, (last - from).saturating_add(1)),
            Some(ByteRange::From(from, None)) => (from, 0),
            _ => (0, 0),
        };
        let guard = |tag: &str| Step::AttrIs(attr::TAG, Bytes::copy_from_slice(tag.as_bytes()));
        let mut steps = vec![Step::GetAttr(attr::RECORD), Step::Read { offset, length }];
        steps.extend(tag.as_deref().map(guard));
        let replies = match self.rados.operate(&bucket.data_pool, object.clone(), steps).await {
            Ok(replies) => replies,
            Err(RadosError::NotFound) => return Ok(FoundObject::Absent),
            Err(RadosError::Guard) => return Ok(FoundObject::Changed),
            Err(error) => return Err(error.into()),
        };
        let head: Head = from_bytes(&object, &replies[0].bytes())?;
        let bytes = replies[1].bytes();
        if head.is_marker {
            return Err(Error::DeleteMarker { version: head.version, is_named: tag.is_some() });
        }
        // The names are those that were asked for, since a record can come from another object.
        let opened = self.opened(SealedName { bucket: &bucket.name, key: wish.key }, &head, wish.customer)?;
        let wanted = match wish.range {
            Some(range) => range.of(head.size)?,
            None => (0, head.size),
        };
        let pool = &bucket.data_pool;
        // A place never changes, and a head has another tag when it does.
        let is_head = object == names::head_object(&bucket.id, &head.key);
        let guard = Some(&head.tag).filter(|_| is_head);
        let everything = Some(bytes.clone()).filter(|_| (offset, length) == (0, 0));
        let stream = match (head.layout.bare(), &opened) {
            (Layout::Whole | Layout::Sealed { .. }, None) => {
                let skip = wanted.0 - offset;
                ReadStream::of_bytes(self.clone(), cut(&object, &bytes, (skip, wanted.1))?)
            }
            (Layout::Whole | Layout::Sealed { .. }, Some(key)) => {
                check_proof(&head, key, (&[], &[]))?;
                let row = key.row(0, "");
                let span = row.span(head.size, wanted);
                let sealed = match everything {
                    _ if wanted.1 == 0 => Some(Bytes::new()),
                    Some(bytes) => Some(cut(&object, &bytes, (span.offset, span.length))?),
                    None => self.bytes_at(bucket, &object, guard, (span.offset, span.length)).await?,
                };
                let Some(sealed) = sealed else { return Ok(FoundObject::Changed) };
                let plain = if wanted.1 == 0 { Some(sealed) } else { row.open(0, span, &sealed) };
                let plain = plain.ok_or_else(|| Error::damaged(&object, "its bytes are not as they were sealed"))?;
                ReadStream::of_bytes(self.clone(), plain)
            }
            (Layout::Striped(tail), opened) => {
                opened.as_ref().map(|key| check_proof(&head, key, (&[], &[]))).transpose()?;
                let key = opened.as_ref().map(|key| Arc::new(key.row(0, &tail.id)));
                ReadStream::of_rows(self.clone(), pool, &[Row { tail: tail.clone(), key }], wanted)
            }
            (Layout::Parts { .. }, opened) => {
                let list = match everything {
                    Some(bytes) => Some(bytes),
                    None => self.bytes_at(bucket, &object, guard, (0, 0)).await?,
                };
                let Some(list) = list else { return Ok(FoundObject::Changed) };
                let parts: Vec<Part> = from_bytes(&object, &list)?;
                opened.as_ref().map(|key| check_proof(&head, key, (&list, &parts))).transpose()?;
                let key = |part: &Part| opened.as_ref().map(|key| Arc::new(key.row(part.number, &part.tail.id)));
                let rows: Vec<Row> = parts.into_iter().map(|part| Row { key: key(&part), tail: part.tail }).collect();
                ReadStream::of_rows(self.clone(), pool, &rows, wanted)
            }
        };
        Ok(FoundObject::Present(Box::new(Object { head, range: wanted, stream })))
    }

    /// The record of an object or a version. `version`: `None` is the newest. Errors as with [`Store::get`].
    pub async fn stat(&self, bucket: &Bucket, key: &str, version: Option<&str>) -> Result<Head, Error> {
        for _ in 0..TRIES_MAX {
            let (bucket, present, place) = self.version(bucket, key, version).await?;
            let Some(place) = place else { return Ok(present.head) };
            if let Some((head, _)) = self.read_older(&bucket, &place).await? {
                return Ok(head);
            }
        }
        Err(too_many_tries())
    }

    /// The record of an object or a version and, if it was uploaded in parts, these in order. Errors as with
    /// [`Store::get`].
    pub async fn parts(
        &self,
        bucket: &Bucket,
        key: &str,
        version: Option<&str>,
    ) -> Result<(Head, Option<Vec<Part>>), Error> {
        for _ in 0..TRIES_MAX {
            let (bucket, present, place) = self.version(bucket, key, version).await?;
            let (head, object, tag) = match place {
                None => {
                    let tag = Some(present.head.tag.clone());
                    (present.head, names::head_object(&bucket.id, key), tag)
                }
                Some(place) => match self.read_older(&bucket, &place).await? {
                    Some((head, _)) => (head, names::older_object(&place), None),
                    None => continue,
                },
            };
            if !matches!(head.layout.bare(), Layout::Parts { .. }) {
                return Ok((head, None));
            }
            if let Some(parts) = self.parts_at(&bucket, object, tag.as_ref()).await? {
                return Ok((head, Some(parts)));
            }
        }
        Err(too_many_tries())
    }

    /// The state of a key, and the place of a version of it: `None` for the newest. Also gives the bucket of this name
    /// as it is now. Errors: `NoSuchKey`, `NoSuchVersion`, [`Error::DeleteMarker`].
    pub(crate) async fn version(
        &self,
        bucket: &Bucket,
        key: &str,
        version: Option<&str>,
    ) -> Result<(Arc<Bucket>, Present, Option<String>), Error> {
        check_key(key, &BTreeMap::new())?;
        let mut bucket = Arc::new(bucket.clone());
        loop {
            if let Some(present) = self.present(&bucket, key).await? {
                let found = match version {
                    None => Some(FoundVersion::Newest(&present.head)),
                    Some(name) => present.find(name),
                };
                let is_named = version.is_some();
                let marker = |version: &Option<String>| Error::DeleteMarker { version: version.clone(), is_named };
                let place = match &found {
                    None => return Err(no_such_version()),
                    Some(FoundVersion::Newest(head)) if head.is_marker => return Err(marker(&head.version)),
                    Some(FoundVersion::Newest(_)) => None,
                    Some(FoundVersion::Older(older)) => match &older.place {
                        None => return Err(marker(&older.version)),
                        place => place.clone(),
                    },
                };
                return Ok((bucket, present, place));
            }
            match self.fresher(&bucket).await? {
                Some(fresh) => bucket = fresh,
                None if version.is_some() => return Err(no_such_version()),
                None => return Err(no_such_key()),
            }
        }
    }
}

fn no_such_version() -> Error {
    Code::NoSuchVersion.because("there is no such version")
}

fn wrong_length() -> Error {
    Code::IncompleteBody.because("the body has another length than was told")
}

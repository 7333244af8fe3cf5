//! Objects: stored, read, copied and removed.

use crate::asker::{Asked, Visit};
use crate::convert::{
    REDIRECT, ReadConditions, announced_checksum, asks_for_checksums, checksum, conditions, etag, kept_headers,
    not_implemented, range, ruled, seconds, time, told,
};
use crate::encryption;
use crate::link::Link;
use crate::locks::{Shown, bypasses, lock_of_new};
use crate::service::{Service, to_its_end, to_its_end_holding};
use crate::streams::{Incoming, outgoing, told_md5, told_size};
use http::header::TRANSFER_ENCODING;
use s3::{ByteRange, Code, Conditions, CustomerKey, Deleted, Deletion, Head, Object, PutRequest};
use s3rules::policy::Action;
use s3rules::tagging::TagSet;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Deletions of one request at once.
const DELETIONS_AT_ONCE: usize = 16;
/// Keys of one request to delete.
const DELETIONS_MAX: usize = 1000;

/// Bucket, key and version that a copy reads.
pub(crate) fn copy_source(source: &CopySource) -> S3Result<(String, String, Option<String>)> {
    match source {
        CopySource::Bucket { bucket, key, version_id } => {
            Ok((bucket.to_string(), key.to_string(), version_id.as_deref().map(str::to_owned)))
        }
        _ => Err(not_implemented("access points")),
    }
}

fn range_of_a_part() -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidRequest, "a request names a range or a part, not both")
}

/// The action of a read.
pub(crate) fn read_of(version: Option<&str>) -> Action {
    if version.is_some() { Action::GetObjectVersion } else { Action::GetObject }
}

/// The action of a deletion.
fn deletion_of(version: Option<&str>) -> Action {
    if version.is_some() { Action::DeleteObjectVersion } else { Action::DeleteObject }
}

/// The deletion of a version, or of an object as the bucket keeps versions.
fn deletion(visit: &Visit, version: Option<String>) -> Deletion {
    let owner = visit.user.as_ref().map_or_else(|| s3::ANONYMOUS.to_owned(), |user| user.uid.clone());
    Deletion { version, owner, versioning: visit.settings.versioning, ..Deletion::default() }
}

/// A size that an object has to have. No object has a negative one.
fn size_condition(size: Option<i64>) -> Option<u64> {
    size.map(|size| u64::try_from(size).unwrap_or(u64::MAX))
}

/// The version of an answer to a deletion, and if it is a delete marker. `named`: the version that was to go.
fn told_deletion(visit: &Visit, named: Option<String>, deleted: Option<Deleted>) -> (Option<String>, bool) {
    match deleted {
        Some(deleted) => (named.or_else(|| visit.shown_version(deleted.version)), deleted.is_marker),
        None => (named, false),
    }
}

fn header(head: &Head, name: &str) -> Option<String> {
    head.headers.get(name).cloned()
}

fn expires(head: &Head) -> Option<Timestamp> {
    Timestamp::parse(TimestampFormat::HttpDate, head.headers.get("expires")?).ok()
}

fn metadata(head: &Head) -> Option<Metadata> {
    Some(head.metadata.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

fn content_type(head: &Head) -> Option<String> {
    Some(header(head, "content-type").unwrap_or_else(|| "binary/octet-stream".into()))
}

pub(crate) fn user_metadata(metadata: Option<Metadata>) -> BTreeMap<String, String> {
    metadata.into_iter().flatten().collect()
}

/// Errors: `InvalidStorageClass`.
pub(crate) fn check_storage_class(storage_class: Option<&StorageClass>) -> S3Result<()> {
    match storage_class.map(StorageClass::as_str) {
        None | Some(StorageClass::STANDARD) => Ok(()),
        Some(other) => {
            Err(S3Error::with_message(S3ErrorCode::InvalidStorageClass, format!("there is no storage class '{other}'")))
        }
    }
}

/// Tags that headers bring. Errors: `InvalidArgument`, `InvalidTag`.
pub(crate) fn header_tags(headers: &http::HeaderMap) -> S3Result<TagSet> {
    match headers.get("x-amz-tagging") {
        None => Ok(TagSet::default()),
        Some(value) => {
            let text = value.to_str().map_err(|_| S3Error::new(S3ErrorCode::InvalidArgument))?;
            let mut tags = ruled(TagSet::from_header(text))?;
            // Ceph's gateway has no other order for them.
            tags.tags.sort_by(|a, b| a.key.cmp(&b.key));
            Ok(tags)
        }
    }
}

fn tag_count(head: &Head) -> Option<i32> {
    i32::try_from(head.tags.tags.len()).ok().filter(|count| *count > 0)
}

impl Service {
    pub async fn store_object(&self, req: S3Request<PutObjectInput>) -> S3Result<S3Response<PutObjectOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let S3Request { input, headers, trailing_headers, .. } = req;
        let (owner, acl) = self.authority.list_of_new(&visit, &headers).await?;
        let encryption = encryption::wanted(&self.gateway, &visit.settings, &headers)?;
        let customer = encryption.customer().cloned();
        check_storage_class(input.storage_class.as_ref())?;
        if input.write_offset_bytes.is_some() {
            return Err(not_implemented("appending"));
        }
        let told_size = told_size(&headers, input.content_length);
        // A body in chunks of HTTP ends where its last chunk does; without these there is none.
        let untold = Some(s3::PUT_MAX_BYTES).filter(|_| headers.contains_key(TRANSFER_ENCODING));
        let size = told_size.or(untold).ok_or_else(|| S3Error::new(S3ErrorCode::MissingContentLength))?;
        let announced = announced_checksum(&headers, input.checksum_algorithm.as_ref().map(|a| a.as_str()))?;
        let content_md5 = told_md5(&headers)?;
        let mut body = Incoming::new(input.body, trailing_headers, announced.as_ref().map(|(kind, _)| *kind));
        let request = PutRequest {
            key: input.key,
            owner,
            size,
            may_be_shorter: told_size.is_none(),
            headers: kept_headers(&headers)?,
            metadata: user_metadata(input.metadata),
            content_md5,
            checksum: announced,
            acl,
            tags: header_tags(&headers)?,
            lock: lock_of_new(&visit, &headers)?,
            versioning: visit.settings.versioning,
            conditions: conditions(input.if_match.as_ref(), input.if_none_match.as_ref()),
            encryption,
        };
        let (gateway, memory) = (self.gateway.clone(), self.budget.reserve(size).await?);
        let bucket = visit.bucket.clone();
        visit.meter.moved(told_size.unwrap_or(0));
        let head = to_its_end_holding(memory, async move { gateway.put(&bucket, request, &mut body).await }).await?;
        visit.meter.moved(if told_size.is_none() { head.size } else { 0 });
        let sums = checksum(head.checksum.as_ref());
        let by = head.sealing().map(|sealing| sealing.by.clone());
        let mut response = S3Response::new(PutObjectOutput {
            expiration: visit.expiration(&head),
            version_id: head.version,
            e_tag: Some(etag(&head.etag)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..Default::default()
        });
        encryption::tell(&mut response.headers, by.as_ref(), customer.as_ref());
        Ok(response)
    }

    /// Reads an object for one who may. `customer`: the key that the request brings. Errors: `AccessDenied`,
    /// `NoSuchKey`, `InvalidRange`, `InvalidRequest` for a customer's key that is missing or wrong.
    pub async fn read_by(
        &self,
        visit: &Visit,
        (key, version): (&str, Option<&str>),
        range: Option<ByteRange>,
        customer: Option<&CustomerKey>,
    ) -> S3Result<Object<Link>> {
        let action = read_of(version);
        match self.gateway.get_with(&visit.bucket, (key, version), range, customer).await {
            Ok(object) => visit.may_with(action, &object.head).map(|()| object),
            // One who may not read an object does not learn how long it is, nor if it is encrypted.
            Err(error) if matches!(error.code(), Some(Code::InvalidRange | Code::InvalidRequest)) => {
                visit.head(&self.gateway, action, (key, version)).await?;
                Err(told(error))
            }
            Err(error) => Err(visit.refusal(error, action, key)),
        }
    }

    pub async fn read_object(&self, req: S3Request<GetObjectInput>) -> S3Result<S3Response<GetObjectOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        encryption::check_read(&req.headers)?;
        let customer = encryption::OWN.key(&req.headers)?;
        let input = req.input;
        let name = (input.key.as_str(), input.version_id.as_deref());
        let (object, part, wanted) = match (input.part_number, input.range.as_ref().map(range)) {
            (Some(_), Some(_)) => return Err(range_of_a_part()),
            (Some(number), None) => {
                let (object, part) = self.part_by(&visit, name, number, customer.as_ref()).await?;
                let range = part.range;
                (object, Some(part), range)
            }
            (None, wanted) => (self.read_by(&visit, name, wanted, customer.as_ref()).await?, None, wanted),
        };
        let head = object.head;
        let conditions = ReadConditions {
            if_match: input.if_match.as_ref(),
            if_none_match: input.if_none_match.as_ref(),
            if_modified_since: input.if_modified_since.as_ref(),
            if_unmodified_since: input.if_unmodified_since.as_ref(),
        };
        conditions.check(&head)?;
        let (offset, length) = object.range;
        let content_range = wanted.map(|_| format!("bytes {offset}-{}/{}", offset + length - 1, head.size));
        // Clients compare checksums with all the bytes that they get.
        let is_asked = asks_for_checksums(input.checksum_mode.as_ref());
        let sums = match &part {
            Some(part) => checksum(part.checksum.as_ref().filter(|_| is_asked)),
            None => checksum(head.checksum.as_ref().filter(|_| is_asked && wanted.is_none())),
        };
        let memory = self.budget.reserve(length).await?;
        visit.meter.moved(length);
        let lock = Shown::of(&head);
        let body = outgoing(object.stream, length, memory).await.map_err(told)?;
        let by = head.sealing().map(|sealing| sealing.by.clone());
        let mut response = S3Response::new(GetObjectOutput {
            body: Some(body),
            content_length: Some(length as i64),
            content_range,
            parts_count: part.and_then(|part| part.count),
            expiration: visit.expiration(&head).filter(|_| input.version_id.is_none()),
            accept_ranges: Some("bytes".into()),
            e_tag: Some(etag(&head.etag)),
            last_modified: Some(time(head.mtime_ms)),
            content_type: input.response_content_type.or_else(|| content_type(&head)),
            cache_control: input.response_cache_control.or_else(|| header(&head, "cache-control")),
            content_disposition: input.response_content_disposition.or_else(|| header(&head, "content-disposition")),
            content_encoding: input.response_content_encoding.or_else(|| header(&head, "content-encoding")),
            content_language: input.response_content_language.or_else(|| header(&head, "content-language")),
            expires: input.response_expires.or_else(|| expires(&head)),
            website_redirect_location: header(&head, REDIRECT),
            metadata: metadata(&head),
            version_id: visit.shown_version(head.version.clone()),
            object_lock_mode: lock.mode,
            object_lock_retain_until_date: lock.until,
            object_lock_legal_hold_status: lock.legal_hold,
            tag_count: tag_count(&head),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..Default::default()
        });
        encryption::tell(&mut response.headers, by.as_ref(), customer.as_ref());
        Ok(response)
    }

    pub async fn head_of_object(&self, req: S3Request<HeadObjectInput>) -> S3Result<S3Response<HeadObjectOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        encryption::check_read(&req.headers)?;
        let customer = encryption::OWN.key(&req.headers)?;
        let input = req.input;
        if input.range.is_some() {
            return Err(not_implemented("the head of a range"));
        }
        let version = input.version_id.as_deref();
        let (head, part) = match input.part_number {
            Some(number) => {
                let (head, part) = self.part_of(&visit, (&input.key, version), number, customer.as_ref()).await?;
                (head, Some(part))
            }
            None => {
                let head = visit.head(&self.gateway, read_of(version), (&input.key, version)).await?;
                self.gateway.check_customer_key(&head, customer.as_ref()).map_err(told)?;
                (head, None)
            }
        };
        let conditions = ReadConditions {
            if_match: input.if_match.as_ref(),
            if_none_match: input.if_none_match.as_ref(),
            if_modified_since: input.if_modified_since.as_ref(),
            if_unmodified_since: input.if_unmodified_since.as_ref(),
        };
        conditions.check(&head)?;
        let is_asked = asks_for_checksums(input.checksum_mode.as_ref());
        let of_part = part.as_ref().map(|part| part.checksum.as_ref());
        let sums = checksum(of_part.unwrap_or(head.checksum.as_ref()).filter(|_| is_asked));
        let lock = Shown::of(&head);
        let mut response = S3Response::new(HeadObjectOutput {
            content_length: Some(part.as_ref().map_or(head.size, |part| part.length) as i64),
            parts_count: part.and_then(|part| part.count),
            expiration: visit.expiration(&head).filter(|_| version.is_none()),
            accept_ranges: Some("bytes".into()),
            e_tag: Some(etag(&head.etag)),
            last_modified: Some(time(head.mtime_ms)),
            content_type: content_type(&head),
            cache_control: header(&head, "cache-control"),
            content_disposition: header(&head, "content-disposition"),
            content_encoding: header(&head, "content-encoding"),
            content_language: header(&head, "content-language"),
            expires: expires(&head),
            website_redirect_location: header(&head, REDIRECT),
            metadata: metadata(&head),
            version_id: visit.shown_version(head.version.clone()),
            object_lock_mode: lock.mode,
            object_lock_retain_until_date: lock.until,
            object_lock_legal_hold_status: lock.legal_hold,
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
            ..Default::default()
        });
        encryption::tell(&mut response.headers, head.sealing().map(|sealing| &sealing.by), customer.as_ref());
        if let Some(count) = tag_count(&head) {
            response.headers.insert("x-amz-tagging-count", http::HeaderValue::from(count));
        }
        Ok(response)
    }

    pub async fn copy_of_object(&self, req: S3Request<CopyObjectInput>) -> S3Result<S3Response<CopyObjectOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let (from_bucket, from_key, from_version) = copy_source(&req.input.copy_source)?;
        let from = self.authority.visit_source(&req, &from_bucket).await?;
        let S3Request { input, headers: http_headers, .. } = req;
        let (owner, acl) = self.authority.list_of_new(&visit, &http_headers).await?;
        let encryption = encryption::wanted(&self.gateway, &visit.settings, &http_headers)?;
        let customer = encryption.customer().cloned();
        let source_key = encryption::SOURCE.key(&http_headers)?;
        check_storage_class(input.storage_class.as_ref())?;
        let replaces = input.metadata_directive.as_ref().is_some_and(|d| d.as_str() == MetadataDirective::REPLACE);
        let changes = replaces || encryption::is_asked_for(&http_headers);
        if !changes && from_key == input.key && from.bucket.id == visit.bucket.id && from_version.is_none() {
            let message = "a copy of an object onto itself has to change its metadata or encryption";
            return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, message));
        }
        let name = (from_key.as_str(), from_version.as_deref());
        let object = self.read_by(&from, name, None, source_key.as_ref()).await?;
        let conditions = ReadConditions {
            if_match: input.copy_source_if_match.as_ref(),
            if_none_match: input.copy_source_if_none_match.as_ref(),
            if_modified_since: input.copy_source_if_modified_since.as_ref(),
            if_unmodified_since: input.copy_source_if_unmodified_since.as_ref(),
        };
        conditions.check(&object.head).map_err(|_| S3Error::new(S3ErrorCode::PreconditionFailed))?;
        let source = object.head;
        let kind = announced_checksum(&http::HeaderMap::new(), input.checksum_algorithm.as_ref().map(|a| a.as_str()))?;
        let kind = kind.or_else(|| source.checksum.as_ref().map(|checksum| (checksum.kind, None)));
        let (headers, metadata) = match replaces {
            true => (kept_headers(&http_headers)?, user_metadata(input.metadata)),
            false => {
                // Where a site redirects to is the target's own.
                let (mut headers, mut asked) = (source.headers, kept_headers(&http_headers)?);
                headers.remove(REDIRECT);
                headers.extend(asked.remove_entry(REDIRECT));
                (headers, source.metadata)
            }
        };
        let tags = match input.tagging_directive.as_ref().map(TaggingDirective::as_str) {
            Some(TaggingDirective::REPLACE) => header_tags(&http_headers)?,
            _ => source.tags,
        };
        let request = PutRequest {
            key: input.key,
            owner,
            size: source.size,
            may_be_shorter: false,
            headers,
            metadata,
            content_md5: None,
            checksum: kind,
            acl,
            tags,
            lock: lock_of_new(&visit, &http_headers)?,
            versioning: visit.settings.versioning,
            conditions: Conditions::default(),
            encryption,
        };
        let (gateway, bucket, mut stream) = (self.gateway.clone(), visit.bucket.clone(), object.stream);
        let memory = self.budget.reserve(source.size.saturating_mul(2)).await?;
        let head = to_its_end_holding(memory, async move { gateway.put(&bucket, request, &mut stream).await }).await?;
        let sums = checksum(head.checksum.as_ref());
        let result = CopyObjectResult {
            e_tag: Some(etag(&head.etag)),
            last_modified: Some(time(head.mtime_ms)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            checksum_type: sums.checksum_type,
        };
        let by = head.sealing().map(|sealing| sealing.by.clone());
        let mut response = S3Response::new(CopyObjectOutput {
            copy_object_result: Some(result),
            expiration: visit.expiration(&head),
            copy_source_version_id: from.shown_version(source.version),
            version_id: head.version,
            ..Default::default()
        });
        encryption::tell(&mut response.headers, by.as_ref(), customer.as_ref());
        Ok(response)
    }

    pub async fn remove_object(&self, req: S3Request<DeleteObjectInput>) -> S3Result<S3Response<DeleteObjectOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(deletion_of(req.input.version_id.as_deref()), Some(&req.input.key))?;
        let bypass = bypasses(&Asked::from(&req), &visit, &req.input.key);
        let input = req.input;
        let deletion = Deletion {
            conditions: Conditions {
                size: size_condition(input.if_match_size),
                mtime_s: input.if_match_last_modified_time.as_ref().and_then(seconds),
                ..conditions(input.if_match.as_ref(), None)
            },
            bypass,
            ..deletion(&visit, input.version_id)
        };
        let (gateway, bucket) = (self.gateway.clone(), visit.bucket.clone());
        let named = deletion.version.clone();
        let deleted = to_its_end(async move { gateway.delete(&bucket, &input.key, deletion).await }).await?;
        let (version, is_marker) = told_deletion(&visit, named, deleted);
        Ok(S3Response::new(DeleteObjectOutput {
            delete_marker: Some(is_marker).filter(|is_marker| *is_marker),
            version_id: version,
            ..Default::default()
        }))
    }

    pub async fn remove_objects(
        &self,
        req: S3Request<DeleteObjectsInput>,
    ) -> S3Result<S3Response<DeleteObjectsOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        let asked_at = req.map_input(|input| input.delete);
        let Delete { objects, quiet } = asked_at.input.clone();
        if objects.is_empty() || objects.len() > DELETIONS_MAX {
            let message = "a request deletes from 1 to 1000 keys";
            return Err(S3Error::with_message(S3ErrorCode::MalformedXML, message));
        }
        let turns = Arc::new(tokio::sync::Semaphore::new(DELETIONS_AT_ONCE));
        let mut tasks = Vec::new();
        for object in objects {
            let (gateway, bucket, turns) = (self.gateway.clone(), visit.bucket.clone(), turns.clone());
            let allowed = visit.may(deletion_of(object.version_id.as_deref()), Some(&object.key));
            let bypass = bypasses(&Asked::from(&asked_at), &visit, &object.key);
            let deletion = Deletion { bypass, ..deletion(&visit, object.version_id.clone()) };
            tasks.push(tokio::spawn(async move {
                let _turn = turns.acquire_owned().await;
                let outcome = match allowed {
                    Ok(()) => {
                        let etags = object.e_tag.as_ref().map(|etag| vec![etag.value().to_owned()]);
                        let conditions = Conditions {
                            etags,
                            size: size_condition(object.size),
                            mtime_s: object.last_modified_time.as_ref().and_then(seconds),
                            ..Conditions::default()
                        };
                        let deletion = Deletion { conditions, ..deletion };
                        gateway.delete(&bucket, &object.key, deletion).await.map_err(told)
                    }
                    Err(error) => Err(error),
                };
                (object, outcome)
            }));
        }
        let (mut deleted, mut errors) = (Vec::new(), Vec::new());
        for task in tasks {
            let (object, outcome) = task.await.map_err(S3Error::internal_error)?;
            let (key, version_id) = (Some(object.key), object.version_id);
            match outcome {
                Ok(_) if quiet == Some(true) => {}
                Ok(outcome) => {
                    let (version, is_marker) = told_deletion(&visit, version_id.clone(), outcome);
                    let (delete_marker, delete_marker_version_id) = match is_marker {
                        true => (Some(true), version),
                        false => (None, None),
                    };
                    deleted.push(DeletedObject { key, version_id, delete_marker, delete_marker_version_id });
                }
                Err(error) => {
                    let code = Some(error.code().as_str().to_owned());
                    errors.push(Error { code, key, message: error.message().map(str::to_owned), version_id });
                }
            }
        }
        Ok(S3Response::new(DeleteObjectsOutput { deleted: Some(deleted), errors: Some(errors), ..Default::default() }))
    }
}

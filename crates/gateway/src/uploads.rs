//! Multipart uploads.

use crate::asker::Visit;
use crate::convert::{
    CHECKSUMS, ReadConditions, announced_checksum, checksum, checksum_kind, conditions, etag, kept_headers, time, told,
};
use crate::encryption;
use crate::lists::initiator;
use crate::locks::lock_of_new;
use crate::objects::{check_storage_class, copy_source, header_tags, user_metadata};
use crate::service::{Service, to_its_end, to_its_end_holding};
use crate::streams::{Incoming, told_md5, told_size};
use s3::{ByteRange, ChecksumKind, Completion, PartRequest, Upload, WantedPart};
use s3rules::policy::Action;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

/// Parts of a page.
const PAGE_MAX: i32 = 1000;

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidArgument, message)
}

fn part_number(number: i32) -> S3Result<u16> {
    u16::try_from(number).map_err(|_| invalid(format!("parts have numbers from 1 to {}", s3::PARTS_MAX)))
}

fn name_of(kind: ChecksumKind) -> &'static str {
    CHECKSUMS.iter().find(|(known, ..)| *known == kind).map_or("", |(_, name, _)| name)
}

/// The range of a source that a part copies: `bytes=FIRST-LAST`.
fn copied_range(text: &str) -> S3Result<ByteRange> {
    match Range::parse(text) {
        Ok(Range::Int { first, last: Some(last) }) if first <= last => Ok(ByteRange::From(first, Some(last))),
        _ => Err(invalid("the range of a source is bytes=FIRST-LAST")),
    }
}

/// The checksum of a whole object that the completion of its upload tells.
fn whole_checksum(input: &CompleteMultipartUploadInput) -> Option<(ChecksumKind, String)> {
    let values = [
        (ChecksumKind::Crc32, &input.checksum_crc32),
        (ChecksumKind::Crc32c, &input.checksum_crc32c),
        (ChecksumKind::Crc64Nvme, &input.checksum_crc64nvme),
        (ChecksumKind::Sha1, &input.checksum_sha1),
        (ChecksumKind::Sha256, &input.checksum_sha256),
    ];
    values.into_iter().find_map(|(kind, value)| Some((kind, value.clone()?)))
}

/// When lifecycle rules give an upload up, and the id of the rule.
fn told_abortion(visit: &Visit, upload: &Upload) -> (Option<Timestamp>, Option<String>) {
    visit.abortion(upload).map(|(at_ms, rule)| (time(at_ms), rule)).unzip()
}

impl Service {
    pub async fn begin_upload(
        &self,
        req: S3Request<CreateMultipartUploadInput>,
    ) -> S3Result<S3Response<CreateMultipartUploadOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let S3Request { input, headers, .. } = req;
        let (owner, acl) = self.authority.list_of_new(&visit, &headers).await?;
        let encryption = encryption::wanted(&self.gateway, &visit.settings, &headers)?;
        check_storage_class(input.storage_class.as_ref())?;
        let kind = input.checksum_algorithm.as_ref().map(|a| checksum_kind(a.as_str())).transpose()?;
        let is_composite = match (kind, input.checksum_type.as_ref().map(ChecksumType::as_str)) {
            (None, _) => false,
            (Some(kind), Some(ChecksumType::FULL_OBJECT)) if kind.combines() => false,
            (Some(ChecksumKind::Crc64Nvme), None) => false,
            (Some(ChecksumKind::Crc64Nvme), Some(_)) | (Some(_), Some(ChecksumType::FULL_OBJECT)) => {
                return Err(S3Error::with_message(S3ErrorCode::InvalidRequest, "this checksum has no such type"));
            }
            (Some(_), _) => true,
        };
        let sealing = self.gateway.seal_upload(&visit.bucket, &input.key, &encryption).map_err(told)?;
        let upload = Upload {
            id: String::new(),
            key: input.key,
            owner,
            created_ms: 0,
            headers: kept_headers(&headers)?,
            metadata: user_metadata(input.metadata),
            checksum: kind,
            is_composite,
            acl,
            tags: header_tags(&headers)?,
            lock: lock_of_new(&visit, &headers)?,
            sealing,
        };
        let (gateway, bucket) = (self.gateway.clone(), visit.bucket.clone());
        let upload = to_its_end(async move { gateway.create_upload(&bucket, upload).await }).await?;
        let (abort_date, abort_rule_id) = told_abortion(&visit, &upload);
        let type_of = |_| match is_composite {
            true => ChecksumType::from_static(ChecksumType::COMPOSITE),
            false => ChecksumType::from_static(ChecksumType::FULL_OBJECT),
        };
        let by = upload.sealing.map(|sealing| sealing.by);
        let mut response = S3Response::new(CreateMultipartUploadOutput {
            abort_date,
            abort_rule_id,
            bucket: Some(input.bucket),
            key: Some(upload.key),
            upload_id: Some(upload.id),
            checksum_algorithm: kind.map(|kind| ChecksumAlgorithm::from_static(name_of(kind))),
            checksum_type: kind.map(type_of),
            ..Default::default()
        });
        encryption::tell(&mut response.headers, by.as_ref(), encryption.customer());
        Ok(response)
    }

    pub async fn store_part(&self, req: S3Request<UploadPartInput>) -> S3Result<S3Response<UploadPartOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let bucket = visit.bucket.clone();
        let S3Request { input, headers, trailing_headers, .. } = req;
        let customer = encryption::OWN.key(&headers)?;
        let size = told_size(&headers, input.content_length);
        let size = size.ok_or_else(|| S3Error::new(S3ErrorCode::MissingContentLength))?;
        let announced = announced_checksum(&headers, input.checksum_algorithm.as_ref().map(|a| a.as_str()))?;
        let content_md5 = told_md5(&headers)?;
        let mut body = Incoming::new(input.body, trailing_headers, announced.as_ref().map(|(kind, _)| *kind));
        let request = PartRequest {
            key: input.key,
            upload: input.upload_id,
            number: part_number(input.part_number)?,
            size,
            content_md5,
            checksum: announced,
            customer: customer.clone(),
        };
        let (gateway, memory) = (self.gateway.clone(), self.budget.reserve(size).await?);
        visit.meter.moved(size);
        let part =
            to_its_end_holding(memory, async move { gateway.put_part(&bucket, request, &mut body).await }).await?;
        let sums = checksum(part.checksum.as_ref());
        let mut response = S3Response::new(UploadPartOutput {
            e_tag: Some(etag(&part.etag)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
            ..Default::default()
        });
        encryption::tell(&mut response.headers, part.sealed_by.as_ref(), customer.as_ref());
        Ok(response)
    }

    pub async fn copy_of_part(
        &self,
        req: S3Request<UploadPartCopyInput>,
    ) -> S3Result<S3Response<UploadPartCopyOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let bucket = visit.bucket;
        let (from_bucket, from_key, from_version) = copy_source(&req.input.copy_source)?;
        let from = self.authority.visit_source(&req, &from_bucket).await?;
        let (customer, source_key) = (encryption::OWN.key(&req.headers)?, encryption::SOURCE.key(&req.headers)?);
        let input = req.input;
        let range = input.copy_source_range.as_deref().map(copied_range).transpose()?;
        let name = (from_key.as_str(), from_version.as_deref());
        let object = self.read_by(&from, name, range, source_key.as_ref()).await?;
        if let Some(ByteRange::From(first, Some(last))) = range
            && object.range.1 <= last - first
        {
            return Err(S3Error::with_message(S3ErrorCode::InvalidRange, "the source ends before the range does"));
        }
        let conditions = ReadConditions {
            if_match: input.copy_source_if_match.as_ref(),
            if_none_match: input.copy_source_if_none_match.as_ref(),
            if_modified_since: input.copy_source_if_modified_since.as_ref(),
            if_unmodified_since: input.copy_source_if_unmodified_since.as_ref(),
        };
        conditions.check(&object.head).map_err(|_| S3Error::new(S3ErrorCode::PreconditionFailed))?;
        let request = PartRequest {
            key: input.key,
            upload: input.upload_id,
            number: part_number(input.part_number)?,
            size: object.range.1,
            content_md5: None,
            checksum: None,
            customer: customer.clone(),
        };
        let (gateway, mut stream) = (self.gateway.clone(), object.stream);
        let memory = self.budget.reserve(request.size.saturating_mul(2)).await?;
        let part =
            to_its_end_holding(memory, async move { gateway.put_part(&bucket, request, &mut stream).await }).await?;
        let sums = checksum(part.checksum.as_ref());
        let result = CopyPartResult {
            e_tag: Some(etag(&part.etag)),
            last_modified: Some(time(part.mtime_ms)),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
        };
        let mut response = S3Response::new(UploadPartCopyOutput {
            copy_part_result: Some(result),
            copy_source_version_id: from.shown_version(object.head.version),
            ..Default::default()
        });
        encryption::tell(&mut response.headers, part.sealed_by.as_ref(), customer.as_ref());
        Ok(response)
    }

    pub async fn end_upload(
        &self,
        req: S3Request<CompleteMultipartUploadInput>,
    ) -> S3Result<S3Response<CompleteMultipartUploadOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::PutObject, Some(&req.input.key))?;
        let (bucket, versioning) = (visit.bucket.clone(), visit.settings.versioning);
        let customer = encryption::OWN.key(&req.headers)?;
        let input = req.input;
        let checksum_told = whole_checksum(&input);
        let size = input.mpu_object_size.map(|size| u64::try_from(size).map_err(|_| invalid("a size is not below 0")));
        let size = size.transpose()?;
        let parts = input.multipart_upload.and_then(|upload| upload.parts).unwrap_or_default();
        let mut wanted = Vec::with_capacity(parts.len());
        for part in parts {
            let missing = || S3Error::with_message(S3ErrorCode::MalformedXML, "a part has a number and an ETag");
            let number = part_number(part.part_number.ok_or_else(missing)?)?;
            let etag = part.e_tag.as_ref().ok_or_else(missing)?.value().to_owned();
            let values = [
                (ChecksumKind::Crc32, part.checksum_crc32),
                (ChecksumKind::Crc32c, part.checksum_crc32c),
                (ChecksumKind::Crc64Nvme, part.checksum_crc64nvme),
                (ChecksumKind::Sha1, part.checksum_sha1),
                (ChecksumKind::Sha256, part.checksum_sha256),
            ];
            let checksums = values.into_iter().filter_map(|(kind, value)| Some((kind, value?))).collect();
            let part = WantedPart { number, etag, checksums };
            // A client that has sent a part twice may name it twice: the last one counts, as with a Ceph.
            match wanted.last_mut().filter(|last: &&mut WantedPart| last.number == number) {
                Some(last) => *last = part,
                None => wanted.push(part),
            }
        }
        let conditions = conditions(input.if_match.as_ref(), input.if_none_match.as_ref());
        let (gateway, key, upload) = (self.gateway.clone(), input.key.clone(), input.upload_id);
        let brought = customer.clone();
        let work = async move {
            let how = Completion { conditions: &conditions, versioning, checksum: checksum_told, size };
            gateway.complete_upload(&bucket, (&key, &upload), &wanted, how, brought.as_ref()).await
        };
        let head = to_its_end(work).await?;
        let sums = checksum(head.checksum.as_ref());
        let by = head.sealing().map(|sealing| sealing.by.clone());
        let mut response = S3Response::new(CompleteMultipartUploadOutput {
            expiration: visit.expiration(&head),
            version_id: head.version,
            location: Some(format!("/{}/{}", input.bucket, input.key)),
            bucket: Some(input.bucket),
            key: Some(input.key),
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

    pub async fn give_up_upload(
        &self,
        req: S3Request<AbortMultipartUploadInput>,
    ) -> S3Result<S3Response<AbortMultipartUploadOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        visit.may(Action::AbortMultipartUpload, Some(&req.input.key))?;
        let bucket = visit.bucket;
        let (gateway, input) = (self.gateway.clone(), req.input);
        to_its_end(async move { gateway.abort_upload(&bucket, &input.key, &input.upload_id).await }).await?;
        Ok(S3Response::new(AbortMultipartUploadOutput::default()))
    }

    pub async fn list_of_parts(&self, req: S3Request<ListPartsInput>) -> S3Result<S3Response<ListPartsOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        let input = req.input;
        let max = match input.max_parts.unwrap_or(PAGE_MAX) {
            negative if negative < 0 => return Err(invalid("the size of a page is negative")),
            max => max.min(PAGE_MAX),
        };
        let after = part_number(input.part_number_marker.unwrap_or(0))?;
        let place = (input.key.as_str(), input.upload_id.as_str());
        let page = self.gateway.list_parts(&visit.bucket, place, after, max as usize).await;
        let page = match page {
            Ok(page) => page,
            // One who may not see uploads does not learn which there are.
            Err(error) => {
                visit.may(Action::ListMultipartUploadParts, Some(&input.key))?;
                return Err(told(error));
            }
        };
        visit.may_with_upload_of(Action::ListMultipartUploadParts, &input.key, &page.upload.owner)?;
        let owner = self.owner(&page.upload.owner).await?;
        let (abort_date, abort_rule_id) = told_abortion(&visit, &page.upload);
        let next_part_number_marker = page.parts.last().map(|part| i32::from(part.number));
        let parts = page.parts.into_iter().map(|part| {
            let sums = checksum(part.checksum.as_ref());
            Part {
                part_number: Some(part.number.into()),
                e_tag: Some(etag(&part.etag)),
                last_modified: Some(time(part.mtime_ms)),
                size: Some(part.tail.size as i64),
                checksum_crc32: sums.checksum_crc32,
                checksum_crc32c: sums.checksum_crc32c,
                checksum_crc64nvme: sums.checksum_crc64nvme,
                checksum_sha1: sums.checksum_sha1,
                checksum_sha256: sums.checksum_sha256,
            }
        });
        Ok(S3Response::new(ListPartsOutput {
            abort_date,
            abort_rule_id,
            bucket: Some(input.bucket),
            key: Some(input.key),
            upload_id: Some(input.upload_id),
            parts: Some(parts.collect()),
            is_truncated: Some(page.more),
            next_part_number_marker,
            part_number_marker: Some(after.into()),
            max_parts: Some(max),
            initiator: Some(initiator(&owner)),
            owner: Some(owner),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD)),
            ..Default::default()
        }))
    }
}

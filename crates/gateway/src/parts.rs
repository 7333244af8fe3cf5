//! Parts of objects that were uploaded in parts: read one by one, and told as attributes.

use crate::asker::Visit;
use crate::convert::{checksum, etag, time, told};
use crate::encryption;
use crate::link::Link;
use crate::objects::read_of;
use crate::service::Service;
use s3::{ByteRange, CustomerKey, Head, Object, Part, StoredChecksum};
use s3rules::policy::Action;
use s3s::dto::*;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Response, S3Result};

/// Parts of a page.
const PAGE_MAX: i32 = 1000;
/// Looks at an object that is replaced all the time.
const LOOKS: u32 = 20;

/// A part of an object: its bytes, how many parts there are, and its checksum.
pub(crate) struct Wanted {
    pub range: Option<ByteRange>,
    pub length: u64,
    /// `None` for an object that was put by one request, which is its own only part.
    pub count: Option<i32>,
    pub checksum: Option<StoredChecksum>,
}

fn no_such_part() -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidPart, "the object has no part of this number")
}

/// The part of a number, which counts the parts that the object has from 1 on. Errors: `InvalidPart`.
fn wanted(head: &Head, parts: Option<&[Part]>, number: i32) -> S3Result<Wanted> {
    let at = usize::try_from(number - 1).map_err(|_| no_such_part())?;
    let Some(parts) = parts else {
        let checksum = head.checksum.clone();
        let whole = Wanted { range: None, length: head.size, count: None, checksum };
        return if at == 0 { Ok(whole) } else { Err(no_such_part()) };
    };
    let part = parts.get(at).ok_or_else(no_such_part)?;
    let offset: u64 = parts[..at].iter().map(|part| part.tail.size).sum();
    let length = part.tail.size;
    // An empty part has no range of its own: it is the last one, or the only one.
    let range = (length > 0).then(|| ByteRange::From(offset, Some(offset + length - 1)));
    let count = i32::try_from(parts.len()).ok();
    // S3 tells of a part of which kind the checksum of the whole is.
    let is_composite = head.checksum.as_ref().is_some_and(|whole| whole.is_composite);
    let checksum = part.checksum.clone().map(|checksum| StoredChecksum { is_composite, ..checksum });
    Ok(Wanted { range, length, count, checksum })
}

impl Service {
    /// Reads a part of an object for one who may. Errors: `InvalidPart`, and those of [`Service::read_by`].
    pub async fn part_by(
        &self,
        visit: &Visit,
        (key, version): (&str, Option<&str>),
        number: i32,
        customer: Option<&CustomerKey>,
    ) -> S3Result<(Object<Link>, Wanted)> {
        for _ in 0..LOOKS {
            let (head, part) = self.part_of(visit, (key, version), number, customer).await?;
            if part.length == 0 && head.size > 0 {
                return Err(no_such_part());
            }
            let object = self.read_by(visit, (key, version), part.range, customer).await?;
            // The parts are those of the object that is read.
            if (&object.head.etag, object.head.order) == (&head.etag, head.order) {
                return Ok((object, part));
            }
        }
        Err(S3Error::new(S3ErrorCode::SlowDown))
    }

    /// A part of an object, and the object's record, for one who may read it.
    pub async fn part_of(
        &self,
        visit: &Visit,
        (key, version): (&str, Option<&str>),
        number: i32,
        customer: Option<&CustomerKey>,
    ) -> S3Result<(Head, Wanted)> {
        let action = read_of(version);
        match self.gateway.parts(&visit.bucket, key, version).await {
            Ok((head, parts)) => {
                visit.may_with(action, &head)?;
                let part = wanted(&head, parts.as_deref(), number)?;
                self.gateway.check_customer_key(&head, customer).map_err(told)?;
                Ok((head, part))
            }
            Err(error) => Err(visit.refusal(error, action, key)),
        }
    }

    pub async fn attributes(
        &self,
        req: S3Request<GetObjectAttributesInput>,
    ) -> S3Result<S3Response<GetObjectAttributesOutput>> {
        let visit = self.authority.visit(&req, &req.input.bucket).await?;
        encryption::check_read(&req.headers)?;
        let customer = encryption::OWN.key(&req.headers)?;
        let input = req.input;
        let version = input.version_id.as_deref();
        let action = if version.is_some() { Action::GetObjectVersionAttributes } else { Action::GetObjectAttributes };
        let (head, parts) = match self.gateway.parts(&visit.bucket, &input.key, version).await {
            Ok(found) => found,
            Err(error) => return Err(visit.refusal(error, action, &input.key)),
        };
        visit.may_with(action, &head)?;
        visit.may_with(read_of(version), &head)?;
        self.gateway.check_customer_key(&head, customer.as_ref()).map_err(told)?;
        // Clients put all names into one header, between commas.
        let asked: Vec<&str> = input.object_attributes.iter().flat_map(|names| names.as_str().split(',')).collect();
        let asks = |name: &str| asked.iter().any(|asked| asked.trim() == name);
        let after = input.part_number_marker.unwrap_or(0);
        let max = input.max_parts.unwrap_or(PAGE_MAX).clamp(0, PAGE_MAX);
        let object_parts = parts.filter(|_| asks(ObjectAttributes::OBJECT_PARTS)).map(|parts| page(&parts, after, max));
        Ok(S3Response::new(GetObjectAttributesOutput {
            e_tag: Some(etag(&head.etag)).filter(|_| asks(ObjectAttributes::ETAG)),
            checksum: head.checksum.as_ref().filter(|_| asks(ObjectAttributes::CHECKSUM)).map(|c| checksum(Some(c))),
            object_parts,
            object_size: Some(head.size as i64).filter(|_| asks(ObjectAttributes::OBJECT_SIZE)),
            storage_class: Some(StorageClass::from_static(StorageClass::STANDARD))
                .filter(|_| asks(ObjectAttributes::STORAGE_CLASS)),
            last_modified: Some(time(head.mtime_ms)),
            version_id: visit.shown_version(head.version),
            ..Default::default()
        }))
    }
}

/// A page of an object's parts, numbered from 1 on.
fn page(parts: &[Part], after: i32, max: i32) -> GetObjectAttributesParts {
    let numbered = (1..).zip(parts).skip_while(|(number, _)| *number <= after);
    let shown: Vec<(i32, &Part)> = numbered.take(max as usize).collect();
    let last = shown.last().map_or(after, |(number, _)| *number);
    let is_truncated = (last as usize) < parts.len() && !shown.is_empty();
    let part = |(number, part): (i32, &Part)| {
        let sums = checksum(part.checksum.as_ref());
        ObjectPart {
            part_number: Some(number),
            size: Some(part.tail.size as i64),
            checksum_crc32: sums.checksum_crc32,
            checksum_crc32c: sums.checksum_crc32c,
            checksum_crc64nvme: sums.checksum_crc64nvme,
            checksum_sha1: sums.checksum_sha1,
            checksum_sha256: sums.checksum_sha256,
        }
    };
    GetObjectAttributesParts {
        is_truncated: Some(is_truncated),
        max_parts: Some(max),
        next_part_number_marker: Some(last),
        part_number_marker: Some(after),
        parts: Some(shown.into_iter().map(part).collect()),
        total_parts_count: i32::try_from(parts.len()).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(sizes: &[u64]) -> Vec<Part> {
        let part = |(number, size): (u16, &u64)| {
            let json = serde_json::json!({
                "number": number * 3, "etag": "e", "mtime_ms": 0, "tail": {"id": "t", "size": size, "stripe": 4},
            });
            serde_json::from_value(json).expect("a part")
        };
        (1..).zip(sizes).map(part).collect()
    }

    fn head(size: u64) -> Head {
        let json = serde_json::json!({
            "bucket": "b", "key": "k", "tag": "t", "size": size, "etag": "e", "mtime_ms": 0, "owner": "o",
            "layout": "Whole",
        });
        serde_json::from_value(json).expect("a head")
    }

    #[test]
    fn parts_are_ranges() {
        let (head, parts) = (head(12), parts(&[5, 6, 1]));
        let range = |number| wanted(&head, Some(&parts), number).ok().map(|part| (part.range, part.length, part.count));
        assert_eq!(range(1), Some((Some(ByteRange::From(0, Some(4))), 5, Some(3))));
        assert_eq!(range(2), Some((Some(ByteRange::From(5, Some(10))), 6, Some(3))));
        assert_eq!(range(3), Some((Some(ByteRange::From(11, Some(11))), 1, Some(3))));
        assert_eq!((range(0), range(4), range(i32::MIN + 1)), (None, None, None));
        let whole = |number| wanted(&head, None, number).ok().map(|part| (part.range, part.length, part.count));
        assert_eq!((whole(1), whole(2)), (Some((None, 12, None)), None));
    }

    #[test]
    fn parts_come_in_pages() {
        let parts = parts(&[5, 6, 1]);
        let of = |after, max| {
            let page = page(&parts, after, max);
            let numbers: Vec<_> = page.parts.into_iter().flatten().filter_map(|part| part.part_number).collect();
            (numbers, page.is_truncated, page.next_part_number_marker)
        };
        assert_eq!(of(0, 2), (vec![1, 2], Some(true), Some(2)));
        assert_eq!(of(2, 2), (vec![3], Some(false), Some(3)));
        assert_eq!(of(0, 1000), (vec![1, 2, 3], Some(false), Some(3)));
        assert_eq!(of(3, 5), (vec![], Some(false), Some(3)));
    }
}

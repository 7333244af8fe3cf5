//! Values of `s3s` and of the core.

use crate::link::Link;
use http::StatusCode;
use s3::{ByteRange, ChecksumKind, Code, Conditions, Error, Head, RadosError, StoredChecksum};
use s3rules::UnixMillis;
use s3rules::website::check_redirect_location;
use s3s::dto::{
    Checksum, ChecksumMode, ChecksumType, CommonPrefix, ETag, ETagCondition, Range, Timestamp, TimestampFormat,
};
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) type Gateway = Arc<s3::Store<Link>>;

/// The header that tells if a key's newest version is a delete marker.
pub(crate) const DELETE_MARKER: &str = "x-amz-delete-marker";

/// The header by which an object is a redirect on web sites.
pub(crate) const REDIRECT: &str = "x-amz-website-redirect-location";

pub(crate) fn now() -> UnixMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    UnixMillis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Reads a time such as `20261128T040000Z`.
pub(crate) fn basic_time(text: &str) -> Option<UnixMillis> {
    let part = |from: usize, end: usize| text.get(from..end);
    let date = format!("{}-{}-{}", part(0, 4)?, part(4, 6)?, part(6, 8)?);
    UnixMillis::parse(&format!("{date}T{}:{}:{}Z", part(9, 11)?, part(11, 13)?, part(13, 15)?))
}

/// An error of the core as S3 tells it.
pub(crate) fn told(error: Error) -> S3Error {
    match error {
        Error::Refused { code, message } => S3Error::with_message(code_of(code), message),
        Error::Rule(rule) => {
            let name = rule.code.name().as_bytes();
            let code = S3ErrorCode::from_bytes(name).unwrap_or(S3ErrorCode::InvalidRequest);
            let mut error = S3Error::with_message(code, rule.message);
            // Some codes are not known to `s3s`, or with another status.
            error.set_status_code(
                http::StatusCode::from_u16(rule.code.status()).unwrap_or(http::StatusCode::BAD_REQUEST),
            );
            error
        }
        Error::DeleteMarker { version, is_named } => {
            let code = if is_named { S3ErrorCode::MethodNotAllowed } else { S3ErrorCode::NoSuchKey };
            let mut error = S3Error::with_message(code, "the version is a delete marker");
            let mut headers = http::HeaderMap::new();
            headers.insert(DELETE_MARKER, http::HeaderValue::from_static("true"));
            if let Ok(version) = http::HeaderValue::from_str(&version_id(version)) {
                headers.insert("x-amz-version-id", version);
            }
            error.set_headers(headers);
            error
        }
        Error::Rados(RadosError::Full) => S3Error::new(S3ErrorCode::SlowDown),
        // The client tries again, at another gateway if it knows one.
        Error::Rados(RadosError::Fenced) => S3Error::new(S3ErrorCode::ServiceUnavailable),
        error => {
            tracing::error!("{error}");
            S3Error::with_message(S3ErrorCode::InternalError, error.to_string())
        }
    }
}

/// The outcome of a rule, with its error as S3 tells it.
pub(crate) fn ruled<T>(outcome: Result<T, s3rules::S3Error>) -> S3Result<T> {
    outcome.map_err(|error| told(error.into()))
}

fn code_of(code: Code) -> S3ErrorCode {
    match code {
        Code::AccessDenied => S3ErrorCode::AccessDenied,
        Code::BadDigest => S3ErrorCode::BadDigest,
        Code::BucketAlreadyExists => S3ErrorCode::BucketAlreadyExists,
        Code::BucketAlreadyOwnedByYou => S3ErrorCode::BucketAlreadyOwnedByYou,
        Code::BucketNotEmpty => S3ErrorCode::BucketNotEmpty,
        Code::EntityTooLarge => S3ErrorCode::EntityTooLarge,
        Code::EntityTooSmall => S3ErrorCode::EntityTooSmall,
        Code::IncompleteBody => S3ErrorCode::IncompleteBody,
        Code::InvalidAccessKeyId => S3ErrorCode::InvalidAccessKeyId,
        Code::InvalidArgument => S3ErrorCode::InvalidArgument,
        Code::InvalidBucketName => S3ErrorCode::InvalidBucketName,
        Code::InvalidDigest => S3ErrorCode::InvalidDigest,
        Code::InvalidPart => S3ErrorCode::InvalidPart,
        Code::InvalidPartOrder => S3ErrorCode::InvalidPartOrder,
        Code::InvalidRange => S3ErrorCode::InvalidRange,
        Code::InvalidRequest => S3ErrorCode::InvalidRequest,
        Code::KeyTooLongError => S3ErrorCode::KeyTooLongError,
        Code::MetadataTooLarge => S3ErrorCode::MetadataTooLarge,
        Code::MethodNotAllowed => S3ErrorCode::MethodNotAllowed,
        Code::NoSuchBucket => S3ErrorCode::NoSuchBucket,
        Code::NoSuchKey => S3ErrorCode::NoSuchKey,
        Code::NoSuchUpload => S3ErrorCode::NoSuchUpload,
        Code::NoSuchVersion => S3ErrorCode::NoSuchVersion,
        Code::NotImplemented => S3ErrorCode::NotImplemented,
        Code::NotModified => S3ErrorCode::NotModified,
        Code::OperationAborted => S3ErrorCode::OperationAborted,
        Code::PreconditionFailed => S3ErrorCode::PreconditionFailed,
        Code::SlowDown => S3ErrorCode::SlowDown,
        Code::TooManyBuckets => S3ErrorCode::TooManyBuckets,
    }
}

/// The answer to a request for something that is not there yet.
pub(crate) fn not_implemented(what: &str) -> S3Error {
    S3Error::with_message(S3ErrorCode::NotImplemented, format!("{what}: this gateway does not do that yet"))
}

/// The id of a version as answers have it.
pub(crate) fn version_id(version: Option<String>) -> String {
    version.unwrap_or_else(|| s3::NULL_VERSION.to_owned())
}

pub(crate) fn time(ms: u64) -> Timestamp {
    Timestamp::from(UNIX_EPOCH + Duration::from_millis(ms))
}

/// Seconds since 1970 of a time in a header, which has no fractions.
pub(crate) fn seconds(time: &Timestamp) -> Option<u64> {
    let mut text = Vec::new();
    time.format(TimestampFormat::EpochSeconds, &mut text).ok()?;
    let text = String::from_utf8(text).ok()?;
    text.split('.').next()?.parse().ok()
}

pub(crate) fn etag(etag: &str) -> ETag {
    ETag::Strong(etag.to_owned())
}

pub(crate) fn common_prefixes(prefixes: Vec<String>, encode: bool) -> Option<Vec<CommonPrefix>> {
    let prefix = |prefix: String| CommonPrefix { prefix: Some(encoded(&prefix, encode)) };
    Some(prefixes.into_iter().map(prefix).collect())
}

/// A key as a list shows it: with `encoding-type=url` in percents but for letters, digits and `-_./*`.
pub(crate) fn encoded(key: &str, encode: bool) -> String {
    if !encode {
        return key.to_owned();
    }
    let mut text = String::with_capacity(key.len());
    for byte in key.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_./*".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

pub(crate) fn range(range: &Range) -> ByteRange {
    match *range {
        Range::Int { first, last } => ByteRange::From(first, last),
        Range::Suffix { length } => ByteRange::Last(length),
    }
}

/// Conditions of a change.
pub(crate) fn conditions(if_match: Option<&ETagCondition>, if_none_match: Option<&ETagCondition>) -> Conditions {
    let (is_absent, other_than) = match if_none_match {
        None => (false, None),
        Some(ETagCondition::Any) => (true, None),
        Some(ETagCondition::ETag(etag)) => (false, Some(etag.value().to_owned())),
    };
    let etags = if_match.map(|condition| match condition {
        ETagCondition::Any => vec!["*".to_owned()],
        ETagCondition::ETag(etag) => vec![etag.value().to_owned()],
    });
    Conditions { is_absent, etags, other_than, ..Conditions::default() }
}

/// Conditions of a read.
pub(crate) struct ReadConditions<'a> {
    pub if_match: Option<&'a ETagCondition>,
    pub if_none_match: Option<&'a ETagCondition>,
    pub if_modified_since: Option<&'a Timestamp>,
    pub if_unmodified_since: Option<&'a Timestamp>,
}

impl ReadConditions<'_> {
    /// Errors: `PreconditionFailed`, `NotModified`. ETags go before times (RFC 9110, 13.2.2).
    pub fn check(&self, head: &Head) -> Result<(), S3Error> {
        let is = |condition: &ETagCondition| match condition {
            ETagCondition::Any => true,
            ETagCondition::ETag(etag) => etag.value() == head.etag,
        };
        let changed = head.mtime_ms / 1000;
        let failed = match (self.if_match, self.if_unmodified_since) {
            (Some(condition), _) => !is(condition),
            (None, Some(time)) => seconds(time).is_some_and(|time| changed > time),
            (None, None) => false,
        };
        if failed {
            return Err(S3Error::with_message(S3ErrorCode::PreconditionFailed, "the object is not as wanted"));
        }
        let unchanged = match (self.if_none_match, self.if_modified_since) {
            (Some(condition), _) => is(condition),
            (None, Some(time)) => seconds(time).is_some_and(|time| changed <= time),
            (None, None) => false,
        };
        if unchanged { Err(not_modified(head)) } else { Ok(()) }
    }
}

/// The answer that an object is as the client has it, which also tells what a whole answer would (RFC 9110, 15.4.5).
fn not_modified(head: &Head) -> S3Error {
    let mut headers = http::HeaderMap::new();
    let mut date = Vec::new();
    let date = time(head.mtime_ms).format(TimestampFormat::HttpDate, &mut date).map(|()| date);
    let told = [
        (http::header::ETAG, http::HeaderValue::try_from(format!("\"{}\"", head.etag)).ok()),
        (http::header::LAST_MODIFIED, date.ok().and_then(|date| http::HeaderValue::try_from(date).ok())),
    ];
    headers.extend(told.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let mut error = S3Error::new(S3ErrorCode::NotModified);
    error.set_headers(headers);
    error
}

/// Names of the checksums in headers and requests.
pub(crate) const CHECKSUMS: [(ChecksumKind, &str, &str); 5] = [
    (ChecksumKind::Crc32, "CRC32", "x-amz-checksum-crc32"),
    (ChecksumKind::Crc32c, "CRC32C", "x-amz-checksum-crc32c"),
    (ChecksumKind::Crc64Nvme, "CRC64NVME", "x-amz-checksum-crc64nvme"),
    (ChecksumKind::Sha1, "SHA1", "x-amz-checksum-sha1"),
    (ChecksumKind::Sha256, "SHA256", "x-amz-checksum-sha256"),
];

/// The checksum of this name. Errors: `InvalidRequest`.
pub(crate) fn checksum_kind(name: &str) -> Result<ChecksumKind, S3Error> {
    let found = CHECKSUMS.iter().find(|(_, known, _)| known.eq_ignore_ascii_case(name));
    let unknown =
        || S3Error::with_message(S3ErrorCode::InvalidRequest, format!("there is no checksum algorithm '{name}'"));
    found.map(|(kind, ..)| *kind).ok_or_else(unknown)
}

/// The additional checksum that a request announces: by a header with its value, by a trailer, or by name alone.
pub(crate) fn announced_checksum(
    headers: &http::HeaderMap,
    algorithm: Option<&str>,
) -> Result<Option<(ChecksumKind, Option<String>)>, S3Error> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    for (kind, _, header) in CHECKSUMS {
        if let Some(value) = text(header) {
            return Ok(Some((kind, Some(value.to_owned()))));
        }
        if text("x-amz-trailer").is_some_and(|trailer| trailer.split(',').any(|name| name.trim() == header)) {
            return Ok(Some((kind, None)));
        }
    }
    algorithm.map(|name| Ok((checksum_kind(name)?, None))).transpose()
}

/// True for a read that asks for checksums. AWS's common runtime writes `enabled` where others write `ENABLED`.
pub(crate) fn asks_for_checksums(mode: Option<&ChecksumMode>) -> bool {
    mode.is_some_and(|mode| mode.as_str() == ChecksumMode::ENABLED)
}

/// A stored checksum as answers have it.
pub(crate) fn checksum(stored: Option<&StoredChecksum>) -> Checksum {
    let mut checksum = Checksum::default();
    let Some(stored) = stored else { return checksum };
    let value = Some(stored.value.clone());
    match stored.kind {
        ChecksumKind::Crc32 => checksum.checksum_crc32 = value,
        ChecksumKind::Crc32c => checksum.checksum_crc32c = value,
        ChecksumKind::Crc64Nvme => checksum.checksum_crc64nvme = value,
        ChecksumKind::Sha1 => checksum.checksum_sha1 = value,
        ChecksumKind::Sha256 => checksum.checksum_sha256 = value,
    }
    let kind = if stored.is_composite { ChecksumType::COMPOSITE } else { ChecksumType::FULL_OBJECT };
    checksum.checksum_type = Some(ChecksumType::from_static(kind));
    checksum
}

/// Headers that are kept with an object, from a request. Errors: `InvalidArgument` for a redirect to what is no place.
pub(crate) fn kept_headers(headers: &http::HeaderMap) -> S3Result<BTreeMap<String, String>> {
    const KEPT: [&str; 7] = [
        "cache-control",
        "content-disposition",
        "content-encoding",
        "content-language",
        "content-type",
        "expires",
        REDIRECT,
    ];
    let mut kept = BTreeMap::new();
    for name in KEPT {
        let Some(value) = headers.get(name).and_then(|value| value.to_str().ok()) else { continue };
        // `aws-chunked` is the form of the body on the wire, not of the object.
        let codings = value.split(',').map(str::trim).filter(|coding| *coding != "aws-chunked");
        let is_of_wire = name == "content-encoding" && value.contains("aws-chunked");
        let value = if is_of_wire { codings.collect::<Vec<_>>().join(",") } else { value.to_owned() };
        if name == REDIRECT {
            ruled(check_redirect_location(&value))?;
        }
        if !value.is_empty() {
            kept.insert(name.to_owned(), value);
        }
    }
    Ok(kept)
}

/// The error of a setting that a bucket does not have, by its code.
pub(crate) fn unset(code: &str) -> S3Error {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, "the bucket has no such setting");
    error.set_status_code(StatusCode::NOT_FOUND);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_lists_are_encoded_if_asked_for() {
        assert_eq!(encoded("a b/ä+~*.x", true), "a%20b/%C3%A4%2B%7E*.x");
        assert_eq!(encoded("a b", false), "a b");
    }

    #[test]
    fn checksums_are_found_in_headers_and_trailers() {
        let mut headers = http::HeaderMap::new();
        assert_eq!(announced_checksum(&headers, None).unwrap(), None);
        assert_eq!(announced_checksum(&headers, Some("sha1")).unwrap(), Some((ChecksumKind::Sha1, None)));
        assert!(announced_checksum(&headers, Some("md4")).is_err());
        headers.insert("x-amz-trailer", "x-amz-checksum-crc32c".parse().unwrap());
        assert_eq!(announced_checksum(&headers, None).unwrap(), Some((ChecksumKind::Crc32c, None)));
        headers.insert("x-amz-checksum-crc32", "AAAAAA==".parse().unwrap());
        let found = announced_checksum(&headers, None).unwrap();
        assert_eq!(found, Some((ChecksumKind::Crc32, Some("AAAAAA==".into()))));
    }

    #[test]
    fn checksums_are_asked_for_in_letters_of_either_case() {
        let asks = |mode: &'static str| asks_for_checksums(Some(&ChecksumMode::from_static(mode)));
        assert!(asks("ENABLED") && asks("enabled"));
        assert!(!asks("DISABLED") && !asks("") && !asks_for_checksums(None));
    }

    #[test]
    fn coding_of_the_wire_is_not_kept() {
        let mut headers = http::HeaderMap::new();
        headers.insert("content-encoding", "aws-chunked".parse().unwrap());
        headers.insert("content-type", "text/plain".parse().unwrap());
        let kept = kept_headers(&headers).expect("they are right");
        assert_eq!(kept, BTreeMap::from([("content-type".into(), "text/plain".into())]));
        headers.insert("content-encoding", "deflate, gzip".parse().unwrap());
        assert_eq!(kept_headers(&headers).expect("they are right")["content-encoding"], "deflate, gzip");
        headers.insert("content-encoding", "gzip,aws-chunked".parse().unwrap());
        assert_eq!(kept_headers(&headers).expect("they are right")["content-encoding"], "gzip");
        headers.insert(REDIRECT, "/other".parse().unwrap());
        assert_eq!(kept_headers(&headers).expect("it is a place")[REDIRECT], "/other");
        headers.insert(REDIRECT, "other".parse().unwrap());
        assert_eq!(kept_headers(&headers).expect_err("it is none").code(), &S3ErrorCode::InvalidArgument);
    }

    #[test]
    fn an_answer_without_a_body_tells_the_etag() {
        let json = serde_json::json!({
            "bucket": "b", "key": "k", "tag": "t", "size": 1, "etag": "e", "mtime_ms": 1_700_000_000_999_u64, "owner": "o",
            "layout": "Whole",
        });
        let head: Head = serde_json::from_value(json).expect("a head");
        let condition = ETagCondition::ETag(etag("e"));
        let conditions = ReadConditions {
            if_match: None,
            if_none_match: Some(&condition),
            if_modified_since: None,
            if_unmodified_since: None,
        };
        let error = conditions.check(&head).expect_err("it is as the client has it");
        let headers = error.headers().expect("headers");
        assert_eq!(*error.code(), S3ErrorCode::NotModified);
        assert_eq!(headers["etag"], "\"e\"");
        assert_eq!(headers["last-modified"], "Tue, 14 Nov 2023 22:13:20 GMT");
    }

    #[test]
    fn times_in_headers_have_seconds() {
        assert_eq!(seconds(&time(1_700_000_000_999)), Some(1_700_000_000));
    }
}

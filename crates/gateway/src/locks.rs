//! Locks of versions: retention and legal hold, from headers and as documents.

use crate::asker::{Asked, Visit};
use crate::convert::{now, ruled};
use http::HeaderMap;
use s3::Head;
use s3rules::object_lock::{ObjectLock, Retention, check_bucket_has_locks, legal_hold_from_xml, legal_hold_xml};
use s3rules::policy::Action;
use s3s::dto::{ObjectLockLegalHoldStatus, ObjectLockMode, Timestamp};
use s3s::{S3Error, S3ErrorCode, S3Result};
use std::time::{Duration, UNIX_EPOCH};

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// The lock of a new version: that of the headers, else the bucket's default. Errors: `InvalidArgument`,
/// `InvalidRequest` in a bucket without locks.
pub(crate) fn lock_of_new(visit: &Visit, headers: &HeaderMap) -> S3Result<ObjectLock> {
    let brought = ruled(ObjectLock::from_headers(
        text(headers, "x-amz-object-lock-mode"),
        text(headers, "x-amz-object-lock-retain-until-date"),
        text(headers, "x-amz-object-lock-legal-hold"),
        now(),
    ))?;
    match &visit.settings.object_lock {
        Some(configuration) => Ok(configuration.lock_of_new(brought, now())),
        None if brought.is_set() => ruled(check_bucket_has_locks(None)).map(|_| brought),
        None => Ok(brought),
    }
}

/// True if the request asks to bypass governance, and who asks may.
pub(crate) fn bypasses(asked: &Asked<'_>, visit: &Visit, key: &str) -> bool {
    let is_asked =
        text(asked.headers, "x-amz-bypass-governance-retention").is_some_and(|v| v.eq_ignore_ascii_case("true"));
    is_asked && visit.may(Action::BypassGovernanceRetention, Some(key)).is_ok()
}

/// A version's lock as answers to reads have it.
pub(crate) struct Shown {
    pub mode: Option<ObjectLockMode>,
    pub until: Option<Timestamp>,
    pub legal_hold: Option<ObjectLockLegalHoldStatus>,
}

impl Shown {
    pub fn of(head: &Head) -> Shown {
        let until = |retention: Retention| {
            let ms = u64::try_from(retention.until.0).unwrap_or(0);
            Timestamp::from(UNIX_EPOCH + Duration::from_millis(ms))
        };
        let held = |on| ObjectLockLegalHoldStatus::from_static(if on { "ON" } else { "OFF" });
        Shown {
            mode: head.lock.retention.map(|retention| ObjectLockMode::from_static(retention.mode.name())),
            until: head.lock.retention.map(until),
            legal_hold: head.lock.legal_hold.map(held),
        }
    }
}

/// A part of a version's lock that has a document of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Retention,
    LegalHold,
}

impl Part {
    pub fn action(self, is_change: bool) -> Action {
        match (self, is_change) {
            (Part::Retention, false) => Action::GetObjectRetention,
            (Part::Retention, true) => Action::PutObjectRetention,
            (Part::LegalHold, false) => Action::GetObjectLegalHold,
            (Part::LegalHold, true) => Action::PutObjectLegalHold,
        }
    }

    /// The document of a version. Errors: `InvalidRequest` in a bucket without locks, `NoSuchObjectLockConfiguration`.
    pub fn document(self, visit: &Visit, head: &Head) -> S3Result<String> {
        ruled(check_bucket_has_locks(visit.settings.object_lock.as_ref()))?;
        let document = match self {
            Part::Retention => head.lock.retention.map(|retention| retention.to_xml()),
            Part::LegalHold => head.lock.legal_hold.map(legal_hold_xml),
        };
        document.ok_or_else(|| {
            let code = S3ErrorCode::from_bytes(b"NoSuchObjectLockConfiguration").unwrap_or(S3ErrorCode::NoSuchKey);
            let mut error = S3Error::with_message(code, "the version has no such lock");
            error.set_status_code(http::StatusCode::NOT_FOUND);
            error
        })
    }

    /// The change of a lock that a document asks for. Errors: `MalformedXML`, `InvalidArgument`, `InvalidRequest` in a
    /// bucket without locks. The change itself: `AccessDenied` where the lock may not become weaker.
    pub fn change(
        self,
        visit: &Visit,
        document: &[u8],
        bypass: bool,
    ) -> S3Result<impl Fn(&mut Head) -> Result<(), s3::Error> + Send + Sync + 'static> {
        ruled(check_bucket_has_locks(visit.settings.object_lock.as_ref()))?;
        let (retention, hold) = match self {
            Part::Retention => (ruled(Retention::from_xml(document, now()))?, None),
            Part::LegalHold => (None, Some(ruled(legal_hold_from_xml(document))?)),
        };
        Ok(move |head: &mut Head| {
            match hold {
                Some(hold) => head.lock.legal_hold = Some(hold),
                None => {
                    head.lock.check_retention_change(retention, now(), bypass)?;
                    head.lock.retention = retention;
                }
            }
            Ok(())
        })
    }
}

//! Conditions of changes.

use crate::error::{Code, Error};
use crate::records::Entry;

/// Conditions on the present state of a key, or of the version that is to be deleted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Conditions {
    /// `If-None-Match: *`: there is no such object.
    pub is_absent: bool,
    /// `If-Match`: ETags without quotes, one of which the object has; `*` stands for any.
    pub etags: Option<Vec<String>>,
    /// `If-None-Match`: an ETag without quotes, which the object does not have.
    pub other_than: Option<String>,
    /// Bytes of the object.
    pub size: Option<u64>,
    /// Seconds since 1970 when it was put.
    pub mtime_s: Option<u64>,
}

impl Conditions {
    pub(crate) fn are_set(&self) -> bool {
        *self != Conditions::default()
    }

    /// Errors: `PreconditionFailed`, `NoSuchKey` where an ETag, size or time is wanted of nothing.
    pub(crate) fn check(&self, present: Option<&Entry>) -> Result<(), Error> {
        if self.is_absent && present.is_some() {
            return Err(Code::PreconditionFailed.because("the object exists"));
        }
        let Some(entry) = present else {
            let wants = self.etags.is_some() || self.size.is_some() || self.mtime_s.is_some();
            return if wants { Err(no_such_key()) } else { Ok(()) };
        };
        if self.other_than.as_ref() == Some(&entry.etag) {
            return Err(Code::PreconditionFailed.because("the object has this ETag"));
        }
        let is_one = |etags: &Vec<String>| etags.iter().any(|etag| etag == "*" || *etag == entry.etag);
        let (etags, size, mtime) = (self.etags.as_ref(), self.size, self.mtime_s);
        if !etags.is_none_or(is_one) {
            return Err(Code::PreconditionFailed.because("the object has another ETag"));
        }
        if size.is_some_and(|size| size != entry.size) || mtime.is_some_and(|time| time != entry.mtime_ms / 1000) {
            return Err(Code::PreconditionFailed.because("the object has another size or time"));
        }
        Ok(())
    }
}

pub(crate) fn no_such_key() -> Error {
    Code::NoSuchKey.because("there is no such object")
}

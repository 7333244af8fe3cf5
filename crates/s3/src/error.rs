//! Errors as S3 names them.

use crate::rados::RadosError;

/// S3's codes of errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Code {
    AccessDenied,
    BadDigest,
    BucketAlreadyExists,
    BucketAlreadyOwnedByYou,
    BucketNotEmpty,
    EntityTooLarge,
    EntityTooSmall,
    IncompleteBody,
    InvalidAccessKeyId,
    InvalidArgument,
    InvalidBucketName,
    InvalidDigest,
    InvalidPart,
    InvalidPartOrder,
    InvalidRange,
    InvalidRequest,
    KeyTooLongError,
    MetadataTooLarge,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchKey,
    NoSuchUpload,
    NoSuchVersion,
    NotImplemented,
    NotModified,
    OperationAborted,
    PreconditionFailed,
    SlowDown,
    TooManyBuckets,
}

/// The reason why a request failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The request cannot be served, and says why.
    #[error("{code:?}: {message}")]
    Refused { code: Code, message: String },
    /// A rule of S3 forbids it.
    #[error("{}: {}", .0.code.name(), .0.message)]
    Rule(s3rules::S3Error),
    /// The version is a delete marker, which has nothing to read. `is_named`: the request named it.
    #[error("the version is a delete marker")]
    DeleteMarker { version: Option<String>, is_named: bool },
    /// The cluster did not do what was asked.
    #[error("the cluster: {0}")]
    Rados(RadosError),
    /// An object is sealed by a master key that this gateway does not have.
    #[error("the object is encrypted by master key {id}, which this gateway does not have")]
    NoMasterKey { id: String },
    /// A stored record cannot be read.
    #[error("{object} is damaged: {reason}")]
    Damaged { object: String, reason: String },
}

impl Error {
    /// S3's code, where the request itself is refused.
    pub fn code(&self) -> Option<Code> {
        match self {
            Error::Refused { code, .. } => Some(*code),
            Error::DeleteMarker { is_named: true, .. } => Some(Code::MethodNotAllowed),
            Error::DeleteMarker { is_named: false, .. } => Some(Code::NoSuchKey),
            _ => None,
        }
    }

    /// True if the request is refused for what it asks, so that nothing has changed.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Error::Refused { .. } | Error::Rule(_) | Error::DeleteMarker { .. })
    }

    pub(crate) fn damaged(object: &str, reason: impl ToString) -> Error {
        Error::Damaged { object: object.to_owned(), reason: reason.to_string() }
    }
}

impl Code {
    /// An error of this code.
    pub fn because(self, message: impl Into<String>) -> Error {
        Error::Refused { code: self, message: message.into() }
    }
}

impl From<s3rules::S3Error> for Error {
    fn from(error: s3rules::S3Error) -> Error {
        Error::Rule(error)
    }
}

impl From<RadosError> for Error {
    fn from(error: RadosError) -> Error {
        match error {
            // Clients try again later, as they do where a cluster of AWS is busy.
            RadosError::Full => Code::SlowDown.because("the cluster has no room left"),
            error => Error::Rados(error),
        }
    }
}

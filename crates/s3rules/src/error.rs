//! Refusals in the words of S3.

/// Defines the codes with their HTTP status.
macro_rules! codes {
    ($($(#[$doc:meta])* $code:ident $status:literal,)*) => {
        /// Code of a refusal, as it stands in `<Code>` of the answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum S3Code { $($(#[$doc])* $code,)* }

        impl S3Code {
            /// Text of `<Code>`.
            pub const fn name(self) -> &'static str {
                match self { $(S3Code::$code => stringify!($code),)* }
            }

            /// HTTP status of the answer.
            pub const fn status(self) -> u16 {
                match self { $(S3Code::$code => $status,)* }
            }
        }
    };
}

codes! {
    AccessControlListNotSupported 400,
    AccessDenied 403,
    AccessForbidden 403,
    BadRequest 400,
    EntityTooLarge 400,
    EntityTooSmall 400,
    InvalidArgument 400,
    InvalidBucketAclWithObjectOwnership 400,
    InvalidBucketState 409,
    InvalidPolicyDocument 400,
    InvalidRequest 400,
    InvalidRetentionPeriod 400,
    InvalidStorageClass 400,
    InvalidTag 400,
    MalformedACLError 400,
    MalformedPOSTRequest 400,
    MalformedPolicy 400,
    MalformedXML 400,
    MaxPostPreDataLengthExceededError 400,
    /// A quota is used up. Ceph's gateway has this code; AWS knows no quotas.
    QuotaExceeded 403,
    SlowDown 503,
    TooManyBuckets 400,
    UnresolvableGrantByEmailAddress 400,
}

/// Refusal of a request: code and a sentence for the person who reads the answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct S3Error {
    pub code: S3Code,
    pub message: String,
}

impl S3Error {
    pub fn new(code: S3Code, message: impl Into<String>) -> S3Error {
        S3Error { code, message: message.into() }
    }

    pub(crate) fn malformed_xml(message: impl Into<String>) -> S3Error {
        S3Error::new(S3Code::MalformedXML, message)
    }

    pub(crate) fn invalid_argument(message: impl Into<String>) -> S3Error {
        S3Error::new(S3Code::InvalidArgument, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_status_of_s3() {
        for (code, name, status) in [
            (S3Code::AccessDenied, "AccessDenied", 403),
            (S3Code::MalformedXML, "MalformedXML", 400),
            (S3Code::InvalidBucketState, "InvalidBucketState", 409),
            (S3Code::SlowDown, "SlowDown", 503),
        ] {
            assert_eq!((code.name(), code.status()), (name, status));
        }
    }
}

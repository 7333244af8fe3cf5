//! Encryption, as headers ask for it and tell about it.

use crate::convert::Gateway;
use http::{HeaderMap, HeaderValue};
use s3::{BucketSettings, CustomerKey, Encryption, SealedBy};
use s3rules::{DefaultEncryption, EncryptionAlgorithm};
use s3s::{S3Error, S3ErrorCode, S3Result};
use zeroize::Zeroizing;

/// The name of the one algorithm that there is.
const ALGORITHM: &str = "AES256";

/// The header that asks for encryption by a key that the client does not bring.
const BY_SERVER: &str = "x-amz-server-side-encryption";
const KEY_SERVICE_ID: &str = "x-amz-server-side-encryption-aws-kms-key-id";

/// Headers with a key of a client.
pub(crate) struct KeyHeaders {
    algorithm: &'static str,
    key: &'static str,
    md5: &'static str,
}

/// For the object that a request stores or reads.
pub(crate) const OWN: KeyHeaders = KeyHeaders {
    algorithm: "x-amz-server-side-encryption-customer-algorithm",
    key: "x-amz-server-side-encryption-customer-key",
    md5: "x-amz-server-side-encryption-customer-key-md5",
};

/// For the object that is copied.
pub(crate) const SOURCE: KeyHeaders = KeyHeaders {
    algorithm: "x-amz-copy-source-server-side-encryption-customer-algorithm",
    key: "x-amz-copy-source-server-side-encryption-customer-key",
    md5: "x-amz-copy-source-server-side-encryption-customer-key-md5",
};

fn invalid(message: &'static str) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidArgument, message)
}

/// A header's text. Errors: `InvalidArgument`; the value is not told, since it may be a key.
fn text<'a>(headers: &'a HeaderMap, name: &'static str) -> S3Result<Option<&'a str>> {
    let wrong = |_| S3Error::with_message(S3ErrorCode::InvalidArgument, format!("the header {name} is no text"));
    headers.get(name).map(|value| value.to_str().map_err(wrong)).transpose()
}

impl KeyHeaders {
    /// The key that a request brings. Errors: `InvalidArgument` for a key without algorithm or MD5, of another length
    /// or with another MD5, `InvalidEncryptionAlgorithmError`.
    pub fn key(&self, headers: &HeaderMap) -> S3Result<Option<CustomerKey>> {
        let (algorithm, key) = (text(headers, self.algorithm)?, text(headers, self.key)?);
        let md5 = text(headers, self.md5)?;
        if algorithm.is_none() && key.is_none() && md5.is_none() {
            return Ok(None);
        }
        let algorithm = algorithm.ok_or_else(|| invalid("a customer's key comes with the name of its algorithm"))?;
        if algorithm != ALGORITHM {
            let message = "the algorithm of a customer's key is AES256";
            return Err(S3Error::with_message(S3ErrorCode::InvalidEncryptionAlgorithmError, message));
        }
        let key = key.ok_or_else(|| invalid("the customer's key is missing"))?;
        let key = types::base64::decode(key).map(Zeroizing::new);
        let key = key.and_then(|key| CustomerKey::from_slice(&key));
        let key = key.ok_or_else(|| invalid("a customer's key is 32 bytes in base64"))?;
        let md5 = md5.ok_or_else(|| invalid("a customer's key comes with its MD5"))?;
        if md5 != key.md5() {
            return Err(invalid("the customer's key has another MD5 than was told"));
        }
        Ok(Some(key))
    }
}

fn no_key_service() -> S3Error {
    invalid("there is no key management service here: aws:kms cannot be used")
}

fn no_master_key() -> S3Error {
    S3Error::with_message(
        S3ErrorCode::InvalidRequest,
        "this gateway has no master key: objects are encrypted by customers' keys alone",
    )
}

/// True if a request says how its object is to be encrypted.
pub(crate) fn is_asked_for(headers: &HeaderMap) -> bool {
    [BY_SERVER, KEY_SERVICE_ID, OWN.algorithm, OWN.key].iter().any(|name| headers.contains_key(*name))
}

/// How a new object is to be encrypted: as the request asks for, or else as its bucket does. Errors: those of
/// [`KeyHeaders::key`], `InvalidArgument` for wishes that contradict each other or need a key management service,
/// `InvalidRequest` without a master key.
pub(crate) fn wanted(gateway: &Gateway, settings: &BucketSettings, headers: &HeaderMap) -> S3Result<Encryption> {
    let wanted = wish(settings, headers)?;
    if matches!(wanted, Encryption::Master) && gateway.settings().master_keys.is_empty() {
        return Err(no_master_key());
    }
    Ok(wanted)
}

fn wish(settings: &BucketSettings, headers: &HeaderMap) -> S3Result<Encryption> {
    let (by_server, key_id) = (text(headers, BY_SERVER)?, text(headers, KEY_SERVICE_ID)?);
    let customer = OWN.key(headers)?;
    if customer.is_some() && (by_server.is_some() || key_id.is_some()) {
        return Err(invalid("a request asks for one kind of encryption"));
    }
    if let Some(key) = customer {
        return Ok(Encryption::Customer(key));
    }
    match (by_server, key_id) {
        (None, None) => match settings.encryption.as_ref().map(|default| &default.algorithm) {
            None => Ok(Encryption::None),
            Some(EncryptionAlgorithm::OwnKey) => Ok(Encryption::Master),
            Some(EncryptionAlgorithm::KeyService(_)) => Err(no_key_service()),
        },
        (Some(ALGORITHM), None) => Ok(Encryption::Master),
        (Some("aws:kms"), None) => Err(invalid("aws:kms comes with the id of a key")),
        (Some("aws:kms"), Some(_)) => Err(no_key_service()),
        (_, Some(_)) => Err(invalid("the id of a key comes with aws:kms")),
        (Some(_), None) => Err(invalid("an object is encrypted by AES256, or not")),
    }
}

/// Refuses headers of writes in a read. Errors: `InvalidArgument`.
pub(crate) fn check_read(headers: &HeaderMap) -> S3Result<()> {
    if headers.contains_key(BY_SERVER) || headers.contains_key(KEY_SERVICE_ID) {
        return Err(invalid("a read tells nothing about encryption but a customer's key"));
    }
    Ok(())
}

/// Refuses a default that no new object could have. Errors: `InvalidRequest` without a master key.
pub(crate) fn check_default(gateway: &Gateway, default: &DefaultEncryption) -> S3Result<()> {
    match default.algorithm {
        EncryptionAlgorithm::OwnKey if gateway.settings().master_keys.is_empty() => Err(no_master_key()),
        _ => Ok(()),
    }
}

/// Tells in an answer how an object is encrypted. `customer`: the key that the request brought.
pub(crate) fn tell(answer: &mut HeaderMap, by: Option<&SealedBy>, customer: Option<&CustomerKey>) {
    let aes256 = HeaderValue::from_static(ALGORITHM);
    match (by, customer) {
        (Some(SealedBy::Master { .. }), _) => drop(answer.insert(BY_SERVER, aes256)),
        (Some(SealedBy::Customer), Some(key)) => {
            answer.insert(OWN.algorithm, aes256);
            if let Ok(md5) = HeaderValue::from_str(&key.md5()) {
                answer.insert(OWN.md5, md5);
            }
        }
        (Some(SealedBy::Customer), None) | (None, _) => {}
    }
}

/// Keeps logs of every layer from showing keys: values that are marked are left out there.
pub(crate) fn mark_keys(headers: &mut HeaderMap) {
    for (name, value) in headers.iter_mut() {
        if [OWN.key, SOURCE.key, "authorization"].contains(&name.as_str()) {
            value.set_sensitive(true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderName;

    const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    // By `head -c 32 /dev/zero | tr '\0' '\1' | md5sum`, in base64.
    const MD5: &str = "4Funlf7OsLF0HL+vKU+fkg==";

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (HeaderName::from_static(n), HeaderValue::from_static(v))).collect()
    }

    fn code<T: std::fmt::Debug>(outcome: S3Result<T>) -> S3ErrorCode {
        outcome.expect_err("refused").code().clone()
    }

    #[test]
    fn keys_of_customers_are_whole() {
        let right = [(OWN.algorithm, "AES256"), (OWN.key, KEY), (OWN.md5, MD5)];
        let key = OWN.key(&headers(&right)).expect("right").expect("a key");
        assert_eq!(key.md5(), MD5);
        assert!(SOURCE.key(&headers(&right)).expect("other headers").is_none());
        for left in 0..3 {
            let some: Vec<_> = right.iter().enumerate().filter(|(at, _)| *at != left).map(|(_, pair)| *pair).collect();
            assert_eq!(code(OWN.key(&headers(&some))), S3ErrorCode::InvalidArgument, "without {}", right[left].0);
        }
        let wrong = [
            (0, "AES192", S3ErrorCode::InvalidEncryptionAlgorithmError),
            (1, "AQEB", S3ErrorCode::InvalidArgument),
            (1, "?", S3ErrorCode::InvalidArgument),
            (2, "AAAAAAAAAAAAAAAAAAAAAA==", S3ErrorCode::InvalidArgument),
        ];
        for (at, value, expected) in wrong {
            let mut given = right;
            given[at].1 = value;
            assert_eq!(code(OWN.key(&headers(&given))), expected, "{value}");
        }
    }

    #[test]
    fn wishes_agree_or_are_refused() {
        let with = |algorithm| BucketSettings {
            encryption: Some(DefaultEncryption { algorithm, bucket_key: None }),
            ..BucketSettings::default()
        };
        let (none, own) = (BucketSettings::default(), with(EncryptionAlgorithm::OwnKey));
        let service = with(EncryptionAlgorithm::KeyService(None));
        let customer = [(OWN.algorithm, "AES256"), (OWN.key, KEY), (OWN.md5, MD5)];
        let is = |settings: &BucketSettings, pairs: &[_]| match wish(settings, &headers(pairs)) {
            Ok(Encryption::None) => "none",
            Ok(Encryption::Customer(_)) => "customer",
            Ok(Encryption::Master) => "master",
            Err(error) => {
                assert_eq!(*error.code(), S3ErrorCode::InvalidArgument);
                "refused"
            }
        };
        assert_eq!((is(&none, &[]), is(&own, &[]), is(&service, &[])), ("none", "master", "refused"));
        for settings in [&none, &own, &service] {
            assert_eq!(is(settings, &customer), "customer");
            assert_eq!(is(settings, &[(BY_SERVER, "AES256")]), "master");
            for (value, id) in [("aws:kms", None), ("aws:kms", Some("k")), ("aes:kms", None), ("AES256", Some("k"))] {
                let pairs: Vec<_> = [(BY_SERVER, value)].into_iter().chain(id.map(|id| (KEY_SERVICE_ID, id))).collect();
                assert_eq!(is(settings, &pairs), "refused", "{value} {id:?}");
            }
            assert_eq!(is(settings, &[(KEY_SERVICE_ID, "k")]), "refused");
            for also in [(BY_SERVER, "AES256"), (KEY_SERVICE_ID, "k")] {
                assert_eq!(is(settings, &[&customer[..], &[also]].concat()), "refused");
            }
        }
    }

    #[test]
    fn marked_keys_are_not_shown() {
        let mut given = headers(&[(OWN.key, KEY), (SOURCE.key, KEY), ("authorization", "AWS4 x"), (OWN.md5, MD5)]);
        mark_keys(&mut given);
        let shown = format!("{given:?}");
        assert!(!shown.contains(KEY) && !shown.contains("AWS4 x") && shown.contains(MD5), "{shown}");
        assert_eq!(given[OWN.key], KEY, "the value is as it was");
    }

    #[test]
    fn answers_tell_how_an_object_is_encrypted() {
        let told = |by: Option<SealedBy>, customer: Option<&CustomerKey>| {
            let mut answer = HeaderMap::new();
            tell(&mut answer, by.as_ref(), customer);
            let mut names: Vec<_> = answer.iter().map(|(n, v)| format!("{n}={}", v.to_str().expect("text"))).collect();
            names.sort();
            names.join(" ")
        };
        let key = CustomerKey::from_slice(&[1; 32]).expect("a key");
        assert_eq!(told(None, None), "");
        assert_eq!(told(Some(SealedBy::Master { id: "1".into() }), None), format!("{BY_SERVER}=AES256"));
        let expected = format!("{}=AES256 {}={MD5}", OWN.algorithm, OWN.md5);
        assert_eq!(told(Some(SealedBy::Customer), Some(&key)), expected);
    }
}

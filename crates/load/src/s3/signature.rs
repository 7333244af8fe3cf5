//! Signatures of version 4, in headers. Paths and queries must have nothing that takes escaping.

use std::time::SystemTime;

use aws_lc_rs::{digest, hmac};
use stdx::hex;

/// Word in place of a body's hash, where the body is not signed.
pub const UNSIGNED_PAYLOAD: &str = "UNSIGNED-PAYLOAD";

/// A key pair and the scope of its signatures.
#[derive(Clone)]
pub struct Signer {
    access_key: String,
    secret_key: String,
    region: String,
}

/// Headers that sign a request.
pub struct SignedHeaders {
    /// `x-amz-date`.
    pub date: String,
    /// `x-amz-content-sha256`.
    pub content: String,
    pub authorization: String,
}

/// A request as far as its signature covers it.
pub struct Unsigned<'a> {
    pub method: &'a str,
    pub path: &'a str,
    /// Parameters in the order of their names.
    pub query: &'a str,
    pub host: &'a str,
    /// The body, if it is to be signed.
    pub body: Option<&'a [u8]>,
}

impl Signer {
    pub fn new(access_key: String, secret_key: String, region: String) -> Signer {
        Signer { access_key, secret_key, region }
    }

    /// Signs a request of the time `now`.
    pub fn sign(&self, request: &Unsigned<'_>, now: SystemTime) -> SignedHeaders {
        self.sign_at(request, compact(now))
    }

    /// Signs a request of the time `date`, as `YYYYMMDDTHHMMSSZ`.
    fn sign_at(&self, request: &Unsigned<'_>, date: String) -> SignedHeaders {
        let Unsigned { method, path, query, host, body } = request;
        let content = body.map_or(UNSIGNED_PAYLOAD.to_owned(), |body| hex(&sha256(body)));
        let names = "host;x-amz-content-sha256;x-amz-date";
        let canonical = format!(
            "{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{content}\nx-amz-date:{date}\n\n{names}\n\
             {content}"
        );
        let day = &date[..8];
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let to_sign = format!("AWS4-HMAC-SHA256\n{date}\n{scope}\n{}", hex(&sha256(canonical.as_bytes())));
        let mut key = format!("AWS4{}", self.secret_key).into_bytes();
        for part in [day, &self.region, "s3", "aws4_request", &to_sign] {
            let keyed = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), part.as_bytes());
            key = keyed.as_ref().to_vec();
        }
        let authorization = format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={}",
            self.access_key,
            hex(&key)
        );
        SignedHeaders { date, content, authorization }
    }
}

fn sha256(bytes: &[u8]) -> Vec<u8> {
    digest::digest(&digest::SHA256, bytes).as_ref().to_vec()
}

/// A time as `YYYYMMDDTHHMMSSZ`.
fn compact(now: SystemTime) -> String {
    // 2026-11-21T13:44:55.776022+0000
    let text = types::Utime::from(now).to_string();
    text.chars().take(19).filter(|letter| !"-:".contains(*letter)).chain(['Z']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_compact() {
        assert_eq!(compact(SystemTime::UNIX_EPOCH + Duration::from_secs(1_369_353_600)), "20130524T000000Z");
    }

    /// The example "GET Bucket (List Objects)" of AWS's documentation of signatures in headers.
    #[test]
    fn the_example_of_the_documentation() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let signer = Signer::new("AKIAIOSFODNN7EXAMPLE".into(), secret.into(), "us-east-1".into());
        let request = Unsigned {
            method: "GET",
            path: "/",
            query: "max-keys=2&prefix=J",
            host: "examplebucket.s3.amazonaws.com",
            body: Some(b""),
        };
        let signed = signer.sign_at(&request, "20130524T000000Z".into());
        assert_eq!(signed.content, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        let signature = "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7";
        assert_eq!(
            signed.authorization,
            format!(
                "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
                 SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}"
            )
        );
        let changed = signer.sign_at(&Unsigned { body: None, ..request }, signed.date);
        assert!(changed.content == UNSIGNED_PAYLOAD && !changed.authorization.ends_with(signature));
    }
}

//! Signatures of version 2, compared before the wire layer does: it compares texts byte by byte, and the time that this
//! takes would tell how many of them are right. What comes to it from here is right already.

use crate::authority::Authority;
use crate::place::Domain;
use crate::signatures::{RequestSignature, SignaturePlace, only_header};
use aws_lc_rs::hmac;
use http::header::HOST;
use http::{HeaderMap, HeaderName, Method, Uri};
use s3rules::percent_decode_path;
use s3s::{S3Error, S3ErrorCode, S3Result};

/// Names of queries that are signed, in their order.
const SIGNED_NAMES: [&str; 35] = [
    "accelerate",
    "acl",
    "analytics",
    "cors",
    "defaultObjectAcl",
    "delete",
    "inventory",
    "lifecycle",
    "location",
    "logging",
    "metrics",
    "notification",
    "object-lock",
    "partNumber",
    "policy",
    "replication",
    "requestPayment",
    "response-cache-control",
    "response-content-disposition",
    "response-content-encoding",
    "response-content-language",
    "response-content-type",
    "response-expires",
    "restore",
    "select",
    "select-type",
    "storageClass",
    "tagging",
    "torrent",
    "uploadId",
    "uploads",
    "versionId",
    "versioning",
    "versions",
    "website",
];

/// A signed request. The wire layer refuses one that lacks something of a signature.
struct Signed {
    access_key: String,
    signature: String,
    text: String,
}

impl Signed {
    /// The signature of a request and what it is about; `None` if there is none of version 2.
    fn of(domain: Option<&Domain>, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<Signed> {
        let found = RequestSignature::of(headers, uri)?;
        let value = |wanted: &str| found.parameter(wanted);
        let (access_key, signature, time) = match found.place {
            SignaturePlace::SecondInQuery => {
                let signature = value("Signature")?;
                // It was encoded twice. One that cannot be decoded is wrong, and goes to the same comparison in
                // constant time.
                let signature = percent_decode_path(signature).unwrap_or_else(|| signature.to_owned());
                (value("AWSAccessKeyId")?.to_owned(), signature, value("Expires")?.to_owned())
            }
            SignaturePlace::SecondInHeader => {
                let (access_key, signature) = found.second_in_header()?;
                let is_dated_else = only_header(headers, "x-amz-date").is_some();
                let date = if is_dated_else { "" } else { only_header(headers, "date").unwrap_or_default() };
                (access_key.to_owned(), signature.to_owned(), date.to_owned())
            }
            SignaturePlace::FourthInQuery | SignaturePlace::FourthInHeader => return None,
        };
        let host = headers.get(HOST).and_then(|host| host.to_str().ok());
        let bucket = domain.zip(host).and_then(|(domain, host)| domain.bucket_of_host(host));
        let mut text = format!("{method}\n");
        for name in ["content-md5", "content-type"] {
            text.push_str(only_header(headers, name).unwrap_or_default());
            text.push('\n');
        }
        text.push_str(&time);
        text.push('\n');
        text.push_str(&signed_headers(headers));
        if let Some(bucket) = bucket {
            text.push('/');
            text.push_str(&bucket);
        }
        text.push_str(uri.path());
        let mut joint = '?';
        for (name, value) in SIGNED_NAMES.iter().filter_map(|name| Some((name, value(name)?))) {
            text.push(joint);
            text.push_str(name);
            if !value.is_empty() {
                text.push('=');
                text.push_str(value);
            }
            joint = '&';
        }
        Some(Signed { access_key, signature, text })
    }

    /// True if this is the signature by a secret. It takes as long for every wrong one.
    fn is_right(&self, secret: &str) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
        let tag = types::base64::decode(&self.signature);
        tag.is_some_and(|tag| hmac::verify(&key, self.text.as_bytes(), &tag).is_ok())
    }
}

/// The headers that are signed, a line for each name in the order of names.
fn signed_headers(headers: &HeaderMap) -> String {
    let mut names: Vec<&HeaderName> = headers.keys().filter(|name| name.as_str().starts_with("x-amz-")).collect();
    names.sort_unstable_by_key(|name| name.as_str());
    let mut lines = String::new();
    for name in names {
        let values = headers.get_all(name).iter().filter_map(|value| std::str::from_utf8(value.as_bytes()).ok());
        let values: Vec<&str> = values.map(str::trim).collect();
        if !values.is_empty() {
            lines.push_str(&format!("{name}:{}\n", values.join(",")));
        }
    }
    lines
}

/// Checks the signature of a request, if it is one of version 2. Errors: `SignatureDoesNotMatch`, `InvalidAccessKeyId`.
pub(crate) async fn check(
    authority: &Authority,
    domain: Option<&Domain>,
    (method, uri, headers): (&Method, &Uri, &HeaderMap),
) -> S3Result<()> {
    let Some(signed) = Signed::of(domain, method, uri, headers) else { return Ok(()) };
    let secret = authority.secret_of(&signed.access_key).await?;
    if signed.is_right(&secret) { Ok(()) } else { Err(S3Error::new(S3ErrorCode::SignatureDoesNotMatch)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

    fn signed(domain: Option<&str>, method: Method, address: &str, headers: &[(&'static str, &str)]) -> Option<Signed> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        let domain = domain.map(|name| Domain::new(name).expect("a name"));
        Signed::of(domain.as_ref(), &method, &address.parse().expect("an address"), &map)
    }

    /// Requests and signatures of AWS's description of version 2.
    #[test]
    fn examples_of_aws() {
        let domain = Some("s3.us-west-1.amazonaws.com");
        let host = ("host", "awsexamplebucket1.us-west-1.s3.amazonaws.com");
        let in_host = ("host", "awsexamplebucket1.s3.us-west-1.amazonaws.com");
        for (method, address, headers, signature) in [
            (
                Method::GET,
                "/photos/puppy.jpg",
                vec![in_host, ("date", "Tue, 27 Mar 2007 19:36:42 +0000")],
                "qgk2+6Sv9/oM7G3qLEjTH1a1l1g=",
            ),
            (
                Method::PUT,
                "/photos/puppy.jpg",
                vec![
                    in_host,
                    ("content-type", "image/jpeg"),
                    ("content-length", "94328"),
                    ("date", "Tue, 27 Mar 2007 21:15:45 +0000"),
                ],
                "iqRzw+ileNPu1fhspnRs8nOjjIA=",
            ),
            (
                Method::GET,
                "/?prefix=photos&max-keys=50&marker=puppy",
                vec![in_host, ("user-agent", "Mozilla/5.0"), ("date", "Tue, 27 Mar 2007 19:42:41 +0000")],
                "m0WP8eCtspQl5Ahe6L1SozdX9YA=",
            ),
            (
                Method::GET,
                "/?acl",
                vec![in_host, ("date", "Tue, 27 Mar 2007 19:44:46 +0000")],
                "82ZHiFIjc+WbcwFKGUVEQspPn+0=",
            ),
        ] {
            let authorization = format!("AWS AKIAIOSFODNN7EXAMPLE:{signature}");
            let with = [&headers[..], &[("authorization", authorization.as_str())]].concat();
            let found = signed(domain, method.clone(), address, &with).expect("it is signed");
            assert_eq!(found.access_key, "AKIAIOSFODNN7EXAMPLE");
            assert!(found.is_right(SECRET), "{address}: {}", found.text);
            assert!(!found.is_right("another secret"));
            let elsewhere: Vec<_> = with.iter().map(|pair| if pair.0 == "host" { host } else { *pair }).collect();
            let elsewhere = signed(domain, method, address, &elsewhere).expect("it is signed");
            assert!(!elsewhere.is_right(SECRET), "the bucket is signed, too");
        }
    }

    #[test]
    fn addresses_are_signed() {
        let text = "GET\n\n\n1141889120\nx-amz-a:1,2\nx-amz-b:3\n/quotes/nelson?acl&response-expires=a b+";
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, SECRET.as_bytes());
        let signature = types::base64::encode(hmac::sign(&key, text.as_bytes()).as_ref());
        let escaped = s3rules::percent_encode(&signature, "");
        let query = format!("response-expires=a+b%2B&other=1&Expires=1141889120&AWSAccessKeyId=AK&Signature={escaped}");
        let headers = [("x-amz-b", " 3 "), ("x-amz-a", "1"), ("x-amz-a", "2"), ("authorization", "AWS X:y")];
        let found = signed(None, Method::GET, &format!("/quotes/nelson?acl&{query}"), &headers).expect("it is signed");
        assert_eq!((found.text.as_str(), found.access_key.as_str()), (text, "AK"));
        assert!(found.is_right(SECRET));
        let cut = &escaped[..20];
        let address = format!("/quotes/nelson?Expires=1141889120&AWSAccessKeyId=AK&Signature={cut}%25zz");
        let found = signed(None, Method::GET, &address, &headers).expect("it is signed, and wrongly");
        assert!(!found.is_right(SECRET));
        for wrong in ["", "AAAA", "not base64"] {
            assert!(
                !Signed { signature: wrong.into(), ..signed(None, Method::GET, "/b", &headers).expect("signed") }
                    .is_right(SECRET)
            );
        }
    }

    #[test]
    fn other_requests_are_left_to_the_wire_layer() {
        for (address, headers) in [
            ("/b/k", vec![]),
            ("/b/k?X-Amz-Signature=00", vec![]),
            ("/b/k", vec![("authorization", "AWS4-HMAC-SHA256 Credential=AK")]),
            ("/b/k", vec![("authorization", "AWS AK")]),
            ("/b/k?Signature=AAAA", vec![]),
            ("/b/k?Signature=AAAA&Signature=AAAA&Expires=1&AWSAccessKeyId=AK", vec![]),
        ] {
            assert!(signed(None, Method::GET, address, &headers).is_none(), "{address}");
        }
    }
}

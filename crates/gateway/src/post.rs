//! Uploads by forms: `POST /bucket` with `multipart/form-data`, as browsers send them.
//!
//! Nothing but the form's fields says what is to be stored, since only they are what somebody has signed: headers of
//! the request that would say so do not count.
//!
//! Forms do not come to `s3s`, which would gather the file in memory, however large, before anybody is asked.

use crate::asker::{Asked, ExpectedOwner, Peer};
use crate::convert::{announced_checksum, kept_headers, now, ruled, told};
use crate::encryption;
use crate::forms::{Fields, Form, FormReader, boundary};
use crate::locks::lock_of_new;
use crate::objects::{check_storage_class, header_tags};
use crate::place::{Domain, Place};
use crate::service::{Service, to_its_end_holding};
use crate::streams::Incoming;
use aws_lc_rs::hmac;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, HOST, LOCATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use s3::{Code, Conditions, Error, Head, PUT_MAX_BYTES, PutRequest};
use s3rules::percent_encode;
use s3rules::policy::Action;
use s3rules::post_policy::{PostForm, PostPolicy, post_response_xml};
use s3rules::rate::Direction;
use s3rules::tagging::{OBJECT_TAGS_MAX, TagSet};
use s3s::auth::{Credentials, SecretKey};
use s3s::dto::{StorageClass, StreamingBlob};
use s3s::{Body, HttpResponse, S3Error, S3ErrorCode, S3Result};
use std::collections::BTreeMap;

/// True for a POST whose body is a form with a file.
pub(crate) fn is_form(method: &Method, headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    let form = b"multipart/form-data";
    *method == Method::POST && kind.len() >= form.len() && kind[..form.len()].eq_ignore_ascii_case(form)
}

/// A form's signature, and whose it is said to be.
#[derive(PartialEq, Eq, Debug)]
enum Signature<'a> {
    /// Base64 of an HMAC by SHA-1.
    Second { access_key: &'a str, signature: &'a str },
    /// Hexadecimal digits of an HMAC by SHA-256 with a key of this scope: day, region, service and `aws4_request`.
    Fourth { access_key: &'a str, scope: Vec<&'a str>, signature: &'a str },
}

fn invalid(message: impl Into<std::borrow::Cow<'static, str>>) -> S3Error {
    S3Error::with_message(S3ErrorCode::InvalidArgument, message)
}

fn missing(field: &str) -> S3Error {
    let message = "If it is specified, please check the order of the fields.";
    invalid(format!("Bucket POST must contain a field named '{field}'. {message}"))
}

impl<'a> Signature<'a> {
    /// The signature of a form; `None` if it is anonymous. Errors: `InvalidArgument` where something of one is missing.
    fn of(fields: &'a Fields) -> S3Result<Option<Signature<'a>>> {
        let get = |name| fields.get(name).ok_or_else(|| missing(name));
        if fields.get("x-amz-algorithm").is_some() || fields.get("x-amz-signature").is_some() {
            if get("x-amz-algorithm")? != "AWS4-HMAC-SHA256" {
                return Err(invalid("x-amz-algorithm is AWS4-HMAC-SHA256"));
            }
            get("policy")?;
            let mut scope: Vec<&str> = get("x-amz-credential")?.rsplitn(5, '/').collect();
            scope.reverse();
            let [access_key, day, _, "s3", "aws4_request"] = scope[..] else {
                return Err(invalid("x-amz-credential is KEY/YYYYMMDD/REGION/s3/aws4_request"));
            };
            if !get("x-amz-date")?.starts_with(day) || day.len() != 8 {
                return Err(invalid("x-amz-date and x-amz-credential tell different days"));
            }
            let signature = get("x-amz-signature")?;
            return Ok(Some(Signature::Fourth { access_key, scope: scope.split_off(1), signature }));
        }
        let names = ["awsaccesskeyid", "signature", "policy"];
        if names.iter().all(|name| fields.get(name).is_none()) {
            return Ok(None);
        }
        get("policy")?;
        Ok(Some(Signature::Second { access_key: get("awsaccesskeyid")?, signature: get("signature")? }))
    }

    fn access_key(&self) -> &str {
        match self {
            Signature::Second { access_key, .. } | Signature::Fourth { access_key, .. } => access_key,
        }
    }

    fn version(&self) -> u8 {
        match self {
            Signature::Second { .. } => 2,
            Signature::Fourth { .. } => 4,
        }
    }

    /// True if the signature is that of a policy, as it stands in its field, by a secret.
    fn is_right(&self, policy: &str, secret: &str) -> bool {
        match self {
            Signature::Second { signature, .. } => {
                let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret.as_bytes());
                let tag = types::base64::decode(signature);
                tag.is_some_and(|tag| hmac::verify(&key, policy.as_bytes(), &tag).is_ok())
            }
            Signature::Fourth { scope, signature, .. } => {
                let first = hmac::Key::new(hmac::HMAC_SHA256, format!("AWS4{secret}").as_bytes());
                let key = scope.iter().fold(first, |key, part| {
                    hmac::Key::new(hmac::HMAC_SHA256, hmac::sign(&key, part.as_bytes()).as_ref())
                });
                hex_bytes(signature).is_some_and(|tag| hmac::verify(&key, policy.as_bytes(), &tag).is_ok())
            }
        }
    }
}

fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16)).collect::<Option<_>>()?;
    let pairs = digits.chunks_exact(2);
    pairs.remainder().is_empty().then(|| pairs.map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

/// The file of a form, whose length the policy may limit.
struct FileContent {
    reader: FormReader<Incoming>,
    policy: Option<PostPolicy>,
    bytes: u64,
}

impl s3::Body for FileContent {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let piece = self.reader.piece().await?;
        self.bytes += piece.as_ref().map_or(0, |piece| piece.len() as u64);
        if let Some(policy) = &self.policy {
            policy.check_length(self.bytes, piece.is_none())?;
        }
        if self.bytes > PUT_MAX_BYTES {
            return Err(Code::EntityTooLarge.because(format!("a file has at most {PUT_MAX_BYTES} bytes")));
        }
        if piece.is_none() {
            self.reader.finish().await;
        }
        Ok(piece)
    }
}

/// The headers that a request would have, did it put the object that the form describes.
fn headers_of(request: &HeaderMap, fields: &Fields) -> S3Result<HeaderMap> {
    let is_expectation = |name: &str| name == ExpectedOwner::OWN.name();
    let says_what = |name: &str| {
        (name.starts_with("x-amz-") && !is_expectation(name)) || name.starts_with("content-") || name == "expires"
    };
    let mut headers = HeaderMap::new();
    for (name, value) in request.iter().filter(|(name, _)| !says_what(name.as_str()) && *name != "authorization") {
        headers.append(name.clone(), value.clone());
    }
    for (name, value) in fields.pairs() {
        let name = match name.as_str() {
            "acl" => "x-amz-acl",
            name if name == "cache-control" || says_what(name) || is_expectation(name) => name,
            _ => continue,
        };
        let parts = HeaderName::from_bytes(name.as_bytes()).ok().zip(HeaderValue::from_str(value).ok());
        let (name, value) = parts.ok_or_else(|| invalid(format!("the field '{name}' cannot be kept")))?;
        // Whoever expects an owner is to be right, the form and the request that brings it.
        if is_expectation(name.as_str()) {
            headers.append(name, value);
        } else {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// The answer to a form whose object was put.
fn answer(fields: &Fields, place: (&str, &str), (location, head): (&str, &Head)) -> HttpResponse {
    let (bucket, key) = place;
    let redirect = fields.get("success_action_redirect").or_else(|| fields.get("redirect"));
    let quoted = format!("\"{}\"", head.etag);
    let (status, body, target) = match redirect.and_then(|to| redirection(to, bucket, key, &head.etag)) {
        Some(to) => (StatusCode::SEE_OTHER, Body::empty(), to),
        None => match fields.get("success_action_status") {
            Some("200") => (StatusCode::OK, Body::empty(), location.to_owned()),
            Some("201") => {
                let document = post_response_xml(location, bucket, key, &quoted);
                (StatusCode::CREATED, Body::from(Bytes::from(document)), location.to_owned())
            }
            _ => (StatusCode::NO_CONTENT, Body::empty(), location.to_owned()),
        },
    };
    let mut response = HttpResponse::new(body);
    if status == StatusCode::CREATED {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    }
    let version = head.version.as_deref().unwrap_or_default();
    let version = (HeaderName::from_static("x-amz-version-id"), version);
    for (name, value) in [(ETAG, quoted.as_str()), (LOCATION, target.as_str()), version] {
        if let Some(value) = HeaderValue::from_str(value).ok().filter(|value| !value.is_empty()) {
            response.headers_mut().insert(name, value);
        }
    }
    *response.status_mut() = status;
    response
}

/// The address to which a browser goes on; `None` for what is no address.
fn redirection(to: &str, bucket: &str, key: &str, etag: &str) -> Option<String> {
    let uri: Uri = to.parse().ok()?;
    uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme))?;
    let joint = if uri.query().is_some() { '&' } else { '?' };
    let key = percent_encode(key, "");
    Some(format!("{to}{joint}bucket={bucket}&key={key}&etag=%22{etag}%22"))
}

impl Service {
    /// Stores the file of a form. Errors: those of reading the form, `SignatureDoesNotMatch`, those of its policy, and
    /// those of putting an object.
    pub async fn form(&self, domain: Option<&Domain>, request: Request<Body>) -> S3Result<HttpResponse> {
        let (request, body) = request.into_parts();
        let place = Place::of(domain, &request.headers, &request.uri).filter(|place| place.key.is_none());
        let bucket = place.ok_or_else(|| S3Error::new(S3ErrorCode::MethodNotAllowed))?.bucket;
        let text = |name: HeaderName| request.headers.get(name).and_then(|value| value.to_str().ok());
        let length = text(CONTENT_LENGTH).and_then(|length| length.parse::<u64>().ok());
        let length = length.ok_or_else(|| S3Error::new(S3ErrorCode::MissingContentLength))?;
        let boundary = boundary(text(CONTENT_TYPE).unwrap_or_default()).map_err(told)?;
        let host = text(HOST).unwrap_or_default();
        let peer = Peer::of(&request.extensions);
        let source = Incoming::new(Some(StreamingBlob::from(body)), None, None);
        let Form { mut fields, file, content } = Form::read(source, &boundary).await.map_err(told)?;
        let key = fields.get("key").ok_or_else(|| missing("key"))?;
        let key = PostForm::key_with_file_name(key, file.file_name.as_deref().unwrap_or_default());
        fields.replace("key", key.clone());
        let (credentials, version, policy) = self.signed(&fields, &bucket).await?;
        let headers = headers_of(&request.headers, &fields)?;
        let tags = match fields.get("tagging") {
            Some(document) => ruled(TagSet::from_xml(document.as_bytes(), OBJECT_TAGS_MAX))?,
            None => header_tags(&headers)?,
        };
        let asked = Asked {
            credentials: credentials.as_ref(),
            headers: &headers,
            uri: &request.uri,
            peer,
            tags: Some(&tags),
            form_signature: version,
            direction: Direction::Write,
        };
        let visit = self.authority.visit(asked, &bucket).await?;
        visit.may(Action::PutObject, Some(&key))?;
        let (owner, acl) = self.authority.list_of_new(&visit, &headers).await?;
        let class = fields.get("x-amz-storage-class").map(|class| StorageClass::from(class.to_owned()));
        let encryption = encryption::wanted(&self.gateway, &visit.settings, &headers)?;
        let customer = encryption.customer().cloned();
        check_storage_class(class.as_ref())?;
        let content_md5 = fields.get("content-md5").map(s3::content_md5).transpose().map_err(told)?;
        let size = length.min(PUT_MAX_BYTES);
        let metadata = fields
            .pairs()
            .iter()
            .filter_map(|(name, value)| Some((name.strip_prefix("x-amz-meta-")?.to_owned(), value.clone())));
        let put = PutRequest {
            key: key.clone(),
            owner,
            size,
            may_be_shorter: true,
            headers: kept_headers(&headers)?,
            metadata: metadata.collect::<BTreeMap<_, _>>(),
            content_md5,
            checksum: announced_checksum(&headers, None)?,
            acl,
            tags,
            lock: lock_of_new(&visit, &headers)?,
            versioning: visit.settings.versioning,
            conditions: Conditions::default(),
            encryption,
        };
        let memory = self.budget.reserve(size).await?;
        visit.meter.moved(size);
        let (gateway, of) = (self.gateway.clone(), visit.bucket.clone());
        let mut content = FileContent { reader: content, policy, bytes: 0 };
        let head = to_its_end_holding(memory, async move { gateway.put(&of, put, &mut content).await }).await?;
        let path = request.uri.path().trim_end_matches('/');
        let scheme = if peer.tls.is_some() { "https" } else { "http" };
        let location = format!("{scheme}://{host}{path}/{}", percent_encode(&key, "/"));
        let mut response = answer(&fields, (&bucket, &key), (&location, &head));
        let expiration = visit.expiration(&head).and_then(|text| HeaderValue::from_str(&text).ok());
        if let Some(expiration) = expiration {
            response.headers_mut().insert("x-amz-expiration", expiration);
        }
        encryption::tell(response.headers_mut(), head.sealing().map(|sealing| &sealing.by), customer.as_ref());
        Ok(response)
    }

    /// Checks who has signed a form, and that it is as its policy wants it. An anonymous form has no policy.
    async fn signed(
        &self,
        fields: &Fields,
        bucket: &str,
    ) -> S3Result<(Option<Credentials>, Option<u8>, Option<PostPolicy>)> {
        let Some(signature) = Signature::of(fields)? else { return Ok((None, None, None)) };
        let document = fields.get("policy").ok_or_else(|| missing("policy"))?;
        let access_key = signature.access_key().to_owned();
        let secret = self.authority.secret_of(&access_key).await?;
        if !signature.is_right(document, &secret) {
            return Err(S3Error::new(S3ErrorCode::SignatureDoesNotMatch));
        }
        let policy = ruled(PostPolicy::parse(document))?;
        ruled(policy.check(&PostForm { bucket, fields: fields.pairs() }, now()))?;
        let credentials = Credentials { access_key, secret_key: SecretKey::from(secret) };
        Ok((Some(credentials), Some(signature.version()), Some(policy)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn fields(pairs: &[(&str, &str)]) -> Fields {
        let part = |name: &str, value: &str| {
            format!("--X\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let parts: String = pairs.iter().map(|(name, value)| part(name, value)).collect();
        let body = format!("{parts}{}--X--", part("file", ""));
        Form::read(s3::Whole::new(body), "X").await.expect("a form").fields
    }

    /// Policy, key and signature are those of AWS's example of a form by version 4.
    #[tokio::test]
    async fn signatures_of_version_4() {
        let policy = "eyAiZXhwaXJhdGlvbiI6ICIyMDE1LTEyLTMwVDEyOjAwOjAwLjAwMFoiLA0KICAiY29uZGl0aW9ucyI6IFsNCiAgICB7ImJ1Y2tl\
            dCI6ICJzaWd2NGV4YW1wbGVidWNrZXQifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRrZXkiLCAidXNlci91c2VyMS8iXSwNCiAgICB7ImFjbCI6\
            ICJwdWJsaWMtcmVhZCJ9LA0KICAgIHsic3VjY2Vzc19hY3Rpb25fcmVkaXJlY3QiOiAiaHR0cDovL3NpZ3Y0ZXhhbXBsZWJ1Y2tldC5zMy5hbWF6\
            b25hd3MuY29tL3N1Y2Nlc3NmdWxfdXBsb2FkLmh0bWwifSwNCiAgICBbInN0YXJ0cy13aXRoIiwgIiRDb250ZW50LVR5cGUiLCAiaW1hZ2UvIl0s\
            DQogICAgeyJ4LWFtei1tZXRhLXV1aWQiOiAiMTQzNjUxMjM2NTEyNzQifSwNCiAgICB7IngtYW16LXNlcnZlci1zaWRlLWVuY3J5cHRpb24iOiAi\
            QUVTMjU2In0sDQogICAgWyJzdGFydHMtd2l0aCIsICIkeC1hbXotbWV0YS10YWciLCAiIl0sDQoNCiAgICB7IngtYW16LWNyZWRlbnRpYWwiOiAi\
            QUtJQUlPU0ZPRE5ON0VYQU1QTEUvMjAxNTEyMjkvdXMtZWFzdC0xL3MzL2F3czRfcmVxdWVzdCJ9LA0KICAgIHsieC1hbXotYWxnb3JpdGhtIjog\
            IkFXUzQtSE1BQy1TSEEyNTYifSwNCiAgICB7IngtYW16LWRhdGUiOiAiMjAxNTEyMjlUMDAwMDAwWiIgfQ0KICBdDQp9";
        let given = [
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", "AKIAIOSFODNN7EXAMPLE/20151229/us-east-1/s3/aws4_request"),
            ("X-Amz-Date", "20151229T000000Z"),
            ("Policy", policy),
            ("X-Amz-Signature", "8afdbf4008c03f22c2cd3cdb72e4afbb1f6a588f3255ac628749a66d7f09699e"),
        ];
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let all = fields(&given).await;
        let signature = Signature::of(&all).expect("a signature").expect("it is not anonymous");
        assert_eq!((signature.access_key(), signature.version()), ("AKIAIOSFODNN7EXAMPLE", 4));
        assert!(signature.is_right(policy, secret));
        assert!(!signature.is_right(policy, "another") && !signature.is_right(&policy[1..], secret));
        for (at, wrong) in [(0, "AWS4"), (1, "AK/20151229/r/s4/aws4_request"), (2, "20151230T000000Z")] {
            let mut changed = given;
            changed[at].1 = wrong;
            let code = Signature::of(&fields(&changed).await).expect_err("refused").code().clone();
            assert_eq!(code, S3ErrorCode::InvalidArgument, "{wrong}");
        }
        for at in 1..given.len() {
            let left = [&given[..at], &given[at + 1..]].concat();
            assert!(Signature::of(&fields(&left).await).is_err(), "without {}", given[at].0);
        }
    }

    #[tokio::test]
    async fn signatures_of_version_2_and_none() {
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, b"secret");
        let right = types::base64::encode(hmac::sign(&key, b"e30=").as_ref());
        let given = [("AWSAccessKeyId", "AK"), ("policy", "e30="), ("signature", right.as_str())];
        let all = fields(&given).await;
        let signature = Signature::of(&all).expect("a signature").expect("it is not anonymous");
        assert_eq!((signature.access_key(), signature.version()), ("AK", 2));
        assert!(signature.is_right("e30=", "secret") && !signature.is_right("e30=", "other"));
        for at in 0..3 {
            let left = [&given[..at], &given[at + 1..]].concat();
            assert!(Signature::of(&fields(&left).await).is_err(), "without {}", given[at].0);
        }
        assert_eq!(Signature::of(&fields(&[("key", "k"), ("acl", "private")]).await).expect("anonymous"), None);
        assert_eq!(hex_bytes("0aFF"), Some(vec![10, 255]));
        assert_eq!((hex_bytes("0"), hex_bytes("0g"), hex_bytes("+1")), (None, None, None));
    }

    #[tokio::test]
    async fn fields_say_what_is_stored() {
        let mut request = HeaderMap::new();
        for (name, value) in [
            ("x-amz-acl", "public-read-write"),
            ("x-amz-meta-a", "1"),
            ("content-type", "multipart/form-data"),
            ("referer", "http://e.com/"),
            ("authorization", "AWS x"),
        ] {
            request.insert(name, HeaderValue::from_static(value));
        }
        let given =
            fields(&[("acl", "private"), ("Content-Type", "text/plain"), ("other", "x"), ("Expires", "0")]).await;
        let headers = headers_of(&request, &given).expect("headers");
        let get = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        assert_eq!(
            (get("x-amz-acl"), get("content-type"), get("expires")),
            (Some("private"), Some("text/plain"), Some("0"))
        );
        assert_eq!((get("x-amz-meta-a"), get("authorization"), get("other")), (None, None, None));
        assert_eq!(get("referer"), Some("http://e.com/"), "policies of buckets may ask for it");
        assert!(headers_of(&request, &fields(&[("x-amz-meta-b", "a\nb")]).await).is_err());
        let expected = ExpectedOwner::OWN.name();
        request.insert(expected, HeaderValue::from_static("ann"));
        let both = headers_of(&request, &fields(&[(expected, "bob")]).await).expect("headers");
        assert_eq!(both.get_all(expected).iter().collect::<Vec<_>>(), ["ann", "bob"], "both have to be right");
    }

    #[test]
    fn forms_are_told_from_other_posts() {
        let mut headers = HeaderMap::new();
        assert!(!is_form(&Method::POST, &headers));
        headers.insert("content-type", HeaderValue::from_static("Multipart/Form-Data; boundary=x"));
        assert!(is_form(&Method::POST, &headers) && !is_form(&Method::PUT, &headers));
        headers.insert("content-type", HeaderValue::from_static("application/xml"));
        assert!(!is_form(&Method::POST, &headers));
    }

    #[test]
    fn browsers_go_on_to_addresses_alone() {
        let to = |to| redirection(to, "b", "a b/c", "e");
        assert_eq!(to("http://e.com/x").as_deref(), Some("http://e.com/x?bucket=b&key=a%20b%2Fc&etag=%22e%22"));
        assert_eq!(to("https://e.com/?a=1").as_deref(), Some("https://e.com/?a=1&bucket=b&key=a%20b%2Fc&etag=%22e%22"));
        assert_eq!((to("javascript:x"), to("/x"), to("http://e.com/\r\nA: b"), to("")), (None, None, None, None));
    }
}

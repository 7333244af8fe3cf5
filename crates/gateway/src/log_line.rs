//! The line of a request in an access log, as AWS's server access logs have it or as JSON.
//!
//! No secret is in a line: signatures in queries are hidden, also in those of referrers, and headers with keys are not
//! among what is told.

use crate::signatures::{RequestSignature, SignaturePlace};
use http::{HeaderMap, Method, Uri};
use s3rules::{UnixMillis, percent_decode, percent_encode};
use serde_json::json;
use std::collections::BTreeSet;

/// Names in queries whose values are hidden, in lower case.
const HIDDEN: [&str; 6] = [
    "x-amz-signature",
    "signature",
    "x-amz-security-token",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "sse-customer-key",
];

/// Bytes that a line has of a text which a client chooses.
const TEXT_BYTES_MAX: usize = 4096;

/// A request and its answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct LogLine {
    pub time: UnixMillis,
    pub request_id: String,
    /// The gateway's session.
    pub host_id: String,
    pub remote: String,
    /// `None` for anonymous requests, and for those whose signature was not found right.
    pub requester: Option<String>,
    pub bucket_owner: Option<String>,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub version: Option<String>,
    pub operation: String,
    /// Method, address and version of HTTP.
    pub request: String,
    /// `None` where the client was gone before the answer.
    pub status: Option<u16>,
    pub error: Option<String>,
    /// Bytes of the bodies of the answer and of the request, as far as they came.
    pub sent: u64,
    pub received: u64,
    pub object_size: Option<u64>,
    /// Until the last byte was sent.
    pub total_ms: u64,
    /// From the last byte of the request to the first one of the answer.
    pub turn_around_ms: Option<u64>,
    pub referrer: Option<String>,
    pub user_agent: Option<String>,
    /// Version of the signature, and where it stood.
    pub signature: Option<(&'static str, &'static str)>,
    pub host: Option<String>,
    /// Version of TLS: `1.2`, `1.3`.
    pub tls: Option<&'static str>,
}

fn or_dash<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).filter(|text| !text.is_empty()).unwrap_or_else(|| "-".into())
}

/// The begin of a text that clients choose.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

/// A text for between quotes: no quote, backslash or control character is left in it.
fn quotable(text: &str) -> String {
    let text = cut(text);
    let is_plain = |c: char| (' '..='~').contains(&c) && c != '"' && c != '\\';
    text.chars().map(|c| if is_plain(c) { c.to_string() } else { percent_encode(&c.to_string(), "") }).collect()
}

fn quoted(text: Option<&String>) -> String {
    format!("\"{}\"", quotable(&or_dash(text)))
}

/// A word: no blank is left in it.
fn word(text: Option<&String>) -> String {
    or_dash(text.map(|text| percent_encode(cut(text), "/:@$+=,")))
}

/// `06/Feb/2019:00:00:38 +0000`.
fn log_time(time: UnixMillis) -> String {
    let date = time.http_date();
    let words: Vec<&str> = date.split_ascii_whitespace().collect();
    match words[..] {
        [_, day, month, year, clock, _] => format!("{day}/{month}/{year}:{clock} +0000"),
        _ => date,
    }
}

impl LogLine {
    pub fn to_s3(&self) -> String {
        let number = |n: u64| or_dash(Some(n).filter(|n| *n > 0));
        let (version, place) = self.signature.unzip();
        let tls = self.tls.map(|version| format!("TLSv{version}"));
        [
            word(self.bucket_owner.as_ref()),
            word(self.bucket.as_ref()),
            format!("[{}]", log_time(self.time)),
            self.remote.clone(),
            word(self.requester.as_ref()),
            self.request_id.clone(),
            self.operation.clone(),
            word(self.key.as_ref()),
            quoted(Some(&self.request)),
            or_dash(self.status),
            or_dash(self.error.as_ref()),
            number(self.sent),
            or_dash(self.object_size),
            self.total_ms.to_string(),
            or_dash(self.turn_around_ms),
            quoted(self.referrer.as_ref()),
            quoted(self.user_agent.as_ref()),
            word(self.version.as_ref()),
            self.host_id.clone(),
            or_dash(version),
            // The cipher is not told.
            "-".into(),
            or_dash(place),
            word(self.host.as_ref()),
            or_dash(tls),
            // Nobody has access points, and lists are not told apart from policies.
            "-".into(),
            "-".into(),
        ]
        .join(" ")
    }

    pub fn to_json(&self) -> String {
        let (version, place) = self.signature.unzip();
        json!({
            "time": self.time.iso8601(), "request_id": self.request_id, "host_id": self.host_id,
            "remote_ip": self.remote, "requester": self.requester, "bucket_owner": self.bucket_owner,
            "bucket": self.bucket, "key": self.key, "version_id": self.version, "operation": self.operation,
            "request": self.request, "status": self.status, "error_code": self.error, "bytes_sent": self.sent,
            "bytes_received": self.received, "object_size": self.object_size, "total_ms": self.total_ms,
            "turn_around_ms": self.turn_around_ms, "referrer": self.referrer, "user_agent": self.user_agent,
            "signature_version": version, "authentication_type": place, "host": self.host,
            "tls_version": self.tls.map(|version| format!("TLSv{version}")),
        })
        .to_string()
    }
}

/// Decoded names of a query, with their values as they stand.
fn pairs(query: &str) -> impl Iterator<Item = (String, &str)> {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (percent_decode(name).unwrap_or_else(|| name.to_owned()), value)
    })
}

/// An address, or what follows in place of one, with secrets in its query hidden.
pub(crate) fn shown_address(address: &str) -> String {
    let Some((path, query)) = address.split_once('?') else { return address.to_owned() };
    let shown = query.split('&').map(|pair| {
        let name = pair.split_once('=').map_or(pair, |(name, _)| name);
        let decoded = percent_decode(name).unwrap_or_else(|| name.to_owned()).to_ascii_lowercase();
        if HIDDEN.contains(&decoded.trim()) || holds_secret(pair) { format!("{name}=hidden") } else { pair.to_owned() }
    });
    format!("{path}?{}", shown.collect::<Vec<_>>().join("&"))
}

/// True if a part of a query is an address itself, with a secret in its query.
fn holds_secret(pair: &str) -> bool {
    let mut text = pair.to_ascii_lowercase();
    for _ in 0..3 {
        let bytes = text.as_bytes();
        let is_in_query = |(at, name): (usize, &str)| {
            at > 0 && matches!(bytes[at - 1], b'?' | b'&') && bytes.get(at + name.len()) == Some(&b'=')
        };
        if HIDDEN.iter().any(|name| text.match_indices(name).any(is_in_query)) {
            return true;
        }
        match percent_decode(&text) {
            Some(decoded) if decoded != text => text = decoded.to_ascii_lowercase(),
            _ => return false,
        }
    }
    false
}

/// The id of the version that a request names.
pub(crate) fn version_of(uri: &Uri) -> Option<String> {
    let query = uri.query().unwrap_or_default();
    let named = pairs(query).find(|(name, _)| name == "versionId").map(|(_, value)| value.to_owned());
    named.and_then(|value| percent_decode(&value))
}

/// The version of a request's signature, and where it stands; it may be wrong.
pub(crate) fn signature_of(uri: &Uri, headers: &HeaderMap) -> Option<(&'static str, &'static str)> {
    Some(match RequestSignature::of(headers, uri)?.place {
        SignaturePlace::SecondInQuery => ("SigV2", "QueryString"),
        SignaturePlace::SecondInHeader => ("SigV2", "AuthHeader"),
        SignaturePlace::FourthInQuery => ("SigV4", "QueryString"),
        SignaturePlace::FourthInHeader => ("SigV4", "AuthHeader"),
    })
}

/// Names in queries that make a request one about something of a bucket, or of an object.
const OF_BUCKETS: [(&str, &str); 21] = [
    ("acl", "ACL"),
    ("policyStatus", "BUCKETPOLICYSTATUS"),
    ("policy", "BUCKETPOLICY"),
    ("versioning", "VERSIONING"),
    ("versions", "BUCKETVERSIONS"),
    ("uploads", "UPLOADS"),
    ("location", "LOCATION"),
    ("lifecycle", "LIFECYCLE"),
    ("cors", "CORS"),
    ("tagging", "TAGGING"),
    ("website", "WEBSITE"),
    ("logging", "LOGGING_STATUS"),
    ("notification", "NOTIFICATION"),
    ("requestPayment", "REQUEST_PAYMENT"),
    ("encryption", "ENCRYPTION"),
    ("publicAccessBlock", "PUBLIC_ACCESS_BLOCK"),
    ("ownershipControls", "OWNERSHIP_CONTROLS"),
    ("object-lock", "OBJECT_LOCK_CONFIGURATION"),
    ("replication", "REPLICATION"),
    ("accelerate", "ACCELERATE"),
    ("delete", "MULTI_OBJECT_DELETE"),
];
const OF_OBJECTS: [(&str, &str); 7] = [
    ("acl", "ACL"),
    ("tagging", "OBJECT_TAGGING"),
    ("retention", "OBJECT_LOCK_RETENTION"),
    ("legal-hold", "OBJECT_LOCK_LEGALHOLD"),
    ("attributes", "OBJECT_ATTRIBUTES"),
    ("torrent", "OBJECTTORRENT"),
    ("uploads", "UPLOADS"),
];

/// A request as operations are told apart in logs. `has_bucket`, `has_key`: its address names one.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub method: &'a Method,
    pub uri: &'a Uri,
    pub headers: &'a HeaderMap,
    pub has_bucket: bool,
    pub has_key: bool,
    pub is_site: bool,
    pub is_form: bool,
}

impl Operation<'_> {
    /// The operation as AWS calls it.
    pub fn name(&self) -> String {
        let Operation { method, has_bucket, has_key, .. } = *self;
        if self.is_site {
            return format!("WEBSITE.{method}.OBJECT");
        }
        if *method == Method::OPTIONS {
            return "REST.OPTIONS.PREFLIGHT".into();
        }
        if self.is_form {
            return "REST.POST.OBJECT".into();
        }
        let names: BTreeSet<String> = pairs(self.uri.query().unwrap_or_default()).map(|(name, _)| name).collect();
        let has = |wanted: &str| names.contains(wanted);
        let is_copy = *method == Method::PUT && self.headers.contains_key("x-amz-copy-source");
        let verb = if is_copy { "COPY" } else { method.as_str() };
        let found = |names: &[(&str, &'static str)]| names.iter().find(|(name, _)| has(name)).map(|(_, about)| *about);
        let about = match (has_bucket, has_key) {
            (false, _) => "SERVICE",
            (true, false) => found(&OF_BUCKETS).unwrap_or("BUCKET"),
            (true, true) if has("uploadId") => {
                if *method == Method::PUT {
                    "PART"
                } else {
                    "UPLOAD"
                }
            }
            (true, true) => found(&OF_OBJECTS).unwrap_or("OBJECT"),
        };
        format!("REST.{verb}.{about}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> LogLine {
        LogLine {
            time: UnixMillis::parse("2019-02-06T00:00:38Z").expect("a time"),
            request_id: "3E57427F3EXAMPLE".into(),
            host_id: "0123".into(),
            remote: "192.0.2.3".into(),
            requester: Some("ann".into()),
            bucket_owner: Some("ann".into()),
            bucket: Some("things".into()),
            key: Some("a \"b\"/\u{e4}\n".into()),
            version: Some("v1".into()),
            operation: "REST.GET.OBJECT".into(),
            request: "GET /things/a HTTP/1.1".into(),
            status: Some(206),
            error: None,
            sent: 113,
            received: 7,
            object_size: Some(5000),
            total_ms: 12,
            turn_around_ms: Some(3),
            referrer: None,
            user_agent: Some("one \"agent\"\r\n\\".into()),
            signature: Some(("SigV4", "AuthHeader")),
            host: Some("things.s3.test:8333".into()),
            tls: Some("1.3"),
        }
    }

    #[test]
    fn lines_are_as_aws_has_them() {
        let line = full().to_s3();
        assert_eq!(
            line,
            "ann things [06/Feb/2019:00:00:38 +0000] 192.0.2.3 ann 3E57427F3EXAMPLE REST.GET.OBJECT \
             a%20%22b%22/%C3%A4%0A \"GET /things/a HTTP/1.1\" 206 - 113 5000 12 3 \"-\" \
             \"one %22agent%22%0D%0A%5C\" v1 0123 SigV4 - AuthHeader things.s3.test:8333 TLSv1.3 - -"
        );
        let nothing = LogLine { remote: "::1".into(), request_id: "1".into(), ..LogLine::default() };
        let nothing = LogLine { host_id: "0".into(), operation: "REST.GET.SERVICE".into(), ..nothing }.to_s3();
        assert_eq!(
            nothing,
            "- - [01/Jan/1970:00:00:00 +0000] ::1 - 1 REST.GET.SERVICE - \"-\" - - - - 0 - \"-\" \"-\" - 0 \
             - - - - - - -"
        );
    }

    #[test]
    fn lines_of_json_keep_every_character() {
        let line = full().to_json();
        assert!(!line.contains('\n'));
        let read: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!((&read["key"], &read["status"]), (&json!("a \"b\"/\u{e4}\n"), &json!(206)));
        assert_eq!((&read["bytes_received"], &read["error_code"]), (&json!(7), &json!(null)));
        assert_eq!((&read["tls_version"], &read["signature_version"]), (&json!("TLSv1.3"), &json!("SigV4")));
    }

    #[test]
    fn secrets_are_hidden() {
        for (address, shown) in [
            ("/b/k", "/b/k"),
            ("/b/k?acl", "/b/k?acl"),
            ("/b/k?X-Amz-Credential=AK&X-Amz-Signature=abc&x=1", "/b/k?X-Amz-Credential=AK&X-Amz-Signature=hidden&x=1"),
            ("/b/k?AWSAccessKeyId=AK&Signature=a%3D", "/b/k?AWSAccessKeyId=AK&Signature=hidden"),
            ("/b/k?X-Amz-Signatur%65=abc", "/b/k?X-Amz-Signatur%65=hidden"),
            ("/b/k?signature=abc&SIGNATURE=def", "/b/k?signature=hidden&SIGNATURE=hidden"),
            ("https://s3.test/b/k?X-Amz-Security-Token=t", "https://s3.test/b/k?X-Amz-Security-Token=hidden"),
            ("/b?x-amz-server-side-encryption-customer-key=k", "/b?x-amz-server-side-encryption-customer-key=hidden"),
            ("/b?Signature", "/b?Signature=hidden"),
            ("https://v/?file=https%3A%2F%2Fs3%2Fk%3Fa%3D1%26X-Amz-Signature%3Dabc&x=1", "https://v/?file=hidden&x=1"),
            ("https://v/?file=https%3A%2F%2Fs3%2Fk%3Fa%3D1", "https://v/?file=https%3A%2F%2Fs3%2Fk%3Fa%3D1"),
        ] {
            assert_eq!(shown_address(address), shown);
        }
    }

    #[test]
    fn operations_have_the_names_of_aws() {
        let name = |method: Method, address: &str, header: Option<&'static str>| {
            let uri: Uri = address.parse().expect("an address");
            let mut headers = HeaderMap::new();
            if let Some(header) = header {
                headers.insert(header, http::HeaderValue::from_static("/b/k"));
            }
            let path = uri.path().trim_start_matches('/');
            let (has_bucket, has_key) = (!path.is_empty(), path.contains('/'));
            let (is_site, is_form) = (false, false);
            Operation { method: &method, uri: &uri, headers: &headers, has_bucket, has_key, is_site, is_form }.name()
        };
        let copy = Some("x-amz-copy-source");
        for (method, address, header, expected) in [
            (Method::GET, "/", None, "REST.GET.SERVICE"),
            (Method::GET, "/b", None, "REST.GET.BUCKET"),
            (Method::GET, "/b?list-type=2&prefix=acl", None, "REST.GET.BUCKET"),
            (Method::PUT, "/b?versioning", None, "REST.PUT.VERSIONING"),
            (Method::GET, "/b?versions", None, "REST.GET.BUCKETVERSIONS"),
            (Method::POST, "/b?delete", None, "REST.POST.MULTI_OBJECT_DELETE"),
            (Method::DELETE, "/b?policy", None, "REST.DELETE.BUCKETPOLICY"),
            (Method::HEAD, "/b/k", None, "REST.HEAD.OBJECT"),
            (Method::PUT, "/b/k", copy, "REST.COPY.OBJECT"),
            (Method::PUT, "/b/k?partNumber=1&uploadId=u", None, "REST.PUT.PART"),
            (Method::PUT, "/b/k?partNumber=1&uploadId=u", copy, "REST.COPY.PART"),
            (Method::POST, "/b/k?uploads", None, "REST.POST.UPLOADS"),
            (Method::POST, "/b/k?uploadId=u", None, "REST.POST.UPLOAD"),
            (Method::GET, "/b/k?tagging", None, "REST.GET.OBJECT_TAGGING"),
            (Method::GET, "/b/k?versionId=1", None, "REST.GET.OBJECT"),
            (Method::OPTIONS, "/b/k", None, "REST.OPTIONS.PREFLIGHT"),
        ] {
            assert_eq!(name(method, address, header), expected, "{address}");
        }
        let uri: Uri = "/b/k?versionId=a%2Fb".parse().expect("an address");
        assert_eq!(version_of(&uri).as_deref(), Some("a/b"));
        let signed = |address: &str| signature_of(&address.parse().expect("an address"), &HeaderMap::new());
        assert_eq!(signed("/b?X-Amz-Signature=a"), Some(("SigV4", "QueryString")));
        assert_eq!(signed("/b?Signature=a"), Some(("SigV2", "QueryString")));
        assert_eq!(signed("/b?acl"), None);
    }
}

//! Numbers of requests, and what the access log tells of each: gathered from the request's first byte to the last one
//! of its answer.

use crate::access_log::AccessLog;
use crate::asker::Peer;
use crate::convert::now;
use crate::log_line::{LogLine, Operation, shown_address, signature_of, version_of};
use crate::notes::Notes;
use crate::place::Place;
use crate::post::is_form;
use crate::watched::{Look, Polled, Watched, bytes_of};
use http::header::{CONTENT_LENGTH, CONTENT_RANGE, HOST, REFERER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use hyper::body::{Body, Incoming};
use s3s::HttpResponse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Instant;

const REQUEST_ID: &str = "x-amz-request-id";
const HOST_ID: &str = "x-amz-id-2";

/// Numbers of requests of one gateway.
pub(crate) struct Numbers {
    session: String,
    last: AtomicU64,
}

impl Numbers {
    /// `session`: the gateway's, of which no other has the same.
    pub fn new(session: &str) -> Numbers {
        Numbers { session: session.to_owned(), last: AtomicU64::new(0) }
    }

    /// A number that no other request has or had.
    fn next(&self) -> String {
        let begin: String = self.session.chars().take(12).collect();
        format!("{}{:08X}", begin.to_ascii_uppercase(), self.last.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Bytes of a request's body, and when it ended.
#[derive(Default)]
struct Received {
    bytes: AtomicU64,
    ended: Mutex<Option<Instant>>,
}

/// A request under way. Its line is written when it is dropped.
struct Entry {
    log: Arc<AccessLog>,
    line: LogLine,
    notes: Arc<Notes>,
    begun: Instant,
    received: Arc<Received>,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.line.requester = self.notes.requester().map(|user| user.uid.clone());
        if let Some(bucket) = self.notes.bucket() {
            self.line.bucket = Some(bucket.name.clone());
            self.line.bucket_owner = Some(bucket.owner.clone());
        }
        self.line.total_ms = self.begun.elapsed().as_millis() as u64;
        self.line.received = self.received.bytes.load(Ordering::Relaxed);
        self.log.write(&self.line);
    }
}

/// A request with its number, and its line if there is a log.
pub(crate) struct Logged {
    id: String,
    host_id: String,
    is_head: bool,
    /// The answer tells how large the object is, or the request does.
    told_size: Option<u64>,
    notes: Arc<Notes>,
    entry: Option<Entry>,
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.parse().ok()
}

impl Logged {
    /// `site`: the bucket whose web site is asked for.
    pub fn begin<B>(
        numbers: &Numbers,
        log: Option<&Arc<AccessLog>>,
        peer: &Peer,
        (site, place): (Option<&String>, Option<&Place>),
        request: &Request<B>,
    ) -> Logged {
        let (method, uri, headers) = (request.method(), request.uri(), request.headers());
        let notes = Arc::<Notes>::default();
        let id = numbers.next();
        let is_of_object = place.is_some_and(|place| place.key.is_some());
        let told_size = (*method == Method::PUT && is_of_object)
            .then(|| {
                number(headers, "x-amz-decoded-content-length").or_else(|| number(headers, CONTENT_LENGTH.as_str()))
            })
            .flatten();
        let entry = log.map(|log| {
            let (has_bucket, is_site) = (place.is_some(), site.is_some());
            let is_form = is_form(method, headers);
            let operation = Operation { method, uri, headers, has_bucket, has_key: is_of_object, is_site, is_form };
            let address = uri.path_and_query().map_or(uri.path(), |address| address.as_str());
            let path = || s3rules::percent_decode_path(uri.path().trim_start_matches('/'));
            let line = LogLine {
                time: now(),
                request_id: id.clone(),
                host_id: numbers.session.clone(),
                remote: peer.address.to_string(),
                bucket: site.cloned().or_else(|| place.map(|place| place.bucket.clone())),
                key: if is_site { path() } else { place.and_then(|place| place.key.clone()) },
                version: version_of(uri),
                operation: operation.name(),
                request: format!("{method} {} {:?}", shown_address(address), request.version()),
                referrer: text(headers, &REFERER).map(|referrer| shown_address(&referrer)),
                user_agent: text(headers, &USER_AGENT),
                signature: signature_of(uri, headers),
                host: text(headers, &HOST),
                tls: peer.tls,
                ..LogLine::default()
            };
            let (notes, begun) = (notes.clone(), Instant::now());
            Entry { log: log.clone(), line, notes, begun, received: Arc::default() }
        });
        let host_id = numbers.session.clone();
        Logged { id, host_id, is_head: *method == Method::HEAD, told_size, notes, entry }
    }

    /// Notes that are made while the request is answered.
    pub fn notes(&self) -> Arc<Notes> {
        self.notes.clone()
    }

    /// The body of the request, whose bytes are counted if there is a log.
    pub fn body(&self, body: Incoming) -> s3s::Body {
        match &self.entry {
            None => s3s::Body::from(body),
            Some(entry) => {
                let received = entry.received.clone();
                let look = move |polled: &Polled<hyper::Error>, body: &Incoming| {
                    received.bytes.fetch_add(bytes_of(polled), Ordering::Relaxed);
                    let is_over = matches!(polled, Poll::Ready(None)) || (polled.is_ready() && body.is_end_stream());
                    if is_over {
                        let mut ended = received.ended.lock().unwrap_or_else(PoisonError::into_inner);
                        ended.get_or_insert_with(Instant::now);
                    }
                };
                s3s::Body::http_body(Watched { body, look })
            }
        }
    }

    /// Gives an answer its number. The line is written behind the answer's last byte.
    pub fn answer(mut self, mut response: HttpResponse) -> Response<Watched<s3s::Body, impl Look<s3s::Body>>> {
        let status = response.status();
        let is_error = status.is_client_error() || status.is_server_error();
        if let Some(entry) = &mut self.entry {
            let ended = *entry.received.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let since = ended.unwrap_or(entry.begun);
            entry.line.turn_around_ms = Some(since.elapsed().as_millis() as u64);
            entry.line.status = Some(status.as_u16());
            entry.line.error = if is_error { code_of(&response) } else { None };
            entry.line.object_size = self.told_size.filter(|_| !is_error).or_else(|| size_of(&entry.line, &response));
        }
        if is_error && !self.is_head {
            add_number(&mut response, &self.id, &self.host_id);
        }
        for (name, value) in [(REQUEST_ID, &self.id), (HOST_ID, &self.host_id)] {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        }
        let mut entry = self.entry;
        let look = move |polled: &Polled<s3s::StdError>, _: &s3s::Body| {
            if let Some(entry) = &mut entry {
                entry.line.sent += bytes_of(polled);
            }
        };
        response.map(|body| Watched { body, look })
    }
}

/// Bytes of the object that is read, as the answer tells.
fn size_of(line: &LogLine, response: &HttpResponse) -> Option<u64> {
    let is_read = ["REST.GET.OBJECT", "REST.HEAD.OBJECT", "WEBSITE.GET.OBJECT", "WEBSITE.HEAD.OBJECT"];
    if !is_read.contains(&line.operation.as_str()) || !response.status().is_success() {
        return None;
    }
    let range = response.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let whole = range.and_then(|range| range.rsplit_once('/')?.1.parse().ok());
    whole
        .or_else(|| number(response.headers(), CONTENT_LENGTH.as_str()))
        .or_else(|| response.body().size_hint().exact())
}

/// The place of a text in a document.
fn at(document: &[u8], text: &[u8]) -> Option<usize> {
    document.windows(text.len()).position(|window| window == text)
}

/// The code of an error, which the wire layer tells nowhere but in its document.
fn code_of(response: &HttpResponse) -> Option<String> {
    let body = response.body().bytes()?;
    let begin = at(&body, b"<Code>")? + b"<Code>".len();
    let len = at(&body[begin..], b"</Code>")?;
    let code = std::str::from_utf8(&body[begin..begin + len]).ok()?;
    Some(code.to_owned()).filter(|code| code.bytes().all(|c| c.is_ascii_alphanumeric()))
}

/// Writes the number of a request into the document of an error.
fn add_number(response: &mut HttpResponse, id: &str, host_id: &str) {
    const END: &[u8] = b"</Error>";
    let Some(body) = response.body().bytes() else { return };
    let Some(end) = at(&body, END).filter(|end| at(&body[..*end], b"<RequestId>").is_none()) else { return };
    let numbers = format!("<RequestId>{id}</RequestId><HostId>{host_id}</HostId>");
    let body = [&body[..end], numbers.as_bytes(), &body[end..]].concat();
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = s3s::Body::from(body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_log::AccessLogFormat;
    use crate::notes::{NOTES, note_bucket, note_requester};
    use http::StatusCode;
    use std::pin::Pin;

    fn answered(status: StatusCode, body: &str) -> HttpResponse {
        let mut response = HttpResponse::new(s3s::Body::from(body.to_owned()));
        *response.status_mut() = status;
        response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
        response
    }

    fn request(method: &str, address: &str) -> Request<()> {
        Request::builder().method(method).uri(address).header("host", "s3.test").body(()).expect("a request")
    }

    #[test]
    fn answers_have_numbers() {
        let numbers = Numbers::new("00ff00ff00ff00ff");
        let peer = Peer { address: "10.1.2.3".parse().expect("an address"), tls: None };
        let begin = |method: &str| Logged::begin(&numbers, None, &peer, (None, None), &request(method, "/b/k"));
        let document = "<?xml?><Error><Code>NoSuchKey</Code></Error>";
        let logged = begin("GET").answer(answered(StatusCode::NOT_FOUND, document));
        let id = logged.headers()["x-amz-request-id"].to_str().expect("text").to_owned();
        assert_eq!(id, "00FF00FF00FF00000001");
        assert_eq!(logged.headers()["x-amz-id-2"], "00ff00ff00ff00ff");
        let body = logged.body().body.bytes().expect("a document");
        let expected = format!(
            "<?xml?><Error><Code>NoSuchKey</Code><RequestId>{id}</RequestId><HostId>00ff00ff00ff00ff</HostId></Error>"
        );
        assert_eq!(body, expected.as_bytes());
        assert_eq!(logged.body().size_hint().exact(), Some(expected.len() as u64));
        assert!(!logged.headers().contains_key(CONTENT_LENGTH));
        // Objects that look like errors stay as they are, and so does what has a number.
        let same = begin("GET").answer(answered(StatusCode::OK, document));
        assert_eq!(same.body().body.bytes().as_deref(), Some(document.as_bytes()));
        assert_ne!(same.headers()["x-amz-request-id"], id.as_str());
        let head = begin("HEAD").answer(answered(StatusCode::NOT_FOUND, document));
        assert_eq!(head.headers()[CONTENT_LENGTH], document.len().to_string().as_str());
    }

    #[tokio::test]
    async fn lines_tell_what_was_asked_and_answered() {
        let path = std::env::temp_dir().join(format!("gateway-logged-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let log = Arc::new(AccessLog::open(&path, AccessLogFormat::Json).expect("a log"));
        let numbers = Numbers::new("aa");
        let peer = Peer { address: "10.1.2.3".parse().expect("an address"), tls: Some("1.2") };
        let place = Place { bucket: "b".into(), key: Some("k".into()) };
        let begin = |request: &Request<()>| Logged::begin(&numbers, Some(&log), &peer, (None, Some(&place)), request);
        let read = begin(&request("GET", "/b/k?X-Amz-Signature=s3cret&versionId=7"));
        NOTES
            .scope(read.notes(), async {
                note_requester(&Arc::new(s3::User { uid: "ann".into(), ..s3::User::default() }));
                let text = |text: &str| text.to_owned();
                for (name, owner) in [("t:b", "t$bob"), ("source", "the owner of a source")] {
                    let (name, id, owner, data_pool) = (text(name), text("1"), text(owner), text("data"));
                    note_bucket(&Arc::new(s3::Bucket { name, id, owner, created_ms: 0, data_pool }));
                }
            })
            .await;
        let mut response = answered(StatusCode::PARTIAL_CONTENT, "abc");
        response.headers_mut().insert(CONTENT_RANGE, HeaderValue::from_static("bytes 0-2/10"));
        let mut body = read.answer(response).into_body();
        let frame = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
        assert!(frame.is_some_and(|frame| frame.is_ok()));
        drop(body);
        let refused = answered(StatusCode::FORBIDDEN, "<Error><Code>SignatureDoesNotMatch</Code></Error>");
        drop(begin(&request("PUT", "/b/k")).answer(refused));
        // The client has gone before it was answered.
        drop(begin(&request("DELETE", "/b/k")));
        drop(log);
        let text = std::fs::read_to_string(&path).expect("a log");
        std::fs::remove_file(&path).expect("it is there");
        assert!(!text.contains("s3cret"), "{text}");
        let lines: Vec<serde_json::Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let of = |line: usize, name: &str| lines[line][name].clone();
        let told = ["requester", "bucket_owner", "bucket", "key", "version_id", "status", "bytes_sent", "object_size"];
        let first: Vec<serde_json::Value> = told.iter().map(|name| of(0, name)).collect();
        assert_eq!(serde_json::json!(first), serde_json::json!(["ann", "t$bob", "t:b", "k", "7", 206, 3, 10]));
        assert_eq!((of(0, "operation"), of(0, "tls_version")), ("REST.GET.OBJECT".into(), "TLSv1.2".into()));
        assert_eq!(
            (of(0, "request"), of(1, "requester")),
            ("GET /b/k?X-Amz-Signature=hidden&versionId=7 HTTP/1.1".into(), serde_json::Value::Null)
        );
        assert_eq!((of(1, "error_code"), of(1, "status")), ("SignatureDoesNotMatch".into(), 403.into()));
        assert_eq!((of(2, "operation"), of(2, "status")), ("REST.DELETE.OBJECT".into(), serde_json::Value::Null));
        assert_eq!(lines.len(), 3);
    }
}

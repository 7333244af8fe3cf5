//! The objects of a bucket. Each connection carries one request at a time, and is kept for the next.

use std::cell::RefCell;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use bench::schedule::Outcome;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, Method, Request, StatusCode, header};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use super::list::{code_of, page_of};
use super::signature::Unsigned;
use super::site::BucketSite;
use crate::objects::{Failure, ListedPage, Objects, SeenObject};

/// Bytes of an answer that an error tells.
const TOLD_BYTES: usize = 300;
/// Attempts to remove a bucket that is not empty yet, and the time between them.
const EMPTY_TRIES: u32 = 20;
const EMPTY_PAUSE: Duration = Duration::from_millis(100);

/// Objects of a bucket.
pub struct Bucket {
    site: BucketSite,
    /// Connections without a request, the last used one last.
    idle: RefCell<Vec<SendRequest<Whole>>>,
}

/// A body in one piece.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// A request, before it is signed.
struct Asked<'a> {
    method: Method,
    /// Name of an object; empty for the bucket.
    object: &'a str,
    /// Parameters in the order of their names, with nothing that takes escaping.
    query: &'a str,
    /// First byte and number of bytes to read.
    range: Option<(u64, u64)>,
    body: Bytes,
}

impl<'a> Asked<'a> {
    fn new(method: Method, object: &'a str) -> Asked<'a> {
        Asked { method, object, query: "", range: None, body: Bytes::new() }
    }
}

struct GatewayAnswer {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl GatewayAnswer {
    /// Errors: the gateway has answered otherwise. After a server's error, a change may happen all the same.
    fn expect(self, wanted: &[StatusCode], what: &str) -> Result<GatewayAnswer, Failure> {
        if wanted.contains(&self.status) {
            return Ok(self);
        }
        let outcome = if self.status.is_server_error() { Outcome::Late } else { Outcome::Refused };
        let told = String::from_utf8_lossy(&self.body[..self.body.len().min(TOLD_BYTES)]).into_owned();
        let is_absent = self.is_absent();
        Err(Failure { outcome, reason: format!("{what}: {}: {told}", self.status), is_absent })
    }

    /// True if the object is not there. An answer without a document, as to a HEAD, cannot tell what is not there.
    fn is_absent(&self) -> bool {
        let code = std::str::from_utf8(&self.body).ok().and_then(code_of);
        self.status == StatusCode::NOT_FOUND && (self.body.is_empty() || code == Some("NoSuchKey"))
    }

    fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

fn late(what: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::new(Outcome::Late, format!("{what}: {error}"))
}

impl Bucket {
    /// Makes the bucket if it is not there. Errors: the gateway cannot be reached, or refuses.
    pub async fn open(site: BucketSite) -> Result<Bucket, String> {
        let bucket = Bucket { site, idle: RefCell::default() };
        let opened = bucket.make_if_absent().await;
        opened.map_err(|failure| format!("{:?}: {}", bucket.site, failure.reason))?;
        Ok(bucket)
    }

    /// Makes the bucket of a site, if it is not there, for those who then work in it. True if it was made.
    pub async fn make_for_others(site: &BucketSite) -> Result<bool, String> {
        let work = async { Bucket::open(site.clone()).await.map(|bucket| bucket.site.made.load(Ordering::Relaxed)) };
        LocalSet::new().run_until(work).await
    }

    /// Removes a bucket that was made for a load, once nothing is in it.
    pub async fn remove_made(site: BucketSite) -> Result<(), String> {
        site.made.store(true, Ordering::Relaxed);
        let bucket = Bucket { site, idle: RefCell::default() };
        LocalSet::new().run_until(bucket.finish()).await.map_err(|failure| failure.reason)
    }

    async fn make_if_absent(&self) -> Result<(), Failure> {
        let seen = self.ask(Asked::new(Method::HEAD, "")).await?;
        if seen.status != StatusCode::NOT_FOUND {
            seen.expect(&[StatusCode::OK], "the bucket")?;
            return Ok(());
        }
        let made = self.ask(Asked::new(Method::PUT, "")).await?;
        // Another instance may make it first.
        made.expect(&[StatusCode::OK, StatusCode::CONFLICT], "making the bucket")?;
        self.site.made.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sends a request and reads its answer.
    ///
    /// Errors: none came, or not in time.
    async fn ask(&self, asked: Asked<'_>) -> Result<GatewayAnswer, Failure> {
        match tokio::time::timeout(self.site.timeout, self.exchange(asked)).await {
            Ok(answer) => answer,
            Err(_) => Err(late("no answer", &format!("within {} s", self.site.timeout.as_secs()))),
        }
    }

    async fn exchange(&self, asked: Asked<'_>) -> Result<GatewayAnswer, Failure> {
        let is_head = asked.method == Method::HEAD;
        let request = self.request(asked);
        let mut connection = self.connection().await?;
        let answer = connection.send_request(request).await.map_err(|e| late("no answer", &e))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        let body = match is_head {
            true => Bytes::new(),
            false => whole(answer.into_body()).await.map_err(|e| late("an answer that ends early", &e))?,
        };
        // A connection with an answer that was not read to its end is not used again.
        self.idle.borrow_mut().push(connection);
        Ok(GatewayAnswer { status, headers, body })
    }

    /// A connection without a request.
    async fn connection(&self) -> Result<SendRequest<Whole>, Failure> {
        loop {
            let Some(mut kept) = self.idle.borrow_mut().pop() else { break };
            // The gateway may have closed it meanwhile.
            if kept.ready().await.is_ok() {
                return Ok(kept);
            }
        }
        let refused = |error: &dyn std::fmt::Display| {
            Failure::new(Outcome::Refused, format!("connecting to {}: {error}", self.site.authority))
        };
        let stream = TcpStream::connect(&self.site.authority).await.map_err(|e| refused(&e))?;
        stream.set_nodelay(true).map_err(|e| refused(&e))?;
        let sender = match &self.site.secure {
            None => sender_on(stream).await,
            Some(secure) => sender_on(secure.connect(stream).await.map_err(|e| refused(&e))?).await,
        };
        sender.map_err(|e| refused(&e))
    }

    fn request(&self, asked: Asked<'_>) -> Request<Whole> {
        let BucketSite { authority, bucket, signer, signed_payload, .. } = &self.site;
        let Asked { method, object, query, range, body } = asked;
        let path = if object.is_empty() { format!("/{bucket}") } else { format!("/{bucket}/{object}") };
        let to_sign = Unsigned {
            method: method.as_str(),
            path: &path,
            query,
            host: authority,
            body: signed_payload.then_some(&body[..]),
        };
        let signed = signer.sign(&to_sign, SystemTime::now());
        let address = if query.is_empty() { path } else { format!("{path}?{query}") };
        let mut request = Request::builder()
            .uri(address)
            .header(header::HOST, authority)
            .header("x-amz-date", signed.date)
            .header("x-amz-content-sha256", signed.content)
            .header(header::AUTHORIZATION, signed.authorization);
        if method == Method::PUT {
            request = request.header(header::CONTENT_LENGTH, body.len());
        }
        if let Some((first, length)) = range {
            request = request.header(header::RANGE, format!("bytes={first}-{}", first + length - 1));
        }
        let body = (!body.is_empty()).then_some(body);
        let request = request.method(method).body(Whole(body));
        request.expect("a checked plan's names and addresses can stand in a request")
    }
}

/// Begins to speak HTTP on a connection.
async fn sender_on(stream: impl AsyncRead + AsyncWrite + Unpin + 'static) -> Result<SendRequest<Whole>, hyper::Error> {
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(async move {
        // The request that the connection carries has the error, too.
        let _ = connection.await;
    });
    Ok(sender)
}

/// Reads a body to its end.
async fn whole(mut body: Incoming) -> Result<Bytes, hyper::Error> {
    let expected = usize::try_from(body.size_hint().lower()).unwrap_or(0);
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let Ok(data) = frame?.into_data() else { continue };
        // A body that comes in one piece is not copied.
        if first.is_empty() && all.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.reserve(expected.max(first.len() + data.len()));
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

impl Objects for Bucket {
    async fn write(&self, name: String, _: u64, data: Bytes, whole: bool) -> Result<(), Failure> {
        assert!(whole, "a checked plan writes whole objects");
        let answer = self.ask(Asked { body: data, ..Asked::new(Method::PUT, &name) }).await?;
        answer.expect(&[StatusCode::OK], "PUT").map(drop)
    }

    async fn read(&self, name: String, offset: u64, length: u64) -> Result<Bytes, Failure> {
        let range = Some((offset, length));
        let answer = self.ask(Asked { range, ..Asked::new(Method::GET, &name) }).await?;
        Ok(answer.expect(&[StatusCode::PARTIAL_CONTENT], "GET")?.body)
    }

    async fn read_whole(&self, name: String, _: u64) -> Result<Bytes, Failure> {
        let answer = self.ask(Asked::new(Method::GET, &name)).await?;
        Ok(answer.expect(&[StatusCode::OK], "GET")?.body)
    }

    async fn head(&self, name: String) -> Result<SeenObject, Failure> {
        let answer = self.ask(Asked::new(Method::HEAD, &name)).await?.expect(&[StatusCode::OK], "HEAD")?;
        let length = answer.header(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
        let etag = answer.header(header::ETAG).map(|etag| etag.trim_matches('"').to_owned());
        Ok(SeenObject { length, etag })
    }

    async fn list(&self, prefix: String, after: String, max: u32) -> Result<ListedPage, Failure> {
        let query = format!("list-type=2&max-keys={max}&prefix={prefix}&start-after={after}");
        let answer = self.ask(Asked { query: &query, ..Asked::new(Method::GET, "") }).await?;
        let document = answer.expect(&[StatusCode::OK], "list")?.body;
        let page = std::str::from_utf8(&document).ok().and_then(page_of);
        page.ok_or_else(|| Failure::new(Outcome::Refused, "list: the answer is no page of one".into()))
    }

    async fn remove(&self, name: String) -> Result<(), Failure> {
        let answer = self.ask(Asked::new(Method::DELETE, &name)).await?;
        if answer.is_absent() {
            return Ok(());
        }
        answer.expect(&[StatusCode::NO_CONTENT], "DELETE").map(drop)
    }

    /// Removes the bucket if this iteration has made it. The last instance that has removed its objects can. A bucket
    /// in which somebody else has put objects stays.
    async fn finish(&self) -> Result<(), Failure> {
        if !self.site.made.load(Ordering::Relaxed) {
            return Ok(());
        }
        let wanted = [StatusCode::NO_CONTENT, StatusCode::NOT_FOUND, StatusCode::CONFLICT];
        for _ in 0..EMPTY_TRIES {
            let answer = self.ask(Asked::new(Method::DELETE, "")).await?.expect(&wanted, "removing the bucket")?;
            if answer.status != StatusCode::CONFLICT {
                break;
            }
            // Its list may still name objects that were removed just now.
            tokio::time::sleep(EMPTY_PAUSE).await;
        }
        Ok(())
    }

    fn only_whole_writes(&self) -> bool {
        true
    }
}

//! Listens, serves, and does the work beside requests.

use crate::access_log::AccessLog;
use crate::asker::Peer;
use crate::authority::{Authority, Secrets};
use crate::budget::Budget;
use crate::convert::{Gateway, now};
use crate::dates;
use crate::documents::{Documents, add_headers, cors_headers, preflight};
use crate::encryption::mark_keys;
use crate::expectation::Expectation;
use crate::link::beating;
use crate::logged::{Logged, Numbers};
use crate::notes::NOTES;
use crate::place::{Domain, Place};
use crate::post::is_form;
use crate::regions;
use crate::second_signature;
use crate::service::Service;
use crate::sites::{self, Sites};
use crate::threads::Threads;
use crate::tls::{self, Certificates};
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, ORIGIN};
use http::{Method, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use s3rules::cors::CorsAnswer;
use s3s::access::{S3Access, S3AccessContext};
use s3s::path::check_bucket_name;
use s3s::service::{S3Service, S3ServiceBuilder};
use s3s::validation::NameValidation;
use s3s::{Body, HttpError, HttpResponse, S3Result, StdError};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

/// Interval of the other work beside requests.
const TEND_EVERY: Duration = Duration::from_secs(5);
/// Interval of looks for rounds by lifecycle rules that are due.
const LIFECYCLE_EVERY: Duration = Duration::from_secs(60);
/// Interval of such looks where tests have short days.
const SHORT_LIFECYCLE_EVERY: Duration = Duration::from_secs(1);
/// Time that a client has for the headers of a request.
const HEADERS_WITHIN: Duration = Duration::from_secs(30);
/// Connections at once. Further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 4096;
/// Time that requests under way have, once the gateway is told to stop.
const DRAIN: Duration = Duration::from_secs(20);
/// Bytes of headers of one request.
const HEADERS_MAX_BYTES: usize = 64 << 10;

/// The reason why a gateway ended.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot listen on {0}")]
    Listen(SocketAddr, #[source] std::io::Error),
    #[error("'{0}' is no name of a host, such as s3.example.com")]
    Domain(String),
    /// Another gateway took this one for dead, and its client is shut out of the cluster.
    #[error("another gateway took this one for dead; start it again")]
    TakenForDead,
}

/// A gateway that listens.
pub struct Server {
    listener: TcpListener,
    gateway: Gateway,
    domain: Option<Domain>,
    sites: Sites,
    /// Listens for requests to sites alone.
    sites_listener: Option<TcpListener>,
    /// Shown to clients, all of which have to speak TLS then.
    certificates: Option<Arc<Certificates>>,
    access_log: Option<Arc<AccessLog>>,
    threads: Arc<Threads>,
}

impl Server {
    /// Listens. `domain`: the name of this service, before which clients may put buckets in hosts.
    pub async fn listen(gateway: Gateway, address: SocketAddr, domain: Option<&str>) -> Result<Server, ServerError> {
        let checked = |name: &str| Domain::new(name).map_err(|_| ServerError::Domain(name.to_owned()));
        let domain = domain.map(checked).transpose()?;
        let listener = TcpListener::bind(address).await.map_err(|e| ServerError::Listen(address, e))?;
        Ok(Server {
            listener,
            gateway,
            domain,
            sites: Sites { domain: None },
            sites_listener: None,
            certificates: None,
            access_log: None,
            threads: Arc::default(),
        })
    }

    /// Serves web sites, too. `domain`: the name before which buckets stand in hosts of sites. `address`: where only
    /// requests to sites come; there a host may also be called like its bucket.
    pub async fn with_sites(
        mut self,
        domain: Option<&str>,
        address: Option<SocketAddr>,
    ) -> Result<Server, ServerError> {
        let checked = |name: &str| Domain::new(name).map_err(|_| ServerError::Domain(name.to_owned()));
        self.sites.domain = domain.map(checked).transpose()?;
        if let Some(address) = address {
            let listener = TcpListener::bind(address).await.map_err(|e| ServerError::Listen(address, e))?;
            self.sites_listener = Some(listener);
        }
        Ok(self)
    }

    /// Speaks TLS on all its ports, and follows changes of the certificates' files.
    pub fn with_tls(mut self, certificates: Certificates) -> Server {
        self.certificates = Some(Arc::new(certificates));
        self
    }

    /// Writes a line for each request.
    pub fn with_access_log(mut self, log: Arc<AccessLog>) -> Server {
        self.access_log = Some(log);
        self
    }

    /// Serves connections on these threads, and not on the one that runs it. They may end once the gateway's session
    /// has: requests leave work behind there that goes on without a connection.
    pub fn with_threads(mut self, threads: Arc<Threads>) -> Server {
        self.threads = threads;
        self
    }

    /// `http` or `https`.
    pub fn scheme(&self) -> &'static str {
        if self.certificates.is_some() { "https" } else { "http" }
    }

    /// The address where only requests to sites come.
    pub fn sites_address(&self) -> std::io::Result<Option<SocketAddr>> {
        self.sites_listener.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// The address that is listened on; its port is the one that the system chose, if it was to.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is done, and then ends the requests that are under way.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Server { listener, gateway, domain, sites, sites_listener, certificates, access_log, threads } = self;
        let authority = Arc::new(Authority::new(gateway.clone()));
        let service = Service { gateway: gateway.clone(), authority: authority.clone(), budget: Budget::new() };
        let mut builder = S3ServiceBuilder::new(service.clone());
        builder.set_auth(Secrets(authority));
        builder.set_access(JudgedLater);
        builder.set_validation(NamesOfTenants);
        let forms = service.clone();
        builder.set_route(Documents { service, domain: domain.clone() });
        if let Some(domain) = &domain {
            builder.set_host(domain.clone());
        }
        let (numbers, service) = (Numbers::new(gateway.session()), builder.build());
        let gateway_of = gateway.clone();
        let service = Arc::new(Served { service, forms, gateway: gateway_of, domain, sites, numbers, access_log });
        let (stopping, stopped) = watch::channel(false);
        let mut connections = JoinSet::new();
        let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        // It is not dropped amid a change, but ends between two of them.
        let lifecycle = tokio::spawn(lapsing(gateway.clone(), stopped.clone()));
        let mut work = Box::pin(beside_requests(gateway, certificates.clone()));
        let mut stop = std::pin::pin!(stop);
        let outcome = loop {
            let accepted = async {
                let permit = room.clone().acquire_owned().await;
                let on_sites_port = async {
                    match &sites_listener {
                        Some(listener) => listener.accept().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    accepted = listener.accept() => (accepted, false, permit),
                    accepted = on_sites_port => (accepted, true, permit),
                }
            };
            tokio::select! {
                () = &mut stop => break Ok(()),
                error = &mut work => break Err(error),
                Some(_) = connections.join_next() => {}
                (accepted, for_sites, permit) = accepted => match accepted.and_then(moved) {
                    Ok((stream, peer)) => {
                        let (certificates, service) = (certificates.clone(), service.clone());
                        let about = (peer.ip(), for_sites);
                        let connection = serve(stream, about, certificates, service, stopped.clone());
                        threads.serve(&mut connections, async move {
                            connection.await;
                            drop(permit);
                        });
                    }
                    // Too many open files, or a client that has gone again.
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                },
            }
        };
        drop((listener, sites_listener));
        let _ = stopping.send(true);
        let drained = async {
            while connections.join_next().await.is_some() {}
            let _ = lifecycle.await;
        };
        if outcome.is_ok() {
            // Signs of life go on meanwhile.
            let _ = tokio::time::timeout(DRAIN, async {
                tokio::select! {
                    () = drained => {}
                    _ = &mut work => {}
                }
            })
            .await;
        }
        outcome
    }
}

/// Buckets are called by their names alone, or with their tenants' names before them.
struct NamesOfTenants;

impl NameValidation for NamesOfTenants {
    fn validate_bucket_name(&self, name: &str) -> bool {
        let (tenant, bare) = s3::bucket_parts(name);
        (tenant.is_empty() || s3::is_tenant(tenant)) && check_bucket_name(bare)
    }
}

/// Lets every request pass: each operation asks the rules itself, once it knows what it is about.
struct JudgedLater;

#[async_trait::async_trait]
impl S3Access for JudgedLater {
    async fn check(&self, _: &mut S3AccessContext<'_>) -> S3Result<()> {
        Ok(())
    }
}

/// Everything that connections need.
struct Served {
    service: S3Service,
    /// Stores what forms bring.
    forms: Service,
    gateway: Gateway,
    domain: Option<Domain>,
    sites: Sites,
    numbers: Numbers,
    access_log: Option<Arc<AccessLog>>,
}

impl Served {
    /// Answers a preflight. Browsers do not sign it, also where the query has the signature of the request behind it.
    async fn preflight(
        &self,
        (place, is_site): (Option<Place>, bool),
        request: &Request<Incoming>,
    ) -> Result<HttpResponse, HttpError> {
        let place = self.in_tenant(place, is_site, request).await;
        answered(preflight(&self.gateway, place, request.headers()).await.map(|allowed| {
            let mut response = HttpResponse::new(Body::empty());
            add_headers(response.headers_mut(), allowed);
            response
        }))
    }

    /// Answers a request that is no preflight.
    async fn call(&self, request: Request<Body>) -> Result<HttpResponse, HttpError> {
        if is_form(request.method(), request.headers()) {
            return answered(self.forms.form(self.domain.as_ref(), request).await);
        }
        self.service.call(request).await
    }

    /// A place with the bucket's whole name, where the signature is not checked yet, or never is. Who asks for a site
    /// is nobody, and forms have their signatures among their fields.
    async fn in_tenant(&self, place: Option<Place>, is_site: bool, request: &Request<Incoming>) -> Option<Place> {
        let Place { bucket, key } = place?;
        let tenant = match is_site || is_form(request.method(), request.headers()) {
            true => String::new(),
            false => self.forms.authority.claimed_tenant(request.headers(), request.uri()).await,
        };
        Some(Place { bucket: s3::bucket_called(&bucket, &tenant), key })
    }

    /// Headers that let a page of another origin see the answer to a request, as the bucket's CORS rules tell.
    async fn shared_with(&self, (place, is_site): (Option<Place>, bool), request: &Request<Incoming>) -> CorsAnswer {
        let Some(place) = self.in_tenant(place, is_site, request).await else { return Vec::new() };
        // A bucket that is not there is told by the answer itself.
        let Ok((_, settings)) = self.gateway.bucket_and_settings(&place.bucket).await else { return Vec::new() };
        let cors = settings.cors.as_ref();
        cors.map_or_else(Vec::new, |cors| cors.answer(request.method().as_str(), &cors_headers(request.headers())))
    }
}

/// An answer, or a refusal as one.
fn answered(outcome: S3Result<HttpResponse>) -> Result<HttpResponse, HttpError> {
    outcome.or_else(|error| error.to_http_response().map_err(|error| HttpError::new(Box::new(error))))
}

/// Takes a connection out of its runtime, so that another one may serve it.
fn moved((stream, peer): (TcpStream, SocketAddr)) -> std::io::Result<(std::net::TcpStream, SocketAddr)> {
    Ok((stream.into_std()?, peer))
}

/// Serves a connection, on the runtime of whoever calls.
async fn serve(
    stream: std::net::TcpStream,
    (address, for_sites): (IpAddr, bool),
    certificates: Option<Arc<Certificates>>,
    service: Arc<Served>,
    mut stopped: watch::Receiver<bool>,
) {
    // A small answer goes out at once, not when the client has acknowledged an earlier one.
    let stream = match stream.set_nodelay(true).and_then(|()| TcpStream::from_std(stream)) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::debug!("{error}");
            return;
        }
    };
    let Some(certificates) = certificates else {
        let peer = Peer { address, tls: None };
        return serve_requests(stream, (peer, for_sites), service, stopped).await;
    };
    let accepted = tokio::select! {
        accepted = certificates.accept(stream) => accepted,
        _ = stopped.wait_for(|stopped| *stopped) => None,
    };
    if let Some(stream) = accepted {
        let peer = Peer { address, tls: Some(tls::version(&stream)) };
        serve_requests(stream, (peer, for_sites), service, stopped).await;
    }
}

async fn serve_requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    (peer, for_sites): (Peer, bool),
    service: Arc<Served>,
    mut stopped: watch::Receiver<bool>,
) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN).max_buf_size(HEADERS_MAX_BYTES);
    let service = service_fn(move |request| answer(service.clone(), (peer, for_sites), request));
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(stream), service));
    let told = async {
        // Without a sender the gateway is gone, too.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    };
    let outcome = tokio::select! {
        outcome = &mut connection => outcome,
        () = told => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = outcome {
        tracing::debug!("a connection ended: {error}");
    }
}

/// True for `GetObjectAttributes`.
fn is_about_attributes(method: &Method, uri: &Uri) -> bool {
    let names =
        uri.query().unwrap_or_default().split('&').map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name));
    method == Method::GET && names.into_iter().any(|name| name == "attributes")
}

/// Takes the quotes of the ETag out of the attributes of an object, where S3 has none. The wire layer writes them.
fn without_quotes(response: &mut HttpResponse) {
    const BEGIN: &[u8] = b"<ETag>\"";
    const END: &[u8] = b"\"</ETag>";
    let Some(body) = response.body().bytes() else { return };
    let at = |text: &[u8], from: usize| body[from..].windows(text.len()).position(|window| window == text);
    let Some(begin) = at(BEGIN, 0) else { return };
    let etag = begin + BEGIN.len();
    let Some(len) = at(END, etag) else { return };
    let rest = &body[etag + len + END.len()..];
    let body = [&body[..begin], b"<ETag>", &body[etag..etag + len], b"</ETag>", rest].concat();
    response.headers_mut().remove(CONTENT_LENGTH);
    *response.body_mut() = Body::from(body);
}

/// Answers one request, with its number, and writes its line.
async fn answer(
    served: Arc<Served>,
    (peer, for_sites): (Peer, bool),
    mut request: Request<Incoming>,
) -> Result<Response<impl hyper::body::Body<Data = Bytes, Error = StdError>>, HttpError> {
    request.extensions_mut().insert(peer);
    mark_keys(request.headers_mut());
    let site = served.sites.bucket(for_sites, request.headers());
    let place = match &site {
        Some(bucket) => Some(Place { bucket: bucket.clone(), key: None }),
        None => Place::of(served.domain.as_ref(), request.headers(), request.uri()),
    };
    let about = (site.as_ref(), place.as_ref());
    let logged = Logged::begin(&served.numbers, served.access_log.as_ref(), &peer, about, &request);
    let expectation = Expectation::of(request.headers());
    let answer = answer_logged(&served, (site, place), (&logged, &expectation), request);
    let mut response = NOTES.scope(logged.notes(), answer).await?;
    expectation.answered(&mut response);
    Ok(logged.answer(response))
}

async fn answer_logged(
    served: &Served,
    (site, place): (Option<String>, Option<Place>),
    (logged, expectation): (&Logged, &Expectation),
    request: Request<Incoming>,
) -> Result<HttpResponse, HttpError> {
    if request.method() == Method::OPTIONS {
        return served.preflight((place, site.is_some()), &request).await;
    }
    if site.is_none() && regions::is_malformed(&request) {
        return Ok(regions::expected());
    }
    if site.is_none()
        && let Err(refusal) = dates::check(&request, now())
    {
        return answered(Err(refusal));
    }
    // Forms have their signatures among their fields.
    if site.is_none() && !is_form(request.method(), request.headers()) {
        let about = (request.method(), request.uri(), request.headers());
        if let Err(refusal) = second_signature::check(&served.forms.authority, served.domain.as_ref(), about).await {
            return answered(Err(refusal));
        }
    }
    let is_about_attributes = is_about_attributes(request.method(), request.uri());
    let shared = match request.headers().contains_key(ORIGIN) {
        true => served.shared_with((place, site.is_some()), &request).await,
        false => Vec::new(),
    };
    let mut response = match site {
        Some(bucket) => sites::answer(&served.forms, &served.service, &bucket, request).await?,
        None => served.call(request.map(|body| expectation.body(logged.body(body)))).await?,
    };
    if is_about_attributes {
        without_quotes(&mut response);
    }
    add_headers(response.headers_mut(), shared);
    Ok(response)
}

/// Signs of life, and what is due beside requests. Ends only where the gateway has to.
async fn beside_requests(gateway: Gateway, certificates: Option<Arc<Certificates>>) -> ServerError {
    let followed = async {
        match certificates {
            Some(certificates) => certificates.followed().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        never = followed => match never {},
        () = beating(&gateway) => ServerError::TakenForDead,
        error = tending(gateway.clone()) => error,
    }
}

async fn tending(gateway: Gateway) -> ServerError {
    loop {
        tokio::time::sleep(TEND_EVERY).await;
        match gateway.tend().await {
            Ok(()) => {}
            Err(s3::Error::Rados(s3::RadosError::Fenced)) => return ServerError::TakenForDead,
            Err(error) => tracing::warn!("work beside requests waits: {error}"),
        }
    }
}

/// Rounds by lifecycle rules, until the gateway stops.
async fn lapsing(gateway: Gateway, mut stopped: watch::Receiver<bool>) {
    let every = match gateway.settings().lifecycle_day_s {
        Some(_) => SHORT_LIFECYCLE_EVERY,
        None => LIFECYCLE_EVERY,
    };
    let seen = stopped.clone();
    let goes_on = move || !*seen.borrow();
    loop {
        let told = async {
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        tokio::select! {
            () = told => return,
            () = tokio::time::sleep(every) => {}
        }
        match gateway.lifecycle(&goes_on).await {
            Ok(s3::Lapsed { buckets: 0, versions: 0, uploads: 0, kept: 0 }) => {}
            Ok(s3::Lapsed { buckets, versions, uploads, kept }) => {
                tracing::info!(buckets, versions, uploads, kept, "lifecycle rules were carried out");
            }
            // The sign of life meets the same, and ends the gateway.
            Err(s3::Error::Rados(s3::RadosError::Fenced)) => return,
            Err(error) => tracing::warn!("lifecycle rules were not carried out everywhere: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn etags_of_attributes_have_no_quotes() {
        let check = |given: &str, expected: &str| {
            let mut response = HttpResponse::new(Body::from(given.to_owned()));
            response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(given.len()));
            without_quotes(&mut response);
            assert_eq!(response.body().bytes().as_deref(), Some(expected.as_bytes()));
            let length = response.headers().get(CONTENT_LENGTH);
            assert!(length.is_none() || given == expected, "{length:?}");
        };
        check("<A><ETag>\"ab-2\"</ETag><B>\"b\"</B></A>", "<A><ETag>ab-2</ETag><B>\"b\"</B></A>");
        for same in ["", "<A><ObjectSize>3</ObjectSize></A>", "<A><ETag>ab</ETag></A>", "<A><ETag>\"ab</A>"] {
            check(same, same);
        }
        let is = |method: Method, uri: &str| is_about_attributes(&method, &uri.parse().expect("an address"));
        assert!(is(Method::GET, "/b/k?versionId=1&attributes") && is(Method::GET, "/b/k?attributes="));
        assert!(
            !is(Method::GET, "/b/attributes")
                && !is(Method::PUT, "/b/k?attributes")
                && !is(Method::GET, "/b/k?x=attributes")
        );
    }
}

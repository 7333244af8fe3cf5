//! Buckets as web sites: pages, error pages and redirects for browsers, which sign nothing.
//!
//! A site has a host of its own: the bucket before the name of all sites or, on the port that is for sites alone, any
//! host that is called like the bucket. The rules of the site tell which object a path means. Its bytes are answered as
//! they are to a GET of the object, also in ranges and by conditions.

use crate::asker::{Asked, Peer, Visit};
use crate::convert::{REDIRECT, unset};
use crate::place::Domain;
use crate::service::Service;
use http::header::{
    AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE, LOCATION, RANGE, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use hyper::body::Incoming;
use s3rules::policy::Action;
use s3rules::rate::Direction;
use s3rules::website::{WebAnswer, WebProtocol, WebRequest};
use s3rules::{percent_decode_path, percent_encode};
use s3s::service::S3Service;
use s3s::{Body, HttpError, HttpResponse, S3Error, S3ErrorCode, S3Result};

/// Hosts of sites.
pub(crate) struct Sites {
    /// The name before which buckets stand.
    pub domain: Option<Domain>,
}

impl Sites {
    /// The bucket whose site a host is. `on_own_port`: the request has come to the port for sites.
    pub fn bucket(&self, on_own_port: bool, headers: &HeaderMap) -> Option<String> {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let found = self.domain.as_ref().and_then(|domain| domain.bucket_of_host(host));
        found.or_else(|| {
            let name = host.split(':').next().unwrap_or_default().to_ascii_lowercase();
            on_own_port.then_some(name)
        })
    }
}

/// An answer of a site, as its rules tell.
enum Page {
    Object(String),
    /// The object of this key in place of an error.
    Instead(String, S3Error),
    Redirect(StatusCode, String),
}

/// A request to a site.
struct Guest<'a> {
    service: &'a Service,
    bucket: &'a str,
    method: Method,
    key: String,
    host: String,
    /// Without those that would sign the request, or tell about a body.
    headers: HeaderMap,
    peer: Peer,
}

/// Answers a request to the site of a bucket.
pub(crate) async fn answer(
    service: &Service,
    objects: &S3Service,
    bucket: &str,
    request: Request<Incoming>,
) -> Result<HttpResponse, HttpError> {
    let (request, _) = request.into_parts();
    let path = percent_decode_path(request.uri.path());
    let host = request.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default().to_owned();
    let peer = Peer::of(&request.extensions);
    let key = path.as_deref().map(|path| path.strip_prefix('/').unwrap_or(path).to_owned());
    let guest = Guest {
        service,
        bucket,
        method: request.method,
        key: key.unwrap_or_default(),
        host,
        headers: passed_on(request.headers),
        peer,
    };
    let page = match path {
        Some(_) => guest.page().await,
        None => Err(S3Error::new(S3ErrorCode::InvalidURI)),
    };
    match page {
        Ok(Page::Object(key)) => guest.object(objects, &key, None).await,
        Ok(Page::Instead(key, error)) => guest.object(objects, &key, Some(error)).await,
        Ok(Page::Redirect(status, to)) => Ok(redirect(status, &to)),
        Err(error) => Ok(error_page(bucket, &guest.key, &error)),
    }
}

/// Headers of a request that count on a site.
fn passed_on(headers: HeaderMap) -> HeaderMap {
    let is_left_out = |name: &HeaderName| {
        [AUTHORIZATION, HOST, CONTENT_LENGTH, TRANSFER_ENCODING, EXPECT].contains(name)
            || name.as_str().starts_with("x-amz-")
    };
    let mut passed = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| !is_left_out(name)) {
        passed.append(name.clone(), value.clone());
    }
    passed
}

impl Guest<'_> {
    /// The address of an object, whatever the host is.
    fn address(&self, key: &str) -> S3Result<Uri> {
        let path = format!("/{}/{}", percent_encode(self.bucket, ""), percent_encode(key, "/"));
        path.parse().map_err(|_| S3Error::new(S3ErrorCode::InvalidURI))
    }

    /// The answer by the rules of the site. Errors: those of reading the page, `NoSuchWebsiteConfiguration`.
    async fn page(&self) -> S3Result<Page> {
        if ![Method::GET, Method::HEAD].contains(&self.method) {
            return Err(S3Error::with_message(S3ErrorCode::MethodNotAllowed, "a web site can only be read"));
        }
        let uri = self.address(&self.key)?;
        let asked = Asked {
            credentials: None,
            headers: &self.headers,
            uri: &uri,
            peer: self.peer,
            tags: None,
            form_signature: None,
            direction: Direction::Read,
        };
        let authority = &self.service.authority;
        // The GET of an object counts for rate limits by itself.
        let visit = authority.visit_uncounted(asked, self.bucket).await?;
        let page = self.page_by(&visit).await;
        if !matches!(page, Ok(Page::Object(_) | Page::Instead(..))) {
            authority.meter(&visit, Direction::Read)?;
        }
        page
    }

    async fn page_by(&self, visit: &Visit) -> S3Result<Page> {
        let none = || unset("NoSuchWebsiteConfiguration");
        let site = visit.settings.website.as_ref().ok_or_else(none)?;
        let protocol = if self.peer.tls.is_some() { WebProtocol::Https } else { WebProtocol::Http };
        let web = WebRequest { protocol, host: &self.host, key: &self.key };
        let redirect = |status, to| {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::MOVED_PERMANENTLY);
            Ok(Page::Redirect(status, to))
        };
        let key = match site.route(&web) {
            WebAnswer::Redirect { status, location } => return redirect(status, location),
            WebAnswer::Object(key) => key,
            WebAnswer::ErrorPage(_) | WebAnswer::Error => return Err(S3Error::new(S3ErrorCode::NoSuchKey)),
        };
        let look = async |key: &str| visit.head(&self.service.gateway, Action::GetObject, (key, None)).await;
        let error = match look(&key).await {
            Ok(head) => {
                return match head.headers.get(REDIRECT) {
                    Some(to) => redirect(StatusCode::MOVED_PERMANENTLY.as_u16(), to.clone()),
                    None => Ok(Page::Object(key)),
                };
            }
            Err(error) => error,
        };
        if let Some(index) = site.folder_index(&key)
            && look(&index).await.is_ok()
            && let WebAnswer::Redirect { status, location } = site.to_folder(&web)
        {
            return redirect(status, location);
        }
        match site.on_error(&web, status_of(&error).as_u16()) {
            WebAnswer::Redirect { status, location } => redirect(status, location),
            WebAnswer::ErrorPage(key) if look(&key).await.is_ok() => Ok(Page::Instead(key, error)),
            WebAnswer::Object(_) | WebAnswer::ErrorPage(_) | WebAnswer::Error => Err(error),
        }
    }

    /// The answer to a GET of an object, with the status of an error if it stands for one.
    async fn object(&self, objects: &S3Service, key: &str, error: Option<S3Error>) -> Result<HttpResponse, HttpError> {
        let uri = match self.address(key) {
            Ok(uri) => uri,
            Err(error) => return Ok(error_page(self.bucket, key, &error)),
        };
        let mut request = Request::new(Body::empty());
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        request.headers_mut().insert(HOST, HeaderValue::from_static("localhost"));
        request.extensions_mut().insert(self.peer);
        if error.is_some() {
            for name in [RANGE, IF_MATCH, IF_NONE_MATCH, IF_MODIFIED_SINCE, IF_UNMODIFIED_SINCE] {
                request.headers_mut().remove(name);
            }
        }
        let mut response = objects.call(request).await?;
        if let Some(error) = error
            && response.status().is_success()
        {
            *response.status_mut() = status_of(&error);
            add_code(&mut response, &error);
        }
        Ok(response)
    }
}

fn status_of(error: &S3Error) -> StatusCode {
    error.status_code().unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn redirect(status: StatusCode, to: &str) -> HttpResponse {
    let mut response = HttpResponse::new(Body::empty());
    *response.status_mut() = status;
    // A place that cannot stand in a header was refused when it was stored.
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(LOCATION, to);
    }
    response
}

fn add_code(response: &mut HttpResponse, error: &S3Error) {
    if let Ok(code) = HeaderValue::from_str(error.code().as_str()) {
        response.headers_mut().insert("x-amz-error-code", code);
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// An error for people.
fn error_page(bucket: &str, key: &str, error: &S3Error) -> HttpResponse {
    let status = status_of(error);
    let mut lines = vec![format!("Code: {}", error.code().as_str())];
    lines.extend(error.message().map(|message| format!("Message: {message}")));
    lines.push(format!("BucketName: {bucket}"));
    lines.push(format!("Key: {key}"));
    let lines: String = lines.iter().map(|line| format!("<li>{}</li>\n", escaped(line))).collect();
    let page = format!(
        "<html>\n<head><title>{status}</title></head>\n<body>\n<h1>{status}</h1>\n<ul>\n{lines}</ul>\n</body>\n</html>\n"
    );
    let mut response = HttpResponse::new(Body::from(bytes::Bytes::from(page)));
    *response.status_mut() = status;
    // Such as `Retry-After`.
    response.headers_mut().extend(error.headers().cloned().unwrap_or_default());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    add_code(&mut response, error);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_have_hosts_of_their_own() {
        let sites = |domain: Option<&str>| Sites { domain: domain.map(|name| Domain::new(name).expect("a name")) };
        for (domain, on_own_port, host, bucket) in [
            (Some("web.test"), false, "Docs.web.test:8333", Some("docs")),
            (Some("web.test"), false, "web.test", None),
            (Some("web.test"), false, "s3.test", None),
            (Some("web.test"), true, "docs.web.test", Some("docs")),
            (Some("web.test"), true, "www.Example.com:80", Some("www.example.com")),
            (None, true, "docs:8334", Some("docs")),
            (None, false, "docs", None),
        ] {
            let headers = HeaderMap::from_iter([(HOST, host.parse().expect("a host"))]);
            assert_eq!(sites(domain).bucket(on_own_port, &headers).as_deref(), bucket, "{host}");
        }
    }

    #[test]
    fn errors_are_pages() {
        let error = S3Error::with_message(S3ErrorCode::NoSuchKey, "there is no <such> object");
        let response = error_page("docs", "a&b", &error);
        assert_eq!(
            (response.status(), &response.headers()["x-amz-error-code"]),
            (StatusCode::NOT_FOUND, &HeaderValue::from_static("NoSuchKey"))
        );
        assert_eq!(response.headers()[CONTENT_TYPE], "text/html; charset=utf-8");
        assert_eq!(escaped("<a href=\"&\">"), "&lt;a href=&quot;&amp;&quot;&gt;");
    }

    #[test]
    fn guests_sign_nothing() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "host", "x-amz-date", "content-length", "range", "referer", "cookie"] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        let passed = passed_on(headers);
        let names: Vec<&str> = passed.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["range", "referer", "cookie"]);
    }
}

//! The bucket and key of an address, in the path alone or with the bucket in the host.

use http::{HeaderMap, Uri};
use s3s::host::{S3Host, VirtualHost};
use s3s::{S3Result, host::DomainError};
use std::net::{IpAddr, SocketAddr};

/// A bucket, or a key in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub bucket: String,
    pub key: Option<String>,
}

fn is_address(host: &str) -> bool {
    host.parse::<SocketAddr>().is_ok() || host.parse::<IpAddr>().is_ok()
}

impl Place {
    /// The place of a request. `domain`: the name of this service, before which buckets may stand. `None` if the
    /// request is about no bucket, or its path is not percent-encoded UTF-8.
    pub fn of(domain: Option<&Domain>, headers: &HeaderMap, uri: &Uri) -> Option<Place> {
        let host = headers.get(http::header::HOST).and_then(|host| host.to_str().ok());
        let path = s3rules::percent_decode_path(uri.path())?;
        let path = path.strip_prefix('/').unwrap_or(&path);
        let some = |key: &str| Some(key.to_owned()).filter(|key| !key.is_empty());
        if let Some(bucket) = domain.zip(host).and_then(|(domain, host)| domain.bucket_of_host(host)) {
            return Some(Place { bucket, key: some(path) });
        }
        let (bucket, key) = path.split_once('/').unwrap_or((path, ""));
        some(bucket).map(|bucket| Place { bucket, key: some(key) })
    }
}

/// The name of this service in lower case, before which buckets may stand in hosts. Other hosts have the bucket in the
/// path.
#[derive(Clone)]
pub(crate) struct Domain(String);

impl Domain {
    /// Errors: for what is no name of a host.
    pub fn new(name: &str) -> Result<Domain, DomainError> {
        s3s::host::SingleDomain::new(name)?;
        if name.contains(':') {
            return Err(DomainError::InvalidDomain);
        }
        Ok(Domain(name.to_ascii_lowercase()))
    }

    /// The bucket that a host has before this name, in lower case.
    pub fn bucket_of_host(&self, host: &str) -> Option<String> {
        if is_address(host) {
            return None;
        }
        let name = match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
            _ => host,
        };
        let name = name.to_ascii_lowercase();
        Some(name.strip_suffix(&self.0)?.strip_suffix('.')?.to_owned())
            .filter(|bucket| !bucket.is_empty() && !bucket.contains(':'))
    }
}

impl S3Host for Domain {
    fn parse_host_header<'a>(&'a self, host: &'a str) -> S3Result<VirtualHost<'a>> {
        let found = VirtualHost::new(host);
        Ok(match self.bucket_of_host(host) {
            Some(bucket) => found.with_bucket(bucket),
            None => found,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_stand_in_paths_or_hosts() {
        let place = |domain: Option<&str>, host: &str, uri: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("host", host.parse().expect("a host"));
            Place::of(domain.map(|name| Domain(name.into())).as_ref(), &headers, &uri.parse().expect("an address"))
        };
        let is = |bucket: &str, key: Option<&str>| Some(Place { bucket: bucket.into(), key: key.map(str::to_owned) });
        let domain = Some("s3.test");
        for (domain, host, uri, expected) in [
            (None, "s3.test", "/b", is("b", None)),
            (None, "s3.test", "/b/", is("b", None)),
            (None, "s3.test", "/b/k/%C3%A4+%2F", is("b", Some("k/ä+/"))),
            (None, "b.s3.test", "/c/k", is("c", Some("k"))),
            (None, "s3.test", "/", None),
            (domain, "s3.test:8333", "/b/k", is("b", Some("k"))),
            (domain, "B.s3.test:8333", "/b/k", is("b", Some("b/k"))),
            (domain, "a.b.s3.test", "/?acl", is("a.b", None)),
            (domain, "127.0.0.1:8333", "/b/k", is("b", Some("k"))),
            (domain, "localhost:8333", "/b/k", is("b", Some("k"))),
            (domain, "others3.test", "/b/k", is("b", Some("k"))),
            (domain, ".s3.test", "/b", is("b", None)),
            (domain, "t:b.s3.test", "/c/k", is("c", Some("k"))),
            (None, "s3.test", "/%FF", None),
        ] {
            assert_eq!(place(domain, host, uri), expected, "{domain:?} {host} {uri}");
            let parsed =
                Domain("s3.test".into()).parse_host_header(host).expect("every host will do").bucket().is_some();
            let in_host = host
                .to_ascii_lowercase()
                .split(':')
                .next()
                .is_some_and(|host| host.strip_suffix(".s3.test").is_some_and(|bucket| !bucket.is_empty()));
            assert_eq!(parsed, in_host, "{host}");
        }
        assert!(Domain::new("s3.test").is_ok());
        assert!(Domain::new("").is_err() && Domain::new("a b").is_err() && Domain::new("s3.test:1").is_err());
    }
}

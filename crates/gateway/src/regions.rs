//! Names of regions in signatures. A client may sign for any region that is named as AWS names its own; s3cmd signs for
//! `US` until a service names another one.

use http::header::AUTHORIZATION;
use http::{HeaderValue, Request, StatusCode};
use s3s::{Body, HttpResponse};

/// The region that is named to clients which sign for none that there could be.
const OWN: &str = "us-east-1";

/// True if a request is signed for a name that no region can have: anything but small letters, digits and hyphens.
pub(crate) fn is_malformed<B>(request: &Request<B>) -> bool {
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let in_header = header.and_then(|value| value.split_once("Credential=")).map(|(_, rest)| rest.split(',').next());
    let in_query = || {
        let pairs = request.uri().query()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| *name == "X-Amz-Credential").map(|(_, value)| value)
    };
    let credential = match in_header.flatten() {
        Some(credential) => credential.to_owned(),
        None => in_query().unwrap_or_default().replace("%2F", "/").replace("%2f", "/"),
    };
    // KEY/DATE/REGION/SERVICE/aws4_request; a key may have slashes.
    let region = credential.rsplit('/').nth(2).unwrap_or_default();
    !region.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

/// The answer to such a request, by which clients sign again for the region that it names.
pub(crate) fn expected() -> HttpResponse {
    let body = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><Error><Code>AuthorizationHeaderMalformed</Code><Message>The \
         signature names a region that does not exist; expecting '{OWN}'</Message><Region>{OWN}</Region></Error>"
    );
    let mut response = HttpResponse::new(Body::from(body));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    response.headers_mut().insert("x-amz-bucket-region", HeaderValue::from_static(OWN));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(credential: &str) -> Request<()> {
        let value = format!("AWS4-HMAC-SHA256 Credential={credential},SignedHeaders=host,Signature=00");
        Request::builder().uri("/bucket/key").header(AUTHORIZATION, value).body(()).unwrap()
    }

    fn presigned(credential: &str) -> Request<()> {
        let uri = format!("/bucket/key?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={credential}&X-Amz-Date=x");
        Request::builder().uri(uri).body(()).unwrap()
    }

    #[test]
    fn regions_that_cannot_be_are_told_from_others() {
        for region in ["us-east-1", "default", "auto", "", "eu-central-1"] {
            assert!(!is_malformed(&signed(&format!("KEY/20261128/{region}/s3/aws4_request"))), "{region}");
            assert!(!is_malformed(&presigned(&format!("K%2F20261128%2F{region}%2Fs3%2Faws4_request"))), "{region}");
        }
        for region in ["US", "EU", "us_east", "a b"] {
            assert!(is_malformed(&signed(&format!("KEY/20261128/{region}/s3/aws4_request"))), "{region}");
        }
        assert!(is_malformed(&presigned("K%2f20261128%2fUS%2fs3%2faws4_request")));
        assert!(!is_malformed(&signed("A/KEY/WITH/Slashes/20261128/us-east-1/s3/aws4_request")));
        // Without a signature of this kind there is no region; who asks so is told by others.
        for value in ["AWS KEY:signature", "Credential=", "AWS4-HMAC-SHA256 Credential=nothing"] {
            assert!(!is_malformed(&Request::builder().uri("/").header(AUTHORIZATION, value).body(()).unwrap()));
        }
        assert!(!is_malformed(&Request::builder().uri("/bucket?list-type=2").body(()).unwrap()));
    }
}

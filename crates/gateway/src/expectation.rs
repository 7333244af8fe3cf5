//! `Expect: 100-continue`: the client waits to be told to go on before it sends the body.

use crate::watched::{Polled, Watched};
use http::header::{CONNECTION, EXPECT};
use http::{HeaderMap, HeaderValue};
use hyper::body::Body;
use s3s::HttpResponse;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells whether a client that waits was told to go on: it is when the body is read for the first time.
pub(crate) struct Expectation {
    /// None: the client does not wait.
    went_on: Option<Arc<AtomicBool>>,
}

impl Expectation {
    pub fn of(headers: &HeaderMap) -> Expectation {
        Expectation { went_on: headers.contains_key(EXPECT).then(Arc::default) }
    }

    /// The body of the request, whose first read is noticed. Nobody is told to go on who announces no bytes.
    pub fn body(&self, body: s3s::Body) -> s3s::Body {
        match &self.went_on {
            Some(went_on) if !body.is_end_stream() => {
                let went_on = went_on.clone();
                let look = move |_: &Polled<s3s::StdError>, _: &s3s::Body| went_on.store(true, Ordering::Relaxed);
                s3s::Body::http_body(Watched { body, look })
            }
            _ => body,
        }
    }

    /// Makes the answer the connection's last one if the client was not told to go on. Nobody knows whether it still
    /// sends the body, which would be taken for the next request, or the next request for the body; and boto3 may take
    /// the answer for that of the next request.
    pub fn answered(self, response: &mut HttpResponse) {
        if self.went_on.is_some_and(|went_on| !went_on.load(Ordering::Relaxed)) {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use std::pin::Pin;

    async fn is_last(expects: bool, is_read: bool, bytes: &'static str) -> bool {
        let mut headers = HeaderMap::new();
        if expects {
            headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
        }
        let expectation = Expectation::of(&headers);
        let mut body = expectation.body(s3s::Body::from(bytes.to_owned()));
        if is_read {
            let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await;
            let data = frame.map(|frame| frame.expect("a frame").into_data().expect("bytes"));
            assert_eq!(data.unwrap_or_default(), bytes);
        }
        let mut response = HttpResponse::new(s3s::Body::empty());
        expectation.answered(&mut response);
        response.headers().get(CONNECTION).is_some_and(|value| value == "close")
    }

    #[tokio::test]
    async fn an_answer_is_the_last_one_where_the_client_waits_in_vain() {
        assert!(is_last(true, false, "bytes").await);
        assert!(is_last(true, true, "").await && is_last(true, false, "").await, "it does not hear it without bytes");
        for (expects, is_read) in [(true, true), (false, true), (false, false)] {
            assert!(!is_last(expects, is_read, "bytes").await, "{expects} {is_read}");
            assert!(expects || !is_last(expects, is_read, "").await, "{is_read}");
        }
    }
}

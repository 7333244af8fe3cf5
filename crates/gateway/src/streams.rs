//! Bodies of requests for the core, and of answers for clients.

use crate::budget::Reserved;
use crate::convert::{CHECKSUMS, told};
use crate::link::Link;
use bytes::Bytes;
use futures_core::Stream;
use http::HeaderMap;
use s3::{Body, ChecksumKind, Code, Error, ReadStream};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Result, TrailingHeaders};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::mpsc;

/// Time for which a client may send nothing of a body, or take nothing of one.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// Pieces of an answer that are read ahead of the client.
const AHEAD: usize = 2;

/// Bytes of a body, as far as the request tells: one in signed chunks has the length of its content in a header of its
/// own, and may have no other.
pub(crate) fn told_size(headers: &HeaderMap, content_length: Option<i64>) -> Option<u64> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_in_chunks = text("x-amz-content-sha256").is_some_and(|kind| kind.starts_with("STREAMING-"));
    let decoded = || text("x-amz-decoded-content-length").filter(|_| is_in_chunks)?.parse().ok();
    content_length.and_then(|size| u64::try_from(size).ok()).or_else(decoded)
}

/// The digest of a body that its header `Content-MD5` tells. An empty header tells none, and is one. Errors:
/// `InvalidDigest`.
pub(crate) fn told_md5(headers: &HeaderMap) -> S3Result<Option<[u8; 16]>> {
    let Some(value) = headers.get("content-md5") else { return Ok(None) };
    let text = value.to_str().map_err(|_| S3Error::new(S3ErrorCode::InvalidDigest))?;
    s3::content_md5(text).map(Some).map_err(told)
}

/// The body of a request.
pub(crate) struct Incoming {
    blob: Option<StreamingBlob>,
    trailers: Option<TrailingHeaders>,
    kind: Option<ChecksumKind>,
}

impl Incoming {
    /// `kind`: the checksum that may come behind the bytes.
    pub fn new(blob: Option<StreamingBlob>, trailers: Option<TrailingHeaders>, kind: Option<ChecksumKind>) -> Incoming {
        Incoming { blob, trailers, kind }
    }
}

impl Body for Incoming {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        let Some(blob) = &mut self.blob else { return Ok(None) };
        let piece = std::future::poll_fn(|context| Pin::new(&mut *blob).poll_next(context));
        match tokio::time::timeout(SILENCE_MAX, piece).await {
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(Code::IncompleteBody.because(format!("the body is not whole: {error}"))),
            Ok(None) => Ok(None),
            Err(_) => {
                let seconds = SILENCE_MAX.as_secs();
                Err(Code::IncompleteBody.because(format!("nothing of the body came for {seconds} s")))
            }
        }
    }

    fn trailing_checksum(&mut self) -> Option<String> {
        let (_, _, name) = CHECKSUMS.into_iter().find(|(kind, ..)| Some(*kind) == self.kind)?;
        self.trailers.as_ref()?.read(|headers| Some(headers.get(name)?.to_str().ok()?.to_owned()))?
    }
}

/// Why an answer ends before its end.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Broken(Error);

struct Outgoing(mpsc::Receiver<Result<Bytes, Broken>>);

impl Stream for Outgoing {
    type Item = Result<Bytes, Broken>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_recv(context)
    }
}

/// The bytes of an object as the body of an answer. One that cannot be read to its end ends the connection.
pub(crate) async fn outgoing(
    mut stream: ReadStream<Link>,
    bytes: u64,
    memory: Reserved,
) -> Result<StreamingBlob, Error> {
    // The first piece is read before the answer begins, so that an object that is gone gives an error.
    let first = stream.next().await?.unwrap_or_default();
    if first.len() as u64 == bytes {
        return Ok(StreamingBlob::from(s3s::Body::from(first)));
    }
    let (sender, receiver) = mpsc::channel(AHEAD);
    tokio::spawn(async move {
        let _memory = memory;
        let mut piece = Ok(Some(first));
        while let Some(item) = piece.transpose() {
            let is_over = item.is_err();
            // A client that has gone away drops the receiver; one that takes nothing is given up.
            let sent = tokio::time::timeout(SILENCE_MAX, sender.send(item.map_err(Broken))).await;
            if !matches!(sent, Ok(Ok(()))) || is_over {
                return;
            }
            piece = stream.next().await;
        }
    });
    Ok(StreamingBlob::wrap(Outgoing(receiver)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn an_empty_digest_is_none() {
        let of = |text: Option<&'static str>| {
            let headers =
                text.map(|text| (http::HeaderName::from_static("content-md5"), HeaderValue::from_static(text)));
            told_md5(&headers.into_iter().collect())
        };
        assert!(of(Some("1B2M2Y8AsgTpgAmY7PhCfg==")).is_ok_and(|digest| digest.is_some()));
        assert!(of(None).is_ok_and(|digest| digest.is_none()));
        assert!(of(Some("")).is_err_and(|error| *error.code() == S3ErrorCode::InvalidDigest));
    }

    #[test]
    fn sizes_of_bodies() {
        let of = |kind: &'static str, decoded: &'static str, length| {
            let mut headers = HeaderMap::new();
            headers.insert("x-amz-content-sha256", HeaderValue::from_static(kind));
            headers.insert("x-amz-decoded-content-length", HeaderValue::from_static(decoded));
            told_size(&headers, length)
        };
        assert_eq!(of("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "5", None), Some(5));
        assert_eq!(of("STREAMING-UNSIGNED-PAYLOAD-TRAILER", "5", Some(7)), Some(7), "the wire layer has put it there");
        assert_eq!((of("UNSIGNED-PAYLOAD", "5", None), of("UNSIGNED-PAYLOAD", "5", Some(-1))), (None, None));
        assert_eq!(of("STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x", None), None);
        assert_eq!(told_size(&HeaderMap::new(), Some(3)), Some(3));
    }
}

//! Buckets on a gateway of a few lines, which says what the test tells it to.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::plan::S3Gateway;
use bench::schedule::Outcome;
use bytes::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::LocalSet;

use super::secure::{Secure, SecureError};
use super::{Bucket, BucketSite, GatewayError};
use crate::objects::{ListedPage, Objects, SeenObject};

/// Serves connections: each request gets the next of `answers`, `None` being silence for ever. Returns the gateway's
/// address and the heads of the requests that came, each with its body's length and its connection's number.
async fn gateway(answers: Vec<Option<String>>) -> (String, Arc<Mutex<Vec<(String, usize, usize)>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (asked, answers) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(answers.into_iter())));
    let requests = asked.clone();
    tokio::task::spawn_local(async move {
        for connection in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let (requests, answers) = (requests.clone(), answers.clone());
            tokio::task::spawn_local(async move {
                let mut bytes = Vec::new();
                loop {
                    while !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
                        if stream.read_buf(&mut bytes).await.unwrap_or(0) == 0 {
                            return;
                        }
                    }
                    let end = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap() + 4;
                    let head = String::from_utf8(bytes.drain(..end).collect()).unwrap();
                    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                    let length = length.map_or(0, |number| number.parse().unwrap());
                    while bytes.len() < length {
                        stream.read_buf(&mut bytes).await.unwrap();
                    }
                    bytes.drain(..length);
                    requests.lock().unwrap().push((head, length, connection));
                    let next = answers.lock().unwrap().next().flatten();
                    let Some(answer) = next else { return std::future::pending().await };
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    (address, asked)
}

fn answer(status: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

fn site(address: &str) -> BucketSite {
    let folder = std::env::temp_dir().join(format!("load-s3-{}-{}", std::process::id(), address.replace(':', "-")));
    std::fs::write(&folder, "aws_access_key_id=AK\naws_secret_access_key=SK\n").unwrap();
    let keys = Some(folder.display().to_string());
    let endpoint = format!("http://{address}");
    let gateway = S3Gateway { endpoint, ca: None, keys, region: "r".into(), signed_payload: false };
    let site = BucketSite::new(&gateway, "b", Duration::from_secs(1)).unwrap();
    std::fs::remove_file(folder).unwrap();
    assert!(matches!(BucketSite::new(&gateway, "b", Duration::ZERO), Err(GatewayError::Unreadable { .. })));
    assert!(!format!("{site:?}").contains("SK"), "keys are in no message");
    site
}

#[tokio::test(flavor = "current_thread")]
async fn objects_go_over_one_connection() {
    let work = async {
        let answers = vec![
            answer("404 Not Found", ""),
            answer("200 OK", ""),
            answer("200 OK", ""),
            answer("200 OK", "abcd"),
            answer("206 Partial Content", "bc"),
            answer("204 No Content", ""),
            answer("409 Conflict", "<Code>BucketNotEmpty</Code>"),
            answer("204 No Content", ""),
        ];
        let (address, asked) = gateway(answers).await;
        let bucket = Bucket::open(site(&address)).await.unwrap();
        bucket.write("k".into(), 0, Bytes::from_static(b"abcd"), true).await.unwrap();
        assert_eq!(bucket.read_whole("k".into(), 4).await.unwrap(), "abcd");
        assert_eq!(bucket.read("k".into(), 1, 2).await.unwrap(), "bc");
        bucket.remove("k".into()).await.unwrap();
        bucket.finish().await.unwrap();
        let asked = asked.lock().unwrap().clone();
        let lines: Vec<&str> = asked.iter().map(|(head, ..)| head.lines().next().unwrap()).collect();
        let wanted = ["HEAD /b", "PUT /b", "PUT /b/k", "GET /b/k", "GET /b/k", "DELETE /b/k", "DELETE /b", "DELETE /b"];
        assert_eq!(lines, wanted.map(|line| format!("{line} HTTP/1.1")));
        assert!(asked[4].0.contains("range: bytes=1-2\r\n") && !asked[3].0.contains("range:"));
        assert!(asked.iter().all(|(head, _, connection)| head.contains("authorization: AWS4-") && *connection == 0));
        assert_eq!(asked.iter().map(|(_, length, _)| length).sum::<usize>(), 4);
    };
    LocalSet::new().run_until(work).await;
}

#[tokio::test(flavor = "current_thread")]
async fn questions_and_lists() {
    let work = async {
        let list = "<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>p.1</Key><Size>4</Size></Contents>\
                    </ListBucketResult>";
        let answers = vec![
            answer("200 OK", ""),
            Some("HTTP/1.1 200 OK\r\ncontent-length: 4\r\netag: \"e\"\r\n\r\n".into()),
            answer("404 Not Found", ""),
            answer("200 OK", list),
            answer("200 OK", "<html></html>"),
            answer("404 Not Found", "<Code>NoSuchKey</Code>"),
            answer("404 Not Found", "<Code>NoSuchBucket</Code>"),
        ];
        let (address, asked) = gateway(answers).await;
        let bucket = Bucket::open(site(&address)).await.unwrap();
        let seen = SeenObject { length: Some(4), etag: Some("e".into()) };
        assert_eq!(bucket.head("k".into()).await, Ok(seen));
        let absent = bucket.head("k".into()).await.unwrap_err();
        assert!(absent.is_absent && absent.outcome == Outcome::Refused, "{absent:?}");
        let page = ListedPage { objects: vec![("p.1".into(), 4)], more: true };
        assert_eq!(bucket.list("p.".into(), "p.0".into(), 7).await, Ok(page));
        assert!(bucket.list("p.".into(), "p.0".into(), 7).await.unwrap_err().reason.contains("no page"));
        bucket.remove("k".into()).await.unwrap();
        let no_bucket = bucket.remove("k".into()).await.unwrap_err();
        assert!(!no_bucket.is_absent && no_bucket.reason.contains("NoSuchBucket"), "{no_bucket:?}");
        let asked = asked.lock().unwrap().clone();
        let lines: Vec<&str> = asked.iter().skip(1).map(|(head, ..)| head.lines().next().unwrap()).collect();
        let list = "GET /b?list-type=2&max-keys=7&prefix=p.&start-after=p.0 HTTP/1.1";
        let (head, delete) = ("HEAD /b/k HTTP/1.1", "DELETE /b/k HTTP/1.1");
        assert_eq!(lines, [head, head, list, list, delete, delete]);
        assert!(asked.iter().all(|(head, _, connection)| head.contains("authorization: AWS4-") && *connection == 0));
    };
    LocalSet::new().run_until(work).await;
}

/// Authorities that are of no use are told before a load; a gateway with TLS is one of the tests of whole clusters.
#[test]
fn authorities_are_in_a_file() {
    let file = std::env::temp_dir().join(format!("load-s3-ca-{}", std::process::id()));
    let path = file.display().to_string();
    let is_refused = || matches!(Secure::new("localhost:1", Some(&path)), Err(SecureError::Authorities { .. }));
    for wrong in ["", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        std::fs::write(&file, wrong).unwrap();
        assert!(is_refused(), "{wrong}");
    }
    std::fs::remove_file(&file).unwrap();
    assert!(is_refused());
}

#[tokio::test(flavor = "current_thread")]
async fn failures_tell_what_may_have_happened() {
    let work = async {
        let answers = vec![
            answer("200 OK", ""),
            answer("403 Forbidden", "<Code>AccessDenied</Code>"),
            answer("503 Slow Down", "later"),
            answer("404 Not Found", "<Code>NoSuchKey</Code>"),
            Some("HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nab".into()),
        ];
        let (address, asked) = gateway(answers).await;
        let bucket = Bucket::open(site(&address)).await.unwrap();
        let data = Bytes::from_static(b"abcd");
        let refused = bucket.write("k".into(), 0, data.clone(), true).await.unwrap_err();
        assert!(refused.outcome == Outcome::Refused && refused.reason.contains("AccessDenied"), "{refused:?}");
        let late = bucket.write("k".into(), 0, data.clone(), true).await.unwrap_err();
        assert!(late.outcome == Outcome::Late && late.reason.contains("503"), "{late:?}");
        let missing = bucket.read_whole("k".into(), 4).await.unwrap_err();
        assert!(missing.outcome == Outcome::Refused && missing.reason.contains("NoSuchKey"), "{missing:?}");
        // An answer that stops, and none at all: neither connection is used again.
        assert_eq!(bucket.read_whole("k".into(), 4).await.unwrap_err().outcome, Outcome::Late);
        assert_eq!(bucket.write("k".into(), 0, data, true).await.unwrap_err().outcome, Outcome::Late);
        let connections: Vec<usize> = asked.lock().unwrap().iter().map(|(.., connection)| *connection).collect();
        assert_eq!(connections, [0, 0, 0, 0, 0, 1]);
    };
    LocalSet::new().run_until(work).await;
    let nobody = site("127.0.0.1:1");
    let error = LocalSet::new().run_until(Bucket::open(nobody)).await.err().unwrap();
    assert!(error.contains("bucket b at 127.0.0.1:1: connecting"), "{error}");
}

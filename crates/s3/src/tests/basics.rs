//! One gateway without faults: each request does what S3 says.

use super::{bytes_of, open, user};
use crate::digest::Digests;
use crate::executor::Executor;
use crate::memory::Memory;
use crate::tests::wreckage;
use crate::window::both;
use crate::{
    Body, Bucket, BucketSettings, ByteRange, ChecksumKind, Code, Completion, Conditions, Deletion, Error, PartRequest,
    PutRequest, Query, Store, Upload, Versioning, WantedPart, Whole, names,
};
use std::sync::Arc;

type Gateway = Arc<Store<Memory>>;

/// Runs a test with one gateway, a bucket and nothing else, and looks at the end if anything lies around.
pub(super) fn alone<F: Future<Output = ()>>(test: impl FnOnce(Gateway, Arc<Bucket>) -> F) {
    let client = Memory::start(7);
    let mut executor = Executor::default();
    let gateway = executor.until(&client, async {
        let gateway = open(&client, "aa").await;
        let owner = gateway.create_user(user("me"), ("AK1", "secret-of-ak1")).await.expect("a user");
        let bucket = gateway.create_bucket(&owner, "things", BucketSettings::default()).await.expect("a bucket");
        test(gateway.clone(), bucket).await;
        gateway
    });
    // The last request may have left work that no task has begun yet.
    executor.turn();
    while executor.tasks() > 0 {
        executor.turn();
        client.lock().deliver();
    }
    client.lock().now_ms += 10_000;
    executor.until(&client, gateway.tend()).expect("garbage is removed");
    executor.until(&client, gateway.tend()).expect("garbage is removed");
    executor.until(&client, wreckage::check(&client, &gateway));
}

fn put(key: &str, size: usize) -> PutRequest {
    PutRequest { key: key.into(), owner: "me".into(), size: size as u64, ..PutRequest::default() }
}

async fn store(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, bytes: &[u8]) -> crate::Head {
    let mut body = Whole::new(bytes.to_vec());
    gateway.put(bucket, put(key, bytes.len()), &mut body).await.expect("it is put")
}

pub(super) async fn read(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    key: &str,
    range: Option<ByteRange>,
) -> Result<Vec<u8>, Error> {
    let mut object = gateway.get(bucket, key, None, range).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = object.stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes.len() as u64, object.range.1);
    Ok(bytes)
}

/// Deletes an object of a bucket without versions. False if there was none.
pub(super) async fn delete(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    key: &str,
    conditions: Conditions,
) -> Result<bool, Error> {
    let deletion = Deletion { conditions, ..Deletion::default() };
    Ok(gateway.delete(bucket, key, deletion).await?.is_some())
}

pub(super) fn code<T: std::fmt::Debug>(outcome: Result<T, Error>) -> Code {
    outcome.expect_err("it is refused").code().expect("S3 has a code for it")
}

#[test]
fn bodies_may_be_shorter_than_their_bound() {
    alone(async |gateway, bucket| {
        for (bound, size) in [(0, 0), (48, 0), (48, 20), (48, 48), (100, 0), (100, 10), (100, 60), (100, 100)] {
            let bytes = bytes_of(9, size);
            let request = PutRequest { may_be_shorter: true, ..put("k", bound) };
            let head = gateway.put(&bucket, request, &mut Whole::new(bytes.clone())).await.expect("it is put");
            assert_eq!((head.size, read(&gateway, &bucket, "k", None).await), (size as u64, Ok(bytes)), "{bound}");
        }
        for (bound, size, may_be_shorter) in
            [(0, 1, true), (48, 49, true), (100, 101, true), (48, 9, false), (100, 99, false)]
        {
            let request = PutRequest { may_be_shorter, ..put("other", bound) };
            let outcome = gateway.put(&bucket, request, &mut Whole::new(bytes_of(9, size))).await;
            assert_eq!(code(outcome), Code::IncompleteBody, "{size} of {bound}");
        }
        assert_eq!(code(read(&gateway, &bucket, "other", None).await), Code::NoSuchKey);
    });
}

#[test]
fn objects_of_every_size_are_read_as_they_were_put() {
    alone(async |gateway, bucket| {
        for len in [0, 1, 15, 16, 47, 48, 49, 64, 65, 200] {
            let bytes = bytes_of(len as u64, len);
            let head = store(&gateway, &bucket, "k", &bytes).await;
            assert_eq!(head.size, len as u64);
            assert_eq!(read(&gateway, &bucket, "k", None).await, Ok(bytes.clone()), "{len}");
            for (from, last) in [(0, 0), (0, 20), (15, 16), (40, 60), (63, 64), (10, 10_000)] {
                let range = Some(ByteRange::From(from, Some(last)));
                let outcome = read(&gateway, &bucket, "k", range).await;
                if (from as usize) < len {
                    assert_eq!(outcome.expect("a range"), bytes[from as usize..len.min(last as usize + 1)]);
                } else {
                    assert_eq!(code(outcome), Code::InvalidRange);
                }
            }
            let from = Some(ByteRange::From(17, None));
            assert_eq!(read(&gateway, &bucket, "k", from).await.ok(), (len > 17).then(|| bytes[17..].to_vec()));
            let last = Some(ByteRange::Last(9));
            let expected = (len > 0).then(|| bytes[len.saturating_sub(9)..].to_vec());
            assert_eq!(read(&gateway, &bucket, "k", last).await.ok(), expected);
        }
        assert_eq!(delete(&gateway, &bucket, "k", Conditions::default()).await, Ok(true));
        assert_eq!(delete(&gateway, &bucket, "k", Conditions::default()).await, Ok(false));
        assert_eq!(code(read(&gateway, &bucket, "k", None).await), Code::NoSuchKey);
    });
}

#[test]
fn what_does_not_agree_with_its_checksum_or_length_is_not_stored() {
    alone(async |gateway, bucket| {
        let bytes = bytes_of(1, 10);
        for len in [10, 100] {
            let bytes = bytes_of(1, len);
            let md5 = PutRequest { content_md5: Some([1; 16]), ..put("k", len) };
            assert_eq!(code(gateway.put(&bucket, md5, &mut Whole::new(bytes.clone())).await), Code::BadDigest);
            let checksum = Some((ChecksumKind::Crc32c, Some("AAAAAA==".into())));
            let crc = PutRequest { checksum, ..put("k", len) };
            assert_eq!(code(gateway.put(&bucket, crc, &mut Whole::new(bytes.clone())).await), Code::BadDigest);
            for told in [len - 1, len + 1] {
                let outcome = gateway.put(&bucket, put("k", told), &mut Whole::new(bytes.clone())).await;
                assert_eq!(code(outcome), Code::IncompleteBody);
            }
        }
        assert_eq!(code(gateway.stat(&bucket, "k", None).await), Code::NoSuchKey);
        let checksum = Some((ChecksumKind::Sha1, None));
        let head = gateway.put(&bucket, PutRequest { checksum, ..put("k", 10) }, &mut Whole::new(bytes)).await;
        assert_eq!(head.expect("it is put").checksum.expect("a checksum").value.len(), 28);
        assert_eq!(code(gateway.put(&bucket, put("", 0), &mut Whole::new("")).await), Code::InvalidArgument);
        let long = "k".repeat(1025);
        assert_eq!(code(gateway.put(&bucket, put(&long, 0), &mut Whole::new("")).await), Code::KeyTooLongError);
    });
}

#[test]
fn conditions_decide() {
    alone(async |gateway, bucket| {
        let absent = Conditions { is_absent: true, ..Conditions::default() };
        let with = |conditions: &Conditions| PutRequest { conditions: conditions.clone(), ..put("k", 1) };
        let etag = |etag: &str| Conditions { etags: Some(vec![etag.into()]), ..Conditions::default() };
        assert_eq!(code(gateway.put(&bucket, with(&etag("x")), &mut Whole::new("a")).await), Code::NoSuchKey);
        let first = gateway.put(&bucket, with(&absent), &mut Whole::new("a")).await.expect("nothing is there");
        assert_eq!(code(gateway.put(&bucket, with(&absent), &mut Whole::new("b")).await), Code::PreconditionFailed);
        assert_eq!(code(gateway.put(&bucket, with(&etag("x")), &mut Whole::new("b")).await), Code::PreconditionFailed);
        gateway.put(&bucket, with(&etag(&first.etag)), &mut Whole::new("c")).await.expect("it is that one");
        assert_eq!(code(delete(&gateway, &bucket, "k", etag(&first.etag)).await), Code::PreconditionFailed);
        assert_eq!(read(&gateway, &bucket, "k", None).await, Ok(b"c".to_vec()));
        let other = |etag: &str| Conditions { other_than: Some(etag.into()), ..Conditions::default() };
        let present = gateway.stat(&bucket, "k", None).await.expect("it").etag;
        let refused = gateway.put(&bucket, with(&other(&present)), &mut Whole::new("d")).await;
        assert_eq!(code(refused), Code::PreconditionFailed);
        gateway.put(&bucket, with(&other("x")), &mut Whole::new("d")).await.expect("it is another one");
        assert_eq!(delete(&gateway, &bucket, "k", etag("*")).await, Ok(true));
        gateway.put(&bucket, with(&other("x")), &mut Whole::new("d")).await.expect("nothing is there");
        assert_eq!(delete(&gateway, &bucket, "k", etag("*")).await, Ok(true));
    });
}

#[test]
fn lists_have_prefixes_delimiters_and_pages() {
    alone(async |gateway, bucket| {
        let mut keys = Vec::new();
        for dir in ["", "a/", "a/b/", "a\0", "b", "ä/", "z/"] {
            for name in ["1", "2", "3x", "\u{10ffff}"] {
                keys.push(format!("{dir}{name}"));
                store(&gateway, &bucket, keys.last().expect("one"), b"x").await;
                gateway.balance_ranges().await.expect("ranges split");
            }
        }
        keys.sort_unstable();
        let grown = gateway.ranges(&bucket.id).await.expect("ranges").len();
        assert!(grown > 3, "{grown} ranges");
        for prefix in ["", "a", "a/", "a/b/1", "z", "zz", "ä"] {
            for delimiter in ["", "/", "b", "/b"] {
                let summed = |key: &str| -> String {
                    let rest = &key[prefix.len()..];
                    let at = if delimiter.is_empty() { None } else { rest.find(delimiter) };
                    at.map_or(key.to_owned(), |at| key[..prefix.len() + at + delimiter.len()].to_owned())
                };
                let mut expected: Vec<String> =
                    keys.iter().filter(|key| key.starts_with(prefix)).map(|key| summed(key)).collect();
                expected.dedup();
                for max in [1, 2, 3, 7, 100] {
                    let mut found = Vec::new();
                    let mut after = String::new();
                    loop {
                        let query = Query { prefix: prefix.into(), delimiter: delimiter.into(), after, max };
                        let page = gateway.list(&bucket, &query).await.expect("a page");
                        assert!(page.entries.len() + page.common_prefixes.len() <= max);
                        let mut names: Vec<String> = page.entries.into_iter().map(|(key, _)| key).collect();
                        names.extend(page.common_prefixes);
                        names.sort_unstable();
                        found.extend(names);
                        match page.next {
                            Some(next) => after = next,
                            None => break,
                        }
                    }
                    assert_eq!(found, expected, "prefix {prefix:?}, delimiter {delimiter:?}, {max} a page");
                }
            }
        }
        for key in &keys {
            assert_eq!(delete(&gateway, &bucket, key, Conditions::default()).await, Ok(true));
            gateway.balance_ranges().await.expect("ranges merge");
        }
        let shrunk = gateway.ranges(&bucket.id).await.expect("ranges").len();
        assert!(shrunk < grown, "{grown} ranges became {shrunk}");
    });
}

#[test]
fn uploads_become_objects() {
    alone(async |gateway, bucket| {
        let begin = |key: &str| Upload {
            id: String::new(),
            key: key.into(),
            owner: "me".into(),
            created_ms: 0,
            headers: Default::default(),
            metadata: Default::default(),
            checksum: Some(ChecksumKind::Crc32),
            is_composite: false,
            acl: None,
            tags: Default::default(),
            lock: Default::default(),
            sealing: None,
        };
        let upload = gateway.create_upload(&bucket, begin("k")).await.expect("an upload").id;
        let other = gateway.create_upload(&bucket, begin("k/other")).await.expect("an upload").id;
        let page = gateway.list_uploads(&bucket, &Query { max: 1, ..Query::default() }, "").await.expect("a list");
        assert_eq!((page.uploads[0].upload.as_str(), page.next.is_some()), (upload.as_str(), true));
        let mut wanted = Vec::new();
        let mut whole = Vec::new();
        for (number, len) in [(3, 33), (1, 20), (1, 40), (7, 5), (5, 64)] {
            let bytes = bytes_of(number, len);
            let request = PartRequest {
                key: "k".into(),
                upload: upload.clone(),
                number: number as u16,
                size: len as u64,
                ..PartRequest::default()
            };
            let part = gateway.put_part(&bucket, request, &mut Whole::new(bytes.clone())).await.expect("a part");
            wanted.retain(|(want, _): &(WantedPart, Vec<u8>)| want.number != part.number);
            wanted.push((WantedPart { number: part.number, etag: part.etag, checksums: Vec::new() }, bytes));
        }
        wanted.sort_by_key(|(part, _)| part.number);
        // Part 5 is left out.
        wanted.retain(|(part, _)| part.number != 5);
        let page = gateway.list_parts(&bucket, ("k", &upload), 1, 2).await.expect("a list");
        assert_eq!((page.parts.iter().map(|p| p.number).collect::<Vec<_>>(), page.more), (vec![3, 5], true));
        whole.extend(wanted.iter().flat_map(|(_, bytes)| bytes.clone()));
        let wanted: Vec<WantedPart> = wanted.into_iter().map(|(part, _)| part).collect();
        let none = Conditions::default();
        let complete = async |wanted: &[WantedPart]| {
            gateway.complete_upload(&bucket, ("k", &upload), wanted, (&none, Versioning::Off), None).await
        };
        assert_eq!(code(complete(&[wanted[1].clone(), wanted[0].clone()]).await), Code::InvalidPartOrder);
        let wrong = WantedPart { etag: "x".into(), ..wanted[0].clone() };
        assert_eq!(code(complete(&[wrong]).await), Code::InvalidPart);
        assert_eq!(code(complete(&[]).await), Code::InvalidRequest);
        let told = async |checksum: Option<&str>, size| {
            let checksum = checksum.map(|value| (ChecksumKind::Crc32, value.to_owned()));
            let how = Completion { checksum, size, ..(&none, Versioning::Off).into() };
            gateway.complete_upload(&bucket, ("k", &upload), &wanted, how, None).await
        };
        assert_eq!(code(told(Some("bad"), None).await), Code::BadDigest);
        assert_eq!(code(told(None, Some(whole.len() as u64 + 1)).await), Code::InvalidRequest);
        let mut digests = Digests::new(Some(ChecksumKind::Crc32));
        digests.update(&whole);
        let crc = digests.finish().1.expect("a checksum").value;
        let head = told(Some(&crc), Some(whole.len() as u64)).await.expect("it is complete");
        assert_eq!(code(told(Some("bad"), None).await), Code::BadDigest, "asked again");
        assert_eq!(head.etag.split_once('-').map(|(_, count)| count), Some("3"));
        assert_eq!(complete(&wanted).await.map(|head| head.tag), Ok(head.tag.clone()), "asked again");
        assert_eq!(read(&gateway, &bucket, "k", None).await, Ok(whole.clone()));
        let middle = Some(ByteRange::From(30, Some(60)));
        assert_eq!(read(&gateway, &bucket, "k", middle).await, Ok(whole[30..61].to_vec()));
        assert_eq!(gateway.get(&bucket, "k", None, None).await.expect("it").head.checksum, head.checksum);
        assert!(head.checksum.is_some());
        let (same, parts) = gateway.parts(&bucket, "k", None).await.expect("its parts");
        let numbers: Option<Vec<u16>> = parts.map(|parts| parts.iter().map(|part| part.number).collect());
        assert_eq!((same, numbers), (head.clone(), Some(vec![1, 3, 7])));
        gateway.abort_upload(&bucket, "k/other", &other).await.expect("it is aborted");
        assert_eq!(code(gateway.abort_upload(&bucket, "k/other", &other).await), Code::NoSuchUpload);
        store(&gateway, &bucket, "k", b"short").await;
        assert_eq!(gateway.parts(&bucket, "k", None).await.expect("it").1, None);
        assert_eq!(code(complete(&wanted).await), Code::NoSuchUpload);
    });
}

#[test]
fn a_check_finds_entries_that_are_wrong_and_mends_them() {
    alone(async |gateway, bucket| {
        for key in ["a", "b", "c"] {
            store(&gateway, &bucket, key, key.as_bytes()).await;
        }
        let right = gateway.check_bucket(&bucket, false, |_| {}).await.expect("a check");
        assert_eq!((right.objects, right.bytes, right.ranges, right.wrong), (3, 3, 1, Vec::new()));
        // Heads change behind the index's back.
        let pool = gateway.settings().data_pool.clone();
        {
            let mut world = gateway.rados.lock();
            let head = world.objects.remove(&(pool.clone(), crate::names::head_object(&bucket.id, "a")));
            let name = crate::names::head_object(&bucket.id, "b");
            let other = world.objects.get_mut(&(pool, name)).expect("a head");
            let mut record: crate::Head =
                crate::records::from_bytes("b", &other.attrs[crate::records::attr::RECORD]).expect("a record");
            assert!(head.is_some());
            record.size = 7;
            other.attrs.insert(crate::records::attr::RECORD, crate::records::to_bytes(&record));
            other.bytes = "bytes7!".into();
        }
        for _ in 0..2 {
            let found = gateway.check_bucket(&bucket, false, |_| {}).await.expect("a check");
            assert_eq!(found.wrong, ["a", "b"]);
        }
        assert_eq!(gateway.check_bucket(&bucket, true, |_| {}).await.expect("a check").wrong, ["a", "b"]);
        let mended = gateway.check_bucket(&bucket, false, |_| {}).await.expect("a check");
        assert_eq!((mended.objects, mended.bytes, mended.wrong), (2, 8, Vec::new()));
    });
}

#[test]
fn buckets_are_made_and_deleted() {
    alone(async |gateway, bucket| {
        let create =
            async |user: &crate::User, name: &str| gateway.create_bucket(user, name, BucketSettings::default()).await;
        let me = gateway.user("me").await.expect("a user");
        let you = gateway.create_user(user("you"), ("AK2", "secret-of-ak2")).await.expect("a user");
        assert_eq!(code(create(&me, "things").await), Code::BucketAlreadyOwnedByYou);
        assert_eq!(code(create(&you, "things").await), Code::BucketAlreadyExists);
        for bad in ["ab", "Big", "a..b", "-ab", "ab-", "1.2.3.4", "a_b", &"a".repeat(64)] {
            assert_eq!(code(create(&me, bad).await), Code::InvalidBucketName, "{bad}");
        }
        store(&gateway, &bucket, "k", b"x").await;
        assert_eq!(code(gateway.delete_bucket(&bucket).await), Code::BucketNotEmpty);
        assert_eq!(read(&gateway, &bucket, "k", None).await, Ok(b"x".to_vec()));
        delete(&gateway, &bucket, "k", Conditions::default()).await.expect("it is deleted");
        // The slot of the deletion may still be there.
        while gateway.delete_bucket(&bucket).await.is_err() {}
        assert_eq!(code(gateway.bucket("things").await), Code::NoSuchBucket);
        assert_eq!(code(gateway.put(&bucket, put("k", 1), &mut Whole::new("x")).await), Code::NoSuchBucket);
        let again = create(&me, "things").await.expect("the name is free");
        store(&gateway, &again, "new", b"y").await;
        // By what is remembered of the old one.
        assert_eq!(read(&gateway, &bucket, "new", None).await, Ok(b"y".to_vec()));
        store(&gateway, &bucket, "newer", b"z").await;
        assert_eq!(read(&gateway, &again, "newer", None).await, Ok(b"z".to_vec()));
        assert_eq!(gateway.buckets("me").await.expect("a list").len(), 1);
        assert!(gateway.remove_user("me").await.is_err());
        gateway.remove_user("you").await.expect("there are no buckets");
        assert_eq!(code(gateway.access_key("AK2").await.map(|_| ())), Code::InvalidAccessKeyId);
        assert_eq!(gateway.access_key("AK1").await.map(|(key, _)| key.uid), Ok("me".into()));
    });
}

#[test]
fn tenants_have_names_of_their_own() {
    alone(async |gateway, things| {
        let create =
            async |user: &crate::User, name: &str| gateway.create_bucket(user, name, BucketSettings::default()).await;
        let me = gateway.user("me").await.expect("a user");
        let tenanted = gateway.create_user(user("t$me"), ("AK2", "secret-of-ak2")).await.expect("a user");
        let same = create(&tenanted, "t:things").await.expect("the name is free in the tenant");
        store(&gateway, &things, "k", b"1").await;
        store(&gateway, &same, "k", b"2").await;
        assert_eq!(read(&gateway, &things, "k", None).await, Ok(b"1".to_vec()));
        assert_eq!(read(&gateway, &same, "k", None).await, Ok(b"2".to_vec()));
        for (user, name, refusal) in [
            (&me, "t:things", Code::AccessDenied),
            (&me, "t:others", Code::AccessDenied),
            (&tenanted, "others", Code::AccessDenied),
            (&tenanted, "u:others", Code::AccessDenied),
            (&tenanted, "t:Others", Code::InvalidBucketName),
            (&tenanted, "t:a:others", Code::InvalidBucketName),
            (&tenanted, ":others", Code::InvalidArgument),
            (&tenanted, "a-b:others", Code::InvalidArgument),
        ] {
            assert_eq!(code(create(user, name).await), refusal, "{name}");
        }
        for wrong in ["$me", "t$", "a-b$me", "t$a$b", "t$a:b", "a:b"] {
            let refused = gateway.create_user(user(wrong), ("AK3", "secret-of-ak3")).await;
            assert_eq!(code(refused), Code::InvalidArgument, "{wrong}");
        }
        let names = |buckets: Vec<Arc<Bucket>>| buckets.iter().map(|bucket| bucket.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(gateway.buckets("t$me").await.expect("a list")), ["t:things"]);
        assert_eq!(names(gateway.buckets("me").await.expect("a list")), ["things"]);
        assert!(gateway.remove_user("t$me").await.is_err(), "there is a bucket");
    });
}

/// A gateway whose session has ended leaves no stamp behind, which nobody would ever take out of its slot: it waits for
/// the index to follow, or leaves the session to be swept.
#[test]
fn the_end_of_a_session_leaves_no_stamps() {
    for seed in 1..60 {
        let (client, mut executor) = (Memory::start(seed), Executor::default());
        executor.until(&client, async {
            let gateway = open(&client, "aa").await;
            let owner = gateway.create_user(user("me"), ("AK1", "secret-of-ak1")).await.expect("a user");
            let bucket = gateway.create_bucket(&owner, "things", BucketSettings::default()).await.expect("a bucket");
            // Both are in the key's slot at once, so that neither leaves it with one operation.
            let (mut one, mut other) = (Whole::new(bytes_of(1, 9)), Whole::new(bytes_of(2, 9)));
            let puts = both(gateway.put(&bucket, put("k", 9), &mut one), gateway.put(&bucket, put("k", 9), &mut other));
            let (one, other) = puts.await;
            one.and(other).expect("both are stored");
            gateway.close().await.expect("the session ends");
        });
        executor.kill(&client);
        while client.lock().deliver().is_some() {}
        let world = client.lock();
        let of = |prefix: &'static str| world.objects.iter().filter(move |((_, name), _)| name.starts_with(prefix));
        let slots = of("range/").flat_map(|(_, range)| range.omap.keys()).filter(|name| name[0] == names::SLOTS);
        let sessions = of("sessions").map(|(_, sessions)| sessions.omap.len()).sum::<usize>();
        assert!(slots.count() == 0 || sessions == 1, "seed {seed}");
        assert_eq!(sessions, 0, "seed {seed}: the index follows soon");
    }
}

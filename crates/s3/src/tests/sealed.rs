//! Encrypted objects: what is read, who reads it, and what lies in the cluster.

use super::basics::{alone, code};
use super::bytes_of;
use crate::memory::Memory;
use crate::names;
use crate::rados::Rados;
use crate::records::{Part, StoredUpload, attr, from_bytes, to_bytes};
use crate::{
    Body, Bucket, ByteRange, Code, Conditions, CustomerKey, Deletion, Encryption, Error, Head, PartRequest, PutRequest,
    SealedBy, Store, Upload, Versioning, WantedPart, Whole,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

type Gateway = Arc<Store<Memory>>;

fn customer(byte: u8) -> CustomerKey {
    CustomerKey::from_slice(&[byte; 32]).expect("a key")
}

/// How objects are sealed, with the key that readers bring.
fn kinds() -> [(Encryption, Option<CustomerKey>); 2] {
    [(Encryption::Master, None), (Encryption::Customer(customer(1)), Some(customer(1)))]
}

fn request(key: &str, size: usize, encryption: &Encryption) -> PutRequest {
    let (key, owner, encryption) = (key.to_owned(), "me".to_owned(), encryption.clone());
    PutRequest { key, owner, size: size as u64, encryption, ..PutRequest::default() }
}

async fn put(gateway: &Gateway, bucket: &Arc<Bucket>, request: PutRequest, bytes: &[u8]) -> Head {
    gateway.put(bucket, request, &mut Whole::new(bytes.to_vec())).await.expect("it is put")
}

async fn read(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    name: (&str, Option<&str>),
    range: Option<ByteRange>,
    brought: Option<&CustomerKey>,
) -> Result<Vec<u8>, Error> {
    let mut object = gateway.get_with(bucket, name, range, brought).await?;
    let mut bytes = Vec::new();
    while let Some(piece) = object.stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes.len() as u64, object.range.1);
    Ok(bytes)
}

/// Everything that lies in the cluster, one object after the other.
fn stored(gateway: &Gateway) -> Vec<Vec<u8>> {
    let world = gateway.rados.lock();
    let texts = world.objects.values().flat_map(|stored| {
        let omap = stored.omap.values();
        [&stored.bytes].into_iter().chain(stored.attrs.values()).chain(omap).map(|bytes| bytes.to_vec())
    });
    texts.collect()
}

fn lies_around(gateway: &Gateway, secret: &[u8]) -> bool {
    stored(gateway).iter().any(|bytes| bytes.windows(secret.len()).any(|window| window == secret))
}

/// Changes the record of a head.
fn forge(gateway: &Gateway, bucket: &Bucket, key: &str, change: impl FnOnce(&mut Head)) {
    let mut world = gateway.rados.lock();
    let place = (bucket.data_pool.clone(), names::head_object(&bucket.id, key));
    let stored = world.objects.get_mut(&place).expect("a head");
    let mut head: Head = from_bytes("a head", &stored.attrs[attr::RECORD]).expect("a record");
    change(&mut head);
    stored.attrs.insert(attr::RECORD, to_bytes(&head));
}

/// Changes bytes of the pool of bytes.
fn meddle(gateway: &Gateway, bucket: &Bucket, object: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let mut world = gateway.rados.lock();
    let stored = world.objects.get_mut(&(bucket.data_pool.clone(), object.to_owned())).expect("an object");
    let mut bytes = stored.bytes.to_vec();
    change(&mut bytes);
    stored.bytes = Bytes::from(bytes);
}

fn is_damaged(outcome: &Result<Vec<u8>, Error>) -> bool {
    matches!(outcome, Err(Error::Damaged { .. }))
}

/// Stripes of the tail of an object that was put at once.
fn stripes(head: &Head) -> Vec<String> {
    match head.layout.bare() {
        crate::Layout::Striped(tail) => (0..tail.stripes()).map(|n| names::stripe_object(&tail.id, n)).collect(),
        other => panic!("{other:?} has no stripes"),
    }
}

#[test]
fn sealed_objects_are_read_like_others() {
    for (encryption, brought) in kinds() {
        alone(async |gateway, bucket| {
            for len in [0, 1, 6, 7, 8, 14, 16, 47, 48, 49, 64, 100] {
                let bytes = bytes_of(len as u64, len);
                let plain = put(&gateway, &bucket, request("plain", len, &Encryption::None), &bytes).await;
                // A form's file has a bound instead of a size.
                let bound = PutRequest { may_be_shorter: true, ..request("bound", 120, &encryption) };
                for request in [request("sealed", len, &encryption), bound] {
                    let key = request.key.clone();
                    let head = put(&gateway, &bucket, request, &bytes).await;
                    assert_eq!((head.size, &head.etag), (plain.size, &plain.etag));
                    let name = (key.as_str(), None);
                    assert_eq!(read(&gateway, &bucket, name, None, brought.as_ref()).await, Ok(bytes.clone()));
                    for (from, last) in [(0, 0), (3, 9), (6, 7), (7, 20), (15, 16), (40, 90), (50, 200)] {
                        let range = Some(ByteRange::From(from, Some(last)));
                        let found = read(&gateway, &bucket, name, range, brought.as_ref()).await;
                        let expected = bytes.get(from as usize..(last as usize + 1).min(len));
                        assert_eq!(
                            found.ok().as_deref(),
                            expected.filter(|bytes| !bytes.is_empty()),
                            "{range:?} {len}"
                        );
                    }
                    for range in [ByteRange::Last(9), ByteRange::From(5, None)] {
                        let found = read(&gateway, &bucket, name, Some(range), brought.as_ref()).await;
                        let from = if range == ByteRange::Last(9) { len.saturating_sub(9) } else { 5 };
                        let expected = bytes.get(from..).filter(|bytes| !bytes.is_empty());
                        assert_eq!(found.ok().as_deref(), expected, "{range:?} {len}");
                    }
                }
            }
        });
    }
}

#[test]
fn neither_bytes_nor_keys_lie_in_the_cluster() {
    for (encryption, brought) in kinds() {
        alone(async |gateway, bucket| {
            for len in [40, 100] {
                let bytes = bytes_of(9, len);
                let head = put(&gateway, &bucket, request("k", len, &encryption), &bytes).await;
                assert!(!lies_around(&gateway, &bytes[..16]), "{len}");
                let is_customers = head.sealing().expect("it is sealed").by == SealedBy::Customer;
                assert_eq!(is_customers, brought.is_some());
                let plain = put(&gateway, &bucket, request("plain", len, &Encryption::None), &bytes).await;
                assert!(lies_around(&gateway, &bytes[..16]) && plain.sealing().is_none());
                gateway.delete(&bucket, "plain", Deletion::default()).await.expect("it goes");
                gateway.rados.pause(5000).await;
                gateway.tend().await.expect("garbage goes");
            }
            assert!(!lies_around(&gateway, types::base64::encode(&[1; 32]).as_bytes()));
        });
    }
}

#[test]
fn readers_bring_the_key_of_a_customer() {
    alone(async |gateway, bucket| {
        let bytes = bytes_of(1, 100);
        put(&gateway, &bucket, request("sealed", 100, &Encryption::Customer(customer(1))), &bytes).await;
        put(&gateway, &bucket, request("master", 100, &Encryption::Master), &bytes).await;
        put(&gateway, &bucket, request("plain", 100, &Encryption::None), &bytes).await;
        for (key, right) in [("sealed", Some(1)), ("master", None), ("plain", None)] {
            for byte in [None, Some(1), Some(2)] {
                let brought = byte.map(customer);
                let outcome = read(&gateway, &bucket, (key, None), None, brought.as_ref()).await;
                let head = gateway.stat(&bucket, key, None).await.expect("a head");
                let checked = gateway.check_customer_key(&head, brought.as_ref());
                if byte == right {
                    assert_eq!((outcome, checked), (Ok(bytes.clone()), Ok(())), "{key}");
                } else {
                    assert_eq!((code(outcome), code(checked)), (Code::InvalidRequest, Code::InvalidRequest), "{key}");
                }
            }
        }
    });
}

#[test]
fn bytes_that_were_meddled_with_are_not_given_out() {
    alone(async |gateway, bucket| {
        let whole = async |key: &str| read(&gateway, &bucket, (key, None), None, None).await;
        let range = async |key: &str, from, last| {
            read(&gateway, &bucket, (key, None), Some(ByteRange::From(from, Some(last))), None).await
        };
        let (long, other) = (bytes_of(1, 100), bytes_of(2, 100));
        let head = put(&gateway, &bucket, request("k", 100, &Encryption::Master), &long).await;
        let second = put(&gateway, &bucket, request("other", 100, &Encryption::Master), &other).await;
        let (own, others) = (stripes(&head), stripes(&second));
        let at = |object: &str| {
            let world = gateway.rados.lock();
            world.objects[&(bucket.data_pool.clone(), object.to_owned())].bytes.to_vec()
        };
        // Stripes change places, come from another object, lose their beginning or all, or have a wrong bit.
        let (first, next, foreign) = (at(&own[0]), at(&own[1]), at(&others[0]));
        for wrong in [next.clone(), foreign, first[23..].to_vec(), Vec::new()] {
            meddle(&gateway, &bucket, &own[0], |bytes| *bytes = wrong);
            assert!(is_damaged(&whole("k").await) && is_damaged(&range("k", 3, 5).await));
            assert_eq!(range("k", 20, 25).await, Ok(long[20..26].to_vec()), "other stripes are as they were");
        }
        meddle(&gateway, &bucket, &own[0], |bytes| *bytes = first.clone());
        meddle(&gateway, &bucket, &own[0], |bytes| bytes[25] ^= 1);
        assert!(is_damaged(&range("k", 8, 8).await));
        assert_eq!(range("k", 2, 2).await, Ok(vec![long[2]]), "other chunks are as they were");
        meddle(&gateway, &bucket, &own[0], |bytes| *bytes = first.clone());
        assert_eq!(whole("k").await, Ok(long.clone()));
        // The record tells another size, another tail, or that of another object.
        forge(&gateway, &bucket, "k", |head| head.size = 96);
        assert!(is_damaged(&whole("k").await) && is_damaged(&range("k", 0, 1).await));
        let shorter = |head: &mut Head| match &mut head.layout {
            crate::Layout::Sealed { bytes, .. } => match &mut **bytes {
                crate::Layout::Striped(tail) => (head.size, tail.size) = (100, 96),
                other => panic!("{other:?} has no tail"),
            },
            other => panic!("{other:?} is not sealed"),
        };
        forge(&gateway, &bucket, "k", shorter);
        assert!(is_damaged(&whole("k").await) && is_damaged(&range("k", 0, 1).await));
        forge(&gateway, &bucket, "k", |head| head.layout = second.layout.clone());
        assert!(is_damaged(&whole("k").await));
        forge(&gateway, &bucket, "k", |forged| *forged = head.clone());
        assert_eq!(whole("k").await, Ok(long));
        // A small object, whose bytes are its head's.
        let short = bytes_of(3, 40);
        put(&gateway, &bucket, request("s", 40, &Encryption::Master), &short).await;
        let object = names::head_object(&bucket.id, "s");
        meddle(&gateway, &bucket, &object, |bytes| bytes.rotate_left(23));
        assert!(is_damaged(&whole("s").await) && is_damaged(&range("s", 8, 9).await));
        meddle(&gateway, &bucket, &object, |bytes| bytes.rotate_right(23));
        assert_eq!(range("s", 8, 30).await, Ok(short[8..31].to_vec()));
        forge(&gateway, &bucket, "s", |head| head.size = 0);
        assert!(is_damaged(&whole("s").await));
        forge(&gateway, &bucket, "s", |head| head.size = 40);
        // All of an object, its record too, in the place of another one.
        let place = |key: &str| (bucket.data_pool.clone(), names::head_object(&bucket.id, key));
        let copy = gateway.rados.lock().objects[&place("s")].clone();
        gateway.rados.lock().objects.insert(place("moved"), copy);
        assert!(is_damaged(&whole("moved").await) && is_damaged(&range("moved", 0, 3).await));
        gateway.rados.lock().objects.remove(&place("moved"));
    });
}

/// A range is read by two looks at the object, the second one for its chunks.
#[test]
fn ranges_are_read_while_their_object_is_replaced() {
    const WRITES: u64 = 100;
    alone(async |gateway, bucket| {
        let written = Arc::new(AtomicU64::new(0));
        put(&gateway, &bucket, request("k", 40, &Encryption::Master), &bytes_of(0, 40)).await;
        let (writer, place, counter) = (gateway.clone(), bucket.clone(), written.clone());
        gateway.rados.spawn(async move {
            for id in 1..=WRITES {
                put(&writer, &place, request("k", 40, &Encryption::Master), &bytes_of(id, 40)).await;
                counter.store(id, Ordering::Relaxed);
            }
        });
        let count = || written.load(Ordering::Relaxed);
        while count() < WRITES {
            let before = count();
            let found = read(&gateway, &bucket, ("k", None), Some(ByteRange::From(8, Some(30))), None).await;
            let found = found.expect("the object is there all the time");
            let is_one = (before..=count() + 1).any(|id| found == bytes_of(id, 40)[8..31]);
            assert!(is_one, "after {before} writes");
        }
    });
}

/// Uploads parts of an object. Gives the upload, its parts, and all bytes.
async fn upload(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    (key, encryption): (&str, &Encryption),
) -> (String, Vec<WantedPart>, Vec<u8>) {
    let json = serde_json::json!({"id": "", "key": key, "owner": "me", "created_ms": 0});
    let upload: Upload = serde_json::from_value(json).expect("an upload");
    let sealing = gateway.seal_upload(bucket, key, encryption).expect("a sealing");
    let upload = gateway.create_upload(bucket, Upload { sealing, ..upload }).await.expect("an upload").id;
    let (mut wanted, mut whole) = (Vec::new(), Vec::new());
    for (number, len) in [(2, 33), (3, 20), (5, 0)] {
        let bytes = bytes_of(number, len);
        // A first try, whose bytes are replaced.
        for (bytes, customer) in [(bytes_of(77, len), encryption.customer()), (bytes.clone(), encryption.customer())] {
            let (key, upload, customer) = (key.to_owned(), upload.clone(), customer.cloned());
            let (number, size) = (number as u16, len as u64);
            let request = PartRequest { key, upload, number, size, customer, ..PartRequest::default() };
            let part = gateway.put_part(bucket, request, &mut Whole::new(bytes)).await.expect("a part");
            assert_eq!(part.sealed_by.is_some(), !matches!(encryption, Encryption::None));
            wanted.retain(|want: &WantedPart| want.number != number);
            wanted.push(WantedPart { number, etag: part.etag, checksums: Vec::new() });
        }
        whole.extend(bytes);
    }
    (upload, wanted, whole)
}

#[test]
fn all_parts_are_sealed_by_one_key() {
    for (encryption, brought) in kinds() {
        alone(async |gateway, bucket| {
            let (id, wanted, whole) = upload(&gateway, &bucket, ("k", &encryption)).await;
            let wrong = [Some(customer(2)), if brought.is_some() { None } else { Some(customer(1)) }];
            for customer in wrong {
                let (key, upload) = ("k".to_owned(), id.clone());
                let part =
                    PartRequest { key, upload, number: 2, size: 3, customer: customer.clone(), ..Default::default() };
                let part = gateway.put_part(&bucket, part, &mut Whole::new(&b"abc"[..])).await;
                assert_eq!(code(part), Code::InvalidRequest);
                // A completion needs no key, but brings no wrong one.
                if customer.is_some() {
                    let how = (&Conditions::default(), Versioning::Off);
                    let done = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, customer.as_ref()).await;
                    assert_eq!(code(done), Code::InvalidRequest);
                }
            }
            let how = (&Conditions::default(), Versioning::Off);
            let done = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, brought.as_ref()).await;
            assert_eq!(done.expect("it is complete").size, whole.len() as u64);
            // A client that got no answer asks again, by the key of the upload.
            let again = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, brought.as_ref()).await;
            assert_eq!(again.expect("it was completed").size, whole.len() as u64);
            let other = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, Some(&customer(2))).await;
            assert_eq!(code(other), Code::InvalidRequest);
            let all = async |range| read(&gateway, &bucket, ("k", None), range, brought.as_ref()).await;
            assert_eq!(all(None).await, Ok(whole.clone()));
            for (from, last) in [(0, 0), (30, 40), (33, 33), (52, 52), (5, 50)] {
                let range = ByteRange::From(from, Some(last));
                assert_eq!(all(Some(range)).await, Ok(whole[from as usize..=last as usize].to_vec()), "{range:?}");
            }
            assert!(!lies_around(&gateway, &whole[..16]));
            // The list of parts is changed: one is left out, or two change places.
            let object = names::head_object(&bucket.id, "k");
            let list = gateway.parts(&bucket, "k", None).await.expect("parts").1.expect("it has parts");
            let meddled = |parts: &[Part]| {
                meddle(&gateway, &bucket, &object, |bytes| *bytes = to_bytes(&parts.to_vec()).to_vec());
            };
            for parts in [list[..2].to_vec(), vec![list[1].clone(), list[0].clone(), list[2].clone()]] {
                meddled(&parts);
                assert!(is_damaged(&all(None).await) && is_damaged(&all(Some(ByteRange::From(1, Some(2)))).await));
            }
            meddled(&list);
            assert_eq!(all(None).await, Ok(whole));
        });
    }
}

#[test]
fn uploads_are_completed_without_their_key() {
    alone(async |gateway, bucket| {
        let (encryption, key) = (Encryption::Customer(customer(1)), customer(1));
        let how = (&Conditions::default(), Versioning::Off);
        let (id, wanted, whole) = upload(&gateway, &bucket, ("k", &encryption)).await;
        let wrong = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, Some(&customer(2))).await;
        assert_eq!(code(wrong), Code::InvalidRequest);
        let proven = gateway.list_parts(&bucket, ("k", &id), 0, 10).await.expect("parts").parts;
        assert!(proven.iter().all(|part| lies_around(&gateway, part.proof.as_bytes()) && part.proof.len() > 40));
        let head = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, None).await.expect("it is complete");
        assert_eq!(head.size, whole.len() as u64);
        // A client that got no answer asks again.
        for (brought, is_right) in [(None, true), (Some(customer(1)), true), (Some(customer(2)), false)] {
            let again = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, brought.as_ref()).await;
            assert_eq!(again.is_ok(), is_right, "{brought:?}");
        }
        let all =
            async |range, brought: Option<&CustomerKey>| read(&gateway, &bucket, ("k", None), range, brought).await;
        let range = Some(ByteRange::From(30, Some(40)));
        assert_eq!(all(None, Some(&key)).await, Ok(whole.clone()));
        assert_eq!(all(range, Some(&key)).await, Ok(whole[30..=40].to_vec()));
        for brought in [None, Some(customer(2))] {
            assert_eq!(code(all(None, brought.as_ref()).await), Code::InvalidRequest);
            assert_eq!(code(all(range, brought.as_ref()).await), Code::InvalidRequest);
        }
        // Parts' proofs have gone with the upload: nobody can make a proof of some parts.
        let list = gateway.parts(&bucket, "k", None).await.expect("parts").1.expect("it has parts");
        assert!(list.iter().all(|part| part.proof.is_empty()));
        assert!(proven.iter().all(|part| !lies_around(&gateway, part.proof.as_bytes())));
        let object = names::head_object(&bucket.id, "k");
        let meddled = |parts: &[Part]| {
            meddle(&gateway, &bucket, &object, |bytes| *bytes = to_bytes(&parts.to_vec()).to_vec());
        };
        let mut shorter = list.clone();
        shorter[0].tail.size -= 1;
        for parts in [list[..2].to_vec(), vec![list[1].clone(), list[0].clone(), list[2].clone()], shorter] {
            meddled(&parts);
            assert!(is_damaged(&all(None, Some(&key)).await) && is_damaged(&all(range, Some(&key)).await));
        }
        meddled(&list);
        forge(&gateway, &bucket, "k", |head| head.size -= 1);
        assert!(is_damaged(&all(None, Some(&key)).await));
        forge(&gateway, &bucket, "k", |head| head.size += 1);
        assert_eq!(all(None, Some(&key)).await, Ok(whole));
    });
}

/// A head's record as a gateway knows it from before uploads were completed without their key.
#[derive(serde::Serialize, serde::Deserialize)]
struct FormerSealing {
    by: SealedBy,
    salt: String,
    key: String,
    chunk: u64,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    proof: String,
}

/// Such a gateway changes tags and locks of what newer ones have made: it writes the record back.
#[test]
fn gateways_from_before_keep_the_proof_of_parts() {
    alone(async |gateway, bucket| {
        let (encryption, key) = (Encryption::Customer(customer(1)), customer(1));
        let how = (&Conditions::default(), Versioning::Off);
        let (id, wanted, whole) = upload(&gateway, &bucket, ("k", &encryption)).await;
        gateway.complete_upload(&bucket, ("k", &id), &wanted, how, None).await.expect("it is complete");
        forge(&gateway, &bucket, "k", |head| match &mut head.layout {
            crate::Layout::Sealed { sealing, .. } => {
                let read: FormerSealing = from_bytes("a sealing", &to_bytes(sealing)).expect("it is read");
                assert_eq!(types::base64::decode(&read.proof), None, "and gives out nothing of the object");
                **sealing = from_bytes("a sealing", &to_bytes(&read)).expect("it is written back");
            }
            other => panic!("{other:?} is not sealed"),
        });
        assert_eq!(read(&gateway, &bucket, ("k", None), None, Some(&key)).await, Ok(whole));
    });
}

/// Changes the record of a part of an upload.
fn forge_part(gateway: &Gateway, bucket: &Bucket, (upload, number): (&str, u16), change: impl FnOnce(&mut Part)) {
    let mut world = gateway.rados.lock();
    let place = (gateway.settings.meta_pool.clone(), names::upload_object(&bucket.id, upload));
    let stored = world.objects.get_mut(&place).expect("an upload");
    let value = stored.omap.get_mut(&names::part(number)).expect("a part");
    let mut part: Part = from_bytes("a part", value).expect("a record");
    change(&mut part);
    *value = to_bytes(&part);
}

/// Uploads that are under way while gateways are replaced, and parts that somebody has meddled with.
#[test]
fn parts_of_older_gateways_need_the_key() {
    alone(async |gateway, bucket| {
        let (encryption, key) = (Encryption::Customer(customer(1)), customer(1));
        let how = (&Conditions::default(), Versioning::Off);
        let complete = async |(id, wanted): (&str, &[WantedPart]), brought: Option<&CustomerKey>| {
            gateway.complete_upload(&bucket, ("k", id), wanted, how, brought).await
        };
        let (id, wanted, whole) = upload(&gateway, &bucket, ("k", &encryption)).await;
        forge_part(&gateway, &bucket, (&id, 3), |part| part.proof = String::new());
        assert_eq!(code(complete((&id, &wanted), None).await), Code::InvalidRequest);
        complete((&id, &wanted), Some(&key)).await.expect("it is complete");
        assert_eq!(read(&gateway, &bucket, ("k", None), None, Some(&key)).await, Ok(whole));
        // A part of another size is seen when it is read, and with the key already before, if it has a proof.
        let lengthen = |part: &mut Part| part.tail.size += 1;
        let (id, wanted, _) = upload(&gateway, &bucket, ("k", &encryption)).await;
        forge_part(&gateway, &bucket, (&id, 3), lengthen);
        assert_eq!(code(complete((&id, &wanted), Some(&key)).await), Code::InvalidPart);
        complete((&id, &wanted), None).await.expect("it is complete");
        assert!(is_damaged(&read(&gateway, &bucket, ("k", None), None, Some(&key)).await));
        // The master key seals parts without proofs, since every gateway has it.
        let (id, ..) = upload(&gateway, &bucket, ("m", &Encryption::Master)).await;
        forge_part(&gateway, &bucket, (&id, 2), |part| assert!(part.proof.is_empty()));
        gateway.abort_upload(&bucket, "m", &id).await.expect("it is aborted");
        gateway.delete(&bucket, "k", Deletion::default()).await.expect("it goes");
    });
}

#[test]
fn versions_stay_sealed() {
    for (encryption, brought) in kinds() {
        alone(async |gateway, bucket| {
            let read = async |version: Option<&str>, range| {
                read(&gateway, &bucket, ("k", version), range, brought.as_ref()).await
            };
            let mut versions = Vec::new();
            for (id, len) in [(1, 40), (2, 100), (3, 0)] {
                let versioning = Versioning::Enabled;
                let request = PutRequest { versioning, ..request("k", len, &encryption) };
                let head = put(&gateway, &bucket, request, &bytes_of(id, len)).await;
                versions.push((head.version.expect("a version"), bytes_of(id, len)));
            }
            let (id, wanted, whole) = upload(&gateway, &bucket, ("k", &encryption)).await;
            let how = (&Conditions::default(), Versioning::Enabled);
            let head = gateway.complete_upload(&bucket, ("k", &id), &wanted, how, brought.as_ref()).await;
            versions.push((head.expect("it is complete").version.expect("a version"), whole));
            put(
                &gateway,
                &bucket,
                PutRequest { versioning: Versioning::Enabled, ..request("k", 2, &Encryption::None) },
                b"ab",
            )
            .await;
            for (version, bytes) in &versions {
                assert_eq!(read(Some(version), None).await.as_ref(), Ok(bytes));
                let range = ByteRange::From(10, Some(30));
                let expected = bytes.get(10..31).map(<[u8]>::to_vec);
                assert_eq!(read(Some(version), Some(range)).await.ok(), expected);
            }
            // The newest go one by one, so that each becomes the newest again.
            let newest = gateway.stat(&bucket, "k", None).await.expect("a head").version;
            let mut goes = newest;
            while let Some((version, bytes)) = versions.pop() {
                let deletion = Deletion { version: goes, ..Deletion::default() };
                gateway.delete(&bucket, "k", deletion).await.expect("it goes");
                assert_eq!(read(None, None).await, Ok(bytes));
                goes = Some(version);
            }
        });
    }
}

/// Records as they were written before there was sealing.
#[test]
fn records_of_older_gateways_are_read() {
    let head = |layout: &str| -> Head {
        let json = format!(
            r#"{{"bucket":"b","key":"k","tag":"t","size":3,"etag":"e","mtime_ms":0,"owner":"o","layout":{layout}}}"#
        );
        from_bytes("a head", json.as_bytes()).expect("a record")
    };
    for layout in [r#""Whole""#, r#"{"Striped":{"id":"t","size":3,"stripe":4}}"#, r#"{"Parts":{"upload":"u"}}"#] {
        let head = head(layout);
        assert_eq!((head.sealing(), head.layout.bare()), (None, &head.layout));
        let json: serde_json::Value = from_bytes("a head", &to_bytes(&head)).expect("JSON");
        assert_eq!(json["layout"], serde_json::from_str::<serde_json::Value>(layout).expect("JSON"), "as it was");
    }
    let stored = r#"{"id":"u","key":"k","owner":"o","created_ms":7}"#;
    let read: StoredUpload = from_bytes("an upload", stored.as_bytes()).expect("a record");
    let upload = Upload::from(read);
    assert_eq!((upload.id.as_str(), &upload.sealing), ("u", &None));
    let json: serde_json::Value = from_bytes("an upload", &to_bytes(&StoredUpload::from(upload))).expect("JSON");
    assert!(json["id"] == "u" && json.get("sealed").is_none() && json.get("sealing").is_none(), "{json}");
}

/// Gateways from before there was sealing know three layouts, and uploads with an id.
#[test]
fn older_gateways_cannot_take_sealed_records_for_others() {
    alone(async |gateway, bucket| {
        let head = put(&gateway, &bucket, request("k", 40, &Encryption::Master), &bytes_of(1, 40)).await;
        let json: serde_json::Value = from_bytes("a head", &to_bytes(&head)).expect("JSON");
        assert_eq!(json["layout"]["Sealed"]["bytes"], "Whole");
        let (id, ..) = upload(&gateway, &bucket, ("k", &Encryption::Master)).await;
        let object = names::upload_object(&bucket.id, &id);
        let pool = gateway.settings.meta_pool.clone();
        let record = gateway.rados.lock().objects[&(pool, object)].attrs[attr::RECORD].clone();
        let json: serde_json::Value = from_bytes("an upload", &record).expect("JSON");
        assert!(json.get("id").is_none() && json["sealed"]["id"] == id.as_str(), "{json}");
        gateway.abort_upload(&bucket, "k", &id).await.expect("it is aborted");
    });
}

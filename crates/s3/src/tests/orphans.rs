//! Bytes that nothing names, and keys that no index lists.

use super::basics::{alone, delete, read};
use super::{bytes_of, open, small, user, wreckage};
use crate::executor::Executor;
use crate::memory::{Memory, Stored};
use crate::names::{self, ENTRIES};
use crate::{
    Body, Bucket, BucketSettings, Conditions, Error, OrphanFound, PartRequest, PoolChecked, PutRequest, Settings,
    Store, Upload, Versioning, WantedPart, Whole,
};
use bytes::Bytes;
use std::sync::{Arc, Mutex};

type Gateway = Arc<Store<Memory>>;

async fn put(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, size: usize, versioning: Versioning) {
    let request =
        PutRequest { key: key.into(), owner: "me".into(), size: size as u64, versioning, ..PutRequest::default() };
    gateway.put(bucket, request, &mut Whole::new(bytes_of(1, size))).await.expect("it is put");
}

fn new_upload(key: &str) -> Upload {
    let json = serde_json::json!({"id": "", "key": key, "owner": "me", "created_ms": 0});
    serde_json::from_value(json).expect("an upload")
}

/// Uploads two parts. Gives the upload and its parts.
async fn upload(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str) -> (String, Vec<WantedPart>) {
    let id = gateway.create_upload(bucket, new_upload(key)).await.expect("an upload").id;
    let mut wanted = Vec::new();
    for number in 1..=2 {
        let (key, upload, size) = (key.to_owned(), id.clone(), 40);
        let request = PartRequest { key, upload, number, size, ..PartRequest::default() };
        let part = gateway.put_part(bucket, request, &mut Whole::new(bytes_of(number.into(), 40))).await;
        wanted.push(WantedPart { number, etag: part.expect("a part").etag, checksums: Vec::new() });
    }
    (id, wanted)
}

async fn complete(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, versioning: Versioning) {
    let (id, wanted) = upload(gateway, bucket, key).await;
    let how = (&Conditions::default(), versioning);
    gateway.complete_upload(bucket, (key, &id), &wanted, how, None).await.expect("it is completed");
}

/// Everything that a check tells but its progress, and its numbers.
async fn check(gateway: &Gateway, fix: bool) -> (Vec<OrphanFound>, PoolChecked) {
    let pool = gateway.settings().data_pool.clone();
    let mut found = Vec::new();
    let tell = |finding| match finding {
        OrphanFound::LookedAt(_) => {}
        finding => found.push(finding),
    };
    let checked = gateway.check_pool(&pool, fix, tell).await.expect("a check");
    found.sort_by_key(|finding| format!("{finding:?}"));
    (found, checked)
}

fn plant(gateway: &Gateway, name: &str, mtime_ms: u64) {
    let stored = Stored { bytes: Bytes::from_static(b"12345"), mtime_ms, ..Stored::default() };
    gateway.rados.lock().objects.insert((gateway.settings().data_pool.clone(), name.into()), stored);
}

fn orphan(object: &str) -> OrphanFound {
    OrphanFound::Orphan { object: object.into(), bytes: 5 }
}

/// Objects of every kind are named, whatever else lies in the pool.
#[test]
fn what_nothing_names_is_found_and_removed() {
    alone(async |gateway, bucket| {
        for (at, versioning) in [Versioning::Off, Versioning::Enabled].into_iter().enumerate() {
            for (name, size) in [("small", 20), ("large", 100)] {
                put(&gateway, &bucket, &format!("{name}{at}"), size, versioning).await;
                put(&gateway, &bucket, &format!("{name}{at}"), size + 1, versioning).await;
            }
            complete(&gateway, &bucket, &format!("parts{at}"), versioning).await;
            complete(&gateway, &bucket, &format!("parts{at}"), versioning).await;
        }
        let (_, open) = upload(&gateway, &bucket, "open").await;
        assert_eq!(open.len(), 2);
        let (found, right) = check(&gateway, true).await;
        assert_eq!((found, right.orphans, right.young, right.unlisted, right.foreign), (Vec::new(), 0, 0, 0, 0));
        assert!(right.under_way > 0, "what was replaced is named by intents");
        let objects = gateway.rados.lock().objects.len();

        let large = gateway.stat(&bucket, "large0", None).await.expect("an object");
        let crate::Layout::Striped(tail) = &large.layout else { panic!("{large:?}") };
        let behind = names::stripe_object(&tail.id, tail.stripes());
        let names = ["t/dead.1/0", "t/dead.1/a", "v/dead.2", &behind];
        names.iter().for_each(|name| plant(&gateway, name, 1));
        let foreign = ["rbd_data.1", "t/dead.1/0a"];
        foreign.iter().for_each(|name| plant(&gateway, name, 1));
        let head = gateway.rados.lock().objects[&pool_and(&gateway, &names::head_object(&bucket.id, "small0"))].clone();
        let stray = "h/dead.9/small0";
        gateway.rados.lock().objects.insert(pool_and(&gateway, stray), head);

        let mut expected: Vec<OrphanFound> = names.iter().map(|name| orphan(name)).collect();
        expected.push(OrphanFound::Stray { object: stray.into() });
        expected.sort_by_key(|finding| format!("{finding:?}"));
        for fix in [false, true] {
            let (found, checked) = check(&gateway, fix).await;
            assert_eq!(found, expected);
            assert_eq!((checked.orphans, checked.orphan_bytes, checked.stray, checked.foreign), (4, 20, 1, 2));
            assert_eq!(checked.unlisted + checked.young, 0);
        }
        let (found, _) = check(&gateway, true).await;
        assert_eq!(found, [OrphanFound::Stray { object: stray.into() }], "heads of buckets that are gone stay");
        for name in foreign.into_iter().chain([stray]) {
            let left = gateway.rados.lock().objects.remove(&pool_and(&gateway, name));
            assert!(left.is_some(), "{name} is not the gateway's to remove");
        }
        assert_eq!(gateway.rados.lock().objects.len(), objects, "nothing else is gone");
        assert_eq!(read(&gateway, &bucket, "large0", None).await, Ok(bytes_of(1, 101)));
        assert_eq!(read(&gateway, &bucket, "parts0", None).await.map(|bytes| bytes.len()), Ok(80));
    });
}

fn pool_and(gateway: &Gateway, name: &str) -> (String, String) {
    (gateway.settings().data_pool.clone(), name.to_owned())
}

/// A key whose entry is gone is listed again, and not removed.
#[test]
fn keys_that_no_index_lists_are_listed_again() {
    alone(async |gateway, bucket| {
        for key in ["a", "b", "c"] {
            put(&gateway, &bucket, key, 60, Versioning::Off).await;
        }
        for key in ["v", "w"] {
            put(&gateway, &bucket, key, 5, Versioning::Enabled).await;
            put(&gateway, &bucket, key, 6, Versioning::Enabled).await;
        }
        // Until the slots are left, lists ask the heads.
        crate::Rados::pause(&gateway.rados, 500).await;
        let ranges: Vec<_> = gateway.ranges(&bucket.id).await.expect("ranges");
        for (_, id) in &ranges {
            let object = names::range_object(&bucket.id, id);
            let mut world = gateway.rados.lock();
            let range = world.objects.get_mut(&(gateway.settings().meta_pool.clone(), object)).expect("a range");
            for key in ["b", "w"] {
                range.omap.remove(&names::entry(ENTRIES, key));
                let is_version =
                    |name: &[u8]| name[0] == names::VERSIONS && names::parse_key(name).as_deref() == Some(key);
                range.omap.retain(|name, _| !is_version(name));
            }
        }
        let unlisted = |key: &str| OrphanFound::Unlisted { bucket: "things".into(), key: key.into() };
        for fix in [false, true] {
            let (found, checked) = check(&gateway, fix).await;
            assert_eq!((found, checked.unlisted, checked.orphans), (vec![unlisted("b"), unlisted("w")], 2, 0));
        }
        assert_eq!(check(&gateway, true).await.0, []);
        assert_eq!(read(&gateway, &bucket, "b", None).await, Ok(bytes_of(1, 60)));
        let checked = gateway.check_bucket(&bucket, true, |_| {}).await.expect("a check");
        assert_eq!(checked.wrong, Vec::<String>::new());
        assert!(delete(&gateway, &bucket, "b", Conditions::default()).await.expect("it is deleted"));
    });
}

/// Objects that lie there for less than the age of orphans stay, also by a clock that is behind.
#[test]
fn young_objects_stay() {
    let client = Memory::start(3);
    let mut executor = Executor::default();
    let settings = Settings { orphan_age_ms: 600_000, ..small() };
    let gateway = executor.until(&client, super::open_with(&client, "aa", settings));
    executor.until(&client, async {
        let now = client.lock().now_ms + 10_000_000;
        client.lock().now_ms = now;
        plant(&gateway, "t/dead.1/0", now - 590_000);
        plant(&gateway, "t/dead.2/0", now - 700_000);
        plant(&gateway, "t/dead.3/0", now + 5_000_000);
        let (found, checked) = check(&gateway, true).await;
        assert_eq!((found, checked.young), (vec![orphan("t/dead.2/0")], 2));
        client.lock().now_ms += 20_000;
        let (found, checked) = check(&gateway, true).await;
        assert_eq!((found, checked.young), (vec![orphan("t/dead.1/0")], 1));
    });
}

/// A body whose rest never comes.
struct Stuck(Option<Bytes>);

impl Body for Stuck {
    async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        match self.0.take() {
            Some(bytes) => Ok(Some(bytes)),
            None => std::future::pending().await,
        }
    }
}

/// The stripes of a gateway that died amid an upload are an intent's until its sweep, which removes them.
#[test]
fn an_upload_that_its_gateway_s_death_cut_short_is_no_orphan() {
    let client = Memory::start(5);
    let mut executor = Executor::default();
    let living = client.another("client.living".into());
    let dying = executor.until(&client, open(&client, "dying"));
    let other = executor.until(&living, open(&living, "living"));
    let bucket = executor.until(&client, async {
        let me = dying.create_user(user("me"), ("AK1", "secret-of-ak1")).await.expect("a user");
        dying.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket")
    });
    let (id, _) = executor.until(&living, upload(&other, &bucket, "parts"));
    let is_over = Arc::new(Mutex::new(false));
    for part in [false, true] {
        let (gateway, bucket, id, is_over) = (dying.clone(), bucket.clone(), id.clone(), is_over.clone());
        executor.add(
            &client,
            Box::pin(async move {
                let mut body = Stuck(Some(Bytes::from(bytes_of(1, 64))));
                if part {
                    let (key, upload) = ("parts".to_owned(), id);
                    let request = PartRequest { key, upload, number: 1, size: 100, ..PartRequest::default() };
                    drop(gateway.put_part(&bucket, request, &mut body).await);
                } else {
                    let request = PutRequest { key: "k".into(), size: 100, ..PutRequest::default() };
                    drop(gateway.put(&bucket, request, &mut body).await);
                }
                *is_over.lock().expect("nobody panicked") = true;
            }),
        );
    }
    for _ in 0..500 {
        executor.turn();
        client.lock().deliver();
    }
    assert!(!*is_over.lock().expect("nobody panicked"));
    executor.kill(&client);
    let (found, checked) = executor.until(&living, check(&other, true));
    assert_eq!((found, checked.under_way), (Vec::new(), 8), "two bodies of four stripes");
    executor.until(&living, async {
        for _ in 0..3 {
            other.tend().await.expect("the cluster works");
            living.lock().now_ms += 5000;
        }
        let (found, checked) = check(&other, true).await;
        assert_eq!((found, checked.under_way), (Vec::new(), 0));
        wreckage::check(&living, &other).await;
    });
}

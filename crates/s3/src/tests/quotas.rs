//! Counts of buckets, and quotas by them.

use super::basics::{alone, delete};
use super::{bytes_of, open, user};
use crate::executor::Executor;
use crate::memory::Memory;
use crate::{
    Bucket, BucketSettings, Conditions, Deletion, Error, PartRequest, PutRequest, Rados, Store, Upload, Versioning,
    WantedPart, Whole, names,
};
use s3rules::S3Code;
use s3rules::quota::{Quota, Usage};
use std::sync::Arc;

type Gateway = Arc<Store<Memory>>;

async fn put(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, size: usize) -> Result<(), Error> {
    put_in(gateway, bucket, (key, size), Versioning::Off).await
}

async fn put_in(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    (key, size): (&str, usize),
    versioning: Versioning,
) -> Result<(), Error> {
    let (key, owner, size_told) = (key.to_owned(), "me".to_owned(), size as u64);
    let request = PutRequest { key, owner, size: size_told, versioning, ..PutRequest::default() };
    gateway.put(bucket, request, &mut Whole::new(bytes_of(3, size))).await.map(drop)
}

/// Bytes and objects that a bucket counts, once the index has followed.
async fn stored(gateway: &Gateway, bucket: &Bucket) -> (u64, u64) {
    gateway.rados.pause(500).await;
    let usage = gateway.usage(&bucket.id, false).await.expect("counts").stored;
    (usage.bytes, usage.objects)
}

fn is_exceeded(outcome: Result<(), Error>) -> bool {
    match outcome {
        Ok(()) => false,
        Err(Error::Rule(error)) if error.code == S3Code::QuotaExceeded => true,
        Err(error) => panic!("{error}"),
    }
}

async fn set_quota(gateway: &Gateway, bucket: &Bucket, bytes_max: Option<u64>, objects_max: Option<u64>) {
    let quota = Quota { enabled: true, bytes_max, objects_max };
    let set = gateway.change_settings(bucket, |settings| {
        settings.quota = quota;
        Ok(())
    });
    set.await.expect("it is set");
}

async fn begin_upload(gateway: &Gateway, bucket: &Bucket, key: &str) -> String {
    let json = serde_json::json!({"id": "", "key": key, "owner": "me", "created_ms": 0});
    let upload: Upload = serde_json::from_value(json).expect("an upload");
    gateway.create_upload(bucket, upload).await.expect("an upload begins").id
}

async fn put_part(
    gateway: &Gateway,
    bucket: &Arc<Bucket>,
    (key, upload): (&str, &str),
    (number, size): (u16, usize),
) -> Result<WantedPart, Error> {
    let (key, upload) = (key.to_owned(), upload.to_owned());
    let request = PartRequest { key, upload, number, size: size as u64, ..PartRequest::default() };
    let part = gateway.put_part(bucket, request, &mut Whole::new(bytes_of(4, size))).await?;
    Ok(WantedPart { number, etag: part.etag, checksums: Vec::new() })
}

#[test]
fn every_version_with_bytes_counts() {
    alone(async |gateway, bucket| {
        for at in 0..30 {
            put(&gateway, &bucket, &format!("k{at:02}"), at).await.expect("it is put");
        }
        assert_eq!(stored(&gateway, &bucket).await, (435, 30));
        gateway.tend().await.expect("ranges split");
        assert_eq!(stored(&gateway, &bucket).await, (435, 30));
        put(&gateway, &bucket, "k00", 100).await.expect("it is replaced");
        delete(&gateway, &bucket, "k29", Conditions::default()).await.expect("it is deleted");
        assert_eq!(stored(&gateway, &bucket).await, (506, 29));
        for size in [7, 8] {
            put_in(&gateway, &bucket, ("k01", size), Versioning::Enabled).await.expect("a version");
        }
        assert_eq!(stored(&gateway, &bucket).await, (521, 31));
        let marker = Deletion { versioning: Versioning::Enabled, ..Deletion::default() };
        let marker = gateway.delete(&bucket, "k01", marker).await.expect("it is marked").expect("a marker");
        assert_eq!(stored(&gateway, &bucket).await, (521, 31), "a marker is no object");
        for version in [marker.version, Some("null".into())] {
            let removal = Deletion { version, ..Deletion::default() };
            gateway.delete(&bucket, "k01", removal).await.expect("it is removed");
        }
        assert_eq!(stored(&gateway, &bucket).await, (520, 30));
        let upload = begin_upload(&gateway, &bucket, "big").await;
        let place = ("big", upload.as_str());
        let parts = [(1, 30), (2, 40), (1, 25)];
        let mut wanted = Vec::new();
        for part in parts {
            wanted.push(put_part(&gateway, &bucket, place, part).await.expect("a part"));
        }
        let usage = gateway.usage(&bucket.id, true).await.expect("counts");
        assert_eq!((usage.stored, usage.uploads, usage.upload_bytes), (Usage { bytes: 520, objects: 30 }, 1, 65));
        let wanted = [wanted.remove(2), wanted.remove(1)];
        let how = (&Conditions::default(), Versioning::Off);
        gateway.complete_upload(&bucket, place, &wanted, how, None).await.expect("it is completed");
        assert_eq!(stored(&gateway, &bucket).await, (585, 31));
        let usage = gateway.usage(&bucket.id, true).await.expect("counts");
        assert_eq!((usage.uploads, usage.upload_bytes), (0, 0));
        assert!(usage.ranges > 1, "ranges have split: {usage:?}");
    });
}

/// Takes the counts away from all ranges of a bucket, as they were before there were any. Gives the number of ranges.
fn forget_counts(client: &Memory, bucket: &Bucket, sums_alone: bool) -> usize {
    let mut world = client.lock();
    let prefix = names::range_object(&bucket.id, "");
    let ranges = world.objects.iter_mut().filter(|((_, name), _)| name.starts_with(&prefix));
    let forgotten =
        ranges.map(|(_, range)| range.omap.retain(|name, _| name[0] != b'c' || sums_alone && name.len() > 1));
    forgotten.count()
}

#[test]
fn ranges_without_counts_are_counted() {
    let client = Memory::start(5);
    let mut executor = Executor::default();
    executor.until(&client, async {
        let gateway = open(&client, "aa").await;
        let me = gateway.create_user(user("me"), ("AK1", "secret-of-ak1")).await.expect("a user");
        let bucket = gateway.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        let mut bytes = 0;
        for round in 0..4_usize {
            for at in 0..10 {
                bytes += 5;
                put(&gateway, &bucket, &format!("{round}{at}"), 5).await.expect("it is put");
            }
            let counted = (bytes, 10 * (round as u64 + 1));
            gateway.rados.pause(500).await;
            assert!(forget_counts(&client, &bucket, round % 2 == 1) > 0);
            assert_eq!(stored(&gateway, &bucket).await, counted, "round {round}");
            // Changes go on from what was counted.
            put(&gateway, &bucket, "00", 6).await.expect("it is replaced");
            bytes += u64::from(round == 0);
            assert_eq!(stored(&gateway, &bucket).await, (bytes, counted.1));
            gateway.tend().await.expect("ranges split");
        }
        // A sum that is wrong is found and mended.
        let prefix = names::range_object(&bucket.id, "");
        for ((_, name), range) in &mut client.lock().objects {
            if name.starts_with(&prefix) {
                let wrong = br#"{"seq":99,"bytes":7,"objects":7}"#;
                range.omap.insert(names::sum(), bytes::Bytes::from_static(wrong));
            }
        }
        let found = gateway.check_bucket(&bucket, false, |_| {}).await.expect("a check");
        assert_eq!((found.miscounted, found.wrong.len(), found.objects), (found.ranges, 0, 40));
        assert_ne!(stored(&gateway, &bucket).await, (bytes, 40), "a check alone mends nothing");
        assert_eq!(gateway.check_bucket(&bucket, true, |_| {}).await.expect("a check").miscounted, found.ranges);
        assert_eq!(gateway.check_bucket(&bucket, true, |_| {}).await.expect("a check").miscounted, 0);
        assert_eq!(stored(&gateway, &bucket).await, (bytes, 40));
    });
}

#[test]
fn quotas_of_buckets_bound_them() {
    alone(async |gateway, bucket| {
        set_quota(&gateway, &bucket, Some(200), Some(4)).await;
        for key in ["a", "b", "c", "d"] {
            put(&gateway, &bucket, key, 20).await.expect("there is room");
        }
        assert!(is_exceeded(put(&gateway, &bucket, "e", 0).await), "a fifth object");
        put(&gateway, &bucket, "a", 140).await.expect("no object more, and 200 bytes");
        assert!(is_exceeded(put(&gateway, &bucket, "b", 21).await), "a byte more");
        put(&gateway, &bucket, "b", 20).await.expect("nothing is added");
        put(&gateway, &bucket, "b", 10).await.expect("it is less");
        delete(&gateway, &bucket, "a", Conditions::default()).await.expect("it is deleted");
        put(&gateway, &bucket, "e", 150).await.expect("there is room again");
        assert!(is_exceeded(put(&gateway, &bucket, "c", 21).await));
        assert_eq!(stored(&gateway, &bucket).await, (200, 4));
        // A large object is refused before its bytes come, and parts of uploads count.
        assert!(is_exceeded(put(&gateway, &bucket, "e", 151).await));
        delete(&gateway, &bucket, "e", Conditions::default()).await.expect("it is deleted");
        let upload = begin_upload(&gateway, &bucket, "big").await;
        let place = ("big", upload.as_str());
        let mut wanted = Vec::new();
        for part in [(1, 70), (1, 60), (2, 90)] {
            wanted.push(put_part(&gateway, &bucket, place, part).await.expect("a part"));
        }
        assert!(is_exceeded(put_part(&gateway, &bucket, place, (3, 1)).await.map(drop)));
        assert!(is_exceeded(put(&gateway, &bucket, "f", 1).await));
        let how = (&Conditions::default(), Versioning::Off);
        gateway.complete_upload(&bucket, place, &wanted[1..], how, None).await.expect("it is completed");
        assert!(is_exceeded(put(&gateway, &bucket, "c", 21).await));
        gateway.rados.pause(3000).await;
        assert!(is_exceeded(put(&gateway, &bucket, "c", 21).await), "also by counts that are new");
        put_in(&gateway, &bucket, ("c", 20), Versioning::Off).await.expect("nothing is added");
        assert!(is_exceeded(put_in(&gateway, &bucket, ("c", 1), Versioning::Enabled).await), "a version is an object");
        let marker = Deletion { versioning: Versioning::Enabled, ..Deletion::default() };
        gateway.delete(&bucket, "c", marker).await.expect("a marker is none");
    });
}

#[test]
fn quotas_of_users_bound_all_of_their_buckets() {
    alone(async |gateway, bucket| {
        let me = gateway.user("me").await.expect("a user");
        let other = gateway.create_bucket(&me, "other", BucketSettings::default()).await.expect("a bucket");
        let quota = Quota { enabled: true, bytes_max: Some(100), objects_max: None };
        gateway.change_user("me", |user| user.quota = quota).await.expect("it is set");
        put(&gateway, &bucket, "a", 60).await.expect("there is room");
        put(&gateway, &other, "a", 40).await.expect("there is room");
        assert!(is_exceeded(put(&gateway, &bucket, "b", 1).await));
        assert!(is_exceeded(put(&gateway, &other, "b", 1).await));
        gateway.change_user("me", |user| user.quota.enabled = false).await.expect("it is off");
        gateway.rados.pause(500).await;
        put(&gateway, &other, "b", 1).await.expect("a quota that is off bounds nothing");
    });
}

/// A gateway learns of what others have written, and sums nothing up that was refused.
#[test]
fn gateways_share_quotas() {
    let client = Memory::start(9);
    let mut executor = Executor::default();
    let other = client.another("client.2".into());
    // The second gateway's work beside its requests is run, too.
    executor.add(&other, Box::pin(async {}));
    executor.until(&client, async {
        let gateway = open(&client, "aa").await;
        let second = open(&other, "bb").await;
        let me = gateway.create_user(user("me"), ("AK1", "secret-of-ak1")).await.expect("a user");
        let bucket = gateway.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        set_quota(&gateway, &bucket, None, Some(10)).await;
        for at in 0..5 {
            put(&gateway, &bucket, &format!("a{at}"), 1).await.expect("there is room");
            put(&second, &bucket, &format!("b{at}"), 1).await.expect("there is room");
        }
        gateway.rados.pause(5000).await;
        for _ in 0..20 {
            assert!(is_exceeded(put(&gateway, &bucket, "c", 1).await));
            assert!(is_exceeded(put(&second, &bucket, "c", 1).await));
        }
        delete(&gateway, &bucket, "b0", Conditions::default()).await.expect("it is deleted");
        gateway.rados.pause(5000).await;
        put(&second, &bucket, "c", 1).await.expect("there is room again");
        assert!(is_exceeded(put(&second, &bucket, "d", 1).await));
    });
}

#[test]
fn records_from_before_quotas_bound_nothing() {
    let user = serde_json::json!({"uid": "me", "display_name": "me", "access_keys": [], "buckets_max": 5});
    let user: crate::User = serde_json::from_value(user).expect("a user");
    let settings = serde_json::json!({"format": 3, "revision": 7, "requesters_pay": true});
    let settings: BucketSettings = serde_json::from_value(settings).expect("settings");
    assert!(settings.check_format("things").is_ok() && settings.requesters_pay);
    assert_eq!((user.quota, settings.quota), (Quota::default(), Quota::default()));
    assert_eq!((settings.website, settings.rate_limit), (None, user.rate_limit));
}

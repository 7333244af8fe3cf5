//! Settings of buckets, by several gateways.

use super::{open, small, user};
use crate::executor::Executor;
use crate::memory::Memory;
use crate::names;
use crate::rados::{Rados, Step};
use crate::{BucketSettings, Code, Error, StoredPolicy};
use s3rules::tagging::{Tag, TagSet};
use s3rules::{S3Code, S3Error};
use std::sync::{Arc, Mutex};

fn tag(key: &str) -> Tag {
    Tag { key: key.into(), value: "v".into() }
}

fn policy(text: &str) -> Option<StoredPolicy> {
    Some(StoredPolicy { text: text.into(), binds_owner: false })
}

#[test]
fn changes_of_settings_at_once_do_not_undo_each_other() {
    for seed in 1..30 {
        let client = Memory::start(seed);
        let mut executor = Executor::default();
        let first = executor.until(&client, open(&client, "a"));
        executor.until(&client, async {
            let me = first.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
            first.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        });
        let left = Arc::new(Mutex::new(6));
        for number in 0..6 {
            let client = client.another(format!("client.{number}"));
            let gateway = executor.until(&client, open(&client, &format!("b{number}")));
            let left = left.clone();
            let work = async move {
                let bucket = gateway.bucket("things").await.expect("a bucket");
                gateway
                    .change_settings(&bucket, |settings| {
                        let tags = settings.tags.get_or_insert_default();
                        tags.tags.push(tag(&number.to_string()));
                        Ok(())
                    })
                    .await
                    .expect("they are changed");
                *left.lock().expect("nobody panicked") -= 1;
            };
            executor.add(&client, Box::pin(work));
        }
        while *left.lock().expect("nobody panicked") > 0 {
            executor.turn();
            client.lock().deliver();
        }
        let (_, settings) = executor.until(&client, first.settings_now("things")).expect("a bucket");
        let mut keys: Vec<String> = settings.tags.iter().flat_map(|set| &set.tags).map(|tag| tag.key.clone()).collect();
        keys.sort_unstable();
        assert_eq!((keys.join(""), settings.revision), ("012345".to_owned(), 6), "seed {seed}");
    }
}

#[test]
fn other_gateways_act_on_former_settings_for_a_limited_time() {
    let client = Memory::start(5);
    let mut executor = Executor::default();
    let first = executor.until(&client, open(&client, "a"));
    let second = executor.until(&client, open(&client, "b"));
    executor.until(&client, async {
        let me = first.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
        let made = BucketSettings { policy: policy("{}"), ..BucketSettings::default() };
        let bucket = first.create_bucket(&me, "things", made).await.expect("a bucket");
        let of = async |gateway: &Arc<crate::Store<Memory>>| {
            gateway.bucket_and_settings("things").await.expect("a bucket").1.policy.clone()
        };
        assert_eq!((of(&first).await, of(&second).await), (policy("{}"), policy("{}")));
        let asked_at = client.now_ms();
        first
            .change_settings(&bucket, |settings| {
                settings.policy = None;
                Ok(())
            })
            .await
            .expect("they are changed");
        assert_eq!(of(&first).await, None, "the gateway that changed them acts on them at once");
        while client.now_ms() < asked_at + small().bucket_ttl_ms + 100 {
            client.lock().now_ms += 20;
            // Asking again and again does not lengthen the time.
            of(&second).await;
        }
        assert_eq!(of(&second).await, None);
    });
}

#[test]
fn settings_that_are_refused_change_nothing() {
    let client = Memory::start(6);
    let mut executor = Executor::default();
    let gateway = executor.until(&client, open(&client, "a"));
    executor.until(&client, async {
        let me = gateway.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
        let create = async || gateway.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        let bucket = create().await;
        let refusal = S3Error::new(S3Code::InvalidTag, "no");
        let outcome = gateway.change_settings(&bucket, |settings| {
            settings.tags = Some(TagSet { tags: vec![tag("k")] });
            Err(refusal.clone().into())
        });
        assert_eq!(outcome.await, Err(Error::Rule(refusal.clone())));
        assert_eq!(*gateway.settings_now("things").await.expect("a bucket").1, BucketSettings::default());
        // A setting of a bucket that is gone is not set for the next one of its name.
        gateway.delete_bucket(&bucket).await.expect("it is empty");
        let again = create().await;
        let set = |settings: &mut BucketSettings| {
            settings.requesters_pay = true;
            Ok(())
        };
        let outcome = gateway.change_settings(&bucket, set).await;
        assert_eq!(outcome.expect_err("it is gone").code(), Some(Code::NoSuchBucket));
        assert!(gateway.change_settings(&again, set).await.expect("they are changed").requesters_pay);
        // A newer gateway has written what this one does not understand.
        let newer = BucketSettings { format: 99, ..BucketSettings::default() };
        let steps = vec![Step::WriteFull(crate::records::to_bytes(&newer))];
        gateway.meta(names::bucket_object("things"), steps).await.expect("it is written");
        let outcome = gateway.settings_now("things").await;
        assert!(matches!(outcome, Err(Error::Damaged { reason, .. }) if reason.contains("newer gateway")));
    });
}

#[test]
fn users_are_found_by_their_addresses() {
    let client = Memory::start(8);
    let mut executor = Executor::default();
    let gateway = executor.until(&client, open(&client, "a"));
    executor.until(&client, async {
        let with = |uid: &str, email: &str| crate::User { email: Some(email.into()), ..user(uid) };
        gateway.create_user(with("ann", "ann@e.com"), ("AK1", "secret-of-ann")).await.expect("a user");
        let found = gateway.user_of_email("ann@e.com").await.expect("it works");
        assert_eq!(found.map(|user| user.uid).as_deref(), Some("ann"));
        assert_eq!(gateway.user_of_email("bob@e.com").await, Ok(None));
        for (uid, email) in [("bob", "ann@e.com"), ("bob", "no address"), ("anonymous", "x@e.com")] {
            let outcome = gateway.create_user(with(uid, email), ("AK2", "secret-of-bob")).await;
            assert_eq!(outcome.expect_err("refused").code(), Some(Code::InvalidArgument), "{uid} {email}");
        }
        gateway.remove_user("ann").await.expect("there are no buckets");
        assert_eq!(gateway.user_of_email("ann@e.com").await, Ok(None));
        gateway.create_user(with("bob", "ann@e.com"), ("AK2", "secret-of-bob")).await.expect("the address is free");
    });
}

/// A put and two changes of the head at once: the put stays, and of the changes both stay or the put came behind them.
#[test]
fn a_changed_head_does_not_bring_a_former_object_back() {
    for seed in 1..60 {
        let client = Memory::start(seed);
        let mut executor = Executor::default();
        let first = executor.until(&client, open(&client, "a"));
        let bucket = executor.until(&client, async {
            let me = first.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
            first.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket")
        });
        let put = async |owner: &str| {
            let request = crate::PutRequest { key: "k".into(), owner: owner.into(), size: 1, ..Default::default() };
            first.put(&bucket, request, &mut crate::Whole::new(owner.to_owned())).await.expect("it is put");
        };
        executor.until(&client, put("1"));
        let left = Arc::new(Mutex::new(2));
        for number in 0..2 {
            let client = client.another(format!("client.{number}"));
            let gateway = executor.until(&client, open(&client, &format!("b{number}")));
            let (left, bucket) = (left.clone(), bucket.clone());
            let work = async move {
                let change = |head: &mut crate::Head| {
                    head.tags.tags.push(tag(&number.to_string()));
                    Ok(())
                };
                gateway.change_head(&bucket, "k", None, change).await.expect("it is there");
                *left.lock().expect("nobody panicked") -= 1;
            };
            executor.add(&client, Box::pin(work));
        }
        let (puts, changes) = (seed % 2 == 0, &left);
        if puts {
            executor.until(&client, put("2"));
        }
        while *changes.lock().expect("nobody panicked") > 0 {
            executor.turn();
            client.lock().deliver();
        }
        let head = executor.until(&client, first.stat(&bucket, "k", None)).expect("it is there");
        assert_eq!(head.owner, if puts { "2" } else { "1" }, "seed {seed}");
        assert!(puts || head.tags.tags.len() == 2, "seed {seed}: a change is lost: {:?}", head.tags);
    }
}

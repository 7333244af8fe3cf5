//! Lifecycle rules: what goes and what stays, whose round it is, and gateways that die amid rounds and requests.

use super::basics::{alone, read};
use super::{DAY_S, bytes_of, open, open_with, small, user, wreckage};
use crate::executor::Executor;
use crate::lapse::Lapse;
use crate::memory::Memory;
use crate::rados::Rados;
use crate::versions::Change;
use crate::{
    Bucket, BucketSettings, Code, Deletion, Error, Lapsed, NULL_VERSION, PutRequest, Query, RadosError, Settings,
    Store, Upload, Versioning, Whole,
};
use s3rules::lifecycle::LifecycleConfiguration;
use s3rules::object_lock::ObjectLock;
use s3rules::tagging::{Tag, TagSet};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Gateway = Arc<Store<Memory>>;

const DAY_MS: u64 = DAY_S as u64 * 1000;

/// Rules, each with a filter and actions.
fn rules(of: &[(&str, &str)]) -> LifecycleConfiguration {
    let rule = |(filter, actions): &(&str, &str)| {
        format!("<Rule><Status>Enabled</Status><Filter>{filter}</Filter>{actions}</Rule>")
    };
    let rules: String = of.iter().map(rule).collect();
    let document = format!("<LifecycleConfiguration>{rules}</LifecycleConfiguration>");
    LifecycleConfiguration::from_xml(document.as_bytes(), |_| false).expect("rules")
}

fn expires(days: u64) -> String {
    format!("<Expiration><Days>{days}</Days></Expiration>")
}

fn noncurrent(days: u64, rest: &str) -> String {
    format!("<NoncurrentVersionExpiration><NoncurrentDays>{days}</NoncurrentDays>{rest}</NoncurrentVersionExpiration>")
}

fn tags(key: &str) -> TagSet {
    TagSet { tags: vec![Tag { key: key.into(), value: "1".into() }] }
}

fn request(key: &str, size: usize, versioning: Versioning) -> PutRequest {
    PutRequest { key: key.into(), owner: "me".into(), size: size as u64, versioning, ..PutRequest::default() }
}

async fn put(gateway: &Gateway, bucket: &Arc<Bucket>, request: PutRequest) -> String {
    let bytes = bytes_of(1, request.size as usize);
    let head = gateway.put(bucket, request, &mut Whole::new(bytes)).await.expect("it is put");
    head.version.unwrap_or_else(|| NULL_VERSION.to_owned())
}

async fn set(gateway: &Gateway, bucket: &Bucket, of: &[(&str, &str)]) {
    gateway.set_lifecycle(bucket, Some(rules(of))).await.expect("they are set");
}

async fn keep_versions(gateway: &Gateway, bucket: &Bucket, versioning: Versioning) {
    let change = |settings: &mut BucketSettings| {
        settings.versioning = versioning;
        Ok(())
    };
    gateway.change_settings(bucket, change).await.expect("it is set");
}

/// Lets days pass, in which no round begins, and then begins one.
async fn after(gateway: &Gateway, days: u64) -> Lapsed {
    gateway.rados.lock().now_ms += days * DAY_MS;
    gateway.lifecycle(&|| true).await.expect("the cluster works")
}

/// Versions of a bucket: sizes, and `marker`; a star for the newest of a key.
async fn versions(gateway: &Gateway, bucket: &Bucket) -> String {
    let query = Query { max: 1000, ..Query::default() };
    let page = gateway.list_versions(bucket, &query, None).await.expect("a list");
    let word = |found: crate::ListedVersion| {
        let size = found.version.entry.size.to_string();
        let what = if found.version.is_marker { "marker".to_owned() } else { size };
        format!("{}={what}{}", found.key, if found.is_latest { "*" } else { "" })
    };
    page.versions.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn objects_expire_by_prefix_tags_and_size() {
    alone(async |gateway, bucket| {
        for (key, size, tag) in
            [("a/1", 10, None), ("a/2", 100, None), ("b/1", 60, Some("t")), ("b/2", 60, Some("u")), ("c", 5, Some("t"))]
        {
            let tags = tag.map(tags).unwrap_or_default();
            put(&gateway, &bucket, PutRequest { tags, ..request(key, size, Versioning::Off) }).await;
        }
        let tag = "<Prefix>b/</Prefix><Tag><Key>t</Key><Value>1</Value></Tag>";
        let sized = "<Prefix>a/</Prefix><ObjectSizeGreaterThan>50</ObjectSizeGreaterThan>";
        set(&gateway, &bucket, &[(tag, &expires(1)), (sized, &expires(3))]).await;
        assert_eq!(after(&gateway, 0).await, Lapsed { buckets: 1, ..Lapsed::default() });
        assert_eq!(after(&gateway, 0).await, Lapsed::default(), "the next round is not due");
        assert_eq!(after(&gateway, 1).await.versions, 1);
        assert_eq!(versions(&gateway, &bucket).await, "a/1=10* a/2=100* b/2=60* c=5*");
        assert_eq!(after(&gateway, 2).await.versions, 1);
        assert_eq!(versions(&gateway, &bucket).await, "a/1=10* b/2=60* c=5*");
        // Without rules nothing goes, and the directory forgets the bucket.
        set(&gateway, &bucket, &[("", &expires(1))]).await;
        gateway.set_lifecycle(&bucket, None).await.expect("they are deleted");
        assert_eq!(after(&gateway, 9).await, Lapsed::default());
        assert_eq!(gateway.whole_omap(crate::names::LIFECYCLE, bytes::Bytes::new()).await, Ok(Vec::new()));
        assert_eq!(read(&gateway, &bucket, "c", None).await, Ok(bytes_of(1, 5)));
        set(&gateway, &bucket, &[("", &expires(1))]).await;
        assert_eq!(after(&gateway, 0).await.versions, 3);
        assert_eq!(versions(&gateway, &bucket).await, "");
    });
}

#[test]
fn versions_and_markers_go_by_their_rules() {
    use Versioning::Enabled;
    alone(async |gateway, bucket| {
        keep_versions(&gateway, &bucket, Enabled).await;
        for size in 1..=7 {
            put(&gateway, &bucket, request("k", size, Enabled)).await;
        }
        put(&gateway, &bucket, request("other", 9, Enabled)).await;
        let keep_two = noncurrent(1, "<NewerNoncurrentVersions>2</NewerNoncurrentVersions>");
        set(&gateway, &bucket, &[("<Prefix>k</Prefix>", &keep_two)]).await;
        assert_eq!(after(&gateway, 1).await.versions, 4);
        assert_eq!(versions(&gateway, &bucket).await, "k=7* k=6 k=5 other=9*");
        // A delete marker is put before the newest version, which goes a day later; a marker alone goes at once.
        let alone = "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
        set(&gateway, &bucket, &[("", &expires(2)), ("", alone), ("", &noncurrent(1, ""))]).await;
        after(&gateway, 1).await;
        assert_eq!(versions(&gateway, &bucket).await, "k=marker* k=7 other=marker* other=9");
        assert_eq!(after(&gateway, 1).await.versions, 4);
        assert_eq!(versions(&gateway, &bucket).await, "");
    });
}

#[test]
fn markers_that_are_not_alone_stay() {
    alone(async |gateway, bucket| {
        keep_versions(&gateway, &bucket, Versioning::Enabled).await;
        let deletion = || Deletion { versioning: Versioning::Enabled, ..Deletion::default() };
        for key in ["a", "b"] {
            put(&gateway, &bucket, request(key, 3, Versioning::Enabled)).await;
            gateway.delete(&bucket, key, deletion()).await.expect("a marker");
        }
        set(&gateway, &bucket, &[("", &expires(1)), ("<Prefix>b</Prefix>", &noncurrent(3, ""))]).await;
        assert_eq!(after(&gateway, 2).await.versions, 0);
        assert_eq!(versions(&gateway, &bucket).await, "a=marker* a=3 b=marker* b=3");
        after(&gateway, 2).await;
        assert_eq!(versions(&gateway, &bucket).await, "a=marker* a=3");
    });
}

#[test]
fn tags_of_older_versions_count() {
    alone(async |gateway, bucket| {
        keep_versions(&gateway, &bucket, Versioning::Enabled).await;
        for (size, tag) in [(1, "t"), (2, "u"), (70, "t"), (4, "u")] {
            put(&gateway, &bucket, PutRequest { tags: tags(tag), ..request("k", size, Versioning::Enabled) }).await;
        }
        let tagged = "<Tag><Key>t</Key><Value>1</Value></Tag>";
        set(&gateway, &bucket, &[(tagged, &noncurrent(1, "")), (tagged, &expires(1))]).await;
        assert_eq!(after(&gateway, 1).await.versions, 2);
        assert_eq!(versions(&gateway, &bucket).await, "k=4* k=2");
    });
}

#[test]
fn locked_versions_stay_though_they_are_due() {
    alone(async |gateway, bucket| {
        keep_versions(&gateway, &bucket, Versioning::Enabled).await;
        let lock = ObjectLock { legal_hold: Some(true), ..ObjectLock::default() };
        put(&gateway, &bucket, PutRequest { lock, ..request("k", 1, Versioning::Enabled) }).await;
        put(&gateway, &bucket, request("k", 2, Versioning::Enabled)).await;
        put(&gateway, &bucket, request("k", 3, Versioning::Enabled)).await;
        set(&gateway, &bucket, &[("", &noncurrent(1, ""))]).await;
        assert_eq!(after(&gateway, 1).await, Lapsed { buckets: 1, versions: 1, kept: 1, uploads: 0 });
        assert_eq!(versions(&gateway, &bucket).await, "k=3* k=1");
        let free = |head: &mut crate::Head| {
            head.lock = ObjectLock::default();
            Ok(())
        };
        let held = gateway.list_versions(&bucket, &Query { max: 9, ..Query::default() }, None).await.expect("a list");
        let held = held.versions[1].version.version.clone();
        gateway.change_head(&bucket, "k", held.as_deref(), free).await.expect("it is free");
        assert_eq!(after(&gateway, 1).await.versions, 1);
        assert_eq!(versions(&gateway, &bucket).await, "k=3*");
    });
}

#[test]
fn uploads_are_given_up() {
    alone(async |gateway, bucket| {
        let begin = async |key: &str| {
            let upload = Upload {
                id: String::new(),
                key: key.into(),
                owner: "me".into(),
                created_ms: 0,
                headers: BTreeMap::new(),
                metadata: BTreeMap::new(),
                checksum: None,
                is_composite: false,
                acl: None,
                tags: TagSet::default(),
                lock: ObjectLock::default(),
                sealing: None,
            };
            gateway.create_upload(&bucket, upload).await.expect("it begins").id
        };
        let (first, _) = (begin("a/1").await, begin("b/1").await);
        let part = crate::PartRequest { key: "a/1".into(), upload: first, number: 1, size: 30, ..Default::default() };
        gateway.put_part(&bucket, part, &mut Whole::new(bytes_of(1, 30))).await.expect("it is put");
        let abort = "<AbortIncompleteMultipartUpload><DaysAfterInitiation>2</DaysAfterInitiation>\
                     </AbortIncompleteMultipartUpload>";
        set(&gateway, &bucket, &[("<Prefix>a/</Prefix>", abort)]).await;
        assert_eq!(after(&gateway, 1).await.uploads, 0);
        begin("a/2").await;
        assert_eq!(after(&gateway, 1).await.uploads, 1);
        let page = gateway.list_uploads(&bucket, &Query { max: 9, ..Query::default() }, "").await.expect("a list");
        assert_eq!(page.uploads.iter().map(|u| u.key.as_str()).collect::<Vec<_>>(), ["a/2", "b/1"]);
    });
}

/// A look that found a version due is judged by what is there when it goes.
#[test]
fn what_was_put_meanwhile_stays() {
    alone(async |gateway, bucket| {
        let of = |filter, tags: BTreeMap<String, TagSet>| {
            Change::Lapse(Lapse {
                rules: Arc::new(rules(&[(filter, &expires(1))])),
                day_s: Some(DAY_S),
                versioning: Versioning::Off,
                owner: "me".into(),
                version: NULL_VERSION.into(),
                tags: Arc::new(tags),
            })
        };
        let lapse = async |change: Change| {
            let done = gateway.commit(&bucket, "k", change, &Default::default(), None).await.expect("it works");
            done.changed
        };
        put(&gateway, &bucket, request("k", 3, Versioning::Off)).await;
        gateway.rados.lock().now_ms += DAY_MS;
        put(&gateway, &bucket, request("k", 4, Versioning::Off)).await;
        assert!(!lapse(of("", BTreeMap::new())).await, "the version of now is new");
        gateway.rados.lock().now_ms += DAY_MS;
        let tagged = "<Tag><Key>t</Key><Value>1</Value></Tag>";
        assert!(!lapse(of(tagged, BTreeMap::new())).await, "the version of now has no such tag");
        // An older version whose tags were not read stays.
        put(&gateway, &bucket, request("k", 5, Versioning::Enabled)).await;
        gateway.rados.lock().now_ms += DAY_MS;
        let noncurrent = Change::Lapse(Lapse {
            rules: Arc::new(rules(&[(tagged, &noncurrent(1, ""))])),
            day_s: Some(DAY_S),
            versioning: Versioning::Enabled,
            owner: "me".into(),
            version: NULL_VERSION.into(),
            tags: Arc::new(BTreeMap::from([("elsewhere".into(), tags("t"))])),
        });
        assert!(!lapse(noncurrent).await, "the tags are those of another place");
        assert!(!lapse(of("<Prefix>x</Prefix>", BTreeMap::new())).await);
        assert_eq!(versions(&gateway, &bucket).await, "k=5* k=4");
    });
}

#[test]
fn a_round_is_one_gateway_s_until_its_session_ends() {
    let client = Memory::start(9);
    let mut executor = Executor::default();
    let first = executor.until(&client, open(&client, "a"));
    let other = client.another("client.1".into());
    let second = executor.until(&other, open(&other, "b"));
    executor.until(&client, async {
        let me = first.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
        let bucket = first.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        put(&first, &bucket, request("k", 3, Versioning::Off)).await;
        set(&first, &bucket, &[("", &expires(1))]).await;
        // The first gateway takes the round, and is told to stop amid it.
        let calls = Mutex::new(0);
        let once = || {
            let mut calls = calls.lock().expect("nobody panicked");
            *calls += 1;
            *calls == 1
        };
        first.rados.lock().now_ms += DAY_MS;
        assert_eq!(first.lifecycle(&once).await, Ok(Lapsed::default()), "it was stopped");
        assert_eq!(versions(&first, &bucket).await, "k=3*");
        // It dies amid the next one.
        let name = bytes::Bytes::from_static(b"things");
        let taken = br#"{"session":"a","due_ms":0,"mark":"a.x"}"#;
        let taken = vec![crate::Step::Set(vec![(name, bytes::Bytes::from_static(taken))])];
        first.meta(crate::names::LIFECYCLE.into(), taken).await.expect("it is written");
    });
    executor.until(&other, async {
        assert_eq!(second.lifecycle(&|| true).await, Ok(Lapsed::default()), "the first one is at it");
    });
    executor.kill(&client);
    executor.until(&other, async {
        while second.whole_omap(crate::names::SESSIONS, bytes::Bytes::new()).await.expect("sessions").len() > 1 {
            second.rados.lock().now_ms += 500;
            second.tend().await.expect("the cluster works");
        }
        assert_eq!(second.lifecycle(&|| true).await.expect("it works").versions, 1);
    });
}

/// Keys as the model knows them.
#[derive(Default)]
struct World {
    keys: BTreeMap<String, Known>,
    requests: u64,
    is_over: bool,
}

/// Knowledge of a key's only writer.
#[derive(Clone, Default)]
struct Known {
    /// Size, and when its put began; `None` is a deletion. The last one may not have been answered.
    puts: Vec<(Option<usize>, u64)>,
    is_answered: bool,
}

const REQUESTS: u64 = 600;
/// A day of the model, in which some requests have room.
const SHORT_DAY_S: u32 = 1;

fn short_days() -> Settings {
    Settings { lifecycle_day_s: Some(SHORT_DAY_S), ..small() }
}

struct Worker {
    client: Memory,
    gateway: Gateway,
    world: Arc<Mutex<World>>,
    name: String,
}

impl Worker {
    fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world.lock().expect("no worker panicked"))
    }

    async fn run(self) {
        while self.world(|world| {
            world.requests += 1;
            world.requests < REQUESTS
        }) {
            match self.request().await {
                Err(Error::Rados(RadosError::Fenced)) => return,
                outcome => outcome.expect("the cluster works"),
            }
        }
    }

    fn random(&self, below: u64) -> u64 {
        self.client.lock().random(below)
    }

    /// Changes or reads a key that nobody else changes. Those with `x` are about to expire.
    async fn request(&self) -> Result<(), Error> {
        let (bucket, _) = self.gateway.bucket_and_settings("things").await?;
        let key = format!("{}{}{}", if self.random(3) == 0 { "y" } else { "x" }, self.name, self.random(3));
        match self.random(8) {
            0..4 => {
                let size = [5, 48, 70, 130][self.random(4) as usize];
                self.note(&key, Some(size));
                let request = request(&key, size, Versioning::Off);
                self.gateway.put(&bucket, request, &mut Whole::new(bytes_of(1, size))).await?;
                self.answered(&key);
            }
            4 => {
                self.note(&key, None);
                self.gateway.delete(&bucket, &key, Deletion::default()).await?;
                self.answered(&key);
            }
            _ => self.look(&bucket, &key).await?,
        }
        Ok(())
    }

    fn note(&self, key: &str, size: Option<usize>) {
        let now = self.client.lock().now_ms;
        self.world(|world| {
            let known = world.keys.entry(key.to_owned()).or_default();
            if known.is_answered {
                known.puts.clear();
            }
            known.is_answered = false;
            known.puts.push((size, now));
        });
    }

    fn answered(&self, key: &str) {
        self.world(|world| {
            let known = world.keys.get_mut(key).expect("it was noted");
            known.puts.drain(..known.puts.len() - 1);
            known.is_answered = true;
        });
    }

    /// Reads a key: its last put is there until its day has passed.
    async fn look(&self, bucket: &Arc<Bucket>, key: &str) -> Result<(), Error> {
        let known = self.world(|world| world.keys.get(key).cloned().unwrap_or_default());
        let found = match self.gateway.get(bucket, key, None, None).await {
            Ok(object) => Some(object.head.size as usize),
            Err(error) if error.code() == Some(Code::NoSuchKey) => None,
            Err(error) => return Err(error),
        };
        let now = self.client.lock().now_ms;
        let expires = |begun: u64| key.starts_with('x') && now >= begun + u64::from(SHORT_DAY_S) * 1000;
        if known.is_answered {
            let (size, begun) = known.puts[0];
            assert!(found == size || (found.is_none() && expires(begun)), "{key}: {found:?} of {size:?} from {begun}");
        }
        Ok(())
    }
}

async fn beside(gateway: Gateway, world: Arc<Mutex<World>>, what: u32) {
    while !world.lock().expect("no worker panicked").is_over {
        gateway.rados.pause(300).await;
        let outcome = match what {
            0 => gateway.tend().await,
            1 => gateway.beat().await,
            _ => gateway.lifecycle(&|| true).await.map(drop),
        };
        match outcome {
            Err(Error::Rados(RadosError::Fenced)) => return,
            outcome => outcome.expect("the cluster works"),
        }
    }
}

fn start(executor: &mut Executor, first: &Memory, world: &Arc<Mutex<World>>, number: u64) -> (Memory, Gateway) {
    let client = first.another(format!("client.{number}"));
    let gateway = executor.until(&client, open_with(&client, &format!("s{number}"), short_days()));
    for what in 0..3 {
        executor.add(&client, Box::pin(beside(gateway.clone(), world.clone(), what)));
    }
    for worker in 0..2 {
        let name = format!("{number}.{worker}.");
        let worker = Worker { client: client.clone(), gateway: gateway.clone(), world: world.clone(), name };
        executor.add(&client, Box::pin(worker.run()));
    }
    (client, gateway)
}

fn run(seed: u64) {
    let first = Memory::start(seed);
    let mut executor = Executor::default();
    let setup = executor.until(&first, open(&first, "setup"));
    executor.until(&first, async {
        let me = setup.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
        let bucket = setup.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
        set(&setup, &bucket, &[("<Prefix>x</Prefix>", &expires(1))]).await;
    });
    executor.kill(&first);
    let world: Arc<Mutex<World>> = Arc::default();
    let mut alive: Vec<_> = (1..=2).map(|number| start(&mut executor, &first, &world, number)).collect();
    let mut started = 2;
    let requests = || world.lock().expect("no worker panicked").requests;
    while requests() < REQUESTS + 3 {
        executor.turn();
        first.lock().deliver();
        if first.lock().random(900) == 0 && requests() < REQUESTS {
            let (client, _) = alive.remove(first.lock().random(2) as usize);
            executor.kill(&client);
            client.lock().lose_some(&Rados::client(&client));
            started += 1;
            alive.push(start(&mut executor, &first, &world, started));
        }
        assert!(first.lock().steps < 2_000_000, "seed {seed}: the requests come to no end");
    }
    let (client, _) = alive.remove(0);
    executor.kill(&client);
    client.lock().lose_some(&Rados::client(&client));
    let (client, gateway) = alive.remove(0);
    for _ in 0..40 {
        client.lock().now_ms += 500;
        for _ in 0..300 {
            executor.turn();
            first.lock().deliver();
        }
    }
    world.lock().expect("no worker panicked").is_over = true;
    while executor.tasks() > 0 {
        executor.turn();
        first.lock().deliver();
    }
    executor.until(&client, async {
        gateway.tend().await.expect("the cluster works");
        wreckage::check(&client, &gateway).await;
        let bucket = gateway.bucket("things").await.expect("a bucket");
        let query = Query { max: 1000, ..Query::default() };
        let left = gateway.list(&bucket, &query).await.expect("a list").entries;
        let left: BTreeMap<String, usize> = left.into_iter().map(|(key, entry)| (key, entry.size as usize)).collect();
        assert!(left.keys().all(|key| key.starts_with('y')), "seed {seed}: {left:?}");
        for (key, known) in
            world.lock().expect("no worker panicked").keys.iter().filter(|(key, _)| key.starts_with('y'))
        {
            if known.is_answered {
                assert_eq!(left.get(key).copied(), known.puts[0].0, "seed {seed}: {key}");
            }
        }
    });
}

/// Seeds to run: `S3_SEEDS=A..B`, or some that take a few seconds.
#[test]
fn nothing_expires_before_its_day_though_gateways_die() {
    let text = std::env::var("S3_SEEDS").unwrap_or_else(|_| "1..16".into());
    let (from, end) = text.split_once("..").expect("S3_SEEDS is A..B");
    for seed in from.parse().expect("a number")..end.parse::<u64>().expect("a number") {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "replay with S3_SEEDS={seed}..{}", seed + 1);
    }
}

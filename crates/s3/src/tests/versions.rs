//! Versions: what each change leaves, and several gateways that die against a model of all versions.

use super::basics::{alone, code};
use super::{bytes_of, open, user, wreckage};
use crate::executor::Executor;
use crate::memory::Memory;
use crate::{
    Body, Bucket, BucketSettings, ByteRange, Code, Conditions, Deletion, Encryption, Error, NULL_VERSION, PutRequest,
    Query, RadosError, Store, VersionPage, Versioning, Whole,
};
use s3rules::UnixMillis;
use s3rules::object_lock::{ObjectLock, Retention, RetentionMode};
use s3rules::tagging::Tag;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Gateway = Arc<Store<Memory>>;

async fn put(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, value: u64, versioning: Versioning) -> String {
    let bytes = bytes_of(value, size_of(value));
    let (owner, size) = (value.to_string(), bytes.len() as u64);
    let request =
        PutRequest { key: key.into(), owner, size, versioning, encryption: kind_of(value), ..PutRequest::default() };
    let head = gateway.put(bucket, request, &mut Whole::new(bytes)).await.expect("it is put");
    name(head.version)
}

/// Every third version is sealed.
fn kind_of(value: u64) -> Encryption {
    if value.is_multiple_of(3) { Encryption::Master } else { Encryption::None }
}

fn name(version: Option<String>) -> String {
    version.unwrap_or_else(|| NULL_VERSION.to_owned())
}

/// Sizes of all layouts.
fn size_of(value: u64) -> usize {
    [5, 48, 70, 0, 130][value as usize % 5]
}

async fn delete(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, deletion: Deletion) -> Result<String, Error> {
    let deleted = gateway.delete(bucket, key, deletion).await?;
    Ok(deleted.map_or_else(|| "nothing".into(), |deleted| format!("{} {}", name(deleted.version), deleted.is_marker)))
}

fn of(version: &str) -> Deletion {
    Deletion { version: Some(version.into()), ..Deletion::default() }
}

fn with(versioning: Versioning) -> Deletion {
    Deletion { versioning, owner: "0".into(), ..Deletion::default() }
}

/// The value that a version has, after a look at its bytes.
async fn value(gateway: &Gateway, bucket: &Arc<Bucket>, key: &str, version: Option<&str>) -> Result<u64, Error> {
    let mut object = gateway.get(bucket, key, version, None).await?;
    let value: u64 = object.head.owner.parse().expect("the owner tells the value");
    let mut bytes = Vec::new();
    while let Some(piece) = object.stream.next().await? {
        bytes.extend_from_slice(&piece);
    }
    assert_eq!(bytes, bytes_of(value, size_of(value)), "value {value}");
    Ok(value)
}

/// All versions of a bucket by pages: values, `marker` and a star for the newest of a key.
async fn listed(gateway: &Gateway, bucket: &Arc<Bucket>, max: usize) -> String {
    let mut words = Vec::new();
    let (mut query, mut after) = (Query { max, ..Query::default() }, None);
    loop {
        let page: VersionPage = gateway.list_versions(bucket, &query, after.as_deref()).await.expect("a page");
        assert!(page.versions.len() <= max);
        for found in page.versions {
            let what = if found.version.is_marker { "marker".to_owned() } else { found.version.entry.owner };
            words.push(format!("{}={what}{}", found.key, if found.is_latest { "*" } else { "" }));
        }
        match page.next {
            Some((key, version)) => (query.after, after) = (key, version),
            None => return words.join(" "),
        }
    }
}

#[test]
fn versions_are_kept_marked_and_removed() {
    use Versioning::{Enabled, Off, Suspended};
    alone(async |gateway, bucket| {
        assert_eq!(put(&gateway, &bucket, "k", 1, Off).await, "null");
        let second = put(&gateway, &bucket, "k", 2, Enabled).await;
        let third = put(&gateway, &bucket, "k", 3, Enabled).await;
        assert!(third < second, "newer ids come first in order");
        assert_eq!(listed(&gateway, &bucket, 100).await, "k=3* k=2 k=1");
        for (version, expected) in [(None, 3), (Some("null"), 1), (Some(second.as_str()), 2), (Some(&third), 3)] {
            assert_eq!(value(&gateway, &bucket, "k", version).await, Ok(expected));
        }
        assert_eq!(code(value(&gateway, &bucket, "k", Some("none")).await), Code::NoSuchVersion);
        assert_eq!(delete(&gateway, &bucket, "k", of("none")).await.expect("it is not there"), "nothing");
        let marker = delete(&gateway, &bucket, "k", with(Enabled)).await.expect("a marker");
        let marker = marker.strip_suffix(" true").expect("a marker");
        assert_eq!(listed(&gateway, &bucket, 1).await, "k=marker* k=3 k=2 k=1");
        assert_eq!(code(value(&gateway, &bucket, "k", None).await), Code::NoSuchKey);
        assert_eq!(code(value(&gateway, &bucket, "k", Some(marker)).await), Code::MethodNotAllowed);
        assert!(gateway.list(&bucket, &Query { max: 9, ..Query::default() }).await.expect("a list").entries.is_empty());
        // A put without versions takes the place of the null version, wherever that stands.
        assert_eq!(put(&gateway, &bucket, "k", 4, Suspended).await, "null");
        assert_eq!(listed(&gateway, &bucket, 2).await, "k=4* k=marker k=3 k=2");
        assert_eq!(delete(&gateway, &bucket, "k", with(Suspended)).await.expect("a marker"), "null true");
        assert_eq!(listed(&gateway, &bucket, 3).await, "k=marker* k=marker k=3 k=2");
        assert_eq!(delete(&gateway, &bucket, "k", of("null")).await.expect("it goes"), "null true");
        assert_eq!(code(gateway.delete_bucket(&bucket).await), Code::BucketNotEmpty);
        assert_eq!(delete(&gateway, &bucket, "k", of(marker)).await.expect("it goes"), format!("{marker} true"));
        assert_eq!(value(&gateway, &bucket, "k", None).await, Ok(3));
        // The newest goes, and the next one is the newest again.
        assert_eq!(delete(&gateway, &bucket, "k", of(&third)).await.expect("it goes"), format!("{third} false"));
        assert_eq!(value(&gateway, &bucket, "k", None).await, Ok(2));
        assert_eq!(listed(&gateway, &bucket, 1).await, "k=2*");
        assert_eq!(delete(&gateway, &bucket, "k", of(&second)).await.expect("it goes"), format!("{second} false"));
        assert_eq!(listed(&gateway, &bucket, 1).await, "");
        // A marker for a key that never was.
        delete(&gateway, &bucket, "other", with(Enabled)).await.expect("a marker");
        assert_eq!(listed(&gateway, &bucket, 1).await, "other=marker*");
        assert_eq!(delete(&gateway, &bucket, "another", with(Off)).await.expect("there is none"), "nothing");
    });
}

#[test]
fn older_versions_are_read_in_ranges_and_get_other_tags() {
    alone(async |gateway, bucket| {
        for number in [2, 4] {
            let version = put(&gateway, &bucket, "k", number, Versioning::Enabled).await;
            let newer = put(&gateway, &bucket, "k", 1, Versioning::Enabled).await;
            let range = Some(ByteRange::From(10, Some(40)));
            let mut object = gateway.get(&bucket, "k", Some(&version), range).await.expect("a range");
            let mut bytes = Vec::new();
            while let Some(piece) = object.stream.next().await.expect("a piece") {
                bytes.extend_from_slice(&piece);
            }
            assert_eq!(bytes, bytes_of(number, size_of(number))[10..41]);
            let tag = Tag { key: "a".into(), value: "b".into() };
            let mark = |head: &mut crate::Head| {
                head.tags.tags.push(tag.clone());
                Ok(())
            };
            gateway.change_head(&bucket, "k", Some(&version), mark).await.expect("it is changed");
            assert_eq!(gateway.stat(&bucket, "k", Some(&version)).await.expect("it").tags.tags.len(), 1);
            assert_eq!(gateway.stat(&bucket, "k", None).await.expect("it").tags.tags.len(), 0);
            assert_eq!(value(&gateway, &bucket, "k", Some(&version)).await, Ok(number));
            // Once it is the newest again, it has its tags.
            delete(&gateway, &bucket, "k", of(&newer)).await.expect("it goes");
            assert_eq!(gateway.stat(&bucket, "k", None).await.expect("it").tags.tags.len(), 1);
            assert_eq!(value(&gateway, &bucket, "k", None).await, Ok(number));
        }
    });
}

#[test]
fn locked_versions_stay() {
    alone(async |gateway, bucket| {
        let version = put(&gateway, &bucket, "k", 1, Versioning::Enabled).await;
        put(&gateway, &bucket, "k", 2, Versioning::Enabled).await;
        let until = UnixMillis(gateway.rados.lock().now_ms as i64 + 3_600_000);
        let lock = |lock: ObjectLock| {
            move |head: &mut crate::Head| {
                head.lock = lock;
                Ok(())
            }
        };
        let governed = ObjectLock {
            retention: Some(Retention { mode: RetentionMode::Governance, until }),
            legal_hold: Some(true),
        };
        gateway.change_head(&bucket, "k", Some(&version), lock(governed)).await.expect("it is locked");
        let bypassing = || Deletion { bypass: true, ..of(&version) };
        let denied = |outcome: Result<String, Error>| matches!(outcome, Err(Error::Rule(_)));
        assert!(denied(delete(&gateway, &bucket, "k", bypassing()).await), "a legal hold holds");
        let governed = ObjectLock { legal_hold: Some(false), ..governed };
        gateway.change_head(&bucket, "k", Some(&version), lock(governed)).await.expect("it is locked");
        assert!(denied(delete(&gateway, &bucket, "k", of(&version)).await));
        delete(&gateway, &bucket, "k", bypassing()).await.expect("governance is bypassed");
        assert_eq!(listed(&gateway, &bucket, 5).await, "k=2*");
    });
}

#[test]
fn lists_of_versions_have_prefixes_delimiters_and_pages() {
    alone(async |gateway, bucket| {
        let mut expected = Vec::new();
        for (number, key) in ["a", "a/1", "a/2", "a\0", "b/1", "c"].iter().enumerate() {
            let count = number as u64 * 3 % 7;
            for turn in 0..=count {
                let versioning = if turn == 0 { Versioning::Off } else { Versioning::Enabled };
                put(&gateway, &bucket, key, turn, versioning).await;
                gateway.balance_ranges().await.expect("ranges split");
            }
            expected.push((*key, (0..=count).rev().collect::<Vec<_>>()));
        }
        expected.sort();
        assert!(gateway.ranges(&bucket.id).await.expect("ranges").len() > 1);
        let word = |key: &str, turn: u64, first: u64| format!("{key}={turn}{}", if turn == first { "*" } else { "" });
        let of_key =
            |(key, turns): &(&str, Vec<u64>)| turns.iter().map(|turn| word(key, *turn, turns[0])).collect::<Vec<_>>();
        let all: Vec<String> = expected.iter().flat_map(of_key).collect();
        for max in [1, 2, 3, 5, 100] {
            assert_eq!(listed(&gateway, &bucket, max).await, all.join(" "), "{max} a page");
        }
        let mut query = Query { delimiter: "/".into(), max: 100, ..Query::default() };
        let page = gateway.list_versions(&bucket, &query, None).await.expect("a page");
        assert_eq!(page.common_prefixes, ["a/", "b/"]);
        assert_eq!(page.versions.len(), all.iter().filter(|word| !word.contains('/')).count());
        (query.prefix, query.after) = ("a/".into(), "a/1".into());
        let page = gateway.list_versions(&bucket, &query, None).await.expect("a page");
        assert!(page.versions.iter().all(|found| found.key == "a/2") && !page.versions.is_empty());
    });
}

/// A version as the model knows it: times are numbers of events.
#[derive(Clone, Debug)]
struct Known {
    value: u64,
    is_null: bool,
    /// The name, once its put was answered.
    version: Option<String>,
    begun: u64,
    ended: Option<u64>,
    refused: bool,
    /// Removals that were begun: when, and when they were answered.
    removals: Vec<(u64, Option<u64>)>,
}

impl Known {
    fn is_marker(&self) -> bool {
        self.value == 0
    }

    /// It was there from `from` on, and nobody had begun to remove it at `until`.
    fn is_there(&self, from: u64, until: u64) -> bool {
        let removed = self.removals.iter().any(|(begun, _)| *begun < until);
        self.ended.is_some_and(|end| end < from) && !removed
    }

    /// It may have been there between the two times.
    fn may_be_there(&self, from: u64, until: u64) -> bool {
        let removed = self.removals.iter().any(|(_, ended)| ended.is_some_and(|end| end < from));
        !self.refused && self.begun < until && !removed
    }
}

#[derive(Default)]
struct World {
    keys: BTreeMap<String, Vec<Known>>,
    values: u64,
    requests: u64,
    is_over: bool,
}

const REQUESTS: u64 = 250;

#[derive(Clone)]
struct Worker {
    client: Memory,
    gateway: Gateway,
    world: Arc<Mutex<World>>,
}

impl Worker {
    fn random(&self, below: u64) -> u64 {
        self.client.lock().random(below)
    }

    fn now(&self) -> u64 {
        let mut world = self.client.lock();
        world.steps += 1;
        world.steps
    }

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

    async fn request(&self) -> Result<(), Error> {
        let bucket = self.gateway.bucket("things").await?;
        let key = format!("k{}", self.random(6));
        match self.random(16) {
            0..5 => self.add(&bucket, &key, false).await,
            5..7 => self.add(&bucket, &key, true).await,
            7..10 => self.remove(&bucket, &key).await,
            10..13 => self.read(&bucket, &key).await,
            13 => self.tag(&bucket, &key).await,
            _ => self.list(&bucket).await,
        }
    }

    /// Puts an object or a delete marker. One without versions takes the place of a null version.
    async fn add(&self, bucket: &Arc<Bucket>, key: &str, is_marker: bool) -> Result<(), Error> {
        let versioning = [Versioning::Enabled, Versioning::Enabled, Versioning::Suspended][self.random(3) as usize];
        let is_null = versioning == Versioning::Suspended;
        let begun = self.now();
        let (value, place, replaced) = self.world(|world| {
            world.values += 1;
            let value = if is_marker { 0 } else { world.values };
            let all = world.keys.entry(key.to_owned()).or_default();
            let mut replaced = Vec::new();
            for (at, other) in all.iter_mut().enumerate().filter(|(_, other)| is_null && other.is_null) {
                if other.ended.is_some() {
                    replaced.push((at, other.removals.len()));
                }
                other.removals.push((begun, None));
            }
            // A null version that is under way at the same time may be the one that goes.
            let rival = all.iter().any(|other| is_null && other.is_null && other.ended.is_none() && !other.refused);
            let removals = if rival { vec![(begun, None)] } else { Vec::new() };
            all.push(Known { value, is_null, version: None, begun, ended: None, refused: false, removals });
            (value, all.len() - 1, replaced)
        });
        let outcome = if is_marker {
            let deletion = with(versioning);
            self.gateway.delete(bucket, key, deletion).await.map(|deleted| deleted.expect("a marker").version)
        } else {
            let bytes = bytes_of(value, size_of(value));
            let (owner, size) = (value.to_string(), bytes.len() as u64);
            let request = PutRequest {
                key: key.into(),
                owner,
                size,
                versioning,
                encryption: kind_of(value),
                ..PutRequest::default()
            };
            self.gateway.put(bucket, request, &mut Whole::new(bytes)).await.map(|head| head.version)
        };
        let now = self.now();
        self.world(|world| {
            let all = world.keys.get_mut(key).expect("begun");
            match &outcome {
                Ok(version) => {
                    all[place].ended = Some(now);
                    all[place].version = Some(name(version.clone()));
                    for (at, removal) in replaced {
                        all[at].removals[removal].1 = Some(now);
                    }
                }
                Err(error) if error.is_refusal() => panic!("nothing is refused: {error}"),
                Err(_) => {}
            }
        });
        outcome.map(drop)
    }

    /// Removes a version that is not the null version, which may be another one by then.
    async fn remove(&self, bucket: &Arc<Bucket>, key: &str) -> Result<(), Error> {
        let (begun, chosen) = (self.now(), self.random(1000) as usize);
        let found = self.world(|world| {
            let all = world.keys.get_mut(key)?;
            let there: Vec<usize> =
                (0..all.len()).filter(|at| !all[*at].is_null && all[*at].version.is_some()).collect();
            let at = *there.get(chosen % there.len().max(1))?;
            all[at].removals.push((begun, None));
            Some((at, all[at].removals.len() - 1, all[at].version.clone().expect("it has one")))
        });
        let Some((at, removal, version)) = found else { return Ok(()) };
        self.gateway.delete(bucket, key, of(&version)).await?;
        let now = self.now();
        self.world(|world| world.keys.get_mut(key).expect("begun")[at].removals[removal].1 = Some(now));
        Ok(())
    }

    /// Some version that has a name, and is not null.
    fn some_version(&self, key: &str) -> Option<Known> {
        let chosen = self.random(1000) as usize;
        self.world(|world| {
            let all: Vec<_> = world.keys.get(key)?.iter().filter(|k| !k.is_null && k.version.is_some()).collect();
            all.get(chosen % all.len().max(1)).map(|known| (*known).clone())
        })
    }

    async fn tag(&self, bucket: &Arc<Bucket>, key: &str) -> Result<(), Error> {
        let Some(Known { version: Some(version), value, .. }) = self.some_version(key) else { return Ok(()) };
        let mark = |head: &mut crate::Head| {
            assert_eq!(head.owner, value.to_string());
            head.tags.tags = vec![Tag { key: "value".into(), value: value.to_string() }];
            Ok(())
        };
        match self.gateway.change_head(bucket, key, Some(&version), mark).await {
            Err(error) if !error.is_refusal() => Err(error),
            _ => Ok(()),
        }
    }

    async fn read(&self, bucket: &Arc<Bucket>, key: &str) -> Result<(), Error> {
        let refused_is_none = |outcome: Result<u64, Error>| match outcome {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_refusal() => Ok(None),
            Err(error) => Err(error),
        };
        if let Some(version) = self.some_version(key) {
            let from = self.now();
            let found = refused_is_none(value(&self.gateway, bucket, key, version.version.as_deref()).await)?;
            let until = self.now();
            let at = version.begun;
            let known =
                self.world(|world| world.keys[key].iter().find(|k| k.begun == at).cloned()).expect("it is known");
            let expected = Some(known.value).filter(|_| !known.is_marker());
            match found {
                None => assert!(expected.is_none() || !known.is_there(from, until), "{key} lost {known:?}"),
                found => {
                    assert_eq!(found, expected, "{key} {known:?}");
                    assert!(known.may_be_there(from, until), "{key}: {known:?} came back at {from}");
                }
            }
        }
        let from = self.now();
        let found = refused_is_none(value(&self.gateway, bucket, key, None).await)?;
        self.check_newest(key, found, (from, self.now()));
        Ok(())
    }

    /// Checks that `found` may have been the newest version between two times.
    fn check_newest(&self, key: &str, found: Option<u64>, (from, until): (u64, u64)) {
        let all = self.world(|world| world.keys.get(key).cloned()).unwrap_or_default();
        // A version that was there all the time, and was surely put later, hides an earlier one.
        let is_hidden = |known: &Known| {
            let later = |other: &&Known| known.ended.is_some_and(|end| end < other.begun);
            all.iter().filter(later).any(|other| other.is_there(from, until))
        };
        let may_show = |known: &&Known| known.may_be_there(from, until) && !is_hidden(known);
        let fits = match found {
            Some(value) => all.iter().filter(|known| known.value == value).any(|known| may_show(&known)),
            None => {
                all.iter().filter(|known| known.is_marker()).any(|known| may_show(&known))
                    || !all.iter().any(|known| known.is_there(from, until))
            }
        };
        assert!(fits, "{key} gave {found:?} from {from} to {until}, where its versions are {all:#?}");
    }

    async fn list(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let max = 1 + self.random(8) as usize;
        let from = self.now();
        let mut found: Vec<(String, String, u64)> = Vec::new();
        let (mut query, mut after) = (Query { max, ..Query::default() }, None);
        loop {
            let page = self.gateway.list_versions(bucket, &query, after.as_deref()).await?;
            for listed in page.versions {
                let version = name(listed.version.version);
                found.push((listed.key, version, listed.version.entry.owner.parse().expect("a value")));
            }
            match page.next {
                Some((key, version)) => (query.after, after) = (key, version),
                None => break,
            }
        }
        let until = self.now();
        let all = self.world(|world| world.keys.clone());
        for (key, known) in all.iter().flat_map(|(key, all)| all.iter().map(move |known| (key, known))) {
            let is_it = |(other, version, value): &&(String, String, u64)| {
                other == key && *value == known.value && (known.is_null == (version == NULL_VERSION))
            };
            if let Some(version) = known.version.as_ref().filter(|_| known.is_there(from, until)) {
                let is_listed = found.iter().any(|(k, v, value)| k == key && v == version && *value == known.value);
                assert!(is_listed, "{key}: {known:?} is not in a list from {from} to {until}: {found:?}");
            }
            if !known.is_marker() && !known.may_be_there(from, until) {
                assert!(!found.iter().any(|it| is_it(&it)), "{key}: {known:?} is in a list from {from} to {until}");
            }
        }
        Ok(())
    }
}

async fn beside(gateway: Gateway, world: Arc<Mutex<World>>, tends: bool) {
    while !world.lock().expect("no worker panicked").is_over {
        crate::Rados::pause(&gateway.rados, 300).await;
        let outcome = if tends { gateway.tend().await } else { gateway.beat().await };
        match outcome {
            Err(Error::Rados(RadosError::Fenced)) => return,
            outcome => outcome.expect("the cluster works"),
        }
    }
}

struct Run {
    executor: Executor,
    first: Memory,
    world: Arc<Mutex<World>>,
    alive: Vec<(Memory, Gateway)>,
    started: usize,
}

impl Run {
    fn start_gateway(&mut self) {
        self.started += 1;
        let client = self.first.another(format!("client.{}", self.started));
        let gateway = self.executor.until(&client, open(&client, &format!("s{}", self.started)));
        for tends in [false, true] {
            self.executor.add(&client, Box::pin(beside(gateway.clone(), self.world.clone(), tends)));
        }
        for _ in 0..3 {
            let worker = Worker { client: client.clone(), gateway: gateway.clone(), world: self.world.clone() };
            self.executor.add(&client, Box::pin(worker.run()));
        }
        self.alive.push((client, gateway));
    }

    fn kill_one(&mut self) {
        let chosen = self.first.lock().random(self.alive.len() as u64) as usize;
        let (client, _) = self.alive.remove(chosen);
        self.executor.kill(&client);
        client.lock().lose_some(&crate::Rados::client(&client));
    }

    fn requests(&self) -> u64 {
        self.world.lock().expect("no worker panicked").requests
    }

    fn step(&mut self) {
        self.executor.turn();
        self.first.lock().deliver();
    }
}

fn run(seed: u64) {
    let first = Memory::start(seed);
    let mut executor = Executor::default();
    let setup = executor.until(&first, open(&first, "setup"));
    executor.until(&first, async {
        let me = setup.create_user(user("me"), ("AK", "secret-of-ak")).await.expect("a user");
        setup.create_bucket(&me, "things", BucketSettings::default()).await.expect("a bucket");
    });
    executor.kill(&first);
    let mut run = Run { executor, first, world: Arc::default(), alive: Vec::new(), started: 0 };
    for _ in 0..3 {
        run.start_gateway();
    }
    while run.requests() < REQUESTS + 8 {
        run.step();
        if run.first.lock().random(700) == 0 && run.requests() < REQUESTS {
            run.kill_one();
            run.start_gateway();
        }
        assert!(run.first.lock().steps < 2_000_000, "seed {seed}: the requests come to no end");
    }
    while run.alive.len() > 1 {
        run.kill_one();
    }
    let (client, gateway) = run.alive.remove(0);
    for _ in 0..40 {
        client.lock().now_ms += 500;
        for _ in 0..300 {
            run.step();
        }
    }
    run.world.lock().expect("no worker panicked").is_over = true;
    while run.executor.tasks() > 0 {
        run.step();
    }
    run.executor.until(&client, async {
        gateway.tend().await.expect("the cluster works");
        wreckage::check(&client, &gateway).await;
        let worker = Worker { client: client.clone(), gateway: gateway.clone(), world: run.world.clone() };
        let bucket = gateway.bucket("things").await.expect("a bucket");
        worker.list(&bucket).await.expect("a list");
        for key in 0..6 {
            worker.read(&bucket, &format!("k{key}")).await.expect("a read");
        }
    });
}

/// Seeds to run: `S3_SEEDS=A..B`, or some that take a few seconds.
#[test]
fn no_version_is_lost_or_comes_back_though_gateways_die() {
    let text = std::env::var("S3_SEEDS").unwrap_or_else(|_| "1..21".into());
    let (from, end) = text.split_once("..").expect("S3_SEEDS is A..B");
    for seed in from.parse().expect("a number")..end.parse::<u64>().expect("a number") {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "replay with S3_SEEDS={seed}..{}", seed + 1);
    }
}

/// Conditions on sizes and times are about the version that goes.
#[test]
fn conditions_are_about_the_version_that_goes() {
    alone(async |gateway, bucket| {
        let version = put(&gateway, &bucket, "k", 1, Versioning::Enabled).await;
        put(&gateway, &bucket, "k", 2, Versioning::Enabled).await;
        let sized =
            |size| Deletion { conditions: Conditions { size: Some(size), ..Default::default() }, ..of(&version) };
        assert_eq!(code(delete(&gateway, &bucket, "k", sized(70)).await), Code::PreconditionFailed);
        delete(&gateway, &bucket, "k", sized(48)).await.expect("it has this size");
        assert_eq!(delete(&gateway, &bucket, "k", sized(48)).await.as_deref(), Ok("nothing"));
        assert_eq!(listed(&gateway, &bucket, 5).await, "k=2*");
    });
}

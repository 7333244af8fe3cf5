//! Several gateways at once, which die at random moments, against the history of what they were asked for.

use super::basics::{delete, read};
use super::history::History;
use super::{bytes_of, open, user, wreckage};
use crate::executor::Executor;
use crate::memory::Memory;
use crate::{
    Bucket, BucketSettings, ByteRange, Conditions, Encryption, Error, OrphanFound, PartRequest, PutRequest, Query,
    RadosError, Store, Upload, Versioning, WantedPart, Whole,
};
use s3rules::tagging::{Tag, TagSet};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

type Gateway = Arc<Store<Memory>>;

const GATEWAYS: usize = 3;
const WORKERS: usize = 3;
const REQUESTS: u64 = 400;

/// The history, and the bytes of each value.
#[derive(Default)]
struct Known {
    history: History,
    last_value: u64,
    sizes: BTreeMap<u64, usize>,
    requests: u64,
    crashes: u64,
    is_over: bool,
}

#[derive(Clone)]
struct Worker {
    client: Memory,
    gateway: Gateway,
    known: Arc<Mutex<Known>>,
}

fn value_of(owner: &str) -> Option<u64> {
    Some(owner.parse().expect("the owner tells the value"))
}

impl Worker {
    fn random(&self, below: u64) -> u64 {
        self.client.lock().random(below)
    }

    fn now(&self) -> u64 {
        // Two events never have the same time, so that what follows something is later.
        let mut world = self.client.lock();
        world.steps += 1;
        world.steps
    }

    fn key(&self) -> String {
        let number = self.random(40);
        let dir = ["", "a/", "b/", "b/c/"][self.random(4) as usize];
        format!("{dir}{number}")
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().expect("no worker panicked"))
    }

    async fn run(self) {
        while self.known(|known| {
            known.requests += 1;
            known.requests < REQUESTS
        }) {
            let outcome = self.request().await;
            match outcome {
                // Somebody took this gateway for dead.
                Err(Error::Rados(RadosError::Fenced)) => return,
                outcome => outcome.expect("the cluster works"),
            }
        }
    }

    async fn request(&self) -> Result<(), Error> {
        let bucket = self.gateway.bucket("things").await?;
        match self.random(20) {
            0..6 => self.put(&bucket).await,
            6 => self.tag(&bucket).await,
            7..11 => self.delete(&bucket).await,
            11..15 => self.get(&bucket).await,
            15..17 => self.list(&bucket).await,
            17..19 => self.upload(&bucket).await,
            _ if self.random(4) == 0 => self.check_pool().await,
            _ => self.other_bucket().await,
        }
    }

    /// Removes what nothing names, while others work: there is nothing of the kind, also where gateways have died.
    async fn check_pool(&self) -> Result<(), Error> {
        let pool = self.gateway.settings().data_pool.clone();
        let mut found = Vec::new();
        let tell = |finding| match finding {
            OrphanFound::LookedAt(_) => {}
            finding => found.push(finding),
        };
        let checked = self.gateway.check_pool(&pool, true, tell).await?;
        assert_eq!((&found, checked.foreign), (&Vec::new(), 0));
        Ok(())
    }

    /// A new value for a key, with its size.
    fn begin(&self, key: &str) -> (u64, usize, usize) {
        let size = [0, 5, 40, 48, 49, 70, 130][self.random(7) as usize];
        let now = self.now();
        self.known(|known| {
            known.last_value += 1;
            let value = known.last_value;
            known.sizes.insert(value, size);
            (value, size, known.history.begin(key, Some(value), now))
        })
    }

    /// Notes the outcome of a change. Refusals change nothing.
    fn ended<T>(&self, key: &str, change: usize, outcome: Result<T, Error>) -> Result<(), Error> {
        let now = self.now();
        match outcome {
            Ok(_) => self.known(|known| known.history.end(key, change, now)),
            Err(Error::Refused { .. }) => self.known(|known| known.history.refuse(key, change)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Every third object is sealed.
    fn encryption(&self) -> Encryption {
        if self.random(3) == 0 { Encryption::Master } else { Encryption::None }
    }

    async fn put(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let key = self.key();
        let (value, size, change) = self.begin(&key);
        let conditions = Conditions { is_absent: self.random(5) == 0, ..Conditions::default() };
        let told = if self.random(10) == 0 { size + 1 } else { size };
        let owner = value.to_string();
        let encryption = self.encryption();
        let key_of = key.clone();
        let request =
            PutRequest { key: key_of, owner, size: told as u64, conditions, encryption, ..PutRequest::default() };
        let mut body = Whole::new(bytes_of(value, size));
        let outcome = self.gateway.put(bucket, request, &mut body).await;
        assert!(outcome.is_err() || told == size, "a body that was cut short is stored");
        self.ended(&key, change, outcome)
    }

    async fn delete(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let key = self.key();
        let now = self.now();
        let change = self.known(|known| known.history.begin(&key, None, now));
        let outcome = delete(&self.gateway, bucket, &key, Conditions::default()).await;
        self.ended(&key, change, outcome)
    }

    /// Tags an object with the value that it has. What was read of one value may not come back over another.
    async fn tag(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let key = self.key();
        let from = self.now();
        let marked = self.gateway.change_head(bucket, &key, None, |head| {
            let tag = Tag { key: self.now().to_string(), value: head.owner.clone() };
            head.tags.tags.push(tag);
            Ok(())
        });
        let value = match marked.await {
            Ok(head) => {
                assert!(head.tags.tags.iter().all(|tag| tag.value == head.owner), "{head:?}");
                value_of(&head.owner)
            }
            Err(Error::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        self.check(&key, value, from, "a tagged head");
        Ok(())
    }

    fn check(&self, key: &str, value: Option<u64>, from: u64, what: &str) {
        let now = self.now();
        if let Err(reason) = self.known(|known| known.history.check(key, value, (from, now))) {
            panic!("{what}: {reason}");
        }
    }

    async fn get(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let key = self.key();
        let from = self.now();
        let head = match self.gateway.stat(bucket, &key, None).await {
            Ok(head) => value_of(&head.owner),
            Err(Error::Refused { .. }) => None,
            Err(error) => return Err(error),
        };
        self.check(&key, head, from, "a head");
        let from = self.now();
        let object = match self.gateway.get(bucket, &key, None, None).await {
            Ok(object) => object,
            Err(Error::Refused { .. }) => {
                self.check(&key, None, from, "a read");
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let value = value_of(&object.head.owner);
        self.check(&key, value, from, "a read");
        let value = value.expect("an object has a value");
        let expected = bytes_of(value, self.known(|known| known.sizes[&value]));
        assert_eq!(object.head.size, expected.len() as u64);
        let mut stream = object.stream;
        let mut bytes = Vec::new();
        while let Some(piece) = crate::Body::next(&mut stream).await? {
            bytes.extend_from_slice(&piece);
        }
        assert!(bytes == expected, "{key} has other bytes than were put as value {value}");
        if let Ok(bytes) = read(&self.gateway, bucket, &key, Some(ByteRange::From(20, Some(50)))).await {
            assert!(bytes.len() <= 31);
        }
        Ok(())
    }

    async fn list(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let prefix = ["", "a/", "b/", "b/c/"][self.random(4) as usize];
        let max = 1 + self.random(20) as usize;
        let from = self.now();
        let mut found: BTreeMap<String, u64> = BTreeMap::new();
        let mut after = String::new();
        loop {
            let query = Query { prefix: prefix.into(), delimiter: String::new(), after: after.clone(), max };
            let page = self.gateway.list(bucket, &query).await?;
            for (key, entry) in page.entries {
                assert!(key > after && key.starts_with(prefix), "{key} is listed behind {after}");
                after.clone_from(&key);
                found.insert(key, value_of(&entry.owner).expect("a value"));
            }
            if page.next.is_none() {
                break;
            }
        }
        let keys: Vec<String> = self.known(|known| known.history.keys().cloned().collect());
        for key in keys.iter().filter(|key| key.starts_with(prefix)) {
            self.check(key, found.remove(key), from, "a list");
        }
        assert!(found.is_empty(), "nobody has put {found:?}");
        Ok(())
    }

    async fn upload(&self, bucket: &Arc<Bucket>) -> Result<(), Error> {
        let key = self.key();
        let (value, _, change) = self.begin(&key);
        let sizes = [20 + self.random(50) as usize, 20 + self.random(10) as usize, self.random(20) as usize];
        let whole = bytes_of(value, sizes.iter().sum());
        self.known(|known| known.sizes.insert(value, whole.len()));
        let upload = Upload {
            id: String::new(),
            key: key.clone(),
            owner: value.to_string(),
            created_ms: 0,
            headers: BTreeMap::new(),
            metadata: BTreeMap::new(),
            checksum: None,
            is_composite: false,
            acl: None,
            tags: TagSet::default(),
            lock: Default::default(),
            sealing: self.gateway.seal_upload(bucket, &key, &self.encryption())?,
        };
        let upload = self.gateway.create_upload(bucket, upload).await?.id;
        let mut wanted = Vec::new();
        let mut at = 0;
        for (number, size) in sizes.into_iter().enumerate() {
            let number = number as u16 + 1;
            let bytes = whole[at..at + size].to_vec();
            at += size;
            // A first try of the part with other bytes, and a part that is not used.
            let mut tries = vec![(number, vec![1; 30]), (number + 10, vec![2; 30])];
            tries.truncate(self.random(3) as usize);
            tries.push((number, bytes));
            for (number, bytes) in tries {
                let (key, upload, size) = (key.clone(), upload.clone(), bytes.len() as u64);
                let request = PartRequest { key, upload, number, size, ..PartRequest::default() };
                let part = self.gateway.put_part(bucket, request, &mut Whole::new(bytes)).await?;
                wanted.retain(|want: &WantedPart| want.number != number);
                wanted.push(WantedPart { number, etag: part.etag, checksums: Vec::new() });
            }
        }
        wanted.retain(|want| want.number < 10);
        let outcome = if self.random(4) == 0 {
            self.gateway.abort_upload(bucket, &key, &upload).await?;
            self.known(|known| known.history.refuse(&key, change));
            return Ok(());
        } else {
            self.gateway
                .complete_upload(bucket, (&key, &upload), &wanted, (&Conditions::default(), Versioning::Off), None)
                .await
        };
        if let Err(Error::Refused { code, message }) = &outcome {
            panic!("an upload is not completed: {code:?} {message}");
        }
        self.ended(&key, change, outcome)
    }

    /// Makes another bucket, puts something and deletes it.
    async fn other_bucket(&self) -> Result<(), Error> {
        let fine = |outcome: Result<(), Error>| match outcome {
            Err(Error::Refused { .. }) => Ok(()),
            outcome => outcome,
        };
        let me = self.gateway.user("me").await?;
        fine(self.gateway.create_bucket(&me, "other", BucketSettings::default()).await.map(drop))?;
        let bucket = match self.gateway.bucket("other").await {
            Ok(bucket) => bucket,
            Err(error) => return fine(Err(error)),
        };
        for size in [10, 60] {
            let key = format!("k{}", self.random(3));
            let request = PutRequest { key: key.clone(), owner: "1".into(), size, ..PutRequest::default() };
            let body = &mut Whole::new(bytes_of(1, size as usize));
            fine(self.gateway.put(&bucket, request, body).await.map(drop))?;
            if self.random(2) == 0 {
                fine(delete(&self.gateway, &bucket, &key, Conditions::default()).await.map(drop))?;
            }
        }
        fine(self.gateway.delete_bucket(&bucket).await)
    }
}

/// Shows signs of life, as a driver does.
async fn beating(gateway: Gateway, known: Arc<Mutex<Known>>) {
    while !known.lock().expect("no worker panicked").is_over {
        crate::Rados::pause(&gateway.rados, 300).await;
        match gateway.beat().await {
            Err(Error::Rados(RadosError::Fenced)) => return,
            outcome => outcome.expect("the cluster works"),
        }
    }
}

/// Calls `tend` from time to time, as a driver does.
async fn tending(gateway: Gateway, known: Arc<Mutex<Known>>) {
    while !known.lock().expect("no worker panicked").is_over {
        crate::Rados::pause(&gateway.rados, 300).await;
        match gateway.tend().await {
            Err(Error::Rados(RadosError::Fenced)) => return,
            // A bucket is being deleted; the next call goes on.
            Err(Error::Refused { .. }) => {}
            outcome => outcome.expect("the cluster works"),
        }
    }
}

struct Run {
    executor: Executor,
    first: Memory,
    known: Arc<Mutex<Known>>,
    alive: Vec<(Memory, Gateway)>,
    started: usize,
}

impl Run {
    fn start_gateway(&mut self) {
        self.started += 1;
        let client = self.first.another(format!("client.{}", self.started));
        let session = format!("s{}", self.started);
        let gateway = self.executor.until(&client, open(&client, &session));
        self.executor.add(&client, Box::pin(beating(gateway.clone(), self.known.clone())));
        self.executor.add(&client, Box::pin(tending(gateway.clone(), self.known.clone())));
        for _ in 0..WORKERS {
            let worker = Worker { client: client.clone(), gateway: gateway.clone(), known: self.known.clone() };
            self.executor.add(&client, Box::pin(worker.run()));
        }
        self.alive.push((client, gateway));
    }

    fn kill_one(&mut self) {
        let chosen = self.first.lock().random(self.alive.len() as u64) as usize;
        let (client, _) = self.alive.remove(chosen);
        self.executor.kill(&client);
        client.lock().lose_some(&crate::Rados::client(&client));
        self.known.lock().expect("no worker panicked").crashes += 1;
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
    let mut run = Run { executor, first, known: Arc::default(), alive: Vec::new(), started: 0 };
    for _ in 0..GATEWAYS {
        run.start_gateway();
    }
    let requests = |run: &Run| run.known.lock().expect("no worker panicked").requests;
    while requests(&run) < REQUESTS - 1 + (GATEWAYS * WORKERS) as u64 {
        run.executor.turn();
        run.first.lock().deliver();
        if run.first.lock().random(700) == 0 && requests(&run) < REQUESTS {
            run.kill_one();
            run.start_gateway();
        }
        assert!(run.first.lock().steps < 2_000_000, "seed {seed}: the requests come to no end");
    }
    // Everybody dies but one, which puts things in order.
    while run.alive.len() > 1 {
        run.kill_one();
    }
    let (client, gateway) = run.alive.remove(0);
    for _ in 0..40 {
        client.lock().now_ms += 500;
        for _ in 0..300 {
            run.executor.turn();
            run.first.lock().deliver();
        }
    }
    run.known.lock().expect("no worker panicked").is_over = true;
    while run.executor.tasks() > 0 {
        run.executor.turn();
        run.first.lock().deliver();
    }
    run.executor.until(&client, async {
        gateway.tend().await.expect("the cluster works");
        wreckage::check(&client, &gateway).await;
        let worker = Worker { client: client.clone(), gateway: gateway.clone(), known: run.known.clone() };
        let bucket = gateway.bucket("things").await.expect("a bucket");
        for _ in 0..20 {
            worker.list(&bucket).await.expect("a list");
            worker.get(&bucket).await.expect("a read");
        }
    });
    assert!(run.known.lock().expect("no worker panicked").crashes >= 2);
}

/// Seeds to run: `S3_SEEDS=A..B`, or some that take a few seconds.
fn seeds() -> std::ops::Range<u64> {
    let Ok(text) = std::env::var("S3_SEEDS") else { return 1..21 };
    let (from, end) = text.split_once("..").expect("S3_SEEDS is A..B");
    from.parse().expect("a number")..end.parse().expect("a number")
}

#[test]
fn nothing_is_lost_or_left_though_gateways_die() {
    for seed in seeds() {
        let outcome = std::panic::catch_unwind(|| run(seed));
        assert!(outcome.is_ok(), "replay with S3_SEEDS={seed}..{}", seed + 1);
    }
}

//! A RADOS cluster in memory, for tests: operations arrive in an order that a seed chooses, also those of gateways that
//! have died, until these are fenced.

use crate::rados::{ObjectNames, Rados, RadosError, Reply, Step};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::future::poll_fn;
use std::ops::Bound;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

pub(crate) type Task = Pin<Box<dyn Future<Output = ()> + Send>>;
type Outcome = Result<Vec<Reply>, RadosError>;

#[derive(Clone, Default, Debug)]
pub(crate) struct Stored {
    pub bytes: Bytes,
    pub attrs: BTreeMap<&'static str, Bytes>,
    pub omap: BTreeMap<Bytes, Bytes>,
    pub mtime_ms: u64,
}

struct Queued {
    client: String,
    place: (String, String),
    steps: Vec<Step>,
    /// The client to be fenced, in the place of steps.
    fences: Option<String>,
    outcome: Arc<Mutex<Option<Outcome>>>,
}

/// The cluster.
pub(crate) struct World {
    random: u64,
    pub objects: BTreeMap<(String, String), Stored>,
    queue: Vec<Queued>,
    fenced: BTreeSet<String>,
    pub now_ms: u64,
    /// Operations carried out so far; also the clock of histories.
    pub steps: u64,
}

impl World {
    pub fn random(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below.max(1)
    }

    /// Carries out one operation of those under way. Gives its client; `None` if there is none.
    pub fn deliver(&mut self) -> Option<String> {
        self.steps += 1;
        self.now_ms += self.random(8);
        if self.queue.is_empty() {
            self.now_ms += 5;
            return None;
        }
        let chosen = self.random(self.queue.len() as u64) as usize;
        // Operations of a client on one object arrive in their order.
        let (client, place) = (self.queue[chosen].client.clone(), self.queue[chosen].place.clone());
        let first = self.queue.iter().position(|queued| queued.client == client && queued.place == place);
        let queued = self.queue.remove(first.unwrap_or(chosen));
        let outcome = if self.fenced.contains(&queued.client) {
            Err(RadosError::Fenced)
        } else if let Some(fenced) = queued.fences {
            self.fenced.insert(fenced);
            Ok(Vec::new())
        } else {
            self.carry_out(queued.place, &queued.steps)
        };
        *held(&queued.outcome) = Some(outcome);
        Some(client)
    }

    /// Loses some of the operations of a client that has died; others arrive later.
    pub fn lose_some(&mut self, client: &str) {
        let queue = std::mem::take(&mut self.queue);
        for queued in queue {
            if queued.client != client || self.random(2) == 0 {
                self.queue.push(queued);
            }
        }
    }

    fn carry_out(&mut self, place: (String, String), steps: &[Step]) -> Outcome {
        let before = self.objects.get(&place).cloned();
        let mut work = before.clone();
        let mut replies = Vec::new();
        for step in steps {
            replies.push(one(step, before.as_ref(), &mut work)?);
        }
        if steps.iter().any(Step::changes) {
            match work {
                Some(work) => self.objects.insert(place, Stored { mtime_ms: self.now_ms, ..work }),
                None => self.objects.remove(&place),
            };
            replies.fill(Reply::Nothing);
        }
        Ok(replies)
    }
}

fn one(step: &Step, before: Option<&Stored>, work: &mut Option<Stored>) -> Result<Reply, RadosError> {
    let listed = |entries: Vec<(Bytes, Bytes)>, more| Ok(Reply::Entries { entries, more });
    let present = || before.ok_or(RadosError::NotFound);
    match step {
        Step::CreateNew if work.is_some() => return Err(RadosError::Exists),
        Step::CreateNew => *work = Some(Stored::default()),
        Step::Read { offset, length } => {
            let bytes = &present()?.bytes;
            let from = (*offset as usize).min(bytes.len());
            let end = if *length == 0 { bytes.len() } else { bytes.len().min(from + *length as usize) };
            return Ok(Reply::Bytes(bytes.slice(from..end)));
        }
        Step::Stat => {
            let Stored { bytes, mtime_ms, .. } = present()?;
            return Ok(Reply::Stat { bytes: bytes.len() as u64, mtime_ms: *mtime_ms });
        }
        Step::WriteFull(bytes) => work.get_or_insert_default().bytes = bytes.clone(),
        Step::Remove => drop(work.take().ok_or(RadosError::NotFound)?),
        Step::GetAttr(name) => {
            let value = present()?.attrs.get(name).cloned();
            return Ok(Reply::Bytes(value.ok_or(RadosError::Other(format!("no attribute {name}")))?));
        }
        Step::SetAttr(name, value) => drop(work.get_or_insert_default().attrs.insert(name, value.clone())),
        Step::AttrIs(name, value) => {
            let present = before.and_then(|stored| stored.attrs.get(name));
            if present.map(|v| &v[..]).unwrap_or_default() != &value[..] {
                return Err(RadosError::Guard);
            }
        }
        Step::List { after, max, prefix } => {
            let omap = &present()?.omap;
            let behind = omap.range::<Bytes, _>((Bound::Excluded(after), Bound::Unbounded));
            let mut found = behind.filter(|(key, _)| key.starts_with(prefix)).map(|(k, v)| (k.clone(), v.clone()));
            let entries = found.by_ref().take(*max as usize).collect();
            let more = found.next().is_some();
            return listed(entries, more);
        }
        Step::Get(keys) => {
            let omap = &present()?.omap;
            let keys: BTreeSet<&Bytes> = keys.iter().collect();
            let found = keys.into_iter().filter_map(|key| Some((key.clone(), omap.get(key)?.clone())));
            return listed(found.collect(), false);
        }
        Step::Set(entries) => work.get_or_insert_default().omap.extend(entries.iter().cloned()),
        Step::Drop(keys) => {
            let omap = &mut work.as_mut().ok_or(RadosError::NotFound)?.omap;
            omap.retain(|key, _| !keys.contains(key));
        }
        Step::DropRange(from, end) => {
            let omap = &mut work.as_mut().ok_or(RadosError::NotFound)?.omap;
            omap.retain(|key, _| key < from || key >= end);
        }
        Step::ValueIs(key, value) => {
            if present()?.omap.get(key).map(|v| &v[..]).unwrap_or_default() != &value[..] {
                return Err(RadosError::Guard);
            }
        }
    }
    Ok(Reply::Nothing)
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One client of the cluster.
#[derive(Clone)]
pub(crate) struct Memory {
    world: Arc<Mutex<World>>,
    name: String,
    /// Tasks that the client has begun, for the executor.
    pub spawned: Arc<Mutex<Vec<Task>>>,
}

impl Memory {
    pub fn start(seed: u64) -> Memory {
        let world = World {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            objects: BTreeMap::new(),
            queue: Vec::new(),
            fenced: BTreeSet::new(),
            now_ms: 1_000_000,
            steps: 0,
        };
        Memory { world: Arc::new(Mutex::new(world)), name: "client.0".into(), spawned: Arc::default() }
    }

    /// Another client of the same cluster.
    pub fn another(&self, name: String) -> Memory {
        Memory { world: self.world.clone(), name, spawned: Arc::default() }
    }

    pub fn lock(&self) -> MutexGuard<'_, World> {
        held(&self.world)
    }

    async fn queued(&self, place: (String, String), steps: Vec<Step>, fences: Option<String>) -> Outcome {
        let outcome = Arc::new(Mutex::new(None));
        let queued = Queued { client: self.name.clone(), place, steps, fences, outcome: outcome.clone() };
        self.lock().queue.push(queued);
        poll_fn(move |_| held(&outcome).take().map_or(Poll::Pending, Poll::Ready)).await
    }
}

/// A walk over a pool in the order of names.
pub(crate) struct MemoryNames {
    client: Memory,
    pool: String,
    after: String,
}

impl ObjectNames for MemoryNames {
    async fn next_page(&mut self) -> Result<Option<Vec<String>>, RadosError> {
        const PAGE: usize = 3;
        // Others go on between two pages.
        self.client.pause(1).await;
        let world = self.client.lock();
        let after = (self.pool.clone(), self.after.clone());
        let behind = world.objects.range((Bound::Excluded(after), Bound::Unbounded));
        let names: Vec<String> = behind
            .take_while(|((pool, _), _)| *pool == self.pool)
            .map(|((_, name), _)| name.clone())
            .take(PAGE)
            .collect();
        let Some(last) = names.last() else { return Ok(None) };
        self.after.clone_from(last);
        Ok(Some(names))
    }
}

impl Rados for Memory {
    type Names = MemoryNames;

    async fn names(&self, pool: &str) -> Result<MemoryNames, RadosError> {
        Ok(MemoryNames { client: self.clone(), pool: pool.to_owned(), after: String::new() })
    }

    async fn operate(&self, pool: &str, object: String, steps: Vec<Step>) -> Outcome {
        self.queued((pool.to_owned(), object), steps, None).await
    }

    fn client(&self) -> String {
        self.name.clone()
    }

    async fn fence(&self, client: &str) -> Result<(), RadosError> {
        self.queued((String::new(), String::new()), Vec::new(), Some(client.to_owned())).await.map(drop)
    }

    fn now_ms(&self) -> u64 {
        self.lock().now_ms
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        held(&self.spawned).push(Box::pin(task));
    }

    async fn pause(&self, ms: u64) {
        let due = self.now_ms() + ms;
        poll_fn(|_| if self.now_ms() >= due { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

//! Several clients change one image at random, die, and drop futures, on a cluster that refuses, loses and delays
//! operations. The content of the image and its snapshots is compared with all content that they may have.

use super::{OBJECT, SIZE, golden, with_clone};
use crate::error::Error;
use crate::in_memory::{Fault, Memory, Seen, simulate};
use crate::rbd::{Image, create, feature};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use types::Errno;
use wire::messages::{OpCode, OpFlags};

/// Unit of changes: each fills whole blocks with one byte.
const BLOCK: u64 = 512;
const BLOCKS: usize = (SIZE / BLOCK) as usize;
const TIMEOUT: Duration = Duration::from_secs(5);
const STEPS: u64 = 60;
/// Number of seeds run by default.
const SEEDS: u64 = 40;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Content of a block: a byte, or the parent's data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Value {
    Parent,
    Byte(u8),
}

/// Content that one block may have, and content of changes that may still arrive, with their handles.
#[derive(Clone, Default, Debug)]
struct Block {
    may_be: BTreeSet<Value>,
    floating: Vec<(usize, Value)>,
}

impl Block {
    fn all(&self) -> BTreeSet<Value> {
        self.may_be.iter().copied().chain(self.floating.iter().map(|(_, value)| *value)).collect()
    }

    /// Ends a handle's changes: none of them arrives any more.
    fn land(&mut self, handle: usize) {
        self.may_be.extend(self.floating.iter().filter(|(of, _)| *of == handle).map(|(_, value)| *value));
        self.floating.retain(|(of, _)| *of != handle);
    }
}

/// An open handle, with a client of its own.
struct Handle {
    number: usize,
    client: u64,
    image: Image,
    has_timeout: bool,
}

struct Run {
    memory: Memory,
    random: Random,
    blocks: Vec<Block>,
    snapshots: BTreeMap<String, Vec<BTreeSet<Value>>>,
    handles: Vec<Handle>,
    opened: usize,
    /// Handles that died or are in doubt: their changes may arrive until another client has the lock.
    doubtful: Vec<usize>,
    last_value: u8,
    log: Vec<String>,
}

static GOLDEN: LazyLock<Vec<u8>> = LazyLock::new(golden);

fn value_of(shown: &[u8], block: usize) -> Option<Value> {
    let range = block * BLOCK as usize..(block + 1) * BLOCK as usize;
    if shown[range.clone()] == GOLDEN[range.clone()] {
        return Some(Value::Parent);
    }
    let byte = shown[range.start];
    shown[range].iter().all(|other| *other == byte).then_some(Value::Byte(byte))
}

impl Run {
    async fn open(&mut self) {
        let has_timeout = self.random.one_in(2);
        let (client, cluster) = self.memory.client(has_timeout.then_some(TIMEOUT)).await;
        let pool = cluster.pool("p").await.expect("the pool");
        // Opening is repeated, because faults strike here, too.
        for _ in 0..10 {
            if let Ok(image) = Image::open(&pool, "disk").await {
                self.opened += 1;
                self.handles.push(Handle { number: self.opened, client, image, has_timeout });
                return;
            }
        }
        panic!("the image cannot be opened");
    }

    /// Chooses faults for some of the operations. Clients without a timeout lose nothing but their sessions.
    fn set_faults(&self, seed: u64) {
        let with_timeout: BTreeSet<u64> = self.handles.iter().filter(|h| h.has_timeout).map(|h| h.client).collect();
        let mut random = Random(seed);
        self.memory.set_rule(move |seen: &Seen<'_>| {
            let code = seen.op.ops[0].code;
            if [OpCode::WATCH, OpCode::NOTIFY, OpCode::NOTIFY_ACK].contains(&code) || !random.one_in(25) {
                return Fault::None;
            }
            let name = &seen.op.name;
            let may_refuse = name.starts_with(b"rbd_data.") || name.starts_with(b"rbd_object_map.");
            let may_refuse = may_refuse && seen.op.flags.has(OpFlags::WRITE);
            match (random.below(5), with_timeout.contains(&seen.client)) {
                (0, _) if may_refuse => Fault::Refuse(Errno::ENOSPC),
                (1, true) => Fault::LoseRequest,
                (2, true) => Fault::LoseReply,
                (3, true) => Fault::Late(TIMEOUT * 3),
                (4, _) => Fault::Late(Duration::from_millis(500)),
                _ => Fault::None,
            }
        });
    }

    /// Ends the changes of all doubtful handles: another client has had the lock since they were given up.
    fn lock_was_taken(&mut self) {
        for handle in std::mem::take(&mut self.doubtful) {
            self.blocks.iter_mut().for_each(|block| block.land(handle));
        }
    }

    /// Gives a handle up and kills its client.
    fn give_up(&mut self, index: usize) {
        let handle = self.handles.remove(index);
        self.memory.kill(handle.client);
        self.doubtful.push(handle.number);
    }

    /// Judges an error of a healthy handle's change. True if the handle is not to be used any more.
    fn is_final(&self, error: &Error) -> bool {
        match error {
            Error::TimedOut { .. } | Error::InDoubt => true,
            Error::Errno(Errno::ENOSPC) => false,
            other => panic!("{other}; {:#?}", self.log),
        }
    }

    async fn change(&mut self, index: usize, what: u64) {
        let (first, count) = (self.random.below(BLOCKS as u64), 1 + self.random.below(12));
        let last = (first + count).min(BLOCKS as u64);
        let (offset, length) = (first * BLOCK, (last - first) * BLOCK);
        self.last_value = self.last_value % 250 + 1;
        let handle = &self.handles[index];
        let (number, image) = (handle.number, handle.image.clone());
        let byte = if what == 0 { 0 } else { self.last_value };
        let changing = async move {
            match byte {
                0 => image.discard(offset, length).await,
                byte => image.write(offset, vec![byte; length as usize]).await,
            }
        };
        // Some callers wait for a limited time only.
        let patience = Duration::from_millis(if self.random.one_in(4) { self.random.below(150) } else { u64::MAX });
        let result = tokio::time::timeout(patience, changing).await;
        self.log.push(format!("handle {number} changes {first}..{last} to {byte}: {result:?}"));
        let value = Value::Byte(byte);
        if matches!(result, Ok(Ok(()))) {
            self.lock_was_taken();
        }
        for block in &mut self.blocks[first as usize..last as usize] {
            match &result {
                Ok(Ok(())) => block.may_be = BTreeSet::from([value]),
                Ok(Err(Error::Errno(_) | Error::InDoubt)) => drop(block.may_be.insert(value)),
                Ok(Err(_)) | Err(_) => block.floating.push((number, value)),
            }
        }
        if let Ok(Err(error)) = &result
            && self.is_final(error)
        {
            // Changes of this handle whose futures were dropped may arrive, too.
            self.give_up(index);
        }
    }

    /// Waits for all changes of a handle.
    async fn flush(&mut self, index: usize) {
        let number = self.handles[index].number;
        let result = self.handles[index].image.flush().await;
        self.log.push(format!("handle {number} flushes: {result:?}"));
        match result {
            Ok(()) => self.blocks.iter_mut().for_each(|block| block.land(number)),
            Err(_) => self.give_up(index),
        }
    }

    async fn read(&mut self, index: usize) {
        let number = self.handles[index].number;
        let Ok(shown) = self.handles[index].image.read(0, SIZE).await else { return };
        let shown = shown.to_vec();
        self.log.push(format!("handle {number} reads"));
        for (at, block) in self.blocks.iter_mut().enumerate() {
            let value = value_of(&shown, at);
            assert!(
                value.is_some_and(|value| block.all().contains(&value)),
                "block {at} shows {value:?} ({:?}), {block:?}: {:#?}",
                shown[at * BLOCK as usize],
                self.log
            );
            if let (true, Some(value)) = (block.floating.is_empty(), value) {
                block.may_be = BTreeSet::from([value]);
            }
        }
    }

    async fn take_snapshot(&mut self, index: usize) {
        let (number, name) = (self.handles[index].number, format!("s{}", self.log.len()));
        let image = self.handles[index].image.clone();
        let result = image.create_snapshot(&name).await;
        self.log.push(format!("handle {number} takes snapshot {name}: {result:?}"));
        if result.is_ok() {
            self.lock_was_taken();
            self.blocks.iter_mut().for_each(|block| block.land(number));
        }
        let shows = self.blocks.iter().map(Block::all).collect();
        match result {
            Ok(()) => drop(self.snapshots.insert(name, shows)),
            Err(error) if self.is_final(&error) => {
                self.snapshots.insert(name, shows);
                self.give_up(index);
            }
            // An error after the snapshot was taken, such as a failed update of the object map, does not undo it.
            Err(_) => drop(self.snapshots.insert(name, shows)),
        }
    }

    async fn roll_back(&mut self, index: usize) {
        let Some((name, shows)) = self.snapshots.iter().next().map(|(name, shows)| (name.clone(), shows.clone()))
        else {
            return;
        };
        let number = self.handles[index].number;
        let result = self.handles[index].image.roll_back(&name).await;
        self.log.push(format!("handle {number} rolls back to {name}: {result:?}"));
        match result {
            Ok(()) => {
                self.lock_was_taken();
                for (block, shows) in self.blocks.iter_mut().zip(shows) {
                    block.land(number);
                    block.may_be = shows;
                }
            }
            // The snapshot does not exist, or shows more of the parent than the image still does.
            Err(Error::Errno(Errno::ENOENT) | Error::Unsupported(_)) => drop(self.snapshots.remove(&name)),
            Err(error) => {
                for (block, shows) in self.blocks.iter_mut().zip(shows) {
                    let is_final = !matches!(error, Error::Errno(_));
                    match is_final {
                        true => block.floating.extend(shows.into_iter().map(|value| (number, value))),
                        false => block.may_be.extend(shows),
                    }
                }
                if self.is_final(&error) {
                    self.give_up(index);
                }
            }
        }
    }

    async fn flatten(&mut self, index: usize) {
        let number = self.handles[index].number;
        let result = self.handles[index].image.flatten().await;
        self.log.push(format!("handle {number} flattens: {result:?}"));
        match result {
            Ok(()) => self.lock_was_taken(),
            Err(Error::Errno(Errno::EINVAL) | Error::Unsupported(_)) => {}
            Err(error) => {
                if self.is_final(&error) {
                    self.give_up(index);
                }
            }
        }
    }

    /// Checks that every snapshot has kept its content.
    async fn read_snapshots(&mut self) {
        let (_, pool) = self.memory.pool("p").await;
        let names: Vec<String> = self.snapshots.keys().cloned().collect();
        for name in names {
            let image = match Image::open_snapshot(&pool, "disk", &name).await {
                Err(Error::Errno(Errno::ENOENT)) => {
                    // Only a snapshot whose creation failed may be missing.
                    assert!(self.log.iter().any(|line| line.contains(&format!("{name}: Err"))), "{name} is gone");
                    self.snapshots.remove(&name);
                    continue;
                }
                image => image.expect("a snapshot"),
            };
            let shown = image.read(0, SIZE).await.expect("a read").to_vec();
            let shows = self.snapshots.get_mut(&name).expect("just listed");
            for (at, may_be) in shows.iter_mut().enumerate() {
                let value = value_of(&shown, at);
                assert!(
                    value.is_some_and(|value| may_be.contains(&value)),
                    "block {at} of {name} shows {value:?}, may be {may_be:?}: {:#?}",
                    self.log
                );
                *may_be = value.into_iter().collect();
            }
        }
    }

    async fn step(&mut self) {
        while self.handles.len() < 3 {
            self.open().await;
            let seed = self.random.below(u64::MAX);
            self.set_faults(seed);
        }
        let index = self.random.below(self.handles.len() as u64) as usize;
        match self.random.below(40) {
            0..20 => {
                let what = self.random.below(4);
                self.change(index, what).await;
            }
            20..28 => self.read(index).await,
            28..32 => self.flush(index).await,
            32 if self.snapshots.len() < 3 => self.take_snapshot(index).await,
            33 => self.roll_back(index).await,
            34 => self.flatten(index).await,
            35 => self.memory.reset(self.handles[index].client),
            36 => {
                self.log.push(format!("handle {} dies", self.handles[index].number));
                self.give_up(index);
            }
            37 => self.close(index).await,
            38 => self.read_snapshots().await,
            _ => tokio::time::sleep(Duration::from_secs(self.random.below(30))).await,
        }
    }

    async fn close(&mut self, index: usize) {
        let handle = self.handles.remove(index);
        let flushed = handle.image.flush().await;
        let closed = handle.image.close().await;
        self.log.push(format!("handle {} is closed: {flushed:?}, {closed:?}", handle.number));
        if flushed.is_ok() {
            self.blocks.iter_mut().for_each(|block| block.land(handle.number));
        }
        if flushed.and(closed).is_err() {
            self.memory.kill(handle.client);
            self.doubtful.push(handle.number);
        }
    }

    /// Ends all faults, and checks that the image settles and stays.
    async fn end(&mut self) {
        self.memory.release();
        tokio::time::sleep(TIMEOUT * 20).await;
        while !self.handles.is_empty() {
            self.close(0).await;
        }
        let (_, pool) = self.memory.pool("p").await;
        let image = Image::open(&pool, "disk").await.expect("the image");
        self.opened += 1;
        let client = self.memory.lock().clients.keys().last().copied().expect("clients");
        self.handles.push(Handle { number: self.opened, client, image, has_timeout: false });
        self.last_value = 251;
        let image = self.handles[0].image.clone();
        image.write(0, vec![252; BLOCK as usize]).await.expect("a write");
        self.lock_was_taken();
        self.blocks[0].may_be = BTreeSet::from([Value::Byte(252)]);
        self.log.push("settled".into());
        assert!(self.blocks.iter().all(|block| block.floating.is_empty()), "{:?}", self.blocks);
        self.read(0).await;
        self.read_snapshots().await;
        tokio::time::sleep(Duration::from_secs(200)).await;
        self.read(0).await;
        self.read_snapshots().await;
        let flattened = image.flatten().await;
        assert!(
            matches!(flattened, Ok(()) | Err(Error::Errno(Errno::EINVAL) | Error::Unsupported(_))),
            "{flattened:?}"
        );
        self.read(0).await;
        self.read_snapshots().await;
        // A client that does not use the object map sees the same content.
        let (_, pool) = self.memory.pool("p").await;
        let seen = Image::open_read_only(&pool, "disk").await.expect("the image").read(0, SIZE).await.expect("a read");
        assert!(seen.to_vec() == image.read(0, SIZE).await.expect("a read").to_vec(), "{:#?}", self.log);
        image.close().await.expect("closing");
    }
}

/// Runs one seed. Returns the log of its steps.
async fn run(seed: u64, features: u64) -> Vec<String> {
    let is_clone = !seed.is_multiple_of(4);
    let memory = match is_clone {
        true => with_clone(seed, features).await,
        false => {
            let memory = Memory::start(seed, &["p"], wire::Release::MIMIC);
            let (_, pool) = memory.pool("p").await;
            create(&pool, "disk", SIZE, &super::options(features)).await.expect("an image");
            memory
        }
    };
    let first = if is_clone { Value::Parent } else { Value::Byte(0) };
    let block = Block { may_be: BTreeSet::from([first]), floating: Vec::new() };
    let mut run = Run {
        memory,
        random: Random(seed),
        blocks: vec![block; BLOCKS],
        snapshots: BTreeMap::new(),
        handles: Vec::new(),
        opened: 0,
        doubtful: Vec::new(),
        last_value: 0,
        log: Vec::new(),
    };
    for _ in 0..STEPS {
        run.step().await;
    }
    run.end().await;
    run.log
}

/// The seeds to run: [`SEEDS`] by default, or those named by `NACRE_IMAGE_SEEDS=17` or `NACRE_IMAGE_SEEDS=0..1000`.
fn seeds() -> std::ops::Range<u64> {
    let Ok(wanted) = std::env::var("NACRE_IMAGE_SEEDS") else { return 0..SEEDS };
    let number = |text: &str| text.parse::<u64>().unwrap_or_else(|_| panic!("NACRE_IMAGE_SEEDS={wanted}"));
    match wanted.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&wanted)..number(&wanted) + 1,
    }
}

fn check(features: u64) {
    const { assert!(BLOCKS > 16 && OBJECT.is_multiple_of(BLOCK)) };
    for seed in seeds() {
        println!("NACRE_IMAGE_SEEDS={seed} cargo test -p client many_clients");
        simulate(run(seed, features));
    }
}

#[test]
fn what_several_clients_do_to_an_image_is_what_it_shows() {
    check(feature::DEFAULT);
}

#[test]
fn what_several_clients_do_to_an_image_without_an_object_map_is_what_it_shows() {
    check(feature::LAYERING | feature::EXCLUSIVE_LOCK | feature::DEEP_FLATTEN);
}

#[test]
fn a_run_follows_from_its_seed() {
    assert_eq!(simulate(run(5, feature::DEFAULT)), simulate(run(5, feature::DEFAULT)));
    assert_ne!(simulate(run(6, feature::DEFAULT)), simulate(run(5, feature::DEFAULT)));
}

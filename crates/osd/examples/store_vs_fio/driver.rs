//! Drives the store in a reactor as an OSD does, and keeps a given number of operations under way.

use crate::arguments::Arguments;
use crate::files::StoreFiles;
use crate::measure::{CpuTime, Latencies, Measured};
use crate::workload::{Begun, Kind, Workload};
use anyhow::{Context, Result, bail};
use osd::MemoryShares;
use reactor::{Event, FileId, FileOptions, Handler, Io, LoopIo, Reactor};
use std::collections::{HashMap, VecDeque};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use store::{IoDone, IoId, IoRequest, LookupId, Opening, Store, StoreConfig, StoreEvent, Ticket};
use types::{Fsid, OsdId};

/// Timer that wakes the loop when no completion from the device would.
const KICK: u64 = 1;
const KICK_EVERY: Duration = Duration::from_millis(1);
/// Bytes of operations that one turn begins, or one operation if that is larger. Requests come to an OSD through
/// sockets: while it takes in the rest, the first are on their way to the drive.
const BYTES_PER_TURN: u64 = 32 << 10;
/// Time between two ticks of the store, as in an OSD.
const STORE_TICK_EVERY: Duration = Duration::from_secs(1);

/// The end of a phase: a time, or a number of operations.
#[derive(Clone, Copy, Debug)]
pub enum Until {
    Time(Duration),
    Operations(u64),
}

struct Phase {
    kind: Kind,
    depth: usize,
    until: Until,
    begun: Instant,
    /// Number of operations begun.
    operations: u64,
    ended: Option<Instant>,
    writes: VecDeque<(Ticket, Instant, bool)>,
    reads: HashMap<LookupId, (Instant, bool)>,
    latencies: Latencies,
    during_checkpoints: Latencies,
    flushes: Latencies,
}

impl Phase {
    fn done(&mut self, begun: Instant, checkpointing: bool) {
        let latency = begun.elapsed();
        self.latencies.push(latency);
        if checkpointing {
            self.during_checkpoints.push(latency);
        }
    }

    fn under_way(&self) -> usize {
        self.writes.len() + self.reads.len()
    }

    fn is_over(&self) -> bool {
        match self.until {
            Until::Time(time) => self.begun.elapsed() >= time,
            Until::Operations(count) => self.operations >= count,
        }
    }
}

/// Traffic to the device.
#[derive(Clone, Copy, Default)]
struct Traffic {
    written_bytes: u64,
    flushes: u64,
}

enum Stage {
    Opening(Box<Opening>),
    Open(Box<Store>),
}

struct Driver {
    stage: Stage,
    /// The open files, in the order of [`Device::ALL`].
    files: [Option<FileId>; 3],
    /// If true, freed ranges go back to the file system.
    discards: bool,
    workload: Workload,
    phase: Option<Phase>,
    /// The time until which the store is left alone at most.
    rest_until: Option<Instant>,
    traffic: Traffic,
    /// Flushes under way.
    flushing: HashMap<IoId, Instant>,
    store_tick_at: Duration,
    /// If true, the next turn begins more operations.
    goes_on: bool,
    error: Option<String>,
}

/// A store and its loop.
pub struct StoreRun {
    reactor: Reactor,
    driver: Driver,
}

impl StoreRun {
    /// Makes a new store at the beginning of these files. `objects`: how many objects it is for.
    pub fn new(files: &StoreFiles, arguments: &Arguments, wal_bytes: u64, objects: u64) -> Result<Self> {
        let mut reactor = Reactor::new(reactor::Config::default()).context("no ring")?;
        let options = FileOptions { direct: true, ..FileOptions::default() };
        let mut open = |path: &PathBuf| {
            reactor.io().open_file(path, options).with_context(|| format!("opening {}", path.display()))
        };
        let main = open(&files.main)?;
        let wal = files.wal.as_ref().map(&mut open).transpose()?;
        let metadata = files.metadata.as_ref().map(&mut open).transpose()?;
        // Records of an earlier run on the same device must not pass for this one's.
        let mut uuid = Fsid::default();
        reactor.io().fill_random(&mut uuid.0);
        let device_bytes = files.device_bytes;
        let one = StoreConfig::one_device(device_bytes, wal_bytes, Fsid([1; 16]), OsdId(0), uuid);
        let config = StoreConfig {
            wal_device_bytes: wal.map(|_| wal_bytes + StoreConfig::LABEL_BYTES),
            metadata_device_bytes: metadata.map(|_| files.metadata_bytes),
            ..one
        };
        format(files, &config).context("formatting the store")?;
        let stage = Stage::Opening(Box::new(Store::open(config)));
        let mut driver = Driver {
            stage,
            files: [Some(main), wal, metadata],
            discards: arguments.sparse,
            workload: Workload::new(objects, device_bytes),
            phase: None,
            rest_until: None,
            traffic: Traffic::default(),
            flushing: HashMap::new(),
            store_tick_at: Duration::ZERO,
            goes_on: false,
            error: None,
        };
        reactor.io().set_timer(Duration::ZERO, KICK);
        reactor.run(&mut driver)?;
        let Stage::Open(store) = &mut driver.stage else { bail!("the store did not open: {:?}", driver.error) };
        let memory = MemoryShares::of(arguments.memory_bytes);
        store.set_block_cache_bytes(memory.block_cache_bytes);
        store.set_memory(store::Memory::of(memory.metadata_bytes));
        if arguments.sparse {
            store.prepare_ahead();
        }
        Ok(StoreRun { reactor, driver })
    }

    /// Runs operations of one kind. The measurement ends with the last completion.
    pub fn run(&mut self, kind: Kind, depth: usize, until: Until) -> Result<Measured> {
        let (cpu, traffic, begun) = (CpuTime::now()?, self.driver.traffic, Instant::now());
        self.driver.phase = Some(Phase {
            kind,
            depth,
            until,
            begun,
            operations: 0,
            ended: None,
            writes: VecDeque::new(),
            reads: HashMap::new(),
            latencies: Latencies::default(),
            during_checkpoints: Latencies::default(),
            flushes: Latencies::default(),
        });
        self.turn_until_stopped()?;
        let phase = self.driver.phase.take().expect("set above");
        let time = phase.ended.unwrap_or_else(Instant::now) - begun;
        Ok(Measured {
            operations: phase.operations,
            bytes: phase.operations * kind.bytes(),
            time,
            cpu: CpuTime::now()?.since(cpu),
            written_bytes: self.driver.traffic.written_bytes - traffic.written_bytes,
            flushes: self.driver.traffic.flushes - traffic.flushes,
            latencies: phase.latencies,
            during_checkpoints: phase.during_checkpoints,
            flush_latencies: phase.flushes,
        })
    }

    /// Runs until nothing is under way. `checkpoint`: the store also writes a checkpoint first.
    pub fn settle(&mut self, checkpoint: bool) -> Result<()> {
        if let Stage::Open(store) = &mut self.driver.stage
            && checkpoint
        {
            store.checkpoint();
        }
        self.turn_until_stopped()
    }

    /// Leaves the store alone until it has nothing left to move, but for `time_max` at most. Returns the time that it
    /// took and the bytes that the store wrote in it.
    pub fn rest(&mut self, time_max: Duration) -> Result<(Duration, u64)> {
        let (begun, before) = (Instant::now(), self.driver.traffic.written_bytes);
        self.driver.rest_until = Some(begun + time_max);
        self.turn_until_stopped()?;
        self.driver.rest_until = None;
        let rested = begun.elapsed();
        self.settle(false)?;
        Ok((rested, self.driver.traffic.written_bytes - before))
    }

    /// Has the next operation begin with the first object again.
    pub fn rewind(&mut self) {
        self.driver.workload.rewind();
    }

    pub fn store(&self) -> &Store {
        let Stage::Open(store) = &self.driver.stage else { panic!("the store was opened when this was made") };
        store
    }

    fn turn_until_stopped(&mut self) -> Result<()> {
        let now = self.reactor.io().now();
        self.reactor.io().set_timer(now, KICK);
        self.reactor.run(&mut self.driver)?;
        match self.driver.error.take() {
            Some(error) => bail!("{error}"),
            None => Ok(()),
        }
    }
}

fn format(files: &StoreFiles, config: &StoreConfig) -> Result<()> {
    for request in Store::format(config)? {
        let path = files.of(request.device()).context("a request to a device that there is not")?;
        let file = OpenOptions::new().write(true).open(path)?;
        match request {
            IoRequest::Write { offset, data, .. } => file.write_all_at(&data.to_vec(), offset)?,
            IoRequest::Flush { .. } => file.sync_data()?,
            IoRequest::Discard { .. } | IoRequest::Read { .. } => {}
        }
    }
    Ok(())
}

impl Driver {
    fn pump(&mut self, io: &mut LoopIo) {
        if let Stage::Opening(opening) = &mut self.stage {
            match opening.poll_result() {
                None => {}
                Some(Ok(store)) => self.stage = Stage::Open(Box::new(store)),
                Some(Err(error)) => return self.fail(io, error.to_string()),
            }
        }
        loop {
            let request = match &mut self.stage {
                Stage::Opening(opening) => opening.poll_io(),
                Stage::Open(store) => store.poll_io(),
            };
            let Some(request) = request else { return };
            let file = self.files[request.device() as usize].expect("requests are for devices that there are");
            match request {
                IoRequest::Read { id, offset, buf, .. } => io.read(file, offset, buf, id.0),
                IoRequest::Write { id, offset, data, .. } => {
                    self.traffic.written_bytes += data.len() as u64;
                    io.write(file, offset, data.into_pieces().collect(), id.0);
                }
                IoRequest::Flush { id, .. } => {
                    self.traffic.flushes += 1;
                    self.flushing.insert(id, Instant::now());
                    io.flush(file, id.0);
                }
                IoRequest::Discard { id, offset, len, .. } if self.discards => io.discard(file, offset, len, id.0),
                // The file keeps its blocks; the discard counts as done.
                IoRequest::Discard { id, .. } => self.io_done(IoDone { id, result: Ok(None) }),
            }
        }
    }

    fn io_done(&mut self, done: IoDone) {
        if let (Some(begun), Some(phase)) = (self.flushing.remove(&done.id), &mut self.phase) {
            phase.flushes.push(begun.elapsed());
        }
        match &mut self.stage {
            Stage::Opening(opening) => opening.io_done(done),
            Stage::Open(store) => store.io_done(done),
        }
    }

    fn fail(&mut self, io: &mut LoopIo, error: String) {
        self.error = Some(error);
        io.stop();
    }

    /// Takes the store's events and begins operations. An error ends the run.
    fn operate(&mut self) -> Result<(), String> {
        let Stage::Open(store) = &mut self.stage else { return Ok(()) };
        let checkpointing = store.checkpoint_is_running();
        while let Some(event) = store.poll_event() {
            match (event, &mut self.phase) {
                (StoreEvent::Failed { reason }, _) => return Err(reason.to_string()),
                (StoreEvent::Committed(ticket), Some(phase)) => {
                    while let Some((_, begun, during)) = phase.writes.pop_front_if(|(first, ..)| *first <= ticket) {
                        phase.done(begun, during || checkpointing);
                    }
                }
                (StoreEvent::ReadDone { id, result }, Some(phase)) => {
                    let data = result.map_err(|error| error.to_string())?;
                    let (begun, during) = phase.reads.remove(&id).ok_or("a read that nobody asked for")?;
                    if data.len() as u64 != phase.kind.bytes() {
                        return Err(format!("a read of {} bytes gave {}", phase.kind.bytes(), data.len()));
                    }
                    phase.done(begun, during || checkpointing);
                }
                _ => {}
            }
        }
        let Some(phase) = &mut self.phase else { return Ok(()) };
        let mut room = (BYTES_PER_TURN / phase.kind.bytes()).max(1);
        // An OSD, too, takes nothing more from its clients while its store is behind.
        while phase.under_way() < phase.depth && !phase.is_over() && !(phase.kind.writes() && store.is_behind()) {
            if room == 0 {
                self.goes_on = true;
                break;
            }
            room -= 1;
            let now = Instant::now();
            phase.operations += 1;
            match self.workload.begin(store, phase.kind).map_err(|error| error.to_string())? {
                Begun::Write(ticket) => phase.writes.push_back((ticket, now, checkpointing)),
                Begun::Read(id) => drop(phase.reads.insert(id, (now, checkpointing))),
                Begun::Done => phase.done(now, checkpointing),
            }
        }
        if phase.under_way() == 0 {
            phase.ended = Some(Instant::now());
        }
        Ok(())
    }
}

impl Handler<LoopIo> for Driver {
    fn received(&mut self, _: &mut LoopIo, _: reactor::ConnId, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn event(&mut self, io: &mut LoopIo, event: Event) {
        match event {
            Event::Disk { io: id, result } => self.io_done(IoDone { id: IoId(id), result }),
            Event::Timer { .. } => io.set_timer(io.now() + KICK_EVERY, KICK),
            _ => {}
        }
    }

    fn turn_end(&mut self, io: &mut LoopIo) {
        if let Err(error) = self.operate() {
            return self.fail(io, error);
        }
        if let Stage::Open(store) = &mut self.stage {
            if io.now() >= self.store_tick_at {
                self.store_tick_at = io.now() + STORE_TICK_EVERY;
                store.tick();
            }
            store.end_turn();
        }
        self.pump(io);
        if std::mem::take(&mut self.goes_on) {
            io.set_timer(io.now(), KICK);
        }
        let Stage::Open(store) = &self.stage else { return };
        match &self.phase {
            Some(phase) if phase.ended.is_some() => io.stop(),
            Some(_) => {}
            None if store.is_idle() && (self.rest_until.is_none() || store.is_compact()) => io.stop(),
            None if self.rest_until.is_some_and(|until| Instant::now() >= until) => io.stop(),
            _ => {}
        }
    }
}

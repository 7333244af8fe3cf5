//! The reactor's handler of a worker: a shard with its part of the store.

use super::queue::{Inbox, Sender};
use super::{FromWorker, Meter, ShardFacts, ToWorker};
use crate::OsdConfig;
use crate::beacon;
use crate::commands::{self, tuned::Tuned};
use crate::failure::{Failure, NotReady, StorePlace};
use crate::heartbeat::DiskWait;
use crate::leaving::SETTLE_EVERY;
use crate::osd::{CLOCK_GAIN_MAX, DRIVE_GIVEN_UP_AFTER, TICK_EVERY};
use crate::shard_making::{make_shard, ready_store};
use devices::DeviceFiles;
use pg::ops::Limits;
use pg::{Output, Shard};
use reactor::{Event, Handler, Io};
use std::sync::Arc;
use std::time::Duration;
use stdx::ClockWatch;
use store::{IoDone, IoId, Opening, Store};
use types::Epoch;
use wire::messages::kind_name;

/// Numbers of timers.
const TICK: u64 = 1;
const TURN: u64 = 2;

/// Interval at which counts go to the front. It is shorter while groups heal.
const BEACON_EVERY: Duration = Duration::from_secs(2);
/// Delay of a report to the front after groups changed their states. Changes of about the same moment then go together.
const REPORT_AFTER: Duration = Duration::from_millis(20);

enum WorkerStage {
    Opening(Box<Opening>),
    /// The store is open; the other shards' stores are not yet.
    Open(Box<Store>),
    Running(Box<Shard>),
    Ended,
}

/// Parts that a worker is made of.
pub(crate) struct WorkerParts {
    pub index: usize,
    /// Configuration with the shard's part of the OSD's resources.
    pub config: OsdConfig,
    pub limits: Limits,
    pub store_memory: store::Memory,
    pub inbox: Inbox<ToWorker>,
    pub outbox: Sender<FromWorker>,
    pub meter: Arc<Meter>,
}

/// A shard that is not the OSD's first.
pub(crate) struct Worker {
    parts: WorkerParts,
    files: DeviceFiles,
    stage: WorkerStage,
    disk_wait: DiskWait,
    clock_watch: ClockWatch,
    beacon_at: Duration,
    /// Epoch of the map that the front knows to be in force here.
    told: Epoch,
    /// `Some`: the store has to come to rest. `Some(true)`: it is at rest, and the front knows.
    retiring: Option<bool>,
    /// The reason why the shard cannot go on.
    failure: Option<Failure>,
    is_to_end: bool,
    /// Figures that options have set last.
    tuned: Option<Tuned>,
}

impl Worker {
    /// Begins to read the store.
    pub fn new(io: &mut impl Io, files: DeviceFiles, opening: Opening, parts: WorkerParts) -> Worker {
        let mut worker = Worker {
            parts,
            files,
            stage: WorkerStage::Opening(Box::new(opening)),
            disk_wait: DiskWait::default(),
            clock_watch: ClockWatch::new(CLOCK_GAIN_MAX),
            beacon_at: Duration::ZERO,
            told: Epoch(0),
            retiring: None,
            failure: None,
            is_to_end: false,
            tuned: None,
        };
        worker.pump_opening(io);
        worker
    }

    fn place(&self) -> StorePlace {
        StorePlace { device: self.parts.config.devices.main.clone(), shard: Some(self.parts.index) }
    }

    fn pump_opening(&mut self, io: &mut impl Io) {
        let WorkerStage::Opening(opening) = &mut self.stage else { return };
        while let Some(request) = opening.poll_io() {
            self.files.submit(io, request);
        }
        let store = match opening.poll_result() {
            None => return,
            Some(result) => result.map_err(NotReady::Open),
        };
        let WorkerParts { config, store_memory, .. } = &self.parts;
        match store.and_then(|store| ready_store(io, &self.files, config, *store_memory, store)) {
            Ok(store) => {
                let (groups, usage) = (store.pgs(), store.usage());
                self.parts.outbox.push(FromWorker::Opened { groups, usage });
                self.stage = WorkerStage::Open(Box::new(store));
            }
            Err(why) => self.failure = Some(Failure::Store { place: self.place(), why }),
        }
    }

    fn take_inbox(&mut self, io: &mut impl Io) {
        while let Some(batch) = self.parts.inbox.take() {
            // A time that the front stamped must not be later than the shard's own time.
            if let WorkerStage::Running(shard) = &mut self.stage
                && !mutant::is(mutant::Mutant::ShardTimeBehind)
            {
                shard.set_time(io.clock());
            }
            let bytes = batch.iter().map(ToWorker::bytes).sum();
            batch.into_iter().for_each(|message| self.told(io, message));
            self.parts.meter.taken(bytes);
        }
    }

    fn told(&mut self, io: &mut impl Io, message: ToWorker) {
        if let ToWorker::End = message {
            self.is_to_end = true;
            return;
        }
        if self.retiring.is_some() {
            return;
        }
        if let ToWorker::Begin { homes, public_addrs } = message {
            let WorkerStage::Open(store) = std::mem::replace(&mut self.stage, WorkerStage::Ended) else {
                panic!("the front waits until every store is open")
            };
            let WorkerParts { index, config, limits, .. } = &self.parts;
            let shard = make_shard(config, *store, *limits, public_addrs).as_part(*index, homes);
            self.stage = WorkerStage::Running(Box::new(shard));
            return self.tick(io);
        }
        let WorkerStage::Running(shard) = &mut self.stage else { return };
        let outbox = &mut self.parts.outbox;
        match message {
            ToWorker::Begin { .. } | ToWorker::End => unreachable!("seen above"),
            ToWorker::ClientOpened { session, name, addr, features, rights } => {
                shard.client_opened(session, name, addr, features, rights);
            }
            ToWorker::ClientClosed { session } => shard.client_closed(session),
            ToWorker::ClientOp { session, envelope, began } => {
                if let Err(why) = shard.client_op(session, &envelope, began) {
                    outbox.push(FromWorker::BadClient { session, kind: envelope.header.kind, why });
                }
            }
            ToWorker::ClientBackoff { session, envelope } => {
                if let Err(why) = shard.client_backoff(session, &envelope) {
                    outbox.push(FromWorker::BadClient { session, kind: envelope.header.kind, why });
                }
            }
            ToWorker::FromOsd { from, envelope, began } => {
                if let Err(why) = shard.peer_message(from, &envelope, began) {
                    outbox.push(FromWorker::BadOsd { osd: from, kind: envelope.header.kind, why });
                }
            }
            ToWorker::SessionEnded { osd } => shard.session_ended(osd),
            ToWorker::Maps(maps) => {
                if let Err(e) = shard.osd_maps(&maps) {
                    tracing::error!("maps from the monitor are not usable: {e}");
                }
            }
            ToWorker::FromMonitor(envelope) => {
                if let Err(e) = shard.monitor_message(&envelope) {
                    let kind = kind_name(envelope.header.kind);
                    tracing::error!(kind, "malformed message from a monitor: {e}");
                }
            }
            ToWorker::MonitorConnected => {
                shard.monitor_connected();
                self.beacon_at = Duration::ZERO;
            }
            ToWorker::Tune(tuned) => {
                if self.tuned.replace(tuned) != Some(tuned) {
                    tuned.apply(shard);
                }
            }
            ToWorker::Checkpoint => shard.write_checkpoint(),
            ToWorker::DropCaches => shard.drop_block_cache(),
            ToWorker::Facts { id } => {
                outbox.push(FromWorker::Facts { id, facts: Box::new(ShardFacts::of(shard)) });
            }
            ToWorker::PgCommand { id, command } => {
                let reply = commands::answer_of_shard(&command, shard);
                outbox.push(FromWorker::PgReply { id, reply: Box::new(reply) });
            }
            ToWorker::Retire => {
                shard.retire();
                self.retiring = Some(false);
            }
        }
    }

    /// Memory that this shard holds for clients, once it is at work.
    pub fn memory_use(&self) -> Option<pg::MemoryUse> {
        match &self.stage {
            WorkerStage::Running(shard) => Some(shard.memory_use()),
            WorkerStage::Opening(_) | WorkerStage::Open(_) | WorkerStage::Ended => None,
        }
    }

    fn tick(&mut self, io: &mut impl Io) {
        let now = io.now();
        io.set_timer(now + TICK_EVERY, TICK);
        let WorkerStage::Running(shard) = &mut self.stage else { return };
        shard.set_time(now);
        if self.retiring.is_none() {
            shard.tick();
        }
        let wait = self.disk_wait.tick(now);
        self.parts.meter.set_disk_wait(wait);
        if wait >= DRIVE_GIVEN_UP_AFTER {
            self.failure = Some(Failure::DriveHangs { place: self.place(), owed: wait });
        }
    }

    fn run_shard(&mut self, io: &mut impl Io) {
        let now = io.now();
        let WorkerStage::Running(shard) = &mut self.stage else { return };
        let WorkerParts { outbox, meter, config, .. } = &mut self.parts;
        let unsent_bytes = meter.unsent_bytes();
        shard.set_unsent_bytes(unsent_bytes);
        // The turn gets a new time here, as in the front.
        shard.set_time(io.clock());
        shard.follow_maps();
        let epoch = shard.map().epoch;
        if self.told != epoch {
            self.told = epoch;
            outbox.push(FromWorker::InForce(epoch));
        }
        shard.end_turn();
        let mut given_bytes = 0;
        let mut outputs = shard.take_outputs();
        for output in outputs.drain(..) {
            match output {
                Output::Fatal(why) => self.failure = Some(Failure::Shard(why)),
                output => {
                    let output = FromWorker::Out(output);
                    given_bytes += output.answer_bytes();
                    meter.answered(output.answer_bytes());
                    outbox.push(output);
                }
            }
        }
        shard.reuse_outputs(outputs);
        while let Some(request) = shard.poll_io() {
            self.disk_wait.submitted(request.id().0);
            self.files.submit(io, request);
        }
        shard.turn_sent(io.clock());
        if shard.has_reports() {
            self.beacon_at = self.beacon_at.min(now + REPORT_AFTER);
        }
        if now >= self.beacon_at && self.retiring.is_none() {
            let beacon = shard.beacon(0, 0);
            let until_next = beacon::until_next(&beacon, shard.map().up_osds().count());
            self.beacon_at = now + until_next.min(BEACON_EVERY);
            outbox.push(FromWorker::Beacon(beacon));
        }
        let store = shard.store();
        if self.retiring == Some(false) && store.is_idle() {
            self.retiring = Some(true);
            outbox.push(FromWorker::Idle);
        }
        let behind = store.is_behind();
        let uncommitted = store.uncommitted_bytes() > config.memory().uncommitted_bytes;
        meter.set_client_bytes(shard.client_bytes());
        meter.set_full(shard.is_full());
        // The front rings if it lowers the number from here on. It may have done so before.
        let room_came = shard.is_full() && meter.unsent_bytes() < unsent_bytes + given_bytes;
        let room_came = (room_came || shard.waits_for_answers()).then_some(now);
        if meter.set_holds(shard.is_full() || behind, behind || uncommitted) {
            self.parts.inbox.ring();
        }
        let settles = (self.retiring == Some(false)).then_some(now + SETTLE_EVERY);
        let store_work = store.wants_turn().then_some(now);
        let beacon = self.retiring.is_none().then_some(self.beacon_at);
        let wakes = [settles, store_work, room_came, beacon, shard.next_wake().filter(|_| self.retiring.is_none())];
        if let Some(at) = wakes.into_iter().flatten().min() {
            let soonest = if settles.is_some() { SETTLE_EVERY } else { Duration::from_millis(1) };
            io.set_timer(at.max(now + soonest), TURN);
        }
    }
}

impl<I: Io> Handler<I> for Worker {
    fn received(&mut self, _: &mut I, conn: reactor::ConnId, _: &[u8]) -> usize {
        panic!("bytes of {conn:?}, where nothing is connected")
    }

    fn event(&mut self, io: &mut I, event: Event) {
        match event {
            Event::Disk { io: id, result } => {
                let done = IoDone { id: IoId(id), result };
                match &mut self.stage {
                    WorkerStage::Opening(opening) => {
                        opening.io_done(done);
                        self.pump_opening(io);
                    }
                    WorkerStage::Running(shard) => {
                        self.disk_wait.done(id);
                        shard.set_time(io.now());
                        shard.io_done(done);
                    }
                    WorkerStage::Open(_) | WorkerStage::Ended => {}
                }
            }
            Event::Timer { token: TICK } => self.tick(io),
            // Messages that have come are taken at the turn's end.
            Event::Timer { .. } | Event::Woken => {}
            Event::Accepted { .. }
            | Event::Connected { .. }
            | Event::BulkReceived { .. }
            | Event::Sent { .. }
            | Event::Closed { .. } => panic!("{event:?}, where nothing is connected"),
        }
    }

    fn turn_end(&mut self, io: &mut I) {
        let gain = self.clock_watch.look(io.clock(), io.wall_clock().to_unix());
        if let WorkerStage::Running(shard) = &mut self.stage {
            if !mutant::is(mutant::Mutant::ShardTimeBehind) {
                shard.set_time(io.now());
            }
            // The front reports it to the operator.
            if gain.is_some() {
                shard.clock_stood_still();
            }
        }
        self.take_inbox(io);
        self.run_shard(io);
        if let Some(why) = self.failure.take() {
            self.parts.outbox.push(FromWorker::Failed(why));
            self.stage = WorkerStage::Ended;
        }
        self.parts.outbox.flush();
        if self.is_to_end {
            self.stage = WorkerStage::Ended;
            io.stop();
        }
    }
}

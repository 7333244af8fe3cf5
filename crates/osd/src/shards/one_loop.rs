//! An OSD whose shards all run in one loop; the simulator has them so.
//!
//! The loop does in turns the work that threads do at the same time. When a shard rings another one's bell, that one
//! looks at its queue after a random time. Queues are therefore emptied in any order.

use super::Others;
use super::part_io::{PartIo, part_of, without_part};
use super::queue::Bell;
use super::thread::WorkerThread;
use super::worker::Worker;
use crate::heartbeat::{Board, HeartbeatAddrs};
use crate::shard_making::limits;
use crate::{ConnectionMemory, Osd, OsdConfig, Stop};
use devices::Division;
use pg::MemoryUse;
use pg::ops::Limits;
use reactor::{ConnId, Event, Handler, Io};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use types::{Epoch, OsdId, PgId};

/// The longest time from a bell to the shard's look at its queue. Most often it is much shorter.
const LOOKS_AFTER_MAX: Duration = Duration::from_millis(1);
/// One time in this many, the shard is busy with something else and looks only after [`BUSY_TIMES`] times as long.
const BUSY_ONE_IN: u64 = 50;
const BUSY_TIMES: u32 = 300;

/// Number of the loop's own timer, which has a shard look at its queue.
const LOOK: u64 = 1 << 40;

struct InTurns {
    /// True if the shard has to look at its queue.
    bell: Arc<AtomicBool>,
    /// True if a timer is set for the look.
    will_look: bool,
    /// `None` for the front.
    worker: Option<Worker>,
    /// True if something has happened to the shard in this turn.
    is_due: bool,
}

impl InTurns {
    fn rung(&mut self) -> bool {
        self.bell.swap(false, Ordering::SeqCst) && !std::mem::replace(&mut self.will_look, true)
    }
}

/// An OSD with all its shards.
pub struct OsdInOneLoop {
    front: Osd,
    /// All shards. With one shard nobody rings.
    shards: Vec<InTurns>,
}

/// Settings of an OSD that tests replace, for each of its shards.
#[derive(Clone, Copy, Debug)]
pub struct ShardLimits {
    pub limits: Limits,
    /// Memory for the store's metadata; `None`: the amount that follows from the configuration.
    pub store_memory: Option<store::Memory>,
}

impl ShardLimits {
    /// The settings that follow from a shard's configuration.
    pub(crate) fn of(config: &OsdConfig) -> ShardLimits {
        ShardLimits { limits: limits(config), store_memory: None }
    }
}

impl OsdInOneLoop {
    /// Does the work of [`Osd::new`] for devices with this division. `config` holds each shard's part.
    pub fn new(
        io: &mut impl Io,
        config: &OsdConfig,
        stop: Stop,
        division: Division,
        given: ShardLimits,
    ) -> std::io::Result<OsdInOneLoop> {
        let mut front = Osd::of_shards(io, config.clone(), stop, division)?.with_limits(given.limits);
        if let Some(memory) = given.store_memory {
            front = front.with_store_memory(memory);
        }
        let in_turns = |_| InTurns { bell: Arc::default(), will_look: false, worker: None, is_due: false };
        let mut shards: Vec<InTurns> = (0..division.shards()).map(in_turns).collect();
        let mut links = Vec::new();
        for shard in 1..division.shards() {
            let bells = [0, shard].map(|shard: usize| Bell::Mark(shards[shard].bell.clone()));
            let mut io = PartIo::new(io, shard);
            let (link, worker) = WorkerThread::in_turns(&mut io, shard, config, division, bells, given)?;
            links.push(link);
            shards[shard].worker = Some(worker);
        }
        if !links.is_empty() {
            front.set_others(Others::new(links));
        }
        Ok(OsdInOneLoop { front, shards })
    }

    /// See [`Osd::set_heartbeats`].
    pub fn set_heartbeats(&mut self, board: Arc<Board>, addrs: HeartbeatAddrs) {
        self.front.set_heartbeats(board, addrs);
    }

    /// See [`Osd::end_peer_session`].
    pub fn end_peer_session(&mut self, osd: OsdId) {
        self.front.end_peer_session(osd);
    }

    /// See [`Osd::give_up_unfound`].
    pub fn give_up_unfound(&mut self, pgid: PgId) -> bool {
        self.front.give_up_unfound(pgid)
    }

    /// [`Osd::memory_use`] over all shards.
    pub fn memory_use(&self) -> Option<(MemoryUse, ConnectionMemory)> {
        let (mut all, connections) = self.front.memory_use()?;
        let workers = self.shards.iter().filter_map(|shard| shard.worker.as_ref());
        workers.filter_map(Worker::memory_use).for_each(|of_one| all += of_one);
        Some((all, connections))
    }

    /// See [`Osd::epoch`].
    pub fn epoch(&self) -> Option<Epoch> {
        self.front.epoch()
    }
}

impl<I: Io> Handler<I> for OsdInOneLoop {
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        self.front.received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut I, event: Event) {
        let shard = part_of(&event);
        match (&mut self.shards[shard], without_part(event)) {
            // A shard that has to look does so at the turn's end.
            (rung, Event::Timer { token: LOOK }) => (rung.will_look, rung.is_due) = (false, true),
            (InTurns { worker: Some(worker), is_due, .. }, event) => {
                *is_due = true;
                worker.event(&mut PartIo::new(io, shard), event);
            }
            (InTurns { worker: None, .. }, event) => self.front.event(io, event),
        }
    }

    fn turn_end(&mut self, io: &mut I) {
        self.front.turn_end(io);
        for (shard, InTurns { worker, is_due, .. }) in self.shards.iter_mut().enumerate() {
            if let Some(worker) = worker.as_mut().filter(|_| std::mem::take(is_due)) {
                worker.turn_end(&mut PartIo::new(io, shard));
            }
        }
        for shard in 0..self.shards.len() {
            if self.shards[shard].rung() {
                // The lower of two random numbers is taken: most looks come soon.
                let most = LOOKS_AFTER_MAX.as_micros() as u64;
                let soon = Duration::from_micros((io.random() % most).min(io.random() % most));
                let after = if io.random().is_multiple_of(BUSY_ONE_IN) { soon * BUSY_TIMES } else { soon };
                let at = io.now() + after;
                PartIo::new(io, shard).set_timer(at, LOOK);
            }
        }
    }

    fn heeds_sent(&self) -> bool {
        Handler::<I>::heeds_sent(&self.front)
    }
}

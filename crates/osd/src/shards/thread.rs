//! Runs a worker on a thread of its own.

use super::one_loop::ShardLimits;
use super::queue::{Bell, Inbox, Sender, queue};
use super::worker::WorkerParts;
use super::{FromWorker, Meter, ToWorker, Worker};
use crate::OsdConfig;
use crate::shard_making::store_memory;
use devices::{DeviceFiles, Division};
use reactor::{Io, Pulse, Reactor, Waker};
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use store::Store;

/// The front's end of a worker. The worker ends when this is dropped.
pub(crate) struct WorkerThread {
    pub outbox: Sender<ToWorker>,
    pub inbox: Inbox<FromWorker>,
    pub meter: Arc<Meter>,
    pub pulse: Pulse,
    /// `None` if shards run in turns.
    thread: Option<JoinHandle<()>>,
}

/// The worker's end, before it runs.
struct WorkerEnd {
    index: usize,
    config: OsdConfig,
    division: Division,
    inbox: Inbox<ToWorker>,
    outbox: Sender<FromWorker>,
    meter: Arc<Meter>,
}

impl WorkerThread {
    /// Begins to open the store of shard `index`. `config` holds each shard's part; `base` the settings that all
    /// reactors share. `front` wakes the front.
    ///
    /// Errors: a device that cannot be opened; a thread or ring that cannot be had.
    pub fn start(
        index: usize,
        config: &OsdConfig,
        division: Division,
        base: &reactor::Config,
        front: &Waker,
    ) -> io::Result<WorkerThread> {
        let waker = Waker::new()?;
        let bells = [Bell::Wake(front.clone()), Bell::Wake(waker.clone())];
        let (mut link, end) = ends(index, config, division, bells);
        // No sockets are needed, so the loop gets the least memory for them.
        let reactor_config =
            reactor::Config { waker: Some(waker), receive_buffer_bytes: 4096, receive_buffers: 1, ..base.clone() };
        let (begun, begin) = mpsc::channel();
        let (osd, given) = (config.id, ShardLimits::of(config));
        let run = move || {
            let made = Reactor::new(reactor_config)
                .and_then(|mut reactor| end.begin(reactor.io(), given).map(|worker| (reactor, worker)));
            let (mut reactor, mut worker) = match made {
                Ok(made) => made,
                Err(e) => return drop(begun.send(Err(e))),
            };
            // The receiver may be gone only together with the process.
            let _ = begun.send(Ok(reactor.pulse()));
            if let Err(e) = reactor.run(&mut worker) {
                // Without this shard nobody would serve its groups, and the other shards would wait.
                tracing::error!(%osd, shard = index, "the shard's loop failed: {e}; ends the process");
                std::process::abort();
            }
        };
        let thread = std::thread::Builder::new().name(format!("shard.{index}")).spawn(run)?;
        let pulse = begin.recv().map_err(|_| io::Error::other("the shard's thread ended at once"))??;
        (link.pulse, link.thread) = (pulse, Some(thread));
        Ok(link)
    }

    /// Makes a worker without a thread; the caller runs it. `bells`: those of the front and of the worker.
    ///
    /// Errors: a device that cannot be opened.
    pub fn in_turns(
        io: &mut impl Io,
        index: usize,
        config: &OsdConfig,
        division: Division,
        bells: [Bell; 2],
        given: ShardLimits,
    ) -> io::Result<(WorkerThread, Worker)> {
        let (link, end) = ends(index, config, division, bells);
        Ok((link, end.begin(io, given)?))
    }
}

/// Both ends of a worker's queues: the front's end, without a thread, and the parts of the worker.
fn ends(index: usize, config: &OsdConfig, division: Division, bells: [Bell; 2]) -> (WorkerThread, WorkerEnd) {
    let [front, worker] = bells;
    let (outbox, worker_inbox) = queue(front.clone(), worker.clone());
    let (worker_outbox, inbox) = queue(worker, front);
    let meter = Arc::new(Meter::default());
    let config = config.clone();
    let end = WorkerEnd { index, config, division, inbox: worker_inbox, outbox: worker_outbox, meter: meter.clone() };
    (WorkerThread { outbox, inbox, meter, pulse: Pulse::default(), thread: None }, end)
}

impl WorkerEnd {
    fn begin(self, io: &mut impl Io, given: ShardLimits) -> io::Result<Worker> {
        let WorkerEnd { index, config, division, inbox, outbox, meter } = self;
        // The front has locked the devices for all shards.
        let files = DeviceFiles::open_part(io, &config.devices, division, index)?;
        let opening = Store::open(config.store_config(division.slice(index), files.bytes(io)?));
        let store_memory = given.store_memory.unwrap_or_else(|| store_memory(&config));
        let parts = WorkerParts { index, config, limits: given.limits, store_memory, inbox, outbox, meter };
        Ok(Worker::new(io, files, opening, parts))
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.outbox.push(ToWorker::End);
        // If the queue is full, the worker takes in all of it first, and then this message.
        while {
            self.outbox.flush();
            self.outbox.is_backed_up()
        } {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let _ = thread.join();
    }
}

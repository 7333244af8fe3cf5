//! Runs a worker on a thread of its own.

use super::queue::{Inbox, Sender, queue};
use super::worker::WorkerParts;
use super::{Division, FromWorker, Meter, ToWorker, Worker};
use crate::OsdConfig;
use crate::device_files::DeviceFiles;
use crate::mkfs::store_config;
use crate::shard_making::{limits, store_memory};
use reactor::{Pulse, Reactor, Waker};
use std::io;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use store::Store;
use types::Fsid;

/// The front's end of a worker; the worker ends when this is dropped.
pub(crate) struct WorkerThread {
    pub outbox: Sender<ToWorker>,
    pub inbox: Inbox<FromWorker>,
    pub meter: Arc<Meter>,
    pub pulse: Pulse,
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
    /// Begins to open the store of shard `index`. `config` is what each shard has; `base` what the reactors have in common.
    /// `front` wakes the front.
    ///
    /// Errors: a device that cannot be opened, no thread or ring to be had.
    pub fn start(
        index: usize,
        config: &OsdConfig,
        division: Division,
        base: &reactor::Config,
        front: &Waker,
    ) -> io::Result<WorkerThread> {
        let waker = Waker::new()?;
        let (outbox, worker_inbox) = queue(Some(front.clone()), Some(waker.clone()));
        let (worker_outbox, inbox) = queue(Some(waker.clone()), Some(front.clone()));
        let meter = Arc::new(Meter::default());
        let end = WorkerEnd {
            index,
            config: config.clone(),
            division,
            inbox: worker_inbox,
            outbox: worker_outbox,
            meter: meter.clone(),
        };
        // No sockets: the least there is.
        let reactor_config =
            reactor::Config { waker: Some(waker), receive_buffer_bytes: 4096, receive_buffers: 1, ..base.clone() };
        let (begun, begin) = mpsc::channel();
        let osd = config.id;
        let run = move || {
            let (mut reactor, mut worker) = match end.begin(reactor_config) {
                Ok(made) => made,
                Err(e) => return drop(begun.send(Err(e))),
            };
            // The one who waits for this may be gone only together with the process.
            let _ = begun.send(Ok(reactor.pulse()));
            if let Err(e) = reactor.run(&mut worker) {
                // Its groups would be served by nobody, and the others would wait.
                tracing::error!(%osd, shard = index, "the shard's loop failed: {e}; ends the process");
                std::process::abort();
            }
        };
        let thread = std::thread::Builder::new().name(format!("shard.{index}")).spawn(run)?;
        let pulse = begin.recv().map_err(|_| io::Error::other("the shard's thread ended at once"))??;
        Ok(WorkerThread { outbox, inbox, meter, pulse, thread: Some(thread) })
    }
}

impl WorkerEnd {
    fn begin(self, reactor_config: reactor::Config) -> io::Result<(Reactor, Worker)> {
        let WorkerEnd { index, config, division, inbox, outbox, meter } = self;
        let mut reactor = Reactor::new(reactor_config)?;
        let io = reactor.io();
        // Locked by the front for all.
        let files = DeviceFiles::open_part(io, &config.devices, division, index)?;
        let opening = Store::open(store_config(&config, division.slice(index), files.bytes(io)?, Fsid::default()));
        let (limits, store_memory) = (limits(&config), store_memory(&config));
        let parts = WorkerParts { index, config, limits, store_memory, inbox, outbox, meter };
        let worker = Worker::new(io, files, opening, parts);
        Ok((reactor, worker))
    }
}

impl Drop for WorkerThread {
    fn drop(&mut self) {
        self.outbox.push(ToWorker::End);
        // A worker that is so far behind takes in what it has, and then this.
        while {
            self.outbox.flush();
            self.outbox.is_backed_up()
        } {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

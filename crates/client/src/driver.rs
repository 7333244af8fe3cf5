//! Carries out on tokio the decisions of the objecter and the messenger.
//!
//! Both cores live behind one lock, [`Shared::cores`]. A task with an event (a user's request, bytes from a socket, a
//! timer) takes the lock, hands the event in and leaves; [`Cores::pump`] collects the actions that the cores want done.
//! Messages to send are collected until the flusher's turn: requests that several tasks make in one turn of the
//! runtime, or in a few turns while many operations are in flight, then share a system call.

mod authenticated;
mod requests;
mod transport;

pub(crate) use authenticated::Authenticated;
pub(crate) use transport::Transport;

use crate::error::Error;
use crate::objecter::{Answer, Event, Objecter};
use bytes::Bytes;
use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::Handle;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::Instant;
use types::BufPool;
use wire::msgr::{ConnId, Output};

/// Channel by which a user gets an answer.
pub(crate) type Completion = oneshot::Sender<Result<Answer, Error>>;

/// An answer that is to come.
pub(crate) struct Pending(oneshot::Receiver<Result<Answer, Error>>);

impl Pending {
    pub async fn answer(self) -> Result<Answer, Error> {
        self.0.await.unwrap_or(Err(Error::Closed))
    }
}

/// Pieces of memory handed to one system call.
const IOV_MAX: usize = 64;
/// With at least `GATHER_MIN` operations in flight, sending waits for up to [`GATHER_TURNS`] turns of the runtime, as
/// long as each brings new events: a system call for several messages costs hardly more than one for a single message,
/// and wakes the peer once.
const GATHER_MIN: usize = 4;
const GATHER_TURNS: u32 = 1;
/// Bytes read by one system call; larger payloads are received into buffers of their own.
const READ_BYTES: usize = 64 << 10;
/// Unused memory kept for later payloads.
const SPARE_BYTES: usize = 32 << 20;
/// Time limit for establishing a connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which another monitor may still let a client in that one has refused.
const DENIED_FOR: Duration = Duration::from_millis(200);
/// Interval at which the messenger is told that a large payload is still arriving.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Time that a closing connection gets to send its unsent bytes while its socket is full.
const LINGER: Duration = Duration::from_secs(2);
/// Notifications kept for one watch until its owner takes them. Further notifications are dropped and not acknowledged,
/// so notifiers learn that the watcher is too slow.
const EVENTS_MAX: usize = 256;
/// Longest sleep of the timer: a deadline set meanwhile wakes it only if it is earlier.
const SLEEP_MAX: Duration = Duration::from_secs(5);

pub(crate) struct Shared {
    cores: Mutex<Cores>,
    /// Wakes the flusher: there is something to send or to hand out.
    flush: Notify,
    /// Wakes the timer: there is an earlier deadline.
    rearm: Notify,
    /// Memory for received payloads.
    bufs: BufPool,
    start: Instant,
}

struct Cores {
    messenger: Box<dyn Transport>,
    objecter: Objecter<Completion>,
    connections: BTreeMap<ConnId, Connection>,
    /// Connections with something to send.
    dirty: Vec<ConnId>,
    /// Channels of the watchers, by cookie.
    watchers: BTreeMap<u64, mpsc::Sender<Event>>,
    last_cookie: u64,
    /// Time at which the timer wakes.
    armed: Duration,
    /// Number of events that came in: requests, and bytes from sockets.
    events: u64,
    closed: bool,
}

/// The sending side of one connection.
#[derive(Default)]
struct Connection {
    write: Option<Arc<OwnedWriteHalf>>,
    unsent: VecDeque<Bytes>,
    /// The socket is full: a task waits until it has room.
    waiting: bool,
    /// The connection is closed once everything is sent.
    closing: bool,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
    }
}

/// Ends the driver when dropped.
pub(crate) struct Driver {
    pub shared: Arc<Shared>,
    /// Runtime on which the driver runs.
    pub runtime: Handle,
    tasks: Vec<tokio::task::AbortHandle>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::AbortHandle::abort);
        let mut cores = self.shared.lock();
        cores.closed = true;
        cores.connections.clear();
        cores.watchers.clear();
        cores.objecter.shut_down();
        cores.hand_out();
    }
}

impl Driver {
    /// Starts the cores on the present runtime.
    pub fn start(messenger: Box<dyn Transport>, objecter: Objecter<Completion>) -> Driver {
        let cores = Cores {
            messenger,
            objecter,
            connections: BTreeMap::new(),
            dirty: Vec::new(),
            watchers: BTreeMap::new(),
            last_cookie: 0,
            armed: Duration::ZERO,
            events: 0,
            closed: false,
        };
        let shared = Arc::new(Shared {
            cores: Mutex::new(cores),
            flush: Notify::new(),
            rearm: Notify::new(),
            bufs: BufPool::new(SPARE_BYTES),
            start: Instant::now(),
        });
        shared.with(|cores, now| {
            let Cores { messenger, objecter, .. } = cores;
            objecter.start(messenger, now);
        });
        let flusher = tokio::spawn(flush_loop(shared.clone())).abort_handle();
        let timer = tokio::spawn(timer_loop(shared.clone())).abort_handle();
        Driver { shared, runtime: Handle::current(), tasks: vec![flusher, timer] }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Cores> {
        self.cores.lock().unwrap_or_else(|poisoned| {
            // A core that panicked half-way is not used any more.
            let mut cores = poisoned.into_inner();
            cores.closed = true;
            cores
        })
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Hands an event to the cores. The flusher carries out the resulting actions on its turn.
    fn with<T>(&self, event: impl FnOnce(&mut Cores, Duration) -> T) -> T {
        let now = self.now();
        let mut cores = self.lock();
        cores.events += 1;
        let result = event(&mut cores, now);
        drop(cores);
        self.flush.notify_one();
        result
    }

    /// Looks at the objecter.
    pub fn look<T>(&self, look: impl FnOnce(&mut Objecter<Completion>) -> T) -> T {
        look(&mut self.lock().objecter)
    }

    /// The number by which the cluster knows this client.
    pub fn global_id(&self) -> u64 {
        self.lock().messenger.global_id()
    }

    /// The error with which a monitor refused the client, once that has lasted for [`DENIED_FOR`].
    pub async fn denied(&self) -> types::Errno {
        let mut last = None;
        loop {
            let denied = self.lock().messenger.denied();
            match denied {
                Some(errno) if last == denied => return errno,
                _ => last = denied,
            }
            tokio::time::sleep(DENIED_FOR).await;
        }
    }

    async fn request(&self, event: impl FnOnce(&mut Cores, Completion, Duration)) -> Result<Answer, Error> {
        self.begin(event).answer().await
    }

    /// Hands a request in. The returned [`Pending`] waits for the answer; the request goes on without it.
    fn begin(&self, event: impl FnOnce(&mut Cores, Completion, Duration)) -> Pending {
        let (completion, answer) = oneshot::channel();
        self.with(|cores, now| {
            if !cores.closed {
                event(cores, completion, now)
            }
        });
        Pending(answer)
    }

    /// Hands out answers. Messages to send wait for the flusher.
    pub(crate) fn deliver(self: &Arc<Shared>) {
        let now = self.now();
        let mut cores = self.lock();
        cores.events += 1;
        if !cores.closed {
            cores.pump(self, now);
        }
        drop(cores);
        self.flush.notify_one();
    }

    /// Number of events so far; `None` while fewer than [`GATHER_MIN`] operations are in flight, too few to gather
    /// sends for.
    fn busy_events(&self) -> Option<u64> {
        let cores = self.lock();
        (cores.objecter.in_flight() >= GATHER_MIN).then_some(cores.events)
    }

    /// Carries out everything that the cores want done, and sends.
    fn pump(self: &Arc<Shared>) {
        let now = self.now();
        let mut cores = self.lock();
        if cores.closed {
            return;
        }
        cores.pump(self, now);
        for conn in std::mem::take(&mut cores.dirty) {
            cores.send(conn, self);
        }
        let wake = [cores.messenger.next_wake(), cores.objecter.next_wake()].into_iter().flatten().min();
        if wake.is_some_and(|wake| wake < cores.armed) {
            self.rearm.notify_one();
        }
    }
}

impl Cores {
    fn pump(&mut self, shared: &Arc<Shared>, now: Duration) {
        while let Some(output) = self.messenger.poll() {
            match output {
                Output::Connect { conn, to } => {
                    let task = tokio::spawn(connection(shared.clone(), conn, to)).abort_handle();
                    self.connections.entry(conn).or_default().tasks.push(task);
                }
                Output::Transmit { conn, data } => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.unsent.extend(data.into_pieces());
                        if !self.dirty.contains(&conn) {
                            self.dirty.push(conn);
                        }
                    }
                }
                Output::Close { conn } => {
                    if let Some(connection) = self.connections.get_mut(&conn) {
                        connection.closing = true;
                        self.dirty.push(conn);
                        // A peer that reads nothing any more may never make room.
                        if connection.waiting {
                            let shared = shared.clone();
                            tokio::spawn(async move {
                                tokio::time::sleep(LINGER).await;
                                shared.lock().connections.remove(&conn);
                            });
                        }
                    }
                }
                Output::Opened { session, .. } => self.objecter.opened(session, &mut self.messenger),
                Output::Message { session, envelope, .. } => {
                    self.objecter.message(session, envelope, &mut self.messenger, now);
                }
                Output::Reset { session, reason } => {
                    self.objecter.reset(session, reason, &mut self.messenger, now);
                }
                Output::Faulted { reason, .. } | Output::Refused { reason, .. } => tracing::debug!("{reason}"),
            }
        }
        self.hand_out();
    }

    fn hand_out(&mut self) {
        while let Some(done) = self.objecter.poll_done() {
            // The send fails if the user dropped the future, and so does not want the answer.
            let _ = done.completion.send(done.result);
        }
        while let Some(event) = self.objecter.poll_event() {
            match event {
                Event::Notified { cookie, .. } | Event::Reconnected { cookie } => {
                    let sent = self.watchers.get(&cookie).map(|watcher| watcher.try_send(event));
                    if sent.is_some_and(|sent| sent.is_err()) {
                        tracing::warn!(cookie, "a watcher does not take its notifications");
                    }
                }
                // If the channel is full, its end tells the watcher that the watch is lost.
                Event::WatchLost { cookie, .. } => {
                    let _ = self.watchers.remove(&cookie).map(|watcher| watcher.try_send(event));
                }
            }
        }
    }

    /// Sends a connection's unsent bytes, as far as its socket takes them.
    fn send(&mut self, conn: ConnId, shared: &Arc<Shared>) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if connection.waiting {
            return;
        }
        let Some(write) = connection.write.clone() else {
            if connection.closing {
                self.connections.remove(&conn);
            }
            return;
        };
        while !connection.unsent.is_empty() {
            let mut slices = [IoSlice::new(&[]); IOV_MAX];
            let count = connection.unsent.len().min(IOV_MAX);
            for (slice, piece) in slices.iter_mut().zip(&connection.unsent) {
                *slice = IoSlice::new(piece);
            }
            match write.try_write_vectored(&slices[..count]) {
                Ok(sent) => connection.sent(sent),
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    connection.waiting = true;
                    let shared = shared.clone();
                    let limit = connection.closing.then_some(LINGER);
                    let wait = async move {
                        let limit = limit.unwrap_or(Duration::MAX);
                        let writable = tokio::time::timeout(limit, write.writable()).await.is_ok();
                        let mut cores = shared.lock();
                        if writable {
                            cores.messenger.progressed(conn, shared.now());
                        }
                        match cores.connections.get_mut(&conn) {
                            Some(connection) if writable => connection.waiting = false,
                            _ => drop(cores.connections.remove(&conn)),
                        }
                        cores.send(conn, &shared);
                    };
                    connection.tasks.retain(|task| !task.is_finished());
                    connection.tasks.push(tokio::spawn(wait).abort_handle());
                    return;
                }
                // The reading task notices the broken connection as well, and reports it.
                Err(_) => connection.unsent.clear(),
            }
        }
        if connection.closing {
            self.connections.remove(&conn);
        }
    }
}

impl Connection {
    fn sent(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let first = self.unsent.front_mut().expect("no more is sent than there is");
            if first.len() > bytes {
                let _ = first.split_to(bytes);
                return;
            }
            bytes -= first.len();
            self.unsent.pop_front();
        }
    }
}

async fn flush_loop(shared: Arc<Shared>) {
    loop {
        shared.flush.notified().await;
        // All other tasks run first, and the runtime polls its sockets: both may lead to more messages to send.
        let mut before = None;
        for _ in 0..GATHER_TURNS {
            let events = shared.busy_events();
            if events.is_none() || events == before {
                break;
            }
            before = events;
            tokio::task::yield_now().await;
        }
        shared.pump();
    }
}

async fn timer_loop(shared: Arc<Shared>) {
    loop {
        let wake = {
            let now = shared.now();
            let mut cores = shared.lock();
            let Cores { messenger, objecter, armed, .. } = &mut *cores;
            messenger.tick(now);
            objecter.tick(messenger, now);
            let wake = [messenger.next_wake(), objecter.next_wake()].into_iter().flatten().min();
            // The wake-up lies in the future, so a core whose deadline has passed does not keep the processor busy.
            *armed = wake.unwrap_or(Duration::MAX).clamp(now + Duration::from_millis(1), now + SLEEP_MAX);
            *armed
        };
        shared.flush.notify_one();
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(shared.start + wake) => {}
            () = shared.rearm.notified() => {}
        }
    }
}

/// Task of one connection: dials, then reads until the connection ends.
async fn connection(shared: Arc<Shared>, conn: ConnId, to: SocketAddr) {
    let cause = match tokio::time::timeout(DIAL_TIMEOUT, TcpStream::connect(to)).await {
        Ok(Ok(stream)) => {
            let _ = stream.set_nodelay(true);
            stdx::notice_dead_peers(&stream);
            let (read, write) = stream.into_split();
            let known = shared.with(|cores, now| {
                let Some(connection) = cores.connections.get_mut(&conn) else { return false };
                connection.write = Some(Arc::new(write));
                if !connection.unsent.is_empty() {
                    cores.dirty.push(conn);
                }
                cores.messenger.connected(conn, now);
                true
            });
            if !known {
                return;
            }
            receive(&shared, conn, read).await
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no connection within {} s", DIAL_TIMEOUT.as_secs()),
    };
    let mut cores = shared.lock();
    let now = shared.now();
    cores.messenger.closed(conn, cause.as_str(), now);
    if let Some(connection) = cores.connections.remove(&conn) {
        // The connection's tasks include the present one, which ends by itself.
        let mut connection = connection;
        connection.tasks.clear();
    }
    drop(cores);
    shared.flush.notify_one();
}

/// Reads until the connection ends; returns the reason.
async fn receive(shared: &Arc<Shared>, conn: ConnId, mut read: OwnedReadHalf) -> String {
    let mut buf = vec![0; READ_BYTES];
    loop {
        let n = match read.read(&mut buf).await {
            Ok(0) => return "closed by the peer".into(),
            Ok(n) => n,
            Err(error) => return error.to_string(),
        };
        let mut at = 0;
        // Bytes are handed in piece by piece: each bulk segment goes into a buffer of its own.
        loop {
            let wanted = {
                let mut cores = shared.lock();
                at += cores.messenger.received(conn, &buf[at..n], shared.now());
                cores.messenger.bulk_wanted(conn)
            };
            let Some(wanted) = wanted else { break };
            let mut bulk = shared.bufs.take(wanted);
            let mut there = wanted.min(n - at);
            bulk.as_mut_slice()[..there].copy_from_slice(&buf[at..at + there]);
            at += there;
            let mut told = shared.now();
            while there < wanted {
                match read.read(&mut bulk.as_mut_slice()[there..]).await {
                    Ok(0) => return "closed by the peer".into(),
                    Ok(n) => there += n,
                    Err(error) => return error.to_string(),
                }
                // A large payload on a slow link takes longer than a silent peer is tolerated.
                let now = shared.now();
                if now >= told + PROGRESS_EVERY {
                    told = now;
                    shared.lock().messenger.progressed(conn, now);
                }
            }
            shared.lock().messenger.bulk_received(conn, bulk, shared.now());
            if at == n {
                break;
            }
        }
        shared.deliver();
    }
}

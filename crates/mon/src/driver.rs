//! Sockets, clock, disk and randomness for one [`Monitor`].
//!
//! One task owns the monitor and the messenger. Each connection has a task that reads and one that writes; both talk
//! to the owner through queues, so that a slow or hostile peer delays nobody: a reader that gets ahead waits for room
//! in the owner's queue, and a peer that does not read is dropped once [`WRITE_QUEUE_BYTES_MAX`] wait for it. Appends
//! go to a thread of their own, because they wait for the disk.

use crate::log::{LogError, MapLog};
use crate::monitor::{Action, Input, Monitor, Now};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use types::Utime;
use wire::msgr::{ConnId, Messenger, Output, SessionId};

/// A peer for which more than this waits to be sent is dropped.
pub const WRITE_QUEUE_BYTES_MAX: usize = 64 << 20;
/// Connections beyond this are closed at once.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Events that may wait for the owner.
const EVENTS_MAX: usize = 1024;
/// Most that is read from a connection at once.
const READ_BYTES: usize = 16 << 10;
/// How long a closed connection may take to drain what was still to be sent.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// How long to wait after a failed accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Sessions at the manager's address have numbers from here on for the monitor.
const MANAGER_SESSIONS: u64 = 1 << 62;

/// As whom a connection was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Monitor,
    Manager,
}

/// Where clients reach the monitor as the cluster's manager, and who it is there.
pub struct ManagerEndpoint {
    pub messenger: Messenger,
    pub listener: TcpListener,
}

enum Event {
    Accepted(Role, TcpStream, SocketAddr),
    Received(ConnId, Bytes),
    Closed(ConnId, String),
    Committed(u64),
    LogFailed(LogError),
}

enum Write {
    Piece(Bytes),
    /// Everything before this, then close.
    End,
}

struct Connection {
    role: Role,
    writes: mpsc::UnboundedSender<Write>,
    queued_bytes: Arc<AtomicUsize>,
    /// Ends both tasks when dropped.
    _stop: tokio::sync::watch::Sender<()>,
}

enum LogOrder {
    Append(u64, Bytes),
    Snapshot(u64, Bytes),
}

/// Runs the monitor on `listeners` until `shutdown` completes or its log fails.
///
/// `first_global_ids` must have been handled by the monitor itself: nobody is accepted before the monitor has ids to
/// hand out.
pub async fn run(
    mut monitor: Monitor,
    messenger: Messenger,
    log: Box<dyn MapLog + Send>,
    listeners: Vec<TcpListener>,
    manager: ManagerEndpoint,
    shutdown: impl Future<Output = ()>,
) -> Result<(), LogError> {
    let (events_tx, events) = mpsc::channel(EVENTS_MAX);
    let (commits_tx, commits) = mpsc::unbounded_channel();
    let (orders, log_thread) = start_log_thread(log, commits_tx);
    let mut acceptors = Vec::new();
    for listener in listeners {
        acceptors.push(tokio::spawn(accept(Role::Monitor, listener, events_tx.clone())));
    }
    acceptors.push(tokio::spawn(accept(Role::Manager, manager.listener, events_tx.clone())));
    let start = Instant::now();
    let mut actions = Vec::new();
    monitor.start(now(start), &mut actions);
    let mut owner = Owner {
        monitor,
        messenger,
        manager: manager.messenger,
        orders,
        start,
        connections: BTreeMap::new(),
        next_conn: 2,
        events_tx,
        actions,
    };
    owner.settle();
    let result = owner.turn(events, commits, shutdown).await;
    acceptors.iter().for_each(|task| task.abort());
    drop(owner);
    // The thread ends once its orders are done and their sender is gone.
    if log_thread.join().is_err() {
        error!("the log's thread has panicked");
    }
    result
}

fn now(start: Instant) -> Now {
    Now { since_start: start.elapsed(), wall: Utime::from(SystemTime::now()) }
}

struct Owner {
    monitor: Monitor,
    messenger: Messenger,
    /// The same for what comes to the manager's address.
    manager: Messenger,
    orders: std::sync::mpsc::Sender<LogOrder>,
    start: Instant,
    connections: BTreeMap<ConnId, Connection>,
    next_conn: u64,
    events_tx: mpsc::Sender<Event>,
    actions: Vec<Action>,
}

impl Owner {
    async fn turn(
        &mut self,
        mut events: mpsc::Receiver<Event>,
        mut commits: mpsc::UnboundedReceiver<Event>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), LogError> {
        let mut shutdown = pin!(shutdown);
        let mut ticked = false;
        loop {
            let messengers = [self.messenger.next_wake(), self.manager.next_wake()];
            let due = messengers.into_iter().flatten().chain([self.monitor.next_wake()]).min();
            let wait = due.unwrap_or(Duration::MAX).saturating_sub(self.start.elapsed());
            // What is due comes before what peers send, so that busy peers cannot hold it up; but not twice in a row,
            // so that it cannot hold up peers either.
            let event = tokio::select! {
                biased;
                () = &mut shutdown => return Ok(()),
                commit = commits.recv() => Some(commit.unwrap_or_else(|| {
                    Event::LogFailed(LogError::Write("the thread that writes it has ended".to_owned()))
                })),
                () = std::future::ready(()), if wait.is_zero() && !ticked => None,
                event = events.recv() => event,
                () = tokio::time::sleep(wait.min(Duration::from_secs(60))) => None,
            };
            let at = now(self.start);
            ticked = event.is_none();
            match event {
                Some(Event::LogFailed(e)) => return Err(e),
                Some(Event::Committed(index)) => self.monitor.handle(at, Input::Committed { index }, &mut self.actions),
                Some(Event::Accepted(role, stream, peer)) => self.accepted(role, stream, peer),
                Some(Event::Received(conn, bytes)) => {
                    if let Some(role) = self.connections.get(&conn).map(|connection| connection.role) {
                        let messenger = self.messenger_of(role);
                        let taken = messenger.received(conn, &bytes, at.since_start);
                        debug_assert!(taken == bytes.len() || messenger.bulk_wanted(conn).is_none());
                    }
                }
                Some(Event::Closed(conn, cause)) => {
                    if let Some(connection) = self.connections.remove(&conn) {
                        self.messenger_of(connection.role).closed(conn, &cause, at.since_start);
                    }
                }
                None => {
                    self.messenger.tick(at.since_start);
                    self.manager.tick(at.since_start);
                    self.monitor.handle(at, Input::Tick, &mut self.actions);
                }
            }
            self.settle();
        }
    }

    /// Hands outputs around until nothing is left to do.
    fn settle(&mut self) {
        loop {
            for action in std::mem::take(&mut self.actions) {
                self.perform(action);
            }
            if self.messenger.global_ids_left() < Monitor::GLOBAL_IDS_LOW {
                let left = self.messenger.global_ids_left();
                self.monitor.handle(now(self.start), Input::GlobalIdsLeft(left), &mut self.actions);
            }
            for role in [Role::Monitor, Role::Manager] {
                while let Some(output) = self.messenger_of(role).poll() {
                    self.output(role, output);
                }
            }
            if self.actions.is_empty() {
                return;
            }
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Send { session, envelope } => {
                let (role, session) = at_messenger(session);
                self.messenger_of(role).send(session, envelope);
            }
            Action::Close { session } => {
                let (role, session) = at_messenger(session);
                self.messenger_of(role).close(session);
            }
            Action::Append { index, batch } => self.order(LogOrder::Append(index, batch)),
            Action::Snapshot { index, state } => self.order(LogOrder::Snapshot(index, state)),
            Action::GlobalIds(ids) => self.messenger.set_global_ids(ids),
        }
    }

    fn order(&self, order: LogOrder) {
        // The thread only goes away after it has reported why.
        let _ = self.orders.send(order);
    }

    fn messenger_of(&mut self, role: Role) -> &mut Messenger {
        match role {
            Role::Monitor => &mut self.messenger,
            Role::Manager => &mut self.manager,
        }
    }

    fn output(&mut self, role: Role, output: Output) {
        let at = now(self.start);
        match output {
            Output::Transmit { conn, data } => self.transmit(role, conn, data),
            Output::Close { conn } => {
                if let Some(connection) = self.connections.remove(&conn) {
                    let _ = connection.writes.send(Write::End);
                    // Let the writer drain, but not for ever.
                    tokio::spawn(async move {
                        tokio::select! {
                            () = connection.writes.closed() => {}
                            () = tokio::time::sleep(CLOSE_TIME) => {}
                        }
                        drop(connection);
                    });
                }
            }
            Output::Opened { session, peer } => {
                debug!(%peer.name, ?peer.addrs, "session opened");
                let input = match role {
                    Role::Monitor => Input::Opened { session, peer },
                    Role::Manager => Input::OpenedAtManager { session: at_monitor(role, session), peer },
                };
                self.monitor.handle(at, input, &mut self.actions);
            }
            Output::Message { session, envelope, .. } => {
                let session = at_monitor(role, session);
                self.monitor.handle(at, Input::Message { session, envelope }, &mut self.actions);
            }
            Output::Reset { session, reason } => {
                debug!("{reason}");
                let session = at_monitor(role, session);
                self.monitor.handle(at, Input::Closed { session }, &mut self.actions);
            }
            Output::Refused { reason, .. } => info!("{reason}"),
            Output::Faulted { reason, .. } => info!("{reason}"),
            Output::Connect { conn, to } => {
                // A monitor dials nobody until there are several.
                let cause = format!("this monitor does not dial {to}");
                self.messenger_of(role).closed(conn, &cause, at.since_start);
            }
        }
    }

    fn transmit(&mut self, role: Role, conn: ConnId, data: wire::Rope) {
        let Some(connection) = self.connections.get(&conn) else { return };
        let queued = connection.queued_bytes.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        for piece in data.into_pieces() {
            let _ = connection.writes.send(Write::Piece(piece));
        }
        if queued > WRITE_QUEUE_BYTES_MAX {
            warn!("connection {}: {queued} bytes wait to be read by the peer; dropping it", conn.0);
            self.connections.remove(&conn);
            let elapsed = self.start.elapsed();
            self.messenger_of(role).closed(conn, "the peer does not read", elapsed);
        }
    }

    fn accepted(&mut self, role: Role, stream: TcpStream, peer: SocketAddr) {
        if self.connections.len() >= CONNECTIONS_MAX {
            warn!("{peer}: turned away, {CONNECTIONS_MAX} connections are open");
            return;
        }
        // Only a socket that is gone already refuses this, and its reader will say so.
        let _ = stream.set_nodelay(true);
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        let (writes, pieces) = mpsc::unbounded_channel();
        let (stop, stopped) = tokio::sync::watch::channel(());
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let (reading, writing) = stream.into_split();
        tokio::spawn(read(conn, reading, self.events_tx.clone(), stopped.clone()));
        tokio::spawn(write(conn, writing, pieces, queued_bytes.clone(), self.events_tx.clone(), stopped));
        self.connections.insert(conn, Connection { role, writes, queued_bytes, _stop: stop });
        let elapsed = self.start.elapsed();
        self.messenger_of(role).accepted(conn, peer, elapsed);
    }
}

/// A session of a messenger, as the monitor knows it.
fn at_monitor(role: Role, session: SessionId) -> SessionId {
    match role {
        Role::Monitor => session,
        Role::Manager => SessionId(session.0 + MANAGER_SESSIONS),
    }
}

/// A session of the monitor: whose it is, and how it is called there.
fn at_messenger(session: SessionId) -> (Role, SessionId) {
    match session.0.checked_sub(MANAGER_SESSIONS) {
        Some(number) => (Role::Manager, SessionId(number)),
        None => (Role::Monitor, session),
    }
}

async fn accept(role: Role, listener: TcpListener, events: mpsc::Sender<Event>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if events.send(Event::Accepted(role, stream, peer)).await.is_err() {
                    return;
                }
            }
            Err(e) => {
                warn!("cannot accept a connection: {e}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

type Stopped = tokio::sync::watch::Receiver<()>;

async fn read(conn: ConnId, mut socket: tcp::OwnedReadHalf, events: mpsc::Sender<Event>, mut stopped: Stopped) {
    let read_all = async {
        loop {
            // Idle connections are many and must be small: no buffer while nothing comes.
            if let Err(e) = socket.readable().await {
                return e.to_string();
            }
            let mut buf = Vec::with_capacity(READ_BYTES);
            match socket.read_buf(&mut buf).await {
                Ok(0) => return "closed by the peer".to_owned(),
                Ok(_) => {
                    if events.send(Event::Received(conn, Bytes::from(buf))).await.is_err() {
                        return String::new();
                    }
                }
                Err(e) => return e.to_string(),
            }
        }
    };
    tokio::select! {
        cause = read_all => {
            let _ = events.send(Event::Closed(conn, cause)).await;
        }
        _ = stopped.changed() => {}
    }
}

async fn write(
    conn: ConnId,
    mut socket: tcp::OwnedWriteHalf,
    mut pieces: mpsc::UnboundedReceiver<Write>,
    queued_bytes: Arc<AtomicUsize>,
    events: mpsc::Sender<Event>,
    mut stopped: Stopped,
) {
    let write_all = async {
        while let Some(Write::Piece(piece)) = pieces.recv().await {
            socket.write_all(&piece).await?;
            queued_bytes.fetch_sub(piece.len(), Ordering::Relaxed);
        }
        socket.shutdown().await
    };
    tokio::select! {
        result = write_all => {
            if let Err(e) = result {
                let _ = events.send(Event::Closed(conn, e.to_string())).await;
            }
        }
        _ = stopped.changed() => {}
    }
}

fn start_log_thread(
    mut log: Box<dyn MapLog + Send>,
    commits: mpsc::UnboundedSender<Event>,
) -> (std::sync::mpsc::Sender<LogOrder>, std::thread::JoinHandle<()>) {
    let (orders, incoming) = std::sync::mpsc::channel();
    let run = move || {
        while let Ok(order) = incoming.recv() {
            let done = match order {
                LogOrder::Append(index, batch) => log.append(index, &batch).map(|()| Some(index)),
                LogOrder::Snapshot(index, state) => log.snapshot(index, &state).map(|()| None),
            };
            let event = match done {
                Ok(Some(index)) => Event::Committed(index),
                Ok(None) => continue,
                Err(e) => Event::LogFailed(e),
            };
            let failed = matches!(event, Event::LogFailed(_));
            if commits.send(event).is_err() || failed {
                return;
            }
        }
    };
    let thread = std::thread::Builder::new().name("mon-log".to_owned()).spawn(run);
    (orders, thread.expect("a thread can be started"))
}

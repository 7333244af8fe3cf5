//! Sockets, clock, disk and randomness for one [`Member`].
//!
//! One task owns the member and the messenger. Each connection has a task that reads and one that writes; both talk
//! to the owner through queues, so that a slow or hostile peer delays nobody: a reader that gets ahead waits for room
//! in the owner's queue, and a peer that does not read is dropped once [`WRITE_QUEUE_BYTES_MAX`] wait for it. Writes
//! of the log go to a thread of their own, because they wait for the disk.

use crate::half_received::HalfReceived;
use crate::handshakes::{Door, Handshakes, Proofs};
use crate::log::{LogError, MemberLog};
use crate::member::{Action, Input, MANAGER_SESSIONS, Member};
use crate::monitor::Now;
use auth::Key;
use bytes::Bytes;
use control::{AdminSocket, Question};
use raft::{Persist, Ticket};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};
use stdx::BootClock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, tcp};
use tokio::sync::mpsc;
use tracing::{debug, error, info, warn};
use types::{EntityName, EntityType, Utime};
use wire::msgr::{BreachesTold, ConnId, Messenger, Output, Peer, Policy, Reason, RefusalsTold, SessionId, limits};

/// A peer for which more than this waits to be sent is dropped.
pub const WRITE_QUEUE_BYTES_MAX: usize = 64 << 20;
/// Most connections; any beyond are closed at once.
pub const CONNECTIONS_MAX: usize = 20_000;
/// Clients that come to more connections than this are turned away: the rest is for other monitors and OSDs, and for
/// those who have yet to say who they are.
pub const CLIENTS_UP_TO: usize = CONNECTIONS_MAX - 3 * limits::HALF_OPEN_MAX;
/// Pause between two lines that tell of clients that are turned away.
const CROWD_TOLD_EVERY: Duration = Duration::from_secs(60);
/// Events that may wait for the owner.
const EVENTS_MAX: usize = 1024;
/// Most that is read from a connection at once.
const READ_BYTES: usize = 16 << 10;
/// Longest time for which a closed connection may drain its queue.
const CLOSE_TIME: Duration = Duration::from_secs(5);
/// Time after which dialling another monitor is given up.
const DIAL_TIME: Duration = Duration::from_secs(3);
/// Pause after a failed accept (no file descriptors left, say).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Role for which a connection was accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Role {
    Monitor,
    Manager,
}

/// Identity and listener of the monitor as the cluster's manager.
pub struct ManagerEndpoint {
    pub messenger: Messenger,
    pub listener: TcpListener,
}

/// All ways by which others reach the monitor.
pub struct Doors {
    pub listeners: Vec<TcpListener>,
    pub manager: ManagerEndpoint,
    /// `None`: nobody proves anything.
    pub proofs: Option<Proofs>,
    pub admin_socket: Option<PathBuf>,
    pub set_log_filter: Option<fn(&str)>,
    /// Writes the keys that monitors share to the monitor's keyring, the one that it proves first.
    pub keep_shared_keys: KeepSharedKeys,
}

/// Keeps the keys that monitors share.
pub type KeepSharedKeys = Box<dyn Fn(&[Key]) + Send>;

enum Event {
    /// A question has come by the admin socket.
    Asked(Question),
    Accepted(Role, TcpStream, SocketAddr),
    Dialled(ConnId, std::io::Result<TcpStream>),
    Received(ConnId, Bytes),
    Closed(ConnId, String),
    Persisted(Ticket),
    LogFailed(LogError),
}

enum Write {
    Piece(Bytes),
    /// Everything before this is written, then the connection is closed.
    End,
}

struct Connection {
    role: Role,
    writes: mpsc::UnboundedSender<Write>,
    queued_bytes: Arc<AtomicUsize>,
    /// Ends both tasks when dropped.
    _stop: tokio::sync::watch::Sender<()>,
}

type LogOrder = (Ticket, Persist);

/// Interval at which options for the log are looked at.
const LOG_LOOK_EVERY: Duration = Duration::from_secs(1);

/// Reasons why a driver ends unasked.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("this monitor is no member any more: {0}")]
    Removed(String),
}

/// Runs the member behind its `doors` until `shutdown` completes, its log fails, or it turns out to be no member any
/// more.
/// `start` is the zero of the times that the member knows.
pub async fn run(
    member: Member,
    start: BootClock,
    messenger: Messenger,
    log: Box<dyn MemberLog + Send>,
    doors: Doors,
    shutdown: impl Future<Output = ()>,
) -> Result<(), DriverError> {
    let (events_tx, events) = mpsc::channel(EVENTS_MAX);
    let (commits_tx, commits) = mpsc::unbounded_channel();
    let (orders, log_thread) = start_log_thread(log, commits_tx);
    let Doors { listeners, manager, proofs, admin_socket, set_log_filter, keep_shared_keys } = doors;
    let _admin_socket = admin_socket.and_then(|path| open_admin_socket(&path, events_tx.clone()));
    let mut acceptors = Vec::new();
    for listener in listeners {
        acceptors.push(tokio::spawn(accept(Role::Monitor, listener, events_tx.clone())));
    }
    acceptors.push(tokio::spawn(accept(Role::Manager, manager.listener, events_tx.clone())));
    let mut owner = Owner {
        member,
        messenger,
        manager: manager.messenger,
        handshakes: proofs.map(Handshakes::new),
        orders,
        start,
        connections: BTreeMap::new(),
        half_received: HalfReceived::default(),
        next_conn: 2,
        dialling: BTreeSet::new(),
        breaches: BreachesTold::default(),
        refusals: RefusalsTold::default(),
        crowd_told_at: None,
        events_tx,
        actions: Vec::new(),
        removed: None,
        set_log_filter,
        keep_shared_keys,
        log_filter: String::new(),
        log_looked_at: Duration::ZERO,
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

/// Opens the admin socket. A monitor goes on without one, as a Ceph's does.
fn open_admin_socket(path: &Path, events: mpsc::Sender<Event>) -> Option<AdminSocket> {
    // The threads of the socket may wait for room in the queue; their clients wait with them.
    let ask = move |question| drop(events.blocking_send(Event::Asked(question)));
    AdminSocket::open(path, ask).inspect_err(|e| error!("no admin socket at {}: {e}", path.display())).ok()
}

/// Returns the time since `start`, and the wall clock.
pub fn now(start: BootClock) -> Now {
    Now { since_start: start.elapsed(), wall: Utime::from(SystemTime::now()) }
}

struct Owner {
    member: Member,
    messenger: Messenger,
    /// Messenger of the manager's address.
    manager: Messenger,
    /// `None` if nobody proves anything.
    handshakes: Option<Handshakes>,
    orders: std::sync::mpsc::Sender<LogOrder>,
    start: BootClock,
    connections: BTreeMap<ConnId, Connection>,
    half_received: HalfReceived,
    next_conn: u64,
    /// Connections that are being made.
    dialling: BTreeSet<ConnId>,
    /// Peers' breaches of the protocol that the log tells of.
    breaches: BreachesTold,
    /// Connections without a session that the log tells of.
    refusals: RefusalsTold,
    /// Time at which the log last told of clients that are turned away for want of room.
    crowd_told_at: Option<Duration>,
    events_tx: mpsc::Sender<Event>,
    actions: Vec<Action>,
    /// Reason why this monitor is no member any more.
    removed: Option<String>,
    set_log_filter: Option<fn(&str)>,
    keep_shared_keys: KeepSharedKeys,
    /// Filter of the log that options ask for, and the time at which they were looked at.
    log_filter: String,
    log_looked_at: Duration,
}

impl Owner {
    /// Applies changed options of the log.
    fn follow_log_levels(&mut self, now: Duration) {
        let Some(set) = self.set_log_filter.filter(|_| now >= self.log_looked_at + LOG_LOOK_EVERY) else { return };
        self.log_looked_at = now;
        let filter = self.member.log_filter();
        if filter != self.log_filter {
            set(&filter);
            self.log_filter = filter;
        }
    }

    async fn turn(
        &mut self,
        mut events: mpsc::Receiver<Event>,
        mut commits: mpsc::UnboundedReceiver<Event>,
        shutdown: impl Future<Output = ()>,
    ) -> Result<(), DriverError> {
        let mut shutdown = pin!(shutdown);
        let mut ticked = false;
        loop {
            if let Some(reason) = self.removed.take() {
                return Err(DriverError::Removed(reason));
            }
            let messengers = [self.messenger.next_wake(), self.manager.next_wake()];
            let due = messengers.into_iter().flatten().chain([self.member.next_wake()]).min();
            let wait = due.unwrap_or(Duration::MAX).saturating_sub(self.start.elapsed());
            // Due work comes before peers' messages, so that busy peers cannot hold it up; but not twice in a row, so
            // that it cannot hold up peers either.
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
                Some(Event::LogFailed(e)) => return Err(e.into()),
                Some(Event::Persisted(ticket)) => {
                    self.member.handle(at, Input::Persisted(ticket), &mut self.actions);
                }
                Some(Event::Asked((line, answers))) => {
                    // The thread that asks may have given up.
                    drop(answers.try_send(self.member.told(at, &line)));
                }
                Some(Event::Accepted(role, stream, peer)) => self.accepted(role, stream, peer),
                Some(Event::Dialled(conn, result)) => self.dialled(conn, result),
                Some(Event::Received(conn, bytes)) => {
                    if let Some(role) = self.connections.get(&conn).map(|connection| connection.role) {
                        let messenger = self.messenger_of(role);
                        let taken = messenger.received(conn, &bytes, at.since_start);
                        debug_assert!(taken == bytes.len() || messenger.bulk_wanted(conn).is_none());
                        self.make_room(role, conn, at.since_start);
                        self.answer_steps(role);
                    }
                }
                Some(Event::Closed(conn, cause)) => {
                    self.drop_connection(conn, &cause, at.since_start);
                }
                None => {
                    self.messenger.tick(at.since_start);
                    self.manager.tick(at.since_start);
                    self.member.handle(at, Input::Tick, &mut self.actions);
                }
            }
            self.follow_log_levels(at.since_start);
            self.settle();
        }
    }

    /// Passes outputs between member and messengers until none is left.
    fn settle(&mut self) {
        loop {
            for action in std::mem::take(&mut self.actions) {
                self.perform(action);
            }
            let left = self.global_ids_left();
            if left < Member::GLOBAL_IDS_LOW {
                self.member.handle(now(self.start), Input::GlobalIdsLeft(left), &mut self.actions);
            }
            self.answer_those_that_wait();
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

    /// Answers the steps of handshakes that wait for it.
    fn answer_steps(&mut self, role: Role) {
        let at = now(self.start);
        let (messenger, door) = match role {
            Role::Monitor => (&mut self.messenger, Door::Monitor),
            Role::Manager => (&mut self.manager, Door::Manager),
        };
        match &mut self.handshakes {
            Some(handshakes) => handshakes.answer_steps(at, self.member.monitor_mut(), messenger, door),
            None => messenger.answer_unproven(at.since_start),
        }
    }

    fn answer_those_that_wait(&mut self) {
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.answer_those_that_wait(now(self.start), self.member.monitor_mut(), &mut self.messenger);
        }
    }

    /// Drops connections of clients if what they have sent in part takes too much room.
    fn make_room(&mut self, role: Role, conn: ConnId, now: Duration) {
        let messenger = self.messenger_of(role);
        let message = match messenger.peer_kind(conn) {
            Some(EntityType::CLIENT) => messenger.receiving(conn),
            _ => None,
        };
        for dropped in self.half_received.received(conn, message) {
            warn!("connection {}: its message is not complete, and others need the room; dropping it", dropped.0);
            self.drop_connection(dropped, "its message was not complete, and others needed the room", now);
        }
    }

    /// Ends a connection at once, with what waits to be sent on it.
    fn drop_connection(&mut self, conn: ConnId, cause: &str, now: Duration) {
        let Some(connection) = self.connections.remove(&conn) else { return };
        self.hung_up(conn);
        self.messenger_of(connection.role).closed(conn, cause, now);
    }

    fn hung_up(&mut self, conn: ConnId) {
        self.half_received.closed(conn);
        if let Some(handshakes) = &mut self.handshakes {
            handshakes.hung_up(self.member.monitor_mut(), conn);
        }
    }

    /// Count of ids that can still be handed out.
    fn global_ids_left(&self) -> u64 {
        match self.handshakes {
            Some(_) => self.member.monitor().global_ids_left(),
            None => self.messenger.global_ids_left(),
        }
    }

    fn take_global_ids(&mut self, ids: Range<u64>) {
        match self.handshakes {
            Some(_) => self.member.monitor_mut().take_global_ids(ids),
            None => self.messenger.set_global_ids(ids),
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
            Action::Dial { addrs } => {
                let at = now(self.start);
                let session = self.messenger.connect(EntityName::mon(-1), &addrs, Policy::MON_PEER, at.since_start);
                self.member.handle(at, Input::Dialled { addrs, session }, &mut self.actions);
            }
            // The thread only goes away after it has reported why.
            Action::Persist { ticket, write } => drop(self.orders.send((ticket, write))),
            Action::GlobalIds(ids) => self.take_global_ids(ids),
            Action::SharedKeys(keys) => {
                if let (Some(handshakes), Some(key)) = (&mut self.handshakes, keys.first()) {
                    handshakes.prove(key.clone());
                }
                (self.keep_shared_keys)(&keys);
            }
            Action::Stop { reason } => self.removed = Some(reason),
        }
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
            Output::Transmit { conn, data } => self.transmit(conn, data),
            Output::Close { conn } => {
                self.hung_up(conn);
                self.dialling.remove(&conn);
                if let Some(connection) = self.connections.remove(&conn) {
                    let _ = connection.writes.send(Write::End);
                    // The writer may drain its queue, but not for ever.
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
                if peer.name.kind == EntityType::CLIENT && self.connections.len() > CLIENTS_UP_TO {
                    return self.crowded(role, session, &peer, at.since_start);
                }
                let input = match role {
                    Role::Monitor => Input::Opened { session, peer },
                    Role::Manager => Input::OpenedAtManager { session: at_monitor(role, session), peer },
                };
                self.member.handle(at, input, &mut self.actions);
            }
            Output::Message { session, envelope, .. } => {
                let session = at_monitor(role, session);
                self.member.handle(at, Input::Message { session, envelope }, &mut self.actions);
            }
            Output::Reset { session, reason } => {
                match self.breaches.is_news(&reason) {
                    true => info!("{reason}"),
                    false => debug!("{reason}"),
                }
                let session = at_monitor(role, session);
                self.member.handle(at, Input::Closed { session }, &mut self.actions);
            }
            Output::Refused { reason, .. } => self.turned_away(&reason, at.since_start),
            Output::Faulted { reason, .. } => info!("{reason}"),
            Output::Connect { conn, to } => {
                self.dialling.insert(conn);
                let events = self.events_tx.clone();
                tokio::spawn(async move {
                    let result = tokio::time::timeout(DIAL_TIME, TcpStream::connect(to)).await;
                    let result = result.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
                    let _ = events.send(Event::Dialled(conn, result)).await;
                });
            }
        }
    }

    /// Turns a client away for want of room.
    fn crowded(&mut self, role: Role, session: SessionId, peer: &Peer, now: Duration) {
        if self.crowd_told_at.is_none_or(|at| now >= at + CROWD_TOLD_EVERY) {
            self.crowd_told_at = Some(now);
            warn!(
                "{} at {} is turned away, as others will be: there are {CLIENTS_UP_TO} connections",
                peer.name, peer.addrs
            );
        }
        self.messenger_of(role).close(session);
    }

    fn turned_away(&mut self, reason: &Reason, now: Duration) {
        match self.refusals.is_news(reason.machine(), now) {
            true => info!("{reason}"),
            false => debug!("{reason}"),
        }
    }

    fn transmit(&mut self, conn: ConnId, data: wire::Rope) {
        let Some(connection) = self.connections.get(&conn) else { return };
        let queued = connection.queued_bytes.fetch_add(data.len(), Ordering::Relaxed) + data.len();
        for piece in data.into_pieces() {
            let _ = connection.writes.send(Write::Piece(piece));
        }
        if queued > WRITE_QUEUE_BYTES_MAX {
            warn!("connection {}: {queued} bytes wait to be read by the peer; dropping it", conn.0);
            self.drop_connection(conn, "the peer does not read", self.start.elapsed());
        }
    }

    fn accepted(&mut self, role: Role, stream: TcpStream, peer: SocketAddr) {
        if self.connections.len() >= CONNECTIONS_MAX {
            warn!("{peer}: turned away, {CONNECTIONS_MAX} connections are open");
            return;
        }
        let conn = ConnId(self.next_conn);
        self.next_conn += 2;
        self.add_connection(role, conn, stream);
        let elapsed = self.start.elapsed();
        self.messenger_of(role).accepted(conn, peer, elapsed);
    }

    /// Handles the result of dialling another monitor.
    fn dialled(&mut self, conn: ConnId, result: std::io::Result<TcpStream>) {
        if !self.dialling.remove(&conn) {
            return;
        }
        let elapsed = self.start.elapsed();
        match result {
            Ok(stream) => {
                self.add_connection(Role::Monitor, conn, stream);
                self.messenger.connected(conn, elapsed);
            }
            Err(e) => {
                self.hung_up(conn);
                self.messenger.closed(conn, &e, elapsed);
            }
        }
    }

    fn add_connection(&mut self, role: Role, conn: ConnId, stream: TcpStream) {
        // Only a socket that is gone already refuses this, and its reader reports that.
        let _ = stream.set_nodelay(true);
        stdx::notice_dead_peers(&stream);
        let (writes, pieces) = mpsc::unbounded_channel();
        let (stop, stopped) = tokio::sync::watch::channel(());
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        let (reading, writing) = stream.into_split();
        tokio::spawn(read(conn, reading, self.events_tx.clone(), stopped.clone()));
        tokio::spawn(write(conn, writing, pieces, queued_bytes.clone(), self.events_tx.clone(), stopped));
        self.connections.insert(conn, Connection { role, writes, queued_bytes, _stop: stop });
    }
}

/// Returns the monitor's number of a messenger's session.
fn at_monitor(role: Role, session: SessionId) -> SessionId {
    match role {
        Role::Monitor => session,
        Role::Manager => SessionId(session.0 + MANAGER_SESSIONS),
    }
}

/// Returns the messenger that has a session of the monitor, and its number there.
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
            // Idle connections are many and must be small: they have no buffer while nothing comes.
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
    mut log: Box<dyn MemberLog + Send>,
    commits: mpsc::UnboundedSender<Event>,
) -> (std::sync::mpsc::Sender<LogOrder>, std::thread::JoinHandle<()>) {
    let (orders, incoming) = std::sync::mpsc::channel::<LogOrder>();
    let run = move || {
        while let Ok((mut ticket, write)) = incoming.recv() {
            // Writes that came meanwhile share a flush.
            let mut writes = vec![write];
            while let Ok((next, write)) = incoming.try_recv() {
                ticket = next;
                writes.push(write);
            }
            let event = match log.write(&writes) {
                Ok(()) => Event::Persisted(ticket),
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

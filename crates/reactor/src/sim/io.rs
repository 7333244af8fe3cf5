//! State of a world apart from its handlers, and the commands of the node whose turn it is.

use super::config::WorldConfig;
use super::disk::{Change, SimDisk};
use super::network::{Endpoint, Segment};
use super::node::{Inbox, Node, OpenFile, Request, RequestWork};
use super::rng::Rng;
use crate::conn::{Bulk, Phase};
use crate::{ConnId, Event, FileId, FileOptions, Io, ListenerId, Stats};
use bytes::Bytes;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use types::{AlignedBuf, BufPool, Utime};

/// A scheduled event of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Happening {
    Turn {
        node: usize,
        incarnation: u64,
    },
    /// A turn that stood still goes on.
    TurnGoesOn {
        node: usize,
        incarnation: u64,
    },
    TimerDue {
        node: usize,
        incarnation: u64,
    },
    /// A connect, first tried at `since`, reaches the other node.
    Syn {
        conn: ConnId,
        since: Duration,
    },
    /// The first segment on its way to this endpoint arrives.
    Arrival {
        conn: ConnId,
    },
    /// TCP tries to reach a peer that lost its power; it has tried from `since` on.
    Orphan {
        conn: ConnId,
        since: Duration,
    },
    Linger {
        conn: ConnId,
    },
    DiskDone {
        node: usize,
        incarnation: u64,
        request: u64,
    },
}

/// The [`Io`] of handlers in a simulated world. Commands act for the node whose turn it is.
pub struct SimIo {
    pub(crate) config: WorldConfig,
    pub(crate) rng: Rng,
    pub(crate) clock: Duration,
    pub(crate) current: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) happenings: BTreeMap<(Duration, u64), Happening>,
    happenings_made: u64,
    pub(crate) endpoints: BTreeMap<ConnId, Endpoint>,
    conns_made: u64,
    /// Listeners by address.
    pub(crate) listeners: BTreeMap<SocketAddr, (usize, ListenerId)>,
    /// The latest node that listened at each address: a machine without power does not refuse.
    pub(crate) owners: BTreeMap<SocketAddr, usize>,
    ports_made: u16,
    /// Blocked directions, as (from, to).
    pub(crate) blocked: BTreeSet<(usize, usize)>,
    /// Additional delay of all that is sent to these connections.
    pub(crate) slow_conns: BTreeMap<ConnId, Duration>,
    /// Additional delay by direction, (from, to).
    pub(crate) delayed: BTreeMap<(usize, usize), Duration>,
    pub(crate) disks: BTreeMap<(usize, PathBuf), SimDisk>,
    requests_made: u64,
    pool: BufPool,
    /// A digest of all input of handlers, to compare two runs.
    pub(crate) fingerprint: u64,
    pub(crate) spending: Spending,
    /// Flushes that were asked for though one had failed.
    pub(crate) flushes_tried_again: u64,
}

/// Time that passes while a handler runs: when it reads the clock for the so-manieth time.
#[derive(Default)]
pub(crate) struct Spending {
    /// Reads of the clock that come before, and how long it then takes; absent if nothing takes long.
    next: Cell<Option<(u32, Duration)>>,
    spent: Cell<Duration>,
}

impl Spending {
    fn read(&self) {
        match self.next.take() {
            Some((0, by)) => self.spent.set(self.spent.get() + by),
            Some((reads, by)) => self.next.set(Some((reads - 1, by))),
            None => {}
        }
    }

    /// Time that the last handler took.
    pub(crate) fn take(&self) -> Duration {
        self.next.set(None);
        self.spent.take()
    }
}

/// A handler reads the clock a few times in a call.
const READS_OF_CLOCK: u64 = 4;

/// Start of simulated wall clocks: 2026-01-01.
const WALL_CLOCK_BASE: Duration = Duration::from_secs(1_767_225_600);

impl SimIo {
    /// Time of the world, which may differ from every node's clock.
    pub fn world_time(&self) -> Duration {
        self.handler_time()
    }

    pub(crate) fn new(seed: u64, config: WorldConfig) -> SimIo {
        SimIo {
            config,
            rng: Rng::new(seed),
            clock: Duration::ZERO,
            current: 0,
            nodes: Vec::new(),
            happenings: BTreeMap::new(),
            happenings_made: 0,
            endpoints: BTreeMap::new(),
            conns_made: 0,
            listeners: BTreeMap::new(),
            owners: BTreeMap::new(),
            ports_made: 0,
            blocked: BTreeSet::new(),
            slow_conns: BTreeMap::new(),
            delayed: BTreeMap::new(),
            disks: BTreeMap::new(),
            requests_made: 0,
            pool: BufPool::new(16 << 20),
            fingerprint: 0,
            spending: Spending::default(),
            flushes_tried_again: 0,
        }
    }

    /// How long a step of a node's turn takes, if it takes time.
    pub(crate) fn stall(&mut self, node: usize) -> Option<Duration> {
        let stalls = self.config.stalls.as_ref().filter(|_| self.nodes[node].takes_time)?;
        if !self.rng.one_in(stalls.one_in) {
            return None;
        }
        let long = self.rng.one_in(stalls.long_one_in);
        Some(self.rng.duration(if long { &stalls.long } else { &stalls.short }))
    }

    /// Draws whether the handler that is about to run takes long in its midst.
    pub(crate) fn may_spend(&mut self, node: usize) {
        if let Some(by) = self.stall(node) {
            self.spending.next.set(Some((self.rng.below(READS_OF_CLOCK) as u32, by)));
        }
    }

    /// The world's time as it is for the handler that runs.
    fn handler_time(&self) -> Duration {
        self.clock + self.spending.spent.get()
    }

    pub(crate) fn schedule(&mut self, at: Duration, happening: Happening) {
        self.happenings_made += 1;
        self.happenings.insert((at.max(self.clock), self.happenings_made), happening);
    }

    /// Puts an entry into a node's inbox, and schedules a turn of the node.
    pub(crate) fn tell(&mut self, node: usize, entry: Inbox) {
        self.nodes[node].inbox.push_back(entry);
        self.wake(node);
    }

    pub(crate) fn wake(&mut self, node: usize) {
        let delay = self.rng.duration(&self.config.turn_delay).max(Duration::from_nanos(1));
        let state = &mut self.nodes[node];
        if state.running && !state.turn_scheduled {
            state.turn_scheduled = true;
            let turn = Happening::Turn { node, incarnation: state.incarnation };
            self.schedule(self.clock + delay, turn);
        }
    }

    pub(crate) fn next_conn_id(&mut self) -> ConnId {
        self.conns_made += 1;
        ConnId(self.conns_made)
    }

    /// A port that has never been used, so that addresses are not reused by chance.
    fn next_port(&mut self) -> u16 {
        self.ports_made = self.ports_made.checked_add(1).filter(|made| *made < 64_000).expect("64000 ports are enough");
        1024 + self.ports_made
    }

    pub(crate) fn address(node: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(10, 0, (node >> 8) as u8, (node & 255) as u8))
    }

    /// A node's address towards `to`, with a port of its own.
    fn local_address(&mut self, node: usize, to: SocketAddr) -> SocketAddr {
        let ip = if to.ip().is_loopback() { to.ip() } else { Self::address(node) };
        let ports_in_use = self.conns_made % 20_000;
        SocketAddr::new(ip, 40_000 + ports_in_use as u16)
    }

    fn node(&mut self) -> &mut Node {
        &mut self.nodes[self.current]
    }

    /// A connection of the node whose turn it is, unless it is gone.
    fn own(&mut self, conn: ConnId) -> Option<&mut Endpoint> {
        let current = self.current;
        self.endpoints.get_mut(&conn).inspect(|endpoint| {
            assert_eq!(endpoint.node, current, "node {current} uses {conn:?}, which is not its own");
        })
    }

    fn file(&self, file: FileId) -> &OpenFile {
        self.nodes[self.current]
            .files
            .get(file.0 as usize)
            .and_then(Option::as_ref)
            .filter(|file| !file.closing)
            .unwrap_or_else(|| panic!("{file:?} is not open"))
    }

    fn disk_of(&self, file: FileId) -> &SimDisk {
        &self.disks[&(self.current, self.file(file).path.clone())]
    }

    fn request(&mut self, file: FileId, offset: u64, io: u64, work: RequestWork) {
        let slowness = self.disk_of(file).slowness();
        let latency = match work {
            RequestWork::Read { .. } => self.rng.duration(&self.config.read_latency),
            RequestWork::Change(_) => self.rng.duration(&self.config.write_latency),
            RequestWork::Flush { .. } => self.rng.duration(&self.config.flush_latency),
            RequestWork::Nothing { .. } => Duration::ZERO,
        };
        self.requests_made += 1;
        let (node, request) = (self.current, self.requests_made);
        let state = self.node();
        state.files[file.0 as usize].as_mut().expect("open").outstanding += 1;
        state.requests.insert(request, Request { io, file, offset, work });
        let incarnation = state.incarnation;
        self.schedule(self.handler_time() + latency * slowness, Happening::DiskDone { node, incarnation, request });
    }

    /// Carries out a request whose time has come.
    pub(crate) fn disk_done(&mut self, node: usize, request: u64) {
        let Request { io, file, offset, work } =
            self.nodes[node].requests.remove(&request).expect("a request is done once");
        let open = self.nodes[node].files[file.0 as usize].as_ref().expect("a file with requests stays");
        let disk = self.disks.get_mut(&(node, open.path.clone())).expect("an open file has a disk");
        let is_flush = matches!(work, RequestWork::Flush { .. });
        let result = match work {
            RequestWork::Read { mut buf } => disk.read(offset, buf.as_mut_slice()).map(|()| Some(buf)),
            RequestWork::Change(change) => disk.change(change).map(|()| None),
            RequestWork::Flush { mark } => {
                let open = self.nodes[node].files[file.0 as usize].as_mut().expect("just found");
                let lost_before = disk.flushes_lost();
                let result = disk.flush(mark);
                // Each opening of the file is told once of what a flush by another one has lost.
                let unseen = std::mem::replace(&mut open.lost_seen, disk.flushes_lost()) != lost_before;
                let result = if unseen { result.and(Err(libc::EIO)) } else { result };
                result.map(|()| None)
            }
            RequestWork::Nothing { buf } => Ok(buf),
        };
        self.end_request(node, file);
        let has_failed = is_flush && result.is_err();
        let event = Event::Disk { io, result };
        self.tell(node, if has_failed { Inbox::FlushFailed { file, event } } else { Inbox::Event(event) });
    }

    fn end_request(&mut self, node: usize, file: FileId) {
        let slot = &mut self.nodes[node].files[file.0 as usize];
        let open = slot.as_mut().expect("a file with requests stays");
        open.outstanding -= 1;
        if open.closing && open.outstanding == 0 {
            self.release_file(node, file);
        }
    }

    fn release_file(&mut self, node: usize, file: FileId) {
        if let Some(open) = self.nodes[node].files[file.0 as usize].take()
            && open.lock
        {
            self.disks.get_mut(&(node, open.path)).expect("an open file has a disk").locked = false;
        }
    }

    /// Drops the files of a process that ends, and unlocks them. Requests in flight are all carried out if `surely`;
    /// otherwise each is carried out, in part or not at all.
    pub(crate) fn drop_files(&mut self, node: usize, surely: bool) {
        for (_, request) in std::mem::take(&mut self.nodes[node].requests) {
            let open = self.nodes[node].files[request.file.0 as usize].as_ref().expect("a file with requests stays");
            let disk = self.disks.get_mut(&(node, open.path.clone())).expect("an open file has a disk");
            match request.work {
                RequestWork::Change(change) if surely => drop(disk.change(change)),
                RequestWork::Change(change) => disk.maybe_change(change, self.config.sector_bytes, &mut self.rng),
                RequestWork::Flush { mark } if surely || self.rng.one_in(2) => drop(disk.flush(mark)),
                RequestWork::Flush { .. } | RequestWork::Read { .. } | RequestWork::Nothing { .. } => {}
            }
        }
        for file in 0..self.nodes[node].files.len() {
            self.release_file(node, FileId(file as u32));
        }
        self.nodes[node].files.clear();
    }

    /// Mixes an input of a handler into the fingerprint.
    pub(crate) fn note(&mut self, what: u64) {
        self.fingerprint = (self.fingerprint.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

impl Io for SimIo {
    fn now(&self) -> Duration {
        let node = &self.nodes[self.current];
        if node.takes_time { node.now } else { node.clock.at(self.clock) }
    }

    fn clock(&self) -> Duration {
        self.spending.read();
        self.nodes[self.current].clock.at(self.handler_time())
    }

    fn wall_clock(&self) -> Utime {
        let Node { wall_skew_ms: skew, wall_behind, .. } = self.nodes[self.current];
        let since_1970 = WALL_CLOCK_BASE + self.handler_time() - wall_behind;
        let skewed = if skew < 0 {
            since_1970.saturating_sub(Duration::from_millis(skew.unsigned_abs()))
        } else {
            since_1970 + Duration::from_millis(skew.unsigned_abs())
        };
        Utime::from_unix(skewed)
    }

    fn fill_random(&mut self, out: &mut [u8]) {
        self.rng.fill(out);
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(ListenerId, SocketAddr)> {
        let port = if addr.port() == 0 { self.next_port() } else { addr.port() };
        let ip = if addr.ip().is_unspecified() { Self::address(self.current) } else { addr.ip() };
        let bound = SocketAddr::new(ip, port);
        if self.listeners.contains_key(&bound) {
            return Err(io::Error::from_raw_os_error(libc::EADDRINUSE));
        }
        let node = self.current;
        let state = self.node();
        let listener = ListenerId(state.listeners_made);
        state.listeners_made += 1;
        state.listeners.insert(listener, bound);
        self.listeners.insert(bound, (node, listener));
        self.owners.insert(bound, node);
        Ok((listener, bound))
    }

    fn limit_accepted(&mut self, listener: ListenerId, connections_max: usize) {
        self.node().accepted_max.insert(listener, connections_max);
    }

    fn close_listener(&mut self, listener: ListenerId) {
        if let Some(addr) = self.node().listeners.remove(&listener) {
            self.listeners.remove(&addr);
        }
    }

    fn connect(&mut self, to: SocketAddr) -> ConnId {
        let conn = self.next_conn_id();
        let node = self.current;
        if self.node().connections >= self.config.connections_max {
            let result = Err(io::Error::other("the limit of connections is reached"));
            self.tell(node, Inbox::Event(Event::Connected { conn, result }));
            return conn;
        }
        let local = self.local_address(node, to);
        self.node().connections += 1;
        self.endpoints.insert(conn, Endpoint::new(node, local, to, Phase::Connecting));
        let since = self.handler_time();
        let at = since + self.rng.duration(&self.config.latency);
        self.schedule(at, Happening::Syn { conn, since });
        conn
    }

    fn send(&mut self, conn: ConnId, piece: Bytes) {
        let Some(endpoint) = self.own(conn) else { return };
        if matches!(endpoint.phase, Phase::Closing { .. }) || piece.is_empty() {
            return;
        }
        endpoint.queued_bytes += piece.len();
        endpoint.outgoing.push_back(piece);
        if !std::mem::replace(&mut endpoint.dirty, true) {
            self.node().dirty.push(conn);
        }
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.endpoints.get(&conn).map_or(0, |endpoint| endpoint.queued_bytes)
    }

    fn close(&mut self, conn: ConnId) {
        let linger = self.clock + self.config.close_linger;
        let Some(endpoint) = self.own(conn) else { return };
        match endpoint.phase {
            Phase::Open => {}
            Phase::Connecting => return self.end(conn, "closed by this side"),
            Phase::Closing { .. } | Phase::Dead => return,
        }
        // The peer's end may have arrived, and not been told because reading is paused.
        let peer_ended = endpoint.peer_ended;
        endpoint.phase = Phase::Closing { end_sent: false, peer_ended };
        endpoint.bulk = None;
        self.discard_inbound(conn);
        self.schedule(linger, Happening::Linger { conn });
        if let Some(endpoint) = self.endpoints.get_mut(&conn)
            && !std::mem::replace(&mut endpoint.dirty, true)
        {
            self.node().dirty.push(conn);
        }
    }

    fn abort(&mut self, conn: ConnId) {
        if self.own(conn).is_some() {
            self.end(conn, "aborted by this side");
        }
    }

    fn receive_bulk(&mut self, conn: ConnId, n_bytes: usize) {
        let buf = self.pool.take(n_bytes);
        let Some(endpoint) = self.own(conn).filter(|endpoint| endpoint.phase == Phase::Open) else { return };
        assert!(n_bytes > 0, "bulk of no bytes on {conn:?}");
        assert!(endpoint.bulk.is_none(), "second bulk on {conn:?} before the first is complete");
        endpoint.bulk = Some(Bulk { buf, filled: 0 });
    }

    fn pause_reading(&mut self, conn: ConnId) {
        if let Some(endpoint) = self.own(conn) {
            endpoint.paused = true;
        }
    }

    fn resume_reading(&mut self, conn: ConnId) {
        let node = self.current;
        if let Some(endpoint) = self.own(conn)
            && std::mem::take(&mut endpoint.paused)
            // Before the connection is established, bytes must not be handed over: `Connected` comes first.
            && endpoint.phase == Phase::Open
        {
            self.tell(node, Inbox::Readable(conn));
        }
    }

    fn buffer(&mut self, len: usize) -> AlignedBuf {
        self.pool.take(len)
    }

    fn buffers(&self) -> BufPool {
        self.pool.clone()
    }

    fn open_file(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId> {
        let key = (self.current, path.to_owned());
        if !self.disks.contains_key(&key) {
            if !options.create {
                return Err(io::Error::from_raw_os_error(libc::ENOENT));
            }
            self.disks.insert(key.clone(), SimDisk::new());
        }
        let disk = self.disks.get_mut(&key).expect("just made");
        if options.lock && std::mem::replace(&mut disk.locked, true) && !mutant::is(mutant::Mutant::LockIgnored) {
            return Err(io::Error::from_raw_os_error(libc::EWOULDBLOCK));
        }
        disk.grow(options.len_bytes);
        if options.direct && !mutant::is(mutant::Mutant::CacheBelieved) {
            disk.forget_cached();
        }
        let (path, lost_seen) = (path.to_owned(), disk.flushes_lost());
        let open =
            OpenFile { path, outstanding: 0, closing: false, lock: options.lock, lost_seen, flush_failed: false };
        let files = &mut self.node().files;
        files.push(Some(open));
        Ok(FileId((files.len() - 1) as u32))
    }

    fn close_file(&mut self, file: FileId) {
        self.file(file);
        let node = self.current;
        let open = self.nodes[node].files[file.0 as usize].as_mut().expect("just found");
        open.closing = true;
        if open.outstanding == 0 {
            self.release_file(node, file);
        }
    }

    fn file_len_bytes(&self, file: FileId) -> io::Result<u64> {
        Ok(self.disk_of(file).len_bytes())
    }

    fn is_regular_file(&self, _file: FileId) -> io::Result<bool> {
        Ok(true)
    }

    fn read(&mut self, file: FileId, offset: u64, buf: AlignedBuf, io: u64) {
        let work = if buf.is_empty() { RequestWork::Nothing { buf: Some(buf) } } else { RequestWork::Read { buf } };
        self.request(file, offset, io, work);
    }

    fn write(&mut self, file: FileId, offset: u64, pieces: Vec<Bytes>, io: u64) {
        let bytes = pieces.concat();
        let work = match bytes.is_empty() {
            true => RequestWork::Nothing { buf: None },
            false => RequestWork::Change(Change::Write { offset, bytes }),
        };
        self.request(file, offset, io, work);
    }

    fn flush(&mut self, file: FileId, io: u64) {
        if self.file(file).flush_failed {
            self.flushes_tried_again += 1;
        }
        let mark = self.disk_of(file).flush_mark();
        self.request(file, 0, io, RequestWork::Flush { mark });
    }

    fn discard(&mut self, file: FileId, offset: u64, len: u64, io: u64) {
        self.request(file, offset, io, RequestWork::Change(Change::Zero { range: offset..offset + len }));
    }

    fn set_timer(&mut self, at: Duration, token: u64) {
        let node = self.current;
        let state = self.node();
        state.timers.set(at, token);
        let due = Happening::TimerDue { node, incarnation: state.incarnation };
        let at = state.clock.when(at);
        self.schedule(at, due);
    }

    fn cancel_timer(&mut self, token: u64) {
        self.node().timers.cancel(token);
    }

    fn stats(&self) -> Stats {
        let node = &self.nodes[self.current];
        Stats { connections: node.connections as u64, ..node.stats }
    }

    fn stop(&mut self) {
        self.node().stopped = true;
    }
}

impl SimIo {
    /// Sends a segment that the handler does not queue: the end of a stream, a reset.
    pub(crate) fn send_segment(&mut self, to: ConnId, segment: Segment) {
        let mut delay = self.rng.duration(&self.config.latency);
        let Some(endpoint) = self.endpoints.get_mut(&to) else { return };
        if !self.delayed.is_empty() {
            delay += self.delayed.get(&(endpoint.peer_node, endpoint.node)).copied().unwrap_or_default();
        }
        if !self.slow_conns.is_empty() {
            delay += self.slow_conns.get(&to).copied().unwrap_or_default();
        }
        // Segments arrive in order, so this one not before earlier ones.
        let at = endpoint.wire.back().map_or(Duration::ZERO, |(at, _)| *at).max(self.clock + delay);
        endpoint.wire.push_back((at, segment));
        if endpoint.wire.len() == 1 {
            self.schedule(at, Happening::Arrival { conn: to });
        }
    }
}

//! The real [`Io`]: commands become operations of the backend.

use crate::backend::{Backend, Epoll, Uring};
use crate::conn::{Bulk, Conn, ConnTable, Phase};
use crate::disk::{DiskRequest, DiskRequests};
use crate::files::Files;
use crate::random::Random;
use crate::record::Recorder;
use crate::timers::Timers;
use crate::{BackendKind, Config, ConnId, Event, FileId, FileOptions, Io, ListenerId, Pulse, Stats, Waker, sockets};
use bytes::Bytes;
use socket2::Socket;
use std::collections::VecDeque;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::path::Path;
use std::time::{Duration, SystemTime};
use stdx::BootClock;
use types::{AlignedBuf, BufPool, Utime};

/// Largest number of connections that wait to be accepted.
const LISTEN_BACKLOG: i32 = 1024;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum TimerKey {
    Handler(u64),
    /// Bounds [`Io::close`].
    Linger(ConnId),
    /// Ends the pause of a listener.
    Accept(usize),
}

/// Work of the loop besides completions.
pub(crate) enum Local {
    Event(Event),
    /// Deliver kept bytes: reading was resumed.
    Deliver(ConnId),
}

pub(crate) struct Listener {
    pub(crate) socket: Socket,
    /// An accept is in flight.
    pub(crate) accepting: bool,
    pub(crate) closing: bool,
    /// The last accept failed for lack of descriptors or memory; that has been logged.
    pub(crate) starved: bool,
    /// Number of accepted connections that hold a slot, and its limit.
    pub(crate) accepted: usize,
    pub(crate) accepted_max: usize,
    /// The limit was reached and that has been logged; it is logged again only after the number has fallen.
    pub(crate) is_crowded: bool,
}

impl Listener {
    /// True if there is room for one more connection.
    pub(crate) fn has_room(&mut self) -> bool {
        if self.accepted < self.accepted_max {
            return true;
        }
        if !std::mem::replace(&mut self.is_crowded, true) {
            let address = self.socket.local_addr().ok().and_then(|addr| addr.as_socket());
            let address = address.map_or_else(String::new, |address| format!("{address}: "));
            tracing::warn!(
                "{address}{} connections are open, which is the limit; newer ones are closed",
                self.accepted
            );
        }
        false
    }
}

/// The [`Io`] of handlers on the real loop.
pub struct LoopIo {
    pub(crate) backend: Backend,
    pub(crate) conns: ConnTable,
    pub(crate) listeners: Vec<Option<Listener>>,
    pub(crate) files: Files,
    pub(crate) requests: DiskRequests,
    pub(crate) timers: Timers<TimerKey>,
    pub(crate) due: Vec<(Duration, TimerKey)>,
    pub(crate) local: VecDeque<Local>,
    pub(crate) dirty: Vec<ConnId>,
    pub(crate) pool: BufPool,
    pub(crate) waker: Waker,
    pub(crate) pulse: Pulse,
    pub(crate) config: Config,
    pub(crate) stats: Stats,
    pub(crate) started: BootClock,
    pub(crate) now: Duration,
    pub(crate) sampling: bool,
    pub(crate) stopped: bool,
    /// Number of times that the loop has submitted and waited.
    pub(crate) waits: u64,
    /// Number of reads from files that were completed in this turn.
    pub(crate) reads_done: usize,
    pub(crate) recorder: Option<Recorder>,
    random: Random,
}

impl LoopIo {
    pub(crate) fn new(config: Config) -> io::Result<LoopIo> {
        assert!(config.receive_buffers.is_power_of_two(), "the number of receive buffers is a power of two");
        assert!(config.receive_buffer_bytes > 0, "receive buffers are not empty");
        let waker = config.waker.clone().map_or_else(Waker::new, Ok)?;
        let started = config.started.unwrap_or_else(BootClock::start);
        let recorder = config.record.as_deref().map(Recorder::create).transpose()?;
        Ok(LoopIo {
            backend: backend(&config, &waker)?,
            conns: ConnTable::default(),
            listeners: Vec::new(),
            files: Files::default(),
            requests: DiskRequests::default(),
            timers: Timers::default(),
            due: Vec::new(),
            local: VecDeque::new(),
            dirty: Vec::new(),
            pool: BufPool::new(config.pool_bytes_max),
            waker,
            pulse: Pulse::default(),
            config,
            stats: Stats::default(),
            started,
            now: Duration::ZERO,
            sampling: false,
            stopped: false,
            waits: 0,
            reads_done: 0,
            recorder,
            random: Random::new()?,
        })
    }

    /// Starts a receive on the socket, unless there is a reason not to.
    pub(crate) fn arm_receive(&mut self, slot: usize) {
        let conn = self.conns.at(slot);
        let closing = matches!(conn.phase, Phase::Closing { .. });
        let wanted = closing || (conn.phase == Phase::Open && !conn.paused && conn.stash.is_empty());
        if conn.receiving || conn.delivering || !wanted {
            return;
        }
        if let Phase::Closing { peer_ended: true, .. } = conn.phase {
            return;
        }
        let fd = conn.fd();
        match &mut conn.bulk {
            Some(bulk) if !closing => {
                let rest = &mut bulk.buf.as_mut_slice()[bulk.filled..];
                assert!(!rest.is_empty(), "a full buffer is delivered before more is received");
                let (ptr, len) = (rest.as_mut_ptr(), rest.len());
                #[allow(unsafe_code)]
                // SAFETY: the buffer stays in the connection, untouched, while `receiving`, and the connection stays in
                // its slot with its socket while it has operations in flight.
                unsafe {
                    self.backend.receive_bulk(slot, fd, ptr, len);
                }
            }
            _ => self.backend.receive(slot, fd, !conn.more_bytes),
        }
        conn.receiving = true;
    }

    pub(crate) fn mark_dirty(&mut self, slot: usize) {
        let conn = self.conns.at(slot);
        if !conn.dirty {
            conn.dirty = true;
            self.dirty.push(conn.id);
        }
    }

    /// Starts a send for every connection with new bytes.
    pub(crate) fn start_sends(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for id in dirty.drain(..) {
            let Some(conn) = self.conns.get_mut(id) else { continue };
            conn.dirty = false;
            if conn.phase == Phase::Connecting || conn.sending || conn.outgoing.is_empty() {
                continue;
            }
            conn.sending = true;
            conn.sent_at_wait = self.waits;
            self.stats.sends += 1;
            let (fd, message) = (conn.fd(), conn.outgoing.message());
            #[allow(unsafe_code)]
            // SAFETY: the queue is in the boxed connection, which stays in its slot while it has operations in flight;
            // its front pieces and vector are not touched before `Outgoing::sent`.
            unsafe {
                self.backend.send(id.slot(), fd, message);
            }
        }
        self.dirty = dirty;
    }

    /// Ends our half of the stream after all bytes are sent, and the whole connection if the peer has ended its half.
    pub(crate) fn end_stream(&mut self, slot: usize) {
        let conn = self.conns.at(slot);
        if let Phase::Closing { end_sent, peer_ended } = &mut conn.phase
            && !*end_sent
        {
            *end_sent = true;
            let peer_ended = *peer_ended;
            // The call fails only if the connection is gone, which the receive in flight tells too.
            let _ = conn.socket.shutdown(Shutdown::Write);
            if peer_ended {
                self.end(slot, "closed by this side");
            }
        }
    }

    /// Queues the last event of a connection; frees it once it has nothing in flight.
    pub(crate) fn end(&mut self, slot: usize, cause: &str) {
        let conn = self.conns.at(slot);
        let id = conn.id;
        let last = if conn.phase == Phase::Connecting {
            let error = io::Error::new(io::ErrorKind::ConnectionAborted, cause.to_owned());
            Event::Connected { conn: id, result: Err(error) }
        } else {
            Event::Closed { conn: id, cause: cause.to_owned() }
        };
        self.local.push_back(Local::Event(last));
        self.bury(slot);
    }

    /// Ends a connection without an event.
    pub(crate) fn bury(&mut self, slot: usize) {
        let conn = self.conns.at(slot);
        conn.phase = Phase::Dead;
        let (id, fd, in_flight) = (conn.id, conn.fd(), conn.in_flight());
        // The peer sees the end now, not only when the last operation is back.
        let _ = conn.socket.shutdown(Shutdown::Both);
        self.timers.cancel(TimerKey::Linger(id));
        if in_flight {
            self.backend.cancel(fd);
        }
        self.free_if_idle(slot);
    }

    pub(crate) fn free_if_idle(&mut self, slot: usize) {
        let conn = self.conns.at(slot);
        if conn.phase == Phase::Dead && !conn.in_flight() && !conn.delivering {
            self.backend.forget(conn.fd());
            let removed = self.conns.remove(slot);
            let accepted_by = removed.and_then(|conn| conn.accepted_by);
            if let Some(Some(listener)) = accepted_by.and_then(|slot| self.listeners.get_mut(slot)) {
                listener.accepted -= 1;
                listener.is_crowded &= listener.accepted >= listener.accepted_max / 8 * 7;
            }
        }
    }

    fn submit_request(&mut self, request: DiskRequest) {
        self.files.begin(request.file);
        if request.is_empty() {
            let (io, file) = (request.io, request.file);
            self.files.end(file);
            self.local.push_back(Local::Event(Event::Disk { io, result: request.finish_empty() }));
            return;
        }
        let slot = self.requests.insert(request);
        self.submit_call(slot);
    }

    /// Submits the rest of a request to the backend.
    pub(crate) fn submit_call(&mut self, slot: usize) {
        let request = self.requests.at(slot);
        let fd: RawFd = self.files.busy(request.file).fd();
        let call = request.call();
        #[allow(unsafe_code)]
        // SAFETY: the request keeps its memory in its slot, untouched, until its completion; its file stays open.
        unsafe {
            self.backend.disk(slot, fd, call);
        }
    }

    pub(crate) fn start_accepting(&mut self, slot: usize) {
        let Some(Some(listener)) = self.listeners.get_mut(slot) else { return };
        listener.accepting = true;
        self.backend.accept(slot, listener.socket.as_raw_fd());
    }

    fn try_connect(&mut self, id: ConnId, to: SocketAddr) -> io::Result<()> {
        if self.conns.len() >= self.config.connections_max {
            let max = self.config.connections_max;
            return Err(io::Error::other(format!("the limit of {max} connections is reached")));
        }
        let socket = sockets::connecting(to, self.backend.nonblocking_sockets())?;
        let mut conn = Conn::new(id, socket, to.into(), Phase::Connecting);
        conn.connecting = true;
        self.conns.insert(conn);
        let conn = self.conns.at(id.slot());
        #[allow(unsafe_code)]
        // SAFETY: the address is in the boxed connection, which stays in its slot while it has operations in flight.
        unsafe {
            self.backend.connect(id.slot(), conn.socket.as_raw_fd(), &conn.remote);
        }
        Ok(())
    }
}

impl Drop for LoopIo {
    fn drop(&mut self) {
        if !self.backend.drain() {
            tracing::error!("operations do not end; leaking their memory");
            std::mem::forget(std::mem::take(&mut self.conns));
            std::mem::forget(std::mem::take(&mut self.requests));
        }
    }
}

fn backend(config: &Config, waker: &Waker) -> io::Result<Backend> {
    let epoll = || Epoll::new(config, waker.clone()).map(|epoll| Backend::Epoll(Box::new(epoll)));
    match config.backend {
        BackendKind::Epoll => epoll(),
        BackendKind::Uring => Uring::new(config, waker.clone()).map(|uring| Backend::Uring(Box::new(uring))),
        BackendKind::Auto => match Uring::new(config, waker.clone()) {
            Ok(uring) => Ok(Backend::Uring(Box::new(uring))),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "io_uring cannot be used here; falling back to epoll and threads, which is slower"
                );
                epoll()
            }
        },
    }
}

impl Io for LoopIo {
    fn now(&self) -> Duration {
        self.now
    }

    fn clock(&self) -> Duration {
        self.started.elapsed()
    }

    fn wall_clock(&self) -> Utime {
        SystemTime::now().into()
    }

    fn fill_random(&mut self, out: &mut [u8]) {
        self.random.fill(out);
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(ListenerId, SocketAddr)> {
        let (socket, bound) = sockets::listener(addr, LISTEN_BACKLOG, self.backend.nonblocking_sockets())?;
        // Slots of listeners are not reused, because an accept may still be on its way.
        self.listeners.push(Some(Listener {
            socket,
            accepting: false,
            closing: false,
            starved: false,
            accepted: 0,
            accepted_max: usize::MAX,
            is_crowded: false,
        }));
        let slot = self.listeners.len() - 1;
        self.start_accepting(slot);
        Ok((ListenerId(slot as u32), bound))
    }

    fn limit_accepted(&mut self, id: ListenerId, connections_max: usize) {
        if let Some(Some(listener)) = self.listeners.get_mut(id.0 as usize) {
            listener.accepted_max = connections_max;
        }
    }

    fn close_listener(&mut self, id: ListenerId) {
        let slot = id.0 as usize;
        let Some(Some(listener)) = self.listeners.get_mut(slot) else { return };
        listener.closing = true;
        let fd = listener.socket.as_raw_fd();
        if listener.accepting {
            // The shutdown makes the listening socket refuse new connections from now on.
            let _ = listener.socket.shutdown(Shutdown::Both);
            self.backend.cancel(fd);
        } else {
            self.timers.cancel(TimerKey::Accept(slot));
            self.backend.forget(fd);
            self.listeners[slot] = None;
        }
    }

    fn connect(&mut self, to: SocketAddr) -> ConnId {
        let id = self.conns.reserve();
        if let Err(error) = self.try_connect(id, to) {
            self.conns.discard(id);
            self.local.push_back(Local::Event(Event::Connected { conn: id, result: Err(error) }));
        }
        id
    }

    fn send(&mut self, conn: ConnId, piece: Bytes) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        if let Phase::Closing { .. } = state.phase {
            return;
        }
        state.outgoing.push(piece);
        if !state.dirty {
            state.dirty = true;
            self.dirty.push(conn);
        }
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.conns.get(conn).map_or(0, |conn| conn.outgoing.bytes())
    }

    fn close(&mut self, conn: ConnId) {
        let slot = conn.slot();
        let Some(state) = self.conns.get_mut(conn) else { return };
        match state.phase {
            Phase::Open => {}
            Phase::Connecting => return self.end(slot, "closed by this side"),
            Phase::Closing { .. } | Phase::Dead => return,
        }
        state.phase = Phase::Closing { end_sent: false, peer_ended: false };
        state.stash = Vec::new();
        if !state.receiving {
            state.bulk = None;
        }
        let all_sent = state.outgoing.is_empty();
        self.timers.set(self.now + self.config.close_linger, TimerKey::Linger(conn));
        if all_sent {
            self.end_stream(slot);
        }
        self.arm_receive(slot);
    }

    fn abort(&mut self, conn: ConnId) {
        if self.conns.get_mut(conn).is_some() {
            self.end(conn.slot(), "aborted by this side");
        }
    }

    fn receive_bulk(&mut self, conn: ConnId, n_bytes: usize) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        if state.phase != Phase::Open {
            return;
        }
        assert!(n_bytes > 0, "bulk of no bytes on {conn:?}");
        assert!(state.bulk.is_none(), "second bulk on {conn:?} before the first is complete");
        state.bulk = Some(Bulk { buf: self.pool.take(n_bytes), filled: 0 });
    }

    fn pause_reading(&mut self, conn: ConnId) {
        if let Some(state) = self.conns.get_mut(conn) {
            state.paused = true;
        }
    }

    fn resume_reading(&mut self, conn: ConnId) {
        let Some(state) = self.conns.get_mut(conn) else { return };
        if !std::mem::take(&mut state.paused) {
            return;
        }
        if !state.stash.is_empty() || state.bulk.as_ref().is_some_and(Bulk::is_full) {
            self.local.push_back(Local::Deliver(conn));
        } else {
            self.arm_receive(conn.slot());
        }
    }

    fn buffer(&mut self, len: usize) -> AlignedBuf {
        self.pool.take(len)
    }

    fn buffers(&self) -> BufPool {
        self.pool.clone()
    }

    fn open_file(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId> {
        self.files.open(path, options)
    }

    fn close_file(&mut self, file: FileId) {
        self.files.close(file);
    }

    fn file_len_bytes(&self, file: FileId) -> io::Result<u64> {
        self.files.len_bytes(file)
    }

    fn is_regular_file(&self, file: FileId) -> io::Result<bool> {
        self.files.is_regular(file)
    }

    fn read(&mut self, file: FileId, offset: u64, buf: AlignedBuf, io: u64) {
        let direct = self.files.get(file).direct;
        self.submit_request(DiskRequest::read(io, file, direct, offset, buf));
    }

    fn write(&mut self, file: FileId, offset: u64, pieces: Vec<Bytes>, io: u64) {
        let direct = self.files.get(file).direct;
        if let Some(recorder) = &mut self.recorder {
            recorder.write(file, io, offset, &pieces);
        }
        let (request, copied) = DiskRequest::write(io, file, direct, offset, pieces, &self.pool);
        self.stats.bytes_realigned += copied as u64;
        self.submit_request(request);
    }

    fn flush(&mut self, file: FileId, io: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.flush(file, io);
        }
        self.submit_request(DiskRequest::flush(io, file));
    }

    fn discard(&mut self, file: FileId, offset: u64, len: u64, io: u64) {
        if let Some(recorder) = &mut self.recorder {
            recorder.discard(file, io, offset, len);
        }
        self.submit_request(DiskRequest::discard(io, file, offset, len));
    }

    fn set_timer(&mut self, at: Duration, token: u64) {
        self.timers.set(at, TimerKey::Handler(token));
    }

    fn cancel_timer(&mut self, token: u64) {
        self.timers.cancel(TimerKey::Handler(token));
    }

    fn stats(&self) -> Stats {
        Stats { connections: self.conns.len() as u64, ..self.stats }
    }

    fn stop(&mut self) {
        self.stopped = true;
    }
}

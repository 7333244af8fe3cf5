//! The backend on epoll, for systems that forbid io_uring: it waits for readiness instead of completion, and keeps
//! operations until their socket is ready.

use super::disk_pool::DiskPool;
use super::{CALL_BYTES_MAX, Completion, DiskCall, OpId, OpKind, minus_errno};
use crate::{Config, Stats, Waker};
use rustix::event::epoll;
use socket2::SockAddr;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::time::Duration;
use types::AlignedBuf;

/// Event data of the two descriptors that are no sockets.
const WAKER: u64 = u64::MAX;
const DISK: u64 = u64::MAX - 1;

/// The pending operation of one direction of a socket.
#[derive(Clone, Copy)]
enum Pending {
    Accept,
    Receive,
    ReceiveBulk { ptr: *mut u8, len: usize },
    Connect { addr: *const SockAddr, begun: bool },
    Send { message: *const libc::msghdr },
}

#[derive(Default)]
struct Direction {
    pending: Option<(OpId, Pending)>,
    /// The direction is not known to block. True at first, because only a try can tell.
    ready: bool,
    queued: bool,
}

struct Socket {
    /// First reading or accepting, second writing or connecting.
    directions: [Direction; 2],
}

const IN: usize = 0;
const OUT: usize = 1;

pub(crate) struct Epoll {
    epoll: OwnedFd,
    sockets: BTreeMap<RawFd, Socket>,
    /// Directions with a pending operation that is worth a try.
    tries: VecDeque<(RawFd, usize)>,
    completions: VecDeque<Completion>,
    /// The only receive buffer; absent between a completion and its delivery.
    buffer: Option<AlignedBuf>,
    waker: Waker,
    disk: DiskPool,
    events: Vec<epoll::Event>,
}

impl Epoll {
    pub(crate) fn new(config: &Config, waker: Waker) -> io::Result<Epoll> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let disk = DiskPool::new(config.disk_threads)?;
        epoll::add(&epoll, waker.fd(), epoll::EventData::new_u64(WAKER), epoll::EventFlags::IN)?;
        epoll::add(&epoll, borrow(disk.results_fd()), epoll::EventData::new_u64(DISK), epoll::EventFlags::IN)?;
        Ok(Epoll {
            epoll,
            sockets: BTreeMap::new(),
            tries: VecDeque::new(),
            completions: VecDeque::new(),
            buffer: Some(AlignedBuf::zeroed(config.receive_buffer_bytes)),
            waker,
            disk,
            events: Vec::with_capacity(256),
        })
    }

    fn complete(&mut self, op: OpId, result: i32) {
        self.completions.push_back(Completion { op, result, more: false, buffer: None, more_bytes: false });
    }

    fn start(&mut self, op: OpId, fd: RawFd, direction: usize, pending: Pending) {
        let socket = match self.sockets.entry(fd) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP;
                let data = epoll::EventData::new_u64(fd as u64);
                if let Err(errno) = epoll::add(&self.epoll, borrow(fd), data, flags | epoll::EventFlags::ET) {
                    self.complete(op, -errno.raw_os_error());
                    return;
                }
                let ready = || Direction { ready: true, ..Direction::default() };
                entry.insert(Socket { directions: [ready(), ready()] })
            }
        };
        let direction_state = &mut socket.directions[direction];
        assert!(direction_state.pending.is_none(), "two operations in one direction of descriptor {fd}");
        direction_state.pending = Some((op, pending));
        self.consider(fd, direction);
    }

    /// Queues a try of a direction, if it has a pending operation that may succeed.
    fn consider(&mut self, fd: RawFd, direction: usize) {
        let Some(socket) = self.sockets.get_mut(&fd) else { return };
        let state = &mut socket.directions[direction];
        if state.ready && state.pending.is_some() && !state.queued {
            state.queued = true;
            self.tries.push_back((fd, direction));
        }
    }

    pub(crate) fn accept(&mut self, op: OpId, fd: RawFd) {
        self.start(op, fd, IN, Pending::Accept);
    }

    /// # Safety
    /// See [`super::Backend::connect`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn connect(&mut self, op: OpId, fd: RawFd, addr: &SockAddr) {
        self.start(op, fd, OUT, Pending::Connect { addr, begun: false });
    }

    pub(crate) fn receive(&mut self, op: OpId, fd: RawFd, _likely_empty: bool) {
        self.start(op, fd, IN, Pending::Receive);
    }

    /// # Safety
    /// See [`super::Backend::receive_bulk`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn receive_bulk(&mut self, op: OpId, fd: RawFd, ptr: *mut u8, len: usize) {
        self.start(op, fd, IN, Pending::ReceiveBulk { ptr, len });
    }

    /// # Safety
    /// See [`super::Backend::send`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn send(&mut self, op: OpId, fd: RawFd, message: *const libc::msghdr) {
        self.start(op, fd, OUT, Pending::Send { message });
    }

    /// # Safety
    /// See [`super::Backend::disk`].
    #[allow(unsafe_code)]
    pub(crate) unsafe fn disk(&mut self, op: OpId, fd: RawFd, call: DiskCall) {
        // SAFETY: the caller keeps this contract.
        unsafe { self.disk.submit(op, fd, call) };
    }

    pub(crate) fn cancel(&mut self, fd: RawFd) {
        let Some(socket) = self.sockets.get_mut(&fd) else { return };
        let ops = socket.directions.each_mut().map(|direction| direction.pending.take());
        for (op, _) in ops.into_iter().flatten() {
            self.complete(op, -libc::ECANCELED);
        }
    }

    pub(crate) fn forget(&mut self, fd: RawFd) {
        self.sockets.remove(&fd);
        self.tries.retain(|(tried, _)| *tried != fd);
    }

    pub(crate) fn wait(&mut self, timeout: Option<Duration>, stats: &mut Stats) -> io::Result<()> {
        stats.enters += 1;
        let work_waits = !self.tries.is_empty() || !self.completions.is_empty();
        let timeout = if work_waits { Some(Duration::ZERO) } else { timeout };
        let timespec = timeout.and_then(|timeout| rustix::event::Timespec::try_from(timeout).ok());
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timespec.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in events.drain(..) {
            match event.data.u64() {
                WAKER => {
                    let mut count = [0; 8];
                    let _ = rustix::io::read(self.waker.fd(), &mut count);
                    self.waker.rearm();
                    self.complete(OpId::new(OpKind::Wake, 0), 8);
                }
                DISK => {
                    for (op, result) in self.disk.take_results() {
                        self.complete(op, result);
                    }
                }
                fd => self.socket_is_ready(fd as RawFd, event.flags),
            }
        }
        self.events = events;
        Ok(())
    }

    fn socket_is_ready(&mut self, fd: RawFd, flags: epoll::EventFlags) {
        use epoll::EventFlags as Flags;
        let Some(socket) = self.sockets.get_mut(&fd) else { return };
        let ends = Flags::ERR | Flags::HUP;
        socket.directions[IN].ready |= flags.intersects(Flags::IN | Flags::RDHUP | ends);
        socket.directions[OUT].ready |= flags.intersects(Flags::OUT | ends);
        self.consider(fd, IN);
        self.consider(fd, OUT);
    }

    pub(crate) fn ready(&mut self) -> usize {
        self.completions.len() + self.tries.len()
    }

    pub(crate) fn next(&mut self) -> Option<Completion> {
        if let Some(completion) = self.completions.pop_front() {
            return Some(completion);
        }
        while let Some((fd, direction)) = self.tries.pop_front() {
            if let Some(completion) = self.try_one(fd, direction) {
                return Some(completion);
            }
        }
        None
    }

    /// Tries pending operations that send, and keeps their completions: [`Epoll::next`] is not called for now.
    pub(crate) fn push_out(&mut self) {
        for (fd, direction) in std::mem::take(&mut self.tries) {
            if direction == IN {
                self.tries.push_back((fd, direction));
            } else if let Some(completion) = self.try_one(fd, direction) {
                self.completions.push_back(completion);
            }
        }
    }

    fn try_one(&mut self, fd: RawFd, direction: usize) -> Option<Completion> {
        let socket = self.sockets.get_mut(&fd)?;
        let state = &mut socket.directions[direction];
        state.queued = false;
        let (op, pending) = state.pending.as_mut()?;
        let op = *op;
        let buffer = self.buffer.as_mut().expect("the receive buffer is given back before the next operation");
        let result = attempt(fd, pending, buffer);
        if result == -libc::EAGAIN || result == -libc::EINPROGRESS {
            state.ready = false;
            return None;
        }
        let more = matches!(pending, Pending::Accept) && result >= 0;
        let buffer = (matches!(pending, Pending::Receive) && result > 0).then_some(0);
        if more {
            self.consider(fd, direction);
        } else {
            state.pending = None;
        }
        Some(Completion { op, result, more, buffer, more_bytes: true })
    }

    pub(crate) fn take_buffer(&mut self, _id: u16) -> AlignedBuf {
        self.buffer.take().expect("the receive buffer is not taken")
    }

    pub(crate) fn give_buffer(&mut self, _id: u16, buf: AlignedBuf) {
        self.buffer = Some(buf);
    }

    pub(crate) fn drain(&mut self) -> bool {
        self.sockets.clear();
        self.tries.clear();
        match DiskPool::new(1) {
            Ok(none) => drop(std::mem::replace(&mut self.disk, none)),
            Err(_) => return false,
        }
        true
    }
}

fn borrow(fd: RawFd) -> BorrowedFd<'static> {
    #[allow(unsafe_code)]
    // SAFETY: used only for the duration of one call, for descriptors whose owners are alive then.
    unsafe {
        BorrowedFd::borrow_raw(fd)
    }
}

/// Tries an operation once, without blocking. Returns a count, a descriptor or a negative errno.
fn attempt(fd: RawFd, pending: &mut Pending, buffer: &mut AlignedBuf) -> i32 {
    loop {
        #[allow(unsafe_code)]
        // SAFETY: the memory named by a pending operation belongs to it until it completes (contracts of `Backend`);
        // `buffer` is borrowed exclusively.
        let result = unsafe {
            match pending {
                Pending::Accept => libc::accept4(
                    fd,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                    libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                ) as isize,
                Pending::Receive => {
                    let into = buffer.as_mut_slice();
                    libc::recv(fd, into.as_mut_ptr().cast(), into.len(), libc::MSG_DONTWAIT)
                }
                Pending::ReceiveBulk { ptr, len } => {
                    libc::recv(fd, ptr.cast(), (*len).min(CALL_BYTES_MAX), libc::MSG_DONTWAIT)
                }
                Pending::Connect { addr, begun: begun @ false } => {
                    *begun = true;
                    libc::connect(fd, (**addr).as_ptr().cast(), (**addr).len()) as isize
                }
                Pending::Connect { .. } => return connect_result(fd),
                Pending::Send { message } => libc::sendmsg(fd, *message, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
            }
        };
        match if result < 0 { minus_errno() } else { result as i32 } {
            interrupted if interrupted == -libc::EINTR => {}
            result => return result,
        }
    }
}

/// The result of a connect that was in progress.
fn connect_result(fd: RawFd) -> i32 {
    let mut error = MaybeUninit::<libc::c_int>::new(0);
    let mut len = size_of::<libc::c_int>() as libc::socklen_t;
    #[allow(unsafe_code)]
    // SAFETY: `error` has room for the `len` bytes of an int, and holds one from the start.
    let (result, error) = unsafe {
        let result = libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR, error.as_mut_ptr().cast(), &mut len);
        (result, error.assume_init())
    };
    if result < 0 { minus_errno() } else { -error }
}

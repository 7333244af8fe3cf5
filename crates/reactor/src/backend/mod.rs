//! The kernel interface that carries the loop: operations go in, completions come out.
//!
//! Both backends have one interface. An [`OpId`] names an operation; every operation but an accept completes exactly
//! once. Memory given with an operation must stay in place until then. The callers keep it in the slot of the
//! connection or request, and free a slot only when it has nothing in flight.

mod buf_ring;
mod disk_pool;
mod epoll;
mod uring;

pub(crate) use epoll::Epoll;
pub(crate) use uring::Uring;

use crate::Stats;
use socket2::SockAddr;
use std::io;
use std::os::fd::RawFd;
use std::time::Duration;
use types::AlignedBuf;

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum OpKind {
    /// An operation whose outcome is ignored.
    Ignored,
    Wake,
    Accept,
    Connect,
    Receive,
    ReceiveBulk,
    Send,
    Disk,
}

/// Name of an operation: its kind in the upper byte, and the slot that it belongs to below.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct OpId(u64);

impl OpId {
    pub(crate) fn new(kind: OpKind, slot: usize) -> OpId {
        debug_assert!(slot < 1 << 56);
        OpId((kind as u64) << 56 | slot as u64)
    }

    pub(crate) fn slot(self) -> usize {
        (self.0 & ((1 << 56) - 1)) as usize
    }

    pub(crate) fn kind(self) -> OpKind {
        const KINDS: [OpKind; 8] = [
            OpKind::Ignored,
            OpKind::Wake,
            OpKind::Accept,
            OpKind::Connect,
            OpKind::Receive,
            OpKind::ReceiveBulk,
            OpKind::Send,
            OpKind::Disk,
        ];
        KINDS[(self.0 >> 56) as usize]
    }
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    pub(crate) op: OpId,
    /// A count or a descriptor, or a negative errno.
    pub(crate) result: i32,
    /// More completions of this operation, an accept, follow.
    pub(crate) more: bool,
    /// The receive buffer that holds the bytes.
    pub(crate) buffer: Option<u16>,
    /// The socket is known to hold more bytes.
    pub(crate) more_bytes: bool,
}

/// A request to a file, with raw memory that stays valid until completion.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DiskCall {
    Read { offset: u64, ptr: *mut u8, len: usize },
    Write { offset: u64, iovecs: *const libc::iovec, count: usize },
    Flush,
    Discard { offset: u64, len: u64 },
}

/// Largest number of bytes of one read call. Linux moves no more than 2 GiB less a page per call.
pub(crate) const CALL_BYTES_MAX: usize = 1 << 30;

pub(crate) enum Backend {
    Uring(Box<Uring>),
    Epoll(Box<Epoll>),
}

macro_rules! both {
    ($self:ident, $backend:ident => $call:expr) => {
        match $self {
            Backend::Uring($backend) => $call,
            Backend::Epoll($backend) => $call,
        }
    };
}

impl Backend {
    /// True if sockets must be non-blocking, which io_uring does not need.
    pub(crate) fn nonblocking_sockets(&self) -> bool {
        matches!(self, Backend::Epoll(_))
    }

    /// Accepts connections until a completion without `more`.
    pub(crate) fn accept(&mut self, slot: usize, fd: RawFd) {
        both!(self, b => b.accept(OpId::new(OpKind::Accept, slot), fd));
    }

    /// # Safety
    /// `addr` stays where it is, unchanged, until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn connect(&mut self, slot: usize, fd: RawFd, addr: &SockAddr) {
        // SAFETY: the caller keeps this contract.
        both!(self, b => unsafe { b.connect(OpId::new(OpKind::Connect, slot), fd, addr) });
    }

    /// Receives into a receive buffer of the backend. `likely_empty`: wait for bytes before the first attempt.
    pub(crate) fn receive(&mut self, slot: usize, fd: RawFd, likely_empty: bool) {
        both!(self, b => b.receive(OpId::new(OpKind::Receive, slot), fd, likely_empty));
    }

    /// Receives up to `len` bytes to `ptr`; possibly fewer even if the stream goes on.
    ///
    /// # Safety
    /// `len` bytes from `ptr` are writable and belong to the operation until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn receive_bulk(&mut self, slot: usize, fd: RawFd, ptr: *mut u8, len: usize) {
        // SAFETY: the caller keeps this contract.
        both!(self, b => unsafe { b.receive_bulk(OpId::new(OpKind::ReceiveBulk, slot), fd, ptr, len) });
    }

    /// Sends the bytes that `message` names, or the first of them.
    ///
    /// # Safety
    /// `message`, its vector and the bytes named there stay in place, unchanged, until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn send(&mut self, slot: usize, fd: RawFd, message: *const libc::msghdr) {
        // SAFETY: the caller keeps this contract.
        both!(self, b => unsafe { b.send(OpId::new(OpKind::Send, slot), fd, message) });
    }

    /// # Safety
    /// The memory named by `call` (vector included) belongs to the operation until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn disk(&mut self, slot: usize, fd: RawFd, call: DiskCall) {
        // SAFETY: the caller keeps this contract.
        both!(self, b => unsafe { b.disk(OpId::new(OpKind::Disk, slot), fd, call) });
    }

    /// Makes all operations on a socket complete soon, perhaps with an error.
    pub(crate) fn cancel(&mut self, fd: RawFd) {
        both!(self, b => b.cancel(fd));
    }

    /// Forgets a socket that is about to be closed. It has nothing in flight.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        if let Backend::Epoll(epoll) = self {
            epoll.forget(fd);
        }
    }

    /// Submits all operations and, unless `timeout` is zero, waits until one completes or the time is over.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, stats: &mut Stats) -> io::Result<()> {
        both!(self, b => b.wait(timeout, stats))
    }

    /// Starts submitted operations without waiting for a further call.
    pub(crate) fn push_out(&mut self) {
        if let Backend::Epoll(epoll) = self {
            epoll.push_out();
        }
    }

    /// Number of times that [`Backend::next`] should be called in this turn.
    pub(crate) fn ready(&mut self) -> usize {
        both!(self, b => b.ready())
    }

    /// True if [`Backend::next`] itself receives, so that its bytes may have come after [`Backend::ready`].
    pub(crate) fn tries_when_asked(&self) -> bool {
        matches!(self, Backend::Epoll(_))
    }

    pub(crate) fn next(&mut self) -> Option<Completion> {
        both!(self, b => b.next())
    }

    /// The completion that [`Backend::next`] returns next, if it is known to be a send's.
    pub(crate) fn peek_send(&mut self) -> Option<Completion> {
        match self {
            Backend::Uring(uring) => uring.peek().filter(|completion| completion.op.kind() == OpKind::Send),
            // It sends only when it is asked for completions.
            Backend::Epoll(_) => None,
        }
    }

    /// Takes the receive buffer that a completion named. The caller must give it back.
    pub(crate) fn take_buffer(&mut self, id: u16) -> AlignedBuf {
        both!(self, b => b.take_buffer(id))
    }

    pub(crate) fn give_buffer(&mut self, id: u16, buf: AlignedBuf) {
        both!(self, b => b.give_buffer(id, buf));
    }

    /// Cancels all operations and waits until none is in flight. False if that failed: then the memory of operations
    /// must never be freed.
    pub(crate) fn drain(&mut self) -> bool {
        both!(self, b => b.drain())
    }
}

/// The errno of the last system call as a negative result, like those of io_uring.
pub(crate) fn minus_errno() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

//! What carries the loop: operations go in, completions come out.
//!
//! Both backends have the same shape. An operation is named by an [`OpId`]; unless it is an accept, it completes exactly
//! once. Memory given with an operation must stay where it is until then: the callers keep it in the connection's or the
//! request's slot, and slots are freed only when nothing is in flight.

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

/// What an operation does, and to what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum OpKind {
    /// An operation whose outcome nobody waits for.
    Ignored,
    Wake,
    Accept,
    Connect,
    Receive,
    ReceiveBulk,
    Send,
    Disk,
}

/// Names an operation: its kind in the upper byte, the slot it belongs to below.
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
    /// A count or a descriptor; negative: an errno.
    pub(crate) result: i32,
    /// More completions of this (accept) operation follow.
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

/// Bytes one read call asks for at most; Linux moves no more than 2 GiB less a page per call.
pub(crate) const CALL_BYTES_MAX: usize = 1 << 30;

pub(crate) enum Backend {
    Uring(Uring),
    Epoll(Epoll),
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
    /// Whether sockets are to be made non-blocking. io_uring waits by itself.
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
        // SAFETY: passed on to our caller.
        both!(self, b => unsafe { b.connect(OpId::new(OpKind::Connect, slot), fd, addr) });
    }

    /// Receives into a receive buffer of the backend. `likely_empty`: wait for bytes first instead of trying at once.
    pub(crate) fn receive(&mut self, slot: usize, fd: RawFd, likely_empty: bool) {
        both!(self, b => b.receive(OpId::new(OpKind::Receive, slot), fd, likely_empty));
    }

    /// Receives up to `len` bytes to `ptr`; fewer possibly even if the stream goes on.
    ///
    /// # Safety
    /// `len` bytes from `ptr` are writable and belong to the operation until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn receive_bulk(&mut self, slot: usize, fd: RawFd, ptr: *mut u8, len: usize) {
        // SAFETY: passed on to our caller.
        both!(self, b => unsafe { b.receive_bulk(OpId::new(OpKind::ReceiveBulk, slot), fd, ptr, len) });
    }

    /// Sends what `message` names, or the beginning of it.
    ///
    /// # Safety
    /// `message`, its vector and the bytes named there stay where they are, unchanged, until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn send(&mut self, slot: usize, fd: RawFd, message: *const libc::msghdr) {
        // SAFETY: passed on to our caller.
        both!(self, b => unsafe { b.send(OpId::new(OpKind::Send, slot), fd, message) });
    }

    /// # Safety
    /// The memory named by `call` (vector included) belongs to the operation until completion; `fd` stays open.
    #[allow(unsafe_code)]
    pub(crate) unsafe fn disk(&mut self, slot: usize, fd: RawFd, call: DiskCall) {
        // SAFETY: passed on to our caller.
        both!(self, b => unsafe { b.disk(OpId::new(OpKind::Disk, slot), fd, call) });
    }

    /// Makes all operations on a socket complete soon, if need be with an error.
    pub(crate) fn cancel(&mut self, fd: RawFd) {
        both!(self, b => b.cancel(fd));
    }

    /// To be called before a socket is closed, with nothing in flight on it.
    pub(crate) fn forget(&mut self, fd: RawFd) {
        if let Backend::Epoll(epoll) = self {
            epoll.forget(fd);
        }
    }

    /// Hands over all operations and, unless `timeout` is zero, waits until something completes or it is over.
    pub(crate) fn wait(&mut self, timeout: Option<Duration>, stats: &mut Stats) -> io::Result<()> {
        both!(self, b => b.wait(timeout, stats))
    }

    /// Makes sure that what was handed over is on its way, without more calls.
    pub(crate) fn push_out(&mut self) {
        if let Backend::Epoll(epoll) = self {
            epoll.push_out();
        }
    }

    /// How many times [`Backend::next`] should be called in this turn.
    pub(crate) fn ready(&mut self) -> usize {
        both!(self, b => b.ready())
    }

    /// Whether [`Backend::next`] itself receives, so that what it gives may have come after [`Backend::ready`].
    pub(crate) fn tries_when_asked(&self) -> bool {
        matches!(self, Backend::Epoll(_))
    }

    pub(crate) fn next(&mut self) -> Option<Completion> {
        both!(self, b => b.next())
    }

    /// Takes the receive buffer a completion named. It must be given back.
    pub(crate) fn take_buffer(&mut self, id: u16) -> AlignedBuf {
        both!(self, b => b.take_buffer(id))
    }

    pub(crate) fn give_buffer(&mut self, id: u16, buf: AlignedBuf) {
        both!(self, b => b.give_buffer(id, buf));
    }

    /// Cancels everything and waits until nothing is in flight. False if that did not succeed: then the memory of
    /// operations must never be freed.
    pub(crate) fn drain(&mut self) -> bool {
        both!(self, b => b.drain())
    }
}

/// A result as the kernel gives it to io_uring, from errno.
pub(crate) fn minus_errno() -> i32 {
    -io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

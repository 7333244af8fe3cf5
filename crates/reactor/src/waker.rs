//! Waking a reactor from another thread.

use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Makes the reactor that it belongs to handle [`crate::Event::Woken`]. Cheap to clone; any thread may use it.
///
/// Wake-ups coalesce: between two `Woken` events only the first call makes a system call. The handler of the following
/// `Woken` sees everything that was queued before [`Waker::wake`].
#[derive(Clone, Debug)]
pub struct Waker(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Blocking, so that io_uring waits for it instead of failing with `EAGAIN`.
    fd: OwnedFd,
    pending: AtomicBool,
}

impl Waker {
    pub fn new() -> io::Result<Waker> {
        Ok(Waker(Arc::new(Inner { fd: eventfd(0, EventfdFlags::CLOEXEC)?, pending: AtomicBool::new(false) })))
    }

    pub fn wake(&self) {
        if !self.0.pending.swap(true, Ordering::AcqRel) {
            // The call adds a small number, which depends on the byte order and does not matter. It cannot block,
            // because the counter is far from its limit, and cannot fail otherwise, because the descriptor is ours.
            rustix::io::write(&self.0.fd, &1u64.to_le_bytes()).expect("eventfd takes a small count");
        }
    }

    /// The descriptor that becomes readable.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }

    /// Allows wake-ups again, after the eventfd has been read and before `Woken` is delivered.
    pub(crate) fn rearm(&self) {
        // A swap is needed instead of a store: it must also see the writes of a waker that found the flag set.
        self.0.pending.swap(false, Ordering::AcqRel);
    }
}

//! The reactor: a loop and its thread.

use crate::backend::Backend;
use crate::{BackendKind, Config, Handler, LoopIo, Pulse, Waker};
use std::io;

/// The real loop of one shard. It stays on the thread that made it.
///
/// Dropping it cancels operations in flight and waits for those that cannot be cancelled (a write that the drive has
/// begun): memory of operations is never freed while the kernel uses it.
pub struct Reactor {
    io: LoopIo,
}

impl Reactor {
    /// Makes a reactor. Errors: no descriptors or memory; no io_uring though [`BackendKind::Uring`] requires it.
    ///
    /// Panics if the number of receive buffers in `config` is not a power of two.
    pub fn new(config: Config) -> io::Result<Reactor> {
        Ok(Reactor { io: LoopIo::new(config)? })
    }

    /// Takes commands before the loop runs: listen, open files, set timers.
    pub fn io(&mut self) -> &mut LoopIo {
        &mut self.io
    }

    /// Runs until [`crate::Io::stop`]. May be called again.
    pub fn run<H: Handler<LoopIo>>(&mut self, handler: &mut H) -> io::Result<()> {
        self.io.run(handler)
    }

    /// A handle by which other threads make the handler see [`crate::Event::Woken`].
    pub fn waker(&self) -> Waker {
        self.io.waker.clone()
    }

    /// A handle by which other threads see if the loop moves.
    pub fn pulse(&self) -> Pulse {
        self.io.pulse.clone()
    }

    /// The backend in use; never [`BackendKind::Auto`].
    pub fn backend(&self) -> BackendKind {
        match &self.io.backend {
            Backend::Uring(_) => BackendKind::Uring,
            Backend::Epoll(_) => BackendKind::Epoll,
        }
    }
}

//! The reactor: a loop and its thread.

use crate::backend::Backend;
use crate::{BackendKind, Config, Handler, LoopIo, Pulse, Waker};
use std::io;

/// The real loop of one shard. It stays on the thread that made it.
///
/// Dropping it cancels what is in flight and waits for what cannot be cancelled (a write the drive has begun): memory
/// of operations is never freed under the kernel's hands.
pub struct Reactor {
    io: LoopIo,
}

impl Reactor {
    /// Errors: no descriptors or memory; no io_uring though [`BackendKind::Uring`] asks for it.
    ///
    /// Panics if the number of receive buffers in `config` is not a power of two.
    pub fn new(config: Config) -> io::Result<Reactor> {
        Ok(Reactor { io: LoopIo::new(config)? })
    }

    /// For commands before the loop runs: listen, open files, set timers.
    pub fn io(&mut self) -> &mut LoopIo {
        &mut self.io
    }

    /// Runs until [`crate::Io::stop`]. May be called again.
    pub fn run<H: Handler<LoopIo>>(&mut self, handler: &mut H) -> io::Result<()> {
        self.io.run(handler)
    }

    /// A handle with which other threads make the handler see [`crate::Event::Woken`].
    pub fn waker(&self) -> Waker {
        self.io.waker.clone()
    }

    /// A handle with which other threads see whether the loop moves.
    pub fn pulse(&self) -> Pulse {
        self.io.pulse.clone()
    }

    /// What carries the loop; never [`BackendKind::Auto`].
    pub fn backend(&self) -> BackendKind {
        match &self.io.backend {
            Backend::Uring(_) => BackendKind::Uring,
            Backend::Epoll(_) => BackendKind::Epoll,
        }
    }
}

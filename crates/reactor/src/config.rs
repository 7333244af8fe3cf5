//! Limits and choices of one reactor.

use crate::Waker;
use std::path::PathBuf;
use std::time::Duration;
use stdx::BootClock;

/// Which kernel interface carries the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendKind {
    /// io_uring; epoll and a thread pool where io_uring is forbidden or older than Linux 6.1's, with a warning.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// epoll for sockets, a pool of threads for disks.
    Epoll,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub backend: BackendKind,
    /// Entries of the submission queue; more are submitted in several calls.
    pub queue_entries: u32,
    /// Size of one receive buffer. A message larger than this arrives in pieces.
    pub receive_buffer_bytes: usize,
    /// Receive buffers, shared by all connections: idle connections hold none. A power of two.
    pub receive_buffers: u16,
    /// Connections beyond this are accepted and closed at once; connects fail. Listeners may have limits of their own,
    /// see [`crate::Io::limit_accepted`].
    pub connections_max: usize,
    /// Bytes of free buffers kept for bulk data.
    pub pool_bytes_max: usize,
    /// How long [`crate::Io::close`] may take to send what is queued and to see the peer's end.
    pub close_linger: Duration,
    /// How long a listener rests after an accept failed for lack of descriptors or memory.
    pub accept_backoff: Duration,
    /// Threads that do disk requests where there is no io_uring.
    pub disk_threads: usize,
    /// The waker of this reactor, for those who need to know it before the reactor exists.
    pub waker: Option<Waker>,
    /// Where this reactor's time begins, if not now: several in one process that have it in common can compare times.
    pub started: Option<BootClock>,
    /// Record all that is written to files here, for tests; see [`crate::Recording`]. Costs time and space.
    pub record: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            backend: BackendKind::Auto,
            queue_entries: 256,
            receive_buffer_bytes: 32 << 10,
            receive_buffers: 32,
            connections_max: 8192,
            pool_bytes_max: 32 << 20,
            close_linger: Duration::from_secs(5),
            accept_backoff: Duration::from_millis(100),
            disk_threads: 4,
            waker: None,
            started: None,
            record: None,
        }
    }
}

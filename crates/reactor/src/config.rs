//! Configuration of one reactor.

use crate::Waker;
use std::path::PathBuf;
use std::time::Duration;
use stdx::BootClock;

/// Kernel interface that carries the loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BackendKind {
    /// io_uring; or, with a warning, epoll and a thread pool where io_uring is forbidden or older than Linux 6.1's.
    #[default]
    Auto,
    /// io_uring, or an error.
    Uring,
    /// epoll for sockets, a pool of threads for disks.
    Epoll,
}

#[derive(Clone, Debug)]
pub struct Config {
    pub backend: BackendKind,
    /// Number of entries of the submission queue; more operations are submitted in several calls.
    pub queue_entries: u32,
    /// Size of one receive buffer. A larger message arrives in pieces.
    pub receive_buffer_bytes: usize,
    /// Number of receive buffers, a power of two. All connections share them: idle ones hold none.
    pub receive_buffers: u16,
    /// Largest number of connections. Further ones are accepted and closed at once; connects fail. Listeners may have
    /// limits of their own, see [`crate::Io::limit_accepted`].
    pub connections_max: usize,
    /// Bytes of free buffers kept for bulk data.
    pub pool_bytes_max: usize,
    /// Longest time for [`crate::Io::close`] to send queued bytes and to see the peer's end.
    pub close_linger: Duration,
    /// Pause of a listener after an accept failed for lack of descriptors or memory.
    pub accept_backoff: Duration,
    /// Number of threads for disk requests where there is no io_uring.
    pub disk_threads: usize,
    /// The reactor's waker, for owners that need it before the reactor exists.
    pub waker: Option<Waker>,
    /// Start of the reactor's clock, if it is not now. Reactors of one process with a common start can compare times.
    pub started: Option<BootClock>,
    /// File in which to record all requests to files, for tests; see [`crate::Recording`]. Costs time and space.
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

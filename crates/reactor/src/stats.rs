//! Counters of a reactor.

use std::time::Duration;

/// Counters since the reactor was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stats {
    /// Turns of the loop. An idle reactor makes none.
    pub turns: u64,
    /// System calls that submit or wait: `io_uring_enter` or `epoll_wait`.
    pub enters: u64,
    /// Completions of operations, partial ones included.
    pub completions: u64,
    pub bytes_received: u64,
    /// Number of received bytes that the kernel put straight into aligned buffers.
    pub bytes_received_bulk: u64,
    pub bytes_sent: u64,
    /// Send operations; each carries everything that a connection had queued.
    pub sends: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Bytes copied because their memory did not suit direct I/O.
    pub bytes_realigned: u64,
    pub flushes: u64,
    pub accepted: u64,
    /// Connections closed at once because there were too many.
    pub refused: u64,
    /// Receives postponed because all receive buffers were taken.
    pub receive_buffers_missing: u64,
    pub connections: u64,
    /// The longest call of the handler among the turns sampled (one in sixteen).
    pub handler_longest: Duration,
    /// Longest time between the return of a waiting call and the next waiting call.
    pub turn_longest: Duration,
}

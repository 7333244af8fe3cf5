//! Commands that a handler can give.

use crate::{ConnId, FileId, ListenerId, Stats};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use types::{AlignedBuf, BufPool, Utime};

/// Options of [`Io::open_file`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileOptions {
    /// Bypass the page cache (`O_DIRECT`). If the file system cannot, the file is opened without, and a warning is
    /// logged once; its pages in the page cache are then flushed and dropped, because after a failed flush they may not
    /// be on the disk.
    pub direct: bool,
    /// Create the file if it does not exist.
    pub create: bool,
    /// Grow the file to at least this many bytes. Ignored for block devices.
    pub len_bytes: u64,
    /// Allocate the bytes of `len_bytes` instead of leaving the file sparse.
    pub preallocate: bool,
    /// Open for reading only: writes and discards fail with `EBADF`. Takes no effect on the lock.
    pub read_only: bool,
    /// Hold an exclusive lock for as long as the file is open; fail with [`io::ErrorKind::WouldBlock`] if another
    /// process holds one, so that two processes never share a store. A block device is claimed as the kernel does for a
    /// mount, so other users of the device are noticed, too: mounts, and processes that reach it by another device
    /// node.
    pub lock: bool,
    /// Hold an exclusive lock for a part of the file, (offset, bytes), beside holders of other parts. Waits until
    /// requests of a killed process have ended. Not held on network file systems.
    pub lock_part: Option<(u64, u64)>,
}

/// The world as a shard sees it: sockets, files, timers, clocks and randomness.
///
/// Commands never block (except [`Io::open_file`]) and never call the handler; their outcomes arrive as events of this
/// or a later turn. Commands for a connection that is gone do nothing.
pub trait Io {
    /// Time since the reactor was made, by a clock that goes on while the machine sleeps. It never goes back, and is
    /// read at least once per turn. All events and bytes handed over so far came before this time, so it tells if a
    /// message came within the term of a promise, such as a read lease.
    fn now(&self) -> Duration;

    /// The clock of [`Io::now`], read anew: the time since the turn began counts.
    fn clock(&self) -> Duration;

    /// Wall-clock time, for stamps only; may jump.
    fn wall_clock(&self) -> Utime;

    /// Random bytes, good enough for keys.
    fn fill_random(&mut self, out: &mut [u8]);

    fn random(&mut self) -> u64 {
        let mut out = [0; 8];
        self.fill_random(&mut out);
        u64::from_le_bytes(out)
    }

    /// Listens on `addr` (port 0: any free one) and returns the address bound.
    fn listen(&mut self, addr: SocketAddr) -> io::Result<(ListenerId, SocketAddr)>;

    /// Limits the connections that `listener` accepted and that exist at a time; the newest beyond the limit is closed
    /// at once. The default limit is [`crate::Config::connections_max`]. If the limits of all listeners together are
    /// below that, clients cannot use up the connections that this side needs for its own connects.
    fn limit_accepted(&mut self, listener: ListenerId, connections_max: usize);

    /// Stops listening; connections already accepted stay.
    fn close_listener(&mut self, listener: ListenerId);

    /// Starts to connect; [`crate::Event::Connected`] tells the outcome. There is no timeout beyond the kernel's: use a
    /// timer and [`Io::abort`].
    fn connect(&mut self, to: SocketAddr) -> ConnId;

    /// Queues bytes. All bytes queued during a turn go out together, in order. Allowed before the connection is
    /// established. The queue has no limit: watch [`Io::queued_bytes`].
    fn send(&mut self, conn: ConnId, piece: Bytes);

    /// Bytes queued and not yet taken by the kernel.
    fn queued_bytes(&self, conn: ConnId) -> usize;

    /// Stops reading, sends queued bytes, ends the stream, and waits (within a bound, see
    /// [`crate::Config::close_linger`]) for the peer to end its own. [`crate::Event::Closed`] follows.
    /// A connection that is not established yet is aborted.
    fn close(&mut self, conn: ConnId);

    /// Ends the connection now and drops queued bytes. [`crate::Event::Closed`] (or, if it was not yet established,
    /// [`crate::Event::Connected`] with an error) follows.
    fn abort(&mut self, conn: ConnId);

    /// Puts the next `n_bytes` (at least one) of the stream into one aligned buffer, which comes with
    /// [`crate::Event::BulkReceived`] before any later bytes. Allowed while handling [`crate::Handler::received`] or
    /// `BulkReceived` of this connection; at most one bulk at a time.
    fn receive_bulk(&mut self, conn: ConnId, n_bytes: usize);

    /// Delivers no more bytes of this connection until [`Io::resume_reading`]; TCP slows the peer down. Bytes that the
    /// kernel had handed over already (at most one receive buffer, or the bulk) are kept.
    fn pause_reading(&mut self, conn: ConnId);

    fn resume_reading(&mut self, conn: ConnId);

    /// A buffer from the pool, with arbitrary contents.
    fn buffer(&mut self, len: usize) -> AlignedBuf;

    /// The pool of [`Io::buffer`] and of bulk data.
    fn buffers(&self) -> BufPool;

    /// Opens a file or block device. It blocks, so it is meant for the start.
    fn open_file(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId>;

    /// Closes the file once its outstanding requests are done; their events still follow.
    fn close_file(&mut self, file: FileId);

    /// Length of the file or size of the device.
    fn file_len_bytes(&self, file: FileId) -> io::Result<u64>;

    /// True for a file in a file system, which may be sparse; false for a device.
    fn is_regular_file(&self, file: FileId) -> io::Result<bool>;

    /// Fills `buf` from `offset`. With direct I/O, offset and length of reads, writes and discards are multiples of 4
    /// KiB.
    fn read(&mut self, file: FileId, offset: u64, buf: AlignedBuf, io: u64);

    /// Writes the pieces consecutively from `offset`. Pieces whose memory does not suit direct I/O are copied first.
    fn write(&mut self, file: FileId, offset: u64, pieces: Vec<Bytes>, io: u64);

    /// Makes durable every write whose [`crate::Event::Disk`] came before this call. Requests are not ordered among
    /// each other.
    fn flush(&mut self, file: FileId, io: u64);

    /// Gives the range back to the file system or device. Later reads give zeros (files) or any bytes (devices).
    fn discard(&mut self, file: FileId, offset: u64, len: u64, io: u64);

    /// Sets the timer `token` to `at` (on the clock of [`Io::now`]); moves it if it is set already.
    fn set_timer(&mut self, at: Duration, token: u64);

    fn cancel_timer(&mut self, token: u64);

    fn stats(&self) -> Stats;

    /// Ends the loop after this turn. Commands of this turn are still submitted to the kernel, but not waited for.
    fn stop(&mut self);
}

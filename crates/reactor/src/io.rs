//! The commands a handler gives.

use crate::{ConnId, FileId, ListenerId, Stats};
use bytes::Bytes;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use types::{AlignedBuf, Utime};

/// How [`Io::open_file`] opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FileOptions {
    /// Go around the page cache (`O_DIRECT`). Where the file system cannot, the file is opened without, and a warning
    /// is logged once; what the page cache has of it is flushed and dropped, since after a flush that failed it need
    /// not be on the disk.
    pub direct: bool,
    /// Create the file if there is none.
    pub create: bool,
    /// Grow the file to at least this many bytes. Ignored for block devices.
    pub len_bytes: u64,
    /// Allocate the bytes of `len_bytes` instead of leaving the file sparse.
    pub preallocate: bool,
    /// Open for reading only: writes and discards fail with `EBADF`. Takes no effect on the lock.
    pub read_only: bool,
    /// Hold an exclusive lock for as long as the file is open; fail with [`io::ErrorKind::WouldBlock`] if somebody
    /// else holds one. Two processes never share a store. A block device is claimed as the kernel does for a mount, so
    /// whoever else has it, mounted it, or reaches it by another device node, is noticed, too.
    pub lock: bool,
    /// The same for so many bytes of the file from an offset on, beside others who hold other parts: (offset, bytes).
    /// Waits until requests of a process that was killed have ended. Not held on network file systems.
    pub lock_part: Option<(u64, u64)>,
}

/// The world as a shard sees it: sockets, files, timers, clocks and randomness.
///
/// Commands never block (except [`Io::open_file`]) and never call the handler; their outcomes arrive as events of this or
/// a later turn. Commands that name a connection which is gone do nothing.
pub trait Io {
    /// Time since the reactor was made, by a clock that goes on while the machine sleeps. It never goes back, and is
    /// read once per turn or more often: all that was handed over so far had come before this time. So who may do
    /// something until a time, and a message that asks for it, can be judged by this.
    fn now(&self) -> Duration;

    /// The same clock, read anew: what has passed since the turn began counts.
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

    /// So many connections that `listener` accepted may stand at a time; the newest beyond them is closed at once.
    /// Until this is called, as many as [`crate::Config::connections_max`] allows in all. Where the limits of all
    /// listeners together leave some of that, nobody who connects to this side can use up what it needs for its own
    /// connects.
    fn limit_accepted(&mut self, listener: ListenerId, connections_max: usize);

    /// Stops listening; connections already accepted stay.
    fn close_listener(&mut self, listener: ListenerId);

    /// Starts to connect; [`crate::Event::Connected`] tells the outcome. There is no timeout beyond the kernel's: set
    /// a timer and [`Io::abort`].
    fn connect(&mut self, to: SocketAddr) -> ConnId;

    /// Queues bytes. All that is queued during a turn goes out together, in order. Allowed before the connection is
    /// established. Nothing limits the queue: watch [`Io::queued_bytes`].
    fn send(&mut self, conn: ConnId, piece: Bytes);

    /// Bytes queued and not yet taken by the kernel.
    fn queued_bytes(&self, conn: ConnId) -> usize;

    /// Stops reading, sends what is queued, ends the stream, and waits (within a bound, see
    /// [`crate::Config::close_linger`]) for the peer to end its own. Then [`crate::Event::Closed`].
    /// A connection that is not established yet is aborted.
    fn close(&mut self, conn: ConnId);

    /// Ends the connection now and drops what is queued. [`crate::Event::Closed`] (or, if it was not yet established,
    /// [`crate::Event::Connected`] with an error) follows.
    fn abort(&mut self, conn: ConnId);

    /// Has the next `n_bytes` (at least one) of the stream put into one aligned buffer, which comes with
    /// [`crate::Event::BulkReceived`] before anything behind it. To be called while handling [`crate::Handler::received`] or
    /// `BulkReceived` of this connection; at most one at a time.
    fn receive_bulk(&mut self, conn: ConnId, n_bytes: usize);

    /// Delivers nothing more of this connection until [`Io::resume_reading`]; the peer is slowed down by TCP. What the
    /// kernel had handed over already (at most one receive buffer, or the bulk) is kept.
    fn pause_reading(&mut self, conn: ConnId);

    fn resume_reading(&mut self, conn: ConnId);

    /// A buffer from the pool, with arbitrary contents.
    fn buffer(&mut self, len: usize) -> AlignedBuf;

    /// Opens a file or block device. Blocks: for start-up.
    fn open_file(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId>;

    /// Closes the file once its outstanding requests are done; their events still come.
    fn close_file(&mut self, file: FileId);

    /// Length of the file or size of the device.
    fn file_len_bytes(&self, file: FileId) -> io::Result<u64>;

    /// Whether this is a file in a file system, which may be sparse, rather than a device.
    fn is_regular_file(&self, file: FileId) -> io::Result<bool>;

    /// Fills `buf` from `offset`. With direct I/O offset and length are multiples of 4 KiB, here and below.
    fn read(&mut self, file: FileId, offset: u64, buf: AlignedBuf, io: u64);

    /// Writes the pieces one behind the other from `offset`. Pieces whose memory does not suit direct I/O are copied
    /// first.
    fn write(&mut self, file: FileId, offset: u64, pieces: Vec<Bytes>, io: u64);

    /// Makes durable every write whose [`crate::Event::Disk`] had come before this call. Requests are not ordered
    /// among each other.
    fn flush(&mut self, file: FileId, io: u64);

    /// Gives the range back to the file system or device; reads give zeros (files) or anything (devices).
    fn discard(&mut self, file: FileId, offset: u64, len: u64, io: u64);

    /// Sets the timer `token` to `at` (on the clock of [`Io::now`]), moving it if it is set already.
    fn set_timer(&mut self, at: Duration, token: u64);

    fn cancel_timer(&mut self, token: u64);

    fn stats(&self) -> Stats;

    /// Ends the loop after this turn; commands of this turn are still handed to the kernel, not waited for.
    fn stop(&mut self);
}

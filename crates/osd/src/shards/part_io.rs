//! A loop as one of several shards in it sees it. The numbers of requests and timers tell which shard they belong to.

use bytes::Bytes;
use reactor::{ConnId, Event, FileId, FileOptions, Io, ListenerId, Stats};
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use types::{AlignedBuf, BufPool, Utime};

/// Bits of a number from this one on hold the shard. The numbers of stores and timers stay below.
const PART_SHIFT: u32 = 56;

fn of_part(number: u64, shard: u64) -> u64 {
    debug_assert!(number < 1 << PART_SHIFT);
    number | shard << PART_SHIFT
}

/// The shard that an event concerns. It is the first shard unless the event is about another shard's file or timer.
pub(super) fn part_of(event: &Event) -> usize {
    match event {
        Event::Disk { io: number, .. } | Event::Timer { token: number } => (number >> PART_SHIFT) as usize,
        _ => 0,
    }
}

/// The event in the form that its shard knows.
pub(super) fn without_part(event: Event) -> Event {
    const OWN: u64 = (1 << PART_SHIFT) - 1;
    match event {
        Event::Disk { io, result } => Event::Disk { io: io & OWN, result },
        Event::Timer { token } => Event::Timer { token: token & OWN },
        other => other,
    }
}

/// The loop for one shard.
pub(super) struct PartIo<'a, I> {
    io: &'a mut I,
    shard: u64,
}

impl<'a, I: Io> PartIo<'a, I> {
    pub fn new(io: &'a mut I, shard: usize) -> PartIo<'a, I> {
        PartIo { io, shard: shard as u64 }
    }
}

impl<I: Io> Io for PartIo<'_, I> {
    fn now(&self) -> Duration {
        self.io.now()
    }

    fn clock(&self) -> Duration {
        self.io.clock()
    }

    fn wall_clock(&self) -> Utime {
        self.io.wall_clock()
    }

    fn fill_random(&mut self, out: &mut [u8]) {
        self.io.fill_random(out);
    }

    fn listen(&mut self, addr: SocketAddr) -> io::Result<(ListenerId, SocketAddr)> {
        self.io.listen(addr)
    }

    fn limit_accepted(&mut self, listener: ListenerId, connections_max: usize) {
        self.io.limit_accepted(listener, connections_max);
    }

    fn close_listener(&mut self, listener: ListenerId) {
        self.io.close_listener(listener);
    }

    fn connect(&mut self, to: SocketAddr) -> ConnId {
        self.io.connect(to)
    }

    fn send(&mut self, conn: ConnId, piece: Bytes) {
        self.io.send(conn, piece);
    }

    fn queued_bytes(&self, conn: ConnId) -> usize {
        self.io.queued_bytes(conn)
    }

    fn close(&mut self, conn: ConnId) {
        self.io.close(conn);
    }

    fn abort(&mut self, conn: ConnId) {
        self.io.abort(conn);
    }

    fn receive_bulk(&mut self, conn: ConnId, n_bytes: usize) {
        self.io.receive_bulk(conn, n_bytes);
    }

    fn pause_reading(&mut self, conn: ConnId) {
        self.io.pause_reading(conn);
    }

    fn resume_reading(&mut self, conn: ConnId) {
        self.io.resume_reading(conn);
    }

    fn buffer(&mut self, len: usize) -> AlignedBuf {
        self.io.buffer(len)
    }

    fn buffers(&self) -> BufPool {
        self.io.buffers()
    }

    fn open_file(&mut self, path: &Path, options: FileOptions) -> io::Result<FileId> {
        self.io.open_file(path, options)
    }

    fn close_file(&mut self, file: FileId) {
        self.io.close_file(file);
    }

    fn file_len_bytes(&self, file: FileId) -> io::Result<u64> {
        self.io.file_len_bytes(file)
    }

    fn is_regular_file(&self, file: FileId) -> io::Result<bool> {
        self.io.is_regular_file(file)
    }

    fn read(&mut self, file: FileId, offset: u64, buf: AlignedBuf, io: u64) {
        self.io.read(file, offset, buf, of_part(io, self.shard));
    }

    fn write(&mut self, file: FileId, offset: u64, pieces: Vec<Bytes>, io: u64) {
        self.io.write(file, offset, pieces, of_part(io, self.shard));
    }

    fn flush(&mut self, file: FileId, io: u64) {
        self.io.flush(file, of_part(io, self.shard));
    }

    fn discard(&mut self, file: FileId, offset: u64, len: u64, io: u64) {
        self.io.discard(file, offset, len, of_part(io, self.shard));
    }

    fn set_timer(&mut self, at: Duration, token: u64) {
        self.io.set_timer(at, of_part(token, self.shard));
    }

    fn cancel_timer(&mut self, token: u64) {
        self.io.cancel_timer(of_part(token, self.shard));
    }

    fn stats(&self) -> Stats {
        self.io.stats()
    }

    /// A shard that is not the first does not end the loop; the first one does.
    fn stop(&mut self) {}
}

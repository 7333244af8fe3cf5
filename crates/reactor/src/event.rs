//! What a shard is told, and who is told.

use crate::{ConnId, Io, ListenerId};
use std::io;
use std::net::SocketAddr;
use types::AlignedBuf;

/// Something that happened since the last turn. Received bytes come through [`Handler::received`] instead.
#[derive(Debug)]
pub enum Event {
    /// A listener has a new connection; it is being read from now on.
    Accepted { listener: ListenerId, conn: ConnId, peer: SocketAddr },
    /// The outcome of [`Io::connect`]: our own address, or why there is no connection. After an error nothing more
    /// comes for this connection.
    Connected { conn: ConnId, result: io::Result<SocketAddr> },
    /// The buffer asked for with [`Io::receive_bulk`] is full. Dropping it, or the last [`bytes::Bytes`] made of it,
    /// gives its memory back to the reactor's pool.
    BulkReceived { conn: ConnId, buf: AlignedBuf },
    /// Some of what was queued has gone to the kernel; this many bytes still wait.
    Sent { conn: ConnId, queued_bytes: usize },
    /// The connection is gone. The last event of every connection that was accepted or connected, exactly once,
    /// whoever ended it.
    Closed { conn: ConnId, cause: String },
    /// The outcome of a disk request, named by the `io` given with it: the filled buffer of a read, the errno of a
    /// failure. A request is done entirely or it failed; a read past the end of the file is `EIO`.
    Disk { io: u64, result: Result<Option<AlignedBuf>, i32> },
    /// A timer is due. It is gone now.
    Timer { token: u64 },
    /// [`crate::Waker::wake`] was called at least once since the last time.
    Woken,
}

/// The owner of a shard's state, called by the loop.
///
/// Generic over the world it runs in: the real loop ([`crate::Reactor`]) or the simulated one ([`crate::sim::World`]).
/// Nothing is called from within a command of [`Io`].
pub trait Handler<I: Io> {
    /// The next bytes of the stream, in order. Returns how many of them were taken, at least one.
    ///
    /// The rest is delivered again at once, unless the handler has
    /// * called [`Io::receive_bulk`]: then the rest is the beginning of the bulk;
    /// * called [`Io::pause_reading`]: then the rest is delivered after [`Io::resume_reading`];
    /// * called [`Io::close`] or [`Io::abort`]: then the rest is dropped.
    ///
    /// In these three cases it may also have taken none. Taking none without a reason, or more than there were, panics.
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize;

    fn event(&mut self, io: &mut I, event: Event);

    /// Every event of this turn has been handled; what is queued now goes out with one system call. The place where
    /// the outputs of a turn are collected: one WAL write, one send per peer.
    fn turn_end(&mut self, io: &mut I) {
        let _ = io;
    }
}

impl<I: Io, H: Handler<I> + ?Sized> Handler<I> for Box<H> {
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize {
        (**self).received(io, conn, bytes)
    }

    fn event(&mut self, io: &mut I, event: Event) {
        (**self).event(io, event);
    }

    fn turn_end(&mut self, io: &mut I) {
        (**self).turn_end(io);
    }
}

//! Events of a shard, and the handler that gets them.

use crate::{ConnId, Io, ListenerId};
use std::io;
use std::net::SocketAddr;
use types::AlignedBuf;

/// Something that happened since the last turn. Received bytes come through [`Handler::received`] instead.
#[derive(Debug)]
pub enum Event {
    /// A listener has a new connection, which is read from now on.
    Accepted { listener: ListenerId, conn: ConnId, peer: SocketAddr },
    /// The outcome of [`Io::connect`]: our own address, or the error. After an error no more events of this connection
    /// follow.
    Connected { conn: ConnId, result: io::Result<SocketAddr> },
    /// The buffer asked for with [`Io::receive_bulk`] is full. Dropping it, or the last [`bytes::Bytes`] made of it,
    /// gives its memory back to the reactor's pool.
    BulkReceived { conn: ConnId, buf: AlignedBuf },
    /// The kernel has taken some queued bytes; this many still wait. See [`Handler::heeds_sent`].
    Sent { conn: ConnId, queued_bytes: usize },
    /// The connection is gone. This is the last event of every connection that was accepted or connected; it comes
    /// exactly once, whichever side ended the connection.
    Closed { conn: ConnId, cause: String },
    /// The outcome of a disk request, named by its `io`: the filled buffer of a read, or the errno of a failure. A
    /// request is done entirely or it failed; a read past the end of the file is `EIO`.
    Disk { io: u64, result: Result<Option<AlignedBuf>, i32> },
    /// A timer was due, and is unset now.
    Timer { token: u64 },
    /// [`crate::Waker::wake`] was called at least once since the last `Woken`.
    Woken,
}

/// The owner of a shard's state, called by the loop.
///
/// It is generic over the world that it runs in: the real loop ([`crate::Reactor`]) or the simulated one
/// ([`crate::sim::World`]). A command of [`Io`] never calls the handler.
pub trait Handler<I: Io> {
    /// Handles the next bytes of the stream, in order. Returns how many of them were taken, at least one.
    ///
    /// The rest is delivered again at once, unless the handler has
    /// * called [`Io::receive_bulk`]: then the rest is the beginning of the bulk;
    /// * called [`Io::pause_reading`]: then the rest is delivered after [`Io::resume_reading`];
    /// * called [`Io::close`] or [`Io::abort`]: then the rest is dropped.
    ///
    /// In these three cases the handler may also take none. The loop panics if the handler takes none without such a
    /// reason, or more than there were.
    fn received(&mut self, io: &mut I, conn: ConnId, bytes: &[u8]) -> usize;

    fn event(&mut self, io: &mut I, event: Event);

    /// Every event of this turn has been handled; one system call now carries out everything that is queued. Handlers
    /// collect the outputs of a turn here: one WAL write, one send per peer.
    fn turn_end(&mut self, io: &mut I) {
        let _ = io;
    }

    /// Returns true if the handler wants [`Event::Sent`] of every send that ends before its next turn. If not, sends
    /// that take all that is queued are no event and make no turn. The loop asks after each turn.
    ///
    /// A handler may do without as long as nothing that it does depends on bytes that it has seen waiting.
    fn heeds_sent(&self) -> bool {
        true
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

    fn heeds_sent(&self) -> bool {
        (**self).heeds_sent()
    }
}

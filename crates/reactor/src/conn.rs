//! The state of one connection, and the table of all connections.

use crate::ConnId;
use crate::outgoing::Outgoing;
use socket2::{SockAddr, Socket};
use std::os::fd::{AsRawFd, RawFd};
use types::AlignedBuf;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    Connecting,
    Open,
    /// [`crate::Io::close`] was called: received bytes are dropped.
    Closing {
        /// All bytes are sent and the stream is ended.
        end_sent: bool,
        peer_ended: bool,
    },
    /// The last event is queued or delivered; the connection waits for operations in flight.
    Dead,
}

/// A buffer that bytes of a stream are received into directly.
pub(crate) struct Bulk {
    pub(crate) buf: AlignedBuf,
    pub(crate) filled: usize,
}

impl Bulk {
    pub(crate) fn is_full(&self) -> bool {
        self.filled == self.buf.len()
    }
}

/// One connection. Boxed in its table, because operations in flight point into `outgoing` and `remote`.
pub(crate) struct Conn {
    pub(crate) id: ConnId,
    pub(crate) socket: Socket,
    pub(crate) remote: SockAddr,
    pub(crate) phase: Phase,
    /// Slot of the listener that accepted the connection.
    pub(crate) accepted_by: Option<usize>,
    /// A connect is in flight.
    pub(crate) connecting: bool,
    /// A receive, of either kind, is in flight.
    pub(crate) receiving: bool,
    pub(crate) sending: bool,
    /// The wait of the loop before which the send in flight, or the last one, was submitted.
    pub(crate) sent_at_wait: u64,
    /// The handler is being called with bytes of this connection. No receive may start meanwhile, because the rest of
    /// those bytes comes first.
    pub(crate) delivering: bool,
    /// The last receive may have left bytes in the socket.
    pub(crate) more_bytes: bool,
    /// The connection is listed among those with new bytes to send.
    pub(crate) dirty: bool,
    pub(crate) paused: bool,
    pub(crate) outgoing: Outgoing,
    pub(crate) bulk: Option<Bulk>,
    /// Bytes that had been received when the handler paused.
    pub(crate) stash: Vec<u8>,
}

impl Conn {
    pub(crate) fn new(id: ConnId, socket: Socket, remote: SockAddr, phase: Phase) -> Box<Conn> {
        Box::new(Conn {
            id,
            socket,
            remote,
            phase,
            accepted_by: None,
            connecting: false,
            receiving: false,
            sending: false,
            sent_at_wait: 0,
            delivering: false,
            more_bytes: false,
            dirty: false,
            paused: false,
            outgoing: Outgoing::default(),
            bulk: None,
            stash: Vec::new(),
        })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    pub(crate) fn in_flight(&self) -> bool {
        self.connecting || self.receiving || self.sending
    }
}

#[derive(Default)]
struct Slot {
    generation: u32,
    conn: Option<Box<Conn>>,
}

/// Connections by slot. A slot's generation changes with each use, so an old id never names a new connection.
#[derive(Default)]
pub(crate) struct ConnTable {
    slots: Vec<Slot>,
    free: Vec<u32>,
    used: usize,
}

impl ConnTable {
    /// Number of connections that hold a slot, including dead ones with operations in flight.
    pub(crate) fn len(&self) -> usize {
        self.used
    }

    /// A new id. [`ConnTable::insert`] makes it take a slot; an id that is not inserted goes to [`ConnTable::discard`].
    pub(crate) fn reserve(&mut self) -> ConnId {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let generation = &mut self.slots[slot as usize].generation;
        *generation = generation.wrapping_add(1);
        ConnId::new(slot, *generation)
    }

    pub(crate) fn insert(&mut self, conn: Box<Conn>) {
        self.used += 1;
        let slot = &mut self.slots[conn.id.slot()];
        assert!(slot.conn.is_none(), "slot of {:?} is taken", conn.id);
        slot.conn = Some(conn);
    }

    pub(crate) fn discard(&mut self, id: ConnId) {
        self.free.push(id.slot() as u32);
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<Box<Conn>> {
        let conn = self.slots[slot].conn.take()?;
        self.used -= 1;
        self.free.push(slot as u32);
        Some(conn)
    }

    /// The connection in a slot that has an operation in flight, and so exists.
    pub(crate) fn at(&mut self, slot: usize) -> &mut Conn {
        self.slots[slot].conn.as_mut().unwrap_or_else(|| panic!("no connection in slot {slot}"))
    }

    pub(crate) fn get(&self, id: ConnId) -> Option<&Conn> {
        self.slots.get(id.slot())?.conn.as_deref().filter(|conn| conn.id == id && conn.phase != Phase::Dead)
    }

    /// The connection, unless it is gone.
    pub(crate) fn get_mut(&mut self, id: ConnId) -> Option<&mut Conn> {
        self.slots.get_mut(id.slot())?.conn.as_deref_mut().filter(|conn| conn.id == id && conn.phase != Phase::Dead)
    }
}

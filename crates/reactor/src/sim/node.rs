//! One simulated machine and the process on it.

use super::node_clock::NodeClock;
use crate::timers::Timers;
use crate::{ConnId, Event, FileId, ListenerId, Stats};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use types::AlignedBuf;

/// An entry that waits for a node's next turn.
pub(crate) enum Inbox {
    Event(Event),
    /// A flush of a file has failed, which the event tells.
    FlushFailed {
        file: FileId,
        event: Event,
    },
    /// Bytes, or the end of the stream, may have arrived.
    Readable(ConnId),
    /// Bytes have left the queue.
    Sent(ConnId),
}

pub(crate) enum RequestWork {
    Read {
        buf: AlignedBuf,
    },
    Change(super::disk::Change),
    /// Makes durable the changes before this mark.
    Flush {
        mark: u64,
    },
    /// An empty request.
    Nothing {
        buf: Option<AlignedBuf>,
    },
}

/// How far a turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Turn {
    /// The number of inputs that waited at its beginning and are still to be handed over.
    HandsOver(usize),
    /// The handler is to be told that it ends.
    Ends,
    /// Everything queued during the turn goes out.
    Leaves,
}

/// A disk request in flight.
pub(crate) struct Request {
    pub(crate) io: u64,
    pub(crate) file: FileId,
    pub(crate) offset: u64,
    pub(crate) work: RequestWork,
}

pub(crate) struct OpenFile {
    pub(crate) path: PathBuf,
    pub(crate) outstanding: usize,
    pub(crate) closing: bool,
    pub(crate) lock: bool,
    /// Lost flushes of the file that this opening has been told of.
    pub(crate) lost_seen: u64,
    /// Its handler was told that a flush failed.
    pub(crate) flush_failed: bool,
}

#[derive(Default)]
pub(crate) struct Node {
    /// Number that changes with each start, by which events of a dead process are recognized.
    pub(crate) incarnation: u64,
    pub(crate) running: bool,
    /// The machine has power. Without power it answers nothing; with power, but without a process, it answers with
    /// resets.
    pub(crate) powered: bool,
    pub(crate) stopped: bool,
    pub(crate) clock: NodeClock,
    /// The process gets no turn before this world time.
    pub(crate) paused_until: Duration,
    /// The whole machine stands still until this world time.
    pub(crate) asleep_until: Duration,
    pub(crate) turn_scheduled: bool,
    /// Its handler wants to know of every send, as of its last turn.
    pub(crate) heeds_sent: bool,
    /// Its handler takes time, as far as the weather says so.
    pub(crate) takes_time: bool,
    /// A turn that has begun and goes on later.
    pub(crate) turn: Option<Turn>,
    /// The next turn's time has come before that one ended.
    pub(crate) turn_waits: bool,
    /// Time that [`crate::Io::now`] shows: handlers take time, so it differs from the world's.
    pub(crate) now: Duration,
    pub(crate) inbox: VecDeque<Inbox>,
    pub(crate) timers: Timers<u64>,
    pub(crate) listeners: BTreeMap<ListenerId, SocketAddr>,
    pub(crate) listeners_made: u32,
    /// Limits of listeners that have one.
    pub(crate) accepted_max: BTreeMap<ListenerId, usize>,
    pub(crate) files: Vec<Option<OpenFile>>,
    pub(crate) requests: BTreeMap<u64, Request>,
    pub(crate) dirty: Vec<ConnId>,
    pub(crate) connections: usize,
    pub(crate) stats: Stats,
    /// Difference of the node's wall clock to the world's.
    pub(crate) wall_skew_ms: i64,
    /// Further time that has passed unnoticed by the wall clock.
    pub(crate) wall_behind: Duration,
}

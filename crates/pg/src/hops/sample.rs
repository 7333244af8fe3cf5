//! One operation that is kept, whole.

use super::member::{MemberAck, MemberHops};
use super::times::{OpTimes, Stamp, WaitReasons};
use crate::intake::operations::ClientOp;
use std::time::Duration;
use types::{OsdId, PgId, ReqId};
use wire::msgr::SessionId;

/// Bytes kept of an object's name, and of the description of what is done to it.
const NAME_BYTES_MAX: usize = 64;
const WHAT_BYTES_MAX: usize = 96;

/// A stretch of an operation's time on its primary. They follow each other: together they are the whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Hop {
    /// The time from the first byte of the message to the last.
    Receive,
    /// The time until it was begun: see [`WaitReasons`]; if there is none, operations on the same object came before.
    Wait,
    /// Metadata that was not in memory.
    Lookup,
    /// Data that was not in memory.
    Read,
    /// The time from the update's execution until its writes went to the device: the rest of that turn of the loop, and
    /// commits before it.
    Queue,
    /// Data and log record on their way to the device.
    Write,
    Flush,
    /// The time from when the update was durable here until the last other member had it too.
    Replicas,
    /// The time until the answer was given to the network.
    Answer,
}

impl Hop {
    pub const ALL: [Hop; 9] = [
        Hop::Receive,
        Hop::Wait,
        Hop::Lookup,
        Hop::Read,
        Hop::Queue,
        Hop::Write,
        Hop::Flush,
        Hop::Replicas,
        Hop::Answer,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Hop::Receive => "receive",
            Hop::Wait => "wait",
            Hop::Lookup => "lookup",
            Hop::Read => "read",
            Hop::Queue => "queue",
            Hop::Write => "write",
            Hop::Flush => "flush",
            Hop::Replicas => "replicas",
            Hop::Answer => "answer",
        }
    }
}

/// Another member's part in an update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemberSample {
    pub osd: OsdId,
    /// Stamp of its acknowledgement.
    pub acked: Stamp,
    /// Times that the member says it took. The rest of the time until `acked` went into sending, the network, and
    /// messages waiting to be read.
    pub hops: MemberHops,
}

/// An operation with all that is known of its time. Times are the shard's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpSample {
    pub reqid: ReqId,
    pub session: SessionId,
    pub pg: PgId,
    /// The first bytes of its name.
    pub object: Vec<u8>,
    /// Parts of the operation, shortened.
    pub what: String,
    pub is_write: bool,
    /// Bytes of inputs and outputs.
    pub bytes: u64,
    pub result: i32,
    pub began: Duration,
    pub whole: Stamp,
    pub started: Stamp,
    pub executed: Stamp,
    pub handed_over: Stamp,
    pub written: Stamp,
    pub durable: Stamp,
    pub lookup_us: u32,
    pub read_us: u32,
    pub waits: WaitReasons,
    /// Chosen beforehand; otherwise kept for being slow. Medians are to be taken of those that were chosen.
    pub sampled: bool,
    /// Members that told of their part.
    pub members: Vec<MemberSample>,
    /// The member that acknowledged last; `None` if this OSD was, or nothing was written.
    pub last_member: Option<OsdId>,
    /// Stamp of when it was durable everywhere. [`Stamp::NEVER`] for reads.
    pub replicated: Stamp,
    /// The answer was given to the network; [`Stamp::NEVER`] while it is under way.
    pub answered: Stamp,
}

impl OpSample {
    pub(crate) fn of(pg: PgId, op: &ClientOp) -> OpSample {
        let mut what = String::new();
        for part in &op.op.ops {
            if what.len() >= WHAT_BYTES_MAX {
                what.push_str(" ...");
                break;
            }
            if !what.is_empty() {
                what.push(' ');
            }
            what.extend(part.to_string().chars().take(WHAT_BYTES_MAX));
        }
        OpSample {
            reqid: op.reqid,
            session: op.session,
            object: op.object.name.iter().copied().take(NAME_BYTES_MAX).collect(),
            what,
            bytes: op.op.input_bytes() as u64,
            ..OpSample::bare(pg, op.times, op.may_write)
        }
    }

    pub(super) fn bare(pg: PgId, times: OpTimes, is_write: bool) -> OpSample {
        OpSample {
            reqid: ReqId::default(),
            session: SessionId(0),
            pg,
            object: Vec::new(),
            what: String::new(),
            is_write,
            bytes: 0,
            result: 0,
            began: times.began,
            whole: times.whole,
            started: times.started,
            executed: times.executed,
            handed_over: times.handed_over,
            written: times.written,
            durable: times.durable,
            lookup_us: times.lookup_us,
            read_us: times.read_us,
            waits: times.waits,
            sampled: times.sampled,
            members: Vec::new(),
            last_member: None,
            replicated: Stamp::NEVER,
            answered: Stamp::NEVER,
        }
    }

    pub(crate) fn add_members(&mut self, times: &OpTimes, acks: &[MemberAck]) {
        let sample = |ack: &MemberAck| MemberSample { osd: ack.osd, acked: times.stamp(ack.at), hops: ack.hops };
        self.members.extend(acks.iter().map(sample));
    }

    /// Returns the time from the first byte to the answer.
    pub fn total_us(&self) -> u32 {
        self.answered.0
    }

    /// Returns where the time went, in order. Only for operations that are answered: the durations then add up to
    /// [`OpSample::total_us`].
    pub fn hops(&self) -> Vec<(Hop, u32)> {
        let mut hops = Vec::with_capacity(Hop::ALL.len());
        let mut at = 0;
        // An operation that started anew did in vain what it had done before: a stamp that lies behind `at` ends no
        // stretch of its own.
        let mut until = |hop: Hop, stamp: Stamp| {
            if stamp.happened() {
                hops.push((hop, stamp.0.saturating_sub(at)));
                at = at.max(stamp.0);
            }
        };
        until(Hop::Receive, self.whole);
        let looked_up = |stamp: Stamp| Stamp(stamp.0.min(self.answered.0));
        if self.executed.happened() {
            // Waiting of all kinds before it was executed; whatever is neither lookup nor read was for others' sake.
            let waited = self.lookup_us.saturating_add(self.read_us);
            let begun = Stamp(self.executed.0.saturating_sub(waited).max(self.whole.0));
            until(Hop::Wait, begun);
            until(Hop::Lookup, looked_up(Stamp(begun.0.saturating_add(self.lookup_us))));
            until(Hop::Read, looked_up(Stamp(begun.0.saturating_add(waited))));
        }
        if self.is_write && self.durable.happened() {
            until(Hop::Queue, self.handed_over);
            until(Hop::Write, self.written);
            until(Hop::Flush, self.durable);
            until(Hop::Replicas, self.replicated);
        }
        until(Hop::Answer, self.answered);
        hops
    }
}

//! Messages between servers.

use crate::{Entry, Membership, Position, ServerId};
use bytes::Bytes;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

/// A message with its ends. A receiver drops packets that are not for its own id: its address may have been another
/// server's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packet {
    pub from: ServerId,
    pub to: ServerId,
    pub message: Message,
}

/// A message. `term` is the sender's, except where said. `sent` is the leader's clock in nanoseconds when it sent the
/// message; answers bring it back, so that the leader knows the age of the message that they answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// Asks for a vote in `term` (one above the sender's). Changes nothing at the receiver.
    PreVote {
        term: u64,
        last: Position,
    },
    /// `term`: that of the question if granted, else the sender's own.
    PreVoteReply {
        term: u64,
        granted: bool,
    },
    /// `released`: the leader of this term has handed its leadership to the sender, and is none any more.
    RequestVote {
        term: u64,
        last: Position,
        released: Option<u64>,
    },
    VoteReply {
        term: u64,
        granted: bool,
    },
    /// Entries behind `prev`; a message without entries is a sign of life. Everything up to `commit` is committed.
    Append {
        term: u64,
        prev: Position,
        entries: Vec<Entry>,
        commit: u64,
        sent: u64,
    },
    /// The receiver's log is the leader's up to `matched`, durably.
    Appended {
        term: u64,
        matched: u64,
        sent: u64,
    },
    /// The receiver's log does not have the `prev` of index `prev`; `last` is its last entry where the two logs could
    /// meet.
    AppendRefused {
        term: u64,
        prev: u64,
        last: Position,
        sent: u64,
    },
    /// A piece of a snapshot of `total` bytes; without data, it asks how many bytes the receiver has.
    SnapshotChunk {
        term: u64,
        last: Position,
        membership: Membership,
        total: u64,
        offset: u64,
        data: Bytes,
        sent: u64,
    },
    /// Of the snapshot up to `last`, the receiver has the first `received` bytes.
    SnapshotReceived {
        term: u64,
        last: Position,
        received: u64,
        sent: u64,
    },
    /// Stand for election now: the sender leads no more.
    TimeoutNow {
        term: u64,
    },
}

impl Message {
    pub fn term(&self) -> u64 {
        match self {
            Message::PreVote { term, .. }
            | Message::PreVoteReply { term, .. }
            | Message::RequestVote { term, .. }
            | Message::VoteReply { term, .. }
            | Message::Append { term, .. }
            | Message::Appended { term, .. }
            | Message::AppendRefused { term, .. }
            | Message::SnapshotChunk { term, .. }
            | Message::SnapshotReceived { term, .. }
            | Message::TimeoutNow { term } => *term,
        }
    }
}

impl Encode for Packet {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.from);
            w.put(&self.to);
            w.put(&self.message);
        });
    }
}

impl Decode for Packet {
    const MIN_BYTES: usize = 37;

    fn decode(r: &mut Reader<'_>) -> Result<Packet, DecodeError> {
        let (_, mut r) = r.versioned("raft packet", 1)?;
        Ok(Packet { from: r.get()?, to: r.get()?, message: r.get()? })
    }
}

impl Encode for Message {
    fn encode(&self, w: &mut Writer) {
        let kind = match self {
            Message::PreVote { .. } => 1,
            Message::PreVoteReply { .. } => 2,
            Message::RequestVote { .. } => 3,
            Message::VoteReply { .. } => 4,
            Message::Append { .. } => 5,
            Message::Appended { .. } => 6,
            Message::AppendRefused { .. } => 7,
            Message::SnapshotChunk { .. } => 8,
            Message::SnapshotReceived { .. } => 9,
            Message::TimeoutNow { .. } => 10,
        };
        w.u8(kind);
        w.versioned(1, 1, |w| {
            w.u64(self.term());
            match self {
                Message::PreVote { last, .. } => w.put(last),
                Message::PreVoteReply { granted, .. } | Message::VoteReply { granted, .. } => w.bool(*granted),
                Message::RequestVote { last, released, .. } => {
                    w.put(last);
                    w.bool(released.is_some());
                    w.u64(released.unwrap_or(0));
                }
                Message::Append { prev, entries, commit, sent, .. } => {
                    w.put(prev);
                    w.count(entries.len());
                    entries.iter().for_each(|entry| w.put(entry));
                    w.u64(*commit);
                    w.u64(*sent);
                }
                Message::Appended { matched, sent, .. } => {
                    w.u64(*matched);
                    w.u64(*sent);
                }
                Message::AppendRefused { prev, last, sent, .. } => {
                    w.u64(*prev);
                    w.put(last);
                    w.u64(*sent);
                }
                Message::SnapshotChunk { last, membership, total, offset, data, sent, .. } => {
                    w.put(last);
                    w.put(membership);
                    w.u64(*total);
                    w.u64(*offset);
                    w.blob(data);
                    w.u64(*sent);
                }
                Message::SnapshotReceived { last, received, sent, .. } => {
                    w.put(last);
                    w.u64(*received);
                    w.u64(*sent);
                }
                Message::TimeoutNow { .. } => {}
            }
        });
    }
}

impl Decode for Message {
    const MIN_BYTES: usize = 15;

    fn decode(r: &mut Reader<'_>) -> Result<Message, DecodeError> {
        let kind = r.u8()?;
        let (_, mut r) = r.versioned("raft message", 1)?;
        let term = r.u64()?;
        Ok(match kind {
            1 => Message::PreVote { term, last: r.get()? },
            2 => Message::PreVoteReply { term, granted: r.bool()? },
            3 => {
                let last = r.get()?;
                let (is_released, released) = (r.bool()?, r.u64()?);
                Message::RequestVote { term, last, released: is_released.then_some(released) }
            }
            4 => Message::VoteReply { term, granted: r.bool()? },
            5 => {
                let prev = r.get()?;
                let count = r.count("log entries", Entry::MIN_BYTES)?;
                let entries = (0..count).map(|_| r.get()).collect::<Result<_, _>>()?;
                Message::Append { term, prev, entries, commit: r.u64()?, sent: r.u64()? }
            }
            6 => Message::Appended { term, matched: r.u64()?, sent: r.u64()? },
            7 => Message::AppendRefused { term, prev: r.u64()?, last: r.get()?, sent: r.u64()? },
            8 => Message::SnapshotChunk {
                term,
                last: r.get()?,
                membership: r.get()?,
                total: r.u64()?,
                offset: r.u64()?,
                data: r.blob_bytes()?,
                sent: r.u64()?,
            },
            9 => Message::SnapshotReceived { term, last: r.get()?, received: r.u64()?, sent: r.u64()? },
            10 => Message::TimeoutNow { term },
            kind => return Err(DecodeError::Value { what: "kind of raft message", value: kind.into() }),
        })
    }
}

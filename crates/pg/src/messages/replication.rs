//! Updates on their way to members, and their acknowledgements.

use super::PeerKind;
use super::interval::PgInterval;
use super::steps::{decode_steps, encode_steps, payload};
use crate::coded::undo::Undo;
use crate::group::info::PgInfo;
use crate::group::log::LogEntry;
use crate::hops::MemberHops;
use store::Step;
use types::EVersion;
use wire::{DecodeError, Encode, Envelope, Header, Message, Reader, Rope, Target, Writer};

/// Primary to member: make this update durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOp {
    pub pg: PgInterval,
    pub entry: LogEntry,
    /// Entries of states of the object that come or go with the update. They come before its own entry and follow each
    /// other.
    pub others: Vec<LogEntry>,
    /// The group's information after the update.
    pub info: PgInfo,
    /// Every member has all updates up to here durably.
    pub committed: EVersion,
    pub steps: Vec<Step>,
    /// The acknowledgement is to tell how long it took ([`MemberHops`]).
    pub hops_wanted: bool,
}

/// Versions of the encoding of [`RepOp`]. Each has all fields of those before it. An update is written in the first one
/// that has room for what it says.
mod form {
    /// Most updates.
    pub const PLAIN: u8 = 1;
    /// Adds the wish for stamps, which receivers of old may overlook.
    pub const HOPS_WANTED: u8 = 2;
    /// Adds other objects' entries. Receivers must know this version, since the update is not whole without them.
    pub const OTHERS: u8 = 3;
    /// Allows other objects' entries with undo data, that is, of an erasure-coded group. Receivers must rename their
    /// objects to those of their own shard.
    pub const OTHERS_RENAMED: u8 = 4;
    /// Allows steps that add bytes to an object's bytes ([`Step::Xor`](store::Step::Xor)).
    pub const XOR: u8 = 5;
}

/// An update as the primary sends it. Its parts go on to the primary's own store and log.
#[derive(Clone, Copy)]
pub(crate) struct SentUpdate<'a> {
    pub pg: PgInterval,
    /// The update's own entry, encoded.
    pub entry: &'a [u8],
    pub others: &'a [LogEntry],
    pub info: &'a PgInfo,
    pub committed: EVersion,
    pub steps: &'a [Step],
    pub hops_wanted: bool,
}

impl SentUpdate<'_> {
    /// Returns the message, a [`RepOp`].
    pub fn seal(&self) -> Envelope {
        RepOp::envelope(0, self.to_vec(Target::default()).into(), payload(self.steps))
    }
}

impl Encode for SentUpdate<'_> {
    fn encode(&self, w: &mut Writer) {
        let adds = self.steps.iter().any(|step| matches!(step, Step::Xor { .. }));
        let (version, oldest) = match (self.others.is_empty(), self.hops_wanted) {
            _ if adds => (form::XOR, form::XOR),
            (true, false) => (form::PLAIN, form::PLAIN),
            (true, true) => (form::HOPS_WANTED, form::PLAIN),
            (false, _) if self.others.iter().all(|entry| entry.undo == Undo::Nothing) => (form::OTHERS, form::OTHERS),
            (false, _) => (form::OTHERS_RENAMED, form::OTHERS_RENAMED),
        };
        w.versioned(version, oldest, |w| {
            w.put(&self.pg);
            w.raw(self.entry);
            w.put(self.info);
            w.put(&self.committed);
            encode_steps(self.steps, w);
            if version >= form::HOPS_WANTED {
                w.bool(self.hops_wanted);
            }
            if version >= form::OTHERS {
                w.put(self.others);
            }
        });
    }
}

impl RepOp {
    /// Returns the update's own log entry as it lies in the front of a message that was read.
    pub(crate) fn encoded_entry(envelope: &Envelope) -> Result<&[u8], DecodeError> {
        let (_, mut r) = Reader::new(&envelope.front).versioned("RepOp", form::XOR)?;
        r.get::<PgInterval>()?;
        let (rest, mut head) = (r.peek(), r);
        head.versioned("log entry", u8::MAX)?;
        Ok(&rest[..rest.len() - head.left()])
    }
}

impl Message for RepOp {
    const TYPE: u16 = PeerKind::RepOp.number();

    fn encode_front(&self, w: &mut Writer) {
        let RepOp { pg, entry, others, info, committed, steps, hops_wanted } = self;
        let (pg, entry, committed, hops_wanted) = (*pg, &entry.to_vec(w.target())[..], *committed, *hops_wanted);
        w.put(&SentUpdate { pg, entry, others, info, committed, steps, hops_wanted });
    }

    fn take_data(&mut self) -> Rope {
        let mut payload = Rope::new();
        for step in &mut self.steps {
            if let Step::Write { data, .. } | Step::Xor { data, .. } = step {
                payload.append(std::mem::take(data));
            }
        }
        payload
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<RepOp, DecodeError> {
        let (version, mut r) = front.versioned("RepOp", form::XOR)?;
        let (pg, entry): (PgInterval, LogEntry) = (r.get()?, r.get()?);
        Ok(RepOp {
            info: r.get()?,
            committed: r.get()?,
            steps: decode_steps(&mut r, data, &entry.object)?,
            hops_wanted: version.version >= form::HOPS_WANTED && r.bool()?,
            others: if version.version >= form::OTHERS { r.get()? } else { Vec::new() },
            pg,
            entry,
        })
    }
}

/// Member to primary: durable up to these versions, per group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RepOpReply {
    pub durable: Vec<(PgInterval, EVersion)>,
    /// Times that single updates took here: updates for which that was wanted, and slow ones.
    pub hops: Vec<((PgInterval, EVersion), MemberHops)>,
}

/// Versions of the encoding of [`RepOpReply`].
mod reply_form {
    /// Most acknowledgements.
    pub const PLAIN: u8 = 1;
    /// Adds the hops.
    pub const HOPS: u8 = 2;
}

impl Message for RepOpReply {
    const TYPE: u16 = PeerKind::RepOpReply.number();

    fn encode_front(&self, w: &mut Writer) {
        let version = if self.hops.is_empty() { reply_form::PLAIN } else { reply_form::HOPS };
        w.versioned(version, reply_form::PLAIN, |w| {
            w.put(&self.durable);
            if version >= reply_form::HOPS {
                w.put(&self.hops);
            }
        });
    }

    fn decode(_: &Header, front: &mut Reader<'_>, _: &Rope) -> Result<RepOpReply, DecodeError> {
        let (version, mut r) = front.versioned("RepOpReply", reply_form::HOPS)?;
        let durable = r.get()?;
        Ok(RepOpReply { durable, hops: if version.version >= reply_form::HOPS { r.get()? } else { Vec::new() } })
    }
}

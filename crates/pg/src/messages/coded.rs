//! Messages about shards of erasure-coded groups.

use super::PeerKind;
use super::interval::PgInterval;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId};
use wire::own_message as message;
use wire::{Decode, DecodeError, Encode, Header, Message, Reader, Rope, Writer};

/// Primary to member: send me bytes of your shard of this object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardRead {
    pub pg: PgInterval,
    /// Pairs the answer with the question.
    pub read: u64,
    pub object: ObjectId,
    /// Version that is wanted; no other one counts.
    pub version: EVersion,
    /// A range of the shard; what lies beyond its end is left out.
    pub offset: u64,
    pub len: u64,
    /// True if the attributes are wanted, too.
    pub attrs: bool,
    pub omap_after: OmapAfter,
}

message!(ShardRead = PeerKind::ShardRead.number(), version 2 {
    pg, read, object, version, offset, len, attrs, omap_after
});

/// Entries of an omap that are wanted, too: those behind this key; with the empty key all from the first on, and the
/// header. Software that does not know of them ends its messages before.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapAfter(pub Option<Bytes>);

impl Encode for OmapAfter {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.0);
    }
}

impl Decode for OmapAfter {
    const MIN_BYTES: usize = 0;

    fn decode(r: &mut Reader<'_>) -> Result<OmapAfter, DecodeError> {
        Ok(OmapAfter(if r.is_empty() { None } else { r.get()? }))
    }
}

/// Primary to somebody who served before with a shard that it does not have in the present interval: send me bytes of
/// that. Answered like [`ShardRead`], whose fields these are, but that `pg` names that shard.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StrayRead {
    pub pg: PgInterval,
    pub read: u64,
    pub object: ObjectId,
    pub version: EVersion,
    pub offset: u64,
    pub len: u64,
    pub attrs: bool,
    pub omap_after: OmapAfter,
}

message!(StrayRead = PeerKind::StrayRead.number(), version 2 {
    pg, read, object, version, offset, len, attrs, omap_after
});

impl StrayRead {
    /// Returns the question as a member would be asked it.
    pub fn as_shard_read(&self) -> ShardRead {
        let StrayRead { pg, read, ref object, version, offset, len, attrs, ref omap_after } = *self;
        let (object, omap_after) = (object.clone(), omap_after.clone());
        ShardRead { pg, read, object, version, offset, len, attrs, omap_after }
    }
}

/// Outcome of a [`ShardRead`] or a [`StrayRead`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShardReadOutcome {
    Read,
    /// The version is not here.
    Absent,
    /// The version is here, and cannot be read.
    Bad,
}

/// Answers [`ShardRead`] and [`StrayRead`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ShardReadReply {
    pub pg: PgInterval,
    pub read: u64,
    pub outcome: ShardReadOutcome,
    /// Attributes of the object, if they were asked for.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// A part of the object's omap, if it was asked for.
    pub omap: Option<OmapPage>,
    pub data: Rope,
}

/// Some of an object's omap, in the order of the keys.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OmapPage {
    /// With the first entries only.
    pub header: Bytes,
    pub entries: Vec<(Bytes, Bytes)>,
    /// The omap has further entries behind these.
    pub has_more: bool,
}

impl Encode for OmapPage {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.header);
        w.put(&self.entries);
        w.bool(self.has_more);
    }
}

impl Decode for OmapPage {
    const MIN_BYTES: usize = 9;

    fn decode(r: &mut Reader<'_>) -> Result<OmapPage, DecodeError> {
        Ok(OmapPage { header: r.get()?, entries: r.get()?, has_more: r.bool()? })
    }
}

/// Numbers of the outcomes of a shard's read, in messages.
mod outcome_code {
    pub const READ: u8 = 0;
    pub const ABSENT: u8 = 1;
    pub const BAD: u8 = 2;
}

impl Message for ShardReadReply {
    const TYPE: u16 = PeerKind::ShardReadReply.number();

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.pg);
            w.u64(self.read);
            w.u8(match self.outcome {
                ShardReadOutcome::Read => outcome_code::READ,
                ShardReadOutcome::Absent => outcome_code::ABSENT,
                ShardReadOutcome::Bad => outcome_code::BAD,
            });
            w.put(&self.attrs);
            w.put(&self.omap);
        });
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.data)
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<ShardReadReply, DecodeError> {
        let (_, mut r) = front.versioned("ShardReadReply", 2)?;
        Ok(ShardReadReply {
            pg: r.get()?,
            read: r.u64()?,
            outcome: match r.u8()? {
                outcome_code::READ => ShardReadOutcome::Read,
                outcome_code::ABSENT => ShardReadOutcome::Absent,
                outcome_code::BAD => ShardReadOutcome::Bad,
                other => return Err(DecodeError::Value { what: "outcome of a shard's read", value: other.into() }),
            },
            attrs: r.get::<BTreeMap<Bytes, Bytes>>()?,
            omap: if r.is_empty() { None } else { r.get()? },
            data: data.clone(),
        })
    }
}

/// Primary to member: updates up to here will stay; what is kept to take them back may go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RollForward {
    pub pg: PgInterval,
    pub committed: EVersion,
}

message!(RollForward = PeerKind::RollForward.number(), version 1 { pg, committed });

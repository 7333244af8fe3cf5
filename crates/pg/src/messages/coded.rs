//! Messages about shards of erasure-coded groups.

use super::PeerKind;
use super::interval::PgInterval;
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId};
use wire::own_message as message;
use wire::{DecodeError, Header, Message, Reader, Rope, Writer};

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
}

message!(ShardRead = PeerKind::ShardRead.number(), version 1 { pg, read, object, version, offset, len, attrs });

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
}

message!(StrayRead = PeerKind::StrayRead.number(), version 1 { pg, read, object, version, offset, len, attrs });

impl StrayRead {
    /// Returns the question as a member would be asked it.
    pub fn as_shard_read(&self) -> ShardRead {
        let StrayRead { pg, read, ref object, version, offset, len, attrs } = *self;
        ShardRead { pg, read, object: object.clone(), version, offset, len, attrs }
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
    pub data: Rope,
}

impl Message for ShardReadReply {
    const TYPE: u16 = PeerKind::ShardReadReply.number();

    fn encode_front(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.pg);
            w.u64(self.read);
            w.u8(match self.outcome {
                ShardReadOutcome::Read => 0,
                ShardReadOutcome::Absent => 1,
                ShardReadOutcome::Bad => 2,
            });
            w.put(&self.attrs);
        });
    }

    fn take_data(&mut self) -> Rope {
        std::mem::take(&mut self.data)
    }

    fn decode(_: &Header, front: &mut Reader<'_>, data: &Rope) -> Result<ShardReadReply, DecodeError> {
        let (_, mut r) = front.versioned("ShardReadReply", 1)?;
        Ok(ShardReadReply {
            pg: r.get()?,
            read: r.u64()?,
            outcome: match r.u8()? {
                0 => ShardReadOutcome::Read,
                1 => ShardReadOutcome::Absent,
                2 => ShardReadOutcome::Bad,
                other => return Err(DecodeError::Value { what: "outcome of a shard's read", value: other.into() }),
            },
            attrs: r.get::<BTreeMap<Bytes, Bytes>>()?,
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

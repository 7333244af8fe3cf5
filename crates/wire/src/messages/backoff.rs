//! Requests to a client to hold operations back.

use crate::basic::SPgId;
use crate::envelope::{Header, Message, priority};
use crate::{DecodeError, Reader, Rope, Writer};
use types::{Epoch, ObjectId};

/// Kind of an [`OsdBackoff`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BackoffOp {
    /// From OSD to client: send nothing for these objects.
    Block = 1,
    /// From client to OSD: understood.
    AckBlock = 2,
    /// From OSD to client: send again.
    Unblock = 3,
}

impl BackoffOp {
    /// Number of the kind on the wire.
    const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the kind that has this number on the wire.
    fn of(number: u8) -> Option<BackoffOp> {
        [BackoffOp::Block, BackoffOp::AckBlock, BackoffOp::Unblock].into_iter().find(|op| op.number() == number)
    }
}

/// Holds back operations on the objects `begin .. end` (just `begin` if both are equal). Ceph's `MOSDBackoff`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OsdBackoff {
    pub pgid: SPgId,
    pub epoch: Epoch,
    pub op: BackoffOp,
    /// Id that pairs block, acknowledgement and unblock.
    pub id: u64,
    pub begin: ObjectId,
    pub end: ObjectId,
}

impl Message for OsdBackoff {
    const TYPE: u16 = 61;
    /// Priority of operations. Ceph's OSD takes messages of higher priority first: an acknowledgement of higher
    /// priority would overtake operations sent before it, which would then look as if their client ignored the backoff.
    const PRIORITY: u16 = priority::CLIENT_OP;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.pgid);
        w.put(&self.epoch);
        w.u8(self.op.number());
        w.u64(self.id);
        w.put(&self.begin);
        w.put(&self.end);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<OsdBackoff, DecodeError> {
        let (pgid, epoch) = (r.get()?, r.get()?);
        let number = r.u8()?;
        let op = BackoffOp::of(number).ok_or(DecodeError::Value { what: "backoff", value: number.into() })?;
        Ok(OsdBackoff { pgid, epoch, op, id: r.u64()?, begin: r.get()?, end: r.get()? })
    }
}

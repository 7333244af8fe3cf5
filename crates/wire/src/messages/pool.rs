//! Changes of pools, and requests for space.

use super::paxos::{get_head, put_head};
use super::stats::PoolStat;
use crate::envelope::{Header, Message};
use crate::{DecodeError, Reader, Rope, Writer};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Epoch, Fsid, PoolId, SnapId};

/// Kind of a [`PoolOp`]. The numbers are the protocol's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolOpKind(pub u32);

impl PoolOpKind {
    pub const CREATE: PoolOpKind = PoolOpKind(0x01);
    pub const DELETE: PoolOpKind = PoolOpKind(0x02);
    pub const AUID_CHANGE: PoolOpKind = PoolOpKind(0x03);
    pub const CREATE_SNAP: PoolOpKind = PoolOpKind(0x11);
    pub const DELETE_SNAP: PoolOpKind = PoolOpKind(0x12);
    pub const CREATE_UNMANAGED_SNAP: PoolOpKind = PoolOpKind(0x21);
    pub const DELETE_UNMANAGED_SNAP: PoolOpKind = PoolOpKind(0x22);
}

/// Creates or deletes a pool or a snapshot of one. Ceph's `MPoolOp`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOp {
    pub have: u64,
    pub fsid: Fsid,
    /// Id of the pool; 0 when creating one.
    pub pool: u32,
    pub op: PoolOpKind,
    pub snap: SnapId,
    /// Name of the new pool or snapshot.
    pub name: String,
    /// CRUSH rule of the new pool; -1 for the default.
    pub crush_rule: i16,
}

impl Message for PoolOp {
    const TYPE: u16 = 49;
    const VERSION: u16 = 4;
    const COMPAT: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.fsid);
        w.u32(self.pool);
        w.u32(self.op.0);
        w.u64(0); // once the owner
        w.put(&self.snap);
        w.str(&self.name);
        w.u8(0); // once the rule, when rules had 8 bits
        w.i16(self.crush_rule);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<PoolOp, DecodeError> {
        if header.version < Self::VERSION {
            return Err(DecodeError::Value { what: "layout of a pool operation", value: header.version.into() });
        }
        let (have, fsid, pool, op) = (get_head(r)?, r.get()?, r.u32()?, PoolOpKind(r.u32()?));
        r.skip(8)?;
        let (snap, name) = (r.get()?, r.get()?);
        r.skip(1)?;
        Ok(PoolOp { have, fsid, pool, op, snap, name, crush_rule: r.i16()? })
    }
}

/// The answer to a [`PoolOp`], whose transaction id it carries. The client goes on once it has the map of `epoch`.
/// Ceph's `MPoolOpReply`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolOpReply {
    pub version: u64,
    pub fsid: Fsid,
    /// 0, or a negated error number.
    pub result: i32,
    pub epoch: Epoch,
    /// The id of a new unmanaged snapshot, 64 bits.
    pub response: Option<Bytes>,
}

impl Message for PoolOpReply {
    const TYPE: u16 = 48;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.version);
        w.put(&self.fsid);
        w.i32(self.result);
        w.put(&self.epoch);
        w.put(&self.response);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<PoolOpReply, DecodeError> {
        Ok(PoolOpReply { version: get_head(r)?, fsid: r.get()?, result: r.i32()?, epoch: r.get()?, response: r.get()? })
    }
}

/// Asks for the space of the cluster, or of one pool. Ceph's `MStatfs`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statfs {
    pub have: u64,
    pub fsid: Fsid,
    pub pool: Option<PoolId>,
}

impl Message for Statfs {
    const TYPE: u16 = 13;
    const VERSION: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.fsid);
        w.put(&self.pool);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<Statfs, DecodeError> {
        let (have, fsid) = (get_head(r)?, r.get()?);
        Ok(Statfs { have, fsid, pool: if header.version >= 2 { r.get()? } else { None } })
    }
}

/// The answer to a [`Statfs`], whose transaction id it carries. Ceph's `MStatfsReply`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct StatfsReply {
    pub fsid: Fsid,
    pub version: u64,
    pub kib: u64,
    pub kib_used: u64,
    pub kib_avail: u64,
    pub objects: u64,
}

impl Message for StatfsReply {
    const TYPE: u16 = 14;

    fn encode_front(&self, w: &mut Writer) {
        w.put(&self.fsid);
        w.u64(self.version);
        w.u64(self.kib);
        w.u64(self.kib_used);
        w.u64(self.kib_avail);
        w.u64(self.objects);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<StatfsReply, DecodeError> {
        Ok(StatfsReply {
            fsid: r.get()?,
            version: r.u64()?,
            kib: r.u64()?,
            kib_used: r.u64()?,
            kib_avail: r.u64()?,
            objects: r.u64()?,
        })
    }
}

/// Asks for statistics of pools by name. Ceph's `MGetPoolStats`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetPoolStats {
    pub have: u64,
    pub fsid: Fsid,
    pub pools: Vec<String>,
}

impl Message for GetPoolStats {
    const TYPE: u16 = 58;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.have);
        w.put(&self.fsid);
        w.put(&self.pools);
    }

    fn decode(_: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<GetPoolStats, DecodeError> {
        Ok(GetPoolStats { have: get_head(r)?, fsid: r.get()?, pools: r.get()? })
    }
}

/// The answer to a [`GetPoolStats`], whose transaction id it carries. Ceph's `MGetPoolStatsReply`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GetPoolStatsReply {
    pub version: u64,
    pub fsid: Fsid,
    pub stats: BTreeMap<String, PoolStat>,
    /// True if space is accounted pool by pool; otherwise clients estimate it from sizes and numbers of replicas.
    pub per_pool: bool,
}

impl Message for GetPoolStatsReply {
    const TYPE: u16 = 59;
    const VERSION: u16 = 2;

    fn encode_front(&self, w: &mut Writer) {
        put_head(w, self.version);
        w.put(&self.fsid);
        w.put(&self.stats);
        w.bool(self.per_pool);
    }

    fn decode(header: &Header, r: &mut Reader<'_>, _: &Rope) -> Result<GetPoolStatsReply, DecodeError> {
        let (version, fsid, stats) = (get_head(r)?, r.get()?, r.get()?);
        Ok(GetPoolStatsReply { version, fsid, stats, per_pool: header.version >= 2 && r.bool()? })
    }
}

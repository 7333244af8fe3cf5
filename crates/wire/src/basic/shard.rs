//! Placement groups and OSDs with the shard of an erasure-coded stripe that they hold.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use std::fmt;
use types::{OsdId, PgId};

/// Shard number of replicated placement groups, which have none.
pub const NO_SHARD: i8 = -1;

/// One shard of a placement group. Ceph's `spg_t`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SPgId {
    pub pg: PgId,
    /// 0 and above in erasure-coded pools, else [`NO_SHARD`].
    pub shard: i8,
}

impl SPgId {
    /// The placement group of a replicated pool.
    pub const fn replicated(pg: PgId) -> SPgId {
        SPgId { pg, shard: NO_SHARD }
    }
}

impl Default for SPgId {
    fn default() -> SPgId {
        SPgId::replicated(PgId::default())
    }
}

/// Format: `1.2f`, with shard `1.2fs0`.
impl fmt::Display for SPgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            NO_SHARD => self.pg.fmt(f),
            shard => write!(f, "{}s{shard}", self.pg),
        }
    }
}

impl Encode for SPgId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.pg);
            w.i8(self.shard);
        });
    }
}

impl Decode for SPgId {
    const MIN_BYTES: usize = 24;

    fn decode(r: &mut Reader<'_>) -> Result<SPgId, DecodeError> {
        let (_, mut r) = r.versioned("sharded pg id", 1)?;
        Ok(SPgId { pg: r.get()?, shard: r.i8()? })
    }
}

/// An OSD in the role of one shard. Ceph's `pg_shard_t`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PgShard {
    pub osd: OsdId,
    /// As in [`SPgId::shard`].
    pub shard: i8,
}

impl fmt::Display for PgShard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.shard {
            NO_SHARD => write!(f, "{}", self.osd.0),
            shard => write!(f, "{}({shard})", self.osd.0),
        }
    }
}

impl Encode for PgShard {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.put(&self.osd);
            w.i8(self.shard);
        });
    }
}

impl Decode for PgShard {
    const MIN_BYTES: usize = 11;

    fn decode(r: &mut Reader<'_>) -> Result<PgShard, DecodeError> {
        let (_, mut r) = r.versioned("pg shard", 1)?;
        Ok(PgShard { osd: r.get()?, shard: r.i8()? })
    }
}

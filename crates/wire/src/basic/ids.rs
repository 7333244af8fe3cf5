//! Epochs, ids, entity names, request ids.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use types::{EntityName, EntityType, Epoch, Errno, Fsid, OsdId, PgId, PoolId, ReqId, SnapId};

macro_rules! wrapped_integers {
    ($($ty:ident: $int:ident;)*) => {
        $(
            impl Encode for $ty {
                fn encode(&self, w: &mut Writer) { w.$int(self.0) }
            }
            impl Decode for $ty {
                const MIN_BYTES: usize = size_of::<$ty>();
                fn decode(r: &mut Reader<'_>) -> Result<$ty, DecodeError> { r.$int().map($ty) }
            }
        )*
    };
}

wrapped_integers! {
    Epoch: u32;
    OsdId: i32;
    PoolId: i64;
    SnapId: u64;
    EntityType: u8;
    // `errorcode32_t`. Results carry it negated; messages handle the sign.
    Errno: i32;
}

/// `uuid_d`.
impl Encode for Fsid {
    fn encode(&self, w: &mut Writer) {
        w.raw(&self.0);
    }
}

impl Decode for Fsid {
    const MIN_BYTES: usize = 16;

    fn decode(r: &mut Reader<'_>) -> Result<Fsid, DecodeError> {
        r.array().map(Fsid)
    }
}

/// `pg_t`. Its last field, the once-preferred OSD, has long been -1.
impl Encode for PgId {
    fn encode(&self, w: &mut Writer) {
        w.u8(1);
        w.put(&self.pool);
        w.u32(self.seed);
        w.i32(-1);
    }
}

impl Decode for PgId {
    const MIN_BYTES: usize = 17;

    fn decode(r: &mut Reader<'_>) -> Result<PgId, DecodeError> {
        let version = r.u8()?;
        if version != 1 {
            return Err(DecodeError::Value { what: "pg id version", value: version.into() });
        }
        let pg = PgId { pool: r.get()?, seed: r.u32()? };
        r.skip(4)?;
        Ok(pg)
    }
}

/// `entity_name_t`.
impl Encode for EntityName {
    fn encode(&self, w: &mut Writer) {
        w.put(&self.kind);
        w.i64(self.num);
    }
}

impl Decode for EntityName {
    const MIN_BYTES: usize = 9;

    fn decode(r: &mut Reader<'_>) -> Result<EntityName, DecodeError> {
        Ok(EntityName { kind: r.get()?, num: r.i64()? })
    }
}

/// `osd_reqid_t`.
impl Encode for ReqId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 2, |w| {
            w.put(&self.name);
            w.u64(self.tid);
            w.i32(self.inc);
        });
    }
}

impl Decode for ReqId {
    const MIN_BYTES: usize = 27;

    fn decode(r: &mut Reader<'_>) -> Result<ReqId, DecodeError> {
        let (_, mut r) = r.versioned("request id", 2)?;
        Ok(ReqId { name: r.get()?, tid: r.u64()?, inc: r.i32()? })
    }
}

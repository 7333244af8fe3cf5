//! Full names of objects.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use types::{NameBytes, ObjectId, PoolId};

const OBJECT_ID_MIN_BYTES: usize = 33;

fn encode_fields(id: &ObjectId, w: &mut Writer) {
    w.blob(&id.key);
    w.blob(&id.name);
    w.put(&id.snap);
    w.u32(id.hash);
    w.bool(id.max);
    w.blob(&id.nspace);
    w.put(&id.pool);
}

/// Reads an object's fields. Names that `known` has are shared with it.
fn decode_fields(r: &mut Reader<'_>, known: Option<&ObjectId>) -> Result<ObjectId, DecodeError> {
    let shared = |bytes: &[u8], of: fn(&ObjectId) -> &NameBytes| {
        let known = known.map(of).filter(|known| **known == *bytes);
        known.cloned().unwrap_or_else(|| bytes.into())
    };
    let (key, name) = (shared(r.blob()?, |known| &known.key), shared(r.blob()?, |known| &known.name));
    let (snap, hash, max) = (r.get()?, r.u32()?, r.bool()?);
    let (nspace, pool) = (shared(r.blob()?, |known| &known.nspace), r.get()?);
    let mut id = ObjectId { pool, hash, nspace, key, name, snap, max };
    // Old encoders wrote the position before all objects with pool -1, and set further fields on the position after all
    // objects.
    if id == (ObjectId { pool: PoolId(-1), ..ObjectId::min() }) {
        id = ObjectId::min();
    }
    if id.max {
        id = ObjectId::max();
    }
    Ok(id)
}

/// `hobject_t`.
impl Encode for ObjectId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(4, 3, |w| encode_fields(self, w));
    }
}

impl Decode for ObjectId {
    const MIN_BYTES: usize = 6 + OBJECT_ID_MIN_BYTES;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectId, DecodeError> {
        decode(r, None)
    }
}

/// Reads an object's name. Memory of its parts is that of `known`, where these are the same.
pub fn object_or(r: &mut Reader<'_>, known: &ObjectId) -> Result<ObjectId, DecodeError> {
    decode(r, Some(known))
}

fn decode(r: &mut Reader<'_>, known: Option<&ObjectId>) -> Result<ObjectId, DecodeError> {
    let (head, mut r) = r.versioned("object id", 4)?;
    if head.version < 4 {
        return Err(DecodeError::TooOld { what: "object id", version: head.version, oldest: 4 });
    }
    decode_fields(&mut r, known)
}

/// An object as one OSD stores it: with its shard, and the generation that erasure coding keeps for undo. Ceph's
/// `ghobject_t`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct StoredObjectId {
    pub id: ObjectId,
    /// [`StoredObjectId::NO_GENERATION`] for the present one.
    pub generation: u64,
    /// [`crate::basic::NO_SHARD`] in replicated pools.
    pub shard: i8,
    /// The position after all objects of all shards.
    pub max: bool,
}

impl StoredObjectId {
    pub const NO_GENERATION: u64 = u64::MAX;
}

impl Encode for StoredObjectId {
    fn encode(&self, w: &mut Writer) {
        w.versioned(6, 3, |w| {
            encode_fields(&self.id, w);
            w.u64(self.generation);
            w.i8(self.shard);
            w.bool(self.max);
        });
    }
}

impl Decode for StoredObjectId {
    const MIN_BYTES: usize = 6 + OBJECT_ID_MIN_BYTES + 10;

    fn decode(r: &mut Reader<'_>) -> Result<StoredObjectId, DecodeError> {
        let (head, mut r) = r.versioned("stored object id", 6)?;
        if head.version < 6 {
            return Err(DecodeError::TooOld { what: "stored object id", version: head.version, oldest: 6 });
        }
        Ok(StoredObjectId { id: decode_fields(&mut r, None)?, generation: r.u64()?, shard: r.i8()?, max: r.bool()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn cursors_of_old_encoders_are_the_ones_of_today() {
        let old_min = ObjectId { pool: PoolId(-1), ..ObjectId::min() };
        let old_max = ObjectId { pool: PoolId(-1), hash: 5, ..ObjectId::max() };
        for (old, today) in [(old_min, ObjectId::min()), (old_max, ObjectId::max())] {
            assert_eq!(ObjectId::from_slice(&old.to_vec(Target::PACIFIC)), Ok(today));
        }
    }
}

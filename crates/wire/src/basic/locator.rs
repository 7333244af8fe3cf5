//! Where a client looks for an object.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use types::PoolId;

/// Pool, namespace and what replaces the name in placement. Ceph's `object_locator_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locator {
    pub pool: PoolId,
    /// Placement goes by the key instead of the name unless empty.
    pub key: Bytes,
    pub nspace: Bytes,
    /// Placement hash that overrides name and key; -1 for none.
    pub hash: i64,
}

impl Locator {
    const NO_HASH: i64 = -1;

    pub const fn pool(pool: PoolId) -> Locator {
        Locator { pool, key: Bytes::new(), nspace: Bytes::new(), hash: Self::NO_HASH }
    }
}

impl Default for Locator {
    fn default() -> Locator {
        Locator::pool(PoolId(-1))
    }
}

impl Encode for Locator {
    fn encode(&self, w: &mut Writer) {
        // A decoder that does not know the hash would place the object elsewhere.
        let compat = if self.hash == Self::NO_HASH { 3 } else { 6 };
        w.versioned(6, compat, |w| {
            w.put(&self.pool);
            w.i32(-1);
            w.blob(&self.key);
            w.blob(&self.nspace);
            w.i64(self.hash);
        });
    }
}

impl Decode for Locator {
    const MIN_BYTES: usize = 34;

    fn decode(r: &mut Reader<'_>) -> Result<Locator, DecodeError> {
        let (head, mut r) = r.versioned("object locator", 6)?;
        if head.version < 6 {
            return Err(DecodeError::TooOld { what: "object locator", version: head.version, oldest: 6 });
        }
        let pool = r.get()?;
        r.skip(4)?;
        let locator = Locator { pool, key: r.get()?, nspace: r.get()?, hash: r.i64()? };
        if locator.hash != Self::NO_HASH && !locator.key.is_empty() {
            return Err(DecodeError::Value { what: "object locator with key and hash", value: locator.hash as u64 });
        }
        Ok(locator)
    }
}

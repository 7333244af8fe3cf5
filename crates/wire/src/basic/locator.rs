//! Placement of an object by a client.

use crate::{Decode, DecodeError, Encode, Reader, Writer};
use bytes::Bytes;
use types::PoolId;

/// Pool, namespace, and the key or hash that replaces the name in placement. Ceph's `object_locator_t`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Locator {
    pub pool: PoolId,
    /// Key that replaces the name in placement, unless empty.
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
    const MIN_BYTES: usize = 26;

    fn decode(r: &mut Reader<'_>) -> Result<Locator, DecodeError> {
        let (head, mut r) = r.versioned("object locator", 6)?;
        // The kernel's clients still write version 5, which has no hash.
        if head.version < 5 {
            return Err(DecodeError::TooOld { what: "object locator", version: head.version, oldest: 5 });
        }
        let pool = r.get()?;
        r.skip(4)?;
        let (key, nspace) = (r.get()?, r.get()?);
        let locator = Locator { pool, key, nspace, hash: if head.version >= 6 { r.i64()? } else { Self::NO_HASH } };
        if locator.hash != Self::NO_HASH && !locator.key.is_empty() {
            return Err(DecodeError::Value { what: "object locator with key and hash", value: locator.hash as u64 });
        }
        Ok(locator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Target;

    #[test]
    fn the_kernels_locators_have_no_hash() {
        let locator = Locator { nspace: Bytes::from_static(b"n"), ..Locator::pool(PoolId(3)) };
        let mut bytes = locator.to_vec(Target::PACIFIC);
        bytes.truncate(bytes.len() - 8);
        (bytes[0], bytes[2]) = (5, bytes[2] - 8);
        assert_eq!(Locator::from_slice(&bytes), Ok(locator));
    }

    #[test]
    fn a_key_and_a_hash_exclude_each_other() {
        let both = Locator { key: Bytes::from_static(b"k"), hash: 7, ..Locator::default() };
        assert!(Locator::from_slice(&both.to_vec(Target::PACIFIC)).is_err());
    }
}

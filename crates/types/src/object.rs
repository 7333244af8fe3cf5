//! Objects and their order.

use crate::PoolId;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// A snapshot's id within its pool, or one of the markers below.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SnapId(pub u64);

impl SnapId {
    /// The largest id that a snapshot may have. Ceph's `CEPH_MAXSNAP`.
    pub const LAST: SnapId = SnapId(u64::MAX - 2);
    /// The present state of the object ("head").
    pub const HEAD: SnapId = SnapId(u64::MAX - 1);
    /// Stands for all snapshots of an object in snapshot listings.
    pub const DIR: SnapId = SnapId(u64::MAX);
}

/// Bytes of an object's name, key or namespace. Copies share them: one update names its object in a dozen places.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NameBytes(
    /// `None`: there are no bytes.
    Option<Arc<[u8]>>,
);

impl NameBytes {
    /// The name without bytes.
    pub const EMPTY: NameBytes = NameBytes(None);
}

impl Deref for NameBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl From<&[u8]> for NameBytes {
    fn from(bytes: &[u8]) -> NameBytes {
        NameBytes((!bytes.is_empty()).then(|| bytes.into()))
    }
}

impl<const N: usize> From<&[u8; N]> for NameBytes {
    fn from(bytes: &[u8; N]) -> NameBytes {
        bytes.as_slice().into()
    }
}

impl From<Vec<u8>> for NameBytes {
    fn from(bytes: Vec<u8>) -> NameBytes {
        bytes.as_slice().into()
    }
}

impl AsRef<[u8]> for NameBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq<[u8]> for NameBytes {
    fn eq(&self, other: &[u8]) -> bool {
        **self == *other
    }
}

impl PartialEq<&[u8]> for NameBytes {
    fn eq(&self, other: &&[u8]) -> bool {
        **self == **other
    }
}

impl PartialEq<Vec<u8>> for NameBytes {
    fn eq(&self, other: &Vec<u8>) -> bool {
        **self == other[..]
    }
}

impl<const N: usize> PartialEq<&[u8; N]> for NameBytes {
    fn eq(&self, other: &&[u8; N]) -> bool {
        **self == other[..]
    }
}

impl Ord for NameBytes {
    fn cmp(&self, other: &NameBytes) -> Ordering {
        (**self).cmp(&**other)
    }
}

impl PartialOrd for NameBytes {
    fn partial_cmp(&self, other: &NameBytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for NameBytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl fmt::Debug for NameBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// Full name of an object within the cluster, and the cursor of listings.
///
/// The order is that of listings: everything before `max`, then pool, the **bit-reversed** hash, namespace, key, name,
/// snapshot. The objects of a placement group are thus one contiguous range, also after a split.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ObjectId {
    pub pool: PoolId,
    /// Raw 32-bit placement hash, not bit-reversed.
    pub hash: u32,
    /// Names are bytes: clients may use any but NUL, and need not send UTF-8.
    pub nspace: NameBytes,
    /// Locator key; empty if the object is placed by its name.
    pub key: NameBytes,
    pub name: NameBytes,
    pub snap: SnapId,
    /// The cursor after all objects; the other fields are then at their defaults.
    pub max: bool,
}

impl ObjectId {
    /// Pool number of the cursor before all objects.
    pub const MIN_POOL: PoolId = PoolId(i64::MIN);

    /// The cursor before all objects.
    pub const fn min() -> ObjectId {
        ObjectId {
            pool: Self::MIN_POOL,
            hash: 0,
            nspace: NameBytes::EMPTY,
            key: NameBytes::EMPTY,
            name: NameBytes::EMPTY,
            snap: SnapId(0),
            max: false,
        }
    }

    /// The cursor after all objects.
    pub fn max() -> ObjectId {
        ObjectId { max: true, ..Self::min() }
    }

    /// The present state of an object placed by its name.
    pub fn head(pool: PoolId, hash: u32, nspace: &[u8], name: &[u8]) -> ObjectId {
        ObjectId {
            pool,
            hash,
            nspace: nspace.into(),
            key: NameBytes::EMPTY,
            name: name.into(),
            snap: SnapId::HEAD,
            max: false,
        }
    }

    /// The key that decides placement and order: the locator key if there is one, else the name.
    pub fn effective_key(&self) -> &[u8] {
        if self.key.is_empty() { &self.name } else { &self.key }
    }

    pub fn is_min(&self) -> bool {
        *self == Self::min()
    }

    /// The present state of the object that this is a state of. States of an object follow each other in the order, the
    /// present one last.
    pub fn head_of(&self) -> ObjectId {
        ObjectId { snap: SnapId::HEAD, ..self.clone() }
    }

    /// The cursor before all states of the object that this is a state of, or a cursor in.
    pub fn before_all_states(&self) -> ObjectId {
        ObjectId { snap: SnapId(0), ..self.clone() }
    }

    /// The cursor after all states of the object that this is a state of, or a cursor in.
    pub fn behind_all_states(&self) -> ObjectId {
        ObjectId { snap: SnapId::DIR, ..self.clone() }
    }

    /// True if this is the object as a snapshot preserves it.
    pub fn is_clone(&self) -> bool {
        self.snap < SnapId::HEAD
    }
}

impl Ord for ObjectId {
    fn cmp(&self, other: &ObjectId) -> Ordering {
        self.max
            .cmp(&other.max)
            .then_with(|| self.pool.cmp(&other.pool))
            .then_with(|| self.hash.reverse_bits().cmp(&other.hash.reverse_bits()))
            .then_with(|| self.nspace.cmp(&other.nspace))
            .then_with(|| self.effective_key().cmp(other.effective_key()))
            .then_with(|| self.name.cmp(&other.name))
            .then_with(|| self.snap.cmp(&other.snap))
    }
}

impl PartialOrd for ObjectId {
    fn partial_cmp(&self, other: &ObjectId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.max {
            return f.write_str("MAX");
        }
        if self.is_min() {
            return f.write_str("MIN");
        }
        let (nspace, key, name) = (self.nspace.escape_ascii(), self.key.escape_ascii(), self.name.escape_ascii());
        write!(f, "{}:{:08x}:{nspace}:{key}:{name}:", self.pool, self.hash.reverse_bits())?;
        match self.snap {
            SnapId::HEAD => f.write_str("head"),
            SnapId::DIR => f.write_str("snapdir"),
            SnapId(n) => write!(f, "{n:x}"),
        }
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_reversed_hash_then_names() {
        let at = |hash, nspace: &str, name: &str| ObjectId::head(PoolId(1), hash, nspace.as_bytes(), name.as_bytes());
        assert!(at(1, "", "a") > at(2, "", "a"), "bit 0 is the most significant");
        assert!(at(2, "", "z") < at(2, "n", "a"), "namespace before name");
        assert!(ObjectId::min() < at(0, "", "") && at(u32::MAX, "z", "z") < ObjectId::max());
    }
}

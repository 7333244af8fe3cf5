//! Wishes for an object that lies in shards.

/// A wish for an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Bytes `offset .. offset + len` of the object, all of which there are.
    Object { offset: u64, len: u64 },
    /// Bytes of one shard, and with the first piece the object's attributes.
    Shard { shard: usize, offset: u64, len: u64, attrs: bool },
}

//! Wishes for an object that lies in shards.

use bytes::Bytes;

/// A wish for an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Wanted {
    /// Bytes `offset .. offset + len` of the object, all of which there are.
    Object { offset: u64, len: u64 },
    /// Bytes of one shard, with the first piece the object's attributes, and entries of its omap behind a key.
    Shard { shard: usize, offset: u64, len: u64, attrs: bool, omap_after: Option<Bytes> },
}

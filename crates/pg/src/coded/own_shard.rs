//! The primary's own shard of an object, while it is computed.

use crate::group::digests::Content;
use crate::messages::coded::OmapPage;
use crate::messages::healing::PgPush;
use bytes::Bytes;
use std::collections::BTreeMap;
use store::LookupId;
use types::EVersion;

/// An object on its way.
#[derive(Debug)]
pub(super) struct Rebuild {
    pub version: EVersion,
    /// Offset in the shard up to which it is computed.
    pub next: u64,
    pub pieces: u32,
    /// Attributes of the object, from another shard: they are the same on all.
    pub attrs: BTreeMap<Bytes, Bytes>,
    /// Entries of its omap that have come with the present piece.
    pub omap: Option<OmapPage>,
    /// Entries up to this key are here; `None` once all are.
    pub omap_after: Option<Bytes>,
    pub content: Content,
    pub waits_for: Option<LookupId>,
    /// Set while clients' latency allows no more.
    pub held: bool,
    /// The piece that was computed last, until healing takes it.
    pub piece: Option<PgPush>,
}

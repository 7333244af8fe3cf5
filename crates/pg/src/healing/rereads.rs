//! The object that is read again, and how far.

use crate::healing::object_reading::ObjectReading;
use std::collections::BTreeSet;
use std::time::Duration;
use store::LookupId;
use types::{ObjectId, OsdId};

/// Objects that are read again.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    /// Objects that are missing here since a read failed in this interval: what is here of them may be read after all.
    pub(super) damaged: BTreeSet<ObjectId>,
    /// Time when the next round begins; `None`: there is nothing to read, or a round is under way.
    pub(super) next_at: Option<Duration>,
    /// The rest of the round.
    pub(super) objects: Vec<ObjectId>,
    pub(super) reading: Option<ObjectReading>,
    /// The member that lacks the object, if one is known to: of erasure-coded objects its shard is computed.
    pub(super) lacks: Option<OsdId>,
    pub(super) waits_for: Option<LookupId>,
}

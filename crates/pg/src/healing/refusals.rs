//! Objects and members for which there was no room.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use types::{ObjectId, OsdId};

#[derive(Debug, Default)]
pub(crate) struct SentBack {
    /// Times until which nothing is sent to an OSD: kept by a sender, and by a receiver of what it has asked for.
    pub(super) until: BTreeMap<OsdId, Duration>,
    /// As receiver: objects whose first pieces were dropped.
    pub(super) refused: BTreeSet<ObjectId>,
}

impl SentBack {
    pub fn holds(&self, osd: OsdId, now: Duration) -> bool {
        self.until.get(&osd).is_some_and(|until| now < *until)
    }

    pub fn is_refused(&self, object: &ObjectId) -> bool {
        self.refused.contains(object)
    }

    /// Notes that a piece was taken: the object is sent from its beginning.
    pub fn taken(&mut self, object: &ObjectId) {
        self.refused.remove(object);
    }
}

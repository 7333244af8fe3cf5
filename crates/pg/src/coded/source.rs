//! OSDs that may have a shard of an object.

use types::OsdId;

/// A [`Source`]'s standing, the best last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum SourceStanding {
    /// The OSD served with that shard before, and does not act for it in this interval. Its answer tells if it has the
    /// version.
    ServedBefore,
    /// The OSD is a member that may have the newest version, as its answer tells.
    Member,
    /// The OSD has the newest version by its log.
    Known,
}

/// An OSD that may have a shard of an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub shard: usize,
    pub osd: OsdId,
    pub standing: SourceStanding,
}

impl Source {
    /// Returns true unless this is the shard that `osd` has as a member.
    pub fn is_not_of(&self, osd: Option<OsdId>) -> bool {
        Some(self.osd) != osd || self.standing == SourceStanding::ServedBefore
    }
}

//! Acknowledgements to primaries that are gathered over a turn.

use crate::messages::PgInterval;
use types::{EVersion, OsdId};

/// The newest acknowledgement of each group to each primary. Memory stays from turn to turn.
#[derive(Default)]
pub(super) struct RepReplies(
    /// By primary and group, those behind that come first.
    Vec<(OsdId, PgInterval, EVersion)>,
);

impl RepReplies {
    /// Notes that a group's updates up to this version are durable here. Later words take the place of earlier ones.
    pub fn insert(&mut self, primary: OsdId, pg: PgInterval, version: EVersion) {
        let key = (primary, pg.pgid);
        match self.0.binary_search_by(|(osd, pg, _)| key.cmp(&(*osd, pg.pgid))) {
            Ok(place) => self.0[place] = (primary, pg, version),
            Err(place) => self.0.insert(place, (primary, pg, version)),
        }
    }

    /// Takes the acknowledgements to the first primary, by group.
    pub fn take_first(&mut self) -> Option<(OsdId, Vec<(PgInterval, EVersion)>)> {
        let (primary, ..) = *self.0.last()?;
        let first = self.0.partition_point(|(osd, ..)| *osd > primary);
        let durable = self.0.drain(first..).rev().map(|(_, pg, version)| (pg, version)).collect();
        Some((primary, durable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{Epoch, PgId};

    #[test]
    fn the_newest_of_each_group_goes_to_each_primary_in_order() {
        let pg = |seed, since| PgInterval { pgid: PgId::new(1, seed), since: Epoch(since) };
        let at = |version| EVersion { epoch: Epoch(2), version };
        let mut replies = RepReplies::default();
        for (osd, seed, since, version) in [(2, 5, 1, 7), (1, 9, 1, 1), (2, 3, 1, 2), (1, 4, 1, 3), (2, 5, 2, 8)] {
            replies.insert(OsdId(osd), pg(seed, since), at(version));
        }
        assert_eq!(replies.take_first(), Some((OsdId(1), vec![(pg(4, 1), at(3)), (pg(9, 1), at(1))])));
        assert_eq!(replies.take_first(), Some((OsdId(2), vec![(pg(3, 1), at(2)), (pg(5, 2), at(8))])));
        assert_eq!(replies.take_first(), None);
    }
}

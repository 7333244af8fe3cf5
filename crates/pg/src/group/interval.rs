//! A stretch of epochs in which a group has the same members, and what the pool is like in it.

use crate::coded::coding::CodingError;
use crate::coded::protection::Protection;
use crate::messages::peering::Agreed;
use osdmap::{OsdMap, PgPool, UpActing};
use types::{Epoch, OsdId, PgId};

/// The facts about a pool that its groups need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolShape {
    pub size: u8,
    pub min_size: u8,
    pub pg_num: u32,
    /// Number of groups that there are to be next; smaller only while some are about to be merged.
    pub pg_num_pending: u32,
    pub protection: Protection,
}

impl PoolShape {
    /// Returns the shape of a pool. Errors: an erasure-coded pool whose code is not known here.
    pub fn of(map: &OsdMap, pool: &PgPool) -> Result<PoolShape, CodingError> {
        let protection = Protection::of(map, pool)?;
        let (pg_num, pg_num_pending) = (pool.pg_num, pool.pg_num_pending);
        Ok(PoolShape { size: pool.size, min_size: pool.min_size, pg_num, pg_num_pending, protection })
    }

    /// Tells whether the group is about to be merged with another one: meanwhile it serves nobody.
    pub fn is_merging(&self, pg: PgId) -> bool {
        osdmap::is_merging(pg.seed, self.pg_num, self.pg_num_pending)
    }

    /// Tells whether in both the group has the same objects, and is about to be merged or is not.
    fn is_same_group(&self, pg: PgId, other: &PoolShape) -> bool {
        self.is_merging(pg) == other.is_merging(pg) && osdmap::same_range(pg.seed, self.pg_num, other.pg_num)
    }
}

/// A stretch of epochs over which the group's sets did not change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First epoch.
    pub since: Epoch,
    pub up: Vec<OsdId>,
    pub acting: Vec<OsdId>,
    /// The first so many of `acting` are what clients see ([`UpActing::acting_shown`]).
    pub shown: usize,
    /// `None`: nobody is up.
    pub primary: Option<OsdId>,
    pub shape: PoolShape,
}

impl Interval {
    /// Returns an interval in which the group has no members.
    pub fn of_nobody(since: Epoch, shape: PoolShape) -> Interval {
        Interval { since, up: Vec::new(), acting: Vec::new(), shown: 0, primary: None, shape }
    }

    /// Tells whether the interval goes on under a map that gives these sets, for clients as for us.
    pub fn continues(&self, pg: PgId, placed: &UpActing, shape: PoolShape) -> bool {
        self.acting == placed.acting && self.looks_the_same(pg, placed, shape)
    }

    /// Tells whether clients see no other interval begin under a map that gives these sets: they know nothing of
    /// further members.
    pub fn looks_the_same(&self, pg: PgId, placed: &UpActing, shape: PoolShape) -> bool {
        self.up == placed.up
            && self.acting[..self.shown] == *placed.acting_shown()
            && self.primary == placed.acting_primary
            && self.shape == PoolShape { pg_num: self.shape.pg_num, pg_num_pending: self.shape.pg_num_pending, ..shape }
            && self.shape.is_same_group(pg, &shape)
    }

    fn sets(&self) -> Vec<OsdId> {
        let mut sets = self.acting.clone();
        match self.shape.protection {
            Protection::Copies => {}
            Protection::Shards(_) => sets.extend(self.shards_to_be()),
        }
        sets
    }

    /// Returns the facts that all members of the interval agree about.
    pub(crate) fn agreed(&self) -> Agreed {
        Agreed { sets: self.sets(), pg_nums: Some((self.shape.pg_num, self.shape.pg_num_pending)) }
    }

    /// Tells whether the facts that a primary names of an interval of the group hold in this one.
    pub(crate) fn agrees(&self, pg: PgId, agreed: &Agreed) -> bool {
        self.sets() == agreed.sets
            && agreed.pg_nums.is_none_or(|(pg_num, pg_num_pending)| {
                self.shape.is_same_group(pg, &PoolShape { pg_num, pg_num_pending, ..self.shape })
            })
    }

    /// Tells whether no OSD is to come or to go: those act whom the map wants. In which order they have the shards of
    /// an erasure-coded group is all one. Where the map has fewer OSDs than there are to be copies, others that act
    /// stay.
    pub(crate) fn is_where_wanted(&self) -> bool {
        let is_same_in_any_order = || self.is_full() && self.up.len() == self.acting.len() && self.has_all_wanted();
        self.acting == self.up
            || self.stand_ins_wanted() > 0 && self.has_all_wanted()
            || match self.shape.protection {
                Protection::Copies => false,
                Protection::Shards(_) => is_same_in_any_order(),
            }
    }

    /// Returns how many copies there are to be for which the map has no OSD.
    pub(crate) fn stand_ins_wanted(&self) -> usize {
        usize::from(self.shape.size).saturating_sub(self.up.iter().filter(|osd| osd.is_some()).count())
    }

    /// Tells whether every OSD acts that the map wants.
    fn has_all_wanted(&self) -> bool {
        self.up.iter().filter(|osd| osd.is_some()).all(|osd| self.acting.contains(osd))
    }

    /// Returns true if all copies that the pool asks for have an OSD that is up.
    pub fn is_full(&self) -> bool {
        self.acting.len() >= usize::from(self.shape.size) && self.acting.iter().all(|osd| osd.is_some())
    }
}

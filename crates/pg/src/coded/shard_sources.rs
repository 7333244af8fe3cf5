//! Shards of OSDs in an interval, and sources of the shards of an object.

use super::protection::Protection;
use super::source::{Source, SourceStanding};
use crate::agreement::members;
use crate::group::interval::Interval;
use crate::healing::whereabouts::Whereabouts;
use ec::ShardSet;
use mutant::Mutant;
use std::collections::BTreeSet;
use types::{ObjectId, OsdId, PgId};

/// Returns [`osdmap::shard_of`].
fn shard_of(acting: &[OsdId], up: &[OsdId], osd: OsdId) -> Option<u8> {
    if mutant::is(Mutant::PlacesAreShards) {
        let place = |osds: &[OsdId]| osds.iter().position(|other| *other == osd && osd.is_some());
        return place(acting).or_else(|| place(up)).map(|shard| shard as u8);
    }
    osdmap::shard_of(acting, up, osd)
}

impl Interval {
    /// Returns the shard that the OSD has, or is brought to have; `None` in replicated pools and for others.
    pub(crate) fn shard_of(&self, osd: OsdId) -> Option<u8> {
        match self.shape.protection {
            Protection::Copies => None,
            Protection::Shards(_) => shard_of(&self.acting, &self.up, osd),
        }
    }

    /// Returns the shards of the members, in their order; none in replicated pools.
    pub(crate) fn shards_of(&self, members: &[OsdId]) -> Vec<u8> {
        members.iter().filter_map(|osd| self.shard_of(*osd)).collect()
    }

    /// Returns the acting set that an erasure-coded group should come to: each OSD that the map wants, for its shard.
    pub(crate) fn shards_to_be(&self) -> Vec<OsdId> {
        match mutant::is(Mutant::PlacesAreShards) {
            true => self.up.clone(),
            false => osdmap::shards_to_be(&self.acting, &self.up),
        }
    }
}

/// Returns the instance of a group that `whoami` has by these sets.
pub(crate) fn instance(
    id: PgId,
    acting: &[OsdId],
    up: &[OsdId],
    whoami: OsdId,
    protection: Protection,
) -> Option<PgId> {
    match protection {
        Protection::Shards(_) => {
            let shard = match mutant::is(Mutant::ShardOfUpPlace) && !acting.contains(&whoami) {
                true => up.iter().position(|osd| *osd == whoami).map(|place| place as u8),
                false => shard_of(acting, up, whoami),
            };
            shard.map(|shard| id.of_shard(shard))
        }
        Protection::Copies => acting.contains(&whoami).then_some(id),
    }
}

impl Whereabouts<'_> {
    /// Returns all members that may have a shard of the object as it is now.
    pub(crate) fn shard_sources(self, object: &ObjectId) -> Vec<Source> {
        use members::Standing::{Backfilled, Backfilling, Behind, Serving};
        let mut sources = Vec::new();
        let mut add = |osd: OsdId, standing: SourceStanding| {
            if let Some(shard) = self.core.interval.shard_of(osd) {
                sources.push(Source { shard: shard.into(), osd, standing });
            }
        };
        if let Some(primary) = self.core.interval.primary.filter(|_| !self.core.missing.contains_key(object)) {
            add(primary, SourceStanding::Known);
        }
        for (osd, standing) in self.members.iter() {
            let lacks = self.members.lacks(osd, object);
            match standing {
                _ if lacks => {}
                Serving | Backfilled(_) => add(osd, SourceStanding::Known),
                Backfilling if self.is_copied(osd, object) => add(osd, SourceStanding::Known),
                Backfilling | Behind => {
                    let told = self.peering.told(osd);
                    if told.is_some_and(|told| told.info.is_some() && !told.missing.contains_key(object)) {
                        add(osd, SourceStanding::Member);
                    }
                }
            }
        }
        sources
    }

    /// Returns [`shard_sources`](Self::shard_sources) and OSDs that served before with a shard; without those that
    /// turned out not to have what they might.
    pub(crate) fn all_sources(self, object: &ObjectId) -> Vec<Source> {
        let mut sources = self.shard_sources(object);
        let old_shards = self.old_shards;
        sources.extend(old_shards.sources());
        let may_have = |s: &Source| !old_shards.is_not_there(object, s.osd, s.shard);
        sources.retain(|source| source.standing == SourceStanding::Known || may_have(source));
        sources
    }

    /// Tells whether so many shards of the object are there, on others than `but`, that it can be read. In replicated
    /// pools one copy is always enough.
    pub(crate) fn can_decode(self, object: &ObjectId, but: Option<OsdId>) -> bool {
        if self.core.protection().is_whole_on_each() {
            return true;
        }
        let sources = self.all_sources(object).into_iter().filter(|source| source.is_not_of(but));
        sources.map(|source| source.shard).collect::<ShardSet>().len() >= self.core.protection().needed()
    }

    /// Counts the different shards of the object that members have, without those of OSDs that `is_bad` names.
    pub(crate) fn shards_without(self, object: &ObjectId, is_bad: impl Fn(OsdId) -> bool) -> usize {
        let good = self.shard_sources(object).into_iter().filter(|source| !is_bad(source.osd));
        good.map(|source| source.shard).collect::<ShardSet>().len()
    }

    /// Returns how many copies, or different shards, serve.
    pub(crate) fn serving_copies(self) -> usize {
        let serving = self.members.iter().filter(|(_, standing)| *standing == members::Standing::Serving);
        match self.core.protection() {
            Protection::Copies => 1 + serving.count(),
            Protection::Shards(_) => {
                let osds = serving.map(|(osd, _)| osd).chain(self.core.interval.primary);
                osds.filter_map(|osd| self.core.interval.shard_of(osd)).collect::<BTreeSet<u8>>().len()
            }
        }
    }
}

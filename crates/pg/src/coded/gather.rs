//! One read over several shards: who was asked, and what has come. Shards that cannot be read are computed from others.

use super::old_shards::ANSWER_WITHIN;
use super::parts::Parts;
use super::pool_code::PoolCode;
use super::source::{Source, SourceStanding};
use super::wanted::Wanted;
use crate::messages::PgInterval;
use crate::messages::coded::{OmapAfter, OmapPage, ShardRead, ShardReadReply, StrayRead};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Duration;
use store::LookupId;
use types::{EVersion, ObjectId, OsdId};

/// One read over several shards.
#[derive(Debug)]
pub(super) struct Gather {
    pub(super) object: ObjectId,
    pub(super) version: EVersion,
    pub(super) wanted: Wanted,
    pub(super) parts: Parts,
    /// Sources that were asked, with the shard.
    pub(super) asked: BTreeMap<(OsdId, usize), Asked>,
    pub(super) attrs: BTreeMap<Bytes, Bytes>,
    pub(super) omap: Option<OmapPage>,
    /// The source that was asked for entries of the omap, which all shards have, and has not said that it lacks the
    /// object.
    pub(super) asked_for_omap: Option<(OsdId, usize)>,
    /// Sources that turned out not to have the shard, and of these the OSDs whose shard is damaged.
    pub(super) tried: BTreeSet<(OsdId, usize)>,
    pub(super) bad: BTreeSet<OsdId>,
    /// The OSD whose shard as a member is not to be read.
    pub(super) but: Option<OsdId>,
    pub(super) began: Duration,
    /// The read was looked at because its shards are late. Other OSDs were asked then, if that was allowed.
    pub(super) is_hedged: bool,
}

/// A question to which there is no answer yet.
#[derive(Debug)]
pub(super) struct Asked {
    /// The range of the shard.
    pub(super) range: Range<u64>,
    /// A source that is no member may go unnoticed, so it may answer until then.
    pub(super) until: Option<Duration>,
}

/// A question of a gather to this OSD itself, or its answer.
///
/// A gather asks several members, this OSD among them, which often answers at once. That answer may end the gather, or
/// have it ask others. So questions and answers wait in their order until the gather has asked everybody; then
/// `answer_itself` goes through them, also through those that come meanwhile.
#[derive(Debug)]
pub(super) enum Own {
    /// Bytes of the shard are wanted that this OSD has as a member.
    Asked(ShardRead),
    /// Bytes of a shard are wanted that this OSD had when it served before.
    AskedForOld(StrayRead),
    Answered(ShardReadReply),
}

/// A question of a gather to one of its sources.
#[derive(Debug)]
pub(super) struct ShardQuestion {
    pub osd: OsdId,
    /// The shard, if the OSD served with it before.
    pub old_shard: Option<u8>,
    pub read: ShardRead,
}

impl Gather {
    /// Makes a read of `wanted`, for which nobody has been asked yet.
    pub fn new(
        pool: &PoolCode,
        object: &ObjectId,
        version: EVersion,
        wanted: Wanted,
        but: Option<OsdId>,
        now: Duration,
    ) -> Gather {
        let parts = match &wanted {
            Wanted::Shard { shard, offset, len, .. } => Parts::of_shard(*shard, *offset..*offset + *len),
            Wanted::Object { offset, len } => Parts::of_object(&pool.layout, *offset..*offset + *len),
        };
        Gather {
            object: object.clone(),
            version,
            wanted,
            parts,
            asked: BTreeMap::new(),
            attrs: BTreeMap::new(),
            omap: None,
            asked_for_omap: None,
            tried: BTreeSet::new(),
            bad: BTreeSet::new(),
            but,
            began: now,
            is_hedged: false,
        }
    }

    /// Returns when it began, if other shards may be asked where some are late.
    pub fn may_be_hedged(&self) -> Option<Duration> {
        (matches!(self.wanted, Wanted::Object { .. }) && !self.is_hedged).then_some(self.began)
    }

    /// Tells whether a source has not been asked, and would bring something new.
    pub fn may_ask(&self, source: &Source) -> bool {
        let Source { osd, shard, .. } = *source;
        let is_asked = self.asked.keys().any(|(_, asked)| *asked == shard);
        let has_come = self.parts.whole().contains(shard);
        !is_asked && !has_come && !self.tried.contains(&(osd, shard)) && source.is_not_of(self.but)
    }

    /// Returns how many shards have come of which others can be computed.
    pub fn shards_here(&self) -> usize {
        self.parts.whole().len()
    }

    /// Notes that a source is asked for its part of what is read. `is_computed`: others are computed of it.
    pub fn question(
        &mut self,
        pg: PgInterval,
        id: LookupId,
        source: Source,
        is_computed: bool,
        now: Duration,
    ) -> ShardQuestion {
        let range = self.parts.range(source.shard, is_computed);
        self.question_of(pg, id, source, range, now)
    }

    /// Notes that a source is asked for a range of its shard, and for the omap if that is wanted and nobody was asked
    /// for it.
    pub fn question_of(
        &mut self,
        pg: PgInterval,
        id: LookupId,
        Source { osd, shard, standing }: Source,
        range: Range<u64>,
        now: Duration,
    ) -> ShardQuestion {
        let is_old = standing == SourceStanding::ServedBefore;
        let (offset, len) = (range.start, range.end - range.start);
        self.asked.insert((osd, shard), Asked { range, until: is_old.then(|| now + ANSWER_WITHIN) });
        let (attrs, omap_after) = match &self.wanted {
            Wanted::Shard { attrs, omap_after, .. } => (*attrs, omap_after.clone()),
            Wanted::Object { .. } => (false, None),
        };
        let omap_after = omap_after.filter(|_| self.asked_for_omap.is_none());
        if omap_after.is_some() {
            self.asked_for_omap = Some((osd, shard));
        }
        let (object, version) = (self.object.clone(), self.version);
        let omap_after = OmapAfter(omap_after);
        let read = ShardRead { pg, read: id.0, object, version, offset, len, attrs, omap_after };
        ShardQuestion { osd, old_shard: is_old.then_some(shard as u8), read }
    }

    /// Tells whether entries of the omap have come, if they are wanted.
    pub fn has_omap(&self) -> bool {
        self.omap.is_some() || !matches!(self.wanted, Wanted::Shard { omap_after: Some(_), .. })
    }

    /// Notes a source that does not have the shard, or does not say so in time.
    pub fn is_tried(&mut self, holder: (OsdId, usize)) {
        self.tried.insert(holder);
        if self.asked_for_omap == Some(holder) {
            self.asked_for_omap = None;
        }
    }
}

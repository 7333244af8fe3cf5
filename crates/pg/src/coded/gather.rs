//! Bytes of an object from its shards, as its primary gathers them. Shards that cannot be read are computed from
//! others.

use super::Coded;
use super::old_shards::ANSWER_WITHIN;
use super::parts::{Needed, Parts};
use super::proof::Proof;
use super::shard_sources::{Source, SourceStanding};
use crate::coded::wanted::Wanted;
use crate::context::Context;
use crate::group::pg::Pg;
use crate::messages::PgInterval;
use crate::messages::coded::{OmapAfter, OmapPage, ShardRead, ShardReadOutcome, ShardReadReply, StrayRead};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;
use store::{LookupId, ReadError};
use types::{EVersion, ObjectId, OsdId};

/// One read over several shards.
#[derive(Debug)]
pub(crate) struct Gather {
    object: ObjectId,
    version: EVersion,
    wanted: Wanted,
    parts: Parts,
    /// Sources that were asked, with the shard.
    asked: BTreeMap<(OsdId, usize), Asked>,
    attrs: BTreeMap<Bytes, Bytes>,
    omap: Option<OmapPage>,
    /// The source that was asked for entries of the omap, which all shards have, and has not said that it lacks the
    /// object.
    asked_for_omap: Option<(OsdId, usize)>,
    /// Sources that turned out not to have the shard, and of these the OSDs whose shard is damaged.
    tried: BTreeSet<(OsdId, usize)>,
    bad: BTreeSet<OsdId>,
    /// The OSD whose shard as a member is not to be read.
    but: Option<OsdId>,
    began: Duration,
    /// The read was looked at because its shards are late. Other OSDs were asked then, if that was allowed.
    pub(super) is_hedged: bool,
}

/// A question to which there is no answer yet.
#[derive(Debug)]
struct Asked {
    /// The range of the shard.
    range: Range<u64>,
    /// A source that is no member may go unnoticed, so it may answer until then.
    until: Option<Duration>,
}

/// Answers of this OSD to its own gathers.
///
/// A gather asks several members, this OSD among them, which often answers at once. That answer may end the gather, or
/// have it ask others. So answers wait here until the gather has asked everybody; then
/// [`take_own_answers`](Pg::take_own_answers) hands them over one after the other, also those that come meanwhile.
#[derive(Debug, Default)]
pub(crate) struct OwnAnswers {
    queue: VecDeque<ShardReadReply>,
    are_taken: bool,
}

impl OwnAnswers {
    pub fn put(&mut self, reply: ShardReadReply) {
        self.queue.push_back(reply);
    }
}

impl Pg {
    /// Begins a read of the object's `version`. It ends like a lookup of the store does; whoever begins it must wait
    /// for it. `but`: not from what this OSD has as a member.
    pub(crate) fn gather(
        &mut self,
        cx: &mut Context<'_>,
        object: &ObjectId,
        version: EVersion,
        wanted: Wanted,
        but: Option<OsdId>,
    ) -> LookupId {
        let id = cx.shared.coded_reads.next_id();
        let coded = &mut self.coded;
        let parts = match &wanted {
            Wanted::Shard { shard, offset, len, .. } => Parts::of_shard(*shard, *offset..*offset + *len),
            Wanted::Object { offset, len } => Parts::of_object(&coded.code().layout, *offset..*offset + *len),
        };
        let gather = Gather {
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
            began: cx.now,
            is_hedged: false,
        };
        coded.gathers.insert(id, gather);
        cx.shared.coded_reads.hedging.begun();
        self.gather_on(cx, id);
        self.take_own_answers(cx);
        self.hedge_later(cx);
        id
    }

    /// Asks for what is needed and not asked for yet; ends the read if nothing is.
    fn gather_on(&mut self, cx: &mut Context<'_>, id: LookupId) {
        let Some(gather) = self.coded.gathers.get(&id) else { return };
        let sources: Vec<Source> = self
            .whereabouts()
            .all_sources(&gather.object)
            .into_iter()
            .filter(|source| source.is_not_of(gather.but) && !gather.tried.contains(&(source.osd, source.shard)))
            .collect();
        let pg = self.core.pg_interval();
        let Coded { code, gathers, .. } = &mut self.coded;
        let code = &code.as_ref().expect("something is gathered").code;
        let gather = gathers.get_mut(&id).expect("just seen");
        if gather.is_hedged && gather.parts.suffice(code) {
            return self.gather_ended(cx, id, true);
        }
        let needed = |least: SourceStanding| {
            let readable = sources.iter().filter(|source| source.standing >= least).map(|source| source.shard);
            gather.parts.needed(code, readable.collect())
        };
        let needed = needed(SourceStanding::Known)
            .or_else(|| needed(SourceStanding::Member))
            .or_else(|| needed(SourceStanding::ServedBefore));
        let Some(Needed { shards, is_computed }) = needed else {
            return self.gather_ended(cx, id, false);
        };
        let mut ask = Vec::new();
        for shard in shards.iter() {
            if gather.asked.keys().any(|(_, asked)| *asked == shard) {
                continue;
            }
            let best = sources.iter().filter(|source| source.shard == shard).max_by_key(|source| source.standing);
            let source = *best.expect("nothing is needed of shards that nobody has");
            ask.push(gather.question(pg, id, source, is_computed, cx.now));
        }
        if shards.is_empty() {
            if gather.has_omap() {
                return self.gather_ended(cx, id, true);
            }
            // Whoever was asked for it has turned out not to have the object.
            if gather.asked_for_omap.is_none() {
                match sources.iter().max_by_key(|source| source.standing) {
                    Some(source) => ask.push(gather.question_of(pg, id, *source, 0..0, cx.now)),
                    None => return self.gather_ended(cx, id, false),
                }
            }
        }
        for (osd, old, message) in ask {
            match old {
                Some(shard) => self.ask_for_old_shard(cx, osd, shard as u8, message),
                None if osd == cx.whoami => self.serve(cx, osd, message),
                None => cx.ask_osd(osd, message),
            }
        }
    }

    fn ask_for_old_shard(&mut self, cx: &mut Context<'_>, osd: OsdId, shard: u8, read: ShardRead) {
        let ShardRead { mut pg, read, object, version, offset, len, attrs, omap_after } = read;
        pg.pgid = pg.pgid.base().of_shard(shard);
        tracing::debug!(pg = %self.core.id, %osd, shard, %object, %version, "who served before is asked for its shard");
        let message = StrayRead { pg, read, object, version, offset, len, attrs, omap_after };
        if osd != cx.whoami {
            cx.send_osd(osd, message);
        } else if let Some(reply) = cx.old_shard_wanted(osd, message) {
            self.coded.own_answers.put(reply);
        }
    }

    /// Hands this OSD's own answers to the gathers that wait for them. Whoever does so already goes on with those that
    /// have come since.
    pub(super) fn take_own_answers(&mut self, cx: &mut Context<'_>) {
        if std::mem::replace(&mut self.coded.own_answers.are_taken, true) {
            return;
        }
        while let Some(reply) = self.coded.own_answers.queue.pop_front() {
            self.shard_came(cx, cx.whoami, reply);
        }
        self.coded.own_answers.are_taken = false;
    }

    /// Lets reads go on without sources that are no members and have not answered in time.
    pub(crate) fn gathers_wait_no_longer(&mut self, cx: &mut Context<'_>) {
        let mut ended = Vec::new();
        for (id, gather) in &mut self.coded.gathers {
            let is_late = |asked: &Asked| asked.until.is_some_and(|until| until <= cx.now);
            let late = gather.asked.extract_if(.., |_, asked| is_late(asked));
            let late: Vec<_> = late.map(|(holder, _)| holder).collect();
            for holder in late {
                gather.is_tried(holder);
                ended.push((*id, gather.object.clone(), holder));
            }
        }
        for (id, object, (osd, shard)) in ended {
            tracing::warn!(pg = %self.core.id, %osd, shard, %object, "does not say whether it has its shard from before");
            self.is_not_there(cx, object, osd, shard);
            self.gather_on(cx, id);
        }
        self.take_own_answers(cx);
    }

    /// Takes a shard's bytes that have come.
    pub(crate) fn shard_read_came(&mut self, cx: &mut Context<'_>, from: OsdId, reply: ShardReadReply) {
        self.shard_came(cx, from, reply);
        self.take_own_answers(cx);
    }

    fn shard_came(&mut self, cx: &mut Context<'_>, from: OsdId, reply: ShardReadReply) {
        let id = LookupId(reply.read);
        let coded = &mut self.coded;
        let Some(gather) = coded.gathers.get_mut(&id) else { return };
        let Some(shard) = reply.pg.pgid.pool.shard().map(usize::from) else { return };
        if reply.pg.since != self.core.interval.since {
            return;
        }
        let Some(Asked { range, until }) = gather.asked.remove(&(from, shard)) else { return };
        let (is_member, object) = (until.is_none(), gather.object.clone());
        if from != cx.whoami && is_member && gather.tried.is_empty() && !gather.is_hedged {
            cx.shared.coded_reads.hedging.answered(cx.now.saturating_sub(gather.began));
        }
        match reply.outcome {
            ShardReadOutcome::Read => {
                if let Wanted::Shard { offset, .. } = gather.wanted {
                    let proof = coded.proofs.entry(object.clone()).or_insert_with(|| Proof::of(gather.version));
                    proof.add(gather.version, (from, shard), offset, &reply.data);
                }
                gather.parts.add(shard, range, reply.data);
                if gather.asked_for_omap == Some((from, shard)) {
                    // Software that says nothing of an omap has none.
                    gather.omap = Some(reply.omap.unwrap_or_default());
                }
                if gather.attrs.is_empty() {
                    let own = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
                    gather.attrs = reply.attrs.iter().map(|(name, value)| (own(name), own(value))).collect();
                }
            }
            ShardReadOutcome::Absent => {
                gather.is_tried((from, shard));
                self.is_not_there(cx, object, from, shard);
            }
            ShardReadOutcome::Bad => {
                gather.is_tried((from, shard));
                match is_member {
                    true => drop(gather.bad.insert(from)),
                    false => self.is_not_there(cx, object, from, shard),
                }
            }
        }
        self.gather_on(cx, id);
    }

    fn gather_ended(&mut self, cx: &mut Context<'_>, id: LookupId, is_complete: bool) {
        let coded = &mut self.coded;
        let gather = coded.gathers.remove(&id).expect("it has just ended");
        let bytes = is_complete.then(|| gather.parts.bytes(coded.code())).flatten();
        let Gather { object, version, bad, attrs, omap, .. } = gather;
        if let Some(rebuild) = coded.rebuilds.get_mut(&object).filter(|rebuild| rebuild.waits_for == Some(id)) {
            if !attrs.is_empty() {
                rebuild.attrs = attrs;
            }
            rebuild.omap = omap;
        }
        let error = || ReadError::Device { object: object.clone(), object_offset: 0, device_offset: 0, errno: 5 };
        if bytes.is_none() {
            tracing::warn!(pg = %self.core.id, %object, %version, "too few of its shards can be read");
        }
        cx.shared.coded_reads.done.push_back((id, bytes.ok_or_else(error)));
        for osd in bad {
            self.healer().shard_is_bad(cx, osd, &object, version);
        }
    }

    /// Forgets all reads under way, as nothing of them is wanted any more.
    pub(crate) fn forget_gathers(&mut self, cx: &mut Context<'_>) {
        for id in self.coded.gathers.keys() {
            cx.agenda.waiters.remove(id);
        }
        self.coded.clear();
    }
}

impl Gather {
    pub(super) fn object(&self) -> &ObjectId {
        &self.object
    }

    /// Returns when it began, if other shards may be asked where some are late.
    pub(super) fn may_be_hedged(&self) -> Option<Duration> {
        (matches!(self.wanted, Wanted::Object { .. }) && !self.is_hedged).then_some(self.began)
    }

    /// Tells whether a source has not been asked, and would bring something new.
    pub(super) fn may_ask(&self, source: &Source) -> bool {
        let Source { osd, shard, .. } = *source;
        let is_asked = self.asked.keys().any(|(_, asked)| *asked == shard);
        let has_come = self.parts.whole().contains(shard);
        !is_asked && !has_come && !self.tried.contains(&(osd, shard)) && source.is_not_of(self.but)
    }

    /// Returns how many shards have come of which others can be computed.
    pub(super) fn shards_here(&self) -> usize {
        self.parts.whole().len()
    }

    /// Notes that a source is asked for its part of what is read. `is_computed`: others are computed of it.
    pub(super) fn question(
        &mut self,
        pg: PgInterval,
        id: LookupId,
        source: Source,
        is_computed: bool,
        now: Duration,
    ) -> (OsdId, Option<usize>, ShardRead) {
        let range = self.parts.range(source.shard, is_computed);
        self.question_of(pg, id, source, range, now)
    }

    /// Notes that a source is asked for a range of its shard, and for the omap if that is wanted and nobody was asked
    /// for it. Returns the OSD, the shard if the OSD served with it before, and the question.
    fn question_of(
        &mut self,
        pg: PgInterval,
        id: LookupId,
        Source { osd, shard, standing }: Source,
        range: Range<u64>,
        now: Duration,
    ) -> (OsdId, Option<usize>, ShardRead) {
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
        (osd, is_old.then_some(shard), read)
    }

    /// Tells whether entries of the omap have come, if they are wanted.
    fn has_omap(&self) -> bool {
        self.omap.is_some() || !matches!(self.wanted, Wanted::Shard { omap_after: Some(_), .. })
    }

    /// Notes a source that does not have the shard, or does not say so in time.
    fn is_tried(&mut self, holder: (OsdId, usize)) {
        self.tried.insert(holder);
        if self.asked_for_omap == Some(holder) {
            self.asked_for_omap = None;
        }
    }
}

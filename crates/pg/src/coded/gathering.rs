//! Bytes of an object from its shards, as its primary gathers them: whom it asks, and what it does with the answers.

use super::gather::{Asked, Gather, Own, ShardQuestion};
use super::gatherer::Gatherer;
use super::parts::Needed;
use super::pool_code::PoolCode;
use super::source::{Source, SourceStanding};
use super::wanted::Wanted;
use crate::context::Context;
use crate::group::effects::Effect;
use crate::messages::coded::{ShardRead, ShardReadOutcome, ShardReadReply, StrayRead};
use bytes::Bytes;
use store::{LookupId, ReadError};
use types::{EVersion, ObjectId, OsdId};

impl Gatherer<'_> {
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
        let gather = Gather::new(self.state.code(), object, version, wanted, but, cx.now);
        self.state.gathers.insert(id, gather);
        cx.shared.coded_reads.hedging.begun();
        self.gather_on(cx, id);
        self.answer_itself(cx);
        self.hedge_later(cx);
        id
    }

    /// Asks for what is needed and not asked for yet; ends the read if nothing is.
    fn gather_on(&mut self, cx: &mut Context<'_>, id: LookupId) {
        let Some(gather) = self.state.gathers.get(&id) else { return };
        let sources: Vec<Source> = self
            .whereabouts()
            .all_sources(&gather.object)
            .into_iter()
            .filter(|source| source.is_not_of(gather.but) && !gather.tried.contains(&(source.osd, source.shard)))
            .collect();
        let pg = self.core.pg_interval();
        let (gather, PoolCode { code, .. }) = self.state.gather_mut(id).expect("just seen");
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
        self.ask(cx, ask);
    }

    /// Sends questions to others, and keeps those to this OSD itself until all are asked.
    pub(super) fn ask(&mut self, cx: &mut Context<'_>, questions: Vec<ShardQuestion>) {
        for ShardQuestion { osd, old_shard, read } in questions {
            match old_shard {
                Some(shard) => self.ask_for_old_shard(cx, osd, shard, read),
                None if osd == cx.whoami => self.state.own.push_back(Own::Asked(read)),
                None => cx.ask_osd(osd, read),
            }
        }
    }

    fn ask_for_old_shard(&mut self, cx: &mut Context<'_>, osd: OsdId, shard: u8, read: ShardRead) {
        let ShardRead { mut pg, read, object, version, offset, len, attrs, omap_after } = read;
        pg.pgid = pg.pgid.base().of_shard(shard);
        tracing::debug!(pg = %self.core.id, %osd, shard, %object, %version, "who served before is asked for its shard");
        let message = StrayRead { pg, read, object, version, offset, len, attrs, omap_after };
        match osd == cx.whoami {
            true => self.state.own.push_back(Own::AskedForOld(message)),
            false => cx.send_osd(osd, message),
        }
    }

    /// Answers what gathers ask this OSD itself, and hands them the answers, until nothing of that is left. Every input
    /// by which a gather may ask, or this OSD may answer, ends with it.
    pub(super) fn answer_itself(&mut self, cx: &mut Context<'_>) {
        while let Some(own) = self.state.own.pop_front() {
            match own {
                Own::Asked(read) => self.serve(cx, cx.whoami, read),
                Own::AskedForOld(read) => {
                    let reply = cx.old_shard_wanted(cx.whoami, read);
                    self.state.own.extend(reply.map(Own::Answered));
                }
                Own::Answered(reply) => self.shard_came(cx, cx.whoami, reply),
            }
        }
    }

    /// Lets reads go on without sources that are no members and have not answered in time.
    pub(crate) fn gathers_wait_no_longer(&mut self, cx: &mut Context<'_>) {
        let mut ended = Vec::new();
        for (id, gather) in &mut self.state.gathers {
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
            self.state.old_shards.lacks(object, (osd, shard), cx.now);
            self.gather_on(cx, id);
        }
        self.answer_itself(cx);
    }

    /// Takes a shard's bytes that have come.
    pub(crate) fn shard_read_came(&mut self, cx: &mut Context<'_>, from: OsdId, reply: ShardReadReply) {
        self.shard_came(cx, from, reply);
        self.answer_itself(cx);
    }

    fn shard_came(&mut self, cx: &mut Context<'_>, from: OsdId, reply: ShardReadReply) {
        let id = LookupId(reply.read);
        let coded = &mut *self.state;
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
                    coded.proofs.add(&object, gather.version, (from, shard), offset, &reply.data);
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
                coded.old_shards.lacks(object, (from, shard), cx.now);
            }
            ShardReadOutcome::Bad => {
                gather.is_tried((from, shard));
                match is_member {
                    true => drop(gather.bad.insert(from)),
                    false => coded.old_shards.lacks(object, (from, shard), cx.now),
                }
            }
        }
        self.gather_on(cx, id);
    }

    fn gather_ended(&mut self, cx: &mut Context<'_>, id: LookupId, is_complete: bool) {
        let coded = &mut *self.state;
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
            self.cause(cx, Effect::ShardIsBad { object: object.clone(), osd, version });
        }
    }
}

//! The primary's own shard of an object, computed from others'.

use super::coding::without_zeros;
use super::gatherer::Gatherer;
use super::own_shard::Rebuild;
use super::wanted::Wanted;
use crate::context::{Context, Waiter};
use crate::group::digests::{Content, Digests, Wrong};
use crate::group::effects::Effect;
use crate::group::object_info::{OBJECT_INFO_ATTR, ObjectInfo};
use crate::messages::coded::OmapPage;
use crate::messages::healing::PgPush;
use bytes::Bytes;
use mutant::Mutant;
use std::collections::BTreeMap;
use store::{LookupId, ReadError};
use types::ObjectId;
use wire::{Decode, Rope};

impl Gatherer<'_> {
    /// Begins to compute this shard of an object that is missing here, if it is still to be.
    pub(crate) fn rebuild(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let is_pulled = self.whereabouts().source_in_flight(object) == Some(cx.whoami);
        let Some(version) = self.core.missing.get(object).copied().filter(|_| is_pulled) else { return };
        let (attrs, content) = (BTreeMap::new(), Content::new(b""));
        let omap_after = Some(Bytes::new());
        let (next, pieces, omap, waits_for, held) = (0, 0, None, None, false);
        let piece = None;
        let rebuild = Rebuild { version, next, pieces, attrs, omap, omap_after, content, waits_for, held, piece };
        self.state.forget_proof(object);
        self.state.rebuilds.insert(object.clone(), rebuild);
        self.rebuild_on(cx, object);
    }

    /// Returns true if the next piece may be computed now. A client that waits for the object is a reason, and so is a
    /// group that a further failure would cost data or service.
    fn may_rebuild_now(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> bool {
        if self.requests.any_wait_for(object) || self.whereabouts().is_at_risk() {
            return true;
        }
        cx.may_heal_now(self.core.id)
    }

    /// Goes on with what was held back.
    pub(crate) fn rebuild_held(&mut self, cx: &mut Context<'_>) {
        let held = self.state.rebuilds.iter().filter(|(_, rebuild)| rebuild.held).map(|(object, _)| object.clone());
        for object in held.collect::<Vec<_>>() {
            self.rebuild_on(cx, &object);
        }
    }

    /// Goes on at once with an object that a client waits for.
    pub(crate) fn hurry_rebuild(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let rebuild = self.state.rebuilds.get(object);
        if rebuild.is_some_and(|rebuild| rebuild.held) {
            self.rebuild_on(cx, object);
        }
    }

    pub(super) fn rebuild_on(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        let may = self.may_rebuild_now(cx, object);
        if let Some(rebuild) = self.state.rebuilds.get_mut(object) {
            rebuild.held = !may;
        }
        if !may {
            return;
        }
        let shard = self.core.interval.shard_of(cx.whoami).expect("the primary has a shard");
        let Some(rebuild) = self.state.rebuilds.get(object) else { return };
        let (version, offset) = (rebuild.version, rebuild.next);
        let attrs = rebuild.attrs.is_empty();
        let shard = match mutant::is(Mutant::WrongShardRebuilt) {
            true => (usize::from(shard) + 1) % usize::from(self.core.interval.shape.size),
            false => shard.into(),
        };
        let omap_after = rebuild.omap_after.clone();
        let wanted = Wanted::Shard { shard, offset, len: cx.limits.piece_bytes, attrs, omap_after };
        let id = self.gather(cx, object, version, wanted, Some(cx.whoami));
        cx.wait(id, Waiter::Rebuild { pgid: self.core.id, object: object.clone() });
        if let Some(rebuild) = self.state.rebuilds.get_mut(object) {
            rebuild.waits_for = Some(id);
        }
    }

    /// Checks a shard that has been computed whole. Errors: it is not what its digest says.
    fn is_rebuilt(&mut self, object: &ObjectId, rebuild: &Rebuild, shard_bytes: u64) -> Result<(), Wrong> {
        let digests = Digests::among(&rebuild.attrs).unwrap_or_default();
        if !mutant::is(Mutant::ReceiverTrusts) {
            rebuild.content.check(&digests, shard_bytes, self.core.id.pool.shard())?;
        }
        self.state.forget_proof(object);
        Ok(())
    }

    /// Drops a computed shard that is wrong.
    fn rebuilt_wrong(&mut self, cx: &mut Context<'_>, object: ObjectId, rebuild: &Rebuild, wrong: Wrong) {
        tracing::error!(pg = %self.core.id, %object, "what was computed of its shards is not taken: {wrong}");
        let digests = Digests::among(&rebuild.attrs).unwrap_or_default();
        let version = rebuild.version;
        let bad = self.state.wrong_sources(&object, version, &digests);
        self.cause(cx, Effect::OwnShardIsWrong { object, version, bad });
    }

    /// Goes on with bytes that have come, or cannot be had.
    pub(crate) fn rebuild_read(
        &mut self,
        cx: &mut Context<'_>,
        object: &ObjectId,
        id: LookupId,
        result: Result<Rope, ReadError>,
    ) {
        let rebuilds = &mut self.state.rebuilds;
        if rebuilds.get(object).is_none_or(|rebuild| rebuild.waits_for != Some(id)) {
            return;
        }
        let rebuild = rebuilds.remove(object).expect("just seen");
        if self.whereabouts().source_in_flight(object) != Some(cx.whoami) {
            // The object was given up.
            return;
        }
        match self.next_piece(cx, object, rebuild, result) {
            Ok(rebuild) => {
                self.state.rebuilds.insert(object.clone(), rebuild);
                self.cause(cx, Effect::OwnPiece(object.clone()));
            }
            Err(NoPiece::Lacking) => self.cause(cx, Effect::NoOwnShard(object.clone())),
            Err(NoPiece::Wrong(rebuild, wrong)) => self.rebuilt_wrong(cx, object.clone(), &rebuild, wrong),
        }
    }

    /// Makes the next piece of the shard, of what has come. Errors: there is none.
    fn next_piece(
        &mut self,
        cx: &mut Context<'_>,
        object: &ObjectId,
        mut rebuild: Rebuild,
        came: Result<Rope, ReadError>,
    ) -> Result<Rebuild, NoPiece> {
        let info = rebuild.attrs.get(OBJECT_INFO_ATTR).and_then(|info| ObjectInfo::from_slice(info).ok());
        let size_bytes = info.and_then(|info| info.size_bytes).map(|size| self.state.code().layout.shard_bytes(size));
        let (Ok(data), Some(shard_bytes)) = (came, size_bytes) else {
            return Err(NoPiece::Lacking);
        };
        let (offset, len) = (rebuild.next, data.len() as u64);
        if len != cx.limits.piece_bytes.min(shard_bytes.saturating_sub(offset)) {
            tracing::error!(pg = %self.core.id, %object, "its shards are not as long as they should be");
            return Err(NoPiece::Lacking);
        }
        let omap = match (rebuild.omap.take(), rebuild.omap_after.take()) {
            (Some(page), Some(_)) => page,
            (_, None) => OmapPage::default(),
            (None, Some(_)) => {
                tracing::error!(pg = %self.core.id, %object, "none of its shards tells its omap");
                return Err(NoPiece::Lacking);
            }
        };
        rebuild.omap_after = omap.entries.last().filter(|_| omap.has_more).map(|(key, _)| key.clone());
        let (first, last) = (rebuild.pieces == 0, offset + len >= shard_bytes && rebuild.omap_after.is_none());
        cx.shared.pacing.sent(len, last);
        let (runs, data) = without_zeros(offset, data);
        rebuild.content.add(&omap.entries, &runs, &data);
        if last && let Err(wrong) = self.is_rebuilt(object, &rebuild, shard_bytes) {
            return Err(NoPiece::Wrong(Box::new(rebuild), wrong));
        }
        let info = rebuild.attrs.get(OBJECT_INFO_ATTR).cloned();
        rebuild.piece = Some(PgPush {
            version: rebuild.version,
            piece: rebuild.pieces,
            first,
            last,
            size_bytes: shard_bytes,
            attrs: match (first, info) {
                (true, _) => rebuild.attrs.clone(),
                (false, Some(info)) if last => [(Bytes::from_static(OBJECT_INFO_ATTR), info)].into(),
                _ => BTreeMap::new(),
            },
            omap_header: omap.header,
            omap: omap.entries,
            runs,
            data,
            ..PgPush::empty(self.core.pg_interval(), object.clone())
        });
        (rebuild.next, rebuild.waits_for) = (offset + len, None);
        rebuild.pieces += 1;
        Ok(rebuild)
    }

    /// Returns the piece of this OSD's own shard that has been computed last. After the shard's last one nothing is
    /// computed of it any more.
    pub(super) fn take_piece(&mut self, object: &ObjectId) -> Option<PgPush> {
        let piece = self.state.rebuilds.get_mut(object)?.piece.take()?;
        if piece.last {
            self.state.rebuilds.remove(object);
        }
        Some(piece)
    }
}

/// Why there is no piece of a shard.
#[derive(Debug)]
enum NoPiece {
    /// Too few shards could be read, or they do not tell all.
    Lacking,
    /// The shard is whole, and not what its digest says.
    Wrong(Box<Rebuild>, Wrong),
}

//! Objects that could not be read here, and that nobody else turned out to have, are read again from time to time.
//!
//! The error may have been a passing one, or somebody may have come by whose help an erasure-coded object can be
//! computed. Until an object has been read whole it stays unfound: clients and operators do not see it come and go.

use crate::context::{Context, OnCommit, Waiter};
use crate::group::effects::Effect;
use crate::group::lookup::{NoAnswer, ready};
use crate::group::missing::found_step;
use crate::group::object_info::ObjectInfo;
use crate::healing::healer::Healer;
use crate::healing::object_reading::{ObjectReading, ShardWanted};
use std::time::Duration;
use store::{LookupId, ReadError, Transaction};
use types::ObjectId;
use wire::Rope;

/// Time from when something could not be read, or all was tried, to when it is tried again.
const REREAD_AFTER: Duration = Duration::from_secs(60);

/// Outcome of a step.
#[derive(Debug)]
enum Reread {
    /// The round has more to read.
    Some,
    /// Bytes of a shard must be gathered first.
    Wants(ShardWanted),
    Whole,
    /// The object is shorter than it should be.
    Bad,
}

impl Healer<'_> {
    /// Notes that an object is to be read again while it is unfound: it is missing here because this OSD's copy cannot
    /// be read.
    pub(crate) fn reread_if_unfound(&mut self, cx: &Context<'_>, object: &ObjectId) {
        self.state.rereading.damaged.insert(object.clone());
        self.reread_later(cx);
    }

    fn is_reread(&self, object: &ObjectId) -> bool {
        self.state.unreadable.contains_key(object)
            || self.state.rereading.damaged.contains(object) && self.whereabouts().is_unfound(object)
    }

    /// Sets the time at which objects that cannot be read are looked at again.
    pub(crate) fn reread_later(&mut self, cx: &Context<'_>) {
        if self.state.rereading.reading.is_none() && self.state.rereading.objects.is_empty() {
            self.state.rereading.next_at.get_or_insert(cx.now + REREAD_AFTER);
        }
    }

    /// Begins a round, if it is time.
    pub(crate) fn reread(&mut self, cx: &mut Context<'_>) {
        if self.state.rereading.next_at.is_some_and(|at| at <= cx.now) && self.peering.may_recover() {
            self.state.rereading.next_at = None;
            let damaged = self.state.rereading.damaged.iter().filter(|object| self.whereabouts().is_unfound(object));
            self.state.rereading.objects = self.state.unreadable.keys().chain(damaged).cloned().collect();
            cx.cause(self.core.id, Effect::Reread);
        }
    }

    /// Goes on with a lookup that is done; for data reads, with its outcome.
    pub(crate) fn reread_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        if self.state.rereading.waits_for != Some(id) {
            return;
        }
        self.state.rereading.waits_for = None;
        match (data, &mut self.state.rereading.reading) {
            (Some(Ok(bytes)), Some(reading)) => reading.data_came(bytes),
            (Some(Err(_)), reading) => {
                *reading = None;
                self.state.rereading.objects.pop();
            }
            (None, _) | (Some(Ok(_)), None) => {}
        }
        cx.cause(self.core.id, Effect::Reread);
    }

    /// Goes on to where a lookup must be waited for, or the round ends. Returns the bytes that must be gathered first,
    /// if that is so; [`reread_waits`](Healer::reread_waits) goes on.
    pub(super) fn reread_on(&mut self, cx: &mut Context<'_>) -> Option<ShardWanted> {
        if self.state.rereading.waits_for.is_some() {
            return None;
        }
        while let Some(object) = self.state.rereading.objects.last().cloned() {
            // The object may have been given up, or come from elsewhere.
            match if self.is_reread(&object) { self.reread_step(cx, &object) } else { Ok(Reread::Bad) } {
                Ok(Reread::Some) => continue,
                Ok(Reread::Wants(wanted)) => return Some(wanted),
                Ok(Reread::Whole) => self.was_read(cx, &object),
                Ok(Reread::Bad) => {}
                Err(NoAnswer::Pending(id)) => {
                    self.reread_waits(cx, id);
                    return None;
                }
                Err(NoAnswer::Damaged(damage)) => {
                    tracing::debug!(pg = %self.core.id, %object, "still cannot be read: {damage}");
                }
            }
            self.state.rereading.reading = None;
            self.state.rereading.objects.pop();
        }
        self.state.rereading.damaged.retain(|object| self.core.missing.contains_key(object));
        let is_all = self.state.unreadable.is_empty() && self.state.rereading.damaged.is_empty();
        self.state.rereading.next_at = (!is_all).then(|| cx.now + REREAD_AFTER);
        None
    }

    /// Notes that the round waits for a lookup.
    pub(super) fn reread_waits(&mut self, cx: &mut Context<'_>, id: LookupId) {
        self.state.rereading.waits_for = Some(id);
        cx.wait(id, Waiter::Reread { pgid: self.core.id });
    }

    /// Reads one piece.
    fn reread_step(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> Result<Reread, NoAnswer> {
        if self.state.rereading.reading.is_none() {
            let missing = self.core.missing.get(object);
            let stat = match ready(cx.store.stat(object))? {
                Some(stat) => stat,
                None if missing.is_some() => return Ok(Reread::Bad),
                None => return Ok(Reread::Whole),
            };
            if missing.is_some_and(|wanted| ObjectInfo::of(&stat).ok().map(|info| info.version) != Some(*wanted)) {
                return Ok(Reread::Bad);
            }
            // Where the object is missing here, this OSD's own copy is read, which may be well again.
            let lacks = self.members.lacking(object).first().copied().filter(|_| missing.is_none());
            let shard = lacks.and_then(|osd| self.core.interval.shard_of(osd));
            let reading = ObjectReading::new(object.clone(), stat);
            self.state.rereading.lacks = lacks;
            self.state.rereading.reading = Some(match shard {
                Some(shard) => reading.of_shard(shard.into(), cx.limits.piece_bytes),
                None => reading,
            });
        }
        let lacks = self.state.rereading.lacks;
        let reading = self.state.rereading.reading.as_ref().expect("just put there");
        if let Some(wanted) = reading.wants_shard(lacks) {
            return Ok(Reread::Wants(wanted));
        }
        let pg = self.core.pg_interval();
        let reading = self.state.rereading.reading.as_mut().expect("just put there");
        Ok(match reading.next_piece(cx, pg)? {
            Ok(piece) if piece.last => Reread::Whole,
            Ok(_) => Reread::Some,
            Err(_) => Reread::Bad,
        })
    }

    /// Notes that the object can be sent after all.
    fn was_read(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        tracing::warn!(pg = %self.core.id, %object, "can be read again");
        self.state.unreadable.remove(object);
        self.state.rereading.damaged.remove(object);
        if self.core.missing.remove(object).is_some() {
            self.state.pulls.forget(object);
            let steps = vec![found_step(object)];
            cx.submit_or_stop(Transaction { pg: self.core.id, steps }, OnCommit::Nothing);
        }
        self.goes_on_soon(cx);
        if self.peering.is_active() {
            self.object_is_here(cx, object);
        }
    }
}

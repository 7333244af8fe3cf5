//! Objects that could not be read when members were to get them, and that nobody else has, are read again from time to time.
//!
//! The error may have been a passing one, or somebody may have come by whose help an erasure-coded object can be computed. Until
//! an object has been read whole it stays unfound: clients and operators do not see it come and go.

use crate::context::{Context, Waiter};
use crate::lookup::{NoAnswer, ready};
use crate::object_reading::ObjectReading;
use crate::pg::Pg;
use std::time::Duration;
use store::{LookupId, ReadError};
use types::{ObjectId, OsdId};
use wire::Rope;

/// From when something could not be read, or all was tried, to when it is tried again.
const REREAD_AFTER: Duration = Duration::from_secs(60);

/// What came of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reread {
    /// There is more to read.
    Some,
    Whole,
    /// It is shorter than it should be.
    Bad,
}

/// What is read again.
#[derive(Debug, Default)]
pub(crate) struct Rereading {
    /// When the next round begins; `None`: there is nothing to read, or a round is under way.
    next_at: Option<Duration>,
    /// What is left of the round.
    objects: Vec<ObjectId>,
    reading: Option<ObjectReading>,
    /// Who lacks what is read, if anybody is known to: of erasure-coded objects its shard is computed.
    lacks: Option<OsdId>,
    waits_for: Option<LookupId>,
}

impl Pg {
    /// Something cannot be read.
    pub(crate) fn reread_later(&mut self, cx: &Context<'_>) {
        if self.rereading.reading.is_none() && self.rereading.objects.is_empty() {
            self.rereading.next_at.get_or_insert(cx.now + REREAD_AFTER);
        }
    }

    /// Begins a round, if it is time.
    pub(crate) fn reread(&mut self, cx: &mut Context<'_>) {
        if self.rereading.next_at.is_some_and(|at| at <= cx.now) && self.peering.may_recover() {
            self.rereading.next_at = None;
            self.rereading.objects = self.unreadable.keys().cloned().collect();
            self.reread_on(cx);
        }
    }

    /// A lookup is done; for data reads, with its outcome.
    pub(crate) fn reread_lookup_done(
        &mut self,
        cx: &mut Context<'_>,
        id: LookupId,
        data: Option<Result<Rope, ReadError>>,
    ) {
        if self.rereading.waits_for != Some(id) {
            return;
        }
        self.rereading.waits_for = None;
        match (data, &mut self.rereading.reading) {
            (Some(Ok(bytes)), Some(reading)) => reading.data_came(bytes),
            (Some(Err(_)), reading) => {
                *reading = None;
                self.rereading.objects.pop();
            }
            (None, _) | (Some(Ok(_)), None) => {}
        }
        self.reread_on(cx);
    }

    /// Goes on to where a lookup must be waited for, or the round ends.
    fn reread_on(&mut self, cx: &mut Context<'_>) {
        while let Some(object) = self.rereading.objects.last().cloned() {
            // It may have been given up, or come from elsewhere.
            let is_wanted = self.unreadable.contains_key(&object);
            match if is_wanted { self.reread_step(cx, &object) } else { Ok(Reread::Bad) } {
                Ok(Reread::Some) => continue,
                Ok(Reread::Whole) => self.was_read(cx, &object),
                Ok(Reread::Bad) => {}
                Err(NoAnswer::Pending(id)) => {
                    self.rereading.waits_for = Some(id);
                    return cx.wait(id, Waiter::Reread { pgid: self.id });
                }
                Err(NoAnswer::Damaged(damage)) => {
                    tracing::debug!(pg = %self.id, %object, "still cannot be read: {damage}");
                }
            }
            self.rereading.reading = None;
            self.rereading.objects.pop();
        }
        self.rereading.next_at = (!self.unreadable.is_empty()).then(|| cx.now + REREAD_AFTER);
    }

    /// Reads one piece.
    fn reread_step(&mut self, cx: &mut Context<'_>, object: &ObjectId) -> Result<Reread, NoAnswer> {
        if self.rereading.reading.is_none() {
            let Some(stat) = ready(cx.store.stat(object))? else { return Ok(Reread::Whole) };
            let lacks = self.members.lacking(object).first().copied();
            let shard = lacks.filter(|_| self.coded.is_some()).and_then(|osd| self.interval.shard_of(osd));
            let reading = ObjectReading::new(object.clone(), stat);
            self.rereading.lacks = lacks;
            self.rereading.reading = Some(match shard {
                Some(shard) => reading.of_shard(shard.into(), cx.limits.piece_bytes),
                None => reading,
            });
        }
        let lacks = self.rereading.lacks;
        let reading = self.rereading.reading.as_ref().expect("just put there");
        if let Some((object, version, wanted)) = reading.wants_shard() {
            return Err(NoAnswer::Pending(self.gather(cx, &object, version, wanted, lacks)));
        }
        let pg = self.pg_interval();
        let reading = self.rereading.reading.as_mut().expect("just put there");
        Ok(match reading.next_piece(cx, pg)? {
            Some(piece) if piece.last => Reread::Whole,
            Some(_) => Reread::Some,
            None => Reread::Bad,
        })
    }

    /// The object can be sent after all.
    fn was_read(&mut self, cx: &mut Context<'_>, object: &ObjectId) {
        tracing::warn!(pg = %self.id, %object, "can be read again");
        self.unreadable.remove(object);
        self.goes_on_soon(cx);
        if self.is_active() {
            self.object_is_here(cx, object);
        }
    }
}

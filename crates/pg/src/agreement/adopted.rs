//! Updates that a new interval takes over although perhaps no client was answered for them.
//!
//! The authoritative log may end with updates that only the member it comes from had. Once an interval with this log is
//! recorded they stay, so what they made must then be on as many members as an update needs to be answered for: else
//! the loss of a single disk would leave their objects to nobody, although others still have what was answered before.
//! If it is certain that nobody was answered they must be on all that serve, as far as they can be had; those that
//! cannot go back to what was answered, if they can ([`crate::agreement::going_back`]).

use crate::agreement::machine::Agreement;
use crate::agreement::members::Standing;
use crate::context::Context;
use crate::group::effects::Effect;
use mutant::Mutant;
use std::collections::BTreeSet;
use types::ObjectId;

impl Agreement<'_> {
    /// Returns true if the objects of such updates are where they must be, but for objects that nobody has, can send or
    /// has room for. Has the others copied there, or go back. Erasure-coded groups take over only updates that all
    /// OSDs that served and are here have, but for those whose shards the update skips.
    pub(super) fn adopted_are_kept(&mut self, cx: &mut Context<'_>) -> bool {
        if self.core.protection().keeps_undo() || mutant::is(Mutant::AdoptedAtOnce) {
            return true;
        }
        // Clients were answered for all updates up to this one.
        let answered = self.core.info.rolled_forward;
        let own = self.core.missing.iter().filter(|(_, version)| **version > answered).map(|(object, _)| object);
        let others = self.members.missing_after(answered);
        let lacked = own.chain(others).chain(self.whereabouts().not_for_sure());
        let lacked: BTreeSet<ObjectId> = lacked.cloned().collect();
        let mut kept = true;
        for object in lacked {
            let is_where_it_must_be = match self.progress().is_unanswered(cx.whoami, &object) {
                true => self.is_on_all(&object),
                false => self.copies_of(&object) >= usize::from(self.core.interval.shape.min_size),
            };
            if is_where_it_must_be {
                continue;
            }
            if self.can_be_copied(cx, &object) {
                kept = false;
                self.need_not_go_back(&object);
                self.cause(cx, Effect::Bring(object));
            } else if self.goes_back(cx, &object) {
                kept = false;
            }
        }
        // Updates by which objects went back must be in all logs.
        let head = self.core.log.head();
        kept && self.progress().serving(cx.whoami).into_iter().all(|osd| self.durability.durable_on(osd) >= head)
    }

    /// Returns true if the object is here or comes, and the members that lack it had room when they were sent something
    /// last.
    fn can_be_copied(&self, cx: &Context<'_>, object: &ObjectId) -> bool {
        let own = self.core.missing.contains_key(object).then_some(cx.whoami);
        let has_room =
            own.into_iter().chain(self.members.lacking(object)).all(|osd| !self.whereabouts().had_no_room(osd, cx.now));
        has_room && !self.whereabouts().is_unfound(object)
    }

    /// Returns how many of the serving members have the object durably.
    fn copies_of(&self, object: &ObjectId) -> usize {
        let has = |(osd, standing): &(_, _)| *standing == Standing::Serving && !self.members.lacks(*osd, object);
        let own = !self.core.missing.contains_key(object) && !self.whereabouts().is_settling(object);
        usize::from(own) + self.members.iter().filter(has).count()
    }

    /// Returns true if all serving members have the object durably.
    fn is_on_all(&self, object: &ObjectId) -> bool {
        let has = |(osd, standing): (_, Standing)| standing != Standing::Serving || !self.members.lacks(osd, object);
        self.whereabouts().is_readable(object)
            && !self.whereabouts().is_settling(object)
            && self.members.iter().all(has)
    }
}

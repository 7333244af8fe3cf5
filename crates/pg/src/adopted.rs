//! Updates that a new interval takes over although perhaps no client was answered for them.
//!
//! The authoritative log may end with updates that only the member it comes from had. Once an interval with this log is
//! recorded they stay, so what they made must then be on as many members as an update needs to be answered for: else
//! the loss of a single disk would leave their objects to nobody, although others still have what was answered before.

use crate::context::Context;
use crate::members::Standing;
use crate::pg::Pg;
use mutant::Mutant;
use std::collections::BTreeSet;
use types::ObjectId;

impl Pg {
    /// Whether the objects of such updates are on `min_size` members, but for those that nobody has, can send or has
    /// room for. Has them brought there. Erasure-coded groups take over only what all have who served.
    pub(crate) fn adopted_are_kept(&mut self, cx: &mut Context<'_>) -> bool {
        if self.coded.is_some() || mutant::is(Mutant::AdoptedAtOnce) {
            return true;
        }
        // For all before, clients were answered.
        let answered = self.info.rolled_forward;
        let own = self.missing.iter().filter(|(_, version)| **version > answered).map(|(object, _)| object);
        let others = self.members.missing_after(answered);
        let lacked: BTreeSet<ObjectId> = own.chain(others).chain(self.pulls.settling()).cloned().collect();
        let mut kept = true;
        for object in lacked {
            let is_enough = self.copies_of(&object) >= usize::from(self.interval.shape.min_size);
            if !is_enough && self.can_be_copied(cx, &object) {
                kept = false;
                self.is_where_needed(cx, &object, true);
            }
        }
        kept
    }

    /// Whether the object is here or comes, and those that lack it had room when they were sent something last.
    fn can_be_copied(&self, cx: &Context<'_>, object: &ObjectId) -> bool {
        let own = self.missing.contains_key(object).then_some(cx.whoami);
        let has_room =
            own.into_iter().chain(self.members.lacking(object)).all(|osd| !self.sent_back.holds(osd, cx.now));
        has_room && !self.is_unfound(object) && !self.unreadable.contains(object)
    }

    /// How many of those that serve have the object durably.
    fn copies_of(&self, object: &ObjectId) -> usize {
        let has = |(osd, standing): &(_, _)| *standing == Standing::Serving && !self.members.lacks(*osd, object);
        let own = !self.missing.contains_key(object) && !self.pulls.is_settling(object);
        usize::from(own) + self.members.iter().filter(has).count()
    }
}

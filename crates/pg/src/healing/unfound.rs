//! Objects that nobody who is there can supply as they should be.

use crate::context::Context;
use crate::healing::healer::Healer;
use std::collections::BTreeMap;
use types::{EVersion, ObjectId, OsdId};

impl Healer<'_> {
    /// Notes that an object which members lack cannot be read here, and that nobody else has it. Its operations wait
    /// with their clients, other objects go on without it, and it is looked at again from time to time.
    pub(crate) fn cannot_be_read(&mut self, cx: &mut Context<'_>, object: &ObjectId, version: Option<EVersion>) {
        tracing::error!(pg = %self.core.id, %object, ?version, "nobody has it so that it can be read");
        self.state.unreadable.insert(object.clone(), version);
        self.reread_later(cx);
        if self.peering.is_active() {
            self.object_is_here(cx, object);
        }
        // If the group does not serve yet, the object may have to go back to its former state.
        self.goes_on_soon(cx);
    }

    /// Notes that these objects are given up by the update that comes now.
    pub(crate) fn is_given_up(&mut self, cx: &mut Context<'_>, lost: &BTreeMap<ObjectId, EVersion>) {
        for (object, version) in lost {
            tracing::warn!(pg = %self.core.id, %object, %version, "is given up: nobody has it");
            let members: Vec<OsdId> = self.members.iter().map(|(osd, _)| osd).collect();
            for osd in members {
                self.has_now(osd, object);
            }
            self.is_made_anew(object);
        }
        self.goes_on_soon(cx);
    }

    /// Schedules recovery for the next turn, because other objects are unfound than before. It cannot go on at once:
    /// callers are within the run of an operation, or of recovery itself.
    pub(crate) fn goes_on_soon(&mut self, cx: &mut Context<'_>) {
        self.state.unfound_changed = true;
        cx.agenda.wakes.insert((cx.now, self.core.id));
    }

    /// Goes on with what waited for what is unfound now, or has been given up.
    pub(crate) fn go_on_without(&mut self, cx: &mut Context<'_>) {
        if std::mem::take(&mut self.state.unfound_changed) {
            self.members_changed(cx);
            self.recover(cx);
        }
    }
}

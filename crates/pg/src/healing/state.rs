//! The state of a group's healing.

use super::pulls::Pulls;
use super::push_queue::Pushes;
use super::receiving::Receiving;
use super::recovered::Recovered;
use super::refusals::SentBack;
use super::rereads::Rereading;
use super::walks::Scan;
use super::work::{Blocked, Forced, Turn};
use std::collections::BTreeMap;
use std::time::Duration;
use types::{EVersion, ObjectId, OsdId};

/// A group's healing: all that is under way. Only this folder sees into it; others ask
/// [`Whereabouts`](super::whereabouts::Whereabouts), and tell [`Healer`](super::healer::Healer).
#[derive(Debug, Default)]
pub(crate) struct Healing {
    pub(super) pushes: Pushes,
    pub(super) pulls: Pulls,
    /// Objects that come from other members piece by piece.
    pub(super) receiving: Receiving,
    /// As member: a question of the primary, which compares objects, while it is being answered.
    pub(super) scan: Option<Scan>,
    /// As primary: objects that members lack and that cannot be read here nor elsewhere, though by the logs they are
    /// here; in which version. `None`: others have it, in a version that nothing tells.
    pub(super) unreadable: BTreeMap<ObjectId, Option<EVersion>>,
    pub(super) rereading: Rereading,
    pub(super) turn: Turn,
    pub(super) blocked: Blocked,
    pub(super) forced: Forced,
    /// Objects for which there was no room.
    pub(super) sent_back: SentBack,
    /// Members whose backfill waits until then, as objects cannot be listed here or there.
    pub(super) unlisted_until: BTreeMap<OsdId, Duration>,
    /// Objects that have been brought to where they were missing.
    pub(super) recovered: Recovered,
    /// Set when other objects are unfound than before. Whatever waited for that goes on in the next turn.
    pub(super) unfound_changed: bool,
}

impl Healing {
    /// Returns true if it is the group's turn to heal.
    pub fn may_work(&self) -> bool {
        self.turn.may_work()
    }

    /// Returns the counts of what has been brought to where it was missing since the OSD has the group.
    pub fn recovered(&self) -> Recovered {
        self.recovered
    }

    /// Notes that some of the object had come before this OSD started.
    pub fn came_in_part(&mut self, object: ObjectId) {
        self.receiving.left(object);
    }

    /// Ends all that was of one interval. Parts of objects that have come were dropped
    /// before. `stays_primary`: what an operator wanted still holds.
    pub fn interval_ended(&mut self, stays_primary: bool) {
        let Healing { receiving, forced, recovered, unfound_changed, .. } = std::mem::take(self);
        let forced = if stays_primary { forced } else { Forced::default() };
        *self = Healing { receiving, forced, recovered, unfound_changed, ..Healing::default() };
    }

    #[cfg(test)]
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }
}

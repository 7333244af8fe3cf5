//! Objects that are sent to one member that lacks them.

use crate::healing::object_reading::ObjectReading;
use crate::healing::walks::Backfill;
use std::collections::{BTreeMap, VecDeque};
use store::LookupId;
use types::{EVersion, Epoch, ObjectId, OsdId};

/// Pushes by receiver.
pub(crate) type Pushes = BTreeMap<OsdId, PushQueue>;

/// State of an object on its receiver, as far as it is known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Has {
    /// Whatever it is, it is to be replaced.
    Unknown,
    Nothing,
    Version(EVersion),
}

#[derive(Debug, Default)]
pub(crate) struct PushQueue {
    pub since: Epoch,
    pub queue: BTreeMap<ObjectId, Has>,
    /// Objects of the queue that go first.
    pub urgent: VecDeque<ObjectId>,
    /// The receiver is backfilled.
    pub backfill: Option<Backfill>,
    /// Objects that were sent and are not acknowledged, with their sizes.
    pub unacked: BTreeMap<ObjectId, u64>,
    pub reading: Option<ObjectReading>,
    /// A client waits for what is read.
    pub reading_is_urgent: bool,
    pub waits_for: Option<LookupId>,
}

impl PushQueue {
    pub fn new(since: Epoch) -> PushQueue {
        PushQueue { since, ..PushQueue::default() }
    }

    pub fn is_on_its_way(&self, object: &ObjectId) -> bool {
        self.unacked.contains_key(object) || self.reads(object)
    }

    /// Returns true if pieces of the object are being sent.
    pub fn reads(&self, object: &ObjectId) -> bool {
        self.reading.as_ref().is_some_and(|reading| reading.object == *object)
    }

    /// Returns true if a client waits for something that is yet to be sent.
    pub fn has_urgent(&self) -> bool {
        self.urgent.iter().any(|object| self.queue.contains_key(object))
    }

    /// Returns true if nothing is left to be sent, and nothing will be.
    pub fn is_done(&self) -> bool {
        self.backfill.is_none() && self.queue.is_empty() && self.reading.is_none() && self.unacked.is_empty()
    }

    pub fn hurry(&mut self, object: &ObjectId) {
        if self.queue.contains_key(object) && !self.urgent.contains(object) {
            self.urgent.push_back(object.clone());
        }
    }

    /// Notes that the object is to be sent, if it is not on its way.
    pub fn want(&mut self, object: ObjectId) {
        if !self.is_on_its_way(&object) {
            self.queue.insert(object, Has::Unknown);
        }
    }

    /// Returns the next object that can be sent.
    pub fn next(&self, only_urgent: bool, can: impl Fn(&ObjectId) -> bool) -> Option<(&ObjectId, Has)> {
        let urgent = self.urgent.iter().filter_map(|object| self.queue.get_key_value(object));
        urgent
            .chain(self.queue.iter().filter(|_| !only_urgent))
            .find(|(object, _)| can(object))
            .map(|(object, has)| (object, *has))
    }

    pub fn take(&mut self, object: &ObjectId) {
        self.urgent.retain(|urgent| urgent != object);
        self.queue.remove(object);
    }
}

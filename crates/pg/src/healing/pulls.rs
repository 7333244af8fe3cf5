//! Objects that the primary gets from others.

use std::collections::{BTreeMap, BTreeSet};
use types::{ObjectId, OsdId};

/// Objects that the primary gets from others.
#[derive(Debug, Default)]
pub(crate) struct Pulls {
    pub(super) in_flight: BTreeMap<ObjectId, Pull>,
    /// Members that turned out not to have what the primary lacks.
    pub(super) tried: BTreeMap<ObjectId, BTreeSet<OsdId>>,
    /// Objects that have come and are not durable here yet, with how often each has. If this OSD stopped now it would
    /// lack these again, in the versions in which others have them now: so those stay where they are until it has them
    /// for good.
    pub(super) settling: BTreeMap<ObjectId, usize>,
}

/// An object that somebody was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pull {
    pub(super) source: OsdId,
    /// The source knows that a client waits for it.
    pub(super) urgent: bool,
}

impl Pulls {
    /// Returns the OSD from which the object is pulled.
    pub fn source_in_flight(&self, object: &ObjectId) -> Option<OsdId> {
        self.in_flight.get(object).map(|pull| pull.source)
    }

    /// Notes that the object is pulled from `source`.
    pub fn comes_from(&mut self, object: &ObjectId, source: OsdId) {
        self.in_flight.insert(object.clone(), Pull { source, urgent: true });
    }

    /// Notes that a client waits for the object, which is pulled. Returns the OSD that is to be told.
    pub(super) fn hurry(&mut self, object: &ObjectId) -> Option<OsdId> {
        let pull = self.in_flight.get_mut(object).filter(|pull| !pull.urgent)?;
        pull.urgent = true;
        Some(pull.source)
    }

    pub fn forget(&mut self, object: &ObjectId) {
        self.in_flight.remove(object);
        self.tried.remove(object);
    }

    /// Tells whether all that has come is durable.
    pub fn are_durable(&self) -> bool {
        self.settling.is_empty()
    }

    /// Gives the objects that have come and are not durable yet.
    pub fn settling(&self) -> impl Iterator<Item = &ObjectId> {
        self.settling.keys()
    }

    pub fn is_settling(&self, object: &ObjectId) -> bool {
        self.settling.contains_key(object)
    }

    /// Notes that an object is durable as it came once. Returns true if it is durable as often as it came.
    pub(super) fn settled(&mut self, object: &ObjectId) -> bool {
        let Some(times) = self.settling.get_mut(object) else { return false };
        *times -= 1;
        *times == 0 && self.settling.remove(object).is_some()
    }
}

//! Objects that go back, and the way of each.

use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, ObjectId, OsdId};

/// Way back of an object to what it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// The version that it goes back to; zero: it was not there.
    pub(super) to: EVersion,
    /// The first update of the object or of a clone of it that is void.
    pub(super) voids: EVersion,
    /// Members that do not have that version.
    pub(super) tried: BTreeSet<OsdId>,
}

/// An interval's objects that may go back; `None`: such as cannot.
pub(crate) type GoingBack = BTreeMap<ObjectId, Option<Way>>;

//! Objects that go back, and the way of each.

use crate::group::object_info::ObjectInfo;
use std::collections::{BTreeMap, BTreeSet};
use types::{EVersion, ObjectId, OsdId};

/// Way back of an object to what it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// The version that it goes back to; zero: it was not there.
    pub(crate) to: EVersion,
    /// The first update of the object or of a clone of it that is void.
    pub(crate) voids: EVersion,
    /// Members that do not have that version.
    pub(super) tried: BTreeSet<OsdId>,
    /// The former information of the object, once that is here; `None`: the object was not there.
    pub(crate) former: Option<ObjectInfo>,
}

/// The objects of an interval that nobody has in their newest state, each with its way back. `None`: the object cannot
/// go back.
pub(crate) type GoingBack = BTreeMap<ObjectId, Option<Way>>;

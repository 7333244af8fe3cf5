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

/// An object that has gone back, by an update that members are sent.
#[derive(Debug)]
pub(crate) struct WentBack {
    pub(crate) object: ObjectId,
    /// The version that its former state has now; `None`: the object is not there any more.
    pub(crate) version: Option<EVersion>,
    /// The clones of it that void updates made, and that are gone now.
    pub(crate) clones: Vec<ObjectId>,
}

/// The objects of an interval that nobody has in their newest state, each with its way back. `None`: the object cannot
/// go back.
pub(crate) type GoingBack = BTreeMap<ObjectId, Option<Way>>;

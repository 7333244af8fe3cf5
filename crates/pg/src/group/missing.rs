//! Notes in a group's table about objects that are missing here.

use bytes::Bytes;
use store::Step;
use types::{EVersion, ObjectId};
use wire::{Encode, Target};

/// First byte of the keys, in the group's table, of objects that are missing here.
pub(crate) const MISSING_PREFIX: u8 = b'm';

/// Returns the step that notes that this member lacks the object, or that what it has is not of this version.
pub fn missing_step(object: &ObjectId, version: EVersion) -> Step {
    Step::PgSet { key: missing_key(object), value: version.to_vec(Target::default()).into() }
}

/// Returns the step that notes that this member has the object.
pub(crate) fn found_step(object: &ObjectId) -> Step {
    Step::PgRemove { key: missing_key(object) }
}

/// Returns the range of keys that all missing objects lie in.
pub(crate) fn missing_key_range() -> (Bytes, Bytes) {
    (Bytes::from_static(&[MISSING_PREFIX]), Bytes::from_static(&[MISSING_PREFIX + 1]))
}

pub(crate) fn missing_key(object: &ObjectId) -> Bytes {
    object_key(MISSING_PREFIX, object)
}

/// Returns the key, in the group's table, of a note on an object.
pub(crate) fn object_key(prefix: u8, object: &ObjectId) -> Bytes {
    let mut key = vec![prefix];
    key.extend(object.to_vec(Target::default()));
    key.into()
}

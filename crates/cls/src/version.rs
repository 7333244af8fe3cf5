//! Class `version`: a version that grows with changes and is compared before them.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use bytes::Bytes;
use types::{Errno, base64};
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] = &[
    Method::update("set", set),
    Method::update("inc", increase),
    Method::update("inc_conds", increase),
    Method::read("read", read),
    Method::read("check_conds", check),
];

const ATTR: &str = "ceph.objclass.version";

/// Number of random bytes in a tag of 24 letters.
const TAG_RANDOM_BYTES: usize = 18;

/// Ceph's `obj_version`. Versions with different tags belong to different lives of the object.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct ObjectVersion {
    pub version: u64,
    pub tag: Bytes,
}

impl Encode for ObjectVersion {
    fn encode(&self, w: &mut Writer) {
        w.versioned(1, 1, |w| {
            w.u64(self.version);
            w.put(&self.tag);
        });
    }
}

impl Decode for ObjectVersion {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<ObjectVersion, DecodeError> {
        let (_, mut r) = r.versioned("version of an object", 1)?;
        Ok(ObjectVersion { version: r.u64()?, tag: r.get()? })
    }
}

/// Numbers of the comparisons that a condition can ask for: the object's version compared with the given one.
mod comparison {
    pub const EQUAL: u32 = 1;
    pub const GREATER: u32 = 2;
    pub const GREATER_OR_EQUAL: u32 = 3;
    pub const LESS: u32 = 4;
    pub const LESS_OR_EQUAL: u32 = 5;
    pub const TAG_EQUAL: u32 = 6;
    pub const TAG_DIFFERENT: u32 = 7;
}

/// A condition on an object's version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Condition {
    pub given: ObjectVersion,
    /// [`comparison::EQUAL`] or another one. A condition with an unknown number always holds.
    pub code: u32,
}

impl Decode for Condition {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<Condition, DecodeError> {
        let (_, mut r) = r.versioned("condition on a version", 1)?;
        Ok(Condition { given: r.get()?, code: r.u32()? })
    }
}

impl Condition {
    fn holds(&self, have: &ObjectVersion) -> bool {
        match self.code {
            comparison::EQUAL => have == &self.given,
            comparison::GREATER => have.version > self.given.version,
            comparison::GREATER_OR_EQUAL => have.version >= self.given.version,
            comparison::LESS => have.version < self.given.version,
            comparison::LESS_OR_EQUAL => have.version <= self.given.version,
            comparison::TAG_EQUAL => have.tag == self.given.tag,
            comparison::TAG_DIFFERENT => have.tag != self.given.tag,
            _ => true,
        }
    }
}

fn load(object: &mut dyn Object) -> Result<Option<ObjectVersion>, Stop> {
    let stored = if object.exists()? { object.attr(ATTR)? } else { None };
    stored.map(|bytes| decode_stored(&bytes)).transpose()
}

fn save(object: &mut dyn Object, version: &ObjectVersion) -> Result<Output, Stop> {
    object.set_attr(ATTR, encoded(version))?;
    Ok(Output::none())
}

fn set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to set a version", 1)?;
    let version: ObjectVersion = r.get()?;
    save(object, &version)
}

/// Decodes the conditions of a request; the version that it also carries has no meaning.
fn conditions(input: &mut Reader<'_>) -> Result<Vec<Condition>, DecodeError> {
    let (_, mut r) = input.versioned("conditions on a version", 1)?;
    let _: ObjectVersion = r.get()?;
    r.get()
}

fn must_hold(conditions: &[Condition], have: &ObjectVersion) -> Result<(), Stop> {
    if conditions.iter().all(|c| c.holds(have)) { Ok(()) } else { Err(Errno::ECANCELED.into()) }
}

fn increase(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let conditions = conditions(input)?;
    let have = match load(object)? {
        Some(have) => have,
        None => {
            let random: Vec<u8> = (0..3).flat_map(|_| object.random().to_le_bytes()).take(TAG_RANDOM_BYTES).collect();
            ObjectVersion { version: 1, tag: base64::encode(&random).into() }
        }
    };
    must_hold(&conditions, &have)?;
    save(object, &ObjectVersion { version: have.version + 1, ..have })
}

fn check(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let conditions = conditions(input)?;
    let have = load(object)?.unwrap_or_default();
    must_hold(&conditions, &have)?;
    Ok(Output::none())
}

fn read(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let have = load(object)?.unwrap_or_default();
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&have))))
}

//! Class `refcount`: an object is removed with the last reference to it.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use types::Errno;
use wire::{Decode, DecodeError, Encode, Reader, Writer};

pub(crate) const METHODS: &[Method] =
    &[Method::update("get", get), Method::update("put", put), Method::update("set", set), Method::read("read", read)];

const ATTR: &str = "refcount";

/// Tag of the implicit reference to an object that has no explicit ones.
const IMPLICIT: Bytes = Bytes::new();

/// Ceph's `obj_refcount`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct References {
    pub tags: BTreeMap<Bytes, bool>,
    /// Tags of removed references: a request that is sent again must not remove another reference.
    pub retired: BTreeSet<Bytes>,
}

impl Encode for References {
    fn encode(&self, w: &mut Writer) {
        w.versioned(2, 1, |w| {
            w.put(&self.tags);
            w.put(&self.retired);
        });
    }
}

impl Decode for References {
    const MIN_BYTES: usize = 6;

    fn decode(r: &mut Reader<'_>) -> Result<References, DecodeError> {
        let (head, mut r) = r.versioned("references", 2)?;
        let tags = r.get()?;
        Ok(References { tags, retired: if head.version >= 2 { r.get()? } else { BTreeSet::new() } })
    }
}

fn load(object: &mut dyn Object, implicit: bool) -> Result<References, Stop> {
    match object.attr(ATTR)? {
        Some(bytes) => decode_stored(&bytes),
        None => Ok(References {
            tags: implicit.then_some((IMPLICIT, true)).into_iter().collect(),
            retired: BTreeSet::new(),
        }),
    }
}

fn save(object: &mut dyn Object, references: &References) -> Result<Output, Stop> {
    match references.tags.is_empty() {
        true => object.remove()?,
        false => object.set_attr(ATTR, encoded(references))?,
    }
    Ok(Output::none())
}

fn tag_and_implicit(input: &mut Reader<'_>) -> Result<(Bytes, bool), DecodeError> {
    let (_, mut r) = input.versioned("reference", 1)?;
    Ok((r.get()?, r.bool()?))
}

fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (tag, implicit) = tag_and_implicit(input)?;
    let mut references = load(object, implicit)?;
    references.tags.insert(tag, true);
    save(object, &references)
}

fn put(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (tag, implicit) = tag_and_implicit(input)?;
    let mut references = load(object, implicit)?;
    if references.tags.is_empty() {
        return Err(Errno::EINVAL.into());
    }
    let held = match references.tags.contains_key(&tag) {
        true => tag.clone(),
        false => IMPLICIT,
    };
    let is_held = references.tags.contains_key(&held) && (implicit || held == tag);
    if !is_held || references.retired.contains(&tag) {
        return Ok(Output::none());
    }
    references.tags.remove(&held);
    references.retired.insert(tag);
    save(object, &references)
}

fn set(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("references", 1)?;
    let tags: Vec<Bytes> = r.get()?;
    let tags = tags.into_iter().map(|tag| (tag, true)).collect();
    save(object, &References { tags, retired: BTreeSet::new() })
}

fn read(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request for references", 1)?;
    let implicit = r.bool()?;
    let references = load(object, implicit)?;
    let tags: Vec<Bytes> = references.tags.into_keys().collect();
    Ok(Output::of(|w| w.versioned(1, 1, |w| w.put(&tags))))
}

#[cfg(test)]
mod tests {
    use crate::test_object::{TestObject, encode};

    fn tag(tag: &str, implicit: bool) -> Vec<u8> {
        encode(|w| {
            w.versioned(1, 1, |w| {
                w.str(tag);
                w.bool(implicit);
            })
        })
    }

    #[test]
    fn the_last_reference_takes_the_object_along() {
        let mut object = TestObject { exists: true, ..TestObject::default() };
        assert_eq!(object.call("refcount", "get", &tag("a", true)).0, 0);
        assert_eq!(object.call("refcount", "put", &tag("b", true)).0, 0, "stands for who did not say so");
        assert!(object.exists);
        assert_eq!(object.call("refcount", "put", &tag("b", true)).0, 0, "once only");
        assert!(object.exists);
        assert_eq!(object.call("refcount", "put", &tag("c", false)).0, 0, "never held");
        assert!(object.exists);
        assert_eq!(object.call("refcount", "put", &tag("a", false)).0, 0);
        assert!(!object.exists);
        assert_eq!(object.call("refcount", "get", &tag("a", true)).0, -2);
    }
}

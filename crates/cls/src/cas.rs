//! Class `cas`: pieces of data that are stored once and removed when no object refers to them any more.
//!
//! References are counted exactly, however many there are; Ceph keeps less than the full list once there are too many.

use crate::method::Method;
use crate::object::{Object, Output, Stop, decode_stored, encoded};
use bytes::Bytes;
use std::collections::BTreeMap;
use types::{Errno, ObjectId};
use wire::Reader;

pub(crate) const METHODS: &[Method] = &[
    Method::update("chunk_create_or_get_ref", create_or_get),
    Method::update("chunk_get_ref", get),
    Method::update("chunk_put_ref", put),
    // Objects here never consist of pieces that are stored elsewhere.
    Method::read("references_chunk", |_, input| {
        let _: Bytes = input.get()?;
        Err(ENOLINK.into())
    }),
];

const ATTR: &str = "chunk_refs";
/// The data must equal the stored data.
const FLAG_VERIFY: u64 = 1;

const ENOMSG: Errno = Errno(42);
const ENOLINK: Errno = Errno(67);

/// Number of references to the piece, by referring object.
type ReferenceCounts = BTreeMap<ObjectId, u64>;

/// Loads the references. ENOENT if the piece is absent.
fn load(object: &mut dyn Object) -> Result<ReferenceCounts, Stop> {
    object.attr(ATTR)?.map_or_else(|| Ok(ReferenceCounts::new()), |bytes| decode_stored(&bytes))
}

fn count(object: &mut dyn Object, mut references: ReferenceCounts, source: ObjectId) -> Result<Output, Stop> {
    *references.entry(source).or_default() += 1;
    object.set_attr(ATTR, encoded(&references))?;
    Ok(Output::none())
}

fn create_or_get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (_, mut r) = input.versioned("request to store a piece", 1)?;
    let (source, flags, data): (ObjectId, u64, Bytes) = (r.get()?, r.u64()?, r.get()?);
    if !object.exists()? {
        object.write_full(data)?;
        return count(object, ReferenceCounts::new(), source);
    }
    let references = load(object)?;
    if flags & FLAG_VERIFY != 0 && object.read(0, 0)? != data {
        return Err(ENOMSG.into());
    }
    count(object, references, source)
}

fn source(input: &mut Reader<'_>) -> Result<ObjectId, Stop> {
    let (_, mut r) = input.versioned("reference to a piece", 1)?;
    Ok(r.get()?)
}

fn get(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let source = source(input)?;
    let references = load(object)?;
    count(object, references, source)
}

fn put(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let source = source(input)?;
    let mut references = load(object)?;
    match references.get_mut(&source) {
        None => return Err(ENOLINK.into()),
        Some(1) => drop(references.remove(&source)),
        Some(count) => *count -= 1,
    }
    match references.is_empty() {
        true => object.remove()?,
        false => object.set_attr(ATTR, encoded(&references))?,
    }
    Ok(Output::none())
}

#[cfg(test)]
mod tests {
    use crate::test_object::{TestObject, encode};
    use types::ObjectId;

    #[test]
    fn a_piece_goes_with_its_last_reference() {
        let source = encode(|w| w.versioned(1, 1, |w| w.put(&ObjectId::min())));
        let create = |data: &str| {
            encode(|w| {
                w.versioned(1, 1, |w| {
                    w.put(&ObjectId::min());
                    w.u64(super::FLAG_VERIFY);
                    w.str(data);
                })
            })
        };
        let mut object = TestObject::default();
        assert_eq!(object.call("cas", "chunk_get_ref", &source).0, -2);
        assert_eq!(object.call("cas", "chunk_create_or_get_ref", &create("data")).0, 0);
        assert_eq!(object.call("cas", "chunk_create_or_get_ref", &create("other")).0, -42);
        assert_eq!(object.call("cas", "chunk_get_ref", &source).0, 0);
        assert_eq!(object.call("cas", "chunk_put_ref", &source).0, 0);
        assert_eq!(object.data, b"data");
        assert_eq!(object.call("cas", "chunk_put_ref", &source).0, 0);
        assert!(!object.exists);
    }
}

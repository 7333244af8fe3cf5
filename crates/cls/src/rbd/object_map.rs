//! Methods on the object map of an image ([`wire::rbd::object_map`] has the form of its bytes).

use super::ESTALE;
use crate::object::{Object, Output, Stop};
use types::{BLOCK_BYTES, Errno};
use wire::Reader;
use wire::rbd::object_map::{
    HEAD_BYTES, ObjectMap, PER_BYTE, block_crcs, objects_in_head, set_state_in, state, state_in,
};

/// Largest number of objects, the limit of Ceph: the largest image of the smallest objects needs no more.
const OBJECTS_MAX: u64 = 256_000_000;

fn load_all(object: &mut dyn Object) -> Result<ObjectMap, Stop> {
    object.must_exist()?;
    let data = object.read(0, 0)?;
    Ok(ObjectMap::decode_unchecked(&mut Reader::new(&data))?)
}

fn save_all(object: &mut dyn Object, map: &ObjectMap) -> Result<Output, Stop> {
    object.write_full(crate::object::encoded(map))?;
    Ok(Output::none())
}

pub(super) fn load(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let map = load_all(object)?;
    Ok(Output::of(|w| map.encode_without_checksums(w)))
}

pub(super) fn save(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    save_all(object, &ObjectMap::decode_unchecked(input)?)
}

pub(super) fn resize(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (objects, default) = (input.u64()?, input.u8()?);
    if objects > OBJECTS_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut map = match object.exists()? {
        true => load_all(object)?,
        false => ObjectMap::default(),
    };
    if (objects..map.len()).any(|object| map.get(object) != Some(default)) {
        return Err(ESTALE.into());
    }
    map.resize(objects, default);
    save_all(object, &map)
}

/// Sets objects to a state: all of them, or only those that are in another given state. It reads and writes only the
/// blocks of their states, with their checksums, because clients call this before each first write to a data object.
pub(super) fn update(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, end, wanted) = (input.u64()?, input.u64()?, input.u8()?);
    let expected: Option<u8> = input.get()?;
    object.must_exist()?;
    let objects = objects_in_head(&object.read(0, HEAD_BYTES)?)?;
    if start >= end || end > objects {
        return Err(Errno::ERANGE.into());
    }
    let bytes = objects.div_ceil(PER_BYTE);
    let block_bytes = BLOCK_BYTES as u64;
    let first_block = start / PER_BYTE / block_bytes;
    let from = first_block * block_bytes;
    let to = bytes.min(((end - 1) / PER_BYTE / block_bytes + 1) * block_bytes);
    let mut packed = object.read(HEAD_BYTES + from, to - from)?[..].to_vec();
    if packed.len() as u64 != to - from {
        return Err(Errno::EINVAL.into());
    }
    let first = from * PER_BYTE;
    let mut changed = false;
    for at in start..end {
        let have = state_in(&packed, at - first);
        let matches = match expected {
            None => true,
            Some(state::EXISTS) => have == state::EXISTS || have == state::EXISTS_CLEAN,
            Some(expected) => have == expected,
        };
        if matches && have != wanted {
            set_state_in(&mut packed, at - first, wanted);
            changed = true;
        }
    }
    if changed {
        let crcs: Vec<u8> = block_crcs(&packed).into_iter().flat_map(u32::to_le_bytes).collect();
        // The states are followed by the tail's length, the head's checksum, and the number of blocks.
        let crcs_at = HEAD_BYTES + bytes + 12 + 4 * first_block;
        object.write(HEAD_BYTES + from, packed.into())?;
        object.write(crcs_at, crcs.into())?;
    }
    Ok(Output::none())
}

/// Marks existing objects as not written, after a snapshot was taken.
pub(super) fn snap_add(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let mut map = load_all(object)?;
    match map.replace(state::EXISTS, state::EXISTS_CLEAN) {
        true => save_all(object, &map),
        false => Ok(Output::none()),
    }
}

/// Merges the map of a removed snapshot: an object written between the snapshot before it and itself counts as written
/// since the snapshot before it.
pub(super) fn snap_remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let gone = ObjectMap::decode_unchecked(input)?;
    let mut map = load_all(object)?;
    let is_written = |object: u64| gone.get(object).is_none_or(|state| state == state::EXISTS);
    let is_clean = |object: &u64| map.get(*object) == Some(state::EXISTS_CLEAN);
    let written: Vec<u64> = (0..map.len()).filter(|object| is_clean(object) && is_written(*object)).collect();
    if written.is_empty() {
        return Ok(Output::none());
    }
    written.into_iter().for_each(|object| map.set(object, state::EXISTS));
    save_all(object, &map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};
    use proptest::prelude::*;
    use wire::{Encode, Target};

    proptest! {
        /// Updates in place have the result of a complete new encoding.
        #[test]
        fn updates_in_place_are_those_of_the_whole(
            elements in 1u64..40_000,
            updates in proptest::collection::vec(
                (0u64..40_000, 1u64..3000, 0u8..4, proptest::option::of(0u8..4)),
                1..8,
            ),
        ) {
            let mut object = TestObject::default();
            let resize = encode(|w| {
                w.u64(elements);
                w.u8(0);
            });
            prop_assert_eq!(object.call("rbd", "object_map_resize", &resize).0, 0);
            let mut model = vec![0u8; elements as usize];
            for (start, len, wanted, expected) in updates {
                let (start, end) = (start % elements, (start % elements + len).min(elements));
                let input = encode(|w| {
                    w.u64(start);
                    w.u64(end);
                    w.u8(wanted);
                    w.put(&expected);
                });
                prop_assert_eq!(object.call("rbd", "object_map_update", &input).0, 0);
                for element in &mut model[start as usize..end as usize] {
                    let also_clean = expected == Some(state::EXISTS) && *element == state::EXISTS_CLEAN;
                    if expected.is_none_or(|expected| expected == *element) || also_clean {
                        *element = wanted;
                    }
                }
                let mut whole = ObjectMap::default();
                whole.resize(elements, 0);
                (0..elements).for_each(|element| whole.set(element, model[element as usize]));
                prop_assert_eq!(&object.data, &whole.to_vec(Target::default()));
            }
        }
    }
}

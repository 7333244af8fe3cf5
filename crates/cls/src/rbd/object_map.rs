//! The object map: which of an image's data objects exist, two bits for each.
//!
//! | bytes | content |
//! |---|---|
//! | 18 | length of the head (14), version 1, compatible 1, length 8, number of elements (u64) |
//! | a byte per four elements | the elements, the first in the highest bits |
//! | 12 + 4 per block | length of the tail, crc32c of the head, number of blocks, crc32c of each 4 KiB of elements |

use super::ESTALE;
use crate::object::{Object, Output, Stop};
use types::{BLOCK_BYTES, Errno, crc32c};
use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// States of a data object.
mod state {
    pub const EXISTS: u8 = 1;
    /// The data object exists and was not written since the newest snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

const HEAD_BYTES: u64 = 18;
const ELEMENTS_PER_BYTE: u64 = 4;
/// Largest number of elements, the limit of Ceph: the largest image of the smallest objects needs no more.
const ELEMENTS_MAX: u64 = 256_000_000;

/// A vector of two-bit elements.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ObjectMap {
    elements: u64,
    packed: Vec<u8>,
}

/// Place of an element: its byte, and its shift within it.
fn place(element: u64) -> (u64, u64) {
    (element / ELEMENTS_PER_BYTE, 6 - 2 * (element % ELEMENTS_PER_BYTE))
}

fn element_of(packed: &[u8], element: u64) -> u8 {
    let (at, shift) = place(element);
    packed[at as usize] >> shift & 3
}

fn set_element(packed: &mut [u8], element: u64, value: u8) {
    let (at, shift) = place(element);
    let byte = &mut packed[at as usize];
    *byte = *byte & !(3 << shift) | (value & 3) << shift;
}

fn block_crc(block: &[u8]) -> u32 {
    crc32c::update(0, block)
}

impl ObjectMap {
    fn get(&self, element: u64) -> u8 {
        element_of(&self.packed, element)
    }

    fn set(&mut self, element: u64, value: u8) {
        set_element(&mut self.packed, element, value);
    }

    fn resize(&mut self, elements: u64, value: u8) {
        let old = self.elements;
        self.elements = elements;
        self.packed.resize(elements.div_ceil(ELEMENTS_PER_BYTE) as usize, 0);
        (old..elements).for_each(|element| self.set(element, value));
        // Bits behind the last element must be zero.
        (elements..self.packed.len() as u64 * ELEMENTS_PER_BYTE).for_each(|element| self.set(element, 0));
    }
}

fn head(elements: u64) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    w.versioned(1, 1, |w| w.u64(elements));
    w.into_vec()
}

fn elements_in_head(head: &[u8]) -> Result<u64, DecodeError> {
    let mut r = Reader::new(head).sized()?;
    let (_, mut r) = r.versioned("object map", 1)?;
    r.u64()
}

impl Encode for ObjectMap {
    fn encode(&self, w: &mut Writer) {
        let head = head(self.elements);
        w.blob(&head);
        w.raw(&self.packed);
        w.sized(|w| {
            w.u32(crc32c::update(0, &head));
            let crcs: Vec<u32> = self.packed.chunks(BLOCK_BYTES).map(block_crc).collect();
            w.put(&crcs);
        });
    }
}

impl Decode for ObjectMap {
    const MIN_BYTES: usize = HEAD_BYTES as usize;

    /// Clients check the checksums.
    fn decode(r: &mut Reader<'_>) -> Result<ObjectMap, DecodeError> {
        let elements = elements_in_head(r.peek())?;
        r.blob()?;
        let bytes = elements.div_ceil(ELEMENTS_PER_BYTE);
        if bytes > r.left() as u64 {
            return Err(DecodeError::Count { what: "object map", count: bytes as usize, left: r.left() });
        }
        let packed = r.raw(bytes as usize)?.to_vec();
        r.blob()?;
        Ok(ObjectMap { elements, packed })
    }
}

fn load_all(object: &mut dyn Object) -> Result<ObjectMap, Stop> {
    object.must_exist()?;
    let data = object.read(0, 0)?;
    Ok(ObjectMap::from_slice(&data)?)
}

fn save_all(object: &mut dyn Object, map: &ObjectMap) -> Result<Output, Stop> {
    object.write_full(crate::object::encoded(map))?;
    Ok(Output::none())
}

pub(super) fn load(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let map = load_all(object)?;
    // The tail is empty on the wire.
    Ok(Output::of(|w| {
        w.blob(&head(map.elements));
        w.raw(&map.packed);
        w.count(0);
    }))
}

pub(super) fn save(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let map: ObjectMap = input.get()?;
    save_all(object, &map)
}

pub(super) fn resize(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (elements, default) = (input.u64()?, input.u8()?);
    if elements > ELEMENTS_MAX {
        return Err(Errno::EINVAL.into());
    }
    let mut map = match object.exists()? {
        true => load_all(object)?,
        false => ObjectMap::default(),
    };
    if (elements..map.elements).any(|element| map.get(element) != default) {
        return Err(ESTALE.into());
    }
    map.resize(elements, default);
    save_all(object, &map)
}

/// Sets elements to a state: all of them, or only those that are in another given state. It reads and writes only the
/// blocks of these elements, with their checksums, because clients call this before each first write to a data object.
pub(super) fn update(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let (start, end, wanted) = (input.u64()?, input.u64()?, input.u8()?);
    let expected: Option<u8> = input.get()?;
    object.must_exist()?;
    let elements = elements_in_head(&object.read(0, HEAD_BYTES)?)?;
    if start >= end || end > elements {
        return Err(Errno::ERANGE.into());
    }
    let bytes = elements.div_ceil(ELEMENTS_PER_BYTE);
    let block_bytes = BLOCK_BYTES as u64;
    let first_block = place(start).0 / block_bytes;
    let from = first_block * block_bytes;
    let to = bytes.min((place(end - 1).0 / block_bytes + 1) * block_bytes);
    let mut packed = object.read(HEAD_BYTES + from, to - from)?[..].to_vec();
    if packed.len() as u64 != to - from {
        return Err(Errno::EINVAL.into());
    }
    let first_element = from * ELEMENTS_PER_BYTE;
    let mut changed = false;
    for element in start..end {
        let have = element_of(&packed, element - first_element);
        let matches = match expected {
            None => true,
            Some(state::EXISTS) => have == state::EXISTS || have == state::EXISTS_CLEAN,
            Some(expected) => have == expected,
        };
        if matches && have != wanted {
            set_element(&mut packed, element - first_element, wanted);
            changed = true;
        }
    }
    if changed {
        let crcs: Vec<u8> = packed.chunks(BLOCK_BYTES).flat_map(|block| block_crc(block).to_le_bytes()).collect();
        // The elements are followed by the tail's length, the head's checksum, and the number of blocks.
        let crcs_at = HEAD_BYTES + bytes + 12 + 4 * first_block;
        object.write(HEAD_BYTES + from, packed.into())?;
        object.write(crcs_at, crcs.into())?;
    }
    Ok(Output::none())
}

/// Marks existing objects as not written, after a snapshot was taken.
pub(super) fn snap_add(object: &mut dyn Object, _: &mut Reader<'_>) -> Result<Output, Stop> {
    let mut map = load_all(object)?;
    let written: Vec<u64> = (0..map.elements).filter(|element| map.get(*element) == state::EXISTS).collect();
    if written.is_empty() {
        return Ok(Output::none());
    }
    written.into_iter().for_each(|element| map.set(element, state::EXISTS_CLEAN));
    save_all(object, &map)
}

/// Merges the map of a removed snapshot: an object written between the snapshot before it and itself counts as written
/// since the snapshot before it.
pub(super) fn snap_remove(object: &mut dyn Object, input: &mut Reader<'_>) -> Result<Output, Stop> {
    let gone: ObjectMap = input.get()?;
    let mut map = load_all(object)?;
    let is_written = |element: u64| element >= gone.elements || gone.get(element) == state::EXISTS;
    let written: Vec<u64> =
        (0..map.elements).filter(|e| map.get(*e) == state::EXISTS_CLEAN && is_written(*e)).collect();
    if written.is_empty() {
        return Ok(Output::none());
    }
    written.into_iter().for_each(|element| map.set(element, state::EXISTS));
    save_all(object, &map)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_object::{TestObject, encode};
    use proptest::prelude::*;

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

        #[test]
        fn any_bytes_are_a_map_or_refused(bytes: Vec<u8>) {
            let _ = ObjectMap::from_slice(&bytes);
        }
    }
}

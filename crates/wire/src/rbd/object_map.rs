//! The object map: which of an image's data objects exist, as far as the holder of its lock knows; two bits for each.
//!
//! | bytes | content |
//! |---|---|
//! | 18 | length of the head (14), version 1, compatible 1, length 8, number of objects (u64) |
//! | a byte per four objects | the states, the first object's in the highest bits |
//! | 4 + 8 + 4 per block | length of the tail; crc32c of the head, number of blocks, crc32c of each 4 KiB of states |
//!
//! The tail is empty in the output of `object_map_load`.

use crate::{Decode, DecodeError, Encode, Reader, Target, Writer};
use types::{BLOCK_BYTES, crc32c};

/// States of a data object.
pub mod state {
    pub const NONEXISTENT: u8 = 0;
    pub const EXISTS: u8 = 1;
    /// The object is about to be removed.
    pub const PENDING: u8 = 2;
    /// The object exists and was not written since the newest snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

/// Bytes of the head and its length.
pub const HEAD_BYTES: u64 = 18;
/// Number of states in a byte.
pub const PER_BYTE: u64 = 4;

/// Returns the bytes before the states, without their length, of a map of so many objects.
fn head(objects: u64) -> Vec<u8> {
    let mut w = Writer::new(Target::default());
    w.versioned(1, 1, |w| w.u64(objects));
    w.into_vec()
}

/// Returns the number of objects that the first [`HEAD_BYTES`] bytes of a map tell.
pub fn objects_in_head(head: &[u8]) -> Result<u64, DecodeError> {
    let mut r = Reader::new(head).sized()?;
    let (_, mut r) = r.versioned("object map", 1)?;
    r.u64()
}

/// Returns the number of bytes that so many states take. One that no memory holds becomes the largest.
fn packed_bytes(objects: u64) -> usize {
    usize::try_from(objects.div_ceil(PER_BYTE)).unwrap_or(usize::MAX)
}

/// Returns the place of an object's state: its byte, and its shift within it.
fn place(object: u64) -> (usize, u64) {
    (usize::try_from(object / PER_BYTE).unwrap_or(usize::MAX), 6 - 2 * (object % PER_BYTE))
}

/// Returns the state of an object among packed states. Panics beyond their end.
pub fn state_in(packed: &[u8], object: u64) -> u8 {
    let (at, shift) = place(object);
    packed[at] >> shift & 3
}

/// Sets the state of an object among packed states. Panics beyond their end.
pub fn set_state_in(packed: &mut [u8], object: u64, state: u8) {
    let (at, shift) = place(object);
    packed[at] = packed[at] & !(3 << shift) | (state & 3) << shift;
}

/// Returns the checksum of each block of packed states that begin at a block's edge.
pub fn block_crcs(packed: &[u8]) -> Vec<u32> {
    packed.chunks(BLOCK_BYTES).map(|block| crc32c::update(0, block)).collect()
}

/// The states of an image's data objects.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ObjectMap {
    objects: u64,
    packed: Vec<u8>,
}

impl ObjectMap {
    pub fn new(objects: u64) -> ObjectMap {
        ObjectMap { objects, packed: vec![0; packed_bytes(objects)] }
    }

    pub fn len(&self) -> u64 {
        self.objects
    }

    pub fn is_empty(&self) -> bool {
        self.objects == 0
    }

    /// Returns the state of an object; `None` beyond the end.
    pub fn get(&self, object: u64) -> Option<u8> {
        (object < self.objects).then(|| state_in(&self.packed, object))
    }

    /// Sets the state of an object; nothing happens beyond the end.
    pub fn set(&mut self, object: u64, state: u8) {
        if object < self.objects {
            set_state_in(&mut self.packed, object, state);
        }
    }

    /// Makes the map one of so many objects; new ones get a state.
    pub fn resize(&mut self, objects: u64, state: u8) {
        let before = std::mem::replace(&mut self.objects, objects);
        self.packed.resize(packed_bytes(objects), 0);
        (before..objects).for_each(|object| self.set(object, state));
        // Bits behind the last object must be zero.
        (objects..self.packed.len() as u64 * PER_BYTE).for_each(|object| set_state_in(&mut self.packed, object, 0));
    }

    /// Replaces one state by another; returns true if any object had it.
    pub fn replace(&mut self, from: u8, to: u8) -> bool {
        let mut any = false;
        for object in 0..self.objects {
            if from != to && state_in(&self.packed, object) == from {
                set_state_in(&mut self.packed, object, to);
                any = true;
            }
        }
        any
    }

    /// Writes the map with an empty tail: the output of `object_map_load`.
    pub fn encode_without_checksums(&self, w: &mut Writer) {
        w.blob(&head(self.objects));
        w.raw(&self.packed);
        w.count(0);
    }

    /// Reads a map, and its tail without looking at checksums: those are for clients to check.
    pub fn decode_unchecked(r: &mut Reader<'_>) -> Result<ObjectMap, DecodeError> {
        ObjectMap::parts(r).map(|(map, ..)| map)
    }

    /// Reads a map; returns it with its head and its tail.
    fn parts<'a>(r: &mut Reader<'a>) -> Result<(ObjectMap, &'a [u8], &'a [u8]), DecodeError> {
        let objects = objects_in_head(r.peek())?;
        let head = r.blob()?;
        let bytes = packed_bytes(objects);
        if bytes > r.left() {
            return Err(DecodeError::Count { what: "object map", count: bytes, left: r.left() });
        }
        let packed = r.raw(bytes)?.to_vec();
        Ok((ObjectMap { objects, packed }, head, r.blob()?))
    }
}

impl Encode for ObjectMap {
    fn encode(&self, w: &mut Writer) {
        let head = head(self.objects);
        w.blob(&head);
        w.raw(&self.packed);
        w.sized(|w| {
            w.u32(crc32c::update(0, &head));
            w.put(&block_crcs(&self.packed));
        });
    }
}

impl Decode for ObjectMap {
    const MIN_BYTES: usize = HEAD_BYTES as usize;

    /// The stored form has checksums in its tail; the output of `object_map_load` has none.
    fn decode(r: &mut Reader<'_>) -> Result<ObjectMap, DecodeError> {
        let (map, head, tail) = ObjectMap::parts(r)?;
        if !tail.is_empty() {
            let mut tail = Reader::new(tail);
            let right = tail.u32()? == crc32c::update(0, head) && tail.get::<Vec<u32>>()? == block_crcs(&map.packed);
            if !right {
                return Err(DecodeError::Value { what: "checksum of an object map, objects", value: map.objects });
            }
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_bytes_do_not_move() {
        let mut map = ObjectMap::new(5);
        map.set(0, state::EXISTS);
        map.set(3, state::EXISTS_CLEAN);
        map.set(4, state::PENDING);
        let bytes = map.to_vec(Target::default());
        assert_eq!(bytes[..20], [14, 0, 0, 0, 1, 1, 8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0b0100_0011, 0b1000_0000]);
        assert_eq!((bytes[20..24].to_vec(), bytes.len()), (vec![12, 0, 0, 0], 36));
        assert_eq!(ObjectMap::from_slice(&bytes), Ok(map));
        let mut damaged = bytes;
        damaged[18] ^= 1;
        assert!(ObjectMap::from_slice(&damaged).is_err());
        assert!(ObjectMap::decode_unchecked(&mut Reader::new(&damaged)).is_ok());
    }

    proptest! {
        #[test]
        fn states_are_kept(
            sizes in proptest::collection::vec(0u64..40_000, 1..5),
            sets in proptest::collection::vec((0u64..40_000, 0u8..4), 0..40),
        ) {
            let mut map = ObjectMap::default();
            let mut model: Vec<u8> = Vec::new();
            for size in sizes {
                map.resize(size, state::NONEXISTENT);
                model.resize(size as usize, 0);
                for (object, value) in &sets {
                    map.set(*object, *value);
                    if let Some(element) = model.get_mut(*object as usize) {
                        *element = *value;
                    }
                }
                prop_assert!((0..size).all(|object| map.get(object) == Some(model[object as usize])));
                prop_assert_eq!(map.get(size), None);
                prop_assert_eq!(&ObjectMap::from_slice(&map.to_vec(Target::default())).unwrap(), &map);
            }
        }

        #[test]
        fn any_bytes_are_a_map_or_refused(bytes: Vec<u8>) {
            let _ = ObjectMap::from_slice(&bytes);
            let _ = ObjectMap::decode_unchecked(&mut Reader::new(&bytes));
        }
    }
}

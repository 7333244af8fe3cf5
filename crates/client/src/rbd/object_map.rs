//! The object map: which of an image's objects exist, as far as the holder of its lock knows; two bits for each.
//!
//! | bytes | content |
//! |---|---|
//! | 4 + 14 | length of the head; version 1, compatible 1, length 8, number of objects (u64) |
//! | a byte per four objects | the states, the first object's in the highest bits |
//! | 4 + ... | length of the tail, then (in the stored form) crc32c of the head and of each 4 KiB of states |

use wire::{Decode, DecodeError, Encode, Reader, Target, Writer};

/// States of an object.
pub(super) mod state {
    pub const NONEXISTENT: u8 = 0;
    pub const EXISTS: u8 = 1;
    /// The object is about to be removed.
    pub const PENDING: u8 = 2;
    /// The object exists and was not written since the newest snapshot.
    pub const EXISTS_CLEAN: u8 = 3;
}

const PER_BYTE: u64 = 4;
const CRC_BLOCK_BYTES: usize = 4096;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct ObjectMap {
    objects: u64,
    packed: Vec<u8>,
}

impl ObjectMap {
    pub fn new(objects: u64) -> ObjectMap {
        ObjectMap { objects, packed: vec![0; objects.div_ceil(PER_BYTE) as usize] }
    }

    pub fn len(&self) -> u64 {
        self.objects
    }

    /// The state of an object; `None` beyond the end.
    pub fn get(&self, object: u64) -> Option<u8> {
        let byte = self.packed.get((object / PER_BYTE) as usize).filter(|_| object < self.objects)?;
        Some(byte >> (6 - 2 * (object % PER_BYTE)) & 3)
    }

    /// Sets the state of an object; nothing happens beyond the end.
    pub fn set(&mut self, object: u64, value: u8) {
        if object < self.objects {
            let shift = 6 - 2 * (object % PER_BYTE);
            let byte = &mut self.packed[(object / PER_BYTE) as usize];
            *byte = *byte & !(3 << shift) | (value & 3) << shift;
        }
    }

    pub fn resize(&mut self, objects: u64) {
        self.packed.resize(objects.div_ceil(PER_BYTE) as usize, 0);
        let before = std::mem::replace(&mut self.objects, objects);
        (before..objects).for_each(|object| self.set(object, state::NONEXISTENT));
        // Bits behind the last object must be zero.
        let end = self.packed.len() as u64 * PER_BYTE;
        self.objects = end;
        (objects..end).for_each(|object| self.set(object, 0));
        self.objects = objects;
    }

    /// Replaces one state by another.
    pub fn replace(&mut self, from: u8, to: u8) {
        for object in 0..self.objects {
            if self.get(object) == Some(from) {
                self.set(object, to);
            }
        }
    }
}

impl Encode for ObjectMap {
    fn encode(&self, w: &mut Writer) {
        let mut head = Writer::new(Target::default());
        head.versioned(1, 1, |w| w.u64(self.objects));
        w.blob(head.as_slice());
        w.raw(&self.packed);
        w.sized(|w| {
            w.u32(types::crc32c::update(0, head.as_slice()));
            let crcs: Vec<u32> =
                self.packed.chunks(CRC_BLOCK_BYTES).map(|block| types::crc32c::update(0, block)).collect();
            w.put(&crcs);
        });
    }
}

impl Decode for ObjectMap {
    const MIN_BYTES: usize = 18;

    /// The stored form has checksums in its tail; the output of `object_map_load` has none.
    fn decode(r: &mut Reader<'_>) -> Result<ObjectMap, DecodeError> {
        let head = r.blob()?;
        let (_, mut elements) = Reader::new(head).versioned("object map", 1)?;
        let objects = elements.u64()?;
        let bytes = objects.div_ceil(PER_BYTE);
        if bytes > r.left() as u64 {
            return Err(DecodeError::Count { what: "object map", count: bytes as usize, left: r.left() });
        }
        let packed = r.raw(bytes as usize)?.to_vec();
        let tail = r.blob()?;
        if !tail.is_empty() {
            let mut tail = Reader::new(tail);
            let right = tail.u32()? == types::crc32c::update(0, head)
                && tail
                    .get::<Vec<u32>>()?
                    .into_iter()
                    .eq(packed.chunks(CRC_BLOCK_BYTES).map(|b| types::crc32c::update(0, b)));
            if !right {
                return Err(DecodeError::Value { what: "checksum of an object map, objects", value: objects });
            }
        }
        Ok(ObjectMap { objects, packed })
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
                map.resize(size);
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
    }
}

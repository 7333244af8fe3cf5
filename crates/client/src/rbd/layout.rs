//! Striping: the objects that hold an image's bytes.

/// Division of an image into objects.
///
/// Stripe units go round among `stripe_count` objects until these are full, then among the next ones. The default, one
/// object and a unit as large as an object, is a plain row of objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Objects have 2 to the power of `order` bytes.
    pub order: u8,
    pub stripe_unit_bytes: u64,
    pub stripe_count: u64,
}

/// A range of one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct ObjectExtent {
    pub object: u64,
    pub offset: u64,
    pub length: u64,
    /// Ranges of the image (offset and length) that make up this range, in the order of the object.
    pub parts: Vec<(u64, u64)>,
}

impl Layout {
    /// A plain row of objects.
    pub fn plain(order: u8) -> Layout {
        Layout { order, stripe_unit_bytes: 1 << order, stripe_count: 1 }
    }

    /// True if Ceph knows such a layout: objects of 4 KiB to 32 MiB, whose size the unit divides.
    pub fn is_valid(&self) -> bool {
        (12..=25).contains(&self.order)
            && self.stripe_unit_bytes > 0
            && self.stripe_count > 0
            && self.stripe_count <= 1 << 20
            && self.object_bytes().is_multiple_of(self.stripe_unit_bytes)
    }

    pub fn is_plain(&self) -> bool {
        self.stripe_count == 1 && self.stripe_unit_bytes == self.object_bytes()
    }

    pub fn object_bytes(&self) -> u64 {
        1 << self.order
    }

    /// Number of objects that an image of `size` bytes may have.
    pub fn object_count(&self, size: u64) -> u64 {
        let period = self.object_bytes() * self.stripe_count;
        let (periods, rest) = (size / period, size % period);
        // In the last, incomplete period only the first columns may have units.
        let last = rest.div_ceil(self.stripe_unit_bytes).min(self.stripe_count);
        periods * self.stripe_count + last
    }

    /// The object that has a byte of the image, and the byte's offset in it.
    fn place(&self, offset: u64) -> (u64, u64) {
        let unit = offset / self.stripe_unit_bytes;
        let (stripe, column) = (unit / self.stripe_count, unit % self.stripe_count);
        let stripes_per_object = self.object_bytes() / self.stripe_unit_bytes;
        let object = stripe / stripes_per_object * self.stripe_count + column;
        let in_object = stripe % stripes_per_object * self.stripe_unit_bytes + offset % self.stripe_unit_bytes;
        (object, in_object)
    }

    /// The objects' ranges that make up a range of the image, one per object, in order of the image's first byte in
    /// each.
    pub(super) fn extents(&self, offset: u64, length: u64) -> Vec<ObjectExtent> {
        let mut extents: Vec<ObjectExtent> = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let in_unit = self.stripe_unit_bytes - at % self.stripe_unit_bytes;
            let part = in_unit.min(end - at);
            let (object, in_object) = self.place(at);
            // Pieces of one object are adjacent in it: a range of the image leaves no gaps there.
            match extents.iter_mut().rev().find(|extent| extent.object == object) {
                Some(extent) => {
                    debug_assert_eq!(extent.offset + extent.length, in_object, "pieces follow each other");
                    extent.length += part;
                    match extent.parts.last_mut().filter(|(from, len)| from + len == at) {
                        Some((_, len)) => *len += part,
                        None => extent.parts.push((at, part)),
                    }
                }
                None => extents.push(ObjectExtent { object, offset: in_object, length: part, parts: vec![(at, part)] }),
            }
            at += part;
        }
        extents
    }

    /// Ranges of the image (offset and length) that an object's range holds, in the order of the object.
    pub(super) fn image_parts(&self, object: u64, offset: u64, length: u64) -> Vec<(u64, u64)> {
        let stripes_per_object = self.object_bytes() / self.stripe_unit_bytes;
        let (set, column) = (object / self.stripe_count, object % self.stripe_count);
        let mut parts: Vec<(u64, u64)> = Vec::new();
        let (mut at, end) = (offset, offset + length);
        while at < end {
            let part = (self.stripe_unit_bytes - at % self.stripe_unit_bytes).min(end - at);
            let stripe = set * stripes_per_object + at / self.stripe_unit_bytes;
            let unit = stripe * self.stripe_count + column;
            let from = unit * self.stripe_unit_bytes + at % self.stripe_unit_bytes;
            match parts.last_mut().filter(|(before, len)| before + len == from) {
                Some((_, len)) => *len += part,
                None => parts.push((from, part)),
            }
            at += part;
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_plain_image_is_a_row_of_objects() {
        let layout = Layout::plain(22);
        let extents = layout.extents((4 << 20) - 10, 30);
        let expected = [
            ObjectExtent { object: 0, offset: (4 << 20) - 10, length: 10, parts: vec![((4 << 20) - 10, 10)] },
            ObjectExtent { object: 1, offset: 0, length: 20, parts: vec![(4 << 20, 20)] },
        ];
        assert_eq!(extents, expected);
        assert_eq!((layout.object_count(0), layout.object_count(1), layout.object_count((4 << 20) + 1)), (0, 1, 2));
        assert_eq!(layout.image_parts(3, 7, 9), [(3 * (4 << 20) + 7, 9)]);
    }

    #[test]
    fn stripes_go_round() {
        // Objects of 16 KiB, units of 4 KiB, three at a time.
        let layout = Layout { order: 14, stripe_unit_bytes: 4096, stripe_count: 3 };
        let places: Vec<(u64, u64)> = (0..14).map(|unit| layout.place(unit * 4096)).collect();
        let first: Vec<(u64, u64)> = (0..4).flat_map(|row| (0..3).map(move |object| (object, row * 4096))).collect();
        assert_eq!(places[..12], first[..]);
        assert_eq!(places[12..], [(3, 0), (4, 0)]);
        let counts = [1, 4096, 4097, 12_288, 49_152, 49_153, 60_000, 98_304].map(|size| layout.object_count(size));
        assert_eq!(counts, [1, 1, 2, 3, 3, 4, 6, 6]);
        let extents = layout.extents(4095, 4096 * 3 + 2);
        assert_eq!(extents[0].parts, [(4095, 1), (12_288, 4096)]);
        assert_eq!((extents[0].object, extents[0].offset, extents[0].length), (0, 4095, 4097));
    }

    proptest! {
        #[test]
        fn each_byte_has_one_place_and_comes_from_there(
            order in 12u8..16,
            unit_order in 9u8..13,
            stripe_count in 1u64..6,
            offset in 0u64..1 << 20,
            length in 1u64..200_000,
        ) {
            let layout = Layout { order, stripe_unit_bytes: 1 << unit_order.min(order), stripe_count };
            prop_assert!(layout.is_valid());
            let mut covered = std::collections::BTreeMap::new();
            for extent in layout.extents(offset, length) {
                prop_assert_eq!(&layout.image_parts(extent.object, extent.offset, extent.length), &extent.parts);
                prop_assert!(extent.offset + extent.length <= layout.object_bytes());
                prop_assert!(extent.object < layout.object_count(offset + length));
                covered.extend(extent.parts);
            }
            let mut at = offset;
            for (from, len) in covered {
                prop_assert_eq!(from, at, "no gap and nothing twice");
                at += len;
            }
            prop_assert_eq!(at, offset + length);
        }
    }
}

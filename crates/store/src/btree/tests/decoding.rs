//! Pages with good checksums and bad content.

use super::bed::{Bed, BedRandom, TAG};
use crate::btree::PAGE_BYTES;
use crate::btree::child::PageRef;
use crate::btree::page::{LeafValue, Page};
use crate::btree::{Root, Run};
use proptest::prelude::*;
use types::crc32c;

/// Pages as the tree makes them: a root above leaves, and one leaf with overflow values.
fn sample_pages() -> Vec<(PageRef, u8, Vec<u8>)> {
    let mut bed = Bed::new(5, 5000, 1 << 20);
    for number in 0..3000u32 {
        let len = if number % 90 == 7 { 3000 } else { (number % 70) as usize };
        bed.put(format!("some key {number:06}").as_bytes(), &vec![number as u8; len]);
    }
    bed.merge();
    let root: Root = bed.root.unwrap();
    let mut pages = Vec::new();
    let mut todo = vec![(root.child.page, root.level)];
    while let Some((place, level)) = todo.pop() {
        let bytes = bed.disk.read(Run { start: place.block, count: 2 }).as_slice().to_vec();
        let page = Page::decode(bytes.clone().into(), TAG, &place, level).unwrap();
        if level > 0 {
            todo.extend((0..page.len()).map(|index| (page.child(index).page, level - 1)));
        }
        pages.push((place, level, bytes));
    }
    pages
}

/// Calls every accessor of a page that was accepted.
fn look_at(page: &Page) {
    let mut key = Vec::new();
    for index in 0..page.len() {
        page.key_into(index, &mut key);
        if page.level() > 0 {
            let _ = page.child(index);
            assert_eq!(page.child_index(&key), index);
        } else {
            assert_eq!(page.find(&key), Some(index));
            match page.value(index) {
                LeafValue::Inline(value) => assert_eq!(value, page.value_bytes(index)),
                LeafValue::Overflow(_) => drop(page.overflow_at(index)),
            }
        }
    }
    for key in [&b""[..], b"some", b"some key 000100", &[0xff; 20]] {
        match page.level() {
            0 => assert!(page.lower_bound(key) <= page.len()),
            _ => assert!(page.child_index(key) < page.len()),
        }
    }
}

fn seal(bytes: &mut [u8]) -> u32 {
    let crc = crc32c::checksum(&bytes[4..]);
    bytes[..4].copy_from_slice(&crc.to_le_bytes());
    crc
}

#[test]
fn pages_with_flipped_bits_are_read_safely_or_refused() {
    let pages = sample_pages();
    assert!(pages.len() > 5);
    let mut random = BedRandom(3);
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..30_000 {
        let (mut place, level, mut bytes) = pages[random.below(pages.len() as u64) as usize].clone();
        for _ in 0..=random.below(3) {
            // Most flipped bytes hit the structure.
            let at = if round % 4 == 0 { random.below(PAGE_BYTES as u64) } else { random.below(400) } as usize;
            bytes[at] = if round % 2 == 0 { bytes[at] ^ 1 << random.below(8) } else { random.below(256) as u8 };
        }
        place.crc = seal(&mut bytes);
        match Page::decode(bytes.into(), TAG, &place, level) {
            Ok(page) => {
                look_at(&page);
                accepted += 1;
            }
            Err(_) => refused += 1,
        }
    }
    assert!(accepted > 1000 && refused > 1000, "{accepted} accepted, {refused} refused");
}

proptest! {
    #[test]
    fn any_bytes_are_read_safely_or_refused(content in prop::collection::vec(any::<u8>(), 0..600), level in 0u8..3, head in any::<bool>()) {
        let mut bytes = vec![0; PAGE_BYTES];
        bytes[64..64 + content.len()].copy_from_slice(&content);
        if let Some(counts) = content.get(..6) {
            bytes[12..16].copy_from_slice(&[counts[0] % 32, 0, counts[1] % 64, 0]);
            bytes[40..42].copy_from_slice(&counts[4..6]);
        }
        bytes[4..8].copy_from_slice(b"NCBT");
        (bytes[8], bytes[9], bytes[10]) = (1, if level == 0 { 1 } else { 2 }, level);
        bytes[11] = u8::from(head);
        bytes[16..24].copy_from_slice(&TAG.to_le_bytes());
        bytes[24] = 9;
        bytes[32] = 5;
        let crc = seal(&mut bytes);
        if let Ok(page) = Page::decode(bytes.into(), TAG, &PageRef { block: 5, crc, generation: 9 }, level) {
            look_at(&page);
        }
    }

    #[test]
    fn pages_of_any_length_are_refused(len in 0usize..PAGE_BYTES) {
        let place = PageRef { block: 5, crc: 0, generation: 9 };
        prop_assert!(Page::decode(vec![0; len].into(), TAG, &place, 0).is_err());
    }
}

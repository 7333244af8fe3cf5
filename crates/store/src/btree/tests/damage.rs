//! Damage is found where it is, and reported.

use super::bed::{Bed, TAG};
use crate::btree::child::PageRef;
use crate::btree::page::Page;
use crate::btree::{DamageKind, Depth, MergeError, PAGE_BYTES, Progress, Run};
use types::crc32c;

fn loaded() -> Bed {
    let mut bed = Bed::new(8, 5000, 1 << 20);
    for number in 0..2000u32 {
        let len = if number % 300 == 7 { 9000 } else { 60 };
        bed.put(format!("{number:06}").as_bytes(), &vec![number as u8; len]);
    }
    bed.merge();
    bed.forget_all_pages(1 << 20);
    bed
}

/// Returns the leaf of a key.
fn leaf_of(bed: &mut Bed, key: &[u8]) -> PageRef {
    let root = bed.root.unwrap();
    let (mut place, mut level) = (root.child.page, root.level);
    while level > 0 {
        let bytes = bed.disk.read(place.run()).freeze();
        let page = Page::decode(bytes, TAG, &place, level).unwrap();
        place = page.child(page.child_index(key)).page;
        level -= 1;
    }
    place
}

#[test]
fn every_flipped_byte_is_found() {
    let mut bed = loaded();
    let place = leaf_of(&mut bed, b"001000");
    for at in 0..PAGE_BYTES {
        let (block, inside) = (place.block + (at / 4096) as u32, at % 4096);
        bed.disk.0.get_mut(&block).unwrap()[inside] ^= 1 << (at % 8);
        let damage = bed.get(b"001000").unwrap_err();
        assert_eq!(damage.run, place.run());
        assert!(matches!(damage.kind, DamageKind::Checksum { .. }), "byte {at}: {damage}");
        bed.disk.0.get_mut(&block).unwrap()[inside] ^= 1 << (at % 8);
        // The answer stays until reads are tried again.
        assert_eq!(bed.get(b"001000"), Err(damage));
        bed.cache.forget_failures();
        assert!(at % 500 != 0 || bed.get(b"001000").unwrap().is_some());
        bed.settle();
        if at % 500 == 0 {
            bed.forget_all_pages(1 << 20);
        }
    }
}

#[test]
fn a_page_that_is_not_the_one_meant_is_refused() {
    let mut bed = loaded();
    let place = leaf_of(&mut bed, b"001000");
    let whole = bed.disk.read(place.run()).as_slice().to_vec();
    let decode = |change: &dyn Fn(&mut Vec<u8>), level: u8| {
        let mut bytes = whole.clone();
        change(&mut bytes);
        let crc = crc32c::checksum(&bytes[4..]);
        bytes[..4].copy_from_slice(&crc.to_le_bytes());
        Page::decode(bytes.into(), TAG, &PageRef { crc, ..place }, level).map(|_| ())
    };
    assert_eq!(decode(&|_| (), 0), Ok(()));
    assert_eq!(decode(&|bytes| bytes[4] = 0, 0), Err(DamageKind::Magic));
    assert_eq!(decode(&|bytes| bytes[8] = 2, 0), Err(DamageKind::Version(2)));
    assert_eq!(decode(&|bytes| bytes[9] = 2, 0), Err(DamageKind::Structure("kind or flags")));
    assert_eq!(decode(&|bytes| bytes[11] |= 2, 0), Err(DamageKind::Structure("kind or flags")));
    assert_eq!(decode(&|bytes| bytes[11] ^= 1, 0), Err(DamageKind::Structure("overflow flag")));
    assert_eq!(decode(&|_| (), 1), Err(DamageKind::Level { expected: 1, found: 0 }));
    assert_eq!(decode(&|bytes| bytes[23] ^= 1, 0), Err(DamageKind::Tag));
    assert_eq!(decode(&|bytes| bytes[24] += 1, 0), Err(DamageKind::Generation { expected: 1, found: 2 }));
    assert_eq!(decode(&|bytes| bytes[36] = 1, 0), Err(DamageKind::Place(1 << 32 | u64::from(place.block))));
    assert_eq!(decode(&|bytes| bytes[50] = 1, 0), Err(DamageKind::Structure("reserved fields")));
    assert_eq!(decode(&|bytes| bytes[12..14].fill(0), 0), Err(DamageKind::Structure("no entries")));
    assert!(decode(&|bytes| bytes[12] += 1, 0).is_err());
    assert!(decode(&|bytes| bytes[14] += 1, 0).is_err());
    assert!(decode(&|bytes| bytes[40] -= 1, 0).is_err());
    // An older page lies where a newer write was lost.
    let stale = PageRef { crc: place.crc ^ 1, ..place };
    let kind = Page::decode(whole.clone().into(), TAG, &stale, 0).map(|_| ()).unwrap_err();
    assert!(matches!(kind, DamageKind::Checksum { .. }));
}

#[test]
fn a_lost_or_misdirected_write_is_found() {
    let mut bed = loaded();
    let old = bed.disk.clone();
    bed.put(b"001000", b"changed");
    let mut lost = None;
    let mut merge = bed.begin();
    let merged = bed.run(&mut merge, |_, write| lost = Some(write.run)).unwrap();
    bed.switch(merged);
    // The write never reached the device, or went elsewhere.
    for block in lost.unwrap().start..lost.unwrap().end() {
        match old.0.get(&block) {
            Some(content) => drop(bed.disk.0.insert(block, content.clone())),
            None => drop(bed.disk.0.remove(&block)),
        }
    }
    bed.forget_all_pages(1 << 20);
    assert!(matches!(bed.get(b"001000").unwrap_err().kind, DamageKind::Checksum { .. }));
}

#[test]
fn a_walk_reports_all_damage_and_goes_on() {
    let mut bed = loaded();
    let (one, other) = (leaf_of(&mut bed, b"000500"), leaf_of(&mut bed, b"001500"));
    let (_, all, pages, _) = bed.walk(bed.root, Depth::Values);
    bed.forget_all_pages(1 << 20);
    bed.disk.0.get_mut(&one.block).unwrap()[100] ^= 1;
    bed.disk.0.get_mut(&(other.block + 1)).unwrap()[4000] ^= 1;
    let (_, entries, visited, damaged) = bed.walk(bed.root, Depth::Values);
    let runs: Vec<Run> = damaged.iter().map(|damage| damage.run).collect();
    assert_eq!(runs, [one.run(), other.run()]);
    assert_eq!(visited, pages);
    assert!(entries < all && entries > all / 2);
}

#[test]
fn a_damaged_value_is_found_and_nothing_else_suffers() {
    let mut bed = loaded();
    let value = bed.get(b"000307").unwrap().unwrap();
    assert_eq!(value.len(), 9000);
    let place =
        (0..5000).find(|block| bed.disk.0.get(block).is_some_and(|content| content[..] == vec![307u32 as u8; 4096]));
    bed.disk.0.get_mut(&place.unwrap()).unwrap()[4095] ^= 4;
    bed.forget_all_pages(1 << 20);
    assert!(matches!(bed.get(b"000307").unwrap_err().kind, DamageKind::Checksum { .. }));
    assert!(bed.get(b"000308").unwrap().is_some());
    assert_eq!(bed.walk(bed.root, Depth::Pages).3, []);
    assert_eq!(bed.walk(bed.root, Depth::Values).3.len(), 1);
    // A damaged entry can be overwritten.
    bed.cache.forget_failures();
    bed.put(b"000307", b"new");
    bed.merge();
    assert_eq!(bed.walk(bed.root, Depth::Values).3, []);
    bed.content_is_the_models();
}

#[test]
fn a_merge_stops_at_damage_and_goes_on_when_it_is_gone() {
    let mut bed = loaded();
    let place = leaf_of(&mut bed, b"001000");
    bed.disk.0.get_mut(&place.block).unwrap()[200] ^= 1;
    for number in (0..2000u32).step_by(20) {
        bed.put(format!("{number:06}").as_bytes(), b"changed");
    }
    let mut merge = bed.begin();
    let error = bed.run(&mut merge, |_, _| ()).unwrap_err();
    assert!(matches!(error, MergeError::Damage(ref damage) if damage.run == place.run()), "{error}");
    bed.disk.0.get_mut(&place.block).unwrap()[200] ^= 1;
    bed.settle();
    bed.cache.forget_failures();
    let merged = bed.run(&mut merge, |_, _| ()).unwrap();
    bed.switch(merged);
    bed.content_is_the_models();
    bed.every_block_is_free_or_reachable();
}

#[test]
fn damaged_pages_can_be_deleted() {
    // A caller that wants entries counted learns that these were not.
    for (counted, is_exact) in [(super::bed::TABLES, false), (b"1", true)] {
        damaged_pages_can_be_deleted_counting(counted, is_exact);
    }
}

fn damaged_pages_can_be_deleted_counting(counted: &'static [u8], is_exact: bool) {
    let mut bed = loaded();
    bed.counted = counted;
    let place = leaf_of(&mut bed, b"000307");
    bed.disk.0.get_mut(&place.block).unwrap()[200] ^= 1;
    bed.delete_range(b"000000", b"001990");
    let mut merge = bed.begin();
    let merged = bed.run(&mut merge, |_, _| ()).unwrap();
    assert_eq!(merged.damaged.iter().map(|damage| damage.run).collect::<Vec<_>>(), [place.run()]);
    assert!(merged.freed.iter().any(|run| run.start <= place.block && place.block < run.end()));
    assert_eq!(merged.changes.is_exact, is_exact);
}

#[test]
fn a_damaged_neighbour_is_not_needed() {
    // Pages that shrink or split want to join the next page.
    for len in [None, Some(1500)] {
        let mut bed = loaded();
        let place = leaf_of(&mut bed, b"001000");
        let mut begin = 1000;
        while leaf_of(&mut bed, format!("{:06}", begin - 1).as_bytes()) == place {
            begin -= 1;
        }
        bed.disk.0.get_mut(&place.block).unwrap()[200] ^= 1;
        for number in begin - 5..begin {
            let key = format!("{number:06}");
            match len {
                None => bed.delete_range(format!("{:06}", begin - 85).as_bytes(), key.as_bytes()),
                Some(len) => bed.put(key.as_bytes(), &vec![1; len]),
            }
        }
        bed.counted = &[];
        let mut merge = bed.begin();
        let merged = bed.run(&mut merge, |_, _| ()).unwrap();
        bed.switch(merged);
        let (_, _, _, damaged) = bed.walk(bed.root, Depth::Pages);
        assert_eq!(damaged.iter().map(|damage| damage.run).collect::<Vec<_>>(), [place.run()]);
    }
}

#[test]
fn a_device_error_is_reported_with_its_place() {
    let mut bed = loaded();
    let root = bed.root.unwrap().page();
    let mut merge = {
        bed.put(b"x", b"y");
        bed.begin()
    };
    let progress = merge.step(&bed.overlay, &mut bed.cache, &mut bed.blocks, 1000).unwrap();
    assert!(matches!(progress, Progress::Waiting(_)));
    let read = bed.cache.poll_read().unwrap();
    bed.cache.read_done(read.id, Err(5));
    let error = merge.step(&bed.overlay, &mut bed.cache, &mut bed.blocks, 1000).unwrap_err();
    assert_eq!(error, MergeError::Damage(DamageKind::Device(5).at(root.run())));
}

//! Tests of the fill of pages and of the number of pages written.

use super::bed::Bed;
use crate::btree::{Depth, PAGE_BYTES};
use bytes::Bytes;

fn key(number: u64) -> Vec<u8> {
    format!("pool/object-{number:012}").into_bytes()
}

/// Returns the used bytes and the total bytes of all leaves.
fn fill(bed: &mut Bed) -> f64 {
    let (blocks, _, pages, damaged) = bed.walk(bed.root, Depth::Pages);
    assert_eq!(damaged, []);
    let mut used = 0;
    // Every page lies in two adjoining blocks, of which the first has the header.
    for block in blocks {
        let head = &bed.disk.0[&block];
        if head[4..8] == *b"NCBT" {
            used += usize::from(u16::from_le_bytes([head[40], head[41]]));
        }
    }
    used as f64 / (pages as usize * PAGE_BYTES) as f64
}

#[test]
fn sequential_loads_fill_pages() {
    let mut bed = Bed::new(1, 200_000, 1 << 20);
    for batch in 0..20 {
        (batch * 1000..(batch + 1) * 1000).for_each(|number| bed.put(&key(number), &[7; 100]));
        bed.merge();
    }
    let fill = fill(&mut bed);
    assert!((0.85..0.95).contains(&fill), "{fill}");
    assert_eq!(bed.root.unwrap().height(), 3);
    bed.every_block_is_free_or_reachable();
}

/// Puts `entries` at random places in batches, each followed by a merge. Returns the fill and the number of pages
/// written per entry.
fn load_randomly(entries: u64, batch: u64, value_bytes: usize) -> (f64, f64) {
    let mut bed = Bed::new(2, 400_000, 8 << 20);
    let mut pages = 0;
    for _ in 0..entries / batch {
        for _ in 0..batch {
            let number = bed.random.below(1 << 40);
            bed.put(&key(number), &vec![7; value_bytes]);
        }
        pages += bed.merge();
    }
    (fill(&mut bed), pages as f64 / entries as f64)
}

#[test]
fn random_loads_fill_pages_well() {
    // Large entries get no help from neighbours; without such help, these would be 71, 86 and 69 % full.
    for (entries, batch, value_bytes, expected, pages_max) in
        [(15_000, 30, 100, 0.79, 1.5), (15_000, 1000, 100, 0.86, 0.5), (4000, 200, 1200, 0.67, 1.3)]
    {
        let (fill, pages) = load_randomly(entries, batch, value_bytes);
        assert!(fill > expected, "{fill} with {value_bytes} bytes in batches of {batch}");
        assert!(pages < pages_max, "{pages} pages written per entry of {value_bytes} bytes in batches of {batch}");
    }
}

#[test]
fn pages_are_joined_when_entries_go() {
    let mut bed = Bed::new(3, 200_000, 8 << 20);
    (0..20_000).for_each(|number| bed.put(&key(number), &[7; 100]));
    bed.merge();
    let before = bed.every_block_is_free_or_reachable();
    for _ in 0..40 {
        for _ in 0..1000 {
            let number = bed.random.below(20_000);
            bed.delete(&key(number));
        }
        bed.merge();
    }
    let pages = bed.every_block_is_free_or_reachable();
    let (left, fill) = (bed.model.len(), fill(&mut bed));
    assert!(left < 3500 && fill > 0.5, "{pages} pages of {before}, {left} entries, {fill}");
    let keys: Vec<_> = bed.model.keys().skip(3).cloned().collect();
    keys.iter().for_each(|key| bed.delete(key));
    bed.merge();
    assert_eq!(bed.root.unwrap().height(), 1);
}

#[test]
fn one_change_writes_one_path() {
    let mut bed = Bed::new(4, 200_000, 8 << 20);
    (0..20_000).for_each(|number| bed.put(&key(number), &[7; 100]));
    bed.merge();
    bed.put(&key(7777), b"new");
    assert_eq!(bed.merge(), u64::from(bed.root.unwrap().height()));
}

#[test]
fn a_range_goes_without_its_leaves_being_read() {
    let mut bed = Bed::new(5, 200_000, 8 << 20);
    (0..20_000).for_each(|number| bed.put(&key(number), &[7; 100]));
    bed.merge();
    bed.forget_all_pages(8 << 20);
    bed.counted = &[];
    bed.amounts.clear();
    bed.delete_range(&key(100), &key(19_900));
    let pages = bed.merge();
    let reads = bed.cache.stats().reads;
    // These are the root, the interior pages, and the leaves at both ends of the range.
    assert!(pages <= 3 && reads <= 8, "{pages} pages written, {reads} read");
    bed.every_block_is_free_or_reachable();
    bed.content_is_the_models();
}

#[test]
fn only_leaves_of_counted_tables_are_read_when_they_go() {
    let mut bed = Bed::new(5, 200_000, 8 << 20);
    let key = |table: u8, number| [&[table][..], &key(number)].concat();
    (0..10_000).for_each(|number| bed.put(&key(3, number), &[7; 100]));
    (0..2000).for_each(|number| bed.put(&key(2, number), &[7; 100]));
    bed.counted = &[2];
    bed.merge();
    let leaves = bed.amounts[&2].bytes / 7000;
    bed.forget_all_pages(8 << 20);
    bed.delete_range(&[2], &[4]);
    bed.merge();
    let reads = bed.cache.stats().reads;
    assert!(reads >= leaves && reads < leaves * 2, "{reads} reads for {leaves} leaves");
    assert_eq!(bed.amounts[&2], crate::btree::Amount::default());
}

#[test]
fn common_beginnings_of_keys_cost_nothing() {
    let mut bed = Bed::new(6, 200_000, 8 << 20);
    let long = |number: u64| [&[b'x'; 1000][..], &key(number)].concat();
    (0..5000).for_each(|number| bed.put(&long(number), b""));
    bed.merge();
    let pages = bed.every_block_is_free_or_reachable();
    assert!(pages < 40, "{pages} pages");
}

#[test]
fn a_page_is_shared_not_copied() {
    let mut bed = Bed::new(7, 2000, 8 << 20);
    bed.put(b"key", &[9; 500]);
    bed.merge();
    let (one, two): (Bytes, Bytes) = (bed.get(b"key").unwrap().unwrap(), bed.get(b"key").unwrap().unwrap());
    assert_eq!(one.as_ptr(), two.as_ptr());
}

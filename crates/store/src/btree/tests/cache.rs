//! Tests of the page cache: pages that stay in memory, and pages that are read.

use super::bed::Bed;
use crate::btree::{Fetch, PAGE_BYTES, View};

fn key(number: u64) -> Vec<u8> {
    format!("{number:08}").into_bytes()
}

fn loaded(cache_pages: usize) -> Bed {
    let mut bed = Bed::new(9, 20_000, 1 << 20);
    (0..40_000).for_each(|number| bed.put(&key(number), &[5; 90]));
    bed.merge();
    bed.forget_all_pages(cache_pages * (PAGE_BYTES + 200));
    bed
}

#[test]
fn reads_of_one_page_are_joined() {
    let mut bed = loaded(100);
    let mut ids = Vec::new();
    for _ in 0..3 {
        let mut view = View { root: bed.root, overlay: &bed.overlay, cache: &mut bed.cache };
        match view.get(&key(5)).unwrap() {
            Fetch::Pending(id) => ids.push(id),
            Fetch::Ready(_) => panic!("nothing was read"),
        }
    }
    assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(bed.cache.poll_read().map(|read| read.id), Some(ids[0]));
    assert_eq!(bed.cache.poll_read(), None);
}

#[test]
fn interior_pages_stay_and_the_budget_is_kept() {
    let mut bed = loaded(30);
    let budget = 30 * (PAGE_BYTES + 200);
    for round in 0..2000 {
        let number = bed.random.below(40_000);
        assert!(bed.get(&key(number)).unwrap().is_some());
        let bytes = bed.cache.stats().bytes;
        assert!(bytes <= budget, "{bytes} bytes in round {round}");
    }
    // Each lookup reads one leaf; the pages above it are in memory.
    let reads = bed.cache.stats().reads;
    assert!(reads < 2050, "{reads} reads");
}

#[test]
fn pages_hit_often_survive_a_scan() {
    let mut bed = loaded(60);
    let hot: Vec<_> = (0..20).map(|number| key(number * 2000)).collect();
    for _ in 0..3 {
        hot.iter().for_each(|key| assert!(bed.get(key).unwrap().is_some()));
    }
    assert_eq!(bed.range(&key(2100), Some(&key(3900)), 50).unwrap().len(), 1800);
    let before = bed.cache.stats().reads;
    hot.iter().for_each(|key| assert!(bed.get(key).unwrap().is_some()));
    assert_eq!(bed.cache.stats().reads, before);
}

#[test]
fn a_merge_of_much_leaves_the_cache_to_others() {
    let mut bed = loaded(60);
    let hot: Vec<_> = (0..20).map(|number| key(number * 500)).collect();
    for _ in 0..3 {
        hot.iter().for_each(|key| assert!(bed.get(key).unwrap().is_some()));
    }
    (20_000..40_000).step_by(10).for_each(|number| bed.put(&key(number), b"changed"));
    bed.merge();
    let before = bed.cache.stats().reads;
    hot.iter().for_each(|key| assert!(bed.get(key).unwrap().is_some()));
    let reads = bed.cache.stats().reads - before;
    assert!(reads <= 2, "{reads} reads");
}

#[test]
fn a_page_that_was_hot_is_hot_after_it_changed() {
    let mut bed = loaded(60);
    for _ in 0..3 {
        assert!(bed.get(&key(777)).unwrap().is_some());
    }
    bed.put(&key(777), b"changed");
    bed.merge();
    let before = bed.cache.stats().reads;
    assert_eq!(bed.get(&key(777)).unwrap().unwrap(), &b"changed"[..]);
    assert_eq!(bed.cache.stats().reads, before);
}

//! Tests that merges do not wait for one page after another.

use super::bed::Bed;
use crate::btree::{BlockWrite, Merged, PAGE_BYTES, Progress};

fn key(number: u64) -> Vec<u8> {
    format!("pool/object-{number:012}").into_bytes()
}

/// Brings a merge to its end on a device that does all reads at once; returns the number of waits.
fn run(bed: &mut Bed) -> (Merged, u64) {
    let (mut merge, mut waits) = (bed.begin(), 0);
    loop {
        let progress = merge.step(&bed.overlay, &mut bed.cache, &mut bed.blocks, 100_000).unwrap();
        let writes: Vec<BlockWrite> = std::iter::from_fn(|| merge.poll_write()).collect();
        writes.iter().for_each(|write| bed.disk.write(write));
        match progress {
            Progress::Done(merged) => return (merged, waits),
            Progress::Working => {}
            Progress::Waiting(_) => waits += 1,
        }
        bed.settle();
    }
}

/// Makes a tree of `entries` that are not in memory, and `changes` all over it.
fn scattered(seed: u64, entries: u64, changes: u64, value_bytes: usize) -> Bed {
    let mut bed = Bed::new(seed, 400_000, 8 << 20);
    (0..entries).for_each(|number| bed.put(&key(number * 1000), &vec![7; value_bytes]));
    bed.merge();
    bed.forget_all_pages(64 * PAGE_BYTES);
    for _ in 0..changes {
        let number = bed.random.below(entries * 1000);
        bed.put(&key(number), &vec![8; value_bytes]);
    }
    bed
}

#[test]
fn scattered_changes_are_read_together() {
    for (entries, changes, value_bytes) in [(6000, 500, 1200), (60_000, 300, 100), (6000, 5000, 1200)] {
        let mut bed = scattered(1, entries, changes, value_bytes);
        let (merged, waits) = run(&mut bed);
        let reads = bed.cache.stats().reads;
        bed.switch(merged);
        bed.amounts_are_the_models();
        bed.every_block_is_free_or_reachable();
        // Half of the reads under way complete between two waits; each interior page adds some.
        assert!(waits * 8 < reads && reads > 200, "{waits} waits for {reads} reads of {changes} changes");
    }
}

#[test]
fn what_is_read_ahead_is_mostly_needed() {
    let mut bed = scattered(2, 6000, 500, 1200);
    let (merged, _) = run(&mut bed);
    let (reads, opened) = (bed.cache.stats().reads, merged.freed.iter().map(|run| u64::from(run.count) / 2).sum());
    bed.switch(merged);
    assert!((opened..opened + opened / 3).contains(&reads), "{reads} pages read, {opened} opened");
}

#[test]
fn poor_leaves_do_not_wait_for_their_neighbours() {
    let mut bed = Bed::new(3, 400_000, 8 << 20);
    (0..8000).for_each(|number| bed.put(&key(number), &[7; 1200]));
    bed.merge();
    bed.forget_all_pages(64 * PAGE_BYTES);
    // Four of five entries of every fifth leaf are deleted.
    let doomed: Vec<u64> = (0..8000).filter(|number| number % 30 < 5).collect();
    doomed.iter().for_each(|number| bed.delete(&key(*number)));
    let (merged, waits) = run(&mut bed);
    let reads = bed.cache.stats().reads;
    bed.switch(merged);
    bed.content_is_the_models();
    assert!(waits * 6 < reads && reads > 200, "{waits} waits for {reads} reads");
}

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn fresh(blocks: u32) -> Allocator {
    let mut allocator = Allocator::new(blocks);
    allocator.release(Run { start: 0, count: blocks });
    allocator.settle();
    allocator
}

proptest! {
    #[test]
    fn no_block_is_given_twice_and_none_is_lost(blocks in 1u32..10_000, steps: Vec<(u16, u8, u8)>) {
        let unit = [4, 16, 64][blocks as usize % 3];
        let mut allocator = Allocator::with_units(blocks, unit);
        allocator.release(Run { start: 0, count: blocks });
        allocator.settle();
        let mut held: Vec<Run> = Vec::new();
        let mut used: BTreeSet<u32> = BTreeSet::new();
        for (count, action, which) in steps {
            if action == 255 {
                allocator.hold_emptiest(which.into());
            } else if action == 254 {
                allocator.release_held();
            } else if action % 5 < 2 && !held.is_empty() {
                let run = held.swap_remove(usize::from(which) % held.len());
                (run.start..run.end()).for_each(|b| assert!(used.remove(&b)));
                allocator.release(run);
            } else {
                let count = if action % 5 == 2 { u32::from(count) % 700 } else { u32::from(count) % 20 };
                let free = blocks - used.len() as u32;
                let found = match action % 5 {
                    3 => match allocator.allocate_run(count.max(1)) {
                        Some(run) => Some(vec![run]),
                        // A run of one block is always found if there is one.
                        None => { prop_assert!(count > 1 || free == 0); continue }
                    },
                    4 if which % 4 == 0 => match allocator.allocate_cold(count) {
                        Some(runs) => Some(runs),
                        None => continue,
                    },
                    4 if which % 4 == 1 => match allocator.allocate_holes(count) {
                        Some(runs) => Some(runs),
                        None => continue,
                    },
                    _ => allocator.allocate(count),
                };
                match found {
                    None => prop_assert!(count > free),
                    Some(runs) => {
                        prop_assert_eq!(runs.iter().map(|r| r.count).sum::<u32>(), if action % 5 == 3 { count.max(1) } else { count });
                        for run in runs {
                            prop_assert!(run.end() <= blocks);
                            (run.start..run.end()).for_each(|b| assert!(used.insert(b), "block {b} given twice"));
                            held.push(run);
                        }
                    }
                }
            }
            prop_assert_eq!(allocator.free_blocks(), blocks - used.len() as u32);
            prop_assert!((allocator.high_water..blocks).all(|b| allocator.is_free(b)));
        }
        prop_assert!((0..blocks).all(|b| allocator.is_free(b) != used.contains(&b)));
        let free_of = |at: u32| (at * unit..(at * unit + unit).min(blocks)).filter(|b| allocator.is_free(*b)).count();
        let whole = (0..blocks.div_ceil(unit))
            .filter(|at| free_of(*at) == unit as usize && !allocator.is_set_aside(*at));
        prop_assert_eq!(allocator.units.whole() as usize, whole.count());
    }
}

#[test]
fn a_run_is_found_beyond_the_used_part_while_all_free_units_are_held() {
    let mut allocator = Allocator::with_units(193, 16);
    allocator.release(Run { start: 0, count: 193 });
    allocator.settle();
    allocator.allocate(177).unwrap();
    assert_eq!(allocator.hold_emptiest(2), 2);
    assert_eq!(allocator.allocate_run(4), Some(Run { start: 177, count: 4 }));
    assert_eq!(allocator.allocate_run(12), None);
    for _ in 0..12 {
        assert!(allocator.allocate_run(1).is_some());
    }
    assert_eq!((allocator.free_blocks(), allocator.allocate_run(1)), (0, None));
}

#[test]
fn what_is_asked_in_sequence_lies_in_sequence() {
    let mut allocator = fresh(100_000);
    for i in 0..1000 {
        assert_eq!(allocator.allocate(7), Some(vec![Run { start: i * 7, count: 7 }]));
    }
}

#[test]
fn a_fragmented_device_gives_pieces_of_the_indirection_unit_before_crumbs() {
    let mut allocator = fresh(65_536);
    allocator.allocate(65_536).unwrap();
    (0..512).for_each(|i| allocator.release(Run { start: i * 128, count: 1 }));
    (0..512).for_each(|i| allocator.release(Run { start: i * 128 + 32, count: 16 }));
    let runs = allocator.allocate(64).unwrap();
    assert!(runs.iter().all(|r| r.count == 16), "{runs:?}");
    assert_eq!(allocator.allocate(512 * 17 - 64).unwrap().iter().map(|r| r.count).sum::<u32>(), 512 * 17 - 64);
    assert_eq!(allocator.allocate(1), None);
}

/// Returns an allocator with units of 16 blocks, each with the given number of free blocks at its end.
fn with_free(counts: impl Iterator<Item = u32>) -> Allocator {
    let counts: Vec<u32> = counts.collect();
    let mut allocator = fresh(counts.len() as u32 * 16);
    for (unit, count) in (0..).zip(&counts) {
        allocator.take(Run { start: unit * 16, count: 16 - count });
    }
    allocator.settle();
    allocator
}

#[test]
fn small_requests_of_many_turns_fill_a_unit_and_large_ones_begin_at_one() {
    // Every third unit is free.
    let mut allocator = with_free((0..3000).map(|unit| if unit % 3 == 0 { 16 } else { 0 }));
    let mut filled = Vec::new();
    for turn in 0..100 {
        let small = allocator.allocate(1 + turn % 5).unwrap();
        let large = allocator.allocate(16 + 16 * (turn % 3)).unwrap();
        assert!(large.iter().all(|run| run.start % 16 == 0 && run.count == 16), "{large:?}");
        filled.extend(small.iter().flat_map(|run| run.start..run.end()));
    }
    let units: BTreeSet<u32> = filled.iter().map(|block| block / 16).collect();
    assert_eq!(units.len(), filled.len().div_ceil(16), "no unit is left before it is full");
    // Sizes that are no multiple of a unit are packed.
    let mut allocator = fresh(100_000);
    let runs: Vec<Run> = (0..20).flat_map(|_| allocator.allocate(25).unwrap()).collect();
    assert!(runs.windows(2).all(|pair| pair[0].end() == pair[1].start), "{runs:?}");
    assert_eq!(allocator.allocate(64).unwrap()[0].start % 16, 0);
}

#[test]
fn the_emptiest_units_are_filled_first() {
    let mut allocator = with_free((0..64).map(|unit| unit % 16));
    let runs = allocator.allocate(100).unwrap();
    // Four units each with 15 and 14 free blocks, and with 13 and 12, are distinguished from all others.
    assert!(runs.iter().all(|run| run.count >= 12 || run.end() == runs[runs.len() - 1].end()), "{runs:?}");
    let page = allocator.allocate_run(2).unwrap();
    assert_eq!(allocator.free_blocks(), (0..64).map(|unit| unit % 16).sum::<u32>() - 102);
    assert!(!allocator.is_free(page.start));
}

#[test]
fn a_churning_store_stays_in_the_part_it_used() {
    let mut allocator = fresh(1_000_000);
    let mut held: Vec<Run> = allocator.allocate(10_000).unwrap();
    for _ in 0..10_000 {
        let new = allocator.allocate(100).unwrap();
        held.extend(new);
        let old = held[0];
        let part = Run { start: old.start, count: old.count.min(100) };
        allocator.release(part);
        if old.count > 100 {
            held[0] = Run { start: part.end(), count: old.count - 100 }
        } else {
            held.remove(0);
        }
    }
    assert!(allocator.high_water < 40_000, "{} blocks touched for 10,000", allocator.high_water);
}

//! A store that is left alone brings its data and its free space together, comes to rest, and gives way to clients.

use super::harness::{Bench, KIB, object, txn, write};
use super::relocation::{pieces, roomy};
use crate::Step;
use crate::data::compaction::MOVING_BLOCKS_MAX;

/// Lets seconds without clients pass until nothing more is moved; returns their number.
fn rest(bench: &mut Bench) -> u32 {
    for ticks in 0..100 {
        if bench.store.is_compact() {
            return ticks;
        }
        bench.store.tick();
        for _ in 0..200 {
            bench.settle();
            if !bench.store.wants_turn() {
                break;
            }
        }
    }
    panic!("no rest after a hundred seconds: {:?}", bench.store.relocation_stats());
}

/// Makes this many objects of 1 MiB, whose blocks were all overwritten in another order than they are read.
fn aged(seed: u64, objects: u64) -> Bench {
    let mut bench = roomy(seed);
    bench.store.set_memory(crate::Memory::default());
    for number in 0..objects {
        bench.submit(txn(vec![write(number, 0, vec![number as u8; 1 << 20])])).unwrap();
    }
    bench.settle();
    for turn in 0..objects * 4 {
        let part = |n: u64| {
            // Objects take turns, so that blocks of one object never follow each other; each block is written once.
            let (number, at) = (n % objects, n / objects * 37 % 256);
            write(number, at * 4096, vec![n as u8; 4096])
        };
        bench.submit(txn((turn * 64..turn * 64 + 64).map(part).collect())).unwrap();
        bench.settle();
    }
    bench.settle();
    bench
}

fn check_contents_and_crash(bench: &mut Bench) {
    bench.check_all();
    let mut random = bench.random.clone();
    bench.reopen(bench.device.after_crash(&mut || random.next()));
}

#[test]
fn a_store_that_is_left_alone_brings_its_data_together_and_comes_to_rest() {
    let mut bench = aged(0, 16);
    let before: usize = (0..16).map(|number| pieces(&mut bench, number)).sum();
    assert!(before > 16 * 200, "{before} pieces");
    bench.store.tick();
    (0..10).for_each(|_| bench.settle());
    assert_eq!(bench.store.relocation_stats().moves, 0, "clients were there a moment ago");
    rest(&mut bench);
    let after: usize = (0..16).map(|number| pieces(&mut bench, number)).sum();
    assert!(after <= 16 * 4, "{after} pieces");
    let (stats, free) = (bench.store.relocation_stats(), bench.store.free_space());
    assert!(stats.moved_bytes >= 16 << 20 && stats.moved_bytes <= 32 << 20, "{stats:?}");
    assert!(free.whole_units_bytes >= free.bytes() / 4 * 3, "{free:?}");
    // At rest nothing more happens, however much time passes.
    for _ in 0..200 {
        bench.store.tick();
        bench.settle();
        assert!(!bench.store.wants_turn() && bench.store.is_compact());
    }
    assert_eq!(bench.store.relocation_stats(), stats);
    // A few changes are no reason to look at everything again.
    bench.submit(txn(vec![write(3, 64 * KIB, vec![9; 4096])])).unwrap();
    bench.settle();
    rest(&mut bench);
    assert_eq!(bench.store.relocation_stats().walks, stats.walks);
    check_contents_and_crash(&mut bench);
}

#[test]
fn a_store_that_is_nearly_full_first_makes_room() {
    let mut bench = aged(1, 55);
    let free = bench.store.free_space();
    assert!(free.bytes() < 8 << 20 && free.whole_units_bytes < free.bytes() / 2, "{free:?}");
    rest(&mut bench);
    let pieces: usize = (0..55).map(|number| pieces(&mut bench, number)).sum();
    let stats = bench.store.relocation_stats();
    assert!(pieces < 55 * 32, "{pieces} pieces, {stats:?}");
    let after = bench.store.free_space();
    assert!(after.whole_units_bytes >= after.bytes() / 5, "{free:?} then {after:?}, {stats:?}");
    check_contents_and_crash(&mut bench);
}

#[test]
fn no_more_is_moved_than_clients_have_changed() {
    let mut bench = aged(2, 16);
    bench.store.relocation = Default::default();
    bench.store.relocation.earn(0, 4 << 20, 64 << 20);
    rest(&mut bench);
    let moved = bench.store.relocation_stats().moved_bytes;
    assert!((3 << 20..=4 << 20).contains(&moved), "{moved} bytes moved");
    check_contents_and_crash(&mut bench);
}

#[test]
fn the_first_client_ends_a_lull() {
    let mut bench = aged(3, 16);
    bench.store.tick();
    bench.store.tick();
    while bench.store.relocation_stats().moves == 0 {
        bench.store.end_turn();
        bench.pump();
        bench.complete_some();
        bench.events();
    }
    bench.check_some_read();
    let before = bench.store.relocation_stats().moved_bytes;
    for _ in 0..20 {
        bench.settle();
    }
    let moved = bench.store.relocation_stats().moved_bytes - before;
    // A window may begin when all but one block of the limit are under way.
    assert!(moved <= u64::from(MOVING_BLOCKS_MAX + 128) * 4096, "{moved} bytes moved");
    assert!(!bench.store.is_compact() && !bench.store.wants_turn());
    rest(&mut bench);
    check_contents_and_crash(&mut bench);
}

#[test]
fn what_deletes_leave_is_brought_together() {
    let mut bench = roomy(4);
    for n in 0..20 {
        let part = |n: u64| write(n, 0, vec![n as u8; 8192]);
        bench.submit(txn((n * 50..n * 50 + 50).map(part).collect())).unwrap();
        bench.settle();
    }
    bench.submit(txn(vec![write(5000, 0, vec![1; 40 << 20])])).unwrap();
    bench.submit(txn((0..1000).filter(|n| n % 8 != 0).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    bench.settle();
    bench.submit(txn(vec![write(0, 0, vec![1; 4096])])).unwrap();
    bench.settle();
    rest(&mut bench);
    let free = bench.store.free_space();
    assert!(free.whole_units_bytes >= free.bytes() / 4 * 3, "{free:?} {:?}", bench.store.relocation_stats());
    check_contents_and_crash(&mut bench);
}

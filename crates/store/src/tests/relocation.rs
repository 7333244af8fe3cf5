//! Moving data changes only its place, keeps to its budget, and leaves data in use alone.

use super::harness::{Bench, KIB, config, object, ready, txn, write};
use crate::{Step, StoreConfig};

pub(super) fn roomy(seed: u64) -> Bench {
    let config = StoreConfig { device_bytes: 64 << 20, wal_bytes: 1 << 20, ..config() };
    let mut bench = Bench::with(config, seed * 4 + 2);
    bench.store.relocation = Default::default();
    bench.store.set_block_cache_bytes(0);
    bench
}

/// Makes an object of 1 MiB, each block of which was written by itself, with others between.
fn scatter(bench: &mut Bench, number: u64) {
    bench.submit(txn(vec![write(number, 0, vec![number as u8; 1 << 20])])).unwrap();
    for n in 0..256 {
        let at = n * 37 % 256 * 4096;
        bench.submit(txn(vec![write(number, at, vec![n as u8; 4096])])).unwrap();
        if n % 16 == 0 {
            bench.settle();
        }
    }
    bench.settle();
}

pub(super) fn pieces(bench: &mut Bench, number: u64) -> usize {
    ready(bench.store.placement(&object(number), 0, u64::MAX)).len()
}

fn read_whole(bench: &mut Bench, number: u64) {
    let found = super::harness::read(&mut bench.store, &mut bench.device, &object(number), 0, u64::MAX).unwrap();
    assert_eq!(found.to_vec(), *bench.model.objects[&object(number)].data);
}

/// Lets ticks pass between which clients come, so that the store is never left alone.
fn tick(bench: &mut Bench, ticks: u32) {
    for _ in 0..ticks {
        bench.store.relocation.compaction.disturb();
        bench.store.tick();
        (0..20).for_each(|_| bench.settle());
    }
}

#[test]
fn what_is_read_in_sequence_and_lies_scattered_is_brought_together() {
    let mut bench = roomy(0);
    bench.store.set_memory(crate::Memory::default());
    scatter(&mut bench, 1);
    scatter(&mut bench, 2);
    assert!(pieces(&mut bench, 1) > 200 && pieces(&mut bench, 2) > 200);
    read_whole(&mut bench, 1);
    tick(&mut bench, 1);
    assert!(pieces(&mut bench, 1) > 200, "it may still be hot");
    tick(&mut bench, 2);
    assert!(pieces(&mut bench, 1) <= 2, "{} pieces", pieces(&mut bench, 1));
    assert!(pieces(&mut bench, 2) > 200, "nobody reads it");
    let stats = bench.store.relocation_stats();
    assert_eq!((stats.noted, stats.moves, stats.moved_bytes, stats.given_up), (2, 2, 1 << 20, 0));
    read_whole(&mut bench, 1);
    bench.check_all();
    let mut random = bench.random.clone();
    bench.reopen(bench.device.after_crash(&mut || random.next()));
}

#[test]
fn what_is_being_written_or_shared_or_damaged_stays() {
    let mut bench = roomy(1);
    (1..4).for_each(|number| scatter(&mut bench, number));
    bench.submit(txn(vec![Step::Clone { from: object(2), to: object(4) }])).unwrap();
    bench.settle();
    (1..4).for_each(|number| read_whole(&mut bench, number));
    let half = ready(bench.store.placement(&object(3), 512 * KIB, 4096))[0].device_offset;
    bench.device.corrupt(half, 1);
    bench.submit(txn(vec![write(1, 0, vec![1; 4096]), write(1, 768 * KIB, vec![1; 4096])])).unwrap();
    bench.settle();
    tick(&mut bench, 4);
    let stats = bench.store.relocation_stats();
    assert_eq!((stats.noted, stats.moves, stats.moved_bytes), (6, 1, 512 * KIB), "{stats:?}");
    assert_eq!(stats.given_up, 3, "{stats:?}");
    bench.device.corrupt(half, 1);
    bench.check_all();
}

#[test]
fn no_more_is_moved_than_the_budget_allows() {
    let mut bench = roomy(2);
    bench.store.set_memory(crate::Memory::default());
    (0..8).for_each(|number| scatter(&mut bench, number));
    bench.store.relocation = Default::default();
    (0..8).for_each(|number| read_whole(&mut bench, number));
    bench.store.relocation.be_patient(4);
    (0..10).for_each(|_| bench.settle());
    assert_eq!(bench.store.relocation_stats().moves, 0, "nothing was earned");
    // Ten written bytes earn one.
    for n in 0..11 {
        bench.submit(txn(vec![write(20 + n, 0, vec![1; 1 << 20])])).unwrap();
        bench.settle();
    }
    (0..10).for_each(|_| bench.settle());
    assert_eq!(bench.store.relocation_stats().moved_bytes, 1 << 20);
    bench.check_all();
}

#[test]
fn units_that_are_nearly_empty_are_emptied() {
    let mut bench = roomy(3);
    for n in 0..2000 {
        bench.submit(txn(vec![write(n, 0, vec![n as u8; 4096])])).unwrap();
        if n % 50 == 0 {
            bench.settle();
        }
    }
    // One block is left in each unit; most of the rest of the device is in use.
    let kept = |n: u64| n.is_multiple_of(16);
    bench.submit(txn(vec![write(5000, 0, vec![1; 52 << 20])])).unwrap();
    bench.submit(txn((0..2000).filter(|n| !kept(*n)).map(|n| Step::Remove { object: object(n) }).collect())).unwrap();
    bench.settle();
    bench.submit(txn(vec![write(0, 0, vec![1; 4096])])).unwrap();
    bench.settle();
    let before = bench.store.free_space();
    assert!(before.whole_units_bytes < before.bytes() / 2, "{before:?}");
    for _ in 0..80 {
        tick(&mut bench, 1);
        (0..10).for_each(|_| bench.settle());
    }
    let (after, stats) = (bench.store.free_space(), bench.store.relocation_stats());
    // A sixteenth of the device is enough.
    assert!(after.whole_units_bytes >= 4 << 20, "{before:?} then {after:?}, {stats:?}");
    assert!(stats.walks >= 1 && stats.moved_bytes < 2 << 20, "{stats:?}");
    bench.check_all();
}

/// Random histories with everything moved all the time equal the model, before and after a crash.
#[test]
fn contents_never_change_while_data_moves() {
    let (mut moves, mut walks) = (0, 0);
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        bench.span_bytes = 96 * KIB;
        bench.store.relocation.be_eager();
        for turn in 0..120 {
            bench.turn();
            if turn % 40 == 39 {
                let mut random = bench.random.clone();
                bench.reopen(bench.device.after_crash(&mut || random.next()));
            }
        }
        bench.settle();
        bench.check_all();
        moves += bench.store.relocation_stats().moves;
        walks += bench.store.relocation_stats().walks;
    }
    assert!(moves > 300 && walks > 20, "{moves} moves, {walks} walks");
}

//! Small objects, whose bytes are in their records.

use super::harness::{Bench, KIB, object, read, txn, write};
use crate::Step;
use crate::data::inline::INLINE_BYTES_MAX;

const LIMIT: usize = INLINE_BYTES_MAX as usize;

fn truncate(number: u64, size: u64) -> Step {
    Step::Truncate { object: object(number), size }
}

/// Submits a step, and compares the content, also after a restart: bytes with the model, blocks as given.
fn check(bench: &mut Bench, step: Step, blocks: u64) {
    bench.submit(txn(vec![step.clone()])).unwrap();
    bench.settle();
    for _ in 0..2 {
        assert_eq!(bench.store.usage().data_bytes, blocks * 4096, "{step:?}");
        let stored: usize = bench.model.objects.values().map(|object| object.data.len()).sum();
        assert_eq!(bench.store.usage().stored_bytes, stored as u64, "{step:?}");
        for (id, model) in bench.model.objects.clone() {
            let found = read(&mut bench.store, &mut bench.device, &id, 0, u64::MAX).unwrap().to_vec();
            assert!(found == *model.data, "{step:?}: {} bytes of {id}, {} expected", found.len(), model.data.len());
            let part = read(&mut bench.store, &mut bench.device, &id, 700, 900).unwrap().to_vec();
            assert!(part == model.data[700.min(found.len())..1600.min(found.len())], "{step:?}: part of {id}");
        }
        bench.settle();
        if bench.random.chance(2) {
            bench.store.checkpoint();
            bench.settle();
        }
        let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
        *bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
    }
}

#[test]
fn small_objects_take_no_blocks_and_move_to_blocks_when_they_grow() {
    let mut bench = Bench::new(1);
    check(&mut bench, write(1, 10, vec![1; 1000]), 0);
    check(&mut bench, write(1, LIMIT as u64 - 1, vec![2]), 0);
    check(&mut bench, Step::Clone { from: object(1), to: object(2) }, 0);
    check(&mut bench, write(1, LIMIT as u64, vec![3]), 1);
    check(&mut bench, Step::Clone { from: object(1), to: object(3) }, 1);
    // The copies have not changed.
    check(&mut bench, Step::Zero { object: object(2), offset: 500, len: 300 }, 1);
    check(&mut bench, Step::Zero { object: object(2), offset: 1000, len: 1 << 40 }, 1);
    check(&mut bench, truncate(2, 20), 1);
    check(&mut bench, truncate(2, 3000), 1);
    assert_eq!(bench.ask(|store| store.extents(&object(2), 5, 9000)), [(5, 15)]);
    assert_eq!(bench.ask(|store| store.placement(&object(2), 0, 9000)), []);
    // Sparse objects have bytes far from the first ones.
    check(&mut bench, truncate(2, 1 << 20), 1);
    check(&mut bench, write(2, 100, vec![4; 30]), 1);
    check(&mut bench, write(2, 512 * KIB + 5, vec![5; 10]), 3);
    // All bytes are replaced.
    check(&mut bench, truncate(2, 0), 1);
    check(&mut bench, write(2, 0, vec![6; 600]), 1);
    check(&mut bench, write(2, 0, vec![7; 5000]), 3);
    check(&mut bench, write(4, 0, vec![8; 600]), 3);
    check(&mut bench, Step::Clone { from: object(4), to: object(2) }, 1);
    check(&mut bench, Step::Clone { from: object(1), to: object(4) }, 1);
    check(&mut bench, Step::Remove { object: object(2) }, 1);
    // A size set before the bytes does not matter, as long as it is small.
    check(&mut bench, truncate(5, 100), 1);
    check(&mut bench, write(5, 0, vec![9; 100]), 1);
    check(&mut bench, truncate(6, 5000), 1);
    check(&mut bench, write(6, 0, vec![9; 100]), 2);
    // The object's only block is not known when another one is written.
    check(&mut bench, write(7, 0, vec![9; 4000]), 3);
    check(&mut bench, write(7, 512 * KIB, vec![9; 100]), 4);
}

#[test]
fn an_object_with_large_attributes_keeps_its_bytes() {
    let mut bench = Bench::new(2);
    check(&mut bench, write(1, 0, vec![1; LIMIT]), 0);
    for number in 0..10u8 {
        let attr = Step::SetAttr { object: object(1), name: vec![number], value: vec![number; 1000].into() };
        check(&mut bench, attr, 0);
    }
    check(&mut bench, write(1, 100, vec![2; 100]), 0);
}

#[test]
fn objects_cross_the_limit_in_both_directions_and_stay_what_they_are() {
    let (mut out, mut back) = (0, 0);
    for seed in 0..16 {
        let mut bench = Bench::new(seed);
        bench.span_bytes = 3 * KIB;
        let mut were = vec![false; bench.objects as usize];
        for turn in 0..120 {
            bench.turn();
            for (number, was) in were.iter_mut().enumerate() {
                let id = object(number as u64);
                // Allocated bytes may have no place on the device.
                let is = !bench.ask(|store| store.extents(&id, 0, u64::MAX)).is_empty()
                    && bench.ask(|store| store.placement(&id, 0, u64::MAX)).is_empty();
                out += u32::from(*was && !is && bench.model.objects.contains_key(&id));
                back += u32::from(is && !*was);
                *was = is;
            }
            if turn % 40 == 39 {
                bench.settle();
                let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
                bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
                bench.span_bytes = 3 * KIB;
            }
        }
    }
    assert!(out > 100 && back > 100, "{out} times out of the record, {back} times into it");
}

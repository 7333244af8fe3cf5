//! Clones of ranges: whole blocks are shared, edges are copied.

use super::harness::{Bench, KIB, object, txn, write};
use crate::{CloneRangeError, OBJECT_BYTES_MAX, Step, SubmitError};

fn range(source: u64, source_offset: u64, length: u64, target: u64, target_offset: u64) -> Step {
    Step::CloneRange { source: object(source), target: object(target), source_offset, length, target_offset }
}

/// Submits, and compares the content, also after a restart. `blocks`: expected number of blocks in all.
fn check(bench: &mut Bench, steps: Vec<Step>, blocks: u64) {
    bench.submit(txn(steps.clone())).unwrap();
    bench.settle();
    bench.check_all();
    assert_eq!(bench.store.usage().data_bytes, blocks * 4096, "{steps:?}");
    if bench.random.chance(2) {
        bench.store.checkpoint();
        bench.settle();
    }
    let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
    assert_eq!(store.usage().data_bytes, blocks * 4096, "{steps:?}");
    *bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
}

#[test]
fn whole_blocks_are_shared_and_edges_copied() {
    let mut bench = Bench::new(2);
    let bytes: Vec<u8> = (0..300_000u32).map(|at| (at / 7) as u8).collect();
    check(&mut bench, vec![write(1, 0, bytes)], 74);
    check(&mut bench, vec![range(1, 8192, 40 * KIB, 2, 4096)], 74);
    // Ranges lie within a block, at the end of both objects, across a hole, and behind the source's end.
    check(&mut bench, vec![range(1, 100, 50, 3, 4196)], 75);
    check(&mut bench, vec![range(1, 290_816, 9184, 4, 4096)], 75);
    check(&mut bench, vec![range(2, 2048, 8 * KIB, 5, 2048)], 76);
    check(&mut bench, vec![range(1, 290_816, 60_000, 6, 0)], 76);
    check(&mut bench, vec![range(6, 30_000, 5000, 6, 30_000 + 8192)], 76);
    // The target has content: both edges keep it around the range.
    check(&mut bench, vec![write(7, 0, vec![9; 40_000]), range(1, 5000, 20_000, 7, 904)], 76 + 10 - 4);
    // The range moves within one object.
    check(&mut bench, vec![range(7, 0, 9000, 7, 16_384)], 81);
    check(&mut bench, vec![range(7, 0, 0, 8, 5 << 20)], 81);
    // The objects are removed one after another.
    for (number, blocks) in [(1, 81), (7, 81), (6, 81), (5, 81), (4, 81), (3, 81), (2, 81), (8, 81)] {
        bench.submit(txn(vec![Step::Remove { object: object(number) }])).unwrap();
        bench.settle();
        assert!(bench.store.usage().data_bytes <= blocks * 4096);
        bench.check_all();
    }
    assert_eq!(bench.store.usage().data_bytes, 0);
}

#[test]
fn bytes_in_records_are_copied_from_and_to() {
    let mut bench = Bench::new(3);
    check(&mut bench, vec![write(1, 0, vec![1; 1000]), write(2, 0, vec![2; 10_000])], 3);
    check(&mut bench, vec![range(1, 100, 500, 3, 100)], 3);
    check(&mut bench, vec![range(1, 100, 5000, 4, 4196)], 4);
    // The target's record takes no blocks besides bytes.
    check(&mut bench, vec![range(2, 4096, 4096, 3, 4096)], 5);
    check(&mut bench, vec![write(5, 0, vec![5; 800]), range(2, 0, 4096, 5, 0)], 5);
    check(&mut bench, vec![range(1, 0, 1000, 2, 4096)], 6);
    check(&mut bench, vec![range(1, 500, 9000, 1, 4596 + 8192)], 8);
}

#[test]
fn ranges_of_blocks_that_are_being_made_are_cloned() {
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        let number = |bench: &mut Bench| bench.random.below(3);
        bench.submit(txn((0..3).map(|n| write(n, 0, vec![n as u8 + 1; 30_000])).collect())).unwrap();
        bench.settle();
        for _ in 0..60 {
            let mut steps = Vec::new();
            for _ in 0..1 + bench.random.below(3) {
                let (source, target) = (number(&mut bench), number(&mut bench));
                let (at, len) = (bench.random.below(24_000), bench.random.below(14_000));
                let to = at % 4096 + bench.random.below(6) * 4096;
                steps.push(match bench.random.below(4) {
                    0 => {
                        let bytes = bench.random.bytes(len as usize / 10 + 1);
                        write(target, at, bytes)
                    }
                    1 => Step::Truncate { object: object(target), size: at },
                    _ if source == target && at.abs_diff(to) < len => Step::Touch { object: object(source) },
                    _ => range(source, at, len, target, to),
                });
            }
            bench.turn_of(steps);
        }
        bench.settle();
        bench.check_all();
        bench.reopen(bench.device.after_crash(&mut || 0));
    }
}

#[test]
fn what_cannot_be_cloned_is_refused_and_changes_nothing() {
    let mut bench = Bench::new(1);
    bench.submit(txn(vec![write(1, 0, vec![1; 20_000])])).unwrap();
    bench.settle();
    let mut check = |last: Step, expected: SubmitError| {
        assert_eq!(bench.store.submit(txn(vec![Step::Remove { object: object(1) }, last])), Err(expected));
        assert_eq!(bench.ask(|store| store.stat(&object(1))).unwrap().size_bytes, 20_000);
    };
    let refused = |why| SubmitError::CloneRange { object: object(1), why };
    check(range(1, 0, 5000, 2, 100), refused(CloneRangeError::Alignment));
    check(range(1, 0, (128 << 20) + 1, 2, 0), refused(CloneRangeError::Length));
    check(range(1, 0, 5000, 1, 4096), refused(CloneRangeError::Overlap));
    let end = OBJECT_BYTES_MAX + 4096;
    check(
        range(1, 0, 8192, 2, OBJECT_BYTES_MAX - 4096),
        SubmitError::ObjectTooLarge { what: "clone", object: object(2), end },
    );
    check(range(1, 0, 5000, 2, 0), SubmitError::CloneSource(object(1)));
    check(range(3, 0, 5000, 2, 0), SubmitError::CloneSource(object(3)));
}

//! Bytes that are added to what is there.

use super::harness::{Bench, KIB, object, read, txn, write};
use crate::{OBJECT_BYTES_MAX, ReadError, Step, SubmitError};
use wire::Rope;

fn xor(number: u64, offset: u64, data: Vec<u8>) -> Step {
    Step::Xor { object: object(number), offset, data: Rope::from(data) }
}

/// Submits a step, and compares the content, also after a restart. `blocks`: expected number of blocks in all.
fn check(bench: &mut Bench, step: Step, blocks: u64) {
    bench.submit(txn(vec![step.clone()])).unwrap();
    bench.settle();
    bench.check_all();
    assert_eq!(bench.store.usage().data_bytes, blocks * 4096, "{step:?}");
    let (store, device, _) = bench.reopen(bench.device.after_kill(&mut || 0));
    *bench = Bench::on(bench.config.clone(), store, device, bench.model.clone(), bench.random.clone());
}

#[test]
fn bytes_are_added_wherever_an_object_keeps_them() {
    let mut bench = Bench::new(5);
    let bytes: Vec<u8> = (0..40_000u32).map(|at| (at / 7) as u8).collect();
    check(&mut bench, write(1, 0, bytes.clone()), 10);
    // Whole blocks, a part of one, parts of two, and behind the end.
    check(&mut bench, xor(1, 4096, bytes[..8192].to_vec()), 10);
    check(&mut bench, xor(1, 100, vec![7; 50]), 10);
    check(&mut bench, xor(1, 8000, vec![9; 400]), 10);
    check(&mut bench, xor(1, 39_990, vec![3; 30]), 10);
    check(&mut bench, xor(1, 40_000, vec![3; 5000]), 11);
    check(&mut bench, xor(1, 50, vec![]), 11);
    // An object that is not there, one in its record, and one that leaves its record.
    check(&mut bench, xor(2, 5, vec![1; 10]), 11);
    check(&mut bench, xor(2, 10, vec![3; 900]), 11);
    check(&mut bench, xor(2, 1000, vec![3; 900]), 12);
    check(&mut bench, xor(3, 0, vec![4; 9000]), 15);
    // Holes, beside blocks and alone; a shared block is not changed for its other holder.
    check(&mut bench, write(4, 64 * KIB, vec![5; 4096]), 16);
    check(&mut bench, xor(4, 60 * KIB, vec![6; 8192]), 17);
    check(&mut bench, xor(4, 8 * KIB, vec![6; 10]), 18);
    check(&mut bench, Step::Clone { from: object(4), to: object(5) }, 18);
    check(&mut bench, xor(5, 64 * KIB, vec![9; 4096]), 19);
}

#[test]
fn what_is_added_twice_is_gone() {
    let mut bench = Bench::new(6);
    let before: Vec<u8> = (0..20_000u32).map(|at| (at / 3) as u8).collect();
    bench.submit(txn(vec![write(1, 0, before.clone())])).unwrap();
    bench.settle();
    // In one transaction, the second one adds to a block that is still being made.
    let added: Vec<u8> = (0..9000u32).map(|at| (at * 5) as u8).collect();
    bench.submit(txn(vec![xor(1, 3000, added.clone()), xor(1, 3000, added)])).unwrap();
    bench.settle();
    assert!(read(&mut bench.store, &mut bench.device, &object(1), 0, u64::MAX).unwrap().to_vec() == before);
}

#[test]
fn bytes_are_added_to_blocks_that_are_being_made() {
    for seed in 0..40 {
        let mut bench = Bench::new(seed);
        bench.submit(txn((0..3).map(|n| write(n, 0, vec![n as u8 + 1; 30_000])).collect())).unwrap();
        bench.settle();
        for _ in 0..60 {
            let mut steps = Vec::new();
            for _ in 0..1 + bench.random.below(3) {
                let (number, at, len) = (bench.random.below(3), bench.random.below(34_000), bench.random.below(9000));
                let bytes = bench.random.bytes(len as usize);
                steps.push(match bench.random.below(6) {
                    0 => write(number, at, bytes),
                    1 => Step::Truncate { object: object(number), size: at },
                    2 => Step::Clone { from: object(number), to: object((number + 1) % 3) },
                    _ => xor(number, at, bytes),
                });
            }
            bench.submit(txn(steps)).unwrap();
            bench.check_some_read();
            bench.store.end_turn();
            bench.pump();
            for _ in 0..bench.random.below(4) {
                bench.complete_some();
            }
            bench.events();
        }
        bench.settle();
        bench.check_all();
        bench.reopen(bench.device.after_crash(&mut || 0));
    }
}

#[test]
fn a_damaged_block_does_not_become_sound_by_what_is_added() {
    let mut bench = Bench::new(7);
    bench.submit(txn(vec![write(1, 0, vec![1; 12_288])])).unwrap();
    bench.settle();
    let place = bench.ask(|store| store.placement(&object(1), 4096, 4096))[0];
    bench.device.corrupt(place.device_offset, 4);
    bench.submit(txn(vec![xor(1, 0, vec![2; 12_288])])).unwrap();
    bench.settle();
    let mut read = |offset, len| read(&mut bench.store, &mut bench.device, &object(1), offset, len);
    assert!(matches!(read(4096, 4096), Err(ReadError::Checksum { object_offset: 4096, .. })));
    assert_eq!(read(0, 4096).unwrap().to_vec(), [3; 4096]);
    assert_eq!(read(8192, 4096).unwrap().to_vec(), [3; 4096]);
}

#[test]
fn what_would_make_an_object_too_large_is_refused() {
    let mut bench = Bench::new(8);
    let refused = bench.store.submit(txn(vec![xor(1, OBJECT_BYTES_MAX - 1, vec![1; 2])]));
    let end = OBJECT_BYTES_MAX + 1;
    assert_eq!(refused, Err(SubmitError::ObjectTooLarge { what: "addition", object: object(1), end }));
}

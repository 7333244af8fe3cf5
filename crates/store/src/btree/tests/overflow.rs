//! Tests of values in blocks of their own.

use super::bed::Bed;
use crate::btree::{INLINE_BYTES_MAX, KEY_BYTES_MAX};

#[test]
fn values_of_any_length_come_back() {
    // The space gives one block at a time, so each value lies in many runs, and long ones need lists of lists.
    for run_max in [1, 32] {
        let mut bed = Bed::new(1, 30_000, 64 << 10);
        bed.blocks.run_max = run_max;
        for (index, len) in
            [0, 1, INLINE_BYTES_MAX, INLINE_BYTES_MAX + 1, 4096, 4097, 40_000, 1 << 20, 20 << 20].iter().enumerate()
        {
            let value: Vec<u8> = (0..*len).map(|at| (at / 7 + at / 4096) as u8).collect();
            bed.put(&[index as u8], &value);
        }
        bed.merge();
        bed.forget_all_pages(64 << 10);
        bed.content_is_the_models();
        bed.every_block_is_free_or_reachable();
        bed.put(&[7], b"short now");
        bed.delete(&[8]);
        bed.merge();
        bed.content_is_the_models();
        bed.every_block_is_free_or_reachable();
    }
}

#[test]
fn scattered_blocks_make_many_runs() {
    let mut bed = Bed::new(2, 30_000, 64 << 10);
    // Every other block is taken, so that each run has one block.
    bed.blocks.allocator.take(crate::btree::Run { start: 2000, count: 20_000 });
    for block in (2000..22_000).step_by(2) {
        bed.blocks.allocator.release(crate::btree::Run { start: block, count: 1 });
    }
    bed.blocks.run_max = 1;
    let value: Vec<u8> = (0..30_000_000usize).map(|at| (at / 4096) as u8).collect();
    bed.put(b"large", &value);
    bed.merge();
    bed.content_is_the_models();
    bed.delete(b"large");
    bed.merge();
    assert_eq!(bed.blocks.allocator.free_blocks(), 30_000 - 3 - 10_000);
}

#[test]
fn a_dropped_subtree_frees_its_values() {
    let mut bed = Bed::new(3, 60_000, 64 << 10);
    for number in 0..3000u32 {
        let len = if number % 50 == 0 { 9000 } else { 60 };
        bed.put(format!("{number:06}").as_bytes(), &vec![1; len]);
    }
    bed.merge();
    bed.delete_range(b"0", b"1");
    bed.merge();
    assert_eq!(bed.root, None);
    bed.every_block_is_free_or_reachable();
}

#[test]
fn long_keys_take_long_values() {
    let mut bed = Bed::new(4, 10_000, 64 << 10);
    for len in [KEY_BYTES_MAX, KEY_BYTES_MAX - 1, 100] {
        for value in [0, 1000, INLINE_BYTES_MAX, 5000] {
            let mut key = vec![b'k'; len - 8];
            key.extend(format!("{value:08}").as_bytes());
            bed.put(&key, &vec![3; value]);
        }
    }
    bed.merge();
    bed.content_is_the_models();
    bed.every_block_is_free_or_reachable();
}

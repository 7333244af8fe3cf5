use super::*;
use crate::field::multiply;
use proptest::prelude::*;
use std::ops::Range;

/// Deterministic bytes without a pattern.
fn noise(seed: u64, bytes: usize) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        (state ^ state >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9).to_le_bytes()[7]
    };
    std::iter::repeat_with(next).take(bytes).collect()
}

struct Case {
    factors: Vec<u8>,
    sources: usize,
    rows: usize,
    range: Range<usize>,
    /// Offset of each buffer in its memory; each buffer is offset by one more byte than the buffer before it.
    misalignment: usize,
    add: bool,
    seed: u64,
}

/// Checks that every kernel computes the defined bytes, and writes to none outside of the range.
fn check(case: &Case) {
    let buffer_bytes = case.range.end + 70;
    let multipliers: Vec<Multiplier> = case.factors.iter().map(|&factor| *Multiplier::of(factor)).collect();
    let first_is_sum = case.factors.iter().step_by(case.rows).all(|&factor| factor == 1);
    let memory = |i: usize| noise(case.seed ^ (i as u64) << 32, buffer_bytes + case.misalignment + 64);
    let sources: Vec<Vec<u8>> = (0..case.sources).map(memory).collect();
    let start = |i: usize| case.misalignment + i % 64;
    let sources: Vec<&[u8]> = sources.iter().enumerate().map(|(i, s)| &s[start(i)..][..buffer_bytes]).collect();
    let before: Vec<Vec<u8>> = (0..case.rows).map(|row| memory(1000 + row)).collect();

    let mut expected = before.clone();
    for (row, target) in expected.iter_mut().enumerate() {
        for at in case.range.clone() {
            let product = |source: usize| multiply(sources[source][at], case.factors[source * case.rows + row]);
            let sum = (0..case.sources).fold(0, |sum, source| sum ^ product(source));
            let place = &mut target[start(row) + at];
            *place = if case.add { *place ^ sum } else { sum };
        }
    }

    for kernel in Kernel::available() {
        for first_is_sum in [false, first_is_sum] {
            let mut targets = before.clone();
            let mut slices: Vec<&mut [u8]> =
                targets.iter_mut().enumerate().map(|(i, t)| &mut t[start(i)..][..buffer_bytes]).collect();
            kernel.combine(Job {
                multipliers: &multipliers,
                sources: &sources,
                targets: &mut slices,
                range: case.range.clone(),
                add: case.add,
                first_is_sum,
            });
            assert!(
                targets == expected,
                "{kernel}: {} sources, {} rows, range {:?}, add {}, seed {}",
                case.sources,
                case.rows,
                case.range,
                case.add,
                case.seed
            );
        }
    }
}

#[test]
fn every_product_of_every_kernel() {
    for factor in 0..=255 {
        let source: Vec<u8> = (0..=255).collect();
        let expected: Vec<u8> = source.iter().map(|&byte| multiply(byte, factor)).collect();
        for kernel in Kernel::available() {
            let mut target = [0xaa; 256];
            kernel.combine(Job {
                multipliers: &[*Multiplier::of(factor)],
                sources: &[&source],
                targets: &mut [&mut target],
                range: 0..256,
                add: false,
                first_is_sum: false,
            });
            assert!(target[..] == expected[..], "{kernel}, factor {factor}");
        }
    }
}

#[test]
fn every_length_around_the_registers() {
    for bytes in (0..=300).chain([1023, 1024, 1025, 4095, 4096, 4097]) {
        for rows in 1..=ROWS_MAX {
            let factors = (0..3 * rows).map(|i| [1, 2, 0x8e, 0, 0xff][i % 5]).collect();
            let seed = bytes as u64;
            check(&Case { factors, sources: 3, rows, range: 0..bytes, misalignment: 0, add: bytes % 2 == 1, seed });
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_job(
        sources in 0usize..14,
        rows in 1usize..=ROWS_MAX,
        start in 0usize..300,
        bytes in 0usize..1200,
        misalignment in 0usize..64,
        add in any::<bool>(),
        first_is_sum in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let mut factors = noise(seed ^ 1, sources * rows);
        if first_is_sum {
            factors.iter_mut().step_by(rows).for_each(|factor| *factor = 1);
        }
        check(&Case { factors, sources, rows, range: start..start + bytes, misalignment, add, seed });
    }
}

#[test]
fn the_best_kernel_is_available() {
    assert!(Kernel::available().contains(&Kernel::best()));
    assert_eq!(Kernel::available()[0].name(), "portable");
}

fn job_of(multipliers: usize, source: usize, target: usize, end: usize) {
    let (source, mut target) = (vec![1; source], vec![1; target]);
    Kernel::best().combine(Job {
        multipliers: &vec![*Multiplier::of(1); multipliers],
        sources: &[&source],
        targets: &mut [&mut target],
        range: 0..end,
        add: false,
        first_is_sum: false,
    });
}

#[test]
#[should_panic(expected = "range 0..64 of 63 bytes")]
fn a_source_that_is_too_short_is_caught() {
    job_of(1, 63, 64, 64);
}

#[test]
#[should_panic(expected = "range 0..64 of 63 bytes")]
fn a_target_that_is_too_short_is_caught() {
    job_of(1, 64, 63, 64);
}

#[test]
#[should_panic(expected = "multipliers of 1 sources and 1 targets")]
fn too_few_multipliers_are_caught() {
    job_of(0, 64, 64, 64);
}

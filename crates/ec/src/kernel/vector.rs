//! The loop that all vector kernels share.
#![allow(unsafe_code)]

use super::{Job, Multiplier};

/// A register of bytes, and its multiplication.
///
/// # Safety
/// The functions may be called only if the processor has the instructions that the implementing type names. `load` and
/// `store` access exactly [`Vector::BYTES`] bytes from their pointer on, at any alignment.
pub(super) unsafe trait Vector: Copy {
    const BYTES: usize;
    /// A register prepared for several multiplications.
    type Operand: Copy;
    /// A coefficient in registers.
    type Factor: Copy;

    unsafe fn zero() -> Self;
    /// `from` is valid for reads of [`Vector::BYTES`] bytes.
    unsafe fn load(from: *const u8) -> Self;
    /// `to` is valid for writes of [`Vector::BYTES`] bytes.
    unsafe fn store(self, to: *mut u8);
    unsafe fn xor(self, other: Self) -> Self;
    unsafe fn operand(self) -> Self::Operand;
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor;
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self;
}

/// Width of the widest register.
const VECTOR_BYTES_MAX: usize = 64;

/// Carries out `job`, which has `ROWS` targets, with `UNROLL` registers of each at a time. `SUM`: `job.first_is_sum`.
///
/// # Safety
/// The processor has `V`'s instructions, `job` has passed its check, `ROWS` is its number of targets.
#[inline(always)]
unsafe fn combine_rows<V: Vector, const ROWS: usize, const UNROLL: usize, const SUM: bool>(job: &mut Job<'_, '_>) {
    const { assert!(V::BYTES <= VECTOR_BYTES_MAX) };
    let (multipliers, sources) = (job.multipliers.as_ptr(), job.sources);
    let mut targets = [std::ptr::null_mut::<u8>(); ROWS];
    for (pointer, target) in targets.iter_mut().zip(job.targets.iter_mut()) {
        *pointer = target.as_mut_ptr();
    }
    let (mut at, end) = (job.range.start, job.range.end);

    // SAFETY: the caller promises that each source and target is at least `end` bytes long, and that there are
    // `sources.len() * ROWS` multipliers. Targets are exclusive borrows, so they do not overlap anything.
    unsafe {
        while end - at >= V::BYTES * UNROLL {
            let places = targets.map(|target| target.add(at));
            step::<V, ROWS, UNROLL, SUM>(multipliers, sources.iter().map(|s| s.as_ptr().add(at)), places, job.add);
            at += V::BYTES * UNROLL;
        }
        while end - at >= V::BYTES {
            let places = targets.map(|target| target.add(at));
            step::<V, ROWS, 1, SUM>(multipliers, sources.iter().map(|s| s.as_ptr().add(at)), places, job.add);
            at += V::BYTES;
        }
    }
    if at < end {
        // The rest is shorter than a register: it is computed through memory of our own that is as long as a register.
        let left = end - at;
        let mut ends = [[0; VECTOR_BYTES_MAX]; ROWS];
        for (copy, target) in ends.iter_mut().zip(job.targets.iter()) {
            copy[..left].copy_from_slice(&target[at..end]);
        }
        let places = ends.each_mut().map(|copy| copy.as_mut_ptr());
        let mut padded = [0; VECTOR_BYTES_MAX];
        let pointers = sources.iter().map(|source| {
            padded[..left].copy_from_slice(&source[at..end]);
            padded.as_ptr()
        });
        // SAFETY: all pointers are to `VECTOR_BYTES_MAX` bytes. `step` reads a source's bytes before it asks for the
        // next source's pointer, so `padded` can serve all sources.
        unsafe { step::<V, ROWS, 1, SUM>(multipliers, pointers, places, job.add) };
        for (copy, target) in ends.iter().zip(job.targets.iter_mut()) {
            target[at..end].copy_from_slice(&copy[..left]);
        }
    }
}

/// # Safety
/// The processor has `V`'s instructions; each source is valid for reads and each target for writes of `UNROLL`
/// registers; there are `ROWS` multipliers for each source.
#[inline(always)]
// Plain loops over constant bounds compile to straight code in registers, which iterators prevent.
#[allow(clippy::needless_range_loop)]
unsafe fn step<V: Vector, const ROWS: usize, const UNROLL: usize, const SUM: bool>(
    multipliers: *const Multiplier,
    sources: impl Iterator<Item = *const u8>,
    targets: [*mut u8; ROWS],
    add: bool,
) {
    // SAFETY: the caller promises valid pointers and the instructions.
    unsafe {
        let mut sums = [[V::zero(); UNROLL]; ROWS];
        if add {
            for row in 0..ROWS {
                for i in 0..UNROLL {
                    sums[row][i] = V::load(targets[row].add(i * V::BYTES));
                }
            }
        }
        let mut multiplier = multipliers;
        for source in sources {
            let mut bytes = [V::zero(); UNROLL];
            for i in 0..UNROLL {
                bytes[i] = V::load(source.add(i * V::BYTES));
            }
            if SUM {
                for i in 0..UNROLL {
                    sums[0][i] = sums[0][i].xor(bytes[i]);
                }
            }
            if ROWS > usize::from(SUM) {
                let mut operands = [bytes[0].operand(); UNROLL];
                for i in 1..UNROLL {
                    operands[i] = bytes[i].operand();
                }
                for row in usize::from(SUM)..ROWS {
                    let factor = V::factor(&*multiplier.add(row));
                    for i in 0..UNROLL {
                        sums[row][i] = sums[row][i].xor(V::product(operands[i], factor));
                    }
                }
            }
            multiplier = multiplier.add(ROWS);
        }
        for row in 0..ROWS {
            for i in 0..UNROLL {
                sums[row][i].store(targets[row].add(i * V::BYTES));
            }
        }
    }
}

/// Carries out `job`. The constants are the numbers of registers of a target to work on at a time, for one, two, three
/// and four targets.
///
/// # Safety
/// The processor has `V`'s instructions and `job` has passed its check.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector, const U1: usize, const U2: usize, const U3: usize, const U4: usize>(
    job: &mut Job<'_, '_>,
) {
    // SAFETY: the caller promises the instructions and a checked job; the number of targets is matched here.
    unsafe {
        match (job.targets.len(), job.first_is_sum) {
            (1, false) => combine_rows::<V, 1, U1, false>(job),
            (2, false) => combine_rows::<V, 2, U2, false>(job),
            (3, false) => combine_rows::<V, 3, U3, false>(job),
            (4, false) => combine_rows::<V, 4, U4, false>(job),
            (1, true) => combine_rows::<V, 1, 4, true>(job),
            (2, true) => combine_rows::<V, 2, U2, true>(job),
            (3, true) => combine_rows::<V, 3, U3, true>(job),
            (4, true) => combine_rows::<V, 4, U4, true>(job),
            (targets, _) => unreachable!("a job of {targets} targets passed its check"),
        }
    }
}

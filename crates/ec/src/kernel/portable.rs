//! A table look-up per byte, for processors without the instructions of the other kernels. It has no `unsafe`, and the
//! other kernels are compared with it.

use super::{Job, Multiplier};
use crate::field::multiply;

/// `PRODUCTS[a][b]` is a times b.
static PRODUCTS: [[u8; 256]; 256] = {
    let mut table = [[0; 256]; 256];
    let (mut a, mut b) = (0, 0);
    while a < 256 {
        while b < 256 {
            table[a][b] = multiply(a as u8, b as u8);
            b += 1;
        }
        (a, b) = (a + 1, 0);
    }
    table
};

pub(super) fn combine(job: &mut Job<'_, '_>) {
    let rows = job.targets.len();
    let range = job.range.clone();
    for (row, target) in job.targets.iter_mut().enumerate() {
        let target = &mut target[range.clone()];
        if !job.add {
            target.fill(0);
        }
        for (source, multipliers) in job.sources.iter().zip(job.multipliers.chunks_exact(rows)) {
            add_product(&multipliers[row], &source[range.clone()], target);
        }
    }
}

fn add_product(multiplier: &Multiplier, source: &[u8], target: &mut [u8]) {
    match multiplier.factor {
        1 => target.iter_mut().zip(source).for_each(|(target, source)| *target ^= source),
        factor => {
            let products = &PRODUCTS[usize::from(factor)];
            target.iter_mut().zip(source).for_each(|(target, source)| *target ^= products[usize::from(*source)]);
        }
    }
}

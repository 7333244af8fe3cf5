//! The kernel for aarch64: table look-ups by `tbl`.
#![allow(unsafe_code)]

use super::vector::{Vector, combine};
use super::{Job, Multiplier};
use std::arch::aarch64::*;

pub(super) fn neon(job: &mut Job<'_, '_>) {
    #[target_feature(enable = "neon")]
    fn compiled(job: &mut Job<'_, '_>) {
        // SAFETY: this function has the instructions; `Kernel::combine` has checked the job. There are 32 registers.
        unsafe { combine::<Table128, 4, 4, 2, 2>(job) }
    }
    // SAFETY: only `Kernel::combine` calls this, for a `Kernel`, which exists only if `Kind::is_available` has found
    // NEON.
    unsafe { compiled(job) }
}

/// 16 bytes. Needs NEON.
#[derive(Clone, Copy)]
struct Table128(uint8x16_t);

// SAFETY: unaligned loads and stores of 16 bytes, no other access.
unsafe impl Vector for Table128 {
    const BYTES: usize = 16;
    /// Low and high half of each byte, each in a byte of its own.
    type Operand = (uint8x16_t, uint8x16_t);
    /// Tables of the products of the low and of the high halves.
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has NEON.
        Table128(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Table128(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has NEON.
        Table128(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the caller has NEON.
        unsafe { (vandq_u8(self.0, vdupq_n_u8(0x0f)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: both tables are 16 bytes long.
        unsafe { (vld1q_u8(multiplier.low.as_ptr()), vld1q_u8(multiplier.high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has NEON.
        Table128(unsafe { veorq_u8(vqtbl1q_u8(factor.0, operand.0), vqtbl1q_u8(factor.1, operand.1)) })
    }
}

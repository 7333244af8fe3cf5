//! Kernels for x86-64: table look-ups by byte shuffles (SSSE3, AVX2, AVX-512), and bit matrices (GFNI).
#![allow(unsafe_code)]

use super::vector::{Vector, combine};
use super::{Job, Multiplier};
use std::arch::x86_64::*;

/// A kernel: the shared loop, compiled for the named instructions.
macro_rules! kernel {
    ($(#[$doc:meta])* $name:ident, $features:literal, $vector:ty, $unroll:expr) => {
        $(#[$doc])*
        pub(super) fn $name(job: &mut Job<'_, '_>) {
            #[target_feature(enable = $features)]
            fn compiled(job: &mut Job<'_, '_>) {
                const UNROLL: [usize; 4] = $unroll;
                // SAFETY: this function has the instructions; `Kernel::combine` has checked the job.
                unsafe {
                    combine::<$vector, { UNROLL[0] }, { UNROLL[1] }, { UNROLL[2] }, { UNROLL[3] }>(job)
                }
            }
            // SAFETY: only `Kernel::combine` calls this, for a `Kernel`, which exists only if `Kind::is_available` has
            // found these very features.
            unsafe { compiled(job) }
        }
    };
}

// Accumulators, operands and factors must fit into 16 registers, or 32 with AVX-512.
kernel!(ssse3, "ssse3", Shuffle128, [2, 2, 1, 1]);
kernel!(avx2, "avx2", Shuffle256, [2, 2, 1, 1]);
kernel!(avx512, "avx512f,avx512bw", Shuffle512, [4, 4, 2, 2]);
kernel!(avx2_gfni, "avx2,gfni", Affine256, [4, 4, 2, 2]);
kernel!(avx512_gfni, "avx512f,avx512bw,gfni", Affine512, [4, 4, 4, 4]);

/// 16 bytes; products by `pshufb`. Needs SSSE3.
#[derive(Clone, Copy)]
struct Shuffle128(__m128i);

/// 32 bytes; products by `vpshufb`. Needs AVX2.
#[derive(Clone, Copy)]
struct Shuffle256(__m256i);

/// 64 bytes; products by `vpshufb`. Needs AVX-512 F and BW.
#[derive(Clone, Copy)]
struct Shuffle512(__m512i);

/// 32 bytes; products by `vgf2p8affineqb`. Needs AVX2 and GFNI.
#[derive(Clone, Copy)]
struct Affine256(__m256i);

/// 64 bytes; products by `vgf2p8affineqb`. Needs AVX-512 F and BW, and GFNI.
#[derive(Clone, Copy)]
struct Affine512(__m512i);

/// Low and high half of each byte, each in a byte of its own; or the tables of their products.
type Halves<T> = (T, T);

// SAFETY: unaligned loads and stores of the register's width, no other access.
unsafe impl Vector for Shuffle128 {
    const BYTES: usize = 16;
    type Operand = Halves<__m128i>;
    type Factor = Halves<__m128i>;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: every x86-64 has SSE2.
        Shuffle128(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Shuffle128(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: every x86-64 has SSE2.
        Shuffle128(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: every x86-64 has SSE2.
        unsafe {
            let mask = _mm_set1_epi8(0x0f);
            (_mm_and_si128(self.0, mask), _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: both tables are 16 bytes long.
        unsafe { (_mm_loadu_si128(multiplier.low.as_ptr().cast()), _mm_loadu_si128(multiplier.high.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has SSSE3.
        Shuffle128(unsafe {
            _mm_xor_si128(_mm_shuffle_epi8(factor.0, operand.0), _mm_shuffle_epi8(factor.1, operand.1))
        })
    }
}

// SAFETY: unaligned loads and stores of the register's width, no other access.
unsafe impl Vector for Shuffle256 {
    const BYTES: usize = 32;
    type Operand = Halves<__m256i>;
    type Factor = Halves<__m256i>;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2.
        Shuffle256(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Shuffle256(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has AVX2.
        Shuffle256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the caller has AVX2.
        unsafe {
            let mask = _mm256_set1_epi8(0x0f);
            (_mm256_and_si256(self.0, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: both tables are 16 bytes long.
        unsafe {
            let table = |bytes: &[u8; 16]| _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast()));
            (table(&multiplier.low), table(&multiplier.high))
        }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has AVX2.
        Shuffle256(unsafe {
            _mm256_xor_si256(_mm256_shuffle_epi8(factor.0, operand.0), _mm256_shuffle_epi8(factor.1, operand.1))
        })
    }
}

// SAFETY: unaligned loads and stores of the register's width, no other access.
unsafe impl Vector for Shuffle512 {
    const BYTES: usize = 64;
    type Operand = Halves<__m512i>;
    type Factor = Halves<__m512i>;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512 F and BW.
        Shuffle512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Shuffle512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512 F.
        Shuffle512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        // SAFETY: the caller has AVX-512 F.
        unsafe {
            let mask = _mm512_set1_epi8(0x0f);
            (_mm512_and_si512(self.0, mask), _mm512_and_si512(_mm512_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: both tables are 16 bytes long.
        unsafe {
            let table = |bytes: &[u8; 16]| _mm512_broadcast_i32x4(_mm_loadu_si128(bytes.as_ptr().cast()));
            (table(&multiplier.low), table(&multiplier.high))
        }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has AVX-512 BW.
        Shuffle512(unsafe {
            _mm512_xor_si512(_mm512_shuffle_epi8(factor.0, operand.0), _mm512_shuffle_epi8(factor.1, operand.1))
        })
    }
}

// SAFETY: unaligned loads and stores of the register's width, no other access.
unsafe impl Vector for Affine256 {
    const BYTES: usize = 32;
    type Operand = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX2 and GFNI.
        Affine256(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Affine256(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has AVX2.
        Affine256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: the caller has AVX2.
        unsafe { _mm256_set1_epi64x(multiplier.affine.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has AVX and GFNI.
        Affine256(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(operand, factor) })
    }
}

// SAFETY: unaligned loads and stores of the register's width, no other access.
unsafe impl Vector for Affine512 {
    const BYTES: usize = 64;
    type Operand = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller has AVX-512 F, BW and GFNI.
        Affine512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller promises that `from` is valid.
        Affine512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller promises that `to` is valid.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: the caller has AVX-512 F.
        Affine512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn operand(self) -> Self::Operand {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(multiplier: &Multiplier) -> Self::Factor {
        // SAFETY: the caller has AVX-512 F.
        unsafe { _mm512_set1_epi64(multiplier.affine.cast_signed()) }
    }

    #[inline(always)]
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self {
        // SAFETY: the caller has AVX-512 F and GFNI.
        Affine512(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(operand, factor) })
    }
}

//! The inner loops: sums of products over GF(2^8), with the best instructions of the processor.
//!
//! A [`Kernel`] value proves that the processor has its instructions: only [`Kernel::available`] makes them. All
//! kernels give equal bytes; they differ in speed. The crate's only `unsafe` is in `vector`, `x86` and `aarch64`.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod job;
mod multiplier;
mod portable;
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use job::Job;
pub(crate) use multiplier::Multiplier;

use std::fmt;
use std::sync::OnceLock;

/// Largest number of targets of one [`Job`]: as many accumulators as fit the registers with something to spare.
pub(crate) const ROWS_MAX: usize = 4;

/// An implementation of the inner loops, chosen by the processor's instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

/// All kinds, from slowest to fastest.
const KINDS: &[Kind] = &[
    Kind::Portable,
    #[cfg(target_arch = "x86_64")]
    Kind::Ssse3,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx512,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Kind::Avx512Gfni,
    #[cfg(target_arch = "aarch64")]
    Kind::Neon,
];

impl Kind {
    /// True if the processor, and the operating system for the wide registers, supports the kernel. The features tested
    /// here are exactly those that the kernel's functions are compiled with.
    fn is_available(self) -> bool {
        match self {
            Kind::Portable => true,
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Gfni => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("gfni")
            }
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => std::arch::is_aarch64_feature_detected!("neon"),
        }
    }
}

impl Kernel {
    /// Kernels that run on this processor, from slowest to fastest; never empty.
    pub fn available() -> Vec<Kernel> {
        KINDS.iter().copied().filter(|kind| kind.is_available()).map(Kernel).collect()
    }

    /// The fastest kernel that runs on this processor. It is determined once.
    pub fn best() -> Kernel {
        static BEST: OnceLock<Kernel> = OnceLock::new();
        *BEST.get_or_init(|| *Kernel::available().last().expect("the portable kernel runs everywhere"))
    }

    /// Name of the kernel, such as `avx512-gfni`.
    pub fn name(self) -> &'static str {
        match self.0 {
            Kind::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => "ssse3",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => "avx512",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2Gfni => "avx2-gfni",
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Gfni => "avx512-gfni",
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => "neon",
        }
    }

    /// Carries out a job. Panics if its parts do not fit together.
    pub(crate) fn combine(self, mut job: Job<'_, '_>) {
        job.check();
        match self.0 {
            Kind::Portable => portable::combine(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kind::Ssse3 => x86::ssse3(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2 => x86::avx2(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512 => x86::avx512(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx2Gfni => x86::avx2_gfni(&mut job),
            #[cfg(target_arch = "x86_64")]
            Kind::Avx512Gfni => x86::avx512_gfni(&mut job),
            #[cfg(target_arch = "aarch64")]
            Kind::Neon => aarch64::neon(&mut job),
        }
    }
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests;

//! The most fused multiply-adds that this core does now.

use fulgurite_unet::Kernel;

use crate::thread_cpu_ns;

/// Repetitions of the loop, which takes some milliseconds.
const REPETITIONS: usize = 1_000_000;

/// GFLOP/s of independent fused multiply-adds on the kernel's registers. None for the portable
/// kernel, which multiplies and adds on whatever the compiler chooses.
pub(crate) fn gflops(kernel: Kernel) -> Option<f64> {
    let start = thread_cpu_ns();
    // SAFETY: the kernel is available, so its instructions are.
    let flops = unsafe {
        match kernel {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => x86::avx512(),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => x86::avx2(),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => aarch64::neon(),
            _ => return None,
        }
    };
    Some(flops as f64 / (thread_cpu_ns() - start) as f64)
}

/// Defines a loop over `$registers` independent sums, and returns the operations that it did.
macro_rules! peak {
    ($name:ident, $features:literal, $lanes:literal, $registers:literal, $splat:ident, $multiply_add:expr) => {
        /// # Safety
        /// The machine has the instructions.
        #[target_feature(enable = $features)]
        pub(super) unsafe fn $name() -> usize {
            let mut sums = [$splat(0.5); $registers];
            let factor = std::hint::black_box($splat(0.5));
            for _ in 0..super::REPETITIONS {
                for sum in &mut sums {
                    *sum = $multiply_add(*sum, factor);
                }
            }
            std::hint::black_box(sums);
            2 * $lanes * $registers * super::REPETITIONS
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    peak!(avx512, "avx512f", 16, 16, _mm512_set1_ps, |sum, factor| _mm512_fmadd_ps(sum, factor, factor));
    peak!(avx2, "avx2,fma", 8, 12, _mm256_set1_ps, |sum, factor| _mm256_fmadd_ps(sum, factor, factor));
}

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use std::arch::aarch64::*;

    peak!(neon, "neon", 4, 24, vdupq_n_f32, |sum, factor| vfmaq_f32(factor, sum, factor));
}

//! Which instructions the codes run on.

use std::sync::OnceLock;

/// An implementation of the field products, fastest first.
///
/// All give the same bytes. [`Kernel::best`] is what the codes choose; tests and benchmarks force the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// 8x8 bit matrices on 64-byte registers.
    Avx512Gfni,
    /// 8x8 bit matrices on 32-byte registers.
    Avx2Gfni,
    /// Shuffles as 16-entry tables, on 32-byte registers.
    Avx2,
    /// Shuffles as 16-entry tables, on 16-byte registers of aarch64.
    Neon,
    /// Table look-ups; any machine, and what Miri runs.
    Portable,
}

impl Kernel {
    /// The kernels this machine can run, fastest first. `Portable` is always the last.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The fastest kernel this machine can run.
    pub fn best() -> Kernel {
        Kernel::available()[0]
    }

    /// True if this machine can run the kernel.
    pub fn is_available(self) -> bool {
        Kernel::available().contains(&self)
    }
}

fn detect() -> Vec<Kernel> {
    let mut found = Vec::new();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        let avx2 = is_x86_feature_detected!("avx2");
        let gfni = is_x86_feature_detected!("gfni");
        if gfni && avx2 && is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512bw") {
            found.push(Kernel::Avx512Gfni);
        }
        if gfni && avx2 {
            found.push(Kernel::Avx2Gfni);
        }
        if avx2 {
            found.push(Kernel::Avx2);
        }
    }
    // Every aarch64 target of Rust's has these instructions.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
    found.push(Kernel::Neon);
    found.push(Kernel::Portable);
    found
}

/// Asks for the cache line at `at`, which needn't be a valid address.
#[inline(always)]
pub(crate) fn prefetch(at: *const u8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch never faults and changes nothing but caches; SSE is part of x86-64.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

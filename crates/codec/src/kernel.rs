//! Kernels: implementations of Galois-field multiplication and LDPC decoding for different
//! instruction sets.

use std::sync::OnceLock;

/// An instruction set with its implementations; each variant says how it multiplies. Preferred
/// first; the order is that of encoding speed.
///
/// All kernels give the same bytes. Codes use [`Kernel::best`]; tests and benchmarks select the
/// others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// 8x8 bit matrices on 64-byte registers.
    Avx512Gfni,
    /// 8x8 bit matrices on 32-byte registers.
    Avx2Gfni,
    /// Byte shuffles as 16-entry lookup tables, on 32-byte registers.
    Avx2,
    /// Byte shuffles as 16-entry lookup tables, on 16-byte registers of aarch64.
    Neon,
    /// Table lookups, for any machine; Miri uses it.
    Portable,
}

impl Kernel {
    /// The kernels that this machine supports, preferred first. `Portable` is always last.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The preferred kernel of those that this machine supports.
    pub fn best() -> Kernel {
        Kernel::available()[0]
    }

    /// Whether this machine supports the kernel.
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
    // NEON is a compile-time feature of the target, so nothing is detected at run time.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
    found.push(Kernel::Neon);
    found.push(Kernel::Portable);
    found
}

/// Prefetches the cache line at `at`, which may be an invalid address. Does nothing on machines
/// other than x86-64.
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

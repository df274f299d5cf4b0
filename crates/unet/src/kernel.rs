//! Kernels: implementations of the convolutions for different instruction sets.

use std::sync::OnceLock;

/// An instruction set with its implementation. Preferred first.
///
/// Kernels round differently, because some fuse a multiplication with its addition and others
/// don't. Their logits differ by some millionths of the largest logit, so they aren't the same
/// bytes.
/// [`Runner`](crate::Runner) uses [`Kernel::best`]; tests and benchmarks select the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Fused multiply-add on 16 lanes.
    Avx512,
    /// Fused multiply-add on 8 lanes.
    Avx2,
    /// Fused multiply-add on 4 lanes of aarch64.
    Neon,
    /// Multiplication and addition without SIMD of our own, for any machine; Miri uses it.
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
        if is_x86_feature_detected!("avx512f") {
            found.push(Kernel::Avx512);
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            found.push(Kernel::Avx2);
        }
    }
    // NEON is a compile-time feature of the target, so nothing is detected at run time.
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", not(miri)))]
    found.push(Kernel::Neon);
    found.push(Kernel::Portable);
    found
}

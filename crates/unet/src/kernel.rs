//! Kernels: implementations of the convolutions for different instruction sets.

use std::sync::OnceLock;

/// An implementation of the convolutions, named after its instruction set. The variants are in the
/// order of preference.
///
/// Kernels round differently, because some fuse a multiplication with its addition and others
/// don't: their logits agree to a few millionths of the largest logit, but not bit by bit.
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
    /// Plain Rust for any machine, which multiplies and adds separately; the only kernel under
    /// Miri.
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

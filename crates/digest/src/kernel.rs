//! Kernels: implementations for different instruction sets.

use std::sync::OnceLock;

/// An implementation of block compression. All kernels give the same digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Sixteen contents on 64-byte registers, with rotations and three-input logic.
    Avx512,
    /// MD5 of eight contents on 32-byte registers.
    Avx2,
    /// MD5 of up to four contents in turn on plain registers, on any machine; Miri uses it.
    Portable,
}

impl Kernel {
    /// The kernels that this machine supports, fastest first. `Portable` is always last.
    pub fn available() -> &'static [Kernel] {
        static AVAILABLE: OnceLock<Vec<Kernel>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The fastest kernel that this machine supports.
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
        if is_x86_feature_detected!("avx2") {
            found.push(Kernel::Avx2);
        }
    }
    found.push(Kernel::Portable);
    found
}

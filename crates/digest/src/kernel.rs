//! Kernels: MD5 implementations for different instruction sets.

use std::sync::OnceLock;

use crate::{Block, interleaved};

/// An implementation of block compression. All kernels give the same digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Sixteen lanes on 64-byte registers, with rotations and three-input logic.
    Avx512,
    /// Eight lanes on 32-byte registers.
    Avx2,
    /// Up to four contents in turn on plain registers, on any machine; Miri uses it.
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

    /// How many contents it hashes in parallel.
    pub fn lanes(self) -> usize {
        match self {
            Kernel::Avx512 => 16,
            Kernel::Avx2 => 8,
            Kernel::Portable => interleaved::LANES_MAX,
        }
    }

    /// Compresses the blocks of up to [`Kernel::lanes`] contents, all with the same number of
    /// blocks.
    pub(crate) fn compress(self, steps: &mut [(&mut [u32; 4], &[Block])]) {
        // A step takes as long in one lane of a vector as in all, and twice as long as on plain
        // registers.
        if steps.len() > interleaved::LANES_MAX {
            match self {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512 => return crate::x86::compress_avx512(steps),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => return crate::x86::compress_avx2(steps),
                _ => {}
            }
        }
        interleaved::compress(steps);
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

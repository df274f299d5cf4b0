//! Which instructions contents are hashed with.

use std::sync::OnceLock;

use crate::Block;

/// A way of compressing blocks. All give the same digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kernel {
    /// Sixteen lanes on 64-byte registers, which rotate and have functions of three bits.
    Avx512,
    /// Eight lanes on 32-byte registers.
    Avx2,
    /// One content after another; any machine, and what Miri runs.
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

    /// How many contents it takes in step.
    pub fn lanes(self) -> usize {
        match self {
            Kernel::Avx512 => 16,
            Kernel::Avx2 => 8,
            Kernel::Portable => 1,
        }
    }

    /// Compresses the blocks of each content, as many of each and of up to [`Kernel::lanes`] contents.
    pub(crate) fn compress(self, steps: &mut [(&mut [u32; 4], &[Block])]) {
        // A step on registers takes about as long as one on words, and as long for two contents as for all.
        if steps.len() > 1 {
            match self {
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx512 => return crate::x86::compress_avx512(steps),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Kernel::Avx2 => return crate::x86::compress_avx2(steps),
                _ => {}
            }
        }
        for (state, blocks) in steps {
            md5::block_api::compress(state, blocks);
        }
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

//! Where networks run.

use fulgurite_unet::{Gpu, GpuError};

use super::UNet;

/// Where networks run. Decoders without a network always run on the CPU.
#[derive(Debug, Clone, Default)]
pub enum Device {
    /// The thread that decodes.
    #[default]
    Cpu,
    /// A graphics processor. If it fails, the CPU decodes: the answers are the same.
    Gpu(Gpu),
}

impl Device {
    /// Opens the fastest graphics processor, and tries the network that comes with the program.
    ///
    /// # Errors
    /// [`GpuError`] if the program was built without support for graphics processors, none can be
    /// opened, or it computes wrong results.
    pub fn open_gpu() -> Result<Self, GpuError> {
        Self::tried(Gpu::open()?)
    }

    /// Like [`open_gpu`](Self::open_gpu), but also takes a software renderer, for tests.
    ///
    /// # Errors
    /// As [`open_gpu`](Self::open_gpu).
    pub fn open_gpu_or_emulate() -> Result<Self, GpuError> {
        Self::tried(Gpu::open_or_emulate()?)
    }

    fn tried(gpu: Gpu) -> Result<Self, GpuError> {
        UNet::try_on(&gpu)?;
        Ok(Self::Gpu(gpu))
    }

    /// Name and driver of the graphics processor.
    pub fn gpu_name(&self) -> Option<&str> {
        match self {
            Self::Cpu => None,
            Self::Gpu(gpu) => Some(gpu.name()),
        }
    }
}

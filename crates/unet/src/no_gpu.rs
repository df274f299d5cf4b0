//! What the crate offers in place of GPUs when it is built without the feature `gpu`.

use std::convert::Infallible;

use crate::error::GpuError;
use crate::network::Network;

/// A graphics processor, which can't be opened without the feature `gpu`.
#[derive(Debug, Clone)]
pub struct Gpu(Infallible);

/// Applies a network to images of one size, on a GPU.
#[derive(Debug)]
pub struct GpuRunner(Infallible);

impl Gpu {
    /// Fails, because support for GPUs is not built in.
    ///
    /// # Errors
    /// [`GpuError::NotBuilt`].
    pub fn open() -> Result<Self, GpuError> {
        Err(GpuError::NotBuilt)
    }

    /// Fails, as [`Gpu::open`].
    ///
    /// # Errors
    /// [`GpuError::NotBuilt`].
    pub fn open_or_emulate() -> Result<Self, GpuError> {
        Err(GpuError::NotBuilt)
    }

    /// Its name and driver.
    pub fn name(&self) -> &str {
        match self.0 {}
    }
}

impl GpuRunner {
    /// Can't be called: there is no [`Gpu`].
    ///
    /// # Errors
    /// Never.
    pub fn new(_network: &Network, gpu: &Gpu, _rows: usize, _columns: usize) -> Result<Self, GpuError> {
        match gpu.0 {}
    }

    /// Images that are computed at once.
    pub fn images(&self) -> usize {
        match self.0 {}
    }

    /// Computes the logits of any number of images.
    ///
    /// # Errors
    /// Never.
    pub fn run(&mut self, _planes: &[f32], _logits: &mut [f32]) -> Result<(), GpuError> {
        match self.0 {}
    }
}

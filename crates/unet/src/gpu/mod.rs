//! Networks on a GPU, through Vulkan.
//!
//! ```text
//! planes -> upload -> pack -> convolve ... -> head -> download -> logits
//!                              kernels.wgsl, in the order of `layers`
//! ```
//!
//! A [`GpuRunner`] computes many images at once, with direct convolutions in f32. Its logits differ
//! from those of a [`Runner`](crate::Runner) by roundings, because sums are added in another order.

mod layers;
mod runner;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

pub use runner::GpuRunner;

use crate::error::GpuError;

/// A graphics processor. Clones are the same one.
#[derive(Clone)]
pub struct Gpu(Arc<Opened>);

struct Opened {
    name: String,
    device: wgpu::Device,
    queue: wgpu::Queue,
    kernels: wgpu::ShaderModule,
    /// The first error since it was opened. Nothing that it computed later counts.
    failure: Arc<Mutex<Option<String>>>,
}

impl Gpu {
    /// Opens the fastest graphics processor of this machine.
    ///
    /// # Errors
    /// [`GpuError`] if the machine has no graphics processor, or only a software renderer, which is
    /// slower than [`Runner`](crate::Runner).
    pub fn open() -> Result<Self, GpuError> {
        Self::open_with(false)
    }

    /// Like [`Gpu::open`], but also takes a software renderer, as tests do on machines without a
    /// graphics processor.
    ///
    /// # Errors
    /// [`GpuError`] if the machine has neither.
    pub fn open_or_emulate() -> Result<Self, GpuError> {
        Self::open_with(true)
    }

    fn open_with(takes_software: bool) -> Result<Self, GpuError> {
        if wgpu::Instance::enabled_backend_features().is_empty() {
            return Err(GpuError::NotFound { why: "Vulkan isn't supported on this system".to_owned() });
        }
        let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
        let wanted = wgpu::RequestAdapterOptions { power_preference: wgpu::PowerPreference::HighPerformance, ..Default::default() };
        let adapter =
            pollster::block_on(instance.request_adapter(&wanted)).map_err(|error| GpuError::NotFound { why: error.to_string() })?;
        let info = adapter.get_info();
        let name = format!("{} ({} {})", info.name, info.driver, info.driver_info);
        if info.device_type == wgpu::DeviceType::Cpu && !takes_software {
            return Err(GpuError::Software { name });
        }
        let descriptor = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..Default::default() };
        let opened = pollster::block_on(adapter.request_device(&descriptor));
        let (device, queue) = opened.map_err(|error| GpuError::NotOpened { name: name.clone(), why: error.to_string() })?;
        let failure = Arc::new(Mutex::new(None));
        let (errors, losses) = (failure.clone(), failure.clone());
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| _ = note(&errors, error.to_string())));
        device.set_device_lost_callback(move |reason, text| _ = note(&losses, format!("the device was lost: {reason:?} {text}")));
        let kernels = device.create_shader_module(wgpu::include_wgsl!("kernels.wgsl"));
        Ok(Self(Arc::new(Opened { name, device, queue, kernels, failure })))
    }

    /// Its name and driver.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    fn failed(&self, why: String) -> GpuError {
        if note(&self.0.failure, why.clone()) {
            // Dropping the queue of a GPU that hangs would wait for it without end.
            std::mem::forget(self.clone());
        }
        GpuError::Failed { name: self.0.name.clone(), why }
    }

    /// Fails if anything went wrong since the processor was opened.
    fn check(&self) -> Result<(), GpuError> {
        match &*self.0.failure.lock().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some(why) => Err(GpuError::Failed { name: self.0.name.clone(), why: why.clone() }),
        }
    }
}

impl fmt::Debug for Gpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Gpu").field(&self.0.name).finish()
    }
}

/// Records a failure. True if it is the first.
fn note(failure: &Mutex<Option<String>>, why: String) -> bool {
    let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
    let is_first = failure.is_none();
    failure.get_or_insert(why);
    is_first
}

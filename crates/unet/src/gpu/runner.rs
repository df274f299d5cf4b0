//! Runs a network on a GPU.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::Duration;

use super::Gpu;
use super::layers::{Layer, Layers};
use crate::error::GpuError;
use crate::model::Model;
use crate::network::Network;
use crate::reference::noise;

/// Pixels that are computed at once: enough to keep a large GPU busy, in about 140 MB for widths
/// 16, 32, 64.
const PIXELS_AT_ONCE: usize = 1 << 18;
/// How long the GPU may take for the images that are computed at once, and its driver to call back
/// then. Longer, and it hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Logits of a test image may differ from those of a CPU by this share of the largest.
const TOLERANCE: f32 = 1e-4;

/// Applies a network to images of one size, on a GPU. It owns the memory that this takes there.
/// Threads that each have a runner keep the GPU busy while others copy.
pub struct GpuRunner {
    gpu: Gpu,
    layers: Layers,
    download: wgpu::Buffer,
    /// Images that are computed at once.
    images: usize,
    /// Values of an image's planes, and logits of an image.
    planes: usize,
    logits: usize,
}

impl std::fmt::Debug for GpuRunner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GpuRunner").field("gpu", &self.gpu).field("images", &self.images).finish_non_exhaustive()
    }
}

impl GpuRunner {
    /// Prepares the GPU for a network, and compares its logits of test images with those of the
    /// CPU.
    ///
    /// # Errors
    /// [`GpuError`] if images of that size don't fit the network or the GPU, or the GPU fails or
    /// computes something else than the CPU.
    pub fn new(network: &Network, gpu: &Gpu, rows: usize, columns: usize) -> Result<Self, GpuError> {
        gpu.check()?;
        let mut on_cpu = network.runner(rows, columns)?;
        let mut runner = Self::unchecked(gpu, network.model(), rows, columns)?;
        // Several, because each has a place of its own in the buffers.
        let images = runner.images.min(3);
        let planes = noise(1, images * runner.planes);
        let (mut expected, mut found) = (vec![0.0; images * runner.logits], vec![0.0; images * runner.logits]);
        let pairs = planes.chunks_exact(runner.planes).zip(expected.chunks_exact_mut(runner.logits));
        pairs.for_each(|(planes, logits)| on_cpu.run(planes, logits));
        runner.run(&planes, &mut found)?;
        let largest = expected.iter().fold(0.0f32, |largest, logit| largest.max(logit.abs()));
        let is_close = |(expected, found): (&f32, &f32)| (expected - found).abs() <= TOLERANCE * largest;
        match expected.iter().zip(&found).all(is_close) {
            true => Ok(runner),
            false => Err(GpuError::Wrong { name: gpu.name().to_owned() }),
        }
    }

    fn unchecked(gpu: &Gpu, model: &Model, rows: usize, columns: usize) -> Result<Self, GpuError> {
        let limits = gpu.0.device.limits();
        let buffer_max = limits.max_storage_buffer_binding_size.min(limits.max_buffer_size);
        let (pixels, largest) = (rows * columns, Layers::largest_buffer(model, rows, columns));
        // Kernels index with 32 bits.
        let fitting = (buffer_max.min(1 << 33) as usize) / largest;
        // The deepest dispatches have a workgroup for each group of channels of each image.
        let deepest = model.widths.iter().copied().max().unwrap_or(1).max(model.outputs).max(model.inputs) / 4 + 1;
        let workgroups_max = limits.max_compute_workgroups_per_dimension as usize;
        let most = fitting.min(workgroups_max / deepest);
        if most == 0 || Layers::workgroups(rows, columns) > workgroups_max {
            return Err(GpuError::TooLarge { rows, columns, bytes: largest, limit: buffer_max });
        }
        let images = (PIXELS_AT_ONCE / pixels).clamp(1, most);
        let (planes, logits) = (model.inputs * pixels, model.outputs * pixels);
        let layers = Layers::new(gpu, model, rows, columns, images);
        let download = gpu.0.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: (4 * images * logits) as u64,
            usage: wgpu::BufferUsages::COPY_DST | wgpu::BufferUsages::MAP_READ,
            mapped_at_creation: false,
        });
        gpu.check()?;
        Ok(Self { gpu: gpu.clone(), layers, download, images, planes, logits })
    }

    /// Images that are computed at once.
    pub fn images(&self) -> usize {
        self.images
    }

    /// Computes the logits of any number of images, each as in
    /// [`Runner::run`](crate::Runner::run). If it fails, `logits` are meaningless, and so are all
    /// later results of this GPU, which fail too.
    ///
    /// # Errors
    /// [`GpuError::Failed`] if the GPU or its driver fails.
    ///
    /// # Panics
    /// If the slices don't have the length of a whole number of images, the same for both.
    pub fn run(&mut self, planes: &[f32], logits: &mut [f32]) -> Result<(), GpuError> {
        assert!(planes.len().is_multiple_of(self.planes), "{} values aren't whole images of {}", planes.len(), self.planes);
        assert_eq!(planes.len() / self.planes * self.logits, logits.len(), "logits of all images");
        let chunks = planes.chunks(self.images * self.planes).zip(logits.chunks_mut(self.images * self.logits));
        for (planes, logits) in chunks {
            // The driver's interface panics if the GPU is lost while it is waited for.
            catch_unwind(AssertUnwindSafe(|| self.run_at_once(planes, logits)))
                .unwrap_or_else(|_| Err(self.gpu.failed("its driver failed".to_owned())))?;
        }
        Ok(())
    }

    fn run_at_once(&self, planes: &[f32], logits: &mut [f32]) -> Result<(), GpuError> {
        self.gpu.check()?;
        let (device, queue) = (&self.gpu.0.device, &self.gpu.0.queue);
        let images = (planes.len() / self.planes) as u32;
        queue.write_buffer(&self.layers.planes, 0, bytemuck::cast_slice(planes));
        let mut commands = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        let mut pass = commands.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
        for Layer { pipeline, bindings, workgroups: [x, y], depth } in &self.layers.layers {
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, bindings, &[]);
            pass.dispatch_workgroups(*x, *y, depth * images);
        }
        drop(pass);
        let bytes = size_of_val(logits) as u64;
        commands.copy_buffer_to_buffer(&self.layers.logits, 0, &self.download, 0, bytes);
        let submission = queue.submit([commands.finish()]);
        let (mapped_tx, mapped_rx) = mpsc::channel();
        self.download.map_async(wgpu::MapMode::Read, ..bytes, move |mapped| {
            // The receiver is gone if waiting failed.
            let _ = mapped_tx.send(mapped);
        });
        let failed = |why: String| self.gpu.failed(why);
        let wait = wgpu::PollType::Wait { submission_index: Some(submission), timeout: Some(TIMEOUT) };
        device.poll(wait).map_err(|error| failed(error.to_string()))?;
        self.gpu.check()?;
        // Another thread that waits for the GPU may be the one that calls back.
        match mapped_rx.recv_timeout(TIMEOUT) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed("its driver did not hand over the logits".to_owned())),
        }
        {
            let view = self.download.get_mapped_range(..bytes).map_err(|error| failed(error.to_string()))?;
            logits.copy_from_slice(bytemuck::cast_slice(&view));
        }
        self.download.unmap();
        self.gpu.check()
    }
}

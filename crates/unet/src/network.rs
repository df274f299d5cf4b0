//! Networks: models that are ready to run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::direct::DirectConvolution;
use crate::error::{ModelError, ShapeError};
use crate::kernel::Kernel;
use crate::model::{Model, Up, Weights};
use crate::runner::Runner;
use crate::winograd::WinogradConvolution;

/// A model whose weights are packed for the kernels. Clones share them.
#[derive(Debug, Clone)]
pub struct Network {
    pub(crate) layers: Arc<Layers>,
    /// For GPUs, which need the weights in another order.
    #[cfg(feature = "gpu")]
    model: Arc<Model>,
    metadata: Arc<BTreeMap<String, String>>,
}

/// All layers of a network.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
    pub(crate) widths: Vec<usize>,
    pub(crate) mean: Vec<f32>,
    pub(crate) scale: Vec<f32>,
    /// The first layer of the first level.
    pub(crate) first: DirectConvolution,
    pub(crate) down: Vec<DownLayers>,
    pub(crate) up: Vec<UpLayers>,
    pub(crate) head: DirectConvolution,
}

/// The layers of a level on the way down.
#[derive(Debug)]
pub(crate) struct DownLayers {
    /// `None` on the first level, where [`Layers::first`] takes its place.
    pub(crate) a: Option<WinogradConvolution>,
    pub(crate) b: WinogradConvolution,
}

/// The layers of a level on the way up.
#[derive(Debug)]
pub(crate) struct UpLayers {
    /// One for each of the 2x2 pixels that an input pixel yields, row by row.
    pub(crate) transpose: [DirectConvolution; 4],
    pub(crate) a: WinogradConvolution,
    pub(crate) b: WinogradConvolution,
}

impl Network {
    /// Images have at most this many pixels; a runner for the largest takes about 6 GB for widths
    /// 16, 32, 64, and proportionally less for smaller images.
    pub const PIXELS_MAX: usize = 1 << 24;

    /// Reads a model file; [the crate's page](crate) describes its content.
    ///
    /// # Errors
    /// [`ModelError`] if the file is damaged, or its network is not one that this crate runs.
    /// Memory use is proportional to the file's length, whatever its header claims.
    pub fn from_bytes(file: &[u8]) -> Result<Self, ModelError> {
        let model = Model::parse(file)?;
        #[cfg(feature = "gpu")]
        let for_gpus = Arc::new(model.clone());
        let Model { metadata, inputs, outputs, widths, mean, scale, down, up, head } = model;
        let down_layers = |(level, [a, b]): (usize, &[Weights; 2])| DownLayers {
            a: (level > 0).then(|| WinogradConvolution::new(a)),
            b: WinogradConvolution::new(b),
        };
        let up_layers = |Up { transpose, convolutions: [a, b] }: &Up| UpLayers {
            transpose: DirectConvolution::transposed(transpose),
            a: WinogradConvolution::new(a),
            b: WinogradConvolution::new(b),
        };
        let layers = Layers {
            inputs,
            outputs,
            widths,
            mean,
            scale,
            first: DirectConvolution::of_planes(&down[0][0]),
            down: down.iter().enumerate().map(down_layers).collect(),
            up: up.iter().map(up_layers).collect(),
            head: DirectConvolution::of_pixels(&head),
        };
        Ok(Self {
            layers: Arc::new(layers),
            #[cfg(feature = "gpu")]
            model: for_gpus,
            metadata: Arc::new(metadata),
        })
    }

    #[cfg(feature = "gpu")]
    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    /// Number of input planes.
    pub fn inputs(&self) -> usize {
        self.layers.inputs
    }

    /// Number of logits of a pixel.
    pub fn outputs(&self) -> usize {
        self.layers.outputs
    }

    /// Channels of each level, the first one at full resolution.
    pub fn widths(&self) -> &[usize] {
        &self.layers.widths
    }

    /// A text of the file's metadata.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).map(String::as_str)
    }

    /// Rows and columns of images must be multiples of this: a factor of 2 for each level but the
    /// first.
    pub fn multiple(&self) -> usize {
        1 << (self.layers.widths.len() - 1)
    }

    /// Multiply-adds for an image of that size, with all convolutions counted as direct ones: more
    /// than the runner executes.
    pub fn multiply_adds(&self, rows: usize, columns: usize) -> u64 {
        let Layers { first, down, up, head, .. } = &*self.layers;
        let down = down.iter().map(|DownLayers { a, b }| a.as_ref().map_or(0, WinogradConvolution::multiply_adds) + b.multiply_adds());
        let up = up.iter().map(|UpLayers { transpose, a, b }| transpose[0].multiply_adds() + a.multiply_adds() + b.multiply_adds());
        let full = first.multiply_adds() + head.multiply_adds();
        let of_levels = down.enumerate().chain(up.enumerate()).chain([(0, full)]);
        of_levels.map(|(level, of_pixel)| ((rows * columns) as u64 >> (2 * level)) * of_pixel).sum()
    }

    /// Creates a runner for images of that size, on the fastest kernel.
    ///
    /// # Errors
    /// [`ShapeError`] if rows or columns aren't positive multiples of [`Network::multiple`], or the
    /// image has more than [`Network::PIXELS_MAX`] pixels.
    pub fn runner(&self, rows: usize, columns: usize) -> Result<Runner, ShapeError> {
        self.runner_with_kernel(rows, columns, Kernel::best())
    }

    /// Like [`Network::runner`], on a kernel of the caller's choice.
    ///
    /// # Errors
    /// As [`Network::runner`].
    ///
    /// # Panics
    /// If this machine doesn't support the kernel.
    pub fn runner_with_kernel(&self, rows: usize, columns: usize, kernel: Kernel) -> Result<Runner, ShapeError> {
        assert!(kernel.is_available(), "{kernel:?} isn't available on this machine");
        let multiple = self.multiple();
        if [rows, columns].iter().any(|&size| size == 0 || !size.is_multiple_of(multiple)) {
            return Err(ShapeError::Multiple { rows, columns, multiple });
        }
        if rows.checked_mul(columns).is_none_or(|pixels| pixels > Self::PIXELS_MAX) {
            return Err(ShapeError::TooLarge { rows, columns, limit: Self::PIXELS_MAX });
        }
        Ok(Runner::new(Arc::clone(&self.layers), rows, columns, kernel))
    }
}

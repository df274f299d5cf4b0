//! Convolutions of 3x3 with ReLU, by the faster of two ways.

use crate::direct::{DirectConvolution, Target};
use crate::image::{BLOCK, Image};
use crate::kernel::Kernel;
use crate::model::Weights;
use crate::winograd::{Scratch, WinogradConvolution};

/// A layer with weights in the form that its way needs.
#[derive(Debug)]
pub(crate) enum Convolution {
    /// For few inputs, where Winograd's transformations cost more than they save.
    Direct(DirectConvolution),
    Winograd(WinogradConvolution),
}

impl Convolution {
    /// `weights` are `[out, in, 3, 3]`.
    pub(crate) fn new(layer: &Weights) -> Self {
        if layer.inputs < BLOCK { Self::Direct(DirectConvolution::new(layer, 3)) } else { Self::Winograd(WinogradConvolution::new(layer)) }
    }

    pub(crate) fn input_blocks(&self) -> usize {
        match self {
            Self::Direct(layer) => layer.input_blocks(),
            Self::Winograd(layer) => layer.input_blocks(),
        }
    }

    /// Multiplications of the window for one pixel of the output.
    pub(crate) fn multiply_adds(&self) -> u64 {
        match self {
            Self::Direct(layer) => layer.multiply_adds(),
            Self::Winograd(layer) => layer.multiply_adds(),
        }
    }

    /// Blocks of inputs and outputs that the scratch needs.
    pub(crate) fn scratch_blocks(&self) -> (usize, usize) {
        match self {
            Self::Direct(_) => (0, 0),
            Self::Winograd(layer) => (layer.input_blocks(), layer.output_blocks()),
        }
    }

    /// Applies the layer and ReLU to the first blocks of `source`, and writes blocks of `target`
    /// from `first_block` on.
    ///
    /// # Panics
    /// If the images differ in size, or one of them or `scratch` lacks blocks.
    pub(crate) fn run(&self, kernel: Kernel, source: &Image, target: &mut Image, first_block: usize, scratch: &mut Scratch) {
        match self {
            Self::Direct(layer) => {
                let to = Target { first_block, first_row: 0, first_column: 0, step: 1, relu: true };
                layer.run(kernel, source, target, to);
            }
            Self::Winograd(layer) => layer.run(kernel, source, target, first_block, scratch),
        }
    }
}

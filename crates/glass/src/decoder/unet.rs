//! The learned decoder: a U-Net that sees the whole sector at once.
//!
//! ```text
//! frames -> pixels from 0 to 1 -> network -> logits of the symbols -> probabilities
//! ```
//!
//! The network was trained on sectors of the emulator, as `training/` describes. The model's
//! metadata name the medium that it was trained for.

use std::sync::OnceLock;

use fulgurite_unet::{ModelError, Network, Runner, ShapeError};

use super::{FramesError, Probabilities, VoxelDecoder};
use crate::GlassMedium;
use crate::emulator::Frames;
use crate::polarization::{FRAMES, Microscope};

/// The model for media with the alphabet and the microscope of [`GlassMedium::desk`].
const DESK: &[u8] = include_bytes!("../../models/desk.safetensors");

/// Decodes with a network.
#[derive(Debug)]
pub struct UNet {
    runner: Runner,
    symbols: usize,
    /// Input of the network.
    planes: Vec<f32>,
    /// Its output.
    logits: Vec<f32>,
}

/// Why a model can't decode a medium.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum UNetError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("sectors of {rows} x {columns} voxels don't fit the model: {source}")]
    Shape { rows: usize, columns: usize, source: ShapeError },
    #[error("the model decodes {found}, but the medium has {expected}: train a model for it")]
    OtherMedium { found: String, expected: String },
}

impl UNet {
    /// The decoder that comes with the program, for this medium.
    ///
    /// # Errors
    /// [`UNetError`] if the medium is not one that it was trained for.
    pub fn embedded(medium: &GlassMedium) -> Result<Self, UNetError> {
        static NETWORK: OnceLock<Network> = OnceLock::new();
        let network = NETWORK.get_or_init(|| Network::from_bytes(DESK).expect("the model in the program is valid"));
        Self::with_network(network, medium)
    }

    /// A decoder with another model file. The value of `medium` in its metadata must be the text
    /// that [`trained_for`](Self::trained_for) returns for the medium.
    ///
    /// # Errors
    /// [`UNetError`] if the file isn't a model, or not one for this medium.
    pub fn from_bytes(model: &[u8], medium: &GlassMedium) -> Result<Self, UNetError> {
        Self::with_network(&Network::from_bytes(model)?, medium)
    }

    /// What a model has to be trained for to decode a medium, as models name it: swing of the
    /// microscope and its light, azimuths and retardances. `training/train.py` writes this text
    /// too. The size of sectors isn't part of it, because the network fits any size.
    pub fn trained_for(medium: &GlassMedium) -> String {
        let levels = (0..medium.alphabet.retardance_levels()).filter_map(|level| medium.alphabet.retardance(level));
        let levels: Vec<String> = levels.map(|retardance| retardance.to_string()).collect();
        let Microscope { swing, bright, dark } = medium.microscope;
        format!("{FRAMES} frames with swing {swing:.4} and light from {dark} to {bright}, 8 azimuths, retardances {}", levels.join(" and "))
    }

    fn with_network(network: &Network, medium: &GlassMedium) -> Result<Self, UNetError> {
        let (expected, symbols) = (Self::trained_for(medium), usize::from(medium.alphabet.symbol_count()));
        let found = network.metadata("medium").unwrap_or("an unknown medium");
        if found != expected || (network.inputs(), network.outputs()) != (FRAMES, symbols) {
            let (inputs, outputs) = (network.inputs(), network.outputs());
            return Err(UNetError::OtherMedium { found: format!("{found} ({inputs} inputs, {outputs} symbols)"), expected });
        }
        let (rows, columns) = (medium.rows, medium.columns);
        let runner = network.runner(rows, columns).map_err(|source| UNetError::Shape { rows, columns, source })?;
        let voxels = medium.voxels();
        Ok(Self { runner, symbols, planes: vec![0.0; FRAMES * voxels], logits: vec![0.0; symbols * voxels] })
    }
}

impl VoxelDecoder for UNet {
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError> {
        let (rows, columns) = (self.runner.rows(), self.runner.columns());
        if (frames.rows, frames.columns, frames.pixels.len()) != (rows, columns, self.planes.len()) {
            return Err(FramesError::Shape {
                rows: frames.rows,
                columns: frames.columns,
                pixels: frames.pixels.len(),
                expected_rows: rows,
                expected_columns: columns,
            });
        }
        if !(1..=16).contains(&frames.bits) {
            return Err(FramesError::Bits { bits: frames.bits });
        }
        // A voxel shows in the differences between frames with opposite settings of the
        // compensator.
        let frame = |index: usize| &frames.pixels[index * rows * columns..][..rows * columns];
        if frame(1) == frame(2) && frame(3) == frame(4) {
            return Err(FramesError::Blank);
        }
        let brightest = ((1u32 << frames.bits) - 1) as f32;
        for (plane, &pixel) in self.planes.iter_mut().zip(&frames.pixels) {
            *plane = f32::from(pixel) / brightest;
        }
        self.runner.run(&self.planes, &mut self.logits);
        let mut values = self.logits.clone();
        values.chunks_exact_mut(self.symbols).for_each(softmax);
        Ok(Probabilities::new(self.symbols, values))
    }
}

/// Turns logits into probabilities.
fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
}

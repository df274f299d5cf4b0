//! The learned decoder: a U-Net that sees the whole sector at once.
//!
//! ```text
//! frames -> pixels from 0 to 1 -> network -> logits of the symbols -> probabilities
//! ```
//!
//! The network was trained on sectors of the emulator, as `training/` describes. The model's
//! metadata name the medium that it was trained for.

use std::sync::OnceLock;

use fulgurite_unet::{Gpu, GpuError, GpuRunner, ModelError, Network, Runner, ShapeError};

use super::{Device, FramesError, Probabilities, VoxelDecoder};
use crate::GlassMedium;
use crate::emulator::Frames;
use crate::polarization::{FRAMES, Microscope};

/// The model for media with the alphabet and the microscope of [`GlassMedium::desk`].
const DESK: &[u8] = include_bytes!("../../models/desk.safetensors");

/// Most voxels that are decoded at once, so that memory stays bounded: about 40 MB.
const VOXELS_AT_ONCE: usize = 1 << 18;

/// Decodes with a network.
#[derive(Debug)]
pub struct UNet {
    runner: Runner,
    /// Takes the place of `runner` until it fails.
    gpu: Option<GpuRunner>,
    symbols: usize,
    /// Input of the network, sector by sector.
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
    /// The decoder that comes with the program, for this medium, on this device.
    ///
    /// # Errors
    /// [`UNetError`] if the medium is not one that it was trained for.
    pub fn embedded(medium: &GlassMedium, device: &Device) -> Result<Self, UNetError> {
        Self::with_network(embedded_network(), medium, device)
    }

    /// Checks that a graphics processor runs the network that comes with the program.
    pub(super) fn try_on(gpu: &Gpu) -> Result<(), GpuError> {
        let medium = GlassMedium::desk();
        GpuRunner::new(embedded_network(), gpu, medium.rows, medium.columns).map(drop)
    }

    /// A decoder with another model file. The value of `medium` in its metadata must be the text
    /// that [`trained_for`](Self::trained_for) returns for the medium.
    ///
    /// # Errors
    /// [`UNetError`] if the file isn't a model, or not one for this medium.
    pub fn from_bytes(model: &[u8], medium: &GlassMedium, device: &Device) -> Result<Self, UNetError> {
        Self::with_network(&Network::from_bytes(model)?, medium, device)
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

    fn with_network(network: &Network, medium: &GlassMedium, device: &Device) -> Result<Self, UNetError> {
        let (expected, symbols) = (Self::trained_for(medium), usize::from(medium.alphabet.symbol_count()));
        let found = network.metadata("medium").unwrap_or("an unknown medium");
        if found != expected || (network.inputs(), network.outputs()) != (FRAMES, symbols) {
            let (inputs, outputs) = (network.inputs(), network.outputs());
            return Err(UNetError::OtherMedium { found: format!("{found} ({inputs} inputs, {outputs} symbols)"), expected });
        }
        let (rows, columns) = (medium.rows, medium.columns);
        let runner = network.runner(rows, columns).map_err(|source| UNetError::Shape { rows, columns, source })?;
        let gpu = match device {
            Device::Cpu => None,
            // It worked when it was opened; if it doesn't now, the CPU gives the same answers.
            Device::Gpu(gpu) => GpuRunner::new(network, gpu, rows, columns).ok(),
        };
        Ok(Self { runner, gpu, symbols, planes: Vec::new(), logits: Vec::new() })
    }

    /// Appends the pixels of a sector to the input of the network.
    fn add_planes(&mut self, frames: &Frames) -> Result<(), FramesError> {
        let (rows, columns) = (self.runner.rows(), self.runner.columns());
        if (frames.rows, frames.columns, frames.pixels.len()) != (rows, columns, FRAMES * rows * columns) {
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
        self.planes.extend(frames.pixels.iter().map(|&pixel| f32::from(pixel) / brightest));
        Ok(())
    }

    fn decode_at_once(&mut self, sectors: &[&Frames]) -> Vec<Result<Probabilities, FramesError>> {
        self.planes.clear();
        let added: Vec<_> = sectors.iter().map(|frames| self.add_planes(frames)).collect();
        self.run();
        let mut logits = self.logits.chunks_exact(self.symbols * self.runner.rows() * self.runner.columns());
        let mut probabilities = || {
            let mut values = logits.next().expect("logits of all sectors that were added").to_vec();
            values.chunks_exact_mut(self.symbols).for_each(softmax);
            Probabilities::new(self.symbols, values)
        };
        added.into_iter().map(|added| added.map(|()| probabilities())).collect()
    }

    /// Computes the logits of all sectors whose planes were added.
    fn run(&mut self) {
        let voxels = self.runner.rows() * self.runner.columns();
        self.logits.resize(self.planes.len() / FRAMES * self.symbols, 0.0);
        if let Some(gpu) = &mut self.gpu {
            if gpu.run(&self.planes, &mut self.logits).is_ok() {
                return;
            }
            self.gpu = None;
        }
        let sectors = self.planes.chunks_exact(FRAMES * voxels).zip(self.logits.chunks_exact_mut(self.symbols * voxels));
        sectors.for_each(|(planes, logits)| self.runner.run(planes, logits));
    }
}

/// The network that comes with the program.
fn embedded_network() -> &'static Network {
    static NETWORK: OnceLock<Network> = OnceLock::new();
    NETWORK.get_or_init(|| Network::from_bytes(DESK).expect("the model in the program is valid"))
}

impl VoxelDecoder for UNet {
    fn decode(&mut self, frames: &Frames) -> Result<Probabilities, FramesError> {
        self.decode_all(&[frames]).remove(0)
    }

    fn decode_all(&mut self, sectors: &[&Frames]) -> Vec<Result<Probabilities, FramesError>> {
        let voxels = self.runner.rows() * self.runner.columns();
        sectors.chunks((VOXELS_AT_ONCE / voxels).max(1)).flat_map(|sectors| self.decode_at_once(sectors)).collect()
    }
}

/// Turns logits into probabilities.
fn softmax(logits: &mut [f32]) {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    logits.iter_mut().for_each(|logit| *logit = (*logit - largest).exp());
    let sum: f32 = logits.iter().sum();
    logits.iter_mut().for_each(|logit| *logit /= sum);
}

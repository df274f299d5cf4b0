//! The emulated camera: from voxels to frames.

use std::f64::consts::PI;

use fulgurite_chance::Stream;

use super::{ReadEffects, SectorSeed, WrittenLayer};
use crate::polarization::{Birefringence, FRAMES, Microscope};

/// The images of a sector: one pixel for each voxel, in each of the [`FRAMES`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frames {
    /// Rows of a frame.
    pub rows: usize,
    /// Columns of a frame.
    pub columns: usize,
    /// Bits of a pixel; the brightest value is `2^bits - 1`.
    pub bits: u32,
    /// Pixels by frame, row and column.
    pub pixels: Vec<u16>,
}

/// The layers next to the one in focus. Errors of the focus are as likely in both directions, so it
/// doesn't matter which of the two has the higher number.
#[derive(Debug, Clone, Copy, Default)]
pub struct Neighbors<'a> {
    /// The layer above.
    pub above: Option<&'a WrittenLayer>,
    /// The layer below.
    pub below: Option<&'a WrittenLayer>,
}

/// Takes the images of a layer. `read` numbers the reads of the sector: each has its own noise. A
/// pixel has `bits` bits; intensities of 1.0 and more get its largest value. The same arguments
/// give the same frames.
///
/// # Panics
/// If a neighboring layer has another shape, `bits` is not 1 to 16, or the strength of an effect is
/// negative or not finite.
pub fn image(
    microscope: &Microscope,
    bits: u32,
    layer: &WrittenLayer,
    neighbors: Neighbors<'_>,
    effects: &ReadEffects,
    seed: SectorSeed,
    read: u32,
) -> Frames {
    assert!((1..=16).contains(&bits), "pixels have 1 to 16 bits, not {bits}");
    effects.check();
    let (rows, columns) = layer.shape();
    let stream = |purpose: &str| Stream::numbered(seed.platter, &format!("{purpose} {read}"), seed.sector);
    let camera = Camera::aligned(effects, &mut stream("camera"));
    let mut background = stream("background");
    let background = Birefringence { retardance: effects.background * background.unit(), azimuth: background.between(0.0, PI) };
    let mut shot_noise = stream("shot noise");
    let mut read_noise = stream("read noise");
    let brightest = f64::from((1u32 << bits) - 1);

    let focus = Focus { error: effects.focus * stream("focus").between(-1.0, 1.0), crosstalk: effects.crosstalk };
    let seen = through_the_glass(microscope, layer, neighbors, focus, background);
    let mut pixels = Vec::with_capacity(FRAMES * rows * columns);
    for frame in projected(layer, &seen, &camera, effects.blur) {
        for (index, transmitted) in frame.into_iter().enumerate() {
            let (row, column) = (index / columns, index % columns);
            let mut light = transmitted * illumination(effects.vignette, row, column, rows, columns);
            if effects.electrons > 0.0 {
                // There are many photons, so their Poisson noise is nearly normal.
                let noise = (light.max(0.0) * effects.electrons).sqrt() * shot_noise.normal() + effects.read_noise * read_noise.normal();
                light += noise / effects.electrons;
            }
            pixels.push((light * brightest).round().clamp(0.0, brightest) as u16);
        }
    }
    Frames { rows, columns, bits, pixels }
}

/// Intensities over each voxel in each frame, before the optics blur them. Retardances of thin
/// layers on top of each other add as vectors.
fn through_the_glass(
    microscope: &Microscope,
    layer: &WrittenLayer,
    neighbors: Neighbors<'_>,
    focus: Focus,
    background: Birefringence,
) -> Vec<[f64; FRAMES]> {
    let (sin, cos) = (2.0 * background.azimuth).sin_cos();
    let mut sums = vec![[background.retardance * sin, background.retardance * cos]; layer.voxels().len()];
    for (seen, place) in [(Some(layer), 0.0), (neighbors.above, 1.0), (neighbors.below, -1.0)] {
        let Some(seen) = seen else { continue };
        assert!(seen.shape() == layer.shape(), "neighboring layers have one shape");
        let (spread, share) = focus.of_layer(place);
        if share > 0.0 {
            let vectors = blurred(seen, spread);
            sums.iter_mut().zip(vectors).for_each(|(sum, vector)| *sum = [sum[0] + share * vector[0], sum[1] + share * vector[1]]);
        }
    }
    sums.into_iter()
        .map(|[sine, cosine]| microscope.frames(Birefringence { retardance: sine.hypot(cosine), azimuth: 0.5 * sine.atan2(cosine) }))
        .collect()
}

/// Where the microscope is focused.
#[derive(Debug, Clone, Copy)]
struct Focus {
    /// Place of the focus in distances between layers, upward from the layer to be read.
    error: f64,
    /// Share of a layer out of focus that reaches the image.
    crosstalk: f64,
}

impl Focus {
    /// Blur of a layer one distance away from the focus, as standard deviation in voxels: the light
    /// cone of an objective with aperture 0.6, in glass, covers several voxels there.
    const SPREAD: f64 = 2.0;

    /// Blur of a layer, and the share of its retardance that reaches the image. `place` is counted
    /// like `error`.
    fn of_layer(self, place: f64) -> (f64, f64) {
        let distance = (place - self.error).abs();
        (Self::SPREAD * distance, 1.0 - (1.0 - self.crosstalk) * distance.min(1.0))
    }
}

/// The vectors of a layer's voxels, blurred by a Gaussian. At the edge, the weights of the voxels
/// that exist are scaled up, so that they add up to 1 everywhere.
fn blurred(layer: &WrittenLayer, spread: f64) -> Vec<[f64; 2]> {
    let (rows, columns) = layer.shape();
    let vectors: Vec<[f64; 2]> = layer.voxels().iter().map(|voxel| [voxel.sine, voxel.cosine]).collect();
    if spread == 0.0 {
        return vectors;
    }
    let down = along(&vectors, rows, columns, columns, 1, spread);
    along(&down, columns, 1, rows, columns, spread)
}

/// Blurs lines of `count` values that are `step` apart; `lines` lines begin `line_step` apart.
fn along(values: &[[f64; 2]], count: usize, step: usize, lines: usize, line_step: usize, spread: f64) -> Vec<[f64; 2]> {
    let reach = (REACH * spread).ceil() as isize;
    let weights: Vec<f64> = (-reach..=reach).map(|away| (-(away as f64 / spread).powi(2) / 2.0).exp()).collect();
    let mut blurred = vec![[0.0; 2]; values.len()];
    for line in 0..lines {
        for at in 0..count {
            let (mut sum, mut total) = ([0.0; 2], 0.0);
            for (weight, away) in weights.iter().zip(-reach..=reach) {
                let Some(from) = at.checked_add_signed(away).filter(|&from| from < count) else { continue };
                let value = values[line * line_step + from * step];
                sum = [sum[0] + weight * value[0], sum[1] + weight * value[1]];
                total += weight;
            }
            blurred[line * line_step + at * step] = sum.map(|sum| sum / total);
        }
    }
    blurred
}

/// How the camera is placed over the sector, which decides where it sees a voxel. Shifts are in
/// voxels, the rotation is in radians.
struct Camera {
    down: f64,
    right: f64,
    rotation: f64,
    magnification: f64,
}

impl Camera {
    fn aligned(effects: &ReadEffects, stream: &mut Stream) -> Self {
        let mut within = |most: f64| most * stream.between(-1.0, 1.0);
        Camera {
            down: within(effects.shift),
            right: within(effects.shift),
            rotation: within(effects.rotation),
            magnification: 1.0 + within(effects.magnification),
        }
    }

    /// Where the camera sees a point. Both places are relative to the center of the field.
    fn sees(&self, down: f64, right: f64) -> (f64, f64) {
        let (sin, cos) = self.rotation.sin_cos();
        (self.magnification * (cos * down + sin * right) + self.down, self.magnification * (cos * right - sin * down) + self.right)
    }
}

/// Distance at which a Gaussian is cut off, in standard deviations.
const REACH: f64 = 3.0;
/// The blur of a camera in perfect focus, from the size of its pixels: a standard deviation in
/// voxels. Without it, a shifted voxel would fall on one pixel or none.
const PIXEL: f64 = 0.25;

/// Spreads the light of each voxel over the pixels around the place where the camera sees it.
/// Returns intensities by frame.
fn projected(layer: &WrittenLayer, seen: &[[f64; FRAMES]], camera: &Camera, blur: f64) -> [Vec<f64>; FRAMES] {
    let (rows, columns) = layer.shape();
    let spread = blur.hypot(PIXEL);
    let reach = (REACH * spread).ceil();
    let mut sums = vec![[0.0; FRAMES]; rows * columns];
    let mut weights = vec![0.0; rows * columns];
    let mut weights_right = Vec::new();
    let (middle_row, middle_column) = ((rows - 1) as f64 / 2.0, (columns - 1) as f64 / 2.0);
    for (index, (voxel, seen)) in layer.voxels().iter().zip(seen).enumerate() {
        let (row, column) = ((index / columns) as f64 + voxel.down, (index % columns) as f64 + voxel.right);
        let (down, right) = camera.sees(row - middle_row, column - middle_column);
        let (at_row, at_column) = (down + middle_row, right + middle_column);
        let pixels = |at: f64, count: usize| {
            let from = (at - reach).ceil().max(0.0) as usize;
            let to = (at + reach).floor().min(count as f64 - 1.0);
            from..if to < 0.0 { 0 } else { to as usize + 1 }
        };
        let weight = |pixel: usize, at: f64| (-((pixel as f64 - at) / spread).powi(2) / 2.0).exp();
        let reached = pixels(at_column, columns);
        weights_right.clear();
        weights_right.extend(reached.clone().map(|column| weight(column, at_column)));
        for row in pixels(at_row, rows) {
            let weight_down = weight(row, at_row);
            for (column, weight_right) in reached.clone().zip(&weights_right) {
                let weight = weight_down * weight_right;
                weights[row * columns + column] += weight;
                for (sum, light) in sums[row * columns + column].iter_mut().zip(seen) {
                    *sum += weight * light;
                }
            }
        }
    }
    // Pixels that no voxel reaches, at the edge of a shifted field, are black.
    std::array::from_fn(|frame| {
        sums.iter().zip(&weights).map(|(sum, &weight)| if weight > 0.0 { sum[frame] / weight } else { 0.0 }).collect()
    })
}

/// Brightness of the field at a pixel: full in the center, less toward the corners.
fn illumination(vignette: f64, row: usize, column: usize, rows: usize, columns: usize) -> f64 {
    let down = 2.0 * (row as f64 + 0.5) / rows as f64 - 1.0;
    let right = 2.0 * (column as f64 + 0.5) / columns as f64 - 1.0;
    1.0 - vignette * (down * down + right * right) / 2.0
}

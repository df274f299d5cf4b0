//! The emulated laser: from symbols to voxels, with all permanent deviations.

use fulgurite_chance::Stream;

use super::{SectorSeed, WriteEffects};
use crate::voxel::Alphabet;

/// The voxels of a sector, row by row.
#[derive(Debug, Clone, PartialEq)]
pub struct WrittenLayer {
    rows: usize,
    columns: usize,
    voxels: Vec<Voxel>,
}

/// A voxel as it is in the glass. Retardance and azimuth are kept as a vector, because thin layers
/// of glass add up that way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Voxel {
    /// Retardance times sine and cosine of twice the azimuth.
    pub(super) sine: f64,
    pub(super) cosine: f64,
    /// Deviation from the voxel's place, in voxels.
    pub(super) down: f64,
    pub(super) right: f64,
}

impl WrittenLayer {
    /// Rows and columns.
    pub fn shape(&self) -> (usize, usize) {
        (self.rows, self.columns)
    }

    pub(super) fn voxels(&self) -> &[Voxel] {
        &self.voxels
    }

    /// Erases the voxels for which `damaged` returns true, as a scratch would; it gets row and
    /// column.
    pub fn erase(&mut self, mut damaged: impl FnMut(usize, usize) -> bool) {
        for (index, voxel) in self.voxels.iter_mut().enumerate() {
            if damaged(index / self.columns, index % self.columns) {
                (voxel.sine, voxel.cosine) = (0.0, 0.0);
            }
        }
    }
}

/// Writes the symbols of a sector, `columns` in a row. The same symbols, effects and seed give the
/// same voxels.
///
/// # Panics
/// If there are no symbols, or they don't fill whole rows, a symbol isn't in the alphabet, or the
/// strength of an effect is negative or not finite.
pub fn write(alphabet: &Alphabet, columns: usize, symbols: &[u8], effects: &WriteEffects, seed: SectorSeed) -> WrittenLayer {
    assert!(columns > 0 && symbols.len().is_multiple_of(columns), "{} symbols don't fill rows of {columns}", symbols.len());
    assert!(!symbols.is_empty(), "a layer has symbols");
    effects.check();
    let rows = symbols.len() / columns;
    let stream = |purpose| Stream::numbered(seed.platter, purpose, seed.sector);
    let mut azimuth_jitter = stream("azimuth jitter");
    let mut retardance_jitter = stream("retardance jitter");
    let mut position_jitter = stream("position jitter");
    let mut dropouts = stream("dropouts");
    let particles = particles(effects, &mut stream("particles"), rows, columns);
    let mut voxels = Vec::with_capacity(symbols.len());
    for (index, &symbol) in symbols.iter().enumerate() {
        let (row, column) = (index / columns, index % columns);
        let nominal = alphabet.birefringence(symbol);
        let azimuth = nominal.azimuth + effects.azimuth_jitter * azimuth_jitter.normal();
        let drift = 1.0 - effects.energy_drift * row as f64 / rows as f64;
        let jitter = 1.0 + effects.retardance_jitter * retardance_jitter.normal();
        let missing = dropouts.happens(effects.dropouts) || particles.iter().any(|particle| particle.covers(row, column));
        let retardance = if missing { 0.0 } else { nominal.retardance * drift * jitter };
        let (sine, cosine) = (2.0 * azimuth).sin_cos();
        voxels.push(Voxel {
            sine: retardance * sine,
            cosine: retardance * cosine,
            down: effects.position_jitter * position_jitter.normal(),
            right: effects.position_jitter * position_jitter.normal(),
        });
    }
    WrittenLayer { rows, columns, voxels }
}

struct Particle {
    row: f64,
    column: f64,
    radius: f64,
}

impl Particle {
    fn covers(&self, row: usize, column: usize) -> bool {
        (row as f64 - self.row).hypot(column as f64 - self.column) <= self.radius
    }
}

/// The particles of a sector: their number is drawn as arrivals of a Poisson process of rate 1
/// before the time `effects.particles`. So a sector with more of them has the same first ones.
fn particles(effects: &WriteEffects, stream: &mut Stream, rows: usize, columns: usize) -> Vec<Particle> {
    let mut particles = Vec::new();
    let mut sum = 0.0;
    loop {
        sum += stream.exponential(1.0);
        let particle = Particle {
            row: stream.between(0.0, rows as f64),
            column: stream.between(0.0, columns as f64),
            radius: stream.between(0.0, effects.particle_radius),
        };
        if sum >= effects.particles {
            return particles;
        }
        particles.push(particle);
    }
}

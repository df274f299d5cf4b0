//! The effects of writing and reading glass, each with its strength.

/// All effects.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effects {
    /// Done once, for ever.
    pub write: WriteEffects,
    /// Different in every read.
    pub read: ReadEffects,
}

/// Permanent deviations of voxels from what was to be written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WriteEffects {
    /// Standard deviation of the azimuth, in radians.
    pub azimuth_jitter: f64,
    /// Standard deviation of the retardance, relative to the nominal one.
    pub retardance_jitter: f64,
    /// Standard deviation of the position in each direction, in voxels.
    pub position_jitter: f64,
    /// Probability that a voxel is missing.
    pub dropouts: f64,
    /// Mean number of particles in a sector; each leaves a disc without voxels.
    pub particles: f64,
    /// Largest radius of a particle, in voxels; radii are uniform up to it.
    pub particle_radius: f64,
    /// Share by which the laser's energy, and so the retardance, falls from the first row of a
    /// layer to the last: 0 to 1.
    pub energy_drift: f64,
}

/// Deviations of images from the voxels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ReadEffects {
    /// Standard deviation of the point spread, in voxels; neighbors mix.
    pub blur: f64,
    /// Share of the retardance of the layers above and below that adds to a voxel: 0 to 1.
    pub crosstalk: f64,
    /// Share of the light that the corners of the field lack, compared with its center: 0 to 1.
    pub vignette: f64,
    /// Largest shift of the camera in each direction, in voxels.
    pub shift: f64,
    /// Largest rotation of the camera, in radians.
    pub rotation: f64,
    /// Largest deviation of the magnification, relatively.
    pub magnification: f64,
    /// Largest retardance of the glass itself, in radians, of any azimuth.
    pub background: f64,
    /// Electrons of a fully bright pixel. Fewer electrons mean more shot noise; 0 switches it off.
    pub electrons: f64,
    /// Standard deviation of the camera's own noise, in electrons; needs `electrons`.
    pub read_noise: f64,
}

impl Effects {
    /// No effect at all: symbols come back exactly.
    pub const NONE: Effects = Effects {
        write: WriteEffects {
            azimuth_jitter: 0.0,
            retardance_jitter: 0.0,
            position_jitter: 0.0,
            dropouts: 0.0,
            particles: 0.0,
            particle_radius: 0.0,
            energy_drift: 0.0,
        },
        read: ReadEffects {
            blur: 0.0,
            crosstalk: 0.0,
            vignette: 0.0,
            shift: 0.0,
            rotation: 0.0,
            magnification: 0.0,
            background: 0.0,
            electrons: 0.0,
            read_noise: 0.0,
        },
    };
}

impl WriteEffects {
    /// # Panics
    /// If a strength is negative or not a finite number.
    pub(super) fn check(&self) {
        let WriteEffects { azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift } = *self;
        check(&[azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift]);
    }
}

impl ReadEffects {
    /// # Panics
    /// If a strength is negative or not a finite number.
    pub(super) fn check(&self) {
        let ReadEffects { blur, crosstalk, vignette, shift, rotation, magnification, background, electrons, read_noise } = *self;
        check(&[blur, crosstalk, vignette, shift, rotation, magnification, background, electrons, read_noise]);
    }
}

fn check(strengths: &[f64]) {
    assert!(
        strengths.iter().all(|strength| strength.is_finite() && *strength >= 0.0),
        "strengths of effects are positive numbers: {strengths:?}"
    );
}

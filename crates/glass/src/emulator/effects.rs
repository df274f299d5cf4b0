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

/// Strengths of all effects that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// Hardly any noise, for tests and to see how a decoder does in the best case.
    Clean,
    /// What the code of sectors is designed for: about 1 sector in 1,000 is lost.
    Nominal,
    /// More than the code bears: many sectors are lost.
    Harsh,
}

impl Preset {
    /// All presets, from little noise to much.
    pub const ALL: [Preset; 3] = [Preset::Clean, Preset::Nominal, Preset::Harsh];

    /// Its name in settings and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Preset::Clean => "clean",
            Preset::Nominal => "nominal",
            Preset::Harsh => "harsh",
        }
    }

    /// Its effects.
    pub fn effects(self) -> Effects {
        let strength = match self {
            Preset::Clean => 0.3,
            Preset::Nominal => 1.0,
            Preset::Harsh => 1.3,
        };
        NOMINAL.scaled(strength)
    }
}

/// The effects of [`Preset::Nominal`].
const NOMINAL: Effects = Effects {
    write: WriteEffects {
        azimuth_jitter: 0.05,
        retardance_jitter: 0.06,
        position_jitter: 0.06,
        dropouts: 0.001,
        particles: 0.2,
        particle_radius: 4.0,
        energy_drift: 0.1,
    },
    read: ReadEffects {
        blur: 0.5,
        crosstalk: 0.03,
        vignette: 0.2,
        shift: 0.3,
        rotation: 0.002,
        magnification: 0.002,
        background: 0.03,
        electrons: 15_000.0,
        read_noise: 10.0,
    },
};

impl Effects {
    /// These effects, stronger or weaker by a factor. Electrons, of which fewer mean more noise,
    /// are divided by its square.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Effects {
        let WriteEffects { azimuth_jitter, retardance_jitter, position_jitter, dropouts, particles, particle_radius, energy_drift } =
            self.write;
        let ReadEffects { blur, crosstalk, vignette, shift, rotation, magnification, background, electrons, read_noise } = self.read;
        Effects {
            write: WriteEffects {
                azimuth_jitter: azimuth_jitter * factor,
                retardance_jitter: retardance_jitter * factor,
                position_jitter: position_jitter * factor,
                dropouts: dropouts * factor,
                particles: particles * factor,
                // A particle doesn't grow with the strength of an effect.
                particle_radius,
                energy_drift: energy_drift * factor,
            },
            read: ReadEffects {
                blur: blur * factor,
                crosstalk: crosstalk * factor,
                vignette: vignette * factor,
                shift: shift * factor,
                rotation: rotation * factor,
                magnification: magnification * factor,
                background: background * factor,
                electrons: electrons / factor.powi(2),
                // Relative to the electrons.
                read_noise: read_noise / factor,
            },
        }
    }

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

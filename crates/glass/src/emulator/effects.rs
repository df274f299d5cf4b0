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
    /// Share of the retardance of the layers above and below that reaches the image, out of focus:
    /// 0 to 1.
    pub crosstalk: f64,
    /// Largest error of the focus, as a share of the distance between layers. At 1, the focus may
    /// be on a neighboring layer.
    pub focus: f64,
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
    /// What the code of sectors is designed for: with the decoder `UNet`, at most about 1 sector in
    /// 1,000 is lost.
    Nominal,
    /// More than the code bears: most sectors are lost. Decoders aren't trained with it.
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
            Preset::Clean => 0.4,
            Preset::Nominal => 1.0,
            Preset::Harsh => 1.3,
        };
        NOMINAL.scaled(strength)
    }
}

/// The effects of [`Preset::Nominal`].
const NOMINAL: Effects = Effects {
    write: WriteEffects {
        azimuth_jitter: 0.04,
        retardance_jitter: 0.045,
        position_jitter: 0.045,
        dropouts: 0.000_8,
        particles: 0.15,
        particle_radius: 4.0,
        energy_drift: 0.08,
    },
    read: ReadEffects {
        blur: 0.38,
        crosstalk: 0.4,
        focus: 0.04,
        vignette: 0.15,
        shift: 0.23,
        rotation: 0.001_5,
        magnification: 0.001_5,
        background: 0.023,
        electrons: 25_000.0,
        read_noise: 13.0,
    },
};

/// One effect, with all strengths that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Azimuths deviate.
    AzimuthJitter,
    /// Retardances deviate.
    RetardanceJitter,
    /// Voxels aren't where they belong.
    PositionJitter,
    /// Single voxels are missing.
    Dropouts,
    /// Discs of voxels are missing.
    Particles,
    /// The laser's energy falls over a layer.
    EnergyDrift,
    /// Neighboring voxels mix.
    Blur,
    /// The layers above and below show.
    Crosstalk,
    /// The focus isn't on the layer.
    Focus,
    /// Corners of the field are darker.
    Vignette,
    /// The camera is shifted.
    Shift,
    /// The camera is rotated.
    Rotation,
    /// The magnification deviates.
    Magnification,
    /// The glass itself is birefringent.
    Background,
    /// Shot noise, and noise of the camera.
    CameraNoise,
}

impl Effect {
    /// All effects, those of writing first.
    pub const ALL: [Effect; 15] = [
        Effect::AzimuthJitter,
        Effect::RetardanceJitter,
        Effect::PositionJitter,
        Effect::Dropouts,
        Effect::Particles,
        Effect::EnergyDrift,
        Effect::Blur,
        Effect::Crosstalk,
        Effect::Focus,
        Effect::Vignette,
        Effect::Shift,
        Effect::Rotation,
        Effect::Magnification,
        Effect::Background,
        Effect::CameraNoise,
    ];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Effect::AzimuthJitter => "azimuth-jitter",
            Effect::RetardanceJitter => "retardance-jitter",
            Effect::PositionJitter => "position-jitter",
            Effect::Dropouts => "dropouts",
            Effect::Particles => "particles",
            Effect::EnergyDrift => "energy-drift",
            Effect::Blur => "blur",
            Effect::Crosstalk => "crosstalk",
            Effect::Focus => "focus",
            Effect::Vignette => "vignette",
            Effect::Shift => "shift",
            Effect::Rotation => "rotation",
            Effect::Magnification => "magnification",
            Effect::Background => "background",
            Effect::CameraNoise => "camera-noise",
        }
    }
}

impl Effects {
    /// Makes one effect stronger or weaker by a factor; 0 switches it off.
    pub fn scale(&mut self, effect: Effect, factor: f64) {
        let Effects { write, read } = self;
        match effect {
            Effect::AzimuthJitter => write.azimuth_jitter *= factor,
            Effect::RetardanceJitter => write.retardance_jitter *= factor,
            Effect::PositionJitter => write.position_jitter *= factor,
            Effect::Dropouts => write.dropouts *= factor,
            // More particles, not larger ones.
            Effect::Particles => write.particles *= factor,
            Effect::EnergyDrift => write.energy_drift = (write.energy_drift * factor).min(1.0),
            Effect::Blur => read.blur *= factor,
            Effect::Crosstalk => read.crosstalk = (read.crosstalk * factor).min(1.0),
            Effect::Focus => read.focus *= factor,
            Effect::Vignette => read.vignette = (read.vignette * factor).min(1.0),
            Effect::Shift => read.shift *= factor,
            Effect::Rotation => read.rotation *= factor,
            Effect::Magnification => read.magnification *= factor,
            Effect::Background => read.background *= factor,
            // 0 electrons switch noise off. Otherwise, shot noise is 1/sqrt(electrons) of the
            // light, and the camera's own read_noise/electrons: both grow by the factor.
            Effect::CameraNoise if factor == 0.0 => (read.electrons, read.read_noise) = (0.0, 0.0),
            Effect::CameraNoise => {
                read.electrons /= factor.powi(2);
                read.read_noise /= factor;
            }
        }
    }

    /// All effects, stronger or weaker by a factor.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Effects {
        Effect::ALL.into_iter().for_each(|effect| self.scale(effect, factor));
        self
    }

    /// One of these effects alone.
    #[must_use]
    pub fn only(mut self, kept: Effect) -> Effects {
        Effect::ALL.into_iter().filter(|&effect| effect != kept).for_each(|effect| self.scale(effect, 0.0));
        self
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
            focus: 0.0,
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
        let ReadEffects { blur, crosstalk, focus, vignette, shift, rotation, magnification, background, electrons, read_noise } = *self;
        check(&[blur, crosstalk, focus, vignette, shift, rotation, magnification, background, electrons, read_noise]);
    }
}

fn check(strengths: &[f64]) {
    assert!(
        strengths.iter().all(|strength| strength.is_finite() && *strength >= 0.0),
        "strengths of effects are numbers of 0 or more, not {strengths:?}"
    );
}

//! Polarization microscopy: what a camera sees of birefringent glass, and what follows from it.
//!
//! A voxel delays light that is polarized along its slow axis. The delay is the *retardance*, here
//! in radians of the light's wave; the direction of the axis is the *azimuth*, which repeats after
//! half a turn. The microscope takes five images through a compensator: one at extinction, four
//! detuned by the *swing*.
//!
//! ```text
//! frame 0   extinction           dark where there is no retardance
//! frame 1   - swing,  45°        I1 - I2  gives  sin d sin 2a
//! frame 2   + swing,  45°
//! frame 3   - swing,   0°        I4 - I3  gives  sin d cos 2a
//! frame 4   + swing,   0°        I1 + I2 - 2 I0  gives  cos d
//! ```
//!
//! d is the retardance, a the azimuth, and Ii the intensity in frame i.
//!
//! Source: Shribak and Oldenbourg, Appl. Opt. 42, 3009 (2003), five-frame algorithm.

use std::f64::consts::PI;

/// Number of images of a field of voxels: one for each setting of the compensator.
pub const FRAMES: usize = 5;

/// The microscope's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Microscope {
    /// Swing of the compensator, in radians; 0 < swing < pi. Small swings give little contrast,
    /// large ones let much light, and so shot noise, through; 0.6 to 1 is a good range.
    pub swing: f64,
    /// Intensity of a fully transmitted beam above `dark`. Cameras clip above 1.0.
    pub bright: f64,
    /// Intensity that reaches the camera in every frame.
    pub dark: f64,
}

/// The birefringence of a voxel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Birefringence {
    /// Delay of the slow axis, in radians: 2 pi times the path difference over the wavelength. From
    /// 0 to pi; larger ones can't be told from smaller ones.
    pub retardance: f64,
    /// Direction of the slow axis, in radians, from 0 to pi.
    pub azimuth: f64,
}

impl Microscope {
    /// Intensities of a spot of glass in the five frames.
    pub fn frames(&self, glass: Birefringence) -> [f64; FRAMES] {
        let (sin_swing, cos_swing) = self.swing.sin_cos();
        let (sin, cos) = glass.retardance.sin_cos();
        let (sin_azimuth, cos_azimuth) = (2.0 * glass.azimuth).sin_cos();
        let detuned = |axis: f64| 1.0 - cos_swing * cos + sin_swing * sin * axis;
        [1.0 - cos, detuned(sin_azimuth), detuned(-sin_azimuth), detuned(-cos_azimuth), detuned(cos_azimuth)]
            .map(|transmitted| self.bright / 2.0 * transmitted + self.dark)
    }

    /// The birefringence that explains five intensities. `bright` and `dark` cancel. Frames without
    /// any contrast give a retardance and an azimuth of 0.
    pub fn birefringence(&self, frames: [f64; FRAMES]) -> Birefringence {
        let [i0, i1, i2, i3, i4] = frames;
        // sin(swing) tan(swing / 2) = 1 - cos(swing): the scale gives both differences the factor
        // that cos d has in the last sum. The published formulas divide by that sum; atan2 also
        // works where it is 0 or negative.
        let scale = (self.swing / 2.0).tan();
        let sine = (i1 - i2) * scale;
        let cosine = (i4 - i3) * scale;
        let retardance = sine.hypot(cosine).atan2(i1 + i2 - 2.0 * i0);
        let azimuth = 0.5 * sine.atan2(cosine);
        Birefringence { retardance, azimuth: if azimuth < 0.0 { azimuth + PI } else { azimuth } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSCOPE: Microscope = Microscope { swing: 0.2 * PI, bright: 1.0, dark: 0.02 };

    #[test]
    fn frames_are_those_of_jones_calculus() {
        for swing in [0.2, 0.1 * 2.0 * PI, 1.5] {
            for n in 0..200 {
                let glass = Birefringence { retardance: PI * f64::from(n) / 200.0, azimuth: PI * (f64::from(n) * 0.618).fract() };
                let microscope = Microscope { swing, ..MICROSCOPE };
                let settings =
                    [(PI / 2.0, PI), (PI / 2.0 - swing, PI), (PI / 2.0 + swing, PI), (PI / 2.0, PI - swing), (PI / 2.0, PI + swing)];
                for (frame, (a, b)) in microscope.frames(glass).into_iter().zip(settings) {
                    let expected = microscope.bright * jones(a, b, glass) + microscope.dark;
                    assert!((frame - expected).abs() < 1e-12, "swing {swing}, {glass:?}: {frame} instead of {expected}");
                }
            }
        }
    }

    #[test]
    fn birefringence_comes_back_from_its_frames() {
        for i in 0..=90 {
            for k in 0..180 {
                let glass = Birefringence { retardance: PI * f64::from(i) / 90.0, azimuth: PI * f64::from(k) / 180.0 };
                let got = MICROSCOPE.birefringence(MICROSCOPE.frames(glass));
                assert!((got.retardance - glass.retardance).abs() < 1e-6, "{glass:?} became {got:?}");
                // Without retardance, or with half a wave of it, there is no azimuth to find.
                if i % 90 != 0 {
                    let turn = (got.azimuth - glass.azimuth).rem_euclid(PI);
                    assert!(turn.min(PI - turn) < 1e-6, "{glass:?} became {got:?}");
                }
            }
        }
        assert_eq!(MICROSCOPE.birefringence([0.5; FRAMES]), Birefringence { retardance: 0.0, azimuth: 0.0 });
    }

    type Complex = (f64, f64);

    fn times(a: Complex, b: Complex) -> Complex {
        (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0)
    }

    /// Passes light with components x and y through a retarder.
    fn retard(light: [Complex; 2], retardance: f64, axis: f64) -> [Complex; 2] {
        let (sin, cos) = axis.sin_cos();
        let rotate = |[x, y]: [Complex; 2], sin: f64| {
            [(cos * x.0 + sin * y.0, cos * x.1 + sin * y.1), (cos * y.0 - sin * x.0, cos * y.1 - sin * x.1)]
        };
        let [slow, fast] = rotate(light, sin);
        let delayed = [
            times(slow, ((retardance / 2.0).cos(), -(retardance / 2.0).sin())),
            times(fast, ((retardance / 2.0).cos(), (retardance / 2.0).sin())),
        ];
        rotate(delayed, -sin)
    }

    /// The share of light that passes, in this order: polarizer at 0°, variable retarder `a` at
    /// 45°, variable retarder `b` at 0°, the glass, circular analyzer.
    fn jones(a: f64, b: f64, glass: Birefringence) -> f64 {
        let light = [(1.0, 0.0), (0.0, 0.0)];
        let light = retard(retard(light, a, PI / 4.0), b, 0.0);
        let [x, y] = retard(light, glass.retardance, glass.azimuth);
        // Of the two circular polarizations, the one that is dark at extinction.
        let through = (x.0 - y.1, x.1 + y.0);
        (through.0 * through.0 + through.1 * through.1) / 2.0
    }
}

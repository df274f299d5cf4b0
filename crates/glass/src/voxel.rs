//! Voxels: which symbol an azimuth and a retardance stand for.
//!
//! A symbol is a number of 3 to 5 bits: the low three are the Gray code of the azimuth's level, the
//! others that of the retardance's level. So the likeliest mistake, a neighboring level, costs one
//! bit.
//!
//! ```text
//! azimuth     0°   22.5°  45°  67.5°  90°  112.5° 135° 157.5°  (180° is 0° again)
//! low bits   000   001   011   010   110   111   101   100
//! ```

use std::f64::consts::PI;

use crate::polarization::Birefringence;

/// Azimuth levels, and the bits that they carry.
const AZIMUTHS: u8 = 8;
const AZIMUTH_BITS: u32 = 3;

/// What voxels can be written as: eight azimuths with each of 1, 2 or 4 retardances.
#[derive(Debug, Clone, PartialEq)]
pub struct Alphabet {
    retardances: Vec<f64>,
}

impl Alphabet {
    /// An alphabet with these retardances, in radians; `None` unless there are 1, 2 or 4 of them,
    /// in rising order, between 0 and pi, both exclusive.
    pub fn new(retardances: Vec<f64>) -> Option<Self> {
        let rising = retardances.is_sorted_by(|a, b| a < b);
        let valid = retardances.iter().all(|&retardance| retardance > 0.0 && retardance < PI);
        (matches!(retardances.len(), 1 | 2 | 4) && rising && valid).then_some(Self { retardances })
    }

    /// Number of symbols. They are numbered from 0.
    pub fn symbol_count(&self) -> u8 {
        AZIMUTHS * self.retardances.len() as u8
    }

    /// Number of levels of the retardance: 1, 2 or 4.
    pub fn retardance_levels(&self) -> u8 {
        self.retardances.len() as u8
    }

    /// The retardance of a level, in radians; `None` if there is no such level.
    pub fn retardance(&self, level: u8) -> Option<f64> {
        self.retardances.get(usize::from(level)).copied()
    }

    /// Bits that a voxel carries: 3 to 5.
    pub fn bits_per_voxel(&self) -> u32 {
        AZIMUTH_BITS + self.retardances.len().ilog2()
    }

    /// How a symbol is written: azimuth by its low three bits, retardance by the others.
    ///
    /// # Panics
    /// If there is no such symbol.
    pub fn birefringence(&self, symbol: u8) -> Birefringence {
        let azimuth = gray_inverse(symbol % AZIMUTHS);
        let level = gray_inverse(symbol / AZIMUTHS);
        Birefringence { retardance: self.retardances[usize::from(level)], azimuth: f64::from(azimuth) * PI / f64::from(AZIMUTHS) }
    }

    /// The symbol with these levels, both counted from 0.
    ///
    /// # Panics
    /// If there is no such level.
    pub fn symbol(&self, azimuth: u8, retardance: u8) -> u8 {
        assert!(azimuth < AZIMUTHS && usize::from(retardance) < self.retardances.len(), "no level {azimuth}, {retardance}");
        gray(azimuth) | (gray(retardance) << AZIMUTH_BITS)
    }
}

fn gray(level: u8) -> u8 {
    level ^ (level >> 1)
}

/// The level with this Gray code, of up to three bits.
fn gray_inverse(code: u8) -> u8 {
    code ^ (code >> 1) ^ (code >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighboring_levels_differ_in_one_bit() {
        for retardances in [vec![0.3], vec![0.3, 0.6], vec![0.2, 0.4, 0.6, 0.8]] {
            let levels = retardances.len() as u8;
            let alphabet = Alphabet::new(retardances.clone()).unwrap();
            let mut seen = vec![false; usize::from(alphabet.symbol_count())];
            for retardance in 0..levels {
                for azimuth in 0..8 {
                    let symbol = alphabet.symbol(azimuth, retardance);
                    assert!(!std::mem::replace(&mut seen[usize::from(symbol)], true), "symbol {symbol} twice");
                    assert!(u32::from(symbol) < 1 << alphabet.bits_per_voxel());
                    let written = alphabet.birefringence(symbol);
                    assert_eq!(written.retardance, retardances[usize::from(retardance)]);
                    assert!((written.azimuth.to_degrees() - 22.5 * f64::from(azimuth)).abs() < 1e-9);
                    // 180 degrees are 0 degrees, so the last azimuth neighbors the first.
                    assert_eq!((symbol ^ alphabet.symbol((azimuth + 1) % 8, retardance)).count_ones(), 1);
                    if retardance + 1 < levels {
                        assert_eq!((symbol ^ alphabet.symbol(azimuth, retardance + 1)).count_ones(), 1);
                    }
                }
            }
        }
    }

    #[test]
    fn retardances_must_rise_within_their_range() {
        for wrong in [vec![], vec![0.2, 0.2], vec![0.4, 0.2], vec![0.0], vec![4.0], vec![f64::NAN], vec![0.1, 0.2, 0.3]] {
            assert_eq!(Alphabet::new(wrong.clone()), None, "{wrong:?}");
        }
    }
}

//! Colors of pictures.

use std::f64::consts::PI;

pub(super) type Color = [u8; 3];

/// Where the chosen symbol is right.
pub(super) const RIGHT: Color = [0xf2, 0xf2, 0xf2];
/// Kinds of wrong symbols. Source: M. Okabe and K. Ito, Color Universal Design (2008).
pub(super) const WRONG_AZIMUTH: Color = [0x00, 0x72, 0xb2];
pub(super) const WRONG_RETARDANCE: Color = [0xe6, 0x9f, 0x00];
pub(super) const WRONG_BOTH: Color = [0x00, 0x00, 0x00];

/// A gray from black at 0.0 to white at 1.0.
pub(super) fn gray(part: f64) -> Color {
    [byte(part); 3]
}

/// Dark purple at 0.0, green at 0.5, yellow at 1.0: lightness rises evenly, so people with any
/// color vision can read it.
///
/// Source: `viridis` by N. Smith and S. van der Walt (Matplotlib 2, CC0), every 32nd color.
pub(super) fn viridis(part: f64) -> Color {
    const ANCHORS: [Color; 9] = [
        [68, 1, 84],
        [71, 44, 122],
        [59, 81, 139],
        [44, 113, 142],
        [33, 144, 141],
        [39, 173, 129],
        [92, 200, 99],
        [170, 220, 50],
        [253, 231, 37],
    ];
    let at = part.clamp(0.0, 1.0) * (ANCHORS.len() - 1) as f64;
    let index = (at as usize).min(ANCHORS.len() - 2);
    let step = at - index as f64;
    std::array::from_fn(|channel| {
        let (from, to) = (f64::from(ANCHORS[index][channel]), f64::from(ANCHORS[index + 1][channel]));
        (from + (to - from) * step).round() as u8
    })
}

/// A hue for an azimuth, from red through green at a third of half a turn and blue at two thirds
/// back to red, because azimuths repeat after half a turn.
pub(super) fn azimuth(azimuth: f64, brightness: f64) -> Color {
    let at = 6.0 * (azimuth / PI).rem_euclid(1.0);
    let channel = |peak: f64| {
        let away = (at - peak).abs();
        (2.0 - away.min(6.0 - away)).clamp(0.0, 1.0)
    };
    [0.0, 2.0, 4.0].map(|peak| byte(channel(peak) * brightness.clamp(0.0, 1.0)))
}

fn byte(part: f64) -> u8 {
    (part.clamp(0.0, 1.0) * 255.0).round() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hues_go_round_within_half_a_turn() {
        assert_eq!([0.0, 1.0, 2.0, 3.0].map(|third| azimuth(third * PI / 3.0, 1.0)), [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 0, 0]]);
        assert_eq!(azimuth(PI / 6.0, 0.4), [102, 102, 0]);
        assert_eq!(azimuth(1.0, 0.0), [0, 0, 0]);
    }

    #[test]
    fn the_scale_of_confidence_gets_lighter_throughout() {
        let lightness = |step: u32| {
            let [red, green, blue] = viridis(f64::from(step) / 64.0).map(f64::from);
            0.2126 * red + 0.7152 * green + 0.0722 * blue
        };
        assert!((0..64).all(|step| lightness(step) < lightness(step + 1)));
        assert_eq!((viridis(-1.0), viridis(2.0)), ([68, 1, 84], [253, 231, 37]));
    }
}

//! Looks: colours that the colour-blind can tell apart, and marks that can be told apart in grey.

use super::scene::{Area, BLACK, Colour, Place, Scene, Stroke, WHITE};

pub(super) const INK: Colour = Colour(0x22, 0x22, 0x22);
pub(super) const FAINT: Colour = Colour(0xe6, 0xe6, 0xe6);
pub(super) const MUTED: Colour = Colour(0x66, 0x66, 0x66);

pub(super) const TITLE: f64 = 9.5;
pub(super) const LABEL: f64 = 8.5;
pub(super) const TICK: f64 = 7.5;
/// Lines of text are this much apart, in sizes.
pub(super) const LEADING: f64 = 1.25;
/// How high capitals and figures are, in sizes.
pub(super) const CAP: f64 = 0.73;

/// Seven colours in this order; the yellow of the eight is too light for lines.
/// Source: M. Okabe and K. Ito, Color Universal Design (2008).
const PALETTE: [Colour; 7] = [
    Colour(0x00, 0x72, 0xb2),
    Colour(0xd5, 0x5e, 0x00),
    Colour(0x00, 0x9e, 0x73),
    Colour(0xcc, 0x79, 0xa7),
    Colour(0x56, 0xb4, 0xe9),
    Colour(0xe6, 0x9f, 0x00),
    BLACK,
];

const DASHES: [&[f64]; 4] = [&[], &[5.0, 2.0], &[1.5, 1.5], &[6.0, 1.8, 1.5, 1.8]];
/// What no policy can beat is drawn like this.
pub(super) const BOUND_DASHES: &[f64] = &[3.0, 2.0];
pub(super) const REFERENCE_DASHES: &[f64] = &[1.0, 2.0];

/// Colour, marker, dashes and hatching of the series of one name, by its number in the figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look(pub(super) usize);

impl Look {
    pub(super) fn colour(self) -> Colour {
        PALETTE[self.0 % PALETTE.len()]
    }

    /// The line of series without markers, which only dashes tell apart in grey.
    pub(super) fn dashed(self) -> Stroke {
        Stroke { colour: self.colour(), width: 1.3, dashes: DASHES[self.0 % DASHES.len()] }
    }

    /// The line of series with markers.
    pub(super) fn line(self) -> Stroke {
        // After one round through the colours, dashes tell the rounds apart.
        Stroke { colour: self.colour(), width: 1.4, dashes: DASHES[self.0 / PALETTE.len() % DASHES.len()] }
    }

    pub(super) fn mark(self, scene: &mut Scene, (x, y): Place) {
        let edge = Stroke::solid(WHITE, 0.6);
        let fill = Some((self.colour(), 1.0));
        let polygon = |points: &[Place]| points.iter().map(|&(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
        match self.0 % 7 {
            0 => {
                scene.items.push(super::scene::Item::Circle { centre: (x, y), radius: 2.5, fill: Some(self.colour()), stroke: Some(edge) })
            }
            1 => scene.polygon(polygon(&[(-2.3, -2.3), (2.3, -2.3), (2.3, 2.3), (-2.3, 2.3)]), fill, Some(edge), None),
            2 => scene.polygon(polygon(&[(0.0, -3.1), (2.8, 2.1), (-2.8, 2.1)]), fill, Some(edge), None),
            3 => scene.polygon(polygon(&[(0.0, -3.3), (3.0, 0.0), (0.0, 3.3), (-3.0, 0.0)]), fill, Some(edge), None),
            4 => scene.polygon(polygon(&[(0.0, 3.1), (2.8, -2.1), (-2.8, -2.1)]), fill, Some(edge), None),
            5 => {
                let cross = [((x - 2.3, y - 2.3), (x + 2.3, y + 2.3)), ((x - 2.3, y + 2.3), (x + 2.3, y - 2.3))];
                scene.segments(&cross, Stroke::solid(self.colour(), 1.3));
            }
            _ => {
                let plus = [((x - 2.9, y), (x + 2.9, y)), ((x, y - 2.9), (x, y + 2.9))];
                scene.segments(&plus, Stroke::solid(self.colour(), 1.3));
            }
        }
    }

    /// A bar, or a piece of one: full, hatched one way, light, hatched the other way, in turn.
    pub(super) fn bar(self, scene: &mut Scene, area: Area) {
        if area.width() <= 0.0 || area.height() <= 0.0 {
            return;
        }
        let colour = self.colour();
        let (fill, hatch) = match self.0 % 4 {
            0 => (colour, None),
            1 => (tint(colour, 0.55), Some(1.0)),
            2 => (tint(colour, 0.25), None),
            _ => (tint(colour, 0.7), Some(-1.0)),
        };
        scene.rectangle(area, Some(fill), None);
        if let Some(slope) = hatch {
            scene.segments(&hatching(area, slope), Stroke::solid(WHITE, 0.9));
        }
        scene.rectangle(area, None, Some(Stroke::solid(colour, 0.7)));
    }
}

/// A colour thinned with white.
pub(super) fn tint(Colour(red, green, blue): Colour, strength: f64) -> Colour {
    let thin = |part: u8| (255.0 - (255.0 - f64::from(part)) * strength + 0.5) as u8;
    Colour(thin(red), thin(green), thin(blue))
}

/// Diagonals across a rectangle. They stand on a lattice of the whole picture, so that neighbours match.
fn hatching(area: Area, slope: f64) -> Vec<(Place, Place)> {
    const APART: f64 = 4.0;
    // Along a diagonal, y + slope * x is the same.
    let ends = area.corners().map(|(x, y)| y + slope * x);
    let (low, high) = ends.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &end| (low.min(end), high.max(end)));
    let first = (low / APART).ceil() as i64;
    let last = (high / APART).floor() as i64;
    (first..=last)
        .filter_map(|number| {
            let level = number as f64 * APART;
            area.part_of((area.left, level - slope * area.left), (area.right, level - slope * area.right))
        })
        .collect()
}

/// Light to dark for 0.0 to 1.0, evenly in what the eye takes for lightness, so that it reads in grey.
/// Anchors: ColorBrewer's sequential Blues (C. Brewer, colorbrewer2.org), which is safe for the colour-blind.
pub(super) fn shade(part: f64) -> Colour {
    const ANCHORS: [Colour; 6] = [
        Colour(0xf0, 0xf6, 0xfc),
        Colour(0xc6, 0xdb, 0xef),
        Colour(0x9e, 0xca, 0xe1),
        Colour(0x4f, 0x9b, 0xcb),
        Colour(0x21, 0x71, 0xb5),
        Colour(0x08, 0x30, 0x6b),
    ];
    let at = part.clamp(0.0, 1.0) * (ANCHORS.len() - 1) as f64;
    let index = (at as usize).min(ANCHORS.len() - 2);
    let (from, to, step) = (ANCHORS[index], ANCHORS[index + 1], at - index as f64);
    let mix = |from: u8, to: u8| (f64::from(from) + (f64::from(to) - f64::from(from)) * step + 0.5) as u8;
    Colour(mix(from.0, to.0), mix(from.1, to.1), mix(from.2, to.2))
}

/// Black or white, whichever is easier to read upon a shade.
pub(super) fn upon(part: f64) -> Colour {
    if part > 0.55 { WHITE } else { INK }
}

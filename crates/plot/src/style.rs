//! Visual style: colour-blind-safe colours, and markers and hatching that stay distinct in
//! greyscale.

use super::scene::{Area, BLACK, Colour, Coordinates, Scene, Stroke, WHITE};

pub(super) const INK: Colour = Colour(0x22, 0x22, 0x22);
pub(super) const FAINT: Colour = Colour(0xe6, 0xe6, 0xe6);
pub(super) const MUTED: Colour = Colour(0x66, 0x66, 0x66);

/// What must not be missed: the palette's vermilion, which differs from all shades of grids for any
/// colour vision.
pub(super) const ALARM: Colour = Colour(0xd5, 0x5e, 0x00);

/// Font sizes, in points.
pub(super) const TITLE_SIZE: f64 = 9.5;
pub(super) const LABEL_SIZE: f64 = 8.5;
pub(super) const TICK_SIZE: f64 = 7.5;
/// Distance between lines of text, as a multiple of the font size.
pub(super) const LEADING: f64 = 1.25;
/// Height of capitals and figures, as a multiple of the font size.
pub(super) const CAP_HEIGHT: f64 = 0.73;

/// Seven of the eight colours, in this order; the yellow is too light for lines. Source: M. Okabe
/// and K. Ito, Color Universal Design (2008).
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
/// The dashes of bounds, which no policy can beat.
pub(super) const BOUND_DASHES: &[f64] = &[3.0, 2.0];
pub(super) const REFERENCE_DASHES: &[f64] = &[1.0, 2.0];

/// Colour, marker, dashes and hatching shared by all series of one name, by its index in the
/// figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SeriesStyle(pub(super) usize);

impl SeriesStyle {
    pub(super) fn colour(self) -> Colour {
        PALETTE[self.0 % PALETTE.len()]
    }

    /// The line of a series without markers: in greyscale only the dashes distinguish it.
    pub(super) fn dashed(self) -> Stroke {
        Stroke { colour: self.colour(), width: 1.3, dashes: DASHES[self.0 % DASHES.len()] }
    }

    /// The line of a series with markers.
    pub(super) fn line(self) -> Stroke {
        // Colours repeat after seven series; the dashes then distinguish the rounds.
        Stroke { colour: self.colour(), width: 1.4, dashes: DASHES[self.0 / PALETTE.len() % DASHES.len()] }
    }

    pub(super) fn mark(self, scene: &mut Scene, (x, y): Coordinates) {
        let edge = Stroke::solid(WHITE, 0.6);
        let fill = Some((self.colour(), 1.0));
        let polygon = |points: &[Coordinates]| points.iter().map(|&(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>();
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

    /// Draws a bar or a bar segment: solid, hatched one way, light, or hatched the other way, in
    /// turn.
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

/// Mixes a colour with white.
pub(super) fn tint(Colour(red, green, blue): Colour, strength: f64) -> Colour {
    let thin = |part: u8| (255.0 - (255.0 - f64::from(part)) * strength + 0.5) as u8;
    Colour(thin(red), thin(green), thin(blue))
}

/// Diagonals across a rectangle, aligned to one lattice for the whole picture so that neighbours
/// match.
fn hatching(area: Area, slope: f64) -> Vec<(Coordinates, Coordinates)> {
    const HATCHING_GAP: f64 = 4.0;
    // `y + slope * x` is constant along a diagonal.
    let ends = area.corners().map(|(x, y)| y + slope * x);
    let (low, high) = ends.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &end| (low.min(end), high.max(end)));
    let first = (low / HATCHING_GAP).ceil() as i64;
    let last = (high / HATCHING_GAP).floor() as i64;
    (first..=last)
        .filter_map(|number| {
            let level = number as f64 * HATCHING_GAP;
            area.part_of((area.left, level - slope * area.left), (area.right, level - slope * area.right))
        })
        .collect()
}

/// Light to dark for 0.0 to 1.0, in even steps of perceived lightness, so that it reads in
/// greyscale. Anchors: after ColorBrewer's sequential Blues (C. Brewer, colorbrewer2.org), which
/// is colour-blind safe.
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

/// The text colour, dark or white, that is easier to read on a shade.
pub(super) fn text_colour_on(part: f64) -> Colour {
    if part > 0.55 { WHITE } else { INK }
}

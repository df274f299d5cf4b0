//! A picture as a list of shapes and texts, in points (1/72 inch) from the upper left corner.
//! Layout writes it, SVG and PNG read it, so both show the same.

use super::font::Weight;

/// A place in the picture: to the right, and down.
pub(super) type Coordinates = (f64, f64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Colour(pub(super) u8, pub(super) u8, pub(super) u8);

pub(super) const WHITE: Colour = Colour(255, 255, 255);
pub(super) const BLACK: Colour = Colour(0, 0, 0);

/// Width of the stroke behind a text with a rim, half of which shows, in points.
pub(super) const RIM_WIDTH: f64 = 2.4;

/// A rectangle, by its edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) right: f64,
    pub(super) bottom: f64,
}

impl Area {
    pub(super) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(super) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    pub(super) fn holds(&self, (x, y): Coordinates) -> bool {
        const SLACK: f64 = 0.01;
        self.left - SLACK <= x && x <= self.right + SLACK && self.top - SLACK <= y && y <= self.bottom + SLACK
    }

    pub(super) fn grown(&self, by: f64) -> Self {
        Self { left: self.left - by, top: self.top - by, right: self.right + by, bottom: self.bottom + by }
    }

    pub(super) fn corners(&self) -> [Coordinates; 4] {
        [(self.left, self.top), (self.right, self.top), (self.right, self.bottom), (self.left, self.bottom)]
    }

    /// The part of a segment that lies in the rectangle. Source: Y. Liang and B. Barsky, ACM Trans.
    /// Graph. 3, 1 (1984).
    pub(super) fn part_of(&self, from: Coordinates, to: Coordinates) -> Option<(Coordinates, Coordinates)> {
        let (dx, dy) = (to.0 - from.0, to.1 - from.1);
        let (mut enters, mut leaves) = (0.0_f64, 1.0_f64);
        for (step, room) in [(-dx, from.0 - self.left), (dx, self.right - from.0), (-dy, from.1 - self.top), (dy, self.bottom - from.1)] {
            if step == 0.0 {
                if room < 0.0 {
                    return None;
                }
            } else if step < 0.0 {
                enters = enters.max(room / step);
            } else {
                leaves = leaves.min(room / step);
            }
        }
        let at = |part: f64| (from.0 + part * dx, from.1 + part * dy);
        (enters <= leaves).then(|| (at(enters), at(leaves)))
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stroke {
    pub(super) colour: Colour,
    pub(super) width: f64,
    /// Lengths of dashes and gaps in turn; none for a line without gaps.
    pub(super) dashes: &'static [f64],
}

impl Stroke {
    pub(super) fn solid(colour: Colour, width: f64) -> Self {
        Self { colour, width, dashes: &[] }
    }
}

/// Which point of a text lies at its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Text {
    pub(super) text: String,
    /// A point on the baseline.
    pub(super) at: Coordinates,
    pub(super) size: f64,
    pub(super) weight: Weight,
    pub(super) anchor: Anchor,
    pub(super) colour: Colour,
    /// Degrees clockwise, about its place.
    pub(super) turned: f64,
    /// With a white rim, which keeps it readable upon lines.
    pub(super) rim: bool,
}

/// A piece of a picture; later ones lie upon earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    Shape { contours: Vec<Vec<Coordinates>>, closed: bool, fill: Option<(Colour, f64)>, stroke: Option<Stroke>, clip: Option<Area> },
    Circle { centre: Coordinates, radius: f64, fill: Option<Colour>, stroke: Option<Stroke> },
    Text(Text),
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scene {
    pub(super) title: String,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) items: Vec<Item>,
}

impl Scene {
    pub(super) fn line(&mut self, points: Vec<Coordinates>, stroke: Stroke, clip: Option<Area>) {
        if points.len() > 1 {
            self.items.push(Item::Shape { contours: vec![points], closed: false, fill: None, stroke: Some(stroke), clip });
        }
    }

    pub(super) fn segment(&mut self, from: Coordinates, to: Coordinates, stroke: Stroke) {
        self.line(vec![from, to], stroke, None);
    }

    pub(super) fn segments(&mut self, segments: &[(Coordinates, Coordinates)], stroke: Stroke) {
        if !segments.is_empty() {
            let contours = segments.iter().map(|&(from, to)| vec![from, to]).collect();
            self.items.push(Item::Shape { contours, closed: false, fill: None, stroke: Some(stroke), clip: None });
        }
    }

    pub(super) fn polygon(&mut self, points: Vec<Coordinates>, fill: Option<(Colour, f64)>, stroke: Option<Stroke>, clip: Option<Area>) {
        self.items.push(Item::Shape { contours: vec![points], closed: true, fill, stroke, clip });
    }

    pub(super) fn rectangle(&mut self, area: Area, fill: Option<Colour>, stroke: Option<Stroke>) {
        self.polygon(area.corners().to_vec(), fill.map(|colour| (colour, 1.0)), stroke, None);
    }

    pub(super) fn text(&mut self, text: Text) {
        if !text.text.is_empty() {
            self.items.push(Item::Text(text));
        }
    }
}

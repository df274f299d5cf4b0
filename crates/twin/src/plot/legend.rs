//! The legend: names of series in rows above the panels, or at the ends of their lines.

use super::Figure;
use super::font::{Font, Weight};
use super::panel::{Form, Panel, Series};
use super::scene::{Anchor, Area, BLACK, Colour, Scene, Stroke, Text};
use super::style::{BOUND_DASHES, CAP, INK, LEADING, Look, TICK};

const SAMPLE: f64 = 20.0;
const GAP: f64 = 4.0;
const APART: f64 = 14.0;
const ROW: f64 = 12.0;

/// The series names of a figure, in order of first appearance, which decides their looks.
pub(super) struct Looks {
    names: Vec<(String, Form)>,
}

impl Looks {
    pub(super) fn of(figure: &Figure) -> Self {
        let mut names: Vec<(String, Form)> = Vec::new();
        for series in figure.panels.iter().flat_map(|panel| &panel.series) {
            if !names.iter().any(|(name, _)| *name == series.name) {
                names.push((series.name.clone(), series.form));
            }
        }
        Self { names }
    }

    pub(super) fn look(&self, series: &Series) -> Look {
        let coloured = self.names.iter().filter(|name| name.1 != Form::Bound);
        Look(coloured.take_while(|name| name.0 != series.name).count())
    }

    /// Arranges the names in rows no wider than `width`.
    pub(super) fn rows(&self, font: &Font, width: f64) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut filled = 0.0;
        for (at, (name, _)) in self.names.iter().enumerate() {
            let entry = entry_width(font, name);
            match rows.last_mut() {
                Some(row) if filled + APART + entry <= width => {
                    row.push(at);
                    filled += APART + entry;
                }
                _ => {
                    rows.push(vec![at]);
                    filled = entry;
                }
            }
        }
        rows
    }

    /// Draws the rows into an area, centred. The area is as high as [`height`] gives for them.
    pub(super) fn write(&self, scene: &mut Scene, font: &Font, rows: &[Vec<usize>], area: Area) {
        // Several rows are aligned in columns, if that fits.
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            let entries = rows.iter().filter_map(|row| row.get(column)).map(|&at| entry_width(font, &self.names[at].0));
            entries.fold(0.0, f64::max)
        };
        let widths: Vec<f64> = (0..columns).map(width_of).collect();
        let total = widths.iter().sum::<f64>() + APART * columns.saturating_sub(1) as f64;
        let aligned = total <= area.width();
        for (row, entries) in rows.iter().enumerate() {
            let own = entries.iter().map(|&at| entry_width(font, &self.names[at].0)).sum::<f64>() + APART * (entries.len() - 1) as f64;
            let mut left = area.left + 0.5 * (area.width() - if aligned { total } else { own }).max(0.0);
            for (column, &at) in entries.iter().enumerate() {
                let middle = area.top + (row as f64 + 0.5) * ROW;
                self.sample(scene, at, left, middle);
                let at_text = (left + SAMPLE + GAP, middle + 0.5 * CAP * TICK);
                scene.text(label(&self.names[at].0, at_text, INK));
                left += APART + if aligned { widths[column] } else { entry_width(font, &self.names[at].0) };
            }
        }
    }

    fn sample(&self, scene: &mut Scene, at: usize, left: f64, middle: f64) {
        let (ends, form) = (((left, middle), (left + SAMPLE, middle)), self.names[at].1);
        let look = Look(self.names[..at].iter().filter(|name| name.1 != Form::Bound).count());
        match form {
            Form::Line => {
                scene.segment(ends.0, ends.1, look.line());
                look.mark(scene, (left + 0.5 * SAMPLE, middle));
            }
            Form::Steps => scene.segment(ends.0, ends.1, look.dashed()),
            Form::Bound => scene.segment(ends.0, ends.1, bound()),
            Form::Bars | Form::Stack => {
                look.bar(scene, Area { left: left + 6.0, top: middle - 4.0, right: left + SAMPLE, bottom: middle + 4.0 });
            }
        }
    }
}

/// Height of this many rows of names, with the space below them.
pub(super) fn height(rows: usize) -> f64 {
    if rows == 0 { 0.0 } else { rows as f64 * ROW + 5.0 }
}

pub(super) fn bound() -> Stroke {
    Stroke { colour: BLACK, width: 1.2, dashes: BOUND_DASHES }
}

fn entry_width(font: &Font, name: &str) -> f64 {
    SAMPLE + GAP + font.width(name, TICK, Weight::Regular)
}

fn label(text: &str, at: (f64, f64), colour: Colour) -> Text {
    Text { text: text.into(), at, size: TICK, weight: Weight::Regular, anchor: Anchor::Start, colour, turned: 0.0, rim: false }
}

pub(super) struct EndName {
    text: String,
    colour: Colour,
    end: (f64, f64),
    /// Height of the name, after moving away from others.
    y: f64,
}

/// Width of the names of a panel's lines, with the gap to the axes.
pub(super) fn end_width(panel: &Panel, font: &Font) -> f64 {
    panel.series.iter().map(|series| font.width(&series.name, TICK, Weight::Regular) + 9.0).fold(0.0, f64::max)
}

/// The names of a panel's lines at their ends, moved apart where they would touch.
pub(super) fn at_ends(panel: &Panel, looks: &Looks, area: Area, place: impl Fn(f64, f64) -> (f64, f64)) -> Vec<EndName> {
    let mut names: Vec<EndName> = Vec::new();
    for series in &panel.series {
        let Some(last) = series.points.last() else { continue };
        let end = place(last.x, last.y);
        let end = (end.0.min(area.right), end.1.clamp(area.top, area.bottom));
        let colour = if series.form == Form::Bound { BLACK } else { looks.look(series).colour() };
        names.push(EndName { text: series.name.clone(), colour, end, y: end.1 });
    }
    names.sort_by(|a, b| a.end.1.total_cmp(&b.end.1));
    // Names that touch become a block around the middle of their ends, until no blocks touch.
    let line = LEADING * TICK;
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for name in &names {
        let mut block = (name.end.1, 1);
        while let Some(above) = blocks.last().copied() {
            if block.0 - above.0 >= 0.5 * line * (block.1 + above.1) as f64 {
                break;
            }
            blocks.pop();
            let count = block.1 + above.1;
            block = ((block.0 * block.1 as f64 + above.0 * above.1 as f64) / count as f64, count);
        }
        blocks.push(block);
    }
    let mut at = 0;
    for (middle, count) in blocks {
        for number in 0..count {
            names[at].y = middle + (number as f64 - 0.5 * (count - 1) as f64) * line;
            at += 1;
        }
    }
    names
}

/// True if each name is close to the end of its line.
pub(super) fn stand_apart(names: &[EndName]) -> bool {
    names.len() <= 6 && names.iter().all(|name| (name.y - name.end.1).abs() <= 0.8 * TICK)
}

pub(super) fn write_ends(scene: &mut Scene, names: &[EndName], area: Area) {
    for name in names {
        let left = area.right + 7.0;
        if (name.y - name.end.1).abs() > 1.0 {
            scene.line(vec![(name.end.0 + 3.5, name.end.1), (left - 1.5, name.y)], Stroke::solid(name.colour, 0.5), None);
        }
        scene.text(label(&name.text, (left, name.y + 0.5 * CAP * TICK), name.colour));
    }
}

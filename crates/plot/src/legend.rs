//! The legend: names of series in rows above the panels, or as labels at the ends of their lines.

use super::Figure;
use super::font::{Font, Weight};
use super::panel::{Form, Panel, Series};
use super::scene::{Anchor, Area, BLACK, Colour, Scene, Stroke, Text};
use super::style::{BOUND_DASHES, CAP_HEIGHT, INK, LEADING, SeriesStyle, TICK_SIZE};

/// Width of the swatch, the sample of a series before its name.
const SWATCH_WIDTH: f64 = 20.0;
/// Gap between a swatch and its name.
const SWATCH_GAP: f64 = 4.0;
/// Gap between the entries of a row.
const ENTRY_GAP: f64 = 14.0;
const ROW_HEIGHT: f64 = 12.0;
/// Space below the last row.
const SPACE_BELOW: f64 = 5.0;
/// Gap between the axes and the labels at the ends of lines.
const END_LABEL_GAP: f64 = 7.0;
/// Free space to the right of these labels.
const END_LABEL_MARGIN: f64 = 2.0;
const END_LABELS_MAX: usize = 6;
/// The farthest that a label may be from the end of its line.
const END_LABEL_SHIFT_MAX: f64 = 0.8 * TICK_SIZE;
/// A label that moved farther is connected to its line.
const UNCONNECTED_SHIFT_MAX: f64 = 1.0;

/// The series of a figure by name, in order of first appearance, which decides their styles.
pub(super) struct SeriesStyles {
    names: Vec<(String, Form)>,
}

impl SeriesStyles {
    pub(super) fn of(figure: &Figure) -> Self {
        let mut names: Vec<(String, Form)> = Vec::new();
        for series in figure.panels.iter().flat_map(|panel| &panel.series) {
            if !names.iter().any(|(name, _)| *name == series.name) {
                names.push((series.name.clone(), series.form));
            }
        }
        Self { names }
    }

    pub(super) fn style_of(&self, series: &Series) -> SeriesStyle {
        let coloured = self.names.iter().filter(|name| name.1 != Form::Bound);
        SeriesStyle(coloured.take_while(|name| name.0 != series.name).count())
    }

    /// Arranges the names in rows no wider than `width`. Names are given by index.
    pub(super) fn rows(&self, font: &Font, width: f64) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut row_width = 0.0;
        for (index, (name, _)) in self.names.iter().enumerate() {
            let entry = entry_width(font, name);
            match rows.last_mut() {
                Some(row) if row_width + ENTRY_GAP + entry <= width => {
                    row.push(index);
                    row_width += ENTRY_GAP + entry;
                }
                _ => {
                    rows.push(vec![index]);
                    row_width = entry;
                }
            }
        }
        rows
    }

    /// Draws the rows into an area, centred. The area is as high as [`height`] gives for them.
    pub(super) fn draw_rows(&self, scene: &mut Scene, font: &Font, rows: &[Vec<usize>], area: Area) {
        // Several rows are aligned in columns, if that fits.
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width_of = |column: usize| {
            let entries = rows.iter().filter_map(|row| row.get(column)).map(|&index| entry_width(font, &self.names[index].0));
            entries.fold(0.0, f64::max)
        };
        let widths: Vec<f64> = (0..columns).map(width_of).collect();
        let aligned_width = widths.iter().sum::<f64>() + ENTRY_GAP * columns.saturating_sub(1) as f64;
        let is_aligned = aligned_width <= area.width();
        for (row, entries) in rows.iter().enumerate() {
            let row_width =
                entries.iter().map(|&index| entry_width(font, &self.names[index].0)).sum::<f64>() + ENTRY_GAP * (entries.len() - 1) as f64;
            let mut left = area.left + 0.5 * (area.width() - if is_aligned { aligned_width } else { row_width }).max(0.0);
            for (column, &index) in entries.iter().enumerate() {
                let middle = area.top + (row as f64 + 0.5) * ROW_HEIGHT;
                self.draw_swatch(scene, index, left, middle);
                let text_at = (left + SWATCH_WIDTH + SWATCH_GAP, middle + 0.5 * CAP_HEIGHT * TICK_SIZE);
                scene.text(label(&self.names[index].0, text_at, INK));
                left += ENTRY_GAP + if is_aligned { widths[column] } else { entry_width(font, &self.names[index].0) };
            }
        }
    }

    fn draw_swatch(&self, scene: &mut Scene, index: usize, left: f64, middle: f64) {
        let (from, to) = ((left, middle), (left + SWATCH_WIDTH, middle));
        let style = SeriesStyle(self.names[..index].iter().filter(|name| name.1 != Form::Bound).count());
        match self.names[index].1 {
            Form::Line => {
                scene.segment(from, to, style.line());
                style.mark(scene, (left + 0.5 * SWATCH_WIDTH, middle));
            }
            Form::Steps => scene.segment(from, to, style.dashed()),
            Form::Bound => scene.segment(from, to, bound_stroke()),
            Form::Bars | Form::Stack => {
                style.bar(scene, Area { left: left + 6.0, top: middle - 4.0, right: left + SWATCH_WIDTH, bottom: middle + 4.0 });
            }
        }
    }
}

/// Height of this many rows of names, with the space below them.
pub(super) fn height(rows: usize) -> f64 {
    if rows == 0 { 0.0 } else { rows as f64 * ROW_HEIGHT + SPACE_BELOW }
}

pub(super) fn bound_stroke() -> Stroke {
    Stroke { colour: BLACK, width: 1.2, dashes: BOUND_DASHES }
}

fn entry_width(font: &Font, name: &str) -> f64 {
    SWATCH_WIDTH + SWATCH_GAP + font.width(name, TICK_SIZE, Weight::Regular)
}

fn label(text: &str, at: (f64, f64), colour: Colour) -> Text {
    Text { text: text.into(), at, size: TICK_SIZE, weight: Weight::Regular, anchor: Anchor::Start, colour, turned: 0.0, rim: false }
}

/// The name of a series at the end of its line.
pub(super) struct EndLabel {
    text: String,
    colour: Colour,
    line_end: (f64, f64),
    /// Vertical middle of the label, after it moved away from others.
    y: f64,
}

/// Width of the labels at the ends of a panel's lines, with the space around them.
pub(super) fn end_labels_width(panel: &Panel, font: &Font) -> f64 {
    const SPACE: f64 = END_LABEL_GAP + END_LABEL_MARGIN;
    panel.series.iter().map(|series| font.width(&series.name, TICK_SIZE, Weight::Regular) + SPACE).fold(0.0, f64::max)
}

/// Labels the lines of a panel at their ends. Labels that would touch are moved apart.
pub(super) fn place_end_labels(panel: &Panel, styles: &SeriesStyles, area: Area, place: impl Fn(f64, f64) -> (f64, f64)) -> Vec<EndLabel> {
    let mut labels: Vec<EndLabel> = Vec::new();
    for series in &panel.series {
        let Some(last) = series.points.last() else { continue };
        let end = place(last.x, last.y);
        let line_end = (end.0.min(area.right), end.1.clamp(area.top, area.bottom));
        let colour = if series.form == Form::Bound { BLACK } else { styles.style_of(series).colour() };
        labels.push(EndLabel { text: series.name.clone(), colour, line_end, y: line_end.1 });
    }
    labels.sort_by(|a, b| a.line_end.1.total_cmp(&b.line_end.1));
    let line_height = LEADING * TICK_SIZE;
    let mut index = 0;
    for (middle, count) in pool_touching(&labels, line_height) {
        for number in 0..count {
            labels[index].y = middle + (number as f64 - 0.5 * (count - 1) as f64) * line_height;
            index += 1;
        }
    }
    labels
}

/// Pools adjacent labels into blocks, each around the mean of its lines' ends, until no blocks
/// touch: the pool-adjacent-violators algorithm of isotonic regression. Returns the middle and the
/// number of labels of each block. `labels` are sorted by the ends of their lines.
fn pool_touching(labels: &[EndLabel], line_height: f64) -> Vec<(f64, usize)> {
    let mut blocks: Vec<(f64, usize)> = Vec::new();
    for label in labels {
        let mut block = (label.line_end.1, 1);
        while let Some(above) = blocks.last().copied() {
            if block.0 - above.0 >= 0.5 * line_height * (block.1 + above.1) as f64 {
                break;
            }
            blocks.pop();
            let count = block.1 + above.1;
            block = ((block.0 * block.1 as f64 + above.0 * above.1 as f64) / count as f64, count);
        }
        blocks.push(block);
    }
    blocks
}

/// True if there are few labels, each close to the end of its line.
pub(super) fn end_labels_fit(labels: &[EndLabel]) -> bool {
    labels.len() <= END_LABELS_MAX && labels.iter().all(|label| (label.y - label.line_end.1).abs() <= END_LABEL_SHIFT_MAX)
}

pub(super) fn draw_end_labels(scene: &mut Scene, labels: &[EndLabel], area: Area) {
    for EndLabel { text, colour, line_end, y } in labels {
        let left = area.right + END_LABEL_GAP;
        if (y - line_end.1).abs() > UNCONNECTED_SHIFT_MAX {
            scene.line(vec![(line_end.0 + 3.5, line_end.1), (left - 1.5, *y)], Stroke::solid(*colour, 0.5), None);
        }
        scene.text(label(text, (left, y + 0.5 * CAP_HEIGHT * TICK_SIZE), *colour));
    }
}

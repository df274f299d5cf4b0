//! Drawing inside the axes: bands, bars, lines, markers, grids, and reference lines.

use super::axis::{FAR_FROM_ZERO, Scale};
use super::font::{Font, Weight};
use super::legend::{SeriesStyles, bound_stroke};
use super::panel::{Form, Grid, Panel, Point, Series, Spread};
use super::scene::{Anchor, Area, Coordinates, Scene, Stroke, Text, WHITE};
use super::style::{ALARM, CAP_HEIGHT, INK, MUTED, REFERENCE_DASHES, SeriesStyle, TICK_SIZE, shade, text_colour_on};
use super::ticks::{Quantity, ticks};

/// Lines with more points have markers on some of them only.
const MARKED_POINTS: usize = 20;
/// Cells of a grid below this size, in points, have no edges, and alarming ones no cross: these
/// would hide their colour.
const SMALL_CELL: f64 = 3.0;
/// Lines with more points have bands instead of whiskers.
const WHISKERED_POINTS: usize = 12;
/// Share of a category's width that its bars take.
const BARS_SHARE: f64 = 0.78;

/// A panel in place.
pub(super) struct Frame<'a> {
    pub(super) panel: &'a Panel,
    pub(super) area: Area,
    pub(super) x: Scale,
    pub(super) y: Scale,
}

impl Frame<'_> {
    pub(super) fn place(&self, x: f64, y: f64) -> Coordinates {
        (self.x.place(x), self.y.place(y))
    }

    /// The clip area, if data extends beyond an axis. Otherwise `None`, since clips cost bytes.
    fn clip(&self) -> Option<Area> {
        let outside = |point: &Point| !self.area.holds(self.place(point.x, point.y));
        let any = self.panel.series.iter().flat_map(|series| &series.points).any(outside);
        any.then_some(self.area)
    }

    pub(super) fn draw(&self, scene: &mut Scene, styles: &SeriesStyles, font: &Font) {
        let clip = self.clip();
        self.draw_bars(scene, styles);
        let lines = || self.panel.series.iter().filter(|series| matches!(series.form, Form::Line | Form::Steps | Form::Bound));
        for series in lines().filter(|series| is_banded(series)) {
            self.draw_band(scene, series, styles.style_of(series), clip);
        }
        self.draw_references(scene);
        for series in lines() {
            let style = styles.style_of(series);
            let stroke = match series.form {
                Form::Bound => bound_stroke(),
                Form::Steps => style.dashed(),
                _ => style.line(),
            };
            scene.line(self.path(series, |point| self.y.place(point.y)), stroke, clip);
            if !is_banded(series) {
                series.points.iter().for_each(|point| self.draw_whisker(scene, point.x, point, 2.2, Stroke::solid(stroke.colour, 0.9)));
            }
            if series.form == Form::Line {
                self.draw_markers(scene, series, style);
            }
        }
        self.label_references(scene, font);
    }

    /// A line through a series, at the positions that `height` gives for its points.
    fn path(&self, series: &Series, height: impl Fn(&Point) -> f64) -> Vec<Coordinates> {
        let mut path: Vec<Coordinates> = Vec::new();
        for point in &series.points {
            let place = (self.x.place(point.x), height(point));
            if let Some(&last) = path.last().filter(|_| series.form == Form::Steps) {
                path.push((place.0, last.1));
            }
            path.push(place);
        }
        path
    }

    fn draw_markers(&self, scene: &mut Scene, series: &Series, style: SeriesStyle) {
        let count = series.points.len();
        let every = if count > MARKED_POINTS { count.div_ceil(10) } else { 1 };
        // Series of many points put their markers at different ones, so that markers of close lines
        // don't overlap.
        let first = if every > 1 { style.0 * every / 4 % every } else { 0 };
        for point in series.points.iter().skip(first).step_by(every) {
            let place = self.place(point.x, point.y);
            if self.area.holds(place) {
                style.mark(scene, place);
            }
        }
    }

    fn ends(&self, point: &Point) -> Option<(f64, f64)> {
        let (low, high) = point.within?;
        // On a logarithmic axis, an interval that reaches zero extends to the end of the axis.
        let place = |value: f64| {
            let value = if self.y.log && value <= 0.0 { self.y.low } else { value };
            self.y.place(value).clamp(self.area.top, self.area.bottom)
        };
        Some((place(low), place(high)))
    }

    fn draw_whisker(&self, scene: &mut Scene, x: f64, point: &Point, cap: f64, stroke: Stroke) {
        let x = self.x.place(x);
        let Some((low, high)) = self.ends(point) else { return };
        if self.area.holds((x, self.area.top)) && (low - high).abs() > 0.05 {
            scene.segments(&[((x, low), (x, high)), ((x - cap, low), (x + cap, low)), ((x - cap, high), (x + cap, high))], stroke);
        }
    }

    fn draw_band(&self, scene: &mut Scene, series: &Series, style: SeriesStyle, clip: Option<Area>) {
        let ends = |point: &Point| self.ends(point).unwrap_or_else(|| (self.y.place(point.y), self.y.place(point.y)));
        let mut outline = self.path(series, |point| ends(point).0);
        outline.extend(self.path(series, |point| ends(point).1).into_iter().rev());
        scene.polygon(outline, Some((style.colour(), 0.2)), None, clip);
    }

    fn draw_bars(&self, scene: &mut Scene, styles: &SeriesStyles) {
        let side_by_side: Vec<&Series> = self.panel.series.iter().filter(|series| series.form == Form::Bars).collect();
        let stacks = self.panel.stacked();
        // A stack takes one more slot after the bars.
        let slots = side_by_side.len() + usize::from(!stacks.is_empty());
        if slots == 0 {
            return;
        }
        // A single bar per category would be too wide.
        let width = (BARS_SHARE / slots as f64).min(0.5);
        let left = |category: f64, slot: usize| category + width * (slot as f64 - 0.5 * slots as f64);
        let ground = if self.y.log { self.y.low } else { 0.0_f64.clamp(self.y.low, self.y.high) };
        let bar = |category: f64, slot: usize, from: f64, to: f64| {
            let (from, to) = (self.y.place(from), self.y.place(to));
            let clamp = |y: f64| y.clamp(self.area.top, self.area.bottom);
            let (left, right) = (self.x.place(left(category, slot)), self.x.place(left(category, slot + 1)));
            Area { left: left + 0.5, right: right - 0.5, top: clamp(from.min(to)), bottom: clamp(from.max(to)) }
        };
        for (slot, series) in side_by_side.iter().enumerate() {
            for point in &series.points {
                styles.style_of(series).bar(scene, bar(point.x, slot, ground, point.y));
                let middle = left(point.x, slot) + 0.5 * width;
                self.draw_whisker(scene, middle, point, 2.0, Stroke::solid(WHITE, 2.2));
                self.draw_whisker(scene, middle, point, 2.0, Stroke::solid(INK, 0.9));
            }
        }
        for (series, pieces) in &stacks {
            for (point, &(from, to)) in series.points.iter().zip(pieces) {
                styles.style_of(series).bar(scene, bar(point.x, slots - 1, from, to));
            }
        }
    }

    fn draw_references(&self, scene: &mut Scene) {
        for line in &self.panel.references {
            let (from, to) = self.across(line.upright, line.value);
            scene.segment(from, to, Stroke { colour: INK, width: 1.0, dashes: REFERENCE_DASHES });
        }
    }

    fn across(&self, upright: bool, value: f64) -> (Coordinates, Coordinates) {
        if upright {
            let x = self.x.place(value);
            ((x, self.area.top), (x, self.area.bottom))
        } else {
            let y = self.y.place(value);
            ((self.area.left, y), (self.area.right, y))
        }
    }

    /// Places each label along its line, where it covers the least of what is drawn.
    fn label_references(&self, scene: &mut Scene, font: &Font) {
        let mut taken = self.obstacles();
        for line in &self.panel.references {
            let (from, _) = self.across(line.upright, line.value);
            let (width, height) = (font.width(&line.label, TICK_SIZE, Weight::Regular), CAP_HEIGHT * TICK_SIZE);
            let mut best: Option<(usize, Area)> = None;
            for step in 0..=10 {
                let part = f64::from(step) / 10.0;
                for side in [true, false] {
                    let (left, bottom) = if line.upright {
                        let top = self.area.top + 3.0 + part * (self.area.height() - height - 6.0);
                        (if side { from.0 + 4.0 } else { from.0 - 4.0 - width }, top + height)
                    } else {
                        let right = self.area.right - 4.0 - part * (self.area.width() - width - 8.0);
                        (right - width, if side { from.1 - 3.5 } else { from.1 + 3.5 + height })
                    };
                    let area = Area { left, top: bottom - height, right: left + width, bottom };
                    let inside = self.area.grown(0.5).holds((area.left, area.top)) && self.area.grown(0.5).holds((area.right, area.bottom));
                    let around = area.grown(2.0);
                    // A label outside the axes is worse than any overlap.
                    let covered =
                        taken.iter().filter(|&&(from, to)| around.part_of(from, to).is_some()).count() + if inside { 0 } else { 1_000 };
                    if best.is_none_or(|(least, _)| covered < least) {
                        best = Some((covered, area));
                    }
                }
            }
            let Some((_, area)) = best else { continue };
            let corners = area.corners();
            taken.extend([(corners[0], corners[2]), (corners[1], corners[3]), (corners[0], corners[1]), (corners[3], corners[2])]);
            let at = (area.left, area.bottom);
            let text = line.label.clone();
            scene.text(Text {
                text,
                at,
                size: TICK_SIZE,
                weight: Weight::Regular,
                anchor: Anchor::Start,
                colour: INK,
                turned: 0.0,
                rim: true,
            });
        }
    }

    /// Everything drawn, as line segments.
    fn obstacles(&self) -> Vec<(Coordinates, Coordinates)> {
        let mut segments: Vec<(Coordinates, Coordinates)> = Vec::new();
        for series in &self.panel.series {
            if matches!(series.form, Form::Bars | Form::Stack) {
                // From the axis to the top of the bar, across the category. A piece of a stack
                // counts as if it began at the axis.
                for point in &series.points {
                    let top = self.y.place(point.within.map_or(point.y, |ends| ends.1));
                    for part in [-0.35, -0.15, 0.0, 0.15, 0.35] {
                        let x = self.x.place(point.x + part);
                        segments.push(((x, self.area.bottom), (x, top)));
                    }
                }
                continue;
            }
            let path = self.path(series, |point| self.y.place(point.y));
            segments.extend(path.windows(2).map(|pair| (pair[0], pair[1])));
            for point in &series.points {
                if let Some((low, high)) = self.ends(point) {
                    let x = self.x.place(point.x);
                    segments.push(((x, low), (x, high)));
                }
            }
        }
        for line in &self.panel.references {
            segments.push(self.across(line.upright, line.value));
        }
        segments
    }
}

fn is_banded(series: &Series) -> bool {
    let known = series.points.iter().any(|point| point.within.is_some());
    known && series.spread.map_or(series.points.len() > WHISKERED_POINTS || series.form == Form::Steps, |spread| spread == Spread::Band)
}

/// The shades of a grid.
pub(super) struct Shades<'a> {
    grid: &'a Grid,
    low: f64,
    high: f64,
}

impl<'a> Shades<'a> {
    pub(super) fn of(grid: &'a Grid) -> Result<Self, super::PlotError> {
        let values = || grid.values.iter().flatten().flatten().copied();
        let (low, high) = values().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        let from_zero = !grid.measure.log && low >= 0.0 && low < FAR_FROM_ZERO * high;
        let low = grid.measure.low.unwrap_or(if from_zero { 0.0 } else { low });
        let high = grid.measure.high.unwrap_or(high);
        // A single value gets a range around it.
        let (low, high) = if low < high { (low, high) } else { grid.measure.range([low].into_iter(), false, false)? };
        Ok(Self { grid, low, high })
    }

    fn scale(&self, start: f64, end: f64) -> Scale {
        Scale { low: self.low, high: self.high, log: self.grid.measure.log, start, end }
    }

    fn labels(&self, height: f64) -> Vec<(f64, String)> {
        let most = (height / (2.2 * TICK_SIZE)).max(2.0) as usize;
        ticks(&self.grid.measure.quantity, self.grid.measure.log, (self.low, self.high), |ticks| ticks.len() <= most.min(7)).major
    }

    /// Width of the scale next to the grid.
    pub(super) fn width(&self, font: &Font, height: f64) -> f64 {
        let labels = self.labels(height);
        let widest = labels.iter().map(|label| font.width(&label.1, TICK_SIZE, Weight::Regular)).fold(0.0, f64::max);
        8.0 + 8.0 + 5.0 + widest + 5.0 + super::style::LABEL_SIZE * CAP_HEIGHT + 2.0
    }

    pub(super) fn draw(&self, scene: &mut Scene, font: &Font, area: Area) {
        let (rows, columns) = (self.grid.values.len(), self.grid.values.first().map_or(0, Vec::len));
        let (width, height) = (area.width() / columns as f64, area.height() / rows as f64);
        let parts = self.scale(0.0, 1.0);
        let decimals = usize::from(self.grid.values.iter().flatten().flatten().any(|value| *value != value.trunc()));
        let number = |value: f64| match self.grid.measure.quantity {
            Quantity::Share => format!("{:.0}", 100.0 * value),
            _ => format!("{value:.decimals$}"),
        };
        let widest = self.grid.values.iter().flatten().flatten().map(|&value| font.width(&number(value), TICK_SIZE - 1.0, Weight::Regular));
        let numbered = widest.fold(0.0, f64::max) + 4.0 <= width
            && TICK_SIZE <= height
            && matches!(self.grid.measure.quantity, Quantity::Number | Quantity::Share);
        for (row, values) in self.grid.values.iter().enumerate() {
            for (column, value) in values.iter().enumerate() {
                let left = area.left + column as f64 * width;
                let bottom = area.bottom - row as f64 * height;
                let cell = Area { left, right: left + width, top: bottom - height, bottom };
                let is_small = width.min(height) < SMALL_CELL;
                let edge = (!is_small).then(|| Stroke::solid(WHITE, 0.6));
                // Without edges, cells overlap, so that no seams show.
                let cell = if is_small { cell.grown(0.2) } else { cell };
                let Some(value) = *value else {
                    draw_missing(scene, cell, self.grid.alarming);
                    continue;
                };
                let part = parts.place(value).clamp(0.0, 1.0);
                scene.rectangle(cell, Some(shade(part)), edge);
                if numbered {
                    let at = (left + 0.5 * width, bottom - 0.5 * height + 0.5 * CAP_HEIGHT * (TICK_SIZE - 1.0));
                    let (size, weight, colour) = (TICK_SIZE - 1.0, Weight::Regular, text_colour_on(part));
                    scene.text(Text { text: number(value), at, size, weight, anchor: Anchor::Middle, colour, turned: 0.0, rim: false });
                }
            }
        }
        self.draw_scale(scene, font, area);
    }

    fn draw_scale(&self, scene: &mut Scene, font: &Font, area: Area) {
        const STRIPES: u32 = 64;
        let (left, right) = (area.right + 8.0, area.right + 16.0);
        for stripe in 0..STRIPES {
            let (from, to) = (f64::from(stripe) / f64::from(STRIPES), f64::from(stripe + 1) / f64::from(STRIPES));
            let bottom = area.bottom - from * area.height();
            // Stripes overlap, so that no seam shows.
            let top = (area.bottom - to * area.height() - 0.4).max(area.top);
            scene.rectangle(Area { left, top, right, bottom }, Some(shade(0.5 * (from + to))), None);
        }
        let scale = self.scale(area.bottom, area.top);
        let mut widest: f64 = 0.0;
        for (value, text) in self.labels(area.height()) {
            let y = scale.place(value);
            scene.segment((right, y), (right + 3.0, y), Stroke::solid(INK, 0.7));
            widest = widest.max(font.width(&text, TICK_SIZE, Weight::Regular));
            let at = (right + 5.0, y + 0.5 * CAP_HEIGHT * TICK_SIZE);
            scene.text(Text {
                text,
                at,
                size: TICK_SIZE,
                weight: Weight::Regular,
                anchor: Anchor::Start,
                colour: INK,
                turned: 0.0,
                rim: false,
            });
        }
        let size = super::style::LABEL_SIZE;
        let at = (right + 5.0 + widest + 5.0 + size * CAP_HEIGHT, 0.5 * (area.top + area.bottom));
        let text = self.grid.measure.title.clone();
        scene.text(Text { text, at, size, weight: Weight::Regular, anchor: Anchor::Middle, colour: INK, turned: -90.0, rim: false });
    }
}

/// Crosses out a cell without a value, so that it can't be mistaken for a shade.
fn draw_missing(scene: &mut Scene, cell: Area, alarming: bool) {
    let size = cell.width().min(cell.height());
    let cross = |scene: &mut Scene, margin: f64, stroke| {
        let corners = cell.grown(-margin * size).corners();
        scene.segments(&[(corners[0], corners[2]), (corners[1], corners[3])], stroke);
    };
    if alarming {
        scene.rectangle(cell, Some(ALARM), None);
        if size >= SMALL_CELL {
            cross(scene, 0.2, Stroke::solid(WHITE, 0.12 * size));
        }
    } else {
        cross(scene, 0.3, Stroke::solid(MUTED, 0.5));
    }
}

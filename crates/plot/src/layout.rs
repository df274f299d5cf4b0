//! Layout of a figure into a scene: measures the labels, gives them room, and leaves the rest to
//! the axes.
//!
//! ```text
//! title ..................................................
//! names of series ........................................
//!          (a) panel's title            (b) panel's title
//!  y  100 |                         100 |                  name at its line's end
//!  t   50 |      axes                50 |      axes
//!  i    0 +----------------           0 +----------------
//!         0       50     100            0       50     100
//!               x title                       x title
//! ```

use super::axis::Scale;
use super::font::{Font, Weight};
use super::legend::{self, SeriesStyles};
use super::marks::{Frame, Shades};
use super::panel::{Form, Panel};
use super::scene::{Anchor, Area, Coordinates, Scene, Stroke, Text};
use super::style::{CAP_HEIGHT, FAINT, INK, LABEL_SIZE, LEADING, TICK_SIZE, TITLE_SIZE};
use super::ticks::{Ticks, ticks};
use super::{Figure, PlotError};

/// Default width of a figure with one panel, and with more.
const WIDTH_SINGLE: f64 = 340.0;
const WIDTH_SEVERAL: f64 = 504.0;
/// Default height of the axes, by the number of panels: one to three.
const PLOT_HEIGHTS: [f64; 4] = [0.0, 175.0, 150.0, 130.0];
/// Empty margin around a figure.
const FIGURE_MARGIN: f64 = 6.0;
/// Horizontal gap between panels.
const PANEL_GAP: f64 = 12.0;
const TICK_LENGTH: f64 = 3.5;
const SLANT_DEGREES: f64 = -35.0;
/// Least width and height of the axes.
const AXES_SIZE_MIN: f64 = 40.0;

pub(super) fn scene(figure: &Figure, font: &Font) -> Result<Scene, PlotError> {
    if !(1..=3).contains(&figure.panels.len()) {
        return Err(PlotError::Panels { found: figure.panels.len() });
    }
    figure.panels.iter().try_for_each(Panel::check)?;
    let styles = SeriesStyles::of(figure);
    let layout = |labels_at_ends: bool| Layout::fitted(figure, font, &styles, labels_at_ends);
    // Names of series go to the ends of lines if they fit there, otherwise above the panels.
    let chosen = match layout(true) {
        Ok(layout) if layout.labels_fit_at_ends() => layout,
        _ => layout(false)?,
    };
    Ok(chosen.draw())
}

/// All sizes, computed before drawing.
struct Layout<'a> {
    figure: &'a Figure,
    font: &'a Font,
    styles: &'a SeriesStyles,
    labels_at_ends: bool,
    width: f64,
    height: f64,
    title: Vec<String>,
    rows: Vec<Vec<usize>>,
    cells: Vec<Cell<'a>>,
}

/// A panel with its ticks and its position.
struct Cell<'a> {
    frame: Frame<'a>,
    x_ticks: Ticks,
    y_ticks: Ticks,
    x_labels: XLabels,
    x_height: f64,
    x_title: Vec<String>,
    y_title: Vec<String>,
    /// False if the axis of the left panel also applies to this one.
    has_y: bool,
    left_room: f64,
    shades: Option<Shades<'a>>,
}

/// How labels are placed under the horizontal axis.
enum XLabels {
    /// Horizontal, on up to three lines.
    Level(Vec<Vec<String>>),
    /// Slanted, if a word is wider than its room or a label needs more lines.
    Slanted,
}

/// Extra room for labels that extend beyond their panels.
#[derive(Debug, Clone, Copy, Default)]
struct Room {
    left: f64,
    between: f64,
    right: f64,
}

impl<'a> Layout<'a> {
    /// A layout in which no label is cut off or touches another. Labels can only be measured once
    /// they are placed, so labels that extend too far require another try, at most two.
    fn fitted(figure: &'a Figure, font: &'a Font, styles: &'a SeriesStyles, labels_at_ends: bool) -> Result<Self, PlotError> {
        let mut room = Room::default();
        let mut layout = Self::new(figure, font, styles, labels_at_ends, room)?;
        for _ in 0..2 {
            let more = layout.missing_room();
            if more.left.max(more.between).max(more.right) <= 0.0 {
                break;
            }
            room = Room { left: room.left + more.left, between: room.between + more.between, right: room.right + more.right };
            layout = Self::new(figure, font, styles, labels_at_ends, room)?;
        }
        Ok(layout)
    }

    /// How far labels extend beyond their room.
    fn missing_room(&self) -> Room {
        let ends: Vec<(f64, f64)> = self.cells.iter().map(|cell| cell.x_extent(self.font)).collect();
        let between = ends.windows(2).map(|pair| pair[0].1 + 5.0 - pair[1].0).fold(0.0, f64::max);
        let left = ends.first().map_or(0.0, |ends| 2.0 - ends.0).max(0.0);
        let right = ends.last().map_or(0.0, |ends| ends.1 + 2.0 - self.width).max(0.0);
        Room { left, between, right }
    }

    fn new(figure: &'a Figure, font: &'a Font, styles: &'a SeriesStyles, labels_at_ends: bool, room: Room) -> Result<Self, PlotError> {
        let count = figure.panels.len();
        let width = figure.width.unwrap_or(if count == 1 { WIDTH_SINGLE } else { WIDTH_SEVERAL });
        let plot_height = figure.plot_height.unwrap_or(PLOT_HEIGHTS[count]).max(AXES_SIZE_MIN);
        let ranges = ranges(figure)?;

        let title = font.balanced(&figure.title, TITLE_SIZE, Weight::Bold, width - 2.0 * FIGURE_MARGIN);
        let rows = if labels_at_ends || is_plain(figure) { Vec::new() } else { styles.rows(font, width - 2.0 * FIGURE_MARGIN) };
        let has_titles = figure.panels.iter().any(|panel| !panel.title.is_empty());
        let above = FIGURE_MARGIN
            + if title.is_empty() { 0.0 } else { title.len() as f64 * TITLE_SIZE * LEADING + 5.0 }
            + legend::height(rows.len())
            + if has_titles { LABEL_SIZE * LEADING + 4.0 } else { 0.0 };
        // The uppermost tick label may extend half its height above the axes.
        let top = above + 0.5 * TICK_SIZE;
        let bottom = top + plot_height;

        let mut sides = Vec::new();
        for (at, (panel, [_, y_range])) in figure.panels.iter().zip(&ranges).enumerate() {
            let has_y = at == 0 || !figure.one_scale;
            let scale = Scale { low: y_range.0, high: y_range.1, log: panel.y.log, start: bottom, end: top };
            let y_ticks = vertical_ticks(panel, &scale);
            let y_title = if has_y { font.balanced(&panel.y.title, LABEL_SIZE, Weight::Regular, plot_height + 20.0) } else { Vec::new() };
            let widest = y_ticks.major.iter().map(|tick| font.width(&tick.1, TICK_SIZE, Weight::Regular)).fold(0.0, f64::max);
            let title_room = if y_title.is_empty() { 0.0 } else { y_title.len() as f64 * LABEL_SIZE * LEADING + 4.0 };
            let left = if has_y { title_room + widest + TICK_LENGTH + 2.5 } else { 0.0 };
            let shades = panel.grid.as_ref().map(Shades::of).transpose()?;
            let right = match &shades {
                Some(shades) => shades.width(font, plot_height),
                None if labels_at_ends => legend::end_labels_width(panel, font),
                None => 0.0,
            };
            sides.push((scale, y_ticks, y_title, has_y, left, right, shades));
        }
        let between = PANEL_GAP + room.between;
        let taken: f64 = sides.iter().map(|side| side.4 + side.5).sum();
        let plot_width = (width - 2.0 * FIGURE_MARGIN - between * (count - 1) as f64 - taken - room.left - room.right) / count as f64;
        if plot_width < AXES_SIZE_MIN {
            return Err(PlotError::Narrow { width, left: plot_width });
        }

        let mut cells = Vec::new();
        let mut left = FIGURE_MARGIN + room.left;
        let mut lowest: f64 = 0.0;
        for ((panel, [x_range, _]), (y, y_ticks, y_title, has_y, left_room, right_room, shades)) in
            figure.panels.iter().zip(&ranges).zip(sides)
        {
            left += left_room;
            let area = Area { left, top, right: left + plot_width, bottom };
            left += plot_width + right_room + between;
            let x = Scale { low: x_range.0, high: x_range.1, log: panel.x.log, start: area.left, end: area.right };
            let (x_ticks, x_labels, x_height) = horizontal_ticks(panel, &x, font);
            let x_title = font.balanced(&panel.x.title, LABEL_SIZE, Weight::Regular, plot_width + left_room);
            let title_height = if x_title.is_empty() { 0.0 } else { x_title.len() as f64 * LABEL_SIZE * LEADING + 2.0 };
            lowest = lowest.max(TICK_LENGTH + 2.0 + x_height + title_height);
            let frame = Frame { panel, area, x, y };
            cells.push(Cell { frame, x_ticks, y_ticks, x_labels, x_height, x_title, y_title, has_y, left_room, shades });
        }
        let height = bottom + lowest + FIGURE_MARGIN;
        Ok(Self { figure, font, styles, labels_at_ends, width, height, title, rows, cells })
    }

    /// True if a single panel has a few lines that end apart, and enough room.
    fn labels_fit_at_ends(&self) -> bool {
        let [cell] = self.cells.as_slice() else { return false };
        let panel = cell.frame.panel;
        let lines = panel.series.iter().all(|series| matches!(series.form, Form::Line | Form::Bound));
        let has_room = cell.frame.area.width() > 0.55 * self.width;
        // All lines must reach the right end, where their names are.
        let area = cell.frame.area;
        let reach = |series: &super::Series| {
            series.points.last().is_some_and(|last| cell.frame.place(last.x, last.y).0 > area.right - 0.12 * area.width())
        };
        lines && has_room && panel.series.len() > 1 && panel.series.iter().all(reach) && legend::end_labels_fit(&self.end_labels(cell))
    }

    fn end_labels(&self, cell: &Cell<'_>) -> Vec<legend::EndLabel> {
        legend::place_end_labels(cell.frame.panel, self.styles, cell.frame.area, |x, y| cell.frame.place(x, y))
    }

    fn draw(&self) -> Scene {
        let mut scene = Scene { title: self.figure.title.clone(), width: self.width, height: self.height, items: Vec::new() };
        let mut top = FIGURE_MARGIN;
        for line in &self.title {
            scene.text(text(line, (FIGURE_MARGIN, top + TITLE_SIZE), TITLE_SIZE, Weight::Bold, Anchor::Start));
            top += TITLE_SIZE * LEADING;
        }
        if !self.title.is_empty() {
            top += 5.0;
        }
        let area = Area { left: FIGURE_MARGIN, top, right: self.width - FIGURE_MARGIN, bottom: top + legend::height(self.rows.len()) };
        self.styles.draw_rows(&mut scene, self.font, &self.rows, area);
        for cell in &self.cells {
            cell.draw(&mut scene, self.styles, self.font);
            if self.labels_at_ends && cell.shades.is_none() {
                legend::draw_end_labels(&mut scene, &self.end_labels(cell), cell.frame.area);
            }
        }
        scene
    }
}

/// The ranges of all panels' axes, with a common vertical range if the figure has one scale.
fn ranges(figure: &Figure) -> Result<Vec<[(f64, f64); 2]>, PlotError> {
    let mut ranges: Vec<[(f64, f64); 2]> = figure.panels.iter().map(Panel::ranges).collect::<Result<_, _>>()?;
    if figure.one_scale {
        let low = ranges.iter().map(|range| range[1].0).fold(f64::INFINITY, f64::min);
        let high = ranges.iter().map(|range| range[1].1).fold(f64::NEG_INFINITY, f64::max);
        ranges.iter_mut().for_each(|range| range[1] = (low, high));
    }
    Ok(ranges)
}

/// True for a figure of one unnamed series, which needs no legend.
fn is_plain(figure: &Figure) -> bool {
    let [panel] = figure.panels.as_slice() else { return false };
    let [series] = panel.series.as_slice() else { return panel.series.is_empty() };
    series.name.is_empty()
}

fn vertical_ticks(panel: &Panel, scale: &Scale) -> Ticks {
    let apart = if panel.grid.is_some() { 1.15 } else { 1.9 } * TICK_SIZE;
    let most = if panel.grid.is_some() { 40 } else { 8 };
    let fits = |ticks: &[(f64, String)]| {
        let close = ticks.windows(2).any(|pair| (scale.place(pair[0].0) - scale.place(pair[1].0)).abs() < apart);
        ticks.len() <= most && !close
    };
    ticks(&panel.y.quantity, panel.y.log, (scale.low, scale.high), fits)
}

/// The ticks, the placement of their labels, and the labels' height.
fn horizontal_ticks(panel: &Panel, scale: &Scale, font: &Font) -> (Ticks, XLabels, f64) {
    let width = |label: &str| font.width(label, TICK_SIZE, Weight::Regular);
    let no_overlap = |ticks: &[(f64, String)], gap: f64| {
        let ends = |tick: &(f64, String)| (scale.place(tick.0) - 0.5 * width(&tick.1), scale.place(tick.0) + 0.5 * width(&tick.1));
        ticks.windows(2).all(|pair| ends(&pair[0]).1 + gap <= ends(&pair[1]).0)
    };
    let range = (scale.low, scale.high);
    let line = TICK_SIZE * LEADING;
    let Some(names) = panel.x.names().filter(|_| panel.has_bars()) else {
        let gap = if panel.grid.is_some() { 2.5 } else { 7.0 };
        let most = if panel.grid.is_some() { 40 } else { 9 };
        let ticks = ticks(&panel.x.quantity, panel.x.log, range, |ticks| ticks.len() <= most && no_overlap(ticks, gap));
        let labels = ticks.major.iter().map(|tick| vec![tick.1.clone()]).collect();
        return (ticks, XLabels::Level(labels), line);
    };
    // Every bar needs its name, so no label is dropped: they are wrapped, or slanted.
    let all = ticks(&panel.x.quantity, false, range, |_| true);
    let room = (scale.end - scale.start) / names.len() as f64 - 4.0;
    let broken: Vec<Vec<String>> = names.iter().map(|name| font.wrapped(name, TICK_SIZE, Weight::Regular, room)).collect();
    let lines = broken.iter().map(Vec::len).max().unwrap_or(0);
    if lines <= 3 && broken.iter().flatten().all(|part| width(part) <= room) {
        return (all, XLabels::Level(broken), line * lines as f64);
    }
    let longest = names.iter().map(|name| width(name)).fold(0.0, f64::max);
    let sine = libm::sin(-SLANT_DEGREES * std::f64::consts::PI / 180.0);
    (all, XLabels::Slanted, longest * sine + line)
}

impl Cell<'_> {
    /// The horizontal extent of the axes and the labels under them.
    fn x_extent(&self, font: &Font) -> (f64, f64) {
        let area = self.frame.area;
        let texts: Vec<Vec<&String>> = match &self.x_labels {
            XLabels::Level(labels) => labels.iter().map(|lines| lines.iter().collect()).collect(),
            XLabels::Slanted => self.x_ticks.major.iter().map(|tick| vec![&tick.1]).collect(),
        };
        let mut ends = (area.left, area.right);
        for ((value, _), lines) in self.x_ticks.major.iter().zip(texts) {
            let x = self.frame.x.place(*value);
            let width = lines.iter().map(|line| font.width(line, TICK_SIZE, Weight::Regular)).fold(0.0, f64::max);
            let (left, right) = match &self.x_labels {
                XLabels::Level(_) => (x - 0.5 * width, x + 0.5 * width),
                XLabels::Slanted => (x - width * libm::cos(SLANT_DEGREES * std::f64::consts::PI / 180.0), x + 0.5 * TICK_SIZE),
            };
            ends = (ends.0.min(left), ends.1.max(right));
        }
        ends
    }

    fn draw(&self, scene: &mut Scene, styles: &SeriesStyles, font: &Font) {
        let area = self.frame.area;
        if let Some(shades) = &self.shades {
            shades.draw(scene, font, area);
        } else {
            self.draw_grid_lines(scene);
            self.frame.draw(scene, styles, font);
            let axis = Stroke::solid(INK, 0.8);
            scene.line(vec![(area.left, area.top), (area.left, area.bottom), (area.right, area.bottom)], axis, None);
        }
        self.draw_x_axis(scene);
        self.draw_y_axis(scene);
        let title = text(&self.frame.panel.title, (area.left, area.top - 5.0 - 0.5 * TICK_SIZE), LABEL_SIZE, Weight::Bold, Anchor::Start);
        scene.text(title);
    }

    fn draw_grid_lines(&self, scene: &mut Scene) {
        let area = self.frame.area;
        let faint = Stroke::solid(FAINT, 0.6);
        let levels = self.y_ticks.major.iter().map(|tick| self.frame.y.place(tick.0)).filter(|&y| y < area.bottom - 0.5);
        scene.segments(&levels.map(|y| ((area.left, y), (area.right, y))).collect::<Vec<_>>(), faint);
        if self.frame.panel.x.names().is_none() {
            let places = self.x_ticks.major.iter().map(|tick| self.frame.x.place(tick.0)).filter(|&x| x > area.left + 0.5);
            scene.segments(&places.map(|x| ((x, area.top), (x, area.bottom))).collect::<Vec<_>>(), faint);
        }
    }

    fn draw_x_axis(&self, scene: &mut Scene) {
        let area = self.frame.area;
        let named = self.frame.panel.x.names().is_some();
        let bottom = area.bottom + if named { 1.0 } else { TICK_LENGTH };
        if !named {
            draw_ticks(scene, &self.x_ticks, &self.frame.x, |x, length| ((x, area.bottom), (x, area.bottom + length)));
        }
        match &self.x_labels {
            XLabels::Level(labels) => {
                for ((value, _), lines) in self.x_ticks.major.iter().zip(labels) {
                    let x = self.frame.x.place(*value);
                    for (number, label) in lines.iter().enumerate() {
                        let y = bottom + 2.0 + CAP_HEIGHT * TICK_SIZE + number as f64 * TICK_SIZE * LEADING;
                        scene.text(text(label, (x, y), TICK_SIZE, Weight::Regular, Anchor::Middle));
                    }
                }
            }
            XLabels::Slanted => {
                for (value, label) in &self.x_ticks.major {
                    let at: Coordinates = (self.frame.x.place(*value) + 2.0, bottom + 2.0 + CAP_HEIGHT * TICK_SIZE);
                    scene.text(Text { turned: SLANT_DEGREES, ..text(label, at, TICK_SIZE, Weight::Regular, Anchor::End) });
                }
            }
        }
        for (number, line) in self.x_title.iter().enumerate() {
            let y = bottom + 2.0 + self.x_height + 2.0 + LABEL_SIZE * (0.9 + number as f64 * LEADING);
            scene.text(text(line, (0.5 * (area.left + area.right), y), LABEL_SIZE, Weight::Regular, Anchor::Middle));
        }
    }

    fn draw_y_axis(&self, scene: &mut Scene) {
        let area = self.frame.area;
        if self.frame.panel.y.names().is_none() {
            draw_ticks(scene, &self.y_ticks, &self.frame.y, |y, length| ((area.left, y), (area.left - length, y)));
        }
        if !self.has_y {
            return;
        }
        for (value, label) in &self.y_ticks.major {
            let at = (area.left - TICK_LENGTH - 2.5, self.frame.y.place(*value) + 0.5 * CAP_HEIGHT * TICK_SIZE);
            scene.text(text(label, at, TICK_SIZE, Weight::Regular, Anchor::End));
        }
        for (number, line) in self.y_title.iter().enumerate() {
            let x = area.left - self.left_room + LABEL_SIZE * (0.85 + number as f64 * LEADING);
            let at = (x, 0.5 * (area.top + area.bottom));
            scene.text(Text { turned: -90.0, ..text(line, at, LABEL_SIZE, Weight::Regular, Anchor::Middle) });
        }
    }
}

/// `mark` gives the line of a tick at a position, of this length. Minor ticks are left out if they
/// would be too dense.
fn draw_ticks(scene: &mut Scene, ticks: &Ticks, scale: &Scale, mark: impl Fn(f64, f64) -> (Coordinates, Coordinates)) {
    let majors = ticks.major.iter().map(|tick| mark(scale.place(tick.0), TICK_LENGTH));
    scene.segments(&majors.collect::<Vec<_>>(), Stroke::solid(INK, 0.8));
    let apart = if scale.log { 1.0 } else { 3.0 };
    if !ticks.minor.windows(2).any(|pair| (scale.place(pair[0]) - scale.place(pair[1])).abs() < apart) {
        let minors = ticks.minor.iter().map(|&value| mark(scale.place(value), 0.55 * TICK_LENGTH));
        scene.segments(&minors.collect::<Vec<_>>(), Stroke::solid(INK, 0.5));
    }
}

fn text(text: &str, at: Coordinates, size: f64, weight: Weight, anchor: Anchor) -> Text {
    Text { text: text.into(), at, size, weight, anchor, colour: INK, turned: 0.0, rim: false }
}

//! The content of a panel: series of points, bars or a grid, and reference lines.

use super::PlotError;
use super::axis::Axis;

/// A point of a series, with its confidence interval if known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Position on the horizontal axis.
    pub x: f64,
    /// Its height.
    pub y: f64,
    /// The ends of its confidence interval.
    pub within: Option<(f64, f64)>,
}

impl Point {
    /// A point without an interval.
    #[must_use]
    pub fn new(x: f64, y: f64) -> Self {
        Self { x, y, within: None }
    }
}

impl From<(f64, f64)> for Point {
    fn from((x, y): (f64, f64)) -> Self {
        Self::new(x, y)
    }
}

/// The height of a bar, with its confidence interval if known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Height(pub(super) Point);

impl From<f64> for Height {
    fn from(height: f64) -> Self {
        Self(Point::new(0.0, height))
    }
}

impl From<Point> for Height {
    fn from(point: Point) -> Self {
        Self(point)
    }
}

/// How a confidence interval is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spread {
    /// A vertical line through each point.
    Whiskers,
    /// A shaded band along the line.
    Band,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Line,
    Steps,
    Bound,
    Bars,
    Stack,
}

/// A named series of points.
///
/// The same name has the same colour and marker in all panels of a figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub(super) name: String,
    pub(super) form: Form,
    pub(super) points: Vec<Point>,
    pub(super) spread: Option<Spread>,
}

impl Series {
    /// A line through points, with markers.
    #[must_use]
    pub fn line(name: &str, points: impl IntoIterator<Item = impl Into<Point>>) -> Self {
        Self { name: name.into(), form: Form::Line, points: points.into_iter().map(Into::into).collect(), spread: None }
    }

    /// Sets how confidence intervals are drawn. By default, lines of up to 12 points have whiskers;
    /// longer lines and steps have bands.
    #[must_use]
    pub fn spread(mut self, spread: Spread) -> Self {
        self.spread = Some(spread);
        self
    }
}

fn at_categories(heights: impl IntoIterator<Item = impl Into<Height>>) -> Vec<Point> {
    heights.into_iter().enumerate().map(|(at, height)| Point { x: at as f64, ..height.into().0 }).collect()
}

/// Values on a grid of columns and rows, drawn as shades with a scale next to them. Row 0 is at the
/// bottom.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    pub(super) measure: Axis,
    /// By rows; `None` is a cell without a value.
    pub(super) values: Vec<Vec<Option<f64>>>,
    /// Whether cells without a value stand out.
    pub(super) alarming: bool,
}

impl Grid {
    /// A grid of values by rows, from the lowest row up. `measure` is the axis of the shades.
    #[must_use]
    pub fn new(measure: Axis, rows: impl IntoIterator<Item = Vec<Option<f64>>>) -> Self {
        Self { measure, values: rows.into_iter().collect(), alarming: false }
    }

    /// Makes cells without a value stand out: a missing value is a loss. If all are missing, the
    /// measure needs both ends.
    #[must_use]
    pub fn alarming(mut self) -> Self {
        self.alarming = true;
        self
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reference {
    pub(super) upright: bool,
    pub(super) value: f64,
    pub(super) label: String,
}

/// A pair of axes and the content between them.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    pub(super) title: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) series: Vec<Series>,
    pub(super) references: Vec<Reference>,
    pub(super) grid: Option<Grid>,
}

impl Panel {
    /// An empty panel.
    #[must_use]
    pub fn new(x: Axis, y: Axis) -> Self {
        Self { title: String::new(), x, y, series: Vec::new(), references: Vec::new(), grid: None }
    }

    /// A panel of shades; the categories of the axes are its columns and rows.
    #[must_use]
    pub fn grid(columns: Axis, rows: Axis, grid: Grid) -> Self {
        Self { grid: Some(grid), ..Self::new(columns, rows) }
    }

    /// Adds a title above the panel, such as "(a) Typical".
    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        self.title = title.into();
        self
    }

    /// Adds a series.
    #[must_use]
    pub fn series(mut self, series: Series) -> Self {
        self.series.push(series);
        self
    }

    fn with(self, name: &str, form: Form, points: Vec<Point>) -> Self {
        self.series(Series { name: name.into(), form, points, spread: None })
    }

    /// Adds a line through points, with markers.
    #[must_use]
    pub fn line(self, name: &str, points: impl IntoIterator<Item = impl Into<Point>>) -> Self {
        self.series(Series::line(name, points))
    }

    /// Adds a line that keeps its height until the next point, such as a count over time.
    #[must_use]
    pub fn steps(self, name: &str, points: impl IntoIterator<Item = impl Into<Point>>) -> Self {
        self.with(name, Form::Steps, points.into_iter().map(Into::into).collect())
    }

    /// Adds the distribution of samples, from pairs of a value and the share of samples that don't
    /// exceed it.
    #[must_use]
    pub fn ecdf(self, name: &str, curve: impl IntoIterator<Item = (f64, f64)>) -> Self {
        let mut points: Vec<Point> = curve.into_iter().map(Point::from).collect();
        if let Some(first) = points.first().copied() {
            points.insert(0, Point::new(first.x, 0.0));
        }
        self.with(name, Form::Steps, points)
    }

    /// Adds a lower bound: a dashed black line without markers.
    #[must_use]
    pub fn bound(self, name: &str, points: impl IntoIterator<Item = impl Into<Point>>) -> Self {
        self.with(name, Form::Bound, points.into_iter().map(Into::into).collect())
    }

    /// Adds bars, one per category of the horizontal axis, next to those of other series.
    #[must_use]
    pub fn bars(self, name: &str, heights: impl IntoIterator<Item = impl Into<Height>>) -> Self {
        self.with(name, Form::Bars, at_categories(heights))
    }

    /// Adds stacked bars, one piece per category of the horizontal axis, on top of the previous
    /// series.
    #[must_use]
    pub fn stack(self, name: &str, heights: impl IntoIterator<Item = impl Into<Height>>) -> Self {
        self.with(name, Form::Stack, at_categories(heights))
    }

    /// Adds a horizontal line at this height, such as a service level. The axis extends to it.
    #[must_use]
    pub fn level(mut self, height: f64, label: &str) -> Self {
        self.references.push(Reference { upright: false, value: height, label: label.into() });
        self
    }

    /// Adds a vertical line at this position. The axis extends to it.
    #[must_use]
    pub fn mark(mut self, place: f64, label: &str) -> Self {
        self.references.push(Reference { upright: true, value: place, label: label.into() });
        self
    }

    pub(super) fn has_bars(&self) -> bool {
        self.series.iter().any(|series| matches!(series.form, Form::Bars | Form::Stack))
    }

    /// For each series of a stack, the lower and upper end of its piece at each category.
    pub(super) fn stacked(&self) -> Vec<(&Series, Vec<(f64, f64)>)> {
        let mut heights: Vec<f64> = Vec::new();
        let mut stacked = Vec::new();
        for series in self.series.iter().filter(|series| series.form == Form::Stack) {
            heights.resize(heights.len().max(series.points.len()), 0.0);
            let pieces = series.points.iter().zip(&mut heights).map(|(point, height)| {
                let below = *height;
                *height += point.y;
                (below, *height)
            });
            stacked.push((series, pieces.collect()));
        }
        stacked
    }

    pub(super) fn ranges(&self) -> Result<[(f64, f64); 2], PlotError> {
        let marks = |upright: bool| self.references.iter().filter(move |line| line.upright == upright).map(|line| line.value);
        let xs = self.series.iter().flat_map(|series| series.points.iter().map(|point| point.x)).chain(marks(true));
        let ys = self.series.iter().filter(|series| series.form != Form::Stack).flat_map(|series| {
            series.points.iter().flat_map(|point| [Some(point.y), point.within.map(|ends| ends.0), point.within.map(|ends| ends.1)])
        });
        // On a logarithmic axis, an interval that reaches zero or below extends to the end of the
        // axis.
        let ys = ys.flatten().filter(|&value| !self.y.log || value > 0.0);
        let sums = self.stacked().into_iter().flat_map(|(_, pieces)| pieces.into_iter().flat_map(|(low, high)| [low, high]));
        let ys = ys.chain(sums).chain(marks(false));
        Ok([self.x.range(xs, true, false)?, self.y.range(ys, false, self.has_bars())?])
    }

    /// Rejects content that can't be drawn.
    pub(super) fn check(&self) -> Result<(), PlotError> {
        if let Some(grid) = &self.grid {
            return self.check_grid(grid);
        }
        if self.series.iter().all(|series| series.points.is_empty()) {
            return Err(PlotError::Empty { panel: self.title.clone() });
        }
        if self.y.names().is_some() {
            return Err(PlotError::Axis { axis: self.y.title.clone(), need: "numbers, since only grids have rows" });
        }
        for series in &self.series {
            let bars = matches!(series.form, Form::Bars | Form::Stack);
            match self.x.names() {
                Some(names) if bars && names.len() != series.points.len() => {
                    let (found, expected) = (series.points.len(), names.len());
                    return Err(PlotError::Categories { series: series.name.clone(), found, expected });
                }
                None if bars => return Err(PlotError::Axis { axis: self.x.title.clone(), need: "categories, since it has bars" }),
                _ => {}
            }
            if series.form == Form::Stack && self.y.log {
                return Err(PlotError::Axis { axis: self.y.title.clone(), need: "a linear scale, since pieces of bars add up" });
            }
            for (at, point) in series.points.iter().enumerate() {
                let (low, high) = point.within.unwrap_or((point.y, point.y));
                for (axis, value) in [(&self.x, point.x), (&self.y, point.y)] {
                    check_value(value, axis.log, &series.name, at)?;
                }
                for end in [low, high] {
                    check_value(end, false, &series.name, at)?;
                }
                if series.form == Form::Stack && point.y < 0.0 {
                    return Err(PlotError::Axis { axis: self.y.title.clone(), need: "no negative values, since pieces of bars add up" });
                }
            }
        }
        for line in &self.references {
            check_value(line.value, if line.upright { self.x.log } else { self.y.log }, &line.label, 0)?;
        }
        Ok(())
    }

    fn check_grid(&self, grid: &Grid) -> Result<(), PlotError> {
        for axis in [&self.x, &self.y] {
            if axis.names().is_none() {
                return Err(PlotError::Axis { axis: axis.title.clone(), need: "categories, since it has a grid" });
            }
        }
        let count = |axis: &Axis| axis.names().map_or(0, <[String]>::len);
        let name = || grid.measure.title.clone();
        if grid.values.len() != count(&self.y) {
            return Err(PlotError::Categories { series: name(), found: grid.values.len(), expected: count(&self.y) });
        }
        for row in &grid.values {
            if row.len() != count(&self.x) {
                return Err(PlotError::Categories { series: name(), found: row.len(), expected: count(&self.x) });
            }
            for (at, value) in row.iter().enumerate() {
                check_value(value.unwrap_or(1.0), grid.measure.log, &grid.measure.title, at)?;
            }
        }
        let is_ranged = grid.measure.low.is_some() && grid.measure.high.is_some();
        if grid.values.iter().flatten().all(Option::is_none) && !(grid.alarming && is_ranged) {
            return Err(PlotError::Empty { panel: self.title.clone() });
        }
        Ok(())
    }
}

fn check_value(value: f64, log: bool, series: &str, at: usize) -> Result<(), PlotError> {
    if !value.is_finite() {
        return Err(PlotError::NotFinite { series: series.into(), at, value });
    }
    if log && value <= 0.0 {
        return Err(PlotError::NotPositive { series: series.into(), at, value });
    }
    Ok(())
}

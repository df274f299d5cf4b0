//! Figures as a paper shows them, written as SVG and as PNG from one layout.
//!
//! A [`Figure`] has one to three [`Panel`]s side by side; a panel has two [`Axis`] and [`Series`] between them, or a [`Grid`]. What is not
//! said follows from the data: ranges, ticks, colours, where the names of series go.
//!
//! ```text
//! Figure (what to show)                 Scene (shapes and texts in points)
//!   Panel: Axis x 2, Series ..., Grid --layout--> ... --+--> svg: text stays text
//!   Panel ...                                           '--> png: the same outlines, in pixels
//! ```
//!
//! ```
//! use fulgurite_twin::plot::{Axis, Figure, Panel};
//!
//! let tail = Panel::new(Axis::new("Drive throughput", "MB/s"), Axis::seconds("99.9th percentile of completion times").log())
//!     .line("partitioned", [(30.0, 5_400.0), (60.0, 3_000.0), (120.0, 1_800.0)])
//!     .bound("no shuttles", [(30.0, 2_000.0), (60.0, 1_100.0), (120.0, 600.0)])
//!     .level(54_000.0, "service level: 15 h");
//! let figure = Figure::new("Tail completion time against drive throughput").panel(tail);
//! assert!(figure.svg()?.contains("service level: 15 h"));
//! # Ok::<(), fulgurite_twin::plot::PlotError>(())
//! ```
//!
//! Nothing is asked of the system: the font is embedded, and the same figure gives the same bytes on every machine.

mod axis;
mod font;
mod layout;
mod legend;
mod marks;
mod panel;
mod png;
mod scene;
mod style;
mod svg;
mod ticks;

use font::Font;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub use axis::Axis;
pub use panel::{Grid, Height, Panel, Point, Series, Spread};

/// Where the names of series are written. None of these places covers data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Names {
    /// At the ends of lines if a single panel has few of them that end apart; above the panels otherwise.
    #[default]
    Fitting,
    /// Above the panels, once for all of them.
    Above,
    /// At the ends of lines.
    AtEnds,
}

/// Panels side by side under one title.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    title: String,
    panels: Vec<Panel>,
    width: Option<f64>,
    plot_height: Option<f64>,
    names: Names,
    one_scale: bool,
}

impl Figure {
    /// A figure without panels. An empty title takes no room: papers have captions.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self { title: title.into(), panels: Vec::new(), width: None, plot_height: None, names: Names::default(), one_scale: false }
    }

    /// With a panel more, to the right of the others.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// This wide, in points (1/72 inch): 240 is a column of a two-column paper, 504 both. Unless told, 340 for one panel and 504 for more.
    #[must_use]
    pub fn width(mut self, points: f64) -> Self {
        self.width = Some(points);
        self
    }

    /// With axes this high, in points; titles, labels and names are added to it.
    #[must_use]
    pub fn plot_height(mut self, points: f64) -> Self {
        self.plot_height = Some(points);
        self
    }

    /// With the names of series there.
    #[must_use]
    pub fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// With the same vertical axis in all panels, which is written once: at the left.
    #[must_use]
    pub fn one_scale(mut self) -> Self {
        self.one_scale = true;
        self
    }

    /// The figure as SVG.
    ///
    /// # Errors
    /// If something in it can't be drawn, such as a value that isn't finite, or zero on a logarithmic axis.
    pub fn svg(&self) -> Result<String, PlotError> {
        Ok(svg::write(&layout::scene(self, &Font::embedded())?))
    }

    /// The figure as a PNG file of 216 pixels to an inch.
    ///
    /// # Errors
    /// As [`Figure::svg`].
    pub fn png(&self) -> Result<Vec<u8>, PlotError> {
        let font = Font::embedded();
        Ok(png::write(&layout::scene(self, &font)?, &font))
    }

    /// Writes `<name>.svg` and `<name>.png` into a folder, and says where they are. What was there is replaced.
    ///
    /// # Errors
    /// As [`Figure::svg`], or if a file can't be written.
    pub fn write(&self, folder: &Path, name: &str) -> Result<[PathBuf; 2], PlotError> {
        let font = Font::embedded();
        let scene = layout::scene(self, &font)?;
        let files = [(format!("{name}.svg"), svg::write(&scene).into_bytes()), (format!("{name}.png"), png::write(&scene, &font))];
        let write = |(name, bytes): (String, Vec<u8>)| {
            let path = folder.join(name);
            fs::write(&path, bytes).map_err(|source| PlotError::Write { path: path.clone(), source })?;
            Ok(path)
        };
        let [svg, png] = files.map(write);
        Ok([svg?, png?])
    }
}

/// Why a figure wasn't drawn.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// There is nothing to show.
    #[error("panel `{panel}` has no data")]
    Empty {
        /// The panel's title.
        panel: String,
    },
    /// A figure has one to three panels.
    #[error("a figure has one to three panels side by side, not {found}")]
    Panels {
        /// How many it has.
        found: usize,
    },
    /// A value is infinite or no number.
    #[error("`{series}` has the value {value} at {at}, and only finite ones can be drawn")]
    NotFinite {
        /// The name of the series, line or grid.
        series: String,
        /// Which of its points, counted from 0.
        at: usize,
        /// The value.
        value: f64,
    },
    /// A value has no place on a logarithmic axis.
    #[error("`{series}` has the value {value} at {at}, and a logarithmic axis shows only what is more than zero")]
    NotPositive {
        /// The name of the series, line or grid.
        series: String,
        /// Which of its points, counted from 0.
        at: usize,
        /// The value.
        value: f64,
    },
    /// Bars or a row of cells don't match their axis.
    #[error("`{series}` has {found} values, and its axis {expected} categories")]
    Categories {
        /// The name of the series or grid.
        series: String,
        /// How many values it has.
        found: usize,
        /// How many categories there are.
        expected: usize,
    },
    /// An axis doesn't suit what is drawn along it.
    #[error("the axis `{axis}` needs {need}")]
    Axis {
        /// The axis' title.
        axis: String,
        /// What it needs, and why.
        need: &'static str,
    },
    /// The range of an axis is empty, or too large to be drawn.
    #[error("the axis `{axis}` can't go from {low} to {high}")]
    Range {
        /// The axis' title.
        axis: String,
        /// Its lower end.
        low: f64,
        /// Its upper end.
        high: f64,
    },
    /// There is too little room for axes.
    #[error("a width of {width} points leaves {left} for the axes of a panel: make the figure wider, or labels shorter")]
    Narrow {
        /// The figure's width.
        width: f64,
        /// What is left of it for each panel.
        left: f64,
    },
    /// A file couldn't be written.
    #[error("{} could not be written", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;

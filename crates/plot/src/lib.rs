//! Figures in the style of a paper, written as SVG and as PNG from one layout.
//!
//! A [`Figure`] has one to three [`Panel`]s side by side. A panel has two [`Axis`] with [`Series`]
//! between them, or a [`Grid`]. Settings not given follow from the data: ranges, ticks, colours,
//! the position of series names. A [`Raster`] is a picture of plain pixels.
//!
//! ```text
//! Figure (what to show)                 Scene (shapes and texts in points)
//!   Panel: Axis x 2, Series ..., Grid --layout--> ... --+--> svg: text stays text
//!   Panel ...                                           '--> png: the same outlines, in pixels
//! ```
//!
//! ```
//! use fulgurite_plot::{Axis, Figure, Panel};
//!
//! let throughput = Axis::new("Drive throughput", "MB/s");
//! let tail = Axis::seconds("99.9th percentile of completion times").log();
//! let panel = Panel::new(throughput, tail)
//!     .line("partitioned", [(30.0, 5_400.0), (60.0, 3_000.0), (120.0, 1_800.0)])
//!     .bound("no shuttles", [(30.0, 2_000.0), (60.0, 1_100.0), (120.0, 600.0)])
//!     .level(54_000.0, "service level: 15 h");
//! let figure = Figure::new("Tail completion time against drive throughput").panel(panel);
//! assert!(figure.svg()?.contains("service level: 15 h"));
//! # Ok::<(), fulgurite_plot::PlotError>(())
//! ```
//!
//! Figures don't depend on the system: the font is embedded, and the same figure gives the same
//! bytes on every machine.

#![forbid(unsafe_code)]

mod axis;
mod font;
mod layout;
mod legend;
mod marks;
mod panel;
mod png;
mod raster;
mod scene;
mod style;
mod svg;
mod ticks;

use font::Font;
use std::path::{Path, PathBuf};
use std::{fs, io};

pub use axis::Axis;
pub use panel::{Grid, Height, Panel, Point, Series, Spread};
pub use raster::Raster;

/// Panels side by side under one title.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    title: String,
    panels: Vec<Panel>,
    width: Option<f64>,
    plot_height: Option<f64>,
    one_scale: bool,
}

impl Figure {
    /// A figure without panels. An empty title takes no room: papers have captions.
    #[must_use]
    pub fn new(title: &str) -> Self {
        Self { title: title.into(), panels: Vec::new(), width: None, plot_height: None, one_scale: false }
    }

    /// Adds a panel, to the right of the others.
    #[must_use]
    pub fn panel(mut self, panel: Panel) -> Self {
        self.panels.push(panel);
        self
    }

    /// Sets the width, in points (1/72 inch): 240 is a column of a two-column paper, 504 both. The
    /// default is 340 for one panel and 504 for more.
    #[must_use]
    pub fn width(mut self, points: f64) -> Self {
        self.width = Some(points);
        self
    }

    /// Sets the height of the axes, in points, without titles, labels and names.
    #[must_use]
    pub fn plot_height(mut self, points: f64) -> Self {
        self.plot_height = Some(points);
        self
    }

    /// Gives all panels the same vertical axis, which is drawn once, at the left.
    #[must_use]
    pub fn one_scale(mut self) -> Self {
        self.one_scale = true;
        self
    }

    /// The figure as SVG.
    ///
    /// # Errors
    /// If the figure can't be drawn, for example because of a value that isn't finite, or zero on a
    /// logarithmic axis.
    pub fn svg(&self) -> Result<String, PlotError> {
        Ok(svg::write(&layout::scene(self, &Font::embedded())?))
    }

    /// The figure as a PNG file with 216 pixels per inch.
    ///
    /// # Errors
    /// As [`Figure::svg`].
    pub fn png(&self) -> Result<Vec<u8>, PlotError> {
        let font = Font::embedded();
        Ok(png::write(&layout::scene(self, &font)?, &font))
    }

    /// Writes `<name>.svg` and `<name>.png` into a folder and returns their paths. Existing files
    /// are replaced.
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

/// A figure couldn't be drawn or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum PlotError {
    #[error("panel `{panel}` has no data")]
    Empty { panel: String },
    #[error("a figure has one to three panels side by side, not {found}")]
    Panels { found: usize },
    #[error("`{series}` has the value {value} at {at}, but only finite values can be drawn")]
    NotFinite {
        series: String,
        /// Index of the point, from 0.
        at: usize,
        value: f64,
    },
    #[error("`{series}` has the value {value} at {at}, but a logarithmic axis shows only values above zero")]
    NotPositive {
        series: String,
        /// Index of the point, from 0.
        at: usize,
        value: f64,
    },
    #[error("`{series}` has {found} values, but its axis has {expected} categories")]
    Categories { series: String, found: usize, expected: usize },
    #[error("the axis `{axis}` needs {need}")]
    Axis { axis: String, need: &'static str },
    #[error("the axis `{axis}` can't go from {low} to {high}")]
    Range { axis: String, low: f64, high: f64 },
    #[error("a width of {width} points leaves {left} for the axes of a panel: make the figure wider, or labels shorter")]
    Narrow { width: f64, left: f64 },
    #[error("{} could not be written", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

#[cfg(test)]
mod tests;

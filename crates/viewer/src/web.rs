//! Scripts and styles that show a library in motion.

/// Colours, for light and dark.
pub const COLOURS: &str = include_str!("web/colours.css");
/// Styles of the panel and what is around it.
pub const PANEL_STYLE: &str = include_str!("web/panel.css");
/// `dom.js`: elements.
pub const DOM: &str = include_str!("web/dom.js");
/// `drawing.js`: canvases, and times as text.
pub const DRAWING: &str = include_str!("web/drawing.js");
/// `course.js`: the library at any instant, from entries.
pub const COURSE: &str = include_str!("web/course.js");
/// `panel.js`: draws the library at an instant, and tells what a machine does.
pub const PANEL: &str = include_str!("web/panel.js");
/// `plots.js`: draws queue and completion times over some time.
pub const PLOTS: &str = include_str!("web/plots.js");

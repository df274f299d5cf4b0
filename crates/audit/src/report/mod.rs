//! Reports of an audit: what is known of each node, in forms for people, spreadsheets and
//! monitoring.
//!
//! ```text
//!                       .--> text        a mail; its first line says whether all is well
//! database --> Summary -+--> html        one page with figures, without scripts or requests
//!              (numbers) +--> csv, json   one row for each node, or everything
//!                        '--> prometheus  metrics for the textfile collector of node_exporter
//! ```
//!
//! A [`Summary`] is computed from the database's sums and from the time that it is given; it reads
//! no clock. All forms show the same summary, so they can't disagree. Names and details come from
//! outside: each form escapes them for its own syntax.

mod csv;
mod episodes;
mod escape;
mod figures;
mod file;
mod html;
mod json;
mod prometheus;
mod quantities;
mod summary;
#[cfg(test)]
mod tests;
mod text;

pub use csv::csv;
pub use episodes::{End, Slowdown};
pub use file::{WriteError, write};
pub use html::html;
pub use json::json;
pub use prometheus::prometheus;
pub use quantities::bytes;
pub use summary::{AGE_LIMITS_D, Concern, Day, NAMED_PROBLEMS, NamedBenchmark, NamedProblem, NodeSummary, Ratios, Summary};
pub use text::{text, unfinished_import};

//! What a run says in numbers: percentiles of completion times, means and variances, averages over time, and how sure one may be of them.
//!
//! ```text
//! one run      Recorder      percentiles   exact up to a number of samples, then within 0.05 %
//!              Moments       mean, variance
//!              TimeWeighted  queue lengths, utilization
//!              batch_means   an interval from a single long run
//! many runs    confidence    one value from each independent run -> Interval (Student's t)
//! ```
//!
//! Everything merges, and nothing here knows a clock or chance: the same samples in the same order give the same bits on any machine.

mod confidence;
mod moments;
mod recorder;
mod student;
mod time_weighted;

pub use confidence::{Interval, batch_means, confidence};
pub use moments::Moments;
pub use recorder::Recorder;
pub use student::student_t_quantile;
pub use time_weighted::TimeWeighted;

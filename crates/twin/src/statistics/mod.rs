//! Statistics of runs: percentiles of completion times, means and variances, time averages, and
//! confidence intervals.
//!
//! ```text
//! one run      Recorder      percentiles   exact up to a number of samples, then within 0.05 %
//!              Moments       mean, variance
//!              TimeWeighted  queue lengths, utilization
//!              batch_means   an interval from a single long run
//! many runs    confidence    one value from each independent run -> Interval (Student's t)
//! two systems  mean_ratio    two values from each seed -> the ratio, with its interval
//! ```
//!
//! Recorders and moments merge. Nothing here depends on a clock or on chance: the same samples in
//! the same order give the same bits on any machine.

mod confidence;
mod moments;
mod paired;
mod recorder;
mod student;
mod time_weighted;

pub use confidence::{Interval, batch_means, confidence};
pub use moments::Moments;
pub use paired::{MeanRatio, mean_ratio};
pub use recorder::Recorder;
pub use student::student_t_quantile;
pub use time_weighted::TimeWeighted;

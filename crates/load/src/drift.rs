//! Drift: whether a long run gets slower or larger.

use crate::Window;

/// Runs of fewer windows say nothing about drift.
const FEWEST: usize = 10;

/// How the last third of a run differs from the first, after its first tenth, in which caches fill.
/// Each field is the last third's value divided by the first third's; 1.0 means no drift.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// Operations a second.
    pub rate: f64,
    /// The median of the windows' medians of times.
    pub p50: f64,
    /// The median of the windows' 99th percentiles.
    pub p99: f64,
    /// Memory of the server, if it is known.
    pub memory: Option<f64>,
}

/// Why a run has no drift.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoDrift {
    /// It has too few windows.
    #[error("it has fewer than {FEWEST} whole windows")]
    TooShort,
    /// In the first or the last third, most windows are without a success.
    #[error("in most windows of its first or last third, nothing succeeded")]
    NothingDone,
}

impl Drift {
    /// The drift of a run.
    ///
    /// # Errors
    /// [`NoDrift`] says why there is none.
    pub fn of(windows: &[Window]) -> Result<Self, NoDrift> {
        // The last window is seldom a whole one.
        let whole = &windows[..windows.len().saturating_sub(1)];
        let settled = &whole[whole.len() / 10..];
        if whole.len() < FEWEST {
            return Err(NoDrift::TooShort);
        }
        let third = settled.len() / 3;
        let (first, last) = (&settled[..third], &settled[settled.len() - third..]);
        let ratio = |measure: &dyn Fn(&Window) -> Option<f64>| {
            let median = |part: &[Window]| {
                let mut values: Vec<f64> = part.iter().filter_map(measure).collect();
                values.sort_unstable_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            };
            Some(median(last)? / median(first)?).filter(|ratio| ratio.is_finite())
        };
        let known = |measure: &dyn Fn(&Window) -> Option<f64>| ratio(measure).ok_or(NoDrift::NothingDone);
        Ok(Self {
            rate: known(&|window| Some(window.all.done as f64 / window.seconds))?,
            p50: known(&|window| window.all.p50.map(|time| time.as_secs_f64()))?,
            p99: known(&|window| window.all.p99.map(|time| time.as_secs_f64()))?,
            memory: ratio(&|window| window.server_memory.map(|bytes| bytes as f64)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Brief;

    fn windows(count: usize, done: impl Fn(usize) -> u64) -> Vec<Window> {
        let window = |index: usize| {
            let all = Brief {
                done: done(index),
                p50: (done(index) > 0).then_some(Duration::from_millis(2)),
                p99: (done(index) > 0).then_some(Duration::from_millis(10 + index as u64)),
                ..Brief::default()
            };
            Window { at_s: index as f64, seconds: 1.0, all, server_memory: Some(1_000 + index as u64), ..Window::default() }
        };
        (0..count).map(window).collect()
    }

    #[test]
    fn the_last_third_is_compared_with_the_first_after_caches_have_filled() {
        // The first windows are slow, and the last one is short.
        let run = windows(41, |index| if index < 4 || index == 40 { 1 } else { 1_000 - 10 * index as u64 });
        let drift = Drift::of(&run).expect("it is long enough");
        // Windows 4 to 15 and 28 to 39.
        assert!((drift.rate - 660.0 / 900.0).abs() < 0.01 && (drift.p50 - 1.0).abs() < 1e-9, "{drift:?}");
        assert!((drift.p99 - 44.0 / 20.0).abs() < 0.1 && drift.memory.is_some_and(|memory| memory > 1.0), "{drift:?}");
        assert_eq!(Drift::of(&windows(9, |_| 5)), Err(NoDrift::TooShort));
        assert_eq!(Drift::of(&windows(40, |_| 0)), Err(NoDrift::NothingDone));
        assert_eq!(Drift::of(&[]), Err(NoDrift::TooShort));
    }
}

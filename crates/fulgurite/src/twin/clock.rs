//! A progress bar that follows the simulated time of runs.

use fulgurite_domain::Micros;
use fulgurite_twin::scenario::Scenario;
use fulgurite_twin::simulation::{Observer, Sample};
use indicatif::ProgressBar;

/// Steps of the bar for each run.
pub(super) const STEPS: u64 = 200;
/// The bar of one or more runs.
pub(super) const TEMPLATE: &str = "running [{bar:30}] {percent:>3} %  {msg}";

/// Moves a bar while a run passes its warm-up and measured interval, and shows the simulated time.
pub(super) struct Clock<'b> {
    bar: &'b ProgressBar,
    step: Micros,
    next: Micros,
    measured_until: Micros,
}

impl<'b> Clock<'b> {
    /// A clock for one run of this scenario; `None` if the bar is hidden.
    pub(super) fn new(bar: &'b ProgressBar, scenario: &Scenario) -> Option<Self> {
        let measured_until = scenario.run.measured_until();
        let step = Micros((measured_until.0 / STEPS).max(1));
        (!bar.is_hidden()).then_some(Self { bar, step, next: step, measured_until })
    }
}

impl Observer for Clock<'_> {
    fn next_sample(&self) -> Micros {
        self.next
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let hours = |time: Micros| time.seconds() / 3_600.0;
        if sample.at <= self.measured_until {
            self.bar.inc(1);
            self.bar.set_message(format!("{:.1} h of {:.1} h simulated", hours(sample.at), hours(self.measured_until)));
        } else {
            self.bar.set_message(format!("{:.1} h simulated, until the last requests end", hours(sample.at)));
        }
        self.next = sample.at + self.step;
    }
}

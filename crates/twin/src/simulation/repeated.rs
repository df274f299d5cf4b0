//! Runs one scenario with many seeds.

use std::sync::{Arc, OnceLock};

use fulgurite_library::Layout;

use super::{Observer, Run, RunError, run_on};
use crate::scenario::{Scenario, Stock};

/// A scenario for several seeds, run one after another or concurrently. The first run places the
/// platters for all of them.
#[derive(Debug, Clone)]
pub struct Repeated {
    scenario: Arc<Scenario>,
    stock: Arc<OnceLock<Option<Stock>>>,
}

impl Repeated {
    /// Wraps a scenario. Its platters are placed by the first run.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario: Arc::new(scenario), stock: Arc::default() }
    }

    /// Wraps another scenario. It reuses the placement if its platters go to the same slots, as
    /// with other machines or another workload.
    #[must_use]
    pub fn followed_by(&self, scenario: Scenario) -> Self {
        let stock = if has_same_places(&self.scenario, &scenario) { Arc::clone(&self.stock) } else { Arc::default() };
        Self { scenario: Arc::new(scenario), stock }
    }

    /// Wraps a scenario like [`Repeated::new`], or [like](Self::followed_by) the first of `others`
    /// that has the same placement.
    #[must_use]
    pub fn among<'a>(mut others: impl Iterator<Item = &'a Self>, scenario: Scenario) -> Self {
        match others.find(|other| has_same_places(&other.scenario, &scenario)) {
            Some(other) => other.followed_by(scenario),
            None => Self::new(scenario),
        }
    }

    /// The scenario.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The same run as [`run`](super::run) with this seed.
    pub fn run(&self, seed: u64) -> Result<Run, RunError> {
        self.run_with(seed, ())
    }

    /// Like [`Repeated::run`], with an observer.
    pub fn run_with<O: Observer>(&self, seed: u64, observer: O) -> Result<Run, RunError> {
        let scenario = &*self.scenario;
        scenario.check()?;
        let stock = match self.stock.get_or_init(|| scenario.stock(seed).ok()) {
            Some(stock) => stock.for_seed(scenario, seed),
            // Placement fails again and returns the error.
            None => scenario.stock(seed)?,
        };
        Ok(run_on(scenario, &stock, seed, observer, |_| ())?.run)
    }
}

/// True if all inputs of [`Scenario::stock`] are the same. Unavailable platters are redrawn for
/// each seed.
fn has_same_places(one: &Scenario, other: &Scenario) -> bool {
    let panel = |scenario: &Scenario| Layout { drives: [0; 2], shuttles: 0, ..scenario.layout.clone() };
    let counts = |of: &Scenario| (of.libraries, of.away, of.platters, of.tracks, of.mechanics.drive.track_bytes);
    counts(one) == counts(other)
        && panel(one) == panel(other)
        && one.verification == other.verification
        && one.sets == other.sets
        && one.ingest == other.ingest
}

#[cfg(test)]
mod tests {
    use fulgurite_domain::Micros;

    use super::*;
    use crate::simulation::run;

    #[test]
    fn runs_on_a_reused_placement_are_identical() {
        let mut scenario = Scenario { platters: 190, ..Scenario::default() };
        (scenario.run.warm_up, scenario.run.measured) = (Micros::ZERO, Micros::HOUR);
        scenario.sets.unavailable = 0.02;
        let first = Repeated::new(scenario.clone());
        let facts = |run: Run| (run.events, run.requests, run.outcomes, run.ended_at);
        let expected = |scenario: &Scenario, seed| facts(run(scenario, seed).unwrap());
        assert_eq!(facts(first.run(1).unwrap()), expected(&scenario, 1));
        assert_eq!(facts(first.run(2).unwrap()), expected(&scenario, 2));
        scenario.layout.shuttles = 7;
        let second = first.followed_by(scenario.clone());
        assert!(Arc::ptr_eq(&first.stock, &second.stock));
        assert_eq!(facts(second.run(2).unwrap()), expected(&scenario, 2));
        scenario.platters = 380;
        let third = Repeated::among([&first, &second].into_iter(), scenario.clone());
        assert!(!Arc::ptr_eq(&first.stock, &third.stock));
        assert!(Arc::ptr_eq(&third.stock, &Repeated::among([&first, &third].into_iter(), scenario.clone()).stock));
        assert_eq!(facts(third.run(2).unwrap()), expected(&scenario, 2));
    }
}

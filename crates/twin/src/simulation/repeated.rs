//! One scenario with many seeds.

use std::sync::{Arc, OnceLock};

use super::{Run, RunError, run, run_on};
use crate::scenario::{Scenario, Stock};

/// A scenario that is run with one seed after another, or with several at once. Its platters are placed once for all of them, by whoever comes first.
#[derive(Debug, Clone)]
pub struct Repeated {
    scenario: Arc<Scenario>,
    stock: Arc<OnceLock<Option<Stock>>>,
}

impl Repeated {
    /// Nothing has been placed yet.
    #[must_use]
    pub fn new(scenario: Scenario) -> Self {
        Self { scenario: Arc::new(scenario), stock: Arc::default() }
    }

    /// What is run.
    #[must_use]
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The same run as [`run`] with this seed.
    ///
    /// # Errors
    /// As [`run`].
    pub fn run(&self, seed: u64) -> Result<Run, RunError> {
        let scenario = &*self.scenario;
        match self.stock.get_or_init(|| scenario.check().and_then(|()| scenario.stock(seed)).ok()) {
            Some(stock) => Ok(run_on(scenario, &stock.for_seed(scenario, seed), seed, (), |_| ())?.run),
            // It fails again, and says why.
            None => run(scenario, seed),
        }
    }
}

//! Platters written during a run: one after another leaves the write rack of the library that holds
//! its slot.

use std::collections::VecDeque;

use fulgurite_domain::Micros;
use fulgurite_library::{Library, Platter};
use fulgurite_workload::Ingest;

use super::error::RunError;
use crate::scenario::{Scenario, ScenarioError, Stock};

/// The platters still to be written, in order.
pub(super) struct Ingesting {
    days: Ingest,
    /// Instants at which platters are finished, for the days drawn so far.
    instants: VecDeque<Micros>,
    next: usize,
}

impl Ingesting {
    pub(super) fn new(scenario: &Scenario, stock: &Stock, seed: u64) -> Result<Option<Self>, RunError> {
        let Some(ingest) = &scenario.ingest else { return Ok(None) };
        let days = Ingest::new(ingest.spec(scenario), seed).map_err(ScenarioError::from)?;
        Ok(Some(Self { days, instants: VecDeque::new(), next: stock.written as usize }))
    }

    /// The next platter, with its library and the instant it is written; `None` if no room is left.
    pub(super) fn next(&mut self, stock: &Stock) -> Option<(Micros, Library, Platter)> {
        let (library, platter) = *stock.sets.places.get(self.next)?;
        self.next += 1;
        // Several days may pass without a finished platter.
        while self.instants.is_empty() {
            self.instants.extend(self.days.next()?.finished());
        }
        Some((self.instants.pop_front()?, library, platter))
    }
}

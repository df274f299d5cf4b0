//! What is written during a run: platter after platter leaves the write rack of the library that its place is in.

use std::collections::VecDeque;

use fulgurite_domain::Micros;
use fulgurite_library::{Library, Platter};
use fulgurite_workload::Ingest;

use super::RunError;
use crate::scenario::{Scenario, ScenarioError, Stock};

/// The platters that are still to be written, in order.
pub(super) struct Ingesting {
    days: Ingest,
    /// Of the days drawn so far.
    instants: VecDeque<Micros>,
    next: usize,
}

impl Ingesting {
    pub(super) fn new(scenario: &Scenario, stock: &Stock, seed: u64) -> Result<Option<Self>, RunError> {
        let Some(ingest) = &scenario.ingest else { return Ok(None) };
        let days = Ingest::new(ingest.spec(scenario), seed).map_err(ScenarioError::from)?;
        Ok(Some(Self { days, instants: VecDeque::new(), next: stock.written as usize }))
    }

    /// The next platter, with its library and when it is written; none if there is no room for more.
    pub(super) fn next(&mut self, stock: &Stock) -> Option<(Micros, Library, Platter)> {
        let (library, platter) = *stock.sets.places.get(self.next)?;
        self.next += 1;
        // Nothing may come in for days.
        while self.instants.is_empty() {
            self.instants.extend(self.days.next()?.finished());
        }
        Some((self.instants.pop_front()?, library, platter))
    }
}

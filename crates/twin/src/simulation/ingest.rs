//! Platters written during a run: one after another leaves the write rack of the library that holds
//! its slot.

use fulgurite_domain::Micros;
use fulgurite_library::{Library, Platter};
use fulgurite_workload::Ingest;

use super::error::RunError;
use crate::scenario::{Scenario, ScenarioError, Stock};

/// The platters still to be written, in order.
pub(super) struct Ingesting {
    days: Ingest,
    /// Instants at which further platters of the last day are finished. A day may have more of them
    /// than fit into memory.
    instants: Box<dyn Iterator<Item = Micros> + Send>,
    next: usize,
    /// The run handles nothing after this instant.
    latest: Micros,
}

impl Ingesting {
    pub(super) fn new(scenario: &Scenario, stock: &Stock, seed: u64) -> Result<Option<Self>, RunError> {
        let Some(ingest) = &scenario.ingest else { return Ok(None) };
        let days = Ingest::new(ingest.spec(scenario), seed).map_err(ScenarioError::from)?;
        Ok(Some(Self { days, instants: Box::new(std::iter::empty()), next: stock.written as usize, latest: scenario.run.latest() }))
    }

    /// The next platter, with its library and the instant it is written; `None` if no room is left.
    pub(super) fn next(&mut self, stock: &Stock) -> Option<(Micros, Library, Platter)> {
        let (library, platter) = *stock.sets.places.get(self.next)?;
        self.next += 1;
        let at = loop {
            if let Some(at) = self.instants.next() {
                break at;
            }
            // Many days may pass without a finished platter. Those after the run don't count, so
            // any instant then will do.
            let day = self.days.next()?;
            if day.begin() > self.latest {
                break day.begin();
            }
            self.instants = Box::new(day.finished());
        };
        Some((at, library, platter))
    }
}

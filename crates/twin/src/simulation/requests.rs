//! The requests of a run: their source, and those in progress.

use std::collections::VecDeque;
use std::path::PathBuf;

use fulgurite_domain::Micros;
use fulgurite_library::{RequestId, Shard, Tracks};
use fulgurite_workload::{Demand, Read, Statistics, TraceSettings};

use super::error::RunError;
use super::traced::Traced;
use crate::scenario::{Scenario, Stock, WorkloadKind};

enum Reads {
    Generated(Box<Demand>),
    Traced(Traced, PathBuf),
}

/// Yields requests one after another, each with its shards. Holds one request at a time.
pub(super) struct Requests {
    reads: Reads,
    /// The first read of the next request.
    ahead: Option<Read>,
    /// Shards of the last request taken.
    pub(super) shards: Vec<Shard>,
}

impl Requests {
    pub(super) fn new(scenario: &Scenario, stock: &Stock, seed: u64) -> Result<Self, RunError> {
        let platters = stock.readable;
        let reads = match (scenario.workload.kind, &scenario.workload.trace) {
            (WorkloadKind::Trace, Some(path)) => {
                let settings = TraceSettings { platters, shard_bytes: scenario.workload.shard_bytes, seed };
                Reads::Traced(Traced::open(path, &settings)?, path.clone())
            }
            _ => Reads::Generated(Box::new(
                Demand::new(&scenario.workload.spec(platters)?, seed).map_err(crate::scenario::ScenarioError::from)?,
            )),
        };
        let mut requests = Self { reads, ahead: None, shards: Vec::new() };
        requests.ahead = requests.read()?;
        Ok(requests)
    }

    /// Arrival of the next request; [`Micros::NEVER`] if there are no more.
    pub(super) fn next_at(&self) -> Micros {
        self.ahead.map_or(Micros::NEVER, |read| read.at)
    }

    /// Takes the next request: stores its shards in `shards` and returns its bytes, or `None` after
    /// the last one.
    pub(super) fn take(&mut self, stock: &Stock) -> Result<Option<u64>, RunError> {
        let Some(first) = self.ahead else { return Ok(None) };
        self.shards.clear();
        let mut next = Some(first);
        while let Some(read) = next
            && read.request == first.request
        {
            let tracks = Tracks { first: read.first_track, count: read.tracks };
            self.shards.push(Shard { platter: stock.region_platter(read.platter), tracks });
            next = self.read()?;
        }
        self.ahead = next;
        Ok(Some(first.file_bytes))
    }

    fn read(&mut self) -> Result<Option<Read>, RunError> {
        match &mut self.reads {
            Reads::Generated(demand) => Ok(demand.next()),
            Reads::Traced(trace, path) => trace.next(path),
        }
    }

    /// Reads the rest of a trace: errors after the measured interval also make it invalid.
    pub(super) fn read_to_end(&mut self) -> Result<(), RunError> {
        while matches!(self.reads, Reads::Traced(..)) && self.read()?.is_some() {}
        Ok(())
    }
}

/// Statistics of a scenario's reads, from the start of the warm-up to the end of the measured
/// interval.
///
/// # Errors
/// [`RunError`] if the platters can't be placed or the trace is invalid.
pub fn workload_statistics(scenario: &Scenario, seed: u64) -> Result<Statistics, RunError> {
    scenario.check()?;
    let stock = scenario.stock(seed)?;
    let mut requests = Requests::new(scenario, &stock, seed)?;
    let mut statistics = Statistics::default();
    let mut next = requests.ahead;
    while let Some(read) = next
        && read.at < scenario.run.measured_until()
    {
        statistics.observe(&read);
        next = requests.read()?;
    }
    requests.read_to_end()?;
    Ok(statistics)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OpenRequest {
    pub(super) arrived: Micros,
    pub(super) bytes: u64,
    pub(super) deadline: Micros,
    pub(super) is_measured: bool,
}

/// Requests in progress, by number. The queue spans from the oldest to the newest.
#[derive(Debug, Default)]
pub(super) struct OpenRequests {
    first: u64,
    requests: VecDeque<Option<OpenRequest>>,
    pub(super) open: u64,
    /// Number of measured requests among them.
    pub(super) measured_open: u64,
}

impl OpenRequests {
    pub(super) fn insert(&mut self, request: OpenRequest) -> RequestId {
        self.requests.push_back(Some(request));
        self.open += 1;
        self.measured_open += u64::from(request.is_measured);
        RequestId(self.first + self.requests.len() as u64 - 1)
    }

    pub(super) fn remove(&mut self, id: RequestId) -> OpenRequest {
        let place = id.0.checked_sub(self.first).and_then(|index| self.requests.get_mut(index as usize));
        let request = place.and_then(Option::take).unwrap_or_else(|| panic!("request {} ended twice", id.0));
        while let Some(None) = self.requests.front() {
            self.requests.pop_front();
            self.first += 1;
        }
        self.open -= 1;
        self.measured_open -= u64::from(request.is_measured);
        request
    }

    pub(super) fn in_progress(&self) -> impl Iterator<Item = &OpenRequest> + '_ {
        self.requests.iter().flatten()
    }

    /// Measured requests that have not ended, with their numbers.
    pub(super) fn unfinished(&self) -> impl Iterator<Item = (RequestId, OpenRequest)> + '_ {
        let numbered = self.requests.iter().enumerate().filter_map(|(index, request)| Some((index, (*request)?)));
        numbered.filter(|(_, request)| request.is_measured).map(|(index, request)| (RequestId(self.first + index as u64), request))
    }
}

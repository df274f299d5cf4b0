//! Expected times of benchmarks, and the detectors that compare with them.

use std::collections::{BTreeMap, VecDeque};

use crate::copy::NodeId;
use crate::database::{AuditDatabase, BenchmarkRecord, DatabaseError, DetectorState, ExpectedTime, Incident};
use crate::expectation::{Expectation, Fit, Outcome, Verdict};
use crate::node::Node;
use crate::series::{Probe, Series};
use crate::slowdown::{Check, Detector, Parameters, Timing};

/// A learned time is what the fit says, times this: half of all readings take longer than the fit.
const ALLOWANCE: f64 = 1.5;
/// The latest readings from which a time is learned.
const LEARNED_FROM: usize = 200;

type Key = (NodeId, Probe);

pub(super) struct Times {
    expected: BTreeMap<Key, Expectation>,
    detectors: BTreeMap<Key, Detector>,
}

impl Times {
    /// Takes up what is known of nodes.
    pub(super) fn load<'a>(database: &mut dyn AuditDatabase, nodes: impl Iterator<Item = &'a Node>) -> Result<Self, DatabaseError> {
        let stored = database.expected_times()?;
        let mut times = Self { expected: BTreeMap::new(), detectors: BTreeMap::new() };
        for node in nodes {
            for probe in Probe::ALL {
                let key = (node.id, probe);
                let Some(expectation) = expectation(node, probe, &stored) else { continue };
                times.expected.insert(key, expectation);
                // A state that can't be used is as good as none, as is one for another time.
                let state = database.detector(node.id, Series::Benchmarks(probe))?;
                let detector = state.and_then(|state| Detector::from_bytes(&state).ok());
                let detector = detector.filter(|detector| detector.expectation() == expectation);
                if let Some(detector) = detector.or_else(|| Detector::new(expectation, Parameters::default()).ok()) {
                    times.detectors.insert(key, detector);
                }
            }
        }
        Ok(times)
    }

    /// The expected time of a file, and the verdict on a reading of it.
    pub(super) fn judge(&self, key: Key, bytes: u64, outcome: Outcome) -> (Option<f64>, Option<Verdict>) {
        match (self.expected.get(&key), outcome) {
            (Some(expectation), _) => (Some(expectation.seconds(bytes)), Some(expectation.judge(bytes, outcome))),
            (None, Outcome::Right(_)) => (None, None),
            (None, Outcome::WrongBytes) => (None, Some(Verdict::Error)),
            (None, Outcome::Unanswered) => (None, Some(Verdict::Unanswered)),
        }
    }

    /// Shows a reading to its detector.
    pub(super) fn observe(&mut self, key: Key, check: Check) -> (Option<Incident>, Option<DetectorState>) {
        let Some(detector) = self.detectors.get_mut(&key) else { return (None, None) };
        let series = Series::Benchmarks(key.1);
        let incident = detector.observe(check).map(|event| Incident::of(key.0, series, check.at_s, event));
        (incident, Some(DetectorState { node: key.0, series, state: detector.to_bytes() }))
    }

    /// Learns the expected time from the latest records, if it is unknown and there are enough.
    pub(super) fn learn(&mut self, database: &mut dyn AuditDatabase, key: Key) -> Result<Option<ExpectedTime>, DatabaseError> {
        if self.expected.contains_key(&key) {
            return Ok(None);
        }
        let records = latest_right(database, key)?;
        let mut fit = Fit::new();
        for record in &records {
            fit.add(record.bytes, record.measured);
        }
        let generous = |fitted: Expectation| Expectation::new(fitted.base_s() * ALLOWANCE, fitted.slope_ns() * ALLOWANCE);
        let Some(expectation) = fit.fit().ok().and_then(|fitted| generous(fitted.expectation).ok()) else { return Ok(None) };
        let time = ExpectedTime { node: key.0, probe: key.1, expectation, is_learned: true };
        database.set_expected_time(&time)?;
        self.expected.insert(key, expectation);
        if let Ok(mut detector) = Detector::new(expectation, Parameters::default()) {
            for record in &records {
                // Nothing is reported while a detector learns.
                let _ = detector.observe(Check { at_s: record.at, bytes: record.bytes, timing: Timing::Answered(record.measured) });
            }
            let (series, state) = (Series::Benchmarks(key.1), detector.to_bytes());
            database.record(&[], &[DetectorState { node: key.0, series, state }])?;
            self.detectors.insert(key, detector);
        }
        Ok(Some(time))
    }
}

/// The expected time of a node's benchmarks, of those that are stored. What the operator states of
/// the node's checks counts for its benchmarks too, unless something else is stated for those.
pub(crate) fn expectation(node: &Node, probe: Probe, stored: &[ExpectedTime]) -> Option<Expectation> {
    let own = stored.iter().find(|time| time.node == node.id && time.probe == probe);
    let of_node = || node.expected_time.and_then(|(base, slope)| Expectation::new(base, slope).ok());
    let stated = own.filter(|time| !time.is_learned).map(|time| time.expectation);
    stated.or_else(of_node).or(own.map(|time| time.expectation))
}

/// The latest records with the right bytes, in their order.
fn latest_right(database: &mut dyn AuditDatabase, (node, probe): Key) -> Result<VecDeque<BenchmarkRecord>, DatabaseError> {
    const PAGE: usize = 5_000;
    let mut latest = VecDeque::with_capacity(LEARNED_FROM + 1);
    let mut after = 0;
    loop {
        let page = database.benchmark_series(node, probe, after, PAGE)?;
        let is_last = page.len() < PAGE;
        after = page.last().map_or(after, |record| record.record);
        for record in page.into_iter().filter(|record| !matches!(record.verdict, Some(Verdict::Error | Verdict::Unanswered))) {
            latest.push_back(record);
            if latest.len() > LEARNED_FROM {
                latest.pop_front();
            }
        }
        if is_last {
            return Ok(latest);
        }
    }
}

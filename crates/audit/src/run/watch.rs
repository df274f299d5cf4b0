//! Feeds the times of checks to the detectors of slow nodes, and keeps their states.

use std::collections::BTreeMap;
use std::time::Duration;

use fulgurite_places::Cause;

use crate::copy::{Finding, Method, NodeId, Unavailability};
use crate::database::{AuditDatabase, Checked, DatabaseError, DetectorState, Incident};
use crate::expectation::{Expectation, Fit};
use crate::node::Node;
use crate::series::Series;
use crate::slowdown::{Check, Detector, Parameters, Timing};

/// Checks from which an expectation is fitted, if the operator gives none.
const FITTED_FROM: usize = 200;
/// States of detectors are stored at most this often; a killed process loses what they saw since.
const STORE_PERIOD: Duration = Duration::from_secs(30);

/// The detectors of a run.
pub(super) struct Watch {
    series: BTreeMap<(NodeId, Method), Watched>,
    stored_at: Option<Duration>,
}

/// The checks of one node by one method.
struct Watched {
    detector: Option<Detector>,
    /// The first checks of a node without an expectation.
    early: Vec<Check>,
    is_changed: bool,
}

impl Watch {
    /// Takes up the detectors of nodes. A state that can't be used is as good as none: the detector
    /// learns again.
    pub(super) fn new<'a>(database: &mut dyn AuditDatabase, nodes: impl Iterator<Item = &'a Node>) -> Result<Self, DatabaseError> {
        let mut series = BTreeMap::new();
        for node in nodes {
            let method = node.rules.method;
            let stored = database.detector(node.id, Series::Checks(method))?.and_then(|state| Detector::from_bytes(&state).ok());
            let pinned = node.expected_time.and_then(|(base, slope)| Expectation::new(base, slope).ok());
            let detector = match (stored, pinned) {
                // The operator's expectation has changed, so the usual ratio has too.
                (Some(stored), Some(pinned)) if stored.expectation() != pinned => Self::started(pinned),
                (Some(stored), _) => Some(stored),
                (None, Some(pinned)) => Self::started(pinned),
                (None, None) => None,
            };
            series.insert((node.id, method), Watched { detector, early: Vec::new(), is_changed: false });
        }
        Ok(Self { series, stored_at: None })
    }

    fn started(expectation: Expectation) -> Option<Detector> {
        Detector::new(expectation, Parameters::default()).ok()
    }

    /// Shows a check to the detector of its node.
    pub(super) fn observe(&mut self, checked: &Checked) -> Vec<Incident> {
        let Some(timing) = timing(&checked.finding, checked.stream) else { return Vec::new() };
        let key = (checked.claim.node, checked.method);
        let Some(series) = self.series.get_mut(&key) else { return Vec::new() };
        series.is_changed = true;
        let check = Check { at_s: checked.at, bytes: checked.bytes, timing };
        let event = match &mut series.detector {
            Some(detector) => detector.observe(check),
            None => {
                series.early.push(check);
                if series.early.len() >= FITTED_FROM {
                    series.begin();
                }
                None
            }
        };
        event.map(|event| Incident::of(key.0, Series::Checks(key.1), checked.at, event)).into_iter().collect()
    }

    /// The states that have changed since they were last returned, if it is time to store them.
    pub(super) fn states(&mut self, now: Duration, at_end: bool) -> Vec<DetectorState> {
        let last = self.stored_at.get_or_insert(now);
        if !at_end && now.saturating_sub(*last) < STORE_PERIOD {
            return Vec::new();
        }
        *last = now;
        let mut states = Vec::new();
        for ((node, method), series) in &mut self.series {
            if at_end {
                series.begin();
            }
            if let (true, Some(detector)) = (series.is_changed, &series.detector) {
                series.is_changed = false;
                states.push(DetectorState { node: *node, series: Series::Checks(*method), state: detector.to_bytes() });
            }
        }
        states
    }
}

impl Watched {
    /// Makes a detector from the first checks. What the expectation is matters little to it: it
    /// learns how each size class differs.
    fn begin(&mut self) {
        if self.detector.is_some() || self.early.is_empty() {
            return;
        }
        let mut fit = Fit::new();
        let mut longest = Duration::from_micros(1);
        for check in &self.early {
            if let Timing::Answered(time) = check.timing {
                fit.add(check.bytes, time);
                longest = longest.max(time);
            }
        }
        let fitted = fit.fit().map(|fitted| fitted.expectation);
        let Ok(expectation) = fitted.or_else(|_| Expectation::new(longest.as_secs_f64(), 0.0)) else { return };
        let Some(mut detector) = Watch::started(expectation) else { return };
        for check in self.early.drain(..) {
            // Nothing is reported while a detector learns.
            let _ = detector.observe(check);
        }
        self.detector = Some(detector);
    }
}

/// How long the node took to answer; `None` if the check says nothing about that.
fn timing(finding: &Finding, stream: Duration) -> Option<Timing> {
    match finding {
        Finding::Unavailable(Unavailability::Refused(refusal)) => match refusal.cause {
            Cause::TimedOut | Cause::Cut { .. } | Cause::Connection | Cause::Absent | Cause::Fault | Cause::Throttled { .. } => {
                Some(Timing::Unanswered)
            }
            Cause::Missing | Cause::Lost | Cause::Denied | Cause::Abandoned | Cause::Exists | Cause::Unsupported => None,
        },
        Finding::Unavailable(_) | Finding::Missing | Finding::Lost { .. } => None,
        _ => Some(Timing::Answered(stream)),
    }
}

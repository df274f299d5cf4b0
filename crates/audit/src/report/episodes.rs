//! Slowdowns, from what detectors reported one by one.

use std::collections::{BTreeMap, VecDeque};

use crate::copy::NodeId;
use crate::database::{Incident, IncidentKind};
use crate::series::Series;

/// Ended slowdowns that are kept, the latest ones.
const KEPT: usize = 200;

/// A lasting slowdown of a node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slowdown {
    /// The node.
    pub node: NodeId,
    /// What got slower.
    pub series: Series,
    /// When it began, by estimate, in seconds since 1970.
    pub since: u64,
    /// When it was first reported, in seconds since 1970.
    pub named_at: u64,
    /// Measured time divided by the usual time, as last reported. `None` if most checks had no
    /// answer.
    pub factor: Option<f64>,
    /// Checks that the last report rests on.
    pub checks: u64,
    /// Those of them without an answer.
    pub unanswered: u64,
    /// How and when it ended; `None` while it is open.
    pub end: Option<End>,
}

/// The end of a slowdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The node was back at its usual times then, in seconds since 1970.
    Recovered(u64),
    /// The usual times were learned anew then, in seconds since 1970. The node may still be slow.
    Relearned(u64),
}

impl End {
    /// When it ended, in seconds since 1970.
    #[must_use]
    pub fn at(self) -> u64 {
        match self {
            Self::Recovered(at) | Self::Relearned(at) => at,
        }
    }
}

/// Joins reports, in the order in which they were recorded, into slowdowns: first those that ended,
/// in the order of their ends, then those that are open, by node and series.
pub(super) fn slowdowns(incidents: impl IntoIterator<Item = Incident>) -> Vec<Slowdown> {
    let mut open: BTreeMap<(NodeId, Series), Slowdown> = BTreeMap::new();
    let mut ended = VecDeque::new();
    for incident in incidents {
        let key = (incident.node, incident.series);
        let end = match incident.kind {
            IncidentKind::Slower | IncidentKind::Worse => {
                let begun = Slowdown {
                    node: incident.node,
                    series: incident.series,
                    since: incident.since,
                    named_at: incident.at,
                    factor: incident.factor,
                    checks: incident.checks,
                    unanswered: incident.unanswered,
                    end: None,
                };
                let slowdown = open.entry(key).or_insert(begun);
                let (since, named_at) = (slowdown.since, slowdown.named_at);
                *slowdown = Slowdown { since, named_at, ..begun };
                continue;
            }
            // Faster than usual is no longer slower.
            IncidentKind::Ended | IncidentKind::Faster => End::Recovered(incident.since),
            // A new detector knows nothing of the slowdown and will never end it.
            IncidentKind::Learned => End::Relearned(incident.at),
        };
        if let Some(slowdown) = open.remove(&key) {
            if ended.len() == KEPT {
                ended.pop_front();
            }
            ended.push_back(Slowdown { end: Some(end), ..slowdown });
        }
    }
    ended.into_iter().chain(open.into_values()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Method;

    fn incident(node: u16, at: u64, kind: IncidentKind, factor: f64) -> Incident {
        Incident {
            node: NodeId(node),
            series: Series::Checks(Method::Stream),
            at,
            kind,
            since: at - 5,
            factor: Some(factor),
            checks: 9,
            unanswered: 1,
        }
    }

    #[test]
    fn a_slowdown_stays_open_until_its_own_node_recovers_or_learns_anew() {
        use IncidentKind::{Ended, Faster, Learned, Slower, Worse};
        let found = slowdowns([
            incident(1, 100, Slower, 2.0),
            incident(2, 110, Slower, 3.0),
            incident(1, 120, Worse, 16.0),
            incident(2, 130, Ended, 3.0),
            incident(3, 140, Faster, 0.5),
            incident(4, 150, Slower, 4.0),
            incident(4, 160, Learned, 4.0),
        ]);
        let brief: Vec<_> = found.iter().map(|slowdown| (slowdown.node.0, slowdown.since, slowdown.factor, slowdown.end)).collect();
        assert_eq!(
            brief,
            [(2, 105, Some(3.0), Some(End::Recovered(125))), (4, 145, Some(4.0), Some(End::Relearned(160))), (1, 95, Some(16.0), None),]
        );
    }

    #[test]
    fn the_number_of_ended_slowdowns_is_limited_and_open_ones_are_never_dropped() {
        let rounds = (0..KEPT as u64 * 3).flat_map(|round| {
            [incident(1, 10 + round * 10, IncidentKind::Slower, 2.0), incident(1, 15 + round * 10, IncidentKind::Ended, 2.0)]
        });
        let found = slowdowns(std::iter::once(incident(7, 9, IncidentKind::Slower, 2.0)).chain(rounds));
        assert_eq!(found.len(), KEPT + 1);
        assert_eq!((found[KEPT].node, found[KEPT].end), (NodeId(7), None));
        assert_eq!(found[KEPT - 1].named_at, 10 + (KEPT as u64 * 3 - 1) * 10);
    }
}

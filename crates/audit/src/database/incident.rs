//! What detectors remember and report.

use crate::copy::NodeId;
use crate::series::Series;
use crate::slowdown;

/// State to be kept for a detector, beside the checks it has seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectorState {
    /// The node it watches.
    pub node: NodeId,
    /// What it watches there.
    pub series: Series,
    /// Its state, as it encodes it.
    pub state: Vec<u8>,
}

/// What a detector reported about a node's times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Incident {
    /// The node.
    pub node: NodeId,
    /// What got slower or faster.
    pub series: Series,
    /// When it was reported, in seconds since 1970.
    pub at: u64,
    /// What was reported.
    pub kind: IncidentKind,
    /// When the change happened, by estimate, in seconds since 1970.
    pub since: u64,
    /// Measured time divided by the usual time; for [`IncidentKind::Learned`], usual time divided
    /// by the expected one. `None` if most checks had no answer.
    pub factor: Option<f64>,
    /// Checks that it rests on.
    pub checks: u64,
    /// Those of them without an answer.
    pub unanswered: u64,
}

/// What a detector reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IncidentKind {
    /// The usual times are known from now on.
    Learned,
    /// The node got slower.
    Slower,
    /// The node got faster.
    Faster,
    /// A slowdown got worse.
    Worse,
    /// The node is back at its usual times.
    Ended,
}

impl IncidentKind {
    /// All kinds, in the order of their stored numbers.
    pub const ALL: [Self; 5] = [Self::Learned, Self::Slower, Self::Faster, Self::Worse, Self::Ended];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Learned => "learned",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Worse => "worse",
            Self::Ended => "ended",
        }
    }

    /// The number that stands for it in databases.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The kind of a stored number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl Incident {
    /// What a detector's event means for its node.
    #[must_use]
    pub fn of(node: NodeId, series: Series, at: u64, event: slowdown::Event) -> Self {
        use slowdown::Event;

        let of = |kind, since, factor, checks, unanswered| Self { node, series, at, kind, since, factor, checks, unanswered };
        match event {
            Event::Learned { factor } => of(IncidentKind::Learned, at, Some(factor), 0, 0),
            Event::Began(episode) => {
                let kind = if episode.direction == slowdown::Direction::Slower { IncidentKind::Slower } else { IncidentKind::Faster };
                of(kind, episode.since_s, episode.factor, episode.checks, episode.unanswered)
            }
            Event::Worsened { episode, since_s, .. } => {
                of(IncidentKind::Worse, since_s, episode.factor, episode.checks, episode.unanswered)
            }
            Event::Ended { episode, until_s } => of(IncidentKind::Ended, until_s, episode.factor, episode.checks, episode.unanswered),
        }
    }
}

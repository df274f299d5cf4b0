//! Errors that prevent planning. If no size meets the service level, that is a result, not an
//! error.

use fulgurite_library::placement::PlacementError;

use crate::scenario::ScenarioError;
use crate::simulation::RunError;

/// Planning failed.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum PlanError {
    /// The library is impossible.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    #[error("placement: {0}")]
    Placement(#[from] PlacementError),
    /// A simulation failed for a reason other than being too slow.
    #[error(transparent)]
    Run(#[from] RunError),
    #[error("a set of {members} platters doesn't fit into {racks} storage racks or fewer: their blast zones allow at most {most}")]
    NoRacks { members: usize, racks: u8, most: usize },
}

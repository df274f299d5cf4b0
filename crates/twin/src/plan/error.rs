//! Errors that prevent planning. If no size meets the service level, that is a result, not an
//! error.

use fulgurite_library::placement::PlacementError;

use crate::scenario::ScenarioError;
use crate::simulation::RunError;

/// Planning failed.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The library is impossible.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The sets don't fit.
    #[error("placement: {0}")]
    Placement(#[from] PlacementError),
    /// A run failed for another reason than being too slow.
    #[error(transparent)]
    Run(#[from] RunError),
    /// None of the tried numbers of racks holds a set.
    #[error("a set of {members} platters doesn't fit into {racks} storage racks or fewer: their blast zones allow at most {most}")]
    NoRacks {
        /// Platters of a set.
        members: usize,
        /// Most racks tried.
        racks: u8,
        /// Largest set that they hold.
        most: usize,
    },
}

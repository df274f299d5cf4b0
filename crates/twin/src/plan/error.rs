//! What keeps a plan from being made at all. That no size meets the level is no error, but an answer.

use fulgurite_library::placement::PlacementError;

use crate::scenario::ScenarioError;
use crate::simulation::RunError;

/// Why nothing could be planned.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// A library like this can't be.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Sets find no place.
    #[error("placement: {0}")]
    Placement(#[from] PlacementError),
    /// A run failed, and not for being too slow.
    #[error(transparent)]
    Run(#[from] RunError),
    /// No number of racks that was tried holds a set.
    #[error("a set of {members} platters has no place in {racks} storage racks or fewer, whose blast zones allow {most}")]
    NoRacks {
        /// Platters of a set.
        members: usize,
        /// The most racks tried.
        racks: u8,
        /// What they hold.
        most: usize,
    },
}

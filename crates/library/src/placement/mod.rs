//! Placement: chooses slots for the platters of a set so that one failure takes at most one of them
//! from the storage racks.
//!
//! ```text
//! zones    which cells one failure makes unreachable together, as data       Zones
//!   |
//! patterns all choices of cells for a set that keep the rule, as a graph     Patterns, Search
//!   |
//! planner  which slots are free, and where the next set or platter goes      Planner
//!   |
//! filling  what a library holds when it is full, and what it can't hold      fill
//! spread   sets over several libraries, by arithmetic                        Spread
//! ```
//!
//! The rule (I3): no two platters of a set are in one blast zone. A *cell* is one shelf of one
//! rack. Cells are numbered like slots, up the shelves of the first storage rack, then on to the
//! next rack.

mod filling;
mod patterns;
mod planner;
mod spread;
mod zones;

pub use filling::{Filling, fill};
pub use patterns::{BLOCKED, Patterns, Search};
pub use planner::{Planner, Reason, Unusable};
pub use spread::Spread;
pub use zones::{Zone, ZoneShape, Zones};

/// Why no placement exists or can be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum PlacementError {
    #[error("no blast zone given: at least one shape is required")]
    NoZones,
    #[error("a blast zone of {racks} racks and {shelves} shelves, but at least one of each is expected")]
    EmptyShape { racks: u8, shelves: u8 },
    #[error(
        "{racks} racks of {shelves} shelves with these blast zones have more than {limit} {what}: too many for the exact planner; \
         use wider zones or fewer shelves"
    )]
    TooLarge { racks: usize, shelves: usize, what: &'static str, limit: usize },
    #[error(
        "{members} platters of a set, but {racks} racks of {shelves} shelves hold at most {most} of one set outside each other's blast zones"
    )]
    TooManyMembers { members: usize, most: usize, racks: usize, shelves: usize },
    #[error("{members} platters over {libraries} libraries, but at least one of each is expected")]
    Nothing { members: usize, libraries: u32 },
}

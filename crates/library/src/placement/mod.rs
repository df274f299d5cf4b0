//! Placement: which slots the platters of a set go to, so that one failure takes at most one of them from the storage racks.
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
//! The rule (I3): no two platters of a set lie in one blast zone. A *cell* is one shelf of one rack; cells are numbered here as slots are, up
//! the shelves of the first storage rack, then on to the next one.

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

/// Why there is no placement, or no way to compute one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// Without zones nothing keeps two platters of a set out of one slot's shelf.
    #[error("no blast zone is given, but at least one shape is expected")]
    NoZones,
    /// A zone of nothing.
    #[error("a blast zone of {racks} racks and {shelves} shelves, but at least one of each is expected")]
    EmptyShape {
        /// Racks of the shape.
        racks: u8,
        /// Shelves of the shape.
        shelves: u8,
    },
    /// The exact planner looks at too many choices.
    #[error(
        "{racks} racks of {shelves} shelves with these blast zones have more than {limit} {what}: too many for the exact planner; \
         wider zones or fewer shelves have fewer"
    )]
    TooLarge {
        /// Storage racks.
        racks: usize,
        /// Shelves.
        shelves: usize,
        /// What there are too many of.
        what: &'static str,
        /// How many may be.
        limit: usize,
    },
    /// More members than fit, even in an empty library.
    #[error(
        "{members} platters of a set, but {racks} racks of {shelves} shelves hold at most {most} of one set outside each other's blast zones"
    )]
    TooManyMembers {
        /// Platters of the set in one library.
        members: usize,
        /// The most that fit.
        most: usize,
        /// Storage racks.
        racks: usize,
        /// Shelves.
        shelves: usize,
    },
    /// A set of nothing, or libraries that aren't there.
    #[error("{members} platters over {libraries} libraries, but at least one of each is expected")]
    Nothing {
        /// Platters of the set.
        members: usize,
        /// Libraries.
        libraries: u32,
    },
}

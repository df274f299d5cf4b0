//! Fills a library with complete sets and reports the slots left over.
//!
//! With sets as large as the rule allows, most slots of some cells can't be used: a rack with three
//! members has none on shelves 2, 3, 6 and 7 of ten. So a library with the fewest racks for its
//! sets (Table 1 of Project Silica) is the smallest that holds *a* set, not the one that uses its
//! slots best; `docs/placement.md` has the numbers.

use super::{PlacementError, Planner, Unusable, Zones};
use crate::{Layout, Slot};

/// A library filled to the last set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filling {
    /// The slots of each set, by position.
    pub sets: Vec<Vec<Slot>>,
    /// Slots with a platter.
    pub used: u32,
    /// Cells with free slots, and why no further set can use them.
    pub left: Vec<Unusable>,
}

/// Fills an empty library with sets of `members` platters.
///
/// # Errors
/// [`PlacementError::TooManyMembers`] if not even one set fits, [`PlacementError::Nothing`] for
/// sets of no platters, and the errors of [`Planner::new`].
pub fn fill(layout: &Layout, zones: &Zones, members: usize) -> Result<Filling, PlacementError> {
    if members == 0 {
        return Err(PlacementError::Nothing { members, libraries: 1 });
    }
    let mut planner = Planner::new(layout, zones)?;
    if members > planner.most() {
        let (racks, shelves) = (layout.storage_racks.into(), layout.shelves.into());
        return Err(PlacementError::TooManyMembers { members, most: planner.most(), racks, shelves });
    }
    let sets: Vec<Vec<Slot>> = std::iter::from_fn(|| planner.place_set(members)).collect();
    Ok(Filling { sets, used: layout.slot_count() - planner.free_slots(), left: planner.unusable(members) })
}

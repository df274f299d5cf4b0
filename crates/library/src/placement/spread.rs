//! Sets spread over several libraries: the place of each platter follows by arithmetic from one
//! small table.
//!
//! ```text
//! 7 members over 3 libraries: shares of 3, 2 and 2           a round: as many sets as libraries
//!
//!            library 0   library 1   library 2
//! set 0      share 0     share 1     share 2      each library gets each share once a round, so all fill evenly,
//! set 1      share 2     share 0     share 1      and one table with the slots of each round's shares serves all
//! set 2      share 1     share 2     share 0
//! ```
//!
//! With at least as many libraries as members, each share is one platter and the rule holds
//! trivially. With fewer, each share keeps the rule inside its library. Shares are small then, and
//! a walk over all cells along diagonals can keep any few consecutive cells outside each other's
//! zones: it fills all slots. If no such walk is found, the planner places the shares.

use super::{PlacementError, Planner, Zones};
use crate::{Layout, Slot};

/// Places of sets in several libraries with the same layout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    libraries: u32,
    members: usize,
    /// The slots of a library's platters, round after round, share after share.
    order: Vec<Slot>,
    /// The index of a slot in `order`; `u32::MAX` if it is not used.
    index_of: Vec<u32>,
}

impl Spread {
    /// Spreads sets of `members` platters over `libraries` with this layout.
    ///
    /// # Errors
    /// [`PlacementError::Nothing`] without members or libraries, [`PlacementError::TooManyMembers`]
    /// if a library can't hold its share of a set, and the errors of [`Planner::new`].
    pub fn new(layout: &Layout, zones: &Zones, libraries: u32, members: usize) -> Result<Self, PlacementError> {
        zones.check()?;
        if members == 0 || libraries == 0 {
            return Err(PlacementError::Nothing { members, libraries });
        }
        let shares = Shares { members, libraries: libraries as usize };
        let mut order = match walk(layout, zones, shares.largest()) {
            Some(walk) => walk,
            None => planned(layout, zones, &shares)?,
        };
        // An incomplete round would leave some sets without some of their platters.
        order.truncate(order.len() / members * members);
        let mut index_of = vec![u32::MAX; layout.slot_count() as usize];
        for (index, slot) in order.iter().enumerate() {
            index_of[slot.0 as usize] = index as u32;
        }
        Ok(Self { libraries, members, order, index_of })
    }

    /// Number of sets that the libraries hold.
    #[must_use]
    pub fn sets(&self) -> u64 {
        (self.order.len() / self.members) as u64 * u64::from(self.libraries)
    }

    /// Number of platters in each full library.
    #[must_use]
    pub fn platters_per_library(&self) -> u32 {
        self.order.len() as u32
    }

    /// The most members of one set in one library.
    #[must_use]
    pub fn most_together(&self) -> usize {
        self.shares().largest()
    }

    /// The library and slot of the platter at a `position` of a set; `None` for a set beyond
    /// [`Spread::sets`] or a position beyond its members.
    #[must_use]
    pub fn place(&self, set: u64, position: usize) -> Option<(u32, Slot)> {
        if set >= self.sets() || position >= self.members {
            return None;
        }
        let libraries = u64::from(self.libraries);
        let (round, turn) = (set / libraries, set % libraries);
        let share = self.shares().of(position) as u64;
        let library = (share + turn) % libraries;
        Some((library as u32, self.order[round as usize * self.members + position]))
    }

    /// The set and position of the platter in a slot; `None` if no set uses the slot.
    #[must_use]
    pub fn locate(&self, library: u32, slot: Slot) -> Option<(u64, usize)> {
        let index = *self.index_of.get(slot.0 as usize)? as usize;
        if library >= self.libraries || index >= self.order.len() {
            return None;
        }
        let (round, position) = ((index / self.members) as u64, index % self.members);
        let libraries = u64::from(self.libraries);
        let turn = (u64::from(library) + libraries - self.shares().of(position) as u64) % libraries;
        Some((round * libraries + turn, position))
    }

    fn shares(&self) -> Shares {
        Shares { members: self.members, libraries: self.libraries as usize }
    }
}

/// The members of a set, dealt to the libraries; if they don't divide evenly, the first shares get
/// one more.
struct Shares {
    members: usize,
    libraries: usize,
}

impl Shares {
    fn largest(&self) -> usize {
        self.members.div_ceil(self.libraries)
    }

    fn of(&self, position: usize) -> usize {
        let (small, larger) = (self.members / self.libraries, self.members % self.libraries);
        let in_larger = larger * (small + 1);
        if position < in_larger { position / (small + 1) } else { larger + (position - in_larger) / small }
    }

    fn sizes(&self) -> impl Iterator<Item = usize> {
        let (small, larger) = (self.members / self.libraries, self.members % self.libraries);
        (0..self.libraries.min(self.members)).map(move |share| small + usize::from(share < larger))
    }
}

/// All slots in an order in which any `together` consecutive ones are outside each other's zones,
/// if a walk along diagonals achieves that. Each step goes some racks on and some shelves up, and
/// one extra shelf up whenever the walk would return to its start.
fn walk(layout: &Layout, zones: &Zones, together: usize) -> Option<Vec<Slot>> {
    let (racks, shelves) = (usize::from(layout.storage_racks), usize::from(layout.shelves));
    let cells = racks * shelves;
    let round = cells / gcd(racks, shelves);
    let units = |of: usize| (1..=of).filter(move |&step| gcd(step, of) == 1);
    let steps = units(racks).flat_map(|across| units(shelves).map(move |up| (across, up)));
    for (across, up) in steps {
        let walk: Vec<u32> = (0..cells)
            .map(|index| {
                let (rack, shelf) = (index * across % racks, (index * up + index / round) % shelves);
                (rack * shelves + shelf) as u32
            })
            .collect();
        let first_slot = |index: usize| Slot(walk[index % cells] * u32::from(layout.slots));
        let apart = |a: usize, b: usize| !zones.share(layout.cell_of(first_slot(a)), layout.cell_of(first_slot(b)));
        if (0..cells).all(|index| (1..together).all(|ahead| apart(index, index + ahead))) {
            let slots = (0..u32::from(layout.slots)).flat_map(|index| (0..cells).map(move |cell| (cell, index)));
            return Some(slots.map(|(cell, index)| Slot(first_slot(cell).0 + index)).collect());
        }
    }
    None
}

/// The order of slots if the planner places share after share.
fn planned(layout: &Layout, zones: &Zones, shares: &Shares) -> Result<Vec<Slot>, PlacementError> {
    let mut planner = Planner::new(layout, zones)?;
    if shares.largest() > planner.most() {
        let (racks, shelves) = (layout.storage_racks.into(), layout.shelves.into());
        return Err(PlacementError::TooManyMembers { members: shares.largest(), most: planner.most(), racks, shelves });
    }
    let mut order = Vec::new();
    loop {
        for size in shares.sizes() {
            match planner.place_set(size) {
                Some(slots) => order.extend(slots),
                None => return Ok(order),
            }
        }
    }
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

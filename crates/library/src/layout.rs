//! One panel of a library: racks side by side, shelves above each other, slots in rows, drives at
//! both ends.
//!
//! ```text
//!           write     read      storage racks (7)                            read
//!           rack      rack                                                   rack
//! shelf 9 |         | o D9   | |||||||||| |||||||||| ... |||||||||| ||||||||| |   D19 o |     o = dock
//!   ...   | port    |        |            <=> shuttle, between two rails      |         |
//! shelf 0 |         | o D0   | |||||||||| |||||||||| ... |||||||||| ||||||||| |   D10 o |
//!         0 m      1.2 m                                                             12 m  -> x
//! ```
//!
//! Shelves, racks and their order are those of Project Silica (Anderson et al., SOSP '23, section
//! 4). The paper gives no sizes: slots, widths and dock positions are our proposals, and all are
//! settings.

use std::fmt;

/// The write rack and the left read rack.
pub(crate) const RACKS_BEFORE_STORAGE: u8 = 2;
/// The default spacing. With a shuttle for each drive at most, it is valid with racks of any width.
const SPACING_DEFAULT_UM: i64 = 350_000;

/// The doors of two drives on one shelf are a third of the rack's width apart.
const DOORS_APART_PART: i64 = 3;

/// A platter of one library: its index in the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Platter(pub u32);

/// A place for one platter in a storage rack, numbered from the first shelf of the first storage
/// rack: along the shelf, then up, then on to the next rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub u32);

/// A shuttle. In a conflict, the higher number goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shuttle(pub u16);

/// A read drive, numbered up the left read rack from the lowest shelf, then up the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Drive(pub u16);

/// One of the two places for platters in a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bay(pub u8);

/// Half of the panel, including the read rack at its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// The half with the write rack.
    Left,
    /// The other half.
    Right,
}

/// Position of a shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Shelf, 0 at the bottom.
    pub shelf: u8,
    /// Micrometres from the left end of the panel to the middle of the shuttle.
    pub x_um: i64,
}

/// One shelf of one rack: the unit of blast zones. Racks are numbered over the whole panel: 0 is
/// the write rack, 1 the left read rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    /// Rack of the panel.
    pub rack: u8,
    /// Shelf.
    pub shelf: u8,
}

/// Where a platter may rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Berth {
    /// In a storage rack.
    Slot(Slot),
    /// In a drive.
    Bay(Drive, Bay),
    /// The port, where written platters leave the write rack one after another.
    Port,
}

/// Dimensions of a panel. (P) marks figures of Project Silica (Anderson et al., SOSP '23).
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    /// Shelves: 10 (P).
    pub shelves: u8,
    /// Storage racks: 7 for sets of 16+3 (P).
    pub storage_racks: u8,
    /// Slots on each shelf of a storage rack: 300 (proposed). Platters are about 2 mm thick and
    /// stand like books, 4 mm apart.
    pub slots: u16,
    /// Width of a rack: 1.2 m (proposed).
    pub rack_width_um: i64,
    /// Drives in the left and the right read rack: up to 10 per rack, at least 2 in all (P). With
    /// more drives than shelves, some shelves have two, side by side; the paper's figures also have
    /// 40 drives, but it doesn't say where they are.
    pub drives: [u8; 2],
    /// Shuttles: 8 to 40 are studied, at most two per drive (P).
    pub shuttles: u16,
    /// The least distance between the centres of two shuttles on a shelf: 0.35 m (proposed).
    pub spacing_um: i64,
    /// The shelf on which written platters leave the write rack: 5 (proposed).
    pub port_shelf: u8,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            shelves: 10,
            storage_racks: 7,
            slots: 300,
            rack_width_um: 1_200_000,
            drives: [10, 10],
            shuttles: 20,
            spacing_um: SPACING_DEFAULT_UM,
            port_shelf: 5,
        }
    }
}

/// An invalid layout.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum LayoutError {
    /// Lengths are in metres.
    #[error("{what}: {found}, but {expected} is expected")]
    Range { what: &'static str, found: String, expected: &'static str },
}

impl Layout {
    /// Checks the numbers, which may come from a file.
    ///
    /// # Errors
    /// [`LayoutError::Range`] names the number that is out of range.
    pub fn check(self) -> Result<Self, LayoutError> {
        let range_of =
            |what, found: String, good: bool, expected| if good { Ok(()) } else { Err(LayoutError::Range { what, found, expected }) };
        let range = |what, found: i64, good, expected| range_of(what, found.to_string(), good, expected);
        let length = |what, found_um: i64, good, expected| range_of(what, format!("{} m", found_um as f64 / 1e6), good, expected);
        range("shelves", self.shelves.into(), (1..=100).contains(&self.shelves), "1 to 100")?;
        range("storage_racks", self.storage_racks.into(), (1..=100).contains(&self.storage_racks), "1 to 100")?;
        range("slots", self.slots.into(), (1..=10_000).contains(&self.slots), "1 to 10,000 on a shelf of a rack")?;
        length("rack_width", self.rack_width_um, (500_000..=10_000_000).contains(&self.rack_width_um), "0.5 to 10 m")?;
        for (what, drives) in [("drives_left", self.drives[0]), ("drives_right", self.drives[1])] {
            range(what, drives.into(), u16::from(drives) <= 2 * u16::from(self.shelves), "at most two for each shelf")?;
        }
        range("drives", self.drive_count().into(), self.drive_count() >= 1, "1 or more in all")?;
        range("shuttles", self.shuttles.into(), self.shuttles <= 2 * self.drive_count(), "at most two for each drive")?;
        length(
            "spacing",
            self.spacing_um,
            self.spacing_um > 0 && self.spacing_um <= (self.rack_width_um / 4).max(SPACING_DEFAULT_UM),
            "more than 0, up to 0.35 m or a quarter of a rack's width, whichever is more",
        )?;
        // With a shuttle at each door, others rest at docks. From there they must not block a
        // door, or a shuttle that works at one and those at docks wait for each other.
        let are_docks_needed = self.shuttles > self.drive_count() || self.shuttles > 1 && self.shelves == 1;
        length(
            "spacing",
            self.spacing_um,
            !are_docks_needed || self.spacing_um <= self.dock_to_door_um(),
            "with more shuttles than drives, or on a single shelf, up to the distance from a dock to the nearest door, which is 7/15 of a \
             rack's width, or 3/10 with more drives in a read rack than shelves",
        )?;
        // A shuttle takes at most two places of a row that are a spacing apart, so all find a
        // place to start at, and half of the shelves' length is left to move in.
        let room = i64::from(self.shelves) * (self.width_um() / (2 * self.spacing_um));
        range("shuttles", self.shuttles.into(), i64::from(self.shuttles) <= room, "at most one for every two spacings of each shelf")?;
        let can_pass = self.shelves > 1 || self.shuttles <= 2;
        range("shuttles", self.shuttles.into(), can_pass, "at most two on a panel with one shelf, where shuttles can't pass each other")?;
        range("port_shelf", self.port_shelf.into(), self.port_shelf < self.shelves, "one of the shelves")?;
        Ok(self)
    }

    /// The distance from a dock to the nearest door that any shelf has.
    fn dock_to_door_um(&self) -> i64 {
        let has_pairs = self.drives.iter().any(|drives| *drives > self.shelves);
        let door_um = if has_pairs { self.rack_width_um / DOORS_APART_PART / 2 } else { 0 };
        self.middle_to_dock_um() - door_um
    }

    /// The distance from the middle of a read rack to its docks.
    fn middle_to_dock_um(&self) -> i64 {
        self.rack_width_um / 2 - self.rack_width_um / 30
    }

    /// All racks: storage racks, two read racks and the write rack.
    #[must_use]
    pub fn racks(&self) -> u8 {
        self.storage_racks + 3
    }

    /// Length of the panel.
    #[must_use]
    pub fn width_um(&self) -> i64 {
        i64::from(self.racks()) * self.rack_width_um
    }

    /// Slots of all storage racks.
    #[must_use]
    pub fn slot_count(&self) -> u32 {
        u32::from(self.storage_racks) * u32::from(self.shelves) * u32::from(self.slots)
    }

    /// Drives of both sides.
    #[must_use]
    pub fn drive_count(&self) -> u16 {
        u16::from(self.drives[0]) + u16::from(self.drives[1])
    }

    /// The slot at `index` on a cell's shelf.
    #[must_use]
    pub fn slot(&self, cell: Cell, index: u16) -> Slot {
        let row = u32::from(cell.rack - RACKS_BEFORE_STORAGE) * u32::from(self.shelves) + u32::from(cell.shelf);
        Slot(row * u32::from(self.slots) + u32::from(index))
    }

    /// The cell of a slot.
    #[must_use]
    pub fn cell_of(&self, slot: Slot) -> Cell {
        let row = slot.0 / u32::from(self.slots);
        let shelves = u32::from(self.shelves);
        Cell { rack: (row / shelves) as u8 + RACKS_BEFORE_STORAGE, shelf: (row % shelves) as u8 }
    }

    /// The cell of a position.
    #[must_use]
    pub fn cell_at(&self, position: Position) -> Cell {
        let rack = (position.x_um / self.rack_width_um).clamp(0, i64::from(self.racks()) - 1);
        Cell { rack: rack as u8, shelf: position.shelf }
    }

    /// Position of a shuttle that serves a slot.
    #[must_use]
    pub fn slot_position(&self, slot: Slot) -> Position {
        let cell = self.cell_of(slot);
        let index = i64::from(slot.0 % u32::from(self.slots));
        let x_um = i64::from(cell.rack) * self.rack_width_um + (2 * index + 1) * self.rack_width_um / (2 * i64::from(self.slots));
        Position { shelf: cell.shelf, x_um }
    }

    /// The read rack a drive is in.
    #[must_use]
    pub fn drive_side(&self, drive: Drive) -> Side {
        if drive.0 < u16::from(self.drives[0]) { Side::Left } else { Side::Right }
    }

    /// The shelf a drive is on. Drives are spread evenly over the shelves of their rack.
    #[must_use]
    pub fn drive_shelf(&self, drive: Drive) -> u8 {
        let (index, count) = match self.drive_side(drive) {
            Side::Left => (drive.0, u16::from(self.drives[0])),
            Side::Right => (drive.0 - u16::from(self.drives[0]), u16::from(self.drives[1])),
        };
        ((2 * index + 1) * u16::from(self.shelves) / (2 * count)) as u8
    }

    /// Position of a shuttle that serves a drive. It reaches both bays from there.
    #[must_use]
    pub fn drive_position(&self, drive: Drive) -> Position {
        let (side, shelf) = (self.drive_side(drive), self.drive_shelf(drive));
        let is_beside =
            |other: u16| other < self.drive_count() && self.drive_side(Drive(other)) == side && self.drive_shelf(Drive(other)) == shelf;
        let middle_um = self.door_um(side);
        let apart_um = self.rack_width_um / DOORS_APART_PART;
        let x_um = if self.drives[usize::from(side == Side::Right)] <= self.shelves {
            middle_um
        } else if is_beside(drive.0 + 1) {
            middle_um - apart_um / 2
        } else if drive.0.checked_sub(1).is_some_and(is_beside) {
            middle_um + apart_um / 2
        } else {
            middle_um
        };
        Position { shelf, x_um }
    }

    /// The x of the door of a shelf's only drive, or between the doors of its two: the middle of
    /// the read rack.
    #[must_use]
    pub fn door_um(&self, side: Side) -> i64 {
        match side {
            Side::Left => self.rack_width_um + self.rack_width_um / 2,
            Side::Right => self.width_um() - self.rack_width_um / 2,
        }
    }

    /// Position of a charging shuttle: between the drives and the outer end of the read rack, out
    /// of the way of the door.
    #[must_use]
    pub fn dock_position(&self, shelf: u8, side: Side) -> Position {
        let x_um = match side {
            Side::Left => self.door_um(side) - self.middle_to_dock_um(),
            Side::Right => self.door_um(side) + self.middle_to_dock_um(),
        };
        Position { shelf, x_um }
    }

    /// Position of a shuttle that fetches written platters.
    #[must_use]
    pub fn port_position(&self) -> Position {
        Position { shelf: self.port_shelf, x_um: self.rack_width_um / 2 }
    }

    /// Position of a shuttle that serves a berth.
    #[must_use]
    pub fn berth_position(&self, berth: Berth) -> Position {
        match berth {
            Berth::Slot(slot) => self.slot_position(slot),
            Berth::Bay(drive, _) => self.drive_position(drive),
            Berth::Port => self.port_position(),
        }
    }

    /// The middle of the storage racks, where the halves meet.
    #[must_use]
    pub fn middle_um(&self) -> i64 {
        i64::from(RACKS_BEFORE_STORAGE) * self.rack_width_um + i64::from(self.storage_racks) * self.rack_width_um / 2
    }

    /// The half of the panel that an x is in.
    #[must_use]
    pub fn side_of(&self, x_um: i64) -> Side {
        if x_um < self.middle_um() { Side::Left } else { Side::Right }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shelf {} at {:.3} m", self.shelf, self.x_um as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slot_positions_agree_with_their_cells() {
        let layout = Layout::default().check().expect("in range");
        assert_eq!(layout.slot_count(), 21_000);
        for slot in (0..layout.slot_count()).map(Slot) {
            let cell = layout.cell_of(slot);
            assert_eq!(layout.cell_at(layout.slot_position(slot)), cell);
            assert_eq!(layout.slot(cell, (slot.0 % 300) as u16), slot);
            assert!((2..9).contains(&cell.rack));
        }
    }

    #[test]
    fn every_drive_has_a_place_of_its_own_in_its_read_rack() {
        for drives in [[10, 10], [2, 0], [3, 7], [0, 1], [5, 5], [20, 20], [15, 11]] {
            let layout = Layout { drives, shuttles: 1, ..Layout::default() }.check().expect("in range");
            let mut seen = std::collections::BTreeSet::new();
            for drive in (0..layout.drive_count()).map(Drive) {
                assert!(seen.insert(layout.drive_position(drive)), "{drives:?}: {drive:?} shares a place");
                let rack = layout.cell_at(layout.drive_position(drive)).rack;
                assert_eq!(rack, if layout.drive_side(drive) == Side::Left { 1 } else { 9 });
            }
        }
    }

    #[test]
    fn a_shuttle_at_a_dock_leaves_the_door_free() {
        let layout = Layout::default().check().expect("in range");
        for layout in [layout.clone(), Layout { drives: [20, 20], ..layout }] {
            for drive in (0..layout.drive_count()).map(Drive) {
                let door = layout.drive_position(drive);
                let distance = (layout.dock_position(door.shelf, layout.drive_side(drive)).x_um - door.x_um).abs();
                assert!(distance >= layout.spacing_um, "{drive:?}: {distance} um");
            }
        }
    }

    #[test]
    fn out_of_range_numbers_are_rejected_by_name() {
        let text = |layout: Layout| layout.check().expect_err("out of range").to_string();
        assert_eq!(text(Layout { shelves: 0, ..Layout::default() }), "shelves: 0, but 1 to 100 is expected");
        assert!(text(Layout { shuttles: 41, ..Layout::default() }).starts_with("shuttles: 41"));
        assert!(text(Layout { drives: [0, 0], shuttles: 0, ..Layout::default() }).starts_with("drives: 0"));
        let wide = Layout { rack_width_um: 11_000_000, ..Layout::default() };
        assert_eq!(text(wide), "rack_width: 11 m, but 0.5 to 10 m is expected");
        assert!(
            text(Layout { spacing_um: 350_001, ..Layout::default() }).starts_with("spacing: 0.350001 m, but more than 0, up to 0.35 m")
        );
        let narrow = |rack_width_um, drives, shuttles| Layout { rack_width_um, drives, shuttles, ..Layout::default() };
        assert!(narrow(500_000, [10, 10], 20).check().is_ok());
        assert!(narrow(750_000, [10, 10], 21).check().is_ok());
        assert!(text(narrow(749_000, [10, 10], 21)).starts_with("spacing: 0.35 m, but with more shuttles than drives"));
        assert!(narrow(1_167_000, [10, 11], 22).check().is_ok());
        assert!(text(narrow(1_166_000, [10, 11], 22)).starts_with("spacing: 0.35 m, but with more shuttles than drives"));
        assert!(text(Layout { port_shelf: 10, ..Layout::default() }).starts_with("port_shelf"));
        // Each shelf is 4.8 m long: room for six shuttles.
        let short = Layout { storage_racks: 1, drives: [20, 20], ..Layout::default() };
        assert!(Layout { shuttles: 60, ..short.clone() }.check().is_ok());
        assert_eq!(
            text(Layout { shuttles: 61, ..short }),
            "shuttles: 61, but at most one for every two spacings of each shelf is expected"
        );
        let one_shelf = |drives, shuttles| Layout { shelves: 1, port_shelf: 0, drives, shuttles, ..Layout::default() };
        assert!(one_shelf([2, 2], 2).check().is_ok());
        assert!(text(one_shelf([2, 2], 3)).starts_with("shuttles: 3, but at most two on a panel with one shelf"));
    }
}

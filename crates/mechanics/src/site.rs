//! The library as all machines see it: the layout and the platters in it.

use std::fmt;

use fulgurite_domain::Micros;
use fulgurite_library::{Action, Bay, Berth, CommandId, Drive, Layout, Platter, Slot};

use crate::Settings;
use crate::inventory::Inventory;

/// State shared by all machines.
#[derive(Debug, Clone)]
pub(crate) struct Site {
    pub(crate) layout: Layout,
    pub(crate) settings: Settings,
    pub(crate) inventory: Inventory,
    /// Mounted platters, by drive.
    pub(crate) clamps: Vec<[Option<Platter>; 2]>,
    /// Seconds to read a track.
    pub(crate) track_s: f64,
}

impl Site {
    pub(crate) fn has(&self, berth: Berth) -> bool {
        match berth {
            Berth::Slot(Slot(slot)) => slot < self.layout.slot_count(),
            Berth::Bay(Drive(drive), Bay(bay)) => drive < self.layout.drive_count() && bay < 2,
            Berth::Port => true,
        }
    }

    pub(crate) fn clamped(&self, drive: Drive, bay: Bay) -> Option<Platter> {
        self.clamps[usize::from(drive.0)][usize::from(bay.0)]
    }

    pub(crate) fn clamp(&mut self, drive: Drive, bay: Bay, platter: Option<Platter>) {
        self.clamps[usize::from(drive.0)][usize::from(bay.0)] = platter;
    }

    pub(crate) fn is_clamped(&self, berth: Berth) -> bool {
        matches!(berth, Berth::Bay(drive, bay) if self.clamped(drive, bay).is_some())
    }

    /// Seconds to read this many consecutive tracks.
    pub(crate) fn read_s(&self, tracks: u32) -> f64 {
        f64::from(tracks) * self.track_s
    }
}

/// Panics on an impossible command: the controller has lost track of the library.
#[cold]
pub(crate) fn impossible(now: Micros, id: CommandId, action: Action, why: fmt::Arguments<'_>) -> ! {
    panic!("programming error at {now}: command {} to {:?} is {action:?}, but {why}", id.number, id.actor)
}

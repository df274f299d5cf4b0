//! The servers of one library, and the least time that each kind of work costs them.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use fulgurite_library::{Drive, Layout, Library, Pace, Position, Slot};
use fulgurite_mechanics::Service;

use crate::scenario::{PolicyName, Scenario, Stock, mean_seek_s};

/// The servers of a library and the least times of their work, in seconds.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    /// `None` if the policy needs no shuttles.
    pub(super) shuttles: Option<f64>,
    pub(super) drives: f64,
    /// Places for platters outside slots: two in each drive, one on each shuttle.
    pub(super) places: f64,
    /// Time to fetch each platter and return it.
    pub(super) handling_s: Vec<f64>,
    pub(super) handling_most_s: f64,
    /// `handling_s` plus the least empty way to each platter: a shuttle comes from another
    /// platter's slot, or from a drive.
    pub(super) visiting_s: Vec<f64>,
    pub(super) visiting_most_s: f64,
    /// Drive time of a visit apart from seeking and reading: a mount and an unmount.
    pub(super) visit_s: f64,
    pub(super) seek_s: f64,
    /// Drive time for each track of a read.
    track_s: f64,
    /// Drive time for each read, whatever its tracks. One of the two is 0.
    read_s: f64,
}

impl Servers {
    pub(super) fn of(scenario: &Scenario, stock: &Stock, library: Library) -> Self {
        let (layout, drive) = (&scenario.layout, &scenario.mechanics.drive);
        let inventory = &stock.inventories[usize::from(library.0)];
        let pace = scenario.pace();
        let doors: Vec<_> = (0..layout.drive_count()).map(|drive| layout.drive_position(Drive(drive))).collect();
        let handling = |pace: &Pace, slot| {
            let place = layout.slot_position(slot);
            doors.iter().map(|door| pace.handling(place, *door)).min().map_or(0.0, |time| time.seconds())
        };
        let handling_s: Vec<f64> = inventory.homes.iter().map(|slot| handling(&pace, *slot)).collect();
        let approaches = approaches(layout, &pace, &inventory.homes, &doors);
        let visiting_s: Vec<f64> = handling_s.iter().zip(approaches).map(|(handling, approach)| handling + approach).collect();
        let (seek_s, track_s, read_s) = match drive.service {
            Service::Tracks => (mean_seek_s(drive), drive.track_bytes as f64 / drive.throughput_bytes_s, 0.0),
            Service::Fixed(seconds) | Service::Exponential(seconds) => (0.0, 0.0, seconds),
        };
        let drives = f64::from(layout.drive_count());
        let needs_shuttles = scenario.policy.name != PolicyName::NoShuttles;
        Self {
            shuttles: needs_shuttles.then_some(f64::from(layout.shuttles)),
            drives,
            places: 2.0 * drives + f64::from(layout.shuttles),
            handling_most_s: handling_s.iter().copied().fold(0.0, f64::max),
            handling_s,
            visiting_most_s: visiting_s.iter().copied().fold(0.0, f64::max),
            visiting_s,
            visit_s: drive.mount_s + drive.unmount_s,
            seek_s,
            track_s,
            read_s,
        }
    }

    /// Reading time of one request, without the seek.
    pub(super) fn reading_s(&self, tracks: u32) -> f64 {
        self.read_s + f64::from(tracks) * self.track_s
    }

    /// Time to fetch and return each of these platters once; 0 without shuttles.
    pub(super) fn sweep_s(&self, platters: &BTreeSet<u32>) -> f64 {
        self.shuttles.map_or(0.0, |shuttles| platters.iter().map(|platter| self.visiting_s[*platter as usize]).sum::<f64>() / shuttles)
    }

    pub(super) fn platters_by_shuttles(&self) -> f64 {
        let mean = self.handling_s.iter().sum::<f64>() / self.handling_s.len().max(1) as f64;
        self.shuttles.map_or(f64::INFINITY, |shuttles| shuttles / mean)
    }

    pub(super) fn platters_by_drives(&self) -> f64 {
        self.drives / (self.visit_s + self.seek_s + self.reading_s(1))
    }
}

/// The least time to each of these slots from another of them, or from a drive.
fn approaches(layout: &Layout, pace: &Pace, homes: &[Slot], doors: &[Position]) -> Vec<f64> {
    let homes: Vec<Position> = homes.iter().map(|slot| layout.slot_position(*slot)).collect();
    let places: BTreeSet<Position> = homes.iter().chain(doors).copied().collect();
    let least = |place: &Position| {
        let (before, behind) = (places.range(..place).next_back(), places.range((Excluded(place), Unbounded)).next());
        let along = before.into_iter().chain(behind).map(|other| pace.travel(*other, *place)).min();
        // A position on another shelf is at least one crab away.
        along.map_or(pace.crab, |way| way.min(pace.crab)).seconds()
    };
    homes.iter().map(least).collect()
}

//! What the work of one library costs whom, at the least.

use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

use fulgurite_library::{Drive, Layout, Library, Pace, Position, Slot};
use fulgurite_mechanics::Service;

use crate::scenario::{PolicyName, Scenario, Stock, mean_seek_s};

/// The servers of a library and the least times of what they do, in seconds.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    /// None where a policy needs none.
    pub(super) shuttles: Option<f64>,
    pub(super) drives: f64,
    /// Where platters can be that are not in a slot: two in each drive, one on each shuttle.
    pub(super) places: f64,
    /// To fetch each platter and take it home.
    pub(super) handling_s: Vec<f64>,
    pub(super) handling_most_s: f64,
    /// The same with the least empty way to each platter: a shuttle comes from the slot of another one, or from a drive.
    pub(super) visiting_s: Vec<f64>,
    pub(super) visiting_most_s: f64,
    /// What a visit costs a drive, but for seeking and reading: a mount and an unmount.
    pub(super) visit_s: f64,
    pub(super) seek_s: f64,
    /// For each track of a read, and for each read.
    track_s: f64,
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

    /// Reading for one request, without the seek.
    pub(super) fn reading_s(&self, tracks: u32) -> f64 {
        self.read_s + f64::from(tracks) * self.track_s
    }

    /// Each of these platters fetched and taken home once; nothing without shuttles.
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

/// The least time to each of these slots from another one of them, or from a drive.
fn approaches(layout: &Layout, pace: &Pace, homes: &[Slot], doors: &[Position]) -> Vec<f64> {
    let homes: Vec<Position> = homes.iter().map(|slot| layout.slot_position(*slot)).collect();
    let places: BTreeSet<Position> = homes.iter().chain(doors).copied().collect();
    let least = |place: &Position| {
        let (before, behind) = (places.range(..place).next_back(), places.range((Excluded(place), Unbounded)).next());
        let along = before.into_iter().chain(behind).map(|other| pace.travel(*other, *place)).min();
        // Whatever is on another shelf is a crab away at least.
        along.map_or(pace.crab, |way| way.min(pace.crab)).seconds()
    };
    homes.iter().map(least).collect()
}

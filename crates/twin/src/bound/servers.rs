//! What the work of one library costs whom, at the least.

use fulgurite_library::{Drive, Library, Pace};
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

    pub(super) fn platters_by_shuttles(&self) -> f64 {
        let mean = self.handling_s.iter().sum::<f64>() / self.handling_s.len().max(1) as f64;
        self.shuttles.map_or(f64::INFINITY, |shuttles| shuttles / mean)
    }

    pub(super) fn platters_by_drives(&self) -> f64 {
        self.drives / (self.visit_s + self.seek_s + self.reading_s(1))
    }
}

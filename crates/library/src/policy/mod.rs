//! Policies: what moves next. Whenever something changes that matters to it, the controller asks
//! the [`Policy`], which looks at the [`Panel`] and gives one shuttle one task, again until it has
//! none. The controller handles queues, drives, traffic, failures and housekeeping.

mod balanced;
mod no_shuttles;
mod partitioned;
mod shortest_paths;

pub use balanced::{Balanced, Techniques};
pub use no_shuttles::NoShuttles;
pub use partitioned::Partitioned;
pub use shortest_paths::ShortestPaths;

use fulgurite_domain::Micros;

use crate::{Bay, Drive, Operation, Panel, Platter, Purpose, Rectangle, Shuttle, Stage};

/// A task for a shuttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bring a platter with requests from its slot to a drive. [`Panel::bay_to_fill`] says whether
    /// there is room. If both bays hold platters when it arrives, the shuttle waits until another
    /// one has taken one of them away.
    Fetch {
        /// A platter in a lane's queue.
        platter: Platter,
        /// Destination.
        drive: Drive,
    },
    /// Take a released platter from a drive to its slot, or to a spare one if it has none or a
    /// failure blocks it. A platter with tracks left to verify comes back when a drive is to verify
    /// again.
    Collect {
        /// Source.
        drive: Drive,
        /// The bay.
        bay: Bay,
    },
}

/// An event that moves no platter to another berth and changes no shuttle's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A shuttle with a job has ended a leg of its way.
    OfShuttle {
        /// The shuttle.
        shuttle: Shuttle,
    },
    /// A drive has read a request, mounted a platter or switched, or more of a platter that it
    /// holds is requested.
    OfDrive {
        /// The drive.
        drive: Drive,
        /// Estimated time of its work for customers before the event.
        work_before: Micros,
    },
    /// More of a waiting platter is requested, and its most urgent request is still the same.
    OfQueue {
        /// The platter.
        platter: Platter,
    },
}

/// Decides what moves next.
pub trait Policy: Send {
    /// Returns a task for an idle shuttle, if it has one. A policy without a task has none until
    /// the panel changes.
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)>;

    /// Whether the policy may have a task after progress that it should be asked about. After all
    /// other events it is asked in any case. A policy that returns false and looks at the time is
    /// asked later than it could be; if that matters, its deadline must be a fixed instant.
    fn may_act_on(&self, panel: &Panel, progress: Progress) -> bool {
        let _ = (panel, progress);
        true
    }

    /// For each drive, whether it should serve customers with both bays and hold no platter to
    /// verify. When this turns true, the platter is released. Empty if no drive ever should.
    /// Called after [`Policy::assign`] has run out of tasks.
    fn customers_only(&self) -> &[bool] {
        &[]
    }

    /// Whether an idle shuttle has nothing to do for long and should rest at a dock, where it is in
    /// no other's way. Called after [`Policy::assign`] has run out of tasks.
    fn stands_by(&self, shuttle: Shuttle) -> bool {
        let _ = shuttle;
        false
    }

    /// When to ask the policy again if no event comes first.
    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        let _ = panel;
        None
    }

    /// Whether drives get their platters instantly, as if shuttles took no time: a lower bound that
    /// can't be built.
    fn needs_no_shuttles(&self) -> bool {
        false
    }

    /// Whether the requests for a mounted platter are read in order of their tracks instead of
    /// arrival.
    fn reads_by_track(&self) -> bool {
        false
    }
}

/// A task in a rectangle whose shuttles are all lost, for a shuttle without a task of its own:
/// collects a platter that its drives released, or fetches its most urgent platter to one of its
/// drives or of the shuttle's own.
pub(crate) fn task_in_orphaned_rectangle(panel: &Panel, rectangles: &[Rectangle], own: &Rectangle) -> Option<Task> {
    if !panel.has_lost() {
        return None;
    }
    let orphans = rectangles.iter().filter(|one| !one.shuttles.is_empty() && panel.working_in(one).next().is_none());
    for orphan in orphans {
        let mut drives = orphan.drives.iter().filter(|drive| panel.is_reachable(**drive));
        if let Some((drive, bay)) = drives.find_map(|drive| Some((*drive, panel.released_bay(*drive)?))) {
            return Some(Task::Collect { drive, bay });
        }
        let Some(platter) = panel.first_in(orphan.lanes.iter().copied()) else { continue };
        let at = panel.platter_position(platter);
        let travel_time = |drive: &&Drive| (panel.pace().travel(at, panel.door(**drive)), **drive);
        if let Some(drive) = orphan.drives.iter().chain(&own.drives).filter(|drive| panel.is_free(**drive)).min_by_key(travel_time) {
            return Some(Task::Fetch { platter, drive: *drive });
        }
    }
    None
}

/// The idle shuttle with the least travel time to a place.
pub(crate) fn nearest_idle(panel: &Panel, to: crate::Position) -> Option<Shuttle> {
    panel.idle_shuttles().min_by_key(|shuttle| (panel.pace().travel(panel.position(*shuttle), to), *shuttle))
}

/// Rough estimate of the time that a drive needs for its customers.
pub(crate) fn customer_work(panel: &Panel, drive: Drive) -> Micros {
    let bays = panel.bays(drive).iter();
    let customers = bays.filter_map(|bay| bay.held).filter(|held| held.purpose == Purpose::Customer && held.stage != Stage::Released);
    let waiting: u64 = customers.clone().map(|held| u64::from(panel.queue().tracks_for(held.platter))).sum();
    let reading = match panel.operation(drive) {
        Some(Operation::Read(_, tracks)) => u64::from(tracks.count),
        _ => 0,
    };
    Micros(customers.count() as u64 * panel.pace().visit.0 + (waiting + reading) * panel.pace().track.0)
}

//! What moves next. A [`Policy`] is asked whenever something changed that it could act on, looks at the [`Panel`], and gives one shuttle one
//! task; it is asked again until it has none. Queues, drives, traffic, failures and whatever is nobody's choice are the controller's.

mod fulgurite;
mod no_shuttles;
mod partitioned;
mod shortest_paths;

pub use fulgurite::{Fulgurite, Ideas};
pub use no_shuttles::NoShuttles;
pub use partitioned::Partitioned;
pub use shortest_paths::ShortestPaths;

use fulgurite_domain::Micros;

use crate::{Bay, Drive, Panel, Platter, Rectangle, Shuttle};

/// What a shuttle is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bring a platter that is waited for from its slot to a drive. A bay of the drive must be empty and promised to nobody.
    Fetch {
        /// A platter that stands in a line.
        platter: Platter,
        /// Where to.
        drive: Drive,
    },
    /// Take a platter that the drive released to its slot; what is still to be verified goes to a spare one, and comes back when the drive is
    /// to verify again.
    Collect {
        /// Where from.
        drive: Drive,
        /// Which of its bays.
        bay: Bay,
    },
}

/// Decides what moves next.
pub trait Policy: Send {
    /// A task for a shuttle that is idle, or none.
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)>;

    /// Whether a drive should hold something to verify. Where it shouldn't any longer, what is in it is released. Asked after each
    /// [`Policy::assign`] that had no more tasks, if [`Policy::sets_aside`] says so.
    fn verifies(&self, panel: &Panel, drive: Drive) -> bool {
        let _ = (panel, drive);
        true
    }

    /// Whether [`Policy::verifies`] is ever false, and has to be asked.
    fn sets_aside(&self) -> bool {
        false
    }

    /// When the policy wants to be asked again, even if nothing happens until then.
    fn deadline(&self, panel: &Panel) -> Option<Micros> {
        let _ = panel;
        None
    }

    /// Whether drives get their platters by themselves, as if shuttles took no time: a lower bound, and nothing that can be built.
    fn needs_no_shuttles(&self) -> bool {
        false
    }

    /// Whether the requests for a mounted platter are read in order of their tracks, instead of in order of arrival.
    fn reads_by_track(&self) -> bool {
        false
    }
}

/// What a shuttle without a task of its own does for a rectangle whose shuttles are all out of order: takes home what its drives are done with,
/// or fetches its oldest platter, to one of its drives or of the shuttle's own.
pub(crate) fn stand_in(panel: &Panel, rectangles: &[Rectangle], own: &Rectangle) -> Option<Task> {
    if !panel.has_lost() {
        return None;
    }
    let orphans = rectangles.iter().filter(|one| !one.shuttles.is_empty() && one.working(panel).next().is_none());
    for orphan in orphans {
        let mut drives = orphan.drives.iter().filter(|drive| panel.is_reachable(**drive));
        if let Some((drive, bay)) = drives.find_map(|drive| Some((*drive, panel.released_bay(*drive)?))) {
            return Some(Task::Collect { drive, bay });
        }
        let heads = orphan.lanes.iter().filter_map(|lane| panel.queue().line(*lane).next());
        let Some(platter) = heads.min_by_key(|platter| (panel.queue().oldest(*platter), *platter)) else { continue };
        let at = panel.place_of(platter);
        let has_room = |drive: &&Drive| panel.is_reachable(**drive) && panel.customers(**drive) == 0 && panel.empty_bay(**drive).is_some();
        let way = |drive: &&Drive| (panel.pace().travel(at, panel.layout().drive_position(**drive)), **drive);
        if let Some(drive) = orphan.drives.iter().chain(&own.drives).filter(has_room).min_by_key(way) {
            return Some(Task::Fetch { platter, drive: *drive });
        }
    }
    None
}

/// The idle shuttle that is nearest to a place, by the time that the way takes.
pub(crate) fn nearest_idle(panel: &Panel, to: crate::Position) -> Option<Shuttle> {
    panel.idle_shuttles().min_by_key(|shuttle| (panel.pace().travel(panel.position(*shuttle), to), *shuttle))
}

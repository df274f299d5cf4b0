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

use crate::{Bay, Drive, Panel, Platter, Shuttle};

/// What a shuttle is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// Bring a platter that is waited for from its slot to a drive. A bay of the drive must be empty, or be left by the time.
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
    /// [`Policy::assign`] that had no more tasks.
    fn verifies(&self, panel: &Panel, drive: Drive) -> bool {
        let _ = (panel, drive);
        true
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

/// The idle shuttle that is nearest to a place, by the time that the way takes.
pub(crate) fn nearest_idle(panel: &Panel, to: crate::Position) -> Option<Shuttle> {
    panel.idle_shuttles().min_by_key(|shuttle| (panel.pace().travel(panel.position(*shuttle), to), *shuttle))
}

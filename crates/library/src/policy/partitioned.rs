//! The policy of the paper: each shuttle has its own rectangle.

use std::cell::OnceCell;

use crate::policy::task_in_orphaned_rectangle;
use crate::rectangle::{Rectangle, indices_by_shuttle, rectangles};
use crate::{Drive, Layout, Panel, Platter, Policy, Progress, Shuttle, Task};

/// A shuttle brings the most urgent platter of its rectangle to one of its drives, and takes it
/// back. When the numbers of waiting tracks in the fullest and the emptiest rectangle differ by
/// more than a threshold, idle shuttles fetch from the fullest. (SOSP '23, section 4.)
#[derive(Debug, Clone)]
pub struct Partitioned {
    rectangles: Vec<Rectangle>,
    /// The rectangle of each shuttle.
    rectangle_of_shuttle: Vec<usize>,
    steals_above: Option<u64>,
}

impl Partitioned {
    /// `steals_above` is the difference in waiting tracks above which idle shuttles help elsewhere;
    /// with `None` they never do.
    #[must_use]
    pub fn new(layout: &Layout, steals_above: Option<u64>) -> Self {
        let rectangles = rectangles(layout);
        let rectangle_of_shuttle = indices_by_shuttle(&rectangles);
        Self { rectangles, rectangle_of_shuttle, steals_above }
    }

    fn first(&self, panel: &Panel, rectangle: &Rectangle) -> Option<Platter> {
        panel.first_in(rectangle.lanes.iter().copied())
    }

    fn waiting_tracks(&self, panel: &Panel, rectangle: &Rectangle) -> u64 {
        rectangle.lanes.iter().map(|lane| panel.queue().tracks_in(*lane)).sum()
    }

    /// The rectangle that needs help, if any.
    fn fullest(&self, panel: &Panel) -> Option<&Rectangle> {
        let threshold = self.steals_above?;
        let waiting = |rectangle: &Rectangle| self.waiting_tracks(panel, rectangle);
        let emptiest = self.rectangles.iter().map(waiting).min()?;
        let (fullest, most) = self.rectangles.iter().map(|one| (one, waiting(one))).max_by_key(|(_, tracks)| *tracks)?;
        (most - emptiest > threshold).then_some(fullest)
    }

    fn task<'a>(&'a self, panel: &Panel, shuttle: Shuttle, fullest: &OnceCell<Option<&'a Rectangle>>) -> Option<Task> {
        let rectangle = &self.rectangles[self.rectangle_of_shuttle[usize::from(shuttle.0)]];
        if !panel.working_in(rectangle).any(|other| other == shuttle) {
            return None;
        }
        let at = panel.position(shuttle);
        let travel_time = |drive: &Drive| panel.pace().travel(at, panel.door(*drive));
        let released = rectangle.drives.iter().filter_map(|drive| {
            let bay = panel.released_bay(*drive)?;
            Some((travel_time(drive), *drive, bay))
        });
        if let Some((_, drive, bay)) =
            released.filter(|(_, drive, _)| panel.is_reachable(*drive)).min_by_key(|(travel_time, drive, _)| (*travel_time, *drive))
        {
            return Some(Task::Collect { drive, bay });
        }
        let platter = match rectangle.drives.iter().any(|drive| panel.is_free(*drive)) {
            true => self.first(panel, rectangle).or_else(|| self.first(panel, (*fullest.get_or_init(|| self.fullest(panel)))?)),
            false => None,
        };
        let Some(platter) = platter else { return task_in_orphaned_rectangle(panel, &self.rectangles, rectangle) };
        let place = panel.platter_position(platter);
        let carry = |drive: &&Drive| (panel.pace().travel(place, panel.door(**drive)), **drive);
        let drive = *rectangle.drives.iter().filter(|drive| panel.is_free(**drive)).min_by_key(carry)?;
        Some(Task::Fetch { platter, drive })
    }
}

impl Policy for Partitioned {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        // The fullest rectangle is the same for all shuttles in this call.
        let fullest = OnceCell::new();
        panel.idle_shuttles().find_map(|shuttle| Some((shuttle, self.task(panel, shuttle, &fullest)?)))
    }

    fn may_act_on(&self, _: &Panel, progress: Progress) -> bool {
        // A rectangle may have become so full that others help.
        matches!(progress, Progress::OfQueue { .. }) && self.steals_above.is_some()
    }
}

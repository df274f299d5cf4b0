//! The baseline without partitions: any shuttle goes anywhere.

use crate::policy::nearest_idle;
use crate::{Drive, Panel, Policy, Progress, Shuttle, Task};

/// The nearest idle shuttle brings the most urgent platter to the nearest drive with room, and
/// takes released platters back to their slots. (SP of SOSP '23, section 7.2.)
#[derive(Debug, Clone, Copy, Default)]
pub struct ShortestPaths;

impl Policy for ShortestPaths {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        panel.idle_shuttles().next()?;
        for drive in panel.drives().filter(|drive| panel.is_reachable(*drive)) {
            if let Some(bay) = panel.released_bay(drive) {
                let shuttle = nearest_idle(panel, panel.layout().drive_position(drive))?;
                return Some((shuttle, Task::Collect { drive, bay }));
            }
        }
        let platter = panel.first_in(panel.lanes())?;
        let at = panel.platter_position(platter);
        let travel_time = |drive: &Drive| panel.pace().travel(at, panel.layout().drive_position(*drive));
        let drive = panel.drives().filter(|drive| panel.is_free(*drive)).min_by_key(|drive| (travel_time(drive), *drive))?;
        Some((nearest_idle(panel, at)?, Task::Fetch { platter, drive }))
    }

    fn may_act_on(&self, _: &Panel, _: Progress) -> bool {
        false
    }
}

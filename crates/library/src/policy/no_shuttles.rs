//! The baseline without shuttles: platters move instantly, so only drives take time.

use crate::{Panel, Policy, Progress, Shuttle, Task};

/// A free drive loads the platter with the most urgent request of all. (NS of SOSP '23,
/// section 7.2.)
#[derive(Debug, Clone, Copy, Default)]
pub struct NoShuttles;

impl Policy for NoShuttles {
    fn assign(&mut self, _: &Panel) -> Option<(Shuttle, Task)> {
        None
    }

    fn needs_no_shuttles(&self) -> bool {
        true
    }

    fn may_act_on(&self, _: &Panel, _: Progress) -> bool {
        false
    }
}

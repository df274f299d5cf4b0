//! The baseline without shuttles: platters are where they are wanted at once, so that only drives take time.

use crate::{Panel, Policy, Shuttle, Task};

/// A drive loads its next platter, the one with the oldest request of all, as soon as it is free. (NS of SOSP '23, section 7.2.)
#[derive(Debug, Clone, Copy, Default)]
pub struct NoShuttles;

impl Policy for NoShuttles {
    fn assign(&mut self, _: &Panel) -> Option<(Shuttle, Task)> {
        None
    }

    fn needs_no_shuttles(&self) -> bool {
        true
    }
}

//! Ours.

use crate::{Layout, Panel, Partitioned, Policy, Shuttle, Task};

/// x
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ideas {}

/// x
#[derive(Debug, Clone)]
pub struct Fulgurite(Partitioned);

impl Fulgurite {
    /// x
    #[must_use]
    pub fn new(layout: &Layout, _ideas: Ideas) -> Self {
        Self(Partitioned::new(layout, Some(100)))
    }
}

impl Policy for Fulgurite {
    fn assign(&mut self, panel: &Panel) -> Option<(Shuttle, Task)> {
        self.0.assign(panel)
    }
}

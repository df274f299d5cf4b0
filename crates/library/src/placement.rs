//! tmp
use crate::{Cell, Layout};
pub(crate) fn unreachable(layout: &Layout, cell: Cell, between: Option<u8>) -> Vec<Cell> {
    match between {
        Some(other) => {
            let low = cell.shelf.min(other).saturating_sub(1);
            let high = (cell.shelf.max(other) + 1).min(layout.shelves - 1);
            (low..=high).map(|shelf| Cell { shelf, ..cell }).collect()
        }
        None => (cell.rack.saturating_sub(1)..=(cell.rack + 1).min(layout.racks() - 1)).map(|rack| Cell { rack, ..cell }).collect(),
    }
}

//! What a page can play.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Layout};
use serde_json::{Value, json};

use crate::entries::{Entries, millimetres, milliseconds, place};

/// A library over some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Recording {
    /// What the page calls it.
    pub title: String,
    pub(crate) layout: Layout,
    pub(crate) until: Micros,
    /// Doubled shelf and place of each shuttle before its first leg.
    pub(crate) starts: Vec<[i64; 2]>,
    /// Requests that were open before the first arrival.
    pub(crate) open: usize,
    pub(crate) entries: Entries,
}

impl Recording {
    /// The recording for the page's script.
    #[must_use]
    pub fn json(&self) -> Value {
        let layout = &self.layout;
        let drives = (0..layout.drive_count()).map(|drive| place(layout.drive_position(Drive(drive))));
        json!({
            "title": self.title,
            "until": milliseconds(self.until),
            "layout": {
                "shelves": layout.shelves,
                "racks": layout.racks(),
                "storageRacks": layout.storage_racks,
                "width": millimetres(layout.width_um()),
                "port": place(layout.port_position()),
                "drives": drives.collect::<Vec<_>>(),
            },
            "starts": self.starts,
            "open": self.open,
            "entries": self.entries.json(),
        })
    }
}

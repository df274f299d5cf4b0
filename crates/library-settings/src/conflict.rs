//! Settings that are valid one by one but not together, and where they are reported.

use fulgurite_library::LayoutError;
use fulgurite_library::placement::PlacementError;
use fulgurite_mechanics::SettingsError;
use fulgurite_settings::Reader;

/// A library that can't run with its settings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened")]
pub enum Conflict {
    #[error("library: {0}")]
    Layout(#[from] LayoutError),
    #[error("placement: {0}")]
    Zones(#[from] PlacementError),
    #[error("the library has no shuttles; at least one is required")]
    NoShuttles,
    #[error("the policy \"no-shuttles\" is a baseline of the twin and can't run a library")]
    Baseline,
    #[error("mechanics: {0}")]
    Mechanics(#[from] SettingsError),
}

impl Conflict {
    /// Reports the conflict at the setting that causes it.
    pub(crate) fn reject(&self, reader: &mut Reader) {
        match self {
            Self::Layout(error) => reject_layout(reader, error),
            Self::Zones(error) => reject_zones(reader, error),
            Self::NoShuttles => reader.reject("shuttles.count", "1 or more"),
            Self::Baseline => reader.reject("policy.name", "a policy that uses shuttles; `no-shuttles` is a baseline of the twin"),
            Self::Mechanics(error) => reject_machines(reader, error),
        }
    }
}

/// Reports an invalid layout at the setting that causes it.
pub fn reject_layout(reader: &mut Reader, error: &LayoutError) {
    let LayoutError::Range { what, expected, .. } = error;
    let name = match *what {
        "storage_racks" => "library.racks",
        "shelves" => "library.shelves",
        "slots" => "library.slots",
        "rack_width" => "library.rack_width",
        "port_shelf" => "library.port_shelf",
        "shuttles" => "shuttles.count",
        "spacing" => "shuttles.spacing",
        "drives_right" => "drives.right",
        _ => "drives.left",
    };
    reader.reject(name, *expected);
}

/// Reports blast zones that sets can't span.
pub fn reject_zones(reader: &mut Reader, error: &PlacementError) {
    reader.reject("sets.zones", format!("zones that sets can span ({error})"));
}

/// Reports invalid machines. The ranges of single settings already reject most invalid values; the
/// message names the one that passed them.
pub fn reject_machines(reader: &mut Reader, error: &SettingsError) {
    reader.reject("drives.throughput", format!("a valid machine ({error})"));
}

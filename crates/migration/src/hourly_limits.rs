//! The setting that limits the rate by hour of the day, of runs and of plans.

use fulgurite_settings::Section;
use fulgurite_settings::setting_type::{per_hour, rate};

/// At this rate or above, an hour has no limit, in bytes per second.
const UNLIMITED: f64 = 1e15;

/// Reads the setting: bytes per second for each hour of the day, UTC; `None` is unlimited.
pub(crate) fn limits(section: &mut Section<'_>) -> [Option<u64>; 24] {
    let unlimited = format!("[{}]", ["\"1 PB/s\""; 24].join(", "));
    let limits = section.setting(
        "limits",
        per_hour(rate("0 B/s"..="1 PB/s")),
        &unlimited,
        "Rate at which the source is read in each hour of the day, UTC. With 0, it isn't read in that hour; 1000 TB/s means no limit.",
    );
    let limits = limits.map(|limit: f64| (limit < UNLIMITED).then_some(limit as u64));
    if limits == [Some(0); 24] {
        section.reject("limits", "at least 1 B/s in some hour: with 0 in all of them, nothing would ever be read");
    }
    limits
}

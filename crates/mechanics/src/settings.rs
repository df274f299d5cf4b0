//! Settings of the emulated machines: times, power, battery, faults. [`Settings::default`] is the
//! library of the design.
//!
//! Times are from Project Silica (Anderson et al., SOSP '23, section 7.1, cited as P) where it
//! gives them; values marked "proposed" have no source.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Layout, Shuttle};

/// All settings of shuttles and drives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Times of shuttles.
    pub motion: Motion,
    /// Energy use of shuttles.
    pub power: Power,
    /// The battery of each shuttle; without one, shuttles never charge.
    pub battery: Option<Battery>,
    /// Times of drives.
    pub drive: DriveTimes,
    /// Faults.
    pub faults: Faults,
    /// The baseline without shuttles: a mount takes the platter from any slot and an unmount
    /// returns it, both within the drive's own time.
    pub no_shuttles: bool,
}

/// Times of a shuttle.
#[derive(Debug, Clone, PartialEq)]
pub struct Motion {
    /// Top speed along a shelf: 1 m/s (proposed).
    pub speed_m_s: f64,
    /// Acceleration and deceleration: 0.5 m/s² (proposed).
    pub acceleration_m_s2: f64,
    /// Fine positioning after every move along a shelf: 0.5 s (P).
    pub positioning_s: f64,
    /// The fastest crab by one shelf: 2.932 s, 88 ms less than the slowest, which takes 3.02 s (P).
    pub crab_s: f64,
    /// Additional time of the slowest crab: 0.088 s (P). The time in between is Beta(2, 2), which
    /// puts 86.9 % within 3 s; 86 % were measured.
    pub crab_spread_s: f64,
    /// Mean time to pick a platter: 2.17 s. The difference of 0.17 s from a place was measured (P);
    /// the level is proposed.
    pub pick_s: f64,
    /// Mean time to place a platter: 2.0 s (proposed).
    pub place_s: f64,
    /// Standard deviation of picking and placing: 0.1 s (proposed). The normal distribution is
    /// clamped at four standard deviations, which keeps the mean, and at 0.
    pub handling_sd_s: f64,
}

/// Energy use of a shuttle. Only ratios between runs are meaningful; all values are proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// Mass of a shuttle with a platter: 10 kg. Braking recovers no energy.
    pub mass_kg: f64,
    /// Drag along the rails: 2 J/m, a rolling resistance of 0.02.
    pub drag_j_m: f64,
    /// A crab by one shelf, up or down: 30 J, which lifts 10 kg by 0.2 m with an efficiency of two
    /// thirds.
    pub crab_j: f64,
    /// A pick or a place: 10 J.
    pub handling_j: f64,
    /// Power drawn at all times: 5 W.
    pub idle_w: f64,
}

/// The battery of a shuttle. All values are proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Battery {
    /// Energy when full: 360 kJ, 100 Wh.
    pub capacity_j: f64,
    /// Remaining energy at which a shuttle asks to be charged: 72 kJ, a fifth.
    pub low_j: f64,
    /// Power that a dock delivers: 200 W, in addition to what the shuttle draws meanwhile.
    pub charging_w: f64,
}

/// Times of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveTimes {
    /// Time to clamp a platter: 1 s (P, assumed there).
    pub mount_s: f64,
    /// Time to release a platter: 1 s (P, assumed there).
    pub unmount_s: f64,
    /// Time to switch to the other bay: 1 s (P, assumed there).
    pub switch_s: f64,
    /// Median time of a seek: 0.6 s (P). Seeks are lognormal.
    pub seek_median_s: f64,
    /// Standard deviation of the seek time's logarithm: 0.4 (proposed).
    pub seek_sigma: f64,
    /// Maximum seek time: 2 s (P). Longer seeks, 1.3 in 1000, are clamped, which keeps the median.
    pub seek_max_s: f64,
    /// Bytes that a scan of one track delivers: 20 MB, 200 information sectors of 100 kB (P,
    /// section 5).
    pub track_bytes: u64,
    /// Bytes per second: 60 MB/s; 30 to 210 MB/s are studied (P).
    pub throughput_bytes_s: f64,
    /// Model of the read time.
    pub service: Service,
}

/// Model of the read time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Service {
    /// A seek, unless the head is in place, and the tracks' bytes at the drive's throughput.
    #[default]
    Tracks,
    /// Constant, in seconds, including the seek: the D of queueing theory.
    Fixed(f64),
    /// Exponential with this mean in seconds, including the seek: the M of queueing theory.
    Exponential(f64),
}

/// Planned and random faults.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Faults at fixed instants, in any order.
    pub planned: Vec<PlannedFault>,
    /// Mean hours of motion, moving or crabbing, until a shuttle stops; infinite by default.
    pub shuttle_hours: f64,
    /// Mean hours until a drive goes down; infinite by default.
    pub drive_hours: f64,
    /// Mean time until a fault is detected, in seconds: 30 s (proposed); exponential.
    pub detection_s: f64,
    /// Mean time from then until the repair, in seconds: 4 h (proposed); exponential.
    pub repair_s: f64,
}

/// A fault at a fixed instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFault {
    /// When it strikes. It has no effect on an actor that is already out of order.
    pub at: Micros,
    /// The fault and the machine it strikes.
    pub what: Breakdown,
}

/// A fault and the machine it strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakdown {
    /// A shuttle stops where it is.
    ShuttleStops(Shuttle),
    /// A shuttle and its nearest working shuttle stop where they are. Without another working
    /// shuttle, it stops alone.
    Collision(Shuttle),
    /// A drive stops working.
    DriveDown(Drive),
}

impl Default for Motion {
    fn default() -> Self {
        Self {
            speed_m_s: 1.0,
            acceleration_m_s2: 0.5,
            positioning_s: 0.5,
            crab_s: 2.932,
            crab_spread_s: 0.088,
            pick_s: 2.17,
            place_s: 2.0,
            handling_sd_s: 0.1,
        }
    }
}

impl Default for Power {
    fn default() -> Self {
        Self { mass_kg: 10.0, drag_j_m: 2.0, crab_j: 30.0, handling_j: 10.0, idle_w: 5.0 }
    }
}

impl Default for Battery {
    fn default() -> Self {
        Self { capacity_j: 360e3, low_j: 72e3, charging_w: 200.0 }
    }
}

impl Default for DriveTimes {
    fn default() -> Self {
        Self {
            mount_s: 1.0,
            unmount_s: 1.0,
            switch_s: 1.0,
            seek_median_s: 0.6,
            seek_sigma: 0.4,
            seek_max_s: 2.0,
            track_bytes: 20_000_000,
            throughput_bytes_s: 60e6,
            service: Service::Tracks,
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Self { planned: Vec::new(), shuttle_hours: f64::INFINITY, drive_hours: f64::INFINITY, detection_s: 30.0, repair_s: 4.0 * 3600.0 }
    }
}

/// Invalid settings.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum SettingsError {
    #[error("{what}: {found} is out of range; expected {expected}")]
    Range { what: &'static str, found: f64, expected: &'static str },
    #[error("planned faults: shuttle {shuttle} does not exist; the library has {shuttles}, counted from 0")]
    NoSuchShuttle { shuttle: u16, shuttles: u16 },
    #[error("planned faults: drive {drive} does not exist; the library has {drives}, counted from 0")]
    NoSuchDrive { drive: u16, drives: u16 },
}

impl Settings {
    /// Checks the values, which may come from a file, against each other and the library.
    ///
    /// # Errors
    /// [`SettingsError`] names the first invalid value.
    pub fn check(self, layout: &Layout) -> Result<Self, SettingsError> {
        let Self { motion, power, drive, faults, .. } = &self;
        // A time above a day is a mistake of units; in microseconds it would still not overflow.
        for (what, found) in [
            ("positioning", motion.positioning_s),
            ("crab", motion.crab_s),
            ("crab_spread", motion.crab_spread_s),
            ("pick", motion.pick_s),
            ("place", motion.place_s),
            ("handling_sd", motion.handling_sd_s),
            ("mount", drive.mount_s),
            ("unmount", drive.unmount_s),
            ("switch", drive.switch_s),
            ("seek_median", drive.seek_median_s),
            ("seek_max", drive.seek_max_s),
        ] {
            range(what, found, (0.0..=86_400.0).contains(&found), "0 to 86,400 s")?;
        }
        if let Service::Fixed(found) | Service::Exponential(found) = drive.service {
            range("service", found, (0.0..=86_400.0).contains(&found), "0 to 86,400 s")?;
        }
        range("seek_sigma", drive.seek_sigma, (0.0..=10.0).contains(&drive.seek_sigma), "0 to 10")?;
        range("speed", motion.speed_m_s, (1e-3..=100.0).contains(&motion.speed_m_s), "0.001 to 100 m/s")?;
        let acceleration = motion.acceleration_m_s2;
        range("acceleration", acceleration, (1e-3..=1000.0).contains(&acceleration), "0.001 to 1000 m/s²")?;
        let track_bytes = drive.track_bytes as f64;
        range("track_bytes", track_bytes, (1.0..=1e12).contains(&track_bytes), "1 byte to 1 TB")?;
        let throughput = drive.throughput_bytes_s;
        range("throughput", throughput, (1.0..=1e12).contains(&throughput), "1 byte/s to 1 TB/s")?;
        for (what, found) in [
            ("mass", power.mass_kg),
            ("drag", power.drag_j_m),
            ("crab energy", power.crab_j),
            ("handling energy", power.handling_j),
            ("idle power", power.idle_w),
        ] {
            range(what, found, (0.0..=1e9).contains(&found), "0 to 10^9")?;
        }
        if let Some(battery) = &self.battery {
            let capacity = battery.capacity_j;
            range("battery capacity", capacity, capacity > 0.0 && capacity <= 1e12, "more than 0, up to 10^12 J")?;
            range("battery low", battery.low_j, (0.0..capacity).contains(&battery.low_j), "0 or more, and less than the capacity")?;
            range("charging power", battery.charging_w, (1e-3..=1e9).contains(&battery.charging_w), "0.001 to 10^9 W")?;
        }
        for (what, found) in [("shuttle_hours", faults.shuttle_hours), ("drive_hours", faults.drive_hours)] {
            range(what, found, found >= 0.01, "0.01 h or more")?;
        }
        for (what, found) in [("detection", faults.detection_s), ("repair", faults.repair_s)] {
            range(what, found, (0.0..=1e9).contains(&found), "0 to 10^9 s")?;
        }
        let (shuttles, drives) = (layout.shuttles, layout.drive_count());
        for fault in &faults.planned {
            match fault.what {
                Breakdown::ShuttleStops(Shuttle(shuttle)) | Breakdown::Collision(Shuttle(shuttle)) if shuttle >= shuttles => {
                    return Err(SettingsError::NoSuchShuttle { shuttle, shuttles });
                }
                Breakdown::DriveDown(Drive(drive)) if drive >= drives => return Err(SettingsError::NoSuchDrive { drive, drives }),
                _ => {}
            }
        }
        Ok(self)
    }
}

fn range(what: &'static str, found: f64, good: bool, expected: &'static str) -> Result<(), SettingsError> {
    if good { Ok(()) } else { Err(SettingsError::Range { what, found, expected }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_settings_are_rejected_by_name() {
        let layout = Layout::default();
        let text = |settings: Settings| settings.check(&layout).expect_err("out of range").to_string();
        assert!(Settings::default().check(&layout).is_ok());
        let motion = Motion { pick_s: -1.0, ..Motion::default() };
        assert_eq!(text(Settings { motion, ..Settings::default() }), "pick: -1 is out of range; expected 0 to 86,400 s");
        let motion = Motion { speed_m_s: f64::NAN, ..Motion::default() };
        assert!(text(Settings { motion, ..Settings::default() }).starts_with("speed: NaN"));
        let battery = Some(Battery { low_j: 400e3, ..Battery::default() });
        assert!(text(Settings { battery, ..Settings::default() }).starts_with("battery low: 400000"));
        let planned = vec![PlannedFault { at: Micros::ZERO, what: Breakdown::DriveDown(Drive(20)) }];
        let faults = Faults { planned, ..Faults::default() };
        assert!(text(Settings { faults, ..Settings::default() }).starts_with("planned faults: drive 20 does not exist"));
    }
}

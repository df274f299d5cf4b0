//! What the emulated machines are like: times, power, battery, faults. All of it can be set; [`Settings::default`] is the library of the
//! design.
//!
//! The times are those of Project Silica (Anderson et al., SOSP '23, section 7.1) where it gives them; what is "proposed" has no source.

use fulgurite_domain::Micros;
use fulgurite_library::{Drive, Layout, Shuttle};

/// Everything that can be set about shuttles and drives.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// How fast shuttles are.
    pub motion: Motion,
    /// What motion costs.
    pub power: Power,
    /// What shuttles run on; without one they never have to charge.
    pub battery: Option<Battery>,
    /// How fast drives are.
    pub drive: DriveTimes,
    /// What goes wrong.
    pub faults: Faults,
    /// The baseline without shuttles: a mount takes the platter out of its slot wherever that is, and an unmount puts it back, both in no
    /// more time than the drive needs.
    pub no_shuttles: bool,
}

/// Times of a shuttle.
#[derive(Debug, Clone, PartialEq)]
pub struct Motion {
    /// Top speed along a shelf: 1 m/s (proposed).
    pub speed_m_s: f64,
    /// Acceleration and deceleration: 0.5 m/s² (proposed).
    pub acceleration_m_s2: f64,
    /// Fine positioning behind every move along a shelf: 0.5 s (P).
    pub positioning_s: f64,
    /// The quickest crab by one shelf: 2.932 s, 88 ms less than the slowest, which takes 3.02 s (P).
    pub crab_s: f64,
    /// What the slowest crab takes longer: 0.088 s (P). Between the two it is Beta(2, 2), which puts 86.9 % within 3 s; measured were 86 %.
    pub crab_spread_s: f64,
    /// Mean time to pick a platter: 2.17 s. That it is 0.17 s more than to place one was measured (P), the level is proposed.
    pub pick_s: f64,
    /// Mean time to place a platter: 2.0 s (proposed).
    pub place_s: f64,
    /// Standard deviation of both: 0.1 s (proposed). The normal distribution is clamped at four of it, which keeps the mean, and at 0.
    pub handling_sd_s: f64,
}

/// What a shuttle uses. Only ratios between runs are compared; all values are proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Power {
    /// Mass of a shuttle with a platter: 10 kg. Nothing is recovered from braking.
    pub mass_kg: f64,
    /// Drag along the rails: 2 J/m, a rolling resistance of 0.02.
    pub drag_j_m: f64,
    /// A crab by one shelf, up or down: 30 J, which lifts 10 kg by 0.2 m with an efficiency of two thirds.
    pub crab_j: f64,
    /// A pick or a place: 10 J.
    pub handling_j: f64,
    /// What a shuttle draws at all times: 5 W.
    pub idle_w: f64,
}

/// What a shuttle runs on. All values are proposed.
#[derive(Debug, Clone, PartialEq)]
pub struct Battery {
    /// When full: 360 kJ, 100 Wh.
    pub capacity_j: f64,
    /// What is left when a shuttle asks to be charged: 72 kJ, a fifth.
    pub low_j: f64,
    /// What a dock delivers: 200 W, beside what the shuttle draws meanwhile.
    pub charging_w: f64,
}

/// Times of a drive.
#[derive(Debug, Clone, PartialEq)]
pub struct DriveTimes {
    /// To clamp a platter: 1 s (P, assumed there).
    pub mount_s: f64,
    /// To release a platter: 1 s (P, assumed there).
    pub unmount_s: f64,
    /// To turn from one bay to the other: 1 s (P, assumed there).
    pub switch_s: f64,
    /// Median time of a seek: 0.6 s (P). Seeks are lognormal.
    pub seek_median_s: f64,
    /// Standard deviation of the seek time's logarithm: 0.4 (proposed).
    pub seek_sigma: f64,
    /// The longest seek: 2 s (P). What is longer, 1.3 in 1000, is clamped, which keeps the median.
    pub seek_max_s: f64,
    /// Bytes that a scan of one track delivers: 20 MB, 200 information sectors of 100 kB (P, section 5).
    pub track_bytes: u64,
    /// Bytes per second: 60 MB/s; 30 to 210 MB/s are studied (P).
    pub throughput_bytes_s: f64,
    /// How the time of a read is found.
    pub service: Service,
}

/// How long a read takes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Service {
    /// A seek, unless the head is there, and the tracks' bytes at the drive's throughput.
    #[default]
    Tracks,
    /// Always this many seconds, seek and all: the D of queueing theory.
    Fixed(f64),
    /// Exponential with this mean in seconds, seek and all: the M of queueing theory.
    Exponential(f64),
}

/// What goes wrong, planned and by chance.
#[derive(Debug, Clone, PartialEq)]
pub struct Faults {
    /// Faults at set instants, in any order.
    pub planned: Vec<PlannedFault>,
    /// Mean hours of motion, moving or crabbing, after which a shuttle stops; infinite by default.
    pub shuttle_hours: f64,
    /// Mean hours after which a drive goes down; infinite by default.
    pub drive_hours: f64,
    /// Mean time until somebody notices, in seconds: 30 s (proposed); exponential.
    pub detection_s: f64,
    /// Mean time from then until it is repaired, in seconds: 4 h (proposed); exponential.
    pub repair_s: f64,
}

/// A fault at a set instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedFault {
    /// When it strikes. An actor that is out of order then is spared.
    pub at: Micros,
    /// What happens to whom.
    pub what: Breakdown,
}

/// What happens to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breakdown {
    /// A shuttle stops where it is.
    ShuttleStops(Shuttle),
    /// A shuttle and the one nearest to it stop where they are. Without another one that works, it stops alone.
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

/// Settings that no machine can have.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SettingsError {
    /// A number is outside its range.
    #[error("{what}: {found}, but {expected} is expected")]
    Range {
        /// Which setting.
        what: &'static str,
        /// What it is.
        found: f64,
        /// What it may be.
        expected: &'static str,
    },
    /// A planned fault is to befall a shuttle that isn't there.
    #[error("planned faults: shuttle {shuttle}, but the library has {shuttles}, counted from 0")]
    NoSuchShuttle {
        /// The one named.
        shuttle: u16,
        /// How many there are.
        shuttles: u16,
    },
    /// A planned fault is to befall a drive that isn't there.
    #[error("planned faults: drive {drive}, but the library has {drives}, counted from 0")]
    NoSuchDrive {
        /// The one named.
        drive: u16,
        /// How many there are.
        drives: u16,
    },
}

impl Settings {
    /// Checks the numbers, which may come from a file, against each other and against the library they are for.
    ///
    /// # Errors
    /// [`SettingsError`] says which one can't be.
    pub fn check(self, layout: &Layout) -> Result<Self, SettingsError> {
        let Self { motion, power, drive, faults, .. } = &self;
        // Above a day, a time is a slip of units; microseconds of it would still not overflow.
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
    fn what_no_machine_can_have_is_refused_by_name() {
        let layout = Layout::default();
        let text = |settings: Settings| settings.check(&layout).expect_err("out of range").to_string();
        assert!(Settings::default().check(&layout).is_ok());
        let motion = Motion { pick_s: -1.0, ..Motion::default() };
        assert_eq!(text(Settings { motion, ..Settings::default() }), "pick: -1, but 0 to 86,400 s is expected");
        let motion = Motion { speed_m_s: f64::NAN, ..Motion::default() };
        assert!(text(Settings { motion, ..Settings::default() }).starts_with("speed: NaN"));
        let battery = Some(Battery { low_j: 400e3, ..Battery::default() });
        assert!(text(Settings { battery, ..Settings::default() }).starts_with("battery low: 400000"));
        let planned = vec![PlannedFault { at: Micros::ZERO, what: Breakdown::DriveDown(Drive(20)) }];
        let faults = Faults { planned, ..Faults::default() };
        assert!(text(Settings { faults, ..Settings::default() }).starts_with("planned faults: drive 20, but the library has 20"));
    }
}

//! The sections of a library's file. Each setting is declared once, which reads, checks, documents
//! and prints it.
//!
//! The functions take the values that serve as defaults and return what the file says. Files with
//! further settings, such as scenarios of the twin, call them too; the order of the calls is the
//! order of the sections in the reference and in the complete file.

use fulgurite_library::placement::{ZoneShape, Zones};
use fulgurite_library::{Layout, Techniques};
use fulgurite_mechanics::{Battery, DriveTimes, Faults, Motion, Power, Service, Settings};
use fulgurite_settings::setting_type::{
    Quantity, acceleration, bytes, choice, count, drag, duration, energy, flag, length, mass, number, power, rate, seconds, speed,
};
use fulgurite_settings::{Reader, Section};

use crate::{PolicyChoice, PolicyName};

#[derive(Debug, Clone, Copy, PartialEq)]
enum ServiceName {
    Tracks,
    Fixed,
    Exponential,
}

const SERVICES: [(&str, ServiceName); 3] =
    [("tracks", ServiceName::Tracks), ("fixed", ServiceName::Fixed), ("exponential", ServiceName::Exponential)];

/// Reads the dimensions of the panel from `[library]`. The section is returned open, so that the
/// caller can declare further settings in it.
pub fn library<'r>(reader: &'r mut Reader, layout: &Layout) -> (Layout, Section<'r>) {
    let mut section = reader.section("library", "The panel: racks side by side, shelves above each other.");
    let storage_racks = section.setting_or("racks", count(1..=100), layout.storage_racks, "Storage racks; sets of 16+3 need 7.");
    let shelves = section.setting_or("shelves", count(1..=100), layout.shelves, "Shelves.");
    let slots = section.setting_or("slots", count(1..=10_000), layout.slots, "Slots on each shelf of a storage rack.");
    let rack_width_um = section.setting_or("rack_width", length("0.5 m"..="10 m"), layout.rack_width_um, "Width of a rack.");
    let port_shelf =
        section.setting_or("port_shelf", count(0..=99), layout.port_shelf, "The shelf on which written platters leave the write rack.");
    (Layout { shelves, storage_racks, slots, rack_width_um, port_shelf, ..layout.clone() }, section)
}

/// Reads `[shuttles]`: their times and energy use, and their number and spacing, which belong to
/// the layout.
pub fn shuttles(reader: &mut Reader, base: &Settings, layout: Layout) -> (Motion, Power, Layout) {
    let Settings { motion, power: draws, .. } = base;
    let mut section = reader.section("shuttles", "The robots that carry platters.");
    let shuttles = section.setting_or(
        "count",
        count(0..=2_000),
        layout.shuttles,
        "Shuttles of a library, at most two for each drive, and at most two on a single shelf.",
    );
    let spacing_um = section.setting_or(
        "spacing",
        length("1 mm"..="10 m"),
        layout.spacing_um,
        "Least distance between the centres of two on a shelf. With more shuttles than drives, the distance from a dock to the nearest door \
         must be at least this.",
    );
    let motion = Motion {
        speed_m_s: section.setting_or("speed", speed("0.001 m/s"..="100 m/s"), motion.speed_m_s, "Top speed along a shelf."),
        acceleration_m_s2: section.setting_or(
            "acceleration",
            acceleration("0.001 m/s2"..="1000 m/s2"),
            motion.acceleration_m_s2,
            "Acceleration and deceleration.",
        ),
        positioning_s: section.setting_or("positioning", time(), motion.positioning_s, "Fine positioning after each move along a shelf."),
        crab_s: section.setting_or("crab", time(), motion.crab_s, "Fastest change by one shelf."),
        crab_spread_s: section.setting_or("crab_spread", time(), motion.crab_spread_s, "Additional time of the slowest change."),
        pick_s: section.setting_or("pick", time(), motion.pick_s, "Mean time to pick a platter."),
        place_s: section.setting_or("place", time(), motion.place_s, "Mean time to place a platter."),
        handling_sd_s: section.setting_or("handling_deviation", time(), motion.handling_sd_s, "Standard deviation of picking and placing."),
    };
    let mut section = section.section("energy", "Energy used by motion. Only ratios between runs are meaningful.");
    let power = Power {
        mass_kg: section.setting_or("mass", mass("0 kg"..="1000 kg"), draws.mass_kg, "Mass of a shuttle with a platter."),
        drag_j_m: section.setting_or("drag", drag("0 J/m"..="10000 J/m"), draws.drag_j_m, "Drag along the rails."),
        crab_j: section.setting_or("crab", energy("0 J"..="1 MJ"), draws.crab_j, "Energy of a change by one shelf."),
        handling_j: section.setting_or("handling", energy("0 J"..="1 MJ"), draws.handling_j, "Energy of a pick or a place."),
        idle_w: section.setting_or("idle", power("0 W"..="100 kW"), draws.idle_w, "Power drawn at all times."),
    };
    (motion, power, Layout { shuttles, spacing_um, ..layout })
}

/// Accepts the time of a motion, up to a day.
fn time() -> Quantity<f64> {
    seconds("0 s"..="86400 s")
}

/// Reads `[battery]`.
pub fn battery(reader: &mut Reader, base: Option<&Battery>) -> Option<Battery> {
    let mut section = reader.section("battery", "The battery of each shuttle.");
    let used = section.setting_or("used", flag(), base.is_some(), "Whether shuttles have batteries; otherwise they never charge.");
    let Battery { capacity_j, low_j, charging_w } = base.cloned().unwrap_or_default();
    let capacity_j = section.setting_or("capacity", energy("1 J"..="1000 MJ"), capacity_j, "Energy when full.");
    let low_j = section.setting_or("low", energy("0 J"..="1000 MJ"), low_j, "Remaining energy at which a shuttle goes to charge.");
    let charging_w = section.setting_or("charging", power("1 mW"..="1000 kW"), charging_w, "Power that a dock delivers.");
    if used && low_j >= capacity_j {
        section.reject("low", "less than the capacity");
    }
    used.then_some(Battery { capacity_j, low_j, charging_w })
}

/// Reads `[drives]`: their numbers, which are part of the layout, and their times. The bytes of a
/// track remain those of `drive`.
pub fn drives(reader: &mut Reader, drive: &DriveTimes, layout: Layout) -> (DriveTimes, Layout) {
    let mut section = reader.section("drives", "Read drives, in a read rack at each end, at most two on each shelf of it.");
    let left = section.setting_or("left", count(0..=200), layout.drives[0], "Drives of the left read rack.");
    let right = section.setting_or("right", count(0..=200), layout.drives[1], "Drives of the right read rack.");
    let throughput_bytes_s = section.setting_or(
        "throughput",
        rate("1 B/s"..="1 TB/s"),
        drive.throughput_bytes_s,
        "Throughput of a drive; 30 to 210 MB/s are studied.",
    );
    let mount_s = section.setting_or("mount", time(), drive.mount_s, "Time to clamp a platter.");
    let unmount_s = section.setting_or("unmount", time(), drive.unmount_s, "Time to release a platter.");
    let switch_s = section.setting_or("switch", time(), drive.switch_s, "Time to switch to the other bay.");
    let (name, at_present) = match drive.service {
        Service::Tracks => (ServiceName::Tracks, 1.0),
        Service::Fixed(time) => (ServiceName::Fixed, time),
        Service::Exponential(time) => (ServiceName::Exponential, time),
    };
    let name = section.setting_or(
        "service",
        choice(&SERVICES),
        name,
        "Model of the read time. `tracks`: a seek, unless the head is in place, and the bytes at the throughput. `fixed`, `exponential`: \
         `service_time`, including the seek, for comparison with queueing theory.",
    );
    let service_time = section.setting_or("service_time", time(), at_present, "Time of a read, or its mean, unless `service` is `tracks`.");
    let mut seek = section.section("seek", "Seek time between tracks: lognormal, truncated.");
    let drive = DriveTimes {
        throughput_bytes_s,
        mount_s,
        unmount_s,
        switch_s,
        seek_median_s: seek.setting_or("median", time(), drive.seek_median_s, "Median seek time."),
        seek_sigma: seek.setting_or("sigma", number(0.0..=10.0), drive.seek_sigma, "Standard deviation of its logarithm."),
        seek_max_s: seek.setting_or("most", time(), drive.seek_max_s, "Maximum seek time."),
        track_bytes: drive.track_bytes,
        service: match name {
            ServiceName::Tracks => Service::Tracks,
            ServiceName::Fixed => Service::Fixed(service_time),
            ServiceName::Exponential => Service::Exponential(service_time),
        },
    };
    (drive, Layout { drives: [left, right], ..layout })
}

/// Reads the shapes of blast zones, `[[sets.zones]]`, from the open section `[sets]`.
pub fn zones(section: &mut Section<'_>, zones: &Zones) -> Zones {
    Zones {
        shapes: section.tables_or(
            "zones",
            "Cells that one failure makes unreachable together; a zone holds at most one platter of a set. By\n\
             default, 4 shelves of a rack, and one shelf of 3 neighbouring racks.",
            &zones.shapes,
            |zone, known| ZoneShape {
                racks: zone.required_or("racks", count(1..=100), known.map(|known| known.racks), "Neighbouring racks."),
                shelves: zone.required_or("shelves", count(1..=100), known.map(|known| known.shelves), "Neighbouring shelves."),
            },
        ),
    }
}

/// Reads `[policy]`.
pub fn policy(reader: &mut Reader, base: &PolicyChoice) -> PolicyChoice {
    let mut section = reader.section("policy", "Decides what moves next.");
    let name = section.setting_or(
        "name",
        choice(&PolicyName::ALL),
        base.name,
        "`no-shuttles` and `shortest-paths` are baselines, `partitioned` is the paper's policy, `balanced` sends shuttles where platters would wait longest.",
    );
    let steals = section.setting_or("steals", flag(), base.steals_above.is_some(), "`partitioned`: whether idle shuttles help elsewhere.");
    let steals_above = section.setting_or(
        "steals_above",
        bytes("0 B"..="1 PB"),
        base.steals_above.or(PolicyChoice::default().steals_above).unwrap_or(0),
        "`partitioned`: how many more bytes must wait in the fullest rectangle than in the emptiest before idle shuttles help.",
    );
    // `ideas`, not `techniques`: recorded journals contain scenarios with this name.
    let mut section = section.section("ideas", "The techniques of `balanced`; each can be disabled to measure its contribution.");
    let techniques = Techniques {
        exchanges: section.setting_or("exchanges", flag(), base.techniques.exchanges, "Both bays of a drive serve customers under load."),
        window: section.setting_or(
            "window",
            count(1..=100_000),
            base.techniques.window,
            "The nearest platter is chosen among this many of the oldest; 1 is strictly by age.",
        ),
        age_counts: section.setting_or(
            "age_counts",
            number(0.0..=1e6),
            base.techniques.age_counts,
            "Seconds of travel that one second of age offsets when the nearest platter is chosen.",
        ),
        reads_by_track: section.setting_or(
            "reads_by_track",
            flag(),
            base.techniques.reads_by_track,
            "Reads of one platter are served in track order.",
        ),
        moves_above: section.setting_or(
            "moves_above",
            duration(..),
            base.techniques.moves_above,
            "How much more urgent another section must be before a shuttle moves there that has work in its own.",
        ),
        assists_above: section.setting_or(
            "assists_above",
            duration(..),
            base.techniques.assists_above,
            "How much more urgent the section at the other end of the shelf must be before a shuttle fetches from it.",
        ),
        one_verifies_of: section.setting_or(
            "one_verifies_of",
            count(0..=100_000),
            base.techniques.one_verifies_of,
            "One of this many drives keeps verifying under load and does not exchange platters; 0 for none.",
        ),
        unverified_at_most: section.setting_or(
            "unverified_at_most",
            count(0..=100_000),
            base.techniques.unverified_at_most,
            "Written platters that may wait to be verified under load: for each further one, a drive verifies, whatever waits.",
        ),
        set_aside_above: section.setting_or(
            "set_aside_above",
            count(0..=100_000),
            base.techniques.set_aside_above,
            "Verification is suspended once this many platters wait for each drive of a section.",
        ),
        brought_back_after: section.setting_or(
            "brought_back_after",
            duration(..),
            base.techniques.brought_back_after,
            "Time without waiting platters after which verification resumes.",
        ),
    };
    PolicyChoice { name, steals_above: steals.then_some(steals_above), techniques }
}

/// Reads the random faults from the open section `[faults]`. The planned faults remain those of
/// `faults`.
pub fn random_faults(section: &mut Section<'_>, faults: &Faults) -> Faults {
    let hours = |hours: f64| hours.is_finite().then_some(hours * 3600.0);
    let often = || seconds("36 s"..);
    let shuttle = section.optional_or(
        "shuttle_every",
        often(),
        hours(faults.shuttle_hours),
        "Mean time in motion until a shuttle stops; none for never.",
    );
    let drive =
        section.optional_or("drive_every", often(), hours(faults.drive_hours), "Mean time until a drive goes down; none for never.");
    Faults {
        planned: faults.planned.clone(),
        shuttle_hours: shuttle.map_or(f64::INFINITY, |seconds| seconds / 3600.0),
        drive_hours: drive.map_or(f64::INFINITY, |seconds| seconds / 3600.0),
        detection_s: section.setting_or(
            "detection",
            seconds("0 s"..="30 year"),
            faults.detection_s,
            "Mean time until a fault is detected.",
        ),
        repair_s: section.setting_or("repair", seconds("0 s"..="30 year"), faults.repair_s, "Mean time from detection to repair."),
    }
}

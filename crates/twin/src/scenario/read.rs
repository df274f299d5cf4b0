//! Reads scenario files. Each setting is declared once, which reads, checks, documents and prints
//! it.

mod demand;

use std::path::Path;

use fulgurite_domain::SetShape;
use fulgurite_library::placement::{ZoneShape, Zones};
use fulgurite_library::{Drive, Layout, LayoutError, Library, Shuttle, Techniques, Verification};
use fulgurite_mechanics::{Battery, Breakdown, DriveTimes, Faults, Motion, Power, Service, Settings, SettingsError};
use fulgurite_settings::setting_type::{
    acceleration, bytes, choice, count, drag, duration, energy, flag, length, mass, number, power, rate, seconds, share, speed, text,
};
use fulgurite_settings::{Document, Override, Reader, Section, SettingErrors, read_file};

use self::demand::{decode, expect, ingest, run, workload};
use super::{LibraryFault, PolicyChoice, PolicyName, Scenario, ScenarioError, Sets};

const VERIFICATIONS: [(&str, Verification); 3] =
    [("endless", Verification::Endless), ("written", Verification::Written), ("off", Verification::Off)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum ServiceName {
    Tracks,
    Fixed,
    Exponential,
}

const SERVICES: [(&str, ServiceName); 3] =
    [("tracks", ServiceName::Tracks), ("fixed", ServiceName::Fixed), ("exponential", ServiceName::Exponential)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum FaultName {
    ShuttleStops,
    Collision,
    DriveDown,
}

const FAULTS: [(&str, FaultName); 3] =
    [("shuttle-stops", FaultName::ShuttleStops), ("collision", FaultName::Collision), ("drive-down", FaultName::DriveDown)];

impl Scenario {
    /// Reads the file at `path` and its bases, with command-line settings on top. The scenario's
    /// name is that of the file, without folder and extension.
    ///
    /// # Errors
    /// All settings that are invalid, unknown, missing or in conflict, each with its position.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let name = path.file_stem().map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::from_document(Document::load(&path.to_string_lossy(), &read_file)?, &name, overrides)
    }

    /// Like [`Scenario::read`], from a text without a base.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        Self::from_document(Document::parse(name, text)?, name, overrides)
    }

    fn from_document(mut document: Document, name: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        overrides.iter().for_each(|setting| document.apply(setting));
        let mut reader = Reader::new(document);
        let mut scenario = read_settings(&mut reader, &Self { name: name.to_owned(), ..Self::default() });
        scenario.name = name.to_owned();
        if reader.is_sound()
            && let Err(error) = scenario.check()
        {
            report(&mut reader, &error);
        }
        reader.finish().map(|_| scenario)
    }

    /// The whole scenario as TOML with every setting; it reads back as the same scenario. The name
    /// and the faults planned in [`Settings::faults`] are left out: no file can give them.
    ///
    /// # Panics
    /// If a value is outside the range that files accept for its setting.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut reader = Reader::new(Document::empty("the program"));
        read_settings(&mut reader, self);
        reader.finish().unwrap_or_else(|errors| panic!("the scenario has values that no file could have: {errors}"))
    }
}

/// The reference page of all settings in scenario files.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    read_settings(&mut reader, &Scenario::default());
    reader.reference(INTRODUCTION)
}

/// Reports a conflict at the setting that causes it.
fn report(reader: &mut Reader, error: &ScenarioError) {
    let (name, expected) = match error {
        ScenarioError::Range { setting, expected, .. } => return reader.reject(setting, expected.as_ref()),
        ScenarioError::Layout(LayoutError::Range { what, expected, .. }) => {
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
            return reader.reject(name, *expected);
        }
        ScenarioError::Mechanics(SettingsError::Range { .. }) => ("drives.throughput", "a valid machine"),
        ScenarioError::FaultElsewhere { index, .. } => {
            return reader.reject(&format!("faults.planned.{index}.library"), "one of the libraries, counted from 0");
        }
        ScenarioError::Fault { index, .. } => {
            return reader.reject(&format!("faults.planned.{index}.number"), format!("an existing shuttle or drive ({error})"));
        }
        ScenarioError::Mechanics(_) => ("faults.planned", "existing shuttles and drives"),
        ScenarioError::Workload(_) => ("workload.preset", "a valid workload"),
        ScenarioError::Placement(_) => ("sets.zones", "zones that sets can span"),
        ScenarioError::TooManyPlatters { .. } | ScenarioError::NoSet { .. } => ("library.platters", "as many as fit"),
    };
    reader.reject(name, format!("{expected} ({error})"));
}

/// Declares every setting; `base` supplies the defaults.
fn read_settings(reader: &mut Reader, base: &Scenario) -> Scenario {
    let title = reader.top().setting_or("title", text(), base.title.clone(), "One-line description of the scenario.");
    let mut section = reader.section("deployment", "The libraries, over which sets are spread.");
    let libraries = section.setting_or("libraries", count(1..=1_000), base.libraries, "Number of libraries, all alike.");
    let away = section.setting_or(
        "away",
        count(0..=999),
        base.away,
        "Number of libraries that are unreachable for the whole run. A read of their platters becomes reads of other platters of the set; \
         if too many platters of the set are unreachable, the read ends without its bytes.",
    );
    let (layout, platters) = library(reader, base);
    let (tracks, track_bytes) = platter(reader, base);
    let (motion, power, layout) = shuttles(reader, base, layout);
    let battery = battery(reader, base);
    let (drive, layout) = drives(reader, base, layout);
    let verification = reader.section("verification", "What drives do without customer reads.").setting_or(
        "of",
        choice(&VERIFICATIONS),
        base.verification,
        "`endless`: each drive always has a platter to verify, as the paper assumes. `written`: drives verify what is ingested (see \
         `ingest`), which is then stored. `off`: drives verify nothing.",
    );
    let sets = sets(reader, base);
    let policy = policy(reader, &base.policy);
    let workload = workload(reader, &base.workload);
    let ingest = ingest(reader, base);
    let decode = decode(reader, base);
    let (random, faults) = faults(reader, base);
    let drive = DriveTimes { track_bytes, ..drive };
    let mechanics = Settings { motion, power, battery, drive, faults: random, no_shuttles: base.mechanics.no_shuttles };
    let (run, expect) = (run(reader, &base.run), expect(reader, &base.expect));
    let name = base.name.clone();
    Scenario {
        name,
        title,
        libraries,
        away,
        layout,
        platters,
        tracks,
        verification,
        sets,
        policy,
        mechanics,
        faults,
        workload,
        ingest,
        decode,
        run,
        expect,
    }
}

fn library(reader: &mut Reader, base: &Scenario) -> (Layout, u32) {
    let layout = &base.layout;
    let mut section = reader.section("library", "The panel: racks side by side, shelves above each other.");
    let storage_racks = section.setting_or("racks", count(1..=100), layout.storage_racks, "Storage racks; sets of 16+3 need 7.");
    let shelves = section.setting_or("shelves", count(1..=100), layout.shelves, "Shelves.");
    let slots = section.setting_or("slots", count(1..=10_000), layout.slots, "Slots on each shelf of a storage rack.");
    let rack_width_um = section.setting_or("rack_width", length("0.5 m"..="10 m"), layout.rack_width_um, "Width of a rack.");
    let port_shelf =
        section.setting_or("port_shelf", count(0..=99), layout.port_shelf, "The shelf on which written platters leave the write rack.");
    let platters = section.setting_or(
        "platters",
        count(0..=100_000_000),
        base.platters,
        "Written platters in each library at the start, rounded down to complete sets over all libraries. 0 for as many as fit.",
    );
    (Layout { shelves, storage_racks, slots, rack_width_um, port_shelf, ..layout.clone() }, platters)
}

fn platter(reader: &mut Reader, base: &Scenario) -> (u32, u64) {
    let mut section = reader.section("platters", "What a platter holds.");
    let tracks = section.setting_or("tracks", count(1..=100_000_000), base.tracks, "Information tracks.");
    let track_bytes = section.setting_or(
        "track_bytes",
        bytes("1 B"..="1 TB"),
        base.mechanics.drive.track_bytes,
        "Content of a track, the smallest unit of a read.",
    );
    (tracks, track_bytes)
}

fn shuttles(reader: &mut Reader, base: &Scenario, layout: Layout) -> (Motion, Power, Layout) {
    let Settings { motion, power: draws, .. } = &base.mechanics;
    let mut section = reader.section("shuttles", "The robots that carry platters.");
    let shuttles = section.setting_or("count", count(0..=2_000), layout.shuttles, "Shuttles of a library, at most two for each drive.");
    let spacing_um =
        section.setting_or("spacing", length("1 mm"..="10 m"), layout.spacing_um, "Least distance between the centres of two on a shelf.");
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
fn time() -> fulgurite_settings::setting_type::Quantity<f64> {
    seconds("0 s"..="86400 s")
}

fn battery(reader: &mut Reader, base: &Scenario) -> Option<Battery> {
    let battery = base.mechanics.battery.clone();
    let mut section = reader.section("battery", "The battery of each shuttle.");
    let used = section.setting_or("used", flag(), battery.is_some(), "Whether shuttles have batteries; otherwise they never charge.");
    let Battery { capacity_j, low_j, charging_w } = battery.unwrap_or_default();
    let capacity_j = section.setting_or("capacity", energy("1 J"..="1000 MJ"), capacity_j, "Energy when full.");
    let low_j = section.setting_or("low", energy("0 J"..="1000 MJ"), low_j, "Remaining energy at which a shuttle goes to charge.");
    let charging_w = section.setting_or("charging", power("1 mW"..="1000 kW"), charging_w, "Power that a dock delivers.");
    if used && low_j >= capacity_j {
        section.reject("low", "less than the capacity");
    }
    used.then_some(Battery { capacity_j, low_j, charging_w })
}

fn drives(reader: &mut Reader, base: &Scenario, layout: Layout) -> (DriveTimes, Layout) {
    let drive = &base.mechanics.drive;
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

fn sets(reader: &mut Reader, base: &Scenario) -> Sets {
    let Sets { shape, zones, unavailable } = &base.sets;
    let mut section = reader.section("sets", "Groups of platters that recover each other.");
    Sets {
        shape: SetShape {
            information: section.setting_or("information", count(1..=64), shape.information, "Information platters of a set."),
            redundancy: section.setting_or("redundancy", count(0..=63), shape.redundancy, "Redundancy platters of a set."),
        },
        unavailable: section.setting_or(
            "unavailable",
            share("0 %"..="100 %"),
            *unavailable,
            "Share of all platters that are unavailable: drawn from the seed, but never more of a set than its redundancy.",
        ),
        zones: Zones {
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
        },
    }
}

fn policy(reader: &mut Reader, base: &PolicyChoice) -> PolicyChoice {
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

fn faults(reader: &mut Reader, base: &Scenario) -> (Faults, Vec<LibraryFault>) {
    let faults = &base.mechanics.faults;
    let mut section = reader.section("faults", "Random and planned faults.");
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
    let random = Faults {
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
    };
    let planned = section.tables_or("planned", "Faults at fixed instants.", &base.faults, planned_fault);
    (random, planned)
}

fn planned_fault(fault: &mut Section<'_>, known: Option<&LibraryFault>) -> LibraryFault {
    let named = known.map(|known| match known.what {
        Breakdown::ShuttleStops(Shuttle(number)) => (FaultName::ShuttleStops, number),
        Breakdown::Collision(Shuttle(number)) => (FaultName::Collision, number),
        Breakdown::DriveDown(Drive(number)) => (FaultName::DriveDown, number),
    });
    let at = fault.required_or("at", duration(..), known.map(|known| known.at), "Instant, from the start of the warm-up.");
    let library = fault.setting_or("library", count(0..=999), known.map_or(0, |known| known.library.0), "The library, counted from 0.");
    let what = fault.required_or(
        "what",
        choice(&FAULTS),
        named.map(|named| named.0),
        "Kind of fault; a `collision` also takes out the nearest shuttle.",
    );
    let number = fault.required_or("number", count(0..=1_999), named.map(|named| named.1), "Index of the shuttle or drive, from 0.");
    let what = match what {
        FaultName::ShuttleStops => Breakdown::ShuttleStops(Shuttle(number)),
        FaultName::Collision => Breakdown::Collision(Shuttle(number)),
        FaultName::DriveDown => Breakdown::DriveDown(Drive(number)),
    };
    LibraryFault { library: Library(library), at, what }
}

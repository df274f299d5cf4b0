//! Scenario files: each setting is asked for once, and so read, checked, documented and printed.

mod demand;

use std::io;
use std::path::Path;

use fulgurite_domain::SetShape;
use fulgurite_library::placement::{ZoneShape, Zones};
use fulgurite_library::{Drive, Ideas, Layout, LayoutError, Library, Shuttle, Verification};
use fulgurite_mechanics::{Battery, Breakdown, DriveTimes, Faults, Motion, Power, Service, Settings, SettingsError};

use self::demand::{decode, expect, ingest, run, workload};
use super::{LibraryFault, PolicyChoice, PolicyName, Scenario, ScenarioError, Sets};
use crate::settings::kind::{
    acceleration, bytes, choice, count, drag, duration, energy, flag, length, mass, number, power, rate, seconds, share, speed, text,
};
use crate::settings::{Document, Override, Reader, Section, SettingErrors, read_file};

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
    /// Reads the file at `path` and those it is based on, with settings of the command line on top. Its name is the file's, without folder
    /// and ending.
    ///
    /// # Errors
    /// All settings that are wrong, unknown, missing or don't go together, each with its place.
    pub fn read(path: &Path, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let name = path.file_stem().map_or_else(|| "scenario".to_owned(), |stem| stem.to_string_lossy().into_owned());
        Self::load(&path.to_string_lossy(), &read_file, &name, overrides)
    }

    /// Like [`Scenario::read`], of a text that is based on nothing.
    ///
    /// # Errors
    /// As there.
    pub fn parse(name: &str, text: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let load = |path: &str| match path == name {
            true => Ok(text.to_owned()),
            false => Err(io::Error::new(io::ErrorKind::Unsupported, "this scenario is not read from a folder")),
        };
        Self::load(name, &load, name, overrides)
    }

    fn load(path: &str, load: &dyn Fn(&str) -> io::Result<String>, name: &str, overrides: &[Override]) -> Result<Self, SettingErrors> {
        let mut document = Document::load(path, load)?;
        overrides.iter().for_each(|setting| document.apply(setting));
        let mut reader = Reader::new(document);
        let mut scenario = ask(&mut reader, &Self { name: name.to_owned(), ..Self::default() });
        scenario.name = name.to_owned();
        if reader.is_sound()
            && let Err(error) = scenario.check()
        {
            refuse(&mut reader, &error);
        }
        reader.finish().map(|_| scenario)
    }

    /// The whole scenario as TOML, every setting with its value: it reads back as the same.
    ///
    /// # Panics
    /// If a value is outside the range that its setting has in a file.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut reader = Reader::new(Document::empty("the program"));
        ask(&mut reader, self);
        reader.finish().unwrap_or_else(|errors| panic!("a scenario that no file could have: {errors}"))
    }
}

/// The page of all settings of scenario files.
#[must_use]
pub fn reference() -> String {
    let mut reader = Reader::new(Document::empty("reference"));
    ask(&mut reader, &Scenario::default());
    reader.reference()
}

/// Reports what doesn't go together, at the setting it is about.
fn refuse(reader: &mut Reader, error: &ScenarioError) {
    let (name, expected) = match error {
        ScenarioError::Range { setting, expected, .. } => return reader.refuse(setting, expected.as_str()),
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
            return reader.refuse(name, *expected);
        }
        ScenarioError::Mechanics(SettingsError::Range { .. }) => ("drives.throughput", "machines that can be built"),
        ScenarioError::FaultElsewhere { index, .. } => {
            return reader.refuse(&format!("faults.planned.{index}.library"), "one of the libraries, counted from 0");
        }
        ScenarioError::Fault { index, .. } => {
            return reader.refuse(&format!("faults.planned.{index}.number"), format!("a shuttle or drive that is there ({error})"));
        }
        ScenarioError::Mechanics(_) => ("faults.planned", "shuttles and drives that are there"),
        ScenarioError::Workload(_) => ("workload.preset", "a workload that can be asked for"),
        ScenarioError::Placement(_) => ("sets.zones", "zones that sets can be kept out of"),
        ScenarioError::TooManyPlatters { .. } | ScenarioError::NoSet { .. } => ("library.platters", "as many as fit"),
    };
    reader.refuse(name, format!("{expected} ({error})"));
}

/// Asks for every setting; what a scenario file does not give is as in `base`.
fn ask(reader: &mut Reader, base: &Scenario) -> Scenario {
    let title = reader.top().setting_or("title", text(), base.title.clone(), "What the scenario is about, in a line.");
    let mut section = reader.section("deployment", "Libraries that hold sets together.");
    let libraries = section.setting_or("libraries", count(1..=1_000), base.libraries, "How many there are, all alike.");
    let away = section.setting_or(
        "away",
        count(0..=999),
        base.away,
        "Of them, those that are away all the time. A read of what they hold becomes reads of others of its set; where too many of a set are \
         away, it ends without its bytes.",
    );
    let (layout, platters) = library(reader, base);
    let (tracks, track_bytes) = platter(reader, base);
    let (motion, power, layout) = shuttles(reader, base, layout);
    let battery = battery(reader, base);
    let (drive, layout) = drives(reader, base, layout);
    let verification = reader.section("verification", "What drives do when no customer wants them.").setting_or(
        "of",
        choice(&VERIFICATIONS),
        base.verification,
        "`endless`: each drive always has a platter to verify, as the paper assumes. `written`: what comes in (see `ingest`) is verified and \
         stored. `off`: nothing.",
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
    let storage_racks = section.setting_or("racks", count(1..=100), layout.storage_racks, "Storage racks; 7 for sets of 16+3.");
    let shelves = section.setting_or("shelves", count(1..=100), layout.shelves, "Shelves.");
    let slots = section.setting_or("slots", count(1..=10_000), layout.slots, "Slots on each shelf of a storage rack.");
    let rack_width_um = section.setting_or("rack_width", length("0.5 m"..="10 m"), layout.rack_width_um, "Width of a rack.");
    let port_shelf =
        section.setting_or("port_shelf", count(0..=99), layout.port_shelf, "The shelf on which written platters leave the write rack.");
    let platters = section.setting_or(
        "platters",
        count(0..=100_000_000),
        base.platters,
        "Written platters in each library at the beginning: as many of them as make complete sets over all libraries. 0 is as many as fit.",
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
        "Content of a track, the smallest read.",
    );
    (tracks, track_bytes)
}

fn shuttles(reader: &mut Reader, base: &Scenario, layout: Layout) -> (Motion, Power, Layout) {
    let Settings { motion, power: draws, .. } = &base.mechanics;
    let mut section = reader.section("shuttles", "What carries platters.");
    let shuttles = section.setting_or("count", count(0..=2_000), layout.shuttles, "Shuttles of a library, at most two for each drive.");
    let spacing_um =
        section.setting_or("spacing", length("1 mm"..="10 m"), layout.spacing_um, "Least way between the middles of two on one shelf.");
    let motion = Motion {
        speed_m_s: section.setting_or("speed", speed("0.001 m/s"..="100 m/s"), motion.speed_m_s, "Top speed along a shelf."),
        acceleration_m_s2: section.setting_or(
            "acceleration",
            acceleration("0.001 m/s2"..="1000 m/s2"),
            motion.acceleration_m_s2,
            "Of speeding up and of braking.",
        ),
        positioning_s: section.setting_or("positioning", time(), motion.positioning_s, "Fine positioning behind each move along a shelf."),
        crab_s: section.setting_or("crab", time(), motion.crab_s, "The quickest change by one shelf."),
        crab_spread_s: section.setting_or("crab_spread", time(), motion.crab_spread_s, "What the slowest one takes longer."),
        pick_s: section.setting_or("pick", time(), motion.pick_s, "To take a platter, in the mean."),
        place_s: section.setting_or("place", time(), motion.place_s, "To leave a platter, in the mean."),
        handling_sd_s: section.setting_or("handling_deviation", time(), motion.handling_sd_s, "Standard deviation of both."),
    };
    let mut section = section.section("energy", "What motion costs. Only ratios between runs are compared.");
    let power = Power {
        mass_kg: section.setting_or("mass", mass("0 kg"..="1000 kg"), draws.mass_kg, "Of a shuttle with a platter."),
        drag_j_m: section.setting_or("drag", drag("0 J/m"..="10000 J/m"), draws.drag_j_m, "Along the rails."),
        crab_j: section.setting_or("crab", energy("0 J"..="1 MJ"), draws.crab_j, "A change by one shelf."),
        handling_j: section.setting_or("handling", energy("0 J"..="1 MJ"), draws.handling_j, "A pick or a place."),
        idle_w: section.setting_or("idle", power("0 W"..="100 kW"), draws.idle_w, "What it draws at all times."),
    };
    (motion, power, Layout { shuttles, spacing_um, ..layout })
}

/// A time of a motion, up to a day.
fn time() -> crate::settings::kind::Quantity<f64> {
    seconds("0 s"..="86400 s")
}

fn battery(reader: &mut Reader, base: &Scenario) -> Option<Battery> {
    let battery = base.mechanics.battery.clone();
    let mut section = reader.section("battery", "What shuttles run on.");
    let used = section.setting_or("used", flag(), battery.is_some(), "Whether there is one; without it they never have to charge.");
    let Battery { capacity_j, low_j, charging_w } = battery.unwrap_or_default();
    let capacity_j = section.setting_or("capacity", energy("1 J"..="1000 MJ"), capacity_j, "When full.");
    let low_j = section.setting_or("low", energy("0 J"..="1000 MJ"), low_j, "What is left when a shuttle goes to charge.");
    let charging_w = section.setting_or("charging", power("1 mW"..="1000 kW"), charging_w, "What a dock delivers.");
    if used && low_j >= capacity_j {
        section.refuse("low", "less than the capacity");
    }
    used.then_some(Battery { capacity_j, low_j, charging_w })
}

fn drives(reader: &mut Reader, base: &Scenario, layout: Layout) -> (DriveTimes, Layout) {
    let drive = &base.mechanics.drive;
    let mut section = reader.section("drives", "What reads platters, in a read rack at each end, each drive on a shelf of its own.");
    let left = section.setting_or("left", count(0..=100), layout.drives[0], "Drives of the left read rack.");
    let right = section.setting_or("right", count(0..=100), layout.drives[1], "Drives of the right read rack.");
    let throughput_bytes_s = section.setting_or(
        "throughput",
        rate("1 B/s"..="1 TB/s"),
        drive.throughput_bytes_s,
        "What a drive delivers; 30 to 210 MB/s are studied.",
    );
    let mount_s = section.setting_or("mount", time(), drive.mount_s, "To clamp a platter.");
    let unmount_s = section.setting_or("unmount", time(), drive.unmount_s, "To release it.");
    let switch_s = section.setting_or("switch", time(), drive.switch_s, "To turn from one bay to the other.");
    let (name, at_present) = match drive.service {
        Service::Tracks => (ServiceName::Tracks, 1.0),
        Service::Fixed(time) => (ServiceName::Fixed, time),
        Service::Exponential(time) => (ServiceName::Exponential, time),
    };
    let name = section.setting_or(
        "service",
        choice(&SERVICES),
        name,
        "How long a read takes. `tracks`: a seek, unless the head is there, and the bytes at the throughput. `fixed`, `exponential`: \
         `service_time`, seek and all, for comparison with queueing theory.",
    );
    let service_time = section.setting_or("service_time", time(), at_present, "Of a read, or its mean, where `service` is not `tracks`.");
    let mut seek = section.section("seek", "From track to track: lognormal, cut off.");
    let drive = DriveTimes {
        throughput_bytes_s,
        mount_s,
        unmount_s,
        switch_s,
        seek_median_s: seek.setting_or("median", time(), drive.seek_median_s, "Half of the seeks are shorter."),
        seek_sigma: seek.setting_or("sigma", number(0.0..=10.0), drive.seek_sigma, "Standard deviation of the logarithm."),
        seek_max_s: seek.setting_or("most", time(), drive.seek_max_s, "No seek is longer."),
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
    let mut section = reader.section("sets", "Platters that stand in for each other.");
    Sets {
        shape: SetShape {
            information: section.setting_or("information", count(1..=64), shape.information, "Information platters of a set."),
            redundancy: section.setting_or("redundancy", count(0..=63), shape.redundancy, "Redundancy platters of a set."),
        },
        unavailable: section.setting_or(
            "unavailable",
            share("0 %"..="100 %"),
            *unavailable,
            "Of all platters, those that can't be used: drawn from the seed, but never more of a set than its redundancy.",
        ),
        zones: Zones {
            shapes: section.tables_or(
                "zones",
                "Cells that one failure makes unreachable together; no two platters of a set lie in one zone. Without any, 4 shelves of a \
                 rack, and a shelf of 3 neighbouring racks.",
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
    let mut section = reader.section("policy", "Who decides what moves next.");
    let name = section.setting_or(
        "name",
        choice(&PolicyName::ALL),
        base.name,
        "`no-shuttles` and `shortest-paths` are baselines, `partitioned` is the paper's, `fulgurite` ours.",
    );
    let steals = section.setting_or("steals", flag(), base.steals_above.is_some(), "`partitioned`: whether idle shuttles help elsewhere.");
    let steals_above = section.setting_or(
        "steals_above",
        bytes("0 B"..="1 PB"),
        base.steals_above.or(PolicyChoice::default().steals_above).unwrap_or(0),
        "`partitioned`: by how much the bytes waiting in the fullest rectangle must exceed those in the emptiest.",
    );
    let mut section = section.section("ideas", "What `fulgurite` makes use of; each can be left out to see what it contributes.");
    let ideas = Ideas {
        exchanges: section.setting_or("exchanges", flag(), base.ideas.exchanges, "Both bays of a drive serve customers while many wait."),
        window: section.setting_or(
            "window",
            count(1..=100_000),
            base.ideas.window,
            "Among how many of the oldest platters the nearest is chosen; 1 is strictly by age.",
        ),
        age_counts: section.setting_or(
            "age_counts",
            number(0.0..=1e6),
            base.ideas.age_counts,
            "Seconds of way that one second of age makes up for when the nearest is chosen.",
        ),
        shares: section.setting_or("shares", flag(), base.ideas.shares, "Shuttles help outside of their rectangle."),
        reads_by_track: section.setting_or(
            "reads_by_track",
            flag(),
            base.ideas.reads_by_track,
            "Requests for one platter are read in order of their tracks.",
        ),
        help_above: section.setting_or(
            "help_above",
            count(0..=100_000),
            base.ideas.help_above,
            "Platters waiting in a half of a shelf above which a shuttle helps there that has nothing to do at home.",
        ),
        one_verifies_of: section.setting_or(
            "one_verifies_of",
            count(0..=100_000),
            base.ideas.one_verifies_of,
            "Of so many drives, one goes on verifying whoever waits, and exchanges no platters; 0 for none.",
        ),
        set_aside_above: section.setting_or(
            "set_aside_above",
            count(0..=100_000),
            base.ideas.set_aside_above,
            "Platters waiting in a rectangle, for each of its drives, above which verification is set aside.",
        ),
        brought_back_after: section.setting_or(
            "brought_back_after",
            duration(..),
            base.ideas.brought_back_after,
            "How long nobody waited when it is brought back.",
        ),
    };
    PolicyChoice { name, steals_above: steals.then_some(steals_above), ideas }
}

fn faults(reader: &mut Reader, base: &Scenario) -> (Faults, Vec<LibraryFault>) {
    let faults = &base.mechanics.faults;
    let mut section = reader.section("faults", "What goes wrong.");
    let hours = |hours: f64| hours.is_finite().then_some(hours * 3600.0);
    let often = || seconds("36 s"..);
    let shuttle = section.optional_or(
        "shuttle_every",
        often(),
        hours(faults.shuttle_hours),
        "Mean time of motion after which a shuttle stops; none for never.",
    );
    let drive =
        section.optional_or("drive_every", often(), hours(faults.drive_hours), "Mean time after which a drive goes down; none for never.");
    let random = Faults {
        planned: faults.planned.clone(),
        shuttle_hours: shuttle.map_or(f64::INFINITY, |seconds| seconds / 3600.0),
        drive_hours: drive.map_or(f64::INFINITY, |seconds| seconds / 3600.0),
        detection_s: section.setting_or("detection", seconds("0 s"..="30 year"), faults.detection_s, "Mean time until a fault is noticed."),
        repair_s: section.setting_or("repair", seconds("0 s"..="30 year"), faults.repair_s, "Mean time from then until it is repaired."),
    };
    let planned = section.tables_or("planned", "Faults at set instants.", &base.faults, planned_fault);
    (random, planned)
}

fn planned_fault(fault: &mut Section<'_>, known: Option<&LibraryFault>) -> LibraryFault {
    let named = known.map(|known| match known.what {
        Breakdown::ShuttleStops(Shuttle(number)) => (FaultName::ShuttleStops, number),
        Breakdown::Collision(Shuttle(number)) => (FaultName::Collision, number),
        Breakdown::DriveDown(Drive(number)) => (FaultName::DriveDown, number),
    });
    let at = fault.required_or("at", duration(..), known.map(|known| known.at), "When, from the start of the warm-up.");
    let library =
        fault.setting_or("library", count(0..=999), known.map_or(0, |known| known.library.0), "In which library, counted from 0.");
    let what = fault.required_or(
        "what",
        choice(&FAULTS),
        named.map(|named| named.0),
        "What happens; a `collision` takes the nearest shuttle too.",
    );
    let number = fault.required_or("number", count(0..=1_999), named.map(|named| named.1), "Of the shuttle or drive, counted from 0.");
    let what = match what {
        FaultName::ShuttleStops => Breakdown::ShuttleStops(Shuttle(number)),
        FaultName::Collision => Breakdown::Collision(Shuttle(number)),
        FaultName::DriveDown => Breakdown::DriveDown(Drive(number)),
    };
    LibraryFault { library: Library(library), at, what }
}

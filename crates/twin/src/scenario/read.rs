//! Reads scenario files. Each setting is declared once, which reads, checks, documents and prints
//! it.

mod demand;

use std::path::Path;

use fulgurite_domain::SetShape;
use fulgurite_library::{Drive, Library, Shuttle, Verification};
use fulgurite_library_settings::{conflict, sections};
use fulgurite_mechanics::{Breakdown, DriveTimes, Faults, Settings, SettingsError};
use fulgurite_settings::setting_type::{bytes, choice, count, duration, share, text};
use fulgurite_settings::{Document, Override, Reader, Section, SettingErrors, read_file};

use self::demand::{decode, expect, ingest, run, workload};
use super::{LibraryFault, Scenario, ScenarioError, Sets};

const VERIFICATIONS: [(&str, Verification); 3] =
    [("endless", Verification::Endless), ("written", Verification::Written), ("off", Verification::Off)];

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
        ScenarioError::Layout(error) => return conflict::reject_layout(reader, error),
        ScenarioError::Placement(error) => return conflict::reject_zones(reader, error),
        ScenarioError::Mechanics(error @ SettingsError::Range { .. }) => return conflict::reject_machines(reader, error),
        ScenarioError::FaultElsewhere { index, .. } => {
            return reader.reject(&format!("faults.planned.{index}.library"), "one of the libraries, counted from 0");
        }
        ScenarioError::Fault { index, .. } => {
            return reader.reject(&format!("faults.planned.{index}.number"), format!("an existing shuttle or drive ({error})"));
        }
        ScenarioError::Mechanics(_) => ("faults.planned", "existing shuttles and drives"),
        ScenarioError::Workload(_) => ("workload.preset", "a valid workload"),
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
    let (layout, mut section) = sections::library(reader, &base.layout);
    let platters = section.setting_or(
        "platters",
        count(0..=100_000_000),
        base.platters,
        "Written platters in each library at the start, rounded down to complete sets over all libraries. 0 for as many as fit.",
    );
    let (tracks, track_bytes) = platter(reader, base);
    let (motion, power, layout) = sections::shuttles(reader, &base.mechanics, layout);
    let battery = sections::battery(reader, base.mechanics.battery.as_ref());
    let (drive, layout) = sections::drives(reader, &base.mechanics.drive, layout);
    let verification = reader.section("verification", "What drives do without customer reads.").setting_or(
        "of",
        choice(&VERIFICATIONS),
        base.verification,
        "`endless`: each drive always has a platter to verify, as the paper assumes. `written`: drives verify what is ingested (see \
         `ingest`), which is then stored. `off`: drives verify nothing.",
    );
    let sets = sets(reader, base);
    let policy = sections::policy(reader, &base.policy);
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
        zones: sections::zones(&mut section, zones),
    }
}

fn faults(reader: &mut Reader, base: &Scenario) -> (Faults, Vec<LibraryFault>) {
    let mut section = reader.section("faults", "Random and planned faults.");
    let random = sections::random_faults(&mut section, &base.mechanics.faults);
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

//! The settings of one library and their file.

use std::path::Path;

use fulgurite_library::placement::Zones;
use fulgurite_library::{Layout, Pace, Policy};
use fulgurite_mechanics::{DriveTimes, Settings};
use fulgurite_settings::{Document, Reader, SettingErrors, read_file};

use crate::{Conflict, PolicyChoice, PolicyName, sections};

/// Everything that describes one library, except its platters. The default is an early library: 8
/// storage racks, 20 shuttles, 20 drives of 60 MB/s, and the balanced policy.
#[derive(Debug, Clone, PartialEq)]
pub struct LibrarySettings {
    /// The panel, with the numbers of shuttles and drives.
    pub layout: Layout,
    /// Which platters one failure makes unreachable.
    pub zones: Zones,
    /// The policy.
    pub policy: PolicyChoice,
    /// Settings of shuttles and drives. [`LibrarySettings::machines`] overrides `track_bytes` and
    /// `no_shuttles`; planned faults can only be set by programs.
    pub mechanics: Settings,
}

impl Default for LibrarySettings {
    fn default() -> Self {
        Self {
            layout: Layout { storage_racks: 8, ..Layout::default() },
            zones: Zones::default(),
            policy: PolicyChoice::default(),
            mechanics: Settings::default(),
        }
    }
}

impl LibrarySettings {
    /// Reads the file at `path` and its bases.
    ///
    /// # Errors
    /// All settings that are invalid, unknown or in conflict, each with its position.
    pub fn read(path: &Path) -> Result<Self, SettingErrors> {
        Self::from_document(Document::load(&path.to_string_lossy(), &read_file)?)
    }

    /// Like [`LibrarySettings::read`], from a text without a base. Errors refer to it as `name`.
    ///
    /// # Errors
    /// Those of [`LibrarySettings::read`].
    pub fn parse(name: &str, text: &str) -> Result<Self, SettingErrors> {
        Self::from_document(Document::parse(name, text)?)
    }

    fn from_document(document: Document) -> Result<Self, SettingErrors> {
        let mut reader = Reader::new(document);
        let settings = read_settings(&mut reader, &Self::default());
        if reader.is_sound()
            && let Err(conflict) = settings.check()
        {
            conflict.reject(&mut reader);
        }
        reader.finish().map(|_| settings)
    }

    /// Checks that all settings are valid together. [`LibrarySettings::read`] calls it.
    ///
    /// # Errors
    /// The first conflict found.
    pub fn check(&self) -> Result<(), Conflict> {
        self.layout.clone().check()?;
        self.zones.check()?;
        // The baseline needs drives that fetch their platters themselves, which only the twin has.
        if self.policy.name == PolicyName::NoShuttles {
            return Err(Conflict::Baseline);
        }
        if self.layout.shuttles == 0 {
            return Err(Conflict::NoShuttles);
        }
        self.mechanics.clone().check(&self.layout)?;
        Ok(())
    }

    /// All settings as TOML, defaults included; it reads back as the same settings. Planned faults
    /// and the size of a track are left out: no file can give them.
    ///
    /// # Panics
    /// If a value is outside the range that files accept for its setting.
    #[must_use]
    pub fn canonical(&self) -> String {
        let mut reader = Reader::new(Document::empty("the program"));
        read_settings(&mut reader, self);
        reader.finish().unwrap_or_else(|errors| panic!("the library has values that no file could have: {errors}"))
    }

    /// Settings of the machines for tracks of this size.
    #[must_use]
    pub fn machines(&self, track_bytes: u64) -> Settings {
        Settings {
            drive: DriveTimes { track_bytes, ..self.mechanics.drive.clone() },
            no_shuttles: self.policy.name == PolicyName::NoShuttles,
            ..self.mechanics.clone()
        }
    }

    /// The machine times that the controller assumes, for tracks of this size.
    #[must_use]
    pub fn pace(&self, track_bytes: u64) -> Pace {
        crate::pace(&self.machines(track_bytes))
    }

    /// The policy for tracks of this size.
    #[must_use]
    pub fn policy(&self, track_bytes: u64) -> Box<dyn Policy> {
        self.policy.build(&self.layout, &self.pace(track_bytes), track_bytes)
    }
}

/// The reference page of all settings in a library's file.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    read_settings(&mut reader, &LibrarySettings::default());
    reader.reference(INTRODUCTION)
}

/// Declares every setting; `base` supplies the defaults.
fn read_settings(reader: &mut Reader, base: &LibrarySettings) -> LibrarySettings {
    let (layout, _) = sections::library(reader, &base.layout);
    let (motion, power, layout) = sections::shuttles(reader, &base.mechanics, layout);
    let battery = sections::battery(reader, base.mechanics.battery.as_ref());
    let (drive, layout) = sections::drives(reader, &base.mechanics.drive, layout);
    let zones = sections::zones(&mut reader.section("sets", "How the platters of a set are spread over the panel."), &base.zones);
    let policy = sections::policy(reader, &base.policy);
    let faults = sections::random_faults(&mut reader.section("faults", "Random faults."), &base.mechanics.faults);
    let mechanics = Settings { motion, power, battery, drive, faults, no_shuttles: base.mechanics.no_shuttles };
    LibrarySettings { layout, zones, policy, mechanics }
}

#[cfg(test)]
mod tests {
    use fulgurite_library::placement::ZoneShape;
    use fulgurite_mechanics::{Battery, Service};

    use super::*;

    const TRACK_BYTES: u64 = 20_000_000;

    fn read(text: &str) -> LibrarySettings {
        LibrarySettings::parse("a.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
    }

    fn errors(text: &str) -> String {
        LibrarySettings::parse("a.toml", text).map_or_else(|errors| errors.to_string(), |_| "none".to_owned())
    }

    #[test]
    fn an_empty_file_is_the_default_library() {
        assert_eq!(read(""), LibrarySettings::default());
        LibrarySettings::default().check().unwrap();
    }

    #[test]
    fn printed_settings_read_back_the_same() {
        let mut settings = LibrarySettings::default();
        let same = |settings: &LibrarySettings| assert_eq!(read(&settings.canonical()), *settings, "{}", settings.canonical());
        same(&settings);
        settings.layout = Layout { shelves: 6, storage_racks: 3, slots: 40, rack_width_um: 900_000, ..settings.layout };
        settings.layout = Layout { drives: [4, 5], shuttles: 6, spacing_um: 340_000, port_shelf: 2, ..settings.layout };
        settings.zones.shapes = vec![ZoneShape { racks: 2, shelves: 3 }];
        settings.policy = PolicyChoice { name: PolicyName::Partitioned, steals_above: None, ..PolicyChoice::default() };
        settings.policy.techniques.window = 3;
        settings.mechanics.motion.speed_m_s = 1.5;
        settings.mechanics.power.mass_kg = 12.5;
        settings.mechanics.battery = Some(Battery { low_j: 1234.5, ..Battery::default() });
        settings.mechanics.drive.service = Service::Exponential(1.25);
        settings.mechanics.drive.seek_sigma = 0.5;
        settings.mechanics.faults.shuttle_hours = 1_000.25;
        settings.mechanics.faults.repair_s = 7_200.0;
        same(&settings);
    }

    #[test]
    fn a_file_and_its_base_are_read_together() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fast.toml");
        std::fs::write(folder.path().join("base.toml"), "[shuttles]\ncount = 12\n[library]\nracks = 3\n").unwrap();
        std::fs::write(&path, "base = 'base.toml'\n[shuttles]\ncount = 8\n").unwrap();
        let Layout { shuttles, storage_racks, .. } = LibrarySettings::read(&path).unwrap().layout;
        assert_eq!((shuttles, storage_racks), (8, 3));
    }

    #[test]
    fn settings_that_only_scenarios_have_are_unknown() {
        assert_eq!(errors("[shuttles]\ncuont = 3"), "a.toml:2:1: unknown setting `shuttles.cuont`; did you mean `count`?");
        for text in
            ["[library]\nplatters = 3", "[sets]\ninformation = 16", "[platters]\ntrack_bytes = '1 MB'", "title = 'a'", "[run]\nseed = 1"]
        {
            assert!(errors(text).contains("unknown "), "{text}: {}", errors(text));
        }
        let planned = "[[faults.planned]]\nat = '1 h'\nwhat = 'drive-down'\nnumber = 2";
        assert!(errors(planned).contains("unknown section `faults.planned`"), "{}", errors(planned));
    }

    #[test]
    fn conflicting_settings_are_rejected_at_their_position() {
        assert_eq!(errors("[shuttles]\ncount = 41"), "a.toml:2:9: `shuttles.count`: expected at most two for each drive; found 41");
        assert_eq!(errors("[shuttles]\ncount = 0"), "a.toml:2:9: `shuttles.count`: expected 1 or more; found 0");
        assert!(errors("[drives]\nright = 21").starts_with("a.toml:2:9: `drives.right`: expected at most two for each shelf"));
        assert!(errors("[library]\nport_shelf = 10").starts_with("a.toml:2:14: `library.port_shelf`: expected one of the shelves"));
        let battery = "[battery]\nused = true\nlow = '2 MJ'\ncapacity = '1 MJ'";
        assert!(errors(battery).starts_with("a.toml:3:7: `battery.low`: expected less than the capacity"));
        let zones = errors("[sets]\nzones = []");
        assert!(zones.starts_with("a.toml:2:9: `sets.zones`: expected zones that sets can span (no blast zone given"), "{zones}");
    }

    #[test]
    fn the_baseline_without_shuttles_is_only_for_the_twin() {
        let expected = "expected a policy that uses shuttles; `no-shuttles` is a baseline of the twin; found \"no-shuttles\"";
        for shuttles in [0, 20] {
            let text = format!("[policy]\nname = 'no-shuttles'\n[shuttles]\ncount = {shuttles}");
            assert_eq!(errors(&text), format!("a.toml:2:8: `policy.name`: {expected}"));
        }
    }

    #[test]
    fn machine_times_follow_the_size_of_a_track() {
        let settings = read("[drives]\nthroughput = '10 MB/s'");
        assert_eq!(settings.pace(TRACK_BYTES).track.seconds(), 2.0);
        assert_eq!(settings.pace(TRACK_BYTES / 2).track.seconds(), 1.0);
        assert_eq!(settings.pace(TRACK_BYTES).visit, settings.pace(1).visit);
        let machines = settings.machines(1_000);
        assert_eq!((machines.drive.track_bytes, machines.no_shuttles), (1_000, false));
    }

    /// `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-library-settings
    /// docs_library_settings_md` regenerates the page.
    #[test]
    fn docs_library_settings_md_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/library-settings.md");
        if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
            std::fs::write(path, reference()).unwrap();
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            found == reference(),
            "docs/library-settings.md is out of date: \
             `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-library-settings docs_library_settings_md` regenerates it"
        );
    }
}

//! The settings of a migration, `migration.toml`: each is declared once, and thereby read, checked,
//! documented and printed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fulgurite_domain::Micros;
use fulgurite_settings::setting_type::{bytes, count, duration, flag, list, text};
use fulgurite_settings::{Document, Reader, SettingErrors, read_file};

use super::spool::{Blocks, SpoolVolume};
use crate::hourly_limits::limits;
use crate::layout::{Layout, Rules, Spool, Station};

/// The file's name.
pub const FILE: &str = "migration.toml";

/// A place, as an address with options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaceSettings {
    /// Its address.
    pub place: String,
    /// Its options, as KEY=VALUE. Secrets are named by variables or files.
    pub options: Vec<String>,
}

/// The settings of a migration.
#[derive(Debug, Clone)]
pub struct MigrationSettings {
    /// Where the files are.
    pub source: PlaceSettings,
    /// Where they go.
    pub destination: PlaceSettings,
    /// Streams, spool volumes and rules.
    pub layout: Layout,
    /// The spool volumes, in the order of the layout's.
    pub volumes: Vec<SpoolVolume>,
    /// Files of a lot, at most.
    pub lot_files: usize,
    /// Bytes of a lot with several files, at most.
    pub lot_bytes: u64,
    /// Number of folders that name a file's family.
    pub family_folders: usize,
    /// Attempts for a file.
    pub tries: u32,
    /// From a failed attempt to the next.
    pub retry_after: Duration,
    /// From the migration of a file to the time at which it may be released.
    pub hold: Duration,
}

impl MigrationSettings {
    /// Reads the settings of the migration in a folder.
    ///
    /// # Errors
    /// All settings that are wrong, unknown, missing or inconsistent, each with its place.
    pub fn read(folder: &Path) -> Result<Self, SettingErrors> {
        let document = Document::load(&folder.join(FILE).to_string_lossy(), &read_file)?;
        let mut reader = Reader::new(document);
        let settings = settings(&mut reader, folder);
        reader.finish()?;
        Ok(settings)
    }
}

/// The reference page of all settings.
#[must_use]
pub fn reference() -> String {
    const INTRODUCTION: &str = include_str!("introduction.txt");
    let mut reader = Reader::new(Document::empty("reference"));
    settings(&mut reader, Path::new(""));
    reader.reference(INTRODUCTION)
}

/// The file of a new migration: the settings in `given`, by full names such as `source.place` and
/// with values as TOML, and all others commented out, with their defaults.
#[must_use]
pub fn new_file(given: &[(&str, String)]) -> String {
    const HEADING: &str = "# Settings of a migration; docs/migration-settings.md has their units and ranges. To change one, remove the #\n\
                           # before it and before its [section]. They take effect with the next run.\n";
    let mut reader = Reader::new(Document::empty(FILE));
    settings(&mut reader, Path::new(""));
    format!("{HEADING}{}", reader.commented(given))
}

fn settings(reader: &mut Reader, folder: &Path) -> MigrationSettings {
    let source = place(reader, "source", "The source: where the files are.");
    let destination = place(reader, "destination", "The destination: where they go.");
    let mut section = reader.section("streams", "Streams, each a thread with a connection of its own.");
    let (inputs, outputs, scans) = (
        section.setting("inputs", count(1..=256), "4", "Input streams, which read from the source."),
        section.setting("outputs", count(1..=256), "4", "Output streams, which write to the destination."),
        section.setting("scans", count(1..=256), "2", "Scan streams, which read back from the destination."),
    );
    let mut section = reader.section("lots", "Lots: files of a family that move together.");
    let lot_files = section.setting("files", count(1..=100_000), "256", "Files of a lot, at most.");
    let lot_bytes = section.setting("bytes", bytes("1 B"..="1 TB"), "16 MB", "Bytes of a lot with several files, at most.");
    let family_folders = section.setting("family_folders", count(0..=64), "1", "Number of folders that name a file's family.");
    let (spools, volumes) = spools(reader, folder);
    let mut section = reader.section("rules", "What happens when, and what after a failure.");
    let families_together = section.setting(
        "families_together",
        flag(),
        "false",
        "Only one output stream writes files of a family at a time, so that they stay together.",
    );
    let limits = limits(&mut section);
    let tries = section.setting("tries", count(1..=1_000), "3", "Attempts for a file before it is given up.");
    let retry_after = section.setting("retry_after", duration("1 s"..="7 d"), "1 min", "Time from a failed attempt to the next.");
    let hold = section.setting("hold", duration("0 s"..="3650 d"), "30 d", "Time for which the source is kept after a file was migrated.");
    let rules = Rules { families_together, limits, ..Rules::default() };
    let station = Station { name: "this machine".to_owned(), inputs, outputs, scans, spools };
    MigrationSettings {
        source,
        destination,
        layout: Layout { stations: vec![station], rules },
        volumes,
        lot_files,
        lot_bytes,
        family_folders,
        tries,
        retry_after: time(retry_after),
        hold: time(hold),
    }
}

fn place(reader: &mut Reader, name: &'static str, about: &'static str) -> PlaceSettings {
    let mut section = reader.section(name, about);
    PlaceSettings {
        place: section.required(
            "place",
            text(),
            "A folder, a URL such as s3://bucket/prefix, archive:FOLDER, or, as a source, tapes:FOLDER.",
        ),
        options: section.setting(
            "options",
            list(text(), 0..=100),
            "[]",
            "Options of the place, each as KEY=VALUE. Secrets are named: secret_access_key=env:VARIABLE or file:PATH.",
        ),
    }
}

fn spools(reader: &mut Reader, folder: &Path) -> (Vec<Spool>, Vec<SpoolVolume>) {
    let mut section = reader.section("spool", "Spool volumes, where files wait between reading and writing.");
    let memory =
        section.setting("memory", bytes("0 B"..="1 TB"), "256 MB", "Bytes of the volume in memory, which is used first; 0 disables it. After a crash, files in memory are read again; complete files in folders aren't.");
    let folders = section.setting(
        "folders",
        list(text(), 0..=64),
        "[\"spool\"]",
        "A folder for each volume on a disk, relative to this file's. When memory is full, they take lots larger than a quarter of it, and others after 5 s in which no lot was written, as when the destination is away.",
    );
    let folder_bytes = section.setting(
        "folder_bytes",
        bytes("1 B"..="1 PB"),
        "10 GB",
        "Bytes of each volume in a folder. A file larger than every volume can't be migrated.",
    );
    let is_exclusive = section.setting(
        "exclusive",
        flag(),
        "false",
        "One stream at a time reads from a volume in a folder or writes to it, as suits spinning disks. Name two folders on two disks then.",
    );
    if memory == 0 && folders.is_empty() {
        section.reject("memory", "a volume in memory, or one in a folder");
    }
    let in_memory =
        (memory > 0).then_some((Spool { bytes: memory, is_exclusive: false, is_reserve: false }, SpoolVolume::Memory(Blocks::default())));
    let in_folders = folders.into_iter().map(|name| {
        let path: PathBuf = folder.join(name);
        (Spool { bytes: folder_bytes, is_exclusive, is_reserve: memory > 0 }, SpoolVolume::Folder(path))
    });
    in_memory.into_iter().chain(in_folders).unzip()
}

fn time(micros: Micros) -> Duration {
    Duration::from_micros(micros.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-migration docs_migration` writes the
    /// page anew.
    #[test]
    fn docs_migration_settings_md_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/migration-settings.md");
        let page = reference();
        if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
            std::fs::write(path, &page).expect("the page can be written");
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            page,
            "docs/migration-settings.md is out of date: `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-migration docs_migration` writes it"
        );
    }

    #[test]
    fn a_new_file_with_all_comments_removed_states_the_defaults() {
        let given = [("source.place", "\"/a\"".to_owned()), ("destination.place", "\"/b\"".to_owned())];
        let file = new_file(&given);
        assert!(file.lines().filter(|line| line.starts_with("# ")).all(|line| line.chars().count() <= 110), "{file}");
        let read = |text: &str| {
            let mut reader = Reader::new(Document::parse(FILE, text).expect("TOML"));
            settings(&mut reader, Path::new("m"));
            reader.finish().expect("settings")
        };
        // `# ` begins an explanation, `#` a setting.
        let is_setting = |line: &&str| line.starts_with('#') && !line.starts_with("# ");
        let uncommented: String = file.lines().map(|line| format!("{}\n", if is_setting(&line) { &line[1..] } else { line })).collect();
        let settings_of = |text: &str| text.lines().filter(|line| line.contains(" = ")).count();
        let complete = read("[source]\nplace = \"/a\"\n[destination]\nplace = \"/b\"\n");
        assert_eq!((read(&file), read(&uncommented)), (complete.clone(), complete.clone()));
        // Each setting has a line of its own, and explanations contain none.
        assert_eq!(settings_of(&uncommented), settings_of(&complete), "{uncommented}");
        assert!(file.contains("# Attempts for a file before it is given up.\n#tries = 3\n"), "{file}");
        let with_inputs = new_file(&[&given[..], &[("streams.inputs", "2".to_owned())]].concat());
        assert!(with_inputs.contains("\n[streams]\n") && with_inputs.contains("\ninputs = 2\n"), "{with_inputs}");
    }

    #[test]
    fn a_file_with_two_places_is_enough_and_limits_are_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |more: &str| {
            let text = format!("[source]\nplace = \"/a\"\n[destination]\nplace = \"/b\"\n{more}");
            std::fs::write(folder.path().join(FILE), text).expect("written");
            MigrationSettings::read(folder.path())
        };
        let settings = write("").expect("settings");
        let spool = folder.path().join("spool");
        assert!(matches!(&settings.volumes[..], [SpoolVolume::Memory(_), SpoolVolume::Folder(folder)] if *folder == spool));
        assert_eq!(settings.layout.rules.limits, [None; 24]);
        let hours: Vec<String> = (0..24).map(|hour| format!("\"{} MB/s\"", hour * 10)).collect();
        let settings = write(&format!("[rules]\nlimits = [{}]\n[spool]\nmemory = \"0 B\"\n", hours.join(", "))).expect("settings");
        assert_eq!((settings.layout.rules.limits[0], settings.layout.rules.limits[23]), (Some(0), Some(230_000_000)));
        assert_eq!(settings.volumes.len(), 1);
        let error = write("[spool]\nmemory = \"0 B\"\nfolders = []\n").expect_err("no volume").to_string();
        assert!(error.contains("a volume in memory, or one in a folder"), "{error}");
        assert!(MigrationSettings::read(Path::new("/nowhere")).is_err());
    }
}

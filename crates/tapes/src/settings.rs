//! `library.toml`: the drives and the volumes of a library.

use std::path::Path;

use fulgurite_settings::setting_type::{bytes, count, number, rate, seconds};
use fulgurite_settings::{Document, Reader, SettingErrors, read_file};

use crate::motion::Motion;

/// The file's name.
pub const FILE: &str = "library.toml";

/// With less, a load would take days.
const SPEEDUP_MIN: f64 = 0.001;

/// The settings of a tape library.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TapeSettings {
    /// Number of drives.
    pub drives: usize,
    /// Bytes per second while a drive reads.
    pub rate: f64,
    /// From the slot to the tape being ready at its beginning.
    pub load_s: f64,
    /// From the rewound tape to the slot.
    pub unload_s: f64,
    /// How the tape is wound.
    pub motion: Motion,
    /// How many times faster than a real library it is; 0 if it never waits.
    pub speedup: f64,
}

impl TapeSettings {
    /// Reads the settings of the library in a folder.
    ///
    /// # Errors
    /// All settings that are wrong, unknown or missing, each with its place.
    pub fn read(folder: &Path) -> Result<Self, SettingErrors> {
        Self::of(Document::load(&folder.join(FILE).to_string_lossy(), &read_file)?)
    }

    /// Checks settings that are to be written.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn check(text: &str) -> Result<Self, SettingErrors> {
        Self::of(Document::parse(FILE, text)?)
    }

    fn of(document: Document) -> Result<Self, SettingErrors> {
        let mut reader = Reader::new(document);
        let settings = settings(&mut reader);
        reader.finish()?;
        Ok(settings)
    }
}

/// The reference page of all settings.
#[must_use]
pub fn reference() -> String {
    let mut reader = Reader::new(Document::empty("reference"));
    settings(&mut reader);
    reader.reference(include_str!("introduction.txt"))
}

fn settings(reader: &mut Reader) -> TapeSettings {
    let time = || seconds("0 s"..="1 h");
    let mut section = reader.section("drives", "The drives. All are alike.");
    let drives = section.setting("count", count(1..=256), "2", "Number of drives.");
    let rate = section.setting("rate", rate("1 kB/s"..="10 GB/s"), "33 MB/s", "Rate while a file is read.");
    let load_s = section.setting("load", time(), "37 s", "Time from a tape's slot until it is ready at its beginning.");
    let unload_s = section.setting("unload", time(), "17 s", "Time from a rewound tape back to its slot.");
    let rewind_s = section.setting("rewind", time(), "2 min", "Time to rewind from the end to the beginning.");
    let locate_s = section.setting("locate", time(), "4.29 s", "Fixed time of each locate.");
    let wind_s = section.setting("wind", time(), "2 min", "Time to wind from the beginning to the end during a locate.");
    let wrap_s = section.setting("wrap", time(), "6.69 s", "Time to change to another wrap.");
    let turn_s = section.setting("turn", time(), "5.22 s", "Time to reverse the direction.");
    let back_s = section.setting("back", time(), "11.32 s", "Extra time if a locate arrives against the direction of reading.");
    let mut section = reader.section("volumes", "The tapes. All are alike.");
    let capacity = section.setting("capacity", bytes("1 kB"..="1 PB"), "200 GB", "Bytes of a full tape.");
    let wraps = section.setting("wraps", count(1..=10_000), "64", "Number of wraps of a full tape.");
    let mut section = reader.section("emulation", "How the library differs from a real one.");
    let speedup = section.setting(
        "speedup",
        number(0.0..=1e9),
        "1",
        "How many times faster than a real library it is, from 0.001. With 0, it never waits.",
    );
    if speedup > 0.0 && speedup < SPEEDUP_MIN {
        section.reject("speedup", "0, or at least 0.001");
    }
    let motion = Motion { capacity, wraps, locate_s, wind_s, wrap_s, turn_s, back_s, rewind_s };
    TapeSettings { drives, rate, load_s, unload_s, motion, speedup }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-tapes docs_tape` writes the page anew.
    #[test]
    fn docs_tape_settings_md_is_up_to_date() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tape-settings.md");
        let page = reference();
        if std::env::var_os("FULGURITE_WRITE_REFERENCE").is_some() {
            std::fs::write(path, &page).expect("the page can be written");
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            page,
            "docs/tape-settings.md is out of date: `FULGURITE_WRITE_REFERENCE=1 cargo test -p fulgurite-tapes docs_tape` writes it"
        );
    }

    #[test]
    fn an_empty_file_is_enough_and_mistakes_are_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |text: &str| {
            std::fs::write(folder.path().join(FILE), text).expect("written");
            TapeSettings::read(folder.path())
        };
        let settings = write("").expect("settings");
        assert_eq!((settings.drives, settings.motion.wraps, settings.motion.capacity), (2, 64, 200_000_000_000));
        assert_eq!(write("[drives]\ncount = 3\n[emulation]\nspeedup = 0\n").map(|of| (of.drives, of.speedup)).ok(), Some((3, 0.0)));
        assert!(write("[emulation]\nspeedup = 1e-30\n").is_err());
        assert!(write("[drives]\ncount = 0\n").is_err() && write("[drive]\n").is_err());
    }
}

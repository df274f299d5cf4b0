//! Folders that go away during a run, and return.

use std::fs;
use std::path::{Path, PathBuf};

use fulgurite_places::Folder;

use super::*;

/// Takes a folder away once some lots have passed a stage, and brings it back when a stream has
/// noticed.
struct Outage {
    folder: PathBuf,
    away: PathBuf,
    /// True if an empty folder is in its place meanwhile, as where a disk was mounted.
    leaves_empty: bool,
    stage: Stage,
    lots: u32,
    is_away: bool,
    outages: u32,
}

impl Watcher for Outage {
    fn order(&mut self) -> Order {
        Order::Run
    }

    fn stepped(&mut self, _: Micros, event: &Event, _: &[Command], _: &Progress<'_>) -> io::Result<()> {
        let has_passed = match self.stage {
            Stage::Input => matches!(event, Event::Read(_)),
            _ => matches!(event, Event::Written(_)),
        };
        self.lots += u32::from(has_passed);
        if self.lots == 3 && self.outages == 0 {
            fs::rename(&self.folder, &self.away)?;
            if self.leaves_empty {
                fs::create_dir(&self.folder)?;
            }
            (self.is_away, self.outages) = (true, 1);
        }
        Ok(())
    }

    fn failed(&mut self, name: &str, stage: Stage, reason: &str, _: bool) {
        panic!("{name}: {}: {reason}", stage.name());
    }

    fn unreachable(&mut self, _: Stage, _: &str) {
        if self.is_away {
            if self.leaves_empty {
                // Not if something was written to it.
                fs::remove_dir(&self.folder).expect("it is empty");
            }
            fs::rename(&self.away, &self.folder).expect("renamed");
            self.is_away = false;
        }
    }

    fn set_aside(&mut self, _: &str, _: u32, _: &str) {}
}

fn place(path: &Path) -> Arc<dyn Place> {
    Arc::new(Folder::new(path))
}

#[test]
fn a_folder_that_goes_away_and_returns_costs_no_file_an_attempt() {
    for (stage, leaves_empty) in [(Stage::Output, false), (Stage::Output, true), (Stage::Input, false), (Stage::Input, true)] {
        let files = some_files(200);
        let case = Case { lot_files: 4, ..Case::new(&files) };
        let [source, destination] = ["source", "destination"].map(|name| case.folder.path().join(name));
        fs::create_dir(&destination).expect("made");
        for (name, content) in &files {
            let path = source.join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, content).expect("written");
        }
        let setup = Setup { source: place(&source), destination: Arc::new(PlaceDestination::new(place(&destination))), ..case.setup() };
        let folder = if stage == Stage::Input { source } else { destination.clone() };
        let away = case.folder.path().join("away");
        let outage = &mut Outage { folder, away, leaves_empty, stage, lots: 0, is_away: false, outages: 0 };
        super::super::run(&setup, &mut case.database(), outage).expect("it runs");
        assert!(outage.outages == 1 && !outage.is_away);
        assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 200);
        for (name, content) in &files {
            assert!(fs::read(destination.join(name)).expect("a file") == *content);
        }
    }
}

//! What a run left in spool volumes is not read from the source again.

use std::fs;
use std::path::PathBuf;

use super::*;

/// Stops a run once it has read some files.
struct StopsAfter {
    files: u32,
    read: u32,
}

impl Watcher for StopsAfter {
    fn order(&mut self) -> Order {
        if self.read >= self.files { Order::Stop } else { Order::Run }
    }

    fn stepped(&mut self, _: Micros, event: &Event, _: &[Command], _: &Progress<'_>) -> io::Result<()> {
        if let Event::Read(done) = event {
            self.read += done.files;
        }
        Ok(())
    }

    fn failed(&mut self, name: &str, _: Stage, reason: &str, _: bool) {
        panic!("{name}: {reason}");
    }

    fn unreachable(&mut self, _: Stage, _: &str) {}

    fn set_aside(&mut self, _: &str, _: u32, _: &str) {}
}

impl Case {
    fn on_disk(files: &BTreeMap<String, Vec<u8>>) -> Self {
        Self { on_disk: true, ..Self::new(files) }
    }

    /// Files of spooled lots with an ending.
    fn spooled(&self, ending: &str) -> Vec<PathBuf> {
        let folders = ["spool1", "spool2"].map(|name| self.folder.path().join(name));
        let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
        entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.to_string_lossy().ends_with(ending)).collect()
    }

    /// A run with a destination that can't be reached, which is stopped once it has read `files`.
    /// What it has read stays in the spool volumes.
    fn spool(&self, files: u32) {
        *self.destination.is_unusable.lock().expect("locked") = Some(Cause::Connection);
        let stops = &mut StopsAfter { files, read: 0 };
        super::super::run(&self.setup(), &mut self.database(), stops).expect("it stops");
        *self.destination.is_unusable.lock().expect("locked") = None;
        assert!(self.destination.files().is_empty() && !self.spooled(".lot").is_empty());
    }

    fn reads(&self) -> HashMap<String, u32> {
        self.source.reads.lock().expect("locked").clone()
    }
}

#[test]
fn a_run_that_is_killed_reads_only_the_files_again_that_it_was_reading() {
    for steps in (1..120).step_by(7) {
        let case = Case::on_disk(&some_files(100));
        let kills = 3;
        for _ in 0..kills {
            let notes = &mut Notes { steps_left: Some(steps), ..Notes::default() };
            let result = case.run(notes);
            assert!(matches!(result, Ok(()) | Err(RunError::Watcher(_))), "{result:?}");
        }
        case.all_arrived();
        let reads = case.reads();
        let again: u32 = reads.values().map(|count| count - 1).sum();
        // Two inputs were reading a file each, at most.
        assert!(reads.len() == 100 && again <= 2 * kills, "{again} of {steps} steps");
        assert_eq!(case.spooled(""), case.spooled("lock"), "nothing is left");
    }
}

#[test]
fn what_is_spooled_when_the_destination_can_not_be_reached_waits_for_the_next_run() {
    let case = Case::on_disk(&some_files(40));
    case.spool(30);
    let journal = &mut Notes { journal: Some(JournalWriter::begin(Vec::new(), &case.setup().layout).expect("begun")), ..Notes::default() };
    case.run(journal).expect("it runs");
    assert!(case.destination.files() == case.source.files());
    assert!(case.reads().values().all(|&reads| reads == 1));
    assert_eq!(case.spooled(""), case.spooled("lock"), "nothing is left");
    let journal = journal.journal.take().expect("a journal").into_inner();
    assert!(String::from_utf8_lossy(&journal).contains("Found"));
    assert!(matches!(journal::replay(&*journal), Ok(Replayed { has_ended: true, .. })));
    let timeline = crate::timeline::read(&*journal).expect("a timeline");
    assert!(timeline.trouble.is_none() && timeline.timeline.passed(Stage::Input) < timeline.timeline.passed(Stage::Output));
}

#[test]
fn a_spooled_file_that_is_damaged_is_read_again_and_no_failure() {
    let case = Case::on_disk(&some_files(40));
    case.spool(40);
    let lots = case.spooled(".lot");
    for list in case.spooled(".files") {
        // As if the machine had been restarted since.
        let text = fs::read_to_string(&list).expect("a list");
        fs::write(&list, text.replacen("\"boot\":\"", "\"boot\":\"0", 1)).expect("written");
    }
    for lot in &lots {
        let mut content = fs::read(lot).expect("a lot");
        content[0] ^= 1;
        fs::write(lot, content).expect("written");
    }
    case.all_arrived();
    let again = case.reads().values().filter(|&&reads| reads == 2).count();
    assert_eq!(again, lots.len(), "the first file of each lot");
}

#[test]
fn a_spooled_file_that_the_inventory_states_otherwise_is_read_again() {
    let files = some_files(40);
    let case = Case::on_disk(&files);
    case.spool(40);
    let names: Vec<&String> = files.keys().collect();
    // The first is another file now, and a list contradicts the second.
    case.source.files.lock().expect("locked").insert(names[0].clone(), b"changed".to_vec());
    case.add(&[row(names[0], 7)]);
    let expect = |name: &String, content: &[u8]| (name.clone(), digest(Algorithm::Md5, content));
    let digests = [expect(names[1], b"other"), expect(names[2], &files[names[2]])];
    case.database().add_digests(&digests, &|_| String::new()).expect("added");
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert!(notes.failed.len() == 1 && notes.failed[0].0 == *names[1] && notes.failed[0].2.contains("wrong at the source"));
    assert_eq!(case.destination.files()[names[0]], b"changed");
    assert!(!case.destination.files().contains_key(names[1]));
    let reads = case.reads();
    assert!((3..40).all(|index| reads[names[index]] == 1) && (reads[names[0]], reads[names[2]]) == (2, 1), "{reads:?}");
    assert_eq!(case.database().totals().expect("totals").of(State::Migrated).0, 39);
}

#[test]
fn a_spooled_file_that_was_replaced_by_one_of_the_same_length_is_read_again() {
    let files = some_files(40);
    let case = Case::on_disk(&files);
    let name = files.keys().next().expect("a file");
    let tagged = |tag: &str| InventoryRow { tag: Some(tag.to_owned()), ..row(name, files[name].len() as u64) };
    case.add(&[tagged("before")]);
    case.spool(40);
    // Buckets have no revisions that tell it.
    case.source.files.lock().expect("locked").insert(name.clone(), vec![7; files[name].len()]);
    case.add(&[tagged("after")]);
    case.all_arrived();
    let reads = case.reads();
    assert!(reads.iter().all(|(of, &reads)| reads == if of == name { 2 } else { 1 }), "{reads:?}");
}

#[test]
fn what_another_migration_spooled_is_not_used() {
    let files = some_files(20);
    let case = Case::on_disk(&files);
    case.spool(20);
    let others: BTreeMap<String, Vec<u8>> = files.iter().map(|(name, content)| (name.clone(), vec![7; content.len()])).collect();
    let other = Case { folder: case.folder, ..Case::on_disk(&others) };
    fs::remove_file(other.folder.path().join("state.db")).expect("removed");
    let rows: Vec<InventoryRow> = others.iter().map(|(name, content)| row(name, content.len() as u64)).collect();
    other.add(&rows);
    other.all_arrived();
}

#[test]
fn lots_of_one_number_in_two_folders_are_told_apart() {
    let case = Case::on_disk(&some_files(40));
    case.spool(40);
    // As if each folder had been away while the other was filled.
    let lots = case.spooled(".lot");
    assert!(lots.len() >= 2);
    for (number, lot) in lots.iter().take(2).enumerate() {
        let folder = case.folder.path().join(format!("spool{}", number + 1));
        fs::rename(lot, folder.join("moved.lot")).expect("moved");
        fs::rename(lot.with_extension("files"), folder.join("moved.files")).expect("moved");
    }
    for folder in ["spool1", "spool2"].map(|name| case.folder.path().join(name)) {
        for ending in ["lot", "files"] {
            fs::rename(folder.join(format!("moved.{ending}")), folder.join(format!(".fulgurite-spool-100.{ending}"))).expect("moved");
        }
    }
    case.all_arrived();
    assert!(case.reads().values().all(|&reads| reads == 1));
}

#[test]
fn what_has_changed_at_the_source_is_read_again() {
    let files = some_files(40);
    let case = Case::on_disk(&files);
    *case.source.has_revisions.lock().expect("locked") = true;
    case.spool(40);
    // A damaged file was replaced by a good one of the same length, and another was removed.
    let names: Vec<&String> = files.keys().collect();
    let good = vec![7; files[names[0]].len()];
    case.source.files.lock().expect("locked").insert(names[0].clone(), good.clone());
    case.source.files.lock().expect("locked").remove(names[1]);
    let notes = &mut Notes::default();
    case.run(notes).expect("it runs");
    assert_eq!(notes.failed, []);
    let arrived = case.destination.files();
    assert!(arrived[names[0]] == good && arrived[names[1]] == files[names[1]] && arrived.len() == 40);
    assert_eq!(case.reads().values().filter(|&&reads| reads == 2).count(), 1);
}

#[test]
fn if_a_spool_volume_fails_what_is_spooled_arrives_and_makes_room() {
    let case = Case::on_disk(&some_files(200));
    let obstacle = case.folder.path().join("spool1/.fulgurite-spool-9.lot");
    fs::create_dir_all(&obstacle).expect("made");
    let notes = &mut Notes::default();
    assert!(matches!(case.run(notes), Err(RunError::SpoolFailed(_))));
    let migrated = case.database().totals().expect("totals").of(State::Migrated).0;
    // Eight lots of eight files were read, at least.
    assert!((64..200).contains(&migrated) && notes.failed.is_empty(), "{migrated}");
    assert!(case.spooled(".files").is_empty());
    fs::remove_dir(obstacle).expect("removed");
    case.all_arrived();
    assert!(case.reads().values().all(|&reads| reads == 1));
}

#[test]
fn symbolic_links_in_a_spool_folder_are_not_followed() {
    let case = Case::on_disk(&some_files(20));
    let victim = case.folder.path().join("victim");
    fs::write(&victim, "precious").expect("written");
    let spool = case.folder.path().join("spool1");
    fs::create_dir(&spool).expect("made");
    for name in [".fulgurite-spool-1.lot", ".fulgurite-spool-1.files", ".fulgurite-spool-lock"] {
        let link = spool.join(name);
        // The lock of the run before.
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        let result = case.run(&mut Notes::default());
        assert!(matches!(result, Err(RunError::Spool(_) | RunError::SpoolFailed(_))), "{result:?}");
        assert_eq!(fs::read(&victim).expect("a file"), b"precious");
        fs::remove_file(link).expect("removed");
    }
    case.all_arrived();
}

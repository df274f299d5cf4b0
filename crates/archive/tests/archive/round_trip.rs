//! Every put object is restored unchanged, whatever happens to platters, within the limits of the
//! codes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

use crate::support::{Home, Troubles, get_all, noise, put_all};
use fulgurite_archive::settings::StoreSettings;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{PlatterState, Replace, Skip};

fn tree() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut files = BTreeMap::new();
    for i in 0..60_u64 {
        files.insert(format!("small/{i:03}").into_bytes(), noise(i, (i * 997) as usize));
    }
    files.insert(b"empty".to_vec(), Vec::new());
    files.insert("Ünïcode/ファイル".into(), noise(7, 70_000));
    files.insert(b"odd/\xff\xfe name\nwith newline".to_vec(), noise(8, 65_536));
    files.insert(b"large".to_vec(), noise(9, 5_000_000));
    files.insert(b"frames".to_vec(), noise(10, 16 * 65_536));
    files
}

#[test]
fn files_are_restored_from_staging_and_from_platters() {
    let home = Home::new(4, 2);
    let archive = home.open();
    let files = tree();
    let report = put_all(&archive, &files);
    assert_eq!(report.objects, files.len() as u64);
    assert_eq!(get_all(&archive, &Unwatched).1, files);
    let flushed = archive.flush(&Unwatched).expect("flush");
    assert_eq!((flushed.sets, flushed.platters, flushed.versions), (1, 6, files.len() as u64));
    assert!(archive.staging().segments().expect("segments").is_empty(), "staging is released");
    let (report, found) = get_all(&archive, &Unwatched);
    assert_eq!(found, files);
    assert_eq!((report.failed, report.repairs.tracks()), (0, 0));
}

#[test]
fn puts_larger_than_a_set_are_flushed_while_they_arrive() {
    let home = Home::with(2, 1, |settings| {
        settings.set.platter_mib = 8;
        settings.staging.segment_mib = 2;
    });
    let archive = home.open();
    let mut files: BTreeMap<Vec<u8>, Vec<u8>> = (0..40).map(|i| (format!("{i:02}").into_bytes(), noise(i, 1_700_000))).collect();
    // Larger than a set.
    files.insert(b"large".to_vec(), noise(99, 40_000_000));
    let sources = files.iter().map(|(name, content)| fulgurite_archive::Source::Stream {
        reader: Box::new(std::io::Cursor::new(content.clone())),
        name: fulgurite_domain::ObjectName(name.clone()),
    });
    let (put, flushed) = archive.put_changed_and_flush(sources.collect::<Vec<_>>().into_iter(), Skip::Nothing, &Unwatched);
    assert!(put.failure.is_none(), "{:?}", put.failure);
    let flushed = flushed.expect("flushed");
    assert_eq!((put.report.objects, flushed.versions), (41, 41));
    assert!(flushed.sets >= 7, "{} sets", flushed.sets);
    assert!(archive.staging().segments().expect("segments").is_empty());
    let (report, found) = get_all(&archive, &Unwatched);
    assert!(found == files && report.failed == 0);
}

#[test]
fn any_two_of_six_platters_may_be_lost() {
    let home = Home::new(4, 2);
    let archive = home.open();
    let files = tree();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let platters = home.platter_files();
    for a in 0..platters.len() {
        for b in 0..a {
            let hidden = [a, b].map(|i| (platters[i].clone(), platters[i].with_extension("hidden")));
            hidden.iter().for_each(|(from, to)| fs::rename(from, to).expect("hidden"));
            let (report, found) = get_all(&archive, &Unwatched);
            assert_eq!(report.failed, 0, "without {a} and {b}");
            assert!(found == files, "without {a} and {b}");
            hidden.iter().for_each(|(from, to)| fs::rename(to, from).expect("back"));
        }
    }
}

#[test]
fn with_one_platter_too_many_lost_exactly_the_lost_files_are_reported() {
    let home = Home::new(4, 2);
    let archive = home.open();
    let files = tree();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    for platter in &home.platter_files()[..3] {
        fs::remove_file(platter).expect("removed");
    }
    let troubles = Troubles::default();
    let (report, found) = get_all(&archive, &troubles);
    let lost = troubles.take();
    assert!(report.failed > 0);
    assert_eq!(lost.len() as u64, report.failed);
    assert_eq!(found.len() + lost.len(), files.len());
    assert!(found.iter().all(|(name, content)| files[name] == *content));
    let scrubbed = archive.scrub(None, &troubles).expect("scrub");
    assert_eq!(troubles.take(), lost);
    assert_eq!(scrubbed.lost_versions, report.failed);
}

#[test]
fn a_version_damaged_in_several_sets_is_reported_once() {
    let home = Home::with(1, 1, |settings| settings.set.platter_mib = 8);
    let archive = home.open();
    put_all(&archive, &BTreeMap::from([(b"large".to_vec(), crate::support::noise(1, 20_000_000)), (b"small".to_vec(), b"small".to_vec())]));
    assert!(archive.flush(&Unwatched).expect("flush").sets >= 3);
    home.platter_files().iter().for_each(|platter| fs::remove_file(platter).expect("removed"));
    let troubles = Troubles::default();
    assert_eq!(archive.scrub(None, &troubles).expect("scrub").lost_versions, 2);
    assert_eq!(troubles.take(), ["lost large", "lost small"]);
}

#[test]
fn a_platter_on_another_store_is_read_there_and_a_scrub_moves_it_back() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let files = tree();
    put_all(&archive, &files);
    archive.flush(&Unwatched).expect("flush");
    let platters = home.platter_files();
    let before: Vec<Vec<u8>> = platters.iter().map(|path| fs::read(path).expect("read")).collect();
    // Two platters, although the set tolerates the loss of only one.
    let name = |path: &std::path::Path| path.file_name().expect("a name").to_owned();
    fs::rename(&platters[0], platters[1].with_file_name(name(&platters[0]))).expect("moved");
    fs::rename(&platters[1], platters[0].with_file_name(name(&platters[1]))).expect("moved");
    assert_eq!(get_all(&archive, &Unwatched).1, files);
    let found = archive.scrub(None, &Unwatched).expect("scrub");
    let elsewhere: Vec<_> = found.unsound.iter().map(|finding| (finding.state(), finding.elsewhere.clone())).collect();
    assert_eq!((elsewhere.len(), found.lost_versions), (2, 0));
    assert!(elsewhere.iter().all(|(state, elsewhere)| *state == PlatterState::Elsewhere && elsewhere.is_some()), "{elsewhere:?}");
    assert_eq!(archive.scrub(Some(Default::default()), &Unwatched).expect("scrub").rebuilt, 2);
    assert_eq!(home.platter_files(), platters);
    let after: Vec<Vec<u8>> = platters.iter().map(|path| fs::read(path).expect("read")).collect();
    assert!(before == after);
    assert!(archive.scrub(None, &Unwatched).expect("scrub").unsound.is_empty());
}

#[test]
fn a_repairing_scrub_restores_damaged_and_missing_platters_exactly() {
    let home = Home::new(4, 2);
    let archive = home.open();
    put_all(&archive, &tree());
    archive.flush(&Unwatched).expect("flush");
    let platters = home.platter_files();
    let before: Vec<Vec<u8>> = platters.iter().map(|path| fs::read(path).expect("read")).collect();
    fs::remove_file(&platters[1]).expect("removed");
    let file = fs::File::options().write(true).open(&platters[3]).expect("open");
    // Damages headers, single sectors, and more than a whole track.
    for (at, bytes) in [(0, 100), (100_000, 10), (300_000, 400_000)] {
        file.write_all_at(&vec![0xee; bytes], at).expect("damage");
    }
    fs::File::options().write(true).open(&platters[5]).expect("open").set_len(before[5].len() as u64 / 2).expect("cut");
    let report = archive.scrub(Some(Default::default()), &Unwatched).expect("scrub");
    assert_eq!((report.unsound.len(), report.rebuilt, report.lost_versions), (3, 3, 0));
    let after: Vec<Vec<u8>> = platters.iter().map(|path| fs::read(path).expect("read")).collect();
    assert!(before == after);
    let clean = archive.scrub(None, &Unwatched).expect("scrub");
    assert!(clean.unsound.is_empty());
}

#[test]
fn replaced_platters_of_a_set_never_share_a_store() {
    let home = Home::with(2, 2, |settings| {
        let spare = StoreSettings { name: "spare".into(), path: "stores/spare".into() };
        settings.stores.push(spare);
    });
    let archive = home.open();
    put_all(&archive, &tree());
    archive.flush(&Unwatched).expect("flush");
    let stores = |archive: &fulgurite_archive::Archive| {
        let sets = archive.catalogue().sets().expect("sets");
        sets[0].description.platters.iter().map(|place| place.store.clone()).collect::<Vec<_>>()
    };
    // Two stores of the set are gone, and only one store is free.
    for store in &stores(&archive)[..2] {
        fs::remove_dir_all(home.path().join("stores").join(store)).expect("removed");
    }
    let replace = Replace { absent: true, unreadable: false };
    let troubles = Troubles::default();
    let report = archive.scrub(Some(replace), &troubles).expect("scrub");
    let (mut after, troubles) = (stores(&archive), troubles.take());
    assert_eq!((report.unsound.len(), report.rebuilt), (2, 1), "{troubles:?}");
    assert!(troubles.iter().any(|text| text.contains("was not rebuilt")), "{troubles:?}");
    after.sort();
    after.dedup();
    assert_eq!(after.len(), 4, "{after:?}");
}

#[test]
fn an_archive_does_not_open_for_writing_with_a_wrong_master_key() {
    let home = Home::new(2, 1);
    put_all(&home.open(), &tree());
    fs::write(home.path().join("master.key"), format!("{}\n", "5a".repeat(32))).expect("written");
    let error = match fulgurite_archive::Archive::open(&home.path(), fulgurite_archive::Access::Write) {
        Ok(_) => panic!("it opened"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("master.key") && error.contains("not wrapped by it"), "{error}");
}

#[test]
fn a_lost_or_wrong_key_costs_its_version_and_a_verification_reports_it() {
    let home = Home::new(2, 1);
    let archive = home.open();
    let names = [&b"a"[..], b"b", b"c"];
    put_all(&archive, &names.iter().map(|name| (name.to_vec(), name.to_vec())).collect());
    archive.flush(&Unwatched).expect("flush");
    let id = |name: &[u8]| archive.catalogue().versions_of(&fulgurite_domain::ObjectName(name.to_vec())).expect("read")[0].id;
    let (b, c) = (id(b"b"), id(b"c"));
    archive.keys().destroy(&[b, c]).expect("destroyed");
    archive.keys().insert(&[(b, fulgurite_format::WrappedKey([7; 40]))]).expect("kept");
    let troubles = Troubles::default();
    assert_eq!(archive.scrub(None, &troubles).expect("scrub").lost_versions, 2);
    assert_eq!(troubles.take(), ["lost b", "lost c"]);
    drop(archive);
    // The catalogue lists them, and a rebuild carries them over.
    let rebuild =
        || fulgurite_archive::rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    let report = rebuild();
    assert_eq!((report.archived, report.carried_over, report.deleted), (1, 2, 0), "{report:?}");
    assert_eq!(home.open().scrub(None, &troubles).expect("scrub").lost_versions, 2);
    assert_eq!(troubles.take(), ["lost b", "lost c"]);
    // Without a catalogue their names are unknown, and they are only counted.
    std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    let report = rebuild();
    assert_eq!((report.archived, report.no_key, report.incomplete, report.deleted), (1, 1, 1, 0), "{report:?}");
    let scrubbed = home.open().scrub(None, &troubles).expect("scrub");
    assert_eq!((scrubbed.lost_versions, scrubbed.unlisted, scrubbed.nothing_is_lost()), (0, 2, false));
    assert_eq!(get_all(&home.open(), &Unwatched).1, BTreeMap::from([(b"a".to_vec(), b"a".to_vec())]));
}

#[test]
fn a_damaged_key_does_not_hide_a_wrong_master_key() {
    let home = Home::new(2, 1);
    put_all(&home.open(), &[&b"a"[..], b"b", b"c"].iter().map(|name| (name.to_vec(), name.to_vec())).collect());
    let keys = rusqlite::Connection::open(home.path().join("keys.db")).expect("opened");
    let damage = "UPDATE key_slot SET content = zeroblob(length(content)) WHERE slot = (SELECT slot FROM slot_of ORDER BY id LIMIT 1)";
    assert_eq!(keys.execute(damage, []).expect("changed"), 1);
    drop(keys);
    fs::write(home.path().join("master.key"), format!("{}\n", "0".repeat(63) + "1")).expect("written");
    let opened = fulgurite_archive::Archive::open(&home.path(), fulgurite_archive::Access::Write);
    assert!(matches!(opened, Err(fulgurite_archive::ArchiveError::MasterKey { .. })));
}

#[test]
fn a_damaged_key_costs_only_its_version() {
    let home = Home::new(2, 1);
    let files: BTreeMap<_, _> = [&b"a"[..], b"b", b"c"].iter().map(|name| (name.to_vec(), name.to_vec())).collect();
    put_all(&home.open(), &files);
    let keys = rusqlite::Connection::open(home.path().join("keys.db")).expect("opened");
    let damage = "UPDATE key_slot SET content = zeroblob(length(content)) WHERE slot = (SELECT slot FROM slot_of ORDER BY id LIMIT 1)";
    assert_eq!(keys.execute(damage, []).expect("changed"), 1);
    drop(keys);
    let archive = home.open();
    let troubles = Troubles::default();
    assert_eq!(archive.scrub(None, &troubles).expect("scrub").lost_versions, 1);
    let lost = troubles.take();
    let (report, found) = get_all(&archive, &troubles);
    assert_eq!((report.failed, troubles.take()), (1, lost));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|(name, content)| files[name] == *content));
}

#[test]
fn a_rebuild_after_a_flush_interrupted_between_sets_finds_nothing_lost() {
    let home = Home::with(1, 1, |settings| settings.set.platter_mib = 8);
    let files = BTreeMap::from([(b"large".to_vec(), crate::support::noise(1, 12_000_000))]);
    let archive = home.open();
    put_all(&archive, &files);
    let segments = archive.staging().segments().expect("listed");
    let segments: Vec<_> = segments.iter().map(|number| home.path().join(format!("staging/{number:016x}.segment"))).collect();
    let staged: Vec<Vec<u8>> = segments.iter().map(|path| fs::read(path).expect("read")).collect();
    assert_eq!(archive.flush(&Unwatched).expect("flush").sets, 2);
    // Recreates the state after the first set was complete and before the second was begun.
    let second = archive.catalogue().sets().expect("sets").remove(1).description;
    for place in &second.platters {
        fs::remove_file(home.path().join(format!("stores/{}/platters/{}.platter", place.store, place.platter))).expect("removed");
    }
    drop(archive);
    segments.iter().zip(&staged).for_each(|(path, bytes)| fs::write(path, bytes).expect("written"));
    let troubles = Troubles::default();
    let report = fulgurite_archive::rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &troubles).expect("rebuilt");
    assert_eq!((report.staged, report.incomplete), (1, 0), "{:?}", troubles.take());
    assert_eq!(get_all(&home.open(), &Unwatched).1, files);
}

#[test]
fn a_rebuild_with_another_master_key_is_refused_and_changes_nothing() {
    let home = Home::new(2, 1);
    let files = tree();
    put_all(&home.open(), &files);
    home.open().flush(&Unwatched).expect("flush");
    let master_key = home.path().join("master.key");
    let right = fs::read(&master_key).expect("read");
    fs::write(&master_key, format!("{}\n", "5a".repeat(32))).expect("written");
    let error = fulgurite_archive::rebuild_catalogue(&home.path(), fulgurite_archive::UnseenStores::Refuse, &Unwatched)
        .expect_err("refused")
        .to_string();
    assert!(error.contains("master.key") && error.contains("not wrapped by it"), "{error}");
    fs::write(&master_key, right).expect("written");
    assert_eq!(get_all(&home.open(), &Unwatched).1, files);
}

#[test]
fn an_interrupted_init_can_be_repeated_but_never_replaces_an_archive_that_lost_its_settings() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("archive");
    fs::create_dir(&home).expect("made");
    fs::write(home.join("catalogue.db"), b"").expect("written");
    fulgurite_archive::Archive::init(&home, &crate::support::settings(2, 1)).expect("made");
    let keys = fs::read(home.join("keys.db")).expect("read");
    fs::remove_file(home.join("fulgurite.toml")).expect("removed");
    let error = fulgurite_archive::Archive::init(&home, &crate::support::settings(2, 1)).expect_err("refused").to_string();
    assert!(error.contains("the folder has no settings"), "{error}");
    assert!(fs::read(home.join("keys.db")).expect("read") == keys);
}

#[test]
fn an_init_that_failed_late_can_be_repeated() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let home = folder.path().join("archive");
    fs::create_dir(&home).expect("made");
    // The settings are written last, and never through a link.
    std::os::unix::fs::symlink("nowhere", home.join("fulgurite.toml")).expect("a link");
    fulgurite_archive::Archive::init(&home, &crate::support::settings(2, 1)).expect_err("the settings can't be written");
    fs::remove_file(home.join("fulgurite.toml")).expect("removed");
    fulgurite_archive::Archive::init(&home, &crate::support::settings(2, 1)).expect("made");
    fulgurite_archive::Archive::open(&home, fulgurite_archive::Access::Write).expect("it opens");
}

#[test]
fn a_scrub_finds_a_damaged_row_that_nothing_else_reads() {
    let home = Home::new(2, 1);
    let archive = home.open();
    put_all(&archive, &tree());
    archive.flush(&Unwatched).expect("flush");
    archive.scrub(None, &Unwatched).expect("sound");
    let file = rusqlite::Connection::open(home.path().join("catalogue.db")).expect("opened");
    assert!(file.execute("UPDATE released SET first_number = first_number - 1", []).expect("changed") > 0);
    let damage = archive.scrub(None, &Unwatched).expect_err("damaged").to_string();
    assert!(damage.contains("the catalogue is damaged") && damage.contains("released segments"), "{damage}");
}

/// The catalogue's log keeps removed names while a reader holds it.
#[test]
fn a_sweep_that_could_not_clear_a_removed_name_is_followed_by_one_that_does() {
    let home = Home::new(2, 1);
    let archive = std::sync::Arc::new(home.open());
    let intake = fulgurite_archive::Intake::open(archive.clone()).expect("opened");
    const NAME: &[u8] = b"a name that must not stay anywhere";
    let (done, done_rx) = std::sync::mpsc::channel();
    let acknowledge = || {
        let done = done.clone();
        Box::new(move |result: Result<(), fulgurite_archive::IntakeError>| done.send(result).expect("the test waits"))
    };
    let object = fulgurite_archive::NewObject {
        name: fulgurite_domain::ObjectName(NAME.to_vec()),
        kind: fulgurite_domain::Kind::File,
        modified: None,
        mode: None,
        attributes: fulgurite_domain::Attributes::default(),
    };
    intake.upload().finish(object.clone(), Vec::new(), acknowledge());
    done_rx.recv().expect("answered").expect("put");
    let has_name = || {
        let files = ["catalogue.db", "catalogue.db-wal"].map(|name| fs::read(home.path().join(name)).expect("read"));
        files.iter().any(|bytes| bytes.windows(NAME.len()).any(|window| window == NAME))
    };
    let reader = rusqlite::Connection::open(home.path().join("catalogue.db")).expect("opened");
    reader.execute_batch("BEGIN; SELECT count(*) FROM version").expect("reading");
    let row = archive.reading().newest(&object.name).expect("looked up").expect("there is one");
    intake.remove(vec![row], acknowledge());
    done_rx.recv().expect("answered").expect("removed");
    archive.sweep().expect("swept as far as possible");
    assert!(has_name(), "the reader still sees the name");
    reader.execute_batch("COMMIT").expect("ended");
    archive.sweep().expect("swept");
    assert!(!has_name());
}

#[test]
fn a_put_respects_the_limit_of_staging() {
    const MIB: u64 = 1 << 20;
    let taken = |home: &Home| -> u64 {
        let files = fs::read_dir(home.path().join("staging")).expect("staging").map(|file| file.expect("an entry"));
        files.map(|file| file.metadata().expect("there").len()).sum()
    };
    let put = |limit_mib: u64, sources: Vec<fulgurite_archive::Source>| {
        let home = Home::with(2, 1, |settings| settings.staging.limit_mib = Some(limit_mib));
        let archive = home.open();
        let full = archive.put(sources.into_iter(), &Unwatched).expect_err("it doesn't fit");
        assert!(full.to_string().contains(&format!("limit staging to {limit_mib} MiB")), "{full}");
        // Everything staged is acknowledged, and within the limit.
        let staged = archive.catalogue().staged_totals().expect("counted");
        assert!(staged.versions > 0, "some objects were stored before the limit was reached");
        assert!(taken(&home) <= limit_mib * MIB, "{} bytes of {limit_mib} MiB", taken(&home));
        archive.flush(&Unwatched).expect("flushed");
    };
    let source = |name: String, content: Vec<u8>| fulgurite_archive::Source::Stream {
        reader: Box::new(std::io::Cursor::new(content)),
        name: fulgurite_domain::ObjectName(name.into_bytes()),
    };
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), b"content").expect("written");
    // The records of thousands of objects wait for one commit, and need more space than their
    // content.
    let long = |index: usize| fulgurite_archive::Source::Path {
        path: file.path().to_owned(),
        name: fulgurite_domain::ObjectName(format!("{index}{}", "/long".repeat(600)).into_bytes()),
    };
    put(16, (0..6_000).map(long).collect());
    // The size of a stream is unknown before its end.
    put(16, vec![source("small".into(), noise(1, 1_000)), source("large".into(), noise(2, 40 * MIB as usize))]);
    put(17, (0..40).map(|index| source(format!("{index:02}"), noise(index, 777_777))).collect());
}

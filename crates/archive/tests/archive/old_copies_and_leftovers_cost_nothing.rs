//! States that crashes, operators or races can leave: an old copy of the catalogue, platters of an
//! unfinished set, a store that is absent when the archive is opened, another archive's staging,
//! and concurrent operations.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use crate::sim::Scene;
use crate::sim::disk::{Disk, Survival};
use crate::sim::expected::{read, rows};
use crate::sim::world::{Fault, Photograph, World};
use crate::support::{Home, Troubles, get_all, noise, put_all, record, stage};
use fulgurite_archive::catalogue::{PlatterPlace, SetState, Unlisted};
use fulgurite_archive::keyring::{export_keys, import_keys};
use fulgurite_archive::settings::StoreSettings;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{
    Access, Archive, ArchiveError, AttachError, CatalogueGaps, Remains, Source, UnseenPlace, UnseenStores, attach, rebuild_catalogue,
};
use fulgurite_domain::{ArchiveId, Kind, ObjectName, PlatterId, SetShape, VersionId};
use fulgurite_format::SegmentHead;

const CATALOGUE: [&str; 3] = ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"];

#[test]
fn an_old_copy_of_the_catalogue_keeps_what_was_staged_since() {
    for encrypt in [true, false] {
        let mut scene = Scene::open(World::new(encrypt)).expect("opens");
        scene.put(&[("before", 1_000)]).expect("put");
        let old = scene.world.photograph("copy").reboot(Survival::Everything);
        scene.put(&[("since", 2_000), ("before", 3_000), ("since, large", 2_500_000)]).expect("put");
        drop(scene.archive);
        for file in CATALOGUE {
            let _ = std::fs::remove_file(scene.world.path(file));
            if let Ok(bytes) = std::fs::read(old.path(file)) {
                std::fs::write(scene.world.path(file), bytes).expect("written");
            }
        }
        let mut scene = Scene::open(scene.world).expect("opens with the old catalogue");
        scene.count_from(100);
        scene.check().expect("all is there");
        scene.check_tidy().expect("tidy");
        scene.check_usable().expect("usable");
    }
}

/// Records that can't be read may have been acknowledged. The archive then doesn't open, and
/// nothing is truncated or swept.
#[test]
fn a_failed_read_of_staging_under_an_old_catalogue_costs_nothing() {
    let mut scene = Scene::open(World::new(true)).expect("opens");
    let old = scene.world.photograph("copy").reboot(Survival::Everything);
    scene.put(&[("one", 1_000), ("two", 150_000), ("three", 10)]).expect("put");
    let newer = scene.world.photograph("newer");
    drop(scene.archive);
    for at in 0.. {
        let world = newer.reboot(Survival::Everything);
        for file in CATALOGUE {
            let _ = std::fs::remove_file(world.path(file));
            if let Ok(bytes) = std::fs::read(old.path(file)) {
                std::fs::write(world.path(file), bytes).expect("written");
            }
        }
        world.strike(at, Fault::ReadIo);
        let opened = world.open();
        let has_struck = world.has_struck();
        world.calm();
        drop(opened);
        let mut scene = Scene::open(world).expect("opens when it can be read");
        scene.count_from(100);
        scene.check().expect("all is there");
        if !has_struck {
            assert!(at > 5, "opening an archive takes more than {at} reads");
            break;
        }
    }
}

/// States in which replacing the catalogue's files can be interrupted: the old one is set aside
/// with its log, or missing; the new one is missing or half-written.
#[test]
fn a_rebuild_interrupted_while_replacing_the_catalogue_is_reported_and_can_be_repeated() {
    let files = BTreeMap::from([(b"one".to_vec(), noise(1, 3_000)), (b"two".to_vec(), noise(2, 70_000))]);
    for (half, aside) in [(false, true), (true, true), (true, false)] {
        let home = Home::new(2, 1);
        put_all(&home.open(), &files);
        let path = |name: &str| home.path().join(name);
        std::fs::rename(path("catalogue.db"), path("catalogue.db.old")).expect("moved");
        if !aside {
            std::fs::remove_file(path("catalogue.db.old")).expect("removed");
        }
        if half {
            std::fs::write(path("catalogue.db.rebuilding"), noise(3, 5_000)).expect("written");
            std::fs::write(path("catalogue.db-wal"), noise(4, 5_000)).expect("written");
        }
        let error = Archive::open(&home.path(), Access::Write).err().expect("there is no catalogue");
        assert!(error.to_string().contains("catalogue rebuild"), "{error}");
        rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
        assert!(get_all(&home.open(), &Unwatched).1 == files);
        let left: Vec<_> = std::fs::read_dir(home.path()).expect("listed").map(|entry| entry.expect("entry").file_name()).collect();
        assert!(
            !left.iter().any(|name| name.to_string_lossy().contains(".old") || name.to_string_lossy().contains("rebuilding")),
            "{left:?}"
        );
    }
}

/// An interrupted rebuild set the earlier catalogue aside, and it is damaged: what it knew is kept.
#[test]
fn a_damaged_catalogue_that_was_set_aside_is_kept() {
    let home = Home::new(2, 1);
    put_all(&home.open(), &BTreeMap::from([(b"one".to_vec(), noise(1, 3_000))]));
    let damaged = noise(5, 50_000);
    std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    std::fs::write(home.path().join("catalogue.db.old"), &damaged).expect("written");
    let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    let kept = report.kept.expect("it could not be read");
    assert!(std::fs::read(&kept).expect("it is there") == damaged);
    assert!(!home.path().join("catalogue.db.old").exists());
}

#[test]
fn segments_of_another_archive_are_reported_and_left_alone() {
    let head = SegmentHead { archive: ArchiveId([0x77; 16]), number: 1 }.to_bytes();
    let world = World::new(true);
    world.disk(0, |disk| {
        let file = disk.create("0000000000000001.segment").expect("created");
        disk.write(file, 0, &head);
    });
    let archive = world.assemble().expect("assembled");
    assert!(matches!(archive.reconcile(), Err(ArchiveError::ForeignSegment { segment: 1, found }) if found == ArchiveId([0x77; 16])));
    assert_eq!(world.disk(0, |disk| disk.names()), ["0000000000000001.segment"]);
}

/// A world that crashed during a flush, with two of three platters written.
fn in_the_middle_of_a_flush(encrypt: bool) -> Photograph {
    let (photographer, photographs) = sync_channel(1_000);
    let world = World::with(encrypt, |settings| {
        settings.stores.extend(["e0", "e1", "e2"].map(|name| StoreSettings { name: name.into(), path: name.into() }));
    });
    let mut scene = Scene::open(world).expect("opens");
    scene.put(&[("one", 150_000), ("two", 150_000), ("three", 10)]).expect("put");
    scene.world.photograph_to(Some(photographer));
    scene.flush().expect("flush");
    scene.world.photograph_to(None);
    let photographs: Vec<Photograph> = photographs.try_iter().collect();
    let renamings: Vec<&Photograph> = photographs.iter().filter(|photograph| photograph.what.starts_with("rename")).collect();
    assert_eq!(renamings.len(), 3, "a set of three platters");
    renamings[2].clone()
}

/// In the old copy the set is still being written, and opening an archive abandons such sets.
#[test]
fn a_copy_of_the_catalogue_from_the_middle_of_a_flush_keeps_the_platters() {
    for keeps_segments in [false, true] {
        let (photographer, photographs) = sync_channel(1_000);
        let mut scene = Scene::open(World::new(true)).expect("opens");
        scene.put(&[("one", 150_000), ("two", 10)]).expect("put");
        scene.world.photograph_to(Some(photographer));
        scene.flush().expect("flush");
        scene.world.photograph_to(None);
        let of_renaming = |photograph: &Photograph| photograph.what.starts_with("rename");
        let middle = photographs.try_iter().filter(of_renaming).last().expect("platters were renamed");
        let platters = |world: &World| (1..4).map(|disk| world.disk(disk, |disk| disk.names())).collect::<Vec<_>>();
        let written = platters(&scene.world);
        drop(scene.archive);
        let old = middle.reboot(Survival::Everything);
        for file in CATALOGUE {
            let _ = std::fs::remove_file(scene.world.path(file));
            if let Ok(bytes) = std::fs::read(old.path(file)) {
                std::fs::write(scene.world.path(file), bytes).expect("written");
            }
        }
        if keeps_segments {
            // As if other staged content had kept the segments.
            let staging = old.disk(0, |disk| std::mem::replace(disk, Disk::new()));
            scene.world.disk(0, |disk| *disk = staging);
        }
        let world = scene.world;
        match Scene::open(world.clone()) {
            Ok(scene) => {
                assert!(keeps_segments, "the segments that the catalogue needs are gone");
                scene.check().expect("all is there");
                continue;
            }
            Err(error) => assert!(error.contains("needs staging segment") && !keeps_segments, "{error}"),
        }
        assert_eq!(platters(&world), written, "the platters are unchanged");
        let archive = world.rebuild().expect("rebuilt");
        world.expected.lock().expect("not poisoned").check(&archive).expect("all is there");
    }
}

#[test]
fn a_store_absent_at_opening_is_cleaned_up_when_it_is_back() {
    let world = in_the_middle_of_a_flush(true).reboot(Survival::Everything);
    let away = world.disk(1, |disk| std::mem::replace(disk, Disk::new()));
    let mut scene = Scene::open(world).expect("opens without the store");
    scene.count_from(100);
    scene.check().expect("all is there");
    scene.check_usable().expect("the other stores are enough");
    assert_eq!(scene.archive.catalogue().sets().expect("sets").iter().filter(|set| set.state == SetState::Writing).count(), 1);
    scene.world.disk(1, |disk| *disk = away);
    let scene = scene.reopen().expect("opens");
    scene.check().expect("all is there");
    scene.check_tidy().expect("no platter is left of the abandoned set");
}

#[test]
fn a_rebuild_omits_platters_of_an_unfinished_set() {
    for encrypt in [true, false] {
        let crashed = in_the_middle_of_a_flush(encrypt);
        let world = crashed.reboot(Survival::Everything);
        // One of its platters is left over: its store was absent for long, and is back.
        let leftover = world.disk(1, |disk| std::mem::replace(disk, Disk::new()));
        let mut scene = Scene::open(world).expect("opens without the store");
        scene.count_from(100);
        scene.check_usable().expect("flushed anew, on other stores");
        scene.world.disk(1, |disk| *disk = leftover);
        drop(scene.archive);
        let archive = scene.world.rebuild().expect("rebuilt");
        scene.world.expected.lock().expect("not poisoned").check(&archive).expect("all is there");
        let sets = archive.catalogue().sets().expect("sets");
        let platters: Vec<_> = sets.iter().flat_map(|set| &set.description.platters).collect();
        assert!(platters.iter().all(|place| place.store != fulgurite_archive::UNKNOWN_STORE), "{platters:?}");
        let troubles = Troubles::default();
        let report = archive.scrub(None, &troubles).expect("scrub");
        assert!(report.unknown.is_empty(), "the rebuild omitted it and reported that: {report:?}");
        // The rebuild can't tell the content of those platters from lost content, so it names the
        // unreadable tables.
        assert!(troubles.take().iter().all(|told| told.contains("UnreadableTable")));
        // Each version has the redundancy that it was promised.
        for lost in &platters {
            let photograph = scene.world.photograph("lose");
            let world = photograph.reboot(Survival::Everything);
            let disk = 1 + world.settings().stores.iter().position(|store| store.name == lost.store).expect("a store");
            world.disk(disk, |disk| disk.lose(&format!("platters/{}.platter", lost.platter)));
            let archive = world.open().expect("opens");
            world.expected.lock().expect("not poisoned").check(&archive).expect("without any one platter");
        }
    }
}

/// A key without a version, newer than all others, as a put that was cut short leaves it.
const SURPLUS_KEY: VersionId = VersionId([0xff; 16]);

/// A world with a [`SURPLUS_KEY`] that a rebuild has found, and the photographs of the renamings in
/// a flush since.
fn with_surplus_key() -> (Arc<World>, Vec<Photograph>) {
    let mut scene = Scene::open(World::new(true)).expect("opens");
    scene.put(&[("one", 150_000)]).expect("put");
    let (_, key) = scene.archive.keys().page(None, 1).expect("keys").remove(0);
    scene.archive.keys().insert(&[(SURPLUS_KEY, key)]).expect("inserted");
    drop(scene.archive);
    drop(scene.world.rebuild_with_earlier().expect("rebuilt"));
    let mut scene = Scene::open(scene.world).expect("opens");
    assert!(has_unseen(&scene.archive));
    scene.count_from(100);
    scene.put(&[("two", 150_000)]).expect("put");
    let (photographer, photographs) = sync_channel(1_000);
    scene.world.photograph_to(Some(photographer));
    scene.flush().expect("flush");
    scene.world.photograph_to(None);
    let renamings: Vec<Photograph> = photographs.try_iter().filter(|photograph| photograph.what.starts_with("rename")).collect();
    assert_eq!(renamings.len(), 3, "a set of three platters");
    (scene.world, renamings)
}

fn has_unseen(archive: &Archive) -> bool {
    CatalogueGaps::find(archive, &|_, _| true).expect("a catalogue").unseen.contains(&UnseenPlace::Others)
}

#[test]
fn a_flush_cut_short_after_a_put_cut_short_does_not_lock_a_rebuilt_archive() {
    let (_, renamings) = with_surplus_key();
    for renaming in &renamings[1..] {
        let world = renaming.reboot(Survival::Everything);
        drop(world.rebuild_with_earlier().expect("rebuilt"));
        let mut scene = Scene::open(world).expect("opens");
        scene.archive.check_catalogue_is_current().expect("the platters of the unfinished set are left out");
        assert!(has_unseen(&scene.archive), "the key still has no version");
        scene.count_from(200);
        scene.check_usable().expect("usable");
    }
}

/// The catalogue is a copy from the middle of the flush: the set was completed since, and its
/// missing platters may be on stores that aren't in the settings.
#[test]
fn a_set_completed_since_the_catalogue_was_copied_still_shows_that_stores_are_unseen() {
    let (world, renamings) = with_surplus_key();
    let old = renamings[1].reboot(Survival::Everything);
    for file in CATALOGUE {
        let _ = std::fs::remove_file(world.path(file));
        if let Ok(bytes) = std::fs::read(old.path(file)) {
            std::fs::write(world.path(file), bytes).expect("written");
        }
    }
    // Only the set shows it from here on.
    world.assemble().expect("assembled").keys().destroy(&[SURPLUS_KEY]).expect("destroyed");
    let platters = |disk: &Disk| disk.names().into_iter().filter(|name| name.ends_with(".platter")).collect::<Vec<_>>();
    for disk in 2..world.disks() {
        world.disk(disk, |disk| platters(disk).iter().for_each(|platter| disk.lose(platter)));
    }
    assert_eq!(world.platter_files().len(), 1);
    assert!(has_unseen(&world.rebuild_with_earlier().expect("rebuilt")));
}

#[test]
fn an_interrupted_mark_can_be_written_again() {
    let steps = 8;
    for at in 0..steps {
        for survival in [Survival::Nothing, Survival::Everything, Survival::Some(at), Survival::Some(100 + at)] {
            let world = World::new(true);
            world.disk(1, |disk| *disk = Disk::new());
            world.strike(at, Fault::Crash);
            let marked = world.store(0).mark();
            let Some(photograph) = world.crash() else {
                assert!(at >= 5 && marked.is_ok(), "marking takes more than {at} steps");
                continue;
            };
            let world = photograph.reboot(survival);
            world.store(0).mark().unwrap_or_else(|error| panic!("crash before step {at}, {survival:?}: {error}"));
            world.store(0).check().expect("marked");
        }
    }
}

#[test]
fn concurrent_puts_removals_and_flushes_lose_nothing() {
    const PUTS: usize = 40;
    let world = World::new(true);
    let archive = Arc::new(world.open().expect("opens"));
    let done = AtomicBool::new(false);
    let put = |thread: usize, index: usize| {
        let name = ObjectName(format!("{thread}/{index}").into_bytes());
        let content = noise((thread * 1_000 + index) as u64, 100 + index);
        let source = Source::Stream { reader: Box::new(std::io::Cursor::new(content)), name };
        archive.put(std::iter::once(source), &Unwatched).expect("put");
    };
    let remove = |archive: &Archive, name: &str| {
        let row = archive.catalogue().versions_of(&ObjectName(name.as_bytes().to_vec())).expect("versions").remove(0);
        archive.remove(&[row]).expect("removed");
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|thread| {
                let (put, remove, archive) = (&put, &remove, &archive);
                scope.spawn(move || {
                    for index in 0..PUTS {
                        put(thread, index);
                        if index % 3 == 0 {
                            remove(archive, &format!("{thread}/{index}"));
                        }
                    }
                })
            })
            .collect();
        let flusher = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                // If a version is removed while its set is being written, the set is abandoned,
                // without further effects.
                let _ = archive.flush_set(&Unwatched);
            }
        });
        let worked: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        flusher.join().expect("no panic");
        worked.into_iter().for_each(|worked| worked.expect("no panic"));
    });
    let check = |archive: &Archive| {
        let rows = rows(archive).expect("rows");
        assert_eq!(rows.len(), 2 * (PUTS - PUTS.div_ceil(3)));
        for row in rows {
            let name = row.record.name.display().to_string();
            let (thread, index) = name.split_once('/').expect("two numbers");
            let (thread, index): (usize, usize) = (thread.parse().expect("number"), index.parse().expect("number"));
            assert_eq!(read(archive, &row).expect("readable"), noise((thread * 1_000 + index) as u64, 100 + index));
        }
    };
    check(&archive);
    archive.flush(&Unwatched).expect("flush");
    check(&archive);
    drop(archive);
    let archive = world.open().expect("opens");
    check(&archive);
    archive.scrub(None, &Troubles::default()).expect("scrub");
}

/// An old copy of the catalogue doesn't know that a version with damaged bytes was acknowledged. A
/// later version that is intact proves it.
#[test]
fn a_damaged_version_is_reported_if_it_must_have_been_acknowledged_and_a_torn_one_is_not() {
    for (later_ms, is_reported) in [(0, false), (59_000, false), (61_000, true)] {
        let home = Home::with(1, 0, |settings| settings.archive.encrypt = false);
        let damaged = record("damaged", 1, Kind::File, b"these bytes rot", &[]);
        let mut whole = record("whole", 1, Kind::File, b"and these don't", &[]);
        whole.created_ms += later_ms;
        stage(&home, 7, &[(damaged, b"these bytes rot"), (whole, b"and these don't")]);
        let path = home.path().join("staging/0000000000000007.segment");
        let mut segment = std::fs::read(&path).expect("read");
        let at = segment.windows(5).position(|bytes| bytes == b"these").expect("unencrypted");
        segment[at] ^= 1;
        std::fs::write(&path, segment).expect("written");
        let archive = home.open();
        let unlisted = archive.catalogue().unlisted(None, 10).expect("unlisted");
        let names: Vec<_> = unlisted.iter().map(|version| (version.why, version.known_as.clone())).collect();
        match is_reported {
            true => assert_eq!(names, [(Unlisted::Incomplete, Some((ObjectName(b"damaged".to_vec()), 1)))]),
            false => assert_eq!(names, []),
        }
        let listed = rows(&archive).expect("rows");
        assert!(listed.iter().map(|row| row.record.name.display()).eq(["whole"]), "{later_ms}");
        let report = archive.scrub(None, &Troubles::default()).expect("scrub");
        assert_eq!(report.nothing_is_lost(), !is_reported);
    }
}

/// Changes a segment with the objects "one", "two" and "three", and returns an archive that was
/// rebuilt from it without a catalogue, with the rebuild's report and what it told.
fn rebuilt_from_segment(change: impl FnOnce(&mut Vec<u8>)) -> (Home, fulgurite_archive::RebuildReport, Vec<String>) {
    let home = Home::with(1, 0, |settings| settings.archive.encrypt = false);
    let objects = ["one", "two", "three"].map(|name| (record(name, 1, Kind::File, name.as_bytes(), &[]), name.as_bytes()));
    stage(&home, 7, &objects);
    let path = home.path().join("staging/0000000000000007.segment");
    let mut segment = std::fs::read(&path).expect("read");
    change(&mut segment);
    std::fs::write(&path, segment).expect("written");
    std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    let troubles = Troubles::default();
    let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &troubles).expect("rebuilt");
    (home, report, troubles.take())
}

fn names(home: &Home) -> Vec<String> {
    rows(&home.open()).expect("rows").iter().map(|row| row.record.name.display()).collect()
}

#[test]
fn a_rebuild_without_a_catalogue_reports_damage_in_staging_and_keeps_the_segment() {
    let damage_record = |segment: &mut Vec<u8>| {
        let heads = segment.chunks_exact(64).enumerate().filter(|(_, bytes)| bytes.starts_with(b"FREC\x02"));
        let at = 64 * heads.map(|(index, _)| index).nth(1).expect("three object records");
        segment[at + 30] ^= 1;
    };
    let damage_all = |segment: &mut Vec<u8>| segment.iter_mut().step_by(32).for_each(|byte| *byte ^= 1);
    for (damage, listed) in [(&damage_record as &dyn Fn(&mut Vec<u8>), &["one", "three"][..]), (&damage_all, &[])] {
        let (home, report, told) = rebuilt_from_segment(damage);
        assert!(report.has_losses(), "{report:?}, {told:?}");
        assert_eq!(names(&home), listed);
        assert!(home.path().join("staging/0000000000000007.segment").exists());
        assert!(!home.open().scrub(None, &Troubles::default()).expect("scrubbed").nothing_is_lost());
        // A rebuild with the catalogue must not forget it.
        let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Troubles::default()).expect("rebuilt");
        assert!(report.has_losses(), "{report:?}");
        // The operator can.
        let archive = home.open();
        let unlisted = archive.catalogue().unlisted(None, 10).expect("unlisted");
        assert_eq!(unlisted.iter().map(|version| version.why).collect::<Vec<_>>(), [Unlisted::Incomplete]);
        archive.give_up(&unlisted).expect("given up");
        drop(archive);
        assert!(!rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Troubles::default()).expect("rebuilt").has_losses());
        assert_eq!(names(&home), listed);
    }
}

#[test]
fn records_behind_a_damaged_segment_head_count_and_the_head_is_reported() {
    let (home, report, told) = rebuilt_from_segment(|segment| segment[20] ^= 1);
    assert_eq!(names(&home), ["one", "three", "two"]);
    assert!(!report.has_losses(), "{report:?}");
    assert!(told.iter().any(|text| text.contains("segment 0000000000000007: its head is damaged")), "{told:?}");
}

#[test]
fn a_segment_that_a_crash_left_without_content_is_no_loss() {
    let (home, report, told) = rebuilt_from_segment(|segment| segment.fill(0));
    assert_eq!((names(&home).len(), report.has_losses()), (0, false), "{told:?}");
}

/// The platters of the archive's only set, by position, with the paths of their files.
fn platters(home: &Home) -> Vec<(PlatterId, String, std::path::PathBuf)> {
    let sets = home.open().catalogue().sets().expect("sets");
    let place = |place: &PlatterPlace| {
        let files = home.platter_files();
        let file = files.iter().find(|file| file.to_string_lossy().contains(&place.platter.to_string())).expect("it has a file");
        (place.platter, place.store.clone(), file.clone())
    };
    sets[0].description.platters.iter().map(place).collect()
}

#[test]
fn of_two_copies_of_a_platter_a_rebuild_takes_the_one_with_a_header() {
    for copied in 0..2 {
        let home = Home::new(1, 1);
        let files = BTreeMap::from([(b"a".to_vec(), noise(1, 10_000))]);
        let archive = home.open();
        put_all(&archive, &files);
        archive.flush(&Unwatched).expect("flushed");
        drop(archive);
        let platters = platters(&home);
        let (platter, store, from) = &platters[copied];
        let broken = platters[1 - copied].2.with_file_name(from.file_name().expect("a name"));
        std::fs::write(broken, vec![0; 100_000]).expect("written");
        std::fs::remove_file(home.path().join("catalogue.db")).expect("removed");
        rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
        let set = home.open().catalogue().set_of(*platter).expect("read").expect("known").description;
        assert_eq!(set.platters[copied].store, *store);
    }
}

#[test]
fn the_key_of_a_version_removed_on_absent_platters_does_not_come_back() {
    let home = Home::new(1, 1);
    let archive = home.open();
    put_all(&archive, &BTreeMap::from([(b"kept".to_vec(), noise(1, 1_000)), (b"removed".to_vec(), noise(2, 1_000))]));
    archive.flush(&Unwatched).expect("flushed");
    let copy = home.folder.path().join("keys");
    export_keys(&archive, &copy, None).expect("exported");
    let version = archive.catalogue().versions_of(&ObjectName(b"removed".to_vec())).expect("read").remove(0);
    archive.remove(std::slice::from_ref(&version)).expect("removed");
    put_all(&archive, &BTreeMap::from([(b"later".to_vec(), noise(3, 1_000))]));
    archive.flush(&Unwatched).expect("flushed");
    assert_eq!(archive.catalogue().staged_tombstones().expect("read"), [], "the tombstone is on platters");
    drop(archive);
    std::fs::rename(home.path().join("stores"), home.path().join("unmounted")).expect("renamed");
    let report = import_keys(&home.path(), &[copy], &[], &Unwatched).expect("imported");
    assert_eq!((report.keys, report.removed), (2, 1));
    let archive = Archive::open(&home.path(), Access::Read).expect("opens");
    assert_eq!(archive.keys().get(version.id).expect("read"), None);
}

#[test]
fn attach_reports_a_store_that_cannot_be_listed() {
    let home = Home::new(1, 0);
    let store = home.path().join("stores/d0");
    std::fs::remove_file(store.join("fulgurite-store")).expect("removed");
    // Like a disk with an error, it can't be listed even by root.
    std::fs::remove_dir_all(store.join("platters")).ok();
    std::fs::write(store.join("platters"), "not a folder").expect("written");
    let remains = Remains { stores: vec![(None, store)], keys: Vec::new(), passphrases: Vec::new(), shape: None, platter_mib: None };
    let attached = attach(&home.folder.path().join("other"), &remains, &|_| SetShape { information: 1, redundancy: 0 }, &Unwatched);
    assert!(matches!(attached, Err(AttachError::Unlisted { .. })), "{:?}", attached.err());
}

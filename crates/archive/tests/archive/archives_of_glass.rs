//! Everything works on platters of emulated glass as it does on files: put, flush, get, lost
//! platters, scrub, rebuild, attach, inspection; and damage to symbols is repaired and reported.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Home, get_all, put_all};
use fulgurite_archive::inspect::inspect;
use fulgurite_archive::keyring::export_keys;
use fulgurite_archive::settings::{GlassPreset, GlassSettings, MediumSettings, Settings};
use fulgurite_archive::unread::Hindrance;
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Access, Archive, PlatterState, Remains, Replace, UnseenPlace, UnseenStores, attach, rebuild_catalogue};
use fulgurite_chance::noise;
use fulgurite_codec::checksum::crc64;
use fulgurite_domain::{Medium, SetShape};
use fulgurite_glass::GlassHead;

fn glass(settings: &mut Settings) {
    settings.medium = MediumSettings::Glass(GlassSettings { preset: GlassPreset::Tiny, ..GlassSettings::default() });
}

fn files() -> BTreeMap<Vec<u8>, Vec<u8>> {
    (0..4).map(|i| (format!("folder/file-{i}").into_bytes(), noise(i + 1, 6_000 * i as usize))).collect()
}

/// An archive of glass with the files on platters.
fn archived(information: u16, redundancy: u16) -> (Home, Archive) {
    let home = Home::with(information, redundancy, glass);
    let archive = home.open();
    put_all(&archive, &files());
    let report = archive.flush(&Unwatched).expect("flushed");
    assert_eq!((report.sets, report.platters), (1, u64::from(information + redundancy)));
    let on_disk: u64 = home.platter_files().iter().map(|file| fs::metadata(file).expect("a file").len()).sum();
    assert_eq!(report.platter_bytes, on_disk, "reports count what stores hold");
    (home, archive)
}

fn assert_complete(archive: &Archive) {
    let (report, found) = get_all(archive, &Unwatched);
    assert_eq!(report.failed, 0);
    assert!(found == files(), "restored files differ");
}

/// Changes bytes of a file.
fn damage(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).expect("readable");
    change(&mut bytes);
    fs::write(file, bytes).expect("written");
}

/// The offset of a sector's symbols: sectors of 5,120 bytes behind the head and the first header.
fn sector(number: usize) -> usize {
    GlassHead::BYTES + (26 + number) * 5_120
}

#[test]
fn files_come_back_even_without_as_many_platters_as_there_is_redundancy() {
    let (home, archive) = archived(2, 1);
    assert_complete(&archive);
    let set = archive.catalogue().sets().expect("listed").remove(0).description;
    assert_eq!(set.medium, Medium::Glass);
    assert_eq!(fs::metadata(&home.platter_files()[0]).expect("a file").len(), set.platter_bytes());
    fs::remove_file(&home.platter_files()[1]).expect("removed");
    assert_complete(&archive);
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.rebuilt, report.lost_versions), (1, 1, 0));
    assert_eq!(report.unsound[0].state(), PlatterState::Missing);
    let report = archive.scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((report.platters_read, report.unsound.len(), report.lost_versions), (3, 0, 0));
    assert_complete(&archive);
}

#[test]
fn a_scratch_is_repaired_and_reported_as_what_it_cost() {
    let (home, archive) = archived(1, 1);
    let platter = home.platter_files()[0].clone();
    // A few flipped symbols are the business of the sector's own code.
    damage(&platter, |bytes| bytes[sector(1)..sector(1) + 20].iter_mut().for_each(|byte| *byte ^= 0x55));
    let report = archive.scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.expected_losses), (0, 0));
    // One lost sector of a track is what any glass may lose.
    let scratch =
        |bytes: &mut Vec<u8>, number| bytes[sector(number) + 1_000..sector(number) + 3_000].iter_mut().for_each(|byte| *byte ^= 0x69);
    damage(&platter, |bytes| scratch(bytes, 9));
    let report = archive.scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.expected_losses), (0, 1));
    // A scratch through four sectors of a track, which can bear two.
    damage(&platter, |bytes| (2..6).for_each(|number| scratch(bytes, number)));
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    let [finding] = &report.unsound[..] else { panic!("{:?}", report.unsound) };
    assert_eq!((finding.state(), finding.lost_sectors, finding.lost_tracks, finding.bad_headers), (PlatterState::Damaged, 4, 1, 0));
    assert_eq!((report.rebuilt, report.lost_versions), (1, 0));
    let report = archive.scrub(None, &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.expected_losses), (0, 0));
    assert_complete(&archive);
}

#[test]
fn cut_zeroed_and_headless_platters_are_replaced() {
    let (home, archive) = archived(1, 1);
    let damages: [fn(&mut Vec<u8>); 4] = [
        |bytes| bytes.truncate(bytes.len() / 2),
        |bytes| bytes[sector(0)..sector(8)].fill(0),
        // Without its heads, nothing says that it is glass.
        |bytes| {
            let last = bytes.len() - GlassHead::BYTES;
            bytes[..GlassHead::BYTES].fill(0);
            bytes[last..].fill(0);
        },
        |bytes| bytes.push(0),
    ];
    for (index, change) in damages.into_iter().enumerate() {
        let platter = home.platter_files()[index % 2].clone();
        damage(&platter, change);
        assert_complete(&archive);
        let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
        assert_eq!(report.unsound.iter().map(|finding| finding.state()).collect::<Vec<_>>(), [PlatterState::Damaged], "damage {index}");
        assert_eq!((report.rebuilt, report.lost_versions), (1, 0), "damage {index}");
        assert!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.is_empty());
    }
    assert_complete(&archive);
}

#[test]
fn decay_that_every_track_can_still_bear_is_repaired() {
    let home = Home::with(1, 1, glass);
    let archive = home.open();
    put_all(&archive, &BTreeMap::from([(b"large".to_vec(), noise(1, 150_000))]));
    archive.flush(&Unwatched).expect("flushed");
    let platter = home.platter_files()[1].clone();
    let set = archive.catalogue().sets().expect("listed").remove(0).description;
    let (tracks, of_track) = (set.geometry.physical_tracks() as usize, usize::from(set.geometry.track_sectors()));
    assert_eq!((tracks, of_track), (10, 8));
    // The second copy of the header is behind the first half of the tracks.
    let offset = |track: usize| sector(track * of_track + if track < tracks.div_ceil(2) { 0 } else { 26 });
    damage(&platter, |bytes| {
        (0..tracks).for_each(|track| bytes[offset(track) + 1_000..offset(track) + 3_000].iter_mut().for_each(|byte| *byte ^= 0x69))
    });
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    let [finding] = &report.unsound[..] else { panic!("{:?}", report.unsound) };
    assert_eq!((finding.state(), finding.lost_sectors, finding.lost_tracks), (PlatterState::Damaged, tracks as u64, 0));
    assert_eq!((report.rebuilt, report.lost_versions), (1, 0));
    assert_eq!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.len(), 0);
}

#[test]
fn a_damaged_head_is_repaired_while_the_other_one_is_good() {
    let (home, archive) = archived(1, 1);
    for (platter, at) in home.platter_files().iter().zip([100, 4_000]) {
        damage(platter, |bytes| {
            let at = if at == 100 { at } else { bytes.len() - at };
            bytes[at] ^= 1;
        });
        assert_eq!(inspect(platter, &mut |_| {}).expect("inspected").bad_heads, 1);
    }
    assert_complete(&archive);
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    let findings: Vec<_> = report.unsound.iter().map(|finding| (finding.state(), finding.bad_headers, finding.lost_sectors)).collect();
    assert_eq!(findings, [(PlatterState::Damaged, 1, 0); 2]);
    assert_eq!((report.rebuilt, report.lost_versions), (2, 0));
    assert_eq!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.len(), 0);
    assert_complete(&archive);
}

#[test]
fn a_rebuild_reports_platters_whose_set_nothing_else_names() {
    let (home, archive) = archived(1, 0);
    drop(archive);
    let platter = home.platter_files().remove(0);
    let whole = fs::read(&platter).expect("readable");
    fs::write(&platter, []).expect("emptied");
    fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    let unseen: Vec<_> = report.unseen.iter().map(|unseen| (&unseen.place, unseen.hindrance)).collect();
    // The keys of its objects show that something is missing, too.
    let store = UnseenPlace::Store("d0".to_owned());
    assert_eq!(unseen, [(&store, Hindrance::Unreadable), (&UnseenPlace::Others, Hindrance::Absent)]);
    // When the platter is back, another rebuild finds everything.
    fs::write(&platter, whole).expect("written");
    let report = rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    assert!(report.unseen.is_empty(), "{:?}", report.unseen);
    assert_complete(&home.open());
}

#[test]
fn a_platter_of_a_later_version_is_left_alone_and_a_foreign_one_is_replaced() {
    let (home, archive) = archived(1, 1);
    let [first, second] = &home.platter_files()[..] else { panic!("two platters") };
    let whole = fs::read(first).expect("readable");
    // In one head, without its checksum, it is damage: the other head counts.
    damage(first, |bytes| bytes[9] = 1);
    assert_complete(&archive);
    damage(first, |bytes| {
        bytes[9] = 0;
        let last = bytes.len() - 4_096;
        for head in [0, last] {
            bytes[head + 8] = 2;
            let checksum = crc64(&bytes[head..head + 4_088]);
            bytes[head + 4_088..head + 4_096].copy_from_slice(&checksum.to_le_bytes());
        }
    });
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    let [finding] = &report.unsound[..] else { panic!("{:?}", report.unsound) };
    assert_eq!((finding.state(), report.rebuilt, report.left), (PlatterState::Unreadable, 0, 1));
    let why = finding.why_unreadable.as_deref().unwrap_or_default();
    assert!(why.contains("version 2") && why.contains("newer program"), "{why}");
    assert_complete(&archive);
    fs::write(first, whole).expect("written");
    fs::copy(first, second).expect("copied");
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    assert_eq!((report.unsound.len(), report.rebuilt, report.lost_versions), (1, 1, 0));
    assert_eq!(report.unsound[0].state(), PlatterState::Damaged);
    assert_complete(&archive);
}

#[test]
fn catalogue_and_archive_are_rebuilt_from_glass() {
    let (home, archive) = archived(1, 1);
    drop(archive);
    fs::remove_file(home.path().join("catalogue.db")).expect("removed");
    rebuild_catalogue(&home.path(), UnseenStores::Refuse, &Unwatched).expect("rebuilt");
    assert_complete(&home.open());
    assert_eq!(home.open().catalogue().sets().expect("listed")[0].description.medium, Medium::Glass);

    let keys = home.folder.path().join("keys.txt");
    export_keys(&home.open(), &keys, None).expect("exported");
    let stores = ["d0", "d1"].map(|name| (None, home.path().join("stores").join(name))).to_vec();
    let attached = home.folder.path().join("attached");
    let remains = Remains { stores, keys: vec![keys], ..Remains::default() };
    let shape = |_| SetShape { information: 1, redundancy: 1 };
    let report = attach(&attached, &remains, &shape, &Unwatched).expect("attached");
    assert_eq!(report.settings.medium.medium(), Medium::Glass);
    assert_eq!(report.settings.medium.glass().preset, GlassPreset::Tiny);
    assert_complete(&Archive::open(&attached, Access::Write).expect("opened"));
}

#[test]
fn a_platter_is_inspected_without_an_archive() {
    let (home, _archive) = archived(1, 1);
    let platter = home.platter_files()[0].clone();
    let inspection = inspect(&platter, &mut |_| {}).expect("a platter");
    assert_eq!(inspection.found.header.medium, Medium::Glass);
    assert_eq!((inspection.lost_sectors, inspection.found.copies), (0, [true; 3]));
    assert_eq!(inspection.file_bytes, inspection.expected_file_bytes());
    assert_eq!(inspection.glass.expect("glass").medium.columns, 160);
}

#[test]
fn each_platter_is_read_as_what_it_is_whatever_the_settings_say() {
    let home = Home::with(1, 1, glass);
    let settings = home.path().join("fulgurite.toml");
    let text = fs::read_to_string(&settings).expect("readable");
    let mut all = BTreeMap::new();
    for (round, kind) in ["glass", "disk", "glass"].into_iter().enumerate() {
        let medium = if kind == "glass" { "kind = \"glass\"\npreset = \"tiny\"" } else { "kind = \"disk\"" };
        let (before, after) = (text.find("[medium]").expect("a section"), text.find("# Stores").expect("stores"));
        fs::write(&settings, format!("{}[medium]\n{medium}\n{}", &text[..before], &text[after..])).expect("written");
        let archive = home.open();
        let new: BTreeMap<Vec<u8>, Vec<u8>> = [(format!("file-{round}").into_bytes(), noise(round as u64, 9_000))].into();
        put_all(&archive, &new);
        archive.flush(&Unwatched).expect("flushed");
        all.extend(new);
        assert!(get_all(&archive, &Unwatched).1 == all, "after {kind}");
    }
    let archive = home.open();
    let media: Vec<Medium> = archive.catalogue().sets().expect("listed").iter().map(|set| set.description.medium).collect();
    assert_eq!(media.iter().filter(|medium| **medium == Medium::Disk).count(), 1);
    assert!(archive.scrub(None, &Unwatched).expect("scrubbed").unsound.is_empty());
    // A replacement is of its set's medium.
    home.platter_files().iter().filter(|file| file.components().any(|part| part.as_os_str() == "d0")).for_each(|file| {
        fs::remove_file(file).expect("removed");
    });
    let report = archive.scrub(Some(Replace::default()), &Unwatched).expect("scrubbed");
    assert_eq!((report.rebuilt, report.lost_versions), (3, 0));
    for set in archive.catalogue().sets().expect("listed") {
        for place in &set.description.platters {
            let path = home.path().join("stores").join(&place.store).join("platters").join(format!("{}.platter", place.platter));
            assert_eq!(fs::metadata(path).expect("a file").len(), set.description.platter_bytes());
        }
    }
}

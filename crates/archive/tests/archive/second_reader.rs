//! Checks that `tools/read_platter.py` reads what the archive writes. The two programs share
//! nothing but `docs/format.md`.
//!
//! The tests run the Python interpreter in `FULGURITE_PYTHON`, or else `python3`. Without Python
//! 3.11 and the package `cryptography` they print the reason and pass, unless `CI` is set: then
//! they fail.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, SystemTime};

use crate::support::{Home, noise, put_all, record, stage};
use fulgurite_archive::catalogue::Versions;
use fulgurite_archive::keyring::export_keys;
use fulgurite_archive::settings::{GlassPreset, GlassSettings, MediumSettings};
use fulgurite_archive::watch::Unwatched;
use fulgurite_archive::{Archive, Source};
use fulgurite_domain::{Geometry, Kind, ObjectName, PhysicalTrack};
use fulgurite_format::find_header;

const LACK: &str = "no Python 3.11 or later with the package `cryptography`: set FULGURITE_PYTHON to an interpreter";

/// Returns the interpreter, or `None` after printing the reason if the tests may be skipped.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("FULGURITE_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let probe = Command::new(&python).args(["-c", "import sys, cryptography; sys.exit(sys.version_info < (3, 11))"]).output();
    if probe.is_ok_and(|probe| probe.status.success()) {
        return Some(python);
    }
    let ci = std::env::var("CI").is_ok_and(|ci| !matches!(ci.as_str(), "" | "0" | "false"));
    assert!(!ci, "{LACK}");
    eprintln!("skipped: {LACK}");
    None
}

/// Contents of a folder by name: mode, modification time, and content or link target. Lists folders
/// only if they are empty.
type Tree = BTreeMap<Vec<u8>, (u32, i64, i64, Vec<u8>)>;

fn tree(root: &Path) -> Tree {
    fn walk(root: &Path, folder: &Path, found: &mut Tree) {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = fs::symlink_metadata(&path).expect("metadata");
            let content = if metadata.is_symlink() {
                fs::read_link(&path).expect("a link").into_os_string().as_bytes().to_vec()
            } else if metadata.is_dir() {
                if fs::read_dir(&path).expect("a folder").next().is_some() {
                    walk(root, &path, found);
                    continue;
                }
                Vec::new()
            } else {
                fs::read(&path).expect("readable")
            };
            let name = path.strip_prefix(root).expect("below the root").as_os_str().as_bytes().to_vec();
            found.insert(name, (metadata.mode(), metadata.mtime(), metadata.mtime_nsec(), content));
        }
    }
    let mut found = Tree::new();
    walk(root, root, &mut found);
    found
}

/// Creates a folder of edge cases: names, links, modes, times, and sizes around frame boundaries.
fn make_tree(root: &Path) {
    let file = |name: &[u8], content: &[u8], mode: u32, age_s: u64| {
        let path = root.join(OsStr::from_bytes(name));
        fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
        fs::write(&path, content).expect("a file");
        let changed = SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000 - age_s, 987_654_321);
        File::options().write(true).open(&path).expect("open").set_modified(changed).expect("a time");
        fs::set_permissions(&path, Permissions::from_mode(mode)).expect("a mode");
    };
    file(b"empty", b"", 0o600, 0);
    file(b"odd/\xff\xfe name\nwith newline", &noise(1, 65_536), 0o644, 1);
    file("Ünïcode/ファイル".as_bytes(), &noise(2, 65_537), 0o440, 2);
    file(b"odd/ leading space, \"quotes\" and \\", &noise(3, 65_535), 0o755, 3);
    file(b"a/very/deep/folder/of/folders/file", b"deep", 0o644, 4);
    file(b"before 1970 is not, but long ago", b"old", 0o644, 1_400_000_000);
    file(b"twice", b"the first version", 0o644, 5);
    for i in 0..20 {
        file(format!("many/{i:02}").as_bytes(), &noise(10 + i, 3_001 * i as usize), 0o644, i);
    }
    for i in 0..8 {
        file(format!("large/{i}").as_bytes(), &noise(50 + i, 140_000), 0o644, i);
    }
    fs::create_dir(root.join("nothing in here")).expect("a folder");
    symlink("twice", root.join("link")).expect("a link");
    symlink("/nowhere/\u{e9}", root.join("odd/dangling")).expect("a link");
}

fn put_tree(archive: &Archive, root: &Path) {
    let sources = tree(root).into_keys().map(|name| Source::Path { path: root.join(OsStr::from_bytes(&name)), name: ObjectName(name) });
    let report = archive.put(sources.collect::<Vec<_>>().into_iter(), &Unwatched).expect("put");
    assert_eq!((report.failed, report.unstable), (0, 0));
}

fn run(python: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "tools", "read_platter.py"].iter().collect();
    Command::new(python).arg(script).args(arguments).output().expect("Python starts")
}

/// An archive on platters, with the data needed to read it.
struct Written {
    python: PathBuf,
    home: Home,
    source: tempfile::TempDir,
    keys: PathBuf,
    /// Platter files of its only set, by position.
    platters: Vec<Vec<u8>>,
    geometry: Geometry,
}

impl Written {
    fn new(python: PathBuf, information: u16, redundancy: u16) -> Self {
        let home = Home::new(information, redundancy);
        let source = tempfile::tempdir().expect("a temporary folder");
        make_tree(source.path());
        let archive = home.open();
        put_tree(&archive, source.path());
        // The older version stays next to the newer one. A removed object loses its key.
        fs::write(source.path().join("twice"), b"the second version").expect("a file");
        let newer = Source::Path { path: source.path().join("twice"), name: ObjectName(b"twice".to_vec()) };
        archive.put(std::iter::once(newer), &Unwatched).expect("put");
        put_all(&archive, &BTreeMap::from([(b"secret name".to_vec(), noise(99, 20_000))]));
        let flushed = archive.flush(&Unwatched).expect("flush");
        assert_eq!((flushed.sets, flushed.platters), (1, u64::from(information + redundancy)));
        let keys = home.folder.path().join("keys");
        export_keys(&archive, &keys, None).expect("exported");
        let mut found = Vec::new();
        for path in home.platter_files() {
            let image = fs::read(path).expect("readable");
            let header = header_of(&image);
            found.push((header.position, header.geometry, image));
        }
        found.sort_by_key(|(position, ..)| *position);
        let geometry = found[0].1;
        Self { python, home, source, keys, platters: found.into_iter().map(|(.., image)| image).collect(), geometry }
    }

    fn run(&self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
        run(&self.python, arguments)
    }

    /// Writes these platters to a new folder.
    fn lay_out(&self, platters: &[Option<Vec<u8>>]) -> (tempfile::TempDir, Vec<PathBuf>) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut paths = Vec::new();
        for (position, image) in platters.iter().enumerate() {
            if let Some(image) = image {
                paths.push(folder.path().join(format!("{position}")));
                fs::write(&paths[paths.len() - 1], image).expect("written");
            }
        }
        (folder, paths)
    }

    /// Extracts everything with the second reader, and compares names, bytes, links, modes and
    /// times with what was put. Returns its messages.
    fn check(&self, platters: &[Option<Vec<u8>>]) -> String {
        let (folder, paths) = self.lay_out(platters);
        let out = folder.path().join("out");
        let done = self.run(
            ["get".as_ref(), "--keys".as_ref(), self.keys.as_path(), "-o".as_ref(), out.as_path()]
                .into_iter()
                .chain(paths.iter().map(PathBuf::as_path)),
        );
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        let (mut found, wanted) = (tree(&out), tree(self.source.path()));
        if let Some((_, _, _, secret)) = found.remove(b"secret name".as_slice()) {
            assert!(secret == noise(99, 20_000));
        }
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted.keys().collect::<Vec<_>>(), "{said}");
        for (name, thing) in &wanted {
            assert!(found[name] == *thing, "{:?} is not what was put", ObjectName(name.clone()));
        }
        said
    }

    fn all(&self) -> Vec<Option<Vec<u8>>> {
        self.platters.iter().cloned().map(Some).collect()
    }

    fn spoil(&self, image: &mut Option<Vec<u8>>, track: u32, sectors: impl IntoIterator<Item = usize>) {
        let image = image.as_mut().expect("it is there");
        for sector in sectors {
            let at = self.geometry.track_offset(PhysicalTrack(track)) as usize + sector * self.geometry.sector_stride() + sector % 1_000;
            image[at] ^= 0x20;
        }
    }
}

fn header_of(image: &[u8]) -> fulgurite_format::Header {
    let read_at = |at: u64, buffer: &mut [u8]| {
        buffer.copy_from_slice(&image[at as usize..at as usize + buffer.len()]);
        Ok(())
    };
    find_header(image.len() as u64, read_at).expect("a header").header
}

fn is_read_whole_damaged_and_in_part(information: u16, redundancy: u16) {
    let Some(python) = python() else { return };
    let written = Written::new(python, information, redundancy);
    let physical = written.geometry.physical_tracks();

    let said = written.check(&written.all());
    assert!(!said.contains("rebuilt"), "{said}");

    // As many sectors of every track as its code can rebuild, and two copies of the header.
    let mut platters = written.all();
    for (position, platter) in platters.iter_mut().enumerate() {
        (0..physical).for_each(|track| written.spoil(platter, track, (0..16).map(|n| (n * 13 + position + track as usize) % 216)));
        platter.as_mut().expect("it is there")[..100].fill(0xee);
        let last = written.geometry.header_offsets()[2] as usize;
        platter.as_mut().expect("it is there").truncate(last + 50);
    }
    let said = written.check(&platters);
    assert!(said.contains("by the track code") && !said.contains("by the large group code"), "{said}");

    // One track of each group is lost completely.
    let mut platters = written.all();
    for platter in &mut platters {
        written.spoil(platter, 0, 0..216);
    }
    let said = written.check(&platters);
    assert!(said.contains("by the large group code") && !said.contains("by the set code"), "{said}");

    // As many platters as the set tolerates are missing, starting with the first, and the others
    // are damaged.
    let mut platters = written.all();
    for platter in &mut platters[..usize::from(redundancy)] {
        *platter = None;
    }
    for platter in &mut platters[usize::from(redundancy)..] {
        (0..physical).for_each(|track| written.spoil(platter, track, [1, 100, 210]));
    }
    let said = written.check(&platters);
    assert!(said.contains("by the set code"), "{said}");
}

#[test]
fn a_2_1_set_is_read_intact_damaged_and_incomplete() {
    is_read_whole_damaged_and_in_part(2, 1);
}

#[test]
fn a_4_2_set_is_read_intact_damaged_and_incomplete() {
    is_read_whole_damaged_and_in_part(4, 2);
}

#[test]
fn older_versions_are_readable_and_removed_ones_are_not() {
    let Some(python) = python() else { return };
    let mut written = Written::new(python, 2, 1);
    let archive = written.home.open();
    let secret = archive.catalogue().versions_of(&ObjectName(b"secret name".to_vec())).expect("the catalogue");
    let identifier = secret[0].id.to_string();
    let before = written.keys.clone();
    archive.remove(&secret).expect("removed");
    put_all(&archive, &BTreeMap::from([(b"later".to_vec(), b"so that there is a second set".to_vec())]));
    archive.flush(&Unwatched).expect("flush");
    let kept = archive.catalogue().list(b"", Versions::All, None, 1_000).expect("the catalogue").len();
    written.keys = written.home.folder.path().join("keys after the removal");
    export_keys(&archive, &written.keys, None).expect("exported");
    let all = written.home.platter_files();
    let (_first_set, first) = written.lay_out(&written.all());
    let listed = |platters: &[PathBuf], keys: &Path| {
        let done = written
            .run(["ls".as_ref(), "--json".as_ref(), "--keys".as_ref(), keys].into_iter().chain(platters.iter().map(PathBuf::as_path)));
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<serde_json::Value>(&done.stdout).expect("JSON")["objects"].as_array().expect("a list").clone()
    };

    // All platters, including the tombstone: even the old keys don't bring the object back.
    for keys in [&written.keys, &before] {
        let objects = listed(&all, keys);
        assert!(objects.iter().all(|object| object["version_identifier"] != identifier.as_str()));
    }
    assert_eq!(listed(&all, &written.keys).len(), kept);

    // Without the platters that contain the tombstone: the entry exists, but nothing of it is
    // readable, including the name.
    let objects = listed(&first, &written.keys);
    let secret = objects.iter().find(|object| object["version_identifier"] == identifier.as_str()).expect("an entry");
    assert!(secret["sealed"] == true && secret.get("name").is_none() && secret.get("sha256").is_none(), "{secret}");
    let out = written.home.folder.path().join("out");
    let arguments = ["get".as_ref(), "--all-versions".as_ref(), "--keys".as_ref(), written.keys.as_path(), "-o".as_ref(), out.as_path()];
    let done = written.run(arguments.into_iter().chain(first.iter().map(PathBuf::as_path)));
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(String::from_utf8_lossy(&done.stderr).contains("1 sealed versions have no key"));
    let found = tree(&out);
    assert!(!found.contains_key(b"secret name".as_slice()));
    assert_eq!(found[b"twice".as_slice()].3, b"the second version");
    assert_eq!(found[b"twice.~1~".as_slice()].3, b"the first version");
}

#[test]
fn an_object_in_several_sets_is_restored_without_one_platter_of_each() {
    let Some(python) = python() else { return };
    let home = Home::with(1, 1, |settings| settings.set.platter_mib = 8);
    let archive = home.open();
    let content = noise(7, 9_500_000);
    put_all(&archive, &BTreeMap::from([(b"larger than a set".to_vec(), content.clone())]));
    assert!(archive.flush(&Unwatched).expect("flush").sets >= 2);
    let keys = home.folder.path().join("keys");
    export_keys(&archive, &keys, Some(b"a passphrase")).expect("exported");
    let passphrase = home.folder.path().join("passphrase");
    fs::write(&passphrase, "a passphrase\n").expect("written");
    let mut gone = Vec::new();
    for path in home.platter_files() {
        let header = header_of(&fs::read(&path).expect("readable"));
        if !gone.contains(&header.set) && header.carries_information() {
            gone.push(header.set);
            fs::remove_file(path).expect("removed");
        }
    }
    let out = home.folder.path().join("out");
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "tools", "read_platter.py"].iter().collect();
    let mut command = Command::new(python);
    command
        .arg(script)
        .arg("get")
        .args(home.platter_files())
        .arg("--keys")
        .arg(keys)
        .arg("--passphrase-file")
        .arg(passphrase)
        .arg("-o")
        .arg(&out);
    let done = command.output().expect("Python starts");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(fs::read(out.join("larger than a set")).expect("readable") == content);
}

#[test]
fn attributes_and_deletion_markers_are_read() {
    let Some(python) = python() else { return };
    let home = Home::with(1, 1, |settings| settings.archive.encrypt = false);
    let attributes: &[(&str, &[u8])] = &[("content-type", b"text/plain"), ("etag", &[0xd4, 0x1d])];
    let objects: [(_, &[u8]); 4] = [
        (record("described", 1, Kind::File, b"content", attributes), b"content"),
        (record("gone", 1, Kind::File, b"earlier", &[]), b"earlier"),
        (record("gone", 2, Kind::DeletionMarker, b"", &[]), b""),
        (record("still/here", 1, Kind::File, b"here", &[]), b"here"),
    ];
    stage(&home, 3, &objects);
    home.open().flush(&Unwatched).expect("flush");
    let script: PathBuf = [env!("CARGO_MANIFEST_DIR"), "..", "..", "tools", "read_platter.py"].iter().collect();
    let run = |arguments: &[&OsStr]| {
        let done = Command::new(&python).arg(&script).args(arguments).args(home.platter_files()).output().expect("Python starts");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        done.stdout
    };
    let listed: serde_json::Value = serde_json::from_slice(&run(&["ls".as_ref(), "--json".as_ref()])).expect("JSON");
    let found: Vec<_> = listed["objects"].as_array().expect("a list").iter().map(|object| (&object["name"], &object["kind"])).collect();
    assert_eq!(found.len(), 4);
    assert_eq!(found.iter().filter(|(_, kind)| **kind == 3).map(|(name, _)| *name).collect::<Vec<_>>(), ["gone"]);
    let described = listed["objects"].as_array().expect("a list").iter().find(|object| object["name"] == "described").expect("listed");
    assert_eq!((&described["attributes"]["content-type"], &described["attributes_hex"]["etag"]), (&"text/plain".into(), &"d41d".into()));
    let out = home.folder.path().join("out");
    run(&["get".as_ref(), "-o".as_ref(), out.as_ref()]);
    assert_eq!(tree(&out).into_keys().collect::<Vec<_>>(), [b"described".to_vec(), b"still/here".to_vec()]);
}

#[test]
fn platters_of_glass_are_read_from_their_symbols() {
    let Some(python) = python() else { return };
    for preset in GlassPreset::ALL {
        let glass = MediumSettings::Glass(GlassSettings { preset, ..GlassSettings::default() });
        let home = Home::with(1, 1, |settings| settings.medium = glass);
        let archive = home.open();
        let files: BTreeMap<Vec<u8>, Vec<u8>> =
            (0..3).map(|i| (format!("files/{i}").into_bytes(), noise(i + 1, 9_000 * i as usize))).collect();
        put_all(&archive, &files);
        archive.flush(&Unwatched).expect("flush");
        let keys = home.folder.path().join("keys");
        export_keys(&archive, &keys, None).expect("exported");
        let mut platters = home.platter_files();
        let whole = run(&python, ["inspect".as_ref(), "--json".as_ref(), platters[0].as_os_str()]);
        let report: serde_json::Value = serde_json::from_slice(&whole.stdout).expect("a report");
        assert_eq!((&report["medium"], &report["file_bytes"]), (&"glass".into(), &report["expected_bytes"]), "{report}");
        assert_eq!(report["good_header_copies"].as_array().map(Vec::len), Some(3), "{report}");
        // Symbols of two sectors of the first track, and of half a header, on every platter.
        for platter in &platters {
            let mut image = fs::read(platter).expect("readable");
            let (header_sectors, packed) = if preset == GlassPreset::Desk { (13, 10_240) } else { (26, 5_120) };
            let sector = |number: usize| 4_096 + number * packed;
            image[sector(0)..sector(header_sectors / 2)].fill(0);
            image[sector(header_sectors) + 77] ^= 0x10;
            image[sector(header_sectors + 3) + 1_000] ^= 0x01;
            fs::write(platter, image).expect("written");
        }
        for round in 0..2 {
            let out = home.folder.path().join(format!("out {round}"));
            let mut arguments = vec!["get".as_ref(), "--keys".as_ref(), keys.as_os_str(), "-o".as_ref(), out.as_os_str()];
            arguments.extend(platters.iter().map(|platter| platter.as_os_str()));
            let done = run(&python, arguments);
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            assert!(done.status.success(), "{said}");
            for (name, content) in &files {
                assert!(fs::read(out.join(OsStr::from_bytes(name))).expect("restored") == *content, "{said}");
            }
            // The other platter alone is enough.
            platters.remove(0);
        }
    }
}

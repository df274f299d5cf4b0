//! Migrations between folders and archives.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use fulgurite_chance::Xorshift;

use crate::support::{Sandbox, noise};

/// Files in folders of a folder, by their paths in it.
fn tree(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below it").to_str().expect("UTF-8").to_owned();
                files.insert(name, fs::read(path).expect("content"));
            }
        }
    }
    files
}

/// A sandbox with a source of `count` files, one of them large, and an empty destination.
fn with_source(place: &Sandbox, count: u64) -> BTreeMap<String, Vec<u8>> {
    for number in 0..count {
        let size = if number == 7 { 3_000_000 } else { number as usize * 37 % 5_000 };
        let path = place.path(format!("source/{}/{number}", number % 4));
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, noise(number + 1, size)).expect("written");
    }
    fs::create_dir(place.path("destination")).expect("made");
    tree(&place.path("source"))
}

#[test]
fn folders_of_an_archive_are_places() {
    let place = Sandbox::new(1, &[]);
    let files = with_source(&place, 20);
    let one = ["migrate", "init", "one", "--from=source", "--to=archive:a", "--to-option=prefix=photos/one"];
    place.good(&one);
    place.good(&["migrate", "run", "one"]);
    place.write("source/3/7", b"another");
    place.good(&["migrate", "init", "two", "--from=source", "--to=archive:a", "--to-option=prefix=photos/two"]);
    let ran = place.good(&["migrate", "run", "two", "--json"]).json();
    assert_eq!(ran["migrated"], 20, "{ran}");
    place.good(&["migrate", "scan", "one"]);
    assert_eq!(place.good(&["get", "photos/two/3/7", "-"]).out, b"another");
    assert_eq!(place.good(&["ls", "photos", "--json"]).json_lines().len(), 40);
    // Only what is below the folder is its source.
    place.good(&["put", "source", "--to", "photos/ones"]);
    place.good(&["migrate", "init", "back", "--from=archive:a", "--from-option=prefix=photos/one", "--to=destination"]);
    let inventory = place.good(&["migrate", "inventory", "back", "--json"]).json();
    assert_eq!((&inventory["listed"], &inventory["left_out"]["older_versions"]), (&20.into(), &0.into()), "{inventory}");
    place.good(&["migrate", "run", "back"]);
    assert!(tree(&place.path("destination")) == files);
    let wrong = ["migrate", "init", "wrong", "--from=source", "--to=archive:a", "--to-option=prefix=/photos"];
    place.run(&wrong).fails_with(2, "is not the name of a folder in an archive");
    // The folder belongs to the place: it is shown and certified, and can't change in between.
    let certificate: serde_json::Value = serde_json::from_slice(&place.read("two/certificate.json")).expect("JSON");
    assert!(certificate["destination"].as_str().is_some_and(|place| place.ends_with("/a?prefix=photos/two")), "{certificate}");
    assert!(place.good(&["migrate", "status", "two"]).text().contains("/a?prefix=photos/two"));
    let settings = String::from_utf8(place.read("two/migration.toml")).expect("text");
    for (changed, status, why) in [
        ("prefix=photos/three", 1, "begin another migration"),
        ("prefx=photos/two", 2, "have no option"),
        ("prefix=/photos/two", 2, "is not the name"),
    ] {
        place.write("two/migration.toml", settings.replace("prefix=photos/two", changed));
        place.run(&["migrate", "run", "two"]).fails_with(status, why);
    }
}

#[test]
fn files_go_to_an_archive_and_back() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    let files = with_source(&place, 200);
    let modified = |folder: &str| fs::metadata(place.path(folder).join("3/7")).and_then(|of| of.modified()).expect("a time");
    let old = UNIX_EPOCH + Duration::new(1_000_000_000, 123_456_789);
    fs::File::options().write(true).open(place.path("source/3/7")).and_then(|file| file.set_modified(old)).expect("set");
    place.good(&["migrate", "init", "in", "--from=source", "--to=archive:a"]);
    let ran = place.good(&["migrate", "run", "in", "--json"]).json();
    assert_eq!((&ran["migrated"], &ran["certificate"]["migrated"]["files"]), (&200.into(), &200.into()));
    let replayed = place.good(&["migrate", "replay", "in", "--json"]).json();
    assert!(replayed["steps"].as_u64().is_some_and(|steps| steps > 10) && replayed["ended"] == true, "{replayed}");
    // What a run measured is a scenario for a plan.
    place.good(&["migrate", "report", "in", "--scenario=measured.toml"]);
    let planned = place.good(&["migrate", "plan", "measured.toml", "--json"]).json();
    assert!(planned["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{planned}");
    assert!(planned["seconds_least"].is_null() && planned["seconds_most"].is_null(), "it has the streams of the run: {planned}");
    // Other streams than those that were measured may share what these had.
    let other = ["migrate", "plan", "measured.toml", "--set=stations.inputs=1", "--set=stations.outputs=8"];
    let planned = place.good(&[&other[..], &["--json"]].concat()).json();
    let [least, own, most] = ["seconds_least", "seconds", "seconds_most"].map(|name| planned[name].as_f64().expect("seconds"));
    assert!(least <= own && own <= most, "{planned}");
    let said = place.good(&other).text();
    assert!(said.contains("With 1 input, 8 outputs, 2 scans, the time is between"), "{said}");
    let report = place.good(&["migrate", "report", "in", "--plan=measured.toml", "--set=stations.inputs=1"]).text();
    assert!(report.contains("With 1 input, 4 outputs, 2 scans, the time is between"), "{report}");
    let varied = place.good(&["migrate", "plan", "measured.toml", "--vary=stations.inputs=1,4", "--json"]).json();
    let days = |row: usize, name: &str| varied["variants"][row][name].as_f64().expect("days");
    assert!(days(0, "days_least") <= days(0, "days_most") && days(1, "days_least") == days(1, "days_most"), "{varied}");
    // They are on platters.
    let status = place.good(&["status", "--json"]).json();
    assert_eq!(status["staged"]["versions"], 0, "{status}");
    place.good(&["verify"]);
    // Nothing changes if it runs again.
    let again = place.good(&["migrate", "run", "in", "--json"]).json();
    assert_eq!(again["migrated"], 0);
    place.good(&["migrate", "scan", "in"]);
    place.good(&["migrate", "init", "back", "--from=archive:a", "--to=destination"]);
    place.good(&["migrate", "run", "back"]);
    assert!(tree(&place.path("destination")) == files);
    assert_eq!(modified("destination"), old);
    let status = place.good(&["migrate", "status", "back", "--json"]).json();
    assert_eq!((&status["totals"]["migrated"]["files"], &status["running"]), (&200.into(), &false.into()));
    // An archive's platters can't be removed file by file.
    fs::write(place.path("back/migration.toml"), settings(&place, "back") + "[rules]\nhold = \"0 s\"\n").expect("written");
    let kept = place.run(&["migrate", "forget", "back", "--yes"]);
    assert_eq!(kept.status, 1, "{kept:?}");
}

#[test]
fn names_in_old_encodings_arrive_as_they_were() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    let names = [&b"caf\xe9/\x80.txt"[..], b"caf\xe9/line\nbreak\xff", "plain/ü".as_bytes(), "\u{201b}E9".as_bytes()];
    let at = |folder: &str, name: &[u8]| place.path(folder).join(OsStr::from_bytes(name));
    for (number, name) in names.iter().enumerate() {
        let path = at("source", name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, noise(number as u64, 100)).expect("written");
    }
    fs::create_dir(place.path("destination")).expect("made");
    let list = Command::new("sh").args(["-c", "find . -type f -print0 | xargs -0 sha256sum"]).current_dir(place.path("source")).output();
    place.write("list", list.expect("it runs").stdout);
    place.good(&["migrate", "init", "in", "--from=source", "--to=archive:a"]);
    let listed = place.good(&["migrate", "inventory", "in", "--checksums=list", "--json"]).json();
    assert_eq!((&listed["listed"], &listed["with_digest"], &listed["missing"]), (&4.into(), &4.into(), &0.into()), "{listed}");
    place.write("recalled", b"caf\xe9/\x80.txt\n");
    assert_eq!(place.good(&["migrate", "recall", "in", "--list=recalled", "--json"]).json()["waiting"], 1);
    place.good(&["migrate", "run", "in"]);
    place.good(&["migrate", "scan", "in"]);
    place.good(&["get", "--all", "out"]);
    place.good(&["migrate", "init", "back", "--from=archive:a", "--to=destination"]);
    place.good(&["migrate", "run", "back"]);
    for (number, name) in names.iter().enumerate() {
        for folder in ["out", "destination"] {
            assert_eq!(fs::read(at(folder, name)).expect("it arrived"), noise(number as u64, 100));
        }
    }
    let checked =
        Command::new("sha256sum").args(["--check", "--strict", "../back/migrated.sha256"]).current_dir(place.path("destination")).output();
    let checked = checked.expect("it runs");
    assert!(checked.status.success() && checked.stdout.iter().filter(|byte| **byte == b'\n').count() == 4, "{checked:?}");
}

fn settings(place: &Sandbox, migration: &str) -> String {
    fs::read_to_string(place.path(migration).join("migration.toml")).expect("settings")
}

#[test]
fn what_fails_is_named_and_the_source_is_released_only_as_it_was_migrated() {
    let place = Sandbox::empty();
    let files = with_source(&place, 40);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    let sums: String =
        files.iter().filter(|(name, _)| *name != "0/0").map(|(name, content)| format!("{}  {name}\n", md5(content))).collect();
    let wrong = sums.replace(&md5(&files["1/1"]), &md5(b"other"));
    fs::write(place.path("sums"), wrong + &format!("{}  2/nowhere\n", md5(b""))).expect("written");
    let listed = place.run(&["migrate", "inventory", "m", "--checksums=sums", "--json"]);
    assert_eq!((listed.status, &listed.json()["with_digest"], &listed.json()["missing"]), (1, &39.into(), &1.into()), "{listed:?}");
    let ran = place.run(&["migrate", "run", "m", "--json"]);
    assert_eq!((ran.status, &ran.json()["migrated"]), (1, &39.into()), "{ran:?}");
    let report = place.run(&["migrate", "report", "m", "--json"]);
    let failed: Vec<(String, String)> = report.json()["failed"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|of| (of["name"].as_str().expect("a name").to_owned(), of["reason"].as_str().expect("a reason").to_owned()))
        .collect();
    assert_eq!(report.status, 1);
    assert!(failed.len() == 2 && failed.iter().any(|(name, reason)| name == "1/1" && reason.contains("wrong at the source")), "{failed:?}");
    assert!(failed.iter().any(|(name, reason)| name == "2/nowhere" && reason.contains("the source doesn't")), "{failed:?}");
    assert!(!place.path("destination/1/1").exists() && tree(&place.path("destination")).len() == 39);
    // The hold time isn't over; then one file has changed, and one is gone.
    let held = place.good(&["migrate", "forget", "m", "--yes", "--json"]).json();
    assert!(held["good"] == 0 && tree(&place.path("source")).len() == 40);
    fs::write(place.path("m/migration.toml"), settings(&place, "m") + "[rules]\nhold = \"0 s\"\n").expect("written");
    fs::write(place.path("source/0/0"), b"newer").expect("written");
    fs::remove_file(place.path("source/3/3")).expect("removed");
    assert_eq!(place.good(&["migrate", "forget", "m", "--json"]).json()["would_remove"], 39);
    assert_eq!(tree(&place.path("source")).len(), 39, "without --yes, nothing is removed");
    let forgotten = place.run(&["migrate", "forget", "m", "--yes", "--json"]);
    let json = forgotten.json();
    assert_eq!((forgotten.status, &json["good"], &json["gone"], &json["wrong"]), (1, &37.into(), &1.into(), &1.into()), "{forgotten:?}");
    assert_eq!(tree(&place.path("source")).into_keys().collect::<Vec<_>>(), ["0/0", "1/1"]);
    // A released file that is there again is another one, and doesn't replace the only copy.
    fs::write(place.path("source/2/2"), &files["2/2"]).expect("written");
    place.run(&["migrate", "inventory", "m"]).fails_with(1, "");
    assert_eq!(place.run(&["migrate", "inventory", "m", "--json"]).json()["reappeared"], 1);
    // The newer file is noticed, and migrated over the one that was.
    place.run(&["migrate", "inventory", "m"]);
    let ran = place.run(&["migrate", "run", "m", "--json"]).json();
    assert_eq!((&ran["migrated"], fs::read(place.path("destination/0/0")).expect("content")), (&1.into(), b"newer".to_vec()));
}

fn md5(content: &[u8]) -> String {
    use std::fmt::Write;
    let mut hex = String::new();
    fulgurite_digest::Md5::of(content).iter().for_each(|byte| write!(hex, "{byte:02x}").expect("text"));
    hex
}

#[test]
fn a_wrong_destination_or_source_is_refused() {
    let place = Sandbox::empty();
    with_source(&place, 3);
    let init = |from: &str, to: &str| place.run(&["migrate", "init", "m", &format!("--from={from}"), &format!("--to={to}")]);
    init("source", "source").fails_with(2, "the same place");
    init("source", "nowhere").fails_with(1, "nowhere does not exist");
    let unknown = init("source", "s4://bucket");
    unknown.fails_with(2, "unknown kind of place \"s4\"");
    unknown.fails_with(2, "webdav://host/path, archive:/path");
    assert!(!unknown.err.contains("tapes:") && !unknown.err.contains("https:"), "these are only read: {}", unknown.err);
    init("tape:x", "destination").fails_with(2, "http://host/path, archive:/path, tapes:/path");
    place.good(&["init", "--store=store", "an archive"]);
    init("source", "an archive").fails_with(2, "say --to archive:");
    fs::create_dir(place.path("an archive/files")).expect("made");
    init("source", "an archive/files").fails_with(2, "say --to archive:");
    // A place under another name, inside the other, or with the migration's folder in it.
    std::os::unix::fs::symlink("source", place.path("link")).expect("linked");
    init("source", "link").fails_with(2, "the same place");
    init("source", "source/").fails_with(2, "the same place");
    init("source", "source/1").fails_with(2, "inside the other");
    init("source/1", "source").fails_with(2, "inside the other");
    place.run(&["migrate", "init", "source/m", "--from=source", "--to=destination"]).fails_with(2, "inside the source");
    assert!(!place.path("m").exists() && !place.path("source/m").exists() && tree(&place.path("destination")).is_empty());
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    init("source", "destination").fails_with(2, "already exists");
    place.run(&["migrate", "replay", "m"]).fails_with(1, "no run has written it");
    place.run(&["migrate", "report", "m", "--scenario=s.toml"]).fails_with(1, "no run has moved files");
    // A disk that isn't mounted has no files.
    fs::rename(place.path("source"), place.path("away")).expect("renamed");
    fs::create_dir(place.path("source")).expect("made");
    place.run(&["migrate", "run", "m"]).fails_with(1, "Is it mounted");
    fs::remove_dir(place.path("source")).expect("removed");
    fs::rename(place.path("away"), place.path("source")).expect("renamed");
    // Files that were there stay.
    fs::create_dir(place.path("destination/1")).expect("made");
    fs::write(place.path("destination/1/1"), b"mine").expect("written");
    place.run(&["migrate", "run", "m"]).fails_with(1, "another file of this name");
    assert_eq!(fs::read(place.path("destination/1/1")).expect("content"), b"mine");
    let moved = settings(&place, "m").replace("destination\"", "elsewhere\"");
    fs::write(place.path("m/migration.toml"), moved).expect("written");
    place.run(&["migrate", "status", "m"]).fails_with(1, "begin another migration for another place");
}

#[test]
fn a_migration_that_is_killed_again_and_again_arrives() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    let files = with_source(&place, 600);
    place.good(&["migrate", "init", "m", "--from=source", "--to=archive:a"]);
    fs::write(place.path("m/migration.toml"), settings(&place, "m") + "[lots]\nfiles = 4\n[spool]\nmemory = \"0 B\"\n").expect("written");
    let mut noise = Xorshift::new(5);
    let mut kills = 0;
    for _ in 0..30 {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulgurite"));
        command.args(["migrate", "run", "m", "--quiet"]).current_dir(place.path("")).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = command.spawn().expect("it starts");
        thread::sleep(Duration::from_millis(noise.below(150) as u64));
        if run.try_wait().expect("a process").is_none() {
            run.kill().expect("killed");
            kills += 1;
        }
        run.wait().expect("it ended");
    }
    assert!(kills > 0, "it was killed");
    place.good(&["migrate", "run", "m"]);
    place.good(&["migrate", "replay", "m"]);
    let spooled = fs::read_dir(place.path("m/spool")).expect("a folder").map(|entry| entry.expect("an entry").file_name());
    assert_eq!(spooled.collect::<Vec<_>>(), [".fulgurite-spool-lock"], "lots that runs went on with are removed");
    place.good(&["verify"]);
    // Each file is there once: what was written before a kill is known by its content.
    place.good(&["get", "--all", "out"]);
    assert!(tree(&place.path("out")) == files);
    let status = place.good(&["status", "--json"]).json();
    assert_eq!(status["versions"], 600, "{status}");
}

#[test]
fn one_command_at_a_time_changes_a_migration_and_pauses_hold() {
    let place = Sandbox::empty();
    with_source(&place, 30);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "pause", "m"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_fulgurite"));
    command.args(["migrate", "run", "m"]).current_dir(place.path("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = command.spawn().expect("it starts");
    let status = || place.good(&["migrate", "status", "m", "--json"]).json();
    while status()["running"] != true {
        thread::yield_now();
    }
    place.run(&["migrate", "run", "m"]).fails_with(1, "another command is changing the migration");
    assert!(status()["paused"] == true && run.try_wait().expect("a process").is_none());
    // The run writes metrics before it begins.
    while !place.path("m/metrics.prom").exists() {
        thread::yield_now();
    }
    let metrics = samples(&String::from_utf8(place.read("m/metrics.prom")).expect("text"));
    let value = |name: &str| metrics.iter().find(|(of, ..)| *of == format!("fulgurite_migration_{name}")).map(|(.., value)| *value);
    assert_eq!((value("running"), value("paused")), (Some(1.0), Some(1.0)));
    place.good(&["migrate", "resume", "m"]);
    assert!(run.wait().expect("it ended").success());
    assert_eq!(status()["totals"]["migrated"]["files"], 30);
}

/// A sample of `metrics.prom`: its name, its labels as they are written, and its value.
type Sample = (String, String, f64);

/// Parses the text format of Prometheus, and checks what it requires: each family has one HELP and
/// one TYPE, its samples follow them, and no sample occurs twice.
fn samples(text: &str) -> Vec<Sample> {
    let (mut families, mut found): (Vec<(String, String)>, Vec<Sample>) = (Vec::new(), Vec::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("a name and a text");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} "))).expect(name);
            assert!(name.starts_with("fulgurite_migration_") && !words.is_empty() && ["gauge", "counter"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert!(families.iter().all(|(other, _)| other != name), "{name} occurs twice");
            families.push((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (series, value) = line.rsplit_once(' ').expect("a series and a value");
        let (name, labels) = series.split_once('{').expect("labels");
        assert_eq!(families.last().map(|(family, _)| family.as_str()), Some(name), "{line}");
        let sample = (name.to_owned(), labels.strip_suffix('}').expect("labels end").to_owned(), value.parse().expect("a number"));
        assert!(found.iter().all(|other| (&other.0, &other.1) != (&sample.0, &sample.1)), "{line} occurs twice");
        found.push(sample);
    }
    assert!(text.ends_with('\n'));
    found
}

#[test]
fn metrics_of_a_run_add_up_to_the_totals() {
    let place = Sandbox::empty();
    let files = with_source(&place, 60);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    fs::create_dir(place.path("destination/2")).expect("made");
    fs::write(place.path("destination/2/2"), b"another").expect("written");
    assert_eq!(place.run(&["migrate", "run", "m"]).status, 1);
    let text = String::from_utf8(place.read("m/metrics.prom")).expect("text");
    let found = samples(&text);
    let folder = fs::canonicalize(place.path("m")).expect("a path");
    assert!(found.iter().all(|(_, labels, _)| labels.starts_with(&format!("migration=\"{}\"", folder.display()))), "{text}");
    let sum = |name: &str, label: &str| -> f64 {
        let name = format!("fulgurite_migration_{name}");
        found.iter().filter(|(of, labels, _)| *of == name && labels.contains(label)).map(|(.., value)| value).sum()
    };
    let totals = place.good(&["migrate", "status", "m", "--json"]).json()["totals"].clone();
    for (state, of) in totals.as_object().expect("states") {
        let label = format!("state=\"{state}\"");
        assert_eq!((Some(sum("files", &label)), Some(sum("bytes", &label))), (of["files"].as_f64(), of["bytes"].as_f64()), "{state}");
    }
    let bytes = files.iter().filter(|(name, _)| *name != "2/2").map(|(_, content)| content.len()).sum::<usize>() as f64;
    assert_eq!((sum("files", "migrated"), sum("files", "failed"), sum("bytes", "migrated")), (59.0, 1.0, bytes));
    // The input reads the file that can't be written, too.
    let expected = [("input", 60.0, bytes + files["2/2"].len() as f64), ("output", 59.0, bytes), ("scan", 59.0, bytes)];
    for (stage, files, bytes) in expected {
        let label = format!("stage=\"{stage}\"");
        assert_eq!((sum("run_files_total", &label), sum("run_bytes_total", &label)), (files, bytes), "{stage}");
        assert!(sum("run_busy_seconds_total", &label) > 0.0 && sum("run_moving_seconds_total", &label) > 0.0, "{stage}");
        assert!(sum("run_waiting_seconds_total", &label) > 0.0, "{stage}");
    }
    assert_eq!((sum("running", ""), sum("paused", ""), sum("spool_bytes", "")), (0.0, 0.0, 0.0));
    assert!(sum("spool_capacity_bytes", "") > 0.0 && sum("updated_timestamp_seconds", "") > 1.7e9);
    // Counters are those of a run, and the next moves nothing.
    place.run(&["migrate", "run", "m"]);
    let again = samples(&String::from_utf8(place.read("m/metrics.prom")).expect("text"));
    let of_run = again.iter().filter(|(name, ..)| name.starts_with("fulgurite_migration_run_bytes"));
    assert!(of_run.clone().count() >= 3 && of_run.map(|(.., value)| value).sum::<f64>() == 0.0);
    assert!(!place.path("m/metrics.prom.new").exists());
}

/// The rows of a CSV file without quoted fields, by the names of its columns.
fn rows(place: &Sandbox, path: &str) -> Vec<BTreeMap<String, String>> {
    let text = String::from_utf8(place.read(path)).expect("text");
    let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let columns = lines.next().expect("a header");
    let row = |row: Vec<String>| {
        assert_eq!(row.len(), columns.len(), "{path}: {row:?}");
        columns.iter().cloned().zip(row).collect()
    };
    lines.map(row).collect()
}

fn sum(rows: &[BTreeMap<String, String>], column: &str) -> u64 {
    rows.iter().map(|row| row[column].parse::<u64>().expect("a number")).sum()
}

/// The page of a report, which must be well-formed and need nothing else. Returns the number of
/// its plots, too.
fn page(place: &Sandbox, path: &str) -> (String, usize) {
    let page = String::from_utf8(place.read(path)).expect("text");
    let mut reader = quick_xml::Reader::from_str(&page);
    let (mut open, mut plots) = (0, 0);
    loop {
        match reader.read_event().unwrap_or_else(|error| panic!("{error}: {page}")) {
            quick_xml::events::Event::Start(element) => {
                open += 1;
                plots += usize::from(element.name().as_ref() == "svg");
            }
            quick_xml::events::Event::End(_) => open -= 1,
            quick_xml::events::Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "all elements are closed");
    for request in ["<script", "src=", "href=", "@import"] {
        assert!(!page.contains(request), "{request}");
    }
    (page, plots)
}

#[test]
fn a_report_has_a_page_with_plots_and_tables_that_add_up() {
    let place = Sandbox::empty();
    let files = with_source(&place, 80);
    place.write("source/0/<b>&.bin", b"mine");
    place.write("destination/0/<b>&.bin", b"another");
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "report", "m", "--out=before"]);
    let (before, plots) = page(&place, "before/report.html");
    assert!(before.contains("Not known: no run has written a journal.") && plots == 0 && !place.path("before/streams.csv").exists());
    assert_eq!(place.run(&["migrate", "run", "m"]).status, 1);
    let report = place.run(&["migrate", "report", "m", "--out=out", "--json"]);
    assert_eq!(report.status, 1, "{report:?}");
    let (written, plots) = page(&place, "out/report.html");
    let spools = rows(&place, "out/spools.csv");
    let described = String::from_utf8(place.read("out/streams.columns.csv")).expect("text");
    assert!(described.contains("share of the time in which it waited for the run to begin, resume or end"), "{described}");
    let volumes: std::collections::BTreeSet<&String> = spools.iter().map(|row| &row["spool"]).collect();
    assert!(plots == 1 + volumes.len() && plots >= 2, "{plots}");
    assert!(written.contains("0/&lt;b&gt;&amp;.bin") && written.contains("another file of this name"), "{written}");
    let certificate: serde_json::Value = serde_json::from_slice(&place.read("m/certificate.json")).expect("JSON");
    assert_eq!(report.json()["certificate"], certificate);
    assert!(written.contains(certificate["list"]["sha256"].as_str().expect("a digest")));
    assert!(written.contains("80 files, ") && written.contains("; the run ended."), "{written}");
    // All sizes and rates are in one family of units, in the plots, too.
    let text = place.run(&["migrate", "report", "m"]).text();
    for (of, at_least) in [(&written, 8), (&text, 3)] {
        assert!(of.matches("iB").count() >= at_least && !["kB", "MB", "GB"].iter().any(|unit| of.contains(unit)), "{of}");
    }
    // The tables add up to what was migrated.
    let bytes: u64 = files.values().map(|content| content.len() as u64).sum();
    let rates = rows(&place, "out/rates.csv");
    assert_eq!((sum(&rates, "input_bytes"), sum(&rates, "output_bytes"), sum(&rates, "scan_bytes")), (bytes + 4, bytes, bytes));
    for row in &rates {
        let of = |column: &str| row[column].parse::<f64>().expect("a number");
        assert!((of("scan") * (of("to") - of("from")) - of("scan_bytes")).abs() < 1e-3, "{row:?}");
    }
    let streams = rows(&place, "out/streams.csv");
    let of_stage = |stage: &str| streams.iter().filter(|row| row["stage"] == stage).cloned().collect::<Vec<_>>();
    for (stage, files, bytes) in [("input", 81, bytes + 4), ("output", 80, bytes), ("scan", 80, bytes)] {
        assert_eq!((sum(&of_stage(stage), "files"), sum(&of_stage(stage), "bytes")), (files, bytes), "{stage}");
    }
    for row in &streams {
        let shares = row.iter().filter(|(column, _)| *column == "busy" || column.starts_with("wait_"));
        let whole: f64 = shares.map(|(_, share)| share.parse::<f64>().expect("a share")).sum();
        assert!(whole > 0.0 && whole < 1.001, "{row:?}");
    }
    assert!(spools.iter().all(|row| row["max_bytes"].parse::<u64>().expect("bytes") <= row["capacity_bytes"].parse().expect("bytes")));
    assert!(spools.iter().any(|row| row["max_bytes"] != "0") && sum(&spools, "max_bytes") > 0);
    for name in ["streams.parquet", "rates.parquet", "rates.columns.csv", "rates.svg", "rates.png", "spool-1.svg"] {
        assert!(place.path("out").join(name).exists(), "{name}");
    }
    // A report replaces a report, and nothing else.
    assert_eq!(place.run(&["migrate", "report", "m", "--out=out"]).status, 1);
    for name in ["streams.csv", "report.html"] {
        let path = format!("{name}.of/{name}");
        place.write(&path, b"mine");
        place.run(&["migrate", "report", "m", &format!("--out={name}.of")]).fails_with(1, "isn't from a report");
        let entries = fs::read_dir(place.path(format!("{name}.of"))).expect("a folder").count();
        assert_eq!((place.read(&path), entries), (b"mine".to_vec(), 1));
    }
}

#[test]
fn a_report_says_what_is_wrong_with_a_journal() {
    let place = Sandbox::empty();
    with_source(&place, 20);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    let journal = String::from_utf8(place.read("m/journal")).expect("text");
    let with = |changed: &str| {
        place.write("m/journal", changed);
        place.good(&["migrate", "report", "m", "--out=out"]);
        let (page, plots) = page(&place, "out/report.html");
        (page, plots, place.path("out/rates.csv").exists())
    };
    let (cut, plots, has_rates) = with(&journal[..journal.len() - 7]);
    assert!(plots > 0 && has_rates && cut.contains("the run was killed, or failed"), "{cut}");
    let (newer, plots, has_rates) = with(&journal.replacen("\"journal\":1", "\"journal\":2", 1));
    assert!(plots == 0 && !has_rates && newer.contains("the journal has version 2; this program reads version 1"), "{newer}");
    let (empty, plots, _) = with("");
    assert!(plots == 0 && empty.contains("the journal is empty"), "{empty}");
    let last = journal.trim_end().rfind('\n').expect("a line") + 1;
    let repeated = format!("{journal}{}", &journal[last..]);
    let (page, plots, has_rates) = with(&repeated);
    assert!(plots > 0 && has_rates && page.contains("the rest is left out: line"), "{page}");
    place.run(&["migrate", "replay", "m"]).fails_with(1, "doesn't follow from the lines before");
    // A later run that moves nothing leaves the figures and the journal of the earlier one.
    place.write("m/journal", &journal);
    place.good(&["migrate", "run", "m"]);
    let (same, plots, has_rates) = with(&String::from_utf8(place.read("m/journal")).expect("text"));
    assert!(plots > 0 && has_rates && !same.contains("in which nothing moved"), "{same}");
}

#[test]
fn a_scenario_from_a_run_has_parts_whose_files_differ_in_size() {
    let place = Sandbox::empty();
    for folder in ["source/a", "source/b", "destination"] {
        fs::create_dir_all(place.path(folder)).expect("made");
    }
    for number in 0..400 {
        place.write(format!("source/a/{number}"), noise(number, 100));
    }
    for number in 0..8 {
        place.write(format!("source/b/{number}"), noise(number, 100_000));
    }
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    place.good(&["migrate", "report", "m", "--scenario=parts.toml"]);
    let text = String::from_utf8(place.read("parts.toml")).expect("text");
    assert!(text.contains("[[files.parts]]\nsize = \"100 B\"") && text.contains("[[files.parts]]\nsize = \"100000 B\""), "{text}");
    assert_eq!(text.matches("per_file = ").count(), 3, "{text}");
    let planned = place.good(&["migrate", "plan", "parts.toml", "--json"]).json();
    assert!(planned["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{planned}");
    place.run(&["migrate", "plan", "parts.toml", "--set=files.size=5 MB"]).fails_with(2, "files.parts has sizes");
}

#[test]
fn a_plan_and_a_run_are_set_side_by_side() {
    let place = Sandbox::empty();
    let files = with_source(&place, 50);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    place.good(&["migrate", "report", "m", "--scenario=same.toml"]);
    let report = place.good(&["migrate", "report", "m", "--plan=same.toml", "--out=out", "--json"]).json();
    let plan = &report["plan"];
    assert_eq!((&plan["scenario"], &plan["caution"]), (&"same".into(), &serde_json::Value::Null), "{plan}");
    let figures = plan["figures"].as_array().expect("figures");
    let of = |stage: Option<&str>, figure: &str, side: &str| {
        let found = figures.iter().find(|of| of["stage"].as_str() == stage && of["figure"] == figure);
        found.and_then(|of| of[side].as_f64()).unwrap_or_else(|| panic!("{stage:?} {figure} {side}: {plan}"))
    };
    let bytes: usize = files.values().map(Vec::len).sum();
    assert_eq!((of(None, "bytes", "predicted"), of(None, "bytes", "measured")), (bytes as f64, bytes as f64));
    assert_eq!(of(None, "time", "measured"), report["last_run"]["elapsed_s"].as_f64().expect("a time"));
    assert!(of(None, "time", "predicted") > 0.0);
    for stage in report["stages"].as_array().expect("stages") {
        let name = stage["stage"].as_str();
        let rate = stage["bytes_per_second"].as_f64().expect("a rate");
        assert!((of(name, "rate", "measured") * 1_048_576.0 / rate - 1.0).abs() < 1e-9, "{name:?}");
        for figure in ["gap", "duty", "busy"] {
            let key = if figure == "gap" { "gap_s" } else { figure };
            assert_eq!(of(name, figure, "measured"), stage[key].as_f64().expect("a figure"), "{name:?}");
            assert!(of(name, figure, "predicted") >= 0.0);
        }
        assert!(of(name, "rate", "predicted") > 0.0 && of(name, "streams", "predicted") == of(name, "streams", "measured"));
    }
    assert_eq!(report["stages"].as_array().map(Vec::len), Some(3));
    let (page, _) = page(&place, "out/report.html");
    assert!(page.contains("Plan and run: same") && page.contains("measured / predicted"));
    assert_eq!(rows(&place, "out/compared.csv").len(), figures.len());
    // Another amount of bytes takes another time.
    let other = String::from_utf8(place.read("same.toml")).expect("text").replace(&format!("total = \"{bytes} B\""), "total = \"9 MB\"");
    place.write("other.toml", other);
    let text = place.good(&["migrate", "report", "m", "--plan=other.toml"]).text();
    assert!(text.contains("The scenario has 8.6 MiB, and the run moved 2.9 MiB: times can't be compared"), "{text}");
    assert!(text.contains("predicted") && text.contains("measured") && text.contains("MiB/s"), "{text}");
    let changed = place.good(&["migrate", "report", "m", "--plan=same.toml", "--set=files.total=9 MB"]).text();
    assert!(changed.contains("The scenario has 8.6 MiB, and the run moved 2.9 MiB: times can't be compared"), "{changed}");
    place.run(&["migrate", "report", "m", "--set=files.total=9 MB"]).fails_with(2, "--plan");
    place.run(&["migrate", "report", "m", "--plan=same.toml", "--set=files.totals=9 MB"]).fails_with(2, "totals");
    place.write("wrong.toml", b"[files]\nsize = 3\n");
    place.run(&["migrate", "report", "m", "--plan=wrong.toml"]).fails_with(2, "wrong.toml");
}

#[test]
fn a_report_of_a_run_that_goes_on_has_its_projected_end() {
    let place = Sandbox::empty();
    with_source(&place, 10);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    // As a run leaves it that goes on: at 10:00, an hour is left, or one to three.
    let mut progress: serde_json::Value = serde_json::from_slice(&place.read("m/progress.json")).expect("JSON");
    let fields = progress.as_object_mut().expect("an object");
    fields.remove("ended_at").expect("it ended");
    fields.insert("at".to_owned(), 1_800_007_200.into());
    fields.insert("left_s".to_owned(), 3_600.into());
    fields.insert("left_interval_s".to_owned(), serde_json::json!([3_600.0, 10_800.0]));
    place.write("m/progress.json", progress.to_string());
    let report = || place.good(&["migrate", "report", "m", "--out=out"]).text();
    let end = "Projected end: 2027-01-15 11:00:00 UTC (95 %: 2027-01-15 11:00:00 to 2027-01-15 13:00:00).";
    assert!(!report().contains("Projected end"), "no run is going on");
    let lock = fs::File::create(place.path("m/lock")).expect("a lock");
    lock.try_lock().expect("it is free");
    let text = report();
    assert!(text.contains(end) && text.contains("The last run so far"), "{text}");
    let (page, _) = page(&place, "out/report.html");
    assert!(page.contains(end) && page.contains("A run is going on"), "{page}");
    drop(lock);
    assert!(!report().contains("Projected end"));
    // The next run knows that this one was killed.
    place.good(&["migrate", "run", "m"]);
    let progress: serde_json::Value = serde_json::from_slice(&place.read("m/progress.json")).expect("JSON");
    assert_eq!((&progress["ended_at"], &progress["left_s"]), (&1_800_007_200.into(), &3_600.0.into()));
    let certificate = place.read("m/certificate.json");
    for damaged in [&certificate[..certificate.len() / 2], b"\xff"] {
        place.write("m/certificate.json", damaged);
        let says = "certificate.json can't be read: ";
        let text = report();
        assert!(text.contains(says) && place.path("out/report.html").exists(), "{text}");
        assert!(String::from_utf8(place.read("out/report.html")).expect("text").contains(says));
    }
    fs::remove_file(place.path("m/certificate.json")).expect("removed");
    assert!(!report().contains("certificate"));
    place.write("m/progress.json", b"{");
    let text = report();
    assert!(text.contains("progress.json can't be read") && !place.path("out/streams.csv").exists(), "{text}");
}

#[test]
fn a_page_has_the_first_thousand_failed_files_and_counts_the_others() {
    let place = Sandbox::empty();
    with_source(&place, 3);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    let sums: String = (0..1_005).map(|number| format!("{}  nowhere/{number}\n", md5(b""))).collect();
    place.write("sums", sums);
    place.run(&["migrate", "inventory", "m", "--checksums=sums"]).fails_with(1, "");
    place.run(&["migrate", "report", "m", "--out=out"]).fails_with(1, "");
    let (page, _) = page(&place, "out/report.html");
    assert_eq!(page.matches("<td>nowhere/").count(), 1_000);
    assert!(page.contains("<p>1,005 files, 0 B.</p>") && page.contains("<p>5 more failed.</p>"), "{page}");
}

#[test]
fn a_run_without_work_keeps_the_journal_and_notices_an_absent_destination() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    with_source(&place, 30);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    let (journal, certificate) = (place.read("m/journal"), place.read("m/certificate.json"));
    let again = place.good(&["migrate", "run", "m", "--json"]).json();
    assert_eq!(again["migrated"], 0);
    assert!(place.read("m/journal") == journal && !place.path("m/journal.new").exists());
    place.good(&["migrate", "replay", "m"]);
    let certificate_again = place.read("m/certificate.json");
    assert_eq!(certificate_again.len(), certificate.len());
    // Nothing is left to be migrated, but whether it is still there can't be said.
    fs::rename(place.path("destination"), place.path("away")).expect("renamed");
    place.run(&["migrate", "run", "m"]).fails_with(1, "whether the destination still has it");
    fs::create_dir(place.path("destination")).expect("made");
    place.run(&["migrate", "run", "m"]).fails_with(1, "none of 20 files that were migrated earlier is at the destination");
    assert!(place.read("m/certificate.json") == certificate_again);
    fs::remove_dir(place.path("destination")).expect("removed");
    fs::rename(place.path("away"), place.path("destination")).expect("renamed");
    place.good(&["migrate", "run", "m"]);
}

#[test]
fn a_scenario_of_a_limited_migration_has_its_limits() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    with_source(&place, 30);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    place.good(&["migrate", "run", "m"]);
    place.good(&["migrate", "report", "m", "--scenario=free.toml"]);
    assert!(!String::from_utf8(place.read("free.toml")).expect("text").contains("limits"));
    let limits = format!("[rules]\nlimits = [{}]\n", ["\"1 kB/s\""; 24].join(", "));
    fs::write(place.path("m/migration.toml"), settings(&place, "m") + &limits).expect("written");
    place.good(&["migrate", "report", "m", "--scenario=limited.toml"]);
    let seconds = |scenario| place.good(&["migrate", "plan", scenario, "--json"]).json()["seconds"].as_f64().expect("seconds");
    assert!(seconds("limited.toml") > 2.0 * seconds("free.toml"));
}

#[test]
fn limits_that_let_nothing_be_read_are_refused() {
    let place = Sandbox::empty();
    let never = format!("rules.limits=[{}]", ["\"0 B/s\""; 24].join(", "));
    place.write("s.toml", "[files]\ntotal = \"1 GB\"\n");
    place.run(&["migrate", "plan", "s.toml", "--set", &never]).fails_with(2, "at least 1 B/s in some hour");
    with_source(&place, 1);
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    let rules = format!("[rules]\n{}\n", never.trim_start_matches("rules."));
    fs::write(place.path("m/migration.toml"), settings(&place, "m") + &rules).expect("written");
    place.run(&["migrate", "run", "m"]).fails_with(2, "at least 1 B/s in some hour");
}

#[test]
fn what_is_no_file_or_no_newest_version_is_counted() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    with_source(&place, 5);
    std::os::unix::fs::symlink("0", place.path("source/link")).expect("a link");
    fs::create_dir_all(place.path("source/empty/one")).expect("made");
    place.write("source/1/.fulgurite-part-x", b"part");
    place.good(&["migrate", "init", "m", "--from=source", "--to=destination"]);
    let said = place.good(&["migrate", "run", "m"]).text();
    assert!(
        said.contains("Left out, since only files are migrated: 1 symbolic link, 1 empty folder, 1 entry with the name of an"),
        "{said}"
    );
    let certificate: serde_json::Value = serde_json::from_slice(&place.read("m/certificate.json")).expect("JSON");
    let left_out = serde_json::json!({
        "symbolic_links": 1, "empty_folders": 1, "special_files": 0, "unfinished_writes": 1, "older_versions": 0
    });
    assert_eq!(certificate["left_out"], left_out);
    fs::remove_file(place.path("source/1/.fulgurite-part-x")).expect("removed");
    // An archive also has older versions.
    place.good(&["put", "source"]);
    place.write("source/1/1", b"changed");
    place.good(&["put", "source"]);
    fs::create_dir(place.path("new")).expect("made");
    place.good(&["migrate", "init", "old", "--from=archive:a", "--to=new"]);
    let listed = place.good(&["migrate", "inventory", "old", "--json"]).json();
    assert_eq!((&listed["listed"], &listed["left_out"]["older_versions"]), (&5.into(), &1.into()), "{listed}");
    assert_eq!((&listed["left_out"]["symbolic_links"], &listed["left_out"]["empty_folders"]), (&1.into(), &1.into()), "{listed}");
    let said = place.good(&["migrate", "inventory", "old"]).text();
    assert!(said.contains("1 symbolic link, 1 empty folder, 1 older version of an object."), "{said}");
}

#[test]
fn what_is_lost_at_the_destination_archive_is_written_again() {
    let place = Sandbox::new(3, &["--set=2+1"]);
    let files = with_source(&place, 12);
    place.good(&["migrate", "init", "m", "--from=source", "--to=archive:a"]);
    fs::write(place.path("m/migration.toml"), settings(&place, "m") + "[rules]\nretry_after = \"1 s\"\n").expect("written");
    place.good(&["migrate", "run", "m", "--no-flush"]);
    // A part of staging, which has the only copy, is overwritten.
    let segment = fs::read_dir(place.path("a/staging")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let segment = segment
        .filter(|path| path.extension().is_some_and(|end| end == "segment"))
        .max_by_key(|path| fs::metadata(path).expect("a file").len());
    let file = fs::OpenOptions::new().write(true).open(segment.expect("a segment")).expect("a segment");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0; 5_000], 1_500_000).expect("written");
    let says = |command: &[&str], text: &str| {
        let ran = place.run(command);
        let all = format!("{}{}", ran.text(), ran.err);
        assert!(ran.status == 1 && all.contains(text), "{ran:?}");
    };
    // The run that writes everything to platters says what it left out.
    says(&["migrate", "run", "m"], "1 version could not be read from the archive's staging");
    assert!(!place.path("m/certificate.json").exists());
    says(&["verify"], "1 version is lost");
    says(&["migrate", "scan", "m"], "1 file is wrong");
    says(&["migrate", "run", "m"], "Migrated 1 file");
    place.good(&["migrate", "scan", "m"]);
    // The lost version stays until it is removed.
    place.good(&["rm", "3/7", "--version=1"]);
    place.good(&["migrate", "run", "m"]);
    assert!(place.path("m/certificate.json").exists());
    // Now platters are lost, of a set with all files.
    for store in fs::read_dir(place.path("")).expect("a folder").map(|entry| entry.expect("an entry").path().join("platters")) {
        for platter in fs::read_dir(store).into_iter().flatten().map(|entry| entry.expect("an entry").path()) {
            fs::OpenOptions::new().write(true).open(platter).and_then(|file| file.set_len(100_000)).expect("cut");
        }
    }
    place.write("source/new", b"shows that the archive is there");
    place.good(&["migrate", "inventory", "m"]);
    place.good(&["migrate", "run", "m"]);
    says(&["migrate", "scan", "m"], "wrong or missing. They wait to be migrated again");
    place.good(&["migrate", "run", "m"]);
    place.good(&["migrate", "scan", "m"]);
    place.good(&["get", "--all", "back"]);
    let mut expected = files;
    expected.insert("new".to_owned(), b"shows that the archive is there".to_vec());
    assert!(tree(&place.path("back")) == expected);
}

//! A random walk through what happens to an archive over the years: keys are lost and restored from
//! copies of any age, catalogues are lost or replaced by old copies, disks and staging are
//! unmounted or swapped, and work continues meanwhile. After each step, every answer and exit
//! status is checked against a model.
//!
//! `WALK_SEED=N cargo test -p fulgurite --test cli walking` repeats one walk.

use std::collections::BTreeMap;
use std::fs;

use fulgurite_chance::Xorshift;
use serde_json::Value;

use crate::support::{Ran, Sandbox, noise};

const DISKS: usize = 3;
const STEPS: usize = 24;
const SEEDS: std::ops::Range<u64> = 1..9;

/// An acknowledged version that was not removed.
#[derive(Debug, Clone)]
struct Version {
    name: String,
    number: u64,
    content: Vec<u8>,
}

struct Walk {
    place: Sandbox,
    seed: u64,
    random: Xorshift,
    /// By identifier.
    versions: BTreeMap<String, Version>,
    removed: Vec<String>,
    puts: u64,
    /// Copies of the keys. All of them together have every key.
    exports: Vec<String>,
    catalogues: u64,
    /// The disk at each mount point; `None` if it is empty.
    mounts: [Option<usize>; DISKS],
    /// True if staging is mounted, false if its folder is an empty mount point.
    staging_is_there: bool,
    /// True if the key store has had every key since it was last complete.
    keys_are_complete: bool,
    /// True if the catalogue is neither an old copy nor lost, and the last rebuild saw all disks.
    catalogue_is_current: bool,
    steps: Vec<String>,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let place = Sandbox::new(DISKS, &[]);
        Self {
            place,
            seed,
            random: Xorshift::seeded(seed),
            versions: BTreeMap::new(),
            removed: Vec::new(),
            puts: 0,
            exports: Vec::new(),
            catalogues: 0,
            mounts: std::array::from_fn(Some),
            staging_is_there: true,
            keys_are_complete: true,
            catalogue_is_current: true,
            steps: Vec::new(),
        }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end)
    }

    fn said(&self, what: &str) -> String {
        format!("WALK_SEED={}: {what}, after {:#?}", self.seed, self.steps)
    }

    fn run(&mut self, arguments: &[&str]) -> Ran {
        let ran = self.place.run(arguments);
        self.steps.push(format!("{} -> {}", arguments.join(" "), ran.status));
        assert!([0, 1, 3, 4].contains(&ran.status), "{}: {ran:?}", self.said("an unknown status"));
        assert!(!ran.err.contains("panicked"), "{}: {ran:?}", self.said("a panic"));
        ran
    }

    fn all_is_in_place(&self) -> bool {
        let mounted = self.mounts.iter().enumerate().all(|(at, disk)| *disk == Some(at));
        mounted && self.staging_is_there && self.keys_are_complete && self.catalogue_is_current
    }

    /// The versions in the catalogue, if it can be listed.
    fn listed(&mut self) -> Option<Vec<Value>> {
        let ran = self.place.run(&["ls", "--versions", "--json"]);
        (ran.status == 0).then(|| ran.json_lines())
    }

    fn mount(&mut self, mounts: [Option<usize>; DISKS]) {
        let path = |at: usize| self.place.path(format!("d{}", at + 1));
        let shelf = |disk: usize| self.place.path(format!("shelf{disk}"));
        for (at, disk) in self.mounts.iter().enumerate() {
            match disk {
                Some(disk) => fs::rename(path(at), shelf(*disk)).expect("unmounted"),
                None => fs::remove_dir(path(at)).expect("an empty mount point"),
            }
        }
        for (at, disk) in mounts.iter().enumerate() {
            match disk {
                Some(disk) => fs::rename(shelf(*disk), path(at)).expect("mounted"),
                None => fs::create_dir(path(at)).expect("an empty mount point"),
            }
        }
        self.mounts = mounts;
        self.steps.push(format!("disks are {mounts:?}"));
    }

    fn mount_staging(&mut self, is_there: bool) {
        if is_there == self.staging_is_there {
            return;
        }
        let (folder, shelf) = (self.place.path("a/staging"), self.place.path("staging-disk"));
        if is_there {
            fs::remove_dir(&folder).expect("an empty mount point");
            fs::rename(shelf, folder).expect("mounted");
        } else {
            fs::rename(&folder, shelf).expect("unmounted");
            fs::create_dir(folder).expect("an empty mount point");
        }
        self.staging_is_there = is_there;
        self.steps.push(format!("staging is mounted: {is_there}"));
    }

    fn put(&mut self) {
        let name = format!("tree/{}", self.below(4));
        self.puts += 1;
        let length = [0, 700, 90_000, 400_000][self.below(4)];
        let content = noise(self.seed * 1_000 + self.puts, length);
        self.place.write("source", &content);
        let known: Vec<String> = self.versions.keys().cloned().chain(self.removed.iter().cloned()).collect();
        let flush = self.below(2) == 0;
        let mut arguments = vec!["put", "source", "--name", &name, "--again"];
        arguments.extend(flush.then_some("--flush"));
        let ran = self.run(&arguments);
        if ran.status != 0 {
            assert!(!self.all_is_in_place(), "{}: {ran:?}", self.said("a put failed with all in place"));
        }
        // With --flush, a put can be acknowledged although it can't be written to platters now.
        // While absent stores may hold unknown sets, `ls` exits with 3, and lists what was put.
        let listed = self.place.run(&["ls", "--versions", "--json"]);
        let rows = if [0, 3].contains(&listed.status) { listed.json_lines() } else { Vec::new() };
        let new = rows.iter().find(|row| row["name"] == name.as_str() && !known.iter().any(|id| row["id"] == id.as_str()));
        match new {
            Some(row) => {
                let id = row["id"].as_str().expect("text").to_owned();
                let number = row["version"].as_u64().expect("a number");
                self.versions.insert(id, Version { name, number, content });
            }
            None => assert_ne!(ran.status, 0, "{}: {ran:?}", self.said("what was put is not listed")),
        }
        if ran.status == 0 {
            let export = format!("export{}", self.exports.len());
            let exported = self.run(&["keys", "export", "--plain", &export]);
            assert_eq!(exported.status, 0, "{}: {exported:?}", self.said("keys were not exported"));
            self.exports.push(export);
        } else if new.is_some() {
            // No copy contains its key, so the key store must not be lost before the next export.
            let export = format!("export{}", self.exports.len());
            self.place.good(&["keys", "export", "--plain", &export]);
            self.exports.push(export);
        }
    }

    fn remove(&mut self) {
        let Some(rows) = self.listed() else { return };
        let index = self.below(rows.len().max(1));
        let Some(row) = rows.get(index) else { return };
        let (name, id) = (row["name"].as_str().expect("text").to_owned(), row["id"].as_str().expect("text").to_owned());
        if self.run(&["rm", &name, "--id", &id]).status == 0 {
            self.versions.remove(&id);
            self.removed.push(id);
        }
    }

    fn lose_keys(&mut self) {
        if self.exports.is_empty() {
            return;
        }
        for file in ["keys.db", "keys.db-wal", "keys.db-shm"] {
            let _ = fs::remove_file(self.place.path(format!("a/{file}")));
        }
        let index = self.below(self.exports.len());
        let export = self.exports[index].clone();
        self.run(&["keys", "import", &export]);
        self.keys_are_complete = false;
    }

    /// Replaces the catalogue by `bytes`, if given.
    fn replace_catalogue(&mut self, bytes: Option<Vec<u8>>) {
        for file in ["catalogue.db", "catalogue.db-wal", "catalogue.db-shm"] {
            let _ = fs::remove_file(self.place.path(format!("a/{file}")));
        }
        match bytes {
            Some(bytes) => self.place.write("a/catalogue.db", bytes),
            None => self.steps.push("the catalogue is lost".to_owned()),
        }
        self.catalogue_is_current = false;
    }

    fn rebuild(&mut self, without_unseen: bool) {
        let arguments: &[&str] = if without_unseen { &["catalogue", "rebuild", "--without-unseen"] } else { &["catalogue", "rebuild"] };
        let ran = self.run(arguments);
        let sees_all = self.mounts.iter().all(Option::is_some) && self.staging_is_there;
        if sees_all && [0, 1].contains(&ran.status) && !ran.err.contains("fulgurite:") {
            self.catalogue_is_current = true;
        } else if ran.status == 0 {
            panic!("{}: {ran:?}", self.said("a rebuild that didn't see all disks claims that all is well"));
        }
    }

    fn step(&mut self) {
        match self.below(16) {
            0..=3 => self.put(),
            4 => self.remove(),
            5 => drop(self.run(&["flush"])),
            6 => self.lose_keys(),
            7 => {
                let copies: Vec<&String> = self.exports.iter().collect();
                let mut arguments = vec!["keys", "import"];
                arguments.extend(copies.iter().map(|copy| copy.as_str()));
                if arguments.len() > 2 {
                    let arguments: Vec<String> = arguments.into_iter().map(str::to_owned).collect();
                    self.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
                }
            }
            8 => {
                self.catalogues += 1;
                fs::copy(self.place.path("a/catalogue.db"), self.place.path(format!("old{}", self.catalogues))).ok();
                self.steps.push("the catalogue is copied".to_owned());
            }
            9 if self.catalogues > 0 => {
                let old = format!("old{}", 1 + self.below(self.catalogues as usize));
                if let Ok(bytes) = fs::read(self.place.path(&old)) {
                    self.steps.push(format!("the catalogue is {old}"));
                    self.replace_catalogue(Some(bytes));
                }
            }
            10 => {
                let at = self.below(DISKS);
                let mut mounts = self.mounts;
                let away = (0..DISKS).find(|disk| !mounts.contains(&Some(*disk)));
                mounts[at] = if mounts[at].is_some() { None } else { away };
                self.mount(mounts);
            }
            11 => {
                let (one, other) = (self.below(DISKS), self.below(DISKS));
                let mut mounts = self.mounts;
                mounts.swap(one, other);
                self.mount(mounts);
            }
            12 => self.rebuild(false),
            13 => drop(self.run(&["scrub"])),
            14 => self.mount_staging(!self.staging_is_there),
            _ => self.heal(),
        }
    }

    /// Puts everything back in its place; then nothing may be missing.
    fn heal(&mut self) {
        self.mount(std::array::from_fn(Some));
        self.mount_staging(true);
        if !self.exports.is_empty() {
            let exports = self.exports.clone();
            let mut arguments = vec!["keys", "import"];
            arguments.extend(exports.iter().map(String::as_str));
            self.run(&arguments);
        }
        self.rebuild(false);
        // The tombstones found exclude the keys of removed versions.
        self.keys_are_complete = true;
        self.run(&["scrub"]);
    }

    /// Checks every answer against the model.
    fn check(&mut self) {
        let verify: &[&str] = if self.below(2) == 0 { &["verify"] } else { &["verify", "--objects"] };
        let verified = self.run(verify);
        let in_place = self.all_is_in_place();
        if in_place {
            assert_eq!(verified.status, 0, "{}: {verified:?}", self.said("an alarm with all in place"));
            let status = self.run(&["status"]);
            assert_eq!(status.status, 0, "{}: {status:?}", self.said("an alarm of `status` with all in place"));
        }
        let Some(rows) = self.listed() else {
            assert!(!in_place, "{}", self.said("no list with all in place"));
            assert_ne!(verified.status, 0, "{}: {verified:?}", self.said("all is well without a catalogue"));
            return;
        };
        for row in &rows {
            let (id, name) = (row["id"].as_str().expect("text"), row["name"].as_str().expect("text"));
            let number = row["version"].as_u64().expect("a number");
            let Some(version) = self.versions.get(id) else { continue };
            assert_eq!((name, number), (version.name.as_str(), version.number), "{}", self.said("a version was renumbered"));
            let same_number = rows.iter().filter(|other| other["name"] == name && other["version"] == number).count();
            if same_number > 1 {
                continue;
            }
            let read = self.place.run(&["get", name, "-", "--version", &number.to_string()]);
            match read.status {
                0 => assert!(read.out == version.content, "{}", self.said("wrong bytes")),
                _ => assert_ne!(verified.status, 0, "{}: {read:?}", self.said("all is well, and an object can't be read")),
            }
        }
        if verified.status == 0 {
            for (id, version) in &self.versions {
                let is_listed = rows.iter().any(|row| row["id"] == id.as_str());
                assert!(is_listed, "{}: {} {id}", self.said("all is well, and a version is not listed"), version.name);
            }
        }
        if in_place {
            for id in &self.removed {
                assert!(rows.iter().all(|row| row["id"] != id.as_str()), "{}", self.said("what was removed is back"));
            }
        }
    }
}

#[test]
fn every_answer_is_true_with_missing_or_stale_parts() {
    let seeds = match std::env::var("WALK_SEED") {
        Ok(seed) => seed.parse().map(|seed| seed..seed + 1).expect("a number"),
        Err(_) => SEEDS,
    };
    std::thread::scope(|scope| {
        for seed in seeds {
            scope.spawn(move || {
                let mut walk = Walk::new(seed);
                walk.put();
                walk.check();
                for _ in 0..STEPS {
                    walk.step();
                    walk.check();
                }
                walk.heal();
                walk.check();
            });
        }
    });
}

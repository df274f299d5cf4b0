//! Runs the program in a temporary folder with an archive and its disks.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) use fulgurite_chance::noise;
use serde_json::Value;

/// The result of running the program.
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) out: Vec<u8>,
    pub(crate) err: String,
}

impl std::fmt::Debug for Ran {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let out = String::from_utf8_lossy(&self.out);
        write!(f, "status {}, said on standard output:\n{out}\nand on standard error:\n{}", self.status, self.err)
    }
}

impl Ran {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.out.clone()).expect("text")
    }

    /// The lines of standard output, each a JSON value.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.text().lines().map(|line| serde_json::from_str(line).expect(line)).collect()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text()).expect("one JSON value")
    }

    /// Panics unless the program exited with `status` and wrote `says` to standard error.
    #[track_caller]
    pub(crate) fn fails_with(&self, status: i32, says: &str) {
        assert_eq!(self.status, status, "{self:?}");
        assert!(self.err.contains(says), "expected {says:?} on standard error, found: {}", self.err);
    }
}

/// A temporary folder where commands run: `a` is the archive, `d1`, `d2` … are its disks.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
}

impl Sandbox {
    /// A folder without an archive.
    pub(crate) fn empty() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder with an archive on `stores` disks.
    pub(crate) fn new(stores: usize, options: &[&str]) -> Self {
        let place = Self::empty();
        place.init("a", "d", stores, options);
        place
    }

    pub(crate) fn init(&self, archive: &str, disks: &str, stores: usize, options: &[&str]) {
        let stores: Vec<String> = (1..=stores).map(|number| format!("--store={disks}{number}")).collect();
        let mut arguments = vec!["init", archive];
        arguments.extend(stores.iter().map(String::as_str));
        arguments.extend(options);
        self.good(&arguments);
    }

    pub(crate) fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.folder.path().join(below)
    }

    pub(crate) fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("below the folder")).expect("folders");
        fs::write(path, bytes).expect("written");
    }

    pub(crate) fn read(&self, name: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fulgurite"));
        command.current_dir(self.folder.path()).env("FULGURITE_ARCHIVE", "a").env_remove("CARGO").env_remove("RUST_BACKTRACE");
        command
    }

    pub(crate) fn run(&self, arguments: &[impl AsRef<OsStr>]) -> Ran {
        self.run_with_input(arguments, b"")
    }

    pub(crate) fn run_with_input(&self, arguments: &[impl AsRef<OsStr>], input: &[u8]) -> Ran {
        let mut command = self.command();
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("piped");
        let output = std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program that doesn't read its input closes the pipe.
                let _ = stdin.write_all(input);
            });
            child.wait_with_output().expect("the program ends")
        });
        Ran {
            status: output.status.code().expect("no signal ended it"),
            out: output.stdout,
            err: String::from_utf8(output.stderr).expect("text"),
        }
    }

    /// Runs a command that must exit with 0.
    #[track_caller]
    pub(crate) fn good(&self, arguments: &[impl AsRef<OsStr>]) -> Ran {
        let ran = self.run(arguments);
        assert_eq!(ran.status, 0, "{ran:?}");
        ran
    }

    /// Runs a shell command in this folder.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        let output = Command::new("sh").args(["-c", line]).current_dir(self.folder.path()).env_remove("CARGO").output().expect("a shell");
        Ran {
            status: output.status.code().expect("no signal ended it"),
            out: output.stdout,
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Segments in the staging folder of archive `a`.
    pub(crate) fn segments(&self) -> Vec<PathBuf> {
        let listed = fs::read_dir(self.path("a/staging")).expect("staging").map(|entry| entry.expect("an entry").path());
        let mut segments: Vec<_> = listed.filter(|path| path.extension().is_some_and(|extension| extension == "segment")).collect();
        segments.sort();
        segments
    }

    /// The platters that `platters --json` lists, sorted by set and position.
    pub(crate) fn platters(&self) -> Vec<Platter> {
        let field = |row: &Value, name: &str| row[name].as_str().expect("text").to_owned();
        let rows = self.run(&["platters", "--json"]).json_lines();
        rows.iter()
            .map(|row| {
                let (id, store) = (field(row, "platter"), field(row, "store"));
                Platter {
                    file: self.path(format!("{store}/platters/{id}.platter")),
                    id,
                    store,
                    position: row["position"].as_u64().expect("a number"),
                }
            })
            .collect()
    }

    /// Everything in some folders, to check that nothing changed.
    pub(crate) fn fingerprint(&self, folders: &[&str]) -> BTreeMap<PathBuf, Thing> {
        folders
            .iter()
            .flat_map(|folder| tree(&self.path(folder)).into_iter().map(move |(name, thing)| (Path::new(folder).join(name), thing)))
            .collect()
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Platter {
    pub(crate) id: String,
    pub(crate) store: String,
    pub(crate) position: u64,
    pub(crate) file: PathBuf,
}

/// An entry of a folder, with the properties that an archive keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Thing {
    File { content: Vec<u8>, mode: u32, modified: (i64, i64) },
    Link(PathBuf),
    EmptyFolder { mode: u32, modified: (i64, i64) },
}

/// Everything in a folder, by relative path.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, Thing> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries: Vec<_> = fs::read_dir(&folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
        let metadata = fs::symlink_metadata(&folder).expect("there");
        if entries.is_empty() && folder != root {
            let below = folder.strip_prefix(root).expect("below").to_owned();
            found.insert(below, Thing::EmptyFolder { mode: metadata.mode() & 0o7777, modified: (metadata.mtime(), metadata.mtime_nsec()) });
        }
        for path in entries {
            let metadata = fs::symlink_metadata(&path).expect("there");
            let thing = if metadata.is_dir() {
                folders.push(path);
                continue;
            } else if metadata.is_symlink() {
                Thing::Link(fs::read_link(&path).expect("a link"))
            } else {
                Thing::File {
                    content: fs::read(&path).expect("readable"),
                    mode: metadata.mode() & 0o7777,
                    modified: (metadata.mtime(), metadata.mtime_nsec()),
                }
            };
            found.insert(path.strip_prefix(root).expect("below").to_owned(), thing);
        }
    }
    found
}

/// A name from raw bytes.
pub(crate) fn name(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

//! The tests of the S3 service with common clients. They are installed below the target directory,
//! not on the machine; only apt's lists of packages may be updated.
//!
//! ```text
//! target/xtask-clients/
//!     venv/     pip install -r tests/clients/requirements.txt   AWS CLI, boto3, s3cmd; pytest
//!     go/bin/   go build of tests/clients/go/*                  rclone, s5cmd, the client of MinIO
//!     debian/   apt-get download, dpkg-deb --extract            the rclone of Debian
//! ```
//!
//! If a client can't be installed, its tests use one on the path. Without one they are skipped,
//! which in CI is a failure.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session};

const FOLDER: &str = "tests/clients";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";
/// Names of programs and of their modules in `tests/clients/go`, with the package to build.
const GO: [(&str, &str); 3] = [("rclone", "."), ("s5cmd", "github.com/peak/s5cmd/v2"), ("mc", "github.com/minio/mc")];
const DEBIAN: &str = "rclone";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        let clients = built.target.join("xtask-clients");
        let python = s3::environment(session, &clients.join("venv"), REQUIREMENTS)?;
        for (name, package) in GO {
            report_setup(name, go(&session.root.join(FOLDER).join("go").join(name), &clients.join("go"), name, package));
        }
        report_setup(DEBIAN, debian(&clients));
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            // The long run is only for manual use.
            command.env("FULGURITE_CLIENTS", &clients).env_remove("FULGURITE_LONG");
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// Builds rclone, unless that was done before. `None` if it can't be built.
pub(super) fn rclone(session: &Session, target: &Path) -> Option<PathBuf> {
    let (name, package) = GO[0];
    go_program(session, target, FOLDER, name, package)
}

/// Builds a Go program from its module in `tests/`, unless that was done before. `None` if it can't
/// be built.
pub(super) fn go_program(session: &Session, target: &Path, tests: &str, name: &str, package: &str) -> Option<PathBuf> {
    let folder = target.join("xtask-clients/go");
    report_setup(name, go(&session.root.join(tests).join("go").join(name), &folder, name, package));
    let program = folder.join("bin").join(name);
    program.is_file().then_some(program)
}

/// Prints why a client is missing; its tests use one on the path, or skip themselves.
pub(super) fn report_setup(name: &str, result: Result<(), Missing>) {
    if let Err(why) = result {
        println!("can't install {name}: {why}");
    }
}

/// Why a client is missing.
#[derive(Debug)]
pub(super) enum Missing {
    File { path: PathBuf, source: io::Error },
    Program { name: String, source: io::Error },
    Failed { name: String },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Program { name, source } => write!(f, "can't start {name}: {source}"),
            Self::Failed { name } => write!(f, "{name} failed; see its output above"),
        }
    }
}

/// Builds a Go program in a copy of its module, unless it was already built from the same module.
/// Go checks the checksums of all dependencies and writes them to the copy, so the repository
/// doesn't contain them.
fn go(module: &Path, folder: &Path, name: &str, package: &str) -> Result<(), Missing> {
    let work = folder.join(name);
    let mut sources = Vec::new();
    let mut wanted = String::new();
    for file in ["go.mod", "main.go"] {
        let path = module.join(file);
        match fs::read_to_string(&path) {
            Ok(text) => {
                wanted += &text;
                sources.push((work.join(file), text));
            }
            // A program built unchanged has no main.go here.
            Err(error) if error.kind() == io::ErrorKind::NotFound && file == "main.go" => {}
            Err(source) => return Err(Missing::File { path, source }),
        }
    }
    let program = folder.join("bin").join(name);
    if program.is_file() && s3::was_made_for(&work, &wanted) {
        return Ok(());
    }
    println!("building {name}, which may take two minutes: {}", program.display());
    // If the build fails, the tests must not use what was built from an earlier module.
    match fs::remove_file(&program) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => return Err(Missing::File { path: program, source }),
        _ => {}
    }
    empty(&work)?;
    for (path, text) in sources {
        fs::write(&path, text).map_err(|source| Missing::File { path, source })?;
    }
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(&program).arg(package).current_dir(&work);
    // Use the installed Go, and only this module.
    build.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    succeed(build)?;
    s3::note_made_for(&work, &wanted);
    Ok(())
}

/// Downloads a Debian package and unpacks it next to the other clients. Installing it would change
/// the machine, and require root.
fn debian(clients: &Path) -> Result<(), Missing> {
    let (unpacked, fetched) = (clients.join("debian"), clients.join("debian-package"));
    if unpacked.join("usr/bin").join(DEBIAN).is_file() {
        return Ok(());
    }
    empty(&fetched)?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        // Apt's sandbox user can't write to our folder.
        apt.args(["--quiet", "--option", "APT::Sandbox::User=root"]).args(arguments).current_dir(&fetched);
        succeed(apt)
    };
    // A new machine has no package lists yet.
    apt(&["download", DEBIAN]).or_else(|_| apt(&["update"]).and_then(|()| apt(&["download", DEBIAN])))?;
    let entries = fs::read_dir(&fetched).map_err(|source| Missing::File { path: fetched.clone(), source })?;
    let package = entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let Some(package) = package else { return Err(Missing::Failed { name: "apt-get".to_owned() }) };
    // Moved at the end, so that an interrupted extraction isn't taken for complete.
    let whole = fetched.join("whole");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(&whole);
    succeed(unpack)?;
    let _ = fs::remove_dir_all(&unpacked);
    fs::rename(&whole, &unpacked).map_err(|source| Missing::File { path: unpacked, source })
}

/// Creates an empty folder, replacing an existing one.
pub(super) fn empty(folder: &Path) -> Result<(), Missing> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|source| Missing::File { path: folder.to_owned(), source })
}

pub(super) fn succeed(mut command: Command) -> Result<(), Missing> {
    let name = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(Missing::Failed { name }),
        Err(source) => Err(Missing::Program { name, source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_built_from_the_same_module_is_not_rebuilt() {
        let folder = std::env::temp_dir().join(format!("xtask-clients-{}", std::process::id()));
        let (module, bin, work) = (folder.join("module"), folder.join("go/bin"), folder.join("go/client"));
        [&module, &bin, &work].into_iter().for_each(|made| fs::create_dir_all(made).unwrap());
        fs::write(module.join("go.mod"), "module client\n").unwrap();
        fs::write(bin.join("client"), "").unwrap();
        s3::note_made_for(&work, "module client\n");
        go(&module, &folder.join("go"), "client", "no-such-package-anywhere").unwrap();
        // Building fails, because no package of that name exists.
        fs::write(module.join("main.go"), "package main\n").unwrap();
        assert!(go(&module, &folder.join("go"), "client", "no-such-package-anywhere").is_err());
        assert!(!bin.join("client").exists(), "the tests would use the program of the earlier module");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_error_for_a_missing_module_names_its_path() {
        let why = go(Path::new("no-such-module"), Path::new("no-such-folder"), "client", ".").unwrap_err();
        assert!(why.to_string().contains("no-such-module"), "{why}");
    }
}

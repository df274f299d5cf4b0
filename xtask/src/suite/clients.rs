//! The tests of the S3 service with the clients that people have. Each is had where the others aren't touched, and nothing of the machine is.
//!
//! ```text
//! target/xtask-clients/
//!     venv/     pip install -r tests/clients/requirements.txt    the AWS command line, boto3, s3cmd; pytest
//!     go/bin/   go build of tests/clients/go/*                   rclone, s5cmd, the client of MinIO
//!     debian/   apt-get download, dpkg-deb --extract             the rclone of Debian
//! ```
//!
//! A client that can't be had here is skipped by its tests, which in CI is a failure.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::s3::{self, Built};
use super::{Outcome, Session};

const FOLDER: &str = "tests/clients";
const REQUIREMENTS: &str = "tests/clients/requirements.txt";
/// Names of programs and of their modules in `tests/clients/go`, and what of them is built.
const GO: [(&str, &str); 3] = [("rclone", "."), ("s5cmd", "github.com/peak/s5cmd/v2"), ("mc", "github.com/minio/mc")];
const DEBIAN: &str = "rclone";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = Built::find(session)?;
        let clients = built.target.join("xtask-clients");
        let python = s3::environment(session, &clients.join("venv"), REQUIREMENTS)?;
        for (name, package) in GO {
            told(name, go(&session.root.join(FOLDER).join("go").join(name), &clients.join("go"), name, package));
        }
        told(DEBIAN, debian(&clients));
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            // Its long run is for those who ask for it by hand.
            command.env("FULGURITE_CLIENTS", &clients).env_remove("FULGURITE_LONG");
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// Says why a client isn't here; its tests do the rest.
fn told(name: &str, had: Result<(), Missing>) {
    if let Err(why) = had {
        println!("{name} can't be had: {why}");
    }
}

/// Why a client isn't here.
#[derive(Debug)]
enum Missing {
    File { path: PathBuf, source: io::Error },
    Program { name: String, source: io::Error },
    Failed { name: String },
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Program { name, source } => write!(f, "{name} can't be started: {source}"),
            Self::Failed { name } => write!(f, "{name} failed; what it said stands above"),
        }
    }
}

/// Builds a program of Go in a copy of its module, unless it was built from this: the sums of all that it brings are checked and
/// written there, and not kept here.
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
            // A program that is built as it is has no source here.
            Err(error) if error.kind() == io::ErrorKind::NotFound && file == "main.go" => {}
            Err(source) => return Err(Missing::File { path, source }),
        }
    }
    let program = folder.join("bin").join(name);
    if program.is_file() && s3::was_made_for(&work, &wanted) {
        return Ok(());
    }
    println!("{name} is built, which may take two minutes: {}", program.display());
    empty(&work)?;
    for (path, text) in sources {
        fs::write(&path, text).map_err(|source| Missing::File { path, source })?;
    }
    let mut build = Command::new("go");
    build.args(["build", "-mod=mod", "-trimpath", "-o"]).arg(&program).arg(package).current_dir(&work);
    // The Go that is here, and the module alone.
    build.env("GOTOOLCHAIN", "local").env("GOWORK", "off");
    succeed(build)?;
    s3::note_made_for(&work, &wanted);
    Ok(())
}

/// Fetches a package of Debian and unpacks it beside the others; installing it would change the machine, and take its administrator.
fn debian(clients: &Path) -> Result<(), Missing> {
    let (unpacked, fetched) = (clients.join("debian"), clients.join("debian-package"));
    if unpacked.join("usr/bin").join(DEBIAN).is_file() {
        return Ok(());
    }
    empty(&fetched)?;
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet").args(arguments).current_dir(&fetched);
        succeed(apt)
    };
    // A machine that is new has no lists yet.
    apt(&["download", DEBIAN]).or_else(|_| apt(&["update"]).and_then(|()| apt(&["download", DEBIAN])))?;
    let entries = fs::read_dir(&fetched).map_err(|source| Missing::File { path: fetched.clone(), source })?;
    let package = entries.filter_map(|entry| Some(entry.ok()?.path())).find(|path| path.extension().is_some_and(|end| end == "deb"));
    let Some(package) = package else { return Err(Missing::Failed { name: "apt-get".to_owned() }) };
    // Moved at the end, so that what was interrupted isn't taken for whole.
    let whole = fetched.join("whole");
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(&whole);
    succeed(unpack)?;
    let _ = fs::remove_dir_all(&unpacked);
    fs::rename(&whole, &unpacked).map_err(|source| Missing::File { path: unpacked, source })
}

/// Makes the folder, in place of what may be there.
fn empty(folder: &Path) -> Result<(), Missing> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(|source| Missing::File { path: folder.to_owned(), source })
}

fn succeed(mut command: Command) -> Result<(), Missing> {
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
    fn a_program_that_was_built_from_the_same_module_is_not_built_again() {
        let folder = std::env::temp_dir().join(format!("xtask-clients-{}", std::process::id()));
        let (module, bin, work) = (folder.join("module"), folder.join("go/bin"), folder.join("go/client"));
        [&module, &bin, &work].into_iter().for_each(|made| fs::create_dir_all(made).unwrap());
        fs::write(module.join("go.mod"), "module client\n").unwrap();
        fs::write(bin.join("client"), "").unwrap();
        s3::note_made_for(&work, "module client\n");
        go(&module, &folder.join("go"), "client", "no-such-package-anywhere").unwrap();
        // Building it takes its package, and there is none of that name.
        fs::write(module.join("main.go"), "package main\n").unwrap();
        assert!(go(&module, &folder.join("go"), "client", "no-such-package-anywhere").is_err());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_module_that_isnt_there_is_missing_by_its_path() {
        let why = go(Path::new("no-such-module"), Path::new("no-such-folder"), "client", ".").unwrap_err();
        assert!(why.to_string().contains("no-such-module"), "{why}");
    }
}

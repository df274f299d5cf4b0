//! The tests of the audit's places against real servers: OpenSSH, WsgiDAV, rclone's S3 server,
//! OpenStack Swift, the emulators of Azure and Google, and the program's own.
//!
//! The OpenSSH server is installed if the step runs as root and apt is there. WsgiDAV and Swift go
//! into a virtual environment below the target directory, Azurite into a folder of Node packages
//! there; rclone is the one that the step `clients` builds.

use std::path::Path;
use std::process::Stdio;

use super::cargo::cargo;
use super::program;
use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, clients, debian, npm};

const FOLDER: &str = "tests/audit";
const REQUIREMENTS: &str = "tests/audit/requirements.txt";
const SERVER: &str = "/usr/lib/openssh/sftp-server";
const GCS: &str = "fake-gcs-server";
const AZURITE: &str = "node_modules/azurite/dist/src/blob/main.js";
const PACKAGES: [&str; 2] = ["openssh-server", "openssh-client"];

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        // The flags match those of the step `tests`, so nothing is compiled again.
        let mut example = cargo(session, &["build", "--workspace", "--all-features", "--locked", "--example", "place"]);
        example.stdin(Stdio::null());
        match program::judge(example) {
            Outcome::Passed(_) => {}
            failed => return Err(failed),
        }
        if !Path::new(SERVER).is_file() {
            // If that fails, the tests skip themselves, which in CI is a failure.
            let _ = debian::install(&PACKAGES);
        }
        let python = s3::environment(session, &built.target.join("xtask-audit-venv"), REQUIREMENTS)?;
        let rclone = clients::rclone(session, &built.target);
        let gcs = clients::go_program(session, &built.target, FOLDER, GCS, "github.com/fsouza/fake-gcs-server");
        let azurite = built.target.join("xtask-azurite");
        clients::report_setup("Azurite", npm::install(&session.root.join(FOLDER).join("azurite/package.json"), &azurite, AZURITE));
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            command.env("FULGURITE_PLACE", built.target.join("debug/examples/place")).env("FULGURITE_BIN", &built.program);
            if let Some(rclone) = rclone {
                command.env("FULGURITE_RCLONE", rclone);
            }
            if let Some(gcs) = gcs {
                command.env("FULGURITE_FAKE_GCS", gcs);
            }
            command.env("FULGURITE_AZURITE", azurite.join(AZURITE));
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

//! The tests of `fulgurite ingest` with Apache Kafka and a schema registry, which Maven downloads.
//!
//! ```text
//! target/xtask-ingest/
//!     venv/       pip install -r tests/ingest/requirements.txt
//!     jars/       the broker, as tests/ingest/pom.xml names it
//!     apicurio/   Apicurio Registry
//! ```
//!
//! The program is that of the step `tests`: the released one has no Kafka.

use std::fs;
use std::path::Path;

use super::clients::{Missing, empty};
use super::program::works;
use super::s3::{self, ReleaseBuild};
use super::{Lack, Outcome, Session, cargo, debian, maven, program, setup_error, target_directory};
use crate::tally::Tally;

const FOLDER: &str = "tests/ingest";
const REQUIREMENTS: &str = "tests/ingest/requirements.txt";
const POM: &str = "tests/ingest/pom.xml";

/// Installs what librdkafka is built with, if it is missing.
pub(super) fn headers(_: &Session) -> Outcome {
    let exists = || works("pkg-config", &["--exists", "openssl"]) && works("make", &["--version"]);
    if exists() || debian::install(&["libssl-dev", "make", "pkg-config"]) && exists() {
        return Outcome::Passed(Tally::PASSED);
    }
    Outcome::Skipped(Lack::Headers)
}

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let target = target_directory(session)?;
        let folder = target.join("xtask-ingest");
        let python = s3::environment(session, &folder.join("venv"), REQUIREMENTS)?;
        maven::find().map_err(Outcome::Skipped)?;
        broker(&session.root.join(POM), &folder).map_err(|why| setup_error(format!("can't download Kafka: {why}")))?;
        // With an example, dependencies get the features that tests enable, so the build of
        // `tests` is used. Alone, the program would be built from scratch, with other features.
        let build = ["build", "--workspace", "--all-features", "--locked", "--bin", "fulgurite", "--example", "place"];
        match program::judge(cargo::cargo(session, &build)) {
            Outcome::Passed(_) => {}
            other => return Err(other),
        }
        let built = ReleaseBuild { program: target.join("debug/fulgurite"), target };
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            command.env("KAFKA_JARS", folder.join("jars")).env("APICURIO", folder.join("apicurio")).env_remove("FULGURITE_LONG");
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// Downloads the broker and the registry, unless that was done for the same file.
fn broker(pom: &Path, folder: &Path) -> Result<(), Missing> {
    let wanted = fs::read_to_string(pom).map_err(|source| Missing::File { path: pom.to_owned(), source })?;
    if s3::was_made_for(&folder.join("jars"), &wanted) {
        return Ok(());
    }
    println!("downloading Apache Kafka and Apicurio Registry into {}", folder.display());
    let (jars, apicurio) = (folder.join("jars"), folder.join("apicurio"));
    for made in [&jars, &apicurio] {
        empty(made)?;
    }
    maven::fetch(pom, &["dependency:copy-dependencies", "-DincludeScope=runtime", "-DexcludeGroupIds=io.apicurio"], &jars)?;
    maven::fetch(pom, &["dependency:unpack-dependencies", "-DincludeGroupIds=io.apicurio"], &apicurio)?;
    s3::note_made_for(&jars, &wanted);
    Ok(())
}

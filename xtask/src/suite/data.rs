//! The tests of the S3 service with libraries that analyse data: Spark, Hadoop, DuckDB, pyarrow,
//! and what opens URLs by fsspec.
//!
//! ```text
//! target/xtask-data/
//!     venv/   pip install -r tests/data/requirements.txt   1.1 GB, of which Spark is most
//!     jars/   S3A and DistCp, as tests/data/pom.xml names them
//! ```

use std::fs;
use std::path::Path;

use super::clients::{Missing, empty};
use super::s3::{self, ReleaseBuild};
use super::{Outcome, Session, maven, setup_error};

const FOLDER: &str = "tests/data";
const REQUIREMENTS: &str = "tests/data/requirements.txt";
const POM: &str = "tests/data/pom.xml";

pub(super) fn tests(session: &Session) -> Outcome {
    let tested = || {
        let built = ReleaseBuild::find(session)?;
        let folder = built.target.join("xtask-data");
        let python = s3::environment(session, &folder.join("venv"), REQUIREMENTS)?;
        maven::find().map_err(Outcome::Skipped)?;
        let jars = folder.join("jars");
        fetch(&session.root.join(POM), &jars).map_err(|why| setup_error(format!("can't download S3A: {why}")))?;
        Ok(s3::run(session, &built, &python, FOLDER, |command| {
            command.env("FULGURITE_JARS", &jars);
        }))
    };
    tested().unwrap_or_else(|outcome| outcome)
}

/// Downloads the jars, unless that was done for the same file.
fn fetch(pom: &Path, jars: &Path) -> Result<(), Missing> {
    let wanted = fs::read_to_string(pom).map_err(|source| Missing::File { path: pom.to_owned(), source })?;
    if s3::was_made_for(jars, &wanted) {
        return Ok(());
    }
    println!("downloading S3A and DistCp into {}", jars.display());
    empty(jars)?;
    maven::fetch(pom, &["dependency:copy-dependencies"], jars)?;
    s3::note_made_for(jars, &wanted);
    Ok(())
}

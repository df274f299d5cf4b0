//! The tests that need a PostgreSQL server. They start one of their own in a temporary folder; this
//! step installs its programs if it runs as root and apt is there.

use std::fs;
use std::path::PathBuf;

use super::cargo::cargo;
use super::debian;
use super::program::{self, Channel};
use super::{Lack, Outcome, Session};
use crate::tally::Tally;

/// Debian's package with the server of its release.
const PACKAGE: &str = "postgresql";
/// Where Debian has the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// These tests are `#[ignore]`d, so that `cargo test` passes without a server. The flags match
/// those of the step `tests`, so nothing is compiled again.
pub(super) fn tests(session: &Session) -> Outcome {
    if !has_server() && !debian::install(&[PACKAGE]) {
        return Outcome::Skipped(Lack::Postgres { package: PACKAGE });
    }
    let arguments =
        ["test", "--workspace", "--all-features", "--locked", "--no-fail-fast", "--lib", "--", "--ignored", "database::postgres::"];
    program::judge_tests(cargo(session, &arguments), Channel::Output, Tally::read_cargo_test)
}

/// The tests look for the programs in the same folders.
fn has_server() -> bool {
    let has_initdb = |folder: PathBuf| folder.join("initdb").is_file();
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(has_initdb)
        || fs::read_dir(DEBIAN).is_ok_and(|entries| entries.flatten().any(|entry| has_initdb(entry.path().join("bin"))))
}

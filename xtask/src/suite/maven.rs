//! Maven, for steps that need programs in Java.

use std::path::Path;
use std::process::Command;

use super::clients::{Missing, succeed};
use super::program::works;
use super::{Lack, debian};

/// Installs Maven and a compiler for Java, if they are missing.
pub(super) fn find() -> Result<(), Lack> {
    let exist = || works("mvn", &["--version"]) && works("javac", &["-version"]);
    if exist() || debian::install(&["default-jdk-headless", "maven"]) && exist() { Ok(()) } else { Err(Lack::Maven) }
}

/// Puts dependencies of the file `pom` into a folder.
pub(super) fn fetch(pom: &Path, goal: &[&str], output: &Path) -> Result<(), Missing> {
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "--file"]).arg(pom).args(goal);
    maven.arg(format!("-DoutputDirectory={}", output.display()));
    // By default it leaves a folder next to its file.
    maven.arg(format!("-DmarkersDirectory={}", output.join(".markers").display()));
    succeed(maven)
}

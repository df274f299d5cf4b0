//! Packages of Debian, for steps that need a program or a driver on the machine.

use std::process::{Command, Stdio};

/// Installs packages with apt, for which it needs root. A new machine has no package lists yet.
pub(super) fn install(packages: &[&str]) -> bool {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    let install = || apt(&[&["install", "--yes", "--no-install-recommends"], packages].concat());
    install() || (apt(&["update"]) && install())
}

//! Packages of Debian that steps need.

use std::process::{Command, Stdio};

/// Installs a package with apt, for which it needs root. A new machine has no package lists yet.
pub(super) fn install(package: &str) -> bool {
    let apt = |arguments: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.arg("--quiet").args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        apt.status().is_ok_and(|status| status.success())
    };
    let install = || apt(&["install", "--yes", "--no-install-recommends", package]);
    install() || (apt(&["update"]) && install())
}

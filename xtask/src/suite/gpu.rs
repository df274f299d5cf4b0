//! The tests that need a graphics processor. Machines without one run them on Mesa's software
//! renderer, which this step installs if it runs as root and apt is there.

use std::fs;

use super::cargo::cargo;
use super::debian;
use super::program::{self, Channel};
use super::{Lack, Outcome, Session};
use crate::tally::Tally;

/// Debian's package with Mesa's Vulkan drivers, llvmpipe among them.
const PACKAGE: &str = "mesa-vulkan-drivers";
/// Where Vulkan's loader finds drivers; variables override it.
const DRIVERS: [&str; 3] = ["/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d"];
const VARIABLES: [&str; 2] = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"];

/// These tests are `#[ignore]`d, so that `cargo test` passes without a driver. The flags match
/// those of the step `tests`, so nothing is compiled again.
pub(super) fn tests(session: &Session) -> Outcome {
    if !has_driver() && !debian::install(PACKAGE) {
        return Outcome::Skipped(Lack::VulkanDriver { package: PACKAGE });
    }
    let arguments = [
        "test",
        "--workspace",
        "--all-features",
        "--locked",
        "--no-fail-fast",
        "--test",
        "gpu",
        "--test",
        "unet_on_gpu",
        "--",
        "--ignored",
    ];
    program::judge_tests(cargo(session, &arguments), Channel::Output, Tally::read_cargo_test)
}

fn has_driver() -> bool {
    let has_files = |folder: &str| fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some());
    VARIABLES.iter().any(|variable| std::env::var_os(variable).is_some()) || DRIVERS.iter().any(|folder| has_files(folder))
}

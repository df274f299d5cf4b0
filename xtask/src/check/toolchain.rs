//! Toolchain: rustup installs the version that the crates declare, so that the tests cover the
//! promise in `rust-version`.

use super::{Report, Repository};

const FILE: &str = "rust-toolchain.toml";

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(text) = repository.tree.text(FILE) else {
        report.fault(FILE, "is missing, so every machine may compile with another toolchain");
        return report;
    };
    let Some(channel) = channel(text) else {
        report.fault(FILE, "has no `channel` under `[toolchain]`");
        return report;
    };
    let Some(pinned) = version(channel) else {
        report.fault(FILE, format!("the channel `{channel}` is not a version, so the toolchain changes over time"));
        return report;
    };
    for member in &repository.workspace.members {
        let message = match member.rust_version.as_deref() {
            None => "has no `rust-version`: add `rust-version.workspace = true`".to_owned(),
            Some(asked) if version(asked) == Some(pinned) => continue,
            Some(asked) => format!("`rust-version` is {asked}, but {FILE} pins {channel}: make them the same"),
        };
        report.fault(format!("{}/Cargo.toml", member.directory), message);
    }
    report
}

/// The value of `channel = "…"` in the table `[toolchain]`: the only TOML needed here.
fn channel(text: &str) -> Option<&str> {
    let table = text.lines().skip_while(|line| line.trim() != "[toolchain]").skip(1).take_while(|line| !line.starts_with('['));
    let value = table.filter_map(|line| line.split_once('=')).find(|(key, _)| key.trim() == "channel")?.1;
    value.split('"').nth(1)
}

/// `1.95` is `1.95.0`.
fn version(text: &str) -> Option<[u32; 3]> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let version = [numbers.next()??, numbers.next()??, numbers.next().unwrap_or(Some(0))?];
    numbers.next().is_none().then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::{Member, Workspace};

    fn faults(toolchain: &str, rust_version: Option<&str>) -> Vec<String> {
        let mut repository = Repository::of_files([(FILE, toolchain)]);
        let rust_version = rust_version.map(String::from);
        let member = Member { name: "fulgurite-a".into(), directory: "crates/a".into(), rust_version, dependencies: Vec::new() };
        repository.workspace = Workspace { members: vec![member], ..Workspace::default() };
        check(&repository).lines()
    }

    #[test]
    fn the_same_version_in_both_places_passes() {
        let toolchain = "# pinned\n[toolchain]\nprofile = \"minimal\"\nchannel = \"1.95.0\" # see Cargo.toml\n";
        assert_eq!(faults(toolchain, Some("1.95")), [""; 0]);
        assert_eq!(faults(toolchain, Some("1.95.0")), [""; 0]);
    }

    #[test]
    fn a_different_or_missing_version_is_a_fault() {
        let toolchain = "[toolchain]\nchannel = \"1.95.0\"\n";
        for rust_version in [Some("1.94"), Some("1.95.1"), Some("1.9"), None] {
            assert_eq!(faults(toolchain, rust_version).len(), 1, "{rust_version:?}");
        }
    }

    #[test]
    fn a_toolchain_without_a_fixed_version_is_a_fault() {
        for toolchain in ["[toolchain]\nchannel = \"stable\"\n", "channel = \"1.95.0\"\n", "[toolchain]\n[other]\nchannel = \"1.95.0\"\n"] {
            assert_eq!(faults(toolchain, Some("1.95")).len(), 1, "{toolchain}");
        }
        assert!(check(&Repository::default()).lines()[0].contains("is missing"));
    }
}

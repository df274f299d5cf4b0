//! Arrows: compares cargo's metadata with the table under `## Map` in ARCHITECTURE.md, which lists
//! the crates that each crate may use.
//!
//! ```text
//! | crate     | what it is | uses             |  a row uses only rows above it, so no cycle exists
//! | `domain`  | …          | -                |
//! | `glass`   | …          | domain, codec    |  code and build scripts: only the crates in `uses`
//! | `service` | …          | all of the above |  tests, examples, benchmarks: any row above
//! ```
//!
//! Tests may use more crates than the code they test, because one crate is another's best oracle.
//! They never use rows below, because those crates assume that this one works. A row without a
//! crate is a plan. `xtask` needs no row: it is not part of the archive, and uses none of its
//! crates.

use super::{Report, Repository};
use crate::markdown;
use crate::workspace::{Dependency, Member};

const DOCUMENT: &str = "ARCHITECTURE.md";
const HEADING: &str = "Map";
const COLUMNS: [&str; 3] = ["crate", "what it is", "uses"];
const PREFIX: &str = "fulgurite";

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let Some(document) = repository.tree.text(DOCUMENT) else {
        report.fault(DOCUMENT, "is missing: it contains the table of crates to compare with cargo's metadata");
        return report;
    };
    let Some(rows) = parse(document, &mut report) else { return report };
    for member in &repository.workspace.members {
        compare(member, &rows, &mut report);
    }
    report
}

struct Row {
    name: String,
    uses: Vec<String>,
}

/// The table's rows; `None` if the table is missing. Reports faults of the table itself.
fn parse(document: &str, report: &mut Report) -> Option<Vec<Row>> {
    let mut section = markdown::lines(document)
        .skip_while(|line| !markdown::heading(line.text).is_some_and(|(level, text)| level == 2 && text == HEADING))
        .skip(1)
        .take_while(|line| markdown::heading(line.text).is_none_or(|(level, _)| level > 2))
        .skip_while(|line| markdown::cells(line.text).is_none());
    let header = section.next().and_then(|line| markdown::cells(line.text)).unwrap_or_default();
    if !header.iter().map(|cell| cell.to_lowercase()).eq(COLUMNS) {
        report.fault(DOCUMENT, format!("has no table `| {} |` under `## {HEADING}`", COLUMNS.join(" | ")));
        return None;
    }
    let mut rows: Vec<Row> = Vec::new();
    // The first line is the separator below the header.
    for line in section.skip(1) {
        let Some(cells) = markdown::cells(line.text) else { break };
        let place = format!("{DOCUMENT}:{}", line.number);
        let [name, _, uses] = cells.as_slice() else {
            report.fault(place, format!("this row of the map has {} cells instead of {}", cells.len(), COLUMNS.len()));
            continue;
        };
        let name = name.trim_matches('`').to_owned();
        let above = || rows.iter().map(|row| row.name.clone());
        if above().any(|other| other == name) {
            report.fault(place, format!("`{name}` has a second row"));
            continue;
        }
        let uses: Vec<String> = match uses.as_str() {
            "-" => Vec::new(),
            "all" | "all of the above" => above().collect(),
            named => named.split(',').map(|used| used.trim().trim_matches('`').to_owned()).collect(),
        };
        for used in uses.iter().filter(|used| !above().any(|other| other == **used)) {
            report.fault(&place, format!("`{name}` uses `{used}`, which has no row above it"));
        }
        rows.push(Row { name, uses });
    }
    Some(rows)
}

fn compare(member: &Member, rows: &[Row], report: &mut Report) {
    let manifest = format!("{}/Cargo.toml", member.directory);
    let name = short(&member.directory);
    let package = if name == PREFIX { name.to_owned() } else { format!("{PREFIX}-{name}") };
    if member.directory.starts_with("crates/") && member.name != package {
        report.fault(&manifest, format!("the package in this directory is named `{package}`, not `{}`", member.name));
    }
    let position = rows.iter().position(|row| row.name == name);
    if position.is_none() && member.directory != "xtask" {
        report.fault(&manifest, format!("`{name}` has no row in {DOCUMENT}: add one with its purpose and uses"));
        return;
    }
    for Dependency { to, dev } in &member.dependencies {
        let to = short(to);
        let used = position.is_some_and(|position| rows[position].uses.iter().any(|used| used == to));
        let above = position.is_some_and(|position| rows[..position].iter().any(|row| row.name == to));
        if to == name || used || *dev && above {
            continue;
        }
        let message = if *dev {
            format!("the tests of `{name}` use `{to}`, which isn't above `{name}` in {DOCUMENT}: tests use only rows above")
        } else {
            format!("`{name}` uses `{to}`, which its row in {DOCUMENT} doesn't list: drop the dependency, or change the map")
        };
        report.fault(&manifest, message);
    }
}

/// `crates/codec` is `codec` in the table.
fn short(directory: &str) -> &str {
    directory.rsplit('/').next().unwrap_or(directory)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Workspace;

    const DOCUMENT_TEXT: &str = "\
# Architecture
| crate | what it is | uses |
| --- | --- | --- |
| `decoy` | a table under another heading | - |

## Map
Words first.

| crate | what it is | uses |
| --- | --- | --- |
| `domain` | nouns | - |
| `codec` | a \\| b | - |
| `glass` | the medium | domain, `codec` |
| `planned` | isn't there yet | domain |
| `service` | runs | all of the above |

## After
| `decoy` | another table | - |
";

    fn member(directory: &str, dependencies: &[(&str, bool)]) -> Member {
        let name = short(directory);
        Member {
            name: if matches!(name, "xtask" | "fulgurite") { name.into() } else { format!("fulgurite-{name}") },
            directory: directory.into(),
            rust_version: None,
            dependencies: dependencies.iter().map(|(to, dev)| Dependency { to: format!("crates/{to}"), dev: *dev }).collect(),
        }
    }

    fn faults(document: &str, members: Vec<Member>) -> Vec<String> {
        let mut repository = Repository::of_files([("ARCHITECTURE.md", document)]);
        repository.workspace = Workspace { members, ..Workspace::default() };
        check(&repository).lines()
    }

    #[test]
    fn arrows_in_the_table_pass() {
        let members = vec![
            member("crates/domain", &[]),
            member("crates/glass", &[("domain", false), ("codec", false), ("glass", true)]),
            member("crates/service", &[("glass", false), ("planned", false)]),
            member("xtask", &[]),
        ];
        assert_eq!(faults(DOCUMENT_TEXT, members), [""; 0]);
    }

    #[test]
    fn an_arrow_that_the_table_lacks_is_named() {
        let faults = faults(DOCUMENT_TEXT, vec![member("crates/codec", &[("domain", false)])]);
        assert_eq!(faults.len(), 1);
        assert!(faults[0].starts_with("crates/codec/Cargo.toml: `codec` uses `domain`"), "{faults:?}");
    }

    #[test]
    fn tests_may_use_rows_above_and_nothing_else() {
        assert_eq!(faults(DOCUMENT_TEXT, vec![member("crates/codec", &[("domain", true)])]), [""; 0]);
        let faults = faults(DOCUMENT_TEXT, vec![member("crates/codec", &[("glass", true)])]);
        assert!(faults[0].contains("the tests of `codec` use `glass`"), "{faults:?}");
    }

    #[test]
    fn a_crate_without_a_row_is_a_fault() {
        for name in ["crates/stray", "crates/decoy", "benchmarks"] {
            assert!(faults(DOCUMENT_TEXT, vec![member(name, &[])]).iter().any(|fault| fault.contains("has no row")), "{name}");
        }
    }

    #[test]
    fn xtask_needs_no_row_and_uses_nothing() {
        assert_eq!(faults(DOCUMENT_TEXT, vec![member("xtask", &[("domain", false)])]).len(), 1);
        assert_eq!(faults(DOCUMENT_TEXT, vec![member("xtask", &[("domain", true)])]).len(), 1);
    }

    #[test]
    fn a_package_is_named_after_its_directory() {
        let odd = Member { name: "codec".into(), ..member("crates/codec", &[]) };
        assert!(faults(DOCUMENT_TEXT, vec![odd])[0].contains("`fulgurite-codec`, not `codec`"));
        let table = DOCUMENT_TEXT.replace("`planned`", "`fulgurite`");
        assert_eq!(faults(&table, vec![member("crates/fulgurite", &[])]), [""; 0]);
    }

    #[test]
    fn a_row_uses_only_rows_above_it() {
        let upwards = DOCUMENT_TEXT.replace("| nouns | - |", "| nouns | glass |");
        assert_eq!(faults(&upwards, Vec::new()), ["ARCHITECTURE.md:11: `domain` uses `glass`, which has no row above it"]);
    }

    #[test]
    fn a_malformed_or_duplicate_row_is_a_fault() {
        let broken = DOCUMENT_TEXT.replace("| nouns |", "|").replace("| `planned` |", "| `codec` |");
        assert_eq!(faults(&broken, Vec::new())[0], "ARCHITECTURE.md:11: this row of the map has 2 cells instead of 3");
        assert!(faults(&broken, Vec::new()).contains(&"ARCHITECTURE.md:14: `codec` has a second row".to_owned()));
    }

    #[test]
    fn without_the_document_or_its_table_nothing_passes() {
        assert!(check(&Repository::default()).lines()[0].contains("is missing"));
        for document in ["# Architecture\n", "## Map\nno table\n", "## Map\n| crate | uses |\n| --- | --- |\n"] {
            assert!(faults(document, Vec::new())[0].contains("has no table"), "{document}");
        }
    }
}

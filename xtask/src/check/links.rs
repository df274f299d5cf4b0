//! Links: every link between documents leads to an existing file, and to an existing heading in it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use percent_encoding::percent_decode_str;

use super::{Report, Repository};
use crate::markdown;
use crate::tree::Tree;

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    let documents = || repository.tree.texts().filter(|(path, _)| path.ends_with(".md"));
    let anchors: BTreeMap<&str, BTreeSet<String>> = documents().map(|(path, text)| (path, markdown::anchors(text))).collect();
    for (path, text) in documents() {
        for line in markdown::lines(text) {
            for target in markdown::link_targets(line.text).iter().filter(|target| !is_elsewhere(target)) {
                if let Err(message) = follow(path, target, &repository.tree, &anchors) {
                    report.fault(format!("{path}:{}", line.number), format!("broken link to `{target}`: {message}"));
                }
            }
        }
    }
    report
}

/// True if the target has a scheme such as `https:` or `mailto:`. This check makes no network
/// requests.
fn is_elsewhere(target: &str) -> bool {
    let scheme = target.split_once(':').map(|(scheme, _)| scheme);
    target.starts_with("//") || scheme.is_some_and(|scheme| scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)))
}

fn follow(from: &str, target: &str, tree: &Tree, anchors: &BTreeMap<&str, BTreeSet<String>>) -> Result<(), String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { from.to_owned() } else { resolve(from, &decode(file)).ok_or("it leaves the repository")? };
    if !tree.has(&path) {
        return Err(format!("`{path}` doesn't exist"));
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let found = match anchors.get(path.as_str()) {
        Some(anchors) => anchors.contains(&*decode(anchor)),
        None => tree.text(&path).is_some_and(|text| line_number(anchor).is_some_and(|line| (1..=text.lines().count()).contains(&line))),
    };
    if found { Ok(()) } else { Err(format!("`{path}` has no `#{anchor}`")) }
}

/// Resolves `target` in the document `from` to a path from the root; `None` if it leaves the
/// repository.
fn resolve(from: &str, target: &str) -> Option<String> {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let start = if target.starts_with('/') { "" } else { folder };
    let mut path: Vec<&str> = Vec::new();
    for part in start.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()?),
            part => path.push(part),
        }
    }
    Some(path.join("/"))
}

/// `%20` is a space.
fn decode(text: &str) -> Cow<'_, str> {
    percent_decode_str(text).decode_utf8_lossy()
}

/// Parses `L12` and `L12-L20`, which point into files that aren't documents. The last line must
/// exist.
fn line_number(anchor: &str) -> Option<usize> {
    anchor.rsplit('-').next()?.strip_prefix('L')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(link: &str) -> Vec<String> {
        let text = format!("# One\n## A heading\n[a]({link})\n");
        let repository = Repository::of_files([
            ("docs/one.md", &text),
            ("docs/two words.md", "# Two\n"),
            ("README.md", "# Read me\n"),
            ("crates/a/src/lib.rs", "one\ntwo\n"),
        ]);
        check(&repository).lines()
    }

    #[test]
    fn links_to_files_folders_headings_and_lines_are_followed() {
        for link in [
            "../README.md",
            "/README.md#read-me",
            "#a-heading",
            "one.md#one",
            "two%20words.md#two",
            "<two words.md>",
            "../crates",
            "../crates/a/src/",
            "../crates/a/src/lib.rs#L2",
            "..",
            "https://example.org/nothing.md",
            "mailto:somebody@example.org",
        ] {
            assert_eq!(faults(link), [""; 0], "{link}");
        }
    }

    #[test]
    fn a_broken_link_is_named_with_its_line() {
        for link in [
            "three.md",
            "README.md",
            "../../elsewhere.md",
            "#no-heading",
            "../README.md#one",
            "../crates/a/src/lib.rs#L3",
            "../crates/a/src/lib.rs#main",
            "../crates#a",
        ] {
            let faults = faults(link);
            assert_eq!(faults.len(), 1, "{link}");
            assert!(faults[0].starts_with("docs/one.md:3: "), "{faults:?}");
        }
    }

    #[test]
    fn links_in_code_are_ignored() {
        let repository = Repository::of_files([("a.md", "`[a](b.md)`\n```\n[a](b.md)\n```\n")]);
        assert_eq!(check(&repository).lines(), [""; 0]);
    }
}

//! Unsafe code: a crate without any forbids it, so that none comes in unnoticed.

use std::collections::BTreeMap;

use super::{Report, Repository};

const FORBIDDEN: &str = "#![forbid(unsafe_code)]";

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    // By crate: whether its root forbids it, and whether something in `src` uses it.
    let mut crates: BTreeMap<&str, (Option<bool>, bool)> = BTreeMap::new();
    for (path, text) in repository.tree.texts() {
        let Some((folder, file)) = path.split_once("/src/").filter(|(_, file)| file.ends_with(".rs")) else { continue };
        let entry = crates.entry(folder).or_default();
        match file {
            "lib.rs" => entry.0 = Some(text.contains(FORBIDDEN)),
            "main.rs" if entry.0.is_none() => entry.0 = Some(text.contains(FORBIDDEN)),
            _ => {}
        }
        entry.1 |= text.lines().any(uses_unsafe);
    }
    for (folder, (forbids, uses)) in crates {
        if forbids == Some(false) && !uses {
            report.fault(folder, format!("has no unsafe code, and its root doesn't say `{FORBIDDEN}`"));
        }
    }
    report
}

fn uses_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line).trim_start();
    ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe(", "allow(unsafe_code"].iter().any(|what| code.contains(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_forbids_unsafe_code_or_uses_it() {
        let lines =
            |root: &str, module: &str| check(&Repository::of_files([("crates/a/src/lib.rs", root), ("crates/a/src/b.rs", module)])).lines();
        assert_eq!(lines("mod b;", "fn f() {}").len(), 1);
        assert_eq!(lines("mod b;", "// unsafe { }").len(), 1);
        assert!(lines(FORBIDDEN, "fn f() {}").is_empty());
        assert!(lines("mod b;", "fn f() { unsafe { g() } }").is_empty());
    }
}

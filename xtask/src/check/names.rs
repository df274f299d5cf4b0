//! Names: a module is named for its content. Modules with catch-all names collect code that belongs
//! elsewhere.

use super::{Report, Repository};

const CATCH_ALL_NAMES: [&str; 9] = ["common", "util", "utils", "helper", "helpers", "types", "misc", "manager", "managers"];

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for (path, text) in repository.tree.texts() {
        // Check the crate's directory and everything in its sources; cargo names the folders of
        // tests and benches.
        let Some((of_crate, inside)) = path.strip_prefix("crates/").unwrap_or(path).split_once('/') else { continue };
        if !path.starts_with("crates/") && of_crate != "xtask" {
            continue;
        }
        let in_sources = inside.split('/').skip_while(|part| *part != "src").skip(1);
        for part in [of_crate].into_iter().chain(in_sources) {
            let name = part.strip_suffix(".rs").unwrap_or(part);
            if CATCH_ALL_NAMES.contains(&name) {
                report.fault(path, format!("the name `{name}` doesn't describe the content"));
            }
        }
        if path.ends_with(".rs") {
            for (index, name) in text.lines().enumerate().filter_map(|(index, line)| Some((index, inline_module(line)?))) {
                if CATCH_ALL_NAMES.contains(&name) {
                    report.fault(format!("{path}:{}", index + 1), format!("the name `mod {name}` doesn't describe the content"));
                }
            }
        }
    }
    report
}

/// The name in `mod name {` or `pub(crate) mod name {`; a module with its own file is found by its
/// path.
fn inline_module(line: &str) -> Option<&str> {
    let (before, after) = line.trim().strip_suffix('{')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then(|| after.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_catch_all_name_is_found_as_file_folder_crate_or_inline_module() {
        let repository = Repository::of_files([
            ("crates/codec/src/util.rs", ""),
            ("crates/codec/src/types/mod.rs", ""),
            ("crates/common/src/lib.rs", ""),
            ("crates/glass/src/lib.rs", "//! Glass.\npub(crate) mod helpers {\n}\n"),
            ("xtask/src/misc.rs", ""),
        ]);
        let places: Vec<String> = check(&repository).faults.into_iter().map(|fault| fault.place).collect();
        assert_eq!(
            places,
            [
                "crates/codec/src/types/mod.rs",
                "crates/codec/src/util.rs",
                "crates/common/src/lib.rs",
                "crates/glass/src/lib.rs:2",
                "xtask/src/misc.rs"
            ]
        );
    }

    #[test]
    fn a_catch_all_word_inside_another_or_outside_the_sources_passes() {
        let repository = Repository::of_files([
            ("crates/codec/src/utility_bills.rs", "fn common() {\n}\n// a mod types {\n"),
            ("crates/codec/tests/common/mod.rs", ""),
            ("docs/types.md", "mod util {"),
        ]);
        assert_eq!(check(&repository).lines(), [""; 0]);
    }
}

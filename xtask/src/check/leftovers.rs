//! Leftovers: paths of one developer's machine, and notes of unfinished work. Such paths break
//! elsewhere, and such notes are forgotten; they belong in an issue.
//!
//! The search strings below are assembled from halves, because this file is checked too.

use super::{Report, Repository};

/// Folders of a user or a machine, which the archive must not mention.
const MACHINE_PATHS: [&str; 5] =
    [concat!("/wo", "rk/"), concat!("/tmp", "/wt"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/Us", "ers/")];

const UNFINISHED: [&str; 4] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("to", "do!("), concat!("unimple", "mented!(")];

/// Allowed exceptions: path, string, reason.
const ALLOWED: &[(&str, &str, &str)] = &[];

pub(super) fn check(repository: &Repository) -> Report {
    find_leftovers(repository, ALLOWED)
}

fn find_leftovers(repository: &Repository, allowed: &[(&str, &str, &str)]) -> Report {
    let mut report = Report::default();
    let mut used = vec![false; allowed.len()];
    for (path, text) in repository.tree.texts() {
        for (index, line) in text.lines().enumerate() {
            for (found, message) in leftovers(line) {
                match allowed.iter().position(|(where_, what, _)| *where_ == path && *what == found) {
                    Some(entry) => used[entry] = true,
                    None => report.fault(format!("{path}:{}", index + 1), format!("`{found}` {message}")),
                }
            }
        }
    }
    for ((path, what, _), _) in allowed.iter().zip(used).filter(|(_, used)| !used) {
        report.note(*path, format!("may contain `{what}` but no longer does"));
    }
    report
}

fn leftovers(line: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let paths =
        MACHINE_PATHS.iter().filter(|path| contains_word(line, path, starts_a_path)).map(|path| (*path, "is a path of one machine"));
    let notes =
        UNFINISHED.iter().filter(|note| contains_word(line, note, |before| !is_word(before))).map(|note| (*note, "leaves work undone"));
    paths.chain(notes)
}

/// True if the line contains `what` after a `good` character, and not as part of a longer word.
fn contains_word(line: &str, what: &str, good: fn(char) -> bool) -> bool {
    line.match_indices(what).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + what.len()..].chars().next();
        before.is_none_or(good) && !(what.ends_with(is_word) && after.is_some_and(is_word))
    })
}

/// True if an absolute path can begin after this character. Not in `a/b/`, `~/b/`, `$A/b/` or
/// `{a}/b/`.
fn starts_a_path(before: char) -> bool {
    !is_word(before) && !matches!(before, '.' | '-' | '~' | '}' | ')')
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Repository::of_files([("a.rs", line)])).faults.len()
    }

    #[test]
    fn a_path_of_a_machine_is_found_wherever_it_begins() {
        for path in MACHINE_PATHS {
            for line in [format!("{path}/x"), format!("see {path}/x"), format!("(\"{path}/x\")"), format!("file://{path}/x")] {
                assert_eq!(found(&line), 1, "{line}");
            }
        }
    }

    #[test]
    fn a_folder_of_that_name_elsewhere_is_allowed() {
        for line in ["docs/work/plan.md", "https://example.org/work/", "../work/a", "~/work/a", "$HOME/work/a", "{root}/root/a", "a/home/b"]
        {
            assert_eq!(found(line), 0, "{line}");
        }
    }

    #[test]
    fn notes_of_unfinished_work_are_found_as_words() {
        for note in UNFINISHED {
            assert_eq!(found(&format!("// {note}: later")), 1, "{note}");
            assert_eq!(found(&format!("    {note})")), 1, "{note}");
            assert_eq!(found(&format!("MAS{note}")), 0, "{note}");
        }
        assert_eq!(found(concat!("TO", "DOS and to", "do! and to", "do()")), 0);
    }

    #[test]
    fn an_exception_applies_to_its_file_and_is_noted_when_stale() {
        let path = MACHINE_PATHS[0];
        let repository = Repository::of_files([("a.rs", path), ("b.rs", path)]);
        assert_eq!(find_leftovers(&repository, &[("a.rs", path, "a test")]).lines().len(), 1);
        assert_eq!(find_leftovers(&repository, &[("c.rs", path, "a test")]).notes.len(), 1);
    }
}

//! Prose: comments and documents wrap at 100 columns, and avoid phrases that read as translated.

use super::{Report, Repository};
use crate::markdown;

const COLUMNS: usize = 100;

/// Documents whose lines are written by a program, or have one line per entry.
const UNWRAPPED: &[&str] = &["docs/paper.md", "CHANGELOG.md"];

/// Phrases that the house style rules out. Matched in lower case, as whole words.
const PHRASES: &[&str] = &["whoever", "nobody", "somebody", "that is none", "is said of", "is passed over", "is told of", "be thought of"];

pub(super) fn check(repository: &Repository) -> Report {
    let mut report = Report::default();
    for (path, text) in repository.tree.texts() {
        if path == file!() {
            continue;
        }
        if path.ends_with(".rs") {
            check_lines(&mut report, path, comments(text), true);
        } else if path.ends_with(".md") {
            let lines = markdown::lines(text).map(|line| (line.number, line.text));
            check_lines(&mut report, path, lines, !UNWRAPPED.contains(&path));
        }
    }
    report
}

fn check_lines<'a>(report: &mut Report, path: &str, lines: impl Iterator<Item = (usize, &'a str)>, wraps: bool) {
    for (number, line) in lines {
        let columns = line.chars().count();
        if wraps && columns > COLUMNS && can_wrap(line) {
            report.fault(format!("{path}:{number}"), format!("{columns} columns are more than {COLUMNS}"));
        }
        let lower = line.to_lowercase();
        for phrase in PHRASES.iter().filter(|phrase| has_words(&lower, phrase)) {
            report.fault(format!("{path}:{number}"), format!("\"{phrase}\": name the subject, in plain English"));
        }
    }
}

/// Lines that are a comment and nothing else, with their indentation, but for drawings and code in
/// fences.
fn comments(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            // A fence ends with its comment, even if nothing closes it.
            is_fenced = false;
            return None;
        };
        let is_fence = comment.trim_start_matches(['/', '!']).trim_start().starts_with("```");
        is_fenced ^= is_fence;
        (!is_fenced && !is_fence).then_some((index + 1, line))
    })
}

/// Rows of tables and headings can't be broken, and neither can a link that is too wide.
fn can_wrap(line: &str) -> bool {
    let text = line.trim_start().trim_start_matches('/').trim_start_matches('!').trim_start();
    !text.starts_with(['|', '#']) && !line.contains("](") && !line.contains("://")
}

fn has_words(line: &str, words: &str) -> bool {
    line.match_indices(words).any(|(at, _)| {
        let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        !is_letter(line[..at].chars().next_back()) && !is_letter(line[at + words.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(path: &'static str, text: &str) -> Vec<String> {
        check(&Repository::of_files([(path, text)])).lines()
    }

    #[test]
    fn a_wide_comment_is_a_fault_and_wide_code_is_not() {
        let wide = "x ".repeat(60);
        assert_eq!(faults("a.rs", &format!("    // {wide}\nlet a = \"{wide}\";\n// {}", &wide[..90])).len(), 1);
        assert!(faults("a.rs", &format!("//! | {wide} |\n// see https://a/{wide}")).is_empty());
        assert!(faults("a.rs", &format!("//! ```text\n//! {wide}\n//! ```")).is_empty());
    }

    #[test]
    fn a_fence_ends_with_its_comment() {
        let wide = "x ".repeat(60);
        assert_eq!(
            faults("a.rs", &format!("//! ```text\n//! {wide}\n\nfn a() {{}}\n// {wide}")),
            ["a.rs:5: 123 columns are more than 100"]
        );
    }

    #[test]
    fn documents_wrap_outside_of_tables_code_and_links() {
        let wide = "x ".repeat(60);
        assert_eq!(faults("a.md", &format!("{wide}\n\n```\n{wide}\n```\n| {wide} |\n# {wide}\n[a](b) {wide}\n")).len(), 1);
        assert!(faults("docs/paper.md", &wide).is_empty());
    }

    #[test]
    fn ruled_out_phrases_are_found_as_whole_words() {
        let phrase = PHRASES[0];
        assert_eq!(faults("a.rs", &format!("// {phrase} comes\n// {phrase}s\nlet {phrase} = 1;")).len(), 1);
        assert_eq!(faults("a.md", &format!("A range {}.", PHRASES[3])).len(), 1);
    }
}

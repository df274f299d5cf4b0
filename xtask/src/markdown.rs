//! A minimal Markdown parser for the checks: headings with their anchors, tables, and links, all
//! outside fenced code.

use std::collections::{BTreeMap, BTreeSet};

/// A line of a document outside fenced code; `number` counts from 1.
pub(crate) struct Line<'a> {
    pub(crate) number: usize,
    pub(crate) text: &'a str,
}

/// The lines that aren't fenced code.
pub(crate) fn lines(markdown: &str) -> impl Iterator<Item = Line<'_>> {
    let mut fence: Option<&str> = None;
    markdown.lines().enumerate().filter_map(move |(index, text)| {
        let marks = fence_marks(text.trim_start());
        match fence {
            // A fence ends with at least as many of the same marks, and nothing after them.
            Some(open) if marks.starts_with(open) && text.trim() == marks => fence = None,
            Some(_) => {}
            None if marks.len() >= 3 => fence = Some(marks),
            None => return Some(Line { number: index + 1, text }),
        }
        None
    })
}

fn fence_marks(text: &str) -> &str {
    let Some(mark @ ('`' | '~')) = text.chars().next() else { return "" };
    &text[..text.len() - text.trim_start_matches(mark).len()]
}

/// Level and text of a heading such as `## Map`.
pub(crate) fn heading(line: &str) -> Option<(usize, &str)> {
    let rest = line.trim_start_matches('#');
    let level = line.len() - rest.len();
    let text = rest.strip_prefix(' ')?.trim().trim_end_matches('#').trim_end();
    (1..=6).contains(&level).then_some((level, text))
}

/// The cells of a table row; `None` if the line isn't one.
pub(crate) fn cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    // `\|` is a bar inside a cell.
    Some(inner.replace("\\|", "\0").split('|').map(|cell| cell.trim().replace('\0', "|")).collect())
}

/// Every target of a `#…` link: headings as GitHub names them, and `id` or `name` attributes of
/// HTML.
pub(crate) fn anchors(markdown: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines(markdown) {
        if let Some((_, text)) = heading(line.text) {
            let slug = slug(text);
            let count = seen.entry(slug.clone()).or_default();
            anchors.insert(if *count == 0 { slug } else { format!("{slug}-{count}") });
            *count += 1;
        }
        for attribute in [" id=\"", " name=\""] {
            anchors.extend(attributes(line.text, attribute).map(String::from));
        }
    }
    anchors
}

/// Lower case, without punctuation, with a hyphen for each space. A link in the heading counts as
/// its text.
fn slug(heading: &str) -> String {
    let mut text = String::new();
    let mut rest = heading;
    while let Some((before, target)) = rest.split_once("](") {
        text.push_str(before);
        rest = target.split_once(')').map_or("", |(_, after)| after);
    }
    text.push_str(rest);
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of links and pictures in one line: `[text](target)`, `[label]: target`,
/// `href="target"`, `src="target"`.
pub(crate) fn link_targets(line: &str) -> Vec<String> {
    let line = without_code(line);
    let mut targets: Vec<String> = line.match_indices("](").filter_map(|(at, mark)| target(&line[at + mark.len()..])).collect();
    if let Some((label, rest)) = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "))
        && !label.starts_with('^')
        && !label.contains(']')
    {
        targets.extend(rest.split_whitespace().next().map(|target| target.trim_matches(['<', '>']).to_owned()));
    }
    for attribute in [" href=\"", " src=\""] {
        targets.extend(attributes(&line, attribute).map(String::from));
    }
    targets
}

/// The target of an inline link: up to the unmatched closing parenthesis, without a title.
fn target(rest: &str) -> Option<String> {
    if let Some(bracketed) = rest.strip_prefix('<') {
        return Some(bracketed.split_once('>')?.0.to_owned());
    }
    let mut depth = 0_usize;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' if depth == 0 => return rest[..at].split_whitespace().next().map(String::from),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn attributes<'a>(line: &'a str, opening: &'a str) -> impl Iterator<Item = &'a str> {
    line.match_indices(opening).filter_map(move |(at, _)| Some(line[at + opening.len()..].split_once('"')?.0))
}

/// The line without its code spans. A span ends with as many backticks as it starts with.
fn without_code(line: &str) -> String {
    let mut kept = String::new();
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        kept.push_str(&rest[..start]);
        let marks = fence_marks(&rest[start..]);
        let after = &rest[start + marks.len()..];
        let end = after.match_indices(marks).find(|(at, _)| fence_marks(&after[*at..]) == marks && !after[..*at].ends_with('`'));
        rest = end.map_or(after, |(at, _)| &after[at + marks.len()..]);
    }
    kept + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fenced_code_is_skipped() {
        let text = "a\n```text\n# b\n```\nc\n~~~~\n~~~\nd\n~~~~\n  ```rust\n  e\n  ```\nf";
        let numbers: Vec<(usize, &str)> = lines(text).map(|line| (line.number, line.text)).collect();
        assert_eq!(numbers, [(1, "a"), (5, "c"), (13, "f")]);
    }

    #[test]
    fn headings_have_a_space_after_their_marks() {
        assert_eq!(heading("## Map"), Some((2, "Map")));
        assert_eq!(heading("# A heading #"), Some((1, "A heading")));
        assert_eq!(heading("#[test]"), None);
        assert_eq!(heading("####### seven"), None);
    }

    #[test]
    fn anchors_match_those_of_github() {
        let text = "# Where do I add …?\n## `CRC-64/NVME` of a_b\n## Keys\n## Keys\n## See [the map](#map), please\n<a id=\"here\"></a>";
        let expected = ["here", "keys", "keys-1", "crc-64nvme-of-a_b", "see-the-map-please", "where-do-i-add-"];
        assert_eq!(anchors(text), expected.map(String::from).into());
    }

    #[test]
    fn every_kind_of_link_is_found_except_in_code() {
        assert_eq!(link_targets("see [a](x.md), ![b](<y z.png>) and [c](w(1).md \"title\")"), ["x.md", "y z.png", "w(1).md"]);
        assert_eq!(link_targets("[label]: docs/format.md"), ["docs/format.md"]);
        assert_eq!(link_targets("<img alt=\"\" src=\"docs/a.png\"> <a href=\"b.md\">"), ["b.md", "docs/a.png"]);
        assert!(link_targets("`[a](x.md)` and ``[b](`y`)`` and [^1]: note").is_empty());
        assert_eq!(link_targets("an odd ` and [a](x.md)"), ["x.md"]);
    }

    #[test]
    fn a_bar_inside_a_cell_is_kept() {
        assert_eq!(cells("| `a` | b \\| c | - |"), Some(vec!["`a`".into(), "b | c".into(), "-".into()]));
        assert_eq!(cells("no row"), None);
    }
}

//! Suggestions for mistyped names.

/// The nearest of `known` within one typo per three letters, and never more than three typos.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word: Vec<char> = plain(word).take(LONGEST).collect();
    known
        .into_iter()
        .filter_map(|name| {
            let letters: Vec<char> = plain(name).take(LONGEST).collect();
            let allowed = (letters.len().max(word.len()) / 3).clamp(1, 3);
            let slips = if letters.len().abs_diff(word.len()) > allowed { usize::MAX } else { slips(&word, &letters) };
            (slips <= allowed).then_some((slips, name))
        })
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, name)| name)
}

/// No setting is longer. Longer words are cut, which bounds the work on hostile input.
const LONGEST: usize = 64;

/// Case, hyphens and blanks don't distinguish names.
fn plain(word: &str) -> impl Iterator<Item = char> + '_ {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '-' || c == ' ' { '_' } else { c })
}

/// Edit distance: letters to insert, drop, replace or swap with their neighbour (optimal string
/// alignment).
fn slips(a: &[char], b: &[char]) -> usize {
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i; b.len() + 1];
        for j in 1..=b.len() {
            row[j] = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before_last[j - 2] + 1);
            }
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_unless_it_is_too_far() {
        let known = ["throughput", "seek_median", "count", "at"];
        let cases = [
            ("troughput", Some("throughput")),
            ("thruoghput", Some("throughput")),
            ("Seek-Median", Some("seek_median")),
            ("cuont", Some("count")),
            ("counts", Some("count")),
            ("ta", Some("at")),
            ("colour", None),
            ("x", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, known), expected, "{word}");
        }
        assert_eq!(nearest(&"throughput".repeat(100_000), known), None);
    }
}

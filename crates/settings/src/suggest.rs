//! Suggestions for mistyped names.

/// The nearest of `known` within one typo per three letters, but at least one and at most three
/// typos. A typo is a letter to insert, drop, replace or swap with its neighbour.
pub(super) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    let word = normalized(word);
    let typos = |name: &str| {
        let name = normalized(name);
        let allowed = (name.chars().count().max(word.chars().count()) / 3).clamp(1, 3);
        Some(strsim::osa_distance(&word, &name)).filter(|typos| *typos <= allowed)
    };
    known.into_iter().filter_map(|name| Some((typos(name)?, name))).min_by_key(|(typos, _)| *typos).map(|(_, name)| name)
}

/// No setting is longer. Longer words are cut, which bounds the work on hostile input.
const NAME_CHARS_MAX: usize = 64;

/// Case, hyphens and blanks don't distinguish names.
fn normalized(word: &str) -> String {
    word.chars().flat_map(char::to_lowercase).map(|c| if c == '-' || c == ' ' { '_' } else { c }).take(NAME_CHARS_MAX).collect()
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

//! Patterns of paths, as in the lists of allowed files.
//!
//! `*` stands for any characters, slashes too, because a path in a permitted folder is written
//! `data/folder/*`; `?` stands for one character, `[a-z]` and `[!a-z]` for one of some.

/// A pattern, ready to be matched.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    tokens: Vec<Token>,
}

#[derive(Debug, Clone)]
enum Token {
    One(char),
    Any,
    AnyNumber,
    Set { ranges: Vec<(char, char)>, is_negated: bool },
}

impl Token {
    fn matches(&self, character: char) -> bool {
        match self {
            Self::One(one) => *one == character,
            Self::Any | Self::AnyNumber => true,
            Self::Set { ranges, is_negated } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&character)) != *is_negated,
        }
    }
}

impl Pattern {
    /// Every text is a pattern: a bracket that isn't closed stands for itself.
    pub(super) fn new(text: &str) -> Self {
        let characters: Vec<char> = text.chars().collect();
        let mut tokens = Vec::new();
        let mut at = 0;
        while let Some(&character) = characters.get(at) {
            at += 1;
            match character {
                '*' => {
                    if !matches!(tokens.last(), Some(Token::AnyNumber)) {
                        tokens.push(Token::AnyNumber);
                    }
                }
                '?' => tokens.push(Token::Any),
                '[' => match parse_set(&characters[at..]) {
                    Some((set, length)) => {
                        tokens.push(set);
                        at += length;
                    }
                    None => tokens.push(Token::One('[')),
                },
                other => tokens.push(Token::One(other)),
            }
        }
        Self { tokens }
    }

    /// Takes time proportional to the lengths of pattern and path, multiplied.
    pub(super) fn matches(&self, path: &str) -> bool {
        let path: Vec<char> = path.chars().collect();
        let (mut token, mut at) = (0, 0);
        // Where to go on if the characters after the last star don't match: it takes one more.
        let mut star: Option<(usize, usize)> = None;
        while at < path.len() {
            match self.tokens.get(token) {
                Some(Token::AnyNumber) => {
                    star = Some((token + 1, at));
                    token += 1;
                }
                Some(one) if one.matches(path[at]) => {
                    token += 1;
                    at += 1;
                }
                _ => {
                    let Some((after, taken)) = &mut star else { return false };
                    *taken += 1;
                    (token, at) = (*after, *taken);
                }
            }
        }
        self.tokens[token..].iter().all(|token| matches!(token, Token::AnyNumber))
    }
}

/// Reads a set after its opening bracket. Returns it and its length.
fn parse_set(characters: &[char]) -> Option<(Token, usize)> {
    let is_negated = matches!(characters.first(), Some('!' | '^'));
    let start = usize::from(is_negated);
    // A closing bracket that comes first is one of the characters.
    let end = start + 1 + characters.get(start + 1..)?.iter().position(|character| *character == ']')?;
    let inside = &characters[start..end];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < inside.len() {
        if at + 2 < inside.len() && inside[at + 1] == '-' {
            ranges.push((inside[at], inside[at + 2]));
            at += 3;
        } else {
            ranges.push((inside[at], inside[at]));
            at += 1;
        }
    }
    Some((Token::Set { ranges, is_negated }, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell_but_stars_cross_folders() {
        for (pattern, path, expected) in [
            ("*", "a/b", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("data/*.txt", "data/a/b.txt", true),
            ("data/*.txt", "data/a/b.txt2", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("[0-9a]x", "7x", true),
            ("[0-9a]x", "bx", false),
            ("[!0-9]x", "bx", true),
            ("[]a]", "]", true),
            ("[abc", "[abc", true),
            ("é*", "éx", true),
            ("**a", "ba", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(path), expected, "{pattern:?} {path:?}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        assert!(!Pattern::new(&("a*".repeat(100) + "b")).matches(&"a".repeat(5_000)));
    }
}

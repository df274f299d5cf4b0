//! SPDX licence expressions, as packages declare them: `(MIT OR Apache-2.0) AND Unicode-3.0`.
//!
//! ```text
//! any     = all { "OR" all }            also "/", its notation before the standard
//! all     = term { "AND" term }
//! term    = "(" any ")" | id [ "WITH" id ]
//! ```
//!
//! Source: SPDX Specification 3.0.1, annex B.

use std::fmt;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Expression<'a> {
    One(Licence<'a>),
    All(Vec<Expression<'a>>),
    Any(Vec<Expression<'a>>),
}

/// One licence, optionally with an exception.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Licence<'a> {
    id: &'a str,
    with: Option<&'a str>,
}

impl fmt::Display for Licence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)?;
        self.with.map_or(Ok(()), |with| write!(f, " WITH {with}"))
    }
}

/// Why a text isn't a valid expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpdxError<'a> {
    Unexpected { found: &'a str },
    EndsTooSoon,
}

impl fmt::Display for SpdxError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found } => write!(f, "unexpected `{found}`"),
            Self::EndsTooSoon => write!(f, "unexpected end"),
        }
    }
}

impl<'a> Expression<'a> {
    pub(super) fn parse(text: &'a str) -> Result<Self, SpdxError<'a>> {
        let mut words = Words(text);
        let expression = Self::any(&mut words)?;
        words.next().map_or(Ok(expression), |found| Err(SpdxError::Unexpected { found }))
    }

    fn any(words: &mut Words<'a>) -> Result<Self, SpdxError<'a>> {
        let mut choices = vec![Self::all(words)?];
        while words.take("OR") || words.take("/") {
            choices.push(Self::all(words)?);
        }
        Ok(if choices.len() == 1 { choices.remove(0) } else { Self::Any(choices) })
    }

    fn all(words: &mut Words<'a>) -> Result<Self, SpdxError<'a>> {
        let mut parts = vec![Self::term(words)?];
        while words.take("AND") {
            parts.push(Self::term(words)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Self::All(parts) })
    }

    fn term(words: &mut Words<'a>) -> Result<Self, SpdxError<'a>> {
        if words.take("(") {
            let inner = Self::any(words)?;
            return if words.take(")") { Ok(inner) } else { Err(words.unexpected()) };
        }
        let id = words.id()?;
        let with = if words.take("WITH") { Some(words.id()?) } else { None };
        Ok(Self::One(Licence { id, with }))
    }

    /// The licences that prevent using the package; empty if the `allowed` ones suffice.
    pub(super) fn refused(&self, allowed: &dyn Fn(&Licence<'_>) -> bool) -> Vec<Licence<'a>> {
        match self {
            Self::One(licence) if allowed(licence) => Vec::new(),
            Self::One(licence) => vec![*licence],
            Self::All(parts) => parts.iter().flat_map(|part| part.refused(allowed)).collect(),
            Self::Any(choices) => {
                let refused: Vec<Vec<Licence<'a>>> = choices.iter().map(|choice| choice.refused(allowed)).collect();
                if refused.iter().any(Vec::is_empty) { Vec::new() } else { refused.concat() }
            }
        }
    }
}

/// The rest of the text.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(|c: char| c.is_whitespace() || "()/".contains(c)).unwrap_or(text.len());
        // Each of these three characters is a word.
        text.get(..end.max(1)).filter(|word| !word.is_empty())
    }

    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        if found {
            self.next();
        }
        found
    }

    fn id(&mut self) -> Result<&'a str, SpdxError<'a>> {
        match self.peek() {
            Some(word) if !matches!(word, "(" | ")" | "/" | "AND" | "OR" | "WITH") => {
                self.next();
                Ok(word)
            }
            _ => Err(self.unexpected()),
        }
    }

    fn unexpected(&self) -> SpdxError<'a> {
        self.peek().map_or(SpdxError::EndsTooSoon, |found| SpdxError::Unexpected { found })
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let word = self.peek()?;
        self.0 = &self.0.trim_start()[word.len()..];
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Vec<String> {
        let expression = Expression::parse(text).unwrap();
        let refused = expression.refused(&|licence| matches!(licence.to_string().as_str(), "A" | "B" | "C WITH eased"));
        refused.iter().map(Licence::to_string).collect()
    }

    #[test]
    fn and_binds_closer_than_or() {
        assert_eq!(refused("X AND Y OR A"), [""; 0]);
        assert_eq!(refused("X AND (Y OR A)"), ["X"]);
        assert_eq!(refused("A AND B OR X AND A"), [""; 0]);
    }

    #[test]
    fn a_slash_means_or() {
        assert_eq!(Expression::parse("X/A"), Expression::parse("X OR A"));
        assert_eq!(Expression::parse("X / A"), Expression::parse("X OR A"));
    }

    #[test]
    fn a_licence_with_an_exception_is_a_different_licence() {
        assert_eq!(refused("C WITH eased"), [""; 0]);
        assert_eq!(refused("C"), ["C"]);
        assert_eq!(refused("A WITH eased"), ["A WITH eased"]);
    }

    #[test]
    fn errors_name_the_unexpected_word() {
        assert_eq!(Expression::parse("A OR"), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse(""), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse("(A"), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse("A B"), Err(SpdxError::Unexpected { found: "B" }));
        assert_eq!(Expression::parse("A AND OR B"), Err(SpdxError::Unexpected { found: "OR" }));
        assert_eq!(Expression::parse("A)"), Err(SpdxError::Unexpected { found: ")" }));
    }
}

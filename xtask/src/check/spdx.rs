//! Licence expressions of SPDX, as packages write them: `(MIT OR Apache-2.0) AND Unicode-3.0`.
//!
//! ```text
//! any     = all { "OR" all }            also "/", which was the sign for it before there was a standard
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

/// One licence, perhaps with an exception that eases it.
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

/// Text that is no expression.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SpdxError<'a> {
    Unexpected { found: &'a str },
    EndsTooSoon,
}

impl fmt::Display for SpdxError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unexpected { found } => write!(f, "`{found}` makes no sense where it stands"),
            Self::EndsTooSoon => write!(f, "it ends too soon"),
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

    /// The licences that stand in the way; none if those that are `allowed` are enough to use the package.
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

/// What is left of the text.
struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn peek(&self) -> Option<&'a str> {
        let text = self.0.trim_start();
        let end = text.find(|c: char| c.is_whitespace() || "()/".contains(c)).unwrap_or(text.len());
        // Of these three each is a word by itself.
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
    fn an_old_slash_is_a_choice() {
        assert_eq!(Expression::parse("X/A"), Expression::parse("X OR A"));
        assert_eq!(Expression::parse("X / A"), Expression::parse("X OR A"));
    }

    #[test]
    fn a_licence_with_an_exception_is_one_of_its_own() {
        assert_eq!(refused("C WITH eased"), [""; 0]);
        assert_eq!(refused("C"), ["C"]);
        assert_eq!(refused("A WITH eased"), ["A WITH eased"]);
    }

    #[test]
    fn broken_expressions_say_where() {
        assert_eq!(Expression::parse("A OR"), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse(""), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse("(A"), Err(SpdxError::EndsTooSoon));
        assert_eq!(Expression::parse("A B"), Err(SpdxError::Unexpected { found: "B" }));
        assert_eq!(Expression::parse("A AND OR B"), Err(SpdxError::Unexpected { found: "OR" }));
        assert_eq!(Expression::parse("A)"), Err(SpdxError::Unexpected { found: ")" }));
    }
}

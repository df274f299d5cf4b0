//! Patterns of keys, such as `{objectId}/{candid}/{field}`.

/// A pattern: text, and names in braces that stand for values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
}

/// Why a pattern can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// A brace has no partner.
    #[error("`{0}`: a brace has no partner; write `{{{{` and `}}}}` for braces in keys")]
    Brace(String),
    /// A name is empty or has other characters.
    #[error("`{{{0}}}`: expected a name of letters, digits and `_`, with dots between the names of nested records")]
    Name(String),
}

/// Why values give no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// It is empty, or one of its values is.
    #[error("`{0}` is empty")]
    Empty(String),
    /// It is too long for S3.
    #[error("the key has {0} bytes; at most {max} are allowed", max = KEY_BYTES)]
    Long(usize),
    /// It has a control character.
    #[error("the key has a control character")]
    Control,
    /// It has a segment `.` or `..`, which clients remove.
    #[error("the key has a segment `.` or `..`")]
    Dots,
}

/// Maximum length of a key in S3.
const KEY_BYTES: usize = 1024;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`PatternError`] if braces have no partner, or a name is malformed.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut characters = text.chars().peekable();
        while let Some(character) = characters.next() {
            match character {
                '{' | '}' if characters.peek() == Some(&character) => {
                    characters.next();
                    plain.push(character);
                }
                '}' => return Err(PatternError::Brace(text.to_owned())),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match characters.next() {
                            Some('}') => break,
                            Some(character) => name.push(character),
                            None => return Err(PatternError::Brace(text.to_owned())),
                        }
                    }
                    let is_name = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                    if !name.split('.').all(is_name) {
                        return Err(PatternError::Name(name));
                    }
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Name(name));
                }
                other => plain.push(other),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { parts })
    }

    /// The names in it.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The key for values.
    ///
    /// # Errors
    /// [`KeyError`] if a value is empty, or the result can't be a key.
    pub fn key(&self, mut value: impl FnMut(&str) -> String) -> Result<String, KeyError> {
        let mut key = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => key.push_str(text),
                Part::Name(name) => {
                    let value = value(name);
                    if value.is_empty() {
                        return Err(KeyError::Empty(name.clone()));
                    }
                    key.push_str(&value);
                }
            }
        }
        checked(key)
    }
}

/// Checks a prefix for keys.
///
/// # Errors
/// [`KeyError`] if no key can begin with it, or only short ones.
pub fn check_prefix(prefix: &str) -> Result<(), KeyError> {
    checked(format!("{prefix}{}", "x".repeat(KEY_BYTES / 2 + 200))).map(drop)
}

/// A key, if S3 and its clients can use it.
///
/// # Errors
/// [`KeyError`] if not.
pub(crate) fn checked(key: String) -> Result<String, KeyError> {
    if key.is_empty() {
        return Err(KeyError::Empty("key".to_owned()));
    }
    if key.len() > KEY_BYTES {
        return Err(KeyError::Long(key.len()));
    }
    if key.chars().any(char::is_control) {
        return Err(KeyError::Control);
    }
    if key.split('/').any(|segment| matches!(segment, "." | "..")) {
        return Err(KeyError::Dots);
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(pattern: &str, value: &str) -> Result<String, KeyError> {
        Pattern::parse(pattern).expect("valid").key(|name| if name == "a" { value.to_owned() } else { format!("<{name}>") })
    }

    #[test]
    fn names_are_replaced_by_values() {
        assert_eq!(key("x/{a}/{b.c}.fits", "7").as_deref(), Ok("x/7/<b.c>.fits"));
        assert_eq!(key("{{{a}}}", "7").as_deref(), Ok("{7}"));
        assert_eq!(Pattern::parse("{a}/{b.c}").expect("valid").names().collect::<Vec<_>>(), ["a", "b.c"]);
    }

    #[test]
    fn malformed_patterns_are_refused() {
        for text in ["{a", "a}", "{a}}", "{{a}"] {
            assert_eq!(Pattern::parse(text), Err(PatternError::Brace(text.to_owned())), "{text}");
        }
        for name in ["", "a b", "a..b", ".", "a{b"] {
            assert_eq!(Pattern::parse(&format!("{{{name}}}")), Err(PatternError::Name(name.to_owned())));
        }
    }

    #[test]
    fn what_can_be_no_key_is_refused() {
        assert_eq!(key("x/{a}", ""), Err(KeyError::Empty("a".to_owned())));
        assert_eq!(key("", ""), Err(KeyError::Empty("key".to_owned())));
        assert_eq!(key("{a}", &"x".repeat(1025)), Err(KeyError::Long(1025)));
        assert_eq!(key("{a}", "a\nb"), Err(KeyError::Control));
        assert_eq!(key("x/{a}/y", ".."), Err(KeyError::Dots));
        assert!(key("x/{a}/y", "...").is_ok());
    }
}

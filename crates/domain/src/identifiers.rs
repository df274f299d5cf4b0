//! Permanent identifiers: 16 bytes each, printed as 32 hexadecimal digits.

use std::fmt;
use std::str::FromStr;

/// Text that is not an identifier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what happened, with its fields")]
pub enum IdentifierError {
    #[error("invalid identifier of {found} characters: must be exactly 32 hexadecimal digits")]
    Malformed {
        /// Characters of the text.
        found: usize,
    },
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = IdentifierError;

            fn from_str(text: &str) -> Result<Self, IdentifierError> {
                parse_hex(text).map(Self)
            }
        }
    };
}

identifier! {
    /// One archive: one settings file, one catalogue, one key store.
    ArchiveId
}
identifier! {
    /// One platter-set.
    SetId
}
identifier! {
    /// One platter. A platter rebuilt from its set keeps the identifier and the bytes of the one it
    /// replaces.
    PlatterId
}
identifier! {
    /// One version of one object: 48 bits of time (milliseconds since 1970, big-endian), then 80
    /// random bits. Identifiers sort by creation time.
    VersionId
}

impl VersionId {
    /// The identifier of a version created at `created_ms` (milliseconds since 1970); `chance`
    /// distinguishes versions of the same instant.
    #[must_use]
    pub fn new(created_ms: u64, chance: [u8; 10]) -> Self {
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&created_ms.to_be_bytes()[2..]);
        bytes[6..].copy_from_slice(&chance);
        Self(bytes)
    }
}

fn parse_hex(text: &str) -> Result<[u8; 16], IdentifierError> {
    let malformed = || IdentifierError::Malformed { found: text.chars().count() };
    if text.len() != 32 || !text.is_ascii() {
        return Err(malformed());
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digit = |c: u8| (c as char).to_digit(16);
        let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) else { return Err(malformed()) };
        *byte = (high * 16 + low) as u8;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_identifier_parses_back() {
        let id = PlatterId(std::array::from_fn(|i| (i * 17 + 3) as u8));
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn anything_but_32_hexadecimal_digits_is_rejected() {
        for text in ["", "12", "zz000000000000000000000000000000", "+f000000000000000000000000000000", "é0000000000000000000000000000000"]
        {
            assert!(text.parse::<SetId>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_later_version_sorts_after_an_earlier_one() {
        assert!(VersionId::new(1_000, [0xff; 10]) < VersionId::new(1_001, [0; 10]));
    }
}

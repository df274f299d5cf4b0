//! Object keys: one per sealed version, stored wrapped by the archive's master key (AES-KW, RFC
//! 3394).

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrap};
use zeroize::Zeroizing;

use crate::hex::{parse_hex, push_hex};

/// The key of one sealed version. Wiped from memory when dropped; its debug output is redacted.
#[derive(Clone)]
pub struct ObjectKey(Zeroizing<[u8; 32]>);

impl ObjectKey {
    /// Creates a key. The bytes must be random and used for one version only, because frame nonces
    /// come from the index.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The secret bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ObjectKey(..)")
    }
}

/// An object key as stored: useless without the master key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WrappedKey(pub [u8; 40]);

impl fmt::Debug for WrappedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappedKey(..)")
    }
}

/// The master key does not open a wrapped key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the master key does not open this wrapped key: it belongs to another archive, or the wrapped key is damaged")]
pub struct WrongKey;

/// Text that is not a master key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid master key: expected 64 hexadecimal digits, found {found} characters{}",
    if *found == 64 { ", not all of them hexadecimal digits" } else { "" }
)]
pub struct KeyTextError {
    /// Number of characters found.
    pub found: usize,
}

/// The key that wraps all object keys of an archive. Wiped from memory when dropped; its debug
/// output is redacted.
#[derive(Clone)]
pub struct MasterKey(Zeroizing<[u8; 32]>);

impl MasterKey {
    /// Creates a key. The bytes must be random.
    #[must_use]
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// The secret bytes.
    #[must_use]
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key as 64 lower-case hexadecimal digits, for the key file.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(64));
        push_hex(&mut text, self.expose());
        text
    }

    /// Wraps an object key for storage.
    #[must_use]
    pub fn wrap(&self, key: &ObjectKey) -> WrappedKey {
        let mut wrapped = WrappedKey([0; 40]);
        let bytes = self.cipher().wrap(key.expose(), &mut wrapped.0).expect("32 bytes wrap into 40");
        assert_eq!(bytes.len(), 40, "RFC 3394 adds eight bytes");
        wrapped
    }

    /// Unwraps an object key.
    ///
    /// # Errors
    /// [`WrongKey`] if it was wrapped by another master key or has changed since.
    pub fn unwrap(&self, wrapped: &WrappedKey) -> Result<ObjectKey, WrongKey> {
        let mut key = ObjectKey::new([0; 32]);
        match self.cipher().unwrap(&wrapped.0, &mut *key.0) {
            Ok(bytes) if bytes.len() == 32 => Ok(key),
            _ => Err(WrongKey),
        }
    }

    fn cipher(&self) -> AesKek {
        AesKek::new(&AES_256, self.expose()).expect("a key of 32 bytes")
    }
}

impl FromStr for MasterKey {
    type Err = KeyTextError;

    /// Reads 64 hexadecimal digits. Surrounding white space is ignored, because editors like to end
    /// a file with a line feed.
    fn from_str(text: &str) -> Result<Self, KeyTextError> {
        let text = text.trim();
        let mut key = Self::new([0; 32]);
        parse_hex(text.as_bytes(), &mut key.0).ok_or_else(|| KeyTextError { found: text.chars().count() })?;
        Ok(key)
    }
}

impl fmt::Debug for MasterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MasterKey(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<const N: usize>(hex: &str) -> [u8; N] {
        let mut bytes = [0; N];
        parse_hex(hex.as_bytes(), &mut bytes).unwrap();
        bytes
    }

    #[test]
    fn wrapping_agrees_with_rfc_3394_section_4_6() {
        let master = MasterKey::new(bytes("000102030405060708090A0B0C0D0E0F101112131415161718191A1B1C1D1E1F"));
        let key = ObjectKey::new(bytes("00112233445566778899AABBCCDDEEFF000102030405060708090A0B0C0D0E0F"));
        let wrapped = master.wrap(&key);
        assert_eq!(wrapped.0, bytes("28C9F404C4B810F4CBCCB35CFB87F8263F5786E2D80ED326CBC7F0E71A99F43BFB988B9B7A02DD21"));
        assert_eq!(master.unwrap(&wrapped).unwrap().expose(), key.expose());
    }

    #[test]
    fn another_master_key_and_a_changed_wrapped_key_are_refused() {
        let master = MasterKey::new([1; 32]);
        let wrapped = master.wrap(&ObjectKey::new([2; 32]));
        assert_eq!(MasterKey::new([3; 32]).unwrap(&wrapped).unwrap_err(), WrongKey);
        for at in 0..40 {
            let mut changed = wrapped;
            changed.0[at] ^= 1;
            assert!(master.unwrap(&changed).is_err());
        }
    }

    #[test]
    fn a_master_key_reads_back_even_if_an_editor_added_a_line_feed() {
        let master = MasterKey::new(std::array::from_fn(|i| i as u8 * 7));
        let text = format!("{}\n", *master.to_hex());
        assert_eq!(text.parse::<MasterKey>().unwrap().expose(), master.expose());
        for bad in ["", &text[1..], &text.replace("07", "0g"), &text.replace('\n', "0")] {
            assert!(bad.parse::<MasterKey>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn no_secret_is_printed() {
        let master = MasterKey::new([0xab; 32]);
        let key = ObjectKey::new([0xab; 32]);
        let printed = format!("{master:?} {key:?} {:?}", master.wrap(&key));
        assert_eq!(printed, "MasterKey(..) ObjectKey(..) WrappedKey(..)");
    }

    #[test]
    fn the_error_of_a_wrong_text_says_what_is_wrong() {
        let error = |text: &str| text.parse::<MasterKey>().unwrap_err().to_string();
        assert!(error(&"5a".repeat(31)).ends_with("found 62 characters"), "{}", error(&"5a".repeat(31)));
        let other = "5x".repeat(32);
        assert!(error(&other).ends_with("found 64 characters, not all of them hexadecimal digits"), "{}", error(&other));
    }
}

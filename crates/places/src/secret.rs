//! Secrets are named, never given: by an environment variable or a file.

use std::fs::File;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

use super::{Cause, Refusal};

/// Bytes that a file with a secret may have. The largest are Google's, of some KiB.
const SECRET_BYTES_MAX: u64 = 64 << 10;

/// Looks up a value of the form `env:NAME` or `file:PATH`. Returns others as they are.
///
/// # Errors
/// [`Cause::Unsupported`] if the variable or the file doesn't exist, or is unusable.
pub(super) fn resolve(option: &str, value: &str) -> Result<String, Refusal> {
    let unusable = |problem: String| Refusal::new(Cause::Unsupported, format!("{option}={value}: {problem}"));
    let secret = if let Some(name) = value.strip_prefix("env:") {
        std::env::var(name).map_err(|error| match error {
            std::env::VarError::NotPresent => unusable("this environment variable is not set".to_owned()),
            std::env::VarError::NotUnicode(_) => unusable("this environment variable is not valid UTF-8".to_owned()),
        })?
    } else if let Some(path) = value.strip_prefix("file:") {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text));
        read.map_err(|error| unusable(error.to_string()))?;
        if text.len() as u64 > SECRET_BYTES_MAX {
            return Err(unusable(format!("the file has more than {SECRET_BYTES_MAX} bytes")));
        }
        // Editors end files with a line end, which belongs to no secret.
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
        text
    } else {
        return Ok(value.to_owned());
    };
    match secret.is_empty() {
        true => Err(unusable("it is empty".to_owned())),
        false => Ok(secret),
    }
}

/// What a connection must keep out of messages.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    given: Vec<String>,
    /// The newest tokens that a service issued. An older one may still be in an answer.
    tokens: Mutex<[String; 2]>,
}

impl Secrets {
    pub(super) fn new(given: Vec<String>) -> Self {
        Self { given, tokens: Mutex::default() }
    }

    pub(super) fn add_token(&self, token: &str) {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens[1] != token {
            tokens.swap(0, 1);
            token.clone_into(&mut tokens[1]);
        }
    }

    /// Replaces them, and signatures, in a text.
    pub(super) fn scrub(&self, text: &str) -> String {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        scrub(&scrub(text, &self.given), &*tokens)
    }
}

/// What precedes a signature or a token in a URL or a header, in lower case.
const SIGNED: [&str; 4] = ["signature=", "sig=", "token=", "signature: "];

/// Replaces secrets in a text that a library or a server made, and signatures: some servers repeat
/// the request in their answers.
fn scrub(text: &str, secrets: &[String]) -> String {
    let mut text = text.to_owned();
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        text = text.replace(secret.as_str(), "***");
    }
    for marker in SIGNED {
        let mut from = 0;
        // ASCII letters only change their case, so positions stay.
        while let Some(at) = text[from..].to_ascii_lowercase().find(marker) {
            let begin = from + at + marker.len();
            let is_value = |c: char| c.is_ascii_alphanumeric() || "%+/=._~-".contains(c);
            let end = text[begin..].find(|c| !is_value(c)).map_or(text.len(), |length| begin + length);
            if end > begin {
                text.replace_range(begin..end, "***");
            }
            from = begin;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_masked_wherever_a_server_repeats_them() {
        for (text, scrubbed) in [
            ("error at /p/f?X-Amz-Date=1&X-Amz-Signature=57fb298f&x=1", "error at /p/f?X-Amz-Date=1&X-Amz-Signature=***&x=1"),
            ("sv=2020&amp;sig=a%2Bb%3D&amp;se=1", "sv=2020&amp;sig=***&amp;se=1"),
            ("AWS4-HMAC-SHA256 Signature=0a, SIGNATURE=0b", "AWS4-HMAC-SHA256 Signature=***, SIGNATURE=***"),
            ("X-Amz-Security-Token=abc temp_url_sig=12", "X-Amz-Security-Token=*** temp_url_sig=***"),
            ("no signature= here; ü signature=é", "no signature= here; ü signature=é"),
            ("pass word", "*** word"),
        ] {
            assert_eq!(scrub(text, &["pass".to_owned(), String::new()]), scrubbed);
        }
    }

    #[test]
    fn a_secret_in_a_file_loses_only_its_line_end() {
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), " s3cret \r\n").expect("it can be written");
        let reference = format!("file:{}", file.path().display());
        assert_eq!(resolve("password", &reference), Ok(" s3cret ".to_owned()));
        assert_eq!(resolve("region", "eu"), Ok("eu".to_owned()));
    }

    #[test]
    fn missing_empty_and_oversized_secrets_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("secret");
        let reference = format!("file:{}", file.display());
        for content in [None, Some(String::new()), Some("\n".to_owned()), Some("x".repeat(70_000))] {
            if let Some(content) = content {
                std::fs::write(&file, content).expect("it can be written");
            }
            let refusal = resolve("password", &reference).expect_err("unusable");
            assert_eq!(refusal.cause, Cause::Unsupported);
            assert!(refusal.detail.starts_with("password=file:") && refusal.detail.len() < 300, "{refusal}");
        }
        assert!(resolve("password", "env:FULGURITE_NO_SUCH_VARIABLE").is_err());
    }
}

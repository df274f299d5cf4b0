//! Exported keys: a text file with the master key and all wrapped keys, ending in their count and a
//! digest.
//!
//! ```text
//! fulgurite-keys 1
//! archive <32 hex digits>
//! master <64 hex digits>
//! key <version, 32 hex digits> <wrapped key, 80 hex digits>          one line per key
//! end <number of keys> <SHA-256 of all bytes before this line>
//! ```

use std::io::{self, Read, Seek, SeekFrom, Write};

use aws_lc_rs::digest::{Context, SHA256};
use fulgurite_domain::{ArchiveId, VersionId};
use zeroize::{Zeroize, Zeroizing};

use crate::hex::{parse_hex, push_hex};
use crate::unreadable::read_or_zero;
use crate::v1::VERSION;
use crate::v1::keys::{MasterKey, WrappedKey};
use crate::v1::sealed_export::begins_as_sealed;

const TITLE: &str = "fulgurite-keys";
/// The longest line: `key`, two spaces, 32 and 80 digits, a line feed.
const LINE_BYTES_MAX: usize = 3 + 2 + 32 + 80 + 1;
const BUFFER_BYTES: usize = 4_096;

/// Metadata of an export.
#[derive(Debug, Clone)]
pub struct KeyExport {
    /// The archive that the keys belong to.
    pub archive: ArchiveId,
    /// Its master key.
    pub master: MasterKey,
    /// Number of keys.
    pub keys: u64,
}

/// Why a file is not a complete key export.
#[derive(Debug, thiserror::Error)]
pub enum KeyExportError {
    /// The first line is wrong.
    #[error("this is not a Fulgurite key export: its first line should be `{TITLE} {VERSION}`")]
    NotAnExport,
    /// Sealed with a passphrase.
    #[error("this key export is sealed: give the passphrase")]
    Sealed,
    /// Written by a later version of the format.
    #[error("the key export has format version {0}, this program reads up to {VERSION}: use a newer program")]
    Newer(u64),
    /// A line violates the format.
    #[error("line {line} of the key export has {what}: the file was changed or damaged, use another copy")]
    Malformed {
        /// Line number, counted from 1 as editors do.
        line: u64,
        /// What was found.
        what: &'static str,
    },
    /// The last line is missing.
    #[error("the key export is truncated after line {0}: use another copy")]
    Truncated(u64),
    /// The last line gives a different number of keys.
    #[error("the key export has {found} keys, but its last line says {expected}: the file was changed or damaged, use another copy")]
    Count {
        /// Keys found.
        found: u64,
        /// Keys according to the last line.
        expected: u64,
    },
    /// The digest in the last line doesn't match.
    #[error("the digest in the last line of the key export is wrong: the file was changed or damaged, use another copy")]
    Digest,
    /// Reading failed.
    #[error("the key export could not be read")]
    Read(#[from] io::Error),
}

impl KeyExportError {
    /// Whether the text is merely damaged, so that some of its lines may still be good: see
    /// [`read_damaged_key_export`].
    #[must_use]
    pub fn has_intact_lines(&self) -> bool {
        matches!(
            self,
            Self::NotAnExport | Self::Malformed { .. } | Self::Truncated { .. } | Self::Count { .. } | Self::Digest | Self::Read(_)
        )
    }
}

/// Writes an export, one key at a time.
pub struct KeyExportWriter<W> {
    writer: W,
    line: Zeroizing<String>,
    digest: Context,
    keys: u64,
}

impl<W: Write> KeyExportWriter<W> {
    /// Starts an export.
    ///
    /// # Errors
    /// Write errors.
    pub fn new(writer: W, archive: ArchiveId, master: &MasterKey) -> io::Result<Self> {
        // With capacity for any line, the text is never reallocated, so wiping it leaves no copy.
        let line = Zeroizing::new(String::with_capacity(2 * LINE_BYTES_MAX));
        let mut export = Self { writer, line, digest: Context::new(&SHA256), keys: 0 };
        export.line.push_str(&format!("{TITLE} {VERSION}"));
        export.end_line()?;
        export.line.push_str("archive ");
        push_hex(&mut export.line, &archive.0);
        export.end_line()?;
        export.line.push_str("master ");
        push_hex(&mut export.line, master.expose());
        export.end_line()?;
        Ok(export)
    }

    /// Writes one key.
    ///
    /// # Errors
    /// Write errors.
    pub fn push(&mut self, version: VersionId, key: &WrappedKey) -> io::Result<()> {
        self.line.push_str("key ");
        push_hex(&mut self.line, &version.0);
        self.line.push(' ');
        push_hex(&mut self.line, &key.0);
        self.end_line()?;
        self.keys += 1;
        Ok(())
    }

    /// Writes the last line and returns the writer.
    ///
    /// # Errors
    /// Write errors.
    pub fn finish(mut self) -> io::Result<W> {
        self.line.push_str(&format!("end {} ", self.keys));
        let digest = self.digest.clone().finish();
        push_hex(&mut self.line, digest.as_ref());
        self.end_line()?;
        Ok(self.writer)
    }

    fn end_line(&mut self) -> io::Result<()> {
        self.line.push('\n');
        self.writer.write_all(self.line.as_bytes())?;
        self.digest.update(self.line.as_bytes());
        self.line.zeroize();
        Ok(())
    }
}

/// Reads an export that is not sealed, or through
/// [`SealedExportReader`](crate::SealedExportReader).
///
/// Passes each key to `on_key` as it is read. Only a return of `Ok` proves that all keys are
/// present and correct; don't commit any of them before.
///
/// # Errors
/// [`KeyExportError`], and any error of `on_key`.
pub fn read_key_export<E: From<KeyExportError>>(
    reader: impl Read,
    mut on_key: impl FnMut(VersionId, WrappedKey) -> Result<(), E>,
) -> Result<KeyExport, E> {
    let mut lines = Lines { reader, buffer: Zeroizing::new([0; BUFFER_BYTES]), start: 0, end: 0, read: 0 };
    let mut digest = Context::new(&SHA256);

    check_title(lines.next()?, &mut digest)?;
    let mut archive = ArchiveId([0; 16]);
    let line = lines.next()?.ok_or(KeyExportError::Truncated(1))?;
    field(line, b"archive ", &mut archive.0).ok_or(KeyExportError::Malformed { line: 2, what: "no archive" })?;
    digest_line(&mut digest, line);
    let mut master = Zeroizing::new([0; 32]);
    let line = lines.next()?.ok_or(KeyExportError::Truncated(2))?;
    field(line, b"master ", &mut master).ok_or(KeyExportError::Malformed { line: 3, what: "no master key" })?;
    digest_line(&mut digest, line);

    let mut keys = 0;
    loop {
        let number = 4 + keys;
        let line = lines.next()?.ok_or(KeyExportError::Truncated(number - 1))?;
        if line.starts_with(b"end ") {
            let last = parse_end(line).ok_or(KeyExportError::Malformed { line: number, what: "no number and digest after `end`" })?;
            if last.keys != keys {
                return Err(KeyExportError::Count { found: keys, expected: last.keys }.into());
            }
            if last.digest != digest.finish().as_ref() {
                return Err(KeyExportError::Digest.into());
            }
            if !lines.at_end()? {
                return Err(KeyExportError::Malformed { line: number + 1, what: "bytes after the last line" }.into());
            }
            return Ok(KeyExport { archive, master: MasterKey::new(*master), keys });
        }
        let (version, key) = parse_key(line).ok_or(KeyExportError::Malformed { line: number, what: "neither a key nor the end" })?;
        digest_line(&mut digest, line);
        on_key(version, key)?;
        keys += 1;
    }
}

/// What a damaged export still yields.
#[derive(Debug, Clone)]
pub struct DamagedKeyExport {
    /// The archive that the keys belong to; `None` if the line that names it is damaged.
    pub archive: Option<ArchiveId>,
    /// The master key, which opened at least one of the keys.
    pub master: MasterKey,
    /// Number of keys.
    pub keys: u64,
}

/// Salvages a damaged export: every line that is still a key and opens with the master key.
/// Unreadable sectors cost the lines that reach into them.
///
/// The master key is the one in the text, or `known` with its archive, whichever opens a key first.
/// A line whose version identifier was changed is passed on under that wrong identifier, which no
/// version has. Returns `None` if no key opens, because the master key is then uncertain.
///
/// # Errors
/// [`KeyExportError::Read`] if seeking fails, and any error of `on_key`.
pub fn read_damaged_key_export<E: From<KeyExportError>>(
    mut reader: impl Read + Seek,
    known: Option<(ArchiveId, &MasterKey)>,
    mut on_key: impl FnMut(VersionId, WrappedKey) -> Result<(), E>,
) -> Result<Option<DamagedKeyExport>, E> {
    let mut archive = None;
    let mut master = None;
    let mut certain: Option<DamagedKeyExport> = None;
    let mut on_line = |line: &[u8]| -> Result<(), E> {
        let line = line.trim_ascii();
        if certain.is_none() {
            let (mut id, mut bytes) = ([0; 16], Zeroizing::new([0; 32]));
            if field(line, b"archive ", &mut id).is_some() {
                archive = Some(ArchiveId(id));
            }
            if field(line, b"master ", &mut bytes).is_some() {
                master = Some(MasterKey::new(*bytes));
            }
        }
        let Some((version, key)) = parse_key(line) else { return Ok(()) };
        if certain.is_none() {
            let known = known.map(|(archive, master)| (Some(archive), master));
            let of_text = master.as_ref().map(|master| (archive, master));
            let opening = known.into_iter().chain(of_text).find(|(_, master)| master.unwrap(&key).is_ok());
            certain = opening.map(|(archive, master)| DamagedKeyExport { archive, master: master.clone(), keys: 0 });
        }
        if let Some(export) = certain.as_mut().filter(|export| export.master.unwrap(&key).is_ok()) {
            export.keys += 1;
            on_key(version, key)?;
        }
        Ok(())
    };
    let length = reader.seek(SeekFrom::End(0)).map_err(KeyExportError::Read)?;
    let mut buffer = Zeroizing::new([0; BUFFER_BYTES]);
    // The start of a line. Longer lines are invalid, so their rest is skipped.
    let mut line = Zeroizing::new(Vec::with_capacity(2 * LINE_BYTES_MAX));
    for start in (0..length).step_by(BUFFER_BYTES) {
        let bytes = BUFFER_BYTES.min(usize::try_from(length - start).unwrap_or(usize::MAX));
        // The zeros of an unreadable sector make the line that they are in invalid.
        read_or_zero(&mut reader, start, &mut buffer[..bytes]).map_err(KeyExportError::Read)?;
        for &byte in &buffer[..bytes] {
            if byte == b'\n' {
                on_line(&line)?;
                line.zeroize();
            } else if line.len() <= LINE_BYTES_MAX {
                line.push(byte);
            }
        }
    }
    on_line(&line)?;
    Ok(certain)
}

fn check_title(line: Option<&[u8]>, digest: &mut Context) -> Result<(), KeyExportError> {
    let line = line.ok_or(KeyExportError::NotAnExport)?;
    let version = line.strip_prefix(TITLE.as_bytes()).and_then(|rest| rest.strip_prefix(b" ")).and_then(parse_number);
    match version.ok_or(KeyExportError::NotAnExport)? {
        0 => Err(KeyExportError::NotAnExport),
        found if found > u64::from(VERSION) => Err(KeyExportError::Newer(found)),
        _ => {
            digest_line(digest, line);
            Ok(())
        }
    }
}

/// Reads a line that consists of a word and hexadecimal digits.
fn field<const N: usize>(line: &[u8], word: &[u8], bytes: &mut [u8; N]) -> Option<()> {
    parse_hex(line.strip_prefix(word)?, bytes)
}

fn parse_key(line: &[u8]) -> Option<(VersionId, WrappedKey)> {
    let (version, key) = line.strip_prefix(b"key ")?.split_at_checked(32)?;
    let (mut id, mut wrapped) = (VersionId([0; 16]), WrappedKey([0; 40]));
    parse_hex(version, &mut id.0)?;
    parse_hex(key.strip_prefix(b" ")?, &mut wrapped.0)?;
    Some((id, wrapped))
}

struct End {
    keys: u64,
    digest: [u8; 32],
}

fn parse_end(line: &[u8]) -> Option<End> {
    let rest = line.strip_prefix(b"end ")?;
    let space = rest.iter().position(|&byte| byte == b' ')?;
    let mut digest = [0; 32];
    parse_hex(&rest[space + 1..], &mut digest)?;
    Some(End { keys: parse_number(&rest[..space])?, digest })
}

/// Reads decimal digits without sign or leading zeros.
fn parse_number(digits: &[u8]) -> Option<u64> {
    if !digits.iter().all(u8::is_ascii_digit) || (digits.len() > 1 && digits[0] == b'0') {
        return None;
    }
    str::from_utf8(digits).ok()?.parse().ok()
}

fn digest_line(digest: &mut Context, line: &[u8]) {
    digest.update(line);
    digest.update(b"\n");
}

/// Splits input into lines, in a buffer that is wiped on drop.
struct Lines<R> {
    reader: R,
    buffer: Zeroizing<[u8; BUFFER_BYTES]>,
    start: usize,
    end: usize,
    read: u64,
}

impl<R: Read> Lines<R> {
    /// The next line without its line feed; `None` if the bytes end without one.
    fn next(&mut self) -> Result<Option<&[u8]>, KeyExportError> {
        let feed = loop {
            let ready = &self.buffer[self.start..self.end];
            if let Some(feed) = ready.iter().take(LINE_BYTES_MAX).position(|&byte| byte == b'\n') {
                break feed;
            }
            if self.read == 0 && begins_as_sealed(ready) {
                return Err(KeyExportError::Sealed);
            }
            if ready.len() >= LINE_BYTES_MAX {
                return Err(match self.read {
                    0 => KeyExportError::NotAnExport,
                    read => KeyExportError::Malformed { line: read + 1, what: "too many characters" },
                });
            }
            if self.fill()? == 0 {
                return Ok(None);
            }
        };
        let line = self.start..self.start + feed;
        self.start = line.end + 1;
        self.read += 1;
        if self.read == 1 && begins_as_sealed(&self.buffer[line.clone()]) {
            return Err(KeyExportError::Sealed);
        }
        Ok(Some(&self.buffer[line]))
    }

    fn at_end(&mut self) -> Result<bool, KeyExportError> {
        Ok(self.start == self.end && self.fill()? == 0)
    }

    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        let more = loop {
            match self.reader.read(&mut self.buffer[self.end..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result?,
            }
        };
        self.end += more;
        Ok(more)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::unreadable::SECTOR_BYTES;
    use crate::unreadable::tests::Worn;

    type Read = Result<(KeyExport, Vec<(VersionId, WrappedKey)>), KeyExportError>;

    pub(crate) fn text(keys: &[(VersionId, WrappedKey)]) -> Vec<u8> {
        let master = MasterKey::new(std::array::from_fn(|i| i as u8));
        let mut export = KeyExportWriter::new(Vec::new(), ArchiveId([10; 16]), &master).unwrap();
        for (version, key) in keys {
            export.push(*version, key).unwrap();
        }
        export.finish().unwrap()
    }

    fn read(bytes: &[u8]) -> Read {
        let mut keys = Vec::new();
        let export = read_key_export(bytes, |version, key| {
            keys.push((version, key));
            Ok::<_, KeyExportError>(())
        })?;
        Ok((export, keys))
    }

    fn keys(count: u8) -> Vec<(VersionId, WrappedKey)> {
        (0..count).map(|n| (VersionId([n; 16]), WrappedKey([n ^ 0x5c; 40]))).collect()
    }

    #[test]
    fn the_text_is_laid_out_as_specified() {
        let version = VersionId(std::array::from_fn(|i| i as u8));
        let expected = "fulgurite-keys 1\n\
            archive 0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\n\
            master 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n\
            key 000102030405060708090a0b0c0d0e0f \
            5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c\n\
            end 1 6b069add070a282ea179fb67f5870d99b991df0b49c1d6839d52e395787c212c\n";
        assert_eq!(String::from_utf8(text(&[(version, WrappedKey([0x5c; 40]))])).unwrap(), expected);
    }

    #[test]
    fn all_keys_come_back() {
        for count in [0, 1, 255] {
            let (export, back) = read(&text(&keys(count))).unwrap();
            assert_eq!((export.archive, export.keys), (ArchiveId([10; 16]), count.into()));
            assert_eq!(export.master.expose()[..3], [0, 1, 2]);
            assert_eq!(back, keys(count));
        }
    }

    #[test]
    fn errors_in_an_export_are_reported_precisely() {
        let good = String::from_utf8(text(&keys(2))).unwrap();
        let swap = |from: &str, to: &str| read(good.replacen(from, to, 1).as_bytes());
        assert!(matches!(read(b""), Err(KeyExportError::NotAnExport)));
        assert!(matches!(read(&[0; 10_000]), Err(KeyExportError::NotAnExport)));
        assert!(matches!(read(b"FULGKEYS\x01\0\0\0"), Err(KeyExportError::Sealed)));
        assert!(matches!(swap("keys 1", "keys 2"), Err(KeyExportError::Newer(2))));
        assert!(matches!(swap("archive", "Archive"), Err(KeyExportError::Malformed { line: 2, .. })));
        assert!(matches!(swap("master 0", "master g"), Err(KeyExportError::Malformed { line: 3, .. })));
        assert!(matches!(swap("key 0", "key  0"), Err(KeyExportError::Malformed { line: 4, .. })));
        assert!(matches!(swap("end 2", "end 3"), Err(KeyExportError::Count { found: 2, expected: 3 })));
        assert!(matches!(swap("end 2", "end 02"), Err(KeyExportError::Malformed { line: 6, .. })));
        assert!(matches!(swap("archive 0a", "archive 0b"), Err(KeyExportError::Digest)));
        assert!(matches!(read(format!("{good}\n").as_bytes()), Err(KeyExportError::Malformed { line: 7, .. })));
        let line = format!("key {}\n", "0".repeat(5_000));
        assert!(matches!(swap("end", &line), Err(KeyExportError::Malformed { line: 6, .. })));
    }

    type Salvaged = Option<(DamagedKeyExport, Vec<(VersionId, WrappedKey)>)>;

    fn read_damaged(bytes: &[u8], known: Option<(ArchiveId, &MasterKey)>) -> Salvaged {
        read_worn(io::Cursor::new(bytes), known)
    }

    fn read_worn(file: impl io::Read + Seek, known: Option<(ArchiveId, &MasterKey)>) -> Salvaged {
        let mut keys = Vec::new();
        let export = read_damaged_key_export(file, known, |version, key| {
            keys.push((version, key));
            Ok::<_, KeyExportError>(())
        });
        export.unwrap().map(|export| (export, keys))
    }

    #[test]
    fn every_intact_line_of_a_damaged_export_is_read() {
        let master = MasterKey::new(std::array::from_fn(|i| i as u8));
        let archive = ArchiveId([10; 16]);
        let keys: Vec<_> = (0..20).map(|n| (VersionId([n; 16]), master.wrap(&crate::ObjectKey::new([n; 32])))).collect();
        let good = text(&keys);
        assert_eq!(read_damaged(&good, None).unwrap().1, keys);
        for at in 0..good.len() {
            let mut damaged = good.clone();
            damaged[at] ^= 1;
            let (export, back) = match read_damaged(&damaged, None) {
                Some(read) => read,
                // Without its master key, the text opens only with a known one.
                None => {
                    assert!(read_damaged(&damaged, Some((archive, &MasterKey::new([9; 32])))).is_none());
                    read_damaged(&damaged, Some((archive, &master))).unwrap()
                }
            };
            assert_eq!((export.master.expose(), export.keys), (master.expose(), back.len() as u64), "byte {at}");
            let wrong: Vec<_> = back.iter().filter(|pair| !keys.contains(pair)).collect();
            // A lost line feed takes two lines with it.
            assert!(back.len() >= 18, "byte {at}");
            // At most the identifier is wrong, and no version has it; the key never is.
            assert!(wrong.iter().all(|(id, key)| !keys.iter().any(|pair| pair.0 == *id) && keys.iter().any(|pair| pair.1 == *key)));
        }
        let cut = &good[..good.len() / 2];
        assert_eq!(read_damaged(cut, None).unwrap().1, keys[..read_damaged(cut, None).unwrap().1.len()]);
        assert!(read_damaged(b"hello\n", Some((archive, &master))).is_none());
        let endless = vec![b'k'; 100_000];
        assert!(read_damaged(&endless, None).is_none());
    }

    #[test]
    fn unreadable_sectors_cost_only_the_lines_in_them() {
        let master = MasterKey::new(std::array::from_fn(|i| i as u8));
        let keys: Vec<_> = (0..200).map(|n| (VersionId([n; 16]), master.wrap(&crate::ObjectKey::new([n; 32])))).collect();
        let good = text(&keys);
        let sectors = good.len().div_ceil(SECTOR_BYTES) as u64;
        let line_bytes = 118;
        for unreadable in 0..sectors {
            let worn = Worn { bytes: io::Cursor::new(&good), unreadable: &[unreadable] };
            // The first sector has the master key.
            let known = (ArchiveId([10; 16]), &master);
            let (_, back) = read_worn(worn, Some(known)).expect("keys");
            let lost = SECTOR_BYTES.div_ceil(line_bytes) + 1;
            assert!(back.len() >= 200 - lost && back.len() < 200, "sector {unreadable}: {} keys", back.len());
            assert!(back.iter().all(|pair| keys.contains(pair)));
        }
    }

    #[test]
    fn a_damaged_line_of_the_archive_is_not_taken_for_another_archive() {
        let master = MasterKey::new(std::array::from_fn(|i| i as u8));
        let keys = [(VersionId([1; 16]), master.wrap(&crate::ObjectKey::new([1; 32])))];
        let good = String::from_utf8(text(&keys)).unwrap();
        let damaged = good.replacen("archive 0", "archive x", 1);
        let (export, back) = read_damaged(damaged.as_bytes(), None).expect("keys");
        assert_eq!((export.archive, back.len()), (None, 1));
        assert_eq!(read_damaged(good.as_bytes(), None).expect("keys").0.archive, Some(ArchiveId([10; 16])));
        let known = Some((ArchiveId([10; 16]), &master));
        assert_eq!(read_damaged(damaged.as_bytes(), known).expect("keys").0.archive, Some(ArchiveId([10; 16])));
    }

    #[test]
    fn a_truncated_export_is_rejected() {
        let good = text(&keys(2));
        for cut in 0..good.len() {
            assert!(read(&good[..cut]).is_err(), "cut to {cut}");
        }
        assert!(matches!(read(&good[..good.len() - 1]), Err(KeyExportError::Truncated(5))));
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_detected(at: prop::sample::Index, change in 1u8..) {
            let mut bytes = text(&keys(3));
            let at = at.index(bytes.len());
            bytes[at] ^= change;
            // Only the case of hexadecimal digits in the last line may change.
            if let Ok((export, back)) = read(&bytes) {
                prop_assert_eq!(change, 0x20);
                prop_assert_eq!((export.archive, back), (ArchiveId([10; 16]), keys(3)));
            }
        }
    }
}

//! A key export sealed under a passphrase, format version 1.
//!
//! ```text
//! FULGKEYS | version | log2 N | r  | p  | salt | frame 0 [tag] | frame 1 [tag] | ... | last frame [tag]
//! 0          8         12       13   17   21     37
//! ```
//!
//! scrypt (RFC 7914) derives the key from the passphrase. The associated data marks the last frame,
//! so truncation at a frame boundary is detected. Version 2 ([`crate::v2`]) puts the same frames
//! into blocks with error correction; version 1 is read only.

use std::io::{self, Read, Write};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, UnboundKey};
use zeroize::Zeroizing;

use crate::v1::frame::{FRAME_BYTES, STORED_FRAME_BYTES, numbered_nonce};
use crate::v1::{VERSION, u32_at};
use crate::v2;

/// Bytes of a salt.
pub const SALT_BYTES: usize = 16;

const MAGIC: &[u8; 8] = b"FULGKEYS";
pub(crate) const HEAD_BYTES: usize = 37;
const TEXT: &[u8; 17] = b"fulgurite keys v1";
const NONCE_DOMAIN: u8 = 2;
/// Most memory that scrypt may take, 128 N r bytes.
const MEMORY_BYTES_MAX: u64 = 256 << 20;
/// Most work that scrypt may take, as N r p: 32 times that of the default cost.
const WORK_MAX: u64 = 32 * (8 << 15);

/// Work factor of scrypt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScryptCost {
    /// Logarithm of N, the number of blocks held in memory: 10 to 20.
    pub log2_n: u8,
    /// Block length in units of 128 bytes.
    pub r: u32,
    /// Number of repetitions.
    pub p: u32,
}

impl Default for ScryptCost {
    /// 32 MiB of memory and about a tenth of a second.
    fn default() -> Self {
        Self { log2_n: 15, r: 8, p: 1 }
    }
}

impl ScryptCost {
    /// A file may name any cost. More than [`MEMORY_BYTES_MAX`] or [`WORK_MAX`] is rejected before
    /// any is spent.
    fn check(self) -> Result<Self, SealedExportError> {
        let cost_error = SealedExportError::Cost { log2_n: self.log2_n, r: self.r, p: self.p };
        // RFC 7914 limits N to 2^(16 r). The library doesn't, but OpenSSL does, on which other
        // readers rely.
        let is_in_rfc = u32::from(self.log2_n) < self.r.saturating_mul(16);
        if !(10..=20).contains(&self.log2_n) || !is_in_rfc || self.p == 0 {
            return Err(cost_error);
        }
        // N r: the memory in units of 128 bytes.
        let units = u64::from(self.r) << self.log2_n;
        if units > MEMORY_BYTES_MAX / 128 || units.saturating_mul(self.p.into()) > WORK_MAX {
            return Err(cost_error);
        }
        Ok(self)
    }
}

/// A sealed export that can't be opened or created.
#[derive(Debug, thiserror::Error)]
pub enum SealedExportError {
    /// The file neither starts like a sealed export nor contains a block of one.
    #[error("this is not a sealed Fulgurite key export")]
    NotAnExport,
    /// Written by a later version of the format.
    #[error("the key export has format version {0}, this program reads up to {known}: use a newer program", known = v2::VERSION)]
    Newer(u32),
    /// Parameters that scrypt doesn't allow, or that would take too much memory or time.
    #[error(
        "the key export asks for scrypt with N = 2^{log2_n}, r = {r}, p = {p}: accepted are N from 2^10 to 2^20, \
         N r up to 2^21 and N r p up to 2^23"
    )]
    Cost {
        /// Logarithm of N.
        log2_n: u8,
        /// The parameter r.
        r: u32,
        /// The parameter p.
        p: u32,
    },
    /// The first frame does not open.
    #[error("the passphrase is wrong (or the beginning of the key export is damaged)")]
    WrongPassphrase,
    /// A later frame does not open, though the passphrase is right.
    #[error("the passphrase is right, but the key export is damaged at frame {0}: use another copy")]
    Damaged(u64),
    /// The file ends early.
    #[error("the key export is truncated after frame {0}: use another copy")]
    Truncated(u64),
    /// More blocks are lost than error correction can restore.
    #[error(
        "the key export is damaged beyond correction: {lost} blocks of group {group} in section {section} are lost, but only \
         {redundancy} can be restored; use another copy"
    )]
    Uncorrectable {
        /// The section, counted from 0.
        section: u32,
        /// The group of blocks, counted from 0.
        group: u32,
        /// Blocks lost in it.
        lost: u32,
        /// The most that may be lost.
        redundancy: u32,
    },
    /// Every block of a section is lost.
    #[error("the key export is damaged beyond correction: all of section {0} is lost; use another copy")]
    SectionLost(u32),
    /// Reading or writing failed.
    #[error("the key export could not be read or written")]
    Io(#[from] io::Error),
}

/// Whether a file that starts with these bytes is a sealed export. Wrong if its beginning is
/// damaged.
pub(crate) fn begins_as_sealed(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// The first bytes of a file of version 1, and of every block of version 2.
pub(crate) fn head(version: u32, salt: [u8; SALT_BYTES], cost: ScryptCost) -> [u8; HEAD_BYTES] {
    let mut head = [0; HEAD_BYTES];
    head[..8].copy_from_slice(MAGIC);
    head[8..12].copy_from_slice(&version.to_le_bytes());
    head[12] = cost.log2_n;
    head[13..17].copy_from_slice(&cost.r.to_le_bytes());
    head[17..21].copy_from_slice(&cost.p.to_le_bytes());
    head[21..].copy_from_slice(&salt);
    head
}

/// Salt and cost. The cost is checked before it is spent.
pub(crate) fn parse_head(head: &[u8; HEAD_BYTES]) -> ([u8; SALT_BYTES], ScryptCost) {
    let cost = ScryptCost { log2_n: head[12], r: u32_at(head, 13), p: u32_at(head, 17) };
    (head[21..].try_into().expect("as many bytes"), cost)
}

/// Seals the bytes written to it, frame by frame. Must be [finished](Self::finish), which writes
/// the last frame.
pub(crate) struct FrameWriter<W> {
    writer: W,
    key: LessSafeKey,
    /// Content of the current frame. It is sealed only when more arrives or on finish, because the
    /// last frame is marked.
    frame: Zeroizing<Vec<u8>>,
    index: u64,
}

impl<W: Write> FrameWriter<W> {
    /// Derives the key.
    pub(crate) fn new(writer: W, passphrase: &[u8], salt: &[u8], cost: ScryptCost) -> Result<Self, SealedExportError> {
        let key = derive(passphrase, salt, cost)?;
        Ok(Self { writer, key, frame: Zeroizing::new(Vec::with_capacity(STORED_FRAME_BYTES)), index: 0 })
    }

    /// Seals the last frame and returns the writer.
    ///
    /// # Errors
    /// Write errors; also [`io::ErrorKind::InvalidInput`] if nothing was written, because no frame
    /// could be marked as the last.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        if self.frame.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a sealed key export without content"));
        }
        self.seal(true)?;
        Ok(self.writer)
    }

    fn seal(&mut self, last: bool) -> io::Result<()> {
        let tag = self.key.seal_in_place_separate_tag(numbered_nonce(NONCE_DOMAIN, self.index), associated(last), &mut self.frame);
        self.frame.extend_from_slice(tag.expect("a frame is far below the limit of AES-GCM").as_ref());
        self.writer.write_all(&self.frame)?;
        self.frame.clear();
        self.index += 1;
        Ok(())
    }
}

impl<W: Write> Write for FrameWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        if self.frame.len() == FRAME_BYTES {
            self.seal(false)?;
        }
        let taken = bytes.len().min(FRAME_BYTES - self.frame.len());
        self.frame.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    /// Doesn't write the current frame: only full frames and the last one can be written.
    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Opens frames and yields their content. Its own errors are [`io::ErrorKind::InvalidData`] with a
/// [`SealedExportError`] inside; read errors pass through.
pub(crate) struct FrameReader<R> {
    reader: R,
    key: LessSafeKey,
    /// Content of one frame; bytes from `start` on are not yielded yet.
    frame: Zeroizing<Vec<u8>>,
    start: usize,
    /// Number of frames opened.
    opened: u64,
    /// Read ahead to learn whether a frame is the last.
    ahead: Option<u8>,
}

impl<R: Read> FrameReader<R> {
    /// Derives the key and reads the first frame, so that a wrong passphrase fails here.
    pub(crate) fn new(mut reader: R, passphrase: &[u8], salt: &[u8], cost: ScryptCost) -> Result<Self, SealedExportError> {
        let key = derive(passphrase, salt, cost)?;
        let ahead = read_byte(&mut reader).map_err(SealedExportError::from_io)?;
        let frame = Zeroizing::new(Vec::with_capacity(STORED_FRAME_BYTES));
        let mut opened = Self { reader, key, frame, start: 0, opened: 0, ahead };
        opened.open_next()?;
        Ok(opened)
    }

    /// Opens the next frame, if any.
    fn open_next(&mut self) -> Result<(), SealedExportError> {
        self.frame.clear();
        self.start = 0;
        let Some(first) = self.ahead.take() else {
            return if self.opened == 0 { Err(SealedExportError::Truncated(0)) } else { Ok(()) };
        };
        self.frame.resize(STORED_FRAME_BYTES, 0);
        self.frame[0] = first;
        let read = 1 + read_full(&mut self.reader, &mut self.frame[1..]).map_err(SealedExportError::from_io)?;
        self.frame.truncate(read);
        if read == STORED_FRAME_BYTES {
            self.ahead = read_byte(&mut self.reader).map_err(SealedExportError::from_io)?;
        }
        let last = self.ahead.is_none();
        let stored = last.then(|| self.frame.clone());
        let content = match self.open(last) {
            Ok(content) => content,
            // If the file was truncated right after a frame, that frame opens as not the last.
            Err(error) => match stored {
                Some(stored) if read == STORED_FRAME_BYTES => {
                    *self.frame = stored.to_vec();
                    return Err(match self.open(false) {
                        Ok(_) => SealedExportError::Truncated(self.opened + 1),
                        Err(_) => error,
                    });
                }
                _ => return Err(error),
            },
        };
        self.frame.truncate(content);
        self.opened += 1;
        Ok(())
    }

    fn open(&mut self, last: bool) -> Result<usize, SealedExportError> {
        let nonce = numbered_nonce(NONCE_DOMAIN, self.opened);
        match self.key.open_in_place(nonce, associated(last), &mut self.frame) {
            Ok(content) if !content.is_empty() => Ok(content.len()),
            _ if self.opened == 0 => Err(SealedExportError::WrongPassphrase),
            _ => Err(SealedExportError::Damaged(self.opened)),
        }
    }
}

impl<R: Read> Read for FrameReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.start == self.frame.len() {
            self.open_next().map_err(|error| match error {
                SealedExportError::Io(error) => error,
                error => io::Error::new(io::ErrorKind::InvalidData, error),
            })?;
        }
        let copied = buffer.len().min(self.frame.len() - self.start);
        buffer[..copied].copy_from_slice(&self.frame[self.start..self.start + copied]);
        self.start += copied;
        Ok(copied)
    }
}

/// Creates a sealed export of version 1. Only tests use it: exports are written in version 2.
///
/// # Errors
/// [`SealedExportError::Cost`], and [`SealedExportError::Io`] if there is no content.
pub fn seal_version_1(content: &[u8], passphrase: &[u8], salt: [u8; SALT_BYTES], cost: ScryptCost) -> Result<Vec<u8>, SealedExportError> {
    let mut frames = FrameWriter::new(head(VERSION, salt, cost).to_vec(), passphrase, &salt, cost)?;
    frames.write_all(content)?;
    Ok(frames.finish()?)
}

impl SealedExportError {
    /// Extracts a [`SealedExportError`] wrapped in an IO error.
    fn from_io(error: io::Error) -> Self {
        error.downcast().unwrap_or_else(Self::Io)
    }
}

fn derive(passphrase: &[u8], salt: &[u8], cost: ScryptCost) -> Result<LessSafeKey, SealedExportError> {
    let ScryptCost { log2_n, r, p } = cost.check()?;
    let cost_error = SealedExportError::Cost { log2_n, r, p };
    let parameters = scrypt::Params::new(log2_n, r, p).map_err(|_| cost_error)?;
    let mut key = Zeroizing::new([0; 32]);
    scrypt::scrypt(passphrase, salt, &parameters, &mut *key).expect("scrypt gives 32 bytes");
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &*key).expect("a key of 32 bytes")))
}

fn associated(last: bool) -> Aad<[u8; TEXT.len() + 1]> {
    let mut bytes = [0; TEXT.len() + 1];
    bytes[..TEXT.len()].copy_from_slice(TEXT);
    bytes[TEXT.len()] = last.into();
    Aad::from(bytes)
}

fn read_byte(reader: &mut impl Read) -> io::Result<Option<u8>> {
    let mut byte = [0];
    Ok((read_full(reader, &mut byte)? == 1).then_some(byte[0]))
}

/// Fills `buffer` until it is full or the input ends.
pub(crate) fn read_full(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::SealedExportReader;
    use crate::hex::{parse_hex, push_hex};
    use aws_lc_rs::digest::{SHA256, digest};
    use std::io::Cursor;

    pub(crate) const CHEAP: ScryptCost = ScryptCost { log2_n: 10, r: 8, p: 1 };

    pub(crate) fn sealed(content: &[u8]) -> Vec<u8> {
        let salt = std::array::from_fn(|i| i as u8);
        seal_version_1(content, b"correct horse", salt, CHEAP).unwrap()
    }

    fn open(bytes: &[u8]) -> Result<Vec<u8>, SealedExportError> {
        let mut reader = SealedExportReader::new(Cursor::new(bytes), b"correct horse")?;
        let mut content = Vec::new();
        match reader.read_to_end(&mut content) {
            Ok(_) => Ok(content),
            Err(error) => Err(error.downcast().expect("an error of our own")),
        }
    }

    fn three_frames() -> Vec<u8> {
        (0..2 * FRAME_BYTES as u64 + 5).map(|i| ((i * i) >> 3) as u8).collect()
    }

    /// Computed with the Python package `cryptography`, from the specification alone.
    #[test]
    fn another_implementation_seals_the_same_bytes() {
        let mut expected = [0; 67];
        let hex = "46554c474b455953010000000a0800000001000000000102030405060708090a0b0c0d0e0f\
            e78eb62051eebe790954a62e01e4e97a4608ad49c2786551c0d42d5def0a";
        parse_hex(hex.as_bytes(), &mut expected).unwrap();
        assert_eq!(sealed(b"Project Silica"), expected);
        let mut found = String::new();
        push_hex(&mut found, digest(&SHA256, &sealed(&three_frames())).as_ref());
        assert_eq!(found, "0732ed082dba76460cd19e61e59ad94cf4e34d198c4d5955999e77fea924de8e");
    }

    #[test]
    fn content_of_any_length_comes_back() {
        for length in [1, 100, FRAME_BYTES - 1, FRAME_BYTES, FRAME_BYTES + 1, 2 * FRAME_BYTES, 2 * FRAME_BYTES + 5] {
            let content = &three_frames()[..length];
            assert_eq!(open(&sealed(content)).unwrap(), content, "{length} bytes");
        }
        assert!(matches!(seal_version_1(b"", b"", [0; 16], CHEAP), Err(SealedExportError::Io(_))));
    }

    #[test]
    fn a_wrong_passphrase_damage_and_truncation_are_distinguished() {
        let good = sealed(&three_frames());
        let wrong = SealedExportReader::new(Cursor::new(&good), b"incorrect horse");
        assert!(matches!(wrong, Err(SealedExportError::WrongPassphrase)));
        let mut damaged = good.clone();
        damaged[HEAD_BYTES + STORED_FRAME_BYTES + 9] ^= 1;
        assert!(matches!(open(&damaged), Err(SealedExportError::Damaged(1))));
        for frames in 0..=2 {
            let cut = &good[..HEAD_BYTES + frames * STORED_FRAME_BYTES];
            let found = open(cut);
            assert!(matches!(found, Err(SealedExportError::Truncated(n)) if n == frames as u64), "{found:?}");
        }
        for cut in [0, 7, 8, 36, 38, 53, 54, 1_000, 70_000, good.len() - 1] {
            assert!(open(&good[..cut]).is_err(), "cut to {cut}");
        }
        let mut newer = good;
        newer[8] = 3;
        assert!(matches!(open(&newer), Err(SealedExportError::Newer(3))));
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let good = sealed(b"Project Silica");
        for at in 0..good.len() {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert!(open(&changed).is_err(), "byte {at}");
        }
    }

    #[test]
    fn a_file_that_asks_for_gigabytes_or_hours_is_rejected_up_front() {
        let accepted = |log2_n, r, p| ScryptCost { log2_n, r, p }.check().is_ok();
        assert!(accepted(15, 8, 1) && accepted(17, 8, 8) && accepted(18, 8, 4) && accepted(15, 1, 1));
        for (log2_n, r, p) in [
            (9, 8, 1),
            (16, 1, 1),
            (21, 1, 1),
            (63, 8, 1),
            (255, 8, 1),
            (19, 8, 1),
            (15, 0, 1),
            (15, 8, 0),
            (15, 8, 64),
            (10, u32::MAX, u32::MAX),
        ] {
            assert!(!accepted(log2_n, r, p), "{log2_n} {r} {p}");
            let mut file = sealed(b"x");
            file[12] = log2_n;
            file[13..17].copy_from_slice(&r.to_le_bytes());
            file[17..21].copy_from_slice(&p.to_le_bytes());
            assert!(matches!(open(&file), Err(SealedExportError::Cost { .. })));
        }
    }

    #[test]
    fn a_key_export_survives_sealing_and_opening() {
        let text = crate::v1::key_export::tests::text(&[]);
        let bytes = sealed(&text);
        let reader = SealedExportReader::new(Cursor::new(&bytes), b"correct horse").unwrap();
        let export = crate::read_key_export(reader, |_, _| Ok::<_, crate::KeyExportError>(())).unwrap();
        assert_eq!(export.keys, 0);
        assert!(begins_as_sealed(&bytes) && !begins_as_sealed(&text));
    }
}

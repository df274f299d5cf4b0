//! Frames: an object's stored content, cut into pieces that each carry a tag.
//!
//! ```text
//! content   [ 65,536 bytes       ][ 65,536 bytes       ][ the rest ]
//! stored    [ frame 0      ][tag ][ frame 1      ][tag ][ frame 2 ][tag ]      tag = 16 bytes
//! ```
//!
//! A sealed frame uses AES-256-GCM with a nonce made from its index; an unencrypted frame has a
//! CRC-64 as its tag. Either way the tag covers the version and the index, so a frame of another
//! object or position is rejected.

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use fulgurite_domain::VersionId;

use crate::v1::keys::ObjectKey;
use fulgurite_codec::checksum::Crc64;

/// Content bytes of a full frame.
pub const FRAME_BYTES: usize = 65_536;
/// Bytes of the tag after each frame.
pub const TAG_BYTES: usize = 16;
/// Bytes of a full frame with its tag.
pub const STORED_FRAME_BYTES: usize = FRAME_BYTES + TAG_BYTES;

const FRAME_TEXT: &[u8; 18] = b"fulgurite frame v1";
const RECORD_TEXT: &[u8; 19] = b"fulgurite record v1";
/// Associated data is one of these texts and a version identifier.
const ASSOCIATED_BYTES_MAX: usize = RECORD_TEXT.len() + 16;

/// Number of frames of an object of `size` bytes.
#[must_use]
pub fn frame_count(size: u64) -> u64 {
    size.div_ceil(FRAME_BYTES as u64)
}

/// Stored bytes of an object of `size` bytes. Saturates for sizes within a 4,000th of 2^64, which
/// no medium holds.
#[must_use]
pub fn stored_bytes(size: u64) -> u64 {
    size.saturating_add(frame_count(size) * TAG_BYTES as u64)
}

/// The size of an object with this many stored bytes; `None` if no object has that many.
#[must_use]
pub fn content_bytes(stored: u64) -> Option<u64> {
    let (full, rest) = (stored / STORED_FRAME_BYTES as u64, stored % STORED_FRAME_BYTES as u64);
    match rest {
        0 => Some(full * FRAME_BYTES as u64),
        // A frame has content besides its tag.
        _ if rest <= TAG_BYTES as u64 => None,
        _ => Some(full * FRAME_BYTES as u64 + rest - TAG_BYTES as u64),
    }
}

/// A frame or record that failed its check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The tag of a frame does not match its bytes.
    #[error(
        "frame {frame} of version {version} does not match its tag: damaged, moved, or sealed with another key; read it again or repair it"
    )]
    Frame {
        /// The version that was read.
        version: VersionId,
        /// The frame that was read.
        frame: u64,
    },
    /// The tag of a sealed record does not match its bytes.
    #[error("the record of version {0} does not match its tag: damaged, of another version, or sealed with another key")]
    Record(VersionId),
    /// Too few or too many bytes for a frame and its tag.
    #[error("frame {frame} of version {version} has {found} bytes with its tag; expected {} to {STORED_FRAME_BYTES}", TAG_BYTES + 1)]
    Length {
        /// The version that was read.
        version: VersionId,
        /// The frame that was read.
        frame: u64,
        /// Its length.
        found: usize,
    },
}

/// Seals and opens the frames and the record of one version. Creating one sets up the key; using it
/// is cheap.
pub struct Frames {
    version: VersionId,
    how: How,
}

enum How {
    Sealed(Box<LessSafeKey>),
    /// Checksum state over everything before the index.
    Unencrypted(Box<Crc64>),
}

impl Frames {
    /// Creates the frames of `version`: sealed with `key`, or unencrypted without a key.
    ///
    /// A frame must never be sealed twice with the same key and different content, because nonces
    /// are made from the index. So a put that starts over takes a new version and a new key.
    #[must_use]
    pub fn new(version: VersionId, key: Option<&ObjectKey>) -> Self {
        let how = match key {
            Some(key) => {
                let key = UnboundKey::new(&AES_256_GCM, key.expose()).expect("a key of 32 bytes");
                How::Sealed(Box::new(LessSafeKey::new(key)))
            }
            None => {
                let mut crc = Crc64::new();
                crc.update(FRAME_TEXT);
                crc.update(&version.0);
                How::Unencrypted(Box::new(crc))
            }
        };
        Self { version, how }
    }

    /// The version that these frames belong to.
    #[must_use]
    pub fn version(&self) -> VersionId {
        self.version
    }

    /// Whether content is encrypted.
    #[must_use]
    pub fn sealed(&self) -> bool {
        matches!(self.how, How::Sealed(_))
    }

    /// Seals frame `index` in place. `frame` holds the content followed by [`TAG_BYTES`] of space
    /// for the tag.
    ///
    /// # Panics
    /// If there is no content, or more than [`FRAME_BYTES`].
    pub fn seal(&self, index: u64, frame: &mut [u8]) {
        assert!(fits(frame.len()), "a frame of {} bytes with its tag", frame.len());
        let (content, tag) = frame.split_at_mut(frame.len() - TAG_BYTES);
        match &self.how {
            How::Sealed(key) => {
                let aad = Aad::from(self.associated(FRAME_TEXT));
                let sealed = key.seal_in_place_separate_tag(frame_nonce(index), aad, content);
                tag.copy_from_slice(sealed.expect("a frame is far below the limit of AES-GCM").as_ref());
            }
            How::Unencrypted(start) => tag.copy_from_slice(&checksum_tag(**start, index, content)),
        }
    }

    /// Checks the tag of frame `index`, decrypts in place, and returns the content without the tag.
    /// After an error, the bytes may have been overwritten.
    ///
    /// # Errors
    /// [`FrameError::Frame`] if the tag doesn't match, [`FrameError::Length`] if the length is
    /// impossible for a frame.
    pub fn open<'a>(&self, index: u64, frame: &'a mut [u8]) -> Result<&'a mut [u8], FrameError> {
        if !fits(frame.len()) {
            return Err(FrameError::Length { version: self.version, frame: index, found: frame.len() });
        }
        let wrong = FrameError::Frame { version: self.version, frame: index };
        let (content, tag) = frame.split_at_mut(frame.len() - TAG_BYTES);
        match &self.how {
            How::Sealed(key) => {
                let aad = Aad::from(self.associated(FRAME_TEXT));
                key.open_in_place_separate_tag(frame_nonce(index), aad, tag, content).map_err(|_| wrong)
            }
            How::Unencrypted(start) if *tag == checksum_tag(**start, index, content) => Ok(content),
            How::Unencrypted(_) => Err(wrong),
        }
    }

    /// The record as stored: encrypted and tagged, or unchanged if unencrypted.
    #[must_use]
    pub fn seal_record(&self, record: &[u8]) -> Vec<u8> {
        let mut stored = Vec::with_capacity(record.len() + TAG_BYTES);
        stored.extend_from_slice(record);
        if let How::Sealed(key) = &self.how {
            let aad = Aad::from(self.associated(RECORD_TEXT));
            key.seal_in_place_append_tag(record_nonce(), aad, &mut stored).expect("a record is far below the limit of AES-GCM");
        }
        stored
    }

    /// Recovers the record from its stored form.
    ///
    /// # Errors
    /// [`FrameError::Record`] if it was sealed with another key or for another version, or has
    /// changed since.
    pub fn open_record(&self, stored: &[u8]) -> Result<Vec<u8>, FrameError> {
        let mut record = stored.to_vec();
        if let How::Sealed(key) = &self.how {
            let aad = Aad::from(self.associated(RECORD_TEXT));
            let opened = key.open_in_place(record_nonce(), aad, &mut record);
            let bytes = opened.map_err(|_| FrameError::Record(self.version))?.len();
            record.truncate(bytes);
        }
        Ok(record)
    }

    fn associated<const N: usize>(&self, text: &[u8; N]) -> Associated {
        let mut bytes = [0; ASSOCIATED_BYTES_MAX];
        bytes[..N].copy_from_slice(text);
        bytes[N..N + 16].copy_from_slice(&self.version.0);
        Associated { bytes, length: N + 16 }
    }
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames").field("version", &self.version).field("sealed", &self.sealed()).finish()
    }
}

/// Associated data: a constant text and the version, without heap allocation.
struct Associated {
    bytes: [u8; ASSOCIATED_BYTES_MAX],
    length: usize,
}

impl AsRef<[u8]> for Associated {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn fits(stored: usize) -> bool {
    (TAG_BYTES + 1..=STORED_FRAME_BYTES).contains(&stored)
}

fn frame_nonce(index: u64) -> Nonce {
    numbered_nonce(0, index)
}

fn record_nonce() -> Nonce {
    numbered_nonce(1, 0)
}

/// A nonce with `domain` in the first byte, three zeros, and a big-endian number. The domain is 0
/// for frames, 1 for records, and 2 for the frames of exported keys.
pub(crate) fn numbered_nonce(domain: u8, number: u64) -> Nonce {
    let mut nonce = [0; 12];
    nonce[0] = domain;
    nonce[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}

fn checksum_tag(start: Crc64, index: u64, content: &[u8]) -> [u8; TAG_BYTES] {
    let mut crc = start;
    crc.update(&index.to_be_bytes());
    crc.update(content);
    let mut tag = [0; TAG_BYTES];
    tag[..8].copy_from_slice(&crc.value().to_le_bytes());
    tag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hex::parse_hex;
    use proptest::prelude::*;

    const VERSION: VersionId = VersionId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    fn key() -> ObjectKey {
        ObjectKey::new(std::array::from_fn(|i| i as u8))
    }

    fn both() -> [Frames; 2] {
        [Frames::new(VERSION, Some(&key())), Frames::new(VERSION, None)]
    }

    fn sealed(frames: &Frames, index: u64, content: &[u8]) -> Vec<u8> {
        let mut frame = [content, &[0xee; TAG_BYTES]].concat();
        frames.seal(index, &mut frame);
        frame
    }

    fn bytes(hex: &str) -> [u8; 30] {
        let mut bytes = [0; 30];
        parse_hex(hex.as_bytes(), &mut bytes).unwrap();
        bytes
    }

    /// Computed with the Python package `cryptography` and a bitwise CRC, from the specification
    /// alone.
    #[test]
    fn another_implementation_seals_the_same_bytes() {
        let [encrypted, clear] = both();
        let frame = "5d5a7ffc01ff64717575056cd86112ff0674917f631a2385efb2a225605b";
        assert_eq!(sealed(&encrypted, 258, b"Project Silica"), bytes(frame));
        let frame = "50726f6a6563742053696c69636151e8038bb22d4dbf0000000000000000";
        assert_eq!(sealed(&clear, 258, b"Project Silica"), bytes(frame));
        let record = "b25eed55c1cc9827196d69aa5fa00bbf5dd31cab55ba2558d99c54c6bd86";
        assert_eq!(encrypted.seal_record(b"Project Silica"), bytes(record));
    }

    #[test]
    fn a_frame_of_another_index_version_or_key_does_not_open() {
        for (how, frames) in both().into_iter().enumerate() {
            let frame = sealed(&frames, 5, b"content");
            let opens = |frames: &Frames, index| frames.open(index, &mut frame.clone()).is_ok();
            assert!(opens(&frames, 5));
            assert!(!opens(&frames, 4));
            assert!(!opens(&both()[1 - how], 5));
            let key = (how == 0).then(key);
            assert!(!opens(&Frames::new(VersionId([9; 16]), key.as_ref()), 5));
        }
        let frame = sealed(&both()[0], 5, b"content");
        let other = Frames::new(VERSION, Some(&ObjectKey::new([9; 32])));
        assert_eq!(other.open(5, &mut frame.clone()), Err(FrameError::Frame { version: VERSION, frame: 5 }));
    }

    #[test]
    fn a_sealed_record_opens_only_for_its_version_and_a_clear_one_passes_through() {
        let [encrypted, clear] = both();
        let stored = encrypted.seal_record(b"record");
        assert_eq!(encrypted.open_record(&stored).as_deref(), Ok(&b"record"[..]));
        let other = Frames::new(VersionId([9; 16]), Some(&key()));
        assert_eq!(other.open_record(&stored), Err(FrameError::Record(VersionId([9; 16]))));
        assert_eq!(encrypted.open_record(b"short"), Err(FrameError::Record(VERSION)));
        assert_eq!(clear.open_record(&clear.seal_record(b"record")).as_deref(), Ok(&b"record"[..]));
    }

    #[test]
    fn frames_of_impossible_length_are_rejected() {
        for frames in both() {
            for length in [0, 1, TAG_BYTES, STORED_FRAME_BYTES + 1] {
                let opened = frames.open(0, &mut vec![0; length]).unwrap_err();
                assert_eq!(opened, FrameError::Length { version: VERSION, frame: 0, found: length });
            }
        }
    }

    #[test]
    fn stored_and_content_lengths_match_the_specification() {
        for (size, stored) in [(0, 0), (1, 17), (65_536, 65_552), (65_537, 65_569), (1 << 40, (1 << 40) + (1 << 28))] {
            assert_eq!((stored_bytes(size), content_bytes(stored)), (stored, Some(size)));
        }
        for stored in [1, 16, 65_553, 65_568] {
            assert_eq!(content_bytes(stored), None);
        }
        assert_eq!(stored_bytes(u64::MAX), u64::MAX);
        assert!(content_bytes(u64::MAX).is_some_and(|size| size < u64::MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn lengths_convert_both_ways(size in 0u64..1 << 60, stored: u64) {
            prop_assert_eq!(content_bytes(stored_bytes(size)), Some(size));
            if let Some(size) = content_bytes(stored) {
                prop_assert_eq!(stored_bytes(size), stored);
            }
        }

        #[test]
        fn sealed_frames_open_and_any_changed_byte_is_detected(
            content in prop::collection::vec(any::<u8>(), 1..5_000), index: u64, at: prop::sample::Index, change in 1u8..,
        ) {
            for frames in both() {
                let mut frame = sealed(&frames, index, &content);
                let mut changed = frame.clone();
                changed[at.index(frame.len())] ^= change;
                prop_assert!(frames.open(index, &mut changed).is_err());
                prop_assert!(frames.open(index, &mut frame.clone()[1..]).is_err());
                prop_assert_eq!(frames.open(index, &mut frame).map(|opened| &*opened), Ok(&content[..]));
            }
        }
    }
}

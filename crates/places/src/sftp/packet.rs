//! Packets of SFTP version 3, as in draft-ietf-secsh-filexfer-02.
//!
//! ```text
//! [length u32] [type u8] [identifier u32] [fields ...]     numbers big-endian, strings with a u32 length
//! ```

use super::super::{Cause, Refusal};

pub(super) const INIT: u8 = 1;
pub(super) const VERSION: u8 = 2;
pub(super) const OPEN: u8 = 3;
pub(super) const CLOSE: u8 = 4;
pub(super) const READ: u8 = 5;
pub(super) const WRITE: u8 = 6;
pub(super) const FSTAT: u8 = 8;
pub(super) const OPENDIR: u8 = 11;
pub(super) const READDIR: u8 = 12;
pub(super) const REMOVE: u8 = 13;
pub(super) const MKDIR: u8 = 14;
pub(super) const STAT: u8 = 17;
pub(super) const RENAME: u8 = 18;
pub(super) const STATUS: u8 = 101;
pub(super) const HANDLE: u8 = 102;
pub(super) const DATA: u8 = 103;
pub(super) const NAME: u8 = 104;
pub(super) const ATTRS: u8 = 105;
pub(super) const EXTENDED: u8 = 200;

pub(super) const STATUS_OK: u32 = 0;
pub(super) const STATUS_EOF: u32 = 1;
pub(super) const STATUS_NO_SUCH_FILE: u32 = 2;
pub(super) const STATUS_PERMISSION_DENIED: u32 = 3;
pub(super) const STATUS_UNSUPPORTED: u32 = 8;

pub(super) const OPEN_READ: u32 = 1;
/// Write to a new file: WRITE, CREAT and EXCL.
pub(super) const OPEN_NEW: u32 = 0x02 | 0x08 | 0x20;

/// Longest packet accepted. Servers send at most 256 KiB; folders come in smaller portions.
pub(super) const PACKET_BYTES_MAX: usize = 300 << 10;

/// A request under construction.
pub(super) struct Request(Vec<u8>);

impl Request {
    pub(super) fn new(kind: u8, id: u32) -> Self {
        let mut bytes = vec![0; 4];
        bytes.push(kind);
        Self(bytes).number(id)
    }

    pub(super) fn number(mut self, number: u32) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn long(mut self, number: u64) -> Self {
        self.0.extend_from_slice(&number.to_be_bytes());
        self
    }

    pub(super) fn string(self, text: &[u8]) -> Self {
        let bytes = u32::try_from(text.len()).expect("requests contain paths and pieces, which are short");
        let mut request = self.number(bytes);
        request.0.extend_from_slice(text);
        request
    }

    /// The whole packet.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let bytes = u32::try_from(self.0.len() - 4).expect("requests are short");
        self.0[..4].copy_from_slice(&bytes.to_be_bytes());
        self.0
    }
}

/// An answer being read.
pub(super) struct Answer<'a>(pub(super) &'a [u8]);

impl<'a> Answer<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], Refusal> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or_else(malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn byte(&mut self) -> Result<u8, Refusal> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(super) fn number(&mut self) -> Result<u32, Refusal> {
        self.take(4).map(|bytes| bytes.iter().fold(0, |number, byte| (number << 8) | u32::from(*byte)))
    }

    fn long(&mut self) -> Result<u64, Refusal> {
        Ok((u64::from(self.number()?) << 32) | u64::from(self.number()?))
    }

    pub(super) fn string(&mut self) -> Result<&'a [u8], Refusal> {
        let bytes = self.number()?;
        self.take(usize::try_from(bytes).map_err(|_| malformed())?)
    }

    pub(super) fn attributes(&mut self) -> Result<Attributes, Refusal> {
        let flags = self.number()?;
        let mut attributes = Attributes::default();
        if flags & 1 != 0 {
            attributes.bytes = Some(self.long()?);
        }
        if flags & 2 != 0 {
            self.take(8)?;
        }
        if flags & 4 != 0 {
            attributes.mode = Some(self.number()?);
        }
        if flags & 8 != 0 {
            // The time of the last access comes first.
            self.number()?;
            attributes.modified = Some(self.number()?);
        }
        if flags & 0x8000_0000 != 0 {
            // A wrong count ends with the packet.
            for _ in 0..self.number()? {
                self.string()?;
                self.string()?;
            }
        }
        Ok(attributes)
    }
}

/// What a server says about a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Attributes {
    pub(super) bytes: Option<u64>,
    /// Seconds since 1970.
    pub(super) modified: Option<u32>,
    mode: Option<u32>,
}

impl Attributes {
    pub(super) fn is_file(self) -> bool {
        self.mode.is_some_and(|mode| mode & 0o170_000 == 0o100_000)
    }

    pub(super) fn is_folder(self) -> bool {
        self.mode.is_some_and(|mode| mode & 0o170_000 == 0o040_000)
    }
}

pub(super) fn malformed() -> Refusal {
    Refusal::new(Cause::Fault, "the SFTP server sent a malformed packet")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_have_the_layout_of_the_draft() {
        let packet = Request::new(READ, 7).string(b"h").long(1 << 32).number(2).finish();
        assert_eq!(packet, [0, 0, 0, 22, 5, 0, 0, 0, 7, 0, 0, 0, 1, b'h', 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
    }

    #[test]
    fn attributes_are_read_and_every_truncation_is_noticed() {
        let packet = Request::new(ATTRS, 1).number(0x8000_000f).long(42).number(1).number(2).number(0o100_644).number(3).number(4);
        let packet = packet.number(1).string(b"name").string(b"value").finish();
        let fields = &packet[9..];
        let attributes = Answer(fields).attributes().expect("complete");
        assert!(attributes.is_file() && !attributes.is_folder());
        assert_eq!((attributes.bytes, attributes.modified), (Some(42), Some(4)));
        for end in 0..fields.len() {
            assert!(Answer(&fields[..end]).attributes().is_err(), "{end}");
        }
    }

    #[test]
    fn lengths_beyond_the_packet_are_refused() {
        assert!(Answer(&[0xff, 0xff, 0xff, 0xff, 1]).string().is_err());
        assert!(Answer(&[0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]).attributes().is_err());
    }
}

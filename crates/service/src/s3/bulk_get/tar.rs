//! Headers of files in tar archives, with pax records for values that don't fit in a plain header.
//!
//! The crate `tar` writes plain headers. Its pax headers have neither name nor time, and a program
//! without pax would unpack them as files.
//!
//! ```text
//! [ pax header ][ its records, padded ] [ header ][ content, padded ] ... [ two blocks of zeros ]
//! ```
//!
//! Source: POSIX.1-2017, "pax Interchange Format" and "ustar Interchange Format".

use ::tar::{EntryType, Header};

/// Size of the blocks of a tar archive.
pub(crate) const BLOCK_BYTES: usize = 512;
/// The end of an archive.
pub(crate) const END: [u8; 2 * BLOCK_BYTES] = [0; 2 * BLOCK_BYTES];

/// Names of records with properties of objects. They are extended attributes, which tar ignores by
/// default and `tar --xattrs` sets on the files.
pub(crate) const ETAG: &str = "SCHILY.xattr.user.fulgurite.etag";
pub(crate) const VERSION_ID: &str = "SCHILY.xattr.user.fulgurite.version-id";
/// The bytes of the object that the entry has, if not all.
pub(crate) const RANGE: &str = "SCHILY.xattr.user.fulgurite.range";
/// The key, if the entry's name is encoded.
pub(crate) const KEY: &str = "SCHILY.xattr.user.fulgurite.key";

/// Maximum length of a name in a plain header.
const NAME_BYTES: usize = 100;
/// Maximum number in the size and time fields of a plain header: 11 octal digits.
const NUMBER_MAX: u64 = (1 << 33) - 1;

/// A file of an archive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    /// Its name: a path without `..`.
    pub(crate) name: &'a str,
    /// Length of its content in bytes.
    pub(crate) size: u64,
    /// Modification time, in seconds since 1970.
    pub(crate) modified: u64,
    /// Further pax records: names and values.
    pub(crate) records: &'a [(&'static str, &'a str)],
}

impl Entry<'_> {
    /// Appends the headers of the file.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) {
        let mut records = Vec::new();
        if self.name.len() > NAME_BYTES || !self.name.is_ascii() {
            record(&mut records, "path", self.name);
        }
        if self.size > NUMBER_MAX {
            record(&mut records, "size", &self.size.to_string());
        }
        if self.modified > NUMBER_MAX {
            record(&mut records, "mtime", &self.modified.to_string());
        }
        self.records.iter().for_each(|(name, value)| record(&mut records, name, value));
        if !records.is_empty() {
            header(out, "PaxHeaders", records.len() as u64, self.modified, EntryType::XHeader);
            out.extend_from_slice(&records);
            pad(out, records.len() as u64);
        }
        header(out, self.name, self.size, self.modified, EntryType::Regular);
    }
}

/// Appends the padding after content of `size` bytes, up to the end of its block.
pub(crate) fn pad(out: &mut Vec<u8>, size: u64) {
    let over = (size % BLOCK_BYTES as u64) as usize;
    if over > 0 {
        out.resize(out.len() + BLOCK_BYTES - over, 0);
    }
}

/// Appends a record: its own length in decimal, a space, name, `=`, value and a newline.
fn record(out: &mut Vec<u8>, name: &str, value: &str) {
    let rest = name.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    out.extend_from_slice(format!("{length} {name}={value}\n").as_bytes());
}

/// Appends a plain header. Values that don't fit are truncated here and complete in the preceding
/// records.
fn header(out: &mut Vec<u8>, name: &str, size: u64, modified: u64, kind: EntryType) {
    let mut header = Header::new_ustar();
    for (to, byte) in header.as_old_mut().name.iter_mut().zip(name.bytes()) {
        *to = if byte.is_ascii() { byte } else { b'_' };
    }
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    // Larger numbers would be in GNU's notation.
    header.set_size(size.min(NUMBER_MAX));
    header.set_mtime(modified.min(NUMBER_MAX));
    header.set_entry_type(kind);
    header.set_cksum();
    out.extend_from_slice(header.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begun(name: &str, size: u64, records: &[(&'static str, &str)]) -> Vec<u8> {
        let mut out = Vec::new();
        Entry { name, size, modified: 1_700_000_000, records }.begin(&mut out);
        assert_eq!(out.len() % BLOCK_BYTES, 0);
        out
    }

    #[test]
    fn a_short_name_and_size_need_one_block_as_posix_defines_it() {
        let block = begun("objects/a", 1_234, &[]);
        assert_eq!(block.len(), BLOCK_BYTES);
        assert_eq!(&block[..10], b"objects/a\0");
        assert_eq!(&block[100..108], b"0000644\0");
        assert_eq!(&block[124..136], b"00000002322\0");
        assert_eq!(&block[136..148], b"14524770400\0");
        assert_eq!(block[156], b'0');
        assert_eq!(&block[257..265], b"ustar\x0000");
        let sum: u32 = block.iter().enumerate().map(|(at, byte)| if (148..156).contains(&at) { 32 } else { u32::from(*byte) }).sum();
        assert_eq!(&block[148..156], format!("{sum:07o}\0").as_bytes());
    }

    #[test]
    fn values_that_do_not_fit_in_a_plain_header_are_in_records_before_it() {
        let long = "é".repeat(200);
        let out = begun(&long, 8 << 30, &[("VENDOR.etag", "x")]);
        assert_eq!(out.len(), 3 * BLOCK_BYTES);
        assert_eq!(out[156], b'x');
        let records = format!("410 path={long}\n19 size=8589934592\n17 VENDOR.etag=x\n");
        assert_eq!(&out[124..136], format!("{:011o}\0", records.len()).as_bytes());
        assert_eq!(&out[BLOCK_BYTES..BLOCK_BYTES + records.len()], records.as_bytes());
        assert!(out[BLOCK_BYTES + records.len()..2 * BLOCK_BYTES].iter().all(|byte| *byte == 0));
        let plain = &out[out.len() - BLOCK_BYTES..];
        assert_eq!(plain[156], b'0');
        assert!(plain[..100].iter().all(|byte| *byte == b'_'));
        assert_eq!(&plain[124..136], b"77777777777\0");
    }

    #[test]
    fn a_record_counts_the_digits_of_its_own_length() {
        for length in 0..1_200 {
            let mut out = Vec::new();
            record(&mut out, "path", &"x".repeat(length));
            let text = String::from_utf8(out).expect("text");
            let (said, _) = text.split_once(' ').expect("a length");
            assert_eq!(said, text.len().to_string());
        }
    }

    #[test]
    fn content_is_padded_to_whole_blocks() {
        for (size, padding) in [(0, 0), (1, 511), (511, 1), (512, 0), (513, 511)] {
            let mut out = Vec::new();
            pad(&mut out, size);
            assert_eq!(out.len(), padding);
        }
    }
}

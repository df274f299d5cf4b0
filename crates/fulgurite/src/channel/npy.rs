//! NumPy files: arrays of unsigned numbers, written front to back.
//!
//! Format version 1.0: magic, version, length of the header, a Python dictionary padded with spaces
//! to a multiple of 64 bytes, then the values.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

pub(super) struct NpyFile {
    file: BufWriter<File>,
    value_bytes: usize,
    /// Values that are still to be written.
    missing: usize,
}

impl NpyFile {
    /// Creates a file for values of 1 or 2 bytes. Replaces an earlier one.
    pub(super) fn create(path: &Path, value_bytes: usize, shape: &[usize]) -> io::Result<Self> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&header(value_bytes, shape))?;
        Ok(Self { file, value_bytes, missing: shape.iter().product() })
    }

    /// Writes the next values, in row-major order: the last axis varies fastest.
    pub(super) fn write(&mut self, values: impl ExactSizeIterator<Item = u16>) -> io::Result<()> {
        self.missing = self.missing.checked_sub(values.len()).expect("not more values than the shape has");
        for value in values {
            self.file.write_all(&value.to_le_bytes()[..self.value_bytes])?;
        }
        Ok(())
    }

    /// Ends the file.
    ///
    /// # Panics
    /// If values of the shape are missing.
    pub(super) fn finish(mut self) -> io::Result<()> {
        assert_eq!(self.missing, 0, "values are missing");
        self.file.flush()
    }
}

fn header(value_bytes: usize, shape: &[usize]) -> Vec<u8> {
    /// Bytes before the dictionary: magic, version and length.
    const FIXED: usize = 10;
    let kind = if value_bytes == 1 { "|u1" } else { "<u2" };
    let shape: String = shape.iter().map(|length| format!("{length}, ")).collect();
    let dictionary = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}");
    let padded = (FIXED + dictionary.len() + 1).next_multiple_of(64) - FIXED;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend_from_slice(&u16::try_from(padded).expect("a short header").to_le_bytes());
    header.extend_from_slice(format!("{dictionary:<width$}\n", width = padded - 1).as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_follow_the_format() {
        // As NumPy writes zeros((2, 3), "u1") and zeros((4,), "<u2"), except for the trailing
        // commas, which numpy.load accepts.
        let header = super::header(1, &[2, 3]);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert!(header[10..].starts_with(b"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, ), }   "));
        assert_eq!((header.len(), header[127]), (128, b'\n'));
        assert!(super::header(2, &[4])[10..].starts_with(b"{'descr': '<u2', 'fortran_order': False, 'shape': (4, ), }"));
    }

    #[test]
    fn values_follow_the_header() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let mut file = NpyFile::create(&path, 2, &[3]).unwrap();
        file.write([1, 0x203].into_iter()).unwrap();
        file.write([4].into_iter()).unwrap();
        file.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[128..], [1, 0, 3, 2, 4, 0]);
    }
}

//! Reads files of which the disk no longer returns every sector.

use std::io::{self, Read, Seek, SeekFrom};

/// Unit in which disks fail to read.
pub(crate) const SECTOR_BYTES: usize = 4_096;

/// Fills a buffer from an offset, with zeros for unreadable sectors, which count from the offset.
/// The buffer must not reach beyond the end of the file: a sector in which the file ends counts as
/// unreadable.
///
/// # Errors
/// Those of seeking.
pub(crate) fn read_or_zero(reader: &mut (impl Read + Seek), offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    reader.seek(SeekFrom::Start(offset))?;
    if reader.read_exact(buffer).is_ok() {
        return Ok(());
    }
    for (index, sector) in buffer.chunks_mut(SECTOR_BYTES).enumerate() {
        reader.seek(SeekFrom::Start(offset + (index * SECTOR_BYTES) as u64))?;
        if reader.read_exact(sector).is_err() {
            sector.fill(0);
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A file with some unreadable sectors.
    pub(crate) struct Worn<'a> {
        pub(crate) bytes: io::Cursor<&'a [u8]>,
        pub(crate) unreadable: &'a [u64],
    }

    impl Read for Worn<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            // Like a disk, returns what precedes an unreadable sector, and fails in it.
            let at = self.bytes.position();
            let sector = at / SECTOR_BYTES as u64;
            if self.unreadable.contains(&sector) {
                return Err(io::Error::other("for a test"));
            }
            let left = ((sector + 1) * SECTOR_BYTES as u64 - at) as usize;
            let bytes = buffer.len().min(left);
            self.bytes.read(&mut buffer[..bytes])
        }
    }

    impl Seek for Worn<'_> {
        fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
            self.bytes.seek(to)
        }
    }

    #[test]
    fn only_unreadable_sectors_become_zeros() {
        let sound: Vec<u8> = (0..5 * SECTOR_BYTES + 10).map(|index| 1 + (index % 255) as u8).collect();
        let mut expected = sound.clone();
        for sector in [1, 3] {
            expected[sector * SECTOR_BYTES..][..SECTOR_BYTES].fill(0);
        }
        let mut worn = Worn { bytes: io::Cursor::new(&sound), unreadable: &[1, 3] };
        let mut read = vec![7; sound.len()];
        read_or_zero(&mut worn, 0, &mut read).unwrap();
        assert!(read == expected);
    }
}

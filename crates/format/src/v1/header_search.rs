//! Finds the header of a platter that may be damaged anywhere.
//!
//! Tries the first copy, then the last, then everything that starts with the magic at a multiple of
//! 64 bytes. A copy counts only at one of the three positions that its own geometry gives: an
//! archived file may itself be a platter, and must not be mistaken for the one that contains it.

use std::io;

use fulgurite_domain::PlatterId;

use crate::v1::header::{HEADER_BYTES, Header, HeaderError, MAGIC};

/// Headers start at multiples of this.
const STEP: usize = 64;
/// Bytes per read while searching.
const WINDOW_BYTES: usize = 1 << 20;
/// Granularity in which unreadable bytes are skipped.
const PAGE_BYTES: u64 = 4_096;

/// A header, and the state of its three copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundHeader {
    /// The header.
    pub header: Header,
    /// Offset of the copy that was read.
    pub found_at: u64,
    /// Which of the three copies, front to back, are good.
    pub copies: [bool; 3],
}

/// Why no header was found.
#[derive(Debug, thiserror::Error)]
pub enum FindHeaderError {
    /// Nothing in the file looks like a header.
    #[error("this is not a Fulgurite platter: no header in {0} bytes")]
    NotAPlatter(u64),
    /// Written by a later version of the format.
    #[error("the platter has format version {0}, this program reads up to {known}: use a newer program", known = crate::FORMAT_VERSION)]
    Newer(u32),
    /// Headers exist, but all of them are unusable.
    #[error("no copy of the header is good; the one at byte {at}: {source}; take the header from another platter of the set")]
    NoGoodCopy {
        /// Offset of the first one.
        at: u64,
        /// Why it is unusable.
        source: HeaderError,
    },
    /// A good header at an offset that its geometry doesn't give.
    #[error(
        "the only good header, of platter {platter}, is at byte {at}, where it does not belong: \
         the file has lost bytes before it, or holds a platter inside it; restore the platter from its set"
    )]
    Misplaced {
        /// The platter the header belongs to.
        platter: PlatterId,
        /// Where the header was found.
        at: u64,
    },
    /// The file could not be read, and the readable part has no header.
    #[error("no header was found, and reading failed at byte {at}")]
    Read {
        /// Offset of the first failed read.
        at: u64,
        /// The system's error.
        source: io::Error,
    },
}

/// Finds the header of a platter file of `len` bytes. `read_at` fills a buffer from an offset;
/// unreadable ranges are skipped.
///
/// Reads 48 KiB if the first copy is good and 64 KiB if the last one is; otherwise up to the whole
/// file, 1 MiB at a time.
///
/// # Errors
/// [`FindHeaderError`] distinguishes foreign files, platters of a later version, damaged ones and
/// unreadable ones.
pub fn find_header(len: u64, read_at: impl FnMut(u64, &mut [u8]) -> io::Result<()>) -> Result<FoundHeader, FindHeaderError> {
    let mut search = Search { read_at, newer: Vec::new(), bad: None, misplaced: None, failed: None };
    let mut block = vec![0; HEADER_BYTES];
    let last = len.checked_sub(HEADER_BYTES as u64);
    if let Some(last) = last {
        for at in [0, last] {
            if search.read(at, &mut block)
                && let Some(header) = search.consider(at, &block)
            {
                return Ok(search.inspect_copies(header, at));
            }
        }
        // Two copies of the same later version are no accident: searching the whole file would
        // yield nothing else.
        if let Some(found) = search.agreed_newer() {
            return Err(FindHeaderError::Newer(found));
        }
        if let Some((header, at)) = search.everywhere(len) {
            return Ok(search.inspect_copies(header, at));
        }
    }
    Err(search.failure(len))
}

struct Search<F> {
    read_at: F,
    /// Offsets and version numbers of the first two copies of later versions.
    newer: Vec<(u64, u32)>,
    bad: Option<(u64, HeaderError)>,
    misplaced: Option<(u64, PlatterId)>,
    failed: Option<(u64, io::Error)>,
}

impl<F: FnMut(u64, &mut [u8]) -> io::Result<()>> Search<F> {
    fn read(&mut self, at: u64, buffer: &mut [u8]) -> bool {
        match (self.read_at)(at, buffer) {
            Ok(()) => true,
            Err(source) => {
                self.failed.get_or_insert((at, source));
                false
            }
        }
    }

    /// Returns the header in `block` if it is good and at its place; otherwise remembers why not.
    fn consider(&mut self, at: u64, block: &[u8]) -> Option<Header> {
        match Header::from_block(block) {
            Ok(header) if header.geometry.header_offsets().contains(&at) => return Some(header),
            Ok(header) => {
                self.misplaced.get_or_insert((at, header.platter));
            }
            Err(HeaderError::Newer(found)) => {
                // The search of the whole file comes by the first and the last copy again.
                if self.newer.len() < 2 && self.newer.iter().all(|(known, _)| *known != at) {
                    self.newer.push((at, found));
                }
            }
            Err(HeaderError::NotAPlatter) => {}
            Err(source) => {
                self.bad.get_or_insert((at, source));
            }
        }
        None
    }

    fn everywhere(&mut self, len: u64) -> Option<(Header, u64)> {
        let mut window = vec![0; WINDOW_BYTES];
        let mut block = vec![0; HEADER_BYTES];
        let (mut at, mut page_by_page_until) = (0, 0);
        while at < len {
            let most = if at < page_by_page_until { PAGE_BYTES - at % PAGE_BYTES } else { WINDOW_BYTES as u64 };
            let bytes = most.min(len - at);
            if self.read(at, &mut window[..bytes as usize]) {
                // A block may extend beyond the window, so the few candidates are read separately.
                for place in (at..at + bytes).step_by(STEP) {
                    if window[(place - at) as usize..bytes as usize].starts_with(MAGIC)
                        && len - place >= HEADER_BYTES as u64
                        && self.read(place, &mut block)
                        && let Some(header) = self.consider(place, &block)
                    {
                        return Some((header, place));
                    }
                }
            } else if bytes > PAGE_BYTES {
                // Unreadable ranges are usually small, and a good header may be close by.
                page_by_page_until = at + bytes;
                continue;
            }
            at += bytes;
        }
        None
    }

    fn inspect_copies(&mut self, header: Header, found_at: u64) -> FoundHeader {
        let mut block = vec![0; HEADER_BYTES];
        let copies = header
            .geometry
            .header_offsets()
            .map(|at| at == found_at || ((self.read_at)(at, &mut block).is_ok() && Header::from_block(&block).as_ref() == Ok(&header)));
        FoundHeader { header, found_at, copies }
    }

    /// The later version that two copies claim.
    fn agreed_newer(&self) -> Option<u32> {
        match self.newer[..] {
            [(_, first), (_, second)] if first == second => Some(first),
            _ => None,
        }
    }

    fn failure(self, len: u64) -> FindHeaderError {
        // One claim alone may be a damaged version number, and says less than what else was found.
        if let Some(found) = self.agreed_newer() {
            return FindHeaderError::Newer(found);
        }
        if let Some((at, platter)) = self.misplaced {
            return FindHeaderError::Misplaced { platter, at };
        }
        if let Some((at, source)) = self.bad {
            return FindHeaderError::NoGoodCopy { at, source };
        }
        if let Some(&(_, found)) = self.newer.first() {
            return FindHeaderError::Newer(found);
        }
        match self.failed {
            Some((at, source)) => FindHeaderError::Read { at, source },
            None => FindHeaderError::NotAPlatter(len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::header::tests::sample;

    /// A platter file that contains only its headers.
    fn platter(tracks: u32) -> (Header, Vec<u8>) {
        let header = sample(tracks);
        let mut file = vec![0xa5; usize::try_from(header.geometry.file_bytes()).unwrap()];
        for at in header.geometry.header_offsets() {
            write(&mut file, at, &header);
        }
        (header, file)
    }

    fn write(file: &mut [u8], at: u64, header: &Header) {
        file[at as usize..at as usize + HEADER_BYTES].copy_from_slice(&header.to_block().unwrap());
    }

    fn find(file: &[u8]) -> Result<FoundHeader, FindHeaderError> {
        find_header(file.len() as u64, |at, buffer| read(file, at, buffer))
    }

    fn read(file: &[u8], at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let rest = file.get(at as usize..).unwrap_or(&[]);
        buffer.copy_from_slice(rest.get(..buffer.len()).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    #[test]
    fn any_one_copy_is_enough() {
        let (header, whole) = platter(40);
        let places = header.geometry.header_offsets();
        assert!(places[1] > WINDOW_BYTES as u64, "the test needs the middle copy in a later window than the first");
        for kept in 0..3 {
            let mut file = whole.clone();
            for (copy, at) in places.iter().enumerate() {
                file[*at as usize + 100] ^= u8::from(copy != kept);
            }
            let found = find(&file).unwrap();
            assert_eq!(found, FoundHeader { header: header.clone(), found_at: places[kept], copies: std::array::from_fn(|i| i == kept) });
        }
        assert_eq!(find(&whole).unwrap().copies, [true; 3]);
    }

    #[test]
    fn the_middle_copy_is_found_in_a_truncated_file_with_unreadable_parts() {
        let (header, file) = platter(40);
        let middle = header.geometry.header_offsets()[1];
        let file = &file[..middle as usize + HEADER_BYTES + 77];
        let unreadable = middle - 5_000;
        let found = find_header(file.len() as u64, |at, buffer| {
            if at < 100 || (at..at + buffer.len() as u64).contains(&unreadable) {
                return Err(io::Error::other("a bad place"));
            }
            read(file, at, buffer)
        });
        let found = found.unwrap();
        assert_eq!((found.found_at, found.copies), (middle, [false, true, false]));
    }

    #[test]
    fn unreadable_pages_near_the_middle_copy_do_not_hide_it() {
        let (header, mut file) = platter(40);
        let [first, middle, last] = header.geometry.header_offsets();
        for at in [first, last] {
            file[at as usize + 100] ^= 1;
        }
        let page = middle / PAGE_BYTES;
        for bad in (page - 20..page + 20).map(|page| page * PAGE_BYTES..(page + 1) * PAGE_BYTES) {
            let found = find_header(file.len() as u64, |at, buffer| {
                if at < bad.end && bad.start < at + buffer.len() as u64 {
                    return Err(io::Error::other("a bad place"));
                }
                read(&file, at, buffer)
            });
            let beside = bad.end <= middle || middle + HEADER_BYTES as u64 <= bad.start;
            assert_eq!(found.is_ok_and(|found| found.found_at == middle), beside, "{bad:?} is unreadable, the copy is at {middle}");
        }
    }

    #[test]
    fn a_platter_inside_a_platter_is_not_mistaken_for_it() {
        let (header, mut file) = platter(40);
        for at in header.geometry.header_offsets() {
            file[at as usize + 100] ^= 1;
        }
        let inner = Header { set: fulgurite_domain::SetId([9; 16]), ..header };
        write(&mut file, 64 * 1_000, &inner);
        assert!(matches!(find(&file), Err(FindHeaderError::Misplaced { at: 64_000, .. })));
    }

    #[test]
    fn foreign_newer_damaged_and_unreadable_files_are_told_apart() {
        for file in [&[][..], b"FULGPLAT", &[0; 100_000]] {
            assert!(matches!(find(file), Err(FindHeaderError::NotAPlatter(len)) if len == file.len() as u64));
        }
        let (header, whole) = platter(2);
        let edit = |offset: usize| {
            let mut file = whole.clone();
            for at in header.geometry.header_offsets() {
                file[at as usize + offset] ^= 6;
            }
            file
        };
        assert!(matches!(find(&edit(8)), Err(FindHeaderError::Newer(7))));
        assert!(matches!(find(&edit(50)), Err(FindHeaderError::NoGoodCopy { at: 0, source: HeaderError::Checksum })));
        let dead = find_header(100_000, |_, _| Err(io::Error::other("dead")));
        assert!(matches!(dead, Err(FindHeaderError::Read { at: 0, .. })));
    }

    #[test]
    fn one_copy_that_claims_a_newer_version_does_not_hide_a_good_one() {
        let (header, mut file) = platter(2);
        let [first, middle, last] = header.geometry.header_offsets();
        file[first as usize + 8] = 9;
        file[last as usize + 30] ^= 1;
        assert_eq!(find(&file).unwrap().found_at, middle);
        // Nor does it hide that the others are damaged.
        file[middle as usize + 30] ^= 1;
        let error = find(&file).unwrap_err();
        assert!(matches!(error, FindHeaderError::NoGoodCopy { .. }), "{error}");
        // Copies that agree are no accident.
        file[middle as usize + 8] = 9;
        assert!(matches!(find(&file), Err(FindHeaderError::Newer(9))));
    }
}

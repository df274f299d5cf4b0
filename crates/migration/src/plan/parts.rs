//! Parts of the files that are migrated one after another and differ in their mean size.

use super::scenario::Part;

/// A chunk ends with this share of all files or of all bytes. Neighbours that are alike become one
/// part.
const CHUNKS: u64 = 64;
/// A file that has more than this fraction of a chunk's bytes is a chunk of its own.
const LARGE: u64 = 4;
/// The mean sizes of neighbours are alike if neither is larger by more than this factor.
const ALIKE: f64 = 1.5;

/// Finds the parts of the files, which are shown in the order in which they are migrated.
#[derive(Debug, Clone)]
pub struct Parts {
    chunk_files: u64,
    chunk_bytes: u64,
    large_bytes: u64,
    /// Files and bytes of each part.
    parts: Vec<(u64, u64)>,
    chunk: (u64, u64),
}

impl Parts {
    /// Parts of so many files with so many bytes in all.
    #[must_use]
    pub fn new(files: u64, bytes: u64) -> Self {
        let chunk = |all: u64| all.div_ceil(CHUNKS).max(1);
        Self {
            chunk_files: chunk(files),
            chunk_bytes: chunk(bytes),
            large_bytes: chunk(bytes).div_ceil(LARGE),
            parts: Vec::new(),
            chunk: (0, 0),
        }
    }

    /// The next file.
    pub fn add(&mut self, bytes: u64) {
        // The mean of such a file and of small ones beside it would say nothing of either.
        let is_large = bytes >= self.large_bytes;
        if is_large && self.chunk.0 > 0 {
            self.end_chunk();
        }
        self.chunk = (self.chunk.0 + 1, self.chunk.1.saturating_add(bytes));
        if is_large || self.chunk.0 >= self.chunk_files || self.chunk.1 >= self.chunk_bytes {
            self.end_chunk();
        }
    }

    fn end_chunk(&mut self) {
        let chunk = std::mem::take(&mut self.chunk);
        match self.parts.last_mut() {
            Some(last) if are_alike(*last, chunk) => *last = (last.0 + chunk.0, last.1 + chunk.1),
            _ => self.parts.push(chunk),
        }
    }

    /// The parts that have bytes.
    #[must_use]
    pub fn finish(mut self) -> Vec<Part> {
        if self.chunk.0 > 0 {
            self.end_chunk();
        }
        let all: u64 = self.parts.iter().map(|(_, bytes)| bytes).sum();
        let part = |&(files, bytes): &(u64, u64)| Part { share: bytes as f64 / all as f64, size: ((bytes + files / 2) / files).max(1) };
        self.parts.iter().filter(|(_, bytes)| *bytes > 0).map(part).collect()
    }
}

fn are_alike(a: (u64, u64), b: (u64, u64)) -> bool {
    let mean = |(files, bytes): (u64, u64)| bytes as f64 / files as f64;
    let ratio = mean(a) / mean(b);
    // Empty files have no share of the bytes, and can't be a part.
    a.1 == 0 || b.1 == 0 || (1.0 / ALIKE..=ALIKE).contains(&ratio)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(sizes: &[u64]) -> Vec<Part> {
        let mut parts = Parts::new(sizes.len() as u64, sizes.iter().sum());
        sizes.iter().for_each(|&size| parts.add(size));
        parts.finish()
    }

    /// `files` files of `bytes` bytes.
    fn some(files: usize, bytes: u64) -> Vec<u64> {
        vec![bytes; files]
    }

    #[test]
    fn small_files_and_large_ones_are_two_parts_in_any_order() {
        let small: Vec<u64> = (0..100_000).map(|number| 10_000 + number % 10_000).collect();
        let all = |parts: &[Vec<u64>]| found(&parts.concat());
        let (small_first, large_first) = (all(&[small.clone(), some(50, 64_000_000)]), all(&[some(50, 64_000_000), small]));
        for (parts, [small, large]) in [(&small_first, [0, 1]), (&large_first, [1, 0])] {
            assert_eq!(parts.len(), 2, "{parts:?}");
            assert!((14_990..15_010).contains(&parts[small].size) && (parts[small].share - 0.319).abs() < 0.001, "{parts:?}");
            assert!(parts[large].size == 64_000_000 && (parts[small].share + parts[large].share - 1.0).abs() < 1e-9, "{parts:?}");
        }
        // However few bytes the small ones have, and however large the large ones are.
        let sizes = |parts: Vec<Part>| parts.iter().map(|part| part.size).collect::<Vec<_>>();
        assert_eq!(sizes(all(&[some(50, 64_000_000), some(10_000, 2_000)])), [64_000_000, 2_000]);
        assert_eq!(sizes(all(&[some(960, 1_000_000_000), some(1_000_000, 5_000)])), [1_000_000_000, 5_000]);
        assert_eq!(sizes(all(&[some(100_000, 10_000), some(2, 50_000_000_000)])), [10_000, 50_000_000_000]);
    }

    #[test]
    fn files_that_are_mixed_are_one_part() {
        let sizes: Vec<u64> = (0..10_000).map(|number| if number % 10 == 0 { 1_000_000 } else { 10_000 }).collect();
        assert_eq!(found(&sizes), [Part { share: 1.0, size: 109_000 }]);
    }

    #[test]
    fn a_single_file_empty_ones_and_none_are_no_trouble() {
        assert_eq!(found(&[7]), [Part { share: 1.0, size: 7 }]);
        assert_eq!(found(&[0, 0]), []);
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[0, 0, 8]), [Part { share: 1.0, size: 3 }]);
        assert_eq!(found(&[8, 0, 0]), [Part { share: 1.0, size: 3 }]);
    }

    #[test]
    fn there_are_few_parts_however_much_sizes_differ() {
        let mut sizes: Vec<u64> = (0..100_000_u64).map(|number| if number / 1_000 % 2 == 0 { 1_000 } else { 1_000_000 }).collect();
        sizes.extend((0..100).map(|number| if number % 2 == 0 { 1 } else { 2_000_000_000 }));
        assert!(found(&sizes).len() <= 10 * CHUNKS as usize);
    }
}

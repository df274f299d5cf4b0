//! What objects contain: noise that follows from the object's number, so that every byte that is
//! read can be checked without keeping any.
//!
//! ```text
//! | number, 8 bytes | revision, 8 bytes | noise of both ...
//! ```
//!
//! No two objects of a run share content, and none can be compressed, so a server gains nothing
//! from compression, or from deduplication within a run. An object of less than 16 bytes holds only
//! the beginning of this.

use bytes::Bytes;

/// Bytes of the number and the revision.
const HEAD: u64 = 16;
/// Content is made and checked in pieces of this length, a multiple of 8.
pub(crate) const PIECE: u64 = 64 << 10;

/// Which content an object has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) number: u64,
    /// 0 for the object as first put; otherwise the number of the update, counted over all objects
    /// of the run.
    pub(crate) revision: u64,
    pub(crate) bytes: u64,
}

impl Content {
    /// A piece of the content. `at` is a multiple of 8.
    pub(crate) fn piece(self, at: u64, length: u64) -> Bytes {
        let words = length.div_ceil(8);
        let mut piece = Vec::with_capacity((words * 8) as usize);
        for word in at / 8..at / 8 + words {
            piece.extend_from_slice(&self.word(word).to_le_bytes());
        }
        piece.truncate(length as usize);
        piece.into()
    }

    fn word(self, index: u64) -> u64 {
        match index {
            0 => self.number,
            1 => self.revision,
            _ => mix(mix(self.number ^ mix(self.revision)).wrapping_add(index.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        }
    }
}

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `x`.
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Checks content that arrives piece by piece. Any revision is right, since another client may have
/// replaced the object.
#[derive(Debug)]
pub(crate) struct Checker {
    number: u64,
    bytes: u64,
    head: Vec<u8>,
    /// Known when the head is there.
    content: Option<Content>,
    at: u64,
    is_right: bool,
}

impl Checker {
    pub(crate) fn new(number: u64, bytes: u64) -> Self {
        Self { number, bytes, head: Vec::new(), content: None, at: 0, is_right: true }
    }

    /// Checks the next bytes. Returns false if these, or any before, are wrong.
    pub(crate) fn take(&mut self, mut next: &[u8]) -> bool {
        if self.at < HEAD {
            let part = next.len().min((HEAD - self.at) as usize);
            self.head.extend_from_slice(&next[..part]);
            self.at += part as u64;
            next = &next[part..];
            if self.at == HEAD {
                let revision = u64::from_le_bytes(self.head[8..].try_into().expect("8 bytes"));
                self.content = Some(Content { number: self.number, revision, bytes: self.bytes });
                self.is_right &= self.head[..8] == self.number.to_le_bytes();
            }
        }
        if let Some(content) = self.content
            && self.is_right
        {
            self.is_right = self.at + next.len() as u64 <= self.bytes && is_equal(content, self.at, next);
        }
        self.at += next.len() as u64;
        self.is_right
    }

    /// Whether all of the content has come, and is right.
    pub(crate) fn is_complete(&self) -> bool {
        let is_head_right = self.content.is_some() || self.number.to_le_bytes().starts_with(&self.head[..self.head.len().min(8)]);
        self.is_right && self.at == self.bytes && is_head_right
    }

    /// How many bytes have come.
    pub(crate) fn taken(&self) -> u64 {
        self.at
    }
}

fn is_equal(content: Content, at: u64, found: &[u8]) -> bool {
    // The first word may have begun in the bytes before.
    let skipped = (at % 8) as usize;
    let first = found.len().min(if skipped == 0 { 0 } else { 8 - skipped });
    let (beginning, rest) = found.split_at(first);
    let index = at / 8;
    if content.word(index).to_le_bytes()[skipped..skipped + first] != *beginning {
        return false;
    }
    let index = index + u64::from(first > 0);
    let words = rest.chunks_exact(8);
    let end = words.remainder();
    let last = content.word(index + words.len() as u64).to_le_bytes();
    // Without an early end, the compiler can check several words at once.
    let differences = words
        .zip(index..)
        .fold(0, |all, (word, index)| all | (u64::from_le_bytes(word.try_into().expect("8 bytes")) ^ content.word(index)));
    differences == 0 && last.starts_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_recognized_in_any_pieces_and_every_changed_byte_is_found() {
        for bytes in [0, 1, 7, 8, 15, 16, 17, 100, 1000] {
            let content = Content { number: 0x0102_0304_0506_0708, revision: 9, bytes };
            let whole = content.piece(0, bytes);
            assert_eq!(whole.len() as u64, bytes);
            for step in [1, 3, 8, 13, 1000] {
                let mut checker = Checker::new(content.number, bytes);
                assert!(whole.chunks(step).all(|piece| checker.take(piece)) && checker.is_complete());
                assert!(!checker.take(&[0]) || !checker.is_complete(), "a byte more than {bytes}");
                for at in 0..whole.len() {
                    let mut changed = whole.to_vec();
                    changed[at] ^= 4;
                    let mut checker = Checker::new(content.number, bytes);
                    let is_right = changed.chunks(step).all(|piece| checker.take(piece)) && checker.is_complete();
                    // Of an object that ends within the revision, another revision is right too.
                    assert_eq!(is_right, (8..16).contains(&at) && bytes <= 16, "byte {at} of {bytes} in steps of {step}");
                }
            }
            if bytes > 0 {
                let mut checker = Checker::new(content.number, bytes);
                checker.take(&whole[1..]);
                assert!(!checker.is_complete(), "{bytes} bytes without the first");
            }
        }
    }

    #[test]
    fn pieces_join_and_objects_differ() {
        let content = Content { number: 5, revision: 0, bytes: 3 * PIECE + 5 };
        let pieces: Vec<u8> = (0..4).flat_map(|piece| content.piece(piece * PIECE, PIECE.min(content.bytes - piece * PIECE))).collect();
        assert_eq!(pieces, content.piece(0, content.bytes));
        let others = [Content { number: 6, ..content }, Content { revision: 1, ..content }];
        let words = |content: Content| content.piece(HEAD, 80_000).chunks(8).map(<[u8]>::to_vec).collect::<std::collections::BTreeSet<_>>();
        assert_eq!(words(content).len(), 10_000);
        assert!(others.iter().all(|other| words(*other).is_disjoint(&words(content))));
    }
}
